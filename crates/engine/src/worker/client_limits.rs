//! Limits of a served worker: its command-line words from the server, and the sandbox that enforces them. Module
//! `request_policy` decides which Requests they permit.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::net::IpAddr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use haul_base::copy::allowance::Allowance;
use haul_base::copy::work_progress::WorkProgress;
use haul_base::copy::{End, null};
use haul_base::held_directory::HeldDirectory;
use haul_base::sys::inherited_fds;
use haul_proto::wire::preserve::PreserveOptions;
use haul_proto::wire::sandbox::{Confinement, SandboxReport};

use crate::fs::lookup;
use crate::io::program::{InheritedPipe, PipeProgram};
use crate::policy::audit::AuditDestination;
use crate::receiver::place::{directory_locks, tree_memory};
use crate::sys::confine::{ConfineBounds, ConfineNetwork, ConfineRights};
use crate::worker::inherited_pipes::InheritedPipes;

/// Permitted access to a served directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServedAccess {
    /// Clients may fetch files.
    ReadOnly,
    /// Clients may send files.
    WriteOnly,
    /// Clients may send files under new names: nothing existing is replaced, removed, changed or read.
    Create,
    /// Clients may fetch and send files.
    Both,
}

impl ServedAccess {
    /// Returns the word for the access, as in options and on the worker's command line.
    pub fn word(self) -> &'static str {
        match self {
            Self::ReadOnly => "read-only",
            Self::WriteOnly => "write-only",
            Self::Create => "create",
            Self::Both => "both",
        }
    }

    /// Returns the access for a word.
    pub fn from_word(word: &str) -> Option<Self> {
        [Self::ReadOnly, Self::WriteOnly, Self::Create, Self::Both].into_iter().find(|access| access.word() == word)
    }

    /// Whether clients may fetch or compare files.
    pub fn reads(self) -> bool {
        matches!(self, Self::ReadOnly | Self::Both)
    }
}

/// A pipe that a server offers instead of a directory. A read-only one is the source, a write-only one the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServedPipe {
    /// The descriptor that the worker inherits under this number.
    Inherited(i32),
    /// A program that the worker starts when a client asks for the pipe.
    Program,
}

impl ServedPipe {
    fn word(self) -> String {
        match self {
            Self::Inherited(number) => number.to_string(),
            Self::Program => PROGRAM.into(),
        }
    }

    fn from_word(word: &str) -> Option<Self> {
        if word == PROGRAM { Some(Self::Program) } else { word.parse().ok().map(Self::Inherited) }
    }
}

/// The word for [`ServedPipe::Program`].
const PROGRAM: &str = "program";

/// The limits that a server imposes on its worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientLimits {
    /// The pipe that takes the directory's place, if any.
    pub pipe: Option<ServedPipe>,
    /// The permitted access.
    pub access: ServedAccess,
    /// Rate limit in bytes per second, in either direction; `None` for no limit.
    pub rate: Option<u64>,
    /// The descriptor of the shared [`Allowance`] of bytes for all clients; `None` for no limit.
    pub allowance: Option<i32>,
    /// The descriptor of the copy's [`WorkProgress`] for the server; `None` if the server needs none.
    pub progress: Option<i32>,
    /// The first and last port for data connections; `None`: the system chooses one.
    pub ports: Option<(u16, u16)>,
    /// The address for data connections; `None`: any address.
    pub address: Option<IpAddr>,
    /// Whether to refuse all work if the kernel cannot confine the worker to its directory.
    pub sandboxed: bool,
    /// Whether clients may receive block hashes of the files that they replace.
    pub deltas: bool,
    /// An audit log in addition to those of the host's policy.
    pub audit: Option<AuditDestination>,
    /// Options that a client may use beyond the default, or must use.
    pub policy: ServePolicy,
}

/// The operator's choices for all clients of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ServePolicy {
    /// Whether symbolic links to targets outside the served directory are accepted.
    pub unsafe_links: bool,
    /// Whether unencrypted data connections are refused.
    pub encryption: bool,
    /// Whether clients choose the traffic class, congestion control and socket buffers of the server's connections.
    pub tuning: bool,
}

impl ServePolicy {
    /// Combines two policies: each field is set if either policy sets it.
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

/// The word for an absent value.
const NONE: &str = "-";

impl ClientLimits {
    /// Returns the limits as command-line words for the worker.
    pub fn words(&self) -> [String; 11] {
        let number = |number: Option<u64>| number.map_or(NONE.into(), |number| number.to_string());
        [
            self.pipe.map_or(NONE.into(), ServedPipe::word),
            self.access.word().to_owned(),
            number(self.rate),
            self.allowance.map_or(NONE.into(), |number| number.to_string()),
            self.progress.map_or(NONE.into(), |number| number.to_string()),
            self.ports.map_or(NONE.into(), |(first, last)| format!("{first}:{last}")),
            self.address.map_or(NONE.into(), |address| address.to_string()),
            self.sandboxed.to_string(),
            self.deltas.to_string(),
            self.audit.as_ref().map_or(NONE.into(), AuditDestination::to_string),
            self.policy.word(),
        ]
    }

    /// Parses the words of [`Self::words`]; `None` if they are invalid.
    pub fn from_words(words: &[&str]) -> Option<Self> {
        let [pipe, access, rate, allowance, progress, range, address, sandboxed, deltas, audit, policy] = words else {
            return None;
        };
        let ports = |text: &str| {
            let (first, last) = text.split_once(':')?;
            Some((first.parse().ok()?, last.parse().ok()?))
        };
        Some(Self {
            pipe: optional(pipe, ServedPipe::from_word)?,
            access: ServedAccess::from_word(access)?,
            rate: optional(rate, |text| text.parse().ok())?,
            allowance: optional(allowance, |text| text.parse().ok())?,
            progress: optional(progress, |text| text.parse().ok())?,
            ports: optional(range, ports)?,
            address: optional(address, |text| text.parse().ok())?,
            sandboxed: sandboxed.parse().ok()?,
            deltas: deltas.parse().ok()?,
            audit: optional(audit, AuditDestination::parse)?,
            policy: ServePolicy::from_word(policy)?,
        })
    }

    /// Takes the shared allowance of all clients from its descriptor. A worker calls it once.
    pub fn take_allowance(&self) -> io::Result<Option<Arc<Allowance>>> {
        self.allowance.map(|number| Allowance::handed(number).map(Arc::new)).transpose()
    }

    /// Takes the file for the copy's figures from its descriptor. A worker calls it once.
    pub fn take_progress(&self) -> io::Result<Option<Arc<WorkProgress>>> {
        self.progress.map(|number| WorkProgress::handed(number).map(Arc::new)).transpose()
    }

    /// Opens the served pipe, with `command` as its program. A worker calls it once, before it confines itself: a program
    /// is not confined.
    pub fn open_pipe(&self, command: &OsStr) -> io::Result<InheritedPipes> {
        let Some(pipe) = self.pipe else { return Ok(InheritedPipes::default()) };
        let end = if self.access.reads() { End::Source } else { End::Target };
        let pipe = match pipe {
            ServedPipe::Inherited(number) => InheritedPipe::from(inherited_fds::adopt(number)?),
            ServedPipe::Program => {
                let (program, fd) = PipeProgram::prepare(end, command.as_bytes())?;
                InheritedPipe { fd, program: Some(Arc::new(program)) }
            }
        };
        Ok(match end {
            End::Source => InheritedPipes { input: Some(pipe), output: None },
            End::Target => InheritedPipes { input: None, output: Some(pipe) },
        })
    }

    /// Makes `directory`, a path without symbolic links, the working directory and confines all later lookups to it; for
    /// a served pipe, no file may be opened at all. The kernel also confines this thread and all threads and processes
    /// that it starts. A Request later adds narrower limits. The worker queries system information before the call.
    pub fn enter(&self, directory: &Path, state_dir: Option<&Path>) -> io::Result<SandboxReport> {
        let mut bounds = ConfineBounds::new(ConfineNetwork::Streams(self.ports));
        match self.pipe {
            Some(_) => rustix::process::chdir("/")?,
            None => {
                rustix::process::fchdir(lookup::open_absolute(directory)?)?;
                self.allow_directory(&mut bounds, state_dir)?;
            }
        }
        lookup::confine();
        // A chroot may lack both; the worker then reports less about the host.
        for system in ["/proc", "/sys"].iter().filter_map(|system| File::open(system).ok()) {
            bounds.allow(system, ConfineRights::ReadTree);
        }
        let sandbox = bounds.enforce_with_filter();
        match sandbox.confinement {
            Confinement::None if self.sandboxed => Err(io::Error::other(sandbox.reason)),
            _ => Ok(sandbox),
        }
    }

    /// Permits the working directory, `null:`, the memory of finished trees, and locks.
    fn allow_directory(&self, bounds: &mut ConfineBounds, state_dir: Option<&Path>) -> io::Result<()> {
        let is_read_only = self.access == ServedAccess::ReadOnly;
        let rights = if is_read_only {
            ConfineRights::ReadTree
        } else {
            ConfineRights::Land(PreserveOptions { hard_links: true, ..PreserveOptions::default() })
        };
        bounds.allow(File::open(".")?, rights);
        // A chroot may lack both.
        null::open_zeros().iter().for_each(|zeros| bounds.allow(zeros, ConfineRights::ReadFile));
        null::open_null_sink().iter().for_each(|nothing| bounds.allow(nothing, ConfineRights::WriteSpecial));
        for kept in [tree_memory::NAME, directory_locks::NAME] {
            let kept = state_dir.filter(|_| !is_read_only).map(|state| HeldDirectory::looked_up(&state.join(kept)));
            // Without these directories, finished trees are not recorded, and other runs not noticed.
            kept.iter().flatten().for_each(|kept| bounds.allow(kept, ConfineRights::OwnFiles));
        }
        Ok(())
    }
}

/// Returns how far this kernel can confine a worker to its directory. A temporary thread tries it.
pub fn sandbox() -> SandboxReport {
    let tried = std::thread::spawn(|| ConfineBounds::new(ConfineNetwork::None).enforce()).join();
    tried.unwrap_or_else(|_| SandboxReport {
        confinement: Confinement::None,
        reason: "the sandbox could not be tested".into(),
    })
}

/// A value; `None` if its word is invalid.
type ParsedWord<T> = Option<T>;

fn optional<T>(word: &str, read: impl FnOnce(&str) -> Option<T>) -> ParsedWord<Option<T>> {
    if word == NONE { Some(None) } else { read(word).map(Some) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_round_trip() {
        let all = ClientLimits {
            pipe: Some(ServedPipe::Inherited(9)),
            access: ServedAccess::WriteOnly,
            rate: Some(1),
            allowance: Some(7),
            progress: Some(8),
            ports: Some((5032, 5131)),
            address: Some(IpAddr::from([0xfd; 16])),
            sandboxed: true,
            deltas: true,
            audit: Some(AuditDestination::File("/var/log/haul files.log".into())),
            policy: ServePolicy { encryption: true, ..ServePolicy::default() },
        };
        let none = ClientLimits {
            pipe: None,
            access: ServedAccess::Both,
            rate: None,
            allowance: None,
            progress: None,
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
