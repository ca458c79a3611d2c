//! A path as sent by the controller to the connecting end.

use std::net::IpAddr;

use crate::codec::wire_struct;
use crate::field_codecs::BoundedText;
use crate::limits::{INTERFACE_MAX, TEXT_MAX};

wire_struct! {
    /// A candidate route. Its index in the list is the number of the path ([`crate::ids::PathId`]).
    #[derive(Debug, Clone, PartialEq, Eq, Default)]
    pub struct Route {
        /// Local address; `None` leaves it to the system.
        pub from: Option<IpAddr>,
        /// Local interface; empty leaves it to the system.
        pub interface: String as BoundedText(INTERFACE_MAX, "a name of an interface"),
        /// Remote `address:port` as parsed by the system.
        pub to: String as BoundedText(TEXT_MAX, "an address"),
        /// Paths with the same number share a link, and one of them is enough. 0: used only if it is the first that works.
        pub link: u16,
    }
}

impl Route {
    /// Creates a route to this address, with the system's choice of local address and interface.
    pub fn to(to: impl Into<String>) -> Self {
        Self { to: to.into(), ..Self::default() }
    }
}
