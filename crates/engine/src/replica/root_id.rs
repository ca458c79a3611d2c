//! The id that a root keeps, in an extended attribute, else in a file of haul's directory in the root.
//!
//! Beside it stands the number of runs. The state directory remembers both with the root's path, so that a copied root,
//! a restored backup and a copied state directory are noticed: they get a new id, and with it no archive. Device numbers
//! say nothing: they change at a reboot, on NFS and on btrfs.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use haul_base::held_directory::HeldDirectory;
use haul_base::sys::random::random;
use haul_proto::checksum::{from_hex, hex};
use haul_proto::twoway::OWN_DIRECTORY;
use haul_proto::wire::replica_session::{ReplicaId, ReplicaOrigin};
use rustix::fs::{Mode, OFlags, XattrFlags, fgetxattr, fsetxattr, mkdirat, openat, renameat};
use rustix::io::Errno;

use crate::fs::{Dir, FileIdentity};

const ATTRIBUTE: &str = "user.haul.replica";
const ID_FILE: &str = "id";
const MARK_BYTES: usize = 24;
/// The directory of remembered roots, in that of archives.
const ROOTS: &str = "roots";
const RECORD_MAX: u64 = 256 << 10;

/// What a root keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RootMark {
    /// Its id.
    pub id: ReplicaId,
    /// Number of runs so far.
    pub runs: u64,
}

/// What the state directory remembers of a root.
#[derive(Debug, PartialEq, Eq)]
struct RootRecord {
    machine: Vec<u8>,
    path: Vec<u8>,
    runs: u64,
}

impl RootMark {
    fn new() -> io::Result<Self> {
        Ok(Self { id: random()?, runs: 0 })
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (id, runs) = bytes.split_first_chunk()?;
        Some(Self { id: *id, runs: u64::from_le_bytes(runs.try_into().ok()?) })
    }

    fn encode(self) -> Vec<u8> {
        [&self.id[..], &self.runs.to_le_bytes()].concat()
    }

    /// Reads the mark of a root; `None` where there is none.
    pub fn read(root: &OwnedFd) -> io::Result<Option<Self>> {
        let mut bytes = [0; MARK_BYTES];
        match fgetxattr(root, ATTRIBUTE, &mut bytes) {
            Ok(len) => return Ok(Self::decode(&bytes[..len])),
            Err(Errno::NODATA | Errno::OPNOTSUPP | Errno::RANGE | Errno::NOSYS | Errno::PERM) => {}
            Err(error) => return Err(error.into()),
        }
        let file = own_directory(root).and_then(|dir| openat(&dir, ID_FILE, read_flags(), Mode::empty()));
        let file = match file {
            Ok(file) => file,
            Err(Errno::NOENT) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let len = rustix::io::read(&file, &mut bytes)?;
        Ok(Self::decode(&bytes[..len]))
    }

    /// Writes the mark of a root, durably.
    pub fn write(self, root: &OwnedFd) -> io::Result<()> {
        let bytes = self.encode();
        match fsetxattr(root, ATTRIBUTE, &bytes, XattrFlags::empty()) {
            Ok(()) => return Ok(rustix::fs::fsync(root)?),
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::PERM | Errno::NOSPC | Errno::DQUOT) => {}
            Err(error) => return Err(error.into()),
        }
        match mkdirat(root, OWN_DIRECTORY, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        let dir = own_directory(root)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(&dir, "id.new", flags, Mode::RUSR | Mode::WUSR)?;
        let written = rustix::io::write(&file, &bytes)?;
        if written != bytes.len() {
            return Err(Errno::NOSPC.into());
        }
        rustix::fs::fsync(&file)?;
        Ok(renameat(&dir, "id.new", &dir, ID_FILE)?)
    }
}

fn read_flags() -> OFlags {
    OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC
}

/// Opens haul's directory in a root.
fn own_directory(root: &OwnedFd) -> rustix::io::Result<OwnedFd> {
    openat(root, OWN_DIRECTORY, read_flags() | OFlags::DIRECTORY, Mode::empty())
}

/// Remembers roots in the state directory.
pub struct RootRecords<'s> {
    state: &'s HeldDirectory,
    directory: PathBuf,
    /// Identifies this host. The sandbox hides it later.
    machine: &'s [u8],
}

impl<'s> RootRecords<'s> {
    /// Makes their directory in `state`, which is at `path`. `machine` identifies this host.
    pub fn open(state: &'s HeldDirectory, path: &Path, machine: &'s [u8]) -> io::Result<Self> {
        let directory = path.join(ROOTS);
        state.make_directory(&directory)?;
        Ok(Self { state, directory, machine })
    }

    /// Returns the mark of a root at `path`, and how it is known. A root that needs one gets a new mark.
    pub fn identify(&self, root: &Dir, path: &Path) -> io::Result<(RootMark, ReplicaOrigin)> {
        let fd = root.fd()?;
        let Some(mark) = RootMark::read(&fd)? else { return self.mark_anew(&fd, path, ReplicaOrigin::New) };
        let origin = match self.read(mark.id)? {
            // Another machine's disk, or a lost state directory. The id stays, since the other machine knows it.
            None => return self.remember(mark, path).map(|()| (mark, ReplicaOrigin::New)),
            Some(record) if record.machine != self.machine => ReplicaOrigin::OtherMachine,
            Some(record) if record.runs > mark.runs => ReplicaOrigin::Restored,
            Some(record) if record.path == path.as_os_str().as_bytes() => ReplicaOrigin::Known,
            Some(record) if is_another_root(&record.path, mark.id, root.identity()) => ReplicaOrigin::Cloned,
            Some(_) => ReplicaOrigin::Moved,
        };
        match origin {
            ReplicaOrigin::Known => Ok((mark, origin)),
            ReplicaOrigin::Moved => self.remember(mark, path).map(|()| (mark, origin)),
            _ => self.mark_anew(&fd, path, origin),
        }
    }

    fn mark_anew(&self, fd: &OwnedFd, path: &Path, origin: ReplicaOrigin) -> io::Result<(RootMark, ReplicaOrigin)> {
        let mark = RootMark::new()?;
        mark.write(fd)?;
        self.remember(mark, path)?;
        Ok((mark, origin))
    }

    /// Counts a run: first in the root, so that a crash in between makes no root older than its record.
    pub fn count_run(&self, root: &Dir, path: &Path, mark: RootMark) -> io::Result<RootMark> {
        let mark = RootMark { runs: mark.runs.saturating_add(1), ..mark };
        mark.write(&*root.fd()?)?;
        self.remember(mark, path)?;
        Ok(mark)
    }

    fn file_of(&self, id: ReplicaId) -> PathBuf {
        self.directory.join(hex(&id))
    }

    fn remember(&self, mark: RootMark, path: &Path) -> io::Result<()> {
        let text = format!("{}\n{}\n{}\n", mark.runs, hex(self.machine), hex(path.as_os_str().as_bytes()));
        self.state.replace(&self.file_of(mark.id), text.as_bytes())
    }

    /// Reads a record; a damaged one counts as absent.
    fn read(&self, id: ReplicaId) -> io::Result<Option<RootRecord>> {
        match self.state.read(&self.file_of(id), RECORD_MAX) {
            Ok(text) => Ok(parse(&text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}

fn parse(text: &[u8]) -> Option<RootRecord> {
    let text = std::str::from_utf8(text).ok()?;
    let mut lines = text.lines();
    let runs = lines.next()?.parse().ok()?;
    let mut bytes = || from_hex(lines.next()?.as_bytes());
    Some(RootRecord { runs, machine: bytes()?, path: bytes()? })
}

/// Whether another directory is at the earlier path of a root, with the same id.
fn is_another_root(path: &[u8], id: ReplicaId, own: FileIdentity) -> bool {
    let Ok(there) = Dir::open_root(Path::new(std::ffi::OsStr::from_bytes(path))) else { return false };
    let mark = there.fd().and_then(|fd| RootMark::read(&fd));
    there.identity() != own && mark.is_ok_and(|mark| mark.is_some_and(|mark| mark.id == id))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    struct Place {
        temp: tempfile::TempDir,
        state: HeldDirectory,
    }

    impl Place {
        fn new() -> Self {
            let temp = tempfile::tempdir().unwrap();
            let state = HeldDirectory::create_private(&temp.path().join("state")).unwrap();
            Self { temp, state }
        }

        fn path(&self, name: &str) -> PathBuf {
            self.temp.path().join(name)
        }

        fn root(&self, name: &str) -> Dir {
            let _ = fs::create_dir(self.path(name));
            Dir::open_root(&self.path(name)).unwrap()
        }

        fn records(&self) -> RootRecords<'_> {
            RootRecords::open(&self.state, &self.path("state"), b"this one").unwrap()
        }

        fn origin(&self, name: &str) -> (ReplicaId, ReplicaOrigin) {
            let (mark, origin) = self.records().identify(&self.root(name), &self.path(name)).unwrap();
            (mark.id, origin)
        }
    }

    #[test]
    fn a_root_is_known_again_wherever_it_is() {
        let place = Place::new();
        let (id, origin) = place.origin("a");
        assert_eq!(origin, ReplicaOrigin::New);
        assert_eq!(place.origin("a"), (id, ReplicaOrigin::Known));
        fs::rename(place.path("a"), place.path("b")).unwrap();
        assert_eq!(place.origin("b"), (id, ReplicaOrigin::Moved));
        assert_eq!(place.origin("b"), (id, ReplicaOrigin::Known));
    }

    #[test]
    fn a_copied_root_gets_an_id_of_its_own() {
        let place = Place::new();
        let (id, _) = place.origin("a");
        let mark = RootMark::read(&place.root("a").fd().unwrap()).unwrap().unwrap();
        mark.write(&place.root("copy").fd().unwrap()).unwrap();
        let (other, origin) = place.origin("copy");
        assert_eq!(origin, ReplicaOrigin::Cloned);
        assert_ne!(id, other);
        assert_eq!(place.origin("a"), (id, ReplicaOrigin::Known));
    }

    #[test]
    fn a_restored_backup_is_noticed() {
        let place = Place::new();
        let (id, _) = place.origin("a");
        let root = place.root("a");
        let backup = RootMark::read(&root.fd().unwrap()).unwrap().unwrap();
        place.records().count_run(&root, &place.path("a"), backup).unwrap();
        assert_eq!(place.origin("a"), (id, ReplicaOrigin::Known));
        backup.write(&root.fd().unwrap()).unwrap();
        assert_eq!(place.origin("a").1, ReplicaOrigin::Restored);
    }

    #[test]
    fn records_of_another_machine_do_not_count() {
        let place = Place::new();
        let (id, _) = place.origin("a");
        let record = format!("0\n00\n{}\n", hex(place.path("a").as_os_str().as_bytes()));
        place.state.replace(&place.path("state").join(ROOTS).join(hex(&id)), record.as_bytes()).unwrap();
        assert_eq!(place.origin("a").1, ReplicaOrigin::OtherMachine);
    }

    #[test]
    fn a_damaged_record_counts_as_absent() {
        for text in ["", "1", "1\nzz\n00\n", "1\n0\n00\n", "x\n00\n00\n"] {
            assert_eq!(parse(text.as_bytes()), None, "{text:?}");
        }
        let record = RootRecord { runs: 3, machine: b"m".to_vec(), path: b"/a".to_vec() };
        assert_eq!(parse(b"3\n6d\n2f61\n"), Some(record));
    }
}
