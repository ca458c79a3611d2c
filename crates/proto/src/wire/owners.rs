//! Mapping of users and groups at the target, sent by the controller.

use crate::codec::{OfType, wire_enum, wire_struct};
use crate::error::ProtocolError;
use crate::field_codecs::{BoundedBytes, Checked, list};
use crate::limits::{ACCOUNT_NAME_MAX, OWNER_MAPS_MAX};

wire_struct! {
    /// Mapping of the source's owners and groups to those of the target.
    #[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
    pub struct OwnerOptions {
        /// Map by name where the target has an account of that name. This excludes root.
        pub by_name: bool,
        /// Explicit rules for users; the first match applies.
        pub users: Vec<OwnerMap> as list(OfType, OWNER_MAPS_MAX, "owners"),
        /// Explicit rules for groups.
        pub groups: Vec<OwnerMap> as list(OfType, OWNER_MAPS_MAX, "owners"),
    }
}

wire_struct! {
    /// A rule that maps users or groups.
    #[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
    pub struct OwnerMap {
        /// Users or groups at the source.
        pub from: OwnerFrom,
        /// User or group at the target.
        pub to: OwnerAccount,
    }
}

wire_enum! {
    /// A set of users or groups of the source.
    #[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
    pub enum OwnerFrom: "kind of owners" {
        /// All.
        Any = 0,
        /// Those without a name.
        Nameless = 1,
        /// The one with this name.
        Name(name: Vec<u8> as ACCOUNT_NAME) = 2,
        /// Those in this inclusive range of ids.
        Ids(first: u32, last: u32) = 3,
    }
}

wire_enum! {
    /// A user or a group.
    #[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
    pub enum OwnerAccount: "kind of account" {
        /// By name.
        Name(name: Vec<u8> as ACCOUNT_NAME) = 0,
        /// By numeric id.
        Id(id: u32) = 1,
    }
}

impl OwnerFrom {
    /// Whether the set contains an account with this id and optional name.
    pub fn matches(&self, id: u32, name: Option<&[u8]>) -> bool {
        match self {
            Self::Any => true,
            Self::Nameless => name.is_none(),
            Self::Name(wanted) => name == Some(wanted),
            Self::Ids(first, last) => (*first..=*last).contains(&id),
        }
    }
}

/// The name of a user or group.
pub(super) const ACCOUNT_NAME: Checked<BoundedBytes, Vec<u8>> = Checked(
    BoundedBytes(ACCOUNT_NAME_MAX, "a name of an account"),
    |name| !name.is_empty(),
    ProtocolError::Invalid("a name of an account"),
);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::from_bytes;
    use crate::codec::tests::check_round_trip;

    #[test]
    fn rules_round_trip() {
        let map = |from, to| OwnerMap { from, to };
        let name = |text: &str| OwnerAccount::Name(text.into());
        let rules = OwnerOptions {
            by_name: true,
            users: vec![
                map(OwnerFrom::Ids(0, 99), name("nobody")),
                map(OwnerFrom::Name(b"a".into()), OwnerAccount::Id(7)),
            ],
            groups: vec![map(OwnerFrom::Nameless, OwnerAccount::Id(0)), map(OwnerFrom::Any, name("users"))],
        };
        check_round_trip(&rules);
        for bad in [&[0, 1, 4][..], &[0, 1, 0, 2], &[0, 1, 2, 0]] {
            assert!(from_bytes::<OwnerOptions>(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn names_and_ids_of_rules() {
        assert!(OwnerFrom::Any.matches(5, None) && OwnerFrom::Nameless.matches(5, None));
        assert!(!OwnerFrom::Nameless.matches(5, Some(b"a")) && OwnerFrom::Name(b"a".into()).matches(5, Some(b"a")));
        assert!(!OwnerFrom::Name(b"a".into()).matches(5, None) && OwnerFrom::Ids(5, 5).matches(5, None));
        assert!(!OwnerFrom::Ids(6, 9).matches(5, Some(b"a")));
    }
}
