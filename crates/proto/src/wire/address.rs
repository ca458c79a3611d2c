//! A local address of an end. A worker advertises its addresses, so that the controller can find candidate paths.

use std::net::IpAddr;

use crate::encoding::{Decoded, Reader, Writer};
use crate::error::ProtocolError;
use crate::limits::{ADDRESSES_MAX, INTERFACE_MAX};

/// An address of an interface that is up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalAddress {
    /// The address itself.
    pub address: IpAddr,
    /// Prefix length of its subnet, in bits.
    pub prefix: u8,
    /// Name of the interface.
    pub interface: String,
    /// Interface speed reported by the system; 0 where it is unknown.
    pub mbit_per_s: u32,
}

impl LocalAddress {
    /// Whether both addresses are in one subnet, by both prefixes.
    pub fn shares_subnet(&self, other: &Self) -> bool {
        let prefix = u32::from(self.prefix.max(other.prefix));
        match (self.address, other.address) {
            (IpAddr::V4(a), IpAddr::V4(b)) => {
                agree(u128::from(a.to_bits()) << 96, u128::from(b.to_bits()) << 96, prefix)
            }
            (IpAddr::V6(a), IpAddr::V6(b)) => agree(a.to_bits(), b.to_bits(), prefix),
            _ => false,
        }
    }

    /// Writes the address.
    fn encode(&self, out: &mut Writer) {
        encode_address(&self.address, out);
        out.u8(self.prefix).text(&self.interface, INTERFACE_MAX).u32(self.mbit_per_s);
    }

    /// Reads an address.
    fn decode(reader: &mut Reader<'_>) -> Decoded<Self> {
        let address = decode_address(reader)?;
        let prefix = reader.u8()?;
        if u32::from(prefix) > if address.is_ipv4() { 32 } else { 128 } {
            return Err(ProtocolError::Invalid("a prefix of an address"));
        }
        let interface = reader.text(INTERFACE_MAX, "a name of an interface")?;
        Ok(Self { address, prefix, interface, mbit_per_s: reader.u32()? })
    }
}

/// Whether the first `bits` of both are equal.
fn agree(a: u128, b: u128, bits: u32) -> bool {
    bits == 0 || (a ^ b).leading_zeros() >= bits.min(128)
}

/// Writes all addresses of an end, the first [`ADDRESSES_MAX`] at most.
pub(super) fn encode_all(addresses: &[LocalAddress], out: &mut Writer) {
    let addresses = &addresses[..addresses.len().min(ADDRESSES_MAX)];
    out.count(addresses.len());
    addresses.iter().for_each(|address| address.encode(out));
}

/// Reads all addresses of an end.
pub(super) fn decode_all(reader: &mut Reader<'_>) -> Decoded<Vec<LocalAddress>> {
    let count = reader.count(ADDRESSES_MAX, "addresses")?;
    (0..count).map(|_| LocalAddress::decode(reader)).collect()
}

/// Writes an IP address: 4 or 6, and its bytes.
fn encode_address(address: &IpAddr, out: &mut Writer) {
    match address {
        IpAddr::V4(address) => out.u8(4).raw(&address.octets()),
        IpAddr::V6(address) => out.u8(6).raw(&address.octets()),
    };
}

/// Reads an IP address.
fn decode_address(reader: &mut Reader<'_>) -> Decoded<IpAddr> {
    match reader.u8()? {
        4 => Ok(IpAddr::from(reader.array::<4>()?)),
        6 => Ok(IpAddr::from(reader.array::<16>()?)),
        value => Err(ProtocolError::Unknown { what: "kind of address", value: value.into() }),
    }
}

/// Writes an optional IP address.
pub(super) fn encode_optional(address: Option<&IpAddr>, out: &mut Writer) {
    out.bool(address.is_some());
    address.iter().for_each(|address| encode_address(address, out));
}

/// Reads an optional IP address.
pub(super) fn decode_optional(reader: &mut Reader<'_>) -> Decoded<Option<IpAddr>> {
    if reader.bool()? { decode_address(reader).map(Some) } else { Ok(None) }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Parses `10.0.0.1/24` as an address of an interface with this speed.
    pub fn local(text: &str, interface: &str, mbit_per_s: u32) -> LocalAddress {
        let (address, prefix) = text.split_once('/').unwrap();
        let (address, prefix) = (address.parse().unwrap(), prefix.parse().unwrap());
        LocalAddress { address, prefix, interface: interface.into(), mbit_per_s }
    }

    #[test]
    fn addresses_come_back_and_impossible_ones_are_faults() {
        let all = [local("10.1.2.3/24", "eth0", 10_000), local("fd00::1/128", "enp5s0f1", 0)];
        let mut out = Writer::new();
        encode_all(&all, &mut out);
        let bytes = out.into_bytes();
        assert_eq!(decode_all(&mut Reader::new(&bytes)).unwrap(), all);
        assert!((0..bytes.len()).all(|cut| decode_all(&mut Reader::new(&bytes[..cut])).is_err()));
        for (at, value) in [(1, 5), (6, 33)] {
            let mut wrong = bytes.clone();
            wrong[at] = value;
            assert!(decode_all(&mut Reader::new(&wrong)).is_err(), "byte {at}");
        }
        let many = vec![all[0].clone(); ADDRESSES_MAX + 1];
        let mut out = Writer::new();
        encode_all(&many, &mut out);
        assert_eq!(decode_all(&mut Reader::new(&out.into_bytes())).unwrap().len(), ADDRESSES_MAX);
    }

    #[test]
    fn a_subnet_is_shared_where_both_say_so() {
        let shares = |a, b| local(a, "a", 0).shares_subnet(&local(b, "b", 0));
        assert!(shares("10.1.2.3/24", "10.1.2.200/24") && shares("fd00::1/64", "fd00::ffff:1/64"));
        assert!(shares("10.1.2.3/0", "11.1.2.3/0"));
        assert!(!shares("10.1.2.3/24", "10.1.3.3/24") && !shares("10.1.2.3/8", "10.9.9.9/24"));
        assert!(!shares("10.1.2.3/32", "10.1.2.4/32") && !shares("10.1.2.3/0", "::1/0"));
    }
}
