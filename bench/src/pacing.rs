//! `--pacing`: does `-x` hold its rate, and how smoothly?
//!
//! haul copies through the otherwise idle loopback of a private network namespace. The far worker starts without ssh,
//! so the data streams are the only traffic. The bytes come from the interface's counters instead of haul's own, less
//! the headers of as many packets.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use std::{fs, thread};

use anyhow::{Context, Result, ensure};
use haul_lab::{Netns, Running, start};
use tempfile::TempDir;

use crate::machine::Machine;
use crate::programs::find_haul;
use crate::settings::BenchSettings;
use crate::windows::{ArrivalSample, first, transfer, worst};

/// Rates in bytes a second, and whether `--quick` includes them.
const RATES: [(u64, &str, bool); 5] = [
    (512_000, "512 KB/s", true),
    (5_000_000, "5 MB/s", false),
    (50_000_000, "50 MB/s", true),
    (500_000_000, "500 MB/s", false),
    (1_000_000_000, "1 GB/s", true),
];
const STREAMS: [(u16, bool); 3] = [(1, true), (4, false), (32, true)];
/// Length of a run: several windows of 10 s.
const MEASURED: Duration = Duration::from_millis(12_500);
const SAMPLE_EVERY: Duration = Duration::from_millis(10);
/// How long a copy may take to begin.
const START_LIMIT: Duration = Duration::from_secs(20);
/// Bytes of headers that the loopback counts with each packet: IPv4, and TCP with time stamps. (It counts after Ethernet's
/// header was taken off. Checked against `bytes_sent` of ss(8).)
const HEADERS: u64 = 20 + 32;
/// Deviations that are promised: over 2 s (and the first second), and over 10 s.
const PROMISED_2_S: f64 = 0.05;
const PROMISED_10_S: f64 = 0.01;
/// Beyond this, a counter that is late is mentioned.
const LATE_S: f64 = 0.04;
/// Small files are copied into memory: their bytes are limited to this, even if a run gets short.
const SMALL_BYTES_MAX: u64 = 2 << 30;
const FILES_PER_DIRECTORY: u64 = 1000;

/// The data to copy.
#[derive(Debug, Clone, Copy, PartialEq)]
enum PacingData {
    /// One file, to /dev/null.
    Big,
    /// A tree of small files, into memory.
    Small,
}

struct PacingBench {
    haul: PathBuf,
    netns: Netns,
    directory: TempDir,
    interrupted: Arc<AtomicBool>,
}

/// Measures, and prints the table. Returns whether every testable promise was kept.
pub fn run(settings: &BenchSettings) -> Result<bool> {
    ensure!(Netns::available(), "--pacing counts in a network namespace of its own, and that needs root");
    let haul = find_haul(settings.haul.as_deref())?
        .context("there is no haul to measure: cargo build --release --package haul")?;
    let directory = tempfile::Builder::new().prefix("haul-bench-").tempdir_in(&settings.dir);
    let directory = directory.with_context(|| format!("making a directory in {:?}", settings.dir))?;
    let interrupted = haul_lab::interrupt_flag().context("setting a signal handler")?;
    let bench = PacingBench { haul, netns: Netns::create()?, directory, interrupted };
    let machine = Machine::describe(None).line();
    let mut text = format!(
        "Machine: {machine}\nLoopback, counted at the interface every {} ms. Worst deviation from the rate over any window of that length.\n\n\
         | rate | data | streams | first second | any 2 s | any 10 s | |\n|---|---|---|---|---|---|---|\n",
        SAMPLE_EVERY.as_millis()
    );
    print!("{text}");
    let mut kept = true;
    for (rate, name, quick_rate) in RATES {
        for (streams, quick_streams) in STREAMS {
            for data in [PacingData::Big, PacingData::Small] {
                if settings.quick && !(quick_rate && quick_streams) {
                    continue;
                }
                let mut row = PacingRow::of(&bench.measure(rate, true, streams, data)?, rate);
                if !row.is_kept() {
                    // Is it that the machine does not carry so much?
                    row.without_limit = average(&bench.measure(rate, false, streams, data)?);
                }
                kept &= row.is_kept();
                let line = row.line(name, streams, data);
                print!("{line}");
                text += &line;
            }
        }
    }
    if let Some(path) = &settings.markdown {
        fs::write(path, text).with_context(|| format!("writing {path:?}"))?;
    }
    Ok(kept)
}

/// The result of one run.
struct PacingRow {
    first_second: Option<f64>,
    any_2_s: Option<f64>,
    any_10_s: Option<f64>,
    seconds: f64,
    /// The longest time that this program could not look at the counters: then the machine had other work.
    late_s: f64,
    /// Where a promise was not kept: bytes a second of the same copy without a limit.
    without_limit: Option<f64>,
}

impl PacingRow {
    fn of(samples: &[ArrivalSample], rate: u64) -> Self {
        let samples = transfer(samples);
        // All rates here are far below this type's limit for exact integers.
        let rate = rate as f64;
        let seconds = samples.first().zip(samples.last()).map_or(0.0, |(first, last)| last.at_s - first.at_s);
        Self {
            first_second: first(samples, 1.0, rate),
            any_2_s: worst(samples, 2.0, rate),
            any_10_s: worst(samples, 10.0, rate),
            seconds,
            late_s: samples.windows(2).map(|pair| pair[1].at_s - pair[0].at_s).fold(0.0, f64::max),
            without_limit: None,
        }
    }

    fn is_kept(&self) -> bool {
        let within = |deviation: Option<f64>, promised: f64| deviation.is_none_or(|it| it.abs() <= promised);
        self.first_second.is_some()
            && within(self.first_second, PROMISED_2_S)
            && within(self.any_2_s, PROMISED_2_S)
            && within(self.any_10_s, PROMISED_10_S)
    }

    fn line(&self, rate: &str, streams: u16, data: PacingData) -> String {
        let shown = |deviation: Option<f64>| deviation.map_or("-".to_owned(), |it| format!("{:+.2} %", 100.0 * it));
        let verdict = if self.is_kept() { "reached" } else { "NOT reached" };
        let data = if data == PacingData::Big { "one file" } else { "small files" };
        let mut line = format!("| {rate} | {data} | {streams} ");
        for deviation in [self.first_second, self.any_2_s, self.any_10_s] {
            let _ = write!(line, "| {} ", shown(deviation));
        }
        let short = if self.any_10_s.is_none() { format!(" ({:.1} s only)", self.seconds) } else { String::new() };
        let late = match self.late_s {
            late_s if late_s > LATE_S => {
                format!("; the machine was busy, the counter itself late by {:.0} ms", 1e3 * late_s)
            }
            _ => String::new(),
        };
        let limit = self.without_limit.map_or(String::new(), |it| format!("; without -x {:.2} GB/s", it / 1e9));
        line + &format!("| {verdict}{short}{limit}{late} |\n")
    }
}

/// Bytes a second over the whole transfer.
fn average(samples: &[ArrivalSample]) -> Option<f64> {
    let samples = transfer(samples);
    let (first, last) = samples.first().zip(samples.last())?;
    Some((last.bytes - first.bytes) / (last.at_s - first.at_s))
}

impl PacingBench {
    /// Copies for 14 s, with or without a rate limit, and returns the bytes passed over time.
    fn measure(&self, rate: u64, limited: bool, streams: u16, data: PacingData) -> Result<Vec<ArrivalSample>> {
        let (source, target) = (self.directory.path().join("source"), self.directory.path().join("target"));
        let bytes = rate * 14;
        let copied_to = match data {
            PacingData::Big => {
                // A sparse file takes no space, and is read like any other.
                fs::File::create(&source)?.set_len(bytes)?;
                Path::new("/dev/null")
            }
            PacingData::Small => {
                small_files(&source, &self.directory.path().join("model"), bytes.min(SMALL_BYTES_MAX), rate)?;
                &target
            }
        };
        let mut command = Command::new(&self.haul);
        command.args(["-r", "--json", "-s", &streams.to_string()]);
        if limited {
            command.args(["-x", &rate.to_string()]);
        }
        command.arg("-T");
        command.arg(&self.haul).arg(&source).arg(format!("127.0.0.1:{}", copied_to.display()));
        command.env("HOME", self.directory.path());
        let running = start(self.netns.enclose(&command))?;
        let samples = sample(running, &self.interrupted);
        for path in [&source, &target] {
            let _ = fs::remove_dir_all(path).or_else(|_| fs::remove_file(path));
        }
        samples
    }
}

/// Small files, many to a frame; larger ones for high rates, since the network must be the bottleneck. All are hard
/// links to one inode: haul copies each as a file of its own.
fn small_files(root: &Path, model: &Path, bytes: u64, rate: u64) -> Result<()> {
    let size = if rate > 100_000_000 { 128 << 10 } else { 16 << 10 };
    let _ = fs::remove_file(model);
    fs::write(model, vec![7; size])?;
    for n in 0..bytes / size as u64 {
        let directory = root.join((n / FILES_PER_DIRECTORY).to_string());
        if n % FILES_PER_DIRECTORY == 0 {
            fs::create_dir_all(&directory)?;
        }
        fs::hard_link(model, directory.join(n.to_string())).context("making a small file")?;
    }
    Ok(())
}

/// Looks at the counters from when the streams are up until enough was seen or the copy is over. Ends it.
fn sample(mut running: Running, interrupted: &AtomicBool) -> Result<Vec<ArrivalSample>> {
    let begun = Instant::now();
    while !running.stdout_so_far().contains("\"connected\"") {
        let ended = running.wait_up_to(Duration::from_millis(1));
        ensure!(!ended && begun.elapsed() < START_LIMIT, "haul did not begin: {}", running.stderr_so_far());
    }
    let mut samples = Vec::new();
    let mut due = Instant::now();
    let counters = format!("/proc/{}/net/dev", running.id());
    // It is counted from the first data, and the copy may take a moment until then.
    while due.duration_since(begun) < MEASURED + Duration::from_millis(500) {
        let Some(bytes) = passed(&counters) else { break };
        ensure!(!interrupted.load(Ordering::Relaxed), "interrupted");
        samples.push(ArrivalSample { at_s: begun.elapsed().as_secs_f64(), bytes: bytes as f64 });
        due += SAMPLE_EVERY;
        thread::sleep(due.saturating_duration_since(Instant::now()));
        due = due.max(Instant::now());
    }
    Ok(samples)
}

/// Bytes of TCP payload on the loopback; `None` after the end of the process.
fn passed(counters: &str) -> Option<u64> {
    let text = fs::read_to_string(counters).ok()?;
    let line = text.lines().find_map(|line| line.trim_start().strip_prefix("lo:"))?;
    let mut fields = line.split_ascii_whitespace().map(str::parse);
    let (bytes, packets): (u64, u64) = (fields.next()?.ok()?, fields.next()?.ok()?);
    Some(bytes.saturating_sub(HEADERS * packets))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(first_second: f64, any_2_s: f64, any_10_s: Option<f64>) -> PacingRow {
        PacingRow {
            first_second: Some(first_second),
            any_2_s: Some(any_2_s),
            any_10_s,
            seconds: 6.0,
            late_s: 0.02,
            without_limit: None,
        }
    }

    #[test]
    fn a_promise_is_kept_or_it_is_not() {
        assert!(row(-0.05, 0.049, Some(-0.0099)).is_kept());
        assert!(!row(0.051, 0.0, Some(0.0)).is_kept());
        assert!(!row(0.0, -0.051, Some(0.0)).is_kept());
        assert!(!row(0.0, 0.0, Some(0.011)).is_kept());
        assert!(!PacingRow { first_second: None, ..row(0.0, 0.0, None) }.is_kept());
    }

    #[test]
    fn a_line_gives_the_measured_rates() {
        let line = row(-0.012, 0.0034, None).line("5 MB/s", 4, PacingData::Small);
        assert_eq!(line, "| 5 MB/s | small files | 4 | -1.20 % | +0.34 % | - | reached (6.0 s only) |\n");
        let slow = PacingRow { without_limit: Some(840e6), ..row(-0.4, -0.4, Some(-0.4)) };
        let line = slow.line("1 GB/s", 1, PacingData::Big);
        assert!(line.ends_with("| NOT reached; without -x 0.84 GB/s |\n"), "{line}");
        let line = PacingRow { late_s: 0.25, ..slow }.line("1 GB/s", 1, PacingData::Big);
        assert!(line.ends_with("; the machine was busy, the counter itself late by 250 ms |\n"), "{line}");
    }
}
