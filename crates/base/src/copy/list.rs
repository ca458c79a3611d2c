//! A list of sources, read while the copy runs, once in each attempt. Its format is the caller's.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::copy::location::{Host, Location};

/// A list of sources.
#[derive(Clone)]
pub struct SourceList {
    /// Its origin, for messages.
    pub name: String,
    /// The host of all entries.
    pub host: Host,
    /// Reads it from its beginning.
    pub open: Arc<dyn Fn() -> Box<dyn ListReader> + Send + Sync>,
}

/// Reads a list.
pub trait ListReader: Send {
    /// The next line; waits for it no longer than `patience`.
    fn next(&mut self, patience: Duration) -> ListLine;

    /// Position of the last line, for messages: `line 17 of FILE`.
    fn position(&self) -> String;
}

/// The next state of a list.
#[derive(Debug)]
pub enum ListLine {
    /// A source.
    Source(Location),
    /// An invalid source: as written, and why.
    Bad(Vec<u8>, String),
    /// No line yet.
    NotYet,
    /// The end, or a read error.
    End(Option<String>),
}

impl fmt::Debug for SourceList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("List").field("name", &self.name).field("host", &self.host).finish_non_exhaustive()
    }
}
