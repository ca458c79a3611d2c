//! Names of owners and groups, sent before the first entry of each.

use std::collections::HashSet;
use std::sync::Mutex;

use haul_base::sys::sync::lock;
use haul_proto::entry::EntryMetadata;
use haul_proto::limits::{ACCOUNT_NAME_MAX, OWNERS_MAX};

use crate::sys::accounts::Accounts;

/// Names of owners and groups, and which of them were sent.
pub struct SourceOwners {
    /// Users and groups.
    accounts: [Accounts; 2],
    reported: Mutex<[HashSet<u32>; 2]>,
}

impl SourceOwners {
    /// Names from this host's databases.
    pub fn new() -> Self {
        Self { accounts: [Accounts::users(), Accounts::groups()], reported: Mutex::default() }
    }

    /// The names of an entry's owner and group that are not sent yet: whether of a group, number and name.
    pub fn unsent(&self, meta: &EntryMetadata) -> Vec<(bool, u32, Vec<u8>)> {
        let mut reported = lock(&self.reported);
        let mut unsent = Vec::new();
        for (at, id) in [meta.uid, meta.gid].into_iter().enumerate() {
            let reported = &mut reported[at];
            if reported.contains(&id) || reported.len() >= OWNERS_MAX {
                continue;
            }
            reported.insert(id);
            let name = self.accounts[at].name(id).filter(|name| name.len() <= ACCOUNT_NAME_MAX);
            unsent.extend(name.map(|name| (at == 1, id, name.to_vec())));
        }
        unsent
    }
}
