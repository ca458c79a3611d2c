//! Where the tools run: the directories, the servers, and the network.

use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, ensure};
use haul_lab::{Netns, Options, Sshd};
use tempfile::TempDir;

use crate::args::Settings;
use crate::daemon::{Daemon, free_port};
use crate::tools::find_program;

const PREFIX: &str = "haul-bench-";

/// Everything that is there before the first run. Removed and ended in `Drop`.
#[derive(Debug)]
pub struct Site {
    // Fields are dropped in this order: whoever uses the namespace goes before it.
    /// The server for everything that goes through ssh.
    pub sshd: Sshd,
    rsyncd: Option<(Daemon, u16)>,
    gridftp: Option<(Daemon, u16)>,
    /// Where the tools run, if not in this process's own network namespace.
    netns: Option<Netns>,
    directory: TempDir,
    /// The haul that is measured, if it exists.
    pub haul: Option<PathBuf>,
    interrupted: Arc<AtomicBool>,
}

impl Site {
    /// Makes the directories and starts the servers whose programs are there.
    pub fn prepare(settings: &Settings) -> Result<Self> {
        let interrupted = Arc::new(AtomicBool::new(false));
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
            signal_hook::flag::register(signal, Arc::clone(&interrupted)).context("setting a signal handler")?;
        }
        remove_leftovers(&settings.dir);
        let prefix = format!("{PREFIX}{}-", std::process::id());
        let directory = tempfile::Builder::new().prefix(&prefix).tempdir_in(&settings.dir);
        let directory = directory.with_context(|| format!("making a directory in {:?}", settings.dir))?;
        ensure_plain(directory.path())?;
        let netns = settings.congestion.as_deref().map(namespace_with_congestion).transpose()?;
        let haul = find_haul(settings)?;
        for child in ["source", "target", "home"] {
            fs::create_dir(directory.path().join(child)).with_context(|| format!("making {child} in {directory:?}"))?;
        }
        let sshd = start_sshd(netns.as_ref(), haul.as_deref(), &directory.path().join("home"))?;
        ensure_plain(sshd.directory())?;
        let mut site = Self { sshd, rsyncd: None, gridftp: None, netns, directory, haul, interrupted };
        site.rsyncd = site.start_rsyncd()?;
        site.gridftp = site.start_gridftp()?;
        Ok(site)
    }

    /// Where the workloads' data is.
    pub fn sources(&self) -> PathBuf {
        self.directory.path().join("source")
    }

    /// The directory that everything is copied into.
    pub fn target(&self) -> PathBuf {
        self.directory.path().join("target")
    }

    /// rsync's daemon and its port. Its module `bench` is the target.
    pub fn rsyncd(&self) -> Option<(&Daemon, u16)> {
        self.rsyncd.as_ref().map(|(daemon, port)| (daemon, *port))
    }

    /// The GridFTP server and its port.
    pub fn gridftp(&self) -> Option<(&Daemon, u16)> {
        self.gridftp.as_ref().map(|(daemon, port)| (daemon, *port))
    }

    /// The same command, in the tools' network namespace.
    pub fn place(&self, command: &Command) -> Command {
        self.netns.as_ref().map_or_else(|| crate::daemon::plain_copy(command), |netns| netns.enclose(command))
    }

    /// Removes what was copied and waits until its file system has done so.
    pub fn empty_target(&self) -> Result<()> {
        let target = self.target();
        fs::remove_dir_all(&target).with_context(|| format!("removing {target:?}"))?;
        fs::create_dir(&target).with_context(|| format!("making {target:?}"))?;
        let opened = File::open(&target).with_context(|| format!("opening {target:?}"))?;
        rustix::fs::syncfs(&opened).with_context(|| format!("syncing the file system of {target:?}"))
    }

    /// An error once the user has pressed Ctrl-C.
    pub fn check_interrupt(&self) -> Result<()> {
        ensure!(!self.interrupted.load(Ordering::Relaxed), "interrupted; the data is being removed");
        Ok(())
    }

    fn start_rsyncd(&self) -> Result<Option<(Daemon, u16)>> {
        let Some(rsync) = find_program("rsync") else { return Ok(None) };
        let (port, at) = (free_port()?, self.directory.path());
        let identity = if rustix::process::geteuid().is_root() { "uid = 0\ngid = 0\n" } else { "" };
        let configuration = format!(
            "address = 127.0.0.1\nuse chroot = no\nreverse lookup = no\nlog file = {}/rsyncd.log\n{identity}\
             [bench]\npath = {}\nread only = no\n",
            at.display(),
            self.target().display()
        );
        let file = at.join("rsyncd.conf");
        fs::write(&file, configuration)?;
        let mut command = Command::new(rsync);
        command.args(["--daemon", "--no-detach", &format!("--port={port}")]).arg("--config").arg(file);
        Ok(Some((Daemon::start(&self.place(&command), port)?, port)))
    }

    fn start_gridftp(&self) -> Result<Option<(Daemon, u16)>> {
        let Some(server) = find_program("globus-gridftp-server") else { return Ok(None) };
        let port = free_port()?;
        let mut command = Command::new(server);
        command.args(["-c", "/dev/null", "-no-detach", "-aa", "-p", &port.to_string()]);
        command.args(["-control-interface", "127.0.0.1", "-data-interface", "127.0.0.1"]);
        if rustix::process::geteuid().is_root() {
            command.args(["-allow-root", "-anonymous-user", "root"]);
        }
        Ok(Some((Daemon::start(&self.place(&command), port)?, port)))
    }
}

/// A network namespace whose loopback routes prescribe a congestion control. Not the sysctl: that
/// of a namespace takes only what this machine permits to everybody, and this machine's own
/// settings shall stay as they are.
fn namespace_with_congestion(name: &str) -> Result<Netns> {
    let netns = Netns::create().context("--congestion runs the tools in a network namespace of their own")?;
    for addresses in ["127.0.0.0/8", "127.0.0.1/32"] {
        let route = format!(
            "route replace local {addresses} dev lo table local proto kernel scope host \
             src 127.0.0.1 congctl {name}"
        );
        netns
            .run("ip", route.split_whitespace())
            .with_context(|| format!("this kernel does not offer {name} (modprobe tcp_{name}?)"))?;
    }
    Ok(netns)
}

/// Remote haul is found by PATH, so that none has to be put there in the timed part. An empty
/// home directory keeps what this account's `.bashrc` does at each login out of the figures.
fn start_sshd(netns: Option<&Netns>, haul: Option<&Path>, home: &Path) -> Result<Sshd> {
    let own = std::env::var_os("PATH").unwrap_or_else(|| OsString::from("/usr/bin:/bin"));
    let mut path = haul.and_then(Path::parent).map(|parent| parent.as_os_str().to_owned()).unwrap_or_default();
    if !path.is_empty() {
        path.push(":");
    }
    path.push(own);
    let home = Sshd::can_force_home().then(|| home.to_owned());
    Sshd::start(Options { netns, home, path: Some(path), ..Options::default() })
}

/// The haul that was named, or this workspace's release build if there is one.
fn find_haul(settings: &Settings) -> Result<Option<PathBuf>> {
    if let Some(path) = &settings.haul {
        let found = path.canonicalize().with_context(|| format!("--haul {path:?}"))?;
        return Ok(Some(found));
    }
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| workspace.join("target"), PathBuf::from);
    let triple = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let candidates = [target.join(triple).join("release/haul"), target.join("release/haul")];
    Ok(candidates.iter().find_map(|path| path.canonicalize().ok()))
}

/// Paths appear in commands that two shells read; characters that mean something there are refused.
fn ensure_plain(path: &Path) -> Result<()> {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/._-".contains(byte);
    ensure!(
        path.as_os_str().as_encoded_bytes().iter().all(plain),
        "{path:?}: the benchmark needs a path of letters, digits, '.', '_' and '-'; try --dir, or another TMPDIR"
    );
    Ok(())
}

/// Removes the data of benchmarks that were killed before they could.
fn remove_leftovers(dir: &Path) {
    let Ok(entries) = fs::read_dir(dir) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let owner = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.split('-').next()?.parse::<u32>().ok());
        if owner.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_with_meaning_to_a_shell_are_refused() {
        assert!(ensure_plain(Path::new("/dev/shm/haul-bench-1.x_y")).is_ok());
        for path in ["/a b", "/a'b", "/a$b", "/a\nb", "/ä"] {
            assert!(ensure_plain(Path::new(path)).is_err(), "{path:?}");
        }
    }

    #[test]
    fn connections_in_the_namespace_use_the_congestion_control() {
        if !Netns::available() {
            eprintln!("SKIPPED: network namespaces need root");
            return;
        }
        let other = if congestion_of_this_machine() == "reno" { "cubic" } else { "reno" };
        let netns = namespace_with_congestion(other).expect("every kernel has both");
        let mut receiver = netns.command("nc");
        receiver.args(["-l", "127.0.0.1", "7001"]);
        let _receiver = Daemon::start(&receiver, 7001).expect("nc is installed");
        let script = "sleep 20 | nc 127.0.0.1 7001 & for i in $(seq 100); do \
                      ss -Htin state established | grep . && exit 0; sleep 0.05; done; exit 1";
        let mut command = netns.command("sh");
        command.args(["-c", script]);
        let limit = std::time::Duration::from_secs(15);
        let finished = haul_lab::run_with_timeout(command, limit).expect("sh starts");
        let seen = finished.stdout_text();
        assert!(seen.contains(&format!(" {other} ")), "{seen}{}", finished.stderr_text());
        assert!(namespace_with_congestion("no-such").is_err());
    }

    fn congestion_of_this_machine() -> String {
        crate::machine::Machine::describe(None).congestion
    }

    #[test]
    fn leftovers_of_the_dead_are_removed_and_nothing_else() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let own = format!("{PREFIX}{}-x", std::process::id());
        for name in ["haul-bench-4194999-x", own.as_str(), "haul-bench", "other"] {
            fs::create_dir(directory.path().join(name)).expect("made");
        }
        remove_leftovers(directory.path());
        let left = fs::read_dir(directory.path()).expect("listed").count();
        assert!(left == 3 && !directory.path().join("haul-bench-4194999-x").exists());
    }
}
