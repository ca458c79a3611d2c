//! Round-trip times by ICMP echo (RFC 792, RFC 4443).
//!
//! Linux offers echo sockets to the groups in `net.ipv4.ping_group_range` (icmp(7)), and raw sockets to privileged users.

use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use haul_base::sys::random::random;
use socket2::{Domain, Protocol, Socket, Type};

const HEADER: usize = 8;
const TOKEN: usize = 8;
/// Largest header of IPv4 (RFC 791), which raw sockets deliver as well.
const IPV4_HEADER_MAX: usize = 60;

/// A socket for echoes of one host.
#[derive(Debug)]
pub struct Ping {
    socket: Socket,
    request_kind: u8,
    reply_kind: u8,
    sequence: u16,
}

impl Ping {
    /// Opens a socket for `address`.
    ///
    /// # Errors
    /// [`io::ErrorKind::PermissionDenied`] where this user may not send echoes; any other that the system has.
    pub fn open(address: IpAddr) -> io::Result<Self> {
        let (domain, protocol, request_kind, reply_kind) = match address {
            IpAddr::V4(_) => (Domain::IPV4, Protocol::ICMPV4, 8, 0),
            IpAddr::V6(_) => (Domain::IPV6, Protocol::ICMPV6, 128, 129),
        };
        let socket = Socket::new(domain, Type::DGRAM, Some(protocol))
            .or_else(|_| Socket::new(domain, Type::RAW, Some(protocol)))?;
        socket.connect(&SocketAddr::new(address, 0).into())?;
        Ok(Self { socket, request_kind, reply_kind, sequence: 0 })
    }

    /// Sends an echo request. Returns the time until its reply; `None` after `limit`.
    ///
    /// # Errors
    /// Those of the socket, such as an unreachable host.
    pub fn round_trip(&mut self, limit: Duration) -> io::Result<Option<Duration>> {
        self.sequence = self.sequence.wrapping_add(1);
        let token: [u8; TOKEN] = random()?;
        let request = request(self.request_kind, self.sequence, token);
        let begun = Instant::now();
        self.socket.write_all(&request)?;
        let mut reply = [0; IPV4_HEADER_MAX + HEADER + TOKEN];
        loop {
            let left = limit.saturating_sub(begun.elapsed());
            if left.is_zero() {
                return Ok(None);
            }
            self.socket.set_read_timeout(Some(left))?;
            match self.socket.read(&mut reply) {
                Ok(len) if is_reply(&reply[..len], self.reply_kind, token) => return Ok(Some(begun.elapsed())),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// An echo request: kind, code 0, checksum, identifier 0, sequence number, token.
fn request(kind: u8, sequence: u16, token: [u8; TOKEN]) -> [u8; HEADER + TOKEN] {
    let mut packet = [0; HEADER + TOKEN];
    packet[0] = kind;
    packet[6..8].copy_from_slice(&sequence.to_be_bytes());
    packet[HEADER..].copy_from_slice(&token);
    let checksum = checksum(&packet);
    packet[2..4].copy_from_slice(&checksum.to_be_bytes());
    packet
}

/// The Internet checksum of an even number of bytes (RFC 1071). The kernel computes that of ICMPv6 itself.
fn checksum(packet: &[u8]) -> u16 {
    let words = packet.as_chunks::<2>().0.iter().map(|word| u32::from(u16::from_be_bytes(*word)));
    let sum: u32 = words.sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    !u16::try_from((folded & 0xffff) + (folded >> 16)).unwrap_or(u16::MAX)
}

/// Whether a packet, with or without a header of IPv4, is the reply with this token.
fn is_reply(packet: &[u8], kind: u8, token: [u8; TOKEN]) -> bool {
    let header = match packet.first() {
        Some(first) if first >> 4 == 4 && packet.len() > HEADER + TOKEN => usize::from(first & 15) * 4,
        _ => 0,
    };
    packet.get(header..).is_some_and(|echo| echo.first() == Some(&kind) && echo.get(HEADER..) == Some(&token))
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use super::*;

    #[test]
    fn a_packet_with_its_checksum_sums_to_zero() {
        let packet = request(8, 513, *b"\xff\xfe\x80\x01abcd");
        assert_eq!(checksum(&packet), 0);
        let mut damaged = packet;
        damaged[5] ^= 1;
        assert_ne!(checksum(&damaged), 0);
    }

    #[test]
    fn only_the_reply_with_the_token_counts() {
        let token = *b"12345678";
        let echo = request(0, 7, token);
        let raw = [&[0x45; 20][..], &echo].concat();
        assert!(is_reply(&echo, 0, token) && is_reply(&raw, 0, token));
        assert!(!is_reply(&echo, 129, token) && !is_reply(&echo, 0, *b"1234567x"));
        assert!(!is_reply(&echo[..15], 0, token) && !is_reply(&[0x4f], 0, token) && !is_reply(&[], 0, token));
    }

    #[test]
    fn this_host_answers_if_echoes_are_permitted() {
        for address in [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)] {
            match Ping::open(address) {
                Ok(mut ping) => {
                    let times = [(); 3].map(|()| ping.round_trip(Duration::from_secs(5)).unwrap());
                    assert!(times.iter().all(Option::is_some), "{address}: {times:?}");
                }
                Err(error) => println!("SKIPPED: ICMP to {address}: {error}"),
            }
        }
    }
}
