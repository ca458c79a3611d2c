//! Data streams: sockets that carry sealed records.
//!
//! A stream is one socket and one thread at each end. How the socket came to be (connected, accepted, through
//! ssh) is decided before, in [`connect`], [`accept`] and [`tunnel`]; from [`handshake`] on they are all alike.

pub mod accept;
pub mod connect;
pub mod handshake;
pub mod record;
pub mod seal;
pub mod socket;
pub mod tunnel;

use haul_proto::wire::fault::ProtocolFault;
use haul_proto::wire::frame::{PREFIX_LEN, Prefix, Trailer};
use std::io;
use std::os::fd::OwnedFd;

use self::record::Record;
use self::seal::{Opener, Sealer};

/// Why a stream ended before its End.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    /// The socket failed or was closed.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The other end broke the protocol, or something on the way changed what it sent.
    #[error("{0}")]
    Protocol(#[from] ProtocolFault),
}

/// One socket, with keys for both directions.
#[derive(Debug)]
pub struct Stream {
    socket: OwnedFd,
    sealer: Sealer,
    opener: Opener,
    sent: u64,
    received: u64,
}

impl Stream {
    /// Seals and sends what `record` holds, with this trailer. The record's payload is unusable afterwards.
    pub fn send(&mut self, record: &mut Record, trailer: &Trailer) -> Result<(), StreamError> {
        record.set_trailer(trailer);
        self.sealer.seal(record)?;
        socket::send_all(&self.socket, record.wire())?;
        self.sent += 1;
        Ok(())
    }

    /// Receives and opens the next record; its payload is in `record` afterwards.
    pub fn receive(&mut self, record: &mut Record) -> Result<Trailer, StreamError> {
        let mut prefix = [0; PREFIX_LEN];
        socket::receive_exact(&self.socket, &mut prefix)?;
        record.set_lengths(Prefix::decode(prefix)?);
        socket::receive_exact(&self.socket, record.behind_prefix_mut())?;
        self.opener.open(record)?;
        self.received += 1;
        Ok(Trailer::decode(record.trailer(), record.payload().len())?)
    }

    /// Records sent, Finished included.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// Records received, Finished included.
    pub fn received(&self) -> u64 {
        self.received
    }
}
