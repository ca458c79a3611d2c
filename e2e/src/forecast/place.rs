//! A place to test a forecast: two hosts, the network between them, and the data's location at each.

use std::fs;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use haul_lab::{Wan, WanSettings};
use serde_json::Value;

use crate::{Haul, Options, ProgramRun, Remote, Sandbox};

/// Longest that one command takes.
const LIMIT: Duration = Duration::from_secs(1800);

/// One place.
pub struct ForecastPlace {
    /// Its name in the table.
    pub name: &'static str,
    /// The link; `None` for loopback.
    pub link: Option<WanSettings>,
    /// Whether data lies on this machine's disk; else it comes from memory and goes nowhere but into memory.
    pub disk: bool,
    /// The divisor of the requested size here: slow links would take too long.
    pub part: u64,
}

/// The result of one forecast.
pub struct ForecastOutcome {
    /// The probe's forecast, in bytes a second.
    pub forecast: f64,
    /// The copy's rate, in bytes a second.
    pub reached: f64,
    /// The limits named by the probe and by the copy.
    pub limits: [String; 2],
}

/// All of them.
pub fn places() -> Vec<ForecastPlace> {
    let link = |mbit_per_s: u64, rtt_ms, loss| {
        let rate_bits_per_s = mbit_per_s * 1_000_000;
        Some(WanSettings { rtt: Duration::from_millis(rtt_ms), loss, rate_bits_per_s, ..WanSettings::default() })
    };
    vec![
        ForecastPlace { name: "loopback", link: None, disk: false, part: 1 },
        ForecastPlace { name: "disk", link: None, disk: true, part: 1 },
        ForecastPlace { name: "1g-1ms", link: link(1000, 1, 0.0), disk: false, part: 1 },
        ForecastPlace { name: "1g-50ms", link: link(1000, 50, 0.0), disk: false, part: 1 },
        ForecastPlace { name: "200m-50ms-loss", link: link(200, 50, 0.001), disk: false, part: 4 },
    ]
}

impl ForecastPlace {
    /// Probes, then copies `bytes`.
    pub fn try_out(&self, bytes: u64) -> Result<ForecastOutcome> {
        let bytes = bytes / self.part;
        let sandbox = Sandbox::new();
        let wan = self.link.as_ref().map(Wan::new).transpose()?;
        let options = match &wan {
            Some(wan) => Options { address: IpAddr::V4(Wan::ADDRESS_B), netns: Some(wan.b()), ..Options::default() },
            None => Options::default(),
        };
        let remote = Remote::with_haul(&sandbox, options);
        let haul = |command: &[&str]| {
            let haul = sandbox.haul(command).args(remote.sshd().haul_args()).limit(LIMIT);
            match &wan {
                Some(wan) => haul.netns(wan.a()),
                None => haul,
            }
        };
        let outcome = if self.disk { on_disk(&sandbox, &remote, haul, bytes) } else { in_memory(&remote, haul, bytes) };
        // The far host ends before its network does.
        drop(remote);
        outcome
    }
}

/// From memory into a file system in memory: measures everything except disks.
fn in_memory<'a>(remote: &Remote, haul: impl Fn(&[&str]) -> Haul<'a>, bytes: u64) -> Result<ForecastOutcome> {
    let target = tempfile::tempdir_in("/dev/shm").context("a directory in memory")?;
    let probe = haul(&["probe", "--json"]).arg(remote.at(target.path())).run();
    let copied = target.path().join("copied");
    let copy = haul(&["--json", "--compress", "off"]).arg(format!("null:{bytes}")).arg(remote.at(copied)).run();
    ForecastOutcome::of(&probe, &copy)
}

fn on_disk<'a>(
    sandbox: &Sandbox,
    remote: &Remote,
    haul: impl Fn(&[&str]) -> Haul<'a>,
    bytes: u64,
) -> Result<ForecastOutcome> {
    let source = sandbox.big_file("source", bytes);
    let target = sandbox.dir("target");
    let probe = haul(&["probe", "--json"]).arg(&source).arg(remote.at(&target)).run();
    evict_pages(&source)?;
    let copy = haul(&["--json"]).arg(&source).arg(remote.at(&target)).run();
    ForecastOutcome::of(&probe, &copy)
}

/// A probe's forecast is for files that are not in the page cache.
fn evict_pages(path: &PathBuf) -> Result<()> {
    let file = fs::File::open(path)?;
    file.sync_all()?;
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?;
    Ok(())
}

/// The error, in a line.
fn said(run: &ProgramRun) -> String {
    let words = run.stderr.lines().next().unwrap_or("it does not say what is looked for");
    format!("{words} (status {:?})", run.status)
}

impl ForecastOutcome {
    /// A copy's own rate includes its start. The forecast is a start-up time and a rate, so both go into the expected
    /// rate.
    fn of(probe: &ProgramRun, copy: &ProgramRun) -> Result<Self> {
        let lines = |run: &ProgramRun| -> Result<Vec<Value>> {
            run.stdout.lines().map(|line| serde_json::from_str(line).with_context(|| said(run))).collect()
        };
        let (told, done) = (lines(probe)?, lines(copy)?);
        let whole = told.iter().find(|line| line["part"] == "whole").with_context(|| said(probe))?;
        let (told, done) = (told.last().with_context(|| said(probe))?, done.last().with_context(|| said(copy))?);
        let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
        let number = |value: &Value, run: &ProgramRun| value.as_f64().with_context(|| said(run));
        let bytes = number(&done["bytes"], copy)?;
        let takes_s = number(&whole["start_s"], probe)? + bytes / number(&told["bytes_per_s"], probe)?;
        Ok(Self {
            forecast: bytes / takes_s,
            reached: bytes / number(&done["seconds"], copy)?,
            limits: [text(&told["limit"]), text(&done["verdict"]["limit"])],
        })
    }

    /// The forecast relative to the rate reached.
    pub fn ratio(&self) -> f64 {
        self.forecast / self.reached.max(1.0)
    }
}
