//! Hosts to copy to and from: an sshd with an account of its own, on loopback or at the far end of a cable.

use std::ffi::OsString;
use std::ops::Deref;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use haul_lab::{CabledHosts, Options, Sshd, compare};

use crate::program::{Haul, haul_binary};
use crate::{Sandbox, commands, within};

/// PATH of a remote account without haul.
const BARE_PATH: &str = "/usr/sbin:/usr/bin:/sbin:/bin";
/// How long a host's sessions may take to end after the program that started them.
const SESSIONS_END: Duration = Duration::from_secs(3);

/// A host that ssh reaches; its file system is this machine's.
#[derive(Debug)]
pub struct Remote {
    sshd: Sshd,
    home: PathBuf,
}

impl Remote {
    /// A host on 127.0.0.1 with haul on the account's PATH.
    #[track_caller]
    pub fn new(sandbox: &Sandbox) -> Self {
        Self::with_haul(sandbox, Options::default())
    }

    /// A host with haul on the account's PATH.
    #[track_caller]
    pub fn with_haul(sandbox: &Sandbox, options: Options<'_>) -> Self {
        let bin = sandbox.dir("remote-bin");
        let link = bin.join("haul");
        if !link.exists() {
            symlink(haul_binary(), link).expect("a link to haul");
        }
        Self::with_path(sandbox, options, &format!("{}:{BARE_PATH}", bin.display()))
    }

    /// A host without haul.
    #[track_caller]
    pub fn without_haul(sandbox: &Sandbox, options: Options<'_>) -> Self {
        Self::with_path(sandbox, options, BARE_PATH)
    }

    /// A host with this PATH for its account. Its home is `remote-home` in the sandbox, unless `options` names one.
    #[track_caller]
    pub fn with_path(sandbox: &Sandbox, mut options: Options<'_>, path: &str) -> Self {
        let home = options.home.take().unwrap_or_else(|| sandbox.dir("remote-home"));
        let options = Options { home: Some(home.clone()), path: Some(OsString::from(path)), ..options };
        let sshd = Sshd::start(options).unwrap_or_else(|error| panic!("{error:#}"));
        Self { sshd, home }
    }

    /// The operand for a path on this host.
    pub fn at(&self, path: impl AsRef<Path>) -> OsString {
        self.sshd.location(path.as_ref())
    }

    /// The home directory that its account sees.
    pub fn home(&self) -> &Path {
        &self.home
    }

    /// The server, for tests with further needs.
    pub fn sshd(&self) -> &Sshd {
        &self.sshd
    }

    /// The program with the options that it needs to log in here.
    pub fn haul<'a, 'b: 'a>(&self, sandbox: &'b Sandbox) -> Haul<'a> {
        sandbox.haul(self.sshd.haul_args())
    }

    /// Pushes a tree with these options to `there` in the sandbox, pulls it back to `back`, and compares; the summary of
    /// the push.
    #[track_caller]
    pub fn there_and_back(&self, sandbox: &Sandbox, source: &Path, options: &[&str]) -> serde_json::Value {
        let there = self.at(sandbox.path("there"));
        let haul = || self.haul(sandbox).args(["--json", "-r"]).args(options);
        let summary = haul().arg(source).arg(&there).run().succeeds().summary();
        haul().arg(&there).arg("back").run().succeeds();
        compare(source, &sandbox.path("there")).unwrap();
        compare(source, &sandbox.path("back")).unwrap();
        summary
    }

    /// The processes of haul workers on this host.
    pub fn workers(&self) -> Vec<u32> {
        let is_worker = |words: &[&str]| matches!(words, [program, "worker", ..] if program.ends_with("haul"));
        self.processes(is_worker)
    }

    /// Running commands of sshd's sessions on this host. After a cut path, sshd itself takes much longer to notice.
    pub fn commands(&self) -> Vec<u32> {
        self.processes(|words| !matches!(words, [program, ..] if program.starts_with("sshd")))
    }

    /// Processes of sessions with matching command lines.
    fn processes(&self, wanted: impl Fn(&[&str]) -> bool) -> Vec<u32> {
        let line = |pid: &u32| commands(&[*pid]).remove(0);
        let is_wanted = |pid: &u32| wanted(&line(pid).split(' ').collect::<Vec<_>>());
        self.sshd.session_pids().into_iter().filter(is_wanted).collect()
    }

    /// Fails the test unless every session of this host ends within 3 s.
    #[track_caller]
    pub fn is_left_clean(&self) {
        let clean = within(SESSIONS_END, || self.sshd.session_pids().is_empty());
        assert!(clean, "still running on the host: {:?}", commands(&self.sshd.session_pids()));
    }
}

/// A data connection between two hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Connection {
    /// Its port at the near host.
    pub near: u16,
    /// Its port at the far host.
    pub far: u16,
    /// Bytes that the near host has sent over it and that arrived, or that it has received, whichever is more.
    pub carried: u64,
}

impl Connection {
    /// From a line of `ss -tnHiO state established`.
    fn parse(line: &str) -> Option<Self> {
        let mut words = line.split_whitespace().skip(2);
        let mut port = || words.next()?.rsplit(':').next()?.parse().ok();
        let (near, far) = (port()?, port()?);
        let of = |name: &str| line.split_whitespace().find_map(|word| word.strip_prefix(name)?.parse().ok());
        Some(Self { near, far, carried: of("bytes_acked:").max(of("bytes_received:")).unwrap_or(0) })
    }
}

/// Two hosts joined by a cable: haul runs on the near one, the sshd on the far one.
#[derive(Debug)]
pub struct HostPair {
    /// The far host; declared first, to be dropped before its network.
    pub remote: Remote,
    /// Haul runs on the near one.
    pub hosts: CabledHosts,
}

impl Deref for HostPair {
    type Target = CabledHosts;

    fn deref(&self) -> &CabledHosts {
        &self.hosts
    }
}

impl HostPair {
    /// Address of the near host.
    pub const NEAR: &str = CabledHosts::NEAR;
    /// Address of the far host.
    pub const FAR: &str = CabledHosts::FAR;

    /// Two hosts with a fast cable between them.
    #[track_caller]
    pub fn new(sandbox: &Sandbox) -> Self {
        let hosts = CabledHosts::new().unwrap_or_else(|error| panic!("{error:#}"));
        Self { remote: Remote::with_haul(sandbox, hosts.sshd_options()), hosts }
    }

    /// Two hosts with a cable that carries this much each way: a copy can then be caught half done, on any machine.
    #[track_caller]
    pub fn slow(sandbox: &Sandbox, megabit_per_s: u32) -> Self {
        let pair = Self::new(sandbox);
        pair.slow_down(megabit_per_s).unwrap_or_else(|error| panic!("{error:#}"));
        pair
    }

    /// The data connections that there are now: all but those to the sshd.
    pub fn connections(&self) -> Vec<Connection> {
        let sockets = self.near.run("ss", ["-tnHiO", "state", "established"]).unwrap_or_default();
        let all = sockets.lines().filter_map(Connection::parse);
        all.filter(|connection| connection.far != self.remote.sshd().port()).collect()
    }

    /// Cuts the cable: whatever is sent is lost, without a word to anybody.
    #[track_caller]
    pub fn cut(&self) {
        self.filter("input", "iifname != \"lo\" drop");
        self.filter("output", "oifname != \"lo\" drop");
    }

    /// Refuses new connections to the far host's sshd.
    #[track_caller]
    pub fn refuse_ssh(&self) {
        let first = "tcp flags & (syn | ack) == syn";
        self.filter("input", &format!("tcp dport {} {first} reject with tcp reset", self.remote.sshd().port()));
    }

    /// Ends the effect of [`Self::cut`] or [`Self::refuse_ssh`].
    #[track_caller]
    pub fn heal(&self) {
        self.far.nft("delete table inet cut").unwrap_or_else(|error| panic!("{error:#}"));
    }

    #[track_caller]
    fn filter(&self, hook: &str, rule: &str) {
        let rules = format!("table inet cut {{ chain {hook} {{ type filter hook {hook} priority 0; {rule}\n }}\n }}\n");
        self.far.nft(&rules).unwrap_or_else(|error| panic!("{error:#}"));
    }

    /// The program on the near host, with the options that it needs to log in to the far one.
    pub fn haul<'a>(&'a self, sandbox: &'a Sandbox) -> Haul<'a> {
        self.remote.haul(sandbox).netns(&self.near)
    }

    /// The operand for a path on the far host.
    pub fn at(&self, path: impl AsRef<Path>) -> OsString {
        self.remote.at(path)
    }
}

#[cfg(test)]
mod tests {
    use haul_lab::run_with_timeout;

    use super::*;

    #[test]
    fn an_account_has_its_own_home_and_path() {
        let sandbox = Sandbox::new();
        for (remote, has_haul) in [
            (Remote::with_haul(&sandbox, Options::default()), true),
            (Remote::without_haul(&sandbox, Options::default()), false),
        ] {
            let ssh = remote.sshd().ssh_command(["pwd; echo $HOME; command -v haul"]);
            let finished = run_with_timeout(ssh, Duration::from_secs(10)).unwrap();
            let said = finished.stdout_text();
            let lines: Vec<_> = said.lines().collect();
            let home = remote.home().to_string_lossy();
            assert_eq!(&lines[..2], [&*home, &*home], "{}", finished.stderr_text());
            assert_eq!(lines.len() == 3, has_haul, "{said}");
            remote.is_left_clean();
        }
    }

    #[test]
    fn the_slow_cable_is_slow() {
        if !crate::is_root_or_skip("a slow cable") {
            return;
        }
        let sandbox = Sandbox::new();
        let pair = HostPair::slow(&sandbox, 100);
        let ssh = pair.near.enclose(&pair.remote.sshd().ssh_command(["head -c 5000000 /dev/zero"]));
        let finished = run_with_timeout(ssh, Duration::from_secs(10)).unwrap();
        assert_eq!(finished.stdout.len(), 5_000_000, "{}", finished.stderr_text());
        assert!((0.3..2.0).contains(&finished.wall_s), "{} s for 5 MB", finished.wall_s);
    }
}
