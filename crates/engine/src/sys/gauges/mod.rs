//! System statistics during a copy: processors, disks, an interface. All files are opened before a worker confines
//! itself, since afterwards that is impossible, and are read repeatedly. Unknown values are zero.

mod disk;
mod processors;
mod quota;
mod traffic;

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

pub use disk::DiskGauge;
pub use processors::ProcessorsGauge;
pub use traffic::TrafficGauge;

/// More than any of these files is long, as far as it is of interest.
const TEXT_MAX: usize = 64 << 10;

/// A file of the kernel's that says something else each time it is read.
#[derive(Debug, Default)]
pub struct KernelFile(Option<File>);

impl KernelFile {
    /// Opens the file, if it exists and is readable.
    pub fn open(path: impl AsRef<Path>) -> Self {
        Self(File::open(path).ok())
    }

    /// Reads at most `most` bytes; empty without a file.
    pub fn read(&self, most: usize) -> String {
        let mut text = vec![0; most];
        let mut len = 0;
        // The kernel gives some of these a page at a time.
        while let Some(file) = &self.0
            && let Ok(more @ 1..) = file.read_at(&mut text[len..], len as u64)
        {
            len += more;
        }
        String::from_utf8_lossy(&text[..len]).into_owned()
    }

    fn is_there(&self) -> bool {
        self.0.is_some()
    }
}

/// The number behind a word at the beginning of a line.
fn value_of(text: &str, word: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(word)?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_gauges_give_nothing_and_present_ones_fresh_values() {
        assert_eq!(KernelFile::open("/proc/none").read(100), "");
        let told = KernelFile::open("/proc/uptime");
        let seconds = || told.read(100).split(' ').next().and_then(|word| word.parse::<f64>().ok()).unwrap();
        let first = seconds();
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
        while seconds() <= first {
            assert!(std::time::Instant::now() < deadline, "it is read once only");
        }
        assert_eq!(told.read(3).len(), 3);
        assert_eq!(value_of("a 1\nnr_periods 7\n", "nr_periods"), Some(7));
    }
}
