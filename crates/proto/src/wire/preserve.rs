//! File properties to preserve besides contents, times and, with `-p`, modes and owners. Both ends receive them.

use crate::codec::{wire_enum, wire_struct};
use crate::wire::owners::OwnerOptions;

wire_struct! {
    /// Metadata that the target preserves besides times.
    #[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
    pub struct MetadataOptions {
        /// Modes, owners and groups.
        pub owner_and_mode: bool,
        /// Modes and times that cannot be set are failures: an option asks for them.
        pub is_required: bool,
        /// Mapping of owners and groups.
        pub owners: OwnerOptions,
        /// Other properties.
        pub preserve: PreserveOptions,
    }
}

wire_struct! {
    /// Properties to preserve.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
    pub struct PreserveOptions {
        /// Treatment of holes.
        pub holes: HolePolicy,
        /// Preserve hard links.
        pub hard_links: bool,
        /// Extended attributes other than access control lists.
        pub attributes: bool,
        /// POSIX access control lists.
        pub acls: bool,
        /// Devices.
        pub devices: bool,
        /// FIFOs and sockets.
        pub specials: bool,
    }
}

wire_enum! {
    /// Treatment of holes in files.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
    pub enum HolePolicy: "treatment of holes" {
        /// Recreate holes at the target without transferring them.
        #[default]
        Keep = 0,
        /// As Keep, and also turn blocks of zeros into holes.
        Make = 1,
        /// Write zeros at the target.
        Fill = 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::tests::{check_round_trip, refuses};

    #[test]
    fn all_options_round_trip() {
        for holes in [HolePolicy::Keep, HolePolicy::Make, HolePolicy::Fill] {
            for bit in 0..5 {
                let [hard_links, attributes, acls, devices, specials] = [0, 1, 2, 3, 4].map(|other| other == bit);
                let bytes =
                    check_round_trip(&PreserveOptions { holes, hard_links, attributes, acls, devices, specials });
                assert!(refuses::<PreserveOptions>(&bytes, &[(0, 3)]));
            }
        }
    }
}
