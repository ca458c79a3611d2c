//! Identification of a source file to be removed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::fs::{FileIdentity, FileStat};
use crate::source::own_unlinks::{OwnUnlinkRecords, OwnUnlinks};
/// Set once a file was sent and verified. All its names share the flag.
pub type VerifiedFlag = Arc<AtomicBool>;

/// Removal data of a file.
#[derive(Debug, Clone)]
pub struct RemovableFile {
    pub(super) is: RemovalIdentity,
    pub(super) names: RemovalNames,
    /// For a file with hard links: haul's own removals of its names.
    own_unlinks: Option<Arc<OwnUnlinks>>,
}

/// How a file is recognised before its removal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RemovalIdentity {
    File(FileIdentity),
    /// A symbolic link, by its target path.
    Link(Box<[u8]>),
}

/// The role of this name among a file's hard links.
#[derive(Debug, Clone)]
pub(super) enum RemovalNames {
    /// The only name.
    Only,
    /// The name under which the file is sent.
    First(VerifiedFlag),
    /// A further name, sent without contents.
    Other(VerifiedFlag),
}

impl RemovableFile {
    /// A file under its only known name.
    pub fn file(stat: &FileStat, records: &OwnUnlinkRecords) -> Self {
        Self { is: RemovalIdentity::File(stat.identity), names: RemovalNames::Only, own_unlinks: records.of(stat) }
    }

    /// A symbolic link.
    pub fn link(points_to: &[u8]) -> Self {
        Self { is: RemovalIdentity::Link(points_to.into()), names: RemovalNames::Only, own_unlinks: None }
    }

    /// Adds a further name to the file. Returns the removal data of that name.
    pub fn share(&mut self) -> Self {
        let proof = VerifiedFlag::default();
        self.names = RemovalNames::First(Arc::clone(&proof));
        Self { names: RemovalNames::Other(proof), ..self.clone() }
    }

    /// haul's own removals of the file's names.
    pub fn own_unlinks(&self) -> Option<&OwnUnlinks> {
        self.own_unlinks.as_deref()
    }

    /// Marks the file as verified.
    pub fn prove(&self) {
        if let RemovalNames::First(proof) = &self.names {
            proof.store(true, Ordering::Relaxed);
        }
    }

    /// Removal data of a file that was offered again.
    pub fn now(&self, stat: &FileStat, records: &OwnUnlinkRecords) -> Self {
        Self { names: self.names.clone(), ..Self::file(stat, records) }
    }
}
