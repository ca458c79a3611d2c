//! How far an end has confined itself to what its Request names: what it says of it to the controller.

use crate::encoding::{Decoded, Reader, Writer};
use crate::error::ProtocolError;
use crate::limits::TEXT_MAX;

/// How far an end's kernel holds it to what its Request names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Confinement {
    /// Everything that haul asks of the kernel holds.
    Full,
    /// Some of it.
    Partial,
    /// Nothing: the end keeps to its Request by itself alone.
    None,
}

/// An end's sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxReport {
    /// How much of it there is.
    pub confinement: Confinement,
    /// What is missing, and why; empty where nothing is.
    pub reason: String,
}

impl Confinement {
    /// The word for it, for people and for programs.
    pub fn word(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Partial => "partial",
            Self::None => "none",
        }
    }
}

impl SandboxReport {
    /// Less of it, where something else is missing, for the reason given.
    pub fn less(self, missing: Option<String>) -> Self {
        let Some(missing) = missing else { return self };
        let confinement = match self.confinement {
            Confinement::Full => Confinement::Partial,
            confinement => confinement,
        };
        let reason = if self.reason.is_empty() { missing } else { format!("{}; {missing}", self.reason) };
        Self { confinement, reason }
    }

    /// Writes it.
    pub(super) fn encode(&self, out: &mut Writer) {
        let number = match self.confinement {
            Confinement::None => 0,
            Confinement::Partial => 1,
            Confinement::Full => 2,
        };
        out.u8(number).text(&self.reason, TEXT_MAX);
    }

    /// Reads it.
    pub(super) fn decode(reader: &mut Reader<'_>) -> Decoded<Self> {
        let confinement = match reader.u8()? {
            0 => Confinement::None,
            1 => Confinement::Partial,
            2 => Confinement::Full,
            value => return Err(ProtocolError::Unknown { what: "confinement", value: value.into() }),
        };
        Ok(Self { confinement, reason: reader.text(TEXT_MAX, "a text")? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_comes_back_and_others_are_faults() {
        for confinement in [Confinement::Full, Confinement::Partial, Confinement::None] {
            let (sandbox, mut out) = (SandboxReport { confinement, reason: "why".into() }, Writer::new());
            sandbox.encode(&mut out);
            assert_eq!(SandboxReport::decode(&mut Reader::new(&out.into_bytes())), Ok(sandbox));
        }
        assert!(SandboxReport::decode(&mut Reader::new(&[3, 0])).is_err());
    }
}
