//! Partial files of interrupted copies, as a worker finds and removes them in a file session.

use crate::codec::{wire_enum, wire_struct};
use crate::field_codecs::{ShownPath, Varint};

wire_struct! {
    /// A partial file, and what became of it.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct FoundPartial {
        /// The description.
        pub about: PartialDetails,
        /// Whether it was removed.
        pub outcome: PartialOutcome,
    }
}

wire_enum! {
    /// Result for one entry.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum PartialOutcome: "outcome for a partial file" {
        /// It was only shown.
        Shown = 1,
        /// It was removed.
        Removed = 2,
        /// It was kept, despite a request to remove it.
        Kept = 3,
    }
}

wire_struct! {
    /// Description of a partial file, a journal or a patch.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct PartialDetails {
        /// Its final path; its present path if that is unknown.
        pub path: Vec<u8> as ShownPath,
        /// Its state.
        pub state: PartialState,
        /// Its space on disk, including its journal's.
        pub disk_bytes: u64 as Varint,
        /// Seconds since its last write.
        pub idle_s: u64 as Varint,
    }
}

wire_enum! {
    /// The state of a partial file.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum PartialState: "state of a partial file" {
        /// A partial file: the same copy resumes it, if the source has not changed.
        Part(extent: PartialExtent) = 1,
        /// A partial file in use.
        Busy {
            /// Its recorded extent, if any.
            extent: Option<PartialExtent>,
            /// The writing process, if the kernel reports it.
            process: Option<u32>,
        } = 2,
        /// A partial file without a journal: the same copy starts it over.
        Unrecorded = 3,
        /// A journal without its partial file.
        Journal = 4,
        /// A journal of a partial file in another directory (`--journal-dir`). It is not removed without that file.
        Elsewhere = 5,
        /// A complete patch for an update in place (`--inplace`), perhaps applied in part. The same copy applies all of
        /// it; it is kept until then.
        Patch {
            /// Bytes of the patch.
            bytes: u64 as Varint,
            /// Bytes of the whole file then.
            size: u64 as Varint,
        } = 6,
        /// A useless patch: it is applied, or its file is gone or replaced.
        Spent = 7,
        /// A damaged patch. Its file may be updated in part; the same copy completes it.
        Damaged = 8,
        /// Another user's file, neither read nor removed.
        Foreign {
            /// That user.
            uid: u32,
        } = 9,
    }
}

wire_struct! {
    /// The extent of a partial file.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct PartialExtent {
        /// Bytes recorded as written. The next run verifies them.
        pub recorded: u64 as Varint,
        /// Bytes of the whole file.
        pub size: u64 as Varint,
    }
}
