use haul_base::copy::event::{Bottleneck, CurrentBottleneck};

use super::*;

const WIDTHS: [usize; 4] = [160, 80, 60, 40];

fn at(done: u64, found: u64, walk_complete: bool) -> Progress {
    Progress {
        files_found: 12_408,
        files_settled: 7_001,
        bytes_found: found,
        walk_complete,
        bytes_written: done,
        streams: 8,
        ..Progress::default()
    }
}

/// One big file, limited by its rate limit.
fn big() -> Progress {
    let limited_by = Some(CurrentBottleneck { limit: Bottleneck::RateLimit, share: 0.96 });
    Progress { files_found: 1, files_settled: 0, streams: 2, limited_by, ..at(39_800_000, 104_900_000, true) }
}

fn pace(bytes_per_s: f64) -> Pace {
    Pace { bytes_per_s: Some(bytes_per_s), measured: Duration::from_secs(9), stalled: None }
}

fn shown(fields: &[(Priority, String)]) -> String {
    fields.iter().map(|(_, field)| field.as_str()).collect::<Vec<_>>().join(GAP)
}

fn at_widths(name: &str, progress: &Progress, pace: Pace) -> String {
    WIDTHS.map(|columns| with_bar(name, progress, pace, columns) + "\n").concat()
}

#[test]
fn figures_in_the_middle_of_a_copy() {
    let fields = fields(&at(203_400_000_000, 333_100_000_000, true), pace(1.17e9));
    insta::assert_snapshot!(shown(&fields), @"61 %  203.4 of 333.1 GB  1.17 GB/s  1 min 51 s left  7,001 of 12,408 files  8 streams");
}

#[test]
fn comparisons_need_no_stream() {
    let progress = Progress { bytes_compared: 203_400_000_000, streams: 0, ..at(0, 333_100_000_000, true) };
    insta::assert_snapshot!(shown(&fields(&progress, pace(1.17e9))), @"61 %  203.4 of 333.1 GB  1.17 GB/s  1 min 51 s left  7,001 of 12,408 files");
}

#[test]
fn no_percentage_before_the_total_is_known() {
    let fields = fields(&at(4_290_000, 90_000_000, false), pace(0.0));
    insta::assert_snapshot!(shown(&fields), @"4.29 MB of 90.0 MB  0 B/s  7,001 of 12,408 files  8 streams");
}

#[test]
fn an_unknown_total_is_not_invented() {
    let early = Progress { files_found: 0, files_settled: 295, ..at(134_900_000, 0, false) };
    insta::assert_snapshot!(shown(&fields(&early, pace(0.0))), @"134.9 MB  0 B/s  295 files  8 streams");
}

#[test]
fn a_pipe_has_no_file_counter() {
    let pipe = Progress { files_found: 1, files_settled: 0, streams: 2, ..at(33_600_000, 0, false) };
    assert_eq!(without_bar("stdin", &pipe, pace(17.9e6), 40), "stdin  33.6 MB  17.9 MB/s  2 streams");
}

#[test]
fn neither_rate_nor_time_left_before_they_are_measured() {
    let line = |bytes_per_s, ms| {
        without_bar("big", &big(), Pace { bytes_per_s, measured: Duration::from_millis(ms), stalled: None }, 40)
    };
    assert_eq!(line(None, 0), "big  37 %  limited by: rate limit");
    assert!(!line(Some(19.2e6), 900).contains("left"));
    assert!(line(Some(19.2e6), 1000).contains("4 s left"));
}

#[test]
fn fields_are_dropped_until_a_line_fits() {
    insta::assert_snapshot!(at_widths("big100.bin", &big(), pace(19.2e6)), @r"
        big100.bin  [===========>                  ]  37 %  39.8 of 104.9 MB  19.2 MB/s  4 s left  2 streams  limited by: rate limit
        big100.bin  37 %  39.8 of 104.9 MB  19.2 MB/s  4 s left  limited by: rate limit
        big100.bin  37 %  39.8 of 104.9 MB  19.2 MB/s  4 s left
        big100.bin  37 %  19.2 MB/s  4 s left
        ");
    let many = at(15_100_000_000, 45_000_000_000, true);
    insta::assert_snapshot!(at_widths("a-directory-with-a-long-name", &many, pace(102e6)), @r"
        a-directory-with-a-lo...  [=========>                    ]  33 %  15.1 of 45.0 GB  102 MB/s  4 min 54 s left  7,001 of 12,408 files  8 streams
        a-directory-with-a-lo...  33 %  15.1 of 45.0 GB  102 MB/s  4 min 54 s left
        a-directory-with-a-lo...  33 %  102 MB/s  4 min 54 s left
        a-di...  33 %  102 MB/s  4 min 54 s left
        ");
}

#[test]
fn wide_names_are_measured_in_columns() {
    insta::assert_snapshot!(at_widths("測定データ二〇二六年十一月.bin", &big(), pace(19.2e6)), @r"
        測定データ二〇二六年...  [===========>                  ]  37 %  39.8 of 104.9 MB  19.2 MB/s  4 s left  2 streams  limited by: rate limit
        測定データ二〇二六年...  37 %  19.2 MB/s  4 s left  limited by: rate limit
        測定データ二〇二六年...  37 %  19.2 MB/s  4 s left
        測定データ...  37 %  19.2 MB/s  4 s left
        ");
}

#[test]
fn no_line_is_wider_than_its_columns_and_the_most_important_fields_stay() {
    let name = "名前がとても長いファイル.dat";
    let paces = [1.0, 130.0, 19.2e6, 1.17e9].map(pace);
    let copies = [big(), at(203_400_000_000, 333_100_000_000, true), at(4_290_000, 90_000_000, false)];
    for (copy, pace) in copies.iter().flat_map(|copy| paces.map(|pace| (copy, pace))) {
        for columns in 0..200 {
            for line in [with_bar(name, copy, pace, columns), with_bar("", copy, pace, columns)] {
                assert!(line.width() <= columns, "{columns}: {line:?}");
                let essential = fields(copy, pace).into_iter().filter(|(priority, _)| *priority <= Priority::TimeLeft);
                let missing: Vec<_> = essential.filter(|(_, field)| !line.contains(field.as_str())).collect();
                assert!(columns < 40 || missing.is_empty(), "{columns}: {line:?} {missing:?}");
            }
            assert!(columns < 40 || with_bar(name, copy, pace, columns).starts_with("名"), "{columns}");
        }
    }
}

#[test]
fn the_bar_is_full_only_at_the_end() {
    let bar = |done, complete| cells_of(&at(done, 1000, complete), 10);
    assert_eq!(
        [bar(0, true), bar(999, true), bar(1000, true), bar(999, false)],
        ["          ", "=========>", "==========", "          "]
    );
}

#[test]
fn time_left_is_in_full_seconds_and_unknown_at_a_standstill() {
    assert_eq!(time_left(10, 3.0).as_deref(), Some("4 s left"));
    assert_eq!(time_left(0, 3.0).as_deref(), Some("0 s left"));
    assert_eq!(time_left(111, 1.0).as_deref(), Some("1 min 51 s left"));
    assert_eq!(time_left(10, 0.0), None);
    assert_eq!(time_left(0, 0.0), None);
    assert_eq!(time_left(u64::MAX, 0.1), None);
}

#[test]
fn long_names_are_shortened() {
    assert_eq!(shortened("run7", 4), "run7");
    assert_eq!(shortened(&"x".repeat(25), 24), format!("{}...", "x".repeat(21)));
    assert_eq!(shortened("測定データ", 8), "測定...");
    assert_eq!([0, 1, 3].map(|columns| shortened("run7", columns)), ["", ".", "..."]);
}

#[test]
fn a_stalled_copy_has_neither_a_rate_nor_a_time_left() {
    let stalled = Pace { stalled: Some(Duration::from_secs(7)), ..pace(7130.0) };
    let shown = shown(&fields(&big(), stalled));
    assert!(shown.contains("stalled 7 s") && !shown.contains("left") && !shown.contains("B/s"), "{shown}");
}
