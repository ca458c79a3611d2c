//! A worker's messages to the other one, and their framing: unknown entries, impossible answers, and bytes that are no
//! messages.

use std::io;

use haul_e2e::{FakeLink, Rng};
use haul_proto::delta::rolling::SignatureFormat;
use haul_proto::entry::EntryContent;
use haul_proto::ids::{CopyNumber, EntryId};
use haul_proto::limits::{CONTROL_MESSAGE_MAX, MARKS_MAX, PEER_MESSAGE_MAX};
use haul_proto::wire::control_channel::ControlChannel;
use haul_proto::wire::message::{SourceMessage, TargetMessage, TransferNeed};
use haul_proto::wire::report::WorkerMessage;

use super::scene::{Offered, Scene, Way};
use super::{Attack, Expect};

const fn attack(name: &'static str, way: Way, expect: Expect, play: super::Play) -> Attack {
    Attack { name, way, options: &[], expect, play }
}

pub const ATTACKS: &[Attack] = &[
    attack("a frame of the link that cannot be", Way::Push, Expect::Fails, bad_frame),
    attack("a frame of a source's link that cannot be", Way::Pull, Expect::Fails, bad_frame),
    attack("bytes that are no report", Way::Push, Expect::Fault, no_report),
    attack("bytes that are no report of a source", Way::Pull, Expect::Fault, no_report),
    attack("a report that is cut off, or goes on", Way::Push, Expect::Fault, cut_report),
    attack("a report as long as a frame may be", Way::Push, Expect::Fails, huge_report),
    attack("bytes that are no message", Way::Push, Expect::Fails, no_message),
    attack("bytes of a source that are no message", Way::Pull, Expect::Fails, no_message),
    attack("a message of the other end", Way::Push, Expect::Fails, other_ends_message),
    attack("a message of another copy", Way::Push, Expect::Fails, other_copy),
    attack("answers to what was never offered", Way::Push, Expect::Fails, unknown_entries),
    attack("answers that cannot be", Way::Push, Expect::Fails, impossible_needs),
    attack("answers twice", Way::Push, Expect::Fails, second_answer),
    attack("done, of what is not there", Way::Push, Expect::Fails, forged_done),
    attack("lacks what there is not", Way::Push, Expect::Fails, impossible_lacks),
    attack("holds what it was not asked for", Way::Push, Expect::Fails, forged_holds),
    attack("marks and sums of no old file", Way::Push, Expect::Fails, forged_sums),
    attack("sums without end", Way::Push, Expect::Fails, endless_sums),
    attack("answers without a question", Way::Push, Expect::Fails, forged_answers),
    attack("a flood of messages about what is settled", Way::Push, Expect::Succeeds, flood_about_the_past),
    attack("a message to a source that has not begun", Way::Push, Expect::Fails, too_early),
    attack("offers of what nobody named", Way::Pull, Expect::Fails, planted_offers),
    attack("refuses everything", Way::Push, Expect::Ends, refuses_all),
    Attack {
        name: "claims to have files that it was never sent",
        way: Way::Push,
        options: &["--remove-source-files"],
        expect: Expect::Fault,
        play: claims_to_have_all,
    },
];

/// Sends these messages to the other worker, and waits for the result.
fn tell(scene: &Scene, link: &mut FakeLink, messages: &[TargetMessage]) -> io::Result<()> {
    for message in messages {
        scene.tell(link, message)?;
    }
    link.drain();
    Ok(())
}

fn id_of(offered: &[Offered], wanted: impl Fn(&EntryContent) -> bool) -> EntryId {
    offered.iter().find(|(_, kind)| wanted(kind)).map(|(id, _)| *id).expect("it was offered")
}

fn large(offered: &[Offered]) -> EntryId {
    id_of(offered, |kind| matches!(kind, EntryContent::File { size } if *size > 1 << 20))
}

fn small(offered: &[Offered]) -> EntryId {
    id_of(offered, |kind| matches!(kind, EntryContent::File { size } if *size < 1 << 10))
}

fn directory(offered: &[Offered]) -> EntryId {
    id_of(offered, |kind| matches!(kind, EntryContent::Directory))
}

/// As a target that needs this of each file.
fn offers(scene: &mut Scene, link: &mut FakeLink, need: TransferNeed) -> io::Result<Vec<Offered>> {
    scene.be_target(link)?;
    let offered = scene.all_offers(link)?;
    scene.need(link, &offered, need)?;
    Ok(offered)
}

fn bad_frame(scene: &mut Scene, link: &mut FakeLink, rng: &mut Rng) -> io::Result<()> {
    scene.begin(link)?;
    let over = |limit: usize| u32::try_from(limit + 1).expect("a limit below 4 GiB");
    let (length, channel) = rng.pick(&[
        (over(CONTROL_MESSAGE_MAX), 0u16),
        (u32::MAX, 0),
        (over(PEER_MESSAGE_MAX), 1),
        (u32::MAX, 1),
        (70_000, 16),
        (u32::MAX, 16 + 255),
        (1, 2),
        (1, 15),
        (1, 16 + 256),
        (1, u16::MAX),
    ]);
    link.send_raw(&[&length.to_le_bytes()[..], &channel.to_le_bytes(), &[0; 64]].concat())?;
    if rng.chance(500) {
        link.drain();
    }
    Ok(())
}

fn no_report(scene: &mut Scene, link: &mut FakeLink, rng: &mut Rng) -> io::Result<()> {
    if rng.chance(500) {
        scene.begin(link)?;
    } else {
        link.greet()?;
    }
    let len = rng.pick(&[1, 2, 5, 100, 70_000]);
    // No report has such a kind.
    let mut bytes = rng.bytes(len);
    bytes[0] |= 0x80;
    link.send(ControlChannel::Controller, &bytes)?;
    link.drain();
    Ok(())
}

fn cut_report(scene: &mut Scene, link: &mut FakeLink, rng: &mut Rng) -> io::Result<()> {
    scene.begin(link)?;
    let mut bytes = WorkerMessage::Counters(Box::default()).encode();
    if rng.chance(500) {
        bytes.truncate(1 + rng.index(bytes.len() - 1));
    } else {
        let more = 1 + rng.index(20);
        bytes.extend(rng.bytes(more));
    }
    link.send(ControlChannel::Controller, &bytes)?;
    link.drain();
    Ok(())
}

/// It is as long as it says, or the link ends before.
fn huge_report(scene: &mut Scene, link: &mut FakeLink, rng: &mut Rng) -> io::Result<()> {
    scene.begin(link)?;
    let length = u32::try_from(CONTROL_MESSAGE_MAX).expect("a limit below 4 GiB");
    link.send_raw(&[&length.to_le_bytes()[..], &0u16.to_le_bytes()].concat())?;
    let sent = if rng.chance(500) { CONTROL_MESSAGE_MAX } else { rng.index(CONTROL_MESSAGE_MAX) };
    let piece = vec![9; 1 << 20];
    for _ in 0..sent >> 20 {
        link.send_raw(&piece)?;
    }
    if sent == CONTROL_MESSAGE_MAX {
        link.drain();
    }
    Ok(())
}

fn no_message(scene: &mut Scene, link: &mut FakeLink, rng: &mut Rng) -> io::Result<()> {
    scene.begin(link)?;
    let len = rng.pick(&[0, 1, 5, 6, 100, 70_000, PEER_MESSAGE_MAX]);
    let bytes = rng.bytes(len);
    link.send(ControlChannel::Peer, &bytes)?;
    link.drain();
    Ok(())
}

fn other_ends_message(scene: &mut Scene, link: &mut FakeLink, rng: &mut Rng) -> io::Result<()> {
    scene.be_target(link)?;
    let entry = EntryId(0);
    let messages = [
        SourceMessage::OffersEnd,
        SourceMessage::DirectoryEnd { entry, listing: true.into() },
        SourceMessage::SourceFailed { entry, reason: "so".into(), vanished: false },
        SourceMessage::ListAck { before: 3 },
        SourceMessage::Match { entry, frames: vec![0..1] },
    ];
    scene.offer(link, &messages[rng.index(messages.len())])?;
    link.drain();
    Ok(())
}

fn other_copy(scene: &mut Scene, link: &mut FakeLink, rng: &mut Rng) -> io::Result<()> {
    scene.be_target(link)?;
    let copy = CopyNumber(rng.pick(&[0, 2, u32::MAX]));
    link.send(ControlChannel::Peer, &TargetMessage::QueryEnd.encode(copy))?;
    link.drain();
    Ok(())
}

fn unknown_entries(scene: &mut Scene, link: &mut FakeLink, rng: &mut Rng) -> io::Result<()> {
    scene.be_target(link)?;
    let offered = scene.all_offers(link)?;
    let end = offered.last().map_or(0, |(id, _)| id.0 + 1);
    let entry = EntryId(rng.pick(&[end, end + 1, u64::MAX >> 1, u64::MAX]));
    let messages = [
        TargetMessage::Want { first: entry, needs: vec![TransferNeed::All; 1 + rng.index(1000)] },
        TargetMessage::Done { runs: vec![(entry, 1)] },
        TargetMessage::Done { runs: vec![(EntryId(0), u64::MAX)] },
        TargetMessage::TargetFailed { entry },
        TargetMessage::MissingRanges { entry, frames: vec![0..1] },
        TargetMessage::ResendPacked { entries: vec![entry] },
        TargetMessage::HaveRanges { entry, first: 0, values: vec![[1; 32]], compare: true },
    ];
    tell(scene, link, &[messages[rng.index(messages.len())].clone()])
}

fn impossible_needs(scene: &mut Scene, link: &mut FakeLink, rng: &mut Rng) -> io::Result<()> {
    scene.be_target(link)?;
    let offered = scene.all_offers(link)?;
    let (entry, need) = rng.pick(&[
        (directory(&offered), TransferNeed::Nothing),
        (directory(&offered), TransferNeed::Rest),
        (small(&offered), TransferNeed::Rest),
        (small(&offered), TransferNeed::Delta),
        (large(&offered), TransferNeed::Compare),
        (small(&offered), TransferNeed::Compare),
    ]);
    let mut needs: Vec<TransferNeed> = offered.iter().map(|_| TransferNeed::Refused).collect();
    let at = offered.iter().position(|(id, _)| *id == entry).expect("it was offered");
    needs[at] = need;
    tell(scene, link, &[TargetMessage::Want { first: offered[0].0, needs }])
}

fn second_answer(scene: &mut Scene, link: &mut FakeLink, rng: &mut Rng) -> io::Result<()> {
    let offered = offers(scene, link, TransferNeed::All)?;
    let entry = if rng.chance(500) { small(&offered) } else { large(&offered) };
    tell(scene, link, &[TargetMessage::Want { first: entry, needs: vec![TransferNeed::All] }])
}

/// Nothing was sent: there is not even a stream.
fn forged_done(scene: &mut Scene, link: &mut FakeLink, rng: &mut Rng) -> io::Result<()> {
    scene.be_target(link)?;
    let offered = scene.all_offers(link)?;
    let entry = rng.pick(&[large(&offered), small(&offered), EntryId(0)]);
    tell(scene, link, &[TargetMessage::Done { runs: vec![(entry, 1)] }])
}

fn impossible_lacks(scene: &mut Scene, link: &mut FakeLink, rng: &mut Rng) -> io::Result<()> {
    let offered = offers(scene, link, TransferNeed::All)?;
    let (entry, frames) = match rng.below(5) {
        0 => (small(&offered), 0..1),
        1 => (directory(&offered), 0..1),
        2 => (large(&offered), 2..9),
        3 => (large(&offered), u64::MAX - 1..u64::MAX),
        _ => return tell(scene, link, &[TargetMessage::ResendPacked { entries: vec![large(&offered)] }]),
    };
    tell(scene, link, &[TargetMessage::MissingRanges { entry, frames: vec![frames] }])
}

fn forged_holds(scene: &mut Scene, link: &mut FakeLink, rng: &mut Rng) -> io::Result<()> {
    let need = rng.pick(&[TransferNeed::All, TransferNeed::Rest]);
    let offered = offers(scene, link, need)?;
    let entry = large(&offered);
    let compare = rng.chance(500);
    let message = |first, many| TargetMessage::HaveRanges { entry, first, values: vec![[1; 32]; many], compare };
    match need {
        TransferNeed::All => tell(scene, link, &[message(0, 1)]),
        _ if rng.chance(500) => tell(scene, link, &[message(rng.pick(&[3, 100, u64::MAX - 5]), 2048)]),
        // The same frames for ever.
        _ => {
            let again: Vec<_> = (0..20_000).map(|_| message(0, 4)).collect();
            tell(scene, link, &again)
        }
    }
}

fn forged_sums(scene: &mut Scene, link: &mut FakeLink, rng: &mut Rng) -> io::Result<()> {
    let need = rng.pick(&[TransferNeed::All, TransferNeed::Delta]);
    let offered = offers(scene, link, need)?;
    let entry = large(&offered);
    let marks = |first, many| TargetMessage::BlockHashes { entry, first, marks: vec![7; many] };
    let format = |block| SignatureFormat { block, key: 7, strong_bytes: 8 };
    let sums = |size, block, first| TargetMessage::RollingSignatures {
        entry,
        size,
        format: format(block),
        first,
        sums: Vec::new(),
    };
    let message = match (need, rng.below(5)) {
        (TransferNeed::All, 0 | 1) => marks(0, 64),
        (TransferNeed::All, _) => sums(1 << 20, 4096, 0),
        (_, 0) => marks(0, 1),
        (_, 1) => marks(u64::MAX - 1, MARKS_MAX),
        (_, 2) => sums(u64::MAX, 2048, 0),
        (_, 3) => sums(1 << 20, rng.pick(&[0, 1, u32::MAX]), 0),
        _ => sums(1 << 20, 4096, u64::MAX),
    };
    tell(scene, link, &[message])
}

fn endless_sums(scene: &mut Scene, link: &mut FakeLink, _: &mut Rng) -> io::Result<()> {
    use haul_proto::delta::rolling::RollingSignature;
    let format = SignatureFormat { block: 2048, key: 7, strong_bytes: 8 };
    let offered = offers(scene, link, TransferNeed::Delta)?;
    let entry = large(&offered);
    let sums = vec![RollingSignature { weak: 1, strong: 2 }; 1 << 15];
    for piece in 0..200u64 {
        let first = piece << 15;
        scene.tell(
            link,
            &TargetMessage::RollingSignatures { entry, size: u64::MAX >> 8, format, first, sums: sums.clone() },
        )?;
    }
    link.drain();
    Ok(())
}

fn forged_answers(scene: &mut Scene, link: &mut FakeLink, rng: &mut Rng) -> io::Result<()> {
    let offered = offers(scene, link, TransferNeed::All)?;
    let entry = large(&offered);
    let messages = [
        TargetMessage::QueryEnd,
        TargetMessage::Missing { entry, frames: vec![0..1] },
        TargetMessage::Ack { entry, frames: rng.pick(&[1, u64::MAX]) },
    ];
    tell(scene, link, &[messages[rng.index(messages.len())].clone()])
}

fn flood_about_the_past(scene: &mut Scene, link: &mut FakeLink, rng: &mut Rng) -> io::Result<()> {
    scene.be_target(link)?;
    let offered = scene.all_offers(link)?;
    scene.need(link, &offered, TransferNeed::Nothing)?;
    let entry = small(&offered);
    let messages = [
        TargetMessage::Done { runs: vec![(entry, 1)] },
        TargetMessage::TargetFailed { entry },
        TargetMessage::MissingRanges { entry, frames: vec![0..1] },
        TargetMessage::ResendPacked { entries: vec![entry; 512] },
    ];
    let message = &messages[rng.index(messages.len())];
    for _ in 0..3000 {
        scene.tell(link, message)?;
    }
    let end = offered.last().map_or(0, |(id, _)| id.0 + 1);
    scene.tell(link, &TargetMessage::Done { runs: vec![(EntryId(0), end)] })?;
    link.report(&WorkerMessage::Finished(Box::default()))?;
    link.drain();
    Ok(())
}

/// The controller forwards it before the source has its Start.
fn too_early(scene: &mut Scene, link: &mut FakeLink, _: &mut Rng) -> io::Result<()> {
    link.greet()?;
    scene.tell(link, &TargetMessage::QueryEnd)?;
    link.drain();
    Ok(())
}

fn planted_offers(scene: &mut Scene, link: &mut FakeLink, rng: &mut Rng) -> io::Result<()> {
    scene.be_source(link)?;
    // An unrequested source argument, a name with `..`, a child without a parent: as bytes, since no type allows them.
    let mut out = haul_proto::encoding::Writer::new();
    out.u8(1).u32(1).varint(0).count(1);
    match rng.below(3) {
        0 => out.u8(129).varint(1),
        1 => out.u8(1).varint(0).bytes(b"../planted"),
        _ => out.u8(2).varint(7).bytes(b"planted").varint(5),
    };
    out.u16(0o755).varint(0).varint(0).i64(0).u32(0);
    link.send(ControlChannel::Peer, &out.into_bytes())?;
    if rng.chance(300) {
        // It may be refused alone: then the source has ended.
        return Ok(());
    }
    link.report(&WorkerMessage::Fatal { fault: false, text: "gone".into() })?;
    link.drain();
    Ok(())
}

/// Files of a source that removes them: none was sent, and none is removed.
fn claims_to_have_all(scene: &mut Scene, link: &mut FakeLink, rng: &mut Rng) -> io::Result<()> {
    let before = scene.names();
    let offered = offers(scene, link, rng.pick(&[TransferNeed::Same, TransferNeed::Rest, TransferNeed::All]))?;
    let frames =
        TargetMessage::HaveRanges { entry: large(&offered), first: 0, values: vec![[1; 32]; 5], compare: false };
    let last = offered.last().map_or(0, |(id, _)| id.0 + 1);
    tell(scene, link, &[frames, TargetMessage::Done { runs: vec![(EntryId(0), last)] }])?;
    assert_eq!(scene.names(), before, "files that were never sent are gone");
    Ok(())
}

fn refuses_all(scene: &mut Scene, link: &mut FakeLink, rng: &mut Rng) -> io::Result<()> {
    scene.be_target(link)?;
    let offered = scene.all_offers(link)?;
    let needs = offered.iter().map(|_| TransferNeed::Refused).collect();
    scene.tell(link, &TargetMessage::Want { first: EntryId(0), needs })?;
    if rng.chance(500) {
        link.report(&WorkerMessage::Finished(Box::default()))?;
        link.drain();
    }
    Ok(())
}
