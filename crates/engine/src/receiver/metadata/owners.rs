//! Owners of new entries, where they are preserved: mapped by equal names, or by the user's map.

use std::collections::HashMap;
use std::sync::Mutex;

use haul_base::sys::sync::lock;
use haul_proto::entry::{Entry, EntryMetadata};
use haul_proto::error::ProtocolError;
use haul_proto::limits::OWNERS_MAX;
use haul_proto::path::escape;
use haul_proto::wire::owners::{OwnerAccount, OwnerFrom, OwnerOptions};
use haul_proto::wire::preserve::MetadataOptions;

use crate::receiver::place::destination::RefusedRequest;
use crate::sys::accounts::Accounts;

/// Numeric owners of the source, mapped to local ones.
pub struct TargetOwners([Mutex<OwnerTable>; 2]);

/// Users, or groups.
struct OwnerTable {
    by_name: bool,
    rules: Vec<(OwnerFrom, u32)>,
    here: Accounts,
    /// Local ids of named owners. Ids without names are mapped each time.
    local_ids: HashMap<u32, u32>,
}

impl TargetOwners {
    /// Applies the request's rules. Without preserved owners, or modes with their set-id bits, no names are looked up.
    pub fn new(options: &MetadataOptions) -> Result<Self, RefusedRequest> {
        let numeric = OwnerOptions { by_name: false, users: Vec::new(), groups: Vec::new() };
        let rules = if options.rights.any() { &options.owners } else { &numeric };
        Self::with(rules, [Accounts::users(), Accounts::groups()])
    }

    fn with(rules: &OwnerOptions, here: [Accounts; 2]) -> Result<Self, RefusedRequest> {
        let [users, groups] = here;
        let map = |what, maps: &[_], here| OwnerTable::new(what, maps, rules.by_name, here).map(Mutex::new);
        Ok(Self([map("user", &rules.users, users)?, map("group", &rules.groups, groups)?]))
    }

    /// Adds the source's name of a user or group.
    pub fn learn(&self, is_group: bool, id: u32, name: &[u8]) -> Result<(), ProtocolError> {
        lock(&self.0[usize::from(is_group)]).learn(id, name)
    }

    /// Replaces owners and groups of offered entries by local ones.
    pub fn map_owners(&self, entries: &mut [Entry]) {
        let (users, groups) = (lock(&self.0[0]), lock(&self.0[1]));
        let (mut user, mut group) = (LatestOwner::default(), LatestOwner::default());
        for Entry { meta: EntryMetadata { uid, gid, .. }, .. } in entries {
            (*uid, *gid) = (user.get(*uid, &users), group.get(*gid, &groups));
        }
    }
}

/// The latest query and its result: neighbouring entries mostly share an owner.
#[derive(Default)]
struct LatestOwner(Option<(u32, u32)>);

impl LatestOwner {
    fn get(&mut self, id: u32, map: &OwnerTable) -> u32 {
        match self.0 {
            Some((asked, becomes)) if asked == id => becomes,
            _ => self.0.insert((id, map.get(id))).1,
        }
    }
}

impl OwnerTable {
    fn new(
        what: &str,
        maps: &[haul_proto::wire::owners::OwnerMap],
        by_name: bool,
        here: Accounts,
    ) -> Result<Self, RefusedRequest> {
        let mut rules = Vec::new();
        for map in maps {
            let id = match &map.to {
                OwnerAccount::Id(id) => *id,
                OwnerAccount::Name(name) => here.id(name).ok_or_else(|| {
                    let text =
                        format!("no {what} {} at the target\nuse one that exists there, or a number", escape(name));
                    RefusedRequest { usage: true, text }
                })?,
            };
            rules.push((map.from.clone(), id));
        }
        Ok(Self { by_name, rules, here, local_ids: HashMap::new() })
    }

    fn learn(&mut self, id: u32, name: &[u8]) -> Result<(), ProtocolError> {
        if self.local_ids.len() >= OWNERS_MAX {
            return Err(ProtocolError::OverLimit("names of owners"));
        }
        let becomes = self.by_rule(id, Some(name)).or_else(|| self.here.id(name).filter(|_| self.by_name && id != 0));
        self.local_ids.insert(id, becomes.unwrap_or(id));
        Ok(())
    }

    fn get(&self, id: u32) -> u32 {
        self.local_ids.get(&id).copied().or_else(|| self.by_rule(id, None)).unwrap_or(id)
    }

    fn by_rule(&self, id: u32, name: Option<&[u8]>) -> Option<u32> {
        // Numeric IDs have no names.
        let is_nameless = |from: &OwnerFrom| !self.by_name && *from == OwnerFrom::Nameless;
        self.rules.iter().find(|(from, _)| from.matches(id, name) || is_nameless(from)).map(|(_, to)| *to)
    }
}

#[cfg(test)]
mod tests {
    use haul_proto::entry::{EntryContent, EntryLocation};
    use haul_proto::wire::owners::OwnerMap;

    use super::*;

    fn map(from: OwnerFrom, to: OwnerAccount) -> OwnerMap {
        OwnerMap { from, to }
    }

    fn becomes(owners: &TargetOwners, uid: u32, gid: u32) -> (u32, u32) {
        let meta = EntryMetadata { uid, gid, ..EntryMetadata::default() };
        let mut entries = [Entry {
            place: EntryLocation::Operand(0),
            kind: EntryContent::Directory,
            meta,
            version: None,
            more: None,
        }];
        owners.map_owners(&mut entries);
        (entries[0].meta.uid, entries[0].meta.gid)
    }

    fn here() -> [Accounts; 2] {
        let parse = |text: &str| Accounts::parse(text.as_bytes());
        [parse("root:x:0:\nanna:x:1001:\nsmith:x:5000:\n"), parse("root:x:0:\nusers:x:100:\n")]
    }

    #[test]
    fn the_same_names_are_found_and_others_keep_their_numbers() {
        let rules = OwnerOptions { by_name: true, ..OwnerOptions::default() };
        let owners = TargetOwners::with(&rules, here()).ok().unwrap();
        owners.learn(false, 7, b"anna").unwrap();
        owners.learn(false, 8, b"nobody here").unwrap();
        owners.learn(false, 0, b"smith").unwrap();
        owners.learn(true, 7, b"users").unwrap();
        assert_eq!(becomes(&owners, 7, 7), (1001, 100));
        assert_eq!(becomes(&owners, 8, 9), (8, 9));
        assert_eq!(becomes(&owners, 0, 0), (0, 0), "root is root");
        let numeric = TargetOwners::with(&OwnerOptions::default(), here()).ok().unwrap();
        numeric.learn(false, 7, b"anna").unwrap();
        assert_eq!(becomes(&numeric, 7, 7), (7, 7));
    }

    #[test]
    fn the_first_matching_rule_decides() {
        let users = vec![
            map(OwnerFrom::Ids(0, 99), OwnerAccount::Name(b"anna".into())),
            map(OwnerFrom::Name(b"b".into()), OwnerAccount::Id(42)),
            map(OwnerFrom::Nameless, OwnerAccount::Id(43)),
        ];
        let rules = OwnerOptions { by_name: true, users, groups: vec![map(OwnerFrom::Any, OwnerAccount::Id(9))] };
        let owners = TargetOwners::with(&rules, here()).ok().unwrap();
        owners.learn(false, 200, b"b").unwrap();
        owners.learn(false, 201, b"smith").unwrap();
        assert_eq!(becomes(&owners, 0, 0), (1001, 9));
        assert_eq!(becomes(&owners, 200, 1), (42, 9));
        assert_eq!(becomes(&owners, 201, 2), (5000, 9));
        assert_eq!(becomes(&owners, 202, 3), (43, 9));
    }

    #[test]
    fn unknown_names_are_reported_and_a_source_cannot_fill_the_memory() {
        let users = vec![map(OwnerFrom::Any, OwnerAccount::Name(b"ghost".into()))];
        let refused = TargetOwners::with(&OwnerOptions { users, ..OwnerOptions::default() }, here()).err().unwrap();
        assert!(refused.text.contains("ghost"));
        let owners = TargetOwners::with(&OwnerOptions::default(), here()).ok().unwrap();
        let most = u32::try_from(OWNERS_MAX).unwrap();
        assert!((0..most).all(|id| owners.learn(true, id, b"x").is_ok()));
        assert!(owners.learn(true, most, b"x").is_err());
    }
}
