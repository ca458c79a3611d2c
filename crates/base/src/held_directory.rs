//! A directory, held by a descriptor. Everything in it is opened relative to that, and no symbolic link is followed.
//!
//! Whoever can rename the directory cannot make haul read or write elsewhere. So the directories above it do not count.

use std::ffi::{OsStr, OsString};
use std::fs::{DirBuilder, File, Metadata};
use std::io::{self, ErrorKind, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Component, Path, PathBuf};

use haul_proto::checksum::hex;
use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags, linkat, mkdirat, openat, renameat, unlinkat};

use crate::sys::random::random;
use crate::trusted_files::{Distrust, FileRights, TrustError, own_directory, read_limited, this_user};

const PRIVATE_DIRECTORY: Mode = Mode::RWXU;
const PRIVATE_DIRECTORY_MODE: u32 = 0o700;
const PRIVATE_FILE: Mode = Mode::RUSR.union(Mode::WUSR);

/// A directory and its descriptor. Paths in it are given with the directory's own path before them.
#[derive(Debug)]
pub struct HeldDirectory {
    fd: OwnedFd,
    path: PathBuf,
    /// Whether the directory and all that is in it have to be this user's.
    is_own: bool,
}

impl HeldDirectory {
    /// A directory that the user names: this user's, without permissions for others.
    pub fn private(path: &Path) -> Result<Self, TrustError> {
        let mut held = Self::readable(path)?;
        held.check_private().map_err(|why| TrustError::of(path, why))?;
        held.is_own = true;
        Ok(held)
    }

    /// Creates a directory for [`Self::private`], and missing ones above it. The file system may give it another owner or
    /// mode.
    pub fn create_private(path: &Path) -> Result<Self, TrustError> {
        let above = path.parent().map_or(Ok(()), std::fs::create_dir_all);
        match above.and_then(|()| DirBuilder::new().mode(PRIVATE_DIRECTORY_MODE).create(path)) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(TrustError::of(path, error)),
            _ => Self::private(path),
        }
    }

    /// A directory that haul looks up, created if absent: this user's or root's, and not writable for others.
    pub fn looked_up(path: &Path) -> Result<Self, TrustError> {
        let made = DirBuilder::new().recursive(true).mode(PRIVATE_DIRECTORY_MODE).create(path);
        made.map_err(|error| TrustError::of(path, error))?;
        let held = Self::readable(&own_directory(path)?)?;
        Ok(Self { path: path.to_owned(), is_own: true, ..held })
    }

    /// A directory of any user. What is in it may be read, and is not to be written.
    pub fn readable(path: &Path) -> Result<Self, TrustError> {
        // Without a trailing slash, which follows a link.
        let path: PathBuf = path.components().collect();
        match open_directory(CWD, path.as_os_str()) {
            Ok(fd) => Ok(Self { fd, path, is_own: false }),
            Err(_) if path.is_symlink() => Err(TrustError::of(&path, Distrust::Link)),
            Err(error) => {
                let owner = path.symlink_metadata().map(|found| found.uid()).ok().filter(|owner| *owner != this_user());
                let why = owner.filter(|_| error.kind() == ErrorKind::PermissionDenied).map(Distrust::Owner);
                Err(TrustError::of(&path, why.unwrap_or(Distrust::Io(error))))
            }
        }
    }

    /// Whether the directory is this user's, by what was asked for when it was opened.
    pub fn is_own(&self) -> bool {
        self.is_own
    }

    fn check_private(&self) -> Result<(), Distrust> {
        let FileRights { owner, mode, .. } = FileRights::from(&metadata(&self.fd)?);
        match owner == this_user() {
            false => Err(Distrust::Owner(owner)),
            true if mode & 0o077 != 0 => Err(Distrust::Exposed(mode & 0o777)),
            true => Ok(()),
        }
    }

    /// The directory of `path`, and its name there.
    fn parent<'p>(&self, path: &'p Path) -> io::Result<(OwnedFd, &'p OsStr)> {
        let outside = || io::Error::new(ErrorKind::InvalidInput, "not in this directory");
        let below = path.strip_prefix(&self.path).map_err(|_| outside())?;
        let mut parent = self.fd.try_clone()?;
        let mut parts = below.components().peekable();
        loop {
            let Some(Component::Normal(name)) = parts.next() else { return Err(outside()) };
            if parts.peek().is_none() {
                return Ok((parent, name));
            }
            parent = self.subdirectory(&parent, name)?;
        }
    }

    fn subdirectory(&self, parent: &OwnedFd, name: &OsStr) -> io::Result<OwnedFd> {
        let fd = open_directory(parent, name)?;
        self.judge(&metadata(&fd)?)?;
        Ok(fd)
    }

    /// Others may have put something there before the directory became private.
    fn judge(&self, found: &Metadata) -> Result<(), Distrust> {
        let rights = FileRights::from(found);
        match self.is_own {
            true if rights.owner != this_user() => Err(Distrust::Owner(rights.owner)),
            true if rights.others_write(this_user()) => Err(Distrust::Writable),
            _ => Ok(()),
        }
    }

    fn open_with(&self, path: &Path, flags: OFlags) -> io::Result<File> {
        let (parent, name) = self.parent(path)?;
        let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = File::from(openat(parent, name, flags, PRIVATE_FILE)?);
        let found = file.metadata()?;
        if !found.is_file() {
            return Err(Distrust::Irregular.into());
        }
        self.judge(&found)?;
        if !flags.intersects(OFlags::WRONLY | OFlags::RDWR) {
            return Ok(file);
        }
        if found.nlink() > 1 { Err(Distrust::OtherName.into()) } else { Ok(file) }
    }

    /// Opens a file for reading.
    pub fn open(&self, path: &Path) -> io::Result<File> {
        self.open_with(path, OFlags::RDONLY)
    }

    /// Reads a file of at most `limit` bytes.
    pub fn read(&self, path: &Path, limit: u64) -> io::Result<Vec<u8>> {
        Ok(read_limited(&self.open(path)?, limit)?)
    }

    /// Opens a file for appending, and creates it if absent.
    pub fn append(&self, path: &Path) -> io::Result<File> {
        self.open_with(path, OFlags::RDWR | OFlags::APPEND | OFlags::CREATE)
    }

    /// Creates a file that does not exist.
    pub fn create_new(&self, path: &Path) -> io::Result<File> {
        self.open_with(path, OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL)
    }

    /// Opens an existing file for writing, if it is still `known`.
    pub fn reopen(&self, path: &Path, known: &Metadata) -> io::Result<File> {
        let file = self.open_with(path, OFlags::WRONLY)?;
        let found = file.metadata()?;
        let is_it = (found.dev(), found.ino()) == (known.dev(), known.ino());
        if is_it { Ok(file) } else { Err(io::Error::other("was replaced")) }
    }

    /// Whether something has this name.
    pub fn has(&self, path: &Path) -> bool {
        let found = self.parent(path).map(|(parent, name)| rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW));
        matches!(found, Ok(Ok(_)))
    }

    /// The names in a directory: this one, or one in it.
    pub fn names(&self, directory: &Path) -> io::Result<Vec<OsString>> {
        let fd = match directory == self.path {
            true => self.fd.try_clone()?,
            false => self.parent(directory).and_then(|(parent, name)| self.subdirectory(&parent, name))?,
        };
        let mut names = Vec::new();
        for entry in Dir::read_from(fd)? {
            let entry = entry?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name != "." && name != ".." {
                names.push(name.to_owned());
            }
        }
        Ok(names)
    }

    /// Creates a directory, and missing ones above it.
    pub fn make_directory(&self, directory: &Path) -> io::Result<()> {
        if directory == self.path {
            return Ok(());
        }
        directory.parent().map_or(Ok(()), |above| self.make_directory(above))?;
        let (parent, name) = self.parent(directory)?;
        match mkdirat(&parent, name, PRIVATE_DIRECTORY) {
            Err(rustix::io::Errno::EXIST) => self.subdirectory(&parent, name).map(drop),
            made => Ok(made?),
        }
    }

    /// Removes a file, if it exists.
    pub fn remove(&self, path: &Path) -> io::Result<()> {
        let removed = self.parent(path).and_then(|(parent, name)| Ok(unlinkat(parent, name, AtFlags::empty())?));
        absent_is_fine(removed)
    }

    /// Removes a directory with its contents, if it exists.
    pub fn remove_tree(&self, directory: &Path) -> io::Result<()> {
        let names = match self.names(directory) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            names => names?,
        };
        for path in names.iter().map(|name| directory.join(name)) {
            let (parent, name) = self.parent(&path)?;
            match open_directory(&parent, name) {
                Ok(_) => self.remove_tree(&path)?,
                Err(_) => self.remove(&path)?,
            }
        }
        let (parent, name) = self.parent(directory)?;
        absent_is_fine(unlinkat(parent, name, AtFlags::REMOVEDIR).map_err(io::Error::from))
    }

    /// Gives a file in the directory a further name.
    pub fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        let ((from, old), (to, new)) = (self.parent(from)?, self.parent(to)?);
        Ok(linkat(from, old, to, new, AtFlags::empty())?)
    }

    /// Creates a file that gets the name `path` once it is complete.
    pub fn create_unnamed(&self, path: &Path) -> io::Result<UnnamedFile> {
        let (parent, name) = self.parent(path)?;
        let own = hex(&random::<8>()?);
        let temporary: OsString = [OsStr::new("."), name, OsStr::new("."), OsStr::new(&own)].into_iter().collect();
        let file = self.create_new(&path.with_file_name(&temporary))?;
        Ok(UnnamedFile { file, parent, temporary, name: name.to_owned() })
    }

    /// Writes a whole file, in place of an older one.
    pub fn replace(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let mut file = self.create_unnamed(path)?;
        file.write_all(bytes)?;
        file.publish()
    }
}

impl AsFd for HeldDirectory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn absent_is_fine(done: io::Result<()>) -> io::Result<()> {
    match done {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

fn directory_flags() -> OFlags {
    OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC
}

fn open_directory(parent: impl AsFd, name: &OsStr) -> io::Result<OwnedFd> {
    Ok(openat(parent, name, directory_flags(), Mode::empty())?)
}

fn metadata(fd: &OwnedFd) -> io::Result<Metadata> {
    File::from(fd.try_clone()?).metadata()
}

/// A file with a temporary random name. It gets its own name once it is complete and durable.
#[derive(Debug)]
pub struct UnnamedFile {
    file: File,
    parent: OwnedFd,
    temporary: OsString,
    name: OsString,
}

impl UnnamedFile {
    /// Names it, in place of an older file.
    pub fn publish(self) -> io::Result<()> {
        self.file.sync_all()?;
        Ok(renameat(&self.parent, &self.temporary, &self.parent, &self.name)?)
    }
}

impl Write for UnnamedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for UnnamedFile {
    fn drop(&mut self) {
        // A published file no longer has this name.
        let _ = unlinkat(&self.parent, &self.temporary, AtFlags::empty());
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions, set_permissions};
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn held() -> (tempfile::TempDir, HeldDirectory, PathBuf) {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("held");
        DirBuilder::new().mode(0o700).create(&path).unwrap();
        let held = HeldDirectory::private(&path).unwrap();
        (temp, held, path)
    }

    fn mode(path: &Path) -> u32 {
        fs::symlink_metadata(path).unwrap().mode() & 0o7777
    }

    #[test]
    fn a_directory_with_permissions_for_others_is_refused() {
        let (temp, _, path) = held();
        for mode in [0o701, 0o710, 0o720, 0o2770, 0o755] {
            set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            assert!(matches!(HeldDirectory::private(&path).unwrap_err().why, Distrust::Exposed(_)), "{mode:o}");
            assert!(!HeldDirectory::readable(&path).unwrap().is_own());
        }
        set_permissions(&path, Permissions::from_mode(0o700)).unwrap();
        let link = temp.path().join("link");
        symlink(&path, &link).unwrap();
        for link in [&link, &link.join("")] {
            assert!(matches!(HeldDirectory::private(link).unwrap_err().why, Distrust::Link));
        }
        if rustix::process::geteuid().is_root() && !haul_lab::is_emulated_without("other owner") {
            std::os::unix::fs::chown(&path, Some(65_534), None).unwrap();
            assert!(matches!(HeldDirectory::private(&path).unwrap_err().why, Distrust::Owner(65_534)), "for root too");
        }
    }

    #[test]
    fn new_files_are_private_and_appear_completely_or_not_at_all() {
        let (_temp, held, path) = held();
        let (folder, file) = (path.join("a/b"), path.join("a/b/file"));
        held.make_directory(&folder).unwrap();
        held.make_directory(&folder).unwrap();
        let mut half = held.create_unnamed(&file).unwrap();
        half.write_all(b"half").unwrap();
        assert!(!held.has(&file));
        let other = held.create_unnamed(&file).unwrap();
        assert_eq!(held.names(&folder).unwrap().len(), 2, "nobody can foresee a temporary name");
        drop((half, other));
        assert_eq!(held.names(&folder).unwrap(), [""; 0]);
        held.replace(&file, b"old").unwrap();
        held.replace(&file, b"new").unwrap();
        held.append(&path.join("log")).unwrap().write_all(b"line").unwrap();
        assert_eq!((held.read(&file, 3).unwrap(), held.read(&file, 2).is_err()), (b"new".to_vec(), true));
        assert_eq!([&folder, &file, &path.join("log")].map(|path| mode(path)), [0o700, 0o600, 0o600]);
        held.remove_tree(&path.join("a")).unwrap();
        held.remove_tree(&path.join("a")).unwrap();
        assert_eq!(held.names(&path).unwrap(), ["log"]);
    }

    #[test]
    fn planted_links_lead_nowhere() {
        let (temp, held, path) = held();
        let outside = temp.path().join("outside");
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("file"), "mine").unwrap();
        symlink(&outside, path.join("folder")).unwrap();
        symlink(outside.join("file"), path.join("link")).unwrap();
        fs::hard_link(outside.join("file"), path.join("name")).unwrap();
        rustix::fs::mknodat(CWD, path.join("fifo"), rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        for name in ["folder/file", "link", "fifo", "../outside/file", "folder/.."] {
            let name = path.join(name);
            assert!(held.open(&name).is_err() && held.append(&name).is_err(), "{}", name.display());
        }
        for name in ["link", "name", "fifo"] {
            assert!(held.create_new(&path.join(name)).is_err(), "{name}");
        }
        assert!(held.append(&path.join("name")).is_err(), "a file with another name elsewhere");
        assert!(held.names(&path.join("folder")).is_err() && held.make_directory(&path.join("folder/new")).is_err());
        held.replace(&path.join("link"), b"new").unwrap();
        held.remove_tree(&path.join("folder")).unwrap_err();
        assert_eq!(fs::read(outside.join("file")).unwrap(), b"mine");
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);
    }

    #[test]
    fn a_replaced_file_is_not_reopened_and_files_of_others_are_not_read() {
        let (_temp, held, path) = held();
        let file = path.join("file");
        let known = held.create_new(&file).unwrap().metadata().unwrap();
        assert!(held.reopen(&file, &known).is_ok() && held.create_new(&file).is_err());
        held.replace(&file, b"").unwrap();
        assert!(held.reopen(&file, &known).is_err());
        set_permissions(&file, Permissions::from_mode(0o602)).unwrap();
        assert_eq!(held.open(&file).unwrap_err().to_string(), "others can write it");
    }
}
