//! A local address of an end. A worker advertises its addresses, so that the controller can find candidate paths.

use std::net::IpAddr;

use crate::codec::wire_struct;
use crate::error::ProtocolError;
use crate::field_codecs::{AtMost, BoundedText};
use crate::limits::INTERFACE_MAX;

wire_struct! {
    /// An address of an interface that is up.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct LocalAddress {
        /// The address itself.
        pub address: IpAddr,
        /// Prefix length of its subnet, in bits.
        pub prefix: u8 as AtMost(longest_prefix(address.is_ipv4()), ProtocolError::Invalid("a prefix of an address")),
        /// Name of the interface.
        pub interface: String as BoundedText(INTERFACE_MAX, "a name of an interface"),
        /// Interface speed reported by the system; 0 where it is unknown.
        pub mbit_per_s: u32,
    }
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
}

/// Whether the first `bits` of both are equal.
fn agree(a: u128, b: u128, bits: u32) -> bool {
    bits == 0 || (a ^ b).leading_zeros() >= bits.min(128)
}

fn longest_prefix(is_ipv4: bool) -> u8 {
    if is_ipv4 { 32 } else { 128 }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::codec::tests::{check_round_trip, refuses};

    /// Parses `10.0.0.1/24` as an address of an interface with this speed.
    pub fn local(text: &str, interface: &str, mbit_per_s: u32) -> LocalAddress {
        let (address, prefix) = text.split_once('/').unwrap();
        let (address, prefix) = (address.parse().unwrap(), prefix.parse().unwrap());
        LocalAddress { address, prefix, interface: interface.into(), mbit_per_s }
    }

    #[test]
    fn addresses_round_trip_and_impossible_ones_are_faults() {
        let bytes = check_round_trip(&local("10.1.2.3/24", "eth0", 10_000));
        assert!(refuses::<LocalAddress>(&bytes, &[(0, 5), (5, 33)]));
        check_round_trip(&local("fd00::1/128", "enp5s0f1", 0));
    }

    #[test]
    fn a_subnet_is_shared_if_both_ends_have_it() {
        let shares = |a, b| local(a, "a", 0).shares_subnet(&local(b, "b", 0));
        assert!(shares("10.1.2.3/24", "10.1.2.200/24") && shares("fd00::1/64", "fd00::ffff:1/64"));
        assert!(shares("10.1.2.3/0", "11.1.2.3/0"));
        assert!(!shares("10.1.2.3/24", "10.1.3.3/24") && !shares("10.1.2.3/8", "10.9.9.9/24"));
        assert!(!shares("10.1.2.3/32", "10.1.2.4/32") && !shares("10.1.2.3/0", "::1/0"));
    }
}
