//! Layouts of files on Lustre, in their extended attribute `lustre.lov`.
//!
//! The formats are `lov_user_md_v1`, `lov_user_md_v3` and `lov_comp_md_v1` of Lustre's `uapi/linux/lustre/lustre_user.h`
//! (2.15), little-endian.

use std::os::fd::AsFd;

use haul_proto::striping::Striping;
use rustix::fs::{OFlags, XattrFlags, fgetxattr, fsetxattr};
use rustix::io::Errno;

const LAYOUT: &str = "lustre.lov";

/// `LOV_USER_MAGIC_V1`: a layout of equal stripes.
const MAGIC_PLAIN: u32 = 0x0bd1_0bd0;
/// `LOV_USER_MAGIC_V3`: the same with the name of a pool, behind the fields of V1.
const MAGIC_POOL: u32 = 0x0bd3_0bd0;
/// `LOV_USER_MAGIC_COMP_V1`: several layouts, each for a part of the file.
const MAGIC_COMPOSITE: u32 = 0x0bd6_0bd0;
/// `LOV_PATTERN_RAID0`. Without it, the data is on the metadata server, or elsewhere.
const PATTERN_STRIPED: u32 = 1;
/// Bytes of a `lov_user_md_v1` without objects.
const PLAIN_BYTES: usize = 32;
/// Bytes of a `lov_comp_md_v1` before its entries, and of an entry.
const COMPOSITE_HEADER_BYTES: usize = 32;
const COMPONENT_BYTES: usize = 48;
/// `lmm_stripe_offset` of a layout whose first storage target Lustre chooses.
const ANY_TARGET: u16 = u16::MAX;
/// Largest attribute value of the kernel (`XATTR_SIZE_MAX`).
const VALUE_MAX: usize = 64 << 10;

/// `O_LOV_DELAY_CREATE`: a file that is opened with these flags has no objects yet, and takes a layout. An ordinary
/// open for writing creates objects by the directory's default, and Lustre ignores a later layout without an error.
///
/// These are `O_NOCTTY` and `O_ASYNC`, which have no effect on a regular file elsewhere. The bit 0100000000 of old
/// headers never reaches a file system: open(2) drops it.
pub const AWAITS_LAYOUT: OFlags = OFlags::NOCTTY.union(OFlags::from_bits_retain(0o20_000));

/// The striping of an open file with several stripes; `None` elsewhere, and where it is unknown. One stripe is what
/// Lustre does by default, and says nothing.
pub fn striping(file: impl AsFd) -> Option<Striping> {
    let mut value = vec![0; VALUE_MAX];
    let len = fgetxattr(file, LAYOUT, &mut value[..]).ok()?;
    decode(value.get(..len)?).filter(|striping| striping.count > 1)
}

/// Gives a file its striping. It must have been opened with [`AWAITS_LAYOUT`], and be without data.
pub fn set_striping(file: impl AsFd, striping: Striping) -> Result<(), Errno> {
    fsetxattr(file, LAYOUT, &encode(striping), XattrFlags::empty())
}

/// A `lov_user_md_v1`.
fn encode(striping: Striping) -> [u8; PLAIN_BYTES] {
    let mut value = [0; PLAIN_BYTES];
    value[..4].copy_from_slice(&MAGIC_PLAIN.to_le_bytes());
    value[4..8].copy_from_slice(&PATTERN_STRIPED.to_le_bytes());
    value[24..28].copy_from_slice(&striping.size.to_le_bytes());
    value[28..30].copy_from_slice(&striping.count.to_le_bytes());
    value[30..].copy_from_slice(&ANY_TARGET.to_le_bytes());
    value
}

/// The striping of a layout; of a composite one, that of the last component, which has most of a large file.
fn decode(value: &[u8]) -> Option<Striping> {
    match u32_at(value, 0)? {
        MAGIC_COMPOSITE => {
            let last = usize::from(u16_at(value, 14)?).checked_sub(1)?;
            let offset = u32_at(value, COMPOSITE_HEADER_BYTES + last * COMPONENT_BYTES + 24)?;
            decode_plain(value.get(usize::try_from(offset).ok()?..)?)
        }
        _ => decode_plain(value),
    }
}

fn decode_plain(value: &[u8]) -> Option<Striping> {
    let is_striped = matches!(u32_at(value, 0)?, MAGIC_PLAIN | MAGIC_POOL) && u32_at(value, 4)? & PATTERN_STRIPED != 0;
    let striping = Striping { size: u32_at(value, 24)?, count: u16_at(value, 28)? };
    is_striped.then_some(striping)
}

fn u32_at(value: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*value.get(at..)?.first_chunk()?))
}

fn u16_at(value: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(*value.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FOUR: Striping = Striping { count: 4, size: 4 << 20 };

    /// A layout of these components, with objects or without.
    fn composite(components: &[[u8; PLAIN_BYTES]]) -> Vec<u8> {
        let mut value = vec![0; COMPOSITE_HEADER_BYTES + components.len() * COMPONENT_BYTES];
        value[..4].copy_from_slice(&MAGIC_COMPOSITE.to_le_bytes());
        value[14..16].copy_from_slice(&u16::try_from(components.len()).unwrap().to_le_bytes());
        for (number, component) in components.iter().enumerate() {
            let offset = u32::try_from(value.len()).unwrap();
            let at = COMPOSITE_HEADER_BYTES + number * COMPONENT_BYTES + 24;
            value[at..at + 4].copy_from_slice(&offset.to_le_bytes());
            value.extend(component);
        }
        value
    }

    #[test]
    fn a_layout_is_read_as_it_was_written_with_objects_and_pools_too() {
        let plain = encode(FOUR);
        let with_objects = [&plain[..], &[7; 4 * 24]].concat();
        let mut with_pool = [&plain[..], b"flash\0\0\0\0\0\0\0\0\0\0\0"].concat();
        with_pool[..4].copy_from_slice(&MAGIC_POOL.to_le_bytes());
        for value in [&plain[..], &with_objects, &with_pool] {
            assert_eq!(decode(value), Some(FOUR));
        }
    }

    #[test]
    fn files_await_their_layout_by_the_flags_of_lustre() {
        assert_eq!(AWAITS_LAYOUT.bits(), 0o20_400);
    }

    #[test]
    fn the_last_component_of_a_composite_layout_counts() {
        let one = encode(Striping { count: 1, size: 1 << 20 });
        assert_eq!(decode(&composite(&[one, encode(FOUR)])), Some(FOUR));
        assert_eq!(decode(&composite(&[])), None);
        let mut on_metadata_server = encode(FOUR);
        on_metadata_server[4..8].copy_from_slice(&0x100u32.to_le_bytes());
        assert_eq!(decode(&composite(&[encode(FOUR), on_metadata_server])), None);
    }

    #[test]
    fn no_bytes_of_an_attribute_cause_a_panic() {
        let value = composite(&[encode(FOUR), encode(FOUR)]);
        assert!((0..PLAIN_BYTES - 2).all(|len| decode(&encode(FOUR)[..len]).is_none()));
        assert!((0..value.len() - 2).all(|len| decode(&value[..len]).is_none()));
        for at in 0..value.len() {
            for byte in [0, 1, 0x7f, 0xff] {
                let mut wrong = value.clone();
                wrong[at..].iter_mut().take(4).for_each(|changed| *changed = byte);
                let _ = decode(&wrong);
            }
        }
        let mut nested = composite(&[encode(FOUR)]);
        nested[COMPOSITE_HEADER_BYTES + 24..][..4].fill(0);
        assert_eq!(decode(&nested), None, "a component is no composite layout");
        assert_eq!(decode(&[0xff; 100]), None);
    }
}
