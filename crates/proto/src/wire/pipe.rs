//! Pipes as an end of a job.

use crate::encoding::{Decoded, Reader, Writer};
use crate::error::ProtocolError;

/// Meaning of a path argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PipeKind {
    /// Files, by their paths.
    #[default]
    No,
    /// Standard input or output of the command; only a worker on the same host can use it.
    Standard,
    /// A FIFO, where the path is one; otherwise a program, as a shell command line.
    Named,
    /// A growing file at the source. It is read to its end, and further until it has not grown for this many seconds.
    Growing(u32),
}

impl PipeKind {
    /// Writes the kind.
    pub(super) fn encode(self, out: &mut Writer) {
        match self {
            Self::No => out.u8(0),
            Self::Standard => out.u8(1),
            Self::Named => out.u8(2),
            Self::Growing(quiet_s) => out.u8(3).u32(quiet_s),
        };
    }

    /// Reads the kind.
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
