//! Damaged data is not written: neither a bit flipped on the wire, nor one flipped in memory before encryption or after
//! decryption. In the latter cases, the target requests exactly the damaged data again.

use std::collections::BTreeMap;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::Ordering;

use haul_base::control_channel::ControlWriter;
use haul_lab::{Rng, cases, count};
use haul_proto::entry::{Entry, EntryContent, EntryLocation, EntryMetadata, Timestamp};
use haul_proto::ids::EntryId;
use haul_proto::integrity::FrameLen;
use haul_proto::journal::check_value;
use haul_proto::limits::FRAME_MIN;
use haul_proto::path::Name;
use haul_proto::wire::frame::RecordTrailer;
use haul_proto::wire::handshake::{CipherSuite, KeyDirection};
use haul_proto::wire::message::{SourceMessage, TargetMessage};
use haul_proto::wire::request::{SessionSettings, TargetOperand, TargetRequest};
use haul_proto::wire::storage::Verify;

use super::*;
use crate::metrics::reporter::Reporter;
use crate::net::stream::testing::{TestRecord, flip, keys, receiving, sealed};
use crate::policy::audit::{AuditClient, AuditDestination, AuditLog};
use crate::receiver::TargetReceiver;
use crate::receiver::copy::WorkerContext;
use crate::testing::{settings, target_request};

/// A target that needs these offered files, by number.
struct Site {
    directory: tempfile::TempDir,
    target: TargetReceiver,
    frame: FrameLen,
    files: Vec<Vec<u8>>,
}

impl Site {
    fn new(files: Vec<Vec<u8>>) -> Self {
        Self::with(files, settings(), Verify::Wire, None)
    }

    fn with(files: Vec<Vec<u8>>, settings: SessionSettings, verify: Verify, audit: Option<Arc<AuditLog>>) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let frame = FrameLen::new(FRAME_MIN).unwrap();
        let operand = |number| TargetOperand { name: Some(name(number)), directory: false, device: 0, inode: 0 };
        let operands = (0..files.len()).map(operand).collect();
        let settings = SessionSettings { frame, ..settings };
        let request = TargetRequest { settings, verify, ..target_request(directory.path(), operands) };
        let reporter = Reporter::new(ControlWriter::new(std::io::sink()), false).with_audit(audit);
        let context = WorkerContext { umask: 0o022, ..WorkerContext::default() };
        let target =
            TargetReceiver::prepare(request, reporter, &context, None).map_err(|refused| refused.text).unwrap();
        let site = Self { directory, target, frame, files };
        let entry = |(number, file): (u32, &Vec<u8>)| Entry {
            place: EntryLocation::Operand(number),
            kind: EntryContent::File { size: file.len() as u64 },
            meta: EntryMetadata { mode: 0o644, ..EntryMetadata::default() },
            version: None,
            more: None,
        };
        site.tell(&SourceMessage::Offer { first: EntryId(0), entries: (0..).zip(&site.files).map(entry).collect() });
        assert!(matches!(site.messages()[..], [TargetMessage::Want { .. }]));
        site
    }

    fn tell(&self, message: &SourceMessage) {
        self.target.handle_peer(&message.encode(self.target.parts.copy.request.settings.number)).unwrap();
    }

    fn messages(&self) -> Vec<TargetMessage> {
        self.target.parts.session.take_messages()
    }

    /// Marks all frames of this file as read.
    fn end_file(&self, number: usize) {
        let digest = *blake3::hash(&self.files[number]).as_bytes();
        let (entry, size) = (EntryId(number as u64), self.files[number].len() as u64);
        self.tell(&SourceMessage::FileEnd { entry, size, modified: Timestamp::default(), digest });
    }

    fn data(&self, number: usize, index: usize) -> TestRecord {
        let file = &self.files[number];
        let (size, offset) = (file.len() as u64, (index * self.frame.bytes()) as u64);
        let payload = file.chunks(self.frame.bytes()).nth(index).unwrap().to_vec();
        let (copy, entry) = (self.target.parts.copy.request.settings.number, EntryId(number as u64));
        let value = self.frame.hash(size, index as u64, &payload);
        let trailer = RecordTrailer::Data(DataFrame { copy, entry, offset, check: frame_check(&payload), value });
        TestRecord { payload, trailer }
    }

    fn pack(&self, numbers: Range<usize>) -> TestRecord {
        let payload = self.files[numbers.clone()].concat();
        let packed = |number: usize| PackedFile {
            entry: EntryId(number as u64),
            len: u32::try_from(self.files[number].len()).unwrap(),
            modified: Timestamp::default(),
            digest: *blake3::hash(&self.files[number]).as_bytes(),
        };
        let copy = self.target.parts.copy.request.settings.number;
        let pack = PackFrame { copy, check: frame_check(&payload), files: numbers.map(packed).collect() };
        TestRecord { payload, trailer: RecordTrailer::Pack(pack) }
    }

    /// Whether exactly these files exist, complete, without any partial file.
    fn has_only(&self, numbers: Range<usize>) -> bool {
        let entries = std::fs::read_dir(self.directory.path()).unwrap().map(|entry| entry.unwrap().path());
        let found: BTreeMap<_, _> =
            entries.map(|path| (path.file_name().unwrap().as_bytes().to_vec(), std::fs::read(path).unwrap())).collect();
        let expected =
            numbers.clone().map(|number| (name(number).as_bytes().to_vec(), self.files[number].clone())).collect();
        let bytes: usize = self.files[numbers].iter().map(Vec::len).sum();
        found == expected && self.bytes_written() == bytes as u64
    }

    fn bytes_written(&self) -> u64 {
        self.target.parts.copy.reporter.tally.bytes_written.load(Ordering::Relaxed)
    }
}

fn name(number: usize) -> Name {
    Name::new(format!("f{number}").as_bytes()).unwrap()
}

/// Sends four files over a stream; with `damage`, a bit of one record is flipped in transit. Returns whether that ends
/// the stream, and neither this record nor later ones are written.
fn is_kept_out(seed: u64, damage: bool) -> bool {
    let mut rng = Rng::new(seed);
    let site = Site::new([5000, 1, 70_000, 300].map(|len| rng.bytes(len)).to_vec());
    site.end_file(2);
    let finished = TestRecord { payload: Vec::new(), trailer: RecordTrailer::Finished };
    let end = TestRecord { payload: Vec::new(), trailer: RecordTrailer::End { records: 3 } };
    let said = [finished, site.pack(0..2), site.data(2, 0), site.pack(3..4), end];
    let keys = keys(seed, rng.pick(&CipherSuite::ALL).0, 1 << 30);
    let mut records = sealed(&keys, KeyDirection::FromConnector, &said);
    let at = rng.index(records.len());
    if damage {
        flip(&mut rng, &mut records[at]);
    }
    let mut stream = receiving(&keys, records.concat());
    let finished = stream.receive(&mut FrameBuffer::empty()).is_ok();
    let broke = !finished || site.target.run_stream(&mut stream).is_err();
    broke && site.has_only(0..[0, 0, 2, 3, 4][at])
}

#[test]
fn a_record_with_a_flipped_bit_is_not_written() {
    let flips = cases("HAUL_FLIPS", 20_000) / 40;
    for seed in 0..flips {
        assert!(is_kept_out(seed, true), "seed {seed}");
    }
    count("bits-flipped-before-a-write", flips);
    assert!((0..10).all(|seed| !is_kept_out(seed, false)), "what nobody touched counts as kept out");
}

/// The time of a bit flip in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Moment {
    /// No bit flip.
    Never,
    /// After the checksum, before encryption.
    BeforeSealing,
    /// After decryption, before the write.
    AfterOpening,
    /// Before the checksum, which cannot detect it.
    Unseen,
}

/// Delivers one record to the target.
fn bring(site: &Site, said: &TestRecord, writer: &mut FrameWriter, rng: &mut Rng, moment: Moment) {
    let mut said = said.clone();
    let (byte, bit) = (rng.index(said.payload.len()), 1 << rng.below(8));
    if matches!(moment, Moment::BeforeSealing | Moment::Unseen) {
        said.payload[byte] ^= bit;
    }
    if let (
        RecordTrailer::Data(DataFrame { check, .. }) | RecordTrailer::Pack(PackFrame { check, .. }),
        Moment::Unseen,
    ) = (&mut said.trailer, moment)
    {
        *check = frame_check(&said.payload);
    }
    let keys = keys(rng.number(), rng.pick(&[CipherSuite::Aes256Gcm, CipherSuite::AuthenticateOnly]), 1 << 30);
    let wire = sealed(&keys, KeyDirection::FromConnector, &[said]).concat();
    let mut buffer = FrameBuffer::empty();
    let trailer = receiving(&keys, wire).receive(&mut buffer).unwrap();
    if moment == Moment::AfterOpening {
        buffer.payload_mut()[byte] ^= bit;
    }
    site.target.deliver(writer, &trailer, buffer).unwrap();
}

/// The message that requests exactly this record again.
fn request_for(trailer: &RecordTrailer) -> TargetMessage {
    match trailer {
        RecordTrailer::Data(frame) => {
            let index = frame.offset / u64::from(FRAME_MIN);
            TargetMessage::MissingRanges { entry: frame.entry, frames: vec![index..index + 1] }
        }
        RecordTrailer::Pack(pack) => {
            TargetMessage::ResendPacked { entries: pack.files.iter().map(|file| file.entry).collect() }
        }
        other => panic!("nobody asks for {other:?} again"),
    }
}

/// Five frames of a file, and three files in a pack; the last frame is short.
fn site_of_frames_and_a_pack(rng: &mut Rng, verify: Verify) -> (Site, Vec<TestRecord>) {
    let sizes = [4 * FRAME_MIN as usize + 123, 20_000, 1, 333];
    let site = Site::with(sizes.map(|len| rng.bytes(len)).to_vec(), settings(), verify, None);
    let frames = (0..5).map(|index| site.data(0, index));
    let said = frames.chain([site.pack(1..4)]).collect();
    (site, said)
}

#[test]
fn only_a_frame_with_a_bit_flipped_in_memory_is_requested_again() {
    let flips = cases("HAUL_FLIPS", 20_000) / 20;
    let mut rng = Rng::new(1);
    let (site, said) = site_of_frames_and_a_pack(&mut rng, Verify::Wire);
    let mut writer = site.target.frames.writer();
    let mut flipped = 0;
    for (left, buffer) in (1..=said.len() as u64).rev().zip(&said) {
        for _ in 0..(flips - flipped) / left {
            let (moment, before) = (rng.pick(&[Moment::BeforeSealing, Moment::AfterOpening]), site.bytes_written());
            bring(&site, buffer, &mut writer, &mut rng, moment);
            assert_eq!(site.messages(), [request_for(&buffer.trailer)], "{moment:?}, flip {flipped}");
            assert_eq!(site.bytes_written(), before, "{moment:?}, flip {flipped}");
            flipped += 1;
        }
        bring(&site, buffer, &mut writer, &mut rng, Moment::Never);
    }
    assert_eq!(site.target.parts.copy.reporter.tally.frames_resent.load(Ordering::Relaxed), flips);
    site.end_file(0);
    let runs = vec![(EntryId(0), said.len() as u64 - 2)];
    assert_eq!(site.messages(), [TargetMessage::Done { runs }]);
    assert!(site.has_only(0..4));
    count("bits-flipped-in-memory", flips);
}

/// Only `--verify memory` detects a bit flip before the checksum; without it, the file is wrong, and this harness
/// reports that.
#[test]
fn an_undetectable_flip_is_seen_by_the_test() {
    for verify in [Verify::Wire, Verify::Memory] {
        let mut rng = Rng::new(2);
        let (site, said) = site_of_frames_and_a_pack(&mut rng, verify);
        let mut writer = site.target.frames.writer();
        let moments = [Moment::Unseen].into_iter().chain([Moment::Never].into_iter().cycle());
        said.iter().zip(moments).for_each(|(buffer, moment)| bring(&site, buffer, &mut writer, &mut rng, moment));
        site.end_file(0);
        assert_eq!(site.messages().contains(&request_for(&said[0].trailer)), verify == Verify::Memory);
        assert_eq!(site.directory.path().join("f0").exists(), verify == Verify::Wire);
        assert!(!site.has_only(0..4));
    }
}

/// An audit log has the digest of the received data, not the one claimed by a hostile source.
#[test]
fn a_source_cannot_forge_the_digests_of_an_audit_log() {
    let log = tempfile::tempdir().unwrap();
    let to = [AuditDestination::File(log.path().join("log"))];
    let audit = AuditLog::open(&to, &AuditClient::default(), "/".into()).unwrap();
    let mut rng = Rng::new(3);
    let site = Site::with([70_000, 300].map(|len| rng.bytes(len)).to_vec(), settings(), Verify::Wire, audit);
    let mut writer = site.target.frames.writer();
    let forged = [7; 32];
    for mut said in [site.data(0, 0), site.pack(1..2)] {
        match &mut said.trailer {
            RecordTrailer::Data(frame) => frame.value = forged,
            RecordTrailer::Pack(pack) => pack.files[0].digest = forged,
            _ => unreachable!(),
        }
        bring(&site, &said, &mut writer, &mut rng, Moment::Never);
        assert!(site.messages().contains(&request_for(&said.trailer)));
    }
    assert_eq!((site.bytes_written(), site.has_only(0..0)), (0, true));
}

/// In a session without BLAKE3, checksums alone verify frames, and files end with the merged checksums.
#[test]
fn files_arrive_in_a_session_without_blake3() {
    let mut rng = Rng::new(4);
    let site = Site::with(
        [70_000, 300].map(|len| rng.bytes(len)).to_vec(),
        SessionSettings { blake3: false, ..settings() },
        Verify::Wire,
        None,
    );
    let mut writer = site.target.frames.writer();
    let (mut data, mut pack) = (site.data(0, 0), site.pack(1..2));
    let digest = check_value(frame_check(&data.payload));
    let RecordTrailer::Data(frame) = &mut data.trailer else { unreachable!() };
    frame.value = digest;
    let RecordTrailer::Pack(packed) = &mut pack.trailer else { unreachable!() };
    packed.files[0].digest = [0; 32];
    bring(&site, &data, &mut writer, &mut rng, Moment::BeforeSealing);
    assert!(site.messages().contains(&request_for(&data.trailer)));
    [data, pack].iter().for_each(|said| bring(&site, said, &mut writer, &mut rng, Moment::Never));
    site.target.drain(&mut writer);
    site.tell(&SourceMessage::FileEnd { entry: EntryId(0), size: 70_000, modified: Timestamp::default(), digest });
    assert!(site.has_only(0..2));
}
