//! Checks whether an executable can run on another host, by a few fields of its ELF header.
//!
//! Layout: "Executable and Linking Format (ELF)", System V ABI, and `elf(5)`.

/// Bytes at the start of the file that [`machine_of_static`] reads. Linkers put the program headers right after the
/// header.
pub const HEAD: usize = 16 * 1024;

/// `ET_EXEC`: at a fixed address, as Rust links static executables for aarch64.
const TYPE_EXEC: u16 = 2;
/// `ET_DYN`: position-independent.
const TYPE_DYN: u16 = 3;
/// `PT_INTERP`: names the dynamic loader that the program needs.
const SEGMENT_INTERP: u32 = 3;
/// Size of a 64-bit program header, in bytes.
const SEGMENT_SIZE: usize = 56;

/// Returns the machine of a static executable, as `uname -m` names it. `None` for any other file.
///
/// `head` is at least the file's first [`HEAD`] bytes, or all of a shorter file.
pub fn machine_of_static(head: &[u8]) -> Option<&'static str> {
    let class_64_little_endian = head.starts_with(b"\x7fELF\x02\x01\x01");
    if !class_64_little_endian || ![TYPE_EXEC, TYPE_DYN].contains(&u16_at(head, 16)?) || u64_at(head, 24)? == 0 {
        return None;
    }
    let first = usize::try_from(u64_at(head, 32)?).ok()?;
    let (size, count) = (usize::from(u16_at(head, 54)?), usize::from(u16_at(head, 56)?));
    if size != SEGMENT_SIZE || count == 0 {
        return None;
    }
    for index in 0..count {
        let at = first.checked_add(index * size)?;
        if u32_at(head, at)? == SEGMENT_INTERP {
            return None;
        }
    }
    machine_name(u16_at(head, 18)?)
}

/// Returns the name of `e_machine` as `uname -m` prints it on Linux.
fn machine_name(machine: u16) -> Option<&'static str> {
    match machine {
        21 => Some("ppc64le"),
        62 => Some("x86_64"),
        183 => Some("aarch64"),
        243 => Some("riscv64"),
        258 => Some("loongarch64"),
        _ => None,
    }
}

fn bytes_at<const N: usize>(head: &[u8], at: usize) -> Option<[u8; N]> {
    head.get(at..at.checked_add(N)?)?.try_into().ok()
}

fn u16_at(head: &[u8], at: usize) -> Option<u16> {
    bytes_at(head, at).map(u16::from_le_bytes)
}

fn u32_at(head: &[u8], at: usize) -> Option<u32> {
    bytes_at(head, at).map(u32::from_le_bytes)
}

fn u64_at(head: &[u8], at: usize) -> Option<u64> {
    bytes_at(head, at).map(u64::from_le_bytes)
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns a header with the given type, machine and segment types.
    pub(in crate::launch) fn elf(kind: u16, machine: u16, segments: &[u32]) -> Vec<u8> {
        let mut head = vec![0; 64];
        head[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
        head[16..18].copy_from_slice(&kind.to_le_bytes());
        head[18..20].copy_from_slice(&machine.to_le_bytes());
        head[24..32].copy_from_slice(&0x1000u64.to_le_bytes());
        head[32..40].copy_from_slice(&64u64.to_le_bytes());
        head[54..56].copy_from_slice(&56u16.to_le_bytes());
        head[56..58].copy_from_slice(&u16::try_from(segments.len()).unwrap().to_le_bytes());
        for segment in segments {
            head.extend(segment.to_le_bytes());
            head.extend([0; SEGMENT_SIZE - 4]);
        }
        head
    }

    #[test]
    fn a_static_executable_is_recognised() {
        assert_eq!(machine_of_static(&elf(3, 62, &[6, 1, 2])), Some("x86_64"));
        assert_eq!(machine_of_static(&elf(3, 183, &[1])), Some("aarch64"));
        assert_eq!(machine_of_static(&elf(3, 62, &[6, 3, 1])), None, "wants a loader");
        assert_eq!(machine_of_static(&elf(2, 183, &[1])), Some("aarch64"), "at a fixed address");
        assert_eq!(machine_of_static(&elf(1, 62, &[1])), None, "not linked");
        assert_eq!(machine_of_static(&elf(3, 3, &[1])), None, "a machine that haul does not know");
        assert_eq!(machine_of_static(&elf(3, 62, &[])), None, "no segments");
        assert_eq!(machine_of_static(b"#!/bin/sh\n"), None);
    }

    #[test]
    fn a_truncated_header_is_refused() {
        let whole = elf(3, 62, &[6, 1, 2]);
        // The last segment's type is the last field read.
        let needed = 64 + 2 * SEGMENT_SIZE + 4;
        for length in 0..whole.len() {
            assert_eq!(machine_of_static(&whole[..length]).is_some(), length >= needed, "{length}");
        }
    }

    #[test]
    fn real_executables_are_judged_as_the_kernel_would() {
        let own = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let expected = cfg!(target_feature = "crt-static").then_some(std::env::consts::ARCH);
        assert_eq!(machine_of_static(&own[..HEAD.min(own.len())]), expected);
        let dynamic = std::fs::read("/bin/sh").unwrap();
        let names_a_loader = dynamic.windows(8).take(HEAD).any(|w| w == b"/lib64/l" || w == b"/lib/ld-");
        assert!(!names_a_loader || machine_of_static(&dynamic[..HEAD.min(dynamic.len())]).is_none());
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(mut head in proptest::collection::vec(any::<u8>(), 0..300), real in any::<bool>()) {
            if real && head.len() > 7 {
                head[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
                if head.len() > 18 { head[16] = 3; head[17] = 0; }
            }
            let _ = machine_of_static(&head);
        }
    }
}
