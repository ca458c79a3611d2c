//! Delta options of a Request: the target's use of base files.

use crate::codec::{wire_enum, wire_struct};
use crate::error::ProtocolError;
use crate::field_codecs::{Checked, ReportFigure, Varint32};
use crate::limits::WRONG_DELTAS_MAX;

const TOO_MANY_WRONG: ProtocolError = ProtocolError::OverLimit("deltas with a wrong value");

wire_struct! {
    /// Use of base files.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
    pub struct DeltaOptions {
        /// Method.
        pub delta: DeltaMode,
        /// Update files in place.
        pub in_place: bool,
        /// Number of deltas with a wrong value in earlier attempts at this copy.
        pub wrong_before: u32 as Checked(Varint32(TOO_MANY_WRONG), |wrong| *wrong <= WRONG_DELTAS_MAX, TOO_MANY_WRONG),
    }
}

wire_enum! {
    /// Method of finding data of a base file in a new one.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
    pub enum DeltaMode: "kind of delta" {
        /// No delta: send files whole.
        #[default]
        Off = 0,
        /// The method that is likely to suit the file, where a delta is likely to help.
        Auto = 1,
        /// Blocks at the same offset.
        Blocks = 2,
        /// Blocks at any offset.
        Rolling = 3,
    }
}

impl DeltaOptions {
    /// Whether to use base files even within one host, where no network is involved.
    pub fn applies_within_host(self) -> bool {
        self.in_place || matches!(self.delta, DeltaMode::Blocks | DeltaMode::Rolling)
    }
}

wire_struct! {
    /// Results of deltas in a copy.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub struct DeltaCounters {
        /// Files built from base files.
        pub files: u64 as ReportFigure,
        /// Size of these files in bytes.
        pub bytes: u64 as ReportFigure,
        /// Bytes of them copied from base files.
        pub old_bytes: u64 as ReportFigure,
        /// Bytes of block hashes and signatures sent for them.
        pub told_bytes: u64 as ReportFigure,
        /// Bytes of the payloads that they were built with.
        pub carried_bytes: u64 as ReportFigure,
        /// Number of deltas with another value than the source sent, including those of earlier attempts.
        pub wrong: u64 as ReportFigure,
    }
}

impl DeltaCounters {
    /// Returns the ratio of file bytes to transferred bytes: 1 without savings, and more with savings.
    pub fn speedup(&self) -> f64 {
        let travelled = self.told_bytes.saturating_add(self.carried_bytes).max(1);
        self.bytes as f64 / travelled as f64
    }
}
