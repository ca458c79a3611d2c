//! The file system for both ends of a copy: directories held by descriptor, the source's walk, and metadata.
//!
//! No call takes a path below an operand: after the root is opened, every call names one component in a held directory.
//! File contents, temporary names and renames are elsewhere.

pub mod attributes;
mod dir;
mod fd_cache;
pub mod file_system;
mod filter;
mod held_file;
mod listing;
mod listing_buffer;
pub mod lookup;
mod lookup_waits;
mod made_directory;
pub mod meta;
mod names;
mod pages;
mod prefetch;
pub mod remove_tree;
mod repeated_names;
mod stat_ahead;
pub mod striping;
pub mod trusted_links;
mod unsafe_link;
mod walk;
mod walk_lookup;
mod walk_options;
pub mod watch;

#[cfg(test)]
mod extreme_tests;
#[cfg(test)]
mod filter_tests;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod walk_tests;

pub use dir::{Dir, DirAccess};
pub use fd_cache::{FdCache, MAX_OPEN_DIRECTORIES};
pub use filter::{PatternFile, WalkFilter, add_merged_files};
pub use held_file::{HeldFile, link_open_file};
pub use made_directory::{MARKER, MadeDirectory};
pub use meta::{FileIdentity, FileStat, FollowLinks, MetadataParts, mode_without_preserve};
pub use names::{each_name, each_name_unless};
pub use pages::DirectoryPages;
pub use prefetch::Prefetcher;
pub use stat_ahead::StatAhead;
pub use unsafe_link::is_unsafe_link;
pub use walk::{MISSING, UNSAFE_LINK, WalkEntry, Walker};
pub(crate) use walk_lookup::WalkLookup;
pub use walk_options::{SpecialFiles, WalkOptions};
