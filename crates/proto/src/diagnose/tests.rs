use super::advice::{Advice, AdviceTerms, advise, whole};
use super::*;
use crate::compression::{CompressionMethod, CompressionPolicy};
use crate::wire::counters::PathFigures;
use crate::wire::report::{WindowLimits, WorkerMessage};
use crate::wire::resource_metrics::{Disk, Spent, Stage};

/// Returns ten seconds of an end with four streams: shares of the streams' time in stages, each with its CPU share.
fn load(stages: &[(Stage, f64, f64)]) -> ResourceMetrics {
    let mut load = ResourceMetrics { elapsed_us: 10_000_000, ..ResourceMetrics::default() };
    for &(stage, share, cpu) in stages {
        let all = if stage.is_of_stream() { 40e6 } else { 10e6 };
        let wall_us = whole(all * share);
        let computed_us = whole(wall_us as f64 * cpu / 8.0);
        load.stages[stage as usize] = Spent { wall_us, sampled_us: wall_us / 8, computed_us };
    }
    load.present.streams = 4;
    load.present.cores = 8;
    load.processors.all_us = 80_000_000;
    load.processors.busy_us = 20_000_000;
    load.processors.own_us = 15_000_000;
    load
}

pub(super) fn case(source: &[(Stage, f64, f64)], target: &[(Stage, f64, f64)]) -> CopyMeasurements {
    CopyMeasurements {
        source: load(source),
        target: load(target),
        bytes: 400 << 20,
        files: 1,
        ..CopyMeasurements::default()
    }
}

/// Returns a copy limited by the network: the source always sends, the target always waits.
pub(super) fn on_the_way() -> CopyMeasurements {
    use Stage::{Check, Prepare, Receive, Send, Write};
    let mut case = case(
        &[(Prepare, 0.03, 1.0), (Send, 0.97, 0.02)],
        &[(Receive, 0.95, 0.02), (Check, 0.02, 1.0), (Write, 0.03, 0.8)],
    );
    let sockets = &mut case.source.sockets;
    sockets.looks = 100;
    sockets.rtt_us = 100 * 20_000;
    sockets.rtt_min_us = 100 * 19_000;
    // Each: over a hundred samples, a quarter of the bytes in a round trip is the window of one stream.
    sockets.window_bytes = 100 * (260 << 10);
    sockets.under_way_bytes = 100 * (220 << 10);
    sockets.receiver_bytes = 100 * (1 << 20);
    sockets.buffer_bytes = 100 * (1 << 20);
    sockets.segments = 300_000;
    sockets.busy_us = 39_000_000;
    sockets.spans = 36;
    sockets.rate_kib = 36 * 40_000;
    sockets.rate_kib_squared = 36 * 40_000 * 40_000 + 36 * 10_000 * 10_000;
    case
}

pub(super) fn with(change: impl FnOnce(&mut CopyMeasurements)) -> CopyMeasurements {
    let mut case = on_the_way();
    change(&mut case);
    case
}

fn named(case: &CopyMeasurements) -> (Bottleneck, Option<BottleneckDetail>) {
    let verdict = diagnose(case);
    assert!((0.0..=1.0).contains(&verdict.share), "{verdict:?}");
    assert!(verdict.next.is_none_or(|next| next.share <= verdict.share), "{verdict:?}");
    (verdict.limit, verdict.detail)
}

#[test]
fn the_busy_stage_is_named() {
    use Stage::*;
    let starved: &[_] = &[(Receive, 0.94, 0.01), (Check, 0.03, 1.0), (Write, 0.03, 0.9)];
    let blocked: &[_] = &[(Prepare, 0.04, 1.0), (Read, 0.01, 0.9), (Send, 0.95, 0.02)];
    let table: &[(&str, CopyMeasurements, Bottleneck, Option<BottleneckDetail>)] = &[
        (
            "reading waits",
            case(&[(Read, 0.9, 0.05), (Prepare, 0.08, 1.0), (Send, 0.02, 0.9)], starved),
            Bottleneck::SourceDisk,
            None,
        ),
        (
            "half as clear",
            case(&[(Read, 0.6, 0.05), (Prepare, 0.3, 1.0), (Send, 0.1, 0.9)], starved),
            Bottleneck::SourceDisk,
            None,
        ),
        (
            "reading from memory computes",
            case(&[(Read, 0.6, 1.0), (Prepare, 0.35, 1.0), (Send, 0.05, 1.0)], starved),
            Bottleneck::SourceCpu,
            Some(BottleneckDetail::Thread),
        ),
        (
            "compressing",
            case(&[(Prepare, 0.97, 1.0), (Send, 0.03, 0.9)], starved),
            Bottleneck::SourceCpu,
            Some(BottleneckDetail::Thread),
        ),
        (
            "sending through loopback computes",
            case(&[(Prepare, 0.3, 1.0), (Send, 0.7, 0.95)], starved),
            Bottleneck::SourceCpu,
            Some(BottleneckDetail::Thread),
        ),
        (
            "the limit that was set",
            case(&[(Pace, 0.9, 0.0), (Send, 0.1, 0.5)], starved),
            Bottleneck::RateLimit,
            Some(BottleneckDetail::Own),
        ),
        (
            "writing waits",
            case(blocked, &[(Write, 0.95, 0.1), (Check, 0.03, 1.0), (Receive, 0.02, 0.9)]),
            Bottleneck::TargetDisk,
            None,
        ),
        (
            "room is waited for",
            case(blocked, &[(Room, 0.9, 0.0), (Write, 0.05, 0.9), (Receive, 0.05, 0.9)]),
            Bottleneck::TargetDisk,
            None,
        ),
        (
            "the last of it is put on the disk",
            case(&[(Idle, 0.9, 0.0), (Send, 0.1, 0.9)], &[(Receive, 0.95, 0.0), (Write, 0.05, 0.9), (Sync, 0.88, 0.0)]),
            Bottleneck::TargetDisk,
            None,
        ),
        (
            "sockets took all, and the disk is still at it",
            case(
                &[(Idle, 0.94, 0.0), (Prepare, 0.02, 1.0), (Send, 0.04, 0.1)],
                &[(Receive, 0.2, 0.05), (Write, 0.8, 0.05)],
            ),
            Bottleneck::TargetDisk,
            None,
        ),
        (
            "checking",
            case(blocked, &[(Check, 0.9, 1.0), (Write, 0.08, 0.9), (Receive, 0.02, 1.0)]),
            Bottleneck::TargetCpu,
            Some(BottleneckDetail::Thread),
        ),
        (
            "writing to memory computes",
            case(blocked, &[(Write, 0.9, 0.98), (Check, 0.08, 1.0), (Receive, 0.02, 1.0)]),
            Bottleneck::TargetCpu,
            Some(BottleneckDetail::Thread),
        ),
        (
            "opening",
            case(&[(Open, 0.8, 0.3), (Read, 0.1, 0.9), (Send, 0.1, 0.9)], starved),
            Bottleneck::SmallFiles,
            Some(BottleneckDetail::Source),
        ),
        (
            "the walk",
            case(&[(Idle, 0.9, 0.0), (Send, 0.1, 0.9), (Walk, 0.95, 0.1)], starved),
            Bottleneck::SmallFiles,
            Some(BottleneckDetail::Source),
        ),
        (
            "creating",
            case(blocked, &[(Create, 0.8, 0.4), (Receive, 0.2, 0.1)]),
            Bottleneck::SmallFiles,
            Some(BottleneckDetail::Target),
        ),
        (
            "looking",
            case(&[(Idle, 0.9, 0.0), (Send, 0.1, 0.9)], &[(Receive, 1.0, 0.0), (Examine, 0.9, 0.2)]),
            Bottleneck::SmallFiles,
            Some(BottleneckDetail::Target),
        ),
        (
            "what gives",
            case(&[(Idle, 0.73, 0.0), (ReadPipe, 0.24, 0.01), (Send, 0.02, 0.9)], starved),
            Bottleneck::SourceProgram,
            None,
        ),
        (
            "what takes",
            case(&[(Idle, 0.9, 0.0), (Send, 0.1, 0.5)], &[(WritePipe, 0.24, 0.01), (Receive, 0.76, 0.0)]),
            Bottleneck::TargetProgram,
            None,
        ),
        (
            "nothing in particular",
            case(&[(Read, 0.3, 0.0), (Prepare, 0.3, 1.0), (Send, 0.4, 0.0)], &[(Receive, 0.6, 0.0), (Write, 0.4, 0.1)]),
            Bottleneck::None,
            Some(BottleneckDetail::Even),
        ),
        ("nothing at all", CopyMeasurements::default(), Bottleneck::None, Some(BottleneckDetail::Short)),
    ];
    for (what, case, limit, detail) in table {
        assert_eq!(named(case), (*limit, *detail), "{what}: {:#?}", diagnose(case));
    }
}

#[test]
fn the_cause_of_waiting_sockets_is_named() {
    let lossy = |case: &mut CopyMeasurements| case.source.sockets.retransmitted = 6000;
    let steady =
        |case: &mut CopyMeasurements| case.source.sockets.rate_kib_squared = 36 * 40_000 * 40_000 + 36 * 1000 * 1000;
    let table: &[(&str, CopyMeasurements, Bottleneck, Option<BottleneckDetail>)] = &[
        ("a window that has not grown", on_the_way(), Bottleneck::Congestion, Some(BottleneckDetail::RoundTrip)),
        ("losses", with(lossy), Bottleneck::Congestion, Some(BottleneckDetail::Loss)),
        (
            "what is too fast is dropped",
            with(|case| {
                lossy(case);
                steady(case);
            }),
            Bottleneck::RateLimit,
            Some(BottleneckDetail::Policer),
        ),
        ("a queue", with(|case| case.source.sockets.rtt_us *= 2), Bottleneck::Link, Some(BottleneckDetail::Queue)),
        (
            "a queue that overflows",
            with(|case| {
                lossy(case);
                steady(case);
                case.source.sockets.rtt_us *= 2;
            }),
            Bottleneck::Link,
            Some(BottleneckDetail::Queue),
        ),
        (
            "a rate that was found",
            with(|case| {
                steady(case);
                case.source.present.bears_loss = true;
            }),
            Bottleneck::Link,
            None,
        ),
        (
            "the interface",
            with(|case| {
                case.source.present.mbit_per_s = 1000;
                case.source.traffic.sent_bytes = 1_180_000_000;
            }),
            Bottleneck::Link,
            Some(BottleneckDetail::Interface),
        ),
        (
            "the other one",
            with(|case| {
                case.target.present.mbit_per_s = 1000;
                case.target.traffic.received_bytes = 1_180_000_000;
            }),
            Bottleneck::Link,
            Some(BottleneckDetail::Interface),
        ),
        (
            "a speed that is not true",
            with(|case| {
                case.source.present.mbit_per_s = 10;
                case.source.traffic.sent_bytes = 1_180_000_000;
            }),
            Bottleneck::Congestion,
            Some(BottleneckDetail::RoundTrip),
        ),
        (
            "the receiver",
            with(|case| case.source.sockets.receiver_limited_us = 30_000_000),
            Bottleneck::ReceiverWindow,
            None,
        ),
        ("the sender", with(|case| case.source.sockets.buffer_limited_us = 30_000_000), Bottleneck::SenderBuffer, None),
        (
            "the receiver, unsaid",
            with(|case| {
                case.source.sockets.window_bytes *= 2;
                case.source.sockets.receiver_bytes = 100 * (300 << 10);
            }),
            Bottleneck::ReceiverWindow,
            None,
        ),
        (
            "the sender, unsaid",
            with(|case| {
                case.source.sockets.window_bytes *= 2;
                case.source.sockets.buffer_bytes = 100 * (520 << 10);
            }),
            Bottleneck::SenderBuffer,
            None,
        ),
        (
            "interrupts",
            with(|case| {
                let it = &mut case.target.processors;
                (it.top_all_us, it.top_busy_us, it.top_interrupts_us) = (10_000_000, 9_900_000, 8_000_000);
            }),
            Bottleneck::Interrupts,
            None,
        ),
        (
            "what does not leave the host",
            with(|case| {
                case.is_within_host = true;
                case.source.sockets.retransmitted = 6000;
            }),
            Bottleneck::None,
            Some(BottleneckDetail::Even),
        ),
        (
            "nothing is known of a tunnel",
            with(|case| case.source.sockets = Default::default()),
            Bottleneck::None,
            Some(BottleneckDetail::Even),
        ),
        (
            "a target that takes nothing fills windows, too",
            with(|case| {
                case.source.sockets.receiver_limited_us = 38_000_000;
                case.target = load(&[(Stage::Write, 0.97, 0.05), (Stage::Receive, 0.03, 0.9)]);
            }),
            Bottleneck::TargetDisk,
            None,
        ),
    ];
    for (what, case, limit, detail) in table {
        assert_eq!(named(case), (*limit, *detail), "{what}: {:#?}", diagnose(case));
    }
}

#[test]
fn waiting_for_scarce_processors_is_not_waiting_for_a_disk() {
    let scarce = |case: &mut CopyMeasurements| {
        for load in [&mut case.source, &mut case.target] {
            load.processors.busy_us = 79_000_000;
        }
    };
    use Stage::*;
    // A wait for a CPU counts as computation.
    let source: &[_] = &[(Read, 0.7, 0.9), (Prepare, 0.2, 1.0), (Send, 0.1, 0.9)];
    let mut shared = case(source, &[(Receive, 0.9, 0.01), (Write, 0.1, 0.2)]);
    assert_eq!(named(&shared), (Bottleneck::SourceCpu, Some(BottleneckDetail::Thread)));
    scarce(&mut shared);
    assert_eq!(named(&shared), (Bottleneck::SourceCpu, Some(BottleneckDetail::Machine)));
    // Others keep the machine busy, and haul needs little of it.
    let mut others = case(&[(Read, 0.9, 0.01), (Prepare, 0.05, 0.9), (Send, 0.05, 0.5)], &[(Receive, 1.0, 0.01)]);
    scarce(&mut others);
    assert_eq!(named(&others), (Bottleneck::SourceDisk, None));
}

#[test]
fn on_a_busy_machine_short_paths_are_not_accused() {
    let busy = |case: &mut CopyMeasurements| {
        case.is_one_machine = true;
        for load in [&mut case.source, &mut case.target] {
            load.processors.busy_us = 79_000_000;
        }
        let sockets = &mut case.source.sockets;
        (sockets.rtt_us, sockets.rtt_min_us) = (100 * 4000, 100 * 10);
    };
    assert_eq!(named(&with(busy)), (Bottleneck::None, Some(BottleneckDetail::Even)));
    let windows_full = with(|case| {
        busy(case);
        case.source.sockets.receiver_limited_us = 35_000_000;
        case.source.sockets.retransmitted = 300;
    });
    assert_eq!(named(&windows_full).0, Bottleneck::None, "nobody reads, for want of a processor");
    let queue = with(|case| {
        busy(case);
        case.source.sockets.rtt_us = 100 * 30_000;
    });
    assert_eq!(
        named(&queue),
        (Bottleneck::Link, Some(BottleneckDetail::Queue)),
        "that is more than a wait for a processor"
    );
    let steady = with(|case| {
        busy(case);
        case.source.sockets.rate_kib_squared = 36 * 40_000 * 40_000;
    });
    assert_eq!(
        named(&steady),
        (Bottleneck::Link, Some(BottleneckDetail::Queue)),
        "and what is held steady is held by something"
    );
}

#[test]
fn more_losses_than_chance_explains_are_a_policers() {
    let short = |case: &mut CopyMeasurements| {
        let sockets = &mut case.source.sockets;
        (sockets.rtt_us, sockets.rtt_min_us, sockets.retransmitted) = (100 * 80, 100 * 50, 6000);
    };
    assert_eq!(named(&with(short)), (Bottleneck::RateLimit, Some(BottleneckDetail::Policer)));
    let long = with(|case| case.source.sockets.retransmitted = 6000);
    assert_eq!(named(&long), (Bottleneck::Congestion, Some(BottleneckDetail::Loss)));
}

#[test]
fn processors_shared_by_both_ends_are_named_without_a_full_thread() {
    use Stage::*;
    let mut both = case(
        &[(Prepare, 0.4, 0.9), (Read, 0.1, 0.9), (Send, 0.5, 0.5)],
        &[(Receive, 0.5, 0.5), (Check, 0.1, 0.9), (Write, 0.4, 0.9)],
    );
    both.is_one_machine = true;
    both.source.processors.busy_us = 78_000_000;
    both.target.processors.busy_us = 78_000_000;
    both.source.processors.own_us = 30_000_000;
    both.target.processors.own_us = 40_000_000;
    assert_eq!(named(&both), (Bottleneck::TargetCpu, Some(BottleneckDetail::Machine)));
    assert!(diagnose(&both).share > 0.9);
    both.source.processors.own_us = 3_000_000;
    both.target.processors.own_us = 4_000_000;
    assert!(diagnose(&both).share < 0.9, "others have them");
}

#[test]
fn an_exhausted_quota_is_named_unless_others_exhaust_it() {
    use Stage::*;
    let quota = |own_us| {
        let mut case = case(&[(Prepare, 0.5, 0.1), (Read, 0.5, 0.1)], &[(Receive, 1.0, 0.0)]);
        case.source.present.quota_permille = 500;
        case.source.processors.quota_periods = 100;
        case.source.processors.quota_spent = 97;
        case.source.processors.own_us = own_us;
        case
    };
    assert_eq!(named(&quota(4_900_000)), (Bottleneck::SourceCpu, Some(BottleneckDetail::Quota)));
    assert_ne!(named(&quota(100_000)).1, Some(BottleneckDetail::Quota));
}

#[test]
fn a_finished_stream_says_nothing() {
    use Stage::*;
    // Two of four streams finish the remaining work.
    let idle: &[_] = &[(Idle, 0.5, 0.0), (Send, 0.48, 0.01), (Prepare, 0.02, 1.0)];
    let mut tail = on_the_way();
    tail.source.stages = load(idle).stages;
    assert_eq!(named(&tail).0, Bottleneck::Congestion);
    assert!(diagnose(&tail).share > 0.8);
    // With hardly any work for even one stream, the network is not the limit.
    tail.source.stages = load(&[(Idle, 0.97, 0.0), (Send, 0.03, 0.01)]).stages;
    assert_eq!(named(&tail).0, Bottleneck::None);
}

#[test]
fn a_thread_waiting_for_its_turn_waits_for_the_others_work() {
    use Stage::*;
    let blocked: &[_] = &[(Send, 1.0, 0.02)];
    let slow = case(blocked, &[(Write, 0.4, 0.05), (Turn, 0.55, 0.0), (Receive, 0.05, 0.9)]);
    assert_eq!(named(&slow), (Bottleneck::TargetDisk, None));
    let memory = case(blocked, &[(Write, 0.4, 0.95), (Turn, 0.55, 0.0), (Receive, 0.05, 0.9)]);
    assert_eq!(named(&memory), (Bottleneck::TargetCpu, Some(BottleneckDetail::Thread)));
}

#[test]
fn an_unused_stream_says_nothing() {
    use Stage::*;
    let resting =
        case(&[(Rest, 0.75, 0.0), (Read, 0.24, 0.05), (Send, 0.01, 0.5)], &[(Receive, 0.99, 0.0), (Write, 0.01, 0.9)]);
    assert_eq!(named(&resting), (Bottleneck::SourceDisk, None));
    assert!(diagnose(&resting).share > 0.9);
    let writing = case(&[(Rest, 0.75, 0.0), (Send, 0.25, 0.0)], &[(Receive, 0.76, 0.0), (Write, 0.24, 0.05)]);
    assert_eq!(named(&writing), (Bottleneck::TargetDisk, None));
}

#[test]
fn many_small_files_wait_for_the_disk_as_small_files() {
    use Stage::*;
    let mut small = case(
        &[(Idle, 0.8, 0.0), (Open, 0.1, 0.5), (Send, 0.1, 0.5)],
        &[(Receive, 0.3, 0.0), (Room, 0.6, 0.0), (Create, 0.1, 0.5), (Sync, 0.9, 0.0)],
    );
    assert_eq!(named(&small), (Bottleneck::TargetDisk, None));
    (small.files, small.bytes) = (10_000, 80 << 20);
    assert_eq!(named(&small), (Bottleneck::SmallFiles, Some(BottleneckDetail::Target)));
}

#[test]
fn both_ends_in_one_worker_have_one_time() {
    use Stage::*;
    let local = |stages: &[_]| {
        let mut both = case(stages, stages);
        (both.is_one_worker, both.is_one_machine) = (true, true);
        both
    };
    let disk = local(&[(Read, 0.7, 0.1), (Prepare, 0.1, 1.0), (Write, 0.2, 0.6)]);
    assert_eq!(named(&disk), (Bottleneck::SourceDisk, None));
    let computing = local(&[(Read, 0.35, 1.0), (Prepare, 0.3, 1.0), (Write, 0.35, 0.9)]);
    assert_eq!(named(&computing).0, Bottleneck::SourceCpu);
    assert!(diagnose(&computing).share > 0.9, "no part of it alone");
}

#[test]
fn evidence_is_figures_of_this_case() {
    let mut disk = case(&[(Stage::Send, 1.0, 0.0)], &[(Stage::Write, 0.96, 0.0), (Stage::Receive, 0.04, 0.5)]);
    disk.target.disks[1] = Disk { busy_us: 9_900_000, queue_us: 310_000_000, ..Disk::default() };
    let verdict = diagnose(&disk);
    let fact = |figure| verdict.facts.iter().find(|fact| fact.figure == figure).map(|fact| fact.value);
    assert_eq!(fact(Figure::WriteWait), Some(verdict.share));
    assert_eq!((fact(Figure::DiskBusy), fact(Figure::DiskQueue)), (Some(0.99), Some(31.0)));
    assert!((fact(Figure::Rate).unwrap() - 41_943_040.0).abs() < 1.0);
    for case in [on_the_way(), case(&[], &[]), CopyMeasurements::default()] {
        assert!(diagnose(&case).facts.iter().all(|fact| fact.value.is_finite()));
    }
}

#[test]
fn names_are_distinct() {
    let mut ids: Vec<_> = Bottleneck::ALL.iter().map(|limit| limit.id()).collect();
    let mut names: Vec<_> = Figure::ALL.iter().map(|figure| figure.name()).collect();
    ids.sort_unstable();
    names.sort_unstable();
    ids.dedup();
    names.dedup();
    assert_eq!((ids.len(), names.len()), (Bottleneck::ALL.len(), Figure::ALL.len()));
    assert!(Figure::ALL.iter().all(|figure| figure.words().matches("{}").count() == 1));
}

/// A peer may report any numbers.
#[test]
fn no_figures_are_too_wild() {
    let most = u64::MAX;
    // All counters of a message have the largest value.
    const COUNTERS: usize = 1 + 3 * Stage::ALL.len() + 12 + 2 * 4 + 3 + 18;
    let most_as_varint = [&[0xff; 9][..], &[1]].concat();
    let message = [&[21][..], &most_as_varint.repeat(COUNTERS), &[0xff; 12], &[1]].concat();
    let Ok(WorkerMessage::Load(wild)) = WorkerMessage::decode(&message) else { panic!("there are not so many") };
    assert_eq!((wild.elapsed_us, wild.sockets.rate_kib_squared, wild.present.cores), (most, most, u16::MAX));
    let quick = ResourceMetrics { elapsed_us: 1_000_000, ..*wild };
    for load in [*wild, quick] {
        for case in [
            CopyMeasurements { source: load, ..on_the_way() },
            CopyMeasurements { target: load, bytes: most, files: most, is_one_machine: true, ..on_the_way() },
            CopyMeasurements { source: load, target: load, is_one_worker: true, ..CopyMeasurements::default() },
        ] {
            let verdict = diagnose(&case);
            assert!((0.0..=1.0).contains(&verdict.share), "{verdict:?}");
            let parts = path_parts::path_parts(&case);
            assert!(parts.iter().all(|of| (0.0..=1.0).contains(&of.busy)), "{parts:?}");
            let mut watch = watch::BottleneckWatch::default();
            (0..50).for_each(|_| watch.sample(&case));
            let path =
                PathFigures { busy_us: most, receiver_limited_us: most, round_trip_us: most, ..PathFigures::default() };
            advise(&verdict, &case, &AdviceTerms { path, ..TERMS });
        }
    }
}

const HOST: WindowLimits = WindowLimits { receive_max_bytes: 6 << 20, send_max_bytes: 4 << 20 };

const TERMS: AdviceTerms = AdviceTerms {
    streams: None,
    compression: CompressionPolicy::Auto,
    sends_zeros: false,
    ratio: 1.0,
    slow_cipher: false,
    own_windows: false,
    windows: [HOST; 2],
    path: PathFigures {
        round_trip_us: 50_000,
        segments: 300_000,
        retransmitted: 0,
        busy_us: 39_000_000,
        receiver_limited_us: 0,
        buffer_limited_us: 0,
    },
    own_congestion: false,
    waits_for_disk: true,
    hashes_twice: false,
    faster_mbit_per_s: 0,
};

fn advised(case: &CopyMeasurements, terms: &AdviceTerms) -> Vec<Advice> {
    advise(&diagnose(case), case, terms)
}

#[test]
fn advice_is_derived_from_the_run() {
    use Stage::*;
    let starved: &[_] = &[(Receive, 0.97, 0.01), (Check, 0.03, 1.0)];
    let computing = case(&[(Prepare, 0.97, 1.0), (Send, 0.03, 0.9)], starved);
    assert_eq!(advised(&computing, &TERMS), [], "nothing that was chosen makes it slow");
    let chosen = AdviceTerms {
        streams: Some(1),
        compression: CompressionPolicy::Always(CompressionMethod::Zstd(19)),
        ratio: 3.0,
        ..TERMS
    };
    assert_eq!(advised(&computing, &chosen), [Advice::Streams { streams: 2 }, Advice::LighterCompression]);
    let in_vain = AdviceTerms { ratio: 1.0, streams: None, slow_cipher: true, ..chosen };
    assert_eq!(advised(&computing, &in_vain), [Advice::Cipher, Advice::Incompressible]);
    let tiny = CopyMeasurements { bytes: 4, ..computing };
    assert_eq!(advised(&tiny, &AdviceTerms { slow_cipher: false, ..in_vain }), []);
    let enough = AdviceTerms { streams: Some(8), ..TERMS };
    assert_eq!(advised(&computing, &enough), [], "there are no more processors");

    let window = with(|case| case.source.sockets.receiver_limited_us = 35_000_000);
    let [Advice::Window(sysctl)] = advised(&window, &TERMS)[..] else { panic!("{:?}", advised(&window, &TERMS)) };
    assert_eq!((sysctl.end, sysctl.now_bytes), (crate::advice::WindowEnd::TargetReceives, 6 << 20));
    assert!(sysctl.wanted_bytes >= 12 << 20 && sysctl.percent > 80, "{sysctl:?}");
    assert_eq!(advised(&window, &AdviceTerms { own_windows: true, ..TERMS }), [Advice::OwnWindows]);

    let lossy = with(|case| case.source.sockets.retransmitted = 3000);
    assert_eq!(advised(&lossy, &TERMS), [Advice::Congestion]);
    let own = AdviceTerms { streams: Some(4), own_congestion: true, ..TERMS };
    assert_eq!(advised(&lossy, &own), [Advice::Streams { streams: 8 }]);

    let full = with(|case| case.source.sockets.rtt_us *= 2);
    assert_eq!(advised(&full, &TERMS), []);
    let other = AdviceTerms { faster_mbit_per_s: 10_000, compression: CompressionPolicy::Off, ..TERMS };
    assert_eq!(advised(&full, &other), [Advice::Interface { mbit_per_s: 10_000 }, Advice::Compress]);
    let zeros = AdviceTerms { sends_zeros: true, ..other };
    assert_eq!(advised(&full, &zeros), [Advice::Interface { mbit_per_s: 10_000 }], "zeros measure the link");

    let policed = with(|case| case.source.sockets.retransmitted = 20_000);
    assert_eq!(advised(&policed, &TERMS), [Advice::KeepBelow { bytes_per_s: 39_845_888 }]);

    let syncing = case(&[(Idle, 0.9, 0.0), (Send, 0.1, 0.9)], &[(Receive, 1.0, 0.0), (Sync, 0.88, 0.0)]);
    assert_eq!(advised(&syncing, &TERMS), [Advice::NoSync]);
    assert_eq!(advised(&syncing, &AdviceTerms { waits_for_disk: false, ..TERMS }), []);
    let mut short = syncing;
    for load in [&mut short.source, &mut short.target] {
        load.elapsed_us /= 10;
        load.stages.iter_mut().for_each(|spent| spent.wall_us /= 10);
    }
    assert_eq!(
        (diagnose(&short).limit, advised(&short, &TERMS)),
        (Bottleneck::TargetDisk, vec![]),
        "files for seconds"
    );
    let reading = case(&[(Read, 0.97, 0.01), (Send, 0.03, 0.9)], starved);
    assert_eq!(advised(&reading, &TERMS), []);
}
