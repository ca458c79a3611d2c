use std::collections::BTreeMap;

use super::*;
use crate::wire::counters::Counters;
use crate::wire::report::tests::samples;

/// The whole table: report, ends, phases (Starting, Preparing, Working, Finished).
const TABLE: [(&str, &str, &str, ReportRequirement); 32] = [
    ("Hello", "st", "S", ReportRequirement::None),
    ("SourceReady", "s", "P", ReportRequirement::None),
    ("TargetReady", "t", "P", ReportRequirement::None),
    ("Refused", "st", "PW", ReportRequirement::None),
    ("Listening", "st", "WF", ReportRequirement::Connection),
    ("Connected", "st", "WF", ReportRequirement::Connection),
    ("CannotConnect", "st", "WF", ReportRequirement::Connection),
    ("Counters", "st", "WF", ReportRequirement::None),
    ("Load", "st", "WF", ReportRequirement::None),
    ("Streams", "st", "WF", ReportRequirement::None),
    ("Work", "s", "WF", ReportRequirement::None),
    ("Slowest", "t", "WF", ReportRequirement::None),
    ("Delta", "t", "W", ReportRequirement::Delta),
    ("Item", "t", "PW", ReportRequirement::Items),
    ("Synced", "st", "WF", ReportRequirement::None),
    ("FileDone", "t", "W", ReportRequirement::Files),
    ("Resumed", "t", "W", ReportRequirement::Resumption),
    ("FileFailed", "st", "PW", ReportRequirement::None),
    ("Skipped", "st", "PW", ReportRequirement::None),
    ("SourceChanged", "s", "W", ReportRequirement::None),
    ("Differs", "t", "W", ReportRequirement::Comparison),
    ("Checksum", "st", "W", ReportRequirement::Checksum),
    ("Paths", "s", "WF", ReportRequirement::None),
    ("Warning", "st", "PWF", ReportRequirement::None),
    ("ListAck", "t", "W", ReportRequirement::List),
    ("Sandboxed", "st", "W", ReportRequirement::None),
    ("Finished", "st", "W", ReportRequirement::None),
    ("Measured", "st", "P", ReportRequirement::Measurement),
    ("FileAnswer", "st", "P", ReportRequirement::FileSession),
    ("ReplicaAnswer", "st", "P", ReportRequirement::Replica),
    ("Expanded", "s", "P", ReportRequirement::Expansion),
    ("Fatal", "st", "PWF", ReportRequirement::None),
];

#[test]
fn each_report_is_permitted_exactly_in_the_tables_states() {
    let mut seen = BTreeMap::new();
    for message in samples() {
        let name = message.rule().name;
        let (_, ends, phases, requirement) =
            TABLE.iter().find(|row| row.0 == name).unwrap_or_else(|| panic!("{name} has no row"));
        seen.insert(name, ());
        for (of, letter) in [(WorkerEnds::SOURCE, "s"), (WorkerEnds::TARGET, "t"), (WorkerEnds::BOTH, "")] {
            for (phase, mark) in WorkerPhase::ALL.into_iter().zip(["S", "P", "W", "F"]) {
                let expected = ends.contains(letter) && phases.contains(mark);
                assert_eq!(message.is_permitted(of, phase, |_| true), expected, "{name} {of:?} {phase:?}");
                let without = expected && *requirement == ReportRequirement::None;
                assert_eq!(message.is_permitted(of, phase, |_| false), without, "{name} {of:?} {phase:?}");
                let only = |asked| asked == *requirement;
                assert_eq!(message.is_permitted(of, phase, only), expected, "{name} {of:?} {phase:?}");
            }
        }
    }
    assert_eq!(seen.len(), TABLE.len(), "{seen:?}");
}

#[test]
fn each_counter_has_one_owner() {
    let zero = Counters::default();
    let of_source = [
        Counters { files_found: 1, ..zero },
        Counters { bytes_found: 1, ..zero },
        Counters { walk_complete: true, ..zero },
        Counters { filtered: 1, ..zero },
        Counters { streams: 1, ..zero },
        Counters { bytes_carried: 1, ..zero },
        Counters { bytes_on_wire: 1, ..zero },
        Counters { bytes_compared: 1, ..zero },
    ];
    let of_target = [
        Counters { files_copied: 1, ..zero },
        Counters { files_skipped: 1, ..zero },
        Counters { directories: 1, ..zero },
        Counters { symlinks: 1, ..zero },
        Counters { bytes_written: 1, ..zero },
        Counters { bytes_skipped: 1, ..zero },
        Counters { frames_resent: 1, ..zero },
        Counters { files_compared: 1, ..zero },
        Counters { differences: 1, ..zero },
    ];
    let of_each = [Counters { failed: 1, ..zero }, Counters { left_out: 1, ..zero }, zero];
    let fits = |counters: &Counters, ends: WorkerEnds| {
        let reports = [
            WorkerMessage::Counters(Box::new(*counters)),
            WorkerMessage::Finished(Box::new(FinalReport { counters: *counters, ..FinalReport::default() })),
        ];
        let fits = reports.map(|report| report.check_owner(ends).is_ok());
        assert_eq!(fits[0], fits[1], "{counters:?}");
        fits[0]
    };
    for (all, source, target) in [(&of_source[..], true, false), (&of_target, false, true), (&of_each, true, true)] {
        for counters in all {
            let by = [WorkerEnds::SOURCE, WorkerEnds::TARGET, WorkerEnds::BOTH].map(|ends| fits(counters, ends));
            assert_eq!(by, [source, target, true], "{counters:?}");
        }
    }
}

#[test]
fn the_other_figures_have_owners_as_well() {
    let (sync, last) = (SyncCounters::default(), FinalReport::default());
    let synced = |figures| WorkerMessage::Synced(figures);
    let finished = |last| WorkerMessage::Finished(Box::new(last));
    let path = PathFigures { segments: 1, ..PathFigures::default() };
    let read_back = ReadBackBytes { memory_bytes: 1, ..ReadBackBytes::default() };
    let compression = Some(crate::compression::CompressionMethod::Lz4);
    for (report, source, target) in [
        (synced(SyncCounters { removed: 1, ..sync }), false, true),
        (synced(SyncCounters { backed_up: 1, ..sync }), false, true),
        (synced(SyncCounters { linked: 1, ..sync }), false, true),
        (synced(SyncCounters { adjusted: 1, ..sync }), false, true),
        (synced(SyncCounters { removed_at_source: 1, ..sync }), true, false),
        (synced(SyncCounters { left_at_source: 1, ..sync }), true, false),
        (finished(FinalReport { cloned_bytes: 1, ..last }), false, true),
        (finished(FinalReport { durable: true, ..last }), false, true),
        (finished(FinalReport { read_back, ..last }), false, true),
        (finished(FinalReport { path, ..last }), true, false),
        (finished(FinalReport { compression, ..last }), true, false),
        (finished(FinalReport { cpu_us: 1, system_us: 1, peak_bytes: 1, direct_bytes: 1, ..last }), true, true),
    ] {
        let by =
            [WorkerEnds::SOURCE, WorkerEnds::TARGET, WorkerEnds::BOTH].map(|ends| report.check_owner(ends).is_ok());
        assert_eq!(by, [source, target, true], "{report:?}");
    }
}
