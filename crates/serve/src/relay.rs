//! Relays data between a TLS connection and two pipes until both directions have ended. Uses one thread, and buffers no
//! more than one side has just sent.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use haul_base::idle_timeout::poll_all;
use rustix::event::{PollFd, PollFlags};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use rustls::Connection;

/// How often the stop flag is checked.
const TICK: Duration = Duration::from_millis(100);
/// How long one direction may go on after the other one has ended. A stopped worker takes nothing and says nothing.
const LINGER: Duration = Duration::from_secs(10);
/// Most bytes of one read from a pipe.
const CHUNK: usize = 64 << 10;

/// Relays `input` to the peer of `connection`, and its data to `output`, which is closed at the end of that data.
/// Returns when both directions have ended, a while after one has, when the connection breaks, or soon after `stop` is
/// set.
pub(super) fn relay(
    connection: &mut Connection,
    socket: &TcpStream,
    input: impl Into<OwnedFd>,
    output: impl Into<OwnedFd>,
    stop: impl Fn() -> bool,
) -> io::Result<()> {
    let output = output.into();
    fcntl_setfl(&output, fcntl_getfl(&output)? | OFlags::NONBLOCK)?;
    socket.set_nonblocking(true)?;
    let mut relay = WorkerRelay {
        connection,
        socket,
        input: Some(input.into()),
        output: Some(output),
        held: Vec::new(),
        ended: false,
        until: None,
    };
    // Data that arrived together with the proof.
    relay.take_plain()?;
    while !relay.is_over() && !stop() {
        relay.step()?;
    }
    Ok(())
}

struct WorkerRelay<'a> {
    connection: &'a mut Connection,
    socket: &'a TcpStream,
    input: Option<OwnedFd>,
    output: Option<OwnedFd>,
    /// Data for the output, not yet written.
    held: Vec<u8>,
    /// Whether the peer has ended its data.
    ended: bool,
    /// Deadline for the other direction, once one has ended.
    until: Option<Instant>,
}

impl WorkerRelay<'_> {
    fn is_over(&self) -> bool {
        let has_ended = self.input.is_none() && !self.connection.wants_write();
        has_ended && self.ended && self.held.is_empty() || self.until.is_some_and(|until| Instant::now() > until)
    }

    fn step(&mut self) -> io::Result<()> {
        let wants_write = self.connection.wants_write();
        let mut of_socket = PollFlags::empty();
        of_socket.set(PollFlags::OUT, wants_write);
        of_socket.set(PollFlags::IN, !self.ended && self.held.is_empty());
        // Of a peer that has hung up, nothing else is to be heard while the output takes nothing.
        of_socket.set(PollFlags::RDHUP, self.until.is_none());
        let socket = Some(self.socket).filter(|_| !of_socket.is_empty());
        let input = self.input.as_ref().filter(|_| !wants_write);
        let of_output = if self.held.is_empty() { PollFlags::empty() } else { PollFlags::OUT };
        let mut fds = Vec::new();
        fds.extend(socket.map(|socket| PollFd::new(socket, of_socket)));
        fds.extend(input.map(|input| PollFd::new(input, PollFlags::IN)));
        fds.extend(self.output.as_ref().map(|output| PollFd::new(output, of_output)));
        poll_all(&mut fds, Some(TICK))?;
        let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        let (has_socket, reads_input, has_output) = (socket.is_some(), input.is_some(), self.output.is_some());
        let has_hung_up = has_socket && fds[0].revents().intersects(PollFlags::RDHUP | PollFlags::HUP);
        if has_socket && ready[0] {
            self.use_socket()?;
        }
        if has_output && ready.last() == Some(&true) {
            self.write_output();
        }
        if reads_input && ready[usize::from(has_socket)] {
            self.read_input()?;
        }
        if self.ended && self.held.is_empty() {
            self.output = None;
        }
        if self.ended || has_hung_up {
            self.begin_to_end();
        }
        Ok(())
    }

    fn begin_to_end(&mut self) {
        self.until.get_or_insert_with(|| Instant::now() + LINGER);
    }

    fn use_socket(&mut self) -> io::Result<()> {
        let mut socket = self.socket;
        if self.connection.wants_write() {
            would_block(self.connection.write_tls(&mut socket))?;
        }
        if self.ended || !self.held.is_empty() {
            return Ok(());
        }
        match would_block(self.connection.read_tls(&mut socket))? {
            None => Ok(()),
            Some(0) => {
                self.ended = true;
                Ok(())
            }
            Some(_) => self.take_plain(),
        }
    }

    /// Reads all decrypted data.
    fn take_plain(&mut self) -> io::Result<()> {
        let state = self.connection.process_new_packets().map_err(io::Error::other)?;
        let mut plain = vec![0; state.plaintext_bytes_to_read()];
        self.connection.reader().read_exact(&mut plain)?;
        self.ended |= state.peer_has_closed();
        if self.output.is_some() {
            self.held.append(&mut plain);
            self.write_output();
        }
        Ok(())
    }

    /// Writes as much as possible. A closed output is reported elsewhere and only ends this direction.
    fn write_output(&mut self) {
        let Some(output) = &self.output else { return };
        let written = match rustix::io::write(output, &self.held) {
            Ok(written) => Some(written),
            Err(Errno::AGAIN | Errno::INTR) => Some(0),
            Err(_) => None,
        };
        match written {
            // With no events requested, poll reports only errors: the reader is gone.
            Some(0) if self.held.is_empty() && is_gone(output) => self.output = None,
            Some(written) => drop(self.held.drain(..written)),
            None => {
                self.held.clear();
                self.output = None;
            }
        }
    }

    fn read_input(&mut self) -> io::Result<()> {
        let Some(input) = &self.input else { return Ok(()) };
        let mut chunk = vec![0; CHUNK];
        match rustix::io::read(input, &mut chunk) {
            Ok(0) => {
                self.input = None;
                self.begin_to_end();
                self.connection.send_close_notify();
            }
            Ok(read) => self.connection.writer().write_all(&chunk[..read])?,
            Err(Errno::INTR | Errno::AGAIN) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }
}

fn is_gone(output: impl AsFd) -> bool {
    let mut fds = [PollFd::new(&output, PollFlags::empty())];
    matches!(poll_all(&mut fds, Some(Duration::ZERO)), Ok(ready) if ready > 0)
}

fn would_block(done: io::Result<usize>) -> io::Result<Option<usize>> {
    match done {
        Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => Ok(None),
        done => done.map(Some),
    }
}
