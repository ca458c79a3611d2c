//! Two-way synchronisation: what both sides changed since they last agreed, and what each side is to become.
//!
//! After Pierce and Vouillon, "What's in Unison? A formal specification and reference implementation of a file
//! synchronizer" (2004). `docs/internals/twoway.md` describes a run, and what each end must provide.

pub mod archive;
pub mod attributes;
pub mod base;
pub mod detect;
pub mod entry;
pub mod join;
pub mod limits;
pub mod links;
pub mod merge;
pub mod plan;
pub mod prefer;
pub mod reconcile;
pub mod renames;
#[cfg(test)]
mod samples;
pub mod unreadable;

use crate::codec::wire_enum;
use crate::path::Name;

/// haul's directory in a root. It is not part of the replica.
pub const OWN_DIRECTORY: &str = ".haul-twoway";

/// Whether a name in the root, or anywhere else, is haul's own.
pub fn is_own(name: &Name, is_in_root: bool) -> bool {
    name.is_reserved() || is_in_root && name.as_bytes() == OWN_DIRECTORY.as_bytes()
}

wire_enum! {
    /// One of the two replicas.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum ReplicaSide: "replica" {
        /// The first of the command line.
        A = 1,
        /// The second.
        B = 2,
    }
}

impl ReplicaSide {
    /// Both, in order.
    pub const BOTH: [Self; 2] = [Self::A, Self::B];

    /// Returns the other side.
    pub fn other(self) -> Self {
        match self {
            Self::A => Self::B,
            Self::B => Self::A,
        }
    }

    /// Returns the index in an array of both.
    pub fn index(self) -> usize {
        match self {
            Self::A => 0,
            Self::B => 1,
        }
    }
}
