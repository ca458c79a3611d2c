use super::*;
use crate::wire::report::tests::samples;
use std::collections::BTreeMap;

/// The whole table, as docs/PROTOCOL.md has it: report, ends, phases (Starting, Preparing, Working, Finished).
const TABLE: [(&str, &str, &str, Requirement); 28] = [
    ("Hello", "st", "S", Requirement::None),
    ("SourceReady", "s", "P", Requirement::None),
    ("TargetReady", "t", "P", Requirement::None),
    ("Refused", "st", "PW", Requirement::None),
    ("Listening", "st", "WF", Requirement::Connection),
    ("Connected", "st", "WF", Requirement::Connection),
    ("CannotConnect", "st", "WF", Requirement::Connection),
    ("Counters", "st", "WF", Requirement::None),
    ("Load", "st", "WF", Requirement::None),
    ("Streams", "st", "WF", Requirement::None),
    ("Work", "s", "WF", Requirement::None),
    ("Slowest", "t", "WF", Requirement::None),
    ("Delta", "t", "W", Requirement::Delta),
    ("Item", "t", "PW", Requirement::Items),
    ("Synced", "st", "WF", Requirement::None),
    ("FileDone", "t", "W", Requirement::Files),
    ("Resumed", "t", "W", Requirement::Resumption),
    ("FileFailed", "st", "PW", Requirement::None),
    ("Skipped", "st", "PW", Requirement::None),
    ("Differs", "t", "W", Requirement::Comparison),
    ("Checksum", "st", "W", Requirement::Checksum),
    ("Paths", "s", "WF", Requirement::None),
    ("Notice", "st", "PWF", Requirement::None),
    ("Passed", "t", "W", Requirement::List),
    ("Confined", "st", "W", Requirement::None),
    ("Finished", "st", "W", Requirement::None),
    ("Measured", "st", "P", Requirement::Measurement),
    ("Fatal", "st", "PWF", Requirement::None),
];

#[test]
fn each_report_is_permitted_where_the_table_says_so_and_nowhere_else() {
    let mut seen = BTreeMap::new();
    for message in samples() {
        let name = message.rule().name;
        let (_, ends, phases, requirement) =
            TABLE.iter().find(|row| row.0 == name).unwrap_or_else(|| panic!("{name} has no row"));
        seen.insert(name, ());
        for (of, letter) in [(Ends::SOURCE, "s"), (Ends::TARGET, "t"), (Ends::BOTH, "")] {
            for (phase, mark) in Phase::ALL.into_iter().zip(["S", "P", "W", "F"]) {
                let expected = ends.contains(letter) && phases.contains(mark);
                assert_eq!(message.is_permitted(of, phase, |_| true), expected, "{name} {of:?} {phase:?}");
                let without = expected && *requirement == Requirement::None;
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
    let fits = |counters: &Counters, ends: Ends| {
        let reports = [
            WorkerMessage::Counters(Box::new(*counters)),
            WorkerMessage::Finished(Box::new(Final { counters: *counters, ..Final::default() })),
        ];
        let fits = reports.map(|report| report.check_owner(ends).is_ok());
        assert_eq!(fits[0], fits[1], "{counters:?}");
        fits[0]
    };
    for (all, source, target) in [(&of_source[..], true, false), (&of_target, false, true), (&of_each, true, true)] {
        for counters in all {
            let by = [Ends::SOURCE, Ends::TARGET, Ends::BOTH].map(|ends| fits(counters, ends));
            assert_eq!(by, [source, target, true], "{counters:?}");
        }
    }
}

#[test]
fn the_other_figures_have_owners_as_well() {
    let (sync, last) = (SyncFigures::default(), Final::default());
    let synced = |figures| WorkerMessage::Synced(figures);
    let finished = |last| WorkerMessage::Finished(Box::new(last));
    let path = PathFigures { segments: 1, ..PathFigures::default() };
    let read_back = ReadBack { memory_bytes: 1, ..ReadBack::default() };
    let compression = Some(crate::compression::Method::Lz4);
    for (report, source, target) in [
        (synced(SyncFigures { removed: 1, ..sync }), false, true),
        (synced(SyncFigures { backed_up: 1, ..sync }), false, true),
        (synced(SyncFigures { linked: 1, ..sync }), false, true),
        (synced(SyncFigures { adjusted: 1, ..sync }), false, true),
        (synced(SyncFigures { removed_at_source: 1, ..sync }), true, false),
        (synced(SyncFigures { left_at_source: 1, ..sync }), true, false),
        (finished(Final { cloned_bytes: 1, ..last }), false, true),
        (finished(Final { durable: true, ..last }), false, true),
        (finished(Final { read_back, ..last }), false, true),
        (finished(Final { path, ..last }), true, false),
        (finished(Final { compression, ..last }), true, false),
        (finished(Final { cpu_us: 1, system_us: 1, peak_bytes: 1, direct_bytes: 1, ..last }), true, true),
    ] {
        let by = [Ends::SOURCE, Ends::TARGET, Ends::BOTH].map(|ends| report.check_owner(ends).is_ok());
        assert_eq!(by, [source, target, true], "{report:?}");
    }
}
