//! A replica session: performs the steps of the controller, one at a time, in a thread of its own.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::vec::IntoIter;

use haul_base::held_directory::HeldDirectory;
use haul_proto::limits::{REPLICA_BATCH_BYTES, REPLICA_BATCH_MAX};
use haul_proto::path::Name;
use haul_proto::twoway::OWN_DIRECTORY;
use haul_proto::twoway::attributes::AttributeList;
use haul_proto::twoway::base::Generation;
use haul_proto::twoway::detect::ReplicaUpdate;
use haul_proto::twoway::entry::TreePath;
use haul_proto::twoway::merge::MetadataRules;
use haul_proto::twoway::plan::{ActionKind, ArchiveChange, TwowayAction, next_archive};
use haul_proto::twoway::unreadable::UnreadablePath;
use haul_proto::wire::preserve::PreserveOptions;
use haul_proto::wire::replica_session::{
    ActionOutcome, ReplicaAnswer, ReplicaId, ReplicaPlace, ReplicaRequest, ReplicaScan, ReplicaStep,
};
use rustix::fs::{Mode, mkdirat};
use rustix::io::Errno;

use super::act::ActionPerformer;
use super::archives::PairArchives;
use super::attributes::read_attributes;
use super::error::ReplicaError;
use super::look::ReplicaView;
use super::root::ReplicaRoot;
use super::root_id::{RootMark, RootRecords};
use super::scan::{ReplicaFilter, ScannedReplica, no_archive};
use crate::fs::{Dir, FileIdentity, FollowLinks, lookup, remove_tree};
use crate::receiver::place::copy_locks::{CopyLocks, LockedEntry};
use crate::receiver::place::directory_locks::{DirectoryLock, DirectoryLocks};
use crate::sys::confine::{ConfineBounds, ConfineRights};

/// The directory of archives in the state directory.
const STATE_NAME: &str = "twoway";
/// The directory for copies, in haul's own in the root.
const STAGED: &str = "incoming";
/// Longest wait for another run in the same root: a worker whose controller was killed needs a moment to notice.
const PATIENCE: Duration = Duration::from_secs(5);

/// One end of a run.
pub struct ReplicaEnd {
    state: HeldDirectory,
    state_path: PathBuf,
    mark: RootMark,
    place: ReplicaPlace,
    filter: ReplicaFilter,
    backups: Option<Dir>,
    archives: Option<PairArchives>,
    progress: RootProgress,
    unsent: IntoIter<ReplicaUpdate>,
    unreadable: IntoIter<UnreadablePath>,
    changes: Vec<ArchiveChange>,
    base: Option<u64>,
    /// No other run works in the root.
    _lock: Option<DirectoryLock>,
}

/// The root before its scan, and after it.
enum RootProgress {
    Opened(Option<ReplicaRoot>),
    Scanned(Box<ReplicaView>),
}

impl ReplicaEnd {
    /// Opens a replica, and permits in the sandbox what the session needs.
    pub fn open(
        request: &ReplicaRequest,
        state_dir: Option<&Path>,
        bounds: &mut ConfineBounds,
    ) -> Result<Self, ReplicaError> {
        let state_dir = state_dir.ok_or(ReplicaError::NoState)?;
        let root = ReplicaRoot::open(path_of(&request.root))?;
        if root.is_read_only() {
            return Err(ReplicaError::ReadOnly(request.root.clone()));
        }
        let failed = |error| ReplicaError::Id(request.root.clone(), error);
        let locks = DirectoryLocks::open(Some(state_dir));
        let lock = locks.as_ref().map(|locks| {
            let waits = CopyLocks::with_patience(PATIENCE);
            locks.acquire(root.dir.identity(), |file| waits.lock(file, LockedEntry::Directory))
        });
        let lock = lock.transpose().map_err(ReplicaError::Locked)?.flatten();
        let state_path = state_dir.join(STATE_NAME);
        let state = HeldDirectory::looked_up(&state_path)?;
        let unmarked = root.place().map_err(failed)?;
        let records = RootRecords::open(&state, &state_path, &unmarked.machine).map_err(ReplicaError::Archives)?;
        let (mark, origin) = records.identify(&root.dir, &root.path).map_err(failed)?;
        let place = ReplicaPlace { id: mark.id, origin, ..unmarked.clone() };
        let (backups, backups_at) = backup_directory(&root, &request.backup_dir)?.unzip();
        let filter = ReplicaFilter::new(&request.filters, backups_at.flatten())?;
        let everything = PreserveOptions {
            hard_links: true,
            attributes: true,
            acls: true,
            devices: true,
            specials: true,
            ..PreserveOptions::default()
        };
        locks.iter().for_each(|locks| locks.allow(bounds));
        bounds.allow(&state, ConfineRights::Land(everything));
        for dir in [Some(&root.dir), backups.as_ref()].into_iter().flatten() {
            bounds.allow(&*dir.fd().map_err(failed)?, ConfineRights::Land(everything));
        }
        Ok(Self {
            state,
            state_path,
            mark,
            place,
            filter,
            backups,
            archives: None,
            progress: RootProgress::Opened(Some(root)),
            unsent: Vec::new().into_iter(),
            unreadable: Vec::new().into_iter(),
            changes: Vec::new(),
            base: None,
            _lock: lock,
        })
    }

    /// Returns what the controller learns first.
    pub fn place(&self) -> ReplicaPlace {
        self.place.clone()
    }

    /// Performs a step.
    pub fn perform(&mut self, step: ReplicaStep) -> ReplicaAnswer {
        let answer = match step {
            ReplicaStep::Meet { other } => self.meet(other),
            ReplicaStep::Scan { base, rules } => self.scan(base, rules),
            ReplicaStep::NextUpdates => Ok(self.next_updates()),
            ReplicaStep::Digest { paths } => self.view().map(|view| ReplicaAnswer::Digests(digests(view, &paths))),
            ReplicaStep::Find { paths } => self.find(&paths),
            ReplicaStep::ReadAttributes { paths } => {
                self.view().map(|view| ReplicaAnswer::Attributes(attributes(view, &paths)))
            }
            ReplicaStep::Stage => self.stage(),
            ReplicaStep::LookAt { sources } => self.view().map(|view| {
                let is_untouched = |(path, entry): &(TreePath, _)| view.is_untouched(path, Some(entry), true);
                ReplicaAnswer::Untouched(sources.iter().map(is_untouched).collect())
            }),
            ReplicaStep::Perform { actions } => self.act(&actions),
            ReplicaStep::Record { changes } => {
                self.changes.extend(changes);
                Ok(ReplicaAnswer::Recorded)
            }
            ReplicaStep::Write { number, base } => self.write(number, base),
        };
        answer.unwrap_or_else(|error| ReplicaAnswer::Failed { text: error.to_string() })
    }

    fn meet(&mut self, other: ReplicaId) -> Result<ReplicaAnswer, ReplicaError> {
        let archives = PairArchives::open(&self.state, &self.state_path, self.mark.id, other);
        let archives = archives.map_err(ReplicaError::Archives)?;
        let generations = archives.generations(&self.state).map_err(ReplicaError::Archives)?;
        self.archives = Some(archives);
        Ok(ReplicaAnswer::Met { generations })
    }

    fn scan(&mut self, base: Option<u64>, rules: MetadataRules) -> Result<ReplicaAnswer, ReplicaError> {
        let archives = self.archives.as_ref().ok_or(ReplicaError::Order)?;
        // A damaged archive at the other end needs another scan.
        let root = match std::mem::replace(&mut self.progress, RootProgress::Opened(None)) {
            RootProgress::Opened(root) => root.ok_or(ReplicaError::Order)?,
            RootProgress::Scanned(view) => view.root,
        };
        let scanned = match base {
            Some(number) => archives
                .read(&self.state, number)
                .and_then(|archive| ScannedReplica::new(&root, &self.filter, archive, &rules)),
            None => ScannedReplica::new(&root, &self.filter, no_archive(), &rules),
        };
        let mut scan = match (scanned, base) {
            (Ok(scan), _) => scan,
            (Err(ReplicaError::Archive(_)), Some(number)) => {
                archives.remove(&self.state, number).map_err(ReplicaError::Archives)?;
                let generations = archives.generations(&self.state).map_err(ReplicaError::Archives)?;
                self.progress = RootProgress::Opened(Some(root));
                return Ok(ReplicaAnswer::Met { generations });
            }
            (Err(error), _) => return Err(error),
        };
        let (updates, unreadable) = (std::mem::take(&mut scan.updates), std::mem::take(&mut scan.unreadable));
        let found = ReplicaScan {
            started: scan.started,
            archived: scan.archived,
            entries: (scan.entries.len() + unreadable.len()) as u64 + scan.unseen,
            updates: (updates.len() + unreadable.len()) as u64,
            hashed: scan.hashed,
        };
        (self.unsent, self.unreadable, self.base) = (updates.into_iter(), unreadable.into_iter(), base);
        self.progress = RootProgress::Scanned(Box::new(ReplicaView {
            root,
            scan,
            rules,
            made: Default::default(),
            linked: Default::default(),
        }));
        Ok(ReplicaAnswer::Scanned(found))
    }

    fn next_updates(&mut self) -> ReplicaAnswer {
        let (mut updates, mut bytes) = (Vec::new(), 0);
        while updates.len() < REPLICA_BATCH_MAX && bytes < REPLICA_BATCH_BYTES {
            let Some(update) = self.unsent.next() else { break };
            bytes += update.path.as_bytes().len();
            updates.push(update);
        }
        let mut unreadable = Vec::new();
        while unreadable.len() < REPLICA_BATCH_MAX && bytes < REPLICA_BATCH_BYTES {
            let Some(one) = self.unreadable.next() else { break };
            bytes += one.path.as_bytes().len() + one.text.len();
            unreadable.push(one);
        }
        ReplicaAnswer::Updates { updates, unreadable, is_last: self.unsent.len() + self.unreadable.len() == 0 }
    }

    fn view(&self) -> Result<&ReplicaView, ReplicaError> {
        match &self.progress {
            RootProgress::Scanned(view) => Ok(view),
            RootProgress::Opened(_) => Err(ReplicaError::Order),
        }
    }

    fn find(&self, paths: &[TreePath]) -> Result<ReplicaAnswer, ReplicaError> {
        let view = self.view()?;
        let find = |path: &TreePath| {
            view.root.entry(path).map_err(|error| ReplicaError::Unreadable(path.as_bytes().to_vec(), error))
        };
        paths.iter().map(find).collect::<Result<_, _>>().map(ReplicaAnswer::Found)
    }

    fn stage(&self) -> Result<ReplicaAnswer, ReplicaError> {
        let view = self.view()?;
        let path = view.root.path.join(OWN_DIRECTORY).join(STAGED);
        let made = own_directory(&view.root.dir).and_then(|own| make_child(&own, STAGED));
        let made = made.map_err(|error| ReplicaError::Directory(path.as_os_str().as_bytes().to_vec(), error))?;
        let FileIdentity { device, inode } = made.identity();
        Ok(ReplicaAnswer::Staged { path: path.into_os_string().into_encoded_bytes(), identity: (device, inode) })
    }

    fn act(&mut self, actions: &[TwowayAction]) -> Result<ReplicaAnswer, ReplicaError> {
        let RootProgress::Scanned(view) = &mut self.progress else { return Err(ReplicaError::Order) };
        let copies = actions.iter().any(|action| matches!(action.kind, ActionKind::Copy { .. }));
        let staged = copies.then(|| own_directory(&view.root.dir).and_then(|own| make_child(&own, STAGED)));
        let failed = |error| ReplicaError::Directory(OWN_DIRECTORY.into(), error);
        let staged = staged.transpose().map_err(failed)?;
        let (staged, backups, filter) = (staged.as_ref(), self.backups.as_ref(), &self.filter);
        let mut performer = ActionPerformer { view, staged, backups, filter };
        let mut outcomes: Vec<ActionOutcome> = actions.iter().map(|action| performer.perform(action)).collect();
        for outcome in &mut outcomes {
            if let ActionOutcome::Done { stamp, .. } = outcome {
                *stamp = stamp.and_then(|stamp| performer.last_stamp(stamp));
            }
        }
        Ok(ReplicaAnswer::Performed(outcomes))
    }

    /// Writes the next archive: what the scan found unchanged under another stamp, then the changes of the run.
    fn write(&mut self, number: u64, base: Option<Generation>) -> Result<ReplicaAnswer, ReplicaError> {
        let view = match &self.progress {
            RootProgress::Scanned(view) => view,
            RootProgress::Opened(_) => return Err(ReplicaError::Order),
        };
        let archives = self.archives.as_ref().ok_or(ReplicaError::Order)?;
        let mut changes: std::collections::BTreeMap<TreePath, ArchiveChange> = Default::default();
        for (path, found) in &view.scan.restamped {
            let mut entry = found.entry.clone();
            entry.stamp = entry.stamp.and_then(|stamp| stamp.trusted(view.scan.started));
            changes.insert(path.clone(), ArchiveChange { path: path.clone(), entry: Some(entry) });
        }
        changes.extend(std::mem::take(&mut self.changes).into_iter().map(|change| (change.path.clone(), change)));
        let changes = changes.into_values().map(Ok);
        let written = match self.base {
            Some(old) => {
                let entries = archives.read(&self.state, old)?;
                archives.write(&self.state, number, base, next_archive(entries, changes))?
            }
            None => archives.write(&self.state, number, base, next_archive(no_archive(), changes))?,
        };
        let records = RootRecords::open(&self.state, &self.state_path, &self.place.machine);
        let records = records.map_err(ReplicaError::Archives)?;
        let counted = records.count_run(&view.root.dir, &view.root.path, self.mark);
        self.mark = counted.map_err(|error| ReplicaError::Id(self.place.path.clone(), error))?;
        clear_staged(&view.root.dir);
        Ok(ReplicaAnswer::Written(Generation { number, agreed: written.agreed }))
    }
}

fn digests(view: &ReplicaView, paths: &[TreePath]) -> Vec<Option<haul_proto::integrity::Digest>> {
    let digest =
        |path: &TreePath| view.root.digest(path, view.made.get(path).copied().or(view.scan.stamp(path))?).ok()?;
    paths.iter().map(digest).collect()
}

/// Reads as many lists of attributes as a message holds.
fn attributes(view: &ReplicaView, paths: &[TreePath]) -> Vec<Option<AttributeList>> {
    let (mut lists, mut bytes) = (Vec::new(), 0);
    for path in paths {
        if bytes >= REPLICA_BATCH_BYTES {
            break;
        }
        let found = view.root.parent_of(path).and_then(|(dir, name)| read_attributes(&dir, &name, &view.rules));
        bytes += found.iter().map(AttributeList::bytes).sum::<usize>();
        lists.push(found.ok());
    }
    lists
}

fn path_of(path: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(path))
}

/// Opens the directory for backups, and makes it if it is new. Its path below the root comes with it.
fn backup_directory(root: &ReplicaRoot, path: &[u8]) -> Result<Option<(Dir, Option<TreePath>)>, ReplicaError> {
    if path.is_empty() {
        return Ok(None);
    }
    let whole = root.path.join(path_of(path));
    let failed = |error| ReplicaError::Directory(whole.as_os_str().as_bytes().to_vec(), error);
    lookup::create_dir_all(&whole, Mode::RWXU).map_err(failed)?;
    let (dir, real) = (Dir::open_root(&whole).map_err(failed)?, lookup::real_path(&whole).map_err(failed)?);
    if root.path.starts_with(&real) {
        return Err(ReplicaError::BackupsAbove(real.into_os_string().into_encoded_bytes()));
    }
    let below = real.strip_prefix(&root.path).ok().map(|below| TreePath::new(below.as_os_str().as_bytes()));
    Ok(Some((dir, below.transpose()?)))
}

/// Opens haul's directory in the root, and makes it if it is new.
fn own_directory(root: &Dir) -> io::Result<Dir> {
    make_child(root, OWN_DIRECTORY)
}

fn make_child(dir: &Dir, name: &str) -> io::Result<Dir> {
    let name = Name::new(name.as_bytes()).map_err(|_| Errno::INVAL)?;
    match mkdirat(&*dir.fd()?, name.as_bytes(), Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => {
            let (child, stat) = dir.child_with_stat(&name, FollowLinks::Itself)?;
            // Its owner could exchange what is in it.
            match stat.is_owned_by_this_user() {
                true => Ok(child),
                false => Err(io::Error::other("belongs to another user: remove it")),
            }
        }
        Err(error) => Err(error.into()),
    }
}

/// Removes the directory for copies. haul's own directory stays only with an id in it.
fn clear_staged(root: &Dir) {
    let (Ok(own), Ok(staged)) = (Name::new(OWN_DIRECTORY.as_bytes()), Name::new(STAGED.as_bytes())) else { return };
    let Ok(dir) = root.child(&own) else { return };
    let protected = remove_tree::ProtectedDirectories::with([]);
    // What stays costs room, and is removed by the next run.
    let mut removal = remove_tree::TreeRemoval { protected: &protected, tell: &mut |_, _, _| {} };
    removal.remove(&dir, &staged, rustix::fs::FileType::Directory);
    let _ = root.fd().map(|fd| rustix::fs::unlinkat(&*fd, own.as_bytes(), rustix::fs::AtFlags::REMOVEDIR));
}
