//! The addresses and speeds of this host's interfaces (getifaddrs(3)).

use std::ffi::CStr;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ptr;

use haul_proto::limits::{ADDRESSES_MAX, INTERFACE_MAX};
use haul_proto::wire::address::LocalAddress;

/// The addresses of all active interfaces except the loopback: at most [`ADDRESSES_MAX`]. Empty if the kernel lists
/// none.
pub fn addresses() -> Vec<LocalAddress> {
    let mut first: *mut libc::ifaddrs = ptr::null_mut();
    // SAFETY: getifaddrs writes the head of a list that it allocates, or fails and leaves nothing to be freed.
    #[allow(unsafe_code)]
    if unsafe { libc::getifaddrs(&raw mut first) } != 0 {
        return Vec::new();
    }
    let mut found = Vec::new();
    let mut next = first;
    // SAFETY: the list is made of valid entries, ended by a null pointer, until it is freed, once, below. Names are
    // C strings. Everything that is kept is copied.
    #[allow(unsafe_code)]
    unsafe {
        while let Some(entry) = next.as_ref() {
            next = entry.ifa_next;
            let (address, mask) = (address_of(entry.ifa_addr), address_of(entry.ifa_netmask));
            if let (Some(address), true) = (address, is_wanted(entry.ifa_flags)) {
                let interface = CStr::from_ptr(entry.ifa_name).to_string_lossy().into_owned();
                found.push((address, mask.map_or(0, prefix_of), interface));
            }
        }
        libc::freeifaddrs(first);
    }
    found.retain(|(_, _, interface)| interface.len() <= INTERFACE_MAX);
    found.truncate(ADDRESSES_MAX);
    let local = |(address, prefix, interface): (IpAddr, u8, String)| {
        let mbit_per_s = speed_of(&interface);
        LocalAddress { address, prefix, interface, mbit_per_s }
    };
    found.into_iter().map(local).collect()
}

fn is_wanted(flags: libc::c_uint) -> bool {
    let has = |flag: libc::c_int| flags & flag.cast_unsigned() != 0;
    has(libc::IFF_UP) && has(libc::IFF_RUNNING) && !has(libc::IFF_LOOPBACK)
}

/// The IP address in a socket address, if it is one.
///
/// # Safety
/// `address` is null, or points to a socket address that is as long as its family has it.
#[allow(unsafe_code)]
unsafe fn address_of(address: *const libc::sockaddr) -> Option<IpAddr> {
    // SAFETY: it is valid or null, and every socket address begins with its family; by that, its length is known. It
    // need not be aligned for the longer structure.
    unsafe {
        match i32::from(address.as_ref()?.sa_family) {
            libc::AF_INET => {
                let it: libc::sockaddr_in = ptr::read_unaligned(address.cast());
                Some(Ipv4Addr::from(u32::from_be(it.sin_addr.s_addr)).into())
            }
            libc::AF_INET6 => {
                let it: libc::sockaddr_in6 = ptr::read_unaligned(address.cast());
                Some(Ipv6Addr::from(it.sin6_addr.s6_addr).into())
            }
            _ => None,
        }
    }
}

/// The length of a network mask's prefix.
fn prefix_of(mask: IpAddr) -> u8 {
    let bits = match mask {
        IpAddr::V4(mask) => mask.to_bits().leading_ones(),
        IpAddr::V6(mask) => mask.to_bits().leading_ones(),
    };
    u8::try_from(bits).unwrap_or(0)
}

/// The driver's speed in Mbit/s. Many virtual interfaces report none, or any value.
fn speed_of(interface: &str) -> u32 {
    let text = std::fs::read_to_string(format!("/sys/class/net/{interface}/speed")).unwrap_or_default();
    text.trim().parse().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use haul_lab::Netns;

    use super::*;

    #[test]
    fn exactly_the_hosts_interfaces_are_found() {
        if haul_lab::is_emulated_without("named network namespace") {
            return;
        }
        if !Netns::available() {
            eprintln!("SKIPPED: network namespaces need root");
            return;
        }
        let (near, far) = (Netns::create().unwrap(), Netns::create().unwrap());
        let (here, _) = near.connect(&far, "10.98.0.1/24", "10.98.0.2/24").unwrap();
        near.add_address(&here, "fd98::1/64").unwrap();
        let (down, _) = near.connect(&far, "10.97.0.1/24", "10.97.0.2/24").unwrap();
        near.run("ip", ["link", "set", &down, "down"]).unwrap();
        let found = near.enter(addresses).unwrap();
        let of = |text: &str| found.iter().find(|local| local.address == text.parse::<IpAddr>().unwrap());
        let (v4, v6) = (of("10.98.0.1").unwrap(), of("fd98::1").unwrap());
        assert_eq!((v4.prefix, v4.interface.as_str(), v6.prefix), (24, here.as_str(), 64));
        assert!(of("127.0.0.1").is_none() && of("::1").is_none() && of("10.97.0.1").is_none(), "{found:?}");
        assert_eq!(speed_of("no such interface"), 0);
    }

    #[test]
    fn masks_become_prefixes() {
        let prefix = |text: &str| prefix_of(text.parse().unwrap());
        assert_eq!(["255.255.255.0", "0.0.0.0", "ffff:ffff::", "::"].map(prefix), [24, 0, 32, 0]);
    }
}
