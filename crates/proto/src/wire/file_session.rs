//! A file session: the controller reads, lists and changes what a worker's host has, one operation at a time, without a
//! copy.

use crate::codec::{OfType, wire_enum, wire_struct};
use crate::entry::Timestamp;
use crate::error::ProtocolError;
use crate::field_codecs::{AtMost, BoundedBytes, PATH, ShownPath, TEXT, Varint, first_of, list};
use crate::filter::definition::FilterOptions;
use crate::limits::{FAILED_ENTRIES_MAX, FILE_READ_MAX, LISTED_ENTRIES_MAX};
use crate::path::Name;
use crate::watch::ChangedPart;
use crate::wire::partials::FoundPartial;

wire_struct! {
    /// Request for a file session.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct FileSessionRequest {
        /// Idle timeout of the control channel in milliseconds: after it, the worker gives up its controller.
        pub silence_ms: u32,
        /// What the session may do. The worker's sandbox permits nothing else.
        pub rights: SessionRights,
    }
}

wire_enum! {
    /// What a file session may do.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum SessionRights: "rights of a file session" {
        /// Read files, and list what is there.
        Read = 0,
        /// The same, make directories, and remove entries.
        ChangeNames = 1,
        /// Read, and remove partial files.
        RemovePartials = 2,
    }
}

wire_enum! {
    /// An operation of a file session. The worker answers each, in order.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub enum FileOperation: "file operation" {
        /// Open a regular file for reading; the answer is Opened.
        Open {
            /// Its path in bytes.
            path: Vec<u8> as PATH,
        } = 1,
        /// Read a range of an open file; the answer is Data.
        Read {
            /// Number of the open file.
            file: u32,
            /// Offset of the first byte.
            offset: u64 as Varint,
            /// Number of bytes, at most [`FILE_READ_MAX`].
            length: u32 as AtMost(FILE_READ_MAX, ProtocolError::OverLimit("bytes to read")),
        } = 2,
        /// Close an open file; the answer is Closed.
        Close {
            /// Number of the open file.
            file: u32,
        } = 3,
        /// Look up an entry; the answer is Found.
        Stat {
            /// Its path in bytes.
            path: Vec<u8> as PATH,
            /// Whether a link stands for its target.
            follows: bool,
        } = 4,
        /// List a directory; the answer is Listed, with the first entries.
        List {
            /// Its path in bytes.
            path: Vec<u8> as PATH,
            /// Whether modes, sizes, times and links are needed, which cost a lookup each.
            has_details: bool,
        } = 5,
        /// Continue a listing; the answer is Listed.
        ListOn {
            /// Number of the listing.
            listing: u32,
        } = 6,
        /// Sum up an entry and everything below; the answer is Measured.
        Measure {
            /// Its path in bytes.
            path: Vec<u8> as PATH,
        } = 7,
        /// Make a directory; the answer is Made.
        MakeDirectory {
            /// Its path in bytes.
            path: Vec<u8> as PATH,
            /// Whether directories above it are made, too, and an existing one is no failure.
            has_parents: bool,
        } = 8,
        /// Remove an entry; the answer is Removed.
        Remove {
            /// Its path in bytes.
            path: Vec<u8> as PATH,
            /// Whether a directory is removed with everything below.
            is_recursive: bool,
        } = 9,
        /// Watch a directory and everything below; the answer is Watching. A session watches one directory.
        Watch {
            /// Its path in bytes.
            path: Vec<u8> as PATH,
            /// Changes of excluded paths do not count. Filter files of directories play no part.
            filters: FilterOptions,
        } = 10,
        /// Wait for settled changes in the watched directory; the answer is Changed.
        NextChanges = 11,
        /// Find partial files of interrupted copies; the answer is Partials, with the first ones.
        FindPartials {
            /// The path of a file, or of a directory with everything below.
            path: Vec<u8> as PATH,
            /// The directory of their journals; empty for none but those beside them.
            journals: Vec<u8> as PATH,
            /// Whether they are removed.
            removes: bool,
        } = 12,
        /// Continue a search; the answer is Partials.
        FindPartialsOn {
            /// Number of the search.
            search: u32,
        } = 13,
    }
}

wire_enum! {
    /// The answer to a file operation, or to the Request.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub enum FileAnswer: "answer of a file session" {
        /// The session has begun.
        Ready = 1,
        /// A file is open.
        Opened {
            /// Its number in the session, never used for another file.
            file: u32,
            /// Its version.
            version: OpenFileVersion,
        } = 2,
        /// The requested bytes; fewer at the end of the file only.
        Data {
            /// The bytes.
            bytes: Vec<u8> as BoundedBytes(FILE_READ_MAX as usize, "bytes of a file"),
        } = 3,
        /// A file is closed.
        Closed = 4,
        /// The operation failed. The session continues.
        Failed {
            /// Kind of the failure.
            failure: FileFailure,
            /// Reason and remedy.
            text: String as TEXT,
        } = 5,
        /// An entry.
        Found(entry: FoundEntry) = 6,
        /// Entries of a directory, in no order.
        Listed {
            /// Number of the listing.
            listing: u32,
            /// The entries.
            entries: Vec<(Name, FoundEntry)> as list((OfType, OfType), LISTED_ENTRIES_MAX, "entries of a listing"),
            /// Whether these are the last ones. The listing is closed then.
            is_last: bool,
        } = 7,
        /// The sum of an entry and everything below.
        Measured(usage: DiskUsage) = 8,
        /// A directory is made.
        Made = 9,
        /// An entry is removed, as far as possible.
        Removed {
            /// Number of removed entries.
            entries: u64 as Varint,
            /// What stays.
            failures: FailedEntries,
        } = 10,
        /// The directory is watched.
        Watching(coverage: WatchCoverage) = 11,
        /// What has changed since the last answer.
        Changed(part: ChangedPart) = 12,
        /// Partial files.
        Partials {
            /// Number of the search.
            search: u32,
            /// The partial files.
            found: Vec<FoundPartial> as list(OfType, LISTED_ENTRIES_MAX, "partial files"),
            /// What could not be read or removed.
            failures: FailedEntries,
            /// Whether these are the last ones. The search is closed then.
            is_last: bool,
        } = 13,
    }
}

wire_struct! {
    /// The reach of a watch.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub struct WatchCoverage {
        /// Number of watched directories.
        pub directories: u64 as Varint,
        /// Whether other hosts may change the file system unnoticed.
        pub is_shared: bool,
    }
}

wire_struct! {
    /// An entry of a file system.
    #[derive(Debug, Clone, PartialEq, Eq, Default)]
    pub struct FoundEntry {
        /// Type and permissions as in `st_mode`; without details, only the type.
        pub mode: u32,
        /// Size in bytes.
        pub size: u64 as Varint,
        /// Time of last modification.
        pub modified: Timestamp,
        /// The text of a symbolic link.
        pub points_to: Vec<u8> as PATH,
    }
}

wire_struct! {
    /// The sum of an entry and everything below.
    #[derive(Debug, Clone, PartialEq, Eq, Default)]
    pub struct DiskUsage {
        /// Number of entries, including directories and the top one.
        pub entries: u64 as Varint,
        /// Bytes in files; a file with several names counts once.
        pub bytes: u64 as Varint,
        /// Bytes of these files on the disk.
        pub disk_bytes: u64 as Varint,
        /// Whether files with several names may count several times: there are too many to remember.
        pub repeats_links: bool,
        /// What could not be read.
        pub failures: FailedEntries,
    }
}

wire_struct! {
    /// Entries of an operation that failed.
    #[derive(Debug, Clone, PartialEq, Eq, Default)]
    pub struct FailedEntries {
        /// How many.
        pub count: u64 as Varint,
        /// The first ones: path and reason.
        pub first: Vec<(Vec<u8>, String)> as first_of((ShownPath, TEXT), FAILED_ENTRIES_MAX, "failed entries"),
    }
}

impl FailedEntries {
    /// Counts one more.
    pub fn add(&mut self, path: Vec<u8>, text: String) {
        self.count += 1;
        if self.first.len() < FAILED_ENTRIES_MAX {
            self.first.push((path, text));
        }
    }
}

wire_struct! {
    /// What identifies the contents of an open file: any write changes it.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct OpenFileVersion {
        /// Size in bytes.
        pub size: u64 as Varint,
        /// Device number.
        pub device: u64 as Varint,
        /// Inode number.
        pub inode: u64 as Varint,
        /// Time of last modification.
        pub modified: Timestamp,
        /// Time of the last change of contents or properties (ctime).
        pub changed: Timestamp,
    }
}

wire_enum! {
    /// Kind of a failed file operation.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum FileFailure: "failure of a file" {
        /// There is no such file.
        Gone = 1,
        /// The host or its server permits no access.
        Denied = 2,
        /// It is no regular file.
        NotRegular = 3,
        /// It has changed since it was opened.
        Changed = 4,
        /// Too many files are open.
        TooMany = 5,
        /// No open file has this number.
        NotOpen = 6,
        /// Any other error.
        Other = 7,
        /// It is a directory.
        Directory = 8,
        /// It is no directory.
        NotDirectory = 9,
        /// It exists already.
        Exists = 10,
        /// haul never removes it.
        Protected = 11,
    }
}

impl FileFailure {
    /// Returns the word for the failure in the output of `haul read`.
    pub fn word(self) -> &'static str {
        match self {
            Self::Gone => "gone",
            Self::Denied => "denied",
            Self::NotRegular => "not_regular",
            Self::Changed => "changed",
            Self::TooMany => "too_many",
            Self::NotOpen => "not_open",
            Self::Other => "other",
            Self::Directory => "directory",
            Self::NotDirectory => "not_directory",
            Self::Exists => "exists",
            Self::Protected => "protected",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::report::WorkerMessage;
    use crate::wire::request::ControllerMessage;

    #[test]
    fn more_bytes_than_an_answer_holds_are_a_fault() {
        let read = |length| {
            let operation = FileOperation::Read { file: 1, offset: u64::MAX, length };
            ControllerMessage::decode(&ControllerMessage::FileOperation(operation).encode()).err()
        };
        assert_eq!(read(FILE_READ_MAX), None);
        assert_eq!(read(FILE_READ_MAX + 1), Some(ProtocolError::OverLimit("bytes to read")));
        let data = |length| {
            let answer = FileAnswer::Data { bytes: vec![7; length] };
            WorkerMessage::decode(&WorkerMessage::FileAnswer(answer).encode()).err()
        };
        assert_eq!(data(FILE_READ_MAX as usize), None);
        assert_eq!(data(FILE_READ_MAX as usize + 1), Some(ProtocolError::OverLimit("bytes of a file")));
    }
}
