//! The totals at the end, and those of `--stats`.

use std::time::Duration;

use haul_base::copy::summary::Summary;
use haul_show::units::count;

use super::super::formats::human;
use super::{EntryTally, RsyncLines};

impl RsyncLines {
    /// A figure, with `-h` as `1.23M`.
    fn figure(&self, value: u64) -> String {
        if self.style.is_human { human(value) } else { count(value) }
    }

    /// The line of a complete file with `--progress`: its size, and rate and time of all files so far.
    pub(super) fn progress(&self, size: u64) -> String {
        let elapsed = self.started.elapsed();
        let seconds = elapsed.as_secs();
        let time = format!("{:>4}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
        let rate = rate(self.tally.bytes, elapsed);
        format!("\n{:>15} 100% {rate:>11} {time} (xfr#{})", count(size), self.tally.transferred)
    }

    pub(super) fn totals(&mut self, summary: &Summary) {
        let files = summary.files;
        let transferred_bytes = if self.style.is_dry { self.tally.bytes } else { files.bytes };
        let size = transferred_bytes.saturating_add(files.bytes_skipped);
        let (sent, received) = (summary.counters.bytes_on_wire.max(files.bytes), 0);
        let elapsed = self.started.elapsed().max(Duration::from_millis(500));
        if self.style.has_statistics {
            let reg = files.copied.saturating_add(files.skipped);
            let (dir, link) = (summary.counters.directories, summary.counters.symlinks);
            let parts = [("reg", reg), ("dir", dir), ("link", link)].into_iter().filter(|(_, value)| *value > 0);
            let parts: Vec<_> = parts.map(|(kind, value)| format!("{kind}: {}", self.figure(value))).collect();
            let kinds = if parts.is_empty() { String::new() } else { format!(" ({})", parts.join(", ")) };
            let matched = summary.delta.map_or(0, |delta| delta.old_bytes);
            let EntryTally { created, deleted, transferred, .. } = self.tally;
            let lines = [
                String::new(),
                format!("Number of files: {}{kinds}", self.figure(reg + dir + link)),
                format!("Number of created files: {}", self.figure(created)),
                format!("Number of deleted files: {}", self.figure(deleted)),
                format!("Number of regular files transferred: {}", self.figure(transferred)),
                format!("Total file size: {} bytes", self.figure(size)),
                format!("Total transferred file size: {} bytes", self.figure(transferred_bytes)),
                format!("Literal data: {} bytes", self.figure(files.bytes.saturating_sub(matched))),
                format!("Matched data: {} bytes", self.figure(matched)),
                "File list size: 0".to_owned(),
                "File list generation time: 0.001 seconds".to_owned(),
                "File list transfer time: 0.000 seconds".to_owned(),
                format!("Total bytes sent: {}", self.figure(sent)),
                format!("Total bytes received: {}", self.figure(received)),
            ];
            lines.iter().for_each(|line| self.print(line));
        }
        if self.style.verbosity > 0 || self.style.has_statistics {
            let moved = sent.saturating_add(received);
            let millis = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
            let rate = quotient(moved.saturating_mul(1000), millis);
            let speedup = quotient(size, moved);
            let dry = if self.style.is_dry { " (DRY RUN)" } else { "" };
            self.print("");
            self.print(&format!(
                "sent {} bytes  received {} bytes  {} bytes/sec",
                self.figure(sent),
                self.figure(received),
                rate
            ));
            self.print(&format!("total size is {}  speedup is {}{dry}", self.figure(size), speedup));
        }
    }
}

/// A rate as rsync prints it, in powers of 1024: `583.24MB/s`.
fn rate(bytes: u64, elapsed: Duration) -> String {
    let kib_per_s = bytes as f64 / 1024.0 / elapsed.as_secs_f64().max(0.001);
    let units = [("GB/s", 1024.0 * 1024.0), ("MB/s", 1024.0), ("kB/s", 1.0)];
    let (unit, size) = units.into_iter().find(|(_, size)| kib_per_s > *size).unwrap_or(units[2]);
    format!("{:.2}{unit}", kib_per_s / size)
}

/// A quotient with two decimals: `1,234.50`.
fn quotient(value: u64, divisor: u64) -> String {
    let hundredths = u128::from(value) * 100 / u128::from(divisor.max(1));
    let whole = u64::try_from(hundredths / 100).unwrap_or(u64::MAX);
    format!("{}.{:02}", count(whole), hundredths % 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_have_rsyncs_units() {
        let of = |bytes| rate(bytes, Duration::from_secs(2));
        assert_eq!([of(100), of(4096), of(60 << 20), of(3 << 30)], ["0.05kB/s", "2.00kB/s", "30.00MB/s", "1.50GB/s"]);
    }
}
