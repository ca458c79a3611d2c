//! Compares two files or trees, byte by byte, and names the first differences.
//!
//! Names are shown escaped (Rust's notation), since a test's names may hold anything.

use std::fmt::Write as _;
use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// How many differences are named; the others are counted.
const NAMED_MAX: usize = 10;
const BLOCK_BYTES: usize = 1 << 20;

/// Attributes to compare in addition to kinds, names, content and targets of symbolic links.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Attributes {
    /// Permission bits, with set-id and sticky bits.
    pub modes: bool,
    /// User and group ids.
    pub owners: bool,
    /// Modification times of files and directories, to the nanosecond.
    pub mtimes: bool,
    /// Modification times of symbolic links.
    pub symlink_mtimes: bool,
    /// Whether a file's holes are holes: allocated blocks of `b` at most those of `a`, and one for rounding.
    pub holes: bool,
}

/// Compares kinds, names, content and link targets of `a` and `b`.
///
/// The error names up to ten differences, by their paths from `a` and `b`.
pub fn compare(a: &Path, b: &Path) -> Result<(), String> {
    compare_with(a, b, Attributes::default())
}

/// As [`compare`], and these attributes too.
pub fn compare_with(a: &Path, b: &Path, attributes: Attributes) -> Result<(), String> {
    let mut comparison = Comparison { a, b, attributes, found: Vec::new(), count: 0, blocks: [block(), block()] };
    comparison.entry(&PathBuf::new());
    comparison.result()
}

fn block() -> Vec<u8> {
    vec![0; BLOCK_BYTES]
}

struct Comparison<'a> {
    a: &'a Path,
    b: &'a Path,
    attributes: Attributes,
    found: Vec<String>,
    count: usize,
    blocks: [Vec<u8>; 2],
}

impl Comparison<'_> {
    fn result(self) -> Result<(), String> {
        if self.count == 0 {
            return Ok(());
        }
        let mut text = format!("{:?} and {:?} differ in {} places:", self.a, self.b, self.count);
        for difference in &self.found {
            let _ = write!(text, "\n  {difference}");
        }
        if self.count > self.found.len() {
            let _ = write!(text, "\n  and {} more", self.count - self.found.len());
        }
        Err(text)
    }

    fn differs(&mut self, path: &Path, what: &str) {
        self.count += 1;
        if self.found.len() < NAMED_MAX {
            self.found.push(format!("{path:?}: {what}"));
        }
    }

    fn entry(&mut self, path: &Path) {
        let (a, b) = (join(self.a, path), join(self.b, path));
        match (fs::symlink_metadata(&a), fs::symlink_metadata(&b)) {
            (Ok(of_a), Ok(of_b)) => self.both(path, [&a, &b], &of_a, &of_b),
            (Err(error), _) => self.differs(path, &format!("in {:?}: {error}", self.a)),
            (_, Err(error)) => self.differs(path, &format!("in {:?}: {error}", self.b)),
        }
    }

    fn both(&mut self, path: &Path, [a, b]: [&Path; 2], of_a: &Metadata, of_b: &Metadata) {
        let kinds = (kind(of_a), kind(of_b));
        if kinds.0 != kinds.1 {
            self.differs(path, &format!("a {} and a {}", kinds.0, kinds.1));
            return;
        }
        self.compare_attributes(path, of_a, of_b);
        match kinds.0 {
            "directory" => self.directory(path, a, b),
            "symbolic link" => self.symlink(path, a, b),
            "file" if of_a.len() != of_b.len() => {
                self.differs(path, &format!("{} and {} bytes", of_a.len(), of_b.len()));
            }
            "file" => match self.first_difference(a, b) {
                Ok(None) => {}
                Ok(Some(offset)) => {
                    self.differs(path, &format!("content differs from byte {offset} of {}", of_a.len()))
                }
                Err(error) => self.differs(path, &format!("cannot be read: {error}")),
            },
            _ => {}
        }
    }

    fn directory(&mut self, path: &Path, a: &Path, b: &Path) {
        let (names_a, names_b) = match (sorted_names(a), sorted_names(b)) {
            (Ok(names_a), Ok(names_b)) => (names_a, names_b),
            (Err(error), _) | (_, Err(error)) => return self.differs(path, &format!("cannot be listed: {error}")),
        };
        for extra in names_b.iter().filter(|name| names_a.binary_search(name).is_err()) {
            self.differs(&path.join(extra), &format!("only in {:?}", self.b));
        }
        for name in &names_a {
            if names_b.binary_search(name).is_ok() {
                self.entry(&path.join(name));
            } else {
                self.differs(&path.join(name), &format!("only in {:?}", self.a));
            }
        }
    }

    fn symlink(&mut self, path: &Path, a: &Path, b: &Path) {
        let (to_a, to_b) = (fs::read_link(a), fs::read_link(b));
        if !matches!((&to_a, &to_b), (Ok(to_a), Ok(to_b)) if to_a == to_b) {
            self.differs(path, &format!("links to {to_a:?} and to {to_b:?}"));
        }
    }

    fn compare_attributes(&mut self, path: &Path, a: &Metadata, b: &Metadata) {
        let is_symlink = a.file_type().is_symlink();
        if self.attributes.modes && !is_symlink && a.mode() != b.mode() {
            self.differs(path, &format!("mode {:o} and {:o}", a.mode() & 0o7777, b.mode() & 0o7777));
        }
        if self.attributes.owners && (a.uid(), a.gid()) != (b.uid(), b.gid()) {
            self.differs(path, &format!("owner {}:{} and {}:{}", a.uid(), a.gid(), b.uid(), b.gid()));
        }
        let times_count = if is_symlink { self.attributes.symlink_mtimes } else { self.attributes.mtimes };
        let (time_a, time_b) = ((a.mtime(), a.mtime_nsec()), (b.mtime(), b.mtime_nsec()));
        if times_count && time_a != time_b {
            self.differs(path, &format!("modified at {}.{:09} and {}.{:09}", time_a.0, time_a.1, time_b.0, time_b.1));
        }
        let allowed_blocks = a.blocks() + a.blksize() / 512;
        if self.attributes.holes && a.is_file() && b.blocks() > allowed_blocks {
            self.differs(path, &format!("{} and {} blocks of 512 bytes allocated", a.blocks(), b.blocks()));
        }
    }

    fn first_difference(&mut self, a: &Path, b: &Path) -> io::Result<Option<u64>> {
        let (mut file_a, mut file_b) = (File::open(a)?, File::open(b)?);
        let [block_a, block_b] = &mut self.blocks;
        let mut offset = 0_u64;
        loop {
            let (length_a, length_b) = (fill(&mut file_a, block_a)?, fill(&mut file_b, block_b)?);
            let (got_a, got_b) = (&block_a[..length_a], &block_b[..length_b]);
            if got_a != got_b {
                let common = got_a.iter().zip(got_b).take_while(|(a, b)| a == b).count();
                return Ok(Some(offset + common as u64));
            }
            if length_a < BLOCK_BYTES {
                return Ok(None);
            }
            offset += BLOCK_BYTES as u64;
        }
    }
}

/// Without the slash that joining an empty path would leave at the end of a file's.
fn join(root: &Path, path: &Path) -> PathBuf {
    if path.as_os_str().is_empty() { root.to_owned() } else { root.join(path) }
}

fn kind(of: &Metadata) -> &'static str {
    let kind = of.file_type();
    match () {
        () if kind.is_file() => "file",
        () if kind.is_dir() => "directory",
        () if kind.is_symlink() => "symbolic link",
        () if kind.is_fifo() => "named pipe",
        () if kind.is_socket() => "socket",
        () => "device",
    }
}

fn sorted_names(directory: &Path) -> io::Result<Vec<std::ffi::OsString>> {
    let mut names = fs::read_dir(directory)?.map(|entry| Ok(entry?.file_name())).collect::<io::Result<Vec<_>>>()?;
    names.sort_unstable();
    Ok(names)
}

fn fill(file: &mut File, block: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < block.len() {
        match file.read(&mut block[filled..]) {
            Ok(0) => break,
            Ok(length) => filled += length,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::time::{Duration, SystemTime};

    use super::*;

    fn pair() -> (tempfile::TempDir, PathBuf, PathBuf) {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let (a, b) = (directory.path().join("a"), directory.path().join("b"));
        for root in [&a, &b] {
            fs::create_dir_all(root.join("sub")).expect("made");
            fs::write(root.join("sub/file"), vec![7; BLOCK_BYTES + 9]).expect("written");
            symlink("sub/file", root.join("link")).expect("linked");
        }
        (directory, a, b)
    }

    #[test]
    fn equal_trees_and_files_agree() {
        let (_directory, a, b) = pair();
        let owned = Attributes { modes: true, owners: true, holes: true, ..Attributes::default() };
        assert_eq!(compare_with(&a, &b, owned), Ok(()));
        assert_eq!(compare(&a.join("sub/file"), &b.join("sub/file")), Ok(()));
    }

    #[test]
    fn every_difference_is_named() {
        let (_directory, a, b) = pair();
        let mut content = vec![7; BLOCK_BYTES + 9];
        content[BLOCK_BYTES + 3] = 8;
        fs::write(b.join("sub/file"), content).expect("written");
        fs::write(a.join("only\na"), "").expect("written");
        fs::write(b.join("only b"), "").expect("written");
        fs::remove_file(b.join("link")).and_then(|()| symlink("elsewhere", b.join("link"))).expect("linked");
        let text = compare(&a, &b).expect_err("they differ");
        let expected = ["4 places", "\"only\\na\": only in", "\"only b\": only in", "from byte 1048579", "elsewhere"];
        for part in expected {
            assert!(text.contains(part), "{part:?} is not in {text}");
        }
    }

    #[test]
    fn lengths_kinds_and_missing_roots_are_named() {
        let (_directory, a, b) = pair();
        fs::write(b.join("sub/file"), "short").expect("written");
        fs::remove_file(b.join("link")).and_then(|()| fs::create_dir(b.join("link"))).expect("made");
        let text = compare(&a, &b).expect_err("they differ");
        assert!(text.contains("1048585 and 5 bytes") && text.contains("a symbolic link and a directory"), "{text}");
        assert!(compare(&a, &a.join("missing")).is_err());
    }

    #[test]
    fn attributes_count_only_when_asked() {
        let (_directory, a, b) = pair();
        fs::set_permissions(b.join("sub"), fs::Permissions::from_mode(0o711)).expect("set");
        let old = SystemTime::now() - Duration::from_secs(3600);
        File::options().write(true).open(b.join("sub/file")).and_then(|file| file.set_modified(old)).expect("set");
        assert_eq!(compare(&a, &b), Ok(()));
        let modes = Attributes { modes: true, ..Attributes::default() };
        assert!(compare_with(&a, &b, modes).expect_err("modes differ").contains("and 711"));
        let mtimes = Attributes { mtimes: true, ..Attributes::default() };
        assert!(compare_with(&a, &b, mtimes).expect_err("times differ").contains("modified at"));
    }

    #[test]
    fn filled_holes_are_seen() {
        let (_directory, a, b) = pair();
        File::create(a.join("sparse")).and_then(|file| file.set_len(8 << 20)).expect("made");
        fs::write(b.join("sparse"), vec![0; 8 << 20]).expect("written");
        assert_eq!(compare(&a, &b), Ok(()));
        let holes = Attributes { holes: true, ..Attributes::default() };
        assert!(compare_with(&a, &b, holes).expect_err("a hole was filled").contains("blocks"));
    }
}
