//! Where the tools run: the directories, the servers, and the network.

use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, ensure};
use haul_lab::{Netns, Options, Sshd, find_program};
use tempfile::TempDir;

use crate::cpuid::CpuLevel;
use crate::daemon::{Daemon, free_port};
use crate::helper::helper;
use crate::kind::{WorkloadKind, WorkloadPlace};
use crate::programs::find_haul;
use crate::settings::BenchSettings;
use crate::workload::Workload;
use crate::{hosts, old_cpu};

/// Directories with data begin with this and the process's id.
pub const PREFIX: &str = "haul-bench-";

/// The command line of the bare loop on a CPU of this kind.
fn bare_loop(cpu: Option<CpuLevel>, directory: &Path) -> Result<Vec<OsString>> {
    let verb = "bare-loop";
    let command = match cpu {
        Some(level) => {
            let own = std::env::current_exe().context("where is this program?")?;
            old_cpu::helper_on(level, &old_cpu::without_cpuid(&own, directory)?, verb)?
        }
        None => helper(verb)?,
    };
    Ok(std::iter::once(command.get_program()).chain(command.get_args()).map(OsString::from).collect())
}

/// The hosts. Each has a different `haul` on its PATH.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BenchHost {
    /// The haul that is measured.
    Usual,
    /// The haul of `--beside`.
    Before,
    /// The measured haul, restricted to fewer instructions than the CPU has.
    OldCpu,
}

/// A haul, and the host with it on its PATH.
#[derive(Debug, Clone, Copy)]
pub struct Installed<'a> {
    /// The program.
    pub program: &'a Path,
    /// The server; the program's directory is first on its PATH.
    pub sshd: &'a Sshd,
}

/// Everything that is there before the first run. Removed and ended in `Drop`.
#[derive(Debug)]
pub struct BenchSite {
    // Fields are dropped in this order: users of the namespace before the namespace.
    /// The server for everything that goes through ssh.
    pub sshd: Sshd,
    others: Vec<(BenchHost, PathBuf, Sshd)>,
    rsyncd: Option<(Daemon, u16)>,
    gridftp: Option<(Daemon, u16)>,
    /// Where the tools run, if not in this process's own network namespace.
    netns: Option<Netns>,
    directory: TempDir,
    disk: Option<TempDir>,
    haul: Option<PathBuf>,
    /// The bare loop as the tools' CPU runs it: by the tracer, or as it is.
    bare_loop: Vec<OsString>,
    /// Output of `haul --help all`.
    pub haul_help: String,
    /// Output of `haul --version -v`: rates of sealing and hashing on its CPU, and their libraries.
    pub haul_version: String,
    interrupted: Arc<AtomicBool>,
}

impl BenchSite {
    /// Makes the directories and starts the servers of installed programs. `congestion` is the congestion control of
    /// the tools' connections, if not this machine's default.
    pub fn prepare(settings: &BenchSettings, congestion: Option<&str>) -> Result<Self> {
        let interrupted = haul_lab::interrupt_flag().context("setting a signal handler")?;
        let directory = make_directory(&settings.dir)?;
        let needs_disk = settings.workloads.iter().any(|kind| kind.place() == WorkloadPlace::Disk);
        let disk = needs_disk.then(|| make_directory(&settings.disk_dir())).transpose()?;
        for place in [Some(&directory), disk.as_ref()].into_iter().flatten() {
            make_children(place.path(), &["source", "target"])?;
        }
        make_children(directory.path(), &["home", "bin", "bin-before", "bin-old-cpu", "cpu", "cpu-before"])?;
        let netns = congestion.map(namespace_with_congestion).transpose()?;
        let masked = |program: PathBuf, place: &str| match settings.cpu {
            Some(level) => old_cpu::install(&program, &directory.path().join(place), level),
            None => Ok(program),
        };
        let haul = find_haul(settings.haul.as_deref())?.map(|haul| masked(haul, "cpu")).transpose()?;
        let start = |haul: Option<&Path>, bin: &str| {
            let at = directory.path();
            start_sshd(netns.as_ref(), haul, &at.join(bin), &at.join("home"))
        };
        let sshd = start(haul.as_deref(), "bin")?;
        let mut others = Vec::new();
        if let Some(path) = &settings.beside {
            let program = path.canonicalize().with_context(|| format!("--beside {path:?}"))?;
            let program = masked(program, "cpu-before")?;
            let sshd = start(Some(&program), "bin-before")?;
            others.push((BenchHost::Before, program, sshd));
        }
        if let (true, Some(haul)) = (settings.workloads.contains(&WorkloadKind::OldCpu), &haul) {
            match old_cpu::install(haul, &directory.path().join("home"), CpuLevel::Avx) {
                Ok(program) => {
                    let sshd = start(Some(&program), "bin-old-cpu")?;
                    others.push((BenchHost::OldCpu, program, sshd));
                }
                Err(error) => eprintln!("bench: no old CPU: {error:#}"),
            }
        }
        // Without it, its tools are missing.
        let bare_loop = bare_loop(settings.cpu, directory.path()).unwrap_or_default();
        let haul_help = haul.as_deref().map(|haul| output_of(haul, &["--help", "all"])).unwrap_or_default();
        let haul_version = haul.as_deref().map(|haul| output_of(haul, &["--version", "-v"])).unwrap_or_default();
        let (rsyncd, gridftp) = (None, None);
        let mut site = Self {
            sshd,
            others,
            rsyncd,
            gridftp,
            netns,
            directory,
            disk,
            haul,
            bare_loop,
            haul_help,
            haul_version,
            interrupted,
        };
        site.rsyncd = site.start_rsyncd()?;
        site.gridftp = site.start_gridftp()?;
        Ok(site)
    }

    /// The haul of this host; none where there is none.
    pub fn installed(&self, host: BenchHost) -> Option<Installed<'_>> {
        match host {
            BenchHost::Usual => self.haul.as_deref().map(|program| Installed { program, sshd: &self.sshd }),
            _ => {
                let (_, program, sshd) = self.others.iter().find(|(other, ..)| *other == host)?;
                Some(Installed { program, sshd })
            }
        }
    }

    /// The server of this host.
    pub fn sshd_of(&self, host: BenchHost) -> &Sshd {
        self.others.iter().find(|(other, ..)| *other == host).map_or(&self.sshd, |(_, _, sshd)| sshd)
    }

    /// The bare loop.
    pub fn bare_loop(&self) -> Result<Command> {
        let (program, args) = self.bare_loop.split_first().context("there is no bare loop")?;
        let mut command = Command::new(program);
        command.args(args);
        Ok(command)
    }

    /// Where data of this kind is.
    pub fn sources(&self, kind: WorkloadKind) -> PathBuf {
        self.place_of(kind).join("source").join(kind.name())
    }

    /// The directory that a workload is copied into.
    pub fn target(&self, workload: &Workload) -> PathBuf {
        self.place_of(workload.kind).join("target")
    }

    /// The parent directory of both.
    pub fn place_of(&self, kind: WorkloadKind) -> &Path {
        match (kind.place(), &self.disk) {
            (WorkloadPlace::Disk, Some(disk)) => disk.path(),
            _ => self.directory.path(),
        }
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

    /// Removes the copy, and waits for its file system.
    pub fn empty_target(&self, workload: &Workload) -> Result<()> {
        let target = self.target(workload);
        fs::remove_dir_all(&target).with_context(|| format!("removing {target:?}"))?;
        fs::create_dir(&target).with_context(|| format!("making {target:?}"))?;
        self.sync_target(workload)
    }

    /// Waits until all that was copied is on its device.
    pub fn sync_target(&self, workload: &Workload) -> Result<()> {
        let target = self.target(workload);
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
             [bench]\npath = {}/target\nread only = no\n[disk]\npath = {}/target\nread only = no\n",
            at.display(),
            at.display(),
            self.disk.as_ref().map_or(at, TempDir::path).display()
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

fn make_directory(parent: &Path) -> Result<TempDir> {
    remove_leftovers(parent);
    let prefix = format!("{PREFIX}{}-", std::process::id());
    let directory = tempfile::Builder::new().prefix(&prefix).tempdir_in(parent);
    let directory = directory.with_context(|| format!("making a directory in {parent:?}"))?;
    ensure_plain(directory.path())?;
    Ok(directory)
}

fn make_children(directory: &Path, names: &[&str]) -> Result<()> {
    for child in names {
        fs::create_dir(directory.join(child)).with_context(|| format!("making {child} in {directory:?}"))?;
    }
    Ok(())
}

fn output_of(haul: &Path, args: &[&str]) -> String {
    let said = Command::new(haul).args(args).output();
    said.map(|said| String::from_utf8_lossy(&said.stdout).into_owned()).unwrap_or_default()
}

/// A network namespace with a congestion control on its loopback routes. A namespace's sysctl accepts only algorithms
/// that the machine allows to everybody, and this machine's own settings must not change.
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

/// `bin` is to hold a link to haul, whatever its file is called.
fn start_sshd(netns: Option<&Netns>, haul: Option<&Path>, bin: &Path, home: &Path) -> Result<Sshd> {
    if let Some(haul) = haul {
        std::os::unix::fs::symlink(haul, bin.join("haul")).with_context(|| format!("making a link in {bin:?}"))?;
    }
    let sshd = hosts::start_sshd(Options { netns, ..Options::default() }, Some(bin), home)?;
    ensure_plain(sshd.directory())?;
    Ok(sshd)
}

/// Paths appear in commands that two shells read; characters that mean something there are refused.
pub fn ensure_plain(path: &Path) -> Result<()> {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/._-".contains(byte);
    ensure!(
        path.as_os_str().as_encoded_bytes().iter().all(plain),
        "{path:?}: the benchmark needs a path of letters, digits, '.', '_' and '-'; try --dir, or another TMPDIR"
    );
    Ok(())
}

/// Removes the data of benchmarks that were killed before they could.
pub fn remove_leftovers(dir: &Path) {
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
    fn only_leftovers_of_dead_processes_are_removed() {
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
