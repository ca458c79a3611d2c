//! File properties to preserve besides contents, times and, with `-p`, modes and owners. Both ends receive them.

use crate::encoding::{Decoded, Reader, Writer};
use crate::error::ProtocolError;

/// Properties to preserve.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PreserveOptions {
    /// Treatment of holes.
    pub holes: HolePolicy,
    /// Preserve hard links.
    pub hard_links: bool,
    /// Extended attributes other than access control lists.
    pub attributes: bool,
    /// POSIX access control lists.
    pub acls: bool,
    /// Devices.
    pub devices: bool,
    /// FIFOs and sockets.
    pub specials: bool,
}

/// Treatment of holes in files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HolePolicy {
    /// Recreate holes at the target without transferring them.
    #[default]
    Keep,
    /// As Keep, and also turn blocks of zeros into holes.
    Make,
    /// Write zeros at the target.
    Fill,
}

impl PreserveOptions {
    /// Writes the options.
    pub(super) fn encode(self, out: &mut Writer) {
        out.u8(match self.holes {
            HolePolicy::Keep => 0,
            HolePolicy::Make => 1,
            HolePolicy::Fill => 2,
        });
        out.bool(self.hard_links).bool(self.attributes).bool(self.acls).bool(self.devices).bool(self.specials);
    }

    /// Reads the options.
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
