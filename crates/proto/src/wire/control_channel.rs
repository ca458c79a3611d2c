//! The control channel between the controller and a worker: multiplexed frames over a pipe or ssh's standard streams.
//!
//! A frame is `length u32, channel u16, bytes`; the length counts the bytes only.
//!
//! - Channel 0 connects controller and worker.
//! - Channel 1 connects the two workers; the controller forwards it without reading it.
//! - Channel `16 + n` is data stream n where it is tunnelled through ssh.
//!
//! An empty frame of channel 0 is a heartbeat; it only shows that its sender is alive.

use crate::error::ProtocolError;
use crate::ids::StreamId;
use crate::limits::{CONTROL_MESSAGE_MAX, PEER_MESSAGE_MAX, STREAMS_MAX, TUNNEL_CHUNK_MAX};

const FIRST_STREAM: u16 = 16;

/// Channel of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ControlChannel {
    /// Between the controller and the worker.
    Controller,
    /// Between the two workers.
    Peer,
    /// A data stream; an empty frame ends it.
    Stream(StreamId),
}

impl ControlChannel {
    fn number(self) -> u16 {
        match self {
            ControlChannel::Controller => 0,
            ControlChannel::Peer => 1,
            ControlChannel::Stream(StreamId(n)) => FIRST_STREAM + n,
        }
    }

    fn from_number(number: u16) -> Result<Self, ProtocolError> {
        match number {
            0 => Ok(ControlChannel::Controller),
            1 => Ok(ControlChannel::Peer),
            n if (FIRST_STREAM..FIRST_STREAM + STREAMS_MAX).contains(&n) => {
                Ok(ControlChannel::Stream(StreamId(n - FIRST_STREAM)))
            }
            n => Err(ProtocolError::Unknown { what: "channel", value: n.into() }),
        }
    }

    /// Returns the largest content of one frame on this channel.
    pub fn limit(self) -> usize {
        match self {
            ControlChannel::Controller => CONTROL_MESSAGE_MAX,
            ControlChannel::Peer => PEER_MESSAGE_MAX,
            ControlChannel::Stream(_) => TUNNEL_CHUNK_MAX,
        }
    }
}

/// Length of a frame's header: `length u32, channel u16`.
pub const HEADER_LEN: usize = 6;

/// A heartbeat: an empty frame of channel 0.
pub const BEAT: [u8; HEADER_LEN] = [0; HEADER_LEN];

/// Encodes the header of a frame with `length` bytes of content.
pub fn encode_header(channel: ControlChannel, length: u32) -> [u8; HEADER_LEN] {
    let mut header = [0; HEADER_LEN];
    header[..4].copy_from_slice(&length.to_le_bytes());
    header[4..].copy_from_slice(&channel.number().to_le_bytes());
    header
}

/// Decodes a header and checks the length against the channel's limit.
pub fn decode_header(header: [u8; HEADER_LEN]) -> Result<(ControlChannel, usize), ProtocolError> {
    let [a, b, c, d, e, f] = header;
    let channel = ControlChannel::from_number(u16::from_le_bytes([e, f]))?;
    let length = u32::from_le_bytes([a, b, c, d]) as usize;
    if length > channel.limit() {
        return Err(ProtocolError::OverLimit("a link frame"));
    }
    Ok((channel, length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_beat_is_an_empty_frame_to_the_controller_or_from_it() {
        assert_eq!(decode_header(BEAT), Ok((ControlChannel::Controller, 0)));
    }

    #[test]
    fn headers_round_trip_within_limits() {
        for channel in [
            ControlChannel::Controller,
            ControlChannel::Peer,
            ControlChannel::Stream(StreamId(0)),
            ControlChannel::Stream(StreamId(255)),
        ] {
            assert_eq!(decode_header(encode_header(channel, 17)), Ok((channel, 17)));
            let over = u32::try_from(channel.limit() + 1).unwrap();
            assert_eq!(decode_header(encode_header(channel, over)), Err(ProtocolError::OverLimit("a link frame")));
        }
        assert!(decode_header([0, 0, 0, 0, 2, 0]).is_err());
        assert!(decode_header([0, 0, 0, 0, 16, 1]).is_err());
    }
}
