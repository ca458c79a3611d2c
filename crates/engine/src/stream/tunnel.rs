//! Streams through the link to the controller, where no connection can be made: each is a socket pair, one side
//! of which is a stream like any other; the other side's bytes travel as link frames of the stream's channel.

use haul_proto::ids::StreamId;
use haul_proto::wire::limits::TUNNEL_PIECE_MAX;
use haul_proto::wire::link::Channel;
use std::io::{self, Read};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use super::handshake::{Credentials, as_acceptor, as_connector};
use super::socket::send_all;
use super::{Stream, StreamError};
use crate::link::LinkWriter;

/// The link's ends of all tunnelled streams.
pub struct Tunnel {
    outer: Vec<UnixStream>,
}

impl Tunnel {
    /// Opens one tunnel for each stream. The sockets that come with it are to be proven with [`prove`].
    pub fn open(streams: u16, link: &LinkWriter) -> io::Result<(Self, Vec<OwnedFd>)> {
        let mut outer = Vec::new();
        let mut inner = Vec::new();
        for id in 0..streams {
            let (ours, theirs) = UnixStream::pair()?;
            let (from, link) = (ours.try_clone()?, link.clone());
            std::thread::Builder::new()
                .name(format!("haul-tunnel{id}"))
                .spawn(move || pump(StreamId(id), from, &link))?;
            outer.push(ours);
            inner.push(theirs.into());
        }
        Ok((Self { outer }, inner))
    }

    /// Passes bytes from the link on to a stream. An empty piece ends it. Errors are the stream's to notice.
    pub fn deliver(&self, stream: StreamId, bytes: &[u8]) {
        let Some(outer) = self.outer.get(usize::from(stream.0)) else { return };
        let _ = if bytes.is_empty() { outer.shutdown(Shutdown::Write) } else { send_all(outer, bytes) };
    }
}

/// Moves what a stream sends to the link.
fn pump(stream: StreamId, mut from: UnixStream, link: &LinkWriter) {
    let mut piece = vec![0; TUNNEL_PIECE_MAX];
    while let Ok(read) = from.read(&mut piece) {
        if link.send(Channel::Stream(stream), &piece[..read]).is_err() || read == 0 {
            return;
        }
    }
}

/// Proves all tunnelled streams, in order.
pub fn prove(inner: Vec<OwnedFd>, credentials: &Credentials, connector: bool) -> Result<Vec<Stream>, StreamError> {
    let proven = inner.into_iter().zip(0..).map(|(socket, id)| {
        if connector {
            as_connector(socket, credentials, StreamId(id))
        } else {
            as_acceptor(socket, credentials).map(|(_, stream)| stream)
        }
    });
    proven.collect()
}
