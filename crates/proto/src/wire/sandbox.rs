//! Sandbox of an end: how far the kernel limits its access to the paths of its Request, as reported to the controller.

use crate::codec::{wire_enum, wire_struct};
use crate::field_codecs::TEXT;

wire_enum! {
    /// Degree of confinement by the kernel.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Confinement: "confinement" {
        /// All requested restrictions are in force.
        Full = 2,
        /// Some restrictions are in force.
        Partial = 1,
        /// No restriction: only the end itself follows its Request.
        None = 0,
    }
}

wire_struct! {
    /// Sandbox of an end.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct SandboxReport {
        /// Degree of confinement.
        pub confinement: Confinement,
        /// Missing restrictions with the reason; empty where nothing is missing.
        pub reason: String as TEXT,
    }
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::tests::{check_round_trip, refuses};

    #[test]
    fn states_round_trip_and_unknown_ones_are_faults() {
        for confinement in [Confinement::Full, Confinement::Partial, Confinement::None] {
            let bytes = check_round_trip(&SandboxReport { confinement, reason: "why".into() });
            assert!(refuses::<SandboxReport>(&bytes, &[(0, 3)]));
        }
    }
}
