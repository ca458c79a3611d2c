//! Settings of a host's kernel that bound TCP: buffers, queues and interfaces.

use crate::encoding::{Decoded, Reader, Writer};
use crate::limits::{ADDRESSES_MAX, INTERFACE_MAX};

/// Settings of a kernel. A zero is unknown.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NetworkSettings {
    /// `net.core.rmem_default` and `rmem_max`.
    pub receive: SocketBuffers,
    /// `net.core.wmem_default` and `wmem_max`.
    pub send: SocketBuffers,
    /// `net.core.optmem_max`: ancillary data of a socket, in bytes.
    pub optmem_max_bytes: u64,
    /// `net.core.netdev_max_backlog`: packets that wait for a CPU.
    pub backlog_max_packets: u64,
    /// `net.ipv4.tcp_rmem`.
    pub tcp_receive: TcpBuffers,
    /// `net.ipv4.tcp_wmem`.
    pub tcp_send: TcpBuffers,
    /// Memory that programs can still have without swapping, in bytes.
    pub free_memory_bytes: u64,
    /// Interfaces with an advertised address.
    pub interfaces: Vec<InterfaceSettings>,
}

/// Buffer sizes of sockets without autotuning, in bytes (socket(7)).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SocketBuffers {
    /// Initial size.
    pub default_bytes: u64,
    /// Largest size that a program may set.
    pub max_bytes: u64,
}

/// Buffer sizes of TCP's autotuning, in bytes (tcp(7)).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TcpBuffers {
    /// Size that is left to each socket under memory pressure.
    pub min_bytes: u64,
    /// Initial size.
    pub default_bytes: u64,
    /// Largest size.
    pub max_bytes: u64,
}

/// Settings of an interface.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct InterfaceSettings {
    /// Its name.
    pub name: String,
    /// Largest packet in bytes.
    pub mtu: u32,
    /// Length of its transmit queue in packets (`txqueuelen`).
    pub queue_packets: u32,
    /// Its root queueing discipline (tc(8)); empty if unknown.
    pub qdisc: String,
}

impl NetworkSettings {
    pub(super) fn encode(&self, out: &mut Writer) {
        for buffers in [self.receive, self.send] {
            out.varint(buffers.default_bytes).varint(buffers.max_bytes);
        }
        out.varint(self.optmem_max_bytes).varint(self.backlog_max_packets);
        for buffers in [self.tcp_receive, self.tcp_send] {
            out.varint(buffers.min_bytes).varint(buffers.default_bytes).varint(buffers.max_bytes);
        }
        let interfaces = &self.interfaces[..self.interfaces.len().min(ADDRESSES_MAX)];
        out.varint(self.free_memory_bytes).count(interfaces.len());
        interfaces.iter().for_each(|interface| interface.encode(out));
    }

    pub(super) fn decode(reader: &mut Reader<'_>) -> Decoded<Self> {
        Ok(Self {
            receive: SocketBuffers::decode(reader)?,
            send: SocketBuffers::decode(reader)?,
            optmem_max_bytes: reader.varint()?,
            backlog_max_packets: reader.varint()?,
            tcp_receive: TcpBuffers::decode(reader)?,
            tcp_send: TcpBuffers::decode(reader)?,
            free_memory_bytes: reader.varint()?,
            interfaces: {
                let count = reader.count(ADDRESSES_MAX, "interfaces")?;
                (0..count).map(|_| InterfaceSettings::decode(reader)).collect::<Decoded<_>>()?
            },
        })
    }
}

impl SocketBuffers {
    fn decode(reader: &mut Reader<'_>) -> Decoded<Self> {
        Ok(Self { default_bytes: reader.varint()?, max_bytes: reader.varint()? })
    }
}

impl TcpBuffers {
    fn decode(reader: &mut Reader<'_>) -> Decoded<Self> {
        Ok(Self { min_bytes: reader.varint()?, default_bytes: reader.varint()?, max_bytes: reader.varint()? })
    }
}

impl InterfaceSettings {
    fn encode(&self, out: &mut Writer) {
        out.text(&self.name, INTERFACE_MAX).u32(self.mtu).u32(self.queue_packets).text(&self.qdisc, INTERFACE_MAX);
    }

    fn decode(reader: &mut Reader<'_>) -> Decoded<Self> {
        Ok(Self {
            name: reader.text(INTERFACE_MAX, "a name of an interface")?,
            mtu: reader.u32()?,
            queue_packets: reader.u32()?,
            qdisc: reader.text(INTERFACE_MAX, "a queueing discipline")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ProtocolError;

    fn decoded(settings: &NetworkSettings, change: impl Fn(&mut Vec<u8>)) -> Decoded<NetworkSettings> {
        let mut out = Writer::new();
        settings.encode(&mut out);
        let mut bytes = out.into_bytes();
        change(&mut bytes);
        let mut reader = Reader::new(&bytes);
        let settings = NetworkSettings::decode(&mut reader)?;
        reader.finish().map(|()| settings)
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
