//! Directories between the target and source arguments (`--dirbase`): created if missing, one component at a time and
//! never through a symbolic link (except with `--keep-dirlinks`).

use std::collections::HashMap;
use std::io;
use std::sync::Mutex;

use haul_base::sys::sync::lock;
use haul_proto::entry::Entry;
use haul_proto::overwrite_policy::OverwriteRefusal;
use haul_proto::path::Name;
use haul_proto::wire::list_batch::ListedKinds;
use rustix::fs::{Mode, fchmod};

use super::directories::make_directory;
use crate::fs::{Dir, FileStat, FollowLinks};
use crate::receiver::tree::TargetTree;
use crate::sys::refusal::refusal;

/// The most recent of these directories, by their names below the destination.
#[derive(Default)]
pub struct Below(Mutex<KnownBelow>);

#[derive(Default)]
struct KnownBelow {
    directories: HashMap<Box<[Name]>, DirectoryBelow>,
    /// The latest one: consecutive source arguments often share it.
    latest: Option<(Box<[Name]>, DirectoryBelow)>,
}

/// A directory above a source argument.
#[derive(Clone)]
pub struct DirectoryBelow {
    pub dir: Dir,
    /// Whether it was empty at first, and only this copy's entries are in it: no lookup is needed for a new one.
    pub fresh: bool,
}

/// Most remembered directories: a list may name files in any number of them.
const KNOWN_MAX: usize = 4096;

impl TargetTree {
    /// The directory of these names below `root`. `modes` are the source's, nearest first.
    pub(crate) fn directory_below(&self, root: &Dir, names: &[Name], modes: &[u16]) -> io::Result<DirectoryBelow> {
        let mut known = lock(&self.parents.0);
        if let Some((_, latest)) = known.latest.as_ref().filter(|(below, _)| **below == *names) {
            return Ok(latest.clone());
        }
        let mut at = DirectoryBelow { dir: root.clone(), fresh: root.is_absent() };
        for (depth, name) in names.iter().enumerate() {
            let below = &names[..=depth];
            at = match known.directories.get(below) {
                Some(parent) => parent.clone(),
                None => {
                    let entered = self.enter_or_make(&at.dir, name, modes.get(names.len() - 1 - depth).copied())?;
                    if known.directories.len() >= KNOWN_MAX {
                        known.directories.clear();
                    }
                    known.directories.insert(below.into(), entered.clone());
                    entered
                }
            };
        }
        known.latest = Some((names.into(), at.clone()));
        Ok(at)
    }

    fn enter_or_make(&self, parent: &Dir, name: &Name, source_mode: Option<u16>) -> io::Result<DirectoryBelow> {
        if self.copy.is_dry() {
            return match self.enter(parent, name) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    Ok(DirectoryBelow { dir: parent.absent_child(name), fresh: true })
                }
                Ok(dir) => Ok(DirectoryBelow { dir, fresh: false }),
                Err(error) => Err(explained(parent, name, error)),
            };
        }
        // Private to the owner until it has its mode.
        let is_new = match make_directory(parent, name, 0o700) {
            Ok(()) => {
                self.quota.take_names(1).map_err(io::Error::other)?;
                true
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => false,
            Err(error) => return Err(error),
        };
        let dir = self.enter(parent, name).map_err(|error| explained(parent, name, error))?;
        if let Some(mode) =
            self.metadata.requested_directory_mode().or(source_mode.map(|mode| self.metadata.mode_above(mode)))
            && is_new
        {
            // An entry will be created in it.
            refusal(fchmod(&*dir.fd()?, Mode::from_raw_mode(u32::from(mode | 0o700))))?;
        }
        self.metadata.commit_queue.queue_directory(parent)?;
        // A listed tree could contain an entry that is listed, too.
        let fresh = is_new && self.copy.request.listed == ListedKinds::Files;
        Ok(DirectoryBelow { dir, fresh })
    }
}

/// The source's modes of the directories above a source argument.
pub(crate) fn parent_modes(entry: &Entry) -> &[u16] {
    entry.more.as_ref().map_or(&[], |more| &more.parent_modes)
}

/// The error for an existing entry in the place of a directory, in the wording for entries.
fn explained(parent: &Dir, name: &Name, error: io::Error) -> io::Error {
    let there = parent.fd().and_then(|dir| FileStat::at_name(&*dir, name, FollowLinks::Itself));
    let refusal = match there.map(|stat| stat.kind) {
        Ok(rustix::fs::FileType::Directory) | Err(_) => return error,
        Ok(rustix::fs::FileType::Symlink) => OverwriteRefusal::LinkForDirectory,
        Ok(_) => OverwriteRefusal::NotDirectory,
    };
    io::Error::other(refusal.text())
}
