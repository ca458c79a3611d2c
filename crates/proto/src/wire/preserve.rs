//! What is kept of files besides their bytes, their times and, with `-p`, their modes and owners: as both ends are told.

use crate::encoding::{Decoded, Reader, Writer};
use crate::error::ProtocolError;

/// What is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Kept {
    /// What becomes of holes.
    pub holes: Holes,
    /// Names of one file are names of one file at the target, too.
    pub hard_links: bool,
    /// Extended attributes, but for those that are access control lists.
    pub attributes: bool,
    /// POSIX access control lists.
    pub acls: bool,
    /// Devices.
    pub devices: bool,
    /// FIFOs and sockets.
    pub specials: bool,
}

/// What becomes of holes in files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Holes {
    /// They are holes at the target, too, and do not travel.
    #[default]
    Keep,
    /// The same, and so are blocks that are only zeros.
    Make,
    /// They are zeros at the target.
    Fill,
}

impl Kept {
    /// Writes it.
    pub(super) fn encode(self, out: &mut Writer) {
        out.u8(match self.holes {
            Holes::Keep => 0,
            Holes::Make => 1,
            Holes::Fill => 2,
        });
        out.bool(self.hard_links).bool(self.attributes).bool(self.acls).bool(self.devices).bool(self.specials);
    }

    /// Reads it.
    pub(super) fn decode(reader: &mut Reader<'_>) -> Decoded<Self> {
        let holes = match reader.u8()? {
            0 => Holes::Keep,
            1 => Holes::Make,
            2 => Holes::Fill,
            value => return Err(ProtocolError::Unknown { what: "treatment of holes", value: value.into() }),
        };
        Ok(Self {
            holes,
            hard_links: reader.bool()?,
            attributes: reader.bool()?,
            acls: reader.bool()?,
            devices: reader.bool()?,
            specials: reader.bool()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(kept: Kept) -> Vec<u8> {
        let mut out = Writer::new();
        kept.encode(&mut out);
        out.into_bytes()
    }

    #[test]
    fn everything_comes_back() {
        for holes in [Holes::Keep, Holes::Make, Holes::Fill] {
            for bit in 0..5 {
                let [hard_links, attributes, acls, devices, specials] = [0, 1, 2, 3, 4].map(|other| other == bit);
                let kept = Kept { holes, hard_links, attributes, acls, devices, specials };
                let bytes = encoded(kept);
                assert_eq!(Kept::decode(&mut Reader::new(&bytes)), Ok(kept));
                assert!((0..bytes.len()).all(|cut| Kept::decode(&mut Reader::new(&bytes[..cut])).is_err()));
            }
        }
        let mut bad = encoded(Kept::default());
        bad[0] = 3;
        assert!(Kept::decode(&mut Reader::new(&bad)).is_err());
    }
}
