//! A path as sent by the controller to the connecting end.

use std::net::IpAddr;

use super::address::{decode_optional, encode_optional};
use crate::encoding::{Decoded, Reader, Writer};
use crate::limits::{ADDRESSES_MAX, INTERFACE_MAX, TEXT_MAX};

/// A candidate route. Its index in the list is the number of the path ([`crate::ids::PathId`]).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Route {
    /// Local address; `None` leaves it to the system.
    pub from: Option<IpAddr>,
    /// Local interface; empty leaves it to the system.
    pub interface: String,
    /// Remote `address:port` as parsed by the system.
    pub to: String,
    /// Paths with the same number share a link, and one of them is enough. 0: used only if it is the first that works.
    pub link: u16,
}

impl Route {
    /// Creates a route to this address, with the system's choice of local address and interface.
    pub fn to(to: impl Into<String>) -> Self {
        Self { to: to.into(), ..Self::default() }
    }

    fn encode(&self, out: &mut Writer) {
        encode_optional(self.from.as_ref(), out);
        out.text(&self.interface, INTERFACE_MAX).text(&self.to, TEXT_MAX).u16(self.link);
    }

    fn decode(reader: &mut Reader<'_>) -> Decoded<Self> {
        Ok(Self {
            from: decode_optional(reader)?,
            interface: reader.text(INTERFACE_MAX, "a name of an interface")?,
            to: reader.text(TEXT_MAX, "an address")?,
            link: reader.u16()?,
        })
    }
}

/// Writes a list of routes.
pub(super) fn encode_all(routes: &[Route], out: &mut Writer) {
    out.count(routes.len());
    routes.iter().for_each(|route| route.encode(out));
}

/// Reads a list of routes.
pub(super) fn decode_all(reader: &mut Reader<'_>) -> Decoded<Vec<Route>> {
    let count = reader.count(ADDRESSES_MAX, "addresses")?;
    (0..count).map(|_| Route::decode(reader)).collect()
}
