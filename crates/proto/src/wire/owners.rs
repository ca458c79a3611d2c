//! Mapping of users and groups at the target, sent by the controller.

use crate::encoding::{Decoded, Reader, Writer};
use crate::error::ProtocolError;
use crate::limits::{ACCOUNT_NAME_MAX, OWNER_MAPS_MAX};

/// Mapping of the source's owners and groups to those of the target.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OwnerOptions {
    /// Map by name where the target has an account of that name. This excludes root.
    pub by_name: bool,
    /// Explicit rules for users; the first match applies.
    pub users: Vec<OwnerMap>,
    /// Explicit rules for groups.
    pub groups: Vec<OwnerMap>,
}

/// A rule that maps users or groups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnerMap {
    /// Users or groups at the source.
    pub from: OwnerFrom,
    /// User or group at the target.
    pub to: OwnerAccount,
}

/// A set of users or groups of the source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OwnerFrom {
    /// All.
    Any,
    /// Those without a name.
    Nameless,
    /// The one with this name.
    Name(Vec<u8>),
    /// Those in this inclusive range of ids.
    Ids(u32, u32),
}

/// A user or a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OwnerAccount {
    /// By name.
    Name(Vec<u8>),
    /// By numeric id.
    Id(u32),
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

    fn encode(&self, out: &mut Writer) {
        match self {
            Self::Any => out.u8(0),
            Self::Nameless => out.u8(1),
            Self::Name(name) => out.u8(2).bytes(name),
            Self::Ids(first, last) => out.u8(3).u32(*first).u32(*last),
        };
    }

    fn decode(reader: &mut Reader<'_>) -> Decoded<Self> {
        Ok(match reader.u8()? {
            0 => Self::Any,
            1 => Self::Nameless,
            2 => Self::Name(account_name(reader)?),
            3 => Self::Ids(reader.u32()?, reader.u32()?),
            value => return Err(ProtocolError::Unknown { what: "kind of owners", value: value.into() }),
        })
    }
}

impl OwnerAccount {
    fn encode(&self, out: &mut Writer) {
        match self {
            Self::Name(name) => out.u8(0).bytes(name),
            Self::Id(id) => out.u8(1).u32(*id),
        };
    }

    fn decode(reader: &mut Reader<'_>) -> Decoded<Self> {
        Ok(match reader.u8()? {
            0 => Self::Name(account_name(reader)?),
            1 => Self::Id(reader.u32()?),
            value => return Err(ProtocolError::Unknown { what: "kind of account", value: value.into() }),
        })
    }
}

impl OwnerOptions {
    /// Writes the options.
    pub(super) fn encode(&self, out: &mut Writer) {
        out.bool(self.by_name);
        for maps in [&self.users, &self.groups] {
            out.count(maps.len());
            maps.iter().for_each(|OwnerMap { from, to }| {
                from.encode(out);
                to.encode(out);
            });
        }
    }

    /// Reads the options.
    pub(super) fn decode(reader: &mut Reader<'_>) -> Decoded<Self> {
        let by_name = reader.bool()?;
        let mut maps = || {
            let count = reader.count(OWNER_MAPS_MAX, "owners")?;
            let map = |_| Ok(OwnerMap { from: OwnerFrom::decode(reader)?, to: OwnerAccount::decode(reader)? });
            (0..count).map(map).collect::<Decoded<Vec<_>>>()
        };
        Ok(Self { by_name, users: maps()?, groups: maps()? })
    }
}

/// Reads the name of a user or group.
pub(super) fn account_name(reader: &mut Reader<'_>) -> Decoded<Vec<u8>> {
    match reader.bytes(ACCOUNT_NAME_MAX, "a name of an account")? {
        [] => Err(ProtocolError::Invalid("a name of an account")),
        name => Ok(name.to_vec()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_come_back() {
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
        let mut out = Writer::new();
        rules.encode(&mut out);
        let bytes = out.into_bytes();
        assert_eq!(OwnerOptions::decode(&mut Reader::new(&bytes)), Ok(rules));
        assert!((0..bytes.len()).all(|cut| OwnerOptions::decode(&mut Reader::new(&bytes[..cut])).is_err()));
        for bad in [&[0, 1, 4][..], &[0, 1, 0, 2], &[0, 1, 2, 0]] {
            assert!(OwnerOptions::decode(&mut Reader::new(bad)).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn who_is_meant() {
        assert!(OwnerFrom::Any.matches(5, None) && OwnerFrom::Nameless.matches(5, None));
        assert!(!OwnerFrom::Nameless.matches(5, Some(b"a")) && OwnerFrom::Name(b"a".into()).matches(5, Some(b"a")));
        assert!(!OwnerFrom::Name(b"a".into()).matches(5, None) && OwnerFrom::Ids(5, 5).matches(5, None));
        assert!(!OwnerFrom::Ids(6, 9).matches(5, Some(b"a")));
    }
}
