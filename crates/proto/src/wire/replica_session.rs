//! A replica session: one end of two-way synchronisation ([`crate::twoway`]). The controller has a worker scan its
//! replica, hash files, perform the actions of a plan and keep the archive, one step at a time.

use crate::codec::{OfType, wire_enum, wire_struct};
use crate::entry::Timestamp;
use crate::field_codecs::{BoundedBytes, PATH, TEXT, Varint, list};
use crate::filter::definition::FilterOptions;
use crate::integrity::Digest;
use crate::limits::{MACHINE_ID_MAX, REPLICA_BATCH_MAX, REPLICA_GENERATIONS_MAX};
use crate::twoway::attributes::AttributeList;
use crate::twoway::base::Generation;
use crate::twoway::detect::ReplicaUpdate;
use crate::twoway::entry::{FileStamp, ReplicaEntry, TreePath};
use crate::twoway::merge::MetadataRules;
use crate::twoway::plan::{ArchiveChange, TwowayAction};
use crate::twoway::unreadable::UnreadablePath;

wire_struct! {
    /// Request for a replica session.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct ReplicaRequest {
        /// Idle timeout of the control channel in milliseconds: after it, the worker gives up its controller.
        pub silence_ms: u32,
        /// The replica's root, a directory.
        pub root: Vec<u8> as PATH,
        /// Entries that do not belong to the replica.
        pub filters: FilterOptions,
        /// Directory for replaced and removed entries; empty: none. A relative path begins at the root.
        pub backup_dir: Vec<u8> as PATH,
    }
}

wire_enum! {
    /// A step of a replica session. The worker answers each, in order.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub enum ReplicaStep: "step of a replica session" {
        /// Find the archive of the pair with another replica; the answer is Met.
        Meet {
            /// Id of the other replica.
            other: ReplicaId,
        } = 1,
        /// Compare the replica with a generation of the archive, or with nothing; the answer is Scanned, or Met with the
        /// generations that are left where this one is damaged.
        Scan {
            /// Number of the generation.
            base: Option<u64>,
            /// What is compared.
            rules: MetadataRules,
        } = 2,
        /// Send the next updates of the scan; the answer is Updates.
        NextUpdates = 3,
        /// Hash files; the answer is Digests.
        Digest {
            /// Their paths.
            paths: Vec<TreePath> as list(OfType, REPLICA_BATCH_MAX, "paths of a replica"),
        } = 4,
        /// Look up entries; the answer is Found.
        Find {
            /// Their paths.
            paths: Vec<TreePath> as list(OfType, REPLICA_BATCH_MAX, "paths of a replica"),
        } = 5,
        /// Make the directory for copies before they get their names; the answer is Staged.
        Stage = 6,
        /// Look whether the sources of copies are as they were scanned; the answer is Untouched.
        LookAt {
            /// Paths and expected entries.
            sources: Vec<(TreePath, ReplicaEntry)> as list((OfType, OfType), REPLICA_BATCH_MAX, "sources of copies"),
        } = 7,
        /// Perform actions; the answer is Performed.
        Perform {
            /// The actions, in their order. Files of copies are in the directory for them.
            actions: Vec<TwowayAction> as list(OfType, REPLICA_BATCH_MAX, "actions"),
        } = 8,
        /// Take these changes into the next archive, in the order of the tree; the answer is Recorded.
        Record {
            /// The changes.
            changes: Vec<ArchiveChange> as list(OfType, REPLICA_BATCH_MAX, "changes of an archive"),
        } = 9,
        /// Write the next archive, and remove what no run needs any more; the answer is Written.
        Write {
            /// Number of the new generation.
            number: u64,
            /// The base of the run.
            base: Option<Generation>,
        } = 10,
        /// Read extended attributes; the answer is Attributes.
        ReadAttributes {
            /// Paths of files and directories.
            paths: Vec<TreePath> as list(OfType, REPLICA_BATCH_MAX, "paths of a replica"),
        } = 11,
    }
}

wire_enum! {
    /// The answer to a step, or to the Request.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub enum ReplicaAnswer: "answer of a replica session" {
        /// The session has begun.
        Ready(place: ReplicaPlace) = 1,
        /// The archive of the pair.
        Met {
            /// Its generations that can be read.
            generations: Vec<Generation> as list(OfType, REPLICA_GENERATIONS_MAX, "generations of an archive"),
        } = 2,
        /// The replica is scanned.
        Scanned(scan: ReplicaScan) = 3,
        /// Updates, in the order of the tree, and what could not be read.
        Updates {
            /// The updates.
            updates: Vec<ReplicaUpdate> as list(OfType, REPLICA_BATCH_MAX, "updates of a replica"),
            /// What the scan could not read.
            unreadable: Vec<UnreadablePath> as list(OfType, REPLICA_BATCH_MAX, "unreadable paths"),
            /// Whether these are the last ones.
            is_last: bool,
        } = 4,
        /// Digests of files, in the order of the step; `None` for what could not be read, or changed meanwhile.
        Digests(digests: Vec<Option<Digest>> as list(OfType, REPLICA_BATCH_MAX, "digests of a replica")) = 5,
        /// Entries, in the order of the step, without digests.
        Found(entries: Vec<Option<ReplicaEntry>> as list(OfType, REPLICA_BATCH_MAX, "entries of a replica")) = 6,
        /// The directory for copies is there.
        Staged {
            /// Its path.
            path: Vec<u8> as PATH,
            /// Its device and inode number: whoever may write in the root can put another one there.
            identity: (u64, u64),
        } = 7,
        /// Whether each source is as it was scanned.
        Untouched(sources: Vec<bool> as list(OfType, REPLICA_BATCH_MAX, "sources of copies")) = 8,
        /// What became of each action.
        Performed(outcomes: Vec<ActionOutcome> as list(OfType, REPLICA_BATCH_MAX, "outcomes of actions")) = 9,
        /// The changes are taken.
        Recorded = 10,
        /// The archive is written.
        Written(generation: Generation) = 11,
        /// The step failed, and the run cannot continue.
        Failed {
            /// Reason and remedy.
            text: String as TEXT,
        } = 12,
        /// Attributes of the first paths of the step, in order, and of one path at least; `None` for what cannot be read.
        Attributes(lists: Vec<Option<AttributeList>> as list(OfType, REPLICA_BATCH_MAX, "lists of attributes")) = 13,
    }
}

/// Random bytes that a root keeps.
pub type ReplicaId = [u8; 16];

wire_struct! {
    /// A replica's root and its host.
    #[derive(Debug, Clone, PartialEq, Eq, Default)]
    pub struct ReplicaPlace {
        /// Id of the root.
        pub id: ReplicaId,
        /// How the id is known.
        pub origin: ReplicaOrigin,
        /// Identifies the installation of the host.
        pub machine: Vec<u8> as BoundedBytes(MACHINE_ID_MAX, "a machine's id"),
        /// The host's name.
        pub host: String as TEXT,
        /// The root's path, absolute and without links.
        pub path: Vec<u8> as PATH,
        /// Device number of the root.
        pub device: u64,
        /// Inode number of the root.
        pub inode: u64,
        /// The host's clock.
        pub now: Timestamp,
        /// Whether the worker may set owners.
        pub sets_owners: bool,
        /// Whether the file system holds modes.
        pub holds_modes: bool,
        /// Largest error of a time that the file system holds, in nanoseconds.
        pub time_error_ns: u32,
        /// Whether names that differ in case alone are one.
        pub folds_case: bool,
    }
}

wire_enum! {
    /// How the id of a root is known. Unless it is Known or Moved, the root has a new id: there is no archive for it.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub enum ReplicaOrigin: "origin of a replica" {
        /// The root had no id.
        #[default]
        New = 1,
        /// This user has synchronised it before, at this path.
        Known = 2,
        /// The same, at another path.
        Moved = 3,
        /// It is older than the last run: a backup was restored.
        Restored = 4,
        /// The root at its earlier path is still there, with the same id: this is a copy of it.
        Cloned = 5,
        /// The records are another machine's: the state directory was copied.
        OtherMachine = 6,
    }
}

wire_struct! {
    /// A scan.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub struct ReplicaScan {
        /// The host's clock at its start.
        pub started: Timestamp,
        /// Number of entries in the base.
        pub archived: u64 as Varint,
        /// Number of entries found, unreadable ones included.
        pub entries: u64 as Varint,
        /// Number of updates, and of unreadable paths.
        pub updates: u64 as Varint,
        /// Files that were hashed.
        pub hashed: u64 as Varint,
    }
}

wire_enum! {
    /// What became of an action.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub enum ActionOutcome: "outcome of an action" {
        /// It is done.
        Done {
            /// The trusted stamp of the file that it left.
            stamp: Option<FileStamp>,
            /// Digest of the contents that it brought.
            digest: Option<Digest>,
        } = 1,
        /// Something at the path changed since the scan. The next run sees it.
        Skipped = 2,
        /// It failed.
        Failed {
            /// Reason.
            text: String as TEXT,
        } = 3,
    }
}
