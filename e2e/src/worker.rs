//! A worker of the real program, with a test as its controller: for what no controller of haul's would say.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use haul_lab::peak_memory_bytes;
use haul_proto::wire::control_channel::{BEAT, LinkChannel, decode_header, encode_header};
use haul_proto::wire::report::WorkerMessage;
use haul_proto::wire::request::ControllerMessage;

use crate::{Sandbox, within};

/// No answer takes nearly as long.
const LIMIT: Duration = Duration::from_secs(20);

/// Peak resident memory of a worker, whatever its peer says, in bytes.
pub const WORKER_MEMORY_MAX: u64 = 200 << 20;

/// How often a process's peak memory is read: it cannot be read any more once the process has ended.
const MEMORY_INTERVAL: Duration = Duration::from_millis(2);

/// The worker. Dropping it kills it.
#[derive(Debug)]
pub struct WorkerProgramProcess {
    child: Child,
    input: Option<ChildStdin>,
    frames: Receiver<(LinkChannel, Vec<u8>)>,
    memory: PeakMemory,
}

/// The peak resident memory of a process, which is sampled until it ends. Dropping it ends the sampling.
#[derive(Debug)]
pub struct PeakMemory {
    peak_bytes: Arc<AtomicU64>,
    is_over: Arc<AtomicBool>,
}

impl PeakMemory {
    /// Samples the process of this id.
    pub fn of(pid: u32) -> Self {
        // The process may end before the thread runs.
        let peak_bytes = Arc::new(AtomicU64::new(peak_memory_bytes(pid)));
        let sampler = Self { peak_bytes, is_over: Arc::default() };
        let (peak_bytes, is_over) = (Arc::clone(&sampler.peak_bytes), Arc::clone(&sampler.is_over));
        thread::spawn(move || {
            while !is_over.load(Ordering::Relaxed) {
                peak_bytes.fetch_max(peak_memory_bytes(pid), Ordering::Relaxed);
                thread::sleep(MEMORY_INTERVAL);
            }
        });
        sampler
    }

    /// The peak so far, in bytes.
    pub fn bytes(&self) -> u64 {
        self.peak_bytes.load(Ordering::Relaxed)
    }

    /// Fails where the peak is above [`WORKER_MEMORY_MAX`].
    #[track_caller]
    pub fn assert_bounded(&self, what: &str) {
        let mib = self.bytes() >> 20;
        assert!(self.bytes() > 0, "{what}: the peak memory was never read");
        assert!(self.bytes() <= WORKER_MEMORY_MAX, "{what}: {mib} MiB of resident memory");
    }
}

impl Drop for PeakMemory {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

impl WorkerProgramProcess {
    /// Starts one, in the sandbox's environment.
    #[track_caller]
    pub fn start(sandbox: &Sandbox) -> Self {
        let mut command = sandbox.haul(["worker"]).into_command();
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("haul can be started");
        let input = child.stdin.take();
        let mut output = BufReader::new(child.stdout.take().expect("it was piped"));
        let (sender, frames) = channel();
        thread::spawn(move || {
            // The greeting is an empty line and a line.
            (0..2).for_each(|_| drop(output.read_line(&mut String::new())));
            while let Some(frame) = read_frame(&mut output) {
                if sender.send(frame).is_err() {
                    return;
                }
            }
        });
        let memory = PeakMemory::of(child.id());
        Self { child, input, frames, memory }
    }

    /// Tells it what a controller tells.
    pub fn tell(&mut self, message: &ControllerMessage) {
        self.send(LinkChannel::Controller, &message.encode());
    }

    /// Sends a frame over its link. One that is gone takes nothing: what it said last is still to be read.
    pub fn send(&mut self, channel: LinkChannel, content: &[u8]) {
        let length = u32::try_from(content.len()).expect("a frame below 4 GiB");
        self.send_raw(&[&encode_header(channel, length), content].concat());
    }

    /// Sends any bytes over its link.
    pub fn send_raw(&mut self, bytes: &[u8]) {
        if let Some(input) = &mut self.input {
            let _ = input.write_all(bytes).and_then(|()| input.flush());
        }
    }

    /// The next frame from it; `None` when it is gone.
    #[track_caller]
    pub fn next_frame(&mut self) -> Option<(LinkChannel, Vec<u8>)> {
        match self.frames.recv_timeout(LIMIT) {
            Ok(frame) => Some(frame),
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => panic!("the worker says nothing"),
        }
    }

    /// Waits for what `wanted` takes of its words to the controller; `None` when it is gone before.
    #[track_caller]
    pub fn wait_for<T>(&mut self, wanted: impl Fn(WorkerMessage) -> Option<T>) -> Option<T> {
        let deadline = Instant::now() + LIMIT;
        loop {
            assert!(Instant::now() < deadline, "the worker does not say what was waited for");
            let (channel, content) = self.next_frame()?;
            let message = (channel == LinkChannel::Controller).then(|| WorkerMessage::decode(&content));
            if let Some(found) = message.transpose().expect("workers keep to the protocol").and_then(&wanted) {
                return Some(found);
            }
        }
    }

    /// Closes the link, which ends it; its exit status. Fails where its memory was not bounded; `what` names the test.
    #[track_caller]
    pub fn end(mut self, what: &str) -> Option<i32> {
        drop(self.input.take());
        let mut status = None;
        let ended = within(LIMIT, || {
            status = self.child.try_wait().expect("it is a child");
            status.is_some()
        });
        assert!(ended, "the worker lives on without its controller");
        self.memory.assert_bounded(what);
        status.and_then(|status| status.code())
    }
}

impl Drop for WorkerProgramProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read_frame(output: &mut impl Read) -> Option<(LinkChannel, Vec<u8>)> {
    let mut header = BEAT;
    while header == BEAT {
        output.read_exact(&mut header).ok()?;
    }
    let (channel, length) = decode_header(header).expect("workers keep to the protocol");
    let mut content = vec![0; length];
    output.read_exact(&mut content).ok()?;
    Some((channel, content))
}
