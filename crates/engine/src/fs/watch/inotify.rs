//! inotify(7): reports changes of names in watched directories.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use haul_proto::watch::{DirectoryChange, DirectoryEvent, WatchId};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify::{CreateFlags, ReadFlags, Reader, WatchFlags, add_watch, init, remove_watch};
use rustix::io::Errno;

/// Bytes of events read at once: at least one with the longest name.
const BUFFER_BYTES: usize = 64 << 10;

/// The reported changes of a directory.
const WATCHED: WatchFlags = WatchFlags::ATTRIB
    .union(WatchFlags::CLOSE_WRITE)
    .union(WatchFlags::CREATE)
    .union(WatchFlags::DELETE)
    .union(WatchFlags::DELETE_SELF)
    .union(WatchFlags::MODIFY)
    .union(WatchFlags::MOVE)
    .union(WatchFlags::MOVE_SELF)
    .union(WatchFlags::EXCL_UNLINK)
    .union(WatchFlags::ONLYDIR);

/// What each kind of event means.
const CHANGES: [(ReadFlags, DirectoryChange); 11] = [
    (ReadFlags::UNMOUNT, DirectoryChange::Unmounted),
    (ReadFlags::IGNORED, DirectoryChange::Ended),
    (ReadFlags::DELETE_SELF, DirectoryChange::Left),
    (ReadFlags::MOVE_SELF, DirectoryChange::Left),
    (ReadFlags::CREATE, DirectoryChange::Appeared),
    (ReadFlags::MOVED_TO, DirectoryChange::Appeared),
    (ReadFlags::DELETE, DirectoryChange::Gone),
    (ReadFlags::MOVED_FROM, DirectoryChange::Gone),
    (ReadFlags::CLOSE_WRITE, DirectoryChange::Closed),
    (ReadFlags::MODIFY, DirectoryChange::Written),
    (ReadFlags::ATTRIB, DirectoryChange::Properties),
];

/// What the kernel reports.
pub(super) enum Notice {
    /// A change.
    Event(DirectoryEvent),
    /// Changes were dropped.
    Overflow,
}

/// An inotify instance.
pub(super) struct Inotify(OwnedFd);

impl Inotify {
    pub fn new() -> io::Result<Self> {
        Ok(Self(init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?))
    }

    /// Watches an open directory, whatever its path.
    pub fn add(&self, dir: impl AsFd) -> io::Result<WatchId> {
        let path = format!("/proc/self/fd/{}", dir.as_fd().as_raw_fd());
        Ok(WatchId(add_watch(&self.0, path, WATCHED)?))
    }

    /// Removes a watch. It may be gone already.
    pub fn remove(&self, watch: WatchId) {
        let _ = remove_watch(&self.0, watch.0);
    }

    /// Waits for a notice, for the end of `patience`, or for `other`; returns whether that is ready.
    pub fn wait(&self, other: Option<BorrowedFd<'_>>, patience: Option<Duration>) -> io::Result<bool> {
        let mut polled = vec![PollFd::new(&self.0, PollFlags::IN)];
        // A list of mounts reports its changes as an exceptional condition.
        polled.extend(other.as_ref().map(|other| PollFd::new(other, PollFlags::PRI)));
        let patience = patience.and_then(|patience| Timespec::try_from(patience).ok());
        match poll(&mut polled, patience.as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok(polled.get(1).is_some_and(|other| !other.revents().is_empty())),
            Err(error) => Err(error.into()),
        }
    }

    /// Reads all notices that are there.
    pub fn read(&self) -> io::Result<Vec<Notice>> {
        let mut buffer = vec![MaybeUninit::uninit(); BUFFER_BYTES];
        let mut reader = Reader::new(&self.0, &mut buffer);
        let mut notices = Vec::new();
        loop {
            let event = match reader.next() {
                Ok(event) => event,
                Err(Errno::AGAIN | Errno::INTR) => return Ok(notices),
                Err(error) => return Err(error.into()),
            };
            let flags = event.events();
            if flags.contains(ReadFlags::QUEUE_OVERFLOW) {
                notices.push(Notice::Overflow);
                continue;
            }
            let changes = CHANGES.into_iter().filter(|(flag, _)| flags.contains(*flag));
            notices.extend(changes.map(|(_, change)| {
                let name = event.file_name().map(|name| name.to_bytes().to_vec()).unwrap_or_default();
                let is_directory = flags.contains(ReadFlags::ISDIR);
                Notice::Event(DirectoryEvent { watch: WatchId(event.wd()), change, name, is_directory })
            }));
        }
    }
}
