//! `--checksums FILE`: lines for `b3sum --check`, or `sha256sum --check` and the like, for every complete file; and the
//! output of `--checksum`.
//!
//! A file appears complete or not at all, unless lines are appended. Names that b3sum cannot read back (not UTF-8, or
//! with U+FFFD) are counted and named, not written.

use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::Path;

use haul_base::copy::event::{Event, FileReport};
use haul_proto::path::escape;
use haul_show::manifest_line::LineFormat;
use haul_show::pending::{Pending, ReplaceableFile};
use haul_show::text::harmless;

/// Size of the write buffer, in bytes.
const BUFFER: usize = 64 << 10;

/// A writer of digest lines.
pub struct Checksums {
    shown: String,
    form: LineFormat,
    out: BufWriter<Box<dyn Write>>,
    /// The file; `None` for standard output.
    pending: Option<Pending>,
    incomplete: bool,
    /// Whether to escape control characters for a terminal.
    on_terminal: bool,
    without_digest: u64,
    broken: Option<io::Error>,
}

/// Missing lines, and whether the others could be written.
#[derive(Debug)]
pub struct ChecksumReport {
    /// Whether lines are missing: the copy is then incomplete.
    pub incomplete: bool,
    /// Messages for the user.
    pub messages: Vec<String>,
}

impl Checksums {
    /// Opens `to`, or standard output for `-`. A file keeps its old contents until the copy ends.
    pub fn create(to: &Path, form: LineFormat) -> io::Result<Self> {
        let shown = match to.as_os_str().as_encoded_bytes() {
            b"-" => "standard output".to_owned(),
            name => escape(name),
        };
        let pending = (to.as_os_str() != "-").then(|| Pending::create(to, ReplaceableFile::Checksums)).transpose()?;
        let out: Box<dyn Write> = match &pending {
            Some(pending) => Box::new(pending.writer()?),
            None => Box::new(io::stdout()),
        };
        let on_terminal = to.as_os_str() == "-" && io::stdout().is_terminal();
        Ok(Self { pending, on_terminal, ..Self::to(out, shown, form) })
    }

    /// Appends to a file.
    pub fn append(to: &Path, form: LineFormat) -> io::Result<Self> {
        let out = ReplaceableFile::Checksums.open_to_append(to, |_| false)?;
        Ok(Self::to(Box::new(out), escape(to.as_os_str().as_encoded_bytes()), form))
    }

    /// Writes to standard error, if standard output has other output.
    pub fn on_standard_error(form: LineFormat) -> Self {
        Self {
            on_terminal: io::stderr().is_terminal(),
            ..Self::to(Box::new(io::stderr()), "standard error".into(), form)
        }
    }

    fn to(out: Box<dyn Write>, shown: String, form: LineFormat) -> Self {
        let out = BufWriter::with_capacity(BUFFER, out);
        Self { shown, form, out, pending: None, incomplete: false, on_terminal: false, without_digest: 0, broken: None }
    }

    /// Adds the file of an event, if it has the requested digest. Returns a warning for a name that cannot be written.
    pub fn event(&mut self, event: &Event) -> Option<String> {
        match (event, self.form) {
            (Event::FileDone(FileReport { path, digest, .. }), LineFormat::B3sum) => {
                self.add(path, digest.as_ref().map(<[u8; 32]>::as_slice))
            }
            (Event::Checksum { path, digest, .. }, LineFormat::Coreutils | LineFormat::Bbcp(_)) => {
                self.add(path, Some(digest))
            }
            _ => None,
        }
    }

    /// Adds the line of a complete file.
    fn add(&mut self, path: &[u8], digest: Option<&[u8]>) -> Option<String> {
        let Some(digest) = digest else {
            self.without_digest += 1;
            return None;
        };
        let Some(line) = self.form.line(path, digest) else {
            self.incomplete = true;
            return Some(format!("{}: no checksum line: b3sum cannot read a name that is not UTF-8", escape(path)));
        };
        if self.broken.is_none() {
            self.broken = self.write(&line).err();
        }
        None
    }

    /// Writes a line; to a terminal, without delay.
    fn write(&mut self, line: &[u8]) -> io::Result<()> {
        if !self.on_terminal {
            return self.out.write_all(line);
        }
        let line = String::from_utf8_lossy(line);
        writeln!(self.out, "{}", harmless(line.trim_end_matches('\n')))?;
        self.out.flush()
    }

    /// Publishes the file. The report lists missing lines.
    pub fn finish(mut self) -> ChecksumReport {
        let mut report = ChecksumReport { incomplete: self.incomplete, messages: Vec::new() };
        let written = self.broken.take().map_or(Ok(()), Err).and_then(|()| self.out.flush());
        if let Err(error) = written.and_then(|()| self.pending.take().map_or(Ok(()), Pending::publish)) {
            report.incomplete = true;
            report
                .messages
                .push(format!("{}: cannot write the checksums (the files are not affected): {error}", self.shown));
        }
        if self.without_digest > 0 {
            let files = haul_show::units::files(self.without_digest);
            let message = format!("{} lacks {files}, which were up to date and not read", self.shown);
            report.messages.push(message);
        }
        report
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const DIGEST: [u8; 32] = [0xab; 32];

    fn create(to: &Path) -> io::Result<Checksums> {
        Checksums::create(to, LineFormat::B3sum)
    }

    fn line(path: &[u8]) -> String {
        String::from_utf8(LineFormat::B3sum.line(path, &DIGEST).unwrap()).unwrap()
    }

    fn complete(report: ChecksumReport) -> bool {
        !report.incomplete && report.messages.is_empty()
    }

    #[test]
    fn the_file_appears_complete_and_replaces_the_old_one() {
        let dir = tempfile::tempdir().unwrap();
        let to = dir.path().join("sums");
        let old = line(b"old");
        fs::write(&to, &old).unwrap();
        let mut sums = create(&to).unwrap();
        assert_eq!(sums.add(b"a", Some(&DIGEST)), None);
        assert_eq!(fs::read_to_string(&to).unwrap(), old);
        assert!(complete(sums.finish()));
        assert_eq!(fs::read_to_string(&to).unwrap(), line(b"a"));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn an_interrupted_copy_leaves_no_list() {
        let dir = tempfile::tempdir().unwrap();
        let mut sums = create(&dir.path().join("sums")).unwrap();
        sums.add(b"a", Some(&DIGEST));
        drop(sums);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn missing_lines_are_reported() {
        let dir = tempfile::tempdir().unwrap();
        let mut sums = create(&dir.path().join("sums")).unwrap();
        let warning = sums.add(b"\xff", Some(&DIGEST)).unwrap();
        assert!(warning.starts_with("\\xff: "), "{warning}");
        sums.add(b"there", None);
        let report = sums.finish();
        assert!(report.incomplete && report.messages[0].contains("lacks 1 file, "), "{report:?}");
    }
}
