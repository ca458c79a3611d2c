//! A worker of the real program, with a test as its controller: for messages that no controller of haul's sends.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use haul_lab::try_reap;
use haul_proto::wire::control_channel::{BEAT, ControlChannel, decode_header, encode_header};
use haul_proto::wire::report::WorkerMessage;
use haul_proto::wire::request::ControllerMessage;

use crate::{Haul, Sandbox, within};

/// No answer takes nearly as long.
const LIMIT: Duration = Duration::from_secs(20);

/// Peak resident memory of a worker, whatever its peer says, in bytes.
pub const WORKER_MEMORY_MAX: u64 = 200 << 20;

/// The worker. Dropping it kills it.
#[derive(Debug)]
pub struct WorkerProgramProcess {
    child: Child,
    input: Option<ChildStdin>,
    frames: Receiver<(ControlChannel, Vec<u8>)>,
    reaped: bool,
}

/// Fails where a peak of resident memory is above [`WORKER_MEMORY_MAX`].
#[track_caller]
pub fn assert_bounded_memory(peak_bytes: u64, what: &str) {
    let mib = peak_bytes >> 20;
    assert!(peak_bytes > 1 << 20, "{what}: the peak memory is not seen");
    assert!(peak_bytes <= WORKER_MEMORY_MAX, "{what}: {mib} MiB of resident memory");
}

impl WorkerProgramProcess {
    /// Starts one, in the sandbox's environment.
    #[track_caller]
    pub fn start(sandbox: &Sandbox) -> Self {
        Self::of(sandbox.haul(["worker"]), "", Stdio::null())
    }

    /// The worker that this command starts or leads to, once it has read `first`. Its standard error goes to `errors`.
    #[track_caller]
    pub fn of(haul: Haul<'_>, first: &str, errors: impl Into<Stdio>) -> Self {
        let mut command = haul.into_command();
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(errors);
        let mut child = command.spawn().expect("haul can be started");
        let mut input = child.stdin.take();
        // The test observes the effect of a failed write.
        let _ = input.as_mut().map(|input| input.write_all(first.as_bytes()));
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
        Self { child, input, frames, reaped: false }
    }

    /// Sends a controller's message.
    pub fn tell(&mut self, message: &ControllerMessage) {
        self.send(ControlChannel::Controller, &message.encode());
    }

    /// Sends a frame over its control channel. Errors after its end are ignored: its last messages are still to be
    /// read.
    pub fn send(&mut self, channel: ControlChannel, content: &[u8]) {
        let length = u32::try_from(content.len()).expect("a frame below 4 GiB");
        self.send_raw(&[&encode_header(channel, length), content].concat());
    }

    /// Sends any bytes over its link.
    pub fn send_raw(&mut self, bytes: &[u8]) {
        if let Some(input) = &mut self.input {
            let _ = input.write_all(bytes).and_then(|()| input.flush());
        }
    }

    /// Its next frame; `None` after its end.
    #[track_caller]
    pub fn next_frame(&mut self) -> Option<(ControlChannel, Vec<u8>)> {
        match self.frames.recv_timeout(LIMIT) {
            Ok(frame) => Some(frame),
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => panic!("the worker says nothing"),
        }
    }

    /// The next frame within this time, if any; an error after the worker's end.
    pub fn frame_within(&self, limit: Duration) -> Result<Option<(ControlChannel, Vec<u8>)>, RecvTimeoutError> {
        match self.frames.recv_timeout(limit) {
            Ok(frame) => Ok(Some(frame)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(gone) => Err(gone),
        }
    }

    /// Waits for a message to the controller that `wanted` accepts; `None` if the worker ends first.
    #[track_caller]
    pub fn wait_for<T>(&mut self, wanted: impl Fn(WorkerMessage) -> Option<T>) -> Option<T> {
        let deadline = Instant::now() + LIMIT;
        loop {
            assert!(Instant::now() < deadline, "the worker does not say what was waited for");
            let (channel, content) = self.next_frame()?;
            let message = (channel == ControlChannel::Controller).then(|| WorkerMessage::decode(&content));
            if let Some(found) = message.transpose().expect("workers keep to the protocol").and_then(&wanted) {
                return Some(found);
            }
        }
    }

    /// Closes the control channel, which ends the worker; gives its exit status. Fails if its memory exceeded the
    /// limit; `what` names the test.
    #[track_caller]
    pub fn end(mut self, what: &str) -> Option<i32> {
        drop(self.input.take());
        let mut ended = None;
        within(LIMIT, || {
            ended = try_reap(&self.child).expect("it is a child");
            ended.is_some()
        });
        let ended = ended.expect("the worker lives on without its controller");
        self.reaped = true;
        assert_bounded_memory(ended.peak_memory_bytes, what);
        ended.status.code()
    }
}

impl Drop for WorkerProgramProcess {
    fn drop(&mut self) {
        if !self.reaped {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

fn read_frame(output: &mut impl Read) -> Option<(ControlChannel, Vec<u8>)> {
    let mut header = BEAT;
    while header == BEAT {
        output.read_exact(&mut header).ok()?;
    }
    let (channel, length) = decode_header(header).expect("workers keep to the protocol");
    let mut content = vec![0; length];
    output.read_exact(&mut content).ok()?;
    Some((channel, content))
}
