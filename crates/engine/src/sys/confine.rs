//! Confines this process to named paths with Landlock (landlock(7)), as far as the kernel supports it.
//!
//! Then the kernel refuses everything else with EACCES: opening, creating, removing or renaming files elsewhere,
//! binding other ports, and signals to other processes. SECURITY.md lists the limits of Landlock.

use std::os::fd::AsFd;

use haul_proto::wire::preserve::PreserveOptions;
use haul_proto::wire::sandbox::{Confinement, SandboxReport};
use landlock::{
    ABI, Access, AccessFs, AccessNet, AddRuleError, AddRulesError, BitFlags, LandlockStatus, NetPort, PathBeneath,
    PathFd, PathFdError, Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetError, RulesetStatus, Scope,
    make_bitflags,
};
use rustix::io::Errno;

use super::syscall_filter;

/// The requested rules: Landlock's version 6 (Linux 6.12). An older kernel applies the part that it knows.
const WANTED: ABI = ABI::V6;
/// The port number for "any free port".
const ANY_FREE_PORT: u16 = 0;

/// Permitted access to a file or directory tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConfineRights {
    /// Reading a file.
    ReadFile,
    /// Reading files and listing directories.
    ReadTree,
    /// The same, and making directories and removing entries.
    ChangeNames,
    /// Reading, and removing files that it locks, which NFS permits only if they are open for writing.
    RemovePartials,
    /// Removing files.
    RemoveFiles,
    /// Writing to a device or a FIFO.
    WriteSpecial,
    /// Opening the directory, and making, replacing, removing, reading and writing files.
    OwnFiles,
    /// All of a target's changes at its destination; of devices, FIFOs and sockets only on request.
    Land(PreserveOptions),
}

/// Permitted use of TCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConfineNetwork {
    /// Nothing.
    None,
    /// Connections, and listening on a port of this range; `None` for a port of the kernel's choice.
    Streams(Option<(u16, u16)>),
}

/// The error that prevented Landlock rules.
#[derive(Debug, thiserror::Error)]
enum ConfineError {
    /// A rule is not accepted.
    #[error("{0}")]
    Rules(#[from] RulesetError),
    /// The root directory cannot be opened.
    #[error("{0}")]
    Root(#[from] PathFdError),
}

/// The permitted paths and ports. No descriptor is held for them.
pub struct ConfineBounds {
    rules: Result<RulesetCreated, ConfineError>,
    /// Why reading is not confined.
    reads_anything: Option<&'static str>,
    /// Whether local sockets are permitted.
    local_sockets: bool,
}

impl ConfineRights {
    fn access(self) -> BitFlags<AccessFs> {
        match self {
            Self::ReadFile => AccessFs::ReadFile.into(),
            Self::ReadTree => make_bitflags!(AccessFs::{ReadFile | ReadDir}),
            Self::ChangeNames => Self::ReadTree.access() | make_bitflags!(AccessFs::{MakeDir | RemoveDir | RemoveFile}),
            Self::RemovePartials => Self::ReadTree.access() | make_bitflags!(AccessFs::{WriteFile | RemoveFile}),
            Self::RemoveFiles => AccessFs::RemoveFile.into(),
            Self::WriteSpecial => AccessFs::WriteFile.into(),
            Self::OwnFiles => {
                make_bitflags!(AccessFs::{ReadFile | WriteFile | Truncate | RemoveFile | MakeReg | ReadDir})
            }
            // A remembered directory is renamed from its temporary name.
            Self::Land(preserve) => {
                let also = |wanted: bool, access: BitFlags<AccessFs>| if wanted { access } else { BitFlags::EMPTY };
                Self::OwnFiles.access()
                    | make_bitflags!(AccessFs::{MakeDir | RemoveDir | MakeSym})
                    // Hard links cross directories.
                    | also(preserve.hard_links, AccessFs::Refer.into())
                    | also(preserve.devices, make_bitflags!(AccessFs::{MakeChar | MakeBlock}))
                    | also(preserve.specials, make_bitflags!(AccessFs::{MakeFifo | MakeSock}))
            }
        }
    }
}

impl ConfineBounds {
    /// Bounds that permit only `network`.
    pub fn new(network: ConfineNetwork) -> Self {
        Self { rules: deny_all_except(network).map_err(ConfineError::from), reads_anything: None, local_sockets: false }
    }

    /// Permits `rights` in `place`, also after a rename.
    pub fn allow(&mut self, place: impl AsFd, rights: ConfineRights) {
        let Ok(rules) = &mut self.rules else { return };
        match rules.add_rule(PathBeneath::new(place, rights.access())).err() {
            // A pipe or socket without a path, which Landlock neither restricts nor accepts in a rule.
            Some(RulesetError::AddRules(AddRulesError::Fs(AddRuleError::AddRuleCall { source, .. })))
                if source.raw_os_error() == Some(Errno::BADFD.raw_os_error()) => {}
            Some(error) => self.rules = Err(error.into()),
            None => {}
        }
    }

    /// Permits connections to local sockets.
    pub fn allow_local_sockets(&mut self) {
        self.local_sockets = true;
    }

    /// Permits reading anywhere, with the `reason`.
    pub fn allow_reading_anything(&mut self, reason: &'static str) {
        self.allow_anywhere(ConfineRights::ReadTree);
        self.reads_anything = Some(reason);
    }

    /// Permits `rights` anywhere.
    pub fn allow_anywhere(&mut self, rights: ConfineRights) {
        match PathFd::new("/") {
            Ok(root) => self.allow(root, rights),
            Err(error) => self.rules = Err(error.into()),
        }
    }

    /// Confines the calling thread and its future threads permanently.
    pub fn enforce(self) -> SandboxReport {
        match self.rules.and_then(|rules| Ok(rules.restrict_self()?)) {
            Ok(status) => outcome(status.ruleset, &status.landlock, self.reads_anything),
            Err(error) => SandboxReport { confinement: Confinement::None, reason: error.to_string() },
        }
    }

    /// Confines also the system calls ([`syscall_filter`]).
    pub fn enforce_with_filter(self) -> SandboxReport {
        let local_sockets = self.local_sockets;
        self.enforce().less(syscall_filter::enforce(local_sockets).err().map(|error| error.to_string()))
    }
}

fn deny_all_except(network: ConfineNetwork) -> Result<RulesetCreated, RulesetError> {
    let rules = Ruleset::default().handle_access(AccessFs::from_all(WANTED))?.scope(Scope::from_all(WANTED))?;
    match network {
        ConfineNetwork::None => rules.handle_access(AccessNet::from_all(WANTED))?.create(),
        ConfineNetwork::Streams(ports) => {
            let rules = rules.handle_access(AccessNet::BindTcp)?.create()?;
            let (first, last) = ports.unwrap_or((ANY_FREE_PORT, ANY_FREE_PORT));
            // Connections from a given address bind to a free port.
            let ports = std::iter::once(ANY_FREE_PORT).chain(first.max(1)..=last);
            ports.into_iter().try_fold(rules, |rules, port| rules.add_rule(NetPort::new(port, AccessNet::BindTcp)))
        }
    }
}

fn outcome(enforced: RulesetStatus, kernel: &LandlockStatus, reads_anything: Option<&'static str>) -> SandboxReport {
    let lacking = match (&enforced, kernel) {
        (RulesetStatus::FullyEnforced, _) => None,
        (RulesetStatus::PartiallyEnforced, LandlockStatus::Available { effective_abi, .. }) => Some(format!(
            "this kernel's Landlock is version {}, but only {} does everything",
            *effective_abi as i32, WANTED as i32
        )),
        (_, LandlockStatus::NotEnabled) => Some("Landlock is not enabled in this kernel".to_owned()),
        _ => Some("this kernel has no Landlock".to_owned()),
    };
    let confinement = match (enforced, reads_anything) {
        (RulesetStatus::NotEnforced, _) => Confinement::None,
        (RulesetStatus::FullyEnforced, None) => Confinement::Full,
        _ => Confinement::Partial,
    };
    let reasons: Vec<String> = reads_anything.map(str::to_owned).into_iter().chain(lacking).collect();
    SandboxReport { confinement, reason: reasons.join("; ") }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::fs::{self, File};
    use std::io;
    use std::net::{TcpListener, TcpStream};
    use std::path::Path;

    use super::*;

    /// Runs `work` in a thread confined by `allow`. Returns `None` with a message if this kernel does not support all
    /// rules.
    pub fn confined<T: Send>(
        network: ConfineNetwork,
        allow: impl FnOnce(&mut ConfineBounds) + Send,
        work: impl FnOnce() -> T + Send,
    ) -> Option<T> {
        let confined = || {
            let mut bounds = ConfineBounds::new(network);
            allow(&mut bounds);
            let sandbox = bounds.enforce();
            if sandbox.reason.contains("kernel") {
                println!("SKIPPED: {}", sandbox.reason);
                return None;
            }
            Some(work())
        };
        std::thread::scope(|scope| scope.spawn(confined).join())
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    #[track_caller]
    pub fn is_denied<T>(result: io::Result<T>) {
        match result {
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::PermissionDenied, "{error}"),
            Ok(_) => panic!("nothing stood in the way"),
        }
    }

    fn place(path: &Path) -> File {
        File::open(path).unwrap()
    }

    #[test]
    fn unnamed_paths_are_out_of_reach() {
        let (inside, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        for place in [&inside, &outside] {
            fs::write(place.path().join("old"), "old").unwrap();
        }
        let allow = |bounds: &mut ConfineBounds| {
            bounds.allow(place(inside.path()), ConfineRights::Land(PreserveOptions::default()))
        };
        confined(ConfineNetwork::None, allow, || {
            let there = inside.path();
            fs::write(there.join("new"), "new").unwrap();
            fs::rename(there.join("new"), there.join("old")).unwrap();
            fs::create_dir(there.join("dir")).unwrap();
            std::os::unix::fs::symlink("old", there.join("link")).unwrap();
            assert_eq!(fs::read(there.join("link")).unwrap(), b"new");
            fs::rename(there.join("dir"), there.join("named")).unwrap();
            is_denied(std::os::unix::net::UnixListener::bind(there.join("socket")));

            let there = outside.path();
            is_denied(fs::read(there.join("old")));
            is_denied(fs::read_dir(there));
            is_denied(fs::write(there.join("old"), "mine"));
            is_denied(fs::write(there.join("new"), "new"));
            is_denied(fs::remove_file(there.join("old")));
            is_denied(fs::rename(there.join("old"), there.join("other")));
            is_denied(fs::create_dir(there.join("dir")));
            is_denied(std::os::unix::fs::symlink("old", there.join("link")));
            assert!(fs::hard_link(there.join("old"), inside.path().join("stolen")).is_err());
            is_denied(fs::read_to_string("/proc/self/status"));
        });
        assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_pipe_among_the_operands_leaves_the_rules_as_they_are() {
        let (reader, _writer) = io::pipe().unwrap();
        let mut bounds = ConfineBounds::new(ConfineNetwork::None);
        bounds.allow(&reader, ConfineRights::WriteSpecial);
        assert!(bounds.rules.is_ok());
    }

    #[test]
    fn a_reader_cannot_write() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("old"), "old").unwrap();
        let named: fn(&mut ConfineBounds, &Path) = |bounds, path| bounds.allow(place(path), ConfineRights::ReadTree);
        let anything: fn(&mut ConfineBounds, &Path) = |bounds, _| bounds.allow_reading_anything("no bounds");
        for allow in [named, anything] {
            confined(
                ConfineNetwork::None,
                |bounds| allow(bounds, dir.path()),
                || {
                    assert_eq!(fs::read(dir.path().join("old")).unwrap(), b"old");
                    is_denied(File::options().write(true).open(dir.path().join("old")));
                    is_denied(fs::remove_file(dir.path().join("old")));
                },
            );
        }
    }

    #[test]
    fn ports_are_the_kernels_to_choose_or_nobodys() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let streams = confined(
            ConfineNetwork::Streams(None),
            |_| {},
            || {
                TcpStream::connect(address).unwrap();
                (TcpListener::bind("127.0.0.1:0"), TcpListener::bind(free))
            },
        );
        let none =
            confined(ConfineNetwork::None, |_| {}, || (TcpListener::bind("127.0.0.1:0"), TcpStream::connect(address)));
        let chosen_by_user =
            confined(ConfineNetwork::Streams(Some((free.port(), free.port()))), |_| {}, || TcpListener::bind(free));
        chosen_by_user.into_iter().for_each(|port| drop(port.unwrap()));
        let (Some((any, chosen)), Some((no_port, no_connection))) = (streams, none) else { return };
        any.unwrap();
        is_denied(chosen);
        is_denied(no_port);
        is_denied(no_connection);
    }

    #[test]
    fn the_degree_of_confinement_is_reported() {
        let available = |effective_abi| LandlockStatus::Available { effective_abi, kernel_abi: None };
        let described = |enforced, kernel, reads| {
            let SandboxReport { confinement, reason } = outcome(enforced, &kernel, reads);
            format!("{}: {reason}", confinement.word())
        };
        use RulesetStatus::{FullyEnforced, NotEnforced, PartiallyEnforced};
        assert_eq!(described(FullyEnforced, available(ABI::V6), None), "full: ");
        assert_eq!(described(FullyEnforced, available(ABI::V6), Some("links")), "partial: links");
        let old = "this kernel's Landlock is version 3, but only 6 does everything";
        assert_eq!(described(PartiallyEnforced, available(ABI::V3), None), format!("partial: {old}"));
        assert_eq!(described(PartiallyEnforced, available(ABI::V3), Some("links")), format!("partial: links; {old}"));
        assert_eq!(described(NotEnforced, LandlockStatus::NotImplemented, None), "none: this kernel has no Landlock");
        assert_eq!(
            described(NotEnforced, LandlockStatus::NotEnabled, Some("links")),
            "none: links; Landlock is not enabled in this kernel"
        );
    }
}
