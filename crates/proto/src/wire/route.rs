//! A path as the controller tells it to the end that connects.

use std::net::IpAddr;

use super::address::{decode_optional, encode_optional};
use crate::encoding::{Decoded, Reader, Writer};
use crate::limits::{ADDRESSES_MAX, INTERFACE_MAX, TEXT_MAX};

/// One way to connect. Its place in the list is the number of the path ([`crate::ids::PathId`]).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Route {
    /// The address to connect from; `None` leaves it to the system.
    pub from: Option<IpAddr>,
    /// The interface to connect over; empty leaves it to the system.
    pub interface: String,
    /// `address:port` as the system parses it.
    pub to: String,
    /// Paths of one number share a link, and one of them is enough. 0: it is used only where it is the first that works.
    pub link: u16,
}

impl Route {
    /// To this place, as the system likes.
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

/// Reads it.
pub(super) fn decode_all(reader: &mut Reader<'_>) -> Decoded<Vec<Route>> {
    let count = reader.count(ADDRESSES_MAX, "addresses")?;
    (0..count).map(|_| Route::decode(reader)).collect()
}
