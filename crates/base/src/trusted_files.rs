//! Whom files that command haul must belong to.
//!
//! There are two classes. What haul looks up by itself (configuration, policy, secrets, state) is trusted if the file
//! and every directory above it belong to this user or root, and nobody else can write them. What the user names (a
//! copy's directory) is trusted if the directory itself belongs to this user and permits nothing to others, see
//! [`crate::held_directory`].

use std::ffi::OsString;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};

use haul_proto::path::escape;
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::process::geteuid;

use crate::shell_word::quote;
use crate::sys::describe::describe;

/// Most symbolic links on the way to a file, as in Linux (path_resolution(7)).
const LINKS_MAX: usize = 40;

/// Why a file or directory is not trusted.
#[derive(Debug, thiserror::Error)]
pub enum Distrust {
    /// It cannot be read.
    #[error("{}", describe(.0))]
    Io(#[from] io::Error),
    /// It belongs to this user, neither root nor the caller.
    #[error("belongs to another user ({0})")]
    Owner(u32),
    /// Others can write it.
    #[error("others can write it")]
    Writable,
    /// Others can read a secret.
    #[error("others can read or write it (mode {0:03o})")]
    Exposed(u32),
    /// It is a directory, FIFO, socket or device.
    #[error("not a regular file")]
    Irregular,
    /// A symbolic link where none is followed.
    #[error("a symbolic link")]
    Link,
    /// A file to be written has several names.
    #[error("has another name (a hard link)")]
    OtherName,
    /// It is larger than this number of bytes.
    #[error("larger than {0} bytes")]
    Size(u64),
}

impl From<Distrust> for io::Error {
    fn from(why: Distrust) -> Self {
        match why {
            Distrust::Io(error) => error,
            why => Self::other(why),
        }
    }
}

/// A file or directory that is not trusted, or cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("{}{}: {why}", shown(.file), above(.file, .place))]
pub struct TrustError {
    file: PathBuf,
    /// The file, or the directory above it that is at fault.
    place: PathBuf,
    /// The reason.
    pub why: Distrust,
}

impl TrustError {
    /// The error for `file` itself.
    pub fn of(file: &Path, why: impl Into<Distrust>) -> Self {
        Self { file: file.to_owned(), place: file.to_owned(), why: why.into() }
    }

    /// Whether the file does not exist.
    pub fn is_absent(&self) -> bool {
        matches!(&self.why, Distrust::Io(error) if is_absent(error))
    }

    /// Whether a directory above hides the file from this user: after sudo or su, HOME may name another user's home.
    pub fn is_hidden(&self) -> bool {
        let is_denied = matches!(&self.why, Distrust::Io(error) if error.kind() == ErrorKind::PermissionDenied);
        is_denied && self.file.symlink_metadata().is_err()
    }

    /// What to do about it: the command, where there is one.
    pub fn hint(&self) -> Option<String> {
        match self.why {
            Distrust::Owner(_) if self.file == self.place => Some("copy it to a file of your own".to_owned()),
            Distrust::Owner(_) => Some("move it into a directory of your own".to_owned()),
            Distrust::Writable => Some(format!("chmod go-w {}", quoted(&self.place))),
            Distrust::Exposed(_) => Some(format!("chmod 600 {}", quoted(&self.place))),
            Distrust::Io(_) | Distrust::Irregular | Distrust::Link | Distrust::OtherName | Distrust::Size(_) => None,
        }
    }
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

fn shown(path: &Path) -> String {
    escape(path.as_os_str().as_encoded_bytes())
}

fn above(file: &Path, place: &Path) -> String {
    if file == place { String::new() } else { format!(": its directory {}", shown(place)) }
}

/// Quotes a path for a shell, escaped.
pub fn quoted(path: &Path) -> String {
    quote(&shown(path))
}

/// What others may do with a file that haul looks up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OthersMay {
    /// Read it.
    Read,
    /// Nothing: it is a secret. A group may read root's file, since services get secrets that way.
    Nothing,
}

/// Owner, group and mode of a file or directory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FileRights {
    pub owner: u32,
    pub group: u32,
    pub mode: u32,
}

impl From<&Metadata> for FileRights {
    fn from(found: &Metadata) -> Self {
        Self { owner: found.uid(), group: found.gid(), mode: found.mode() & 0o7777 }
    }
}

/// This user.
pub(crate) fn this_user() -> u32 {
    geteuid().as_raw()
}

impl FileRights {
    /// Judges what `user` looks up. `root` owns `/`: in a user namespace, root may have another number.
    fn check_looked_up(self, user: u32, root: u32, others: OthersMay) -> Result<(), Distrust> {
        let Self { owner, mode, .. } = self;
        if ![user, 0, root].contains(&owner) {
            return Err(Distrust::Owner(owner));
        }
        let allowed = if owner == user { 0o700 } else { 0o740 };
        match others {
            OthersMay::Nothing if mode & 0o777 & !allowed != 0 => Err(Distrust::Exposed(mode & 0o777)),
            OthersMay::Nothing => Ok(()),
            OthersMay::Read if self.others_write(user) => Err(Distrust::Writable),
            OthersMay::Read => Ok(()),
        }
    }

    /// Whether others than `user` and the owner can write it. The group with the user's number is the user's own.
    pub fn others_write(self, user: u32) -> bool {
        let is_private_group = self.owner == user && self.group == user;
        self.mode & if is_private_group { 0o002 } else { 0o022 } != 0
    }

    /// As [`Self::check_looked_up`], for a directory. Others cannot replace this user's entries in a sticky one, and
    /// each entry is judged too.
    fn check_directory(self, user: u32, root: u32) -> Result<(), Distrust> {
        let is_sticky = self.mode & 0o1000 != 0;
        let mode = if is_sticky { self.mode & !0o022 } else { self.mode };
        Self { mode, ..self }.check_looked_up(user, root, OthersMay::Read)
    }
}

/// The owner of `/`.
fn root_owner() -> io::Result<u32> {
    fs::symlink_metadata("/").map(|found| found.uid())
}

/// The path of `file` without links, if no other user could exchange a directory or link on the way. That the file does
/// not exist is reported first.
fn resolve(file: &Path) -> Result<PathBuf, TrustError> {
    let wrong = |error: io::Error| TrustError::of(file, error);
    let (user, root) = (this_user(), root_owner().map_err(wrong)?);
    let mut left = names_of(&std::path::absolute(file).map_err(wrong)?);
    let (mut place, mut links, mut distrust) = (PathBuf::from("/"), 0, None);
    loop {
        let found = fs::symlink_metadata(&place).map_err(wrong)?;
        let rights = FileRights::from(&found);
        let judged = match (found.is_symlink(), found.is_dir()) {
            (true, _) => FileRights { mode: 0, ..rights }.check_looked_up(user, root, OthersMay::Read),
            (_, true) => rights.check_directory(user, root),
            // The file itself is judged by its descriptor.
            _ => Ok(()),
        };
        if let Err(why) = judged {
            distrust.get_or_insert(TrustError { file: file.to_owned(), place: place.clone(), why });
        }
        if found.is_symlink() {
            links += 1;
            if links > LINKS_MAX {
                return Err(wrong(Errno::LOOP.into()));
            }
            let target = fs::read_link(&place).map_err(wrong)?;
            if target.is_absolute() {
                place = PathBuf::from("/");
            } else {
                place.pop();
            }
            left.extend(names_of(&target));
        }
        match left.pop() {
            None => return distrust.map_or(Ok(place), Err),
            Some(name) if name == ".." => drop(place.pop()),
            Some(name) => place.push(name),
        }
    }
}

/// The components of a path, the last one first.
fn names_of(path: &Path) -> Vec<OsString> {
    let is_name = |part: &Component<'_>| matches!(part, Component::Normal(_) | Component::ParentDir);
    path.components().filter(is_name).map(|part| part.as_os_str().to_owned()).rev().collect()
}

/// Opens a file that haul looks up. Never blocks, even on a FIFO.
pub fn open_own(path: &Path, others: OthersMay) -> Result<File, TrustError> {
    let wrong = |why: Distrust| TrustError::of(path, why);
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits();
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(i32::try_from(flags).unwrap_or_default());
    let file = options.open(resolve(path)?).map_err(|error| wrong(error.into()))?;
    let found = file.metadata().map_err(|error| wrong(error.into()))?;
    if !found.is_file() {
        return Err(wrong(Distrust::Irregular));
    }
    let root = root_owner().map_err(|error| wrong(error.into()))?;
    FileRights::from(&found).check_looked_up(this_user(), root, others).map_err(wrong)?;
    Ok(file)
}

/// Reads a file that haul looks up, of at most `limit` bytes.
pub fn read_own(path: &Path, others: OthersMay, limit: u64) -> Result<Vec<u8>, TrustError> {
    let file = open_own(path, others)?;
    read_limited(&file, limit).map_err(|why| TrustError::of(path, why))
}

/// The path of a directory that haul looks up, without links.
pub fn own_directory(path: &Path) -> Result<PathBuf, TrustError> {
    resolve(path)
}

/// Reads `file`, of at most `limit` bytes.
pub(crate) fn read_limited(file: &File, limit: u64) -> Result<Vec<u8>, Distrust> {
    let mut bytes = Vec::new();
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit { Err(Distrust::Size(limit)) } else { Ok(bytes) }
}

#[cfg(test)]
mod tests {
    use std::fs::{Permissions, create_dir, set_permissions, write};
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn outcome(result: Result<(), Distrust>) -> String {
        result.map_or_else(|why| why.to_string(), |()| "trusted".to_owned())
    }

    #[test]
    fn only_files_of_the_user_and_of_root_are_trusted() {
        let rights = |owner, group, mode| FileRights { owner, group, mode };
        let (mode, other) = ("others can write it", "belongs to another user (8)");
        for (owner, group, bits, expected) in [
            (7, 7, 0o664, "trusted"),
            (7, 9, 0o664, mode),
            (7, 7, 0o666, mode),
            (0, 7, 0o664, mode),
            (0, 0, 0o644, "trusted"),
            (8, 8, 0o600, other),
            (65_534, 0, 0o644, "trusted"),
        ] {
            let judged = rights(owner, group, bits).check_looked_up(7, 65_534, OthersMay::Read);
            assert_eq!(outcome(judged), expected, "{owner} {group} {bits:o}");
        }
        for (owner, group, bits, expected) in [
            (7, 7, 0o775, "trusted"),
            (7, 9, 0o775, mode),
            (0, 0, 0o1777, "trusted"),
            (0, 7, 0o775, mode),
            (8, 8, 0o1777, other),
        ] {
            assert_eq!(outcome(rights(owner, group, bits).check_directory(7, 0)), expected, "{owner} {group} {bits:o}");
        }
        for (owner, bits, is_secret) in
            [(7, 0o600, true), (7, 0o640, false), (0, 0o640, true), (0, 0o660, false), (0, 0o644, false)]
        {
            let judged = rights(owner, owner, bits).check_looked_up(7, 0, OthersMay::Nothing);
            assert_eq!(judged.is_ok(), is_secret, "{owner} {bits:o}");
        }
    }

    #[test]
    fn every_directory_on_the_way_to_a_file_counts() {
        let temp = tempfile::tempdir().unwrap();
        let (outer, link) = (temp.path().join("a dir"), temp.path().join("link"));
        let inner = outer.join("inner");
        create_dir(&outer).and_then(|()| create_dir(&inner)).unwrap();
        let file = inner.join("file");
        write(&file, "text").unwrap();
        symlink("a dir/inner/../inner/file", &link).unwrap();
        let set = |path: &Path, mode| set_permissions(path, Permissions::from_mode(mode)).unwrap();
        let read = |path: &Path, limit| read_own(path, OthersMay::Read, limit);
        for path in [&file, &link] {
            set(&file, 0o644);
            assert_eq!(read(path, 4).unwrap(), b"text");
            assert!(read(path, 3).unwrap_err().to_string().ends_with("larger than 3 bytes"));
            set(&file, 0o646);
            assert_eq!(read(path, 4).unwrap_err().hint(), Some(format!("chmod go-w {}", quoted(path))));
            set(&file, 0o644);
            set(&outer, 0o757);
            let error = read(path, 4).unwrap_err();
            assert!(error.to_string().contains("a dir: others can write it"), "{error}");
            assert_eq!(error.hint(), Some(format!("chmod go-w '{}'", outer.display())));
            assert!(read(&inner.join("absent"), 4).unwrap_err().is_absent());
            set(&outer, 0o1757);
            assert!(read(path, 4).is_ok());
            set(&outer, 0o755);
        }
    }

    #[test]
    fn what_is_no_file_neither_blocks_nor_is_read() {
        let temp = tempfile::tempdir().unwrap();
        let fifo = temp.path().join("fifo");
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        symlink("circle", temp.path().join("circle")).unwrap();
        for path in [temp.path(), &fifo, &temp.path().join("circle"), Path::new("/dev/zero")] {
            let error = read_own(path, OthersMay::Read, 9).unwrap_err();
            assert!(!error.is_absent() && !error.is_hidden(), "{error}");
        }
    }
}
