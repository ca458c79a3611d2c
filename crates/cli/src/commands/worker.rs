//! `haul worker`: one end of a copy, controlled over standard input and output.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use anyhow::Context;
use haul_base::copy::account::WorkAccount;
use haul_base::copy::credentials::ClientCredentials;
use haul_control::launch;
use haul_engine::policy::HostPolicy;
use haul_engine::policy::audit::{AuditClient, AuditDestination, AuditError, AuditLog};
use haul_engine::worker::client_limits::ClientLimits;
use haul_engine::worker::{Environment, InheritedPipes, WorkerEnd};
use haul_show::exit::Exit;
use haul_show::output::print;
use haul_show::{self as show};

use crate::args::worker_task::WorkerTask;
use crate::commands::own_program::own_program;
use crate::user_dirs::state_dir;
use crate::{host_policy, signals};

/// Upper limit of the line with the credential.
const PASS_MAX: usize = 512;

/// Executes a worker's task.
pub fn run(what: &WorkerTask) -> u8 {
    match what {
        WorkerTask::Identify => {
            print(&format!("{}\n", haul_base::copy::hello::worker_identify_line().trim_end()));
            Exit::Done.number()
        }
        WorkerTask::Verify(hex) => match launch::verify_own_executable(&own_program().executable, hex) {
            true => Exit::Done.number(),
            false => Exit::Failed.number(),
        },
        WorkerTask::Keep(word, command) => keep(word, command),
        WorkerTask::Dial { host, port, directory } => dial(host, *port, directory),
        WorkerTask::Run { input, output } => {
            let host = || HostRequest::open(None, std::env::current_dir().unwrap_or_default(), None);
            let worked =
                InheritedPipes::adopt(*input, *output).and_then(|pipes| work(pipes, &environment(None, host())));
            worked.unwrap_or_else(could_not_start)
        }
        WorkerTask::Served(terms, place) => serve(terms, place).unwrap_or_else(could_not_start),
    }
}

/// Supervises a program.
fn keep(word: &str, command: &OsStr) -> u8 {
    let kept = signals::leave_to_controller()
        .and_then(|termination| haul_engine::worker::keep_program(word, command, &termination.stop).transpose());
    match kept {
        Ok(Some(status)) => status,
        Ok(None) => Exit::Usage.number(),
        Err(error) => {
            show::stderr().error(&format!("cannot start the program: {error}"));
            Exit::Failed.number()
        }
    }
}

fn could_not_start(error: io::Error) -> u8 {
    show::stderr().error(&format!("cannot start the worker: {error}"));
    Exit::Failed.number()
}

/// Replaces ssh. The first line of its input has the credential.
fn dial(host: &str, port: u16, directory: &str) -> u8 {
    let carry = || -> anyhow::Result<()> {
        signals::leave_all_but_termination()?;
        let stdin = io::stdin().as_fd().try_clone_to_owned()?;
        let stdout = io::stdout().as_fd().try_clone_to_owned()?;
        let pass = read_credentials(&stdin).context("no secret or key was given")?;
        Ok(haul_serve::dial(host, port, directory, &pass, stdin, stdout)?)
    };
    carry().map_or_else(
        |text| {
            eprintln!("{text}");
            Exit::Unreachable.number()
        },
        |()| Exit::Done.number(),
    )
}

/// Reads the credential byte by byte: the following bytes belong to others.
fn read_credentials(stdin: &OwnedFd) -> Option<ClientCredentials> {
    let mut line = Vec::new();
    while line.len() < PASS_MAX {
        let mut byte = [0];
        rustix::io::read(stdin, &mut byte).ok().filter(|read| *read == 1)?;
        match byte {
            [b'\n'] => return ClientCredentials::from_line(std::str::from_utf8(&line).ok()?),
            [byte] => line.push(byte),
        }
    }
    None
}

/// Works for a server, which reads the work's totals from standard error.
fn serve(terms: &ClientLimits, place: &OsStr) -> io::Result<u8> {
    // Takes the server's descriptors before any other file is opened.
    let allowance = terms.take_allowance()?;
    let progress = terms.take_progress()?;
    let pipes = terms.open_pipe(place)?;
    let directory = if terms.pipe.is_some() { Path::new("/") } else { Path::new(place) };
    // Read before the kernel confines this process.
    let host = HostRequest::open(std::env::var("HAUL_CLIENT").ok(), directory.to_owned(), terms.audit.clone());
    if let Err(error) = terms.enter(directory, state_dir().as_deref()) {
        report_account(&WorkAccount { why: Some(error.to_string()), is_idle: true, ..WorkAccount::default() });
        return Err(error);
    }
    let environment = Environment { allowance, progress, ..environment(Some(terms.clone()), host) };
    work(pipes, &environment)
}

fn work(pipes: InheritedPipes, environment: &Environment) -> io::Result<u8> {
    let termination = signals::leave_to_controller()?;
    let stdin = io::stdin().as_fd().try_clone_to_owned()?;
    let stdout = io::stdout().as_fd().try_clone_to_owned()?;
    let (ended, mut account) = haul_engine::worker::run(stdin, stdout, termination.stop, pipes, environment);
    // The controller shows the error, if it can.
    if termination.came.load(Ordering::Acquire) {
        show::stderr().error("the worker was terminated (SIGTERM)");
        account.why = Some("terminated".into());
    } else if ended == WorkerEnd::Unheard {
        show::stderr().error("no message from the controller (was haul stopped?)");
        account.why = Some("no message from the client".into());
    }
    if environment.served.is_some() {
        report_account(&account);
    }
    Ok(match ended {
        WorkerEnd::Done => Exit::Done.number(),
        WorkerEnd::Undone | WorkerEnd::Unheard => Exit::Failed.number(),
    })
}

/// Reports totals to the server, on standard error.
fn report_account(account: &WorkAccount) {
    account.lines().iter().for_each(|line| eprintln!("{line}"));
}

fn environment(served: Option<ClientLimits>, host: HostRequest) -> Environment {
    Environment {
        ssh_connection: ssh_connection(),
        state_dir: state_dir(),
        home: std::env::home_dir(),
        policy: host.policy,
        audit: host.audit,
        is_deployed: std::env::current_exe().is_ok_and(|path| launch::is_deployed(&path)),
        umask: umask(),
        served,
        allowance: None,
        progress: None,
    }
}

/// The host's requirements for a worker, read before the sandbox starts.
struct HostRequest {
    policy: HostPolicy,
    audit: Result<Option<Arc<AuditLog>>, Arc<AuditError>>,
}

impl HostRequest {
    /// `served` is the client of the worker's server, `directory` the base of its paths, and `also` the server's own
    /// log.
    fn open(served: Option<String>, directory: PathBuf, also: Option<AuditDestination>) -> Self {
        let policy = host_policy::read();
        let mut logs = policy.audit().to_vec();
        logs.extend(also.filter(|also| !policy.audit().contains(also)));
        let audit = AuditLog::open(&logs, &AuditClient { ssh_connection: ssh_connection(), served }, directory);
        Self { policy, audit: audit.map_err(Arc::new) }
    }
}

fn ssh_connection() -> Option<String> {
    std::env::var("SSH_CONNECTION").ok().filter(|value| !value.is_empty())
}

/// The umask can only be read by setting it. No other thread exists yet. New directories need the permissions of their
/// owner until they are complete, so the process does without that part of the mask.
fn umask() -> u16 {
    let mask = rustix::process::umask(rustix::fs::Mode::empty());
    rustix::process::umask(mask.difference(rustix::fs::Mode::RWXU));
    u16::try_from(mask.bits() & 0o777).unwrap_or(0o077)
}
