//! A worker's reports to its controller: about the other end, unasked, out of turn, impossible, and endless.

use std::io;
use std::thread::sleep;
use std::time::{Duration, Instant};

use haul_e2e::{FakeLink, Rng, hello};
use haul_proto::encoding::Writer;
use haul_proto::entry::EntryKind;
use haul_proto::limits::{FIGURE_MAX, TEXT_MAX};
use haul_proto::path::Name;
use haul_proto::sync::{ChangeKind, ItemChange, SyncCounters};
use haul_proto::wire::address::LocalAddress;
use haul_proto::wire::control_channel::ControlChannel;
use haul_proto::wire::counters::{Counters, FinalReport};
use haul_proto::wire::difference::Difference;
use haul_proto::wire::file_session::FileAnswer;
use haul_proto::wire::report::{
    FileReport, ItemReport, ResumeReport, SkipReport, SlowFile, WorkerHello, WorkerMessage,
};
use haul_proto::wire::request::TargetOperand;
use haul_proto::wire::sandbox::{Confinement, SandboxReport};
use haul_proto::wire::source_activity::SourceActivity;

use super::scene::{Scene, Way, source_ready, target_ready};
use super::{Attack, Expect};

const fn attack(name: &'static str, way: Way, expect: Expect, play: super::Play) -> Attack {
    Attack { name, way, options: &["--checksums", "-", "-v"], expect, play }
}

pub const ATTACKS: &[Attack] = &[
    attack("the target's record, from the source", Way::Pull, Expect::Fault, record_of_target),
    attack("the source's record, from the target", Way::Push, Expect::Fault, record_of_source),
    attack("counters of the other end, from the source", Way::Pull, Expect::Fault, foreign_counters),
    attack("counters of the other end, from the target", Way::Push, Expect::Fault, foreign_counters),
    attack("files done outside of the target", Way::Push, Expect::Fault, files_outside),
    attack("reports that nobody asked for", Way::Push, Expect::Fault, unasked),
    attack("reports that nobody asked the source for", Way::Pull, Expect::Fault, unasked),
    attack("reports before it is ready", Way::Push, Expect::Fault, too_early),
    attack("reports of a source before it is ready", Way::Pull, Expect::Fault, too_early),
    attack("reports after the last word", Way::Push, Expect::Fault, too_late),
    attack("figures beyond any limit", Way::Push, Expect::Fault, absurd_figures),
    attack("figures of a source beyond any limit", Way::Pull, Expect::Fault, absurd_figures),
    attack("the largest figures that there may be", Way::Push, Expect::Fault, largest_figures),
    Attack {
        name: "texts that would rewrite the terminal",
        way: Way::Push,
        options: &["--json", "-v", "--checksums", "sums"],
        expect: Expect::Ends,
        play: escapes,
    },
    attack("texts of a source that would rewrite the terminal", Way::Pull, Expect::Ends, escapes),
    attack("a flood of warnings", Way::Push, Expect::Ends, flood),
    attack("a flood of a source's warnings", Way::Pull, Expect::Ends, flood),
    attack("a flood of figures", Way::Push, Expect::Succeeds, flood_of_figures),
    attack("more reports than files", Way::Push, Expect::Fails, more_reports_than_files),
    attack("more failures than entries", Way::Push, Expect::Fault, more_failures_than_entries),
    attack("operands that nobody named", Way::Pull, Expect::Fails, other_operands),
    attack("a Hello that cannot be", Way::Push, Expect::Ends, odd_hello),
    attack("a greeting that is none", Way::Push, Expect::Fails, odd_greeting),
    attack("addresses that are none", Way::Pull, Expect::Fault, odd_addresses),
    attack("an end without a word", Way::Push, Expect::Fails, end_anywhere),
    attack("an end of a source without a word", Way::Pull, Expect::Fails, end_anywhere),
    attack("a last word before anything was done", Way::Push, Expect::Ends, early_finish),
    attack("an answer that takes its time", Way::Push, Expect::Succeeds, late_answer),
    Attack { name: "silence", way: Way::Push, options: &["--silence", "3"], expect: Expect::Fails, play: silence },
    Attack {
        name: "silence of a source",
        way: Way::Pull,
        options: &["--silence", "3"],
        expect: Expect::Fails,
        play: silence,
    },
];

fn file_done(path: &[u8]) -> WorkerMessage {
    WorkerMessage::FileDone(FileReport { path: path.to_vec(), size: 5, copied: true, digest: Some([7; 32]) })
}

/// Sends it, and waits for the result.
fn say(link: &mut FakeLink, message: &WorkerMessage) -> io::Result<()> {
    link.report(message)?;
    link.drain();
    Ok(())
}

fn record_of_target(scene: &mut Scene, link: &mut FakeLink, rng: &mut Rng) -> io::Result<()> {
    scene.be_source(link)?;
    let messages = [
        file_done(b"tree/a"),
        file_done(b"/etc/passwd"),
        WorkerMessage::Resumed(ResumeReport {
            path: b"landing/tree/a".to_vec(),
            size: 9,
            held: 9,
            damaged: 0,
            compared: false,
        }),
        WorkerMessage::Item(ItemReport {
            path: b"landing/x".to_vec(),
            item: ItemChange { what: EntryKind::File, change: ChangeKind::Removed },
            size: None,
            modified: None,
            first_name: None,
        }),
        WorkerMessage::Differs { path: b"landing/x".to_vec(), differences: vec![Difference::Missing(EntryKind::File)] },
        WorkerMessage::Slowest(vec![SlowFile { path: b"x".to_vec(), size: 1, took_us: 1 }]),
        WorkerMessage::Synced(SyncCounters { removed: 3, ..SyncCounters::default() }),
        WorkerMessage::ListAck { before: 1 },
        target_ready(),
    ];
    say(link, &messages[rng.index(messages.len())])
}

fn record_of_source(scene: &mut Scene, link: &mut FakeLink, rng: &mut Rng) -> io::Result<()> {
    scene.be_target(link)?;
    let messages = [
        WorkerMessage::Work(Box::new(SourceActivity { files_in_progress: 3, ..SourceActivity::default() })),
        WorkerMessage::Paths { in_use: vec![("1.2.3.4:5".into(), "1.2.3.4:6".into())], because: "so".into() },
        WorkerMessage::Synced(SyncCounters { removed_at_source: 3, ..SyncCounters::default() }),
        source_ready(),
    ];
    say(link, &messages[rng.index(messages.len())])
}

fn foreign_counters(scene: &mut Scene, link: &mut FakeLink, rng: &mut Rng) -> io::Result<()> {
    scene.begin(link)?;
    let zero = Counters::default();
    let counters = match scene.way {
        Way::Pull => [
            Counters { files_copied: 1, ..zero },
            Counters { bytes_written: 1 << 40, ..zero },
            Counters { differences: 9, ..zero },
            Counters { files_skipped: 9, ..zero },
        ],
        Way::Push => [
            Counters { files_found: 1, ..zero },
            Counters { bytes_found: 1 << 40, ..zero },
            Counters { walk_complete: true, ..zero },
            Counters { streams: 9, ..zero },
        ],
    };
    let counters = rng.pick(&counters);
    let message = match rng.chance(500) {
        true => WorkerMessage::Counters(Box::new(counters)),
        false => WorkerMessage::Finished(Box::new(FinalReport { counters, ..FinalReport::default() })),
    };
    say(link, &message)
}

fn files_outside(scene: &mut Scene, link: &mut FakeLink, rng: &mut Rng) -> io::Result<()> {
    scene.be_target(link)?;
    let paths: [&[u8]; 7] =
        [b"/etc/passwd", b"../../etc/passwd", b"tree/../x", b"tree//x", b"./x", b"tree/\0", b"tree/."];
    let path = rng.pick(&paths);
    say(
        link,
        &if rng.chance(700) {
            file_done(path)
        } else {
            WorkerMessage::Skipped(SkipReport { path: b"/etc/x".to_vec(), reason: "so".into() })
        },
    )
}

fn unasked(scene: &mut Scene, link: &mut FakeLink, rng: &mut Rng) -> io::Result<()> {
    scene.begin(link)?;
    let confined = WorkerMessage::Sandboxed(SandboxReport { confinement: Confinement::Full, reason: String::new() });
    link.report(&confined)?;
    let messages = [
        WorkerMessage::Measured(Box::default()),
        WorkerMessage::FileAnswer(FileAnswer::Data { bytes: vec![1; 16] }),
        WorkerMessage::Checksum { path: b"tree/a".to_vec(), digest: vec![1; 16] },
        WorkerMessage::Item(ItemReport {
            path: b"/far/target/x".to_vec(),
            item: ItemChange { what: EntryKind::File, change: ChangeKind::Made },
            size: None,
            modified: None,
            first_name: None,
        }),
        WorkerMessage::Differs { path: b"/far/target/x".to_vec(), differences: Vec::new() },
        WorkerMessage::ListAck { before: 9 },
        WorkerMessage::Hello(hello()),
        confined,
    ];
    say(link, &messages[rng.index(messages.len())])
}

fn too_early(scene: &mut Scene, link: &mut FakeLink, rng: &mut Rng) -> io::Result<()> {
    link.greet()?;
    let messages = [
        WorkerMessage::Finished(Box::default()),
        WorkerMessage::Counters(Box::default()),
        file_done(b"x"),
        WorkerMessage::Listening { port: 5000 },
        WorkerMessage::Connected { from: "1.2.3.4:5".into(), to: "1.2.3.4:6".into(), streams: 4 },
        WorkerMessage::CannotConnect { text: "so".into() },
        WorkerMessage::Load(Box::default()),
        if scene.way == Way::Push { source_ready() } else { target_ready() },
    ];
    say(link, &messages[rng.index(messages.len())])
}

fn too_late(scene: &mut Scene, link: &mut FakeLink, rng: &mut Rng) -> io::Result<()> {
    scene.be_target(link)?;
    link.report(&WorkerMessage::Finished(Box::default()))?;
    let messages = [WorkerMessage::Finished(Box::default()), file_done(b"x"), target_ready()];
    say(link, &messages[rng.index(messages.len())])
}

/// A message of counters, all of them this one.
fn counters(kind: u8, figure: u64) -> Vec<u8> {
    let mut out = Writer::new();
    out.u8(kind).bool(false);
    (0..19).for_each(|_| {
        out.varint(figure);
    });
    out.into_bytes()
}

fn absurd_figures(scene: &mut Scene, link: &mut FakeLink, rng: &mut Rng) -> io::Result<()> {
    scene.begin(link)?;
    let figure = rng.pick(&[FIGURE_MAX + 1, 1 << 63, u64::MAX]);
    let mut out = Writer::new();
    match rng.below(3) {
        0 => {
            out.raw(&counters(8, figure));
        }
        1 => {
            out.raw(&counters(12, 0)).u64(figure).raw(&[0; 40]);
        }
        _ => {
            out.u8(28).varint(figure).raw(&[0; 5]);
        }
    }
    link.send(ControlChannel::Controller, &out.into_bytes())?;
    link.drain();
    Ok(())
}

/// None of these makes a sum overflow; but no target settles more files than there are.
fn largest_figures(scene: &mut Scene, link: &mut FakeLink, _: &mut Rng) -> io::Result<()> {
    scene.be_target(link)?;
    let counters = Counters {
        files_copied: FIGURE_MAX,
        files_skipped: FIGURE_MAX,
        directories: FIGURE_MAX,
        symlinks: FIGURE_MAX,
        failed: FIGURE_MAX,
        left_out: FIGURE_MAX,
        bytes_written: FIGURE_MAX,
        bytes_skipped: FIGURE_MAX,
        frames_resent: FIGURE_MAX,
        ..Counters::default()
    };
    link.report(&WorkerMessage::Counters(Box::new(counters)))?;
    link.report(&WorkerMessage::Synced(SyncCounters {
        removed: FIGURE_MAX,
        adjusted: FIGURE_MAX,
        ..Default::default()
    }))?;
    let last = FinalReport {
        counters,
        cpu_us: FIGURE_MAX,
        system_us: FIGURE_MAX,
        peak_bytes: FIGURE_MAX,
        direct_bytes: FIGURE_MAX,
        cloned_bytes: FIGURE_MAX,
        durable: true,
        ..FinalReport::default()
    };
    let offered = scene.all_offers(link)?;
    scene.need(link, &offered, haul_proto::wire::message::TransferNeed::Nothing)?;
    let end = offered.last().map_or(0, |(id, _)| id.0 + 1);
    let done = haul_proto::wire::message::TargetMessage::Done { runs: vec![(haul_proto::ids::EntryId(0), end)] };
    scene.tell(link, &done)?;
    say(link, &WorkerMessage::Finished(Box::new(last)))
}

fn escapes(scene: &mut Scene, link: &mut FakeLink, rng: &mut Rng) -> io::Result<()> {
    let text = || "\u{1b}[2J\u{1b}]0;x\u{7}\r\u{202e}\u{9b}31m\nhaul: done".to_owned();
    let path = format!("/far/target/{}", text()).into_bytes();
    let path = if scene.way == Way::Push { path } else { format!("/far/tree/{}", text()).into_bytes() };
    if rng.chance(200) {
        link.greet()?;
        let text = text();
        return say(
            link,
            &if rng.chance(500) {
                WorkerMessage::Refused { usage: true, text }
            } else {
                WorkerMessage::Fatal { fault: false, text }
            },
        );
    }
    scene.begin(link)?;
    link.report(&WorkerMessage::Warning { text: text() })?;
    link.report(&WorkerMessage::FileFailed { path: path.clone(), text: text() })?;
    link.report(&WorkerMessage::Skipped(SkipReport { path, reason: text() }))?;
    if scene.way == Way::Push {
        link.report(&file_done(text().as_bytes()))?;
        link.report(&WorkerMessage::Slowest(vec![SlowFile { path: text().into_bytes(), size: 1, took_us: 1 }]))?;
    }
    say(link, &WorkerMessage::Fatal { fault: false, text: text() })
}

/// A great many reports, and then silence: they take no memory.
fn flood(scene: &mut Scene, link: &mut FakeLink, rng: &mut Rng) -> io::Result<()> {
    scene.begin(link)?;
    let (long, name) = ("w".repeat(TEXT_MAX), "w".repeat(200));
    let long_path = [name.as_str(); 50].join("/");
    let path =
        if scene.way == Way::Push { format!("/far/target/{long_path}") } else { format!("/far/tree/{long_path}") };
    let kind = rng.below(3);
    for number in 0..2000 {
        let (path, text) = (format!("{path}{number}").into_bytes(), format!("{number}{long}"));
        link.report(&match kind {
            0 => WorkerMessage::Warning { text },
            1 => WorkerMessage::FileFailed { path, text },
            _ => WorkerMessage::Skipped(SkipReport { path, reason: text }),
        })?;
    }
    Ok(())
}

fn more_reports_than_files(scene: &mut Scene, link: &mut FakeLink, rng: &mut Rng) -> io::Result<()> {
    scene.be_target(link)?;
    let report = if rng.chance(500) {
        file_done(b"tree/a")
    } else {
        WorkerMessage::Skipped(SkipReport { path: b"/far/target/tree/a".to_vec(), reason: "no".into() })
    };
    for _ in 0..2000 {
        link.report(&report)?;
    }
    scene.finish_without_data(link)
}

fn more_failures_than_entries(scene: &mut Scene, link: &mut FakeLink, _: &mut Rng) -> io::Result<()> {
    scene.be_target(link)?;
    let offered = scene.all_offers(link)?;
    scene.need(link, &offered, haul_proto::wire::message::TransferNeed::Nothing)?;
    let failed = WorkerMessage::FileFailed { path: b"/far/target/x".to_vec(), text: "no".into() };
    let deadline = Instant::now() + Duration::from_secs(15);
    while Instant::now() < deadline {
        link.report(&failed)?;
    }
    Ok(())
}

fn flood_of_figures(scene: &mut Scene, link: &mut FakeLink, rng: &mut Rng) -> io::Result<()> {
    scene.be_target(link)?;
    let long = vec![b'x'; 60_000];
    let kind = rng.below(3);
    for number in 0..2000u64 {
        link.report(&match kind {
            0 => WorkerMessage::Load(Box::default()),
            1 => WorkerMessage::Counters(Box::default()),
            _ => {
                let file = SlowFile { path: [&b"x/"[..], &[b'y'; 200]].concat(), size: number, took_us: 1 };
                WorkerMessage::Slowest(vec![file; 16])
            }
        })?;
    }
    drop(long);
    scene.finish_without_data(link)
}

fn other_operands(scene: &mut Scene, link: &mut FakeLink, rng: &mut Rng) -> io::Result<()> {
    link.greet()?;
    scene.source_request(link)?;
    let operand =
        |name: &[u8], directory| Some(TargetOperand { name: Name::new(name).ok(), directory, device: 1, inode: 1 });
    let operands = [
        vec![operand(b".ssh", true)],
        vec![operand(b"", true)],
        vec![operand(b"tree", true), operand(b"planted", true)],
        Vec::new(),
        vec![None],
        vec![operand(b"tree", true); 1000],
    ];
    say(link, &WorkerMessage::SourceReady { operands: operands[rng.index(operands.len())].clone(), origin: [0; 32] })
}

fn odd_hello(scene: &mut Scene, link: &mut FakeLink, rng: &mut Rng) -> io::Result<()> {
    let address = |text: &str| LocalAddress {
        address: text.parse().expect("an address"),
        prefix: 0,
        interface: "\u{1b}[2J".into(),
        mbit_per_s: u32::MAX,
    };
    let odd =
        ["0.0.0.0", "255.255.255.255", "224.0.0.1", "::", "ff02::1", "fe80::1", "127.0.0.1", "::1", "::ffff:127.0.0.1"];
    let hello = match rng.below(6) {
        0 => WorkerHello { cores: 0, ..hello() },
        1 => WorkerHello { cores: u16::MAX, rate_bytes_per_s: u64::MAX, ..hello() },
        2 => WorkerHello { ssh_connection: Some("\u{1b}[2J 0 x y z \0 localhost".into()), ..hello() },
        3 => WorkerHello { addresses: odd.map(address).to_vec(), ..hello() },
        4 => WorkerHello { addresses: (0..64).map(|n| address(&format!("203.0.113.{n}"))).collect(), ..hello() },
        _ => WorkerHello { protocol: rng.pick(&[0, 2, u16::MAX]), ..hello() },
    };
    link.greet_with(&hello)?;
    scene.be_target_after_hello(link)?;
    scene.finish_without_data(link)
}

fn odd_greeting(_: &mut Scene, link: &mut FakeLink, rng: &mut Rng) -> io::Result<()> {
    let bytes = match rng.below(6) {
        0 => vec![b'x'; 200_000],
        1 => b"\n".repeat(200_000),
        2 => b"\nHAUL-WORKER 99999999999999999999 0.1.0\n".to_vec(),
        3 => b"\nHAUL-WORKER 2 \x1b[2J\n".to_vec(),
        4 => b"\nHAUL-WORKER 2 0.1.0\n".to_vec(),
        _ => rng.bytes(70_000),
    };
    link.send_raw(&bytes)?;
    if rng.chance(500) {
        link.greet()?;
    }
    Ok(())
}

fn odd_addresses(scene: &mut Scene, link: &mut FakeLink, rng: &mut Rng) -> io::Result<()> {
    scene.be_source(link)?;
    let text = rng.pick(&["\u{1b}[2J", "localhost:22", "1.2.3.4", "x"]).to_owned();
    let paths = vec![(text.clone(), "1.2.3.4:5".to_owned())];
    let work = SourceActivity { paths: paths.clone(), ..SourceActivity::default() };
    say(
        link,
        &match rng.chance(500) {
            true => WorkerMessage::Paths { in_use: paths, because: text },
            false => WorkerMessage::Work(Box::new(work)),
        },
    )
}

fn end_anywhere(scene: &mut Scene, link: &mut FakeLink, rng: &mut Rng) -> io::Result<()> {
    match rng.below(4) {
        0 => Ok(()),
        1 => link.send_raw(b"\nHAUL-WORKER"),
        2 => link.greet(),
        _ => scene.begin(link),
    }
}

fn early_finish(scene: &mut Scene, link: &mut FakeLink, rng: &mut Rng) -> io::Result<()> {
    scene.be_target(link)?;
    let counters = Counters { files_copied: rng.below(4), ..Counters::default() };
    link.report(&WorkerMessage::Finished(Box::new(FinalReport { counters, ..FinalReport::default() })))?;
    let offered = scene.all_offers(link)?;
    scene.need(link, &offered, haul_proto::wire::message::TransferNeed::Refused)?;
    // The source has directories that are not done, and hears no more of them.
    Ok(())
}

fn late_answer(scene: &mut Scene, link: &mut FakeLink, rng: &mut Rng) -> io::Result<()> {
    scene.be_target(link)?;
    let offered = scene.all_offers(link)?;
    sleep(Duration::from_millis(200 + rng.below(1000)));
    scene.need(link, &offered, haul_proto::wire::message::TransferNeed::Nothing)?;
    let end = offered.last().map_or(0, |(id, _)| id.0 + 1);
    sleep(Duration::from_millis(rng.below(500)));
    let done = haul_proto::wire::message::TargetMessage::Done { runs: vec![(haul_proto::ids::EntryId(0), end)] };
    scene.tell(link, &done)?;
    say(link, &WorkerMessage::Finished(Box::default()))
}

fn silence(scene: &mut Scene, link: &mut FakeLink, rng: &mut Rng) -> io::Result<()> {
    if rng.chance(500) {
        scene.begin(link)?;
    } else {
        link.greet()?;
    }
    // It stays silent, and keeps its end open.
    link.drain();
    Ok(())
}
