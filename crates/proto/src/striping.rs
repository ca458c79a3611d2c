//! Striping of large files over the storage targets of a parallel file system (Lustre).

use crate::codec::{wire_enum, wire_struct};

/// Size in bytes of the smallest file that gets a striping. Below, one storage target is fast enough, and the source
/// saves an open.
pub const STRIPED_FILE_MIN: u64 = 64 << 20;

wire_struct! {
    /// How a file is spread over storage targets.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
    pub struct Striping {
        /// Number of storage targets; [`Self::ALL`] for all.
        pub count: u16,
        /// Bytes on one target before the next one follows; 0: the file system's default.
        pub size: u32,
    }
}

impl Striping {
    /// The count of all storage targets.
    pub const ALL: u16 = u16::MAX;
    /// A stripe's size is a multiple of so many bytes.
    pub const SIZE_UNIT: u32 = 64 << 10;
}

wire_enum! {
    /// Striping of large files at the target.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
    pub enum StripingPolicy: "striping" {
        /// The source's, where a file has several stripes.
        #[default]
        Source = 0,
        /// The default of the target's directory.
        Directory = 1,
        /// The same for all large files, and for streams.
        Fixed(striping: Striping) = 2,
    }
}

impl StripingPolicy {
    /// The striping of a new file of `size` bytes (unknown for a stream), with that of its source. `None` leaves it to
    /// the directory.
    pub fn striping_of(self, size: Option<u64>, source: Option<Striping>) -> Option<Striping> {
        let wanted = match self {
            Self::Source => source,
            Self::Directory => None,
            Self::Fixed(striping) => Some(striping),
        };
        wanted.filter(|_| size.is_none_or(|size| size >= STRIPED_FILE_MIN))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::tests::{check_round_trip, refuses};

    const FOUR: Striping = Striping { count: 4, size: 1 << 20 };

    #[test]
    fn all_policies_round_trip() {
        for policy in [StripingPolicy::Source, StripingPolicy::Directory, StripingPolicy::Fixed(FOUR)] {
            assert!(refuses::<StripingPolicy>(&check_round_trip(&policy), &[(0, 3)]));
        }
    }

    #[test]
    fn only_large_files_get_a_striping_by_the_policy() {
        let two = Striping { count: 2, size: 0 };
        let fixed = StripingPolicy::Fixed(FOUR);
        let large = Some(STRIPED_FILE_MIN);
        assert_eq!(StripingPolicy::Source.striping_of(large, Some(two)), Some(two));
        assert_eq!(StripingPolicy::Source.striping_of(large, None), None);
        assert_eq!(StripingPolicy::Directory.striping_of(large, Some(two)), None);
        assert_eq!(fixed.striping_of(large, Some(two)), Some(FOUR));
        assert_eq!(fixed.striping_of(None, None), Some(FOUR));
        assert_eq!(fixed.striping_of(Some(STRIPED_FILE_MIN - 1), None), None);
    }
}
