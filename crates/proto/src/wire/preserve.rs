//! What is kept of files besides their bytes, their times and, with `-p`, their modes and owners: as both ends are told.

use crate::encoding::{Decoded, Reader, Writer};
use crate::error::ProtocolError;

/// What is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PreserveOptions {
    /// What becomes of holes.
    pub holes: HolePolicy,
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
pub enum HolePolicy {
    /// They are holes at the target, too, and do not travel.
    #[default]
    Keep,
    /// The same, and so are blocks that are only zeros.
    Make,
    /// They are zeros at the target.
    Fill,
}

impl PreserveOptions {
    /// Writes it.
    pub(super) fn encode(self, out: &mut Writer) {
        out.u8(match self.holes {
            HolePolicy::Keep => 0,
            HolePolicy::Make => 1,
            HolePolicy::Fill => 2,
        });
        out.bool(self.hard_links).bool(self.attributes).bool(self.acls).bool(self.devices).bool(self.specials);
    }

    /// Reads it.
    pub(super) fn decode(reader: &mut Reader<'_>) -> Decoded<Self> {
        let holes = match reader.u8()? {
            0 => HolePolicy::Keep,
            1 => HolePolicy::Make,
            2 => HolePolicy::Fill,
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

    fn encoded(kept: PreserveOptions) -> Vec<u8> {
        let mut out = Writer::new();
        kept.encode(&mut out);
        out.into_bytes()
    }

    #[test]
    fn everything_comes_back() {
        for holes in [HolePolicy::Keep, HolePolicy::Make, HolePolicy::Fill] {
            for bit in 0..5 {
                let [hard_links, attributes, acls, devices, specials] = [0, 1, 2, 3, 4].map(|other| other == bit);
                let kept = PreserveOptions { holes, hard_links, attributes, acls, devices, specials };
                let bytes = encoded(kept);
                assert_eq!(PreserveOptions::decode(&mut Reader::new(&bytes)), Ok(kept));
                assert!((0..bytes.len()).all(|cut| PreserveOptions::decode(&mut Reader::new(&bytes[..cut])).is_err()));
            }
        }
        let mut bad = encoded(PreserveOptions::default());
        bad[0] = 3;
        assert!(PreserveOptions::decode(&mut Reader::new(&bad)).is_err());
    }
}
