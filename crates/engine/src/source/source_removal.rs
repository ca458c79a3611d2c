//! A verified file or symbolic link, removed only while it equals its offer.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use haul_proto::entry::EntryKind;
use rustix::fs::{AtFlags, FileType, readlinkat, unlinkat};

use crate::fs::{FileStat, FollowLinks};
use crate::source::entry::SourceEntry;
use crate::source::own_unlinks::UnlinkSpan;
use crate::source::path::SourcePath;
use crate::source::removable::{RemovableFile, RemovalIdentity, RemovalNames};
use crate::source::state::{FileChange, SourceState};

/// Verified files queued for removal.
pub type SourceRemovals = VecDeque<SourceRemoval>;

/// A verified file: the part of a [`SourceEntry`] needed for its removal. Holds no open file.
pub struct SourceRemoval {
    operand: Arc<[u8]>,
    place: SourcePath,
    offered: SourceState,
    removable: RemovableFile,
}

/// The outcome of a removal.
pub(super) enum SourceRemovalOutcome {
    Removed,
    /// Another program has removed it, or the name is a followed link.
    Nothing,
    Changed,
}

impl SourceRemoval {
    /// The kind of the removed entry.
    pub(super) fn what(&self) -> EntryKind {
        match self.removable.is {
            RemovalIdentity::File(_) => EntryKind::File,
            RemovalIdentity::Link(_) => EntryKind::Symlink,
        }
    }

    /// `None` for entries that stay.
    pub(super) fn new(item: &SourceEntry) -> Option<Self> {
        let (place, removable) = (item.place()?.clone(), item.removable.as_deref()?.clone());
        // The rest of it was not copied.
        if item.has_changed(FileChange::Growth) {
            return None;
        }
        // No data was sent for an existing file.
        if let RemovalNames::Other(proof) = &removable.names
            && !proof.load(Ordering::Relaxed)
        {
            return None;
        }
        let operand = Arc::clone(&item.operand);
        Some(Self { operand, place, offered: item.offered, removable })
    }

    pub(super) fn path(&self) -> Vec<u8> {
        self.place.path(&self.operand)
    }

    /// Removes the file under this name. Between check and removal, another program could replace it.
    pub(super) fn carry_out(&self) -> io::Result<SourceRemovalOutcome> {
        match self.removable.own_unlinks() {
            None => self.remove_name(None),
            Some(own) => own.without_removals(|span| self.remove_name(Some(span))),
        }
    }

    fn remove_name(&self, span: Option<&mut UnlinkSpan>) -> io::Result<SourceRemovalOutcome> {
        let SourcePath { parent, name, .. } = &self.place;
        let dir = parent.fd()?;
        let stat = match FileStat::at_name(&*dir, name, FollowLinks::Itself) {
            Ok(stat) => stat,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(SourceRemovalOutcome::Nothing),
            Err(error) => return Err(error),
        };
        if stat.kind == FileType::Symlink && self.place.links != FollowLinks::Itself {
            return Ok(SourceRemovalOutcome::Nothing);
        }
        let is_same = match &self.removable.is {
            RemovalIdentity::File(identity) => {
                let now = SourceState::from(&stat);
                let now = span.as_ref().map_or(now, |span| span.as_offered(now, &self.offered));
                stat.kind == FileType::RegularFile && stat.identity == *identity && now == self.offered
            }
            RemovalIdentity::Link(points_to) => {
                stat.kind == FileType::Symlink
                    && stat.meta.modified == self.offered.modified
                    && *readlinkat(&*dir, name.as_bytes(), Vec::new())?.as_bytes() == **points_to
            }
        };
        if !is_same {
            return Ok(SourceRemovalOutcome::Changed);
        }
        match span {
            None => unlinkat(&*dir, name.as_bytes(), AtFlags::empty())?,
            Some(span) => span.unlink(&*dir, name, &stat)?,
        }
        Ok(SourceRemovalOutcome::Removed)
    }
}
