//! The control channel between the controller and a worker: frames over a pair of pipes. Each end sends heartbeats, so
//! that the other one notices its loss (`idle_timeout`).

use std::io::{self, IoSlice, Read, Write};
use std::sync::{Arc, Mutex, Weak};
use std::thread;
use std::time::Duration;

use haul_proto::error::ProtocolError;
use haul_proto::limits::{BEAT_MS, PEER_MESSAGE_MAX};
use haul_proto::wire::control_channel::{BEAT, ControlChannel, HEADER_LEN, decode_header, encode_header};

use crate::sys::sync::lock;

type SharedPipe = Mutex<Box<dyn Write + Send>>;

/// Writes frames; clones write to the same pipe, one frame at a time.
#[derive(Clone)]
pub struct ControlWriter(Arc<SharedPipe>);

impl ControlWriter {
    /// Over this pipe.
    pub fn new(pipe: impl Write + Send + 'static) -> Self {
        Self(Arc::new(Mutex::new(Box::new(pipe))))
    }

    /// Sends one frame. Waits while the other end does not read.
    ///
    /// # Panics
    /// If `content` is beyond the channel's limit: a programmer's error.
    pub fn send(&self, channel: ControlChannel, content: &[u8]) -> io::Result<()> {
        assert!(content.len() <= channel.limit(), "a frame beyond its channel's limit");
        let header = encode_header(channel, u32::try_from(content.len()).unwrap_or(u32::MAX));
        let mut pipe = lock(&self.0);
        write_both(&mut **pipe, &header, content)?;
        pipe.flush()
    }

    /// Sends several frames on one channel, in few system calls.
    pub fn send_all(&self, channel: ControlChannel, contents: &[Vec<u8>]) -> io::Result<()> {
        let mut frames = Vec::with_capacity(contents.iter().map(|content| content.len() + HEADER_LEN).sum());
        for content in contents {
            assert!(content.len() <= channel.limit(), "a frame beyond its channel's limit");
            frames.extend_from_slice(&encode_header(channel, u32::try_from(content.len()).unwrap_or(u32::MAX)));
            frames.extend_from_slice(content);
        }
        let mut pipe = lock(&self.0);
        pipe.write_all(&frames)?;
        pipe.flush()
    }

    /// Sends heartbeats in a separate thread, also while other threads block, until the last writer is dropped or the
    /// pipe fails.
    pub fn keep_alive(&self) -> io::Result<()> {
        let pipe = Arc::downgrade(&self.0);
        thread::Builder::new().name("haul-beat".into()).spawn(move || {
            while write_heartbeat(&pipe).is_some_and(|sent| sent.is_ok()) {
                thread::sleep(Duration::from_millis(BEAT_MS));
            }
        })?;
        Ok(())
    }

    /// Closes the pipe: the other end reads to its end.
    pub fn close(&self) {
        *lock(&self.0) = Box::new(io::sink());
    }
}

/// Writes a heartbeat; `None` after the last writer was dropped.
fn write_heartbeat(pipe: &Weak<SharedPipe>) -> Option<io::Result<()>> {
    let pipe = pipe.upgrade()?;
    let mut pipe = lock(&pipe);
    Some(pipe.write_all(&BEAT).and_then(|()| pipe.flush()))
}

/// Writes a header and its content, in one system call if possible.
fn write_both(pipe: &mut dyn Write, mut header: &[u8], mut content: &[u8]) -> io::Result<()> {
    while !header.is_empty() {
        match pipe.write_vectored(&[IoSlice::new(header), IoSlice::new(content)]) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => {
                let of_header = written.min(header.len());
                header = &header[of_header..];
                content = &content[written - of_header..];
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    pipe.write_all(content)
}

/// A read error of a control channel.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// The pipe failed.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The bytes violate the protocol.
    #[error("{0}")]
    Protocol(#[from] ProtocolError),
}

/// Reads frames.
pub struct ControlReader<R> {
    pipe: R,
    content: Vec<u8>,
}

impl<R: Read> ControlReader<R> {
    /// Over this pipe.
    pub fn new(pipe: R) -> Self {
        Self { pipe, content: Vec::new() }
    }

    /// The next frame except heartbeats; `None` at the end of the pipe.
    pub fn next_frame(&mut self) -> Result<Option<(ControlChannel, &[u8])>, ControlError> {
        let mut header = BEAT;
        while header == BEAT {
            match read_some(&mut self.pipe, &mut header)? {
                0 => return Ok(None),
                n => self.pipe.read_exact(&mut header[n..])?,
            }
        }
        let (channel, length) = decode_header(header)?;
        self.content.clear();
        // One large message must not keep its memory.
        self.content.shrink_to(PEER_MESSAGE_MAX);
        // Memory grows with received bytes, not with the header's length.
        let read = (&mut self.pipe).take(length as u64).read_to_end(&mut self.content)?;
        if read < length {
            return Err(ProtocolError::Truncated.into());
        }
        Ok(Some((channel, &self.content)))
    }
}

/// Reads available bytes; restarts after a signal.
fn read_some(pipe: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        match pipe.read(buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            read => return read,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use haul_proto::ids::StreamId;

    use super::*;

    #[test]
    fn frames_arrive_in_order_followed_by_the_end() {
        let (a, b) = UnixStream::pair().unwrap();
        let writer = ControlWriter::new(a);
        let sending = thread::spawn(move || {
            writer.send(ControlChannel::Peer, b"one").unwrap();
            writer.send(ControlChannel::Stream(StreamId(3)), b"").unwrap();
            writer.send(ControlChannel::Controller, &vec![7; 1 << 20]).unwrap();
            writer.close();
        });
        let mut reader = ControlReader::new(b);
        assert_eq!(reader.next_frame().unwrap(), Some((ControlChannel::Peer, &b"one"[..])));
        assert_eq!(reader.next_frame().unwrap(), Some((ControlChannel::Stream(StreamId(3)), &b""[..])));
        assert_eq!(reader.next_frame().unwrap(), Some((ControlChannel::Controller, &vec![7; 1 << 20][..])));
        assert_eq!(reader.next_frame().unwrap(), None);
        sending.join().unwrap();
    }

    #[test]
    fn a_signal_while_it_waits_is_no_end() {
        struct Interrupted(bool, io::Cursor<Vec<u8>>);
        impl Read for Interrupted {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                match std::mem::replace(&mut self.0, true) {
                    false => Err(io::ErrorKind::Interrupted.into()),
                    true => self.1.read(buffer),
                }
            }
        }
        let frame = io::Cursor::new([&encode_header(ControlChannel::Peer, 3)[..], b"one"].concat());
        let mut reader = ControlReader::new(Interrupted(false, frame));
        assert_eq!(reader.next_frame().unwrap(), Some((ControlChannel::Peer, &b"one"[..])));
    }

    #[test]
    fn a_truncated_frame_is_a_fault() {
        let mut whole = encode_header(ControlChannel::Peer, 10).to_vec();
        whole.extend_from_slice(b"short");
        assert!(ControlReader::new(&whole[..]).next_frame().is_err());
        assert!(ControlReader::new(&whole[..3]).next_frame().is_err());
    }
}
