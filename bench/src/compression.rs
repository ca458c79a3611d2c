//! `--compression`: text and incompressible data over a link of 1 Gbit/s; haul with and without compression.
//!
//! The link joins two network namespaces; tc(8) limits its rate. Rounds are interleaved, and every copy is compared
//! with its source. rsync and scp are there for reference.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use haul_lab::{Finished, Netns, TestTree, aligned, compare, run_with_timeout};
use serde_json::Value;

use crate::hosts::CabledPair;
use crate::settings::BenchSettings;
use crate::statistics::median;
use crate::{machine, text};

const SEED: u64 = 0x7a69_7000;
const BYTES: u64 = 4 << 30;
/// The cable's rate in each direction.
const RATE: &str = "1gbit";
/// Text is to be at least this many times faster than without compression.
const TEXT_GAIN_MIN: f64 = 2.5;
/// Incompressible data may take at most this many times as long.
const NOISE_LOSS_MAX: f64 = 1.02;

/// The data to copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CompressionData {
    Text,
    Noise,
}

impl CompressionData {
    fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Noise => "noise",
        }
    }
}

/// Who copies it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CompressionTool {
    Off,
    Auto,
    Rsync,
    Scp,
}

impl CompressionTool {
    const ALL: [Self; 4] = [Self::Off, Self::Auto, Self::Rsync, Self::Scp];

    fn name(self) -> &'static str {
        match self {
            Self::Off => "haul -c off",
            Self::Auto => "haul (auto)",
            Self::Rsync => "rsync -z over ssh",
            Self::Scp => "scp -C",
        }
    }

    fn is_haul(self) -> bool {
        matches!(self, Self::Off | Self::Auto)
    }
}

/// One way's copies of one file.
#[derive(Debug)]
struct CompressionRow {
    way: CompressionTool,
    seconds: Vec<f64>,
    /// The last run's summary by haul.
    said: String,
    failure: Option<String>,
}

/// Measures, and prints the tables. Returns whether haul did all copies.
pub fn run(settings: &BenchSettings) -> Result<bool> {
    let bench = CompressionBench::prepare(settings)?;
    println!("# Compression\n\n{}\n", machine::Machine::describe(None).line());
    println!("A cable of {RATE} between two namespaces; {} rounds, interleaved.", settings.runs);
    let mut good = true;
    for data in [CompressionData::Text, CompressionData::Noise] {
        let rows = bench.measure(settings, data)?;
        println!("{}", table(data, &rows, bench.bytes));
        good &= rows.iter().all(|row| !row.way.is_haul() || row.failure.is_none());
    }
    Ok(good)
}

/// Two hosts, and how much is copied between them.
struct CompressionBench {
    pair: CabledPair,
    bytes: u64,
}

impl CompressionBench {
    fn prepare(settings: &BenchSettings) -> Result<Self> {
        let pair = CabledPair::prepare(settings, "compression")?;
        for (host, interface) in pair.hosts.ends() {
            let shape =
                ["qdisc", "add", "dev", interface, "root", "tbf", "rate", RATE, "burst", "256k", "latency", "20ms"];
            host.run("tc", shape).context("this kernel cannot hold a cable to a rate (tc-tbf(8))")?;
        }
        Ok(Self { pair, bytes: settings.scaled(BYTES) })
    }

    /// All rounds over one file.
    fn measure(&self, settings: &BenchSettings, data: CompressionData) -> Result<Vec<CompressionRow>> {
        let source = self.pair.directory.path().join(data.name());
        eprintln!("bench: {}: making {} bytes", data.name(), self.bytes);
        match data {
            CompressionData::Text => text::write(&source, self.bytes, SEED)?,
            CompressionData::Noise => {
                TestTree::new(self.pair.directory.path(), SEED).incompressible_file(data.name(), self.bytes)?;
            }
        }
        let row = |way| CompressionRow { way, seconds: Vec::new(), said: String::new(), failure: missing(way) };
        let mut rows = CompressionTool::ALL.map(row);
        for round in 0..settings.runs as usize {
            for place in 0..rows.len() {
                let row = &mut rows[(place + round) % CompressionTool::ALL.len()];
                if row.failure.is_none() {
                    self.copy(settings, &source, row)?;
                }
            }
        }
        fs::remove_file(&source)?;
        Ok(rows.into())
    }

    /// One copy. Its failure is part of the row; an error is the benchmark's own.
    fn copy(&self, settings: &BenchSettings, source: &Path, row: &mut CompressionRow) -> Result<()> {
        let target = self.pair.directory.path().join("target");
        let finished = run_with_timeout(self.pair.place(&self.command(row.way, source, &target)), settings.timeout)?;
        eprintln!("bench: {} {:.2} s", row.way.name(), finished.wall_s);
        row.failure = failure(&finished).or_else(|| compare(source, &target).err());
        row.seconds.push(finished.wall_s);
        if row.way.is_haul() {
            row.said = told(&finished);
        }
        match fs::remove_file(&target) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error).context("removing a copy"),
            _ => Ok(()),
        }
    }

    fn command(&self, way: CompressionTool, source: &Path, target: &Path) -> Command {
        let CabledPair { sshd, haul, .. } = &self.pair;
        let mut command = match way {
            CompressionTool::Off | CompressionTool::Auto => Command::new(haul),
            CompressionTool::Rsync => Command::new("rsync"),
            CompressionTool::Scp => Command::new("scp"),
        };
        match way {
            CompressionTool::Off => command.args(["--json", "-c", "off"]).args(sshd.haul_args()),
            CompressionTool::Auto => command.arg("--json").args(sshd.haul_args()),
            CompressionTool::Rsync => command.args(["-z", "-e", &self.pair.ssh()]),
            CompressionTool::Scp => command.args(["-q", "-C", "-F"]).arg(sshd.ssh_config()),
        };
        command.arg(source).arg(sshd.location(target));
        command
    }
}

/// Why a way cannot be measured at all.
fn missing(way: CompressionTool) -> Option<String> {
    let program = match way {
        CompressionTool::Off | CompressionTool::Auto => return None,
        CompressionTool::Rsync => "rsync",
        CompressionTool::Scp => "scp",
    };
    haul_lab::find_program(program).is_none().then(|| format!("not found: {program} (--install)"))
}

fn failure(finished: &Finished) -> Option<String> {
    let why = || finished.stderr_text().lines().last().unwrap_or_default().to_owned();
    (!finished.success()).then(|| format!("{}: {}", finished.status, why()))
}

/// Compression by haul's summary, and the CPU time of both ends.
fn told(finished: &Finished) -> String {
    let stdout = finished.stdout_text();
    let summary: Value = stdout.lines().last().and_then(|line| serde_json::from_str(line).ok()).unwrap_or_default();
    let cpu = |end: &str| summary[end].as_f64().unwrap_or_default();
    let cpu = format!("CPU {:.1} s + {:.1} s", cpu("source_cpu_s"), cpu("target_cpu_s"));
    match &summary["compression"] {
        Value::Null => cpu,
        compression => format!(
            "{:.2} to 1, {} {}; {cpu}",
            compression["ratio"].as_f64().unwrap_or_default(),
            compression["codec"].as_str().unwrap_or_default(),
            compression["level"].as_u64().map_or_else(String::new, |level| level.to_string()),
        ),
    }
}

/// A table for one file, with the targets.
#[expect(clippy::cast_precision_loss, reason = "far fewer than 2^53 bytes")]
fn table(data: CompressionData, rows: &[CompressionRow], bytes: u64) -> String {
    let median_of = |way| rows.iter().find(|row| row.way == way).and_then(|row| median(row.seconds.clone()));
    let off = median_of(CompressionTool::Off);
    let mut lines = vec![["", "median", "range", "MB/s", "time beside -c off", ""].map(str::to_owned).to_vec()];
    for row in rows {
        let (low, high) = row.seconds.iter().fold((f64::MAX, 0.0), |(low, high), s| (s.min(low), s.max(high)));
        let failure = row.failure.as_deref().unwrap_or("not measured");
        let cells = match (&row.failure, median(row.seconds.clone()), off) {
            (None, Some(own), Some(off)) => [
                format!("{own:.2} s"),
                format!("{low:.2} to {high:.2}"),
                format!("{:.0}", bytes as f64 / 1e6 / own),
                format!("{:.3}", own / off),
                row.said.clone(),
            ],
            _ => [failure, "", "", "", ""].map(str::to_owned),
        };
        lines.push([&[row.way.name().to_owned()][..], &cells].concat());
    }
    let heading = format!("\n## {}: {:.2} GB\n\n", data.name(), bytes as f64 / 1e9);
    let mut text = heading + aligned(&lines, &[0, 5]).trim_end();
    if let (Some(off), Some(auto)) = (off, median_of(CompressionTool::Auto)) {
        text += &format!("\n\n{}", verdict(data, off, auto));
    }
    text
}

/// Whether the aim is met.
fn verdict(data: CompressionData, off: f64, auto: f64) -> String {
    let (met, text) = match data {
        CompressionData::Text => (
            off / auto >= TEXT_GAIN_MIN,
            format!("{:.2} times as fast as without compression; at least {TEXT_GAIN_MIN} is aimed at", off / auto),
        ),
        CompressionData::Noise => (
            auto / off <= NOISE_LOSS_MAX,
            format!("{:.3} of the time without compression; at most {NOISE_LOSS_MAX} is aimed at", auto / off),
        ),
    };
    format!("{}: {text}.", if met { "Met" } else { "MISSED" })
}

/// An error where this cannot be measured.
pub fn check() -> Result<()> {
    ensure!(Netns::available(), "--compression makes network namespaces, which needs root");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(way: CompressionTool, seconds: &[f64]) -> CompressionRow {
        CompressionRow { way, seconds: seconds.to_vec(), said: String::new(), failure: None }
    }

    fn on_one_line(text: &str) -> String {
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn aims_are_judged_by_medians() {
        let rows = |auto: &[f64]| [row(CompressionTool::Off, &[9.0, 30.0, 10.0]), row(CompressionTool::Auto, auto)];
        let text = |auto| table(CompressionData::Text, &rows(auto), 1_000_000_000);
        assert!(text(&[3.9, 4.0, 90.0]).contains("\nMet: 2.50 times"));
        assert!(text(&[4.1, 4.1, 0.1]).contains("\nMISSED: 2.44 times"));
        let noise = |auto| table(CompressionData::Noise, &rows(auto), 1_000_000_000);
        assert!(noise(&[10.2]).contains("\nMet: 1.020 of the time"));
        assert!(noise(&[10.3]).contains("\nMISSED: 1.030"));
        assert!(on_one_line(&noise(&[10.2])).contains("| haul -c off | 10.00 s | 9.00 to 30.00 | 100 | 1.000 |"));
    }

    #[test]
    fn a_failed_tool_is_named_without_figures() {
        let failed = CompressionRow { failure: Some("exit status: 1: no".into()), ..row(CompressionTool::Scp, &[1.0]) };
        let text = table(CompressionData::Text, &[row(CompressionTool::Off, &[1.0]), failed], 1);
        assert!(on_one_line(&text).contains("| scp -C | exit status: 1: no |"), "{text}");
    }
}
