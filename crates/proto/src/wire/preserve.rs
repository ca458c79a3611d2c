//! File properties to preserve besides contents. Both ends receive them.

use crate::codec::{wire_enum, wire_struct};
use crate::entry::EntryContent;
use crate::wire::owners::OwnerOptions;

wire_struct! {
    /// Metadata that the target preserves.
    #[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
    pub struct MetadataOptions {
        /// Modes, owners and groups.
        pub rights: RightsOptions,
        /// Without preserved modes, files that replace others, or stay, are executable as the source's are.
        pub executability: bool,
        /// Times of modification.
        pub times: TimeOptions,
        /// Modes and times that cannot be set are failures: an option asks for them.
        pub is_required: bool,
        /// Mapping of owners and groups.
        pub owners: OwnerOptions,
        /// Other properties.
        pub preserve: PreserveOptions,
    }
}

wire_struct! {
    /// Modes, owners and groups to preserve, each by itself. A mode without its owner (group) loses the setuid (setgid)
    /// bit, unless the entry has the source's owner (group) anyway.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
    pub struct RightsOptions {
        /// Permission bits.
        pub mode: bool,
        /// Owners.
        pub owner: bool,
        /// Groups.
        pub group: bool,
    }
}

impl RightsOptions {
    /// Modes, owners and groups.
    pub const ALL: Self = Self { mode: true, owner: true, group: true };

    /// Whether any are preserved.
    pub fn any(self) -> bool {
        self.mode || self.owner || self.group
    }
}

wire_struct! {
    /// Entries whose times of modification are preserved. Others have the time of their last change at the target.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
    pub struct TimeOptions {
        /// Files, devices, FIFOs and sockets.
        pub files: bool,
        /// Directories.
        pub directories: bool,
        /// Symbolic links.
        pub symlinks: bool,
    }
}

impl TimeOptions {
    /// Whether an entry's time is preserved.
    pub fn of(self, entry: &EntryContent) -> bool {
        match entry {
            EntryContent::Directory => self.directories,
            EntryContent::Symlink { .. } => self.symlinks,
            EntryContent::File { .. }
            | EntryContent::Stream
            | EntryContent::HardLink { .. }
            | EntryContent::Node(_) => self.files,
        }
    }
}

impl Default for TimeOptions {
    fn default() -> Self {
        Self { files: true, directories: true, symlinks: true }
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
        /// Leave file capabilities out of the extended attributes.
        pub without_capabilities: bool,
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
    fn each_right_and_each_time_is_a_field_of_its_own() {
        for bit in 0..3 {
            let [first, second, third] = [0, 1, 2].map(|other| other == bit);
            let rights = RightsOptions { mode: first, owner: second, group: third };
            let times = TimeOptions { files: first, directories: second, symlinks: third };
            assert!(rights.any());
            assert_eq!(check_round_trip(&rights), check_round_trip(&times));
            let link = EntryContent::Symlink { points_to: Box::default() };
            let entries = [EntryContent::File { size: 0 }, EntryContent::Directory, link];
            assert_eq!(entries.map(|entry| times.of(&entry)), [first, second, third]);
        }
        assert!(!RightsOptions::default().any());
    }

    #[test]
    fn all_options_round_trip() {
        for holes in [HolePolicy::Keep, HolePolicy::Make, HolePolicy::Fill] {
            for bit in 0..6 {
                let [hard_links, attributes, acls, devices, specials, without_capabilities] =
                    [0, 1, 2, 3, 4, 5].map(|other| other == bit);
                let bytes = check_round_trip(&PreserveOptions {
                    holes,
                    hard_links,
                    attributes,
                    acls,
                    devices,
                    specials,
                    without_capabilities,
                });
                assert!(refuses::<PreserveOptions>(&bytes, &[(0, 3)]));
            }
        }
    }
}
