//! Settings of a host's kernel that bound TCP: buffers, queues and interfaces.

use crate::codec::{OfType, wire_struct};
use crate::field_codecs::{BoundedText, Varint, first_of};
use crate::limits::{ADDRESSES_MAX, INTERFACE_MAX};

wire_struct! {
    /// Settings of a kernel. A zero is unknown.
    #[derive(Debug, Clone, PartialEq, Eq, Default)]
    pub struct NetworkSettings {
        /// `net.core.rmem_default` and `rmem_max`.
        pub receive: SocketBuffers,
        /// `net.core.wmem_default` and `wmem_max`.
        pub send: SocketBuffers,
        /// `net.core.optmem_max`: ancillary data of a socket, in bytes.
        pub optmem_max_bytes: u64 as Varint,
        /// `net.core.netdev_max_backlog`: packets that wait for a CPU.
        pub backlog_max_packets: u64 as Varint,
        /// `net.ipv4.tcp_rmem`.
        pub tcp_receive: TcpBuffers,
        /// `net.ipv4.tcp_wmem`.
        pub tcp_send: TcpBuffers,
        /// Memory that programs can still have without swapping, in bytes.
        pub free_memory_bytes: u64 as Varint,
        /// Interfaces with an advertised address.
        pub interfaces: Vec<InterfaceSettings> as first_of(OfType, ADDRESSES_MAX, "interfaces"),
    }
}

wire_struct! {
    /// Buffer sizes of sockets without autotuning, in bytes (socket(7)).
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub struct SocketBuffers {
        /// Initial size.
        pub default_bytes: u64 as Varint,
        /// Largest size that a program may set.
        pub max_bytes: u64 as Varint,
    }
}

wire_struct! {
    /// Buffer sizes of TCP's autotuning, in bytes (tcp(7)).
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub struct TcpBuffers {
        /// Size that is left to each socket under memory pressure.
        pub min_bytes: u64 as Varint,
        /// Initial size.
        pub default_bytes: u64 as Varint,
        /// Largest size.
        pub max_bytes: u64 as Varint,
    }
}

wire_struct! {
    /// Settings of an interface.
    #[derive(Debug, Clone, PartialEq, Eq, Default)]
    pub struct InterfaceSettings {
        /// Its name.
        pub name: String as BoundedText(INTERFACE_MAX, "a name of an interface"),
        /// Largest packet in bytes.
        pub mtu: u32,
        /// Length of its transmit queue in packets (`txqueuelen`).
        pub queue_packets: u32,
        /// Its root queueing discipline (tc(8)); empty if unknown.
        pub qdisc: String as BoundedText(INTERFACE_MAX, "a queueing discipline"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::{from_bytes, to_bytes};
    use crate::encoding::Decoded;
    use crate::error::ProtocolError;

    fn decoded(settings: &NetworkSettings, change: impl Fn(&mut Vec<u8>)) -> Decoded<NetworkSettings> {
        let mut bytes = to_bytes(settings);
        change(&mut bytes);
        from_bytes(&bytes)
    }

    #[test]
    fn no_more_interfaces_than_a_host_has_addresses() {
        let interface = InterfaceSettings { name: "eth0".into(), mtu: 1500, ..InterfaceSettings::default() };
        let settings = |count| NetworkSettings { interfaces: vec![interface.clone(); count], ..Default::default() };
        let most = settings(ADDRESSES_MAX);
        assert_eq!(decoded(&most, |_| ()), Ok(most.clone()));
        assert_eq!(decoded(&settings(ADDRESSES_MAX + 1), |_| ()), Ok(most), "the first ones are sent");
        // Thirteen figures of one byte each precede the number.
        let claim = |bytes: &mut Vec<u8>| bytes[13] = u8::try_from(ADDRESSES_MAX + 1).unwrap();
        assert_eq!(decoded(&settings(1), claim), Err(ProtocolError::OverLimit("interfaces")));
    }
}
