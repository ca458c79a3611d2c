//! The slowest files of a target.

use crate::codec::wire_struct;
use crate::field_codecs::{ReportFigure, ShownPath};

wire_struct! {
    /// A file and its duration.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct SlowFile {
        /// Path from the source argument down.
        pub path: Vec<u8> as ShownPath,
        /// Size in bytes.
        pub size: u64 as ReportFigure,
        /// Time from its first write to its final name, in microseconds.
        pub took_us: u64 as ReportFigure,
    }
}
