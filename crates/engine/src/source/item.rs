//! What the source knows a file by, from its offer until it is settled.

use haul_proto::entry::Stamp;
use haul_proto::path::Name;
use rustix::fs::FileType;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, UNIX_EPOCH};

use super::feed::{Feed, Spring};
use super::removal::Removable;
use crate::fs::{Dir, Links, Look};
use crate::io::checksum::Sum;
use crate::io::storage::Access;
use crate::io::storage::file::Opened;
use crate::job::display_path::below;
use crate::job::null;
use crate::sys::describe::describe;

/// An entry that was offered.
pub struct Item {
    /// Path of the operand that it belongs to, as it was typed.
    pub operand: Arc<[u8]>,
    /// Where it stands, for what is not a directory.
    pub place: Option<Place>,
    /// Bytes when it was offered.
    pub size: u64,
    /// Time of last modification when it was offered.
    pub modified: Stamp,
    /// What it needs to be removed, where it is once it is proven at the target.
    pub removable: Option<Removable>,
    /// A large file, opened by the first stream that reads it, closed when it is settled.
    opened: OnceLock<Result<Arc<Opened>, Trouble>>,
    /// What is read in order, once that is so.
    feed: OnceLock<Box<Feed>>,
    is_pipe: bool,
    /// So many zeros, and no file.
    is_null: bool,
    /// It has changed once while it was being read, and was offered anew.
    is_again: bool,
    /// The audit log has it that contents of it leave.
    is_audited: AtomicBool,
    /// Its digest, where one is computed here.
    pub(super) sum: OnceLock<Box<Sum>>,
    /// The digest of a small file, once it was told.
    pub(super) told: OnceLock<Vec<u8>>,
}

/// Why a file cannot be delivered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trouble {
    /// It is not what it was when it was offered or begun.
    Changed,
    /// Anything else, in words.
    Failed(String),
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Self {
        Self::Failed(describe(&error))
    }
}

/// A name in a directory.
#[derive(Clone)]
pub struct Place {
    /// The directory.
    pub parent: Dir,
    /// The name.
    pub name: Name,
    /// Whether the name may be a link that is followed.
    pub links: Links,
    /// Whether it is an operand itself, whose path the user typed.
    pub is_operand: bool,
}

impl Place {
    /// The path as the user would name it, below an operand that was typed like this.
    pub fn path(&self, operand: &[u8]) -> Vec<u8> {
        if self.is_operand { operand.to_vec() } else { below(operand, &self.parent.path_of(self.name.as_bytes())) }
    }
}

impl Item {
    /// A directory: nothing of it is read but its listing.
    pub fn directory(operand: Arc<[u8]>) -> Self {
        Self::at(operand, None, 0, Stamp::default())
    }

    /// Zeros: see [`null`].
    pub fn null(operand: Arc<[u8]>, size: u64, modified: Stamp) -> Self {
        Self { is_null: true, ..Self::at(operand, None, size, modified) }
    }

    /// Anything else.
    pub fn new(operand: Arc<[u8]>, place: Place, size: u64, modified: Stamp) -> Self {
        Self::at(operand, Some(place), size, modified)
    }

    /// What comes out of a pipe.
    pub fn pipe(operand: Arc<[u8]>, pipe: Arc<Spring>) -> Self {
        let feed = OnceLock::from(Box::new(Feed::of_pipe(pipe)));
        Self { feed, is_pipe: true, ..Self::at(operand, None, 0, Stamp::default()) }
    }

    fn at(operand: Arc<[u8]>, place: Option<Place>, size: u64, modified: Stamp) -> Self {
        let (opened, feed) = (OnceLock::new(), OnceLock::new());
        Self {
            operand,
            place,
            size,
            modified,
            removable: None,
            opened,
            feed,
            is_pipe: false,
            is_null: false,
            is_again: false,
            is_audited: AtomicBool::new(false),
            sum: OnceLock::new(),
            told: OnceLock::new(),
        }
    }

    /// The file as it is now, to be offered anew after it has changed. `None` if it was already: what goes on changing
    /// is not waited for.
    pub fn again(&self) -> Result<Option<(Self, Look)>, Trouble> {
        if self.is_again {
            return Ok(None);
        }
        let Some(place) = &self.place else { return Ok(None) };
        let file = self.open()?;
        let look = Look::at_fd(&file)?;
        let look = match under_way(&look) {
            Some(rest) => {
                std::thread::sleep(rest);
                Look::at_fd(&file)?
            }
            None => look,
        };
        if look.kind != FileType::RegularFile {
            return Err(io::Error::other(NO_FILE).into());
        }
        let item = Self::at(Arc::clone(&self.operand), Some(place.clone()), look.size, look.meta.modified);
        let removable = self.removable.as_ref().map(|removable| removable.now(&look));
        Ok(Some((Self { is_again: true, removable, ..item }, look)))
    }

    /// Where it is read from in order.
    pub fn feed(&self) -> &Feed {
        self.feed.get_or_init(|| Box::new(Feed::of_file()))
    }

    /// Whether this is the first call.
    pub fn begin_audit(&self) -> bool {
        !self.is_audited.swap(true, Ordering::Relaxed)
    }

    /// Whether it comes out of a pipe.
    pub fn is_pipe(&self) -> bool {
        self.is_pipe
    }

    /// Whether it is zeros, and no file.
    pub fn is_null(&self) -> bool {
        self.is_null
    }

    /// Opens the file, without a look at what it is now.
    pub fn open(&self) -> io::Result<OwnedFd> {
        if self.is_null {
            return null::open_zeros();
        }
        let place = self.place.as_ref().ok_or_else(|| io::Error::from(io::ErrorKind::IsADirectory))?;
        place.parent.open_unseen(&place.name, place.links)
    }

    /// Looks at the open file: its size and time. What is no regular file (any more) is an error; zeros never change.
    pub fn look(&self, file: &OwnedFd) -> io::Result<(u64, Stamp)> {
        if self.is_null {
            return Ok((self.size, self.modified));
        }
        let look = Look::at_fd(file)?;
        match look.kind {
            FileType::RegularFile => Ok((look.size, look.meta.modified)),
            _ => Err(io::Error::other(NO_FILE)),
        }
    }

    /// The file, open once for all streams; the error is the same for all, too. A file that is not
    /// as it was offered is an error.
    pub fn open_shared(&self) -> Result<Arc<Opened>, Trouble> {
        self.opened.get_or_init(|| self.open_as_offered()).clone()
    }

    /// The file, open for whoever asks, and no longer than that. A file that is not as it was offered is an error.
    pub fn open_as_offered(&self) -> Result<Arc<Opened>, Trouble> {
        let file = self.open()?;
        if self.look(&file)? != (self.size, self.modified) {
            return Err(Trouble::Changed);
        }
        // Only advice: what it does not do, it does not break.
        let _ = rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::Sequential);
        Ok(Arc::new(Opened::new(file, Access::Read)?))
    }

    /// The path as the user would name it.
    pub fn path(&self) -> Vec<u8> {
        self.place.as_ref().map_or_else(|| self.operand.to_vec(), |place| place.path(&self.operand))
    }
}

/// How long a call may take to write what it was given.
const ONE_WRITE: Duration = Duration::from_millis(100);
/// What is no larger is written in no time.
const LONG_WRITE_MIN: u64 = 256 << 10;

/// How long to wait until a call that gave the file its time has also written all that it was given: the system says the time
/// of its beginning, and what is read meanwhile would be half old and half new, without a sign of it.
fn under_way(look: &Look) -> Option<Duration> {
    let Stamp { seconds, nanoseconds } = look.meta.modified;
    let modified = UNIX_EPOCH + Duration::new(u64::try_from(seconds).ok()?, nanoseconds);
    let rest = ONE_WRITE.checked_sub(modified.elapsed().ok()?)?;
    (look.size >= LONG_WRITE_MIN).then_some(rest)
}

/// Said of a name that is not a file's any more.
const NO_FILE: &str = "is no longer a regular file";
/// Said of a file that is not what it was when it was offered or begun, and of one that goes on changing.
pub const CHANGED: &str = "it changed while it was being read\nrun the same command again when nothing writes to it";
