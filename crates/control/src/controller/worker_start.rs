//! Starts the workers of a copy: concurrently, or in turn.

use std::net::IpAddr;
use std::process::ChildStdout;
use std::sync::Mutex;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use haul_base::control_channel::ControlWriter;
use haul_base::copy::error::Error;
use haul_base::copy::event::{Event, Observer};
use haul_base::copy::location::Host;
use haul_base::copy::spec::{CopySpec, Transport, WorkerProgram};
use haul_base::sys::cancel::Cancel;
use haul_base::sys::child::ChildGuard;
use haul_base::sys::describe::describe_start;
use haul_base::sys::panic::panicked;
use haul_base::sys::sync::lock;

use super::worker_role::WorkerRole;
use crate::launch::{
    InheritedStdio, StartControl, StartedWorker, host_label, is_question_open, start_local, start_remote, start_served,
};

/// Name of a thread that starts a worker.
const START_THREAD: &str = "haul-start";
/// How often cancellation is checked.
pub const CANCEL_POLL: Duration = Duration::from_millis(50);
/// A login that takes longer is reported.
const SLOW_LOGIN: Duration = Duration::from_secs(1);
/// Held by the login that may ask for a password, also by that of another copy of this process.
static LOGIN_TURN: Mutex<()> = Mutex::new(());

/// What a start reports.
enum StartNews {
    /// Why it takes long.
    Slow(String),
    /// It has ended.
    Ended(Result<GreetedWorker, Error>),
}

/// A worker that has greeted. It gets heartbeats from now on, since the other one may start slowly.
pub struct GreetedWorker {
    pub control: ControlWriter,
    pub from_worker: ChildStdout,
    pub child: ChildGuard,
    pub deployed: Option<String>,
    pub label: String,
    pub peer: Option<IpAddr>,
}

impl GreetedWorker {
    fn new(started: StartedWorker) -> Result<Self, Error> {
        let StartedWorker { to_worker, from_worker, child, deployed, host_label: label, peer, .. } = started;
        let control = ControlWriter::new(to_worker);
        control.keep_alive().map_err(no_thread)?;
        Ok(Self { control, from_worker, child, deployed, label, peer })
    }
}

pub fn no_thread(error: std::io::Error) -> Error {
    Error::Failed(format!("cannot start a thread: {}", describe_start(&error)))
}

/// Starts all workers concurrently, since ssh is slow; or in turn, if the user may have to type several passwords. On
/// failure or cancellation, all workers and their launching processes are gone at return.
pub fn start_all(
    hosts: &[(WorkerRole, Host)],
    copy: &CopySpec,
    program: &WorkerProgram,
    cancel: &Cancel,
    observer: &mut dyn Observer,
) -> Result<Vec<GreetedWorker>, Error> {
    let (stop, begun) = (Cancel::new(), Instant::now());
    let mut is_quiet = true;
    let (sender, ended) = channel();
    let mut threads = Vec::new();
    let mut failure = None;
    for (index, (role, host)) in hosts.iter().enumerate() {
        match start_one(index, *role, host, copy, program, &stop, &sender) {
            Ok(thread) => threads.push(thread),
            Err(error) => failure = Some(error),
        }
    }
    drop(sender);
    let mut all: Vec<Option<GreetedWorker>> = hosts.iter().map(|_| None).collect();
    loop {
        if cancel.is_cancelled() {
            failure = Some(Error::Interrupted);
        }
        if failure.is_some() {
            stop.cancel();
        }
        match ended.recv_timeout(CANCEL_POLL) {
            Ok((_, StartNews::Slow(why))) => observer.event(&Event::Warning(why)),
            Ok((index, StartNews::Ended(Ok(started)))) => all[index] = Some(started),
            Ok((_, StartNews::Ended(Err(error)))) => failure = failure.or(Some(error)),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        if is_quiet && failure.is_none() && begun.elapsed() > SLOW_LOGIN && !is_question_open() {
            is_quiet = false;
            let missing = hosts.iter().zip(&all).find(|((_, host), started)| *host != Host::Local && started.is_none());
            if let Some(((_, host), _)) = missing {
                observer.event(&Event::Connecting { host: host_label(host) });
            }
        }
    }
    let panics: Vec<_> = threads.into_iter().filter_map(|thread| thread.join().err()).collect();
    match (failure, panics.first()) {
        (Some(error), _) => Err(error),
        (None, Some(panic)) => Err(Error::Failed(panicked(START_THREAD, &**panic))),
        (None, None) => Ok(all.into_iter().flatten().collect()),
    }
}

/// Whether data will probably go through ssh.
fn sends_through_ssh(copy: &CopySpec) -> bool {
    let network = &copy.options.streams.network;
    !copy.options.compare && (network.transport == Transport::Ssh || network.is_direct_unlikely)
}

/// Starts a worker in a thread, after its turn if there is one, and sends the result.
fn start_one(
    index: usize,
    role: WorkerRole,
    host: &Host,
    copy: &CopySpec,
    program: &WorkerProgram,
    stop: &Cancel,
    sender: &Sender<(usize, StartNews)>,
) -> Result<thread::JoinHandle<()>, Error> {
    let access = copy.access.clone();
    let mut access = if role == WorkerRole::Target { access.of_target() } else { access };
    // Sessions of one ssh master share a core and a TCP connection.
    access.ssh_carries_data |= sends_through_ssh(copy);
    let (host, program) = (host.clone(), program.clone());
    let (stop, sender) = (stop.clone(), sender.clone());
    let standard = InheritedStdio::of(&copy.options);
    let takes_turn = copy.access.in_turn && matches!(host, Host::Remote { .. });
    let spawned = thread::Builder::new().name(START_THREAD.into()).spawn(move || {
        let _turn = takes_turn.then(|| lock(&LOGIN_TURN));
        // The receiver lives until the thread has ended.
        let report = |news| drop(sender.send((index, news)));
        let control = StartControl { cancel: &stop, on_slow: &|why| report(StartNews::Slow(why)) };
        let started = match &host {
            _ if stop.is_cancelled() => Err(Error::Interrupted),
            Host::Local => start_local(&program, role.end(), &standard, &stop),
            Host::Served { .. } => start_served(&host, role.end(), &program, &stop),
            Host::Remote { .. } => start_remote(&host, role.end(), &access, &program, control),
        };
        report(StartNews::Ended(started.and_then(GreetedWorker::new)));
    });
    spawned.map_err(no_thread)
}
