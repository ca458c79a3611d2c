//! Sets TCP_NODELAY and TCP_QUICKACK on the TCP connection of a child process.
//!
//! OpenSSH logs in without TCP_NODELAY. Twice, once at each end, it sends a small message after another one without a
//! reply, and waits for its delayed acknowledgement: 40 ms. A process can take a child's socket (pidfd_getfd(2), Linux
//! 5.6) where it might trace it. Nothing is read from, written to or kept of the socket.

use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use rustix::io::Errno;
use rustix::net::sockopt::{set_tcp_nodelay, set_tcp_quickack, socket_protocol};
use rustix::net::{SocketAddrUnix, getpeername, ipproto};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

/// Where a program that opens few files has its first connection.
const DESCRIPTORS: RangeInclusive<i32> = 3..=8;

/// Yama's rule for tracing; absent without Yama.
const SCOPE: &str = "/proc/sys/kernel/yama/ptrace_scope";

/// The state of an open connection in /proc/net/tcp.
const ESTABLISHED: &str = "01";

/// As far as a process may trace its children.
const CHILDREN: u8 = 1;

/// Another process.
#[derive(Debug)]
pub struct Prompter(OwnedFd);

impl Prompter {
    /// Of a child. `None` where that is not for this process: a system that forbids it is not asked, since it would
    /// write that down as an attempt to trace.
    pub fn of(child: u32) -> Option<Self> {
        let scope = fs::read_to_string(SCOPE).map_or(Some(0), |scope| scope.trim().parse::<u8>().ok());
        let child = i32::try_from(child).ok().and_then(Pid::from_raw)?;
        scope.filter(|scope| *scope <= CHILDREN)?;
        pidfd_open(child, PidfdFlags::empty()).ok().map(Self)
    }

    /// Prompts its connection, if it has one by now. `false` where there is no use in trying again.
    pub fn prompt(&self) -> bool {
        self.connection().is_ok_and(|connection| {
            // Whoever cannot be hurried takes its time.
            let _ =
                connection.map(|socket| set_tcp_nodelay(&socket, true).and_then(|()| set_tcp_quickack(&socket, true)));
            true
        })
    }

    /// Where its connection leads, if it has one: what a host says of itself is not needed then.
    pub fn peer(&self) -> Option<IpAddr> {
        let connection = self.connection().ok().flatten()?;
        let peer = getpeername(&connection).ok().flatten()?;
        SocketAddr::try_from(peer).ok().map(|peer| peer.ip().to_canonical())
    }

    /// Whether it is a client of another ssh (ControlMaster): its only descriptor besides the standard ones leads to a
    /// socket with a name. One that resolves a name may look like that for a moment.
    pub fn shares_connection(&self) -> bool {
        let is_open = |number| pidfd_getfd(&self.0, number, PidfdGetfdFlags::empty());
        let mut open = DESCRIPTORS.filter_map(|number| is_open(number).ok());
        let (Some(only), None) = (open.next(), open.next()) else { return false };
        let peer = getpeername(&only).ok().flatten().and_then(|peer| SocketAddrUnix::try_from(peer).ok());
        peer.is_some_and(|peer| peer.path().is_some())
    }

    fn connection(&self) -> Result<Option<OwnedFd>, Errno> {
        for descriptor in DESCRIPTORS {
            match pidfd_getfd(&self.0, descriptor, PidfdGetfdFlags::empty()) {
                Ok(found) if matches!(socket_protocol(&found), Ok(Some(ipproto::TCP))) => return Ok(Some(found)),
                Ok(_) | Err(Errno::BADF) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }
}

/// Where the only TCP connection of a process of this user leads. Takes no socket, since only a child's can be taken.
pub fn peer_of(process: u32) -> Option<IpAddr> {
    let own: Vec<PathBuf> =
        fs::read_dir(format!("/proc/{process}/fd")).ok()?.flatten().flat_map(|fd| fs::read_link(fd.path())).collect();
    let tables = ["tcp", "tcp6"].map(|table| fs::read_to_string(format!("/proc/{process}/net/{table}")));
    let rows = tables.iter().flatten().flat_map(|table| table.lines()).map(|row| row.split_ascii_whitespace());
    let mut peers = rows.filter_map(|row| {
        let row: Vec<&str> = row.collect();
        let (&peer, &state, inode) = (row.get(2)?, row.get(3)?, row.get(9)?);
        let link = PathBuf::from(format!("socket:[{inode}]"));
        (state == ESTABLISHED && own.contains(&link)).then_some(peer)
    });
    let (Some(only), None) = (peers.next(), peers.next()) else { return None };
    address(only.split_once(':')?.0)
}

/// Reads an address of such a table: words in the machine's order of bytes.
fn address(digits: &str) -> Option<IpAddr> {
    let word = |at: usize| u32::from_str_radix(digits.get(at..at + 8)?, 16).ok().map(u32::to_ne_bytes);
    let bytes = (0..digits.len()).step_by(8).map(word).collect::<Option<Vec<_>>>()?.concat();
    let address = <[u8; 4]>::try_from(&*bytes).map(IpAddr::from);
    Some(address.or_else(|_| <[u8; 16]>::try_from(&*bytes).map(IpAddr::from)).ok()?.to_canonical())
}

/// Also for tests of callers.
#[cfg(test)]
pub mod tests {
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};
    use std::process::{Child, Command, Stdio};

    use rustix::net::sockopt::tcp_nodelay;

    use super::*;

    /// A shell script that connects to `listener` as descriptor 3, and then runs `then`.
    pub fn connecting(listener: &TcpListener, then: &str) -> String {
        format!("exec 3<>/dev/tcp/127.0.0.1/{}; {then}", listener.local_addr().unwrap().port())
    }

    /// Whether the connection of a process sends small things at once; `None` where it has none.
    pub fn is_prompt(child: u32) -> Option<bool> {
        let connection = Prompter::of(child).unwrap().connection().unwrap();
        connection.map(|socket| tcp_nodelay(&socket).unwrap())
    }

    fn shell(script: &str) -> Child {
        let mut command = Command::new("timeout");
        command.args(["--foreground", "20", "bash", "-c", &format!("exec 3>&- 4>&-; {script}")]);
        command.stdin(Stdio::piped()).spawn().unwrap()
    }

    /// `timeout` is a process of its own, and its child the one that is meant.
    fn child_of(process: &Child) -> u32 {
        let path = format!("/proc/{0}/task/{0}/children", process.id());
        loop {
            if let Ok(child) = fs::read_to_string(&path).unwrap().trim().parse() {
                return child;
            }
        }
    }

    #[test]
    fn a_childs_connection_is_found_and_prompted() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut process = shell(&connecting(&listener, "read x"));
        let (_accepted, _): (TcpStream, _) = listener.accept().unwrap();
        let shell = child_of(&process);
        while is_prompt(shell).is_none() {}
        assert_eq!(is_prompt(shell), Some(false));
        let peer = Some(IpAddr::from([127, 0, 0, 1]));
        assert_eq!((Prompter::of(shell).unwrap().peer(), peer_of(shell)), (peer, peer));
        assert_eq!(address("B80D0120000000000000000001000000"), "2001:db8::1".parse().ok());
        assert!(Prompter::of(shell).unwrap().prompt());
        assert_eq!(is_prompt(shell), Some(true));
        process.stdin.take().unwrap().write_all(b"\n").unwrap();
        process.wait().unwrap();
    }

    #[test]
    fn a_client_of_a_shared_connection_is_known_by_its_only_socket() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("control");
        let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        // bash connects to no named socket, so the child gets it at its start.
        let client = std::os::unix::net::UnixStream::connect(&path).unwrap();
        let _accepted = listener.accept().unwrap();
        let child = |script: &str| {
            let fd = OwnedFd::from(client.try_clone().unwrap());
            let mut command = Command::new("bash");
            command.args(["-c", &format!("{script}; echo; read -t 20 x")]).stdin(Stdio::piped());
            let mut child = command.stdout(Stdio::piped()).stderr(fd).spawn().unwrap();
            std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut [0]).unwrap();
            child
        };
        for (script, is_shared) in
            [("exec 3>&2 2>/dev/null", true), ("exec 3>&2 4</dev/null", false), ("exec 3</dev/null", false)]
        {
            let mut process = child(script);
            assert_eq!(Prompter::of(process.id()).unwrap().shares_connection(), is_shared, "{script}");
            process.kill().unwrap();
            process.wait().unwrap();
        }
    }

    #[test]
    fn a_login_may_connect_late_but_not_after_its_end() {
        let mut process = shell("read x");
        let prompter = Prompter::of(child_of(&process)).unwrap();
        assert!(prompter.prompt() && prompter.peer().is_none());
        process.stdin.take().unwrap().write_all(b"\n").unwrap();
        process.wait().unwrap();
        assert!(!prompter.prompt());
    }
}
