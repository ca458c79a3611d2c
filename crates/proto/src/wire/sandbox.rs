//! Sandbox of an end: how far the kernel limits its access to the paths of its Request, as reported to the controller.

use crate::encoding::{Decoded, Reader, Writer};
use crate::error::ProtocolError;
use crate::limits::TEXT_MAX;

/// Degree of confinement by the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Confinement {
    /// All requested restrictions are in force.
    Full,
    /// Some restrictions are in force.
    Partial,
    /// No restriction: only the end itself follows its Request.
    None,
}

/// Sandbox of an end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxReport {
    /// Degree of confinement.
    pub confinement: Confinement,
    /// Missing restrictions with the reason; empty where nothing is missing.
    pub reason: String,
}

impl Confinement {
    /// Returns the word for users and programs.
    pub fn word(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Partial => "partial",
            Self::None => "none",
        }
    }
}

impl SandboxReport {
    /// Lowers the confinement where a further restriction is missing, for the given reason.
    pub fn less(self, missing: Option<String>) -> Self {
        let Some(missing) = missing else { return self };
        let confinement = match self.confinement {
            Confinement::Full => Confinement::Partial,
            confinement => confinement,
        };
        let reason = if self.reason.is_empty() { missing } else { format!("{}; {missing}", self.reason) };
        Self { confinement, reason }
    }

    /// Writes the report.
    pub(super) fn encode(&self, out: &mut Writer) {
        let number = match self.confinement {
            Confinement::None => 0,
            Confinement::Partial => 1,
            Confinement::Full => 2,
        };
        out.u8(number).text(&self.reason, TEXT_MAX);
    }

    /// Reads a report.
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
