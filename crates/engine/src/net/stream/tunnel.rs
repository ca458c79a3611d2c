//! Streams through the control channel to the controller, where no connection is possible: each is a socket pair. One side is a
//! stream like any other; the other side's bytes travel as frames of the stream's channel.

use std::io::{self, Read};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::channel;

use haul_base::control_channel::ControlWriter;
use haul_proto::ids::{PathId, StreamId};
use haul_proto::limits::TUNNEL_CHUNK_MAX;
use haul_proto::wire::control_channel::ControlChannel;
use rustix::io::Errno;
use rustix::net::{SendFlags, send};

use super::handshake::{StreamCredentials, as_acceptor, as_connector};
use super::{AcceptedStreams, StreamError, StreamIds};
use crate::net::controller_watchdog::ControllerWatchdog;

/// The control channel's ends of all tunnelled streams.
pub struct StreamTunnel {
    outer: Vec<UnixStream>,
}

impl StreamTunnel {
    /// Opens one tunnel for each stream. The resulting sockets are to be authenticated with [`prove`].
    pub fn open(streams: u16, control: &ControlWriter) -> io::Result<(Self, Vec<OwnedFd>)> {
        let mut outer = Vec::new();
        let mut inner = Vec::new();
        for id in 0..streams {
            let (ours, theirs) = UnixStream::pair()?;
            let (from, control) = (ours.try_clone()?, control.clone());
            std::thread::Builder::new()
                .name(format!("haul-tunnel{id}"))
                .spawn(move || pump(StreamId(id), from, &control))?;
            outer.push(ours);
            inner.push(theirs.into());
        }
        Ok((Self { outer }, inner))
    }

    /// Passes bytes from the control channel to a stream. An empty chunk ends it. Errors are the stream's to notice.
    ///
    /// Unread data of a stream waits in its socket, up to the kernel's limit. Beyond that, this function waits for the
    /// stream, and checks the otherwise unread control channel meanwhile: `false` when the copy is over.
    pub fn deliver(&self, stream: StreamId, mut bytes: &[u8], watchdog: &ControllerWatchdog) -> bool {
        let Some(outer) = self.outer.get(usize::from(stream.0)) else { return true };
        if bytes.is_empty() {
            let _ = outer.shutdown(Shutdown::Write);
        }
        while !bytes.is_empty() {
            match send(outer, bytes, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
                Ok(sent) => bytes = &bytes[sent..],
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) if watchdog.wait_writable(outer) => {}
                Err(Errno::AGAIN) => return false,
                Err(_) => return true,
            }
        }
        true
    }
}

/// Moves what a stream sends to the control channel.
fn pump(stream: StreamId, mut from: UnixStream, control: &ControlWriter) {
    let mut chunk = vec![0; TUNNEL_CHUNK_MAX];
    while let Ok(read) = from.read(&mut chunk) {
        if control.send(ControlChannel::Stream(stream), &chunk[..read]).is_err() || read == 0 {
            return;
        }
    }
}

/// Proves all tunnelled streams, in order. The end that connects takes their ids from `ids`.
pub fn prove(
    inner: Vec<OwnedFd>,
    credentials: &StreamCredentials,
    ids: Option<&StreamIds>,
) -> Result<AcceptedStreams, StreamError> {
    let (sender, proven) = channel();
    for socket in inner {
        let stream = match ids.map(StreamIds::next) {
            Some(Some(id)) => (id, as_connector(socket, credentials, id, PathId::TUNNEL)?),
            Some(None) => return Err(io::Error::from(io::ErrorKind::AddrNotAvailable).into()),
            None => as_acceptor(socket, credentials)?,
        };
        // Its receiver is below.
        let _ = sender.send(stream);
    }
    Ok(AcceptedStreams { proven, unwanted: Arc::new(AtomicBool::new(false)) })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::net::controller_watchdog::tests::watchdog;

    /// A tunnel of one stream, and the stream's end of it.
    fn tunnel() -> (StreamTunnel, UnixStream) {
        let (tunnel, mut inner) = StreamTunnel::open(1, &ControlWriter::new(io::sink())).unwrap();
        (tunnel, UnixStream::from(inner.remove(0)))
    }

    #[test]
    fn all_bytes_arrive_in_order_through_a_slower_stream() {
        let (tunnel, mut inner) = tunnel();
        let (watchdog, _controller, _stopper) = watchdog();
        let sent: Vec<u8> = (0..=250).cycle().take(8 << 20).collect();
        let expected = sent.clone();
        let sending = std::thread::spawn(move || {
            let delivered = sent.chunks(TUNNEL_CHUNK_MAX).all(|chunk| tunnel.deliver(StreamId(0), chunk, &watchdog));
            delivered && tunnel.deliver(StreamId(0), b"", &watchdog)
        });
        let mut received = Vec::new();
        inner.read_to_end(&mut received).unwrap();
        assert!(received == expected && sending.join().unwrap());
    }

    #[test]
    fn a_stuck_stream_does_not_hold_a_worker_after_its_copy() {
        for gone in [true, false] {
            let (tunnel, _stuck) = tunnel();
            let (watchdog, controller, stopper) = watchdog();
            let (full, is_full) = channel();
            let delivering = std::thread::spawn(move || {
                let mut sent = 0;
                while tunnel.deliver(StreamId(0), &[7; TUNNEL_CHUNK_MAX], &watchdog) {
                    sent += TUNNEL_CHUNK_MAX;
                    let _ = full.send(sent);
                }
            });
            let mut queued = 0;
            while let Ok(sent) = is_full.recv_timeout(Duration::from_millis(200)) {
                queued = sent;
                assert!(queued <= 1 << 20, "the queue has no end");
            }
            assert!(queued > 0 && !delivering.is_finished(), "it waits while its controller is there");
            let _left = if gone {
                drop(controller);
                None
            } else {
                drop(stopper);
                Some(controller)
            };
            assert!(is_full.recv_timeout(Duration::from_secs(5)).is_err());
            let deadline = std::time::Instant::now() + Duration::from_secs(5);
            while !delivering.is_finished() {
                assert!(std::time::Instant::now() < deadline, "it waits for ever");
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }

    #[test]
    fn an_ended_stream_does_not_end_the_copy() {
        let (tunnel, inner) = tunnel();
        let (watchdog, _controller, _stopper) = watchdog();
        drop(inner);
        assert!(tunnel.deliver(StreamId(0), b"late", &watchdog) && tunnel.deliver(StreamId(9), b"unknown", &watchdog));
    }
}
