//! Kinds of x86-64 CPU, and the CPUID instruction's results on each.

use std::fmt;

use clap::ValueEnum;

/// CPUID's two bytes.
pub const CPUID: [u8; 2] = [0x0f, 0xa2];

/// Instructions that do not exist in 64-bit mode (PUSH ES), and so raise SIGILL. No compiler makes them.
pub const INVALID: [u8; 2] = [0x06, 0x06];

/// A kind of x86-64 CPU that masking can make of a newer one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CpuLevel {
    // AVX2, VAES and VPCLMULQDQ, no AVX-512: Zen 3, Alder Lake
    Vaes,
    // AVX2 and AES-NI: Zen 2, Broadwell, Skylake clients.
    Avx2,
    // AVX and AES-NI: Ivy Bridge.
    Avx,
}

impl CpuLevel {
    /// As `--level` names it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Vaes => "vaes",
            Self::Avx2 => "avx2",
            Self::Avx => "avx",
        }
    }

    /// That of this CPU; none where it has more than any level.
    #[cfg(target_arch = "x86_64")]
    pub fn of_this_cpu() -> Option<Self> {
        let has_vaes = is_x86_feature_detected!("vaes") && is_x86_feature_detected!("vpclmulqdq");
        match is_x86_feature_detected!("avx2") {
            true if is_x86_feature_detected!("avx512f") => None,
            true if has_vaes => Some(Self::Vaes),
            true => Some(Self::Avx2),
            false => Some(Self::Avx),
        }
    }

    /// Levels are of x86-64 alone.
    #[cfg(not(target_arch = "x86_64"))]
    pub fn of_this_cpu() -> Option<Self> {
        None
    }
}

impl fmt::Display for CpuLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Vaes => "AVX2 with VAES",
            Self::Avx2 => "AVX2 with AES-NI",
            Self::Avx => "AVX with AES-NI",
        })
    }
}

/// The instructions that this process believes its CPU to have, of those that decide how fast it seals and hashes.
#[cfg(target_arch = "x86_64")]
pub fn features() -> String {
    let has = [
        ("aes", is_x86_feature_detected!("aes")),
        ("avx", is_x86_feature_detected!("avx")),
        ("avx2", is_x86_feature_detected!("avx2")),
        ("avx512f", is_x86_feature_detected!("avx512f")),
        ("vaes", is_x86_feature_detected!("vaes")),
        ("vpclmulqdq", is_x86_feature_detected!("vpclmulqdq")),
    ];
    has.into_iter().filter(|(_, there)| *there).map(|(name, _)| name).collect::<Vec<_>>().join(" ")
}

/// None is known of other CPUs.
#[cfg(not(target_arch = "x86_64"))]
pub fn features() -> String {
    String::new()
}

/// CPUID's results on a CPU of this level for these inputs, as EAX, EBX, ECX, EDX.
pub fn masked(level: CpuLevel, leaf: u32, subleaf: u32, answer: [u32; 4]) -> [u32; 4] {
    // Intel SDM, volume 2A, CPUID; AMD APM, volume 3, appendix E.
    const AVX2: u32 = 1 << 5;
    const AVX512_EBX: u32 = 1 << 16 | 1 << 17 | 1 << 21 | 1 << 26 | 1 << 27 | 1 << 28 | 1 << 30 | 1 << 31;
    const AVX512_ECX: u32 = 1 << 1 | 1 << 6 | 1 << 11 | 1 << 12 | 1 << 14;
    const VAES: u32 = 1 << 9;
    const VPCLMULQDQ: u32 = 1 << 10;
    const AVX512_EDX: u32 = 1 << 2 | 1 << 3 | 1 << 8 | 1 << 23;
    const AVX_LEAF_7_1_EAX: u32 = 1 << 4 | 1 << 5 | 1 << 23;
    let (older_ebx, older_ecx) = match level {
        CpuLevel::Vaes => (0, 0),
        CpuLevel::Avx2 => (0, VAES | VPCLMULQDQ),
        CpuLevel::Avx => (AVX2, VAES | VPCLMULQDQ),
    };
    let [eax, ebx, ecx, edx] = answer;
    match (leaf, subleaf) {
        (7, 0) => [eax, ebx & !(AVX512_EBX | older_ebx), ecx & !(AVX512_ECX | older_ecx), edx & !AVX512_EDX],
        (7, 1) => [eax & !AVX_LEAF_7_1_EAX, ebx, ecx, edx],
        _ => answer,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_newer_instructions_are_masked() {
        let all = [u32::MAX; 4];
        assert_eq!(masked(CpuLevel::Avx, 1, 0, all), all);
        let has = |level| {
            let [_, ebx, ecx, _] = masked(level, 7, 0, all);
            [ebx & 1 << 5 != 0, ebx & 1 << 16 != 0, ecx & 1 << 9 != 0, ecx & 1 << 10 != 0]
        };
        // AVX2, AVX-512, VAES, VPCLMULQDQ.
        assert_eq!(has(CpuLevel::Vaes), [true, false, true, true]);
        assert_eq!(has(CpuLevel::Avx2), [true, false, false, false]);
        assert_eq!(has(CpuLevel::Avx), [false; 4]);
        let [eax, ebx, ecx, edx] = masked(CpuLevel::Avx, 7, 0, all);
        assert_eq!(eax, u32::MAX);
        // BMI2, SHA and GFNI stay; AVX itself is in leaf 1.
        assert!(ebx & 1 << 8 != 0 && ebx & 1 << 29 != 0 && ecx & 1 << 8 != 0 && edx & 1 != 0);
    }
}
