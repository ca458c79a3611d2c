//! An open directory of a walk.

use std::io;
use std::sync::Arc;

use haul_proto::filter::FilterScope;
use haul_proto::path::Name;

use crate::fs::listing::{ListingPosition, OpenSubdirectory, ReadListing};
use crate::fs::prefetch::task::LookupHandle;
use crate::fs::repeated_names::EarlierNames;
use crate::fs::walk::WalkEntry;
use crate::fs::walk_lookup::WalkLookup;
use crate::fs::{Dir, FollowLinks};

/// An open directory.
pub struct WalkLevel {
    pub dir: Dir,
    /// Subdirectories of the last chunk.
    pub waiting: Vec<QueuedSubdirectory>,
    /// Position of the next chunk, unless the listing has ended.
    pub rest: Option<ListingPosition>,
    /// Its prefetch, if requested.
    pub rest_ahead: Option<LookupHandle<ReadListing>>,
    /// Its scope for filters.
    pub scope: Option<Arc<FilterScope>>,
    pub complete: bool,
    pub is_unlisted: bool,
    /// A name of its listing was gone.
    pub has_lost_names: bool,
    /// It was removed, which was reported.
    pub is_removed: bool,
    /// Its earlier names.
    pub earlier: EarlierNames,
}

/// A subdirectory to enter.
pub struct QueuedSubdirectory {
    pub name: Name,
    pub links: FollowLinks,
    /// Its prefetch, if requested.
    pub ahead: Option<LookupHandle<OpenSubdirectory>>,
}

impl WalkLevel {
    pub fn found_file(&self, name: Name, WalkLookup { stat, links, .. }: &WalkLookup) -> WalkEntry {
        WalkEntry::File { parent: self.dir.clone(), name, links: *links, stat: *stat }
    }

    pub fn left_out(&self, name: Name, reason: &'static str) -> WalkEntry {
        WalkEntry::LeftOut { parent: self.dir.clone(), name, reason }
    }

    pub fn vanished(&mut self, name: Name) -> WalkEntry {
        self.has_lost_names = true;
        WalkEntry::Vanished { parent: self.dir.clone(), name }
    }

    pub fn vanished_itself(&mut self) -> WalkEntry {
        self.is_removed = true;
        WalkEntry::VanishedDir { dir: self.dir.clone() }
    }

    /// Whether the directory was removed after its listing, which may lack names that were removed before it.
    pub fn is_removed_since(&self) -> bool {
        let may_be = self.complete && !self.is_removed && !self.is_unlisted && self.dir.parent().is_some();
        may_be && self.dir.is_removed(self.has_lost_names)
    }

    pub fn failed(&mut self, name: &[u8], error: io::Error) -> WalkEntry {
        self.complete = false;
        WalkEntry::Failed { path: self.dir.path_of(name), error }
    }
}
