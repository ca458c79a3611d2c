//! Candidate paths between two ends with several addresses each, the best first. Connection attempts show which of them
//! work.

use std::cmp::Reverse;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::limits::{LINKS_MAX, ROUTES_MAX};
use crate::wire::address::LocalAddress;

/// A candidate path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathCandidate {
    /// Address of the accepting end.
    pub to: IpAddr,
    /// Paths with the same number share a link. 0: the link is unknown, and the path is used only if it is the first
    /// that works.
    pub link: u16,
}

/// Addresses of both ends.
#[derive(Debug, Clone, Copy)]
pub struct EndAddresses<'a> {
    /// Addresses of the connecting end.
    pub connector: &'a [LocalAddress],
    /// Addresses of the accepting end.
    pub acceptor: &'a [LocalAddress],
    /// Address of the accepting end known to be reachable, by ssh.
    pub known: Option<IpAddr>,
}

/// An address of the accepting end in relation to the connecting end.
struct AddressScope<'a> {
    to: IpAddr,
    /// The interfaces of the connector and of the acceptor, where they are known.
    link: Option<(&'a str, &'a str)>,
    is_neighbour: bool,
    is_known: bool,
    is_like_known: bool,
    mbit_per_s: u32,
}

/// Returns the candidate addresses of the accepting end. The order is: addresses in a shared subnet, the fastest first;
/// the one that ssh used; all others.
///
/// It excludes addresses that cannot work: those with a meaning only within one host or link, and those of both ends. A
/// connection to an address of both ends would reach the connecting end itself.
pub fn candidates(ends: EndAddresses<'_>) -> Vec<PathCandidate> {
    let can_lead = |it: &&LocalAddress| {
        may_lead_elsewhere(&it.address) && { ends.connector.iter().all(|own| own.address != it.address.to_canonical()) }
    };
    let mut places: Vec<AddressScope<'_>> =
        ends.acceptor.iter().filter(can_lead).map(|it| AddressScope::of(it, ends)).collect();
    if let Some(known) = ends.known
        && places.iter().all(|place| place.to != known)
    {
        let link = Some(("", ""));
        places.push(AddressScope {
            to: known,
            link,
            is_neighbour: false,
            is_known: true,
            is_like_known: true,
            mbit_per_s: 0,
        });
    }
    places.sort_by_key(|place| {
        let group = if place.is_neighbour {
            0
        } else if place.is_known {
            1
        } else {
            2
        };
        (group, Reverse(place.mbit_per_s), !place.is_known, !place.is_like_known)
    });
    let mut links = Vec::new();
    places
        .iter()
        .take(ROUTES_MAX)
        .map(|place| PathCandidate { to: place.to, link: number(&mut links, place) })
        .collect()
}

impl<'a> AddressScope<'a> {
    fn of(it: &'a LocalAddress, ends: EndAddresses<'a>) -> Self {
        let neighbours = ends.connector.iter().filter(|own| own.shares_subnet(it));
        let neighbour = neighbours.max_by_key(|own| own.mbit_per_s);
        let is_known = ends.known == Some(it.address);
        let link = match neighbour {
            Some(own) => Some((own.interface.as_str(), it.interface.as_str())),
            None => is_known.then_some(("", it.interface.as_str())),
        };
        let mbit_per_s = neighbour.map_or(it.mbit_per_s, |own| slower(own.mbit_per_s, it.mbit_per_s));
        let is_like_known = ends.known.is_some_and(|known| known.is_ipv4() == it.address.is_ipv4());
        Self { to: it.address, link, is_neighbour: neighbour.is_some(), is_known, is_like_known, mbit_per_s }
    }
}

/// Returns the number of a link. It is 0 for an unknown link, and beyond the number of links tried at a time.
fn number<'a>(links: &mut Vec<(&'a str, &'a str)>, place: &AddressScope<'a>) -> u16 {
    let Some(link) = place.link else { return 0 };
    let at = links.iter().position(|other| *other == link).unwrap_or_else(|| {
        links.push(link);
        links.len() - 1
    });
    if at < LINKS_MAX { u16::try_from(at + 1).unwrap_or(0) } else { 0 }
}

/// Returns the slower of two speeds; 0 is an unknown speed.
pub fn slower(a: u32, b: u32) -> u32 {
    if a == 0 || b == 0 { a.max(b) } else { a.min(b) }
}

/// Whether an address can belong to another host. It has the same meaning on all hosts, and no connection to it ends on
/// the connecting host.
pub fn may_lead_elsewhere(address: &IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => {
            let [first, ..] = address.octets();
            // 0.0.0.0/8 is this host; 240.0.0.0/4 is reserved and includes broadcast.
            !address.is_loopback() && !address.is_link_local() && !address.is_multicast() && first != 0 && first < 240
        }
        IpAddr::V6(address) => {
            // ::/96 contains loopback, the unspecified address and deprecated IPv4-compatible addresses.
            let is_of_link = address.is_unicast_link_local();
            let leads = |within: Ipv4Addr| may_lead_elsewhere(&within.into());
            let is_of_host = address.segments()[..6] == [0; 6] || !ipv4_within(address).is_none_or(leads);
            !is_of_link && !address.is_multicast() && !is_of_host
        }
    }
}

/// Returns the IPv4 address that a gateway takes an address for: NAT64 (RFC 6052), 6to4 (RFC 3056) or the client of
/// Teredo (RFC 4380).
fn ipv4_within(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let of = |high: u16, low: u16| Some(Ipv4Addr::from(u32::from(high) << 16 | u32::from(low)));
    match address.segments() {
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] | [0x2002, high, low, ..] => of(high, low),
        [0x2001, 0, .., high, low] => of(!high, !low),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::address::tests::local;

    /// Returns the candidates' addresses, each with its link.
    fn between(connector: &[LocalAddress], acceptor: &[LocalAddress], known: Option<&str>) -> Vec<String> {
        let known = known.map(|known| known.parse().unwrap());
        let found = candidates(EndAddresses { connector, acceptor, known });
        found.iter().map(|candidate| format!("{} {}", candidate.to, candidate.link)).collect()
    }

    #[test]
    fn faster_links_come_first_then_sshs() {
        let near = [local("10.1.0.1/24", "eth0", 1000), local("10.2.0.1/24", "eth1", 100_000)];
        let far = [
            local("192.168.0.9/24", "ib0", 400_000),
            local("10.1.0.2/24", "eth0", 10_000),
            local("10.2.0.2/24", "eth1", 25_000),
        ];
        let expected = ["10.2.0.2 1", "10.1.0.2 2", "192.168.0.9 0"];
        assert_eq!(between(&near, &far, Some("10.1.0.2")), expected);
        // The address that ssh used counts as a link of its own, whatever its route.
        let expected = ["10.2.0.2 1", "10.1.0.2 2", "192.168.0.9 3"];
        assert_eq!(between(&near, &far, Some("192.168.0.9")), expected);
        assert_eq!(between(&near, &far, Some("203.0.113.5")).last().unwrap(), "192.168.0.9 0");
        assert_eq!(between(&near, &far, Some("203.0.113.5"))[2], "203.0.113.5 3");
    }

    #[test]
    fn among_equal_links_sshs_is_first_with_its_kind() {
        let near = [local("10.1.0.1/24", "eth0", 0), local("fd01::1/64", "eth0", 0), local("10.2.0.1/24", "eth1", 0)];
        let far = [local("10.2.0.2/24", "eth1", 0), local("fd01::2/64", "eth0", 0), local("10.1.0.2/24", "eth0", 0)];
        assert_eq!(between(&near, &far, Some("10.1.0.2")), ["10.1.0.2 1", "10.2.0.2 2", "fd01::2 1"]);
        assert_eq!(between(&near, &far, Some("fd01::2")), ["fd01::2 1", "10.2.0.2 2", "10.1.0.2 1"]);
    }

    #[test]
    fn unreachable_addresses_are_dropped() {
        let bridge = local("172.17.0.1/16", "docker0", 10_000);
        let near = [local("10.1.0.1/24", "eth0", 1000), bridge.clone()];
        let of_one_host = [
            "127.0.0.1/8",
            "127.4.5.6/8",
            "::1/128",
            "::ffff:127.0.0.1/128",
            "::127.0.0.1/128",
            "169.254.3.4/16",
            "fe80::1/64",
            "0.0.0.0/0",
            "0.1.2.3/8",
            "::/0",
            "224.0.0.1/4",
            "ff02::1/16",
            "255.255.255.255/32",
            "::ffff:0.0.0.0/128",
            "64:ff9b::127.0.0.1/96",
            "64:ff9b::a9fe:a9fe/96",
            "2002:7f00:1::1/16",
            "2002:a9fe:a9fe::/16",
            "2001:0:102:304::80ff:fffe/32",
        ];
        let mut far: Vec<_> = of_one_host.iter().map(|text| local(text, "x", 0)).collect();
        far.extend([bridge, local("10.1.0.2/24", "eth0", 1000)]);
        for elsewhere in ["64:ff9b::10.1.0.2", "2002:a01:2::1", "2001:0:102:304::f5fe:fffd", "2001:db8::1"] {
            assert!(may_lead_elsewhere(&elsewhere.parse().unwrap()), "{elsewhere}");
        }
        assert_eq!(between(&near, &far, Some("10.1.0.2")), ["10.1.0.2 1"]);
        // Two workers on one host: only the address that ssh used connects them.
        assert_eq!(between(&near, &near, Some("127.0.0.1")), ["127.0.0.1 1"]);
        assert_eq!(between(&[], &[], None), [""; 0]);
    }

    #[test]
    fn the_number_of_links_is_bounded() {
        let many = |last: u8| {
            (0..20).map(|n| local(&format!("10.{n}.0.{last}/24"), &format!("eth{n}"), 0)).collect::<Vec<_>>()
        };
        let found = between(&many(1), &many(2), None);
        assert_eq!(found.iter().filter(|text| !text.ends_with(" 0")).count(), LINKS_MAX);
        assert_eq!(found.len(), 20);
    }
}
