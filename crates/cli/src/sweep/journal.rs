//! NAME.csv: the runs of a sweep, one line each, written after each run. A stopped sweep resumes from it: recorded runs
//! are not repeated. Its first lines identify the sweep.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use anyhow::{anyhow, bail};
use haul_base::sys::random::random;
use haul_proto::path::escape;
use haul_show::output_place::OutputPlace;
use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;

use super::figures::{SweepRun, columns};
use super::setting::SweepSetting;

const FIRST: &str = "# haul sweep 1";
/// Largest file that is read.
const BYTES_MAX: u64 = 64 << 20;

/// The identity of a sweep, constant between calls. Lists may grow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// The source as typed, escaped.
    pub source: String,
    /// The target as typed, escaped.
    pub target: String,
    /// Options common to all runs, as typed, escaped.
    pub options: String,
}

/// The file.
pub struct Journal {
    file: File,
    runs: Vec<SweepRun>,
    number: u64,
    is_resumed: bool,
}

impl Journal {
    /// Opens `path`, or creates it.
    pub fn open(path: &Path, header: &Header) -> anyhow::Result<Self> {
        let shown = escape(path.as_os_str().as_encoded_bytes());
        let cannot = |error: io::Error| anyhow!("{shown}: {error}");
        let open = |place: OutputPlace| place.open(OFlags::RDWR | OFlags::APPEND | OFlags::CREATE);
        let file = OutputPlace::find(path).and_then(open).map_err(cannot)?;
        if let Err(Errno::AGAIN) = flock(&file, FlockOperation::NonBlockingLockExclusive) {
            bail!("{shown}: another haul sweep is writing it\nwait for it, or use another file with --out");
        }
        let size = file.metadata().map_err(cannot)?.len();
        if size > BYTES_MAX {
            bail!("{shown}: not a record of a sweep\nuse another one with --out");
        }
        let text = io::read_to_string(&file).map_err(cannot)?;
        let mut journal = Self { file, runs: Vec::new(), number: 0, is_resumed: false };
        if FIRST.starts_with(&text) {
            journal.file.set_len(0).and_then(|()| journal.begin(header)).map_err(cannot)?;
            return Ok(journal);
        }
        // Ignore a line that a killed run left incomplete.
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        journal.read(&text[..whole], header).map_err(|why| anyhow!("{shown}: {why}"))?;
        journal.file.set_len(whole as u64).map_err(cannot)?;
        journal.is_resumed = true;
        Ok(journal)
    }

    fn begin(&mut self, header: &Header) -> io::Result<()> {
        self.number = u64::from_ne_bytes(random()?);
        let Header { source, target, options } = header;
        let columns = columns().join(",");
        let number = self.number;
        let text = format!(
            "{FIRST}\n# source {source}\n# target {target}\n# options {options}\n# number {number:016x}\n{columns}\n"
        );
        self.file.write_all(text.as_bytes())
    }

    fn read(&mut self, text: &str, header: &Header) -> anyhow::Result<()> {
        const OTHER: &str = "use another record with --out, or move this one";
        let mut lines = text.lines();
        if lines.next() != Some(FIRST) {
            bail!("not a record of a sweep\n{OTHER}");
        }
        let expected = [("source", &header.source), ("target", &header.target), ("options", &header.options)];
        for (what, wanted) in expected {
            let there = lines.next().and_then(|line| line.strip_prefix(&format!("# {what} "))).unwrap_or_default();
            if there != wanted {
                let [there, wanted] = [there, wanted].map(|text| if text.is_empty() { "nothing" } else { text });
                bail!("record of another sweep: its {what} is {there}, not {wanted}\n{OTHER}");
            }
        }
        let number = lines.next().and_then(|line| u64::from_str_radix(line.strip_prefix("# number ")?, 16).ok());
        self.number = number.ok_or_else(|| anyhow!("unreadable number\n{OTHER}"))?;
        if lines.next() != Some(&columns().join(",")) {
            bail!("written by another version of haul\n{OTHER}");
        }
        for (at, line) in lines.enumerate() {
            let run = cells(line).and_then(|cells| SweepRun::of_cells(&cells));
            self.runs.push(run.ok_or_else(|| anyhow!("unreadable line {}\n{OTHER}", at + 7))?);
        }
        Ok(())
    }

    /// Adds a run.
    pub fn add(&mut self, run: SweepRun) -> io::Result<()> {
        let cells: Vec<_> = run.cells().iter().map(|cell| quoted(cell)).collect();
        self.file.write_all(format!("{}\n", cells.join(",")).as_bytes())?;
        self.file.sync_data()?;
        self.runs.push(run);
        Ok(())
    }

    /// All recorded runs.
    pub fn runs(&self) -> &[SweepRun] {
        &self.runs
    }

    /// Whether a run is recorded.
    pub fn has(&self, round: u32, setting: &SweepSetting) -> bool {
        self.runs.iter().any(|run| run.round == round && run.setting == *setting)
    }

    /// Whether the file existed: an earlier call may have been killed.
    pub fn is_resumed(&self) -> bool {
        self.is_resumed
    }

    /// The unique number of the sweep.
    pub fn number(&self) -> u64 {
        self.number
    }
}

/// A process that is being started has the file open until it runs its program: closing alone would not unlock it.
impl Drop for Journal {
    fn drop(&mut self) {
        let _ = flock(&self.file, FlockOperation::Unlock);
    }
}

/// Quotes a cell for CSV (RFC 4180). It has no line feeds.
fn quoted(cell: &str) -> String {
    let cell = cell.replace(['\n', '\r'], " ");
    match cell.contains([',', '"']) {
        true => format!("\"{}\"", cell.replace('"', "\"\"")),
        false => cell,
    }
}

/// The cells of a line; `None` for an unclosed or misplaced quote.
fn cells(line: &str) -> Option<Vec<String>> {
    let mut cells = Vec::new();
    let mut rest = line;
    loop {
        let (cell, after) = match rest.strip_prefix('"') {
            Some(inside) => quoted_cell(inside)?,
            None => {
                let end = rest.find(',').unwrap_or(rest.len());
                (rest[..end].to_owned(), &rest[end..])
            }
        };
        cells.push(cell);
        match after.strip_prefix(',') {
            Some(next) => rest = next,
            None => return after.is_empty().then_some(cells),
        }
    }
}

/// Parses a cell after its opening quote; returns its text, and the rest after its closing quote.
fn quoted_cell(inside: &str) -> Option<(String, &str)> {
    let mut cell = String::new();
    let mut rest = inside;
    loop {
        let (piece, after) = rest.split_once('"')?;
        cell.push_str(piece);
        match after.strip_prefix('"') {
            Some(more) => {
                cell.push('"');
                rest = more;
            }
            None => return Some((cell, after)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::figures::tests::run;
    use super::*;

    fn header() -> Header {
        Header { source: "null:1g".into(), target: "db1:null:".into(), options: "-i key".into() }
    }

    fn failed() -> SweepRun {
        SweepRun { result: Err("db1: \"no\", it said".into()), ..run(1, "8k", "2", 1.0) }
    }

    #[test]
    fn recorded_rows_are_read_and_not_repeated() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("sweep.csv");
        let mut journal = Journal::open(&path, &header()).unwrap();
        let number = journal.number();
        [run(1, "8k", "1", 1e8), failed()].into_iter().for_each(|run| journal.add(run).unwrap());
        drop(journal);
        let journal = Journal::open(&path, &header()).unwrap();
        assert_eq!(format!("{:?}", journal.runs()), format!("{:?}", [run(1, "8k", "1", 1e8), failed()]));
        assert_eq!(journal.number(), number);
        let of = |round, streams| journal.has(round, &run(round, "8k", streams, 1.0).setting);
        assert!(of(1, "1") && of(1, "2") && !of(2, "1") && !of(1, "3"));
    }

    #[test]
    fn half_a_line_is_cut_off() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("sweep.csv");
        let mut journal = Journal::open(&path, &header()).unwrap();
        journal.add(run(1, "8k", "1", 1e8)).unwrap();
        drop(journal);
        let whole = fs::read_to_string(&path).unwrap();
        fs::write(&path, format!("{whole}1,17")).unwrap();
        let mut journal = Journal::open(&path, &header()).unwrap();
        assert_eq!(journal.runs().len(), 1);
        journal.add(run(1, "8k", "2", 1e8)).unwrap();
        drop(journal);
        assert_eq!(Journal::open(&path, &header()).unwrap().runs().len(), 2);
        fs::write(&path, "# haul sw").unwrap();
        assert_eq!(Journal::open(&path, &header()).unwrap().runs().len(), 0, "it was never begun");
    }

    #[test]
    fn another_sweeps_record_is_refused_and_stays_unchanged() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("sweep.csv");
        Journal::open(&path, &header()).unwrap().add(run(1, "8k", "1", 1e8)).unwrap();
        let before = fs::read(&path).unwrap();
        let refused = |header: &Header| Journal::open(&path, header).err().unwrap().to_string();
        let message = refused(&Header { target: "db2:null:".into(), ..header() });
        assert!(message.contains("record of another sweep: its target is db1:null:, not db2:null:"), "{message}");
        let message = refused(&Header { options: String::new(), ..header() });
        assert!(message.contains("its options is -i key, not nothing") && message.contains("--out"), "{message}");
        assert_eq!(fs::read(&path).unwrap(), before);
        for other in ["name,size\n1,2\n", "# haul sweep 2\n", "one line"] {
            fs::write(&path, other).unwrap();
            assert!(refused(&header()).contains("not a record of a sweep"));
            assert_eq!(fs::read_to_string(&path).unwrap(), other);
        }
    }

    #[test]
    fn two_sweeps_do_not_write_one_record() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("sweep.csv");
        let _first = Journal::open(&path, &header()).unwrap();
        assert!(Journal::open(&path, &header()).err().unwrap().to_string().contains("another haul sweep"));
    }

    #[test]
    fn cells_of_any_content_round_trip() {
        for row in [vec!["a", "", "b,c", "\"", "\"\",", " x "], vec![""], vec!["", ""]] {
            let line = row.iter().map(|cell| quoted(cell)).collect::<Vec<_>>().join(",");
            assert_eq!(cells(&line).unwrap(), row, "{line}");
        }
        for odd in ["\"a", "\"a\"b", "\"a\"\""] {
            assert_eq!(cells(odd), None, "{odd}");
        }
    }
}
