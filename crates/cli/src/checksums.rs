//! `--checksums FILE`: lines that `b3sum --check` accepts, for every file that is whole.
//!
//! A file appears complete or not at all. Names that b3sum cannot read back
//! (they are not UTF-8, or contain U+FFFD) are counted and named, not written.

use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::Path;

use haul_proto::path::escape;

use crate::pending::Pending;
use crate::show::text::harmless;

/// Bytes of lines that are collected before they are written.
const BUFFER: usize = 64 << 10;
/// b3sum refuses names with the character that stands for what is not text.
const REPLACEMENT: char = '\u{fffd}';

/// The lines, on their way to where they go.
pub struct Checksums {
    shown: String,
    out: BufWriter<Box<dyn Write>>,
    /// The file, unless that is standard output.
    pending: Option<Pending>,
    incomplete: bool,
    /// A person reads them, and names are shown without what could disturb a terminal.
    on_terminal: bool,
    without_digest: u64,
    broken: Option<io::Error>,
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
    pub fn create(to: &Path) -> io::Result<Self> {
        let shown = match to.as_os_str().as_encoded_bytes() {
            b"-" => "standard output".to_owned(),
            name => escape(name),
        };
        let pending = (to.as_os_str() != "-").then(|| Pending::create(to)).transpose()?;
        let out: Box<dyn Write> = match &pending {
            Some(pending) => Box::new(pending.writer()?),
            None => Box::new(io::stdout()),
        };
        let out = BufWriter::with_capacity(BUFFER, out);
        let on_terminal = to.as_os_str() == "-" && io::stdout().is_terminal();
        Ok(Self { shown, out, pending, incomplete: false, on_terminal, without_digest: 0, broken: None })
    }

    /// Takes the line of a finished file. Returns what to say about a name that cannot be written.
    pub fn add(&mut self, path: &[u8], digest: Option<&[u8; 32]>) -> Option<String> {
        let Some(digest) = digest else {
            self.without_digest += 1;
            return None;
        };
        let Some(line) = line(path, digest) else {
            self.incomplete = true;
            return Some(format!(
                "{}: not among the checksums: b3sum cannot read back a name that is not UTF-8",
                escape(path)
            ));
        };
        if self.broken.is_none() {
            let line = if self.on_terminal { format!("{}\n", harmless(line.trim_end_matches('\n'))) } else { line };
            self.broken = self.out.write_all(line.as_bytes()).err();
        }
        None
    }

    /// Gives the file its name. Whatever the lines lack is in the report.
    pub fn finish(mut self) -> Report {
        let mut report = Report { incomplete: self.incomplete, messages: Vec::new() };
        let written = self.broken.take().map_or(Ok(()), Err).and_then(|()| self.out.flush());
        if let Err(error) = written.and_then(|()| self.pending.take().map_or(Ok(()), Pending::publish)) {
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

/// b3sum's line; `None` for a name that it cannot read back. A backslash in front says that the name is escaped.
fn line(path: &[u8], digest: &[u8; 32]) -> Option<String> {
    let name = std::str::from_utf8(path).ok().filter(|name| !name.contains([REPLACEMENT, '\0']))?;
    let digest = blake3::Hash::from_bytes(*digest).to_hex();
    Some(match name.contains(['\\', '\n']) {
        true => format!("\\{digest}  {}\n", name.replace('\\', "\\\\").replace('\n', "\\n")),
        false => format!("{digest}  {name}\n"),
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const DIGEST: [u8; 32] = [0xab; 32];

    fn lines(paths: &[&[u8]]) -> Vec<Option<String>> {
        paths.iter().map(|path| line(path, &DIGEST)).collect()
    }

    fn complete(report: Report) -> bool {
        !report.incomplete && report.messages.is_empty()
    }

    #[test]
    fn names_are_escaped_as_b3sum_escapes_them() {
        let digest = "ab".repeat(32);
        assert_eq!(
            lines(&[b"run7/a b", b"a\nb", b"c\\d", b" lead", b"end\r", b"g\xff", "x\u{fffd}".as_bytes()]),
            [
                Some(format!("{digest}  run7/a b\n")),
                Some(format!("\\{digest}  a\\nb\n")),
                Some(format!("\\{digest}  c\\\\d\n")),
                Some(format!("{digest}   lead\n")),
                Some(format!("{digest}  end\r\n")),
                None,
                None
            ]
        );
    }

    #[test]
    fn the_file_appears_whole_and_replaces_the_old_one() {
        let dir = tempfile::tempdir().unwrap();
        let to = dir.path().join("sums");
        fs::write(&to, "old").unwrap();
        let mut sums = Checksums::create(&to).unwrap();
        assert_eq!(sums.add(b"a", Some(&DIGEST)), None);
        assert_eq!(fs::read_to_string(&to).unwrap(), "old");
        assert!(complete(sums.finish()));
        assert_eq!(fs::read_to_string(&to).unwrap(), line(b"a", &DIGEST).unwrap());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn an_interrupted_job_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let mut sums = Checksums::create(&dir.path().join("sums")).unwrap();
        sums.add(b"a", Some(&DIGEST));
        drop(sums);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn what_is_missing_is_said() {
        let dir = tempfile::tempdir().unwrap();
        let mut sums = Checksums::create(&dir.path().join("sums")).unwrap();
        let said = sums.add(b"\xff", Some(&DIGEST)).unwrap();
        assert!(said.starts_with("\\xff: "), "{said}");
        sums.add(b"there", None);
        let report = sums.finish();
        assert!(report.incomplete && report.messages[0].contains("lacks 1 file, "), "{report:?}");
    }
}
