//! `--expect FILE`: expected digests, checked before files get their names. Reports lines and files without a
//! counterpart. [`ExpectedDigests`] has the lines; the file is reread to report names.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, anyhow, bail, ensure};
use haul_base::copy::event::Event;
use haul_base::copy::spec::{ChecksumAlgorithm, ExpectedDigests};
use haul_proto::limits::EXPECTED_LINES_MAX;
use haul_proto::path::escape;
use haul_show::manifest_line::ManifestLine;
use haul_show::units::counted;

/// Most names reported of lines without a file, or files without a line.
const NAMED_MAX: usize = 20;
/// Longest line: the longest displayable name, with every byte escaped.
const LINE_MAX: usize = 256 << 10;

/// A manifest, and its matches so far.
pub struct Manifest {
    file: PathBuf,
    /// The lines.
    pub lines: Arc<ExpectedDigests>,
    /// A bit per line: a file has its name.
    met: Vec<u64>,
    /// The first files without a line, and their total.
    unlisted: Vec<Vec<u8>>,
    unlisted_count: u64,
}

/// Lines and files without a counterpart.
#[derive(Debug, Default)]
pub struct Halves {
    /// Files without a line, and lines without a file.
    pub count: u64,
    /// Messages for the user.
    pub messages: Vec<String>,
    /// Names of lines without a file.
    pub unmet: Vec<Vec<u8>>,
}

impl Manifest {
    /// Reads `file`. `algorithm` is given by the user.
    pub fn read(file: &Path, algorithm: Option<ChecksumAlgorithm>) -> anyhow::Result<Self> {
        let shown = escape(file.as_os_str().as_bytes());
        let mut lines: Option<ExpectedDigests> = None;
        let mut problem = None;
        let read = each_line(file, |number, text| {
            let added = add(&mut lines, algorithm, text).map_err(|why| anyhow!("{shown}:{number}: {why}"));
            problem = added.err();
            problem.is_none()
        });
        read.map_err(|error| anyhow!("{shown}: {error}"))?;
        if let Some(problem) = problem {
            return Err(problem);
        }
        let mut lines = lines.ok_or_else(|| anyhow!("{shown}: empty"))?;
        if let Some(second) = lines.sort() {
            let line = nth(file, second).unwrap_or_default();
            bail!("{shown}: {}: two lines with different digests", escape(&line));
        }
        let met = vec![0; lines.len().div_ceil(64)];
        Ok(Self { file: file.to_owned(), lines: Arc::new(lines), met, unlisted: Vec::new(), unlisted_count: 0 })
    }

    /// Records the file of an event. Returns whether it has no line.
    pub fn event(&mut self, event: &Event) -> bool {
        match event {
            Event::Checksum { path, .. } => {
                let is_listed = self.meet(path);
                if !is_listed {
                    self.unlisted_count += 1;
                    if self.unlisted.len() < NAMED_MAX {
                        self.unlisted.push(path.clone());
                    }
                }
                !is_listed
            }
            // The path begins with the target's or the source's.
            Event::FileFailed { path, .. } => {
                let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at + 1);
                let starts: Vec<_> = [0].into_iter().chain(ends).collect();
                starts.into_iter().any(|start| self.meet(&path[start..]));
                false
            }
            _ => false,
        }
    }

    fn meet(&mut self, path: &[u8]) -> bool {
        let mut is_listed = false;
        for line in self.lines.lines_of(path) {
            self.met[line / 64] |= 1 << (line % 64);
            is_listed = true;
        }
        is_listed
    }

    fn is_met(&self, line: usize) -> bool {
        self.met[line / 64] & 1 << (line % 64) != 0
    }

    /// Lines and files without a counterpart, at the end.
    pub fn halves(self) -> Halves {
        let unmet_count = (0..self.lines.len()).filter(|line| !self.is_met(*line)).count() as u64;
        let mut halves = Halves { count: self.unlisted_count + unmet_count, ..Halves::default() };
        let shown = escape(self.file.as_os_str().as_bytes());
        if self.unlisted_count > 0 {
            let files = counted(self.unlisted_count, "file has", "files have");
            halves.messages.push(list_names(
                &format!("{shown}: {files} no line, so {} not verified", were(self.unlisted_count)),
                &self.unlisted,
                self.unlisted_count,
            ));
        }
        if unmet_count > 0 {
            halves.unmet = self.unmet().unwrap_or_default();
            let lines = counted(unmet_count, "line has", "lines have");
            halves.messages.push(list_names(&format!("{shown}: {lines} no file"), &halves.unmet, unmet_count));
        }
        halves
    }

    /// The first lines without a file; none if the manifest is gone or changed.
    fn unmet(&self) -> io::Result<Vec<Vec<u8>>> {
        let (mut names, mut index) = (Vec::new(), 0);
        each_line(&self.file, |_, text| {
            let Some(line) = ManifestLine::parse(text) else { return false };
            if index < self.lines.len() && self.lines.digest(index) == line.digest && !self.is_met(index) {
                names.push(line.path);
            }
            index += 1;
            names.len() < NAMED_MAX
        })?;
        Ok(names)
    }
}

fn were(count: u64) -> &'static str {
    if count == 1 { "was" } else { "were" }
}

fn list_names(what: &str, names: &[Vec<u8>], count: u64) -> String {
    let mut text = what.to_owned();
    names.iter().for_each(|name| text.push_str(&format!("\n  {}", escape(name))));
    let others = count.saturating_sub(names.len() as u64);
    if others > 0 && !names.is_empty() {
        text.push_str(&format!("\n  and {} more", haul_show::units::count(others)));
    }
    text
}

/// Adds a line. The first one determines the algorithm.
fn add(lines: &mut Option<ExpectedDigests>, algorithm: Option<ChecksumAlgorithm>, text: &[u8]) -> anyhow::Result<()> {
    let line = ManifestLine::parse(text).context("not a line of sha256sum, md5sum, b3sum or the like")?;
    let lines = match lines {
        Some(lines) => lines,
        none => none.insert(ExpectedDigests::new(algorithm_of(&line, algorithm)?)),
    };
    let (is, expected) = (line.algorithm.unwrap_or(lines.algorithm()), lines.algorithm());
    if is != expected || line.digest.len() != expected.bytes() {
        bail!("not {}, unlike the lines before\nuse one file for each kind of digest", expected.name());
    }
    lines
        .add(&line.path, &line.digest)
        .map_err(|_| anyhow!("more than {EXPECTED_LINES_MAX} lines\nsplit the list and the copy"))
}

/// The algorithm of the first line: as named in it or by the user, or the only one with that length.
fn algorithm_of(line: &ManifestLine, named: Option<ChecksumAlgorithm>) -> anyhow::Result<ChecksumAlgorithm> {
    let digits = 2 * line.digest.len();
    if let Some(algorithm) = line.algorithm.or(named) {
        let fits = algorithm.bytes() == line.digest.len() && named.is_none_or(|named| named == algorithm);
        let name = named.unwrap_or(algorithm).name();
        ensure!(fits, "not {name}, the digest of --checksum-alg or --checksum");
        return Ok(algorithm);
    }
    let those: Vec<_> = ChecksumAlgorithm::all().filter(|algorithm| algorithm.bytes() == line.digest.len()).collect();
    let names: Vec<_> = those.iter().map(|algorithm| algorithm.name()).collect();
    match those[..] {
        [algorithm] => Ok(algorithm),
        [] => bail!("unknown digest of {digits} digits"),
        _ => {
            let names = names.join(" or ");
            bail!("{digits} digits are {names}\nchoose one with --checksum-alg ALG")
        }
    }
}

/// The name in the line of this index.
fn nth(file: &Path, index: usize) -> io::Result<Vec<u8>> {
    let (mut at, mut name) = (0, Vec::new());
    each_line(file, |_, text| {
        if at == index {
            name = ManifestLine::parse(text).map(|line| line.path).unwrap_or_default();
        }
        at += 1;
        at <= index
    })?;
    Ok(name)
}

/// Calls `take` with each line that is neither empty nor a comment, and its number, until it returns `false`.
fn each_line(file: &Path, mut take: impl FnMut(u64, &[u8]) -> bool) -> io::Result<()> {
    let mut reader = BufReader::new(File::open(file)?);
    let (mut number, mut text) = (0u64, Vec::new());
    loop {
        text.clear();
        if io::Read::take(&mut reader, LINE_MAX as u64).read_until(b'\n', &mut text)? == 0 {
            return Ok(());
        }
        number += 1;
        let line = text.strip_suffix(b"\n").unwrap_or(&text);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if !line.is_empty() && line[0] != b'#' && !take(number, line) {
            return Ok(());
        }
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
