//! The controller's workers: started, greeted, listened to, and ended. What they have to say to each other is passed
//! on unread.

use haul_proto::wire::feature::{Features, PROTOCOL_VERSION};
use haul_proto::wire::link::Channel;
use haul_proto::wire::report::{Final, Hello, WorkerMessage};
use haul_proto::wire::request::ControllerMessage;
use std::collections::HashMap;
use std::io::BufReader;
use std::process::ChildStdout;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, channel, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use super::end_of;
use crate::bootstrap::{Guard, Started, start_local, start_remote};
use crate::cancel::Cancel;
use crate::error::Error;
use crate::event::{Event, Observer};
use crate::link::{LinkReader, LinkWriter};
use crate::spec::{Host, Job, Program};

/// Most events that wait for an observer that is slow; beyond that, the workers wait.
const EVENTS_MAX: usize = 1024;
/// How often the caller's wish to stop is looked at.
const CANCEL_POLL: Duration = Duration::from_millis(50);
/// How long workers may take to clean up after a cancelled job.
const CANCEL_GRACE: Duration = Duration::from_millis(600);
/// How long the reason for a broken stream may take to arrive.
const EXPLAIN_WAIT: Duration = Duration::from_millis(400);
/// How long workers may take to end after a finished job.
const CLOSE_GRACE: Duration = Duration::from_secs(5);

/// An end of the copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// Reads.
    Source,
    /// Writes.
    Target,
}

impl Role {
    /// The other one.
    pub fn other(self) -> Self {
        match self {
            Role::Source => Role::Target,
            Role::Target => Role::Source,
        }
    }

    /// 0 or 1.
    pub fn index(self) -> usize {
        match self {
            Role::Source => 0,
            Role::Target => 1,
        }
    }
}

/// Both workers, or the one that is both.
pub struct Workers {
    /// The source's; the only one where it is both.
    first: Worker,
    second: Option<Worker>,
    inbox: Receiver<(Role, Incoming)>,
}

struct Worker {
    link: LinkWriter,
    child: Guard,
    label: String,
    hello: Hello,
}

enum Incoming {
    Message(WorkerMessage),
    Ended(Option<String>),
}

impl Workers {
    /// Starts what the job needs, and greets.
    pub fn start(job: &Job, program: &Program, cancel: &Cancel, observer: &mut dyn Observer) -> Result<Self, Error> {
        let source_host = job.sources.first().map_or(Host::Local, |source| source.host.clone());
        let both_local = source_host == Host::Local && job.target.host == Host::Local;
        let alone = both_local && !job.options.sockets;
        let hosts: Vec<(Role, Host)> = match alone {
            true => vec![(Role::Source, Host::Local)],
            false => vec![(Role::Source, source_host), (Role::Target, job.target.host.clone())],
        };
        let started = start_all(&hosts, job, program, cancel)?;
        let (sender, inbox) = sync_channel(EVENTS_MAX);
        let mut links = Vec::new();
        let mut readers = Vec::new();
        for started in started {
            if let Some(path) = &started.deployed {
                observer.event(&Event::Deployed { host: started.host_label.clone(), path: path.clone() });
            }
            links.push((LinkWriter::new(started.to_worker), started.child, started.host_label));
            readers.push(started.from_worker);
        }
        let writers: Vec<LinkWriter> = links.iter().map(|(link, ..)| link.clone()).collect();
        for (index, ((role, _), reader)) in hosts.iter().zip(readers).enumerate() {
            let other = writers.iter().enumerate().find(|(i, _)| *i != index).map(|(_, writer)| writer.clone());
            let (role, sender) = (*role, sender.clone());
            let relay = thread::Builder::new().name("haul-relay".into());
            let spawned = relay.spawn(move || relay_all(role, reader, other.as_ref(), &sender));
            spawned.map_err(|error| Error::Failed(format!("no thread could be started: {error}")))?;
        }
        let mut hellos = greet(&inbox, &links, cancel)?;
        let mut workers = links.into_iter().zip(&hosts).map(|((link, child, label), (role, _))| {
            let hello = hellos.remove(role).unwrap_or_else(|| unreachable!("greet returns one for each"));
            Worker { link, child, label, hello }
        });
        let first = workers.next().ok_or_else(|| Error::Failed("no worker was started".into()))?;
        let second = workers.next();
        Ok(Self { first, second, inbox })
    }

    /// Whether one worker is both ends.
    pub fn is_one(&self) -> bool {
        self.second.is_none()
    }

    /// What a worker said of itself.
    pub fn hello(&self, role: Role) -> &Hello {
        &self.worker(role).hello
    }

    /// The host as the user named it.
    pub fn label(&self, role: Role) -> String {
        self.worker(role).label.clone()
    }

    /// A text with its host before it.
    pub fn with_host(&self, role: Role, text: &str) -> String {
        format!("{}: {text}", self.worker(role).label)
    }

    /// Tells a worker something.
    pub fn send(&self, role: Role, message: &ControllerMessage) -> Result<(), Error> {
        let worker = self.worker(role);
        let sent = worker.link.send(Channel::Controller, &message.encode());
        sent.map_err(|error| Error::Connect(format!("the connection to {} failed: {error}", worker.label)))
    }

    /// The next message of any worker. A worker that has `finished` may end; any other that ends is an error.
    pub fn receive(
        &mut self,
        cancel: &Cancel,
        finished: Option<&HashMap<Role, Final>>,
        begun: bool,
    ) -> Result<(Role, WorkerMessage), Error> {
        loop {
            match next(&self.inbox, cancel)? {
                (role, Incoming::Message(message)) => return Ok((role, message)),
                (role, Incoming::Ended(_)) if finished.is_some_and(|finished| finished.contains_key(&role)) => {}
                (role, Incoming::Ended(reason)) => return Err(self.lost(role, reason, begun)),
            }
        }
    }

    /// A worker cannot go on. Often that is because the other one, or the way to it, is gone: then that is the reason,
    /// and it is known in a moment.
    pub fn explain(&mut self, role: Role, text: &str, begun: bool) -> String {
        let own = match self.is_one() {
            true => self.with_host(role, text),
            false => format!("{}, with {} at the other end: {text}", self.label(role), self.label(role.other())),
        };
        if !begun || self.is_one() {
            return own;
        }
        let deadline = Instant::now() + EXPLAIN_WAIT;
        while let Ok((from, incoming)) = self.inbox.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            if let (Incoming::Ended(reason), true) = (incoming, from != role) {
                return self.lost_text(from, reason);
            }
        }
        own
    }

    /// A worker is gone: why, as far as can be told.
    fn lost(&mut self, role: Role, reason: Option<String>, begun: bool) -> Error {
        let text = self.lost_text(role, reason);
        match begun {
            true => Error::Broken(format!("{text}\nrun the same command again to go on")),
            false => Error::Connect(text),
        }
    }

    fn lost_text(&mut self, role: Role, reason: Option<String>) -> String {
        let worker = self.worker_mut(role);
        let status = worker.child.wait(Duration::from_millis(500)).ok().flatten();
        let mut text = format!("the connection to {} was lost", worker.label);
        let mut details = worker.child.stderr_tail();
        details.extend(reason);
        if let (Some(status), true) = (status, details.is_empty()) {
            details.push(format!("it ended with {status}"));
        }
        if let Some(last) = details.last() {
            text = format!("{text}: {last}");
        }
        text
    }

    /// Ends the workers of a job that is finished.
    pub fn close(&mut self) {
        for role in self.roles() {
            self.worker(role).link.close();
        }
        for role in self.roles() {
            // One that does not end by itself is ended when it is dropped.
            let _ = self.worker_mut(role).child.wait(CLOSE_GRACE);
        }
    }

    /// Ends the workers of a job that is not: each removes what it has not finished.
    pub fn cancel(&mut self) {
        for role in self.roles() {
            let link = self.worker(role).link.clone();
            // A link may be stuck behind data: what is told here must not wait for that.
            let _ = thread::Builder::new().name("haul-cancel".into()).spawn(move || {
                let _ = link.send(Channel::Controller, &ControllerMessage::Cancel.encode());
                link.close();
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

    fn roles(&self) -> Vec<Role> {
        if self.is_one() { vec![Role::Source] } else { vec![Role::Source, Role::Target] }
    }

    fn worker(&self, role: Role) -> &Worker {
        match (role, &self.second) {
            (Role::Target, Some(second)) => second,
            _ => &self.first,
        }
    }

    fn worker_mut(&mut self, role: Role) -> &mut Worker {
        match (role, &mut self.second) {
            (Role::Target, Some(second)) => second,
            _ => &mut self.first,
        }
    }
}

/// Starts all workers at the same time: ssh takes its time.
fn start_all(hosts: &[(Role, Host)], job: &Job, program: &Program, cancel: &Cancel) -> Result<Vec<Started>, Error> {
    let mut pending = Vec::new();
    for (role, host) in hosts {
        let (role, host, access, program) = (*role, host.clone(), job.access.clone(), program.clone());
        let (sender, receiver) = channel();
        let spawned = thread::Builder::new().name("haul-start".into()).spawn(move || {
            let started = match &host {
                Host::Local => start_local(&program, end_of(role)),
                Host::Remote { .. } => start_remote(&host, end_of(role), &access, &program),
            };
            // Nobody waits any more when the job was cancelled.
            let _ = sender.send(started);
        });
        spawned.map_err(|error| Error::Failed(format!("no thread could be started: {error}")))?;
        pending.push(receiver);
    }
    pending.iter().map(|receiver| await_start(receiver, cancel)).collect()
}

fn await_start(receiver: &Receiver<Result<Started, Error>>, cancel: &Cancel) -> Result<Started, Error> {
    loop {
        match receiver.recv_timeout(CANCEL_POLL) {
            Ok(started) => return started,
            Err(RecvTimeoutError::Timeout) if cancel.is_cancelled() => return Err(Error::Interrupted),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Err(Error::Failed("a worker could not be started".into())),
        }
    }
}

/// Every worker's Hello, checked.
fn greet(
    inbox: &Receiver<(Role, Incoming)>,
    links: &[(LinkWriter, Guard, String)],
    cancel: &Cancel,
) -> Result<HashMap<Role, Hello>, Error> {
    let mut hellos = HashMap::new();
    while hellos.len() < links.len() {
        let (role, incoming) = next(inbox, cancel)?;
        let label = &links[role.index().min(links.len() - 1)].2;
        let Incoming::Message(WorkerMessage::Hello(hello)) = incoming else {
            return Err(Error::Connect(format!("{label}: haul there ended, or did not say Hello")));
        };
        if hello.protocol != PROTOCOL_VERSION {
            let text = format!(
                "{label}: haul there speaks protocol {}, this one {PROTOCOL_VERSION}\nput the same version there, or let haul do it",
                hello.protocol
            );
            return Err(Error::Connect(text));
        }
        hello.features.require(Features::ALL).map_err(|fault| Error::Connect(format!("{label}: {fault}")))?;
        hellos.insert(role, hello);
    }
    Ok(hellos)
}

fn next(inbox: &Receiver<(Role, Incoming)>, cancel: &Cancel) -> Result<(Role, Incoming), Error> {
    loop {
        if cancel.is_cancelled() {
            return Err(Error::Interrupted);
        }
        match inbox.recv_timeout(CANCEL_POLL) {
            Ok(incoming) => return Ok(incoming),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Err(Error::Failed("both workers are gone".into())),
        }
    }
}

/// Reads all that a worker says: what is for the other worker goes there, the rest to the controller. Waits while
/// the other worker does not read; nothing else waits for this thread.
fn relay_all(role: Role, from: ChildStdout, other: Option<&LinkWriter>, sender: &SyncSender<(Role, Incoming)>) {
    let mut reader = LinkReader::new(BufReader::with_capacity(256 << 10, from));
    let reason = loop {
        match reader.next_frame() {
            Ok(None) => break None,
            Ok(Some((Channel::Controller, content))) => match WorkerMessage::decode(content) {
                Ok(message) => {
                    if sender.send((role, Incoming::Message(message))).is_err() {
                        return;
                    }
                }
                Err(fault) => break Some(fault.to_string()),
            },
            Ok(Some((channel, content))) => {
                // When the other worker is gone, its own end says so.
                let _ = other.map(|other| other.send(channel, content));
            }
            Err(error) => break Some(error.to_string()),
        }
    };
    // Nobody listens any more when the job is over.
    let _ = sender.send((role, Incoming::Ended(reason)));
}
