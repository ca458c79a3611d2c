//! The file system, as both ends of a copy see it: directories held by
//! descriptor, the source's walk, and metadata.
//!
//! Nothing here takes a path below an operand: after the root has been opened,
//! every call names one component in a directory that is held. File contents,
//! temporary names and renames are not dealt with here.

mod ahead;
pub mod attributes;
mod dir;
mod errand;
mod fd_cache;
mod filter;
mod help;
mod helper;
mod listing;
pub mod lookup;
pub mod meta;
mod names;
mod seen;
mod waits;
mod walk;

#[cfg(test)]
mod extreme_tests;
#[cfg(test)]
mod filter_tests;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod walk_tests;

pub use ahead::Prefetcher;
pub use dir::{Dir, DirAccess};
pub use fd_cache::{FdCache, MAX_OPEN_DIRECTORIES};
pub use filter::{PatternFile, WalkFilter, rules_of};
pub use meta::{FileIdentity, FileStat, FollowLinks, MetadataParts, OwnershipResult, mode_without_preserve};
pub use names::each_name;
pub(crate) use seen::WalkLookup;
pub use walk::{SpecialFiles, WalkEntry, WalkOptions, Walker};
