//! `--checksums FILE`: lines that `b3sum --check`, or `sha256sum --check` and its like, accept, for every file that is
//! whole; and what `-E` tells.
//!
//! A file appears complete or not at all, unless lines are added to it. Names that b3sum cannot read back
//! (they are not UTF-8, or contain U+FFFD) are counted and named, not written.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, IsTerminal, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use haul_engine::event::Event;
use haul_proto::path::escape;
use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;

use crate::manifest::line::Form;
use crate::show::text::harmless;

/// Bytes of lines that are collected before they are written.
const BUFFER: usize = 64 << 10;

/// Temporary files of this process that exist now.
static UNFINISHED: Unfinished = Unfinished(Mutex::new(BTreeSet::new()));

/// Removes what is not finished, for a process that ends here and now.
pub fn remove_unfinished() {
    UNFINISHED.remove_all();
}

/// Temporary files, to be removed on whatever way the process ends.
struct Unfinished(Mutex<BTreeSet<PathBuf>>);

/// The lines, on their way to where they go.
pub struct Checksums {
    shown: String,
    form: Form,
    out: BufWriter<Box<dyn Write>>,
    /// The file under its temporary name, and the final one.
    pending: Option<Pending>,
    incomplete: bool,
    /// A person reads them, and names are shown without what could disturb a terminal.
    on_terminal: bool,
    without_digest: u64,
    broken: Option<io::Error>,
}

/// A temporary file; removed unless it got its final name.
struct Pending {
    file: File,
    temporary: PathBuf,
    target: PathBuf,
}

/// What the lines do not cover, and whether they could be written.
#[derive(Debug)]
pub struct Report {
    /// Whether lines are missing that should be there: a job with them did not do all it was asked for.
    pub incomplete: bool,
    /// What to say, one message each.
    pub messages: Vec<String>,
}

impl Checksums {
    /// Opens `to`, or standard output for `-`. A file keeps its old content until the job is over.
    pub fn create(to: &Path, form: Form) -> io::Result<Self> {
        let shown = match to.as_os_str().as_encoded_bytes() {
            b"-" => "standard output".to_owned(),
            name => escape(name),
        };
        let (out, pending): (Box<dyn Write>, _) = if to.as_os_str() == "-" {
            (Box::new(io::stdout()), None)
        } else {
            // What a link points to is replaced, not the link; and a device is written to.
            let target = fs::canonicalize(to).unwrap_or_else(|_| to.to_owned());
            match fs::metadata(&target) {
                Ok(there) if there.is_dir() => return Err(io::ErrorKind::IsADirectory.into()),
                Ok(there) if !there.is_file() => (Box::new(OpenOptions::new().write(true).open(&target)?), None),
                _ => {
                    let pending = Pending::create(target)?;
                    (Box::new(pending.file.try_clone()?), Some(pending))
                }
            }
        };
        let on_terminal = to.as_os_str() == "-" && io::stdout().is_terminal();
        Ok(Self { pending, on_terminal, ..Self::to(out, shown, form) })
    }

    /// Lines behind what the file has.
    pub fn append(to: &Path, form: Form) -> io::Result<Self> {
        let out = OpenOptions::new().create(true).append(true).open(to)?;
        Ok(Self::to(Box::new(out), escape(to.as_os_str().as_encoded_bytes()), form))
    }

    /// Lines on standard error, where standard output has something else.
    pub fn on_standard_error(form: Form) -> Self {
        Self {
            on_terminal: io::stderr().is_terminal(),
            ..Self::to(Box::new(io::stderr()), "standard error".into(), form)
        }
    }

    fn to(out: Box<dyn Write>, shown: String, form: Form) -> Self {
        let out = BufWriter::with_capacity(BUFFER, out);
        Self { shown, form, out, pending: None, incomplete: false, on_terminal: false, without_digest: 0, broken: None }
    }

    /// Takes what a job tells of a file, if it is the digest that lines are for. Returns what to say about a name that
    /// cannot be written.
    pub fn event(&mut self, event: &Event) -> Option<String> {
        match (event, self.form) {
            (Event::FileDone { path, digest, .. }, Form::B3sum) => {
                self.add(path, digest.as_ref().map(<[u8; 32]>::as_slice))
            }
            (Event::Checksum { path, digest, .. }, Form::Coreutils | Form::Bbcp(_)) => self.add(path, Some(digest)),
            _ => None,
        }
    }

    /// Takes the line of a finished file.
    fn add(&mut self, path: &[u8], digest: Option<&[u8]>) -> Option<String> {
        let Some(digest) = digest else {
            self.without_digest += 1;
            return None;
        };
        let Some(line) = self.form.line(path, digest) else {
            self.incomplete = true;
            return Some(format!(
                "{}: not among the checksums: b3sum cannot read back a name that is not UTF-8",
                escape(path)
            ));
        };
        if self.broken.is_none() {
            self.broken = self.write(&line).err();
        }
        None
    }

    /// Who reads lines on a terminal reads them as they come.
    fn write(&mut self, line: &[u8]) -> io::Result<()> {
        if !self.on_terminal {
            return self.out.write_all(line);
        }
        let line = String::from_utf8_lossy(line);
        writeln!(self.out, "{}", harmless(line.trim_end_matches('\n')))?;
        self.out.flush()
    }

    /// Gives the file its name. Whatever the lines lack is in the report.
    pub fn finish(mut self) -> Report {
        let mut report = Report { incomplete: self.incomplete, messages: Vec::new() };
        let written = self.broken.take().map_or(Ok(()), Err).and_then(|()| self.out.flush());
        if let Err(error) = written.and_then(|()| self.pending.as_mut().map_or(Ok(()), Pending::publish)) {
            report.incomplete = true;
            report
                .messages
                .push(format!("{}: could not be written: {error}\nthe files themselves are not affected", self.shown));
        }
        if self.without_digest > 0 {
            let files = crate::show::units::files(self.without_digest);
            let message = format!("{} lacks {files}, there already and not read again", self.shown);
            report.messages.push(message);
        }
        report
    }
}

impl Pending {
    fn create(target: PathBuf) -> io::Result<Self> {
        let temporary = target.with_file_name(temporary_name(&target)?);
        remove_stale(&temporary)?;
        let mut unfinished = UNFINISHED.lock();
        let file = OpenOptions::new().write(true).create_new(true).open(&temporary)?;
        unfinished.insert(temporary.clone());
        drop(unfinished);
        let pending = Self { file, temporary, target };
        match flock(&pending.file, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::AGAIN) => Err(taken()),
            // Where nothing can be locked, two runs at a time are not noticed.
            _ => Ok(pending),
        }
    }

    /// Whether the temporary name is still that of this file.
    fn is_there(&self) -> bool {
        let (Ok(ours), Ok(there)) = (self.file.metadata(), fs::symlink_metadata(&self.temporary)) else { return false };
        (ours.dev(), ours.ino()) == (there.dev(), there.ino())
    }

    fn publish(&mut self) -> io::Result<()> {
        self.file.sync_all()?;
        let mut unfinished = UNFINISHED.lock();
        if !self.is_there() {
            return Err(io::Error::other("its temporary file was taken away"));
        }
        fs::rename(&self.temporary, &self.target)?;
        unfinished.remove(&self.temporary);
        self.temporary.clear();
        Ok(())
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if UNFINISHED.lock().remove(&self.temporary) && self.is_there() {
            let _ = fs::remove_file(&self.temporary);
        }
    }
}

impl Unfinished {
    fn remove_all(&self) {
        for path in std::mem::take(&mut *self.lock()) {
            let _ = fs::remove_file(path);
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<PathBuf>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The same in every run, so that what a killed run left is found by the next; of the form that haul leaves out when
/// it copies a directory.
fn temporary_name(target: &Path) -> io::Result<String> {
    let name = target.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let digest = blake3::Hasher::new().update(b"checksums\0").update(name.as_bytes()).finalize();
    Ok(format!(".haul-{}.part", &digest.to_hex()[..24]))
}

/// Removes what a killed run left. A file that another run is writing, or what is no file, stays: the first is an
/// error, and so is making a file where the second is.
fn remove_stale(temporary: &Path) -> io::Result<()> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY).bits();
    let opened = OpenOptions::new().read(true).custom_flags(flags.cast_signed()).open(temporary);
    let Ok(file) = opened else { return Ok(()) };
    if !file.metadata()?.is_file() {
        return Ok(());
    }
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::AGAIN) => Err(taken()),
        _ => fs::remove_file(temporary),
    }
}

fn taken() -> io::Error {
    io::Error::other("another haul is writing it at this moment\nwait for that, or name another file")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileTypeExt;

    const DIGEST: [u8; 32] = [0xab; 32];

    fn create(to: &Path) -> io::Result<Checksums> {
        Checksums::create(to, Form::B3sum)
    }

    fn line(path: &[u8]) -> String {
        String::from_utf8(Form::B3sum.line(path, &DIGEST).unwrap()).unwrap()
    }

    fn complete(report: Report) -> bool {
        !report.incomplete && report.messages.is_empty()
    }

    #[test]
    fn the_file_appears_whole_and_replaces_the_old_one() {
        let dir = tempfile::tempdir().unwrap();
        let to = dir.path().join("sums");
        fs::write(&to, "old").unwrap();
        let mut sums = create(&to).unwrap();
        assert_eq!(sums.add(b"a", Some(&DIGEST)), None);
        assert_eq!(fs::read_to_string(&to).unwrap(), "old");
        assert!(complete(sums.finish()));
        assert_eq!(fs::read_to_string(&to).unwrap(), line(b"a"));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn an_interrupted_job_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let mut sums = create(&dir.path().join("sums")).unwrap();
        sums.add(b"a", Some(&DIGEST));
        drop(sums);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn what_a_killed_run_left_is_replaced_and_a_running_one_is_not_disturbed() {
        let dir = tempfile::tempdir().unwrap();
        let to = dir.path().join("sums");
        let temporary = dir.path().join(temporary_name(&to).unwrap());
        fs::write(&temporary, "left").unwrap();
        let mut sums = create(&to).unwrap();
        sums.add(b"a", Some(&DIGEST));
        let error = create(&to).err().unwrap().to_string();
        assert!(error.starts_with("another haul is writing it"), "{error}");
        assert!(complete(sums.finish()));
        assert_eq!(fs::read_to_string(&to).unwrap(), line(b"a"));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_somebody_else_put_there_is_not_given_the_name() {
        let dir = tempfile::tempdir().unwrap();
        let to = dir.path().join("sums");
        let sums = create(&to).unwrap();
        let temporary = dir.path().join(temporary_name(&to).unwrap());
        fs::remove_file(&temporary).unwrap();
        fs::write(&temporary, "theirs").unwrap();
        assert!(sums.finish().incomplete);
        assert!(!to.exists() && temporary.exists());
    }

    #[test]
    fn what_is_no_file_of_ours_stays() {
        let dir = tempfile::tempdir().unwrap();
        let to = dir.path().join("sums");
        let temporary = dir.path().join(temporary_name(&to).unwrap());
        fs::write(dir.path().join("other"), "other").unwrap();
        std::os::unix::fs::symlink("other", &temporary).unwrap();
        assert!(create(&to).is_err());
        assert!(fs::symlink_metadata(&temporary).unwrap().is_symlink());
        assert_eq!(fs::read_to_string(dir.path().join("other")).unwrap(), "other");
    }

    #[test]
    fn a_process_that_ends_at_once_removes_what_it_has_begun() {
        let dir = tempfile::tempdir().unwrap();
        let begun = dir.path().join("begun");
        fs::write(&begun, "").unwrap();
        let unfinished = Unfinished(Mutex::new([begun.clone()].into()));
        unfinished.remove_all();
        assert!(!begun.exists() && unfinished.lock().is_empty());
        let sums = create(&dir.path().join("sums")).unwrap();
        let temporary = sums.pending.as_ref().unwrap().temporary.clone();
        assert!(UNFINISHED.lock().contains(&temporary));
        drop(sums);
        assert!(!UNFINISHED.lock().contains(&temporary) && !temporary.exists());
    }

    #[test]
    fn what_is_missing_is_said() {
        let dir = tempfile::tempdir().unwrap();
        let mut sums = create(&dir.path().join("sums")).unwrap();
        let said = sums.add(b"\xff", Some(&DIGEST)).unwrap();
        assert!(said.starts_with("\\xff: "), "{said}");
        sums.add(b"there", None);
        let report = sums.finish();
        assert!(report.incomplete && report.messages[0].contains("lacks 1 file, "), "{report:?}");
    }

    #[test]
    fn a_device_stays_a_device_and_a_link_a_link() {
        let mut sums = create(Path::new("/dev/null")).unwrap();
        sums.add(b"a", Some(&DIGEST));
        assert!(complete(sums.finish()));
        assert!(fs::metadata("/dev/null").unwrap().file_type().is_char_device());
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("real"), "old").unwrap();
        let link = dir.path().join("link");
        std::os::unix::fs::symlink("real", &link).unwrap();
        assert!(complete(create(&link).unwrap().finish()));
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read_to_string(dir.path().join("real")).unwrap(), "");
    }

    #[test]
    fn a_place_that_cannot_be_written_is_known_before_the_job() {
        assert!(create(Path::new("/nonexistent/sums")).is_err());
        assert!(create(Path::new("/")).is_err());
    }
}
