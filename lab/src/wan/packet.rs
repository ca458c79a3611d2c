//! One read from a TUN device: a packet, or a *superpacket* left whole by the kernel for a network card to segment
//! (TSO). A header in front says which. Computes the size on a cable, and splits superpackets.
//!
//! Checksums stay partial, as the kernel delivers them: the receiving kernel believes the header in front. Layouts:
//! `struct virtio_net_hdr` (linux/virtio_net.h), RFC 791, RFC 9293.

/// Length of the header in front.
pub const VNET_HEADER_BYTES: usize = 10;

/// Preamble, header, checksum and gap: each packet's overhead on an Ethernet cable.
pub const ETHERNET_BYTES: usize = 38;

/// `VIRTIO_NET_HDR_GSO_NONE` and `VIRTIO_NET_HDR_GSO_TCPV4`.
const GSO_NONE: u8 = 0;
const GSO_TCP4: u8 = 1;
/// Set on top of the type where a connection uses explicit congestion notification.
const GSO_ECN: u8 = 0x80;

/// Places in the header in front; numbers are in this machine's order of bytes.
const GSO_TYPE: usize = 1;
const HEADER_LENGTH: usize = 2;
const GSO_SIZE: usize = 4;

/// Places in an IPv4 header.
const TOTAL_LENGTH: usize = 2;
const IDENTIFICATION: usize = 4;
const HEADER_CHECKSUM: usize = 10;
const ADDRESSES: std::ops::Range<usize> = 12..20;

/// Places and bits in a TCP header.
const SEQUENCE: usize = 4;
const FLAGS: usize = 13;
const CHECKSUM: usize = 16;
const FIN_AND_PSH: u8 = 0x09;
const CWR: u8 = 0x80;

const TCP: u32 = 6;

/// How a packet looks on a cable: as one or more segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PacketShape {
    /// How many; at least one.
    pub segments: usize,
    /// IP and TCP header of each segment; 0 for a single packet.
    header_bytes: usize,
    ip_header_bytes: usize,
    /// Payload of each segment but the last.
    segment_bytes: usize,
    /// Payload of all; of a single packet, all of it.
    payload_bytes: usize,
}

impl PacketShape {
    /// Parses a packet. Anything but a TCP superpacket over IPv4 is one segment.
    pub fn of(frame: &[u8]) -> Self {
        Self::of_superpacket(frame).unwrap_or_else(|| Self {
            segments: 1,
            header_bytes: 0,
            ip_header_bytes: 0,
            segment_bytes: 0,
            payload_bytes: frame.len().saturating_sub(VNET_HEADER_BYTES),
        })
    }

    fn of_superpacket(frame: &[u8]) -> Option<Self> {
        if frame.get(GSO_TYPE)? & !GSO_ECN != GSO_TCP4 {
            return None;
        }
        let segment_bytes = usize::from(u16::from_ne_bytes([*frame.get(GSO_SIZE)?, *frame.get(GSO_SIZE + 1)?]));
        let packet = frame.get(VNET_HEADER_BYTES..)?;
        let ip_header_bytes = usize::from(packet.first()? & 0x0f) * 4;
        let header_bytes = ip_header_bytes + usize::from(packet.get(ip_header_bytes + 12)? >> 4) * 4;
        let payload_bytes = packet.len().checked_sub(header_bytes)?;
        if segment_bytes == 0 || payload_bytes == 0 {
            return None;
        }
        let segments = payload_bytes.div_ceil(segment_bytes);
        Some(Self { segments, header_bytes, ip_header_bytes, segment_bytes, payload_bytes })
    }

    /// Bytes that a segment takes on an Ethernet cable.
    pub fn cable_bytes(&self, segment: usize) -> usize {
        let range = self.payload(segment, 1);
        self.header_bytes + range.len() + ETHERNET_BYTES
    }

    /// Where the payload of `count` segments from `first` on is in all of the payload.
    fn payload(&self, first: usize, count: usize) -> std::ops::Range<usize> {
        if self.segments == 1 {
            return 0..self.payload_bytes;
        }
        let end = ((first + count) * self.segment_bytes).min(self.payload_bytes);
        first * self.segment_bytes..end
    }

    /// The packet or superpacket that `count` segments from `first` on make; it can be written to a TUN device.
    ///
    /// # Panics
    ///
    /// When `frame` is not the one that this shape was taken of, or has no such segments.
    pub fn part(&self, frame: &[u8], first: usize, count: usize) -> Vec<u8> {
        assert!(count > 0 && first + count <= self.segments, "segments {first} + {count} of {}", self.segments);
        if count == self.segments {
            return frame.to_vec();
        }
        let payload = self.payload(first, count);
        let payload_start = VNET_HEADER_BYTES + self.header_bytes;
        let mut part = Vec::with_capacity(payload_start + payload.len());
        part.extend_from_slice(&frame[..payload_start]);
        part.extend_from_slice(&frame[payload_start..][payload.clone()]);
        let (vnet, packet) = part.split_at_mut(VNET_HEADER_BYTES);
        self.mend_vnet(vnet, count);
        self.mend_ip(packet, first);
        self.mend_tcp(packet, first, count, payload.start);
        part
    }

    fn mend_vnet(&self, vnet: &mut [u8], count: usize) {
        put(vnet, HEADER_LENGTH, low_16(self.header_bytes).to_ne_bytes());
        if count == 1 {
            vnet[GSO_TYPE] = GSO_NONE;
            put(vnet, GSO_SIZE, [0, 0]);
        }
    }

    fn mend_ip(&self, packet: &mut [u8], first: usize) {
        let length = low_16(packet.len());
        let header = &mut packet[..self.ip_header_bytes];
        put(header, TOTAL_LENGTH, length.to_be_bytes());
        let id = u16::from_be_bytes([header[IDENTIFICATION], header[IDENTIFICATION + 1]]).wrapping_add(low_16(first));
        put(header, IDENTIFICATION, id.to_be_bytes());
        put(header, HEADER_CHECKSUM, [0, 0]);
        let checksum = !folded(sum(header));
        put(header, HEADER_CHECKSUM, checksum.to_be_bytes());
    }

    fn mend_tcp(&self, packet: &mut [u8], first: usize, count: usize, payload_offset: usize) {
        let length = u32::from(low_16(packet.len() - self.ip_header_bytes));
        let pseudo_header = sum(&packet[ADDRESSES]) + TCP + length;
        let header = &mut packet[self.ip_header_bytes..];
        let sequence = [0, 1, 2, 3].map(|place| header[SEQUENCE + place]);
        let offset = u32::try_from(payload_offset).unwrap_or(u32::MAX);
        put(header, SEQUENCE, u32::from_be_bytes(sequence).wrapping_add(offset).to_be_bytes());
        if first > 0 {
            header[FLAGS] &= !CWR;
        }
        if first + count < self.segments {
            header[FLAGS] &= !FIN_AND_PSH;
        }
        // A partial checksum is that of the pseudo header, not yet inverted.
        put(header, CHECKSUM, folded(pseudo_header).to_be_bytes());
    }
}

fn put<const N: usize>(bytes: &mut [u8], at: usize, value: [u8; N]) {
    bytes[at..at + N].copy_from_slice(&value);
}

/// A superpacket is at most 65535 bytes long.
fn low_16(value: usize) -> u16 {
    u16::try_from(value).unwrap_or(u16::MAX)
}

/// RFC 1071, for an even number of bytes; not folded yet.
fn sum(bytes: &[u8]) -> u32 {
    bytes.chunks_exact(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum()
}

fn folded(mut sum: u32) -> u16 {
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    low_16(sum as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEGMENT: u16 = 1448;
    const TCP_HEADER: usize = 32;

    /// A superpacket with this much payload (byte i is i mod 251), FIN, PSH, ACK and CWR set.
    fn superpacket(payload: usize) -> Vec<u8> {
        let mut frame = vec![1, GSO_TCP4 | GSO_ECN];
        frame.extend([200_u16, SEGMENT, 20, 16].iter().flat_map(|number| number.to_ne_bytes()));
        let length = u16::try_from(20 + TCP_HEADER + payload).unwrap();
        frame.extend([0x45, 0]);
        frame.extend(length.to_be_bytes());
        frame.extend([0xff, 0xff, 0x40, 0, 64, 6, 0, 0, 10, 66, 0, 1, 10, 66, 0, 2]);
        frame.extend([0x12, 0x34, 0x14, 0x51, 0xff, 0xff, 0xff, 0x00, 9, 9, 9, 9, 0x80, 0x99, 1, 0, 7, 7, 0, 0]);
        frame.extend([1; TCP_HEADER - 20]);
        frame.extend((0..payload).map(|index| u8::try_from(index % 251).unwrap()));
        frame
    }

    fn be16(bytes: &[u8], at: usize) -> u16 {
        u16::from_be_bytes([bytes[at], bytes[at + 1]])
    }

    #[test]
    fn a_superpacket_counts_as_its_segments() {
        let shape = PacketShape::of(&superpacket(4000));
        assert_eq!(shape.segments, 3);
        assert_eq!([0, 1, 2].map(|segment| shape.cable_bytes(segment)), [1538, 1538, 52 + 1104 + 38]);
        assert_eq!(PacketShape::of(&superpacket(2896)).segments, 2);
    }

    #[test]
    fn an_ordinary_packet_is_one_segment() {
        let mut plain = superpacket(100);
        plain[GSO_TYPE] = GSO_NONE;
        let shape = PacketShape::of(&plain);
        assert_eq!((shape.segments, shape.cable_bytes(0)), (1, 52 + 100 + 38));
        assert_eq!(shape.part(&plain, 0, 1), plain);
        for cut in 0..plain.len().min(70) {
            let mut short = superpacket(100);
            short.truncate(cut);
            assert_eq!(PacketShape::of(&short).segments, 1, "{cut}");
        }
    }

    #[test]
    fn a_part_equals_the_kernels_own_segment() {
        let frame = superpacket(4000);
        let shape = PacketShape::of(&frame);
        let part = shape.part(&frame, 1, 1);
        assert_eq!(part[GSO_TYPE], GSO_NONE);
        let packet = &part[VNET_HEADER_BYTES..];
        assert_eq!(packet.len(), 1500);
        assert_eq!((be16(packet, TOTAL_LENGTH), be16(packet, IDENTIFICATION)), (1500, 0));
        assert_eq!(folded(sum(&packet[..20])), 0xffff, "the header's checksum");
        // 0xffffff00 + 1448 wraps round.
        assert_eq!(packet[24..28], 1192_u32.to_be_bytes());
        assert_eq!(packet[20 + FLAGS], 0x10, "ACK alone");
        let pseudo = sum(&packet[ADDRESSES]) + 6 + 1480;
        assert_eq!(be16(packet, 20 + CHECKSUM), folded(pseudo));
        assert_eq!(packet[52..], frame[VNET_HEADER_BYTES + 52..][1448..2896]);
    }

    #[test]
    fn the_ends_keep_their_flags_and_runs_stay_superpackets() {
        let frame = superpacket(4000);
        let shape = PacketShape::of(&frame);
        let (head, tail) = (shape.part(&frame, 0, 2), shape.part(&frame, 2, 1));
        assert_eq!((head[GSO_TYPE], u16::from_ne_bytes([head[4], head[5]])), (GSO_TCP4 | GSO_ECN, SEGMENT));
        assert_eq!(u16::from_ne_bytes([head[2], head[3]]), 52);
        assert_eq!(PacketShape::of(&head).segments, 2);
        assert_eq!(head[VNET_HEADER_BYTES + 20 + FLAGS], 0x90, "CWR and ACK");
        assert_eq!(tail[VNET_HEADER_BYTES + 20 + FLAGS], 0x19, "FIN, PSH and ACK");
        assert_eq!(shape.part(&frame, 0, 3), frame);
    }
}
