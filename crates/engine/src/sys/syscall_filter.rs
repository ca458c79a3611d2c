//! The permitted system calls of a confined thread: a seccomp filter (seccomp(2)) beside Landlock.
//!
//! Landlock restricts files and TCP ports. It does not cover other sockets, namespaces and tracing of processes. The
//! filter permits the calls for transfers; every other call fails with ENOSYS, as on a kernel without it. Requests of
//! io_uring are not filtered: SECURITY.md states that limit.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};

/// Flags of clone(2) that create namespaces.
const NEW_NAMESPACES: u64 = (libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWUTS) as u64;
/// Requests of ioctl(2) that insert characters into a terminal's input; their types differ between C libraries.
const TIOCSTI: u64 = 0x5412;
const TIOCLINUX: u64 = 0x541c;
/// The part of a socket's type without flags (`SOCK_TYPE_MASK` in the kernel).
const SOCKET_TYPE: u64 = 0xf;

/// Permitted with any arguments.
#[rustfmt::skip]
const ALLOWED: &[libc::c_long] = &[
    // Files by descriptor.
    libc::SYS_close, libc::SYS_close_range, libc::SYS_copy_file_range, libc::SYS_dup, libc::SYS_dup3,
    libc::SYS_fadvise64, libc::SYS_fallocate, libc::SYS_fchdir, libc::SYS_fchmod, libc::SYS_fchown, libc::SYS_fcntl,
    libc::SYS_fdatasync, libc::SYS_fgetxattr, libc::SYS_flistxattr, libc::SYS_flock, libc::SYS_fremovexattr,
    libc::SYS_fsetxattr, libc::SYS_fstat, libc::SYS_fstatfs, libc::SYS_fsync, libc::SYS_ftruncate,
    libc::SYS_getdents64, libc::SYS_lseek, libc::SYS_pread64, libc::SYS_preadv, libc::SYS_preadv2, libc::SYS_pwrite64,
    libc::SYS_pwritev, libc::SYS_pwritev2, libc::SYS_read, libc::SYS_readahead, libc::SYS_readv, libc::SYS_sendfile,
    libc::SYS_splice, libc::SYS_sync_file_range, libc::SYS_syncfs, libc::SYS_write, libc::SYS_writev,
    CACHESTAT,
    // Names, restricted by Landlock.
    libc::SYS_faccessat, libc::SYS_faccessat2, libc::SYS_fchmodat, FCHMODAT2, libc::SYS_fchownat, libc::SYS_getcwd,
    libc::SYS_getxattr, libc::SYS_lgetxattr, libc::SYS_linkat, libc::SYS_listxattr, libc::SYS_llistxattr,
    libc::SYS_lremovexattr, libc::SYS_lsetxattr, libc::SYS_mkdirat, libc::SYS_mknodat, libc::SYS_newfstatat,
    libc::SYS_openat, libc::SYS_openat2, libc::SYS_readlinkat, libc::SYS_removexattr, libc::SYS_renameat,
    libc::SYS_renameat2, libc::SYS_setxattr, libc::SYS_statfs, libc::SYS_statx, libc::SYS_symlinkat,
    libc::SYS_truncate, libc::SYS_umask, libc::SYS_unlinkat, libc::SYS_utimensat,
    // Watches of names.
    libc::SYS_inotify_add_watch, libc::SYS_inotify_init1, libc::SYS_inotify_rm_watch,
    // Connections. The permitted kinds of sockets are below.
    libc::SYS_accept, libc::SYS_accept4, libc::SYS_bind, libc::SYS_connect, libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl, libc::SYS_epoll_pwait, libc::SYS_eventfd2, libc::SYS_getpeername, libc::SYS_getsockname,
    libc::SYS_getsockopt, libc::SYS_listen, libc::SYS_pipe2, libc::SYS_ppoll, libc::SYS_recvfrom, libc::SYS_recvmsg,
    libc::SYS_sendmsg, libc::SYS_sendto, libc::SYS_setsockopt, libc::SYS_shutdown, libc::SYS_socketpair,
    // Direct I/O.
    libc::SYS_io_uring_enter, libc::SYS_io_uring_register, libc::SYS_io_uring_setup,
    // Memory.
    libc::SYS_brk, libc::SYS_madvise, libc::SYS_mincore, libc::SYS_mmap, libc::SYS_mprotect, libc::SYS_mremap,
    libc::SYS_munmap,
    // Threads, signals and earlier child programs.
    libc::SYS_exit, libc::SYS_exit_group, libc::SYS_futex, libc::SYS_get_robust_list, libc::SYS_getpid,
    libc::SYS_getppid, libc::SYS_gettid, libc::SYS_kill, libc::SYS_membarrier, libc::SYS_pidfd_open,
    libc::SYS_pidfd_send_signal, libc::SYS_prctl, libc::SYS_restart_syscall, libc::SYS_rseq, libc::SYS_rt_sigaction,
    libc::SYS_rt_sigpending, libc::SYS_rt_sigprocmask, libc::SYS_rt_sigreturn, libc::SYS_rt_sigtimedwait,
    libc::SYS_sched_getaffinity, libc::SYS_sched_setaffinity, libc::SYS_sched_yield, libc::SYS_set_robust_list,
    libc::SYS_setpgid, libc::SYS_sigaltstack, libc::SYS_tgkill, libc::SYS_tkill, libc::SYS_wait4, libc::SYS_waitid,
    // Queries of the system.
    libc::SYS_capget, libc::SYS_clock_getres, libc::SYS_clock_gettime, libc::SYS_clock_nanosleep, libc::SYS_getcpu,
    libc::SYS_getegid, libc::SYS_geteuid, libc::SYS_getgid, libc::SYS_getgroups, libc::SYS_getrandom, libc::SYS_getrusage,
    libc::SYS_gettimeofday, libc::SYS_getuid, libc::SYS_nanosleep, libc::SYS_prlimit64, libc::SYS_sysinfo,
    libc::SYS_times, libc::SYS_uname,
    // Further confinement.
    libc::SYS_landlock_add_rule, libc::SYS_landlock_create_ruleset, libc::SYS_landlock_restrict_self,
    libc::SYS_seccomp,
];

/// Older forms of the above, which the C library still uses on some architectures.
#[cfg(target_arch = "x86_64")]
#[rustfmt::skip]
const OLDER: &[libc::c_long] = &[
    libc::SYS_access, libc::SYS_arch_prctl, libc::SYS_chmod, libc::SYS_dup2, libc::SYS_epoll_wait, libc::SYS_link,
    libc::SYS_lstat, libc::SYS_mkdir, libc::SYS_open, libc::SYS_pipe, libc::SYS_poll, libc::SYS_readlink,
    libc::SYS_rename, libc::SYS_rmdir, libc::SYS_select, libc::SYS_stat, libc::SYS_symlink, libc::SYS_time,
    libc::SYS_unlink,
];
#[cfg(not(target_arch = "x86_64"))]
const OLDER: &[libc::c_long] = &[];

/// cachestat(2) of Linux 6.5 and fchmodat2(2) of 6.6: one number on all architectures; not every C library names them.
const CACHESTAT: libc::c_long = 451;
const FCHMODAT2: libc::c_long = 452;

/// The error that prevented a filter.
#[derive(Debug, thiserror::Error)]
pub enum FilterError {
    /// The filter is not valid on this architecture.
    #[error("{0}")]
    Program(#[from] seccompiler::BackendError),
    /// The kernel does not accept it.
    #[error("cannot set a seccomp filter: {0}")]
    Kernel(#[from] seccompiler::Error),
}

/// Confines the calling thread and its future threads to these calls permanently. `local_sockets` also permits AF_UNIX.
pub fn enforce(local_sockets: bool) -> Result<(), FilterError> {
    Ok(seccompiler::apply_filter(&program(local_sockets)?)?)
}

fn program(local_sockets: bool) -> Result<BpfProgram, seccompiler::BackendError> {
    let mut rules: BTreeMap<libc::c_long, Vec<SeccompRule>> =
        ALLOWED.iter().chain(OLDER).map(|call| (*call, Vec::new())).collect();
    // clone3 has its flags in memory, where no filter sees them: it fails, and the C library turns to clone.
    rules.insert(libc::SYS_clone, vec![when([argument(0, SeccompCmpOp::MaskedEq(NEW_NAMESPACES), 0)?])?]);
    rules.insert(libc::SYS_socket, sockets(local_sockets)?);
    // No insertion into a terminal's input.
    let terminal = [TIOCSTI, TIOCLINUX].map(|request| argument(1, SeccompCmpOp::Ne, request));
    let [typed, linux] = terminal;
    rules.insert(libc::SYS_ioctl, vec![when([typed?, linux?])?]);
    let architecture = std::env::consts::ARCH.try_into()?;
    let refused = SeccompAction::Errno(libc::ENOSYS as u32);
    SeccompFilter::new(rules, refused, SeccompAction::Allow, architecture)?.try_into()
}

/// TCP sockets, and netlink for interfaces and addresses.
fn sockets(local: bool) -> Result<Vec<SeccompRule>, seccompiler::BackendError> {
    let of = |domain: libc::c_int| argument(0, SeccompCmpOp::Eq, domain as u64);
    let stream = || argument(1, SeccompCmpOp::MaskedEq(SOCKET_TYPE), libc::SOCK_STREAM as u64);
    let mut rules = vec![
        when([of(libc::AF_INET)?, stream()?])?,
        when([of(libc::AF_INET6)?, stream()?])?,
        when([of(libc::AF_NETLINK)?, argument(2, SeccompCmpOp::Eq, libc::NETLINK_ROUTE as u64)?])?,
    ];
    if local {
        rules.push(when([of(libc::AF_UNIX)?, stream()?])?);
    }
    Ok(rules)
}

fn when<const N: usize>(conditions: [SeccompCondition; N]) -> Result<SeccompRule, seccompiler::BackendError> {
    SeccompRule::new(conditions.into())
}

fn argument(number: u8, compare: SeccompCmpOp, value: u64) -> Result<SeccompCondition, seccompiler::BackendError> {
    SeccompCondition::new(number, SeccompCmpArgLen::Dword, compare, value)
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::net::{TcpListener, TcpStream};
    use std::process::Command;

    use rustix::net::{AddressFamily, SocketType, socket};

    use super::*;

    /// Runs `work` in a thread that is held to the filter, and no other thread of the tests is.
    fn filtered<T: Send>(work: impl FnOnce() -> T + Send) -> T {
        let filtered = || {
            enforce(false).unwrap();
            work()
        };
        std::thread::scope(|scope| scope.spawn(filtered).join())
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    #[track_caller]
    fn is_absent<T>(result: io::Result<T>) {
        match result {
            Err(error) => assert_eq!(error.raw_os_error(), Some(libc::ENOSYS), "{error}"),
            Ok(_) => panic!("nothing stood in the way"),
        }
    }

    #[test]
    fn files_connections_and_threads_work_as_before() {
        if haul_lab::is_emulated_without("seccomp") {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        filtered(|| {
            let file = dir.path().join("file");
            std::fs::write(&file, "content").unwrap();
            std::fs::rename(&file, dir.path().join("named")).unwrap();
            assert_eq!(std::fs::read(dir.path().join("named")).unwrap(), b"content");
            assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            let client = std::thread::spawn(move || TcpStream::connect(address).unwrap());
            listener.accept().unwrap();
            client.join().unwrap();
        });
    }

    #[test]
    fn programs_other_sockets_and_namespaces_are_out_of_reach() {
        if haul_lab::is_emulated_without("seccomp") {
            return;
        }
        filtered(|| {
            assert!(Command::new("/bin/true").status().is_err());
            for family in [AddressFamily::INET, AddressFamily::INET6] {
                is_absent(socket(family, SocketType::DGRAM, None).map_err(io::Error::from));
                is_absent(socket(family, SocketType::RAW, None).map_err(io::Error::from));
            }
            is_absent(socket(AddressFamily::UNIX, SocketType::STREAM, None).map_err(io::Error::from));
            is_absent(rustix::process::chroot("/").map_err(io::Error::from));
        });
    }

    #[test]
    fn a_thread_started_later_is_filtered_as_well() {
        if haul_lab::is_emulated_without("seccomp") {
            return;
        }
        filtered(|| {
            let started = std::thread::spawn(|| socket(AddressFamily::UNIX, SocketType::STREAM, None).map(drop));
            is_absent(started.join().unwrap().map_err(io::Error::from));
        });
    }
}
