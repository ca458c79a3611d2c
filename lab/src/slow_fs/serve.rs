//! The kernel's requests: done at once in [`MemoryFs`], answered with the slow disk's delay.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use fuser::consts::FUSE_PARALLEL_DIROPS;
use fuser::{
    FileAttr, FileType, Filesystem, KernelConfig, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty,
    ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow,
};
use rustix::fs::OFlags;
use rustix::io::Errno;

use super::later::Later;
use super::memory::{Change, MemoryFs, NodeContent, Owner};
use super::{Layouts, Oddities, Slowness};

/// How long the kernel may cache names and attributes: not at all.
const BELIEVED: Duration = Duration::ZERO;
/// Of a name that comes and goes.
const GENERATION: u64 = 0;
const RENAME_NOREPLACE: u32 = 1;
/// Name of the attribute with a layout, and the layout of a file that was given none.
const LAYOUT: &str = "lustre.lov";
const DEFAULT_LAYOUT: &[u8] = b"default";
/// fcntl(2); rustix has no name for it.
const O_ASYNC: OFlags = OFlags::from_bits_retain(0o20_000);
/// Reported free space: plenty.
const BLOCKS: u64 = 1 << 30;

/// The file system as the kernel sees it.
pub struct KernelFs {
    memory: MemoryFs,
    oddities: Oddities,
    slowness: Arc<Mutex<Slowness>>,
    later: Later,
    /// When the disk will have finished its requests.
    free_at: Instant,
}

impl KernelFs {
    /// An empty one.
    pub fn start(slowness: Arc<Mutex<Slowness>>, oddities: Oddities) -> io::Result<Self> {
        let memory = MemoryFs::new(oddities.folds);
        Ok(Self { memory, oddities, slowness, later: Later::start()?, free_at: Instant::now() })
    }

    fn owner(&self, request: &Request<'_>, mode: u32) -> Owner {
        let Oddities { owner, shown_mode, .. } = self.oddities;
        Owner { uid: owner.unwrap_or(request.uid()), gid: request.gid(), mode: shown_mode.unwrap_or(mode) }
    }

    fn slowness(&self) -> Slowness {
        *self.slowness.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replies after the delay of this many bytes.
    fn after_bytes(&mut self, bytes: usize, answer: impl FnOnce() + Send + 'static) {
        let Slowness { bytes_per_s, latency, .. } = self.slowness();
        let transfer = bytes_per_s.map_or(Duration::ZERO, |rate| Duration::from_nanos(nanoseconds(bytes, rate)));
        let now = Instant::now();
        self.free_at = self.free_at.max(now) + transfer;
        let time = self.free_at + latency;
        if time > now { self.later.at(time, answer) } else { answer() }
    }

    /// Answers when a name was looked up.
    fn after_name(&self, answer: impl FnOnce() + Send + 'static) {
        let wait = self.slowness().names;
        if wait.is_zero() { answer() } else { self.later.at(Instant::now() + wait, answer) }
    }

    fn entry(&self, found: Result<FileAttr, Errno>, reply: ReplyEntry) {
        self.after_name(move || match found {
            Ok(attr) => reply.entry(&BELIEVED, &attr, GENERATION),
            Err(error) => reply.error(error.raw_os_error()),
        });
    }

    fn attributes(&self, found: Result<FileAttr, Errno>, reply: ReplyAttr) {
        self.after_name(move || match found {
            Ok(attr) => reply.attr(&BELIEVED, &attr),
            Err(error) => reply.error(error.raw_os_error()),
        });
    }

    /// An open for writing gives a file objects, unless its flags delay that: `O_ASYNC` with `O_NOCTTY`, which the
    /// kernel does not show.
    fn instantiate(&mut self, id: u64, flags: i32) -> Result<(), Errno> {
        let flags = OFlags::from_bits_retain(flags.cast_unsigned());
        let writes = flags.intersects(OFlags::WRONLY | OFlags::RDWR);
        match self.oddities.layouts {
            Some(_) if writes && !flags.contains(O_ASYNC) => self.memory.lay_out(id, DEFAULT_LAYOUT),
            _ => Ok(()),
        }
    }

    fn done(&self, done: Result<(), Errno>, reply: ReplyEmpty) {
        self.after_name(move || match done {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(error.raw_os_error()),
        });
    }
}

fn nanoseconds(bytes: usize, bytes_per_s: u64) -> u64 {
    u64::try_from(bytes as u128 * 1_000_000_000 / u128::from(bytes_per_s.max(1))).unwrap_or(u64::MAX)
}

fn time(asked: TimeOrNow) -> SystemTime {
    match asked {
        TimeOrNow::SpecificTime(time) => time,
        TimeOrNow::Now => SystemTime::now(),
    }
}

fn position(offset: i64) -> u64 {
    u64::try_from(offset).unwrap_or(0)
}

impl Filesystem for KernelFs {
    /// As on a file server, names of one directory are looked up at the same time. A kernel that cannot asks one by one.
    fn init(&mut self, _: &Request<'_>, config: &mut KernelConfig) -> Result<(), i32> {
        let _ = config.add_capabilities(FUSE_PARALLEL_DIROPS);
        Ok(())
    }

    fn lookup(&mut self, _: &Request<'_>, parent: u64, name: &OsStr, reply: ReplyEntry) {
        self.entry(self.memory.lookup(parent, name), reply);
    }

    fn getattr(&mut self, _: &Request<'_>, id: u64, _: Option<u64>, reply: ReplyAttr) {
        self.attributes(self.memory.attr(id), reply);
    }

    fn setattr(
        &mut self,
        _: &Request<'_>,
        id: u64,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<u64>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<u32>,
        reply: ReplyAttr,
    ) {
        let dropped = self.oddities.drops_single_times && atime.is_some() != mtime.is_some();
        let (atime, mtime) = if dropped { (None, None) } else { (atime, mtime) };
        let mode = mode.filter(|_| self.oddities.shown_mode.is_none());
        let change = Change { mode, uid, gid, size, atime: atime.map(time), mtime: mtime.map(time) };
        let changed = self.memory.change(id, change);
        self.attributes(changed, reply);
    }

    fn readlink(&mut self, _: &Request<'_>, id: u64, reply: ReplyData) {
        let target = self.memory.target(id).map(|target| target.as_os_str().as_bytes().to_vec());
        let target = if self.oddities.empty_links { target.map(|_| Vec::new()) } else { target };
        self.after_name(move || match target {
            Ok(target) => reply.data(&target),
            Err(error) => reply.error(error.raw_os_error()),
        });
    }

    fn mkdir(&mut self, request: &Request<'_>, parent: u64, name: &OsStr, mode: u32, umask: u32, reply: ReplyEntry) {
        let content = NodeContent::Directory(BTreeMap::new());
        let made = self.memory.make(parent, name, content, self.owner(request, mode & !umask));
        self.entry(made, reply);
    }

    fn symlink(&mut self, request: &Request<'_>, parent: u64, name: &OsStr, target: &Path, reply: ReplyEntry) {
        let made = self.memory.make(parent, name, NodeContent::Link(target.to_owned()), self.owner(request, 0o777));
        self.entry(made, reply);
    }

    fn create(
        &mut self,
        request: &Request<'_>,
        parent: u64,
        name: &OsStr,
        mode: u32,
        umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let made = self.memory.make(parent, name, NodeContent::File(Vec::new()), self.owner(request, mode & !umask));
        let made = made.and_then(|attr| self.instantiate(attr.ino, flags).map(|()| attr));
        self.after_name(move || match made {
            Ok(attr) => reply.created(&BELIEVED, &attr, GENERATION, 0, 0),
            Err(error) => reply.error(error.raw_os_error()),
        });
    }

    fn unlink(&mut self, _: &Request<'_>, parent: u64, name: &OsStr, reply: ReplyEmpty) {
        let removed = self.memory.remove(parent, name);
        self.done(removed, reply);
    }

    fn rmdir(&mut self, _: &Request<'_>, parent: u64, name: &OsStr, reply: ReplyEmpty) {
        let removed = self.memory.remove(parent, name);
        self.done(removed, reply);
    }

    fn rename(
        &mut self,
        _: &Request<'_>,
        parent: u64,
        name: &OsStr,
        new_parent: u64,
        new_name: &OsStr,
        flags: u32,
        reply: ReplyEmpty,
    ) {
        let renamed = match flags & !RENAME_NOREPLACE {
            0 => self.memory.rename((parent, name), (new_parent, new_name), flags & RENAME_NOREPLACE == 0),
            _ => Err(Errno::INVAL),
        };
        self.done(renamed, reply);
    }

    fn link(&mut self, _: &Request<'_>, id: u64, parent: u64, name: &OsStr, reply: ReplyEntry) {
        let linked = self.memory.link(id, parent, name);
        self.entry(linked, reply);
    }

    fn read(
        &mut self,
        _: &Request<'_>,
        id: u64,
        _: u64,
        offset: i64,
        size: u32,
        _: i32,
        _: Option<u64>,
        reply: ReplyData,
    ) {
        match self.memory.read(id, position(offset), size) {
            Ok(bytes) => self.after_bytes(bytes.len(), move || reply.data(&bytes)),
            Err(error) => reply.error(error.raw_os_error()),
        }
    }

    fn write(
        &mut self,
        _: &Request<'_>,
        id: u64,
        _: u64,
        offset: i64,
        data: &[u8],
        _: u32,
        _: i32,
        _: Option<u64>,
        reply: ReplyWrite,
    ) {
        let written = u32::try_from(data.len()).unwrap_or(u32::MAX);
        let has_objects = self.oddities.layouts.is_none() || self.memory.layout(id).is_ok_and(|it| it.is_some());
        let result = if has_objects { self.memory.write(id, position(offset), data) } else { Err(Errno::BADF) };
        match result {
            Ok(()) => self.after_bytes(data.len(), move || reply.written(written)),
            Err(error) => reply.error(error.raw_os_error()),
        }
    }

    fn open(&mut self, _: &Request<'_>, id: u64, flags: i32, reply: ReplyOpen) {
        match self.instantiate(id, flags) {
            Ok(()) => reply.opened(0, 0),
            Err(error) => reply.error(error.raw_os_error()),
        }
    }

    fn setxattr(&mut self, _: &Request<'_>, id: u64, name: &OsStr, value: &[u8], _: i32, _: u32, reply: ReplyEmpty) {
        let set = match self.oddities.layouts {
            None => Err(Errno::NOSYS),
            Some(Layouts::Settable) if name == LAYOUT => self.memory.lay_out(id, value),
            Some(_) => Err(Errno::PERM),
        };
        self.done(set, reply);
    }

    fn getxattr(&mut self, _: &Request<'_>, id: u64, name: &OsStr, size: u32, reply: ReplyXattr) {
        let found = match self.oddities.layouts {
            None => Err(Errno::NOSYS),
            Some(_) if name != LAYOUT => Err(Errno::NODATA),
            Some(_) => self.memory.layout(id).and_then(|layout| layout.ok_or(Errno::NODATA)),
        };
        match found.map(|value| (value, u32::try_from(value.len()).unwrap_or(u32::MAX))) {
            Ok((_, len)) if size == 0 => reply.size(len),
            Ok((_, len)) if size < len => reply.error(Errno::RANGE.raw_os_error()),
            Ok((value, _)) => reply.data(value),
            Err(error) => reply.error(error.raw_os_error()),
        }
    }

    fn readdir(&mut self, _: &Request<'_>, id: u64, _: u64, offset: i64, mut reply: ReplyDirectory) {
        let from = usize::try_from(offset).unwrap_or(0);
        let dots = [(id, FileType::Directory, OsStr::new(".")), (id, FileType::Directory, OsStr::new(".."))];
        let times = if self.oddities.lists_twice { 2 } else { 1 };
        let listed: Result<Vec<_>, _> = (0..times).map(|_| self.memory.list(id)).collect();
        match listed {
            Ok(names) => {
                let names = names.into_iter().flatten().skip(from.saturating_sub(dots.len()));
                let behind = (offset + 1)..;
                let listed = dots.into_iter().skip(from).chain(names);
                // `add` says when there is no more room for an entry.
                let _ = listed.zip(behind).any(|((id, kind, name), next)| reply.add(id, next, kind, name));
                self.after_name(move || reply.ok());
            }
            Err(error) => reply.error(error.raw_os_error()),
        }
    }

    fn statfs(&mut self, _: &Request<'_>, _: u64, reply: ReplyStatfs) {
        reply.statfs(BLOCKS, BLOCKS, BLOCKS, BLOCKS, BLOCKS, 4096, 255, 4096);
    }
}
