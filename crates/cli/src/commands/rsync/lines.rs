//! rsync's lines (rsync(1), "OUTPUT"), since scripts read them.

use std::cell::Cell;
use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};

use haul_base::copy::error::{Error, Outcome};
use haul_base::copy::event::{ChangeKind, ChangeReasons, EntryKind, Event, ItemChange, ItemReport, Observer};
use haul_base::copy::location::{Host, Location};
use haul_base::copy::spec::CopySpec;
use haul_base::copy::summary::Summary;
use haul_engine::fs::{MISSING, UNSAFE_LINK};
use haul_show::Show;
use haul_show::output_place::OutputPlace;
use haul_show::units::count;
use rustix::fs::OFlags;

use super::listing::list_line;
use super::shown_name::shown;
use super::status;
use super::translate::{BackupPlace, RsyncMeaning};

/// The message of a directory without `-r`.
const SKIPPED: &str = "is a directory";
/// The message of a second entry of one name.
const NAMED_TWICE: &str = "another entry has got this name";

/// rsync's output.
pub struct RsyncLines {
    out: Box<dyn Write>,
    log: Option<Box<dyn Write>>,
    style: RsyncMeaning,
    /// What `--out-format` or `-i` prints for an entry; `None` without any.
    format: Option<Vec<u8>>,
    /// Whether the format contains `%i`.
    has_flags: bool,
    sources: Vec<Location>,
    /// The base of relative sources.
    base: Option<PathBuf>,
    /// The target as its reports name it, without a slash at the end.
    target: Vec<u8>,
    status: Rc<Cell<u8>>,
    started: Instant,
    tally: EntryTally,
    /// The first lines, which are sorted as rsync's file list is; `None` once the copy takes longer.
    held: Option<Vec<HeldLine>>,
    lost: Option<io::Error>,
}

/// A line about an entry.
struct HeldLine {
    /// Its place in rsync's order.
    place: Vec<(bool, Vec<u8>)>,
    /// On standard output, if it is shown there.
    shown: Option<String>,
    /// In the log.
    logged: String,
}

/// For so long, lines are held to be sorted.
const HELD_FOR: Duration = Duration::from_secs(1);
/// Most lines that are held.
const HELD_MAX: usize = 10_000;

/// Entries for `--stats`.
#[derive(Default)]
struct EntryTally {
    created: u64,
    deleted: u64,
    transferred: u64,
    /// Failures of haul that are none in rsync.
    skipped: u64,
}

impl EntryTally {
    fn add(&mut self, item: &ItemChange) {
        self.deleted += u64::from(item.change == ChangeKind::Removed);
        self.created += u64::from(item.change == ChangeKind::Made);
        self.transferred += u64::from(item.what == EntryKind::File && is_transfer(item));
    }
}

/// Whether the entry, or its content, is new at the target.
fn is_transfer(item: &ItemChange) -> bool {
    matches!(item.change, ChangeKind::Made | ChangeKind::Replaced(_))
}

impl RsyncLines {
    /// Prints to standard output, and to the file of `--log-file`. `status` gets the exit status.
    pub fn new(style: RsyncMeaning, copy: &CopySpec, status: Rc<Cell<u8>>) -> io::Result<Self> {
        let open = |path: &OsString| {
            OutputPlace::find(Path::new(path))?.open(OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE)
        };
        let log = style.log_file.as_ref().map(open);
        let log = log.transpose()?.map(|file| Box::new(file) as Box<dyn Write>);
        let default = match (style.itemises, style.verbosity) {
            (true, _) => Some(&b"%i %n%L"[..]),
            (false, 1..) => Some(&b"%n%L"[..]),
            (false, 0) => None,
        };
        let format = style.out_format.as_ref().map(|format| format.as_bytes()).or(default).map(<[u8]>::to_vec);
        let format = format.filter(|_| !style.is_quiet && !style.lists_only);
        let mut lines = Self {
            out: Box::new(io::stdout().lock()),
            log,
            has_flags: format.as_deref().is_some_and(has_flags),
            format,
            style,
            sources: copy.sources.clone(),
            base: copy.options.source.base.clone().filter(|_| copy.source_host() == &Host::Local),
            target: without_slash(copy.target.path.as_os_str().as_bytes()).to_vec(),
            status,
            started: Instant::now(),
            tally: EntryTally::default(),
            held: Some(Vec::new()),
            lost: None,
        };
        if lines.style.verbosity > 0 && !lines.style.lists_only {
            let is_pull = copy.source_host() != &Host::Local;
            match (lines.style.is_recursive, lines.style.has_directories, is_pull) {
                (true, _, true) => lines.print("receiving incremental file list"),
                (true, _, false) => lines.print("sending incremental file list"),
                (false, true, true) => lines.print("receiving file list ... done"),
                (false, true, false) => lines.print("building file list ... done"),
                (false, false, _) => {}
            }
        }
        Ok(lines)
    }

    /// A line on standard output, unless `-q` forbids it.
    fn print(&mut self, line: &str) {
        if !self.style.is_quiet {
            let written = writeln!(self.out, "{line}");
            self.lost = self.lost.take().or(written.err());
        }
    }

    fn error(&mut self, line: &str) {
        let _ = self.out.flush();
        let _ = writeln!(io::stderr(), "{line}");
        self.note(line);
    }

    /// A line in the log.
    fn note(&mut self, line: &str) {
        let Some(log) = &mut self.log else { return };
        let now = jiff::Zoned::now().strftime("%Y/%m/%d %H:%M:%S").to_string();
        let written = writeln!(log, "{now} [{}] {line}", std::process::id());
        self.lost = self.lost.take().or(written.err());
    }

    fn item(&mut self, item: &ItemReport) {
        let ItemReport { path, item, size, .. } = item;
        let Some(path) = self.relative(path, item) else { return };
        self.tally.add(item);
        if self.style.lists_only {
            let line = self
                .source_of(&path)
                .and_then(|source| list_line(&source, item.what, &path, self.style.keeps_links).ok());
            let logged = line.clone().unwrap_or_default();
            return self.line(&path, Some(item.what), line, logged);
        }
        self.backup(&path, item);
        if self.format.is_none() && self.log.is_none() {
            return;
        }
        let name = format!("{}{}", shown(&path), if item.what == EntryKind::Directory { "/" } else { "" });
        let path = path.as_slice();
        if item.change == ChangeKind::Removed {
            let itemised = format!("*deleting   {name}");
            let line = if self.has_flags { itemised.clone() } else { format!("deleting {name}") };
            return self.line(path, None, self.format.is_some().then_some(line), itemised);
        }
        let flags = flags(item.what, item.change, self.style.keeps_times);
        // Files with other metadata alone are listed with -i.
        let is_shown = is_transfer(item) || item.what == EntryKind::Directory || self.has_flags;
        let link = if item.what == EntryKind::Symlink { self.text_of(path) } else { None };
        let link = link.map_or_else(String::new, |text| format!(" -> {text}"));
        let format = self.format.as_ref().filter(|_| is_shown);
        let line = format.map(|format| expand(format, &flags, &name, &link, size.unwrap_or(0)));
        self.line(path, Some(item.what), line, format!("{flags} {name}{link}"));
    }

    /// Names the backup of a replaced or deleted entry.
    fn backup(&mut self, path: &[u8], item: &ItemChange) {
        let Some(BackupPlace { directory, suffix }) = &self.style.shown_backups else { return };
        let suffix = suffix.as_bytes();
        let is_kept = match item.change {
            ChangeKind::Replaced(_) => true,
            ChangeKind::Removed => !directory.is_empty() || !path.ends_with(suffix),
            _ => false,
        };
        if is_kept && item.what != EntryKind::Directory {
            let above = if directory.is_empty() { &b""[..] } else { b"/" };
            let kept = [directory.as_bytes(), above, path, suffix].concat();
            self.print(&format!("backed up {} to {}", shown(path), shown(&kept)));
        }
    }

    /// A line about an entry; `what` is its type, and `None` of a deleted one, which precedes its directory's entries.
    fn line(&mut self, path: &[u8], what: Option<EntryKind>, shown: Option<String>, logged: String) {
        let names: Vec<_> = path.split(|byte| *byte == b'/').map(<[u8]>::to_vec).collect();
        let last = names.len() - 1;
        let place = names.into_iter().enumerate().map(|(at, name)| {
            let is_directory = at < last || what == Some(EntryKind::Directory) && name != b".";
            let name = if what.is_none() && at == last || name == b"." { Vec::new() } else { name };
            (is_directory, name)
        });
        let line = HeldLine { place: place.collect(), shown, logged };
        let is_late = self.started.elapsed() > HELD_FOR;
        match &mut self.held {
            Some(held) if !is_late && held.len() < HELD_MAX => held.push(line),
            _ => {
                self.release();
                self.put(line);
            }
        }
    }

    /// Prints the held lines in order.
    fn release(&mut self) {
        let mut held = self.held.take().unwrap_or_default();
        held.sort_by(|a, b| a.place.cmp(&b.place));
        held.into_iter().for_each(|line| self.put(line));
    }

    fn put(&mut self, line: HeldLine) {
        line.shown.iter().for_each(|shown| self.print(shown));
        self.note(&line.logged);
    }

    /// The path of an item from the target down, as rsync names it; `None` for a target that is only created.
    fn relative(&mut self, path: &[u8], item: &ItemChange) -> Option<Vec<u8>> {
        let below = path.strip_prefix(&self.target[..]).and_then(|rest| rest.strip_prefix(b"/"));
        if without_slash(path) != self.target {
            return Some(below.unwrap_or(path).to_vec());
        }
        let names = || self.sources.iter().map(|source| source.path.as_os_str().as_bytes());
        if item.what != EntryKind::Directory {
            let source = names().next().unwrap_or_default();
            return Some(source.rsplit(|byte| *byte == b'/').next().unwrap_or_default().to_vec());
        }
        let has_contents = names().any(|source| source.ends_with(b"/.") || source == b".");
        if item.change == ChangeKind::Made && self.format.is_some() {
            let line = format!("created directory {}", shown(&self.target));
            self.print(&line);
        }
        has_contents.then(|| b".".to_vec())
    }

    /// A path at the source as rsync names it: from the directory of its source down, or from that itself if only its
    /// contents are copied.
    fn below_source<'p>(&self, path: &'p [u8]) -> &'p [u8] {
        if let Some(base) = &self.base {
            let below = path.strip_prefix(base.as_os_str().as_bytes());
            return below.and_then(|below| below.strip_prefix(b"/")).unwrap_or(path);
        }
        let sources = self.sources.iter().map(|source| source.path.as_os_str().as_bytes());
        let roots =
            sources.map(|source| &source[..source.iter().rposition(|byte| *byte == b'/').map_or(0, |at| at + 1)]);
        roots.filter_map(|root| path.strip_prefix(root)).min_by_key(|below| below.len()).unwrap_or(path)
    }

    /// The text of a symbolic link at a local source.
    fn text_of(&self, path: &[u8]) -> Option<String> {
        let to = self.source_of(path).and_then(|link| std::fs::read_link(link).ok());
        to.map(|to| shown(to.as_os_str().as_bytes()))
    }

    /// The entry at a local source.
    fn source_of(&self, path: &[u8]) -> Option<PathBuf> {
        let path = Path::new(OsStr::from_bytes(path));
        if let Some(base) = &self.base {
            return Some(base.join(path));
        }
        let local = self.sources.iter().filter(|source| source.host == Host::Local);
        local
            .filter_map(|source| {
                let whole = source.path.as_os_str().as_bytes();
                let parent = if whole.ends_with(b"/.") { Some(source.path.as_path()) } else { source.path.parent() };
                parent.map(|parent| parent.join(path)).filter(|entry| entry.symlink_metadata().is_ok())
            })
            .next()
    }

    fn totals(&mut self, summary: &Summary) {
        let files = summary.files;
        let size = files.bytes.saturating_add(files.bytes_skipped);
        let (sent, received) = (summary.counters.bytes_on_wire.max(files.bytes), 0);
        let elapsed = self.started.elapsed().max(Duration::from_millis(500));
        if self.style.has_statistics {
            let reg = files.copied.saturating_add(files.skipped);
            let (dir, link) = (summary.counters.directories, summary.counters.symlinks);
            let parts = [("reg", reg), ("dir", dir), ("link", link)].into_iter().filter(|(_, value)| *value > 0);
            let parts: Vec<_> = parts.map(|(kind, value)| format!("{kind}: {}", count(value))).collect();
            let kinds = if parts.is_empty() { String::new() } else { format!(" ({})", parts.join(", ")) };
            let matched = summary.delta.map_or(0, |delta| delta.old_bytes);
            let EntryTally { created, deleted, transferred, .. } = self.tally;
            let lines = [
                String::new(),
                format!("Number of files: {}{kinds}", count(reg + dir + link)),
                format!("Number of created files: {}", count(created)),
                format!("Number of deleted files: {}", count(deleted)),
                format!("Number of regular files transferred: {}", count(transferred)),
                format!("Total file size: {} bytes", count(size)),
                format!("Total transferred file size: {} bytes", count(files.bytes)),
                format!("Literal data: {} bytes", count(files.bytes.saturating_sub(matched))),
                format!("Matched data: {} bytes", count(matched)),
                "File list size: 0".to_owned(),
                "File list generation time: 0.001 seconds".to_owned(),
                "File list transfer time: 0.000 seconds".to_owned(),
                format!("Total bytes sent: {}", count(sent)),
                format!("Total bytes received: {}", count(received)),
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
            self.print(&format!("sent {} bytes  received {} bytes  {} bytes/sec", count(sent), count(received), rate));
            self.print(&format!("total size is {}  speedup is {}{dry}", count(size), speedup));
        }
    }
}

/// A path without slashes at its end; `/` stays.
fn without_slash(path: &[u8]) -> &[u8] {
    let end = path.iter().rposition(|byte| *byte != b'/').map_or(1, |at| at + 1);
    &path[..end.min(path.len())]
}

/// A quotient with two decimals: `1,234.50`.
fn quotient(value: u64, divisor: u64) -> String {
    let hundredths = u128::from(value) * 100 / u128::from(divisor.max(1));
    let whole = u64::try_from(hundredths / 100).unwrap_or(u64::MAX);
    format!("{}.{:02}", count(whole), hundredths % 100)
}

/// The flags of `%i`: `YXcstpoguax`.
fn flags(what: EntryKind, change: ChangeKind, keeps_times: bool) -> String {
    let kind = match what {
        EntryKind::File => 'f',
        EntryKind::Directory => 'd',
        EntryKind::Symlink => 'L',
        EntryKind::Special => 'S',
    };
    let (update, reasons) = match change {
        ChangeKind::Made if what == EntryKind::File => return ">f+++++++++".to_owned(),
        ChangeKind::Made => return format!("c{kind}+++++++++"),
        ChangeKind::Linked => return format!("h{kind}+++++++++"),
        ChangeKind::Removed => return "*deleting  ".to_owned(),
        ChangeKind::Replaced(reasons) => (if what == EntryKind::File { '>' } else { 'c' }, reasons),
        ChangeKind::Adjusted(reasons) => ('.', reasons),
    };
    let flag = |reason: ChangeReasons, letter: char| if reasons.has(reason) { letter } else { '.' };
    let content = flag(ChangeReasons::CONTENT, 'c');
    let size = flag(ChangeReasons::SIZE, 's');
    // The time of a transfer is its own.
    let time = match (keeps_times, change) {
        (false, ChangeKind::Replaced(_)) => 'T',
        _ => flag(ChangeReasons::TIME, 't'),
    };
    let [mode, owner] = [flag(ChangeReasons::MODE, 'p'), flag(ChangeReasons::OWNER, 'o')];
    let attributes = flag(ChangeReasons::ATTRIBUTES, 'x');
    format!("{update}{kind}{content}{size}{time}{mode}{owner}...{attributes}")
}

/// Whether a format contains `%i`.
fn has_flags(format: &[u8]) -> bool {
    let mut is_escaped = false;
    format.iter().any(|byte| {
        let is_flags = is_escaped && *byte == b'i';
        is_escaped = *byte == b'%' && !is_escaped;
        is_flags
    })
}

/// Fills in rsync's `--out-format`.
fn expand(format: &[u8], flags: &str, name: &str, link: &str, size: u64) -> String {
    let mut line = String::new();
    let text = String::from_utf8_lossy(format);
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match (c, if c == '%' { chars.next() } else { None }) {
            ('%', Some('i')) => line.push_str(flags),
            ('%', Some('n')) => line.push_str(name),
            ('%', Some('f')) => line.push_str(name.trim_end_matches('/')),
            ('%', Some('L')) => line.push_str(link),
            ('%', Some('o')) => line.push_str("send"),
            ('%', Some('l')) => line.push_str(&size.to_string()),
            ('%', Some('%')) => line.push('%'),
            ('%', Some(other)) => line.extend(['%', other]),
            (c, _) => line.push(c),
        }
    }
    line
}

impl Observer for RsyncLines {
    fn event(&mut self, event: &Event) {
        match event {
            Event::Item(item) => self.item(item),
            Event::FileFailed { path, message, .. } if message.starts_with(SKIPPED) && !self.style.is_recursive => {
                self.tally.skipped += 1;
                self.print(&format!("skipping directory {}", shown(without_slash(self.below_source(path)))));
            }
            // A list or several sources may name one entry twice: rsync copies it once.
            Event::FileFailed { message, .. } if message.starts_with(NAMED_TWICE) => self.tally.skipped += 1,
            Event::FileFailed { path, message, .. } => {
                let what = message.lines().next().unwrap_or_default();
                self.error(&format!("rsync: \"{}\": {what}", shown(path)));
            }
            Event::Skipped(skipped) if skipped.reason == MISSING => {}
            Event::Skipped(skipped) if skipped.reason == UNSAFE_LINK => {
                let path = self.below_source(&skipped.path);
                let text = self.text_of(path).unwrap_or_default();
                let line = format!("ignoring unsafe symlink \"{}\" -> \"{text}\"", shown(path));
                if self.style.verbosity > 0 {
                    self.print(&line);
                }
            }
            Event::Skipped(skipped) if !self.style.is_quiet => {
                let line = format!("skipping non-regular file \"{}\"", shown(self.below_source(&skipped.path)));
                self.print(&line);
            }
            Event::Warning(text) if self.style.verbosity > 1 => self.error(&format!("rsync: warning: {text}")),
            Event::Restarted { reason, .. } => self.error(&format!("rsync: {reason}; reconnecting")),
            _ => {}
        }
    }
}

impl Show for RsyncLines {
    fn complain(&mut self, message: &str) {
        self.error(&format!("rsync: {message}"));
    }

    fn finish(&mut self, outcome: &Outcome) -> io::Result<()> {
        self.release();
        let mut failed = 0;
        match outcome {
            Ok(summary) => {
                failed = summary.files.failed.saturating_sub(self.tally.skipped);
                self.totals(summary);
            }
            Err(error) => {
                let text = match error {
                    Error::Interrupted => "received SIGINT, SIGTERM, or SIGHUP".to_owned(),
                    error => error.to_string(),
                };
                text.lines().for_each(|line| self.error(&format!("rsync: {line}")));
            }
        }
        let status = status::of(outcome, failed);
        if let Some(why) = status::words(status) {
            self.error(&format!("rsync error: {why} (code {status}) [haul]"));
        }
        self.status.set(status);
        let flushed = self.out.flush();
        match self.lost.take() {
            Some(lost) => Err(lost),
            None => flushed,
        }
    }
}
