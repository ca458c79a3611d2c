//! A file session: the controller opens and reads files of a worker one operation at a time, without a copy.

use crate::codec::{wire_enum, wire_struct};
use crate::entry::Timestamp;
use crate::error::ProtocolError;
use crate::field_codecs::{AtMost, BoundedBytes, PATH, TEXT, Varint};
use crate::limits::FILE_READ_MAX;

wire_struct! {
    /// Request for a file session.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct FileSessionRequest {
        /// Idle timeout of the control channel in milliseconds: after it, the worker gives up its controller.
        pub silence_ms: u32,
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
