//! The protocol version and the features in a Hello. An end that lacks a required feature is refused with the feature's
//! name.

use crate::error::ProtocolError;

/// Version of everything in `docs/PROTOCOL.md`. Both ends must have the same version.
pub const PROTOCOL_VERSION: u16 = 1;

macro_rules! features {
    ($($(#[$doc:meta])* $name:ident = $bit:literal, $text:literal;)*) => {
        /// A set of features, one bit each.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub struct Features(pub u64);

        impl Features {
            $($(#[$doc])* pub const $name: Features = Features(1 << $bit);)*
            /// All features of this version.
            pub const ALL: Features = Features(0 $(| 1 << $bit)*);
            const NAMES: &'static [(u64, &'static str)] = &[$((1 << $bit, $text)),*];
        }
    };
}

features! {
    /// Packs: many small files in one frame.
    PACKS = 0, "packs";
    /// Streams through the ssh connection.
    TUNNEL = 1, "tunnel";
    /// Authenticated payloads without encryption.
    AUTHENTICATE_ONLY = 2, "authenticate-only";
    /// Compressed payloads.
    COMPRESSION = 3, "compression";
    /// XXH3 as the frame check, and sessions without BLAKE3.
    XXH3 = 4, "xxh3";
    /// Ranges of a file.
    RANGES = 5, "ranges";
    /// File sessions.
    FILE_SESSIONS = 6, "file-sessions";
    /// Expansion of patterns of sources.
    PATTERNS = 7, "patterns";
    /// rsync's filter rules.
    RSYNC_RULES = 8, "rsync-rules";
    /// Replica sessions.
    TWOWAY = 9, "two-way";
    /// Watched trees, and runs of changed paths.
    WATCH = 10, "watch";
    /// Partial files in file sessions.
    PARTIALS = 11, "partials";
}

impl Features {
    /// Whether the set contains all of `other`.
    pub fn contains(self, other: Features) -> bool {
        self.0 & other.0 == other.0
    }

    /// Features that every copy requires.
    pub const REQUIRED: Features = Features(Self::ALL.0 & !Self::OPTIONAL);

    const OPTIONAL: u64 = Self::RANGES.0
        | Self::FILE_SESSIONS.0
        | Self::PATTERNS.0
        | Self::RSYNC_RULES.0
        | Self::TWOWAY.0
        | Self::WATCH.0
        | Self::PARTIALS.0;

    /// Returns the union of both sets.
    pub fn with(self, other: Features) -> Features {
        Features(self.0 | other.0)
    }

    /// Returns an error with the name of the first required feature missing from this set.
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

    #[test]
    fn a_set_contains_its_parts_alone() {
        let both = Features::PACKS.with(Features::TUNNEL);
        assert!(both.contains(Features::TUNNEL) && both.contains(both) && Features::ALL.contains(both));
        assert!(!Features::PACKS.contains(both) && !Features::PACKS.contains(Features::TUNNEL));
    }
}
