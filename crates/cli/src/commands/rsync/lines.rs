//! rsync's lines (rsync(1), "OUTPUT"), since scripts read them.

mod totals;

use std::cell::Cell;
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};

use haul_base::copy::display_path::marked_base;
use haul_base::copy::error::{Error, Outcome};
use haul_base::copy::event::{ChangeKind, EntryKind, Event, ItemChange, ItemReport, MISSING, NOT_EMPTY, Observer};
use haul_base::copy::location::{Host, Location};
use haul_base::copy::spec::{CopySpec, ParentMetadata};
use haul_engine::fs::UNSAFE_LINK;
use haul_show::Show;
use haul_show::output_place::OutputPlace;
use rustix::fs::OFlags;

use super::formats::{Fields, FlagTerms, expand, flags, has};
use super::listing::{list_line, made_path};
use super::shown_name::{shown, with_bytes};
use super::status;
use super::translate::{BackupPlace, RsyncMeaning};
use super::words::in_rsyncs_words;

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
    /// The bases of relative sources.
    bases: Vec<PathBuf>,
    /// The target as its reports name it, without a slash at the end.
    target: Vec<u8>,
    status: Rc<Cell<u8>>,
    started: Instant,
    tally: EntryTally,
    /// The first lines, which are sorted as rsync's file list is; `None` once the copy takes longer.
    held: Option<Vec<HeldLine>>,
    /// Files whose digest is due, by their paths below the target.
    undigested: HashMap<Vec<u8>, ItemReport>,
    lost: Option<io::Error>,
    /// The status of the first error that ends rsync.
    last: Option<u8>,
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
    /// Bytes of the transferred ones, also in a dry run.
    bytes: u64,
    /// Failures of haul that are none in rsync.
    skipped: u64,
}

impl EntryTally {
    fn add(&mut self, report: &ItemReport) {
        let item = &report.item;
        self.deleted += u64::from(item.change == ChangeKind::Removed);
        self.created += u64::from(item.change == ChangeKind::Made);
        if is_transferred_file(report) {
            self.transferred += 1;
            self.bytes = self.bytes.saturating_add(report.size.unwrap_or(0));
        }
    }
}

/// Whether the entry, or its content, is new at the target.
fn is_transfer(item: &ItemChange) -> bool {
    matches!(item.change, ChangeKind::Made | ChangeKind::Replaced(_))
}

/// Whether this is a file whose contents are transferred.
fn is_transferred_file(report: &ItemReport) -> bool {
    report.item.what == EntryKind::File && is_transfer(&report.item) && !is_further_name(report)
}

/// Whether this is another name of a file, which is linked.
fn is_further_name(ItemReport { item, size, .. }: &ItemReport) -> bool {
    item.what == EntryKind::File && size.is_none() && item.change != ChangeKind::Removed
}

impl RsyncLines {
    /// Prints to standard output, and to the file of `--log-file`. `status` gets the exit status.
    pub fn new(style: RsyncMeaning, copy: &CopySpec, status: Rc<Cell<u8>>) -> io::Result<Self> {
        let open = |path: &OsString| match style.follows_all_links {
            true => File::options().append(true).create(true).open(path),
            false => OutputPlace::find(Path::new(path))?.open(OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE),
        };
        let log = style.log_file.as_ref().map(open);
        let log = log.transpose()?.map(|file| Box::new(file) as Box<dyn Write>);
        let default = match (style.itemises, style.verbosity > 0 || style.has_progress) {
            (true, _) => Some(&b"%i %n%L"[..]),
            (false, true) => Some(&b"%n%L"[..]),
            (false, false) => None,
        };
        let format = style.out_format.as_ref().map(|format| format.as_bytes()).or(default).map(<[u8]>::to_vec);
        let format = format.filter(|_| !style.is_quiet && !style.lists_only);
        let mut lines = Self {
            out: Box::new(io::stdout().lock()),
            log,
            has_flags: format.as_deref().is_some_and(|format| has(format, b'i')),
            format,
            style,
            sources: copy.sources.clone(),
            bases: if copy.source_host() == &Host::Local { bases(copy) } else { Vec::new() },
            target: without_slash(copy.target.path.as_os_str().as_bytes()).to_vec(),
            status,
            started: Instant::now(),
            tally: EntryTally::default(),
            held: Some(Vec::new()),
            undigested: HashMap::new(),
            lost: None,
            last: None,
        };
        let choices = std::mem::take(&mut lines.style.shown_choices);
        choices.iter().for_each(|choice| lines.print(choice));
        if (lines.style.verbosity > 0 || lines.style.has_progress) && !lines.style.lists_only {
            let is_pull = copy.source_host() != &Host::Local;
            match (lines.style.is_recursive, lines.style.has_directories, is_pull) {
                (true, _, true) => lines.print("receiving incremental file list"),
                (true, _, false) => lines.print("sending incremental file list"),
                (false, true, true) => lines.print("receiving file list ... done"),
                (false, true, false) => lines.print("building file list ... done"),
                (false, false, _) => {}
            }
        }
        if lines.style.makes_path && lines.format.is_some() && copy.target.host == Host::Local {
            made_path(copy).iter().for_each(|line| lines.print(line));
        }
        Ok(lines)
    }

    /// A line on standard output, unless `-q` forbids it.
    fn print(&mut self, line: &str) {
        if !self.style.is_quiet {
            let written = match self.style.shows_bytes {
                true => self.out.write_all(&with_bytes(line)).and_then(|()| self.out.write_all(b"\n")),
                false => writeln!(self.out, "{line}"),
            };
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
        let ItemReport { path, item: change, .. } = item;
        let Some(shown) = self.relative(path, change) else { return };
        self.tally.add(item);
        let is_data = change.what == EntryKind::File && is_transfer(change) && !is_further_name(item);
        if self.style.digest.is_none() || self.style.is_dry || !is_data {
            return self.show(item, shown, None);
        }
        let key = match below_target(path, &self.target) {
            Some(below) => below.to_vec(),
            None => path.rsplit(|byte| *byte == b'/').next().unwrap_or_default().to_vec(),
        };
        self.undigested.insert(key, item.clone());
    }

    /// Shows a file that had waited for its digest.
    fn digested(&mut self, path: &[u8], digest: &[u8]) {
        let Some(item) = self.undigested.remove(path) else { return };
        let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        if let Some(shown) = self.relative(&item.path, &item.item) {
            self.show(&item, shown, Some(&digest));
        }
    }

    fn show(&mut self, report: &ItemReport, path: Vec<u8>, digest: Option<&str>) {
        let ItemReport { item, size, first_name, .. } = report;
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
        if let Some(line) = self.kept(&name, item) {
            return self.line(path, Some(item.what), Some(line).filter(|line| !line.is_empty()), String::new());
        }
        if item.change == ChangeKind::Removed {
            let itemised = format!("*deleting   {name}");
            let line = if self.has_flags { itemised.clone() } else { format!("deleting {name}") };
            return self.line(path, None, self.format.is_some().then_some(line), itemised);
        }
        let is_link = is_further_name(report);
        let RsyncMeaning { keeps_times, compares_contents, .. } = self.style;
        let mut flags = flags(item.what, item.change, FlagTerms { keeps_times, compares_contents, is_link });
        if item.what == EntryKind::Special && self.is_device(path) {
            flags.replace_range(1..2, "D");
        }
        // Files with other metadata alone are listed with -i.
        let is_shown = is_transfer(item) || item.what == EntryKind::Directory || self.has_flags;
        let blank = self.style.digest.map_or_else(String::new, |algorithm| " ".repeat(2 * algorithm.bytes()));
        let digest = digest.unwrap_or(&blank);
        let link = if item.what == EntryKind::Symlink { self.text_of(path) } else { None };
        let link = link.map_or_else(String::new, |text| format!(" -> {text}"));
        let link = match first_name {
            Some(first) => format!(" => {}", shown(below_target(first, &self.target).unwrap_or(first))),
            None => link,
        };
        let format = self.format.as_ref().filter(|_| is_shown);
        let line = format.map(|format| {
            expand(format, &Fields { flags: &flags, name: &name, link: &link, size: size.unwrap_or(0), digest })
        });
        let has_progress = self.style.has_progress && is_transferred_file(report);
        let progress = if has_progress { self.progress(size.unwrap_or(0)) } else { String::new() };
        let line = line.map(|line| line + &progress);
        self.line(path, Some(item.what), line, format!("{flags} {name}{link}"));
    }

    /// The line of an entry that stays as it is; empty if it has none.
    fn kept(&self, name: &str, item: &ItemChange) -> Option<String> {
        let is_shown = match item.change {
            ChangeKind::Kept => self.style.shows_skipped,
            // -i lists it among the others.
            ChangeKind::Unchanged if self.has_flags && self.style.lists_unchanged => return None,
            ChangeKind::Unchanged => item.what == EntryKind::File && self.style.verbosity > 1 && !self.has_flags,
            _ => return None,
        };
        let state = match (item.change, self.style.keeps_existing) {
            (ChangeKind::Unchanged, _) => "is uptodate",
            (_, true) => "exists",
            (_, false) => "is newer",
        };
        Some(if is_shown { format!("{name} {state}") } else { String::new() })
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
        if !line.logged.is_empty() {
            self.note(&line.logged);
        }
    }

    /// The path of an item from the target down, as rsync names it; `None` for a target that is only created.
    fn relative(&mut self, path: &[u8], item: &ItemChange) -> Option<Vec<u8>> {
        let below = below_target(path, &self.target);
        if without_slash(path) != self.target {
            return Some(below.unwrap_or(path).to_vec());
        }
        let names = || self.sources.iter().map(|source| source.path.as_os_str().as_bytes());
        if item.what != EntryKind::Directory {
            let source = names().next().unwrap_or_default();
            return Some(source.rsplit(|byte| *byte == b'/').next().unwrap_or_default().to_vec());
        }
        let has_contents = names().any(|source| source.ends_with(b"/.") || source == b".")
            || self.style.parents == ParentMetadata::AllFromBase;
        if item.change == ChangeKind::Made && self.format.is_some() && !self.style.makes_path {
            let line = format!("created directory {}", shown(&self.target));
            self.print(&line);
        }
        has_contents.then(|| b".".to_vec())
    }

    /// A path at the source as rsync names it: from the directory of its source down, or from that itself if only its
    /// contents are copied.
    fn below_source<'p>(&self, path: &'p [u8]) -> &'p [u8] {
        if !self.bases.is_empty() {
            let below = |base: &PathBuf| Path::new(OsStr::from_bytes(path)).strip_prefix(base).ok();
            return self.bases.iter().find_map(below).map_or(path, |below| below.as_os_str().as_bytes());
        }
        let sources = self.sources.iter().map(|source| source.path.as_os_str().as_bytes());
        let roots =
            sources.map(|source| &source[..source.iter().rposition(|byte| *byte == b'/').map_or(0, |at| at + 1)]);
        roots.filter_map(|root| path.strip_prefix(root)).min_by_key(|below| below.len()).unwrap_or(path)
    }

    /// Whether the entry at a local source is a device, not a FIFO or socket.
    fn is_device(&self, path: &[u8]) -> bool {
        let kind = self.source_of(path).and_then(|node| node.symlink_metadata().ok()).map(|meta| meta.file_type());
        kind.is_some_and(|kind| kind.is_block_device() || kind.is_char_device())
    }

    /// The text of a symbolic link at a local source.
    fn text_of(&self, path: &[u8]) -> Option<String> {
        let to = self.source_of(path).and_then(|link| std::fs::read_link(link).ok());
        to.map(|to| shown(to.as_os_str().as_bytes()))
    }

    /// Whether no source exists.
    fn has_no_source(&self) -> bool {
        let is_absent = |source: &Location| match source.host {
            Host::Local => source.path.symlink_metadata().is_err_and(|error| error.kind() == io::ErrorKind::NotFound),
            _ => false,
        };
        !self.sources.is_empty() && self.sources.iter().all(is_absent)
    }

    /// The entry at a local source.
    fn source_of(&self, path: &[u8]) -> Option<PathBuf> {
        let path = Path::new(OsStr::from_bytes(path));
        if !self.bases.is_empty() {
            let mut places = self.bases.iter().map(|base| base.join(path));
            return places.find(|entry| entry.symlink_metadata().is_ok());
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
}

/// The bases that relative sources have.
fn bases(copy: &CopySpec) -> Vec<PathBuf> {
    let marked = |source: &Location| {
        let (base, _) = marked_base(source.path.as_os_str().as_bytes())?;
        Some(PathBuf::from(OsStr::from_bytes(base)))
    };
    match copy.options.source.marks_bases {
        true => copy.sources.iter().filter_map(marked).collect(),
        false => copy.options.source.base.iter().cloned().collect(),
    }
}

/// The path of an item from the target down.
fn below_target<'p>(path: &'p [u8], target: &[u8]) -> Option<&'p [u8]> {
    path.strip_prefix(target).and_then(|rest| rest.strip_prefix(b"/"))
}

/// A path without slashes at its end; `/` stays.
fn without_slash(path: &[u8]) -> &[u8] {
    let end = path.iter().rposition(|byte| *byte != b'/').map_or(1, |at| at + 1);
    &path[..end.min(path.len())]
}

impl Observer for RsyncLines {
    fn event(&mut self, event: &Event) {
        match event {
            Event::Item(item) => self.item(item),
            Event::Checksum { path, digest, .. } => self.digested(path, digest),
            Event::FileFailed { path, message, .. } if message.starts_with(SKIPPED) && !self.style.is_recursive => {
                self.tally.skipped += 1;
                self.print(&format!("skipping directory {}", shown(without_slash(self.below_source(path)))));
            }
            // A list or several sources may name one entry twice: rsync copies it once.
            Event::FileFailed { message, .. } if message.starts_with(NAMED_TWICE) => self.tally.skipped += 1,
            Event::FileFailed { path, message, .. } => {
                self.last = self.last.or_else(|| status::of_file(message));
                let what = message.lines().next().unwrap_or_default();
                self.error(&format!("rsync: \"{}\": {what}", shown(path)));
            }
            Event::Skipped(skipped) if skipped.reason == MISSING => {}
            Event::Skipped(skipped) if skipped.reason == NOT_EMPTY => {
                let path = below_target(&skipped.path, &self.target).unwrap_or(&skipped.path);
                self.print(&format!("cannot delete non-empty directory: {}", shown(path)));
            }
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
        self.error(&format!("rsync: {}", in_rsyncs_words(message)));
    }

    fn finish(&mut self, outcome: &Outcome) -> io::Result<()> {
        self.release();
        // Those that failed have no digest.
        for item in std::mem::take(&mut self.undigested).into_values() {
            if let Some(shown) = self.relative(&item.path, &item.item) {
                self.show(&item, shown, None);
            }
        }
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
                in_rsyncs_words(&text).lines().for_each(|line| self.error(&format!("rsync: {line}")));
            }
        }
        let status = match outcome {
            Err(Error::Failed(_) | Error::Usage(_)) if self.has_no_source() => status::PARTIAL,
            outcome => status::of(outcome, failed, self.last),
        };
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
