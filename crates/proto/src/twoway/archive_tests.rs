//! Tests of the archive's format.

use proptest::prelude::*;

use super::super::samples::{directory, file, symlink};
use super::*;
use crate::entry::DeviceNumber;

const HEADER: ArchiveHeader = ArchiveHeader { pair: [3; 32], generation: 9 };

fn written(entries: &[PathEntry]) -> (Vec<u8>, ArchiveSummary) {
    let mut bytes = Vec::new();
    let mut writer = ArchiveWriter::new(&HEADER, &mut bytes);
    entries.iter().for_each(|entry| writer.add(entry, &mut bytes));
    let summary = writer.finish(&mut bytes);
    (bytes, summary)
}

fn read(bytes: &[u8]) -> Result<Vec<PathEntry>, ArchiveError> {
    let mut reader = ArchiveReader::new(bytes)?;
    assert_eq!(reader.header(), HEADER);
    let entries = (&mut reader).collect::<Result<_, _>>()?;
    assert!(reader.summary().is_some());
    Ok(entries)
}

/// One of each kind. These entries and `archive_v1.bin` belong together for ever.
fn version_1() -> Vec<PathEntry> {
    let mut unread = file("dir/unread", 2);
    unread.entry.content = ReplicaContent::File { size: 1 << 40, digest: None };
    unread.entry.stamp = None;
    unread.entry.metadata.attributes = [8; 32];
    let mut pipe = file("pipe", 1);
    pipe.entry.content = ReplicaContent::Special(SpecialFile::Fifo);
    let mut zero = file("zero", 1);
    zero.entry.content = ReplicaContent::Special(SpecialFile::Character(DeviceNumber { major: 1, minor: 5 }));
    vec![directory("dir"), file("dir/file", 1), unread, symlink("dir-link", "dir/file"), pipe, zero]
}

#[test]
fn both_ends_of_an_archive_claim_what_it_has() {
    let (bytes, summary) = written(&version_1());
    let [start, end] = ARCHIVE_ENDS_BYTES;
    assert_eq!(claim(&bytes[..start], &bytes[bytes.len() - end..]).unwrap(), (HEADER, summary));
    assert!(claim(&bytes[..start], &bytes[start..start + end]).is_err());
    assert!(claim(&bytes[..start - 1], &bytes[bytes.len() - end..]).is_err());
}

#[test]
fn an_archive_of_version_1_stays_readable() {
    let (bytes, _) = written(&version_1());
    let released = include_bytes!("archive_v1.bin");
    assert_eq!(read(released).unwrap(), version_1());
    assert_eq!(bytes, released, "the format changed: give it a new version");
}

#[test]
fn many_entries_come_back_in_blocks() {
    let entries: Vec<_> = (0..5000).map(|number| file(&format!("dir/{number:06}"), 1)).collect();
    let (bytes, summary) = written(&entries);
    assert_eq!(read(&bytes).unwrap(), entries);
    assert_eq!(ArchiveReader::new(&bytes[..]).unwrap().check().unwrap(), summary);
    assert!(bytes.len() < 5000 * 100, "{} bytes", bytes.len());
}

#[test]
fn the_agreed_digest_ignores_stamps_and_nothing_else() {
    let (one, mut two) = (version_1(), version_1());
    two[1].entry.stamp = None;
    assert_eq!(written(&one).1, written(&two).1);
    two[1].entry.metadata.basic.uid += 1;
    assert_ne!(written(&one).1, written(&two).1);
}

#[test]
fn an_archive_that_ends_anywhere_is_an_error() {
    let (bytes, _) = written(&version_1());
    for end in 0..bytes.len() {
        assert!(read(&bytes[..end]).is_err(), "{end}");
    }
    assert!(read(&[&bytes[..], &[0]].concat()).is_err());
}

#[test]
fn an_archive_with_any_changed_byte_is_an_error() {
    let (bytes, _) = written(&version_1());
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x21;
        let result = ArchiveReader::new(&damaged[..]).and_then(ArchiveReader::check);
        assert!(result.is_err(), "{at}");
    }
}

#[test]
fn a_later_version_is_named() {
    let (mut bytes, _) = written(&[]);
    bytes[8] = 2;
    assert!(matches!(read(&bytes), Err(ArchiveError::LaterVersion(2))));
    assert!(matches!(ArchiveReader::new(&b"something else"[..]), Err(ArchiveError::NoArchive)));
}

proptest! {
    #[test]
    fn no_bytes_cause_a_panic(bytes: Vec<u8>) {
        let (mut archive, _) = written(&[]);
        archive.truncate(49);
        archive.extend(u32::try_from(bytes.len()).unwrap().to_le_bytes());
        archive.extend(bytes);
        let _ = ArchiveReader::new(&archive[..]).and_then(ArchiveReader::check);
    }
}
