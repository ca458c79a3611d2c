//! The destination: cp's and scp's rules for the last argument, applied once, before the first offer.
//!
//! - An existing directory: source arguments are copied into it, under their own names. If an earlier run of this copy
//!   created it (see [`crate::receiver::place::tree_memory`]), a rerun resumes in it instead of nesting a second copy
//!   inside. So does a copy that restarts after a lost connection.
//! - A missing path: the only source argument gets this name.
//! - A file: the only source argument, a file, is compared with it or replaces it. A device, FIFO or socket: it is
//!   written to.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use haul_base::copy::End;
use haul_base::copy::display_path::below;
use haul_base::copy::spec::NULL_TARGET;
use haul_base::sys::describe::describe;
use haul_proto::filter::{FilterScope, Matcher};
use haul_proto::overwrite_policy::OverwritePolicy;
use haul_proto::path::{Name, escape};
use haul_proto::wire::pipe::PipeKind;
use haul_proto::wire::report::WorkerMessage;
use haul_proto::wire::request::{TargetOperand, TargetRequest};
use haul_proto::wire::storage::Fsync;
use haul_proto::wire::write_options::DirectoryOptions;
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;

use crate::fs::{Dir, FileIdentity, FileStat, FollowLinks, lookup};
use crate::io::program::{InheritedPipe, PipeProgram};
use crate::metrics::reporter::Reporter;
use crate::policy::{HostPolicy, PolicyRule};
use crate::receiver::place::error::FileError;
use crate::receiver::place::in_order_sink::InOrderSink;
use crate::receiver::place::tree_memory;
use crate::sys::confine::{ConfineBounds, ConfineRights};
use crate::sys::machine;

/// The resolved destination.
pub struct Destination {
    /// Its kind.
    pub kind: DestinationKind,
    /// Prefix of displayed paths.
    label: Vec<u8>,
    /// Record of the tree while it is created.
    pub memory: Option<tree_memory::TreeMemory>,
    /// Whether this run created the directory, or a dry run would.
    pub is_new: bool,
}

/// The kind of a destination.
pub enum DestinationKind {
    /// Into this directory, under the names of the source arguments.
    Into(Dir),
    /// In this directory, under this name.
    As(Dir, Name),
    /// The contents of the only source argument, a directory, go directly into this directory.
    Contents(Dir),
    /// A device, FIFO or socket, by path.
    Special(PathBuf),
    /// An open descriptor that accepts bytes in order.
    Pipe(Arc<InOrderSink>),
    /// A missing directory, in a dry run.
    Nothing,
}

/// Why a Request was refused.
pub struct RefusedRequest {
    /// Whether it is a usage error.
    pub usage: bool,
    /// The error and its remedy.
    pub text: String,
}

impl RefusedRequest {
    /// A usage error.
    pub fn usage(text: String) -> Self {
        Self { usage: true, text }
    }

    fn failed(text: String) -> Self {
        Self { usage: false, text }
    }
}

impl From<FileError> for RefusedRequest {
    fn from(error: FileError) -> Self {
        Self::failed(error.to_string())
    }
}

impl Destination {
    /// Displayed path of an entry below the destination.
    pub fn path(&self, relative: &[u8]) -> Vec<u8> {
        below(&self.label, relative)
    }

    /// The destination directory; `None` for a device, FIFO or socket.
    pub fn dir(&self) -> Option<&Dir> {
        match &self.kind {
            DestinationKind::Into(dir) | DestinationKind::As(dir, _) | DestinationKind::Contents(dir) => Some(dir),
            DestinationKind::Special(_) | DestinationKind::Pipe(_) | DestinationKind::Nothing => None,
        }
    }

    /// Refuses any other directory than the one that the Request permits. Everything in it is opened below its descriptor.
    pub fn check_identity(&self, permitted: Option<(u64, u64)>) -> Result<(), RefusedRequest> {
        let Some((device, inode)) = permitted else { return Ok(()) };
        match self.dir().is_some_and(|dir| dir.identity() == FileIdentity { device, inode }) {
            true => Ok(()),
            false => Err(RefusedRequest::failed(format!("{} was replaced by another directory", escape(&self.label)))),
        }
    }

    /// In a dry run with a missing destination: the depth of its parent below the working directory.
    pub fn missing_depth(&self) -> usize {
        let is_name = |part: &std::path::Component<'_>| matches!(part, std::path::Component::Normal(_));
        let path = Path::new(OsStr::from_bytes(&self.label));
        path.components().filter(is_name).count().saturating_sub(1)
    }

    /// Path of the destination directory, if there is one.
    pub fn root<'r>(&self, request: &'r TargetRequest) -> &'r Path {
        let path = Path::new(OsStr::from_bytes(&request.path));
        match &self.kind {
            DestinationKind::As(..) => path.parent().unwrap_or(path),
            _ => path,
        }
    }

    /// The descriptor to write to, if it was open before the first offer.
    pub fn sink(&self) -> Option<&InOrderSink> {
        match &self.kind {
            DestinationKind::Pipe(sink) => Some(sink),
            _ => None,
        }
    }

    /// Aborts a program whose input is incomplete.
    pub fn abandon(&self) {
        self.sink().into_iter().for_each(InOrderSink::abandon);
    }

    /// Permits these `rights` at the destination.
    pub fn allow(&self, bounds: &mut ConfineBounds, rights: ConfineRights) {
        // An inaccessible destination is reported at its first use.
        match &self.kind {
            DestinationKind::Into(dir) | DestinationKind::As(dir, _) | DestinationKind::Contents(dir) => {
                drop(dir.fd().map(|fd| bounds.allow(&*fd, rights)));
            }
            DestinationKind::Pipe(_) | DestinationKind::Nothing => {}
            DestinationKind::Special(path) => {
                let handle = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).ok();
                let found = handle.and_then(|handle| Some((FileStat::at_fd(&handle).ok()?, handle)));
                if let Some((stat, handle)) = found.filter(|(stat, _)| stat.is_special()) {
                    bounds.allow(handle, ConfineRights::WriteSpecial);
                    if stat.kind == FileType::Socket {
                        bounds.allow_local_sockets();
                    }
                }
            }
        }
        self.memory.iter().for_each(|memory| memory.allow(bounds));
    }
}

/// Number of directories to create for the destination itself.
pub fn missing_directories(request: &TargetRequest) -> u64 {
    if request.sync.is_dry || request.pipe != PipeKind::No || !(request.directory.create || is_made_by_sync(request)) {
        return 0;
    }
    let path = Path::new(OsStr::from_bytes(&request.path));
    if makes_only_parents(request) { path.parent().map_or(0, missing_at) } else { missing_at(path) }
}

/// Number of missing components at the end of a path.
pub fn missing_at(path: &Path) -> u64 {
    let is_missing = |path: &&Path| !path.as_os_str().is_empty() && rustix::fs::lstat(*path).is_err();
    path.ancestors().take_while(is_missing).count() as u64
}

/// Resolves the destination.
pub fn find(
    request: &TargetRequest,
    state_dir: Option<&Path>,
    reporter: &Reporter,
) -> Result<Destination, RefusedRequest> {
    let typed = if request.path.is_empty() { &b"."[..] } else { &request.path[..] };
    let path = Path::new(OsStr::from_bytes(typed));
    if is_null_of_server(request, path) {
        return Ok(special(path));
    }
    if makes_only_parents(request) {
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        if let Some(parent) = parent.filter(|parent| matches!(lookup::stat(parent), Err(Errno::NOENT))) {
            if request.sync.is_dry {
                return new_name_in(Dir::absent_root(), path);
            }
            make_directories(parent, request.fsync).map_err(|error| cannot(typed, &error))?;
        }
    }
    let is_new = request.directory.create && !makes_only_parents(request) || is_made_by_sync(request);
    if is_new && matches!(lookup::stat(path), Err(Errno::NOENT)) {
        refuse_nesting_in_missing(request, path)?;
        if request.sync.is_dry {
            return Ok(Destination {
                kind: DestinationKind::Nothing,
                label: typed.to_vec(),
                memory: None,
                is_new: true,
            });
        }
        let made = match request.directory.create {
            true => make_directories(path, request.fsync),
            false => make_last_directory(path, request.fsync),
        };
        made.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => no_directory(path.parent().unwrap_or(path)),
            _ => cannot(typed, &error),
        })?;
        let stat = FileStat::from(&lookup::stat(path).map_err(|error| cannot(typed, &error.into()))?);
        let destination = onto_existing(request, path, &stat, state_dir)?;
        return Ok(Destination { is_new: true, ..destination });
    }
    match lookup::stat(path) {
        Ok(stat) => onto_existing(request, path, &FileStat::from(&stat), state_dir),
        Err(Errno::NOENT) if request.compare.is_some() => {
            Err(RefusedRequest::failed(format!("{} does not exist: nothing to compare with", escape(typed))))
        }
        Err(Errno::NOENT) => onto_missing(request, path, state_dir, reporter),
        Err(Errno::NOTDIR) if is_file_with_slash(path) => {
            Err(RefusedRequest::usage(format!("{} is a file\nomit the slash at its end", escape(typed))))
        }
        Err(error) => Err(cannot(typed, &error.into())),
    }
}

/// Whether a path is that of a file with a slash at its end.
fn is_file_with_slash(path: &Path) -> bool {
    let name = path.as_os_str().as_bytes().strip_suffix(b"/").map(|name| Path::new(OsStr::from_bytes(name)));
    name.is_some_and(|name| lookup::stat(name).is_ok())
}

/// Whether the directories above a single file's new name are created, not one for it.
fn makes_only_parents(request: &TargetRequest) -> bool {
    let DirectoryOptions { create, only_parents, .. } = request.directory;
    let is_file = matches!(&request.operands[..], [TargetOperand { directory: false, .. }]);
    create && only_parents && is_file && !makes_subdirectories(request) && !request.path.ends_with(b"/")
}

/// The destination, if it is a pipe.
pub fn pipe(
    request: &TargetRequest,
    inherited: Option<InheritedPipe>,
    policy: &HostPolicy,
) -> Result<Destination, RefusedRequest> {
    let [TargetOperand { directory: false, .. }] = &request.operands[..] else {
        let target = if request.pipe == PipeKind::Standard { "-" } else { "TARGET" };
        return Err(RefusedRequest::usage(format!(
            "a pipe takes one file\nfor a directory, copy tar's output: haul --pipe i 'HOST:tar -cf - DIR' {target}"
        )));
    };
    let path = Path::new(OsStr::from_bytes(&request.path));
    let found = lookup::stat(path).ok().map(|found| FileStat::from(&found)).filter(FileStat::is_special);
    if let Some(stat) = found.filter(|_| request.pipe != PipeKind::Standard) {
        refuse_unforced_device(request, path, &stat)?;
        return Ok(special(path));
    }
    let sink = match request.pipe {
        PipeKind::Standard => {
            let output = inherited.ok_or("standard output cannot be written on another host");
            let output = output.map_err(|text| RefusedRequest::failed(text.into()))?;
            Ok(InOrderSink::new(output.fd, output.program))
        }
        PipeKind::Growing(_) => return Err(RefusedRequest::usage("a target cannot be followed (--realtime)".into())),
        PipeKind::Named | PipeKind::No => {
            policy.check(PolicyRule::NoPrograms).map_err(|refusal| RefusedRequest::failed(refusal.to_string()))?;
            PipeProgram::start(End::Target, &request.path)
                .map(|(program, reads)| InOrderSink::new(reads, Some(Arc::new(program))))
        }
    };
    let pipe = sink.map_err(|error| cannot(&request.path, &error))?;
    Ok(Destination {
        kind: DestinationKind::Pipe(Arc::new(pipe)),
        label: request.path.clone(),
        memory: None,
        is_new: false,
    })
}

/// Whether a sync creates the destination directory: not for a single file, which may get another name.
fn is_made_by_sync(request: &TargetRequest) -> bool {
    let is_directory = !matches!(&request.operands[..], [TargetOperand { directory: false, .. }]);
    let is_inside = is_directory || request.path.ends_with(b"/") || makes_subdirectories(request);
    request.sync.into && request.compare.is_none() && is_inside
}

/// Creates one directory; its parent must exist.
fn make_last_directory(path: &Path, fsync: Fsync) -> io::Result<()> {
    match lookup::create_dir(path, Mode::from_raw_mode(0o777)) {
        // Another run, such as a shard of the same job, has made it meanwhile.
        Err(Errno::EXIST)
            if lookup::stat(path).is_ok_and(|found| FileStat::from(&found).kind == FileType::Directory) => {}
        made => made?,
    }
    sync_above(path, fsync)
}

/// Creates a directory and its missing parents, and makes their names durable if requested.
fn make_directories(path: &Path, fsync: Fsync) -> io::Result<()> {
    let exists = |path: &&Path| path.as_os_str().is_empty() || lookup::stat(path).is_ok();
    let made: Vec<_> = path.ancestors().take_while(|path| !exists(path)).collect();
    lookup::create_dir_all(path, Mode::from_raw_mode(0o777))?;
    made.iter().try_for_each(|path| sync_above(path, fsync))
}

/// Makes the name of a directory durable if requested.
fn sync_above(path: &Path, fsync: Fsync) -> io::Result<()> {
    let Some(parent) = path.parent().filter(|_| fsync == Fsync::Full) else { return Ok(()) };
    // A parent without read permission cannot be opened for a sync.
    if let Ok(dir) = Dir::open_root(if parent.as_os_str().is_empty() { Path::new(".") } else { parent }) {
        rustix::fs::fsync(&*dir.fd()?)?;
    }
    Ok(())
}

fn onto_existing(
    request: &TargetRequest,
    path: &Path,
    stat: &FileStat,
    state_dir: Option<&Path>,
) -> Result<Destination, RefusedRequest> {
    let shown = escape(path.as_os_str().as_bytes());
    if stat.kind == FileType::Directory {
        let dir = Dir::open_root(path).map_err(|error| cannot(path.as_os_str().as_bytes(), &error))?;
        if let [TargetOperand { directory: false, name: None, .. }] = &request.operands[..] {
            return Err(RefusedRequest::usage(format!(
                "{shown} is a directory, but piped data has no name\nadd a file name to the target"
            )));
        }
        refuse_nesting(request, &dir, path)?;
        refuse_itself(request, &dir, path)?;
        return Ok(into_directory(request, dir, path, stat.identity, state_dir));
    }
    if stat.is_null_device() && request.compare.is_none() && !lookup::is_confined() {
        return Ok(special(path));
    }
    let [operand] = &request.operands[..] else {
        return Err(RefusedRequest::usage(format!(
            "{shown} is not a directory\nseveral sources need a directory as their target"
        )));
    };
    if makes_subdirectories(request) {
        return Err(RefusedRequest::usage(format!("{shown} is not a directory\n-d needs a directory as the target")));
    }
    if operand.directory && request.compare.is_some() {
        return Err(RefusedRequest::usage(format!("{shown} is not a directory, but the source is")));
    }
    if operand.directory {
        return Err(RefusedRequest::usage(format!("{shown} is a file: a directory cannot be copied onto it")));
    }
    if stat.kind != FileType::RegularFile && request.compare.is_some() {
        return Err(RefusedRequest::failed(format!("{shown} is a device, FIFO or socket: nothing to compare with")));
    }
    if stat.kind != FileType::RegularFile && lookup::is_confined() {
        return Err(RefusedRequest::usage(format!(
            "{shown} is a device, FIFO or socket, which a server does not write"
        )));
    }
    if stat.kind != FileType::RegularFile && request.directory.replaces_special {
        return under_new_name(path);
    }
    if stat.kind != FileType::RegularFile {
        refuse_unforced_device(request, path, stat)?;
        return Ok(special(path));
    }
    if is_source(request, operand, stat.identity) {
        return Err(itself(path.as_os_str().as_bytes()));
    }
    if lookup::is_confined() {
        return under_new_name(path);
    }
    // A link to a file is followed: its target is meant.
    let real = std::fs::canonicalize(path).map_err(|error| cannot(path.as_os_str().as_bytes(), &error))?;
    under_new_name(&real)
}

/// Refuses to overwrite a device without `-f`: a mistyped name must not cost a disk. The null device has no contents.
fn refuse_unforced_device(request: &TargetRequest, path: &Path, stat: &FileStat) -> Result<(), RefusedRequest> {
    let is_device = matches!(stat.kind, FileType::BlockDevice | FileType::CharacterDevice) && !stat.is_null_device();
    let may_replace = matches!(request.write.overwrite, OverwritePolicy::Replace | OverwritePolicy::Follow);
    match is_device && !may_replace {
        true => Err(RefusedRequest::usage(format!(
            "{} is a device\nto overwrite its contents, add -f",
            escape(path.as_os_str().as_bytes())
        ))),
        false => Ok(()),
    }
}

/// Whether a served client's data is discarded: no lookup may leave its directory.
fn is_null_of_server(request: &TargetRequest, path: &Path) -> bool {
    lookup::is_confined() && request.compare.is_none() && path == Path::new(NULL_TARGET)
}

fn special(path: &Path) -> Destination {
    let (kind, label) = (DestinationKind::Special(path.into()), path.as_os_str().as_bytes().into());
    Destination { kind, label, memory: None, is_new: false }
}

fn into_directory(
    request: &TargetRequest,
    dir: Dir,
    path: &Path,
    identity: FileIdentity,
    state_dir: Option<&Path>,
) -> Destination {
    let label = path.as_os_str().as_bytes().to_vec();
    let goes_on = match &request.operands[..] {
        _ if makes_subdirectories(request) => false,
        [TargetOperand { directory: true, name: Some(_), .. }] if request.sync.into => false,
        [TargetOperand { directory: true, name: Some(_), .. }] => {
            request.own_tree || tree_memory::made_by(state_dir, path, identity, &request.origin)
        }
        [TargetOperand { directory: true, name: None, .. }] => true,
        _ => false,
    };
    let kind = if goes_on { DestinationKind::Contents(dir) } else { DestinationKind::Into(dir) };
    Destination { kind, label, memory: None, is_new: false }
}

fn onto_missing(
    request: &TargetRequest,
    path: &Path,
    state_dir: Option<&Path>,
    reporter: &Reporter,
) -> Result<Destination, RefusedRequest> {
    let bytes = path.as_os_str().as_bytes();
    let shown = escape(bytes);
    let [operand] = &request.operands[..] else {
        let text =
            format!("{shown} does not exist\nseveral sources need a directory as their target; --mkdir creates it");
        return Err(RefusedRequest::usage(text));
    };
    if makes_subdirectories(request) {
        let text = format!("{shown} does not exist\n-d needs a directory as the target; --mkdir creates it");
        return Err(RefusedRequest::usage(text));
    }
    if rustix::fs::lstat(path).is_ok() {
        return Err(RefusedRequest::failed(format!(
            "{shown} is a dangling symbolic link\ndelete it, or name another target"
        )));
    }
    if operand.directory && request.directory.must_exist {
        // A slash at its end would make it another error under bbcp's name.
        let shown = escape(path.components().as_path().as_os_str().as_bytes());
        let text = format!("the target directory {shown} does not exist\ncreate it, or add --mkdir");
        return Err(RefusedRequest::usage(text));
    }
    if bytes.ends_with(b"/") && !operand.directory {
        return Err(RefusedRequest::usage(format!("the directory {shown} does not exist\n--mkdir creates it")));
    }
    let mut destination = under_new_name(path)?;
    if operand.directory {
        if let DestinationKind::As(parent, _) = &destination.kind {
            refuse_nesting(request, parent, path)?;
        }
        destination.label = bytes.into();
        destination.memory = tree_memory::TreeMemory::of(state_dir, path, request.origin);
        if destination.memory.is_none() {
            reporter.send(&cannot_remember(&destination));
        }
    }
    Ok(destination)
}

/// Warning when a tree cannot be remembered.
pub fn cannot_remember(destination: &Destination) -> WorkerMessage {
    let shown = escape(&destination.label);
    let text = format!("cannot record the source of {shown}: a rerun will copy into it instead of resuming");
    WorkerMessage::Warning { text }
}

/// The destination for a new name: the last component of `path`.
fn under_new_name(path: &Path) -> Result<Destination, RefusedRequest> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let dir = Dir::open_root(parent).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => no_directory(parent),
        _ => cannot(parent.as_os_str().as_bytes(), &error),
    })?;
    new_name_in(dir, path)
}

/// The destination for the last component of `path` in its directory.
fn new_name_in(dir: Dir, path: &Path) -> Result<Destination, RefusedRequest> {
    let name = path.file_name().and_then(|name| Name::new(name.as_bytes()).ok());
    let name = name.ok_or_else(|| {
        RefusedRequest::failed(format!("{} does not end in a valid file name", escape(path.as_os_str().as_bytes())))
    })?;
    let label = path.parent().map_or_else(Vec::new, |parent| parent.as_os_str().to_owned().into_vec());
    Ok(Destination { kind: DestinationKind::As(dir, name), label, memory: None, is_new: false })
}

fn no_directory(path: &Path) -> RefusedRequest {
    RefusedRequest::usage(format!(
        "the directory {} does not exist\n--mkdir creates it",
        escape(path.as_os_str().as_bytes())
    ))
}

/// Refuses to copy an entry onto itself, by its own name or by that of its directory.
fn refuse_itself(request: &TargetRequest, dir: &Dir, path: &Path) -> Result<(), RefusedRequest> {
    if request.source_boot != machine::boot_id() {
        return Ok(());
    }
    for (number, operand) in request.operands.iter().enumerate() {
        let Some(name) = &operand.name else { continue };
        let names = request.below.get(number).map_or(&[][..], |names| names);
        // The source cannot be in a missing directory.
        let Ok(dir) = names.iter().try_fold(dir.clone(), |dir, name| dir.child(name)) else { continue };
        let fd = dir.fd().map_err(|error| cannot(path.as_os_str().as_bytes(), &error))?;
        if FileStat::at_name(&*fd, name, FollowLinks::Itself)
            .is_ok_and(|stat| is_source(request, operand, stat.identity))
        {
            return Err(itself(&below(path.as_os_str().as_bytes(), &dir.path_of(name.as_bytes()))));
        }
    }
    Ok(())
}

/// Whether source arguments go into subdirectories of the target, which must then be a directory.
fn makes_subdirectories(request: &TargetRequest) -> bool {
    !request.below.is_empty()
}

fn is_source(request: &TargetRequest, operand: &TargetOperand, found: FileIdentity) -> bool {
    request.source_boot == machine::boot_id() && (operand.device, operand.inode) == (found.device, found.inode)
}

fn itself(path: &[u8]) -> RefusedRequest {
    RefusedRequest::usage(format!("{} is the source itself\nname another target", escape(path)))
}

/// Refuses to copy a directory into itself, which would never end. If filters exclude the target, the source does not
/// enter it.
fn refuse_nesting(request: &TargetRequest, destination: &Dir, path: &Path) -> Result<(), RefusedRequest> {
    if request.source_boot != machine::boot_id() {
        return Ok(());
    }
    let sources: Vec<FileIdentity> = request
        .operands
        .iter()
        .filter(|operand| operand.directory)
        .map(|operand| FileIdentity { device: operand.device, inode: operand.inode })
        .collect();
    let inside = ancestors(destination).map_err(|error| cannot(path.as_os_str().as_bytes(), &error))?;
    match inside.iter().find(|identity| sources.contains(identity)) {
        None => Ok(()),
        Some(_) if is_filtered(request, &sources, path) => Ok(()),
        Some(_) => Err(RefusedRequest::usage(format!(
            "{} lies inside the source: a directory cannot be copied into itself\nname another target, or skip it (--exclude)",
            escape(path.as_os_str().as_bytes())
        ))),
    }
}

/// Whether the Request's filters exclude the target, or a directory between it and the source that contains it.
/// Symbolic links in `path` are resolved; its last components need not exist.
fn is_filtered(request: &TargetRequest, sources: &[FileIdentity], path: &Path) -> bool {
    if lookup::is_confined() {
        return false;
    }
    let Ok(matcher) = Matcher::new(&request.filters) else { return false };
    let Some(whole) = resolved(path) else { return false };
    let is_source = |above: &&Path| Dir::open_root(above).is_ok_and(|dir| sources.contains(&dir.identity()));
    // Every source that contains it must exclude it.
    let mut nesting = whole.ancestors().filter(is_source).peekable();
    nesting.peek().is_some()
        && nesting.all(|source| {
            let names = whole.strip_prefix(source).ok().into_iter().flat_map(Path::components);
            let mut scope = Arc::new(FilterScope::operand(Vec::new()));
            for name in names {
                let Ok(name) = Name::new(name.as_os_str().as_bytes()) else { return false };
                if matcher.leaves_out(&scope, name.as_bytes(), true) {
                    return true;
                }
                scope = Arc::new(FilterScope::below(scope, name, Vec::new()));
            }
            false
        })
}

/// An absolute path without symbolic links, as far as the path exists.
fn resolved(path: &Path) -> Option<PathBuf> {
    let whole = std::path::absolute(path).ok()?;
    whole.ancestors().find_map(|above| {
        let rest = whole.strip_prefix(above).ok()?;
        above.canonicalize().ok().map(|above| above.join(rest))
    })
}

/// As [`refuse_nesting`], for a directory that does not exist yet.
fn refuse_nesting_in_missing(request: &TargetRequest, path: &Path) -> Result<(), RefusedRequest> {
    // In a sandbox, paths and this search start in the working directory.
    let whole = if lookup::is_confined() { Ok(Path::new(".").join(path)) } else { std::path::absolute(path) };
    let whole = whole.map_err(|error| cannot(path.as_os_str().as_bytes(), &error))?;
    let there = whole.ancestors().skip(1).find_map(|above| Dir::open_root(above).ok());
    there.map_or(Ok(()), |dir| refuse_nesting(request, &dir, path))
}

/// Identities of this directory and its ancestors.
fn ancestors(dir: &Dir) -> io::Result<Vec<FileIdentity>> {
    use rustix::fs::{Mode, OFlags, openat};
    let mut found = vec![dir.identity()];
    let mut at = dir.fd()?;
    loop {
        let up = openat(&*at, c"..", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        let identity = FileStat::at_fd(&up)?.identity;
        if found.last() == Some(&identity) {
            return Ok(found);
        }
        found.push(identity);
        at = Arc::new(up);
    }
}

fn cannot(path: &[u8], error: &io::Error) -> RefusedRequest {
    RefusedRequest::failed(format!("{}: {}", escape(path), describe(error)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_made_first_by_another_run_is_accepted() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("to");
        (0..2).for_each(|_| make_last_directory(&path, Fsync::Full).unwrap());
        std::fs::write(temp.path().join("file"), "").unwrap();
        let error = make_last_directory(&temp.path().join("file"), Fsync::None).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
    }

    #[test]
    fn another_directory_than_the_permitted_one_is_refused() {
        let temp = tempfile::tempdir().unwrap();
        let dir = Dir::open_root(temp.path()).unwrap();
        let FileIdentity { device, inode } = dir.identity();
        let kind = DestinationKind::Contents(dir);
        let destination = Destination { kind, label: b"place".to_vec(), memory: None, is_new: false };
        assert!(destination.check_identity(None).is_ok());
        assert!(destination.check_identity(Some((device, inode))).is_ok());
        let refused = destination.check_identity(Some((device, inode + 1))).err().map(|refused| refused.text);
        assert_eq!(refused.as_deref(), Some("place was replaced by another directory"));
        assert!(special(temp.path()).check_identity(Some((device, inode))).is_err());
    }
}
