//! Properties of the machine: kernel, cores, CPU instructions, memory.

use std::{fs, thread};

/// Identifies the running kernel: equal for two processes exactly if they share device and inode numbers. Without a
/// boot ID, the process ID, the time and an address make it unique.
pub fn boot_id() -> [u8; 16] {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let digest = match text.trim() {
        "" => blake3::hash(format!("{} {:?}", std::process::id(), std::time::SystemTime::now()).as_bytes()),
        id => blake3::hash(id.as_bytes()),
    };
    let mut id = [0; 16];
    id.copy_from_slice(&digest.as_bytes()[..16]);
    id
}

/// Identifies the installation over restarts: machine-id(5), or the host's name.
pub fn machine_id() -> Vec<u8> {
    let id = fs::read("/etc/machine-id").unwrap_or_default();
    if id.is_empty() { rustix::system::uname().nodename().to_bytes().to_vec() } else { id }
}

/// Cores that this process may use.
pub fn cores() -> u16 {
    thread::available_parallelism().map_or(1, |n| u16::try_from(n.get()).unwrap_or(u16::MAX))
}

/// Whether the CPU has instructions for AES-GCM, which is then the fastest cipher.
pub fn has_aes() -> bool {
    #[cfg(target_arch = "x86_64")]
    return std::is_x86_feature_detected!("aes") && std::is_x86_feature_detected!("pclmulqdq");
    #[cfg(target_arch = "aarch64")]
    return std::arch::is_aarch64_feature_detected!("aes") && std::arch::is_aarch64_feature_detected!("pmull");
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    return false;
}

/// Returns the memory that programs can still have without swapping, in bytes; 0 if unknown (proc_meminfo(5)).
pub fn available_memory_bytes() -> u64 {
    of_meminfo(&fs::read_to_string("/proc/meminfo").unwrap_or_default())
}

fn of_meminfo(text: &str) -> u64 {
    let kib = text.lines().find_map(|line| line.strip_prefix("MemAvailable:")?.trim().strip_suffix(" kB"));
    kib.and_then(|kib| kib.parse::<u64>().ok()).map_or(0, |kib| kib.saturating_mul(1024))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_available_memory_is_read() {
        assert_eq!(of_meminfo("MemFree:  1 kB\nMemAvailable:   2048 kB\n"), 2 << 20);
        assert_eq!(of_meminfo("MemFree:  1 kB\n"), 0);
        assert!(available_memory_bytes() > 1 << 20);
    }
}
