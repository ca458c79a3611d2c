//! bbcp's lines, letter for letter, for scripts that read them. Its rates count in powers of 1024.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};

use haul_base::copy::error::{Error, FIRST_FAILURE, Outcome};
use haul_base::copy::event::{ChangeKind, EntryKind, Event, FileReport, ItemReport, Observer, Progress, ResumeReport};
use haul_base::copy::spec::{ChecksumAlgorithm, CopySpec};
use haul_base::copy::summary::Summary;
use haul_show::human::Human;
use haul_show::meter::IntervalMeter;
use haul_show::text::TextOutput;
use haul_show::units::{bytes_per_s, percent};
use haul_show::{self as show, Show};

use super::digest_lines::DigestLines;
use super::statistics::Statistics;
use super::target_names::TargetNames;
use super::{log, stamp, status, words};

/// Most lines held for the number of files.
const HELD_MAX: usize = 4096;

/// The kinds of lines to show.
#[derive(Debug, Clone, Copy, Default)]
pub struct Style {
    /// `-P`: the time between two progress lines.
    pub progress_every: Option<Duration>,
    /// `-v`: complete files, and the last line.
    pub is_verbose: bool,
    /// `-P` or `-V`: started files.
    pub announces: bool,
    /// `-V`: windows and CPU time.
    pub has_statistics: bool,
    /// `-D`: also messages of haul.
    pub is_debug: bool,
    /// `-r` with `-P` or `-v`: the number of files.
    pub indexes: bool,
    /// `-O`: existing files are skipped.
    pub omits: bool,
    /// `-a`: partial files are completed.
    pub appends: bool,
    /// `-f`: files that differ are replaced.
    pub replaces: bool,
    /// The source is a program or FIFO.
    pub is_piped: bool,
}

/// bbcp's lines, with haul's errors among them.
pub struct Lines {
    human: Human,
    /// The log, or standard error.
    text: TextOutput,
    style: Style,
    names: TargetNames,
    status: Rc<Cell<u8>>,
    /// `-V`.
    pub statistics: Option<Statistics>,
    /// `-E ALG=`.
    pub digests: Option<ReportedDigests>,
    /// Whether a line ends the log.
    pub ends_log: bool,
    pace: CopyPace,
    /// Started files under `-a`, and whether the offset was shown. The report of a resume may come before that of the
    /// start.
    begun: BTreeMap<Vec<u8>, bool>,
    index: FileIndex,
    /// Copied files, under `-O` with `-E`: the digests of others are not shown.
    copied: BTreeSet<PathBuf>,
    failure: Option<String>,
}

/// Digests for a file or standard output.
pub struct ReportedDigests {
    algorithm: ChecksumAlgorithm,
    lines: DigestLines,
    /// Paths and digests of a single source, until its name at the target is known.
    held: Vec<(Vec<u8>, Vec<u8>)>,
}

impl ReportedDigests {
    /// Writes digests of `algorithm` to `lines`.
    pub fn new(algorithm: ChecksumAlgorithm, lines: DigestLines) -> Self {
        Self { algorithm, lines, held: Vec::new() }
    }
}

/// The rate since the connection.
struct CopyPace {
    started: Instant,
    meter: IntervalMeter,
    next_line: Duration,
    moved: u64,
}

/// The line with the number of files.
struct FileIndex {
    /// Lines to show after it; `None` once it is shown.
    held: Option<Vec<String>>,
    directories: Option<u64>,
}

impl Lines {
    /// Writes lines about `copy` to `text`; `status` gets the exit status.
    pub fn new(human: Human, text: TextOutput, style: Style, copy: &CopySpec, status: Rc<Cell<u8>>) -> Self {
        let next_line = style.progress_every.unwrap_or_default();
        let mut lines = Self {
            human,
            text,
            style,
            names: TargetNames::new(copy),
            status,
            statistics: None,
            digests: None,
            ends_log: false,
            pace: CopyPace { started: Instant::now(), meter: IntervalMeter::default(), next_line, moved: 0 },
            begun: BTreeMap::new(),
            index: FileIndex { held: style.indexes.then(Vec::new), directories: None },
            copied: BTreeSet::new(),
            failure: None,
        };
        if style.indexes {
            lines.text.plain("bbcp: Indexing files to be copied...");
        }
        lines
    }

    /// Shows a line, after the number of files.
    fn line(&mut self, line: String) {
        match &mut self.index.held {
            Some(held) if held.len() < HELD_MAX => held.push(line),
            Some(_) => {
                self.release();
                self.text.plain(&line);
            }
            None => self.text.plain(&line),
        }
    }

    fn release(&mut self) {
        self.index.held.take().into_iter().flatten().for_each(|line| self.text.plain(&line));
    }

    /// Shows the number of files, once the target has seen all directories.
    fn index(&mut self, files: u64, directories: u64) {
        if !self.style.indexes {
            return;
        }
        self.style.indexes = false;
        let files = if files == 1 { "1 file".to_owned() } else { format!("{files} files") };
        let directories =
            if directories == 1 { "1 directory".to_owned() } else { format!("{directories} directories") };
        self.text.plain(&format!("bbcp: Copying {files} in {directories}."));
        self.release();
    }

    fn progress(&mut self, progress: &Progress) {
        let now = self.pace.started.elapsed();
        self.pace.moved = progress.moved();
        let is_settled = self.index.directories.replace(progress.directories) == Some(progress.directories);
        if progress.walk_complete && is_settled {
            self.index(progress.files_found, progress.directories);
        }
        let done = progress.done();
        let is_complete = progress.walk_complete && done >= progress.bytes_found;
        if is_complete {
            return;
        }
        if let Some(statistics) = &mut self.statistics {
            statistics.initial(progress).into_iter().for_each(|line| self.text.plain(&line));
        }
        let Some(every) = self.style.progress_every.filter(|_| now >= self.pace.next_line) else { return };
        self.pace.next_line = now + every;
        let average = bytes_per_s(self.pace.moved, now);
        let current = self.pace.meter.update(now, progress).bytes_per_s.unwrap_or_default();
        let current = self.style.is_verbose.then_some(current);
        self.line(progress_line(&stamp(), percent(done, progress.bytes_found), current, average));
    }

    /// Shows a file that the target has started.
    fn begin(&mut self, path: &[u8]) {
        let path = self.names.begin(Path::new(OsStr::from_bytes(path)));
        if !self.style.omits {
            self.release_digests();
        }
        match self.style {
            Style { announces: false, .. } => {}
            Style { appends: true, .. } => {
                self.begun.entry(path.into_os_string().into_vec()).or_insert(false);
            }
            _ => {
                let line = format!("bbcp: Creating {}", self.names.shown(&path));
                self.line(line);
            }
        }
    }

    fn resume(&mut self, path: &Path, offset: u64) {
        if self.style.is_verbose {
            self.line(format!("bbcp: Will try to complete copying {}", self.names.shown(path)));
        }
        if self.style.announces {
            self.begun.insert(path.as_os_str().as_bytes().to_vec(), true);
            self.append(path, offset);
        }
    }

    fn append(&mut self, path: &Path, offset: u64) {
        self.line(format!("bbcp: Appending to {} at offset {offset}", self.names.shown(path)));
    }

    fn done(&mut self, path: &[u8], size: u64, copied: bool) {
        let whole = self.names.whole(path);
        let shown = self.names.shown(&whole);
        match (copied, self.style) {
            (true, style) => {
                if style.omits && self.digests.is_some() {
                    self.copied.insert(whole.clone());
                }
                if self.begun.remove(whole.as_os_str().as_bytes()) == Some(false) {
                    self.append(&whole, 0);
                }
                if style.is_verbose {
                    let rate = bytes_per_s(self.pace.moved.max(size), self.pace.started.elapsed());
                    self.line(format!("File {shown} created; {size} bytes at {}", binary_rate(rate)));
                }
            }
            (false, Style { omits: true, is_verbose: true, .. }) => {
                self.line(format!("bbcp: Skipping {shown} already exists."));
            }
            (false, Style { appends: true, .. }) => {
                self.line(format!("bbcp: File {shown} appears to have already been copied; copy skipped."));
            }
            (false, _) => {}
        }
    }

    fn fail(&mut self, host: &str, path: &[u8], message: &str) {
        self.failure.get_or_insert_with(|| message.to_owned());
        self.release();
        let message = &words::in_bbcps_letters(message);
        let (first, hints) = message.split_once('\n').unwrap_or((message, ""));
        let shown = self.names.shown(Path::new(OsStr::from_bytes(path)));
        match bbcps_message(first, &shown, self.style.appends) {
            Some(words) => self.text.error(format!("{words}\n{hints}").trim_end()),
            None => self.text.failure(host, path, message),
        }
    }

    fn digest(&mut self, path: &[u8], digest: &[u8]) {
        match &mut self.digests {
            Some(output) if self.style.omits || self.names.is_unknown() => {
                output.held.push((path.to_vec(), digest.to_vec()))
            }
            _ => self.write_digest(path, digest),
        }
    }

    fn release_digests(&mut self) {
        let held = self.digests.as_mut().map(|output| std::mem::take(&mut output.held));
        for (path, digest) in held.iter().flatten() {
            if !self.style.omits || self.copied.contains(&self.names.digested(Path::new(OsStr::from_bytes(path)))) {
                self.write_digest(path, digest);
            }
        }
    }

    fn write_digest(&mut self, path: &[u8], digest: &[u8]) {
        let Some(ReportedDigests { algorithm, lines, .. }) = &mut self.digests else { return };
        let mut path = self.names.digested(Path::new(OsStr::from_bytes(path)));
        if self.names.is_in_current_directory(&path) {
            path = Path::new(".").join(path);
        }
        if let Err(error) = lines.add(*algorithm, digest, &path) {
            self.human.complain(&format!("cannot write the checksums: {error}"));
        }
    }

    fn summary(&mut self, summary: &Summary) {
        self.index(summary.counters.files_found, summary.counters.directories);
        if let Some(statistics) = &self.statistics {
            statistics.last(summary).into_iter().for_each(|line| self.text.plain(&line));
        }
    }

    /// The last line, on standard error even with a log.
    fn closing(&self, summary: &Summary) -> Option<String> {
        let is_shown = self.style.is_verbose && !self.style.is_piped && self.failure.is_none();
        if !is_shown || summary.files.copied == 0 || summary.files.bytes == 0 {
            return None;
        }
        let files = if summary.files.copied == 1 { "file" } else { "files" };
        let rate = binary_rate(bytes_per_s(summary.files.bytes, summary.times.elapsed));
        Some(format!("{} {files} copied at effectively {rate}", summary.files.copied))
    }
}

impl Observer for Lines {
    fn event(&mut self, event: &Event) {
        match event {
            Event::Connected { .. } => {
                (self.pace.started, self.pace.meter) = (Instant::now(), IntervalMeter::default());
                if self.style.is_debug {
                    self.human.event(event);
                }
            }
            Event::Progress(progress) => self.progress(progress),
            Event::Item(ItemReport { path, item, .. }) => {
                let begins = matches!(item.change, ChangeKind::Made | ChangeKind::Replaced(_));
                if item.what == EntryKind::File && begins {
                    if self.style.appends && self.style.replaces && item.change != ChangeKind::Made {
                        let path = self.names.shown(Path::new(OsStr::from_bytes(path)));
                        let text = format!("bbcp: File {path} changed since the copy completed; copy restarting.");
                        self.line(text);
                    }
                    self.begin(path);
                }
            }
            Event::Resumed(ResumeReport { path, held, .. }) if self.style.appends => {
                self.resume(Path::new(OsStr::from_bytes(path)), *held);
            }
            Event::Resumed(_) => {}
            Event::FileDone(FileReport { path, size, copied, .. }) => self.done(path, *size, *copied),
            Event::FileFailed { path, host, message } => self.fail(host, path, message),
            Event::Checksum { path, digest, .. } => self.digest(path, digest),
            Event::Skipped(_) | Event::PathChanged { .. } if !self.style.is_debug => {}
            other => self.human.event(other),
        }
    }
}

impl Show for Lines {
    fn complain(&mut self, message: &str) {
        self.human.complain(message);
    }

    fn finish(&mut self, outcome: &Outcome) -> io::Result<()> {
        self.status.set(status::of_outcome(outcome, self.failure.as_deref()));
        match outcome {
            Ok(summary) => self.summary(summary),
            Err(Error::Failed(text)) if text == FIRST_FAILURE => {}
            Err(error) => self.text.error(&words::in_bbcps_letters(&error.to_string())),
        }
        self.release();
        self.release_digests();
        if self.ends_log {
            self.text.plain(log::END);
        }
        if let Some(closing) = outcome.as_ref().ok().and_then(|summary| self.closing(summary)) {
            show::stderr().plain(&closing);
        }
        Ok(())
    }
}

/// bbcp's messages for the failures that scripts look for.
fn bbcps_message(failure: &str, path: &str, appends: bool) -> Option<String> {
    Some(match failure {
        "already exists and differs" if appends => {
            format!("File {path} changed since the copy completed; append not possible.")
        }
        "already exists" | "already exists and differs" => format!("File {path} already exists."),
        "No such file or directory" => format!("No such file or directory processing {path}"),
        "is a directory" => format!("{path} is a directory."),
        _ => return None,
    })
}

/// A progress line, with the average rate; with `-v`, also the rate since the last line.
fn progress_line(stamp: &str, percent: u64, current: Option<f64>, average: f64) -> String {
    let average = binary_rate(average);
    let rates = current.map_or(average.clone(), |current| format!("{}, avg {average}", binary_rate(current)));
    format!("bbcp: {stamp}  {percent}% done; {rates}")
}

/// `6.9 MB/s`, with megabytes of 1,048,576 bytes.
fn binary_rate(bytes_per_s: f64) -> String {
    let mut value = bytes_per_s;
    let mut unit = "";
    for next in ["K", "M", "G", "T"] {
        if value < 1024.0 {
            break;
        }
        value /= 1024.0;
        unit = next;
    }
    format!("{value:.1} {unit}B/s")
}

#[cfg(test)]
#[path = "lines_tests.rs"]
mod tests;
