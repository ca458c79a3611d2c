//! The source arguments, each checked once.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use haul_base::copy::display_path::{marked_base, own_name};
use haul_base::copy::{End, null};
use haul_base::sys::describe::describe;
use haul_proto::entry::{EntryMetadata, SpecialFile};
use haul_proto::filter::source_pattern::has_wildcards;
use haul_proto::path::Name;
use haul_proto::wire::pipe::PipeKind;
use haul_proto::wire::request::{SourceRequest, Symlinks, TargetOperand};
use rustix::fs::{FileType, OFlags};
use rustix::io::Errno;

use crate::fs::{
    Dir, DirAccess, FdCache, FileIdentity, FileStat, FollowLinks, MAX_OPEN_DIRECTORIES, MISSING, SpecialFiles,
    UNSAFE_LINK, WalkLookup, lookup,
};
use crate::io::program::{InheritedPipe, PipeProgram};
use crate::metrics::reporter::Reporter;
use crate::policy::{HostPolicy, PolicyRefusal, PolicyRule};
use crate::source::flow_feed::FlowPipe;
use crate::source::input_file::InputFile;
use crate::sys::confine::{ConfineBounds, ConfineRights};
use crate::sys::machine;

/// A valid source argument.
pub struct OperandRoot {
    name: Option<Name>,
    identity: FileIdentity,
    /// Its kind.
    pub kind: OperandKind,
}

/// The kind of a source argument.
pub enum OperandKind {
    /// A directory.
    Directory(Dir),
    /// A regular file: its directory, name, and state at the check.
    File(Dir, Name, FileStat),
    /// A symbolic link to be copied: its directory, name, target and metadata.
    Symlink(Dir, Name, Box<[u8]>, EntryMetadata),
    /// A device, FIFO or socket to be created: its directory, name, kind and metadata.
    Node(Dir, Name, SpecialFile, EntryMetadata),
    /// This many zeros.
    Null(u64),
    /// The output of a pipe, or the contents of a block device.
    Pipe(Arc<FlowPipe>),
    /// Standard input that is a regular file.
    Input(Arc<InputFile>),
}

impl OperandRoot {
    fn file(parent: Dir, name: Name, stat: FileStat) -> Self {
        let own_name = Some(name.clone());
        Self { name: own_name, identity: stat.identity, kind: OperandKind::File(parent, name, stat) }
    }

    /// Device and inode.
    pub fn identity(&self) -> FileIdentity {
        self.identity
    }

    /// Whether it stands for the contents of a directory (`dir/.`).
    pub fn means_contents(&self) -> bool {
        self.name.is_none()
    }

    /// The path from the root of the transfer, to which rsync's rules apply.
    pub fn transfer_path(&self, path: &[u8], request: &SourceRequest) -> Vec<Name> {
        transfer_path(self.name.as_ref(), path, request)
    }

    /// The source argument as sent to the target.
    pub fn operand(&self) -> TargetOperand {
        TargetOperand {
            name: self.name.clone(),
            directory: matches!(self.kind, OperandKind::Directory(_)),
            device: self.identity.device,
            inode: self.identity.inode,
        }
    }
}

impl OperandRoot {
    /// Permits reads of this, unless it was replaced meanwhile: a new file stays inaccessible.
    pub fn allow(&self, bounds: &mut ConfineBounds) {
        match &self.kind {
            // An unreadable directory is reported by the walk.
            OperandKind::Directory(dir) => drop(dir.fd().map(|fd| bounds.allow(&*fd, ConfineRights::ReadTree))),
            OperandKind::File(parent, name, ..) => {
                let file = parent.open_handle(name, operand_links());
                let same = |file: &OwnedFd| FileStat::at_fd(file).is_ok_and(|stat| stat.identity == self.identity);
                drop(file.map(|file| same(&file).then(|| bounds.allow(&file, ConfineRights::ReadFile))));
            }
            // The link was read; its target stays inaccessible.
            OperandKind::Symlink(..) | OperandKind::Node(..) => {}
            // It is already open.
            OperandKind::Pipe(_) => {}
            // It is reopened for direct I/O.
            OperandKind::Input(file) => bounds.allow(&file.fd, ConfineRights::ReadFile),
            OperandKind::Null(_) => drop(null::open_zeros().map(|zeros| bounds.allow(&zeros, ConfineRights::ReadFile))),
        }
    }

    /// Permits removal of files below this directory, or in this file's directory: the kernel has no narrower scope.
    pub fn allow_removal(&self, bounds: &mut ConfineBounds, below: bool) {
        let dir = match &self.kind {
            OperandKind::Directory(dir) => Some(dir).filter(|_| below),
            OperandKind::File(parent, ..) | OperandKind::Symlink(parent, ..) | OperandKind::Node(parent, ..) => {
                Some(parent)
            }
            OperandKind::Pipe(_) | OperandKind::Input(_) | OperandKind::Null(_) => None,
        };
        // A parent that cannot be opened prevents removal, which the removal reports.
        dir.into_iter().for_each(|dir| drop(dir.fd().map(|fd| bounds.allow(&*fd, ConfineRights::RemoveFiles))));
    }
}

fn transfer_path(name: Option<&Name>, path: &[u8], request: &SourceRequest) -> Vec<Name> {
    let below = |base| Path::new(OsStr::from_bytes(path)).strip_prefix(OsStr::from_bytes(base)).ok();
    match base_of(request, path).and_then(below) {
        Some(below) => below.iter().filter_map(|name| Name::new(name.as_bytes()).ok()).collect(),
        None => name.cloned().into_iter().collect(),
    }
}

/// The base that a source argument is relative to, if any.
pub fn base_of<'a>(request: &'a SourceRequest, operand: &'a [u8]) -> Option<&'a [u8]> {
    match request.marks_bases {
        true => marked_base(operand).map(|(base, _)| base),
        false => request.base.as_deref(),
    }
}

/// Checks all source arguments and reports invalid ones, with `None` in their place. Few directories stay open,
/// whatever the number of arguments; the others are reopened when needed.
pub fn resolve_operands(request: &SourceRequest, reporter: &Reporter) -> Vec<Option<OperandRoot>> {
    let mut opener = OperandOpener::new(request, reporter);
    request.operands.iter().map(|operand| opener.open_operand(operand)).collect()
}

/// Permits access to everything below the base of a list.
pub fn allow_base(base: &[u8], bounds: &mut ConfineBounds, rights: ConfineRights) {
    let handle = DirAccess::Search.open(Path::new(OsStr::from_bytes(base)), &FdCache::new(1));
    // Each line reports its missing file.
    handle.iter().for_each(|handle| bounds.allow(handle, rights));
}

/// The only source argument, if it is a pipe: standard input, a FIFO, or a program's output.
pub fn open_pipe(
    request: &SourceRequest,
    inherited: Option<InheritedPipe>,
    policy: &HostPolicy,
    reporter: &Reporter,
) -> Vec<Option<OperandRoot>> {
    let [operand] = &request.operands[..] else {
        let refuse = |operand: &Vec<u8>| reporter.failed(operand.clone(), OperandRefusal::SeveralPipes.to_string());
        request.operands.iter().for_each(refuse);
        return request.operands.iter().map(|_| None).collect();
    };
    let opened = match request.pipe {
        PipeKind::Standard => {
            let small_max = request.settings.frame.pack_file_max();
            inherited.map(|pipe| standard_input(pipe, small_max)).ok_or(OperandRefusal::RemoteInput)
        }
        PipeKind::Growing(quiet_s) => growing(operand, Duration::from_secs(quiet_s.into())).map(pipe_kind),
        PipeKind::Named | PipeKind::No => named(operand, policy).map(pipe_kind),
    };
    let root = opened.map(|kind| {
        let identity = FileIdentity { device: 0, inode: 0 };
        let is_followed = matches!(&kind, OperandKind::Pipe(pipe) if pipe.is_followed());
        // A file has a name of its own; a pipe does not.
        let own = own_name(Path::new(OsStr::from_bytes(operand))).filter(|_| is_followed);
        let name = own.and_then(|name| Name::new(name.as_bytes()).ok());
        OperandRoot { name, identity, kind }
    });
    vec![root.map_err(|refusal| reporter.failed(operand.clone(), refusal.to_string())).ok()]
}

fn pipe_kind(pipe: FlowPipe) -> OperandKind {
    OperandKind::Pipe(Arc::new(pipe))
}

/// Standard input: a large regular file is read as such, all else in order.
fn standard_input(pipe: InheritedPipe, small_max: u64) -> OperandKind {
    match InputFile::new(pipe, small_max) {
        Ok(file) => OperandKind::Input(Arc::new(file)),
        Err(pipe) => pipe_kind(FlowPipe::new(pipe.fd, pipe.program)),
    }
}

/// Follows a growing file.
fn growing(operand: &[u8], quiet: Duration) -> Result<FlowPipe, OperandRefusal> {
    let path = Path::new(OsStr::from_bytes(operand));
    let file = lookup::open(path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC)?;
    match FileStat::at_fd(&file)?.kind {
        FileType::RegularFile => Ok(FlowPipe::following(file, quiet)),
        _ => Err(OperandRefusal::Unfollowable),
    }
}

/// Opens a FIFO, or else starts a program. Opening a FIFO does not wait for a writer: its reader waits.
fn named(operand: &[u8], policy: &HostPolicy) -> Result<FlowPipe, OperandRefusal> {
    let path = Path::new(OsStr::from_bytes(operand));
    let is_fifo = lookup::stat(path).is_ok_and(|found| FileStat::from(&found).kind == FileType::Fifo);
    if is_fifo {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        return Ok(FlowPipe::new(lookup::open(path, flags)?, None));
    }
    policy.check(PolicyRule::NoPrograms)?;
    let (program, pipe) = PipeProgram::start(End::Source, operand)?;
    Ok(FlowPipe::new(pipe, Some(Arc::new(program))))
}

/// Opens source arguments one after the other.
pub struct OperandOpener<'a> {
    request: &'a SourceRequest,
    recursive: bool,
    /// Treatment of source arguments that are symbolic links; those that it ignores are followed.
    symlinks: Symlinks,
    /// Whether one source argument is copied, which may be a block device.
    is_alone: bool,
    reporter: &'a Reporter,
    /// The directory to which this process's reads are confined, without links.
    base: Option<PathBuf>,
    cache: Arc<FdCache>,
    /// Parent directories of files, as typed: the latest [`PARENTS_MAX`].
    parents: HashMap<PathBuf, Dir>,
    /// The latest of them: consecutive source arguments often share it.
    latest_parent: Option<(PathBuf, Dir)>,
}

/// Most remembered parent directories.
const PARENTS_MAX: usize = 1024;

/// Why a source argument cannot be copied, with a remedy on the next line.
#[derive(Debug, thiserror::Error)]
enum OperandRefusal {
    #[error("{}", describe(.0))]
    Io(#[from] io::Error),
    /// There is no such path, which may be a pattern. The shell of a local source and haul leave one that matches
    /// nothing; a list holds none.
    #[error("{}\nno name matches it as a pattern (a list holds no patterns)", describe(.0))]
    Wildcards(#[source] io::Error),
    #[error("is a directory\nadd -r for directories")]
    Directory,
    #[error("the path does not end in a file name")]
    NoName,
    #[error("is a FIFO\nadd --pipe i to copy the data written to it")]
    Fifo,
    #[error("is a socket, which cannot be copied")]
    Socket,
    #[error("is a device\nname a file, or null:SIZE for zeros")]
    Device,
    #[error("is a block device\ncopy it alone, without other sources or a list")]
    BlockDevice,
    #[error("a symbolic link leads out of the base (--dirbase)\nadd --symlinks follow, or omit --dirbase")]
    OutOfBase,
    #[error("{UNSAFE_LINK}")]
    UnsafeLink,
    #[error("a pipe is one file")]
    SeveralPipes,
    #[error("standard input cannot be read on another host")]
    RemoteInput,
    #[error("only a file can be followed (--realtime)")]
    Unfollowable,
    #[error("{0}")]
    Policy(#[from] PolicyRefusal),
}

impl From<Errno> for OperandRefusal {
    fn from(error: Errno) -> Self {
        Self::Io(error.into())
    }
}

/// Error for a failed lookup.
fn lookup_error(path: &Path, error: io::Error) -> OperandRefusal {
    match has_wildcards(path.as_os_str().as_bytes()) && error.kind() == io::ErrorKind::NotFound {
        true => OperandRefusal::Wildcards(error),
        false => OperandRefusal::Io(error),
    }
}

impl<'a> OperandOpener<'a> {
    /// For the source arguments of `request`. Invalid ones are reported.
    pub fn new(request: &'a SourceRequest, reporter: &'a Reporter) -> Self {
        let base = match &request.base {
            Some(base) if request.listed && !request.links.follows() => {
                std::fs::canonicalize(OsStr::from_bytes(base)).ok()
            }
            _ => None,
        };
        let (cache, parents) = (FdCache::new(MAX_OPEN_DIRECTORIES), HashMap::new());
        let symlinks = if request.judges_operands { request.links } else { Symlinks::Ignore };
        let (recursive, latest_parent) = (request.recursive, None);
        let is_alone = request.operands.len() == 1
            && !(request.listed || request.compare || request.range.is_some() || lookup::is_confined());
        Self { request, recursive, symlinks, is_alone, reporter, base, cache, parents, latest_parent }
    }

    /// Opens a source argument; `None`, with a report, if it is invalid.
    pub fn open_operand(&mut self, operand: &[u8]) -> Option<OperandRoot> {
        match self.resolve(Path::new(OsStr::from_bytes(operand))) {
            Ok(root) => Some(root),
            Err(OperandRefusal::Io(error) | OperandRefusal::Wildcards(error))
                if error.kind() == io::ErrorKind::NotFound && is_planned(self.request) =>
            {
                self.reporter.vanished(operand.to_vec());
                None
            }
            Err(OperandRefusal::Io(error) | OperandRefusal::Wildcards(error))
                if error.kind() == io::ErrorKind::NotFound && self.request.skip.missing =>
            {
                self.reporter.left_out(operand.to_vec(), MISSING);
                None
            }
            Err(OperandRefusal::UnsafeLink) => {
                self.reporter.left_out(operand.to_vec(), UNSAFE_LINK);
                None
            }
            Err(refusal) => {
                self.reporter.failed(operand.to_vec(), refusal.to_string());
                None
            }
        }
    }

    fn resolve(&mut self, path: &Path) -> Result<OperandRoot, OperandRefusal> {
        if let Some(size) = null::null_size(path) {
            let identity = FileIdentity { device: 0, inode: 0 };
            return Ok(OperandRoot {
                name: Name::new(null::NAME.as_bytes()).ok(),
                identity,
                kind: OperandKind::Null(size),
            });
        }
        let stat = match self.entry_in_parent(path) {
            Some((parent, name, seen)) => match (seen.stat.kind, seen.points_to) {
                (FileType::RegularFile, _) => return Ok(OperandRoot::file(parent, name, seen.stat)),
                (FileType::Symlink, Some(points_to)) => {
                    let (identity, meta) = (seen.stat.identity, seen.stat.meta);
                    let kind = OperandKind::Symlink(parent, name.clone(), points_to, meta);
                    return Ok(OperandRoot { name: Some(name), identity, kind });
                }
                (FileType::Symlink, None) if self.symlinks == Symlinks::Safe => return Err(OperandRefusal::UnsafeLink),
                (FileType::Symlink, None) => None,
                _ => match seen.stat.node().filter(|_| self.recreates(seen.stat.kind)) {
                    Some(node) => {
                        let (identity, meta) = (seen.stat.identity, seen.stat.meta);
                        let kind = OperandKind::Node(parent, name.clone(), node, meta);
                        return Ok(OperandRoot { name: Some(name), identity, kind });
                    }
                    None => Some(seen.stat),
                },
            },
            None => None,
        };
        // The lookup of the whole path follows links, and has the error.
        let stat = match stat {
            Some(stat) => stat,
            None => FileStat::from(&lookup::stat(path).map_err(|error| lookup_error(path, error.into()))?),
        };
        let name = own_name(path).and_then(|name| Name::new(name.as_bytes()).ok());
        match stat.kind {
            FileType::Directory if !self.recursive => Err(OperandRefusal::Directory),
            FileType::Directory => {
                self.check_base(path)?;
                let dir = Dir::open_operand(path, DirAccess::List, Arc::clone(&self.cache))?;
                Ok(OperandRoot { name, identity: dir.identity(), kind: OperandKind::Directory(dir) })
            }
            FileType::RegularFile => {
                let name = name.ok_or(OperandRefusal::NoName)?;
                self.check_base(path)?;
                Ok(OperandRoot::file(self.parent_of(path)?, name, stat))
            }
            FileType::Fifo => Err(OperandRefusal::Fifo),
            FileType::Socket => Err(OperandRefusal::Socket),
            FileType::BlockDevice if self.is_alone => {
                // Its length is known when it has been read.
                let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY;
                let device = FlowPipe::new(lookup::open(path, flags)?, None);
                Ok(OperandRoot { name, identity: stat.identity, kind: OperandKind::Pipe(Arc::new(device)) })
            }
            FileType::BlockDevice => Err(OperandRefusal::BlockDevice),
            _ => Err(OperandRefusal::Device),
        }
    }

    /// Whether a special file is created at the target, and not read.
    fn recreates(&self, kind: FileType) -> bool {
        let kept = self.request.preserve;
        let nodes = SpecialFiles { devices: kept.devices, specials: kept.specials };
        self.request.skip.device_contents && nodes.takes(kind)
    }

    /// The entry in its parent directory, which costs less than a lookup of its whole path. `None` where a path has to
    /// be looked up as a whole: a trailing slash selects a link's target, and the parent may be missing.
    fn entry_in_parent(&mut self, path: &Path) -> Option<(Dir, Name, WalkLookup)> {
        let name = entry_name(path)?;
        let parent = self.parent_of(path).ok()?;
        let seen = WalkLookup::at(&parent, &name, FollowLinks::Itself, self.symlinks).ok()?;
        let depth = transfer_path(Some(&name), path.as_os_str().as_bytes(), self.request).len();
        // What a link leads to is looked up as a whole.
        let seen = seen.judge(&parent, &name, self.symlinks, depth.saturating_sub(1)).ok()?;
        (seen.links == FollowLinks::Itself).then_some((parent, name, seen))
    }

    /// The parent directory of a file. Search permission is sufficient.
    fn parent_of(&mut self, path: &Path) -> Result<Dir, OperandRefusal> {
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        if let Some((latest, dir)) = &self.latest_parent
            && latest.as_os_str() == parent.as_os_str()
        {
            return Ok(dir.clone());
        }
        let dir = match self.parents.get(parent) {
            Some(dir) => dir.clone(),
            None => {
                self.check_base(parent)?;
                let dir = Dir::open_operand(parent, DirAccess::Search, Arc::clone(&self.cache))?;
                if self.parents.len() >= PARENTS_MAX {
                    self.parents.clear();
                }
                self.parents.insert(parent.to_owned(), dir.clone());
                dir
            }
        };
        self.latest_parent = Some((parent.to_owned(), dir.clone()));
        Ok(dir)
    }

    /// The kernel would refuse to open paths outside the base, with an unclear error.
    fn check_base(&self, path: &Path) -> Result<(), OperandRefusal> {
        let Some(base) = &self.base else { return Ok(()) };
        match std::fs::canonicalize(path)?.starts_with(base) {
            true => Ok(()),
            false => Err(OperandRefusal::OutOfBase),
        }
    }
}

/// Whether an argument that is gone was found by an earlier walk, below a base that is still there.
pub fn is_planned(request: &SourceRequest) -> bool {
    let base = request.base.as_deref().filter(|_| request.live.is_planned);
    base.is_some_and(|base| lookup::stat(Path::new(OsStr::from_bytes(base))).is_ok())
}

/// The name of the entry itself: a trailing slash selects a link's target.
fn entry_name(path: &Path) -> Option<Name> {
    let name = own_name(path).filter(|_| !path.as_os_str().as_bytes().ends_with(b"/"))?;
    Name::new(name.as_bytes()).ok()
}

/// How links among source arguments are treated: followed, unless lookups are confined.
pub fn operand_links() -> FollowLinks {
    if lookup::is_confined() { FollowLinks::Itself } else { FollowLinks::Followed }
}

/// Identifies these source arguments on this host, across runs: the key of a remembered tree.
pub fn origin(operands: &[Vec<u8>]) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    let machine = machine::machine_id();
    hasher.update(&(machine.len() as u64).to_le_bytes()).update(&machine);
    for operand in operands {
        let path = Path::new(OsStr::from_bytes(operand));
        let absolute = lookup::real_path(path).unwrap_or_else(|_| path.to_owned());
        let bytes = absolute.as_os_str().as_bytes();
        hasher.update(&(bytes.len() as u64).to_le_bytes()).update(bytes);
    }
    *hasher.finalize().as_bytes()
}
