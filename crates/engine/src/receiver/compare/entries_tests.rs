//! Rights of a target that only compares.

use std::fs;
use std::path::Path;

use haul_base::control_channel::ControlWriter;
use haul_proto::entry::Timestamp;
use haul_proto::ids::EntryId;
use haul_proto::integrity::FrameLen;
use haul_proto::path::Name;
use haul_proto::session::step::TargetStep;
use haul_proto::session::target::TargetSession;
use haul_proto::wire::message::SourceMessage;
use haul_proto::wire::request::{Symlinks, TargetOperand, TargetRequest};

use super::*;
use crate::metrics::reporter::Reporter;
use crate::receiver::TargetReceiver;
use crate::receiver::copy::WorkerContext;
use crate::sys::confine::ConfineNetwork;
use crate::sys::confine::tests::{confined, is_denied};
use crate::testing::target_request;

fn target(path: &Path, compare: Option<Symlinks>) -> TargetReceiver {
    let operand = TargetOperand { name: Name::new(b"tree").ok(), directory: true, device: 0, inode: 0 };
    let request = TargetRequest { compare, ..target_request(path, vec![operand]) };
    let reporter = Reporter::new(ControlWriter::new(io::sink()), false);
    let context = WorkerContext { umask: 0o022, ..WorkerContext::default() };
    TargetReceiver::prepare(request, reporter, &context, None).map_err(|refused| refused.text).unwrap()
}

#[test]
fn the_kernel_lets_a_comparing_target_only_read() {
    for (compare, may_write) in [(Some(Symlinks::Keep), false), (None, true)] {
        let place = tempfile::tempdir().unwrap();
        fs::write(place.path().join("old"), "old").unwrap();
        let target = target(place.path(), compare);
        confined(
            ConfineNetwork::None,
            |bounds| target.allow(bounds),
            || {
                assert_eq!(fs::read(place.path().join("old")).unwrap(), b"old");
                assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1);
                if may_write {
                    return fs::write(place.path().join("new"), "new").unwrap();
                }
                is_denied(fs::write(place.path().join("new"), "new"));
                is_denied(fs::remove_file(place.path().join("old")));
                is_denied(fs::create_dir(place.path().join("dir")));
            },
        );
    }
}

#[test]
fn bytes_count_full_frames_and_a_shorter_last_one() {
    let mut machine = TargetSession::new(FrameLen::DEFAULT);
    let frame = u64::from(FrameLen::DEFAULT.get());
    let size = 3 * frame + 10;
    let kind = EntryContent::File { size };
    let entry =
        Entry { place: EntryLocation::Operand(0), kind, meta: EntryMetadata::default(), version: None, more: None };
    let offer = SourceMessage::Offer { first: EntryId(0), entries: vec![entry] };
    assert!(matches!(machine.handle(offer), Ok(TargetStep::Examine(..))));
    machine.answer(EntryId(0), EntryAnswer::Compare(Arc::new(())));
    machine.holds(EntryId(0), 0, &[[1; 32]; 4], true);
    let frames = |frames| SourceMessage::Mismatch { entry: EntryId(0), frames };
    machine.handle(frames(vec![0..1, 2..4])).unwrap();
    machine.handle(SourceMessage::Match { entry: EntryId(0), frames: std::iter::once(1..2).collect() }).unwrap();
    let end = SourceMessage::FileEnd { entry: EntryId(0), size, modified: Timestamp::default(), digest: [0; 32] };
    let Ok(TargetStep::Differs(_, _, differing)) = machine.handle(end) else { panic!("they differ") };
    let ranges = vec![0..frame, 2 * frame..size];
    assert_eq!(content(&differing, frame, size), Difference::Content { ranges, bytes: 2 * frame + 10 });
}
