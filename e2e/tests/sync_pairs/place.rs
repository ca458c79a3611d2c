//! Trees on a disk: written from a generator's plan, and read back with all metadata that a copy preserves.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::{fmt, io};

use haul_e2e::Rng;
use rustix::fs::{AtFlags, CWD, FileType, Gid, Mode, Timespec, Timestamps, Uid, XattrFlags};

use super::spec::{self, Inode, Kind, Tree};

/// Where holes lie, and how long they are.
const HOLE_BYTES: u64 = 512 << 10;
/// Most disk space instead of holes: small files travel whole, and blocks are not cut.
const ROOM_MAX: u64 = 1 << 20;
/// user::rw-, user:7:r--, group::r--, mask::r--, other::--- (acl(5), as the kernel keeps it).
const LIST: [u8; 44] = [
    2, 0, 0, 0, 1, 0, 6, 0, 255, 255, 255, 255, 2, 0, 4, 0, 7, 0, 0, 0, 4, 0, 4, 0, 255, 255, 255, 255, 16, 0, 4, 0,
    255, 255, 255, 255, 32, 0, 0, 0, 255, 255, 255, 255,
];
const LIST_NAME: &str = "system.posix_acl_access";

/// Makes a tree; its root is a directory that is there.
pub fn make(root: &Path, tree: &Tree) -> io::Result<()> {
    let mut made: HashMap<usize, PathBuf> = HashMap::new();
    for (name, id) in &tree.names {
        let path = join(root, name);
        match (made.get(id), &tree.inodes[*id].kind) {
            (Some(first), _) => fs::hard_link(first, &path)?,
            (None, Kind::Directory) if name.is_empty() => {}
            (None, Kind::Directory) => fs::create_dir(&path)?,
            (None, Kind::File { seed, bytes, has_holes }) => write(&path, *seed, *bytes, *has_holes)?,
            (None, Kind::Symlink(to)) => std::os::unix::fs::symlink(OsStr::from_bytes(to), &path)?,
            (None, Kind::Fifo) => {
                rustix::fs::mknodat(CWD, &path, FileType::Fifo, Mode::from_raw_mode(0o600), 0)?;
            }
        }
        made.insert(*id, path);
    }
    // A directory's contents change its time: start at the leaves.
    for (name, id) in tree.names.iter().rev() {
        dress(&join(root, name), &tree.inodes[*id])?;
    }
    Ok(())
}

fn write(path: &Path, seed: u64, bytes: u64, has_holes: bool) -> io::Result<()> {
    let file = File::create_new(path)?;
    file.set_len(bytes)?;
    let mut rng = Rng::new(seed);
    let mut at = 0;
    while at < bytes {
        let len = HOLE_BYTES.min(bytes - at);
        if !has_holes || (at / HOLE_BYTES).is_multiple_of(2) {
            file.write_all_at(&rng.bytes(usize::try_from(len).unwrap_or(0)), at)?;
        }
        at += len;
    }
    Ok(())
}

fn dress(path: &Path, inode: &Inode) -> io::Result<()> {
    let (uid, gid) = inode.owner;
    if rustix::process::geteuid().is_root() {
        let (uid, gid) = (Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)));
        rustix::fs::chownat(CWD, path, uid, gid, AtFlags::SYMLINK_NOFOLLOW)?;
    }
    if !matches!(inode.kind, Kind::Symlink(_)) {
        // A file with several names is dressed once for each.
        fs::set_permissions(path, Permissions::from_mode(inode.mode))?;
        for (name, value) in &inode.attributes {
            rustix::fs::lsetxattr(path, name.as_str(), value, XattrFlags::empty())?;
        }
        if inode.has_list {
            rustix::fs::lsetxattr(path, LIST_NAME, &LIST, XattrFlags::empty())?;
        }
    }
    let time = Timespec { tv_sec: inode.time.0, tv_nsec: inode.time.1.into() };
    let times = Timestamps { last_access: time, last_modification: time };
    Ok(rustix::fs::utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW)?)
}

fn join(root: &Path, name: &[u8]) -> PathBuf {
    if name.is_empty() { root.to_owned() } else { root.join(OsStr::from_bytes(name)) }
}

/// All attributes of an entry that a copy preserves. Equal for an untouched entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    what: String,
    mode: u32,
    owner: (u32, u32),
    time: (i64, i64),
    attributes: BTreeMap<Vec<u8>, Vec<u8>>,
    /// The first of its names, of a file that has several.
    first: Option<spec::Path>,
    /// Its bytes that are on the disk. Not compared as the others are.
    room: u64,
    /// Its identity. Not compared between trees.
    inode: u64,
    /// When anything of it changed last. Not compared between trees.
    changed: (i64, i64),
}

/// A tree's entries, with its root.
pub type Look = BTreeMap<spec::Path, Seen>;

/// Looks at a tree.
pub fn look(root: &Path) -> io::Result<Look> {
    let (mut found, mut firsts) = (Look::new(), HashMap::new());
    let mut names = Vec::new();
    list(root, &mut Vec::new(), &mut names)?;
    names.sort();
    for name in names {
        let path = join(root, &name);
        let meta = fs::symlink_metadata(&path)?;
        let kind = meta.file_type();
        let what = match () {
            () if kind.is_file() => format!("file of {} bytes: {}", meta.len(), blake3::hash(&fs::read(&path)?)),
            () if kind.is_dir() => "directory".to_owned(),
            () if kind.is_symlink() => format!("link to {:?}", fs::read_link(&path)?),
            () if kind.is_fifo() => "FIFO".to_owned(),
            () => "something else".to_owned(),
        };
        let has_others = kind.is_file() && meta.nlink() > 1;
        let first = has_others.then(|| firsts.entry(meta.ino()).or_insert_with(|| name.clone()).clone());
        let seen = Seen {
            what,
            mode: meta.mode() & 0o7777,
            owner: (meta.uid(), meta.gid()),
            time: (meta.mtime(), meta.mtime_nsec()),
            attributes: if kind.is_symlink() { BTreeMap::new() } else { attributes(&path)? },
            first,
            room: meta.blocks() * 512,
            inode: meta.ino(),
            changed: (meta.ctime(), meta.ctime_nsec()),
        };
        found.insert(name, seen);
    }
    Ok(found)
}

fn list(directory: &Path, name: &mut spec::Path, names: &mut Vec<spec::Path>) -> io::Result<()> {
    names.push(name.clone());
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let len = name.len();
        if len > 0 {
            name.push(b'/');
        }
        name.extend(entry.file_name().into_vec());
        match entry.file_type()?.is_dir() {
            true => list(&entry.path(), name, names)?,
            false => names.push(name.clone()),
        }
        name.truncate(len);
    }
    Ok(())
}

fn attributes(path: &Path) -> io::Result<BTreeMap<Vec<u8>, Vec<u8>>> {
    let mut names = vec![0; 4096];
    let len = rustix::fs::llistxattr(path, &mut names[..])?;
    let mut found = BTreeMap::new();
    for name in names[..len].split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        let mut value = vec![0; 4096];
        let len = rustix::fs::lgetxattr(path, OsStr::from_bytes(name), &mut value[..])?;
        value.truncate(len);
        found.insert(name.to_vec(), value);
    }
    Ok(found)
}

/// A tree with its times as the file system of a directory stores them.
pub fn as_kept_on(directory: &Path, tree: &Look) -> io::Result<Look> {
    let file = tempfile::tempfile_in(directory)?;
    let mut kept = tree.clone();
    for seen in kept.values_mut() {
        let time = Timespec { tv_sec: seen.time.0, tv_nsec: seen.time.1 };
        rustix::fs::futimens(&file, &Timestamps { last_access: time, last_modification: time })?;
        let meta = file.metadata()?;
        seen.time = (meta.mtime(), meta.mtime_nsec());
    }
    Ok(kept)
}

/// Sets the times of directories to 0 that were changed after this one, in seconds since 1970.
pub fn forget_times_of_directories(tree: &mut Look, after: i64) {
    let is_changed = |seen: &&mut Seen| seen.what == "directory" && seen.time.0 >= after;
    tree.values_mut().filter(is_changed).for_each(|seen| seen.time = (0, 0));
}

/// A difference between an entry of two trees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    pub name: spec::Path,
    /// The differing attribute; "missing" or "extra" if the second or the first tree has no such entry.
    pub what: &'static str,
    text: String,
}

impl Difference {
    /// The same of another name.
    pub fn at(&self, name: &spec::Path) -> Self {
        Self { name: name.clone(), ..self.clone() }
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}: {}", self.name.escape_ascii(), self.what, self.text)
    }
}

/// A line for each difference.
pub fn lines(differences: &[Difference]) -> String {
    differences.iter().map(Difference::to_string).collect::<Vec<_>>().join("\n")
}

/// Differences between two trees.
pub fn differences(a: &Look, b: &Look) -> Vec<Difference> {
    let mut found = Vec::new();
    for name in a.keys().chain(b.keys().filter(|name| !a.contains_key(*name))) {
        let difference = |(what, text)| Difference { name: name.clone(), what, text };
        match (a.get(name), b.get(name)) {
            (Some(a), Some(b)) => found.extend(between(a, b).into_iter().map(difference)),
            (Some(a), None) => found.push(difference(("missing", format!("a {}", a.what)))),
            (None, Some(b)) => found.push(difference(("extra", format!("a {}", b.what)))),
            (None, None) => {}
        }
    }
    found
}

/// All names of a file that has several.
pub fn other_names<'t>(tree: &'t Look, name: &spec::Path) -> impl Iterator<Item = &'t spec::Path> {
    let first = tree.get(name).and_then(|seen| seen.first.as_ref());
    tree.iter().filter(move |(_, seen)| first.is_some() && seen.first.as_ref() == first).map(|(name, _)| name)
}

/// Whether an entry is the same in both trees, as far as this difference goes.
pub fn agree(difference: &Difference, a: &Look, b: &Look) -> bool {
    match (a.get(&difference.name), b.get(&difference.name)) {
        (Some(a), Some(b)) => between(a, b).iter().all(|(what, _)| *what != difference.what),
        (a, b) => a.is_none() && b.is_none(),
    }
}

fn between(a: &Seen, b: &Seen) -> Vec<(&'static str, String)> {
    let mut found = Vec::new();
    let mut hold = |what: &'static str, same: bool, a: String, b: String| {
        if !same {
            found.push((what, format!("{a} and {b}")));
        }
    };
    let shown = |attributes: &BTreeMap<Vec<u8>, Vec<u8>>| {
        let one = |(name, value): (&Vec<u8>, &Vec<u8>)| format!("{}={}", name.escape_ascii(), value.escape_ascii());
        attributes.iter().map(one).collect::<Vec<_>>().join(" ")
    };
    let name =
        |name: &Option<spec::Path>| name.as_ref().map(|name| name.escape_ascii().to_string()).unwrap_or_default();
    hold("what", a.what == b.what, a.what.clone(), b.what.clone());
    hold("mode", a.mode == b.mode, format!("{:o}", a.mode), format!("{:o}", b.mode));
    hold("owner", a.owner == b.owner, format!("{:?}", a.owner), format!("{:?}", b.owner));
    hold("time", a.time == b.time, format!("{:?}", a.time), format!("{:?}", b.time));
    hold("attributes", a.attributes == b.attributes, shown(&a.attributes), shown(&b.attributes));
    hold("a name of", a.first == b.first, name(&a.first), name(&b.first));
    hold("room", b.room <= a.room + ROOM_MAX, a.room.to_string(), b.room.to_string());
    found
}

/// A place in memory where it is there.
pub fn temporary() -> tempfile::TempDir {
    let shared = Path::new("/dev/shm");
    let made = if shared.is_dir() { tempfile::tempdir_in(shared) } else { tempfile::tempdir() };
    made.expect("a temporary directory")
}
