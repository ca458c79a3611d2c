//! `haul sweep`: measures the same copy with many settings, in several rounds.

pub mod figures;
pub mod journal;
mod measure;
mod report;
mod scratch;
pub mod setting;
mod summary;

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io::{self, Write};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use haul_base::copy::event::TransportPath;
use haul_base::copy::spec::CopySpec;
use haul_base::sys::cancel::Cancel;
use haul_show::pending::{Pending, ReplaceableFile};
use haul_show::report::ReportFormat;

use self::figures::{SweepRun, flattery};
use self::journal::{Header, Journal};
pub use self::measure::{SweepBench, is_nowhere};
use self::setting::SweepSetting;
use self::summary::Group;
use crate::args::flags;
use crate::echoes::other_end;

/// Interval at which a pause checks for its end.
const LOOK: Duration = Duration::from_millis(50);
/// Number of consecutive failures that ends a sweep.
const FAILURES_MAX: usize = 3;

/// A planned sweep.
pub struct Sweep {
    /// All runs, each a copy: by round and setting.
    pub runs: Vec<(u32, SweepSetting, CopySpec)>,
    /// Header of its journal.
    pub header: Header,
    /// `--out`: the name of the files, without extensions.
    pub out: PathBuf,
    /// `--report`: writes a page too.
    pub report: bool,
    /// Whether each run is followed by a pause of its length; cleared by `--no-pause`.
    pub pause: bool,
}

/// Events of a sweep.
pub trait Listener {
    /// A run has ended, with its number and the total.
    fn run(&mut self, number: usize, of: usize, run: &SweepRun);
    /// Another message.
    fn notice(&mut self, line: &str);
}

/// How a sweep ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SweepEnd {
    /// All runs succeeded.
    Well,
    /// Some runs failed.
    WithFailures,
    /// It was stopped: the same command resumes.
    Stopped,
}

impl Sweep {
    /// Makes all missing runs.
    pub fn carry_out(
        &self,
        cancel: &Cancel,
        bench: SweepBench<'_>,
        listener: &mut dyn Listener,
    ) -> anyhow::Result<SweepEnd> {
        let journal = Journal::open(&self.named("csv"), &self.header)?;
        let mut under_way = RunningSweep { sweep: self, journal, transport: None, addresses: HashMap::new(), bench };
        let ended = under_way.all(cancel, listener)?;
        under_way.save()?;
        let groups = Group::all(under_way.journal.runs());
        under_way.warnings(&groups).iter().for_each(|warning| listener.notice(warning));
        Ok(ended)
    }

    /// NAME with an extension. Dots in NAME stay.
    pub fn named(&self, ending: &str) -> PathBuf {
        let mut name = self.out.clone().into_os_string();
        name.push(OsStr::new("."));
        name.push(ending);
        name.into()
    }
}

struct RunningSweep<'a> {
    sweep: &'a Sweep,
    journal: Journal,
    /// The transport path, once known.
    transport: Option<TransportPath>,
    /// The other host's address for each target, once known.
    addresses: HashMap<&'a str, IpAddr>,
    bench: SweepBench<'a>,
}

impl RunningSweep<'_> {
    fn all(&mut self, cancel: &Cancel, listener: &mut dyn Listener) -> anyhow::Result<SweepEnd> {
        let of = self.sweep.runs.len();
        let mut failures_in_a_row = 0;
        let mut pause = Duration::ZERO;
        let mut is_clear = !self.journal.is_resumed();
        for (number, (round, setting, copy)) in self.sweep.runs.iter().enumerate() {
            if self.journal.has(*round, setting) {
                continue;
            }
            if !rest(pause, cancel) {
                return Ok(SweepEnd::Stopped);
            }
            if !std::mem::replace(&mut is_clear, true) {
                self.bench.clear(copy, self.journal.number())?;
            }
            let begun = Instant::now();
            let target = setting.word(&flags::sweep::TARGET).unwrap_or_default();
            let address = self.addresses.get(target).copied();
            let measured = self.bench.measure(*round, setting, copy, address, self.journal.number(), cancel);
            if let Some(address) = measured.transport.as_ref().and_then(other_end) {
                self.addresses.insert(target, address);
            }
            let leftover = measured.leftover;
            leftover.iter().for_each(|leftover| listener.notice(leftover));
            let Some(run) = measured.run else { return Ok(SweepEnd::Stopped) };
            self.transport = measured.transport.or(self.transport.take());
            pause = if self.sweep.pause { begun.elapsed() } else { Duration::ZERO };
            listener.run(number + 1, of, &run);
            failures_in_a_row = if run.result.is_err() { failures_in_a_row + 1 } else { 0 };
            self.journal.add(run)?;
            self.save()?;
            if leftover.is_some() {
                // The next run would find existing files.
                return Ok(SweepEnd::WithFailures);
            }
            if failures_in_a_row == FAILURES_MAX {
                listener.notice(&format!("gave up after {FAILURES_MAX} failed runs in a row"));
                return Ok(SweepEnd::WithFailures);
            }
        }
        let is_good = self.journal.runs().iter().all(|run| run.result.is_ok());
        Ok(if is_good { SweepEnd::Well } else { SweepEnd::WithFailures })
    }

    fn warnings(&self, groups: &[Group<'_>]) -> Vec<String> {
        let flattery =
            self.sweep.runs.first().map(|(_, _, copy)| flattery(copy, self.transport.as_ref(), self.journal.runs()));
        summary::warnings(groups, &flattery.unwrap_or_default())
    }

    /// Writes the files made from the record: NAME.json, NAME.html.
    fn save(&self) -> anyhow::Result<()> {
        let runs = self.journal.runs();
        let groups = Group::all(runs);
        let (header, warnings) = (&self.sweep.header, self.warnings(&groups));
        let json = summary::json(header, runs, &groups, &warnings);
        write(&self.sweep.named("json"), &format!("{json:#}\n"), ReplaceableFile::Anything)?;
        if self.sweep.report {
            let document = report::document(header, runs, &warnings);
            write(&self.sweep.named("html"), &ReportFormat::Html.write(&document), ReplaceableFile::Page)?;
        }
        Ok(())
    }
}

fn write(to: &Path, content: &str, own: ReplaceableFile) -> anyhow::Result<()> {
    let written = || -> io::Result<()> {
        let pending = Pending::create(to, own)?;
        pending.writer()?.write_all(content.as_bytes())?;
        pending.publish()
    };
    written()
        .map_err(|error| anyhow::anyhow!("{}: {error}", haul_proto::path::escape(to.as_os_str().as_encoded_bytes())))
}

/// Waits. Returns `false` if stopped.
fn rest(time: Duration, cancel: &Cancel) -> bool {
    let until = Instant::now() + time;
    while !cancel.is_cancelled() {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return true;
        }
        std::thread::sleep(left.min(LOOK));
    }
    false
}
