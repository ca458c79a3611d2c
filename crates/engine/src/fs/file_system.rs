//! Types of file systems, where these decide.

use std::os::fd::AsFd;

use rustix::fs::fstatfs;

/// File systems in memory (linux/magic.h): tmpfs, ramfs, hugetlbfs, proc, sysfs.
const MEMORY_MAGICS: [u64; 5] = [0x0102_1994, 0x8584_58f6, 0x9584_58f6, 0x9fa0, 0x6265_6572];

/// The type of an open file's file system (statfs(2), linux/magic.h); 0 where the file system does not say.
pub fn magic_of(file: impl AsFd) -> u64 {
    #[allow(clippy::unnecessary_cast, clippy::cast_sign_loss)]
    fstatfs(file).map_or(0, |found| found.f_type as u64 & 0xffff_ffff)
}

/// Whether a file system type is in memory.
pub fn is_memory(magic: u64) -> bool {
    MEMORY_MAGICS.contains(&magic)
}

/// Whether a file system is served by another machine or a program: NFS, SMB 1 to 3, FUSE, Ceph, 9p, Lustre, AFS
/// (linux/magic.h). It may have its own cache, and report errors only at a flush.
pub fn is_served(magic: u64) -> bool {
    /// In the order above.
    const MAGICS: [u64; 9] =
        [0x6969, 0x517b, 0xff53_4d42, 0xfe53_4d42, 0x6573_5546, 0x00c3_6400, 0x0102_1997, 0x0bd0_0bd0, 0x5346_414f];
    MAGICS.contains(&magic)
}

/// Whether a file system clones blocks: btrfs, XFS (linux/magic.h). XFS made long ago does not.
pub fn clones_blocks(magic: u64) -> bool {
    [0x9123_683e, 0x5846_5342].contains(&magic)
}

/// FAT (linux/magic.h).
const FAT: u64 = 0x4d44;
/// exFAT (linux/magic.h).
const EXFAT: u64 = 0x2011_bab0;
/// NTFS, by ntfs3 and by ntfs-3g's older driver (linux/magic.h, fs/ntfs3).
const NTFS: [u64; 2] = [0x7366_746e, 0x5346_544e];

/// Whether a file system keeps no modes.
pub fn is_without_modes(magic: u64) -> bool {
    [FAT, EXFAT].contains(&magic) || NTFS.contains(&magic)
}

/// Largest error of the times that a file system keeps, in nanoseconds.
pub fn time_error_ns(magic: u64) -> u32 {
    match magic {
        FAT => 2_000_000_000,
        EXFAT => 10_000_000,
        _ if NTFS.contains(&magic) => 100,
        _ => 0,
    }
}
