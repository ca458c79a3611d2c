//! Files, directories and links in memory, independent of the kernel and of time.
//!
//! An unlinked file keeps its data until the file system is dropped, since it may still be open. Listings are by
//! position: do not remove entries from a directory during its listing.

use std::collections::{BTreeMap, HashMap};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use fuser::{FUSE_ROOT_ID, FileAttr, FileType};
use rustix::io::Errno;

/// `stat`'s unit for blocks.
const BLOCK_BYTES: u64 = 512;

/// All of it.
#[derive(Debug)]
pub struct MemoryFs {
    nodes: HashMap<u64, MemoryNode>,
    next: u64,
    /// Names that differ only in the case of ASCII letters are one.
    folds: bool,
}

#[derive(Debug)]
struct MemoryNode {
    attr: FileAttr,
    content: NodeContent,
    layout: Option<Vec<u8>>,
}

/// A node's content.
#[derive(Debug)]
pub enum NodeContent {
    /// A file's bytes.
    File(Vec<u8>),
    /// A directory's names.
    Directory(BTreeMap<OsString, u64>),
    /// Where a link leads.
    Link(PathBuf),
}

/// The owner and mode of a new node.
#[derive(Debug, Clone, Copy)]
pub struct Owner {
    pub uid: u32,
    pub gid: u32,
    pub mode: u32,
}

/// Changes by `setattr`.
#[derive(Debug, Clone, Copy, Default)]
pub struct Change {
    pub mode: Option<u32>,
    pub uid: Option<u32>,
    pub gid: Option<u32>,
    pub size: Option<u64>,
    pub atime: Option<SystemTime>,
    pub mtime: Option<SystemTime>,
}

impl MemoryFs {
    /// An empty root directory.
    pub fn new(folds: bool) -> Self {
        let owner = Owner { uid: 0, gid: 0, mode: 0o755 };
        let root = MemoryNode::new(FUSE_ROOT_ID, NodeContent::Directory(BTreeMap::new()), owner);
        Self { nodes: HashMap::from([(FUSE_ROOT_ID, root)]), next: FUSE_ROOT_ID + 1, folds }
    }

    pub fn lookup(&self, parent: u64, name: &OsStr) -> Result<FileAttr, Errno> {
        let spelled = self.spelled(parent, name)?;
        let id = self.names(parent)?.get(&spelled).ok_or(Errno::NOENT)?;
        self.attr(*id)
    }

    /// A name as it is spelled in the directory, or as it is given where it is not there.
    fn spelled(&self, parent: u64, name: &OsStr) -> Result<OsString, Errno> {
        let is_it = |other: &&OsString| self.folds && other.eq_ignore_ascii_case(name);
        Ok(self.names(parent)?.keys().find(is_it).map_or_else(|| name.to_owned(), OsString::clone))
    }

    pub fn attr(&self, id: u64) -> Result<FileAttr, Errno> {
        self.node(id).map(|node| node.attr)
    }

    pub fn make(&mut self, parent: u64, name: &OsStr, content: NodeContent, owner: Owner) -> Result<FileAttr, Errno> {
        let id = self.next;
        self.insert(parent, name, id)?;
        let node = MemoryNode::new(id, content, owner);
        let attr = node.attr;
        self.nodes.insert(id, node);
        self.next += 1;
        Ok(attr)
    }

    pub fn link(&mut self, id: u64, parent: u64, name: &OsStr) -> Result<FileAttr, Errno> {
        self.insert(parent, name, id)?;
        let node = self.node_mut(id)?;
        node.attr.nlink += 1;
        Ok(node.attr)
    }

    pub fn change(&mut self, id: u64, change: Change) -> Result<FileAttr, Errno> {
        let node = self.node_mut(id)?;
        if let Some(size) = change.size {
            let NodeContent::File(bytes) = &mut node.content else { return Err(Errno::ISDIR) };
            bytes.resize(usize::try_from(size).map_err(|_| Errno::FBIG)?, 0);
            node.resized();
        }
        let attr = &mut node.attr;
        attr.perm = change.mode.map_or(attr.perm, permissions);
        attr.uid = change.uid.unwrap_or(attr.uid);
        attr.gid = change.gid.unwrap_or(attr.gid);
        attr.atime = change.atime.unwrap_or(attr.atime);
        attr.mtime = change.mtime.unwrap_or(attr.mtime);
        attr.ctime = SystemTime::now();
        Ok(*attr)
    }

    pub fn remove(&mut self, parent: u64, name: &OsStr) -> Result<(), Errno> {
        let id = self.lookup(parent, name)?.ino;
        if let NodeContent::Directory(names) = &self.node(id)?.content
            && !names.is_empty()
        {
            return Err(Errno::NOTEMPTY);
        }
        let spelled = self.spelled(parent, name)?;
        self.names_mut(parent)?.remove(&spelled);
        self.node_mut(id)?.attr.nlink -= 1;
        Ok(())
    }

    pub fn rename(&mut self, from: (u64, &OsStr), to: (u64, &OsStr), replace: bool) -> Result<(), Errno> {
        let id = self.lookup(from.0, from.1)?.ino;
        match self.lookup(to.0, to.1) {
            Ok(_) if !replace => return Err(Errno::EXIST),
            Ok(_) => self.remove(to.0, to.1)?,
            Err(_) => {}
        }
        self.insert(to.0, to.1, id)?;
        let spelled = self.spelled(from.0, from.1)?;
        self.names_mut(from.0)?.remove(&spelled);
        Ok(())
    }

    pub fn target(&self, id: u64) -> Result<&Path, Errno> {
        match &self.node(id)?.content {
            NodeContent::Link(target) => Ok(target),
            _ => Err(Errno::INVAL),
        }
    }

    pub fn read(&self, id: u64, offset: u64, size: u32) -> Result<Vec<u8>, Errno> {
        let NodeContent::File(bytes) = &self.node(id)?.content else { return Err(Errno::ISDIR) };
        let begin = usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
        let end = begin.saturating_add(size as usize).min(bytes.len());
        Ok(bytes[begin..end].to_vec())
    }

    pub fn write(&mut self, id: u64, offset: u64, data: &[u8]) -> Result<(), Errno> {
        let node = self.node_mut(id)?;
        let NodeContent::File(bytes) = &mut node.content else { return Err(Errno::ISDIR) };
        let begin = usize::try_from(offset).map_err(|_| Errno::FBIG)?;
        let end = begin.checked_add(data.len()).ok_or(Errno::FBIG)?;
        bytes.resize(bytes.len().max(end), 0);
        bytes[begin..end].copy_from_slice(data);
        node.resized();
        node.attr.mtime = SystemTime::now();
        Ok(())
    }

    /// A file's layout; `None` before it has objects.
    pub fn layout(&self, id: u64) -> Result<Option<&[u8]>, Errno> {
        self.node(id).map(|node| node.layout.as_deref())
    }

    /// Gives a file objects by this layout, unless it has some.
    pub fn lay_out(&mut self, id: u64, layout: &[u8]) -> Result<(), Errno> {
        self.node_mut(id)?.layout.get_or_insert_with(|| layout.to_vec());
        Ok(())
    }

    /// The names, each with its id and kind.
    pub fn list(&self, id: u64) -> Result<impl Iterator<Item = (u64, FileType, &OsStr)>, Errno> {
        let names = self.names(id)?.iter();
        Ok(names.filter_map(|(name, id)| Some((*id, self.nodes.get(id)?.attr.kind, name.as_os_str()))))
    }

    fn insert(&mut self, parent: u64, name: &OsStr, id: u64) -> Result<(), Errno> {
        let spelled = self.spelled(parent, name)?;
        let names = self.names_mut(parent)?;
        if names.contains_key(&spelled) {
            return Err(Errno::EXIST);
        }
        names.insert(name.to_owned(), id);
        Ok(())
    }

    fn names(&self, id: u64) -> Result<&BTreeMap<OsString, u64>, Errno> {
        match &self.node(id)?.content {
            NodeContent::Directory(names) => Ok(names),
            _ => Err(Errno::NOTDIR),
        }
    }

    fn names_mut(&mut self, id: u64) -> Result<&mut BTreeMap<OsString, u64>, Errno> {
        match &mut self.node_mut(id)?.content {
            NodeContent::Directory(names) => Ok(names),
            _ => Err(Errno::NOTDIR),
        }
    }

    fn node(&self, id: u64) -> Result<&MemoryNode, Errno> {
        self.nodes.get(&id).ok_or(Errno::NOENT)
    }

    fn node_mut(&mut self, id: u64) -> Result<&mut MemoryNode, Errno> {
        self.nodes.get_mut(&id).ok_or(Errno::NOENT)
    }
}

impl MemoryNode {
    fn new(id: u64, content: NodeContent, owner: Owner) -> Self {
        let now = SystemTime::now();
        let kind = match &content {
            NodeContent::File(_) => FileType::RegularFile,
            NodeContent::Directory(_) => FileType::Directory,
            NodeContent::Link(_) => FileType::Symlink,
        };
        let attr = FileAttr {
            ino: id,
            size: 0,
            blocks: 0,
            atime: now,
            mtime: now,
            ctime: now,
            crtime: now,
            kind,
            perm: permissions(owner.mode),
            nlink: 1,
            uid: owner.uid,
            gid: owner.gid,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        };
        let mut node = Self { attr, content, layout: None };
        node.resized();
        node
    }

    /// Puts the size right.
    fn resized(&mut self) {
        self.attr.size = match &self.content {
            NodeContent::File(bytes) => bytes.len() as u64,
            NodeContent::Directory(_) => 0,
            NodeContent::Link(target) => target.as_os_str().len() as u64,
        };
        self.attr.blocks = self.attr.size.div_ceil(BLOCK_BYTES);
    }
}

fn permissions(mode: u32) -> u16 {
    u16::try_from(mode & 0o7777).unwrap_or(0)
}
