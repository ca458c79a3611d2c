//! The controller's workers: greets, hears and ends them.

use std::collections::HashMap;
use std::net::IpAddr;
use std::os::unix::process::ExitStatusExt;
use std::sync::mpsc::RecvTimeoutError;
use std::thread;
use std::time::{Duration, Instant};

use haul_base::control_channel::ControlWriter;
use haul_base::copy::error::{Error, GO_ON};
use haul_base::copy::event::{Event, Observer};
use haul_base::copy::location::Host;
use haul_base::copy::spec::{CopySpec, WorkerProgram};
use haul_base::idle_timeout::IdleTimeout;
use haul_base::sys::cancel::Cancel;
use haul_base::sys::child::ChildGuard;
use haul_proto::feature::{Features, PROTOCOL_VERSION};
use haul_proto::wire::control_channel::ControlChannel;
use haul_proto::wire::counters::FinalReport;
use haul_proto::wire::report::{WorkerHello, WorkerMessage};
use haul_proto::wire::request::ControllerMessage;

use super::inbox::{self, Inbox, queue};
use super::worker_relay::{WorkerInput, relay_all};
use super::worker_role::WorkerRole;
use super::worker_start::{CANCEL_POLL, GreetedWorker, no_thread, start_all};
use crate::launch::drop_ssh_reports;

/// Time limit of workers' cleanup after a cancelled copy.
const CANCEL_GRACE: Duration = Duration::from_millis(600);
/// How long to wait for the cause of a broken stream.
const EXPLAIN_WAIT: Duration = Duration::from_millis(400);
/// How long a worker may continue after the other one has finished and exited.
const FINISH_GRACE: Duration = Duration::from_secs(10);
/// A wait of [`CANCEL_POLL`] that takes longer means that this process was stopped.
const STOP_MIN: Duration = Duration::from_secs(5);
/// A connection that is lost so soon after a stop was lost because of it.
const STOP_MEMORY: Duration = Duration::from_secs(5);
/// How long workers may take to exit after a finished copy.
const CLOSE_GRACE: Duration = Duration::from_secs(5);

/// The beginning of a program's last words when an allocation failed.
const NO_MEMORY: &str = "memory allocation of ";
/// The remedy for it.
const MORE_MEMORY: &str =
    "raise the limit of memory there (`ulimit -v`, or the control group's), or use fewer streams (-s)";
/// SIGKILL.
const KILLED: i32 = 9;

/// Both workers, or the single worker of both ends.
pub struct Workers {
    /// The source's worker, or the single worker.
    first: WorkerHandle,
    second: Option<WorkerHandle>,
    inbox: Inbox<(WorkerRole, WorkerInput)>,
    output: inbox::InboxSender<(WorkerRole, WorkerInput)>,
    /// A worker that finished and exited early: its role, the reason, and the time.
    gone: Option<(WorkerRole, Option<String>, Instant)>,
    /// The last time that this process was stopped (Ctrl-Z): for how long, and when it continued.
    stopped: Option<(Duration, Instant)>,
}

/// Injects messages into the inbox of an end.
pub struct WorkerOutput(inbox::InboxSender<(WorkerRole, WorkerInput)>);

impl WorkerOutput {
    /// Sends a message of an end. Blocks while the inbox is full; `false` once the receiver is gone.
    pub fn say(&self, role: WorkerRole, message: WorkerMessage) -> bool {
        self.0.send(message.encode().len(), (role, WorkerInput::Message(message)))
    }
}

struct WorkerHandle {
    control: ControlWriter,
    child: ChildGuard,
    label: String,
    peer: Option<IpAddr>,
    hello: WorkerHello,
}

impl Workers {
    /// Starts and greets the workers of a copy.
    pub fn start(
        copy: &CopySpec,
        program: &WorkerProgram,
        cancel: &Cancel,
        observer: &mut dyn Observer,
    ) -> Result<Self, Error> {
        let source_host = copy.source_host().clone();
        let hosts: Vec<(WorkerRole, Host)> = match is_for_one(copy, &source_host) {
            true => vec![(WorkerRole::Source, source_host)],
            false => vec![(WorkerRole::Source, source_host), (WorkerRole::Target, copy.target.host.clone())],
        };
        let started = start_all(&hosts, copy, program, cancel, observer)?;
        let (sender, inbox) = queue();
        let mut ends = Vec::new();
        let mut readers = Vec::new();
        let mut peers = Vec::new();
        for GreetedWorker { control, from_worker, child, deployed, label, peer } in started {
            if let Some(path) = deployed {
                observer.event(&Event::Deployed { host: label.clone(), path });
            }
            ends.push((control, child, label));
            peers.push(peer);
            readers.push(IdleTimeout::new(from_worker, copy.access.silence));
        }
        let writers: Vec<ControlWriter> = ends.iter().map(|(control, ..)| control.clone()).collect();
        for (index, ((role, _), reader)) in hosts.iter().zip(readers).enumerate() {
            let other = writers.iter().enumerate().find(|(i, _)| *i != index).map(|(_, writer)| writer.clone());
            let (role, sender) = (*role, sender.clone());
            let relay = thread::Builder::new().name("haul-relay".into());
            let spawned = relay.spawn(move || relay_all(role, reader, other.as_ref(), &sender));
            spawned.map_err(no_thread)?;
        }
        let mut hellos = greet(&inbox, &ends, cancel)?;
        let mut workers =
            ends.into_iter().zip(peers).zip(&hosts).map(|(((control, child, label), peer), (role, _))| {
                let hello = hellos.remove(role).unwrap_or_else(|| unreachable!("greet returns one for each"));
                WorkerHandle { control, child, label, peer, hello }
            });
        let first = workers.next().ok_or_else(|| Error::Failed("no worker was started".into()))?;
        let second = workers.next();
        Ok(Self { first, second, inbox, output: sender, gone: None, stopped: None })
    }

    /// Whether one worker is both ends.
    pub fn is_one(&self) -> bool {
        self.second.is_none()
    }

    /// Returns the Hello of a worker.
    pub fn hello(&self, role: WorkerRole) -> &WorkerHello {
        &self.worker(role).hello
    }

    /// Checks that all workers have these features besides those that every copy requires.
    pub fn require(&self, features: Features) -> Result<(), Error> {
        [WorkerRole::Source, WorkerRole::Target].into_iter().try_for_each(|role| self.require_of(role, features))
    }

    /// Checks that a worker has these features.
    pub fn require_of(&self, role: WorkerRole, features: Features) -> Result<(), Error> {
        let WorkerHello { features: found, .. } = self.hello(role);
        found.require(features).map_err(|fault| Error::Connect(format!("{}: {fault}", self.label(role))))
    }

    /// Returns the remote address of the connection to a worker, as this machine sees it.
    pub fn peer(&self, role: WorkerRole) -> Option<IpAddr> {
        self.worker(role).peer
    }

    /// Returns the host as the user named it.
    pub fn label(&self, role: WorkerRole) -> String {
        self.worker(role).label.clone()
    }

    /// Prefixes a text with its host.
    pub fn with_host(&self, role: WorkerRole, text: &str) -> String {
        format!("{}: {text}", self.worker(role).label)
    }

    /// Returns a handle that injects messages of the ends.
    pub fn output(&self) -> WorkerOutput {
        WorkerOutput(self.output.clone())
    }

    /// Returns a writer to a worker for use in another thread.
    pub fn writer(&self, role: WorkerRole) -> ControlWriter {
        self.worker(role).control.clone()
    }

    /// Sends a message to a worker.
    pub fn send(&self, role: WorkerRole, message: &ControllerMessage) -> Result<(), Error> {
        let worker = self.worker(role);
        let sent = worker.control.send(ControlChannel::Controller, &message.encode());
        sent.map_err(|error| Error::Connect(format!("the connection to {} failed: {error}", worker.label)))
    }

    /// Sends a message to the only worker and returns its answer; an error if it refuses or cannot continue. The reason of
    /// a lost connection says more than the failed write.
    pub fn ask(
        &mut self,
        role: WorkerRole,
        message: &ControllerMessage,
        cancel: &Cancel,
    ) -> Result<WorkerMessage, Error> {
        let sent = self.send(role, message);
        match self.receive(cancel, None, false)?.1 {
            WorkerMessage::Refused { text, usage: true } => Err(Error::Usage(self.with_host(role, &text))),
            WorkerMessage::Refused { text, .. } | WorkerMessage::Fatal { text, .. } => {
                Err(Error::Failed(self.with_host(role, &text)))
            }
            answer => sent.map(|()| answer),
        }
    }

    /// Returns the next message of any worker. A worker in `finished` may exit; any other exit is an error.
    pub fn receive(
        &mut self,
        cancel: &Cancel,
        finished: Option<&HashMap<WorkerRole, FinalReport>>,
        begun: bool,
    ) -> Result<(WorkerRole, WorkerMessage), Error> {
        loop {
            if let Some(message) = self.receive_until(cancel, finished, begun, None)? {
                return Ok(message);
            }
        }
    }

    /// As [`Self::receive`]; `None` if no message arrives before `deadline`.
    pub fn receive_until(
        &mut self,
        cancel: &Cancel,
        finished: Option<&HashMap<WorkerRole, FinalReport>>,
        begun: bool,
        deadline: Option<Instant>,
    ) -> Result<Option<(WorkerRole, WorkerMessage)>, Error> {
        loop {
            // After one worker has finished and exited, the other one has all its data and gets a grace period.
            let grace = self.gone.as_ref().map(|(_, _, since)| *since + FINISH_GRACE);
            let until = grace.into_iter().chain(deadline).min();
            let Some(next) = next(&self.inbox, until, cancel, &mut self.stopped)? else {
                if grace.is_none_or(|grace| Instant::now() < grace) {
                    return Ok(None);
                }
                let gone = self.gone.take();
                let (role, reason) = gone.map_or((WorkerRole::Source, None), |(role, reason, _)| (role, reason));
                return Err(self.lost(role, reason, begun));
            };
            match next {
                (role, WorkerInput::Message(message)) => return Ok(Some((role, message))),
                (role, WorkerInput::Ended(reason)) if finished.is_some_and(|finished| finished.contains_key(&role)) => {
                    self.gone.get_or_insert((role, reason, Instant::now()));
                }
                (role, WorkerInput::Ended(reason)) => return Err(self.lost(role, reason, begun)),
                (role, WorkerInput::Fault(text)) => return Err(broken_protocol(&self.label(role), &text)),
            }
        }
    }

    /// Explains why a worker cannot continue. Often the other worker or the path to it is lost: that cause arrives
    /// within a moment.
    pub fn explain(&mut self, role: WorkerRole, text: &str, begun: bool) -> String {
        let own = match self.is_one() {
            true => self.with_host(role, text),
            false => format!("{} (other end: {}): {text}", self.label(role), self.label(role.other())),
        };
        if !begun || self.is_one() {
            return own;
        }
        let deadline = Instant::now() + EXPLAIN_WAIT;
        while let Ok((from, incoming)) = self.inbox.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            if let (WorkerInput::Ended(reason), true) = (incoming, from != role) {
                return self.lost_text(from, reason);
            }
        }
        own
    }

    /// Returns the error of a lost worker, with the known reason.
    fn lost(&mut self, role: WorkerRole, reason: Option<String>, begun: bool) -> Error {
        let text = self.lost_text(role, reason);
        match begun {
            // A rerun would end in the same way.
            _ if text.contains(NO_MEMORY) => Error::Failed(format!("{text}\n{MORE_MEMORY}")),
            true => Error::Broken(format!("{text}\n{GO_ON}")),
            false => Error::Connect(text),
        }
    }

    fn lost_text(&mut self, role: WorkerRole, reason: Option<String>) -> String {
        if let Some((length, _)) = self.stopped.filter(|(_, end)| end.elapsed() < STOP_MEMORY) {
            return format!("haul was stopped for {} s", length.as_secs());
        }
        let worker = self.worker_mut(role);
        let status = worker.child.wait(Duration::from_millis(500)).ok().flatten();
        let text = format!("lost the connection to {}", worker.label);
        let mut details = worker.child.stderr_tail();
        drop_ssh_reports(&mut details);
        details.retain(|line| !line.trim_start().starts_with("hint: "));
        details.extend(reason);
        if let Some(failed) = details.iter().find(|line| line.starts_with(NO_MEMORY)) {
            return format!("{text}: {failed}");
        }
        // 137 is a shell's, or ssh's, status for it.
        if status.is_some_and(|status| status.signal() == Some(KILLED) || status.code() == Some(128 + KILLED)) {
            return format!("{text}: its process was killed (SIGKILL): out of memory?");
        }
        match (details.last(), status) {
            (Some(last), _) => format!("{text}: {}", last.strip_prefix("haul: ").unwrap_or(last)),
            (None, Some(status)) => format!("{text} ({status})"),
            (None, None) => text,
        }
    }

    /// Ends the workers of a finished copy.
    pub fn close(&mut self) {
        self.close_channels();
        for role in self.roles() {
            self.worker_mut(role).child.close(CLOSE_GRACE);
        }
    }

    /// Ends workers that remove their temporary files on exit, and waits for all of them.
    pub fn close_and_wait(&mut self) {
        self.close_channels();
        for role in self.roles() {
            // Dropping the worker ends one that does not exit in time.
            let _ = self.worker_mut(role).child.wait(CLOSE_GRACE);
        }
    }

    fn close_channels(&self) {
        for role in self.roles() {
            self.worker(role).control.close();
        }
    }

    /// Ends the workers of an unfinished copy: each removes its incomplete files.
    pub fn cancel(&mut self) {
        for role in self.roles() {
            let control = self.worker(role).control.clone();
            // Control data may be stuck behind file data; the cancel message must not wait for it.
            let _ = thread::Builder::new().name("haul-cancel".into()).spawn(move || {
                let _ = control.send(ControlChannel::Controller, &ControllerMessage::Cancel.encode());
                control.close();
            });
        }
        let deadline = Instant::now() + CANCEL_GRACE;
        for role in self.roles() {
            let left = deadline.saturating_duration_since(Instant::now());
            let ended = matches!(self.worker_mut(role).child.wait(left), Ok(Some(_)));
            if !ended {
                self.worker_mut(role).child.end();
            }
        }
    }

    fn roles(&self) -> Vec<WorkerRole> {
        if self.is_one() { vec![WorkerRole::Source] } else { vec![WorkerRole::Source, WorkerRole::Target] }
    }

    fn worker(&self, role: WorkerRole) -> &WorkerHandle {
        match (role, &self.second) {
            (WorkerRole::Target, Some(second)) => second,
            _ => &self.first,
        }
    }

    fn worker_mut(&mut self, role: WorkerRole) -> &mut WorkerHandle {
        match (role, &mut self.second) {
            (WorkerRole::Target, Some(second)) => second,
            _ => &mut self.first,
        }
    }
}

/// Whether one worker can be both ends: same host, account and launch method.
fn is_for_one(copy: &CopySpec, source_host: &Host) -> bool {
    let access = &copy.access;
    let is_started_alike = *source_host == Host::Local || access.source_command == access.target_command;
    *source_host == copy.target.host && is_started_alike && !copy.options.streams.within_host
}

/// Returns every worker's checked Hello.
fn greet(
    inbox: &Inbox<(WorkerRole, WorkerInput)>,
    ends: &[(ControlWriter, ChildGuard, String)],
    cancel: &Cancel,
) -> Result<HashMap<WorkerRole, WorkerHello>, Error> {
    let mut hellos = HashMap::new();
    while hellos.len() < ends.len() {
        let Some((role, incoming)) = next(inbox, None, cancel, &mut None)? else { continue };
        let label = &ends[role.index().min(ends.len() - 1)].2;
        let WorkerInput::Message(WorkerMessage::Hello(hello)) = incoming else {
            return Err(match incoming {
                WorkerInput::Fault(text) => broken_protocol(label, &text),
                WorkerInput::Message(message) => {
                    broken_protocol(label, &format!("{} before the Hello of both ends", message.rule().name))
                }
                WorkerInput::Ended(_) => Error::Connect(format!("{label}: haul there ended before its Hello")),
            });
        };
        if hello.protocol != PROTOCOL_VERSION {
            let text = format!(
                "{label}: haul there speaks protocol {}, this one {PROTOCOL_VERSION}\nuse the same version at both ends, or let haul install itself there",
                hello.protocol
            );
            return Err(Error::Connect(text));
        }
        hello.features.require(Features::REQUIRED).map_err(|fault| Error::Connect(format!("{label}: {fault}")))?;
        hellos.insert(role, hello);
    }
    Ok(hellos)
}

/// Returns the error of a worker that breaks the protocol; the copy is not retried.
fn broken_protocol(label: &str, text: &str) -> Error {
    Error::Failed(format!("{label}: protocol error: {text}"))
}

/// Returns the next message; `None` if none arrives before `until`.
fn next(
    inbox: &Inbox<(WorkerRole, WorkerInput)>,
    until: Option<Instant>,
    cancel: &Cancel,
    stopped: &mut Option<(Duration, Instant)>,
) -> Result<Option<(WorkerRole, WorkerInput)>, Error> {
    loop {
        if cancel.is_cancelled() {
            return Err(Error::Interrupted);
        }
        let before = Instant::now();
        let received = inbox.recv_timeout(CANCEL_POLL);
        if before.elapsed() > STOP_MIN {
            *stopped = Some((before.elapsed(), Instant::now()));
        }
        match received {
            Ok(incoming) => return Ok(Some(incoming)),
            Err(RecvTimeoutError::Timeout) if until.is_some_and(|until| Instant::now() > until) => return Ok(None),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Err(Error::Failed("both workers have ended".into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use haul_base::copy::location::Location;
    use haul_base::copy::spec::{CopyOptions, RemoteAccess};

    use super::*;

    /// Returns two hosts that are reached by the user's own commands.
    fn copy(source: String, target: String) -> (Vec<(WorkerRole, Host)>, CopySpec) {
        let host = |name: &str| Host::Remote { user: None, name: name.into() };
        let location = |name| Location { host: host(name), path: "x".into() };
        let access =
            RemoteAccess { source_command: Some(source), target_command: Some(target), ..RemoteAccess::default() };
        let copy = CopySpec {
            sources: vec![location("a")],
            list: None,
            target: location("b"),
            options: CopyOptions::default(),
            access,
        };
        (vec![(WorkerRole::Source, host("a")), (WorkerRole::Target, host("b"))], copy)
    }

    /// Returns a command without output, like an ssh at a password prompt, that writes its process id to a file.
    fn silent(file: &Path) -> String {
        format!("sh -c 'echo $$ >{0}.new; mv {0}.new {0}; exec sleep 20'", file.display())
    }

    fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
        let deadline = Instant::now() + Duration::from_secs(5);
        while !holds() {
            assert!(Instant::now() < deadline, "{what}");
            thread::sleep(Duration::from_millis(5));
        }
    }

    fn runs(file: &Path) -> bool {
        let id = std::fs::read_to_string(file).unwrap().trim().parse().unwrap();
        rustix::process::test_kill_process(rustix::process::Pid::from_raw(id).unwrap()).is_ok()
    }

    struct Silence;

    impl Observer for Silence {
        fn event(&mut self, _: &Event) {}
    }

    fn program() -> WorkerProgram {
        WorkerProgram {
            executable: "/nonexistent".into(),
            worker_arguments: vec!["worker".into()],
            ..WorkerProgram::default()
        }
    }

    #[test]
    fn cancelled_while_it_connects_it_leaves_no_ssh() {
        let directory = tempfile::tempdir().unwrap();
        let files = ["source", "target"].map(|name| directory.path().join(name));
        let (hosts, copy) = copy(silent(&files[0]), silent(&files[1]));
        let cancel = Cancel::new();
        let starting = {
            let cancel = cancel.clone();
            thread::spawn(move || start_all(&hosts, &copy, &program(), &cancel, &mut Silence))
        };
        eventually("both run", || files.iter().all(|file| file.exists()));
        cancel.cancel();
        let begun = Instant::now();
        assert!(matches!(starting.join().unwrap(), Err(Error::Interrupted)));
        assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
        assert!(!files.iter().any(|file| runs(file)), "something is left");
    }

    #[test]
    fn interactive_logins_take_turns() {
        let directory = tempfile::tempdir().unwrap();
        let files = ["source", "target"].map(|name| directory.path().join(name));
        let (hosts, mut copy) = copy(silent(&files[0]), silent(&files[1]));
        copy.access.in_turn = true;
        // Those of one copy, or of two.
        for logins in [vec![&hosts[..]], vec![&hosts[..1], &hosts[1..]]] {
            let cancel = Cancel::new();
            let there = || files.iter().filter(|file| file.exists()).count();
            thread::scope(|scope| {
                let (copy, cancel) = (&copy, &cancel);
                let start = |hosts| scope.spawn(move || start_all(hosts, copy, &program(), cancel, &mut Silence));
                let starting: Vec<_> = logins.into_iter().map(start).collect();
                eventually("one runs", || there() > 0);
                cancel.cancel();
                let ended = |starting: thread::ScopedJoinHandle<'_, _>| starting.join().unwrap();
                assert!(starting.into_iter().map(ended).all(|ended| matches!(ended, Err(Error::Interrupted))));
            });
            assert_eq!(there(), 1, "the other one was started, too");
            files.iter().for_each(|file| drop(std::fs::remove_file(file)));
        }
    }

    #[test]
    fn one_host_has_one_worker_unless_two_start_commands_differ() {
        let (hosts, mut copy) = copy("x".into(), "y".into());
        let source_host = &hosts[0].1;
        assert!(!is_for_one(&copy, source_host), "two hosts");
        copy.target.host = source_host.clone();
        assert!(!is_for_one(&copy, source_host), "two ways");
        copy.access.target_command = copy.access.source_command.clone();
        assert!(is_for_one(&copy, source_host));
        (copy.target.host, copy.access.target_command) = (Host::Local, None);
        assert!(is_for_one(&copy, &Host::Local), "no way leads here");
        copy.options.streams.within_host = true;
        assert!(!is_for_one(&copy, &Host::Local), "sockets were asked for");
    }

    #[test]
    fn a_worker_that_cannot_start_ends_the_other() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("source");
        let failing = format!("sh -c 'until [ -e {} ]; do sleep 0.01; done; exit 7'", file.display());
        let (hosts, copy) = copy(silent(&file), failing);
        let begun = Instant::now();
        let error = start_all(&hosts, &copy, &program(), &Cancel::new(), &mut Silence).err().unwrap().to_string();
        assert!(error.contains("on b: ended with status 7"), "{error}");
        assert!(begun.elapsed() < Duration::from_secs(5) && !runs(&file), "{:?}", begun.elapsed());
    }
}
