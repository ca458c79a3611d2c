//! A worker that keeps to no rule: the test speaks in its place, over the link that a controller has to it.

use std::io::{self, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use haul_proto::feature::{Features, PROTOCOL_VERSION};
use haul_proto::wire::control_channel::{BEAT, ControlChannel, decode_header, encode_header};
use haul_proto::wire::report::{WindowLimits, WorkerHello, WorkerMessage};
use haul_proto::wire::request::ControllerMessage;

use crate::Sandbox;

/// Far longer than any awaited event takes.
const LIMIT: Duration = Duration::from_secs(20);

/// Where a controller's command for a worker leads to.
#[derive(Debug)]
pub struct FakeWorker {
    listener: UnixListener,
    socket: PathBuf,
}

impl FakeWorker {
    /// In this sandbox.
    #[track_caller]
    pub fn new(sandbox: &Sandbox) -> Self {
        let socket = sandbox.path("fake-worker");
        let listener = UnixListener::bind(&socket).expect("a socket in a sandbox");
        Self { listener, socket }
    }

    /// The value of `-S` or `-T`; `program` is `haul-fake-worker`.
    pub fn command(&self, program: &str) -> String {
        format!("{program} {}", self.socket.display())
    }

    /// The link to the controller that has started the command. `None` where none comes.
    pub fn accept(&self, limit: Duration) -> Option<FakeLink> {
        self.listener.set_nonblocking(true).expect("a socket");
        let deadline = Instant::now() + limit;
        loop {
            match self.listener.accept() {
                Ok((stream, _)) => return Some(FakeLink::new(stream)),
                Err(_) if Instant::now() < deadline => thread::sleep(Duration::from_millis(2)),
                Err(_) => return None,
            }
        }
    }
}

/// The link of a worker that the test plays.
#[derive(Debug)]
pub struct FakeLink {
    input: BufReader<UnixStream>,
    output: UnixStream,
    deadline: Instant,
}

impl FakeLink {
    fn new(stream: UnixStream) -> Self {
        stream.set_nonblocking(false).expect("a socket");
        stream.set_read_timeout(Some(LIMIT)).expect("a socket");
        stream.set_write_timeout(Some(LIMIT)).expect("a socket");
        let output = stream.try_clone().expect("a descriptor");
        Self { input: BufReader::new(stream), output, deadline: Instant::now() + LIMIT }
    }

    /// Greets as a worker does, and sends nothing else.
    pub fn greet_only(&mut self) -> io::Result<()> {
        self.send_raw(format!("\nHAUL-WORKER {PROTOCOL_VERSION} 0.1.0\n").as_bytes())
    }

    /// Greets, and says Hello as a worker without addresses.
    pub fn greet(&mut self) -> io::Result<()> {
        self.greet_with(&hello())
    }

    /// The same with another Hello.
    pub fn greet_with(&mut self, hello: &WorkerHello) -> io::Result<()> {
        self.greet_only()?;
        self.report(&WorkerMessage::Hello(hello.clone()))
    }

    /// Sends a report.
    pub fn report(&mut self, message: &WorkerMessage) -> io::Result<()> {
        self.send(ControlChannel::Controller, &message.encode())
    }

    /// Sends a frame.
    pub fn send(&mut self, channel: ControlChannel, content: &[u8]) -> io::Result<()> {
        let length = u32::try_from(content.len()).expect("a frame below 4 GiB");
        self.send_raw(&[&encode_header(channel, length), content].concat())
    }

    /// Sends any bytes. An error means that the controller has ended.
    pub fn send_raw(&mut self, bytes: &[u8]) -> io::Result<()> {
        if Instant::now() > self.deadline {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.output.write_all(bytes)
    }

    /// The next frame; an error if the controller has ended or stays silent, or the channel is an earlier one.
    pub fn next_frame(&mut self) -> io::Result<(ControlChannel, Vec<u8>)> {
        let mut header = BEAT;
        while header == BEAT {
            if Instant::now() > self.deadline {
                return Err(io::ErrorKind::TimedOut.into());
            }
            self.input.read_exact(&mut header)?;
        }
        let (channel, length) = decode_header(header).map_err(io::Error::other)?;
        let mut content = vec![0; length];
        self.input.read_exact(&mut content)?;
        Ok((channel, content))
    }

    /// All frames from now on, from a reader thread. They end with the controller, or when the channel becomes an
    /// earlier one.
    pub fn frames(&self) -> io::Result<Receiver<(ControlChannel, Vec<u8>)>> {
        let mut reader = Self::new(self.output.try_clone()?);
        let (sender, frames) = channel();
        thread::spawn(move || while reader.next_frame().is_ok_and(|frame| sender.send(frame).is_ok()) {});
        Ok(frames)
    }

    /// Waits for a message from the controller that `wanted` accepts.
    pub fn wait_for<T>(&mut self, wanted: impl Fn(ControllerMessage) -> Option<T>) -> io::Result<T> {
        loop {
            let (channel, content) = self.next_frame()?;
            if channel != ControlChannel::Controller {
                continue;
            }
            if let Some(found) = wanted(ControllerMessage::decode(&content).map_err(io::Error::other)?) {
                return Ok(found);
            }
        }
    }

    /// Reads until the controller closes the link.
    pub fn drain(&mut self) {
        while self.next_frame().is_ok() {}
    }

    /// Closes the link.
    pub fn close(&self) {
        // One that is closed already is as good.
        let _ = self.output.shutdown(Shutdown::Both);
    }
}

/// The Hello of a worker on another machine.
pub fn hello() -> WorkerHello {
    WorkerHello {
        protocol: PROTOCOL_VERSION,
        features: Features::ALL,
        cores: 2,
        aes: true,
        boot: [0x5a; 16],
        ssh_connection: None,
        addresses: Vec::new(),
        rate_bytes_per_s: 0,
        windows: WindowLimits::default(),
        requires_blake3: false,
    }
}
