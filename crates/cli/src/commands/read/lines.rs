//! Lines of `haul read --session`: requests of a program on standard input, and answers on standard output. Bytes of
//! a file follow their answer's line.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use haul_control::controller::file_session::ListedPage;
use haul_proto::checksum::{from_hex, hex};
use haul_proto::limits::PATH_MAX;
use haul_proto::path::{Name, escape};
use haul_proto::wire::file_session::{FailedEntries, FoundEntry, OpenFileVersion};
use serde::{Deserialize, Serialize};

use crate::args::UsageError;
use crate::commands::files::lines::{EntryFields, nanoseconds};

/// Longest line of a request: a path in hexadecimal, and the rest.
pub const LINE_MAX: u64 = 2 * PATH_MAX as u64 + 1024;

/// A request.
#[derive(Debug, PartialEq, Eq)]
pub enum SessionRequest {
    /// Open the file at a path.
    Open(PathBuf),
    /// Read a range of an open file.
    Read {
        /// Its number.
        file: u32,
        /// The first byte.
        offset: u64,
        /// Number of bytes.
        length: u32,
    },
    /// Close an open file.
    Close {
        /// Its number.
        file: u32,
    },
    /// Look up the entry at a path; whether a link stands for its target.
    Stat(PathBuf, bool),
    /// List the directory at a path.
    List(PathBuf),
    /// Continue a listing.
    ListOn(u32),
    /// Make a directory; whether to make those above it, too.
    Mkdir(PathBuf, bool),
    /// Remove an entry; whether a directory is removed with everything below.
    Remove(PathBuf, bool),
}

#[derive(Deserialize)]
#[serde(tag = "request", rename_all = "snake_case", deny_unknown_fields)]
enum RequestLine {
    Open { path: String },
    OpenHex { path_hex: String },
    Read { file: u32, offset: u64, length: u32 },
    Close { file: u32 },
    Stat { path: Option<String>, path_hex: Option<String>, follows: bool },
    List { path: Option<String>, path_hex: Option<String> },
    ListOn { listing: u32 },
    Mkdir { path: Option<String>, path_hex: Option<String>, parents: bool },
    Remove { path: Option<String>, path_hex: Option<String>, recursive: bool },
}

impl SessionRequest {
    /// Parses a line.
    pub fn parse(line: &[u8]) -> Result<Self, UsageError> {
        let bad = |why: &str| UsageError::new(format!("standard input: not a request: {why}"));
        let path_of = |path: Option<String>, path_hex: Option<String>| match (path, path_hex) {
            (Some(path), None) => Ok(path.into()),
            (None, Some(hex)) => {
                let bytes = from_hex(hex.as_bytes()).ok_or_else(|| bad("path_hex is not hexadecimal"))?;
                Ok(OsString::from_vec(bytes).into())
            }
            _ => Err(bad("one of path and path_hex is needed")),
        };
        Ok(match serde_json::from_slice(line).map_err(|error| bad(&error.to_string()))? {
            RequestLine::Open { path } => Self::Open(path.into()),
            RequestLine::OpenHex { path_hex } => Self::Open(path_of(None, Some(path_hex))?),
            RequestLine::Stat { path, path_hex, follows } => Self::Stat(path_of(path, path_hex)?, follows),
            RequestLine::List { path, path_hex } => Self::List(path_of(path, path_hex)?),
            RequestLine::ListOn { listing } => Self::ListOn(listing),
            RequestLine::Mkdir { path, path_hex, parents } => Self::Mkdir(path_of(path, path_hex)?, parents),
            RequestLine::Remove { path, path_hex, recursive } => Self::Remove(path_of(path, path_hex)?, recursive),
            RequestLine::Read { file, offset, length } => Self::Read { file, offset, length },
            RequestLine::Close { file } => Self::Close { file },
        })
    }
}

/// An answer.
#[derive(Debug, Serialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum SessionAnswer {
    /// The session has begun.
    Ready,
    /// A file is open.
    Opened {
        /// Its number.
        file: u32,
        /// Its length in bytes.
        size: u64,
        /// Its device number.
        device: u64,
        /// Its inode number.
        inode: u64,
        /// Time of last modification, in nanoseconds since 1970.
        modified_ns: i64,
        /// Time of the last change of contents or properties, likewise.
        changed_ns: i64,
    },
    /// This many bytes follow the line.
    Data {
        /// Their number.
        bytes: usize,
    },
    /// A file is closed.
    Closed,
    /// An entry.
    Found(EntryFields),
    /// Entries of a directory.
    Listed {
        /// The number of the listing; absent after its end.
        listing: Option<u32>,
        /// The entries.
        entries: Vec<ListedLine>,
    },
    /// A directory is made.
    Made,
    /// An entry is removed.
    Removed {
        /// Number of removed entries.
        entries: u64,
        /// Number of entries that stay.
        failed: u64,
        /// The first of these, and why.
        text: Option<String>,
    },
    /// The request failed. The session continues.
    Failed {
        /// Kind of the failure.
        failure: &'static str,
        /// Reason and remedy.
        text: String,
    },
}

/// An entry of a directory.
#[derive(Debug, Serialize)]
pub struct ListedLine {
    name: String,
    /// Of a name that is not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    name_hex: Option<String>,
    #[serde(flatten)]
    entry: EntryFields,
}

impl From<(Name, FoundEntry)> for ListedLine {
    fn from((name, entry): (Name, FoundEntry)) -> Self {
        let bytes = name.as_bytes();
        let name_hex = std::str::from_utf8(bytes).is_err().then(|| hex(bytes));
        Self { name: String::from_utf8_lossy(bytes).into_owned(), name_hex, entry: (&entry).into() }
    }
}

impl SessionAnswer {
    /// The answer for a page of a listing.
    pub fn listed(ListedPage { entries, rest }: ListedPage) -> Self {
        Self::Listed { listing: rest, entries: entries.into_iter().map(ListedLine::from).collect() }
    }

    /// The answer for a removal.
    pub fn removed((entries, failures): (u64, FailedEntries)) -> Self {
        let first = failures.first.first();
        let text = first.map(|(path, text)| format!("{}: {text}", escape(path)));
        Self::Removed { entries, failed: failures.count, text }
    }

    /// The answer for an opened file.
    pub fn opened(file: u32, version: OpenFileVersion) -> Self {
        let OpenFileVersion { size, device, inode, modified, changed } = version;
        let (modified_ns, changed_ns) = (nanoseconds(modified), nanoseconds(changed));
        Self::Opened { file, size, device, inode, modified_ns, changed_ns }
    }

    /// Its line.
    pub fn line(&self) -> Vec<u8> {
        // Numbers and text always have a form in JSON.
        let mut line = serde_json::to_vec(self).unwrap_or_default();
        line.push(b'\n');
        line
    }
}

#[cfg(test)]
mod tests {
    use haul_proto::entry::Timestamp;

    use super::*;

    #[test]
    fn lines_are_requests_or_errors() {
        for (line, request) in [
            (r#"{"request":"open","path":"/a b"}"#, SessionRequest::Open("/a b".into())),
            (
                r#"{"request":"open_hex","path_hex":"2fff"}"#,
                SessionRequest::Open(OsString::from_vec(b"/\xff".to_vec()).into()),
            ),
            (
                r#"{"request":"read","file":1,"offset":1099511627776,"length":9}"#,
                SessionRequest::Read { file: 1, offset: 1 << 40, length: 9 },
            ),
            (r#"{"request":"close","file":1}"#, SessionRequest::Close { file: 1 }),
            (r#"{"request":"stat","path":"/a","follows":true}"#, SessionRequest::Stat("/a".into(), true)),
            (r#"{"request":"list","path_hex":"2f61"}"#, SessionRequest::List("/a".into())),
            (r#"{"request":"list_on","listing":1}"#, SessionRequest::ListOn(1)),
            (r#"{"request":"mkdir","path":"/a","parents":true}"#, SessionRequest::Mkdir("/a".into(), true)),
            (r#"{"request":"remove","path":"/a","recursive":false}"#, SessionRequest::Remove("/a".into(), false)),
        ] {
            assert_eq!(SessionRequest::parse(line.as_bytes()).unwrap(), request);
        }
        for line in [
            "",
            "open /a",
            r#"{"request":"remove","path":"/a"}"#,
            r#"{"request":"list"}"#,
            r#"{"request":"list","path":"/a","path_hex":"2f61"}"#,
            r#"{"request":"open","path":"/a","mode":"w"}"#,
            r#"{"request":"read","file":-1,"offset":0,"length":9}"#,
            r#"{"request":"open_hex","path_hex":"2f0"}"#,
        ] {
            assert!(SessionRequest::parse(line.as_bytes()).is_err(), "{line}");
        }
    }

    #[test]
    fn answers_are_lines() {
        let time = Timestamp { seconds: 2, nanoseconds: 7 };
        let version = OpenFileVersion { size: 5, device: 1, inode: 2, modified: time, changed: time };
        let lines = [
            SessionAnswer::Ready,
            SessionAnswer::opened(1, version),
            SessionAnswer::Data { bytes: 5 },
            SessionAnswer::Failed { failure: "gone", text: "no such\nfile".into() },
        ];
        let text: String = lines.iter().map(|line| String::from_utf8(line.line()).unwrap()).collect();
        insta::assert_snapshot!(text, @r#"
        {"answer":"ready"}
        {"answer":"opened","file":1,"size":5,"device":1,"inode":2,"modified_ns":2000000007,"changed_ns":2000000007}
        {"answer":"data","bytes":5}
        {"answer":"failed","failure":"gone","text":"no such\nfile"}
        "#);
    }
}
