//! Files of unusual kinds, and inspection of copies.

use std::fs;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, Timespec, Timestamps};

/// Sets the time of last modification of a file, directory or symbolic link (without following it).
#[track_caller]
pub fn set_mtime(path: &Path, seconds: i64, nanoseconds: u32) {
    let time = Timespec { tv_sec: seconds, tv_nsec: nanoseconds.into() };
    let times = Timestamps { last_access: time, last_modification: time };
    rustix::fs::utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW).expect("times can be set");
}

/// The time of last modification of a file, directory or link: seconds and nanoseconds.
#[track_caller]
pub fn mtime(path: &Path) -> (i64, i64) {
    let meta = fs::symlink_metadata(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    (meta.mtime(), meta.mtime_nsec())
}

/// Permission bits, with setuid, setgid and sticky.
#[track_caller]
pub fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap_or_else(|error| panic!("{}: {error}", path.display())).mode() & 0o7777
}

/// Reveals a change of a file: its inode, and the times of its content and of its inode.
#[track_caller]
pub fn stamp(path: &Path) -> (u64, i64, i64, i64, i64) {
    let meta = fs::symlink_metadata(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    (meta.ino(), meta.mtime(), meta.mtime_nsec(), meta.ctime(), meta.ctime_nsec())
}

/// Makes a FIFO.
#[track_caller]
pub fn fifo(path: &Path) {
    rustix::fs::mknodat(CWD, path, rustix::fs::FileType::Fifo, Mode::from_raw_mode(0o644), 0).expect("a FIFO");
}

/// The content of a file; fails the test where there is none.
#[track_caller]
pub fn contents(path: &Path) -> Vec<u8> {
    fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Names in a directory, sorted; hidden ones too.
#[track_caller]
pub fn listing(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    let mut names: Vec<_> =
        entries.map(|entry| entry.expect("readable").file_name().to_string_lossy().into_owned()).collect();
    names.sort_unstable();
    names
}

/// The entry of `directory` that is larger than `bytes`, not counting those named in `known`: a copy under its temporary name.
pub fn hidden_or_partial(directory: &Path, known: &[&str], bytes: u64) -> Option<PathBuf> {
    let entries = fs::read_dir(directory).ok()?.flatten();
    let mut others = entries.filter(|entry| !known.iter().any(|name| entry.file_name() == *name));
    let grown = |entry: &fs::DirEntry| entry.metadata().is_ok_and(|meta| meta.is_file() && meta.len() > bytes);
    others.find(grown).map(|entry| entry.path())
}

/// Makes directories `d/d/d/...` below `root`, `depth` of them, with a file `leaf` in the last; no path could name it.
#[track_caller]
pub fn chain(root: &Path, depth: usize, content: &[u8]) {
    let mut directory = open_directory(root);
    for _ in 0..depth {
        rustix::fs::mkdirat(&directory, "d", Mode::from_raw_mode(0o755)).expect("a directory");
        directory = descend(&directory).expect("it was just made");
    }
    let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC;
    let leaf = rustix::fs::openat(&directory, "leaf", flags, Mode::from_raw_mode(0o644)).expect("a file");
    std::io::Write::write_all(&mut fs::File::from(leaf), content).expect("it can be written");
}

/// Depth of the chain below `root`, and the content of its leaf.
#[track_caller]
pub fn chain_file(root: &Path) -> (usize, Vec<u8>) {
    let mut directory = open_directory(root);
    let mut depth = 0;
    while let Ok(next) = descend(&directory) {
        directory = next;
        depth += 1;
    }
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let leaf = rustix::fs::openat(&directory, "leaf", flags, Mode::empty());
    let leaf = leaf.unwrap_or_else(|error| panic!("no leaf at depth {depth}: {error}"));
    let mut content = Vec::new();
    fs::File::from(leaf).read_to_end(&mut content).expect("it can be read");
    (depth, content)
}

#[track_caller]
fn open_directory(path: &Path) -> OwnedFd {
    let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty()).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn descend(directory: &OwnedFd) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    rustix::fs::openat(directory, "d", flags, Mode::empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_exceeds_any_path() {
        let sandbox = crate::Sandbox::new();
        chain(&sandbox.dir("deep"), 3000, b"bottom");
        assert_eq!(chain_file(&sandbox.path("deep")), (3000, b"bottom".to_vec()));
    }

    #[test]
    fn times_are_kept_to_the_nanosecond() {
        let sandbox = crate::Sandbox::new();
        let file = sandbox.file("file", "");
        set_mtime(&file, 1_000_000_001, 123_456_789);
        assert_eq!(mtime(&file), (1_000_000_001, 123_456_789));
    }
}
