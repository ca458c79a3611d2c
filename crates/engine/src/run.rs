//! The threads of a copy: one for each stream, one that walks or looks at what is there, one that sends messages,
//! one that reports. All are named as `top -H` shows them.

use haul_proto::wire::fault::ProtocolFault;
use haul_proto::wire::link::Channel;
use haul_proto::wire::report::WorkerMessage;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use crate::link::LinkWriter;
use crate::source::Source;
use crate::stream::Stream;
use crate::target::{Direct, Target};
use crate::worker::lock;

/// Most messages that wait for the thread that takes them; beyond that, the link waits.
const INBOX_MAX: usize = 1024;

/// Which ends this worker is.
pub enum Ends {
    /// The source, with its streams.
    Source(Arc<Source>, Vec<Stream>),
    /// The target, with its streams.
    Target(Arc<Target>, Vec<Stream>),
    /// Both: frames go from hand to hand, messages too.
    Both(Arc<Source>, Arc<Target>),
}

/// A copy that has begun.
pub struct Running {
    shared: Arc<Shared>,
    /// Messages of the other end, for the thread that takes them.
    inbox: Option<SyncSender<Vec<u8>>>,
}

struct Shared {
    source: Option<Arc<Source>>,
    target: Option<Arc<Target>>,
    link: LinkWriter,
    /// Threads that still work towards the end.
    busy: AtomicUsize,
    failed: AtomicBool,
    finished: AtomicBool,
    /// Wakes the reporting thread.
    tick: (Mutex<bool>, Condvar),
}

impl Running {
    /// Starts all threads.
    pub fn start(ends: Ends, link: LinkWriter, local_streams: u16, report_every: Duration) -> Self {
        let (source, target, streams) = match ends {
            Ends::Source(source, streams) => (Some(source), None, streams),
            Ends::Target(target, streams) => (None, Some(target), streams),
            Ends::Both(source, target) => (Some(source), Some(target), Vec::new()),
        };
        let shared = Arc::new(Shared {
            source,
            target,
            link,
            busy: AtomicUsize::new(1),
            failed: AtomicBool::new(false),
            finished: AtomicBool::new(false),
            tick: (Mutex::new(false), Condvar::new()),
        });
        let mut inbox = None;
        match (&shared.source, &shared.target) {
            (Some(source), Some(target)) => start_both(&shared, source, target, local_streams),
            (Some(source), None) => start_source(&shared, source, streams),
            (None, Some(target)) => inbox = Some(start_target(&shared, target, streams)),
            (None, None) => {}
        }
        shared.spawn("haul-report", move |shared| report(shared, report_every));
        shared.leave();
        Self { shared, inbox }
    }

    /// Takes a message of the other end.
    pub fn handle_peer(&self, bytes: &[u8]) -> Result<(), ProtocolFault> {
        match (&self.inbox, &self.shared.source) {
            // A target looks at files when it takes a message: another thread does that, so that the link is read on.
            (Some(inbox), _) => {
                let _ = inbox.send(bytes.to_vec());
                Ok(())
            }
            (None, Some(source)) => source.handle_peer(bytes),
            (None, None) => Ok(()),
        }
    }

    /// Stops what still runs; whether all was done.
    pub fn end(self) -> bool {
        let finished = self.shared.finished.load(Ordering::SeqCst);
        if !finished {
            self.shared.stop();
        }
        finished && !self.shared.failed.load(Ordering::SeqCst)
    }
}

fn start_source(shared: &Arc<Shared>, source: &Arc<Source>, streams: Vec<Stream>) {
    let walking = Arc::clone(source);
    shared.work("haul-walk", move |_| {
        walking.walk();
        Ok(())
    });
    let sending = Arc::clone(source);
    shared.work("haul-control", move |shared| send_messages(shared, || sending.wait_for_messages()));
    for (mut stream, id) in streams.into_iter().zip(0u16..) {
        let source = Arc::clone(source);
        shared.work(&format!("haul-s{id}"), move |_| {
            source.run_stream(&mut stream).map_err(|error| stream_failed(id, &error))
        });
    }
}

fn start_target(shared: &Arc<Shared>, target: &Arc<Target>, streams: Vec<Stream>) -> SyncSender<Vec<u8>> {
    let (inbox, messages) = sync_channel(INBOX_MAX);
    let examining = Arc::clone(target);
    // It ends with the link, not with the job: it is not waited for.
    shared.spawn("haul-manifest", move |shared| take_messages(shared, &examining, &messages));
    let sending = Arc::clone(target);
    shared.work("haul-control", move |shared| send_messages(shared, || sending.wait_for_messages()));
    for (mut stream, id) in streams.into_iter().zip(0u16..) {
        let target = Arc::clone(target);
        shared.work(&format!("haul-t{id}"), move |_| {
            target.run_stream(&mut stream).map_err(|error| stream_failed(id, &error))
        });
    }
    inbox
}

fn start_both(shared: &Arc<Shared>, source: &Arc<Source>, target: &Arc<Target>, streams: u16) {
    let walking = Arc::clone(source);
    shared.work("haul-walk", move |_| {
        walking.walk();
        Ok(())
    });
    let (from, to) = (Arc::clone(source), Arc::clone(target));
    shared.work("haul-offers", move |_| pass_on(|| from.wait_for_messages(), |message| to.handle_peer(message)));
    let (from, to) = (Arc::clone(target), Arc::clone(source));
    shared.work("haul-needs", move |_| pass_on(|| from.wait_for_messages(), |message| to.handle_peer(message)));
    for id in 0..streams {
        let (source, target) = (Arc::clone(source), Arc::clone(target));
        shared.work(&format!("haul-c{id}"), move |_| {
            source.run_stream(&mut Direct(&target)).map_err(|error| error.to_string())
        });
    }
}

fn stream_failed(id: u16, error: &crate::stream::StreamError) -> String {
    use crate::stream::StreamError;
    let reason = match error {
        StreamError::Io(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => "the other end closed it".into(),
        StreamError::Io(error) => crate::fs::describe(error).lines().next().unwrap_or_default().to_owned(),
        StreamError::Protocol(fault) => fault.to_string(),
    };
    format!("data stream {id} broke: {reason}")
}

fn send_messages(shared: &Shared, mut next: impl FnMut() -> Option<Vec<Vec<u8>>>) -> Result<(), String> {
    while let Some(messages) = next() {
        shared
            .link
            .send_all(Channel::Peer, &messages)
            .map_err(|error| format!("the connection to the controller failed: {error}"))?;
    }
    Ok(())
}

fn pass_on(
    mut next: impl FnMut() -> Option<Vec<Vec<u8>>>,
    take: impl Fn(&[u8]) -> Result<(), ProtocolFault>,
) -> Result<(), String> {
    while let Some(messages) = next() {
        messages.iter().try_for_each(|message| take(message)).map_err(|fault| fault.to_string())?;
    }
    Ok(())
}

fn take_messages(shared: &Shared, target: &Target, messages: &Receiver<Vec<u8>>) {
    for message in messages {
        if let Err(fault) = target.handle_peer(&message) {
            shared.fail(&format!("the source broke the protocol: {fault}"));
            return;
        }
    }
}

fn report(shared: &Shared, every: Duration) {
    loop {
        let (ended, wake) = &shared.tick;
        let guard = lock(ended);
        let (ended, _) = wake.wait_timeout(guard, every).unwrap_or_else(std::sync::PoisonError::into_inner);
        if *ended {
            return;
        }
        drop(ended);
        shared.reporters().for_each(crate::report::Reporter::progress);
    }
}

impl Shared {
    fn reporters(&self) -> impl Iterator<Item = &crate::report::Reporter> {
        let source = self.source.iter().map(|source| &source.reporter);
        source.chain(self.target.iter().map(|target| &target.reporter))
    }

    /// Starts a thread that the end of the job waits for.
    fn work(self: &Arc<Self>, name: &str, work: impl FnOnce(&Shared) -> Result<(), String> + Send + 'static) {
        self.busy.fetch_add(1, Ordering::SeqCst);
        self.spawn(name, move |shared| {
            if let Err(text) = work(shared) {
                shared.fail(&text);
            }
            shared.leave();
        });
    }

    fn spawn(self: &Arc<Self>, name: &str, work: impl FnOnce(&Shared) + Send + 'static) {
        let shared = Arc::clone(self);
        if let Err(error) = thread::Builder::new().name(name.into()).spawn(move || work(&shared)) {
            self.fail(&format!("no thread could be started: {error}\nuse fewer streams (-s)"));
        }
    }

    /// A thread is done. The last one says so to the controller.
    fn leave(&self) {
        if self.busy.fetch_sub(1, Ordering::SeqCst) > 1 {
            return;
        }
        self.end_reports();
        if !self.failed.load(Ordering::SeqCst) {
            self.finished.store(true, Ordering::SeqCst);
            self.reporters().for_each(crate::report::Reporter::finished);
        }
    }

    /// The job cannot go on. Only the first reason is told.
    fn fail(&self, text: &str) {
        if !self.failed.swap(true, Ordering::SeqCst) {
            let _ = self.link.send(Channel::Controller, &WorkerMessage::Fatal { text: text.into() }.encode());
            self.stop();
        }
    }

    fn stop(&self) {
        self.end_reports();
        self.source.iter().for_each(|source| source.stop());
        self.target.iter().for_each(|target| target.stop());
    }

    fn end_reports(&self) {
        *lock(&self.tick.0) = true;
        self.tick.1.notify_all();
    }
}
