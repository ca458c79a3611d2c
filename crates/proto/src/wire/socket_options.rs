//! Options of the data streams' sockets.

use crate::codec::{OfType, wire_struct};
use crate::field_codecs::{BoundedText, DefaultIsNone};
use crate::limits::CONGESTION_MAX;

wire_struct! {
    /// Sockets of the data streams.
    #[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
    pub struct SocketOptions {
        /// Congestion control by the kernel's name; `None`: chosen by path.
        pub congestion: Option<String> as DefaultIsNone(BoundedText(CONGESTION_MAX, "a name of a congestion control")),
        /// Buffer size in bytes; `None` leaves it to the kernel's autotuning.
        pub window_bytes: Option<u32> as DefaultIsNone(OfType),
        /// Set the largest buffer size that the kernel permits, even where its autotuning could exceed it.
        pub window_fixed: bool,
        /// Traffic class of packets (RFC 2474; IPv4's type of service).
        pub traffic_class: u8,
    }
}
