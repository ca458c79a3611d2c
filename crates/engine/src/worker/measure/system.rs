//! Limits of the system: settings of the kernel and of sshd that every user can read.

use std::fs;
use std::path::{Path, PathBuf};

use haul_proto::wire::network_settings::{NetworkSettings, SocketBuffers, TcpBuffers};

use crate::sys::{interfaces, links, memory};

/// Configuration directory of sshd.
const SSHD: &str = "/etc/ssh";
/// Default of sshd's MaxStartups (sshd_config(5)).
const MAX_STARTUPS: &str = "10:30:100";
/// Most bytes to read from one file.
const FILE_MAX: u64 = 256 << 10;
/// Most configuration files of sshd to read.
const FILES_MAX: usize = 64;

/// Returns the kernel's settings for the network.
pub fn network() -> NetworkSettings {
    let one = |name: &str| numbers::<1>(&format!("net/core/{name}"))[0];
    let tcp = |name: &str| {
        let [min_bytes, default_bytes, max_bytes] = numbers(&format!("net/ipv4/{name}"));
        TcpBuffers { min_bytes, default_bytes, max_bytes }
    };
    let advertised = interfaces::addresses();
    let mut links = links::interfaces();
    links.retain(|link| advertised.iter().any(|local| local.interface == link.name));
    NetworkSettings {
        receive: SocketBuffers { default_bytes: one("rmem_default"), max_bytes: one("rmem_max") },
        send: SocketBuffers { default_bytes: one("wmem_default"), max_bytes: one("wmem_max") },
        optmem_max_bytes: one("optmem_max"),
        backlog_max_packets: one("netdev_max_backlog"),
        tcp_receive: tcp("tcp_rmem"),
        tcp_send: tcp("tcp_wmem"),
        free_memory_bytes: memory::available_bytes(),
        interfaces: links,
    }
}

/// Returns the numbers of a kernel setting; zeros if unknown.
fn numbers<const N: usize>(name: &str) -> [u64; N] {
    let text = fs::read_to_string(format!("/proc/sys/{name}")).unwrap_or_default();
    let numbers: Option<Vec<u64>> = text.split_ascii_whitespace().map(|word| word.parse().ok()).collect();
    numbers.and_then(|numbers| numbers.try_into().ok()).unwrap_or([0; N])
}

/// Returns sshd's limit of unauthenticated connections; empty if its configuration is unreadable.
pub fn max_startups() -> String {
    in_directory(Path::new(SSHD)).unwrap_or_default()
}

/// Returns the first value, which is the effective one. Included files come first: distributions place the Include line
/// at the beginning.
fn in_directory(directory: &Path) -> Option<String> {
    let main = read(&directory.join("sshd_config"))?;
    let mut included: Vec<PathBuf> = fs::read_dir(directory.join("sshd_config.d"))
        .map(|entries| entries.flatten().map(|entry| entry.path()).take(FILES_MAX).collect())
        .unwrap_or_default();
    included.retain(|path| path.extension().is_some_and(|ending| ending == "conf"));
    included.sort();
    let texts = included.iter().map(|path| read(path)).chain([Some(main)]);
    for text in texts {
        // An unreadable file may contain any setting.
        if let Some(value) = first_max_startups(&text?) {
            return Some(value);
        }
    }
    Some(MAX_STARTUPS.to_owned())
}

fn read(path: &Path) -> Option<String> {
    use std::io::Read;
    let mut text = String::new();
    fs::File::open(path).ok()?.take(FILE_MAX).read_to_string(&mut text).ok()?;
    Some(text)
}

fn first_max_startups(text: &str) -> Option<String> {
    let mut lines = text.lines().map(|line| line.split([' ', '\t', '=']).filter(|word| !word.is_empty()));
    lines.find_map(|mut words| {
        words.next().filter(|word| word.eq_ignore_ascii_case("MaxStartups"))?;
        words.next().map(|value| value.chars().filter(|letter| letter.is_ascii_digit() || *letter == ':').collect())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sshds_first_setting_counts_and_an_absent_one_is_its_default() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(in_directory(dir.path()), None, "no sshd");
        fs::write(dir.path().join("sshd_config"), "# MaxStartups 1\nPort 22\n").unwrap();
        assert_eq!(in_directory(dir.path()).as_deref(), Some("10:30:100"));
        fs::write(dir.path().join("sshd_config"), "Port 22\n  maxstartups\t5:50:9\n").unwrap();
        assert_eq!(in_directory(dir.path()).as_deref(), Some("5:50:9"));
        fs::create_dir(dir.path().join("sshd_config.d")).unwrap();
        fs::write(dir.path().join("sshd_config.d/50-site.conf"), "MaxStartups=100\n").unwrap();
        fs::write(dir.path().join("sshd_config.d/60-old.txt"), "MaxStartups 3\n").unwrap();
        assert_eq!(in_directory(dir.path()).as_deref(), Some("100"));
    }

    #[test]
    fn an_absent_setting_is_unknown() {
        assert_eq!(numbers::<1>("net/core/absent"), [0]);
        assert!(numbers::<1>("kernel/pid_max")[0] > 0);
        assert_eq!(numbers::<2>("kernel/pid_max"), [0; 2], "as many as there are, or none");
        let found = network();
        assert!(found.tcp_receive.min_bytes > 0 && found.tcp_send.max_bytes >= found.tcp_send.min_bytes, "{found:?}");
        assert!(found.free_memory_bytes > 0, "{found:?}");
    }
}
