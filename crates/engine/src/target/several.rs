//! Files that are there and have several names there. Where names of one file are kept, one of the source's files stays
//! as each of these, and no other: what are two files at the source do not stay names of one.

use haul_proto::manifest::{Entry, Kind, Meta};
use std::collections::HashMap;
use std::sync::Mutex;

use super::Target;
use crate::fs::{Identity, Look};
use crate::worker::lock;

/// Most of them: a hash table with so many takes 25 MiB, and 37 MiB while it grows.
const STAYING_FILES_MAX: usize = 7 << 16;

/// Those that something stays as, with the metadata that they get.
#[derive(Default)]
pub struct Several(Mutex<HashMap<Identity, Meta>>);

/// What another of the source's files has to do with one that is there.
pub(super) enum OtherName {
    /// Nothing that is known.
    None,
    /// It stays as this one, so that no other may, and has these metadata by then.
    Stays(Meta),
    /// Its metadata are these by then.
    Has(Meta),
}

impl Target {
    /// A file of the source stays as what is there: whether another one did.
    pub(super) fn other_name_of(&self, entry: &Entry, there: &Look) -> OtherName {
        // Of links, FIFOs, sockets and devices, the source has each name by itself: they share no time or owner.
        let is_single = match entry.kind {
            Kind::File { .. } => self.request.kept.hard_links,
            Kind::Symlink { .. } | Kind::Node(_) => true,
            _ => return OtherName::None,
        };
        if there.names < 2 || !(is_single || self.is_dry()) {
            return OtherName::None;
        }
        let mut staying = lock(&self.several.0);
        if staying.len() >= STAYING_FILES_MAX {
            return OtherName::None;
        }
        match staying.get(&there.identity) {
            Some(meta) if is_single => OtherName::Stays(*meta),
            earlier => {
                let other = earlier.map_or(OtherName::None, |meta| OtherName::Has(*meta));
                staying.insert(there.identity, entry.meta);
                other
            }
        }
    }

    /// What is there is replaced after all.
    pub(super) fn forget_other_names_of(&self, there: &Look) {
        lock(&self.several.0).remove(&there.identity);
    }
}
