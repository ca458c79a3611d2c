//! Whether an end of a job is a pipe, and which.

use crate::encoding::{Decoded, Reader, Writer};
use crate::error::ProtocolError;

/// What an operand stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PipeKind {
    /// Files, by their paths.
    #[default]
    No,
    /// The standard input or output of whoever typed the command: only a worker on the same host can have it.
    Standard,
    /// A FIFO, where the path is that of one, and else a program, by the line of shell that starts it.
    Named,
    /// A source's file that grows: read to its end, and on from there until it has not grown for so many seconds.
    Growing(u32),
}

impl PipeKind {
    /// Writes it.
    pub(super) fn encode(self, out: &mut Writer) {
        match self {
            Self::No => out.u8(0),
            Self::Standard => out.u8(1),
            Self::Named => out.u8(2),
            Self::Growing(quiet_s) => out.u8(3).u32(quiet_s),
        };
    }

    /// Reads it.
    pub(super) fn decode(reader: &mut Reader<'_>) -> Decoded<Self> {
        match reader.u8()? {
            0 => Ok(Self::No),
            1 => Ok(Self::Standard),
            2 => Ok(Self::Named),
            3 => Ok(Self::Growing(reader.u32()?)),
            value => Err(ProtocolError::Unknown { what: "kind of pipe", value: value.into() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_come_back_and_others_are_refused() {
        for pipe in [PipeKind::No, PipeKind::Standard, PipeKind::Named, PipeKind::Growing(70_000)] {
            let mut out = Writer::new();
            pipe.encode(&mut out);
            assert_eq!(PipeKind::decode(&mut Reader::new(&out.into_bytes())), Ok(pipe));
        }
        assert!(PipeKind::decode(&mut Reader::new(&[4])).is_err());
    }
}
