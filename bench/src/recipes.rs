//! The command line of each tool. Every recipe has the same outcome: the source, under its own name, in the target
//! directory (or its bytes in `/dev/null`). None preserves attributes. None syncs: where that is part of the time, it is done alike for all.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use haul_lab::find_program;

use crate::daemon::free_port;
use crate::kind::WorkloadPlace;
use crate::site::{BenchHost, BenchSite};
use crate::workload::Workload;

/// The commands of one copy.
#[derive(Debug)]
pub struct Recipe {
    /// The measured program.
    pub client: Command,
    /// Who serves it.
    pub server: Server,
}

/// The other end of a client.
#[derive(Debug)]
pub enum Server {
    /// None: the client does it all.
    None,
    /// One of the site's sshds.
    Sshd(BenchHost),
    /// The site's rsync daemon.
    Rsyncd,
    /// The site's GridFTP server.
    Gridftp,
    /// A program for this copy alone, to be started first, and the port it listens on.
    Receiver(Box<Command>, u16),
}

/// The fastest of ssh's ciphers on machines with AES instructions.
const CIPHER: &str = "aes128-gcm@openssh.com";

/// haul's defaults.
pub fn haul(site: &BenchSite, workload: &Workload) -> Result<Recipe> {
    haul_with(site, BenchHost::Usual, workload, &[])
}

/// The haul that was named by `--beside`.
pub fn haul_before(site: &BenchSite, workload: &Workload) -> Result<Recipe> {
    haul_with(site, BenchHost::Before, workload, &[])
}

/// haul on a CPU that has no newer instructions.
pub fn haul_old_cpu(site: &BenchSite, workload: &Workload) -> Result<Recipe> {
    haul_with(site, BenchHost::OldCpu, workload, &[])
}

/// haul that authenticates only.
pub fn haul_no_encrypt(site: &BenchSite, workload: &Workload) -> Result<Recipe> {
    haul_with(site, BenchHost::Usual, workload, &["--no-encrypt"])
}

/// haul around the page cache at both ends.
pub fn haul_direct(site: &BenchSite, workload: &Workload) -> Result<Recipe> {
    haul_with(site, BenchHost::Usual, workload, &["-u", "st"])
}

/// haul that reads a pipe.
pub fn haul_pipe(site: &BenchSite, workload: &Workload) -> Result<Recipe> {
    let Recipe { client: haul, server } = haul_from(site, BenchHost::Usual, workload, &[], "-".as_ref())?;
    let mut client = shell("cat \"$0\" | \"$@\"");
    client.arg(&workload.source).arg(haul.get_program()).args(haul.get_args());
    Ok(Recipe { client, server })
}

/// A program's output, read and dropped: the cost of a pipe alone.
pub fn pipe_alone(_: &BenchSite, workload: &Workload) -> Result<Recipe> {
    let mut client = shell("cat \"$0\" | dd bs=512k of=/dev/null");
    client.arg(&workload.source);
    Ok(Recipe { client, server: Server::None })
}

fn haul_with(site: &BenchSite, host: BenchHost, workload: &Workload, options: &[&str]) -> Result<Recipe> {
    haul_from(site, host, workload, options, workload.source.as_os_str())
}

fn haul_from(
    site: &BenchSite,
    host: BenchHost,
    workload: &Workload,
    options: &[&str],
    source: &OsStr,
) -> Result<Recipe> {
    let installed = site.installed(host).context("there is no such haul")?;
    let mut client = Command::new(installed.program);
    client.args(options).args(&workload.options);
    if workload.kind.place() == WorkloadPlace::Local {
        client.args(recursive(workload)).arg(source).arg(site.target(workload));
        return Ok(Recipe { client, server: Server::None });
    }
    client.args(installed.sshd.haul_args());
    match workload.kind.place() {
        WorkloadPlace::Null => client.arg("-f"),
        _ => client.args(recursive(workload)),
    };
    client.arg(source).arg(installed.sshd.location(&into(site, workload)));
    Ok(Recipe { client, server: Server::Sshd(host) })
}

/// Logs in and does nothing: the least time of any tool over ssh.
pub fn ssh_true(site: &BenchSite, _: &Workload) -> Result<Recipe> {
    Ok(Recipe { client: site.sshd.ssh_command(["true"]), server: Server::Sshd(BenchHost::Usual) })
}

/// The loop with one stream.
pub fn bare_loop_1(site: &BenchSite, workload: &Workload) -> Result<Recipe> {
    bare_loop(site, workload, &["--streams", "1"])
}

/// The loop with two streams.
pub fn bare_loop_2(site: &BenchSite, workload: &Workload) -> Result<Recipe> {
    bare_loop(site, workload, &["--streams", "2"])
}

/// The loop with one stream that neither hashes nor seals.
pub fn bare_loop_plain_1(site: &BenchSite, workload: &Workload) -> Result<Recipe> {
    bare_loop(site, workload, &["--streams", "1", "--plain"])
}

/// The loop with two streams that neither hash nor seal.
pub fn bare_loop_plain_2(site: &BenchSite, workload: &Workload) -> Result<Recipe> {
    bare_loop(site, workload, &["--streams", "2", "--plain"])
}

fn bare_loop(site: &BenchSite, workload: &Workload, options: &[&str]) -> Result<Recipe> {
    let port = free_port()?;
    let end = |verb: &str, path: &Path| -> Result<Command> {
        let mut command = site.bare_loop()?;
        command.args([verb, "--port", &port.to_string()]).args(options).arg(path);
        Ok(command)
    };
    let receiver = end("receive", &landing(site, workload))?;
    Ok(Recipe { client: end("send", &workload.source)?, server: Server::Receiver(Box::new(receiver), port) })
}

/// GridFTP with one data connection.
pub fn gridftp_p1(site: &BenchSite, workload: &Workload) -> Result<Recipe> {
    gridftp(site, workload, &["-p", "1"])
}

/// GridFTP with two data connections.
pub fn gridftp_p2(site: &BenchSite, workload: &Workload) -> Result<Recipe> {
    gridftp(site, workload, &["-p", "2"])
}

/// GridFTP with pipelining.
pub fn gridftp_pp(site: &BenchSite, workload: &Workload) -> Result<Recipe> {
    gridftp(site, workload, &["-pp", "-cc", "2", "-r", "-cd"])
}

/// GridFTP with pipelining and two data connections.
pub fn gridftp_pp_p2(site: &BenchSite, workload: &Workload) -> Result<Recipe> {
    gridftp(site, workload, &["-p", "2", "-pp", "-cc", "2", "-r", "-cd"])
}

fn gridftp(site: &BenchSite, workload: &Workload, options: &[&str]) -> Result<Recipe> {
    let (_, port) = site.gridftp().context("the GridFTP server does not run")?;
    // A directory's URL ends with a slash.
    let slash = if workload.is_tree { "/" } else { "" };
    let mut client = Command::new("globus-url-copy");
    client.arg("-fast").args(options).arg(format!("file://{}{slash}", workload.source.display()));
    client.arg(format!("ftp://127.0.0.1:{port}{}{slash}", landing(site, workload).display()));
    Ok(Recipe { client, server: Server::Gridftp })
}

/// bbcp through the page cache.
pub fn bbcp(site: &BenchSite, workload: &Workload) -> Result<Recipe> {
    let program = find_program("bbcp").context("there is no bbcp")?;
    let remote = format!("ssh -x -a -F {} %H {}", site.sshd.ssh_config().display(), program.display());
    let mut client = Command::new(program);
    client.args(["-f", "-s", "4", "-w", "4M", "-T", &remote]).args(recursive(workload));
    client.arg(&workload.source).arg(remote_target(site, workload));
    Ok(Recipe { client, server: Server::Sshd(BenchHost::Usual) })
}

/// The jar of FDT that `HAUL_FDT` names.
pub fn fdt_jar() -> Option<PathBuf> {
    std::env::var_os("HAUL_FDT").map(PathBuf::from).filter(|jar| jar.is_file())
}

/// FDT with a private server, which ends with the copy.
pub fn fdt(site: &BenchSite, workload: &Workload) -> Result<Recipe> {
    let jar = fdt_jar().context("HAUL_FDT names no jar of FDT")?;
    let port = free_port()?;
    let java = |words: &[&str]| {
        let mut java = Command::new("java");
        java.args(["-Djava.net.preferIPv4Stack=true", "-jar"])
            .arg(&jar)
            .args(["-p", &port.to_string(), "-noupdates"])
            .args(words);
        java
    };
    let mut client = java(&["-c", "127.0.0.1", "-P", "4"]);
    client.arg("-d").arg(site.target(workload)).arg(&workload.source);
    Ok(Recipe { client, server: Server::Receiver(Box::new(java(&["-S"])), port) })
}

/// EScp.
pub fn escp(site: &BenchSite, workload: &Workload) -> Result<Recipe> {
    let program = find_program("escp").context("there is no escp")?;
    let mut client = Command::new(&program);
    client.args(["--nodirect", "--quiet", "-P", &site.sshd.port().to_string(), "-F"]).arg(site.sshd.ssh_config());
    client.arg("-D").arg(&program).args(recursive(workload));
    client.arg(&workload.source).arg(remote_target(site, workload));
    Ok(Recipe { client, server: Server::Sshd(BenchHost::Usual) })
}

/// rsync to a daemon.
pub fn rsync_daemon(site: &BenchSite, workload: &Workload) -> Result<Recipe> {
    let (_, port) = site.rsyncd().context("the rsync daemon does not run")?;
    let module = if workload.kind.place() == WorkloadPlace::Disk { "disk" } else { "bench" };
    let mut client = Command::new("rsync");
    client.arg("-r").arg(&workload.source).arg(format!("rsync://127.0.0.1:{port}/{module}/"));
    Ok(Recipe { client, server: Server::Rsyncd })
}

/// rsync over ssh.
pub fn rsync_ssh(site: &BenchSite, workload: &Workload) -> Result<Recipe> {
    let shell = format!("ssh -F {} -c {CIPHER}", site.sshd.ssh_config().display());
    let mut client = Command::new("rsync");
    client.args(["-r", "-e", &shell]).arg(&workload.source).arg(remote_target(site, workload));
    Ok(Recipe { client, server: Server::Sshd(BenchHost::Usual) })
}

/// scp.
pub fn scp(site: &BenchSite, workload: &Workload) -> Result<Recipe> {
    let mut client = Command::new("scp");
    client.arg("-q").arg("-F").arg(site.sshd.ssh_config()).args(["-c", CIPHER]).args(recursive(workload));
    client.arg(&workload.source).arg(remote_target(site, workload));
    Ok(Recipe { client, server: Server::Sshd(BenchHost::Usual) })
}

/// rclone by SFTP.
pub fn rclone(site: &BenchSite, workload: &Workload) -> Result<Recipe> {
    let mut client = Command::new("rclone");
    client.args(["copy", "--config=", "--sftp-host", &site.sshd.host(), "--sftp-port", &site.sshd.port().to_string()]);
    client.arg("--sftp-key-file").arg(site.sshd.identity()).arg("--sftp-known-hosts-file").arg(site.sshd.known_hosts());
    let target = if workload.is_tree { landing(site, workload) } else { site.target(workload) };
    client.arg(&workload.source).arg(format!(":sftp:{}", target.display()));
    Ok(Recipe { client, server: Server::Sshd(BenchHost::Usual) })
}

/// tar through ssh.
pub fn tar_ssh(site: &BenchSite, workload: &Workload) -> Result<Recipe> {
    let config = site.sshd.ssh_config();
    let unpack = format!("tar -C {} -xf -", site.target(workload).display());
    let script =
        format!("{} | ssh -F {} -c {CIPHER} {} '{unpack}'", pack(workload)?, config.display(), site.sshd.host());
    Ok(Recipe { client: shell(&script), server: Server::Sshd(BenchHost::Usual) })
}

/// cat through ssh.
pub fn ssh_cat(site: &BenchSite, workload: &Workload) -> Result<Recipe> {
    let (config, source) = (site.sshd.ssh_config(), &workload.source);
    let script = format!(
        "exec ssh -F {} -c {CIPHER} {} 'exec cat >{}' <{}",
        config.display(),
        site.sshd.host(),
        landing(site, workload).display(),
        source.display()
    );
    Ok(Recipe { client: shell(&script), server: Server::Sshd(BenchHost::Usual) })
}

/// tar through nc.
pub fn tar_nc(site: &BenchSite, workload: &Workload) -> Result<Recipe> {
    let port = free_port()?;
    let receiver = shell(&format!("nc -l 127.0.0.1 {port} | tar -C {} -xf -", site.target(workload).display()));
    let client = shell(&format!("{} | nc -N 127.0.0.1 {port}", pack(workload)?));
    Ok(Recipe { client, server: Server::Receiver(Box::new(receiver), port) })
}

/// nc.
pub fn nc(site: &BenchSite, workload: &Workload) -> Result<Recipe> {
    let port = free_port()?;
    let receiver = shell(&format!("exec nc -l 127.0.0.1 {port} >{}", landing(site, workload).display()));
    let client = shell(&format!("exec nc -N 127.0.0.1 {port} <{}", workload.source.display()));
    Ok(Recipe { client, server: Server::Receiver(Box::new(receiver), port) })
}

/// cp, without a host.
pub fn cp(site: &BenchSite, workload: &Workload) -> Result<Recipe> {
    let mut client = Command::new("cp");
    client.args(recursive(workload)).arg(&workload.source).arg(site.target(workload));
    Ok(Recipe { client, server: Server::None })
}

/// `cp`'s command also makes the unmeasured copy before the first round.
pub fn plain_copy(site: &BenchSite, workload: &Workload) -> Result<Command> {
    cp(site, workload).map(|recipe| recipe.client)
}

fn recursive(workload: &Workload) -> &'static [&'static str] {
    if workload.is_tree { &["-r"] } else { &[] }
}

/// The copy's expected path.
pub fn landing(site: &BenchSite, workload: &Workload) -> PathBuf {
    match workload.kind.place() {
        WorkloadPlace::Null => PathBuf::from("/dev/null"),
        _ => site.target(workload).join(&workload.name),
    }
}

/// The target: the directory, or `/dev/null`.
fn into(site: &BenchSite, workload: &Workload) -> PathBuf {
    match workload.kind.place() {
        WorkloadPlace::Null => PathBuf::from("/dev/null"),
        _ => site.target(workload),
    }
}

fn remote_target(site: &BenchSite, workload: &Workload) -> std::ffi::OsString {
    site.sshd.location(&into(site, workload))
}

fn pack(workload: &Workload) -> Result<String> {
    let parent = workload.source.parent().context("a source has a parent directory")?;
    Ok(format!("tar -C {} -cf - {}", parent.display(), workload.name))
}

fn shell(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.arg("-c").arg(script);
    command
}
