//! Stands between a controller with its source and a real target, and has the session's secret. It forwards everything:
//! the messages of both ends, and the records of the one stream, which it opens and seals again.

use std::net::TcpListener;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::TryRecvError;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use std::{io, thread};

use haul_e2e::{FakeLink, RawAcceptor, RawStream, WorkerProgramProcess};
use haul_proto::ids::StreamId;
use haul_proto::wire::control_channel::ControlChannel;
use haul_proto::wire::report::WorkerMessage;
use haul_proto::wire::request::{ControllerMessage, SessionSettings};

use super::mutation::{Item, Lane, Mutator};

/// Where both ends wait for the other one, nobody is to blame; the relay hangs up.
const QUIET: Duration = Duration::from_secs(4);
/// The interval between polls for the controller's messages.
const TICK: Duration = Duration::from_millis(1);
/// Another machine's, so the ends do not appear to share one.
const OTHER_BOOT: [u8; 16] = [0x5a; 16];

/// Shared state of a relay's threads.
pub struct RelayState {
    mutator: Mutex<Mutator>,
    /// Counts all that was passed on but reports.
    moved: AtomicU64,
}

impl RelayState {
    pub fn new(mutator: Mutator) -> Arc<Self> {
        Arc::new(Self { mutator: Mutex::new(mutator), moved: AtomicU64::new(0) })
    }

    pub fn with<T>(&self, look: impl FnOnce(&mut Mutator) -> T) -> T {
        look(&mut self.mutator.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn pass(&self, lane: Lane, item: Item) -> Vec<Item> {
        self.moved.fetch_add(1, Ordering::SeqCst);
        self.with(|mutator| mutator.pass(lane, item))
    }
}

pub struct Relay<'a> {
    pub state: &'a Arc<RelayState>,
    pub link: FakeLink,
    pub worker: &'a mut WorkerProgramProcess,
    settings: Option<SessionSettings>,
}

impl<'a> Relay<'a> {
    pub fn new(state: &'a Arc<RelayState>, link: FakeLink, worker: &'a mut WorkerProgramProcess) -> Self {
        Self { state, link, worker, settings: None }
    }

    /// Forwards until one end closes, or both wait.
    pub fn run(&mut self) -> io::Result<()> {
        self.link.greet_only()?;
        let said = self.link.frames()?;
        let (mut moved, mut since) = (0, Instant::now());
        loop {
            loop {
                match said.try_recv() {
                    Ok((channel, content)) => self.take_from_controller(channel, content)?,
                    Err(TryRecvError::Empty) => break,
                    Err(TryRecvError::Disconnected) => return Ok(()),
                }
            }
            match self.worker.frame_within(TICK) {
                Ok(Some((channel, content))) => self.take_from_worker(channel, content)?,
                Ok(None) => {}
                Err(_) => return Ok(()),
            }
            let now = self.state.moved.load(Ordering::SeqCst);
            if now != moved {
                (moved, since) = (now, Instant::now());
            }
            if since.elapsed() > QUIET && !self.release()? {
                return Ok(());
            }
        }
    }

    /// Forwards the held item; `false` if there is none.
    fn release(&mut self) -> io::Result<bool> {
        let held = self.state.with(|mutator| (mutator.release(Lane::Source), mutator.release(Lane::Target)));
        match held {
            (Some(item), _) => self.worker.send(ControlChannel::Peer, &item.body),
            (_, Some(item)) => self.link.send(ControlChannel::Peer, &item.body)?,
            (None, None) => return Ok(false),
        }
        self.state.moved.fetch_add(1, Ordering::SeqCst);
        Ok(true)
    }

    fn take_from_controller(&mut self, channel: ControlChannel, content: Vec<u8>) -> io::Result<()> {
        if channel == ControlChannel::Peer {
            let items = self.state.pass(Lane::Source, Item { payload: Vec::new(), body: content });
            items.iter().for_each(|item| self.worker.send(ControlChannel::Peer, &item.body));
            return Ok(());
        }
        if channel == ControlChannel::Controller
            && let ControllerMessage::Target(request) = ControllerMessage::decode(&content).map_err(io::Error::other)?
        {
            self.settings = Some(request.settings);
        }
        self.worker.send(channel, &content);
        Ok(())
    }

    fn take_from_worker(&mut self, channel: ControlChannel, content: Vec<u8>) -> io::Result<()> {
        if channel == ControlChannel::Peer {
            let items = self.state.pass(Lane::Target, Item { payload: Vec::new(), body: content });
            return items.iter().try_for_each(|item| self.link.send(ControlChannel::Peer, &item.body));
        }
        let message = WorkerMessage::decode(&content).map_err(io::Error::other)?;
        match message {
            WorkerMessage::Hello(hello) => {
                self.link.report(&WorkerMessage::Hello(haul_proto::wire::report::WorkerHello {
                    boot: OTHER_BOOT,
                    addresses: Vec::new(),
                    ..hello
                }))
            }
            WorkerMessage::TargetReady { device, inode, new_tree, .. } => {
                self.link.report(&WorkerMessage::TargetReady { boot: OTHER_BOOT, device, inode, new_tree })
            }
            WorkerMessage::Listening { port } => {
                let port = self.carry_records(port)?;
                self.link.report(&WorkerMessage::Listening { port })
            }
            _ => self.link.send(channel, &content),
        }
    }

    /// Carries the records of the one stream to `port`; the port for the source.
    fn carry_records(&self, port: u16) -> io::Result<u16> {
        let settings = self.settings.clone().ok_or(io::ErrorKind::NotConnected)?;
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let own = listener.local_addr()?.port();
        let state = Arc::clone(self.state);
        thread::spawn(move || carry(&listener, &settings, port, &state));
        Ok(own)
    }
}

/// Ends when either end closes the stream.
fn carry(listener: &TcpListener, settings: &SessionSettings, port: u16, state: &RelayState) -> io::Result<()> {
    let mut source = RawAcceptor::accept(listener, settings)?;
    let mut target = RawStream::connect(port, settings, StreamId(0))?;
    while let Ok((payload, body)) = source.next_record() {
        let items = state.pass(Lane::Record, Item { payload, body });
        items.iter().try_for_each(|item| target.send(&item.payload, &item.body))?;
    }
    match state.with(|mutator| mutator.release(Lane::Record)) {
        Some(item) => target.send(&item.payload, &item.body),
        None => Ok(()),
    }
}
