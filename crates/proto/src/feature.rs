//! The version and the features that a Hello names. A feature that one end requires and the other lacks
//! is refused by name, never ignored.

use crate::error::ProtocolError;

/// Version of everything in `docs/PROTOCOL.md`. Both ends must have the same one.
pub const PROTOCOL_VERSION: u16 = 1;

macro_rules! features {
    ($($(#[$doc:meta])* $name:ident = $bit:literal, $text:literal;)*) => {
        /// A set of features, one bit each.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub struct Features(pub u64);

        impl Features {
            $($(#[$doc])* pub const $name: Features = Features(1 << $bit);)*
            /// Every feature that this version has.
            pub const ALL: Features = Features(0 $(| 1 << $bit)*);
            const NAMES: &'static [(u64, &'static str)] = &[$((1 << $bit, $text)),*];
        }
    };
}

features! {
    /// Packs: many small files in one frame.
    PACKS = 0, "packs";
    /// Streams through ssh's own connection.
    TUNNEL = 1, "tunnel";
    /// Payloads in the clear, authenticated.
    AUTHENTICATE_ONLY = 2, "authenticate-only";
    /// Payloads that were compressed.
    COMPRESSION = 3, "compression";
    /// XXH3 as the check of frames, and sessions without BLAKE3.
    XXH3 = 4, "xxh3";
}

impl Features {
    /// Whether all of `other` is in this set.
    pub fn contains(self, other: Features) -> bool {
        self.0 & other.0 == other.0
    }

    /// Both sets together.
    pub fn with(self, other: Features) -> Features {
        Features(self.0 | other.0)
    }

    /// Refuses by name what `required` has and this set lacks.
    pub fn require(self, required: Features) -> Result<(), ProtocolError> {
        let missing = required.0 & !self.0;
        if missing == 0 {
            return Ok(());
        }
        let name =
            Self::NAMES.iter().find(|(bit, _)| missing & bit != 0).map_or("of a later version", |(_, name)| name);
        Err(ProtocolError::Feature(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_feature_is_named() {
        assert_eq!(Features::ALL.require(Features::TUNNEL), Ok(()));
        assert_eq!(Features::PACKS.require(Features::TUNNEL), Err(ProtocolError::Feature("tunnel")));
        assert_eq!(Features::ALL.require(Features(1 << 63)), Err(ProtocolError::Feature("of a later version")));
    }
}
