//! Whether an end of a job is a pipe, and which.

use super::fault::ProtocolFault;
use crate::codec::{Decoded, Reader, Writer};

/// What an operand stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Pipe {
    /// Files, by their paths.
    #[default]
    No,
    /// The standard input or output of whoever typed the command: only a worker on the same host can have it.
    Standard,
    /// A FIFO, where the path is that of one, and else a program, by the line of shell that starts it.
    Named,
}

impl Pipe {
    /// Writes it.
    pub(super) fn encode(self, out: &mut Writer) {
        out.u8(match self {
            Self::No => 0,
            Self::Standard => 1,
            Self::Named => 2,
        });
    }

    /// Reads it.
    pub(super) fn decode(reader: &mut Reader<'_>) -> Decoded<Self> {
        match reader.u8()? {
            0 => Ok(Self::No),
            1 => Ok(Self::Standard),
            2 => Ok(Self::Named),
            value => Err(ProtocolFault::Unknown { what: "kind of pipe", value: value.into() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_come_back_and_others_are_refused() {
        for pipe in [Pipe::No, Pipe::Standard, Pipe::Named] {
            let mut out = Writer::new();
            pipe.encode(&mut out);
            assert_eq!(Pipe::decode(&mut Reader::new(&out.into_bytes())), Ok(pipe));
        }
        assert!(Pipe::decode(&mut Reader::new(&[3])).is_err());
    }
}
