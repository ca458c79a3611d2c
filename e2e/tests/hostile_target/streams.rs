//! A target's misuse of streams: requests for the same bytes without end, no verification, closed or unread streams.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use haul_e2e::{FakeLink, RawAcceptor, Rng, within};
use haul_proto::entry::EntryContent;
use haul_proto::ids::EntryId;
use haul_proto::wire::message::{TargetMessage, TransferNeed};
use haul_proto::wire::report::WorkerMessage;

use super::scene::{Scene, Way};
use super::{Attack, Expect};

const fn attack(name: &'static str, expect: Expect, play: super::Play) -> Attack {
    Attack { name, way: Way::Push, options: &["-s", "1"], expect, play }
}

pub const ATTACKS: &[Attack] = &[
    attack("the same frame for ever", Expect::Fails, endless_lacks),
    attack("the same small file for ever", Expect::Fails, endless_packs),
    attack("a port with somebody else behind it", Expect::Fails, no_answer),
    attack("a stream that is closed once it is proven", Expect::Fails, closed_streams),
    attack("a listener that cannot be", Expect::Ends, odd_ports),
];

/// Accepts the one stream, and reads it to its end beside.
fn read_stream(scene: &mut Scene, link: &mut FakeLink) -> io::Result<()> {
    let mut stream: RawAcceptor = scene.stream(link)?;
    std::thread::spawn(move || while stream.next_record().is_ok() {});
    Ok(())
}

fn entry(scene: &mut Scene, link: &mut FakeLink, is_large: bool) -> io::Result<EntryId> {
    scene.be_target(link)?;
    let offered = scene.all_offers(link)?;
    let wanted = |kind: &EntryContent| matches!(kind, EntryContent::File { size } if (*size > 1 << 20) == is_large);
    scene.need(link, &offered, TransferNeed::All)?;
    Ok(offered.iter().find(|(_, kind)| wanted(kind)).map(|(id, _)| *id).expect("it was offered"))
}

fn endless_lacks(scene: &mut Scene, link: &mut FakeLink, rng: &mut Rng) -> io::Result<()> {
    let entry = entry(scene, link, true)?;
    read_stream(scene, link)?;
    let frame = rng.below(4);
    for _ in 0..20_000 {
        scene.tell(link, &TargetMessage::MissingRanges { entry, frames: vec![frame..frame + 1] })?;
    }
    link.drain();
    Ok(())
}

fn endless_packs(scene: &mut Scene, link: &mut FakeLink, _: &mut Rng) -> io::Result<()> {
    let entry = entry(scene, link, false)?;
    let mut stream = scene.stream(link)?;
    // Each time it arrives, it is requested again.
    for _ in 0..20_000 {
        let (_, trailer) = stream.next_record()?;
        if trailer.first() == Some(&2) {
            scene.tell(link, &TargetMessage::ResendPacked { entries: vec![entry] })?;
        }
    }
    Ok(())
}

fn no_answer(scene: &mut Scene, link: &mut FakeLink, rng: &mut Rng) -> io::Result<()> {
    entry(scene, link, true)?;
    while scene.listener.is_none() {
        scene.listen(link)?;
    }
    let Some(listener) = scene.listener.take() else { return Ok(()) };
    let bytes = match rng.below(3) {
        0 => Vec::new(),
        1 => rng.bytes(42),
        _ => haul_proto::wire::handshake::GreetingAnswer { random: [1; 32] }.encode().to_vec(),
    };
    listener.set_nonblocking(true)?;
    let mut accepted = None;
    within(Duration::from_secs(10), || {
        accepted = listener.accept().ok();
        accepted.is_some()
    });
    let (mut socket, _): (TcpStream, _) = accepted.ok_or(io::ErrorKind::TimedOut)?;
    let _ = socket.read(&mut [0; 64]);
    socket.write_all(&bytes)?;
    drop(listener);
    drop(socket);
    // With no stream the rest goes through the link, where there is nobody either.
    link.report(&WorkerMessage::Fatal { fault: false, text: "gone".into() })?;
    link.drain();
    Ok(())
}

fn closed_streams(scene: &mut Scene, link: &mut FakeLink, _: &mut Rng) -> io::Result<()> {
    entry(scene, link, true)?;
    drop(scene.stream(link)?);
    scene.listener = None;
    link.report(&WorkerMessage::Fatal { fault: false, text: "gone".into() })?;
    link.drain();
    Ok(())
}

fn odd_ports(scene: &mut Scene, link: &mut FakeLink, rng: &mut Rng) -> io::Result<()> {
    scene.be_target(link)?;
    let offered = scene.all_offers(link)?;
    link.report(&WorkerMessage::Listening { port: rng.pick(&[0, 1, 22, 80, 1023]) })?;
    scene.need(link, &offered, TransferNeed::All)?;
    link.report(&WorkerMessage::Fatal { fault: false, text: "gone".into() })?;
    link.drain();
    Ok(())
}
