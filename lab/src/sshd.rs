//! A private OpenSSH server, and everything a client needs to log in.
//!
//! It runs as the current user, on a free port, with its own keys. The user's ssh configuration stays unread and
//! unchanged. `Drop` ends the server and all its sessions.

use std::ffi::OsString;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use tempfile::TempDir;

use crate::process::{descendants, end_tree, memory, tree_cpu, tree_memory_bytes};
use crate::run::output_of;
use crate::{Cgroup, Netns};

/// How long the server may take until it listens.
const START_TIMEOUT: Duration = Duration::from_secs(10);

/// A free port can be taken by another process before the server has it.
const START_ATTEMPTS: u32 = 5;

/// Distributions' folders for the server, seldom on a user's PATH.
const SSHD_PATHS: [&str; 4] = ["/usr/sbin/sshd", "/usr/local/sbin/sshd", "/usr/bin/sshd", "/sbin/sshd"];

/// The kind of host. The default is 127.0.0.1 in this namespace, with the account's own home directory and sshd's
/// default PATH.
#[derive(Debug)]
pub struct Options<'a> {
    /// Where it listens.
    pub address: IpAddr,
    /// The port it listens on; `None` for a free one.
    pub port: Option<u16>,
    /// The network namespace it (and so every remote command) runs in.
    pub netns: Option<&'a Netns>,
    /// HOME and the initial directory of remote commands. They read its `.bashrc` first, if present. Needs bash as the
    /// account's login shell.
    pub home: Option<PathBuf>,
    /// More variables for remote commands.
    pub environment: Vec<(String, String)>,
    /// PATH as remote commands see it.
    pub path: Option<OsString>,
    /// Lines of sshd_config that take precedence over those of this module. Not `SetEnv` (sshd uses only the first) and
    /// not `Match`.
    pub extra_config: String,
}

impl Default for Options<'_> {
    fn default() -> Self {
        Self {
            address: IpAddr::V4(Ipv4Addr::LOCALHOST),
            port: None,
            netns: None,
            home: None,
            environment: Vec::new(),
            path: None,
            extra_config: String::new(),
        }
    }
}

/// A running server.
#[derive(Debug)]
pub struct Sshd {
    address: IpAddr,
    port: u16,
    child: Child,
    account: Option<Cgroup>,
    directory: TempDir,
}

impl Sshd {
    /// Starts a server and waits until it listens.
    pub fn start(options: Options<'_>) -> Result<Self> {
        let program = find_sshd()?;
        make_separation_directory()?;
        let directory = tempfile::Builder::new().prefix("haul-sshd-").tempdir()?;
        make_keys(directory.path())?;
        let account = Cgroup::create();
        let mut last_error = None;
        for _ in 0..START_ATTEMPTS {
            let port = free_port(&options)?;
            write_configuration(directory.path(), &options, port)?;
            match start_server(&program, directory.path(), options.netns, account.as_ref()) {
                Ok(child) => return Ok(Self { address: options.address, port, child, account, directory }),
                Err(error) => last_error = Some(error),
            }
        }
        Err(last_error.context("no attempt was made")?)
    }

    /// Whether [`Options::home`] can be used: whether this account's login shell is bash.
    pub fn can_force_home() -> bool {
        login_shell_is_bash()
    }

    /// The port it listens on.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The address it listens on, as one would type it before a colon: IPv6 in brackets.
    pub fn host(&self) -> String {
        match self.address {
            IpAddr::V4(address) => address.to_string(),
            IpAddr::V6(address) => format!("[{address}]"),
        }
    }

    /// The operand `host:path` for a path on this host.
    pub fn location(&self, path: &Path) -> OsString {
        let mut location = OsString::from(self.host());
        location.push(":");
        location.push(path);
        location
    }

    /// The user's private key.
    pub fn identity(&self) -> PathBuf {
        self.directory.path().join("user_key")
    }

    /// The file with this server's host key.
    pub fn known_hosts(&self) -> PathBuf {
        self.directory.path().join("known_hosts")
    }

    /// A client configuration for `ssh -F FILE HOST`.
    pub fn ssh_config(&self) -> PathBuf {
        self.directory.path().join("ssh_config")
    }

    /// Where keys, configuration and the log are; also a place for a test's small files.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// The server's log so far.
    pub fn log(&self) -> String {
        fs::read_to_string(self.directory.path().join("log")).unwrap_or_default()
    }

    /// An `ssh` to this host that runs `remote` there (words joined by spaces, as ssh does).
    pub fn ssh_command<Word: AsRef<std::ffi::OsStr>>(&self, remote: impl IntoIterator<Item = Word>) -> Command {
        let mut command = Command::new("ssh");
        command.arg("-F").arg(self.ssh_config()).arg("--").arg(self.address.to_string()).args(remote);
        command
    }

    /// The options `-o NAME=VALUE` (values only) that a client needs beside port and key.
    pub fn ssh_options(&self) -> Vec<String> {
        vec![
            format!("UserKnownHostsFile={}", self.known_hosts().display()),
            "GlobalKnownHostsFile=/dev/null".to_owned(),
            "StrictHostKeyChecking=yes".to_owned(),
            "IdentitiesOnly=yes".to_owned(),
            "IdentityAgent=none".to_owned(),
            "BatchMode=yes".to_owned(),
        ]
    }

    /// The options that haul needs in order to log in here.
    pub fn haul_args(&self) -> Vec<String> {
        let mut args = vec!["--ssh-port".to_owned(), self.port.to_string()];
        args.extend(["--idfile".to_owned(), self.identity().display().to_string()]);
        for option in self.ssh_options() {
            args.extend(["--ssh-option".to_owned(), option]);
        }
        args
    }

    /// The server's process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The processes of this host's sessions now: everything but the listening server.
    pub fn session_pids(&self) -> Vec<u32> {
        let mut pids = descendants(self.pid());
        if let Some(account) = &self.account {
            pids.extend(account.pids());
        }
        pids.sort_unstable();
        pids.dedup();
        pids.retain(|&pid| pid != self.pid());
        pids
    }

    /// User plus system CPU seconds of the server and all its sessions since its start: exact with control groups,
    /// otherwise from clock ticks and without processes that left their session.
    pub fn cpu_s(&self) -> f64 {
        self.account.as_ref().map_or_else(|| tree_cpu(self.pid()), Cgroup::cpu_s)
    }

    /// The resident bytes of all sessions now (not of the listening server).
    pub fn session_memory_bytes(&self) -> u64 {
        let all = self.account.as_ref().map_or_else(|| tree_memory_bytes(self.pid()), Cgroup::memory_bytes);
        all.saturating_sub(memory(self.pid()).now_bytes)
    }

    /// Ends all sessions, but not the server. Both ends see the same as in a network outage.
    pub fn end_sessions(&self) {
        for pid in self.session_pids() {
            crate::process::signal(pid, rustix::process::Signal::KILL);
        }
    }
}

impl Drop for Sshd {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("log of the sshd on port {}:\n{}", self.port, self.log());
        }
        self.end_sessions();
        end_tree(self.child.id(), Duration::from_millis(500));
        let _ = self.child.wait();
    }
}

fn find_sshd() -> Result<PathBuf> {
    let found = SSHD_PATHS.iter().map(PathBuf::from).find(|path| path.exists());
    found.context("there is no sshd on this machine: apt-get install openssh-server")
}

/// Debian's sshd, when started by root, refuses to run without this directory.
fn make_separation_directory() -> Result<()> {
    let directory = Path::new("/run/sshd");
    if rustix::process::geteuid().is_root() && !directory.exists() {
        fs::create_dir_all(directory).context("making /run/sshd for sshd's privilege separation")?;
    }
    Ok(())
}

fn make_keys(directory: &Path) -> Result<()> {
    for name in ["host_key", "user_key"] {
        let mut command = Command::new("ssh-keygen");
        command.args(["-q", "-t", "ed25519", "-N", "", "-C", "haul-lab", "-f"]).arg(directory.join(name));
        output_of(&mut command).context("apt-get install openssh-client")?;
    }
    fs::copy(directory.join("user_key.pub"), directory.join("authorized_keys"))?;
    Ok(())
}

/// The requested port, or a free one. In another namespace, practically all ports are free.
fn free_port(options: &Options<'_>) -> Result<u16> {
    if let Some(port) = options.port {
        return Ok(port);
    }
    let address = if options.netns.is_some() { IpAddr::V4(Ipv4Addr::LOCALHOST) } else { options.address };
    let listener = TcpListener::bind((address, 0)).with_context(|| format!("no free port on {address}"))?;
    Ok(listener.local_addr()?.port())
}

fn write_configuration(directory: &Path, options: &Options<'_>, port: u16) -> Result<()> {
    fs::write(directory.join("sshd_config"), server_configuration(directory, options, port)?)?;
    let host_key = fs::read_to_string(directory.join("host_key.pub"))?;
    fs::write(directory.join("known_hosts"), format!("[{}]:{port} {host_key}", options.address))?;
    let config = format!(
        "Host *\n  Port {port}\n  IdentityFile {directory}/user_key\n  UserKnownHostsFile {directory}/known_hosts\n  \
         GlobalKnownHostsFile /dev/null\n  StrictHostKeyChecking yes\n  IdentitiesOnly yes\n  IdentityAgent none\n  \
         BatchMode yes\n",
        directory = directory.display()
    );
    fs::write(directory.join("ssh_config"), config)?;
    Ok(())
}

fn server_configuration(directory: &Path, options: &Options<'_>, port: u16) -> Result<String> {
    let at = directory.display();
    let extra = &options.extra_config;
    let mut text = format!("{extra}\nPort {port}\nListenAddress {}\n", options.address);
    text += &format!("HostKey {at}/host_key\nAuthorizedKeysFile {at}/authorized_keys\nPidFile none\n");
    text +=
        "StrictModes no\nUsePAM no\nPermitRootLogin yes\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n";
    text += "MaxStartups 1000:30:2000\nMaxSessions 200\nUseDNS no\nPrintMotd no\nLogLevel VERBOSE\n";
    if let Some(server) = sftp_server() {
        text += &format!("Subsystem sftp {server}\n");
    }
    let variables = session_variables(directory, options)?;
    if !variables.is_empty() {
        // sshd takes only the first SetEnv line: it holds all variables.
        let quoted: Vec<String> = variables.iter().map(|(name, value)| quote(&format!("{name}={value}"))).collect();
        text += &format!("SetEnv {}\n", quoted.join(" "));
    }
    Ok(text)
}

/// The environment of remote commands, in addition to sshd's own.
fn session_variables(directory: &Path, options: &Options<'_>) -> Result<Vec<(String, String)>> {
    let mut variables = options.environment.clone();
    if let Some(path) = &options.path {
        variables.push(("PATH".to_owned(), text_of(path)?));
    }
    if let Some(home) = &options.home {
        variables.push(("HOME".to_owned(), text_of(home.as_os_str())?));
        // sshd starts in the account's own directory whatever HOME says. bash reads the file in BASH_ENV before a
        // single command, and that file changes the directory. Some distributions' bash reads ~/.bashrc instead, below
        // sshd and only at the outermost level: hence SHLVL, and the script does both.
        let script = directory.join("enter_home");
        fs::write(&script, "unset BASH_ENV\ncd \"$HOME\"\nif [ -f ~/.bashrc ]; then . ~/.bashrc; fi\n")?;
        variables.push(("SHLVL".to_owned(), "1".to_owned()));
        ensure!(login_shell_is_bash(), "a forced home directory needs bash as this account's login shell");
        variables.push(("BASH_ENV".to_owned(), text_of(script.as_os_str())?));
    }
    Ok(variables)
}

fn text_of(value: &std::ffi::OsStr) -> Result<String> {
    value.to_str().map(str::to_owned).with_context(|| format!("{value:?} is not UTF-8, which sshd_config cannot hold"))
}

fn login_shell_is_bash() -> bool {
    let uid = rustix::process::getuid().as_raw().to_string();
    let accounts = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let own = accounts.lines().find(|line| line.split(':').nth(2) == Some(uid.as_str()));
    own.is_some_and(|line| line.ends_with("/bash"))
}

fn quote(value: &str) -> String {
    format!("\"{}\"", value.replace('\\', r"\\").replace('"', "\\\""))
}

/// Rclone and scp (since OpenSSH 9.0) speak SFTP. An external server, not
/// `internal-sftp`: its process and memory are then separate.
fn sftp_server() -> Option<&'static str> {
    let places = ["/usr/lib/openssh/sftp-server", "/usr/libexec/openssh/sftp-server", "/usr/lib/ssh/sftp-server"];
    places.into_iter().find(|path| Path::new(path).exists())
}

fn start_server(program: &Path, directory: &Path, netns: Option<&Netns>, account: Option<&Cgroup>) -> Result<Child> {
    let log = directory.join("log");
    let _ = fs::remove_file(&log);
    let mut command = netns.map_or_else(|| Command::new(program), |netns| netns.command(program));
    command.args(["-D", "-f"]).arg(directory.join("sshd_config")).arg("-E").arg(&log);
    let mut command =
        account.map_or_else(|| crate::run::rebuild(&command, Command::new("env")), |it| it.enclose(&command));
    let errors = fs::File::create(directory.join("errors"))?;
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(errors).process_group(0);
    let mut child = command.spawn().with_context(|| format!("could not start {}", program.display()))?;
    match await_listening(&mut child, directory) {
        Ok(()) => Ok(child),
        Err(error) => {
            end_tree(child.id(), Duration::ZERO);
            let _ = child.wait();
            Err(error)
        }
    }
}

/// The server says in its log when it listens; a client elsewhere could not always connect to find out.
fn await_listening(child: &mut Child, directory: &Path) -> Result<()> {
    let deadline = Instant::now() + START_TIMEOUT;
    let read = |name: &str| fs::read_to_string(directory.join(name)).unwrap_or_default();
    while Instant::now() < deadline {
        if read("log").contains("Server listening on") {
            return Ok(());
        }
        if let Some(status) = child.try_wait()? {
            bail!("sshd ended ({status}) before it listened: {}{}", read("errors"), read("log"));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    bail!("sshd did not listen within {START_TIMEOUT:?}: {}{}", read("errors"), read("log"))
}
