//! A Slurm cluster on this machine: a controller and four nodes, each a network namespace with its own host name.
//!
//! Daemons are children and end by id. Their leftover processes are killed with their namespaces.

use std::fs::{self, Permissions};
use std::net::Ipv4Addr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use haul_lab::{Netns, Running, find_program, output_of, start};

use crate::program::Haul;
use crate::{Sandbox, is_root_or_skip, within};

/// Nodes of the cluster, `n1` and so on.
pub const SLURM_NODES: usize = 4;
/// The address of the controller's host.
pub const SLURM_CONTROLLER: Ipv4Addr = Ipv4Addr::new(10, 99, 0, 1);
const PROGRAMS: [&str; 6] = ["munged", "slurmctld", "slurmd", "sbatch", "squeue", "scontrol"];
const READY_LIMIT: Duration = Duration::from_secs(30);
/// Waits between two questions of the controller.
const ASK_EVERY: Duration = Duration::from_millis(200);

/// A cluster that runs as long as this value.
#[derive(Debug)]
pub struct SlurmCluster {
    directory: PathBuf,
    // Daemons end before their networks.
    slurmds: Vec<Option<Running>>,
    slurmctld: Option<Running>,
    _munged: Running,
    controller: Netns,
    nodes: Vec<Netns>,
}

impl SlurmCluster {
    /// A cluster that is ready. `None`, and said, where there is no root or no Slurm.
    #[track_caller]
    pub fn start(sandbox: &Sandbox) -> Option<Self> {
        if !is_root_or_skip("a Slurm cluster") {
            return None;
        }
        if let Some(missing) = PROGRAMS.into_iter().find(|program| find_program(program).is_none()) {
            println!("SKIPPED: {missing} is not installed: apt-get install slurm-wlm munge");
            return None;
        }
        Some(Self::try_start(sandbox).unwrap_or_else(|error| panic!("{error:#}")))
    }

    fn try_start(sandbox: &Sandbox) -> Result<Self> {
        let directory = sandbox.dir("slurm");
        for folder in ["state", "log", "munge"] {
            sandbox.dir(Path::new("slurm").join(folder));
        }
        (1..=SLURM_NODES).for_each(|node| drop(sandbox.dir(format!("slurm/spool.n{node}"))));
        fs::set_permissions(directory.join("munge"), Permissions::from_mode(0o711))?;
        fs::write(directory.join("slurm.conf"), configuration(&directory))?;
        fs::write(directory.join("cgroup.conf"), CGROUP)?;
        let munged = start_munged(&directory)?;
        let (controller, nodes) = networks()?;
        let slurmds = (0..SLURM_NODES).map(|_| None).collect();
        let mut cluster = Self { directory, slurmds, slurmctld: None, _munged: munged, controller, nodes };
        cluster.start_controller()?;
        (0..SLURM_NODES).try_for_each(|node| cluster.start_node(node))?;
        cluster.wait_until_ready()?;
        Ok(cluster)
    }

    /// Starts slurmctld, after a kill or for the first time.
    pub fn start_controller(&mut self) -> Result<()> {
        self.slurmctld = Some(start(self.daemon(&self.controller, "ctl", "slurmctld -D"))?);
        Ok(())
    }

    /// Kills slurmctld with SIGKILL.
    pub fn kill_controller(&mut self) {
        self.slurmctld = None;
    }

    /// Starts the slurmd of a node.
    pub fn start_node(&mut self, node: usize) -> Result<()> {
        let name = format!("n{}", node + 1);
        let daemon = self.daemon(&self.nodes[node], &name, &format!("slurmd -D -N {name}"));
        self.slurmds[node] = Some(start(daemon)?);
        Ok(())
    }

    /// Starts the slurmd of a node anew, where this file is empty and cannot be run.
    #[track_caller]
    pub fn hide_on(&mut self, node: usize, file: &Path) {
        self.kill_slurmd(node);
        let name = format!("n{}", node + 1);
        let program = format!("mount --bind /dev/null '{}' && exec slurmd -D -N {name}", file.display());
        let mut command = self.nodes[node].command("unshare");
        let script = format!("hostname {name}; {program}");
        command.args(["--uts", "--mount", "sh", "-c", &script]);
        command.env("SLURM_CONF", self.configuration()).env("LC_ALL", "C");
        self.slurmds[node] = Some(start(command).unwrap());
        self.wait_until_ready().unwrap();
    }

    /// Kills the slurmd of a node with SIGKILL, and leaves its tasks alone.
    pub fn kill_slurmd(&mut self, node: usize) {
        self.slurmds[node] = None;
    }

    /// Kills everything that runs on a node.
    pub fn kill_node(&mut self, node: usize) {
        self.kill_slurmd(node);
        for pid in self.pids(node) {
            let _ = rustix::process::kill_process(crate::pid(pid), rustix::process::Signal::KILL);
        }
    }

    /// Processes of a node.
    pub fn pids(&self, node: usize) -> Vec<u32> {
        let name = self.nodes[node].name();
        let pids = output_of(Command::new("ip").args(["netns", "pids", name])).unwrap_or_default();
        pids.split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
    }

    /// haul, to be run on the controller's host.
    pub fn enclose<'a>(&'a self, haul: Haul<'a>) -> Haul<'a> {
        haul.netns(&self.controller).env("SLURM_CONF", self.configuration())
    }

    /// The controller's host, at [`SLURM_CONTROLLER`]: all nodes reach it.
    pub fn controller(&self) -> &Netns {
        &self.controller
    }

    /// Runs a Slurm command; gives its output.
    pub fn command(&self, program: &str, words: &[&str]) -> Result<String> {
        let mut command = self.controller.command(program);
        output_of(command.args(words).env("SLURM_CONF", self.configuration()))
    }

    /// Runs a Slurm command, which may fail; gives whether it succeeded, and all that it printed.
    #[track_caller]
    pub fn answer(&self, program: &str, words: &[&str]) -> (bool, String) {
        let mut command = self.controller.command(program);
        let output = command.args(words).env("SLURM_CONF", self.configuration()).output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8_lossy(&text).into_owned())
    }

    /// Whether squeue's list is empty.
    pub fn has_empty_queue(&self) -> bool {
        self.command("squeue", &["--noheader"]).is_ok_and(|queue| queue.trim().is_empty())
    }

    /// Resumes nodes that slurmctld has drained. One that was killed with SIGKILL hands out a job again that it had not
    /// saved, and drains the node for its "duplicate jobid". An administrator resumes it.
    pub fn resume_drained_nodes(&self) {
        let drained = self.command("sinfo", &["--noheader", "--Node", "--states=drain", "--format=%N"]);
        for node in drained.unwrap_or_default().split_whitespace() {
            let name = format!("NodeName={node}");
            // It is tried again.
            let _ = self.command("scontrol", &["update", &name, "State=RESUME"]);
        }
    }

    /// The end of the logs of all daemons, for a failed test's message.
    pub fn logs(&self) -> String {
        let files = fs::read_dir(self.directory.join("log")).into_iter().flatten().flatten();
        let log = |file: fs::DirEntry| {
            let text = fs::read_to_string(file.path()).unwrap_or_default();
            let lines: Vec<_> = text.lines().collect();
            let last = lines[lines.len().saturating_sub(40)..].join("\n");
            format!("--- {}\n{last}\n", file.file_name().to_string_lossy())
        };
        files.map(log).collect()
    }

    fn configuration(&self) -> PathBuf {
        self.directory.join("slurm.conf")
    }

    /// A daemon with a host name of its own.
    fn daemon(&self, host: &Netns, name: &str, program: &str) -> Command {
        let mut command = host.command("unshare");
        let script = format!("hostname {name}; exec {program}");
        command.args(["--uts", "sh", "-c", &script]).env("SLURM_CONF", self.configuration()).env("LC_ALL", "C");
        command
    }

    fn wait_until_ready(&self) -> Result<()> {
        let idle = || {
            std::thread::sleep(ASK_EVERY);
            let nodes = self.command("sinfo", &["--noheader", "--Node", "--format=%T"]).unwrap_or_default();
            nodes.lines().filter(|state| state.trim() == "idle").count() == SLURM_NODES
        };
        ensure!(within(READY_LIMIT, idle), "the nodes did not become idle\n{}", self.logs());
        Ok(())
    }
}

fn start_munged(directory: &Path) -> Result<Running> {
    let munge = directory.join("munge");
    let mut key = vec![0; 128];
    rustix::rand::getrandom(&mut key, rustix::rand::GetRandomFlags::empty())?;
    fs::write(munge.join("key"), key)?;
    fs::set_permissions(munge.join("key"), Permissions::from_mode(0o600))?;
    let mut command = Command::new(find_program("munged").context("munged was found before")?);
    command.args(["--foreground", "--num-threads=2"]);
    for (option, file) in [("socket", "sock"), ("key-file", "key"), ("pid-file", "pid"), ("seed-file", "seed")] {
        command.arg(format!("--{option}={}", munge.join(file).display()));
    }
    command.arg(format!("--log-file={}", directory.join("log/munged.log").display()));
    let munged = start(command)?;
    ensure!(within(READY_LIMIT, || munge.join("sock").exists()), "munged: {}", munged.stderr_so_far());
    Ok(munged)
}

/// The controller's network, with a bridge, and those of the nodes.
fn networks() -> Result<(Netns, Vec<Netns>)> {
    let controller = Netns::create()?;
    let ip = |netns: &Netns, line: &str| netns.run("ip", line.split(' '));
    ip(&controller, "link add br0 type bridge")?;
    ip(&controller, &format!("address add {SLURM_CONTROLLER}/24 dev br0"))?;
    ip(&controller, "link set br0 up")?;
    let mut nodes = Vec::new();
    for node in 1..=SLURM_NODES {
        let netns = Netns::create()?;
        ip(&controller, &format!("link add v{node} type veth peer name eth0 netns {}", netns.name()))?;
        ip(&controller, &format!("link set v{node} master br0 up"))?;
        ip(&netns, &format!("address add 10.99.0.{}/24 dev eth0", 10 + node))?;
        ip(&netns, "link set eth0 up")?;
        nodes.push(netns);
    }
    Ok((controller, nodes))
}

const CGROUP: &str = "CgroupPlugin=cgroup/v1\nCgroupMountpoint=/sys/fs/cgroup\nCgroupAutomount=no\nConstrainCores=no\n\
    ConstrainRAMSpace=no\n";

fn configuration(run: &Path) -> String {
    let run = run.display();
    format!(
        "ClusterName=haultest\nSlurmctldHost=ctl({SLURM_CONTROLLER})\nSlurmUser=root\nSlurmdUser=root\nAuthType=auth/munge\n\
         AuthInfo=socket={run}/munge/sock,cred_expire=10\nCredType=cred/munge\nMpiDefault=none\n\
         ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nSelectType=select/cons_tres\n\
         SelectTypeParameters=CR_Core\nSlurmdParameters=config_overrides\nReturnToService=2\n\
         SchedulerParameters=batch_sched_delay=0,sched_interval=1\nJobRequeue=1\nMaxArraySize=8\n\
         AccountingStorageType=accounting_storage/none\nJobAcctGatherType=jobacct_gather/none\n\
         StateSaveLocation={run}/state\nSlurmdSpoolDir={run}/spool.%n\nSlurmctldPidFile={run}/slurmctld.pid\n\
         SlurmdPidFile={run}/slurmd.%n.pid\nSlurmctldLogFile={run}/log/slurmctld.log\n\
         SlurmdLogFile={run}/log/slurmd.%n.log\nSlurmdTimeout=10\nSlurmctldTimeout=10\nKillWait=2\nMinJobAge=300\n\
         NodeName=n[1-{SLURM_NODES}] NodeAddr=10.99.0.[11-{}] CPUs=2 RealMemory=1000 State=UNKNOWN\n\
         PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=YES\n",
        10 + SLURM_NODES
    )
}
