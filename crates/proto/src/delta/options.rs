//! What a target does with old files that stand in the way: what the controller asks for in a Request.

use crate::encoding::{Decoded, Reader, Writer};
use crate::encoding::{decode_figure, encode_figure};
use crate::error::ProtocolError;
use crate::limits::WRONG_DELTAS_MAX;

/// How old files are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DeltaOptions {
    /// What is found out of them.
    pub delta: DeltaMode,
    /// Files become what they are to be in their own place.
    pub in_place: bool,
    /// Deltas with a wrong value in earlier attempts at this job: they count.
    pub wrong_before: u32,
}

/// Whether, and how, it is found out what an old file has of the new one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DeltaMode {
    /// Files are sent whole.
    #[default]
    Off,
    /// Where that is likely to be of use, in the way that is likely to be right.
    Auto,
    /// At the same places.
    Blocks,
    /// Anywhere.
    Rolling,
}

impl DeltaOptions {
    /// Whether old files are used also within one host, where nothing has to travel.
    pub fn looks_everywhere(self) -> bool {
        self.in_place || matches!(self.delta, DeltaMode::Blocks | DeltaMode::Rolling)
    }

    /// Writes them.
    pub(crate) fn encode(self, out: &mut Writer) {
        let delta = match self.delta {
            DeltaMode::Off => 0,
            DeltaMode::Auto => 1,
            DeltaMode::Blocks => 2,
            DeltaMode::Rolling => 3,
        };
        out.u8(delta).bool(self.in_place).varint(self.wrong_before.into());
    }

    /// Reads them.
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

/// What came of old files in a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DeltaCounters {
    /// Files that were made of old ones.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Those of them that the old ones had.
    pub old_bytes: u64,
    /// Bytes that were told of the old ones.
    pub told_bytes: u64,
    /// Bytes of the payloads that they were made by.
    pub carried_bytes: u64,
    /// Deltas of the job that gave another value than the source said, those of earlier attempts included.
    pub wrong: u64,
}

impl DeltaCounters {
    /// Writes them.
    pub(crate) fn encode(&self, out: &mut Writer) {
        let Self { files, bytes, old_bytes, told_bytes, carried_bytes, wrong } = *self;
        let all = [files, bytes, old_bytes, told_bytes, carried_bytes, wrong];
        all.iter().for_each(|figure| encode_figure(*figure, out));
    }

    /// Reads them.
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

    /// How much less travelled for these files than they have: 1 where nothing was saved, and more where something was.
    pub fn speedup(&self) -> f64 {
        let travelled = self.told_bytes.saturating_add(self.carried_bytes).max(1);
        self.bytes as f64 / travelled as f64
    }
}
