//! Races for a path. haul works at both ends while another thread exchanges a directory on the path, and a file in it,
//! for links that lead outside (renameat2(2), RENAME_EXCHANGE).
//!
//! haul must stay inside. Each operation has a counterpart that uses paths and checks before it acts. The same race
//! must lead each counterpart outside; otherwise it would prove nothing. Each operation runs for `HAUL_RACE_SECONDS`.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use haul_lab::{cases, count};
use haul_proto::entry::{EntryMetadata, Timestamp};
use haul_proto::path::Name;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, RenameFlags, Timespec, Timestamps, openat, renameat_with, unlinkat};

use crate::fs::meta::{apply, apply_to_symlink};
use crate::fs::testing::{KEEP, in_time_of, name};
use crate::fs::{Dir, FdCache, FileStat, FollowLinks, MetadataParts, WalkEntry, Walker, link_open_file};
use crate::receiver::decide::symlinks::make_link;
use crate::receiver::place::copy_locks::CopyLocks;
use crate::receiver::place::target_path::TargetPath;
use crate::receiver::place::temp_files::TempFiles;
use crate::receiver::place::temp_names::temporary_name;
use crate::receiver::tree::directories::make_directory;

/// Default number of seconds for each operation.
const RACE_SECONDS: u64 = 3;
/// Longest time until every counterpart was led outside once.
const RACE_MAX: Duration = Duration::from_secs(60);
/// Attempts at an operation before the next one.
const TURN: usize = 20;
/// Contents of the files outside only.
const OUTSIDE: &str = "only outside";

/// haul's operation, on an open directory. Returns whether it reached the outside.
type Held = fn(&Dir, &Arena) -> io::Result<bool>;
/// The same operation by path.
type ByPath = fn(&Path, &Arena) -> io::Result<bool>;

const OPERATIONS: [(&str, Held, ByPath); 12] = [
    ("create", create, |dir, _| File::create_new(dir.join("new")).map(|_| false)),
    ("rename", rename, |dir, _| fs::rename(dir.join("victim"), dir.join("new")).map(|()| false)),
    ("unlink", unlink, |dir, _| fs::remove_file(dir.join("victim")).map(|()| false)),
    ("mkdir", mkdir, |dir, _| fs::create_dir(dir.join("new")).map(|()| false)),
    ("symlink", link, |dir, _| symlink("anywhere", dir.join("new")).map(|()| false)),
    ("link", name_nameless, |dir, _| fs::hard_link(dir.join("victim"), dir.join("new")).map(|()| false)),
    ("chmod", change_mode, |dir, _| {
        fs::set_permissions(dir.join("leaf"), PermissionsExt::from_mode(0o640)).map(|()| false)
    }),
    ("chown", change_owner, |dir, _| std::os::unix::fs::chown(dir.join("leaf"), Some(me()), None).map(|()| false)),
    ("utimes", change_times, by_path_change_times),
    ("readdir", list, |dir, _| Ok(fs::read_dir(dir)?.flatten().any(|entry| entry.file_name() == OUTSIDE))),
    ("read", read, |dir, _| Ok(fs::read(dir.join("leaf"))? == OUTSIDE.as_bytes())),
    ("stat", stat, |dir, arena| Ok(fs::metadata(dir.join("leaf"))?.ino() == arena.outside_leaf)),
];

fn hasty() -> CopyLocks {
    CopyLocks::with_patience(Duration::ZERO)
}

fn create(dir: &Dir, _: &Arena) -> io::Result<bool> {
    TempFiles::default().open(&path(dir), None, None, &hasty()).map(|_| false).map_err(io::Error::other)
}

fn rename(dir: &Dir, _: &Arena) -> io::Result<bool> {
    let (temp_files, path) = (TempFiles::default(), path(dir));
    let renamed = temp_files.open(&path, None, None, &hasty()).and_then(|file| temp_files.finish(&path, &file));
    renamed.map(|()| false).map_err(io::Error::other)
}

fn unlink(dir: &Dir, _: &Arena) -> io::Result<bool> {
    let (temp_files, path) = (TempFiles::default(), path(dir));
    temp_files.open(&path, None, None, &hasty()).map_err(io::Error::other)?;
    temp_files.discard(&path);
    Ok(false)
}

fn mkdir(dir: &Dir, _: &Arena) -> io::Result<bool> {
    make_directory(dir, &name("new"), 0o700).map(|()| false)
}

fn link(dir: &Dir, _: &Arena) -> io::Result<bool> {
    make_link(dir, &name("new"), b"anywhere", false)?;
    make_link(dir, &name("new"), b"elsewhere", true).map(|()| false)
}

fn name_nameless(dir: &Dir, _: &Arena) -> io::Result<bool> {
    let fd = dir.fd()?;
    let file = openat(&*fd, c".", OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC, Mode::RUSR)?;
    link_open_file(&file, &fd, &name("new")).map(|()| false)
}

fn change_mode(dir: &Dir, _: &Arena) -> io::Result<bool> {
    put(dir, MetadataParts { owner: false, group: false, mode: Some(0o640), times: false })
}

fn change_owner(dir: &Dir, _: &Arena) -> io::Result<bool> {
    put(dir, MetadataParts { owner: true, group: true, mode: None, times: false })
}

fn change_times(dir: &Dir, _: &Arena) -> io::Result<bool> {
    let keep = MetadataParts { owner: false, group: false, mode: None, times: true };
    let _ = apply_to_symlink(&*dir.fd()?, &name("leaf"), &meta(), keep)?;
    put(dir, keep)
}

fn by_path_change_times(dir: &Path, _: &Arena) -> io::Result<bool> {
    let time = Timespec { tv_sec: 7, tv_nsec: 0 };
    let times = Timestamps { last_access: time, last_modification: time };
    Ok(rustix::fs::utimensat(CWD, dir.join("leaf"), &times, AtFlags::empty()).map(|()| false)?)
}

fn list(dir: &Dir, _: &Arena) -> io::Result<bool> {
    let root = dir.parent().ok_or(io::ErrorKind::NotFound)?;
    let is_outside =
        |found: &WalkEntry| matches!(found, WalkEntry::File { name, .. } if name.as_bytes() == OUTSIDE.as_bytes());
    Ok(Walker::new(root.clone(), KEEP).any(|found| is_outside(&found)))
}

fn read(dir: &Dir, _: &Arena) -> io::Result<bool> {
    let (file, _) = dir.open_file(&name("leaf"), FollowLinks::Itself)?;
    let mut content = Vec::new();
    File::from(file).read_to_end(&mut content)?;
    Ok(content == OUTSIDE.as_bytes())
}

fn stat(dir: &Dir, arena: &Arena) -> io::Result<bool> {
    Ok(FileStat::at_name(&*dir.fd()?, &name("leaf"), FollowLinks::Itself)?.identity.inode == arena.outside_leaf)
}

fn put(dir: &Dir, keep: MetadataParts) -> io::Result<bool> {
    let (file, _) = dir.open_file(&name("leaf"), FollowLinks::Itself)?;
    apply(&file, &meta(), keep).map(|_| false)
}

fn meta() -> EntryMetadata {
    let modified = Timestamp { seconds: 7, nanoseconds: 0 };
    EntryMetadata { mode: 0o640, uid: me(), gid: rustix::process::getegid().as_raw(), modified }
}

fn me() -> u32 {
    rustix::process::geteuid().as_raw()
}

fn path(dir: &Dir) -> TargetPath {
    TargetPath { dir: dir.clone(), name: name("new"), replaces: true }
}

/// An open root. `flip` in it is a directory, exchanged for `flop`, a link to the directory outside. `leaf` in the
/// directory is a file, exchanged for `loaf`, a link to the file outside.
struct Arena {
    temp: tempfile::TempDir,
    root: Dir,
    /// The directory, under its present name.
    inside: OwnedFd,
    outside_leaf: u64,
    /// Outside: the directory, then its entries.
    outside: Vec<File>,
    /// Expected traces of these.
    untouched: Vec<Trace>,
    /// Results of haul's operation; next, those of its counterpart.
    held: Score,
    by_path: Score,
}

/// Properties that any change affects: change time, number of names, mode. A kernel before 6.13 does not distinguish
/// two changes within one tick.
type Trace = (i64, i64, u64, u32);

#[derive(Default)]
struct Score {
    tries: u64,
    done: u64,
    escapes: u64,
}

impl Arena {
    fn new() -> Self {
        let memory = Path::new("/dev/shm");
        let temp = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }.unwrap();
        let root = temp.path().join("root");
        for directory in ["flip", "spare", "another"] {
            fs::create_dir_all(root.join(directory)).unwrap();
        }
        symlink("../outside", root.join("flop")).unwrap();
        fs::write(root.join("flip/leaf"), "inside").unwrap();
        symlink("../../outside/leaf", root.join("flip/loaf")).unwrap();
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        let inside = rustix::fs::open(root.join("flip"), flags, Mode::empty()).unwrap();
        let root = Dir::open_root_in(&root, FdCache::new(2)).unwrap();
        let (outside, untouched, held, by_path) = Default::default();
        let mut arena = Self { temp, root, inside, outside_leaf: 0, outside, untouched, held, by_path };
        arena.make_outside();
        arena
    }

    fn make_outside(&mut self) {
        let outside = self.temp.path().join("outside");
        let _ = fs::remove_dir_all(&outside);
        fs::create_dir(&outside).unwrap();
        let temporary = [&b"file"[..], b"link"].map(|what| temporary_name(&name("new"), what).to_string());
        let files = ["leaf", "victim", OUTSIDE].into_iter().chain(temporary.iter().map(String::as_str));
        let made = files.map(|file| fs::write(outside.join(file), OUTSIDE).map(|()| outside.join(file)).unwrap());
        let paths: Vec<PathBuf> = std::iter::once(outside.clone()).chain(made).collect();
        self.outside = paths.iter().map(|path| File::open(path).unwrap()).collect();
        self.outside_leaf = fs::metadata(outside.join("leaf")).unwrap().ino();
        self.untouched = self.look_outside();
    }

    fn look_outside(&self) -> Vec<Trace> {
        let trace = |meta: fs::Metadata| (meta.ctime(), meta.ctime_nsec(), meta.nlink(), meta.mode());
        self.outside.iter().map(|file| trace(file.metadata().unwrap())).collect()
    }

    /// Restores the inside.
    fn tidy(&self) {
        let remove = |name: &Name, flags| unlinkat(&self.inside, name.as_bytes(), flags);
        if remove(&name("new"), AtFlags::empty()).is_err() {
            let _ = remove(&name("new"), AtFlags::REMOVEDIR);
        }
        let _ = remove(&temporary_name(&name("new"), b"file"), AtFlags::empty());
        let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC;
        openat(&self.inside, "victim", flags, Mode::RUSR | Mode::WUSR).unwrap();
    }

    fn race(&mut self, operate: Held, by_path: ByPath) {
        for turn in 0..TURN {
            self.tidy();
            let done = self.root.child(&name("flip")).and_then(|dir| {
                // Closed, so that it must be reopened by its path.
                if turn % 2 == 0 {
                    ["spare", "another"].iter().try_for_each(|other| self.root.child(&name(other)).map(|_| ()))?;
                }
                operate(&dir, self)
            });
            self.held.count(&done, self.look_outside() != self.untouched);
            self.settle();
            self.tidy();
            let path = self.temp.path().join("root/flip");
            let is_link = |path: &Path| fs::symlink_metadata(path).is_ok_and(|meta| meta.is_symlink());
            let done = match is_link(&path) || is_link(&path.join("leaf")) {
                true => Err(io::ErrorKind::NotADirectory.into()),
                false => by_path(&path, self),
            };
            self.by_path.count(&done, self.look_outside() != self.untouched);
            self.settle();
        }
    }

    fn settle(&mut self) {
        if self.look_outside() != self.untouched {
            self.make_outside();
        }
    }
}

impl Score {
    fn count(&mut self, done: &io::Result<bool>, is_outside_touched: bool) {
        self.tries += 1;
        self.done += u64::from(done.is_ok());
        self.escapes += u64::from(is_outside_touched || matches!(done, Ok(true)));
    }
}

/// Exchanges the entries of the current arena until the race is over.
fn exchange(places: &[(OwnedFd, OwnedFd)], now: &AtomicUsize, over: &AtomicBool) {
    while !over.load(Ordering::Relaxed) {
        let (root, inside) = &places[now.load(Ordering::Relaxed)];
        let _ = renameat_with(root, "flip", root, "flop", RenameFlags::EXCHANGE);
        let _ = renameat_with(inside, "leaf", inside, "loaf", RenameFlags::EXCHANGE);
    }
}

fn race(arenas: &mut [Arena], now: &AtomicUsize, enough: Duration) {
    let begun = Instant::now();
    let lost = |arena: &Arena| arena.by_path.escapes > 0 && arena.held.done > 0;
    while begun.elapsed() < enough || (!arenas.iter().all(lost) && begun.elapsed() < RACE_MAX.max(enough)) {
        for (number, (arena, (_, held, by_path))) in arenas.iter_mut().zip(OPERATIONS).enumerate() {
            now.store(number, Ordering::Relaxed);
            arena.race(held, by_path);
        }
    }
}

#[test]
fn exchanging_path_components_never_leads_haul_outside() {
    let seconds = cases("HAUL_RACE_SECONDS", RACE_SECONDS);
    let enough = Duration::from_secs(seconds * OPERATIONS.len() as u64);
    in_time_of(RACE_MAX + 2 * enough, move || {
        let mut arenas: Vec<_> = OPERATIONS.iter().map(|_| Arena::new()).collect();
        let open = arenas.iter().map(|arena| (arena.root.fd().unwrap(), arena.inside.try_clone().unwrap()));
        let places: Vec<_> = open.map(|(root, inside)| (root.try_clone().unwrap(), inside)).collect();
        let (now, over) = (AtomicUsize::new(0), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| exchange(&places, &now, &over));
            race(&mut arenas, &now, enough);
            over.store(true, Ordering::Relaxed);
        });
        for (arena, (operation, ..)) in arenas.iter().zip(OPERATIONS) {
            let Arena { held, by_path, .. } = arena;
            count(&format!("path-race-{operation}"), held.tries);
            println!(
                "  {operation}: {} done, {} escapes; by path: {} done, {} escapes",
                held.done, held.escapes, by_path.done, by_path.escapes
            );
        }
        for (arena, (operation, ..)) in arenas.iter().zip(OPERATIONS) {
            assert_eq!(arena.held.escapes, 0, "{operation} went outside");
            assert!(arena.held.done > 0, "{operation} was never done");
            assert!(arena.by_path.escapes > 0, "{operation}: the race is too slow to show anything");
        }
        count("path-race-seconds-each", seconds);
    });
}
