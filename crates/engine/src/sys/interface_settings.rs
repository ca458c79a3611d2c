//! Settings of network interfaces, by the kernel's own list (rtnetlink(7)).

use std::io;
use std::time::Duration;

use haul_proto::limits::INTERFACE_MAX;
use haul_proto::wire::network_settings::InterfaceSettings;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with};

/// Longest message of the kernel.
const MESSAGE_MAX: usize = 64 << 10;
/// Most messages of a list.
const MESSAGES_MAX: usize = 4096;
/// Length of `struct nlmsghdr`.
const HEADER: usize = 16;
/// Length of `struct ifinfomsg`.
const LINK: usize = 16;
/// Time limit for the kernel's answer.
const PATIENCE: Duration = Duration::from_secs(1);

/// Returns the settings of all interfaces; empty if the kernel lists none.
pub fn interfaces() -> Vec<InterfaceSettings> {
    list().unwrap_or_default()
}

fn list() -> io::Result<Vec<InterfaceSettings>> {
    // NETLINK_ROUTE is protocol 0, which is the default.
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
    set_socket_timeout(&socket, Timeout::Recv, Some(PATIENCE))?;
    send(&socket, &request(), SendFlags::empty())?;
    let mut found = Vec::new();
    let mut buffer = vec![0; MESSAGE_MAX];
    for _ in 0..MESSAGES_MAX {
        let (length, _) = recv(&socket, &mut buffer[..], RecvFlags::empty())?;
        if !read_messages(&buffer[..length], &mut found) {
            break;
        }
    }
    Ok(found)
}

/// A `RTM_GETLINK` for all interfaces.
fn request() -> [u8; HEADER + LINK] {
    let mut request = [0; HEADER + LINK];
    let flags = u16::try_from(libc::NLM_F_REQUEST | libc::NLM_F_DUMP).unwrap_or_default();
    let length = u32::try_from(request.len()).unwrap_or_default();
    request[..4].copy_from_slice(&length.to_ne_bytes());
    request[4..6].copy_from_slice(&libc::RTM_GETLINK.to_ne_bytes());
    request[6..8].copy_from_slice(&flags.to_ne_bytes());
    request
}

/// Reads the messages of a datagram; `false` after the last message of the list, or another one.
fn read_messages(mut bytes: &[u8], found: &mut Vec<InterfaceSettings>) -> bool {
    while let Some(length) = u32_at(bytes, 0) {
        let length = length as usize;
        let Some(message) = bytes.get(..length).filter(|_| length >= HEADER) else { return false };
        if u16_at(message, 4) != Some(libc::RTM_NEWLINK) {
            return false;
        }
        found.extend(message.get(HEADER + LINK..).and_then(link));
        bytes = bytes.get(aligned(length)..).unwrap_or_default();
    }
    true
}

/// An interface, by the attributes of its message. `None` without a name that fits.
fn link(mut attributes: &[u8]) -> Option<InterfaceSettings> {
    let mut link = InterfaceSettings::default();
    while let (Some(length), Some(kind)) = (u16_at(attributes, 0), u16_at(attributes, 2)) {
        let Some(value) = attributes.get(4..length.into()) else { break };
        match kind {
            libc::IFLA_IFNAME => link.name = text(value),
            libc::IFLA_QDISC => link.qdisc = text(value),
            libc::IFLA_MTU => link.mtu = u32_at(value, 0).unwrap_or_default(),
            libc::IFLA_TXQLEN => link.queue_packets = u32_at(value, 0).unwrap_or_default(),
            _ => {}
        }
        attributes = attributes.get(aligned(length.into())..).unwrap_or_default();
    }
    (!link.name.is_empty()).then_some(link)
}

/// A zero-terminated text; empty if it is too long for a name.
fn text(value: &[u8]) -> String {
    let text = value.split(|byte| *byte == 0).next().unwrap_or_default();
    let text = String::from_utf8_lossy(text).into_owned();
    if text.len() <= INTERFACE_MAX { text } else { String::new() }
}

fn aligned(length: usize) -> usize {
    length.next_multiple_of(4)
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().copied().map(u32::from_ne_bytes)
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().copied().map(u16::from_ne_bytes)
}

#[cfg(test)]
mod tests {
    use haul_lab::Netns;

    use super::*;

    #[test]
    fn an_interface_has_the_values_set() {
        if haul_lab::is_emulated_without("named network namespace") {
            return;
        }
        if !Netns::available() {
            eprintln!("SKIPPED: network namespaces need root");
            return;
        }
        let (near, far) = (Netns::create().unwrap(), Netns::create().unwrap());
        let (here, _) = near.connect(&far, "10.98.0.1/24", "10.98.0.2/24").unwrap();
        near.run("ip", ["link", "set", &here, "mtu", "1400", "txqueuelen", "77"]).unwrap();
        near.run("tc", ["qdisc", "replace", "dev", &here, "root", "pfifo"]).unwrap();
        let found = near.enter(interfaces).unwrap();
        let link = found.iter().find(|link| link.name == here).unwrap();
        assert_eq!((link.mtu, link.queue_packets, link.qdisc.as_str()), (1400, 77, "pfifo"));
        assert!(found.iter().any(|link| link.name == "lo"), "{found:?}");
    }

    #[test]
    fn truncated_lists_end_at_the_cut() {
        let attribute = |kind: u16, value: &[u8]| {
            let length = u16::try_from(4 + value.len()).unwrap();
            let mut bytes = [length.to_ne_bytes(), kind.to_ne_bytes()].concat();
            bytes.extend(value);
            bytes.resize(aligned(bytes.len()), 0);
            bytes
        };
        let name = attribute(libc::IFLA_IFNAME, b"eth0\0");
        let mut message = request().to_vec();
        message[4..6].copy_from_slice(&libc::RTM_NEWLINK.to_ne_bytes());
        message.extend([name, attribute(libc::IFLA_MTU, &1500u32.to_ne_bytes())].concat());
        let length = u32::try_from(message.len()).unwrap();
        message[..4].copy_from_slice(&length.to_ne_bytes());
        for cut in 0..message.len() {
            let mut found = Vec::new();
            read_messages(&message[..cut], &mut found);
            assert_eq!(found, [], "{cut}");
        }
        let mut found = Vec::new();
        assert!(read_messages(&[message.clone(), message.clone()].concat(), &mut found));
        assert_eq!(found.iter().map(|link| (link.name.as_str(), link.mtu)).collect::<Vec<_>>(), [("eth0", 1500); 2]);
        for length in [0u32, 15, u32::MAX] {
            message[..4].copy_from_slice(&length.to_ne_bytes());
            assert!(!read_messages(&message, &mut found), "{length}");
        }
        assert_eq!(text(b"a name that is far too long\0"), "");
    }
}
