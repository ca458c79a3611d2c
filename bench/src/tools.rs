//! The tools that are compared: which they are, what they need, and how each is told to copy.
//!
//! Every recipe has the same outcome: the source, under its own name, in the target
//! directory (or its bytes in `/dev/null`). None preserves attributes.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::daemon::free_port;
use crate::site::Site;
use crate::workload::{Kind, Workload};

/// The fastest of ssh's ciphers on machines with AES instructions.
const CIPHER: &str = "aes128-gcm@openssh.com";

/// What `--install` installs.
pub const DEBIAN_PACKAGES: [&str; 6] =
    ["openssh-server", "rsync", "netcat-openbsd", "rclone", "globus-gass-copy-progs", "globus-gridftp-server-progs"];

/// Where servers are that are not in every user's PATH.
const MORE_DIRECTORIES: [&str; 2] = ["/usr/sbin", "/usr/local/sbin"];

/// One row of the tables.
#[derive(Debug, Clone, Copy)]
pub struct Tool {
    /// As on the command line.
    pub name: &'static str,
    /// How it is told to copy, for the reader.
    pub about: &'static str,
    /// Programs that must be there; `haul` is the one that the site found.
    pub needs: &'static [&'static str],
    /// What to do when they are not.
    pub remedy: &'static str,
    /// What it is compared on.
    pub kinds: &'static [Kind],
    recipe: fn(&Site, &Workload) -> Result<Recipe>,
}

/// What is run for one copy.
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
    /// The site's sshd.
    Sshd,
    /// The site's rsync daemon.
    Rsyncd,
    /// The site's GridFTP server.
    Gridftp,
    /// A program for this copy alone, to be started first, and the port it listens on.
    Receiver(Box<Command>, u16),
}

const FILES: &[Kind] = &[Kind::Big, Kind::Null];
const TREES: &[Kind] = &[Kind::Small, Kind::Mixed];
const NOT_NULL: &[Kind] = &[Kind::Big, Kind::Small, Kind::Mixed];
const BUILD_HAUL: &str = "cargo build --release --package haul, or --haul PATH";
const INSTALL: &str = "--install";
const FROM_SOURCE: &str = "not in Debian: build it and put it into PATH";

/// All tools, in the order of the tables.
#[rustfmt::skip]
pub const ALL: [Tool; 17] = [
    Tool { name: "haul", about: "defaults", needs: &["haul"], remedy: BUILD_HAUL, kinds: &Kind::ALL, recipe: haul },
    Tool { name: "haul-no-encrypt", about: "--no-encrypt", needs: &["haul"], remedy: BUILD_HAUL, kinds: &Kind::ALL, recipe: haul_no_encrypt },
    Tool { name: "gridftp-p1", about: "globus-url-copy -fast -p 1, unencrypted", needs: GRIDFTP, remedy: INSTALL, kinds: FILES, recipe: gridftp_p1 },
    Tool { name: "gridftp-p2", about: "globus-url-copy -fast -p 2, unencrypted", needs: GRIDFTP, remedy: INSTALL, kinds: FILES, recipe: gridftp_p2 },
    Tool { name: "gridftp-pp", about: "globus-url-copy -fast -pp -cc 2 -r, unencrypted", needs: GRIDFTP, remedy: INSTALL, kinds: TREES, recipe: gridftp_pp },
    Tool { name: "gridftp-pp-p2", about: "globus-url-copy -fast -p 2 -pp -cc 2 -r, unencrypted", needs: GRIDFTP, remedy: INSTALL, kinds: TREES, recipe: gridftp_pp_p2 },
    Tool { name: "bbcp", about: "-s 4 -w 4M, unencrypted", needs: &["bbcp"], remedy: FROM_SOURCE, kinds: &[Kind::Big, Kind::Null, Kind::Small, Kind::Mixed], recipe: bbcp },
    Tool { name: "escp", about: "--nodirect, AES-128-GCM", needs: &["escp"], remedy: FROM_SOURCE, kinds: NOT_NULL, recipe: escp },
    Tool { name: "rsync-daemon", about: "rsync -r to a daemon, unencrypted", needs: &["rsync"], remedy: INSTALL, kinds: NOT_NULL, recipe: rsync_daemon },
    Tool { name: "rsync-ssh", about: "rsync -r over ssh, aes128-gcm", needs: &["rsync", "ssh"], remedy: INSTALL, kinds: NOT_NULL, recipe: rsync_ssh },
    Tool { name: "scp", about: "aes128-gcm", needs: &["scp"], remedy: INSTALL, kinds: NOT_NULL, recipe: scp },
    Tool { name: "rclone-sftp", about: "defaults (its own ssh, checks by md5sum)", needs: &["rclone"], remedy: INSTALL, kinds: NOT_NULL, recipe: rclone },
    Tool { name: "tar-ssh", about: "tar | ssh tar, aes128-gcm", needs: &["tar", "ssh"], remedy: INSTALL, kinds: TREES, recipe: tar_ssh },
    Tool { name: "ssh-cat", about: "ssh 'cat >', aes128-gcm", needs: &["ssh"], remedy: INSTALL, kinds: FILES, recipe: ssh_cat },
    Tool { name: "tar-nc", about: "tar | nc, unencrypted", needs: &["tar", "nc"], remedy: INSTALL, kinds: TREES, recipe: tar_nc },
    Tool { name: "nc", about: "unencrypted", needs: &["nc"], remedy: INSTALL, kinds: FILES, recipe: nc },
    Tool { name: "cp", about: "local, for reference", needs: &["cp"], remedy: INSTALL, kinds: &[Kind::Big, Kind::Small, Kind::Mixed], recipe: cp },
];

const GRIDFTP: &[&str] = &["globus-url-copy", "globus-gridftp-server"];

impl Tool {
    /// Whether `name` means this tool: its own name, or that of its family (`gridftp`).
    pub fn is_called(&self, name: &str) -> bool {
        self.name == name || self.name.strip_prefix(name).is_some_and(|rest| rest.starts_with('-'))
    }

    /// Whether it is haul.
    pub fn is_haul(&self) -> bool {
        self.is_called("haul")
    }

    /// Why it cannot be run here, and what to do; none when it can.
    pub fn missing(&self, site: &Site) -> Option<String> {
        let there =
            |program: &str| if program == "haul" { site.haul.is_some() } else { find_program(program).is_some() };
        let lacking: Vec<&str> = self.needs.iter().copied().filter(|program| !there(program)).collect();
        (!lacking.is_empty()).then(|| format!("not found: {} ({})", lacking.join(", "), self.remedy))
    }

    /// How it copies this workload here.
    pub fn recipe(&self, site: &Site, workload: &Workload) -> Result<Recipe> {
        (self.recipe)(site, workload)
    }
}

/// Looks for a program in PATH and where servers are.
pub fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places = std::env::split_paths(&path).chain(MORE_DIRECTORIES.iter().map(PathBuf::from));
    places.map(|directory| directory.join(name)).find(|candidate| candidate.is_file())
}

fn haul(site: &Site, workload: &Workload) -> Result<Recipe> {
    haul_with(site, workload, &[])
}

fn haul_no_encrypt(site: &Site, workload: &Workload) -> Result<Recipe> {
    haul_with(site, workload, &["--no-encrypt"])
}

fn haul_with(site: &Site, workload: &Workload, options: &[&str]) -> Result<Recipe> {
    let program = site.haul.as_ref().context("there is no haul")?;
    let mut client = Command::new(program);
    client.args(options).args(site.sshd.haul_args());
    match workload.kind {
        Kind::Null => client.arg("-f"),
        _ => client.args(recursive(workload)),
    };
    client.arg(&workload.source).arg(remote_target(site, workload));
    Ok(Recipe { client, server: Server::Sshd })
}

fn gridftp_p1(site: &Site, workload: &Workload) -> Result<Recipe> {
    gridftp(site, workload, &["-p", "1"])
}

fn gridftp_p2(site: &Site, workload: &Workload) -> Result<Recipe> {
    gridftp(site, workload, &["-p", "2"])
}

fn gridftp_pp(site: &Site, workload: &Workload) -> Result<Recipe> {
    gridftp(site, workload, &["-pp", "-cc", "2", "-r", "-cd"])
}

fn gridftp_pp_p2(site: &Site, workload: &Workload) -> Result<Recipe> {
    gridftp(site, workload, &["-p", "2", "-pp", "-cc", "2", "-r", "-cd"])
}

fn gridftp(site: &Site, workload: &Workload, options: &[&str]) -> Result<Recipe> {
    let (_, port) = site.gridftp().context("the GridFTP server does not run")?;
    // A directory's URL ends with a slash.
    let slash = if workload.kind.is_tree() { "/" } else { "" };
    let mut client = Command::new("globus-url-copy");
    client.arg("-fast").args(options).arg(format!("file://{}{slash}", workload.source.display()));
    client.arg(format!("ftp://127.0.0.1:{port}{}{slash}", landing(site, workload).display()));
    Ok(Recipe { client, server: Server::Gridftp })
}

fn bbcp(site: &Site, workload: &Workload) -> Result<Recipe> {
    let program = find_program("bbcp").context("there is no bbcp")?;
    let remote = format!("ssh -x -a -F {} %H {}", site.sshd.ssh_config().display(), program.display());
    let mut client = Command::new(program);
    client.args(["-f", "-s", "4", "-w", "4M", "-T", &remote]).args(recursive(workload));
    client.arg(&workload.source).arg(remote_target(site, workload));
    Ok(Recipe { client, server: Server::Sshd })
}

fn escp(site: &Site, workload: &Workload) -> Result<Recipe> {
    let program = find_program("escp").context("there is no escp")?;
    let mut client = Command::new(&program);
    client.args(["--nodirect", "--quiet", "-P", &site.sshd.port().to_string(), "-F"]).arg(site.sshd.ssh_config());
    client.arg("-D").arg(&program).args(recursive(workload));
    client.arg(&workload.source).arg(remote_target(site, workload));
    Ok(Recipe { client, server: Server::Sshd })
}

fn rsync_daemon(site: &Site, workload: &Workload) -> Result<Recipe> {
    let (_, port) = site.rsyncd().context("the rsync daemon does not run")?;
    let mut client = Command::new("rsync");
    client.arg("-r").arg(&workload.source).arg(format!("rsync://127.0.0.1:{port}/bench/"));
    Ok(Recipe { client, server: Server::Rsyncd })
}

fn rsync_ssh(site: &Site, workload: &Workload) -> Result<Recipe> {
    let shell = format!("ssh -F {} -c {CIPHER}", site.sshd.ssh_config().display());
    let mut client = Command::new("rsync");
    client.args(["-r", "-e", &shell]).arg(&workload.source).arg(remote_target(site, workload));
    Ok(Recipe { client, server: Server::Sshd })
}

fn scp(site: &Site, workload: &Workload) -> Result<Recipe> {
    let mut client = Command::new("scp");
    client.arg("-q").arg("-F").arg(site.sshd.ssh_config()).args(["-c", CIPHER]).args(recursive(workload));
    client.arg(&workload.source).arg(remote_target(site, workload));
    Ok(Recipe { client, server: Server::Sshd })
}

fn rclone(site: &Site, workload: &Workload) -> Result<Recipe> {
    let mut client = Command::new("rclone");
    client.args(["copy", "--config=", "--sftp-host", &site.sshd.host(), "--sftp-port", &site.sshd.port().to_string()]);
    client.arg("--sftp-key-file").arg(site.sshd.identity()).arg("--sftp-known-hosts-file").arg(site.sshd.known_hosts());
    let target = if workload.kind.is_tree() { landing(site, workload) } else { site.target() };
    client.arg(&workload.source).arg(format!(":sftp:{}", target.display()));
    Ok(Recipe { client, server: Server::Sshd })
}

fn tar_ssh(site: &Site, workload: &Workload) -> Result<Recipe> {
    let config = site.sshd.ssh_config();
    let unpack = format!("tar -C {} -xf -", site.target().display());
    let script =
        format!("{} | ssh -F {} -c {CIPHER} {} '{unpack}'", pack(workload)?, config.display(), site.sshd.host());
    Ok(Recipe { client: shell(&script), server: Server::Sshd })
}

fn ssh_cat(site: &Site, workload: &Workload) -> Result<Recipe> {
    let (config, source) = (site.sshd.ssh_config(), &workload.source);
    let script = format!(
        "exec ssh -F {} -c {CIPHER} {} 'exec cat >{}' <{}",
        config.display(),
        site.sshd.host(),
        landing(site, workload).display(),
        source.display()
    );
    Ok(Recipe { client: shell(&script), server: Server::Sshd })
}

fn tar_nc(site: &Site, workload: &Workload) -> Result<Recipe> {
    let port = free_port()?;
    let receiver = shell(&format!("nc -l 127.0.0.1 {port} | tar -C {} -xf -", site.target().display()));
    let client = shell(&format!("{} | nc -N 127.0.0.1 {port}", pack(workload)?));
    Ok(Recipe { client, server: Server::Receiver(Box::new(receiver), port) })
}

fn nc(site: &Site, workload: &Workload) -> Result<Recipe> {
    let port = free_port()?;
    let receiver = shell(&format!("exec nc -l 127.0.0.1 {port} >{}", landing(site, workload).display()));
    let client = shell(&format!("exec nc -N 127.0.0.1 {port} <{}", workload.source.display()));
    Ok(Recipe { client, server: Server::Receiver(Box::new(receiver), port) })
}

fn cp(site: &Site, workload: &Workload) -> Result<Recipe> {
    let mut client = Command::new("cp");
    client.args(recursive(workload)).arg(&workload.source).arg(site.target());
    Ok(Recipe { client, server: Server::None })
}

/// What `cp` does is also the unmeasured copy that precedes the first round.
pub fn plain_copy(site: &Site, workload: &Workload) -> Result<Command> {
    cp(site, workload).map(|recipe| recipe.client)
}

fn recursive(workload: &Workload) -> &'static [&'static str] {
    if workload.kind.is_tree() { &["-r"] } else { &[] }
}

/// The path at which the copy is expected.
pub fn landing(site: &Site, workload: &Workload) -> PathBuf {
    match workload.kind {
        Kind::Null => PathBuf::from("/dev/null"),
        kind => site.target().join(kind.name()),
    }
}

/// The operand for the target: the directory, or `/dev/null`.
fn remote_target(site: &Site, workload: &Workload) -> std::ffi::OsString {
    match workload.kind {
        Kind::Null => site.sshd.location(Path::new("/dev/null")),
        _ => site.sshd.location(&site.target()),
    }
}

fn pack(workload: &Workload) -> Result<String> {
    let parent = workload.source.parent().context("a source has a parent directory")?;
    Ok(format!("tar -C {} -cf - {}", parent.display(), workload.kind.name()))
}

fn shell(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.arg("-c").arg(script);
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_are_called_by_their_first_word() {
        let called =
            |name: &str| ALL.iter().filter(|tool| tool.is_called(name)).map(|tool| tool.name).collect::<Vec<_>>();
        assert_eq!(called("haul"), ["haul", "haul-no-encrypt"]);
        assert_eq!(called("gridftp"), ["gridftp-p1", "gridftp-p2", "gridftp-pp", "gridftp-pp-p2"]);
        assert_eq!(called("nc"), ["nc"]);
        assert_eq!(called("rsync-ssh"), ["rsync-ssh"]);
        assert!(called("").is_empty() && called("rsy").is_empty());
    }

    #[test]
    fn names_are_unique_and_only_haul_does_empty_files() {
        for (index, tool) in ALL.iter().enumerate() {
            assert!(ALL[index + 1..].iter().all(|other| other.name != tool.name), "{}", tool.name);
            assert_eq!(tool.kinds.contains(&Kind::Empty), tool.is_haul(), "{}", tool.name);
            assert!(!tool.kinds.is_empty() && !tool.needs.is_empty());
        }
    }

    #[test]
    fn programs_are_found_in_path_only_if_there() {
        assert!(find_program("sh").is_some_and(|path| path.is_absolute()));
        assert!(find_program("no-such-program-of-haul").is_none());
    }
}
