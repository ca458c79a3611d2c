use super::*;
use crate::diagnose::diagnose;
use crate::diagnose::tests::{case, on_the_way, with};
use crate::wire::resource_metrics::Stage::{self, *};
use crate::wire::resource_metrics::{CurrentMetrics, Processors, Sockets};

/// Has other programs take all CPU time that haul leaves, at both ends.
fn beside_a_busy_loop(case: &CopyMeasurements) -> CopyMeasurements {
    let mut case = *case;
    for load in [&mut case.source, &mut case.target] {
        load.processors.busy_us = load.processors.all_us;
    }
    case.source.sockets.acknowledged_bytes = case.bytes;
    case
}

fn busy(case: &CopyMeasurements, part: PathPart) -> Option<f64> {
    path_parts(case).iter().find(|of| of.part == part).map(|of| (of.busy * 1e4).round() / 1e4)
}

const STARVED: &[(Stage, f64, f64)] = &[(Receive, 0.94, 0.01), (Check, 0.03, 1.0), (Write, 0.03, 0.9)];
const BLOCKED: &[(Stage, f64, f64)] = &[(Prepare, 0.04, 1.0), (Send, 0.96, 0.02)];

#[test]
fn beside_other_programs_the_part_that_the_verdict_names_has_the_lowest_bound() {
    let small = |case: CopyMeasurements| CopyMeasurements { files: 100_000, ..case };
    let table = [
        (PathPart::SourceDisk, case(&[(Read, 0.9, 0.05), (Prepare, 0.08, 1.0), (Send, 0.02, 0.9)], STARVED)),
        (PathPart::SourceDisk, small(case(&[(Open, 0.8, 0.3), (Read, 0.1, 0.9), (Send, 0.1, 0.9)], STARVED))),
        (PathPart::SourceCpu, case(&[(Prepare, 0.97, 1.0), (Send, 0.03, 0.9)], STARVED)),
        (PathPart::Network, on_the_way()),
        (PathPart::Network, with(|case| case.source.sockets.receiver_limited_us = 30_000_000)),
        (PathPart::Network, with(|case| case.source.sockets.retransmitted = 3000)),
        (PathPart::Network, with(|case| case.source.sockets.rtt_us *= 2)),
        (PathPart::TargetCpu, case(BLOCKED, &[(Check, 0.9, 1.0), (Write, 0.08, 0.9), (Receive, 0.02, 1.0)])),
        (PathPart::TargetDisk, case(BLOCKED, &[(Write, 0.95, 0.1), (Check, 0.03, 1.0), (Receive, 0.02, 0.9)])),
        (PathPart::TargetDisk, small(case(BLOCKED, &[(Create, 0.8, 0.4), (Receive, 0.2, 0.1)]))),
    ];
    for (part, made) in table {
        let made = beside_a_busy_loop(&made);
        let (parts, verdict) = (path_parts(&made), diagnose(&made));
        let bounds = parts.iter().filter_map(|of| Some((of.part, of.bound_bytes_per_s()?)));
        let (lowest, bound) = bounds.min_by(|a, b| a.1.total_cmp(&b.1)).unwrap();
        assert_eq!(lowest, part, "{:?}: {parts:?}", verdict.limit);
        assert!(bound <= made.rate() / verdict.share * 1.001, "{bound}, {verdict:?}");
        assert_eq!(busy(&made, PathPart::SourceOthers), Some(0.8125), "65 of 80 s");
    }
}

#[test]
fn a_processor_s_time_is_haul_s_own_of_what_it_could_have_had() {
    let with = |own_us, busy_us, interrupts_us| {
        let processors = Processors { all_us: 80_000_000, own_us, busy_us, interrupts_us, ..Processors::default() };
        let load = ResourceMetrics { elapsed_us: 10_000_000, processors, ..ResourceMetrics::default() };
        CopyMeasurements { source: load, target: load, bytes: 1_000_000_000, ..CopyMeasurements::default() }
    };
    let of = |case: &CopyMeasurements| (busy(case, PathPart::SourceCpu), busy(case, PathPart::SourceOthers));
    assert_eq!(of(&with(10_000_000, 10_000_000, 0)), (Some(0.125), Some(0.0)), "nobody else");
    assert_eq!(of(&with(10_000_000, 40_000_000, 0)), (Some(0.2), Some(0.375)), "10 of 10 and the 40 that were free");
    assert_eq!(of(&with(4_000_000, 80_000_000, 0)), (Some(0.1), Some(0.95)), "half of all is haul's if it asks");
    assert_eq!(of(&with(60_000_000, 80_000_000, 0)), (Some(1.0), Some(0.25)));
    assert_eq!(of(&with(10_000_000, 40_000_000, 20_000_000)).1, Some(0.125), "its own packets' interrupts");
    assert_eq!(of(&with(10_000_000, 5_000_000, 0)).1, Some(0.0), "clocks of different precision");
    let one_machine = CopyMeasurements { is_one_machine: true, ..with(10_000_000, 40_000_000, 0) };
    assert_eq!(of(&one_machine), (Some(0.3333), Some(0.25)), "both ends are haul");
    let one_worker = CopyMeasurements { is_one_worker: true, ..one_machine };
    assert_eq!(of(&one_worker), (Some(0.2), Some(0.375)), "and one process is counted once");
    let bounds: Vec<_> = path_parts(&one_worker).iter().map(PartUse::bound_bytes_per_s).collect();
    assert_eq!(bounds, [Some(500e6), Some(500e6), None, None]);
}

#[test]
fn a_disk_is_as_busy_as_haul_waited_for_it() {
    let mut made = case(&[(Read, 0.25, 0.0), (Prepare, 0.75, 1.0)], STARVED);
    made.source.disks[0] = Disk { busy_us: 10_000_000, read_bytes: 1, ..Disk::default() };
    assert_eq!(busy(&made, PathPart::SourceDisk), Some(0.25), "others keep it busy");
    made.source.disks[0] = Disk::default();
    assert_eq!(busy(&made, PathPart::SourceDisk), Some(0.25), "without a block device");
    assert_eq!(path_parts(&made)[0].bound_bytes_per_s(), Some(made.rate() / 0.25));
}

#[test]
fn an_interface_s_speed_bounds_the_network_where_it_is_true() {
    let of = |mbit_per_s, is_within_host| {
        let sockets = Sockets { segments: 9, acknowledged_bytes: 1_000_000_000, ..Sockets::default() };
        let present = CurrentMetrics { mbit_per_s, ..CurrentMetrics::default() };
        let source = ResourceMetrics { elapsed_us: 10_000_000, sockets, present, ..ResourceMetrics::default() };
        let case = CopyMeasurements { source, is_within_host, ..CopyMeasurements::default() };
        path_parts(&case)[0].bound_bytes_per_s()
    };
    assert_eq!((of(1000, false), of(0, false), of(10, false), of(1000, true)), (Some(125e6), None, None, None));
}

#[test]
fn parts_without_figures_are_omitted() {
    assert_eq!(path_parts(&CopyMeasurements::default()), []);
    let idle = PartUse { part: PathPart::Network, busy: 0.001, bytes_per_s: Some(5.0) };
    assert_eq!(idle.bound_bytes_per_s(), None);
}
