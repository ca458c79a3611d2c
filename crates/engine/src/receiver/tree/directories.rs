//! Directories: created if missing, opened, and recorded if a later run must recognise them.

use std::io;
use std::sync::Arc;

use haul_proto::entry::{Entry, EntryContent, EntryMetadata};
use haul_proto::overwrite_policy::{ExistingEntry, OverwriteDecision, OverwritePolicy};
use haul_proto::path::Name;
use haul_proto::session::step::EntryAnswer;
use rustix::fs::{AtFlags, Mode, mkdirat, unlinkat};
use rustix::io::Errno;

use crate::fs::{Dir, FileStat, FollowLinks};
use crate::receiver::entry::ReceiverEntry;
use crate::receiver::place::destination::cannot_remember;
use crate::receiver::place::entry_position::EntryPosition;
use crate::receiver::place::error::FileError;
use crate::receiver::place::existing_entry::{ExistingStat, attributes};
use crate::receiver::place::temp_files::rename_new;
use crate::receiver::place::temp_names::{random_name, temporary_name};
use crate::receiver::place::tree_memory::TreeMemory;
use crate::receiver::tree::TargetTree;

/// Error for a link that cannot stay.
const CLOSED: &str =
    "its link leads to a directory that is closed to this user, or outside the target\ncopy to that directory itself";

impl TargetTree {
    /// Answers a directory: an existing one, a replacement, or a new one.
    pub(crate) fn directory(
        &self,
        position: &EntryPosition,
        entry: &Entry,
        decision: OverwriteDecision,
    ) -> Result<EntryAnswer<ReceiverEntry>, FileError> {
        let meta = entry.meta;
        let create = decision == OverwriteDecision::Create;
        if create && self.copy.is_dry() {
            // A tree with the target's own name is the prefix of all displayed paths.
            let absent = || position.dir.absent_child(&position.name);
            let dir = if position.renamed { Dir::absent_root() } else { absent() };
            return Ok(EntryAnswer::Needed(Arc::new(ReceiverEntry::Directory {
                dir,
                fresh: true,
                names: None,
                meta,
                attributes: None,
            })));
        }
        let fresh = decision == OverwriteDecision::Replace || create && self.create_directory(position, meta)?;
        if create && !fresh && self.is_spelled_otherwise(&position.dir, &position.name) {
            return Err(FileError::OtherSpelling);
        }
        if !fresh && !self.copy.is_dry() && self.copy.overwrite_rules().overwrite == OverwritePolicy::Follow {
            self.removals.remove_exchanged(&position.dir, &position.name);
        }
        let child = self.enter(&position.dir, &position.name)?;
        let dir = if position.renamed {
            // The tree's own root from here on: reported paths are relative to it.
            Dir::from_fd(rustix::io::fcntl_dupfd_cloexec(&*child.fd()?, 0)?)?
        } else {
            child
        };
        if !fresh {
            self.metadata.take_directory(&dir, &meta)?;
        }
        let attributes = attributes(entry).map(Into::into);
        let is_deleting = position.alone && !fresh;
        let names = match position.inside {
            true => self.removals.names_for(&dir, is_deleting),
            false => self.removals.names_for_argument(&dir, is_deleting),
        };
        Ok(EntryAnswer::Needed(Arc::new(ReceiverEntry::Directory { dir, fresh, names, meta, attributes })))
    }

    /// Opens a directory of the target, with `--keep-dirlinks` also through a link.
    pub(crate) fn enter(&self, parent: &Dir, name: &Name) -> io::Result<Dir> {
        match self.metadata.enter(parent, name) {
            Err(error) if self.copy.request.sync.keep_dirlinks && is_link(&error) => parent.linked_child(name),
            entered => entered,
        }
    }

    /// The directory that a link in the place of an offered directory leads to, if the link stays.
    pub(crate) fn kept_link(
        &self,
        position: &EntryPosition,
        entry: &Entry,
        there: &ExistingStat,
    ) -> io::Result<Option<FileStat>> {
        let is_link = matches!(there.existing, ExistingEntry::Symlink(_)) && entry.kind == EntryContent::Directory;
        if !is_link || !self.copy.request.sync.keep_dirlinks {
            return Ok(None);
        }
        match position.dir.linked_child(&position.name).and_then(|dir| FileStat::at_fd(&*dir.fd()?)) {
            Ok(stat) => Ok(Some(stat)),
            Err(error) => match Errno::from_io_error(&error) {
                Some(Errno::NOTDIR | Errno::LOOP | Errno::NOENT) => Ok(None),
                Some(Errno::ACCESS) => Err(io::Error::other(CLOSED)),
                _ => Err(error),
            },
        }
    }

    /// Creates a directory. `false` if another run was faster; entering the directory shows whose it is.
    fn create_directory(&self, position: &EntryPosition, meta: EntryMetadata) -> io::Result<bool> {
        let mode = self.metadata.first_mode(&meta);
        let memory = self.copy.destination.memory.as_ref().filter(|_| position.renamed);
        let _turn = memory.and_then(TreeMemory::turn);
        let made = match memory {
            None => make_directory(&position.dir, &position.name, mode),
            Some(memory) => self.make_remembered(position, memory, mode),
        };
        match made.as_ref().map_err(Errno::from_io_error) {
            Err(Some(Errno::EXIST | Errno::NOENT)) => {
                let faster = position.dir.child(&position.name)?;
                memory.into_iter().for_each(|memory| self.remember(memory, &faster));
                Ok(false)
            }
            _ => made.map(|()| true),
        }
    }

    /// Records the directory before it gets its name. Otherwise a run killed in between would leave a directory that
    /// the next run takes for a foreign one, and copies into instead of resuming.
    fn make_remembered(&self, position: &EntryPosition, memory: &TreeMemory, mode: u32) -> io::Result<()> {
        // The previous holder of the lock may have given it this name.
        if FileStat::at_name(&*position.dir.fd()?, &position.name, FollowLinks::Itself).is_ok() {
            return Err(Errno::EXIST.into());
        }
        let mut temporary = temporary_name(&position.name, b"directory");
        let mut found = match make_directory(&position.dir, &temporary, mode) {
            // Left by a run that was killed here, or about to be renamed by another run.
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => position.dir.child_with_stat(&temporary, FollowLinks::Itself),
        };
        let is_ours = |stat: &FileStat| self.metadata.is_made_by_this_user(&position.dir, stat);
        if !found.as_ref().is_ok_and(|(_, stat)| is_ours(stat)) {
            temporary = random_name(&temporary)?;
            make_directory(&position.dir, &temporary, mode)?;
            found = position.dir.child_with_stat(&temporary, FollowLinks::Itself);
        }
        let (made, stat) = found?;
        if !is_ours(&stat) {
            return Err(io::Error::other(format!("another user has replaced {temporary} by their own directory")));
        }
        self.remember(memory, &made);
        let parent = position.dir.fd()?;
        let renamed = rename_new(&parent, &temporary, &position.name);
        if renamed.is_err() {
            let _ = unlinkat(&*parent, temporary.as_bytes(), AtFlags::REMOVEDIR);
        }
        Ok(renamed?)
    }

    fn remember(&self, memory: &TreeMemory, dir: &Dir) {
        if memory.keep(dir.identity()).is_err() {
            self.copy.reporter.send(&cannot_remember(&self.copy.destination));
        }
    }
}

/// Whether a directory could not be opened because a link has its name.
pub(super) fn is_link(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::NOTDIR | Errno::LOOP))
}

/// Creates a directory where none exists.
pub(crate) fn make_directory(dir: &Dir, name: &Name, mode: u32) -> io::Result<()> {
    Ok(mkdirat(&*dir.fd()?, name.as_bytes(), Mode::from_raw_mode(mode))?)
}
