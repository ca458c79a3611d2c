//! Delta options of a Request: the target's use of base files.

use crate::encoding::{Decoded, Reader, Writer};
use crate::encoding::{decode_figure, encode_figure};
use crate::error::ProtocolError;
use crate::limits::WRONG_DELTAS_MAX;

/// Use of base files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DeltaOptions {
    /// Method.
    pub delta: DeltaMode,
    /// Update files in place.
    pub in_place: bool,
    /// Number of deltas with a wrong value in earlier attempts at this job.
    pub wrong_before: u32,
}

/// Method of finding data of a base file in a new one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DeltaMode {
    /// No delta: send files whole.
    #[default]
    Off,
    /// The method that is likely to suit the file, where a delta is likely to help.
    Auto,
    /// Blocks at the same offset.
    Blocks,
    /// Blocks at any offset.
    Rolling,
}

impl DeltaOptions {
    /// Whether to use base files even within one host, where no network is involved.
    pub fn looks_everywhere(self) -> bool {
        self.in_place || matches!(self.delta, DeltaMode::Blocks | DeltaMode::Rolling)
    }

    /// Writes the options.
    pub(crate) fn encode(self, out: &mut Writer) {
        let delta = match self.delta {
            DeltaMode::Off => 0,
            DeltaMode::Auto => 1,
            DeltaMode::Blocks => 2,
            DeltaMode::Rolling => 3,
        };
        out.u8(delta).bool(self.in_place).varint(self.wrong_before.into());
    }

    /// Reads the options.
    pub(crate) fn decode(reader: &mut Reader<'_>) -> Decoded<Self> {
        let delta = match reader.u8()? {
            0 => DeltaMode::Off,
            1 => DeltaMode::Auto,
            2 => DeltaMode::Blocks,
            3 => DeltaMode::Rolling,
            value => return Err(ProtocolError::Unknown { what: "kind of delta", value: value.into() }),
        };
        let in_place = reader.bool()?;
        let wrong_before = reader.count(WRONG_DELTAS_MAX as usize, "deltas with a wrong value")?;
        Ok(Self { delta, in_place, wrong_before: u32::try_from(wrong_before).unwrap_or(u32::MAX) })
    }
}

/// Results of deltas in a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DeltaCounters {
    /// Files built from base files.
    pub files: u64,
    /// Size of these files in bytes.
    pub bytes: u64,
    /// Bytes of them copied from base files.
    pub old_bytes: u64,
    /// Bytes of block hashes and signatures sent for them.
    pub told_bytes: u64,
    /// Bytes of the payloads that they were built with.
    pub carried_bytes: u64,
    /// Number of deltas with another value than the source sent, including those of earlier attempts.
    pub wrong: u64,
}

impl DeltaCounters {
    /// Writes the counters.
    pub(crate) fn encode(&self, out: &mut Writer) {
        let Self { files, bytes, old_bytes, told_bytes, carried_bytes, wrong } = *self;
        let all = [files, bytes, old_bytes, told_bytes, carried_bytes, wrong];
        all.iter().for_each(|figure| encode_figure(*figure, out));
    }

    /// Reads the counters.
    pub(crate) fn decode(reader: &mut Reader<'_>) -> Decoded<Self> {
        let mut figure = || decode_figure(reader);
        Ok(Self {
            files: figure()?,
            bytes: figure()?,
            old_bytes: figure()?,
            told_bytes: figure()?,
            carried_bytes: figure()?,
            wrong: figure()?,
        })
    }

    /// Returns the ratio of file bytes to transferred bytes: 1 without savings, and more with savings.
    pub fn speedup(&self) -> f64 {
        let travelled = self.told_bytes.saturating_add(self.carried_bytes).max(1);
        self.bytes as f64 / travelled as f64
    }
}
