//! What a served worker is held to: what a server tells it, and what the kernel is told of that. Which Requests that allows
//! is in `hold`.

use haul_proto::wire::preserve::PreserveOptions;
use haul_proto::wire::sandbox::{Confinement, SandboxReport};
use std::fs::File;
use std::io;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use crate::fs::lookup;
use crate::job::allowance::Allowance;
use crate::policy::audit::AuditDestination;
use crate::sys::confine::{ConfineBounds, ConfineNetwork, ConfineRights};

/// What may be done with a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServedAccess {
    /// Fetching from it.
    ReadOnly,
    /// Sending to it.
    WriteOnly,
    /// Sending new names to it: nothing that is there is replaced, removed, changed or read.
    Create,
    /// Both.
    Both,
}

impl ServedAccess {
    /// As it is written.
    pub fn word(self) -> &'static str {
        match self {
            Self::ReadOnly => "read-only",
            Self::WriteOnly => "write-only",
            Self::Create => "create",
            Self::Both => "both",
        }
    }

    /// The one that is written so.
    pub fn from_word(word: &str) -> Option<Self> {
        [Self::ReadOnly, Self::WriteOnly, Self::Create, Self::Both].into_iter().find(|access| access.word() == word)
    }

    /// Whether files there may be fetched or compared.
    pub fn reads(self) -> bool {
        matches!(self, Self::ReadOnly | Self::Both)
    }
}

/// What a served worker is held to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientLimits {
    /// What may be done.
    pub access: ServedAccess,
    /// At most so many bytes a second, from here or to here; `None` for no limit.
    pub rate: Option<u64>,
    /// The descriptor of what all clients may still bring ([`Allowance`]); `None` for no limit.
    pub allowance: Option<i32>,
    /// The ports for data, the first and the last; `None`: one that the system chooses.
    pub ports: Option<(u16, u16)>,
    /// Where data is taken; `None`: at any address.
    pub address: Option<IpAddr>,
    /// Nothing is done where the kernel cannot hold the worker to its directory.
    pub sandboxed: bool,
    /// Clients may be told hashes of blocks of the files that their own replace.
    pub deltas: bool,
    /// An audit log besides those that the host's policy asks for.
    pub audit: Option<AuditDestination>,
    /// What a client may ask for beyond the default, or may not leave out.
    pub policy: ServePolicy,
}

/// What the operator of a server decides for its clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ServePolicy {
    /// Symbolic links that lead out of the served directory are accepted.
    pub unsafe_links: bool,
    /// Data that is not encrypted is refused.
    pub encryption: bool,
    /// Clients choose the traffic class, congestion control and windows of the server's sockets.
    pub tuning: bool,
}

impl ServePolicy {
    /// Less strict where one of them is, stricter where one of them is.
    pub fn or(self, other: Self) -> Self {
        Self {
            unsafe_links: self.unsafe_links || other.unsafe_links,
            encryption: self.encryption || other.encryption,
            tuning: self.tuning || other.tuning,
        }
    }

    fn word(self) -> String {
        let letter = |set: bool, letter| if set { letter } else { '-' };
        [letter(self.unsafe_links, 'l'), letter(self.encryption, 'e'), letter(self.tuning, 't')].iter().collect()
    }

    fn from_word(word: &str) -> Option<Self> {
        let all =
            (0..8).map(|bits| Self { unsafe_links: bits & 1 != 0, encryption: bits & 2 != 0, tuning: bits & 4 != 0 });
        all.into_iter().find(|policy| policy.word() == word)
    }
}

/// In the place of something that there is not.
const NONE: &str = "-";

impl ClientLimits {
    /// As a server tells its worker: words of the command that starts it.
    pub fn words(&self) -> [String; 9] {
        let number = |number: Option<u64>| number.map_or(NONE.into(), |number| number.to_string());
        [
            self.access.word().to_owned(),
            number(self.rate),
            self.allowance.map_or(NONE.into(), |number| number.to_string()),
            self.ports.map_or(NONE.into(), |(first, last)| format!("{first}:{last}")),
            self.address.map_or(NONE.into(), |address| address.to_string()),
            self.sandboxed.to_string(),
            self.deltas.to_string(),
            self.audit.as_ref().map_or(NONE.into(), AuditDestination::to_string),
            self.policy.word(),
        ]
    }

    /// What was told with these words; `None` if they are others.
    pub fn from_words(words: &[&str]) -> Option<Self> {
        let [access, rate, allowance, range, address, sandboxed, deltas, audit, policy] = words else { return None };
        let ports = |text: &str| {
            let (first, last) = text.split_once(':')?;
            Some((first.parse().ok()?, last.parse().ok()?))
        };
        Some(Self {
            access: ServedAccess::from_word(access)?,
            rate: optional(rate, |text| text.parse().ok())?,
            allowance: optional(allowance, |text| text.parse().ok())?,
            ports: optional(range, ports)?,
            address: optional(address, |text| text.parse().ok())?,
            sandboxed: sandboxed.parse().ok()?,
            deltas: deltas.parse().ok()?,
            audit: optional(audit, AuditDestination::parse)?,
            policy: ServePolicy::from_word(policy)?,
        })
    }

    /// In a worker, what all clients may still bring. To be called once.
    pub fn take_allowance(&self) -> io::Result<Option<Arc<Allowance>>> {
        self.allowance.map(|number| Allowance::handed(number).map(Arc::new)).transpose()
    }

    /// Makes `directory`, a path without symbolic links, the working directory, which no lookup leaves from then on, and has the kernel hold this thread, and all that it starts, to it. What
    /// a Request allows is less than that, and comes on top. Before it, the worker asks the system about itself.
    pub fn enter(&self, directory: &Path, state_dir: Option<&Path>) -> io::Result<SandboxReport> {
        rustix::process::fchdir(lookup::open_absolute(directory)?)?;
        lookup::confine();
        let mut bounds = ConfineBounds::new(ConfineNetwork::Streams(self.ports));
        let rights = if self.access == ServedAccess::ReadOnly {
            ConfineRights::ReadTree
        } else {
            ConfineRights::Land(PreserveOptions { hard_links: true, ..PreserveOptions::default() })
        };
        bounds.allow(File::open(".")?, rights);
        // In a chroot there may be neither: then the worker says less of the machine.
        for system in ["/proc", "/sys"].iter().filter_map(|system| File::open(system).ok()) {
            bounds.allow(system, ConfineRights::ReadTree);
        }
        if let Some(trees) =
            state_dir.map(|state| state.join("trees")).filter(|_| self.access != ServedAccess::ReadOnly)
        {
            // Without it, finished trees are not remembered.
            let trees = std::fs::create_dir_all(&trees).and_then(|()| File::open(&trees));
            trees.iter().for_each(|trees| bounds.allow(trees, ConfineRights::OwnFiles));
        }
        let sandbox = bounds.enforce_with_filter();
        match sandbox.confinement {
            Confinement::None if self.sandboxed => Err(io::Error::other(sandbox.reason)),
            _ => Ok(sandbox),
        }
    }
}

/// How far this kernel can hold a worker to its directory: found out by a thread that is held, and ends.
pub fn sandbox() -> SandboxReport {
    let tried = std::thread::spawn(|| ConfineBounds::new(ConfineNetwork::None).enforce()).join();
    tried.unwrap_or_else(|_| SandboxReport { confinement: Confinement::None, reason: "it could not be tried".into() })
}

fn optional<T>(word: &str, read: impl FnOnce(&str) -> Option<T>) -> Option<Option<T>> {
    if word == NONE { Some(None) } else { read(word).map(Some) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_come_back_from_their_words() {
        let all = ClientLimits {
            access: ServedAccess::WriteOnly,
            rate: Some(1),
            allowance: Some(7),
            ports: Some((5032, 5131)),
            address: Some(IpAddr::from([0xfd; 16])),
            sandboxed: true,
            deltas: true,
            audit: Some(AuditDestination::File("/var/log/haul files.log".into())),
            policy: ServePolicy { encryption: true, ..ServePolicy::default() },
        };
        let none = ClientLimits {
            access: ServedAccess::Both,
            rate: None,
            allowance: None,
            ports: None,
            address: None,
            sandboxed: false,
            deltas: false,
            audit: None,
            policy: ServePolicy { unsafe_links: true, tuning: true, ..ServePolicy::default() },
        };
        for terms in [all, none] {
            let words = terms.words();
            let words: Vec<_> = words.iter().map(String::as_str).collect();
            assert_eq!(ClientLimits::from_words(&words), Some(terms));
            for number in 0..words.len() {
                let mut bad = words.clone();
                bad[number] = "x";
                assert_eq!(ClientLimits::from_words(&bad), None, "{number}");
            }
            assert_eq!(ClientLimits::from_words(&words[1..]), None);
        }
    }
}
