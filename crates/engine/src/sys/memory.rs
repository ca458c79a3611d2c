//! Memory of this host.

/// Returns the memory that programs can still have without swapping, in bytes; 0 if unknown (proc_meminfo(5)).
pub fn available_bytes() -> u64 {
    of_meminfo(&std::fs::read_to_string("/proc/meminfo").unwrap_or_default())
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
        assert!(available_bytes() > 1 << 20);
    }
}
