use haul_base::copy::spec::{CompressionMethod, DeltaCounters};
use haul_base::copy::summary::{
    CompressionResult, ConnectionSummary, CopyTimes, Diagnosis, EndSummary, IntegritySummary, TransferTotals,
};
use haul_proto::wire::counters::Counters;

use super::*;
use crate::testing::{bare, example};

fn summary(summary: &Summary, verbose: bool) -> String {
    format!("{}\n{}", headline(summary), below(summary, if verbose { Verbosity::Path } else { Verbosity::Normal }))
}

#[test]
fn a_good_run() {
    insta::assert_snapshot!(summary(&example(), false), @"
    12,408 files, 333.1 GB in 4 min 44 s: 1.17 GB/s, every byte verified (aes-256-gcm, blake3), durable
    connection  10.10.1.155 -> 10.10.1.202 over enp5s0f1 (10 Gbit/s), 8 streams
    cpu         source 12.3 s, target 14.1 s
    ");
}

#[test]
fn a_run_with_everything_in_it() {
    let transport = TransportPath::Tunnel { is_ssh: true, because: "no TCP connection to db1: timed out".into() };
    let run = Summary {
        files: TransferTotals { failed: 2, skipped: 1, bytes_skipped: 999, left_out: 3, ..example().files },
        left_out: vec![("is a FIFO".into(), 1), ("an earlier source has this name".into(), 2)],
        connection: ConnectionSummary {
            rate_limit_bytes_per_s: Some(1_250_000_000),
            transport,
            streams: 1,
            ..example().connection
        },
        diagnosis: Diagnosis {
            verdict: Some(verdict::tests::example()),
            advice: vec![verdict::tests::advised()],
            ..example().diagnosis
        },
        times: CopyTimes { restarts: 1, ..example().times },
        counters: Counters { frames_resent: 3, ..example().counters },
        compression: Some(CompressionResult { method: CompressionMethod::Zstd(3), ratio: 3.12 }),
        ..example()
    };
    insta::assert_snapshot!(summary(&run, true), @"
    12,408 files, 333.1 GB in 4 min 44 s: 1.17 GB/s, every byte verified (aes-256-gcm, blake3), durable
    failed      2 entries
    up to date  1 file, 999 bytes
    skipped     3 entries: is a FIFO (1), an earlier source has this name (2); see --specials, --devices
    reconnected 1 time
    resent      3 damaged frames
    compressed  3.1 to 1 (zstd 3)
    also        341 directories, 1 symbolic link
    connection  through ssh, 1 stream; no TCP connection to db1: timed out
    rate limit  1.25 GB/s
    limited by  target disk (writing waited 96 % of the time; 41.2 MB/s); next: network at 12 %
    try         db1: TCP's receive window, at most 6291456 bytes, held the streams back 43 % of the time: sysctl -w net.ipv4.tcp_rmem='4096 131072 67108864'
    cpu         source 12.3 s, target 14.1 s
    memory      source 41.0 MB, target 57.5 MB
    sandbox     full at both ends
    ");
}

#[test]
fn compared_trees_are_identical_or_not() {
    let lines = [(0, 0), (0, 1), (1, 0), (3, 2)].map(|(differences, failed)| {
        let comparison = Some(ComparisonResult { files: 12_408, bytes: 333_149_000_000, differences });
        let run = Summary {
            integrity: IntegritySummary { comparison, durable: false, ..example().integrity },
            files: TransferTotals { failed, copied: 0, bytes: 0, ..example().files },
            connection: ConnectionSummary { streams: 0, ..example().connection },
            ..example()
        };
        summary(&run, false)
    });
    insta::assert_snapshot!(lines.join("\n"), @"
    12,408 files, 333.1 GB compared in 4 min 44 s: 1.17 GB/s, identical
    cpu         source 12.3 s, target 14.1 s

    12,408 files, 333.1 GB compared in 4 min 44 s: 1.17 GB/s, no differences in readable files
    failed      1 entry
    cpu         source 12.3 s, target 14.1 s

    12,408 files, 333.1 GB compared in 4 min 44 s: 1.17 GB/s, 1 difference
    cpu         source 12.3 s, target 14.1 s

    12,408 files, 333.1 GB compared in 4 min 44 s: 1.17 GB/s, 3 differences
    failed      2 entries
    cpu         source 12.3 s, target 14.1 s
    ");
}

#[test]
fn a_syncs_other_changes_are_reported_for_their_place() {
    let sync =
        SyncCounters { removed: 12, backed_up: 1, linked: 3, adjusted: 2, removed_at_source: 1, left_at_source: 5 };
    let described = summary(&Summary { sync, ..example() }, false);
    insta::assert_snapshot!(described, @"
    12,408 files, 333.1 GB in 4 min 44 s: 1.17 GB/s, every byte verified (aes-256-gcm, blake3), durable
    deleted     12 extraneous entries
    backed up   1 entry, replaced or deleted
    linked      3 files to an earlier copy (--link-dest)
    adjusted    2 entries, metadata only
    moved       1 file, deleted at the source
    kept        5 files at the source: growing, or not sent in this run and so not verified (--compare digest verifies them)
    connection  10.10.1.155 -> 10.10.1.202 over enp5s0f1 (10 Gbit/s), 8 streams
    cpu         source 12.3 s, target 14.1 s
    ");
    let one = summary(&Summary { sync: SyncCounters { removed: 1, ..SyncCounters::default() }, ..example() }, false);
    assert_eq!(one.lines().count(), 4, "{one}");
    let timed = Summary { files: TransferTotals { copied: 0, ..example().files }, is_timed: true, ..example() };
    assert!(headline(&timed).starts_with("333.1 GB in 4 min 44 s: "));
    let dry =
        Summary { files: TransferTotals { copied: 0, bytes: 0, ..example().files }, sync, is_dry: true, ..example() };
    insta::assert_snapshot!(summary(&dry, false), @"
    dry run: nothing was changed; checked in 4 min 44 s
    cpu         source 12.3 s, target 14.1 s
    ");
}

#[test]
fn first_lines() {
    let local = Summary {
        connection: ConnectionSummary {
            transport: TransportPath::Local { host: None },
            cipher: None,
            ..example().connection
        },
        files: TransferTotals { copied: 1, bytes: 1, ..example().files },
        integrity: IntegritySummary { durable: false, ..example().integrity },
        times: CopyTimes { elapsed: Duration::from_millis(4), ..example().times },
        ..example()
    };
    let clear = Summary {
        connection: ConnectionSummary { cipher: Some(Cipher::AuthenticateOnly), ..example().connection },
        ..example()
    };
    let again = Summary {
        files: TransferTotals {
            copied: 0,
            bytes: 0,
            skipped: 12_408,
            bytes_skipped: 333_149_000_000,
            ..example().files
        },
        ..example()
    };
    let failed = Summary {
        files: TransferTotals { copied: 0, bytes: 0, failed: 1, skipped: 3, ..example().files },
        ..example()
    };
    let lines = [local, clear, again, failed].map(|run| summary(&run, false).lines().next().unwrap().to_owned());
    insta::assert_snapshot!(lines.join("\n"), @"
    1 file, 1 byte in 0.00 s: 250 B/s, every byte verified (blake3)
    12,408 files, 333.1 GB in 4 min 44 s: 1.17 GB/s, every byte verified (not encrypted; aes-256-gmac, blake3), durable
    up to date: 12,408 files, 333.1 GB, checked in 4 min 44 s
    no files copied in 4 min 44 s
    ");
}

#[test]
fn a_workers_path_text_disturbs_no_terminal() {
    let hostile = || "\x1b]0;x\x07\n".to_owned();
    let shown = "\\u{1b}]0;x\\u{7}\\n";
    let path = bare(&hostile(), &hostile());
    let tcp = TransportPath::Tcp { path, others: Vec::new(), instead_of: Some(hostile()) };
    let ways = [tcp, TransportPath::Tunnel { is_ssh: true, because: hostile() }].map(|transport| {
        super::transport(&Summary {
            connection: ConnectionSummary { transport, streams: 1, ..example().connection },
            ..example()
        })
    });
    assert_eq!(
        ways,
        [format!("{shown} -> {shown} (tcp), 1 stream; {shown}"), format!("through ssh, 1 stream; {shown}")]
    );
}

#[test]
fn the_treatment_of_most_bytes_is_named() {
    let storage = |source_direct_bytes, target_direct_bytes| {
        storage(&Summary {
            files: TransferTotals { bytes: 100, ..example().files },
            ends: [source_direct_bytes, target_direct_bytes]
                .map(|direct_bytes| EndSummary { direct_bytes, ..EndSummary::default() }),
            ..example()
        })
    };
    let lines = [(51, 100), (51, 50), (0, 51)].map(|(source, target)| storage(source, target).unwrap());
    assert_eq!(lines, ["O_DIRECT at both ends", "O_DIRECT at the source", "O_DIRECT at the target"]);
    assert_eq!(storage(50, 50), None);
}

#[test]
fn the_origin_of_read_back_data_is_named() {
    let described = |disk_bytes, cache_bytes, memory_bytes| {
        let read_back = Some(ReadBackBytes { disk_bytes, cache_bytes, memory_bytes });
        let described =
            summary(&Summary { integrity: IntegritySummary { read_back, ..example().integrity }, ..example() }, false);
        described.lines().find(|line| line.starts_with("read back")).map(str::to_owned).unwrap_or_default()
    };
    insta::assert_snapshot!([described(333_149_000_000, 0, 0), described(1, 2_000_000, 0), described(0, 0, 3), described(0, 0, 0)].join("\n"), @"
    read back   333.1 GB from the disk
    read back   1 byte from the disk; 2.00 MB possibly from a cache: the file system has no direct I/O
    read back   3 bytes from memory: there is no disk
    read back   nothing to read
    ");
    assert!(!summary(&example(), false).contains("read back"), "it was not asked for");
    let none = Summary {
        files: TransferTotals { copied: 0, ..example().files },
        integrity: IntegritySummary { read_back: Some(ReadBackBytes::default()), ..example().integrity },
        ..example()
    };
    assert!(!summary(&none, false).contains("read back"), "nothing was copied");
}

#[test]
fn shared_blocks_are_neither_copied_nor_verified() {
    let first_lines = |cloned_bytes| {
        let shared = Summary {
            connection: ConnectionSummary {
                transport: TransportPath::Local { host: None },
                cipher: None,
                ..example().connection
            },
            integrity: IntegritySummary { blake3: false, ..example().integrity },
            files: TransferTotals { bytes: 2_000_000, cloned_bytes, ..example().files },
            ..example()
        };
        summary(&shared, false).lines().take(3).collect::<Vec<_>>().join("\n")
    };
    insta::assert_snapshot!([0, 1_500_000, 2_000_000].map(first_lines).join("\n\n"), @"
    12,408 files, 2.00 MB in 4 min 44 s: 7.04 kB/s, every byte verified (xxh3), durable
    connection  within this machine, 8 streams
    cpu         source 12.3 s, target 14.1 s

    12,408 files, 2.00 MB in 4 min 44 s: 7.04 kB/s, every copied byte verified (xxh3), durable
    connection  within this machine, 8 streams
    shared      1.50 MB with the source (reflink)

    12,408 files, 2.00 MB in 4 min 44 s: 7.04 kB/s, all blocks shared, durable
    connection  within this machine, 8 streams
    shared      2.00 MB with the source (reflink)
    ");
}

#[test]
fn an_unconfined_end_is_always_named() {
    let end = |confinement, reason: &str| Some(SandboxReport { confinement, reason: reason.into() });
    let run = |source_sandbox, target_sandbox, verbose| {
        let described = summary(
            &Summary {
                ends: [source_sandbox, target_sandbox].map(|sandbox| EndSummary { sandbox, ..EndSummary::default() }),
                ..example()
            },
            verbose,
        );
        described.lines().find(|line| line.starts_with("sandbox")).map(str::to_owned)
    };
    let partial = || end(Confinement::Partial, "links are followed");
    let full = || end(Confinement::Full, "");
    assert_eq!(run(partial(), full(), false), None);
    assert_eq!(run(None, full(), true), None);
    let described = run(partial(), full(), true).unwrap();
    assert_eq!(described, "sandbox     source partial (links are followed), target full");
    let described = run(full(), end(Confinement::None, "no \x1bLandlock"), false).unwrap();
    assert_eq!(described, "sandbox     source full, target none (no \\u{1b}Landlock)");
}

#[test]
fn other_ways() {
    let others = vec![bare("10.1.0.1:9", "10.1.0.2:10")];
    let reverse = TransportPath::Tcp {
        path: bare("[::1]:9", "[fe80::2]:10"),
        others,
        instead_of: Some("db1 accepts none".into()),
    };
    let ways = [TransportPath::Local { host: None }, TransportPath::Local { host: Some("db1".into()) }, reverse].map(
        |transport| {
            super::transport(&Summary {
                connection: ConnectionSummary { transport, streams: 1, ..example().connection },
                ..example()
            })
        },
    );
    assert_eq!(
        ways,
        [
            "within this machine, 1 stream",
            "within db1, 1 stream",
            "::1 -> fe80::2 (tcp) and 10.1.0.1 -> 10.1.0.2 (tcp), 1 stream; db1 accepts none"
        ]
    );
}

#[test]
fn traffic_is_in_exact_bytes_with_the_speedup_of_all_files() {
    let files = TransferTotals { bytes: 8_000_000, bytes_skipped: 2_000_000, ..TransferTotals::default() };
    let counters = Counters { bytes_on_wire: 1_234_567, ..Counters::default() };
    let delta = DeltaCounters { told_bytes: 45_001, ..DeltaCounters::default() };
    let run = Summary { files, counters, delta: Some(delta), ..example() };
    assert_eq!(
        traffic(&run),
        "traffic     sent 1,234,567 bytes, received 45,001 bytes of block hashes: speedup 7.82\n"
    );
    let local = Summary { counters: Counters::default(), delta: None, ..run };
    assert_eq!(traffic(&local), "traffic     sent 0 bytes, received 0 bytes of block hashes\n");
}
