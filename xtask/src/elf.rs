//! Reads as much of an ELF header as tells a static executable from one that needs the system's loader and libraries.

/// `e_type` of a position-independent executable (and of a shared library).
const ET_DYN: u16 = 3;
/// Program header: the loader that the kernel is to start.
const PT_INTERP: u32 = 3;
/// Size of a 64-bit file header, and of a program header.
const FILE_HEADER: usize = 64;
const PROGRAM_HEADER: usize = 56;

/// `e_machine` of a 64-bit ARM processor. Rust links static executables for it at a fixed address.
const EM_AARCH64: u16 = 183;
/// `e_machine` of an x86-64 processor.
const EM_X86_64: u16 = 62;
/// `e_type` of an executable at a fixed address.
const ET_EXEC: u16 = 2;

/// Checks that `file` holds a 64-bit little-endian ELF executable that needs no loader, and is position independent where
/// Rust can link such ones.
pub fn check_static(file: &[u8]) -> Result<(), String> {
    if file.len() < FILE_HEADER || !file.starts_with(b"\x7fELF\x02\x01") {
        return Err("it is not a 64-bit little-endian ELF file".to_owned());
    }
    let is_fixed = half(file, 16) == Some(ET_EXEC) && half(file, 18) == Some(EM_AARCH64);
    if half(file, 16) != Some(ET_DYN) && !is_fixed {
        return Err("it is not position independent".to_owned());
    }
    let table = quad(file, 32).and_then(|offset| usize::try_from(offset).ok()).ok_or("its header is cut short")?;
    let (size, count) = (half(file, 54).unwrap_or(0), half(file, 56).unwrap_or(0));
    if usize::from(size) != PROGRAM_HEADER || count == 0 {
        return Err("it has no program headers".to_owned());
    }
    for index in 0..usize::from(count) {
        let kind = table.checked_add(index * PROGRAM_HEADER).and_then(|at| word(file, at));
        match kind {
            None => return Err("its program headers are cut short".to_owned()),
            Some(PT_INTERP) => {
                return Err("it needs a loader (PT_INTERP), so it is not static".to_owned());
            }
            Some(_) => {}
        }
    }
    Ok(())
}

/// The processor that an ELF file is for, as in a target triple.
pub fn architecture(file: &[u8]) -> Option<&'static str> {
    match half(file, 18)? {
        EM_X86_64 => Some("x86_64"),
        EM_AARCH64 => Some("aarch64"),
        _ => None,
    }
}

fn bytes<const N: usize>(file: &[u8], at: usize) -> Option<[u8; N]> {
    file.get(at..at.checked_add(N)?)?.try_into().ok()
}

fn half(file: &[u8], at: usize) -> Option<u16> {
    bytes(file, at).map(u16::from_le_bytes)
}

fn word(file: &[u8], at: usize) -> Option<u32> {
    bytes(file, at).map(u32::from_le_bytes)
}

fn quad(file: &[u8], at: usize) -> Option<u64> {
    bytes(file, at).map(u64::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An ELF file of nothing but headers.
    fn headers(kind: u16, segments: &[u32]) -> Vec<u8> {
        let mut file = vec![0; FILE_HEADER];
        file[..6].copy_from_slice(b"\x7fELF\x02\x01");
        file[16..18].copy_from_slice(&kind.to_le_bytes());
        file[32..40].copy_from_slice(&64u64.to_le_bytes());
        file[54..56].copy_from_slice(&56u16.to_le_bytes());
        file[56..58].copy_from_slice(&u16::try_from(segments.len()).expect("few").to_le_bytes());
        for segment in segments {
            file.extend_from_slice(&segment.to_le_bytes());
            file.resize(file.len() + PROGRAM_HEADER - 4, 0);
        }
        file
    }

    #[test]
    fn tells_static_from_dynamic() {
        assert_eq!(check_static(&headers(ET_DYN, &[1, 2])), Ok(()));
        assert!(check_static(&headers(ET_DYN, &[1, PT_INTERP])).is_err_and(|why| why.contains("loader")));
        assert!(check_static(&headers(ET_EXEC, &[1])).is_err_and(|why| why.contains("position")));
        let mut arm = headers(ET_EXEC, &[1]);
        arm[18..20].copy_from_slice(&EM_AARCH64.to_le_bytes());
        assert_eq!(check_static(&arm), Ok(()));
        assert_eq!((architecture(&arm), architecture(b"")), (Some("aarch64"), None));
        let dynamic = std::fs::read("/bin/sh").expect("a shell");
        assert!(check_static(&dynamic).is_err());
    }

    #[test]
    fn survives_any_cut() {
        let whole = headers(ET_DYN, &[1, 2]);
        for length in 0..whole.len() - PROGRAM_HEADER {
            assert!(check_static(&whole[..length]).is_err(), "cut at {length}");
        }
    }
}
