//! Limits of the system: settings of the kernel and of sshd that every user can see.

use std::fs;

use haul_proto::wire::network_settings::{NetworkSettings, SocketBuffers, TcpBuffers};

use crate::sys::{interface_settings, interfaces, machine};

/// Most ancestors of a process to look at.
const ANCESTORS_MAX: usize = 32;
/// Most bytes to read from one file.
const FILE_MAX: u64 = 64 << 10;

/// Returns the kernel's settings for the network.
pub fn network() -> NetworkSettings {
    let one = |name: &str| numbers::<1>(&format!("net/core/{name}"))[0];
    let tcp = |name: &str| {
        let [min_bytes, default_bytes, max_bytes] = numbers(&format!("net/ipv4/{name}"));
        TcpBuffers { min_bytes, default_bytes, max_bytes }
    };
    let advertised = interfaces::addresses();
    let mut settings = interface_settings::interfaces();
    settings.retain(|interface| advertised.iter().any(|local| local.interface == interface.name));
    NetworkSettings {
        receive: SocketBuffers { default_bytes: one("rmem_default"), max_bytes: one("rmem_max") },
        send: SocketBuffers { default_bytes: one("wmem_default"), max_bytes: one("wmem_max") },
        optmem_max_bytes: one("optmem_max"),
        backlog_max_packets: one("netdev_max_backlog"),
        tcp_receive: tcp("tcp_rmem"),
        tcp_send: tcp("tcp_wmem"),
        free_memory_bytes: machine::available_memory_bytes(),
        interfaces: settings,
    }
}

/// Returns the numbers of a kernel setting; zeros if unknown.
fn numbers<const N: usize>(name: &str) -> [u64; N] {
    let text = fs::read_to_string(format!("/proc/sys/{name}")).unwrap_or_default();
    let numbers: Option<Vec<u64>> = text.split_ascii_whitespace().map(|word| word.parse().ok()).collect();
    numbers.and_then(|numbers| numbers.try_into().ok()).unwrap_or([0; N])
}

/// Returns the limits of the sshd that started this process: of unauthenticated connections, from how many on some are
/// refused, and from how many on all (`10-100`). Its title has them. Empty if it has none, as where inetd starts sshd:
/// a configuration file may be that of another sshd.
pub fn max_startups() -> String {
    let ancestors = std::iter::successors(parent("self"), |pid| parent(pid));
    let titles = ancestors.take(ANCESTORS_MAX).map(|pid| read(&format!("/proc/{pid}/cmdline")));
    titles.flatten().find_map(|title| startups_of_title(&title)).unwrap_or_default()
}

/// Returns the parent of a process, as proc(5) has it.
fn parent(pid: &str) -> Option<String> {
    let status = read(&format!("/proc/{pid}/status"))?;
    let parent = status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim();
    (parent != "0").then(|| parent.to_owned())
}

fn read(path: &str) -> Option<String> {
    use std::io::Read;
    let mut bytes = Vec::new();
    fs::File::open(path).ok()?.take(FILE_MAX).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// Parses the title of a listening sshd: `sshd: /usr/sbin/sshd -D [listener] 0 of 10-100 startups`.
fn startups_of_title(title: &str) -> Option<String> {
    let (_, counts) = title.strip_prefix("sshd: ")?.rsplit_once("[listener] ")?;
    let (_, limits) = counts.trim_end_matches(['\0', ' ']).strip_suffix(" startups")?.split_once(" of ")?;
    let is_limit = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let (begin, full) = limits.split_once('-')?;
    (is_limit(begin) && is_limit(full)).then(|| limits.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limits_are_those_of_the_sshd_that_answered() {
        let of = |title: &str| startups_of_title(title);
        assert_eq!(of("sshd: /usr/sbin/sshd -D [listener] 0 of 10-100 startups\0\0").as_deref(), Some("10-100"));
        assert_eq!(of("sshd: sshd -f /x/[listener] 1 [listener] 3 of 5-9 startups").as_deref(), Some("5-9"));
        for title in ["sshd: root@notty", "sshd-session: root [priv]", "bash\0-c\0[listener] 0 of 1-2 startups", ""] {
            assert_eq!(of(title), None, "{title}");
        }
        assert_eq!(of("sshd: sshd [listener] 0 of a-b startups"), None);
        assert_eq!(parent("self").map(|pid| parent(&pid).is_some()), Some(true));
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
