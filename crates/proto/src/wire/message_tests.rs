//! Every message survives a round trip, and no input makes decoding panic.

use proptest::prelude::*;

use super::*;
use crate::entry_extras::ExtendedAttribute;

const COPY: CopyNumber = CopyNumber(1);

fn stamp() -> impl Strategy<Value = Timestamp> {
    (any::<i64>(), 0u32..1_000_000_000).prop_map(|(seconds, nanoseconds)| Timestamp { seconds, nanoseconds })
}

fn name() -> impl Strategy<Value = Name> {
    proptest::collection::vec(1u8.., 1..=255).prop_filter_map("a name", |bytes| Name::new(&bytes).ok())
}

fn entry() -> impl Strategy<Value = Entry> {
    let place = prop_oneof![
        (0u32..1000).prop_map(EntryLocation::Operand),
        any::<u64>().prop_map(|entry| EntryLocation::Again(EntryId(entry))),
        (any::<u64>(), name()).prop_map(|(parent, name)| EntryLocation::Child { parent: EntryId(parent), name }),
    ];
    let kind = prop_oneof![
        Just(EntryContent::Directory),
        Just(EntryContent::Stream),
        any::<u64>().prop_map(|size| EntryContent::File { size }),
        proptest::collection::vec(1u8.., 1..4096).prop_map(|bytes| EntryContent::Symlink { points_to: bytes.into() }),
        (any::<u64>(), any::<u64>()).prop_map(|(to, size)| EntryContent::HardLink { to: EntryId(to), size }),
        (any::<bool>(), any::<u32>(), any::<u32>()).prop_map(|(block, major, minor)| {
            let device = DeviceNumber { major, minor };
            EntryContent::Node(if block { SpecialFile::Block(device) } else { SpecialFile::Character(device) })
        }),
        any::<bool>().prop_map(|socket| EntryContent::Node(if socket {
            SpecialFile::Socket
        } else {
            SpecialFile::Fifo
        })),
    ];
    let meta = (0u16..=0o7777, any::<u32>(), any::<u32>(), stamp())
        .prop_map(|(mode, uid, gid, modified)| EntryMetadata { mode, uid, gid, modified });
    let version = (any::<u64>(), any::<u64>(), stamp()).prop_map(|(device, inode, changed)| FileVersion {
        device,
        inode,
        changed,
    });
    let more = (any::<u64>(), proptest::collection::vec(any::<u8>(), 0..300)).prop_map(|(names, value)| {
        let attributes = Some(vec![ExtendedAttribute { name: (*b"user.a").into(), value: value.into() }]);
        Box::new(EntryExtras { names: Some(names), attributes, ..EntryExtras::default() })
    });
    let more = proptest::option::of(more);
    (place, kind, meta, proptest::option::of(version), more).prop_map(|(place, kind, meta, version, more)| {
        let version = version.filter(|_| matches!(kind, EntryContent::File { .. }));
        Entry { place, kind, meta, version, more }
    })
}

fn need() -> impl Strategy<Value = TransferNeed> {
    prop_oneof![
        Just(TransferNeed::Nothing),
        Just(TransferNeed::All),
        Just(TransferNeed::InOrder),
        Just(TransferNeed::Refused),
        Just(TransferNeed::Rest),
        Just(TransferNeed::Compare),
        Just(TransferNeed::Same),
        Just(TransferNeed::Delta)
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn offers_round_trip(first: u64, entries in proptest::collection::vec(entry(), 0..20)) {
        let message = SourceMessage::Offer { first: EntryId(first), entries };
        prop_assert_eq!(SourceMessage::decode(&message.encode(COPY), COPY), Ok(message));
    }

    #[test]
    fn needs_round_trip(first: u64, needs in proptest::collection::vec(need(), 0..=OFFER_ENTRIES_MAX)) {
        let message = TargetMessage::Want { first: EntryId(first), needs };
        prop_assert_eq!(TargetMessage::decode(&message.encode(COPY), COPY), Ok(message));
    }

    #[test]
    fn no_bytes_make_decoding_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = SourceMessage::decode(&bytes, COPY);
        let _ = TargetMessage::decode(&bytes, COPY);
        for kind in 0..30 {
            let mut framed = vec![kind, 1, 0, 0, 0];
            framed.extend_from_slice(&bytes);
            let _ = SourceMessage::decode(&framed, COPY);
            let _ = TargetMessage::decode(&framed, COPY);
        }
    }
}

#[test]
fn short_messages_round_trip() {
    for message in [
        SourceMessage::DirectoryEnd { entry: EntryId(5), listing: false.into() },
        SourceMessage::FileEnd {
            entry: EntryId(1 << 50),
            size: 1 << 60,
            modified: Timestamp::default(),
            digest: [7; 32],
        },
        SourceMessage::SourceFailed { entry: EntryId(0), reason: "gone".into(), vanished: false },
        SourceMessage::OffersEnd,
        SourceMessage::Owner { is_group: true, id: u32::MAX, name: b"users".to_vec() },
        SourceMessage::Excluded {
            entry: EntryId(4),
            what: Exclusion::Names(vec![Name::new(b"a").unwrap(), Name::new(b"\xff").unwrap()]),
        },
        SourceMessage::Excluded { entry: EntryId(4), what: Exclusion::Vanished(vec![Name::new(b"log").unwrap()]) },
        SourceMessage::Excluded { entry: EntryId(4), what: Exclusion::Patterns { file: 15, text: b"*.o\n".to_vec() } },
        SourceMessage::Match { entry: EntryId(7), frames: vec![0..9] },
        SourceMessage::Streams { count: 256, path: PathId(u16::MAX) },
        SourceMessage::SmallSegments { path: PathId(3) },
        SourceMessage::QueryMissing { streams: vec![StreamId(3), StreamId(u16::MAX)], entries: vec![(EntryId(2), 9)] },
    ] {
        assert_eq!(SourceMessage::decode(&message.encode(COPY), COPY), Ok(message));
    }
    for message in [
        TargetMessage::Done { runs: vec![(EntryId(0), 3), (EntryId(9), 1)] },
        TargetMessage::TargetFailed { entry: EntryId(3) },
        TargetMessage::MissingRanges { entry: EntryId(3), frames: vec![0..1, 7..u64::MAX] },
        TargetMessage::HaveRanges { entry: EntryId(3), first: 7, values: vec![[1; 32], [2; 32]], compare: true },
        TargetMessage::ResendPacked { entries: vec![EntryId(4), EntryId(5)] },
        TargetMessage::Missing { entry: EntryId(3), frames: vec![0..1] },
        TargetMessage::BlockHashes { entry: EntryId(3), first: 1 << 40, marks: vec![0, u64::MAX] },
        TargetMessage::RollingSignatures {
            entry: EntryId(3),
            size: 1 << 50,
            format: SignatureFormat { block: 2048, key: u64::MAX, strong_bytes: 8 },
            first: 7,
            sums: vec![RollingSignature { weak: u32::MAX, strong: 1 }, RollingSignature { weak: 0, strong: u64::MAX }],
        },
        TargetMessage::QueryEnd,
        TargetMessage::Ack { entry: EntryId(3), frames: 1 << 40 },
    ] {
        assert_eq!(TargetMessage::decode(&message.encode(COPY), COPY), Ok(message));
    }
}

#[test]
fn another_copies_message_is_a_fault() {
    let bytes = SourceMessage::OffersEnd.encode(CopyNumber(2));
    assert_eq!(SourceMessage::decode(&bytes, COPY), Err(ProtocolError::Unasked("another copy")));
}

#[test]
fn a_name_with_dot_dot_is_a_fault() {
    let place = EntryLocation::Child { parent: EntryId(0), name: Name::new(b"ab").unwrap() };
    let offer = SourceMessage::Offer {
        first: EntryId(1),
        entries: vec![Entry {
            place,
            kind: EntryContent::Directory,
            meta: EntryMetadata::default(),
            version: None,
            more: None,
        }],
    };
    let mut bytes = offer.encode(COPY);
    let at = bytes.windows(2).position(|pair| pair == b"ab").unwrap();
    bytes[at..at + 2].copy_from_slice(b"..");
    assert_eq!(SourceMessage::decode(&bytes, COPY), Err(ProtocolError::Invalid("an invalid name")));
}

#[test]
fn excluded_names_respect_their_limits() {
    let excluded = |what| SourceMessage::Excluded { entry: EntryId(0), what };
    let names = |count| excluded(Exclusion::Names(vec![Name::new(b"a").unwrap(); count]));
    let patterns = |file, bytes| excluded(Exclusion::Patterns { file, text: vec![b'a'; bytes] });
    let is_good = |message: &SourceMessage| SourceMessage::decode(&message.encode(COPY), COPY).is_ok();
    assert!(is_good(&names(LEFT_OUT_NAMES_MAX)) && is_good(&patterns(15, DIRECTORY_FILTER_MAX)));
    for bad in [names(LEFT_OUT_NAMES_MAX + 1), patterns(16, 0), patterns(0, DIRECTORY_FILTER_MAX + 1)] {
        assert!(!is_good(&bad));
    }
}
