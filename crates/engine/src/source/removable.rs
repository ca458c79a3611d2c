//! Identification of a source file to be removed.

use crate::source::FileIdentity;
use crate::source::FileStat;
use crate::source::own_unlinks::{OwnUnlinkRecords, OwnUnlinks};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
/// Set once a file was sent and verified; its names share it.
pub type VerifiedFlag = Arc<AtomicBool>;

/// What a file needs to be removed.
#[derive(Debug, Clone)]
pub struct RemovableFile {
    pub(super) is: RemovalIdentity,
    pub(super) names: RemovalNames,
    /// Of a file with several names: what haul has removed of them.
    own_unlinks: Option<Arc<OwnUnlinks>>,
}

/// By what it is known again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RemovalIdentity {
    File(FileIdentity),
    /// A symbolic link, by what it holds.
    Link(Box<[u8]>),
}

/// Which of a file's names it is.
#[derive(Debug, Clone)]
pub(super) enum RemovalNames {
    /// The only one.
    Only,
    /// The one that it is sent as.
    First(VerifiedFlag),
    /// Another one, which has no bytes of its own.
    Other(VerifiedFlag),
}

impl RemovableFile {
    /// A file under its only known name.
    pub fn file(look: &FileStat, records: &OwnUnlinkRecords) -> Self {
        Self { is: RemovalIdentity::File(look.identity), names: RemovalNames::Only, own_unlinks: records.of(look) }
    }

    /// A symbolic link.
    pub fn link(points_to: &[u8]) -> Self {
        Self { is: RemovalIdentity::Link(points_to.into()), names: RemovalNames::Only, own_unlinks: None }
    }

    /// The file has more names: returns what each of them is removed by.
    pub fn share(&mut self) -> Self {
        let proof = VerifiedFlag::default();
        self.names = RemovalNames::First(Arc::clone(&proof));
        Self { names: RemovalNames::Other(proof), ..self.clone() }
    }

    /// What haul has removed of the file's names.
    pub fn own_unlinks(&self) -> Option<&OwnUnlinks> {
        self.own_unlinks.as_deref()
    }

    /// The file sent under this name is verified.
    pub fn prove(&self) {
        if let RemovalNames::First(proof) = &self.names {
            proof.store(true, Ordering::Relaxed);
        }
    }

    /// The same for a file that was offered again.
    pub fn now(&self, look: &FileStat, records: &OwnUnlinkRecords) -> Self {
        Self { names: self.names.clone(), ..Self::file(look, records) }
    }
}
