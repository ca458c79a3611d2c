use haul_base::copy::location::{Host, Location};
use haul_base::copy::spec::{
    ChecksumOptions, IntegrityOptions, PartialOptions, RemoteAccess, ReportOptions, TargetOptions,
};
use haul_proto::checksum::ChecksumAlgorithm;
use haul_proto::sync::SyncCounters;
use haul_proto::wire::counters::FinalReport;
use haul_proto::wire::file_session::FileAnswer;
use haul_proto::wire::report::{FileReport, ResumeReport, SkipReport};
use haul_proto::wire::sandbox::{Confinement, SandboxReport};

use super::*;

fn copy(options: CopyOptions) -> CopySpec {
    let at = |path: &str| Location { host: Host::Local, path: path.into() };
    CopySpec { sources: vec![at("tree")], list: None, target: at("/t"), options, access: RemoteAccess::default() }
}

/// Creates a checker of two workers that are ready.
fn working(options: CopyOptions) -> ReportChecker {
    let mut reports = ReportChecker::new(&copy(options), false);
    let operands = [TargetOperand { name: Name::new(b"tree").ok(), directory: true, device: 0, inode: 0 }];
    take(&mut reports, WorkerRole::Source, WorkerMessage::SourceReady { operands: Vec::new(), origin: [0; 32] })
        .unwrap();
    reports.set_operands(&operands, &[]);
    let ready = WorkerMessage::TargetReady { boot: [0; 16], device: 0, inode: 0, new_tree: true };
    take(&mut reports, WorkerRole::Target, ready).unwrap();
    reports
}

/// Checks a report; returns whether it counts, or its fault.
fn take(reports: &mut ReportChecker, role: WorkerRole, message: WorkerMessage) -> Result<bool, String> {
    reports.admit_report(role, &message, || "far".into()).map_err(|error| error.to_string())
}

fn file_done(path: &str) -> WorkerMessage {
    WorkerMessage::FileDone(FileReport { path: path.into(), size: 1, copied: true, digest: Some([1; 32]) })
}

fn finished() -> WorkerMessage {
    WorkerMessage::Finished(Box::default())
}

fn reporting() -> CopyOptions {
    CopyOptions { reports: ReportOptions { files: true, ..ReportOptions::default() }, ..CopyOptions::default() }
}

#[test]
fn a_source_does_not_speak_for_the_target() {
    let mut reports = working(reporting());
    let fault = take(&mut reports, WorkerRole::Source, file_done("tree/x")).unwrap_err();
    assert!(fault.starts_with("far: protocol error: sent FileDone, which only the target may send"), "{fault}");
    assert_eq!(take(&mut reports, WorkerRole::Target, file_done("tree/x")), Ok(true));
    let counters = Counters { files_copied: 1, ..Counters::default() };
    let fault = take(&mut reports, WorkerRole::Source, WorkerMessage::Counters(Box::new(counters))).unwrap_err();
    assert!(fault.contains("Counters") && fault.contains("files copied"), "{fault}");
}

#[test]
fn one_worker_speaks_for_both_ends() {
    let mut reports = ReportChecker::new(&copy(reporting()), true);
    let ready = WorkerMessage::TargetReady { boot: [0; 16], device: 0, inode: 0, new_tree: false };
    for message in [
        WorkerMessage::SourceReady { operands: Vec::new(), origin: [0; 32] },
        ready,
        file_done("x"),
        finished(),
        WorkerMessage::Slowest(Vec::new()),
        finished(),
    ] {
        assert_eq!(take(&mut reports, WorkerRole::Source, message), Ok(true));
    }
    assert!(take(&mut reports, WorkerRole::Source, finished()).is_err(), "it finishes twice and no more");
}

#[test]
fn unrequested_reports_are_faults() {
    let confined = || WorkerMessage::Sandboxed(SandboxReport { confinement: Confinement::Full, reason: String::new() });
    let mut reports = working(CopyOptions {
        target: TargetOptions { partial: PartialOptions::NONE, ..CopyOptions::default().target },
        ..CopyOptions::default()
    });
    let resumed =
        WorkerMessage::Resumed(ResumeReport { path: "/t/x".into(), size: 2, held: 1, damaged: 0, compared: false });
    for message in [
        file_done("tree/x"),
        resumed.clone(),
        WorkerMessage::Listening { port: 5000 },
        WorkerMessage::Checksum { path: "tree/x".into(), digest: vec![0; 16] },
        WorkerMessage::ListAck { before: 1 },
        WorkerMessage::Measured(Box::default()),
        WorkerMessage::FileAnswer(FileAnswer::Closed),
        WorkerMessage::Differs { path: "/t/x".into(), differences: Vec::new() },
        WorkerMessage::TargetReady { boot: [0; 16], device: 0, inode: 0, new_tree: false },
    ] {
        assert!(take(&mut reports, WorkerRole::Target, message.clone()).is_err(), "{message:?}");
    }
    assert_eq!(take(&mut reports, WorkerRole::Target, confined()), Ok(true));
    assert!(take(&mut reports, WorkerRole::Target, confined()).is_err(), "twice");
    reports.expect_answer(WorkerRole::Target);
    assert_eq!(take(&mut reports, WorkerRole::Target, WorkerMessage::Listening { port: 5000 }), Ok(true));
    assert!(
        take(&mut reports, WorkerRole::Target, WorkerMessage::Listening { port: 5000 }).is_err(),
        "it was answered"
    );
}

#[test]
fn digests_have_the_requested_length_and_files() {
    let against = haul_base::copy::spec::ChecksumReference::Nothing;
    for (at_source, role, good, bad) in
        [(true, WorkerRole::Source, "tree/x", "/etc/passwd"), (false, WorkerRole::Target, "tree/x", "/etc/passwd")]
    {
        let asked = ChecksumOptions { algorithm: ChecksumAlgorithm::Md5, at_source, against: against.clone() };
        let integrity = IntegrityOptions { checksum: Some(asked), ..IntegrityOptions::default() };
        let mut reports = working(CopyOptions { integrity, ..CopyOptions::default() });
        let checksum = |path: &str, len| WorkerMessage::Checksum { path: path.into(), digest: vec![0; len] };
        assert_eq!(take(&mut reports, role, checksum(good, 16)), Ok(true));
        assert!(take(&mut reports, role, checksum(good, 15)).unwrap_err().contains("length"));
        assert!(take(&mut reports, role, checksum(bad, 16)).unwrap_err().contains("path"));
        assert!(take(&mut reports, role.other(), checksum(good, 16)).is_err(), "the other end was asked");
    }
}

#[test]
fn reports_after_the_last_are_ignored_or_faults() {
    let mut reports = working(reporting());
    let counters = || WorkerMessage::Counters(Box::default());
    assert_eq!(take(&mut reports, WorkerRole::Target, counters()), Ok(true));
    assert_eq!(take(&mut reports, WorkerRole::Target, finished()), Ok(true));
    assert_eq!(take(&mut reports, WorkerRole::Target, counters()), Ok(false));
    assert!(take(&mut reports, WorkerRole::Target, file_done("tree/x")).is_err());
    assert!(take(&mut reports, WorkerRole::Target, finished()).is_err());
}

#[test]
fn an_address_is_one() {
    let mut reports = working(CopyOptions::default());
    for (from, to, is_one) in [
        ("10.0.0.1:5", "[fe80::1%2]:6", true),
        ("", "", true),
        ("\u{1b}[2J", "10.0.0.1:5", false),
        ("10.0.0.1:5", "far:5", false),
    ] {
        reports.expect_answer(WorkerRole::Source);
        let connected = WorkerMessage::Connected { from: from.into(), to: to.into(), streams: 4 };
        assert_eq!(take(&mut reports, WorkerRole::Source, connected).is_ok(), is_one, "{from}");
        let paths = WorkerMessage::Paths { in_use: vec![(from.into(), to.into())], because: String::new() };
        assert_eq!(take(&mut reports, WorkerRole::Source, paths).is_ok(), is_one, "{from}");
    }
}

#[test]
fn no_more_files_complete_than_were_found() {
    let reports = working(CopyOptions::default());
    let source = Counters { files_found: 3, ..Counters::default() };
    let target = |copied, skipped| Counters { files_copied: copied, files_skipped: skipped, ..Counters::default() };
    let check = |target| end(&reports, source, target).is_ok();
    assert!(check(target(2, 1)) && !check(target(2, 2)) && !check(target(u64::MAX, u64::MAX)));
}

fn end(reports: &ReportChecker, source: Counters, target: Counters) -> Result<(), String> {
    let ended = reports.check_end(&[source, target], ["near".into(), "far".into()]);
    ended.map_err(|error| error.to_string())
}

#[test]
fn no_more_is_reported_than_is_counted() {
    let source = Counters { files_found: 3, left_out: 1, ..Counters::default() };
    let target = Counters { files_copied: 2, failed: 1, left_out: 1, differences: 1, ..Counters::default() };
    let failed = || WorkerMessage::FileFailed { path: "/t/x".into(), text: String::new() };
    let skipped = |path: &str| WorkerMessage::Skipped(SkipReport { path: path.into(), reason: String::new() });
    let resumed =
        || WorkerMessage::Resumed(ResumeReport { path: "/t/x".into(), size: 2, held: 1, damaged: 0, compared: false });
    for (role, message, most, said) in [
        (WorkerRole::Target, file_done("tree/x"), 2, "far: haul there reported 3 files, but there are at most 2"),
        (WorkerRole::Target, failed(), 1, "far: haul there reported 2 failures"),
        (WorkerRole::Target, skipped("/t/x"), 1, "far: haul there reported 2 skipped entries"),
        (WorkerRole::Source, skipped("tree/x"), 1, "near: haul there reported 2 skipped entries"),
        (WorkerRole::Target, resumed(), 6, "far: haul there reported 7 resumed files"),
    ] {
        let mut reports = working(reporting());
        (0..most).for_each(|_| assert_eq!(take(&mut reports, role, message.clone()), Ok(true)));
        assert_eq!(end(&reports, source, target), Ok(()), "{message:?}");
        take(&mut reports, role, message).unwrap();
        let error = end(&reports, source, target).unwrap_err();
        assert!(error.starts_with(said), "{error}");
    }
}

#[test]
fn figures_about_what_the_copy_does_not_do_are_faults() {
    let synced = |figures| (WorkerRole::Target, WorkerMessage::Synced(figures));
    let zero = SyncCounters::default();
    let counters = Counters { differences: 1, ..Counters::default() };
    for (role, message) in [
        synced(SyncCounters { linked: 1, ..zero }),
        synced(SyncCounters { backed_up: 1, ..zero }),
        (WorkerRole::Source, WorkerMessage::Synced(SyncCounters { removed_at_source: 1, ..zero })),
        (WorkerRole::Target, WorkerMessage::Counters(Box::new(counters))),
        (WorkerRole::Target, WorkerMessage::Finished(Box::new(FinalReport { counters, ..FinalReport::default() }))),
    ] {
        assert!(take(&mut working(reporting()), role, message.clone()).is_err(), "{message:?}");
        let mut options = CopyOptions { compare: true, ..reporting() };
        options.target.sync.source_removes = true;
        options.target.sync.backup_dir = "old".into();
        options.target.sync.link_dests = vec!["before".into()];
        assert_eq!(take(&mut working(options), role, message), Ok(true));
    }
}

#[test]
fn no_more_failures_than_entries_were_offered() {
    let failed = || WorkerMessage::FileFailed { path: "/t/x".into(), text: String::new() };
    let counters = |walk_complete, entries_offered| {
        WorkerMessage::Counters(Box::new(Counters { walk_complete, entries_offered, ..Counters::default() }))
    };
    let fail = |reports: &mut ReportChecker| take(reports, WorkerRole::Target, failed());
    let mut reports = working(reporting());
    take(&mut reports, WorkerRole::Source, counters(false, 0)).unwrap();
    (0..7).for_each(|_| assert_eq!(fail(&mut reports), Ok(true), "more may be offered"));
    take(&mut reports, WorkerRole::Source, counters(true, 2)).unwrap();
    assert!(fail(&mut reports).unwrap_err().contains("after 7 failures"));

    let mut deleting = reporting();
    deleting.target.sync.replaces_trees = true;
    let mut reports = working(deleting);
    take(&mut reports, WorkerRole::Source, counters(true, 0)).unwrap();
    assert_eq!(fail(&mut reports), Ok(true), "the target knows what it removes");
}

#[test]
fn data_is_accepted_on_ports_without_another_service() {
    for (chosen, port, is_one) in [
        (None, 0, false),
        (None, 25, false),
        (None, 1023, false),
        (None, 1024, true),
        (None, 65_535, true),
        (Some((443, 450)), 443, true),
        (Some((443, 450)), 5000, false),
    ] {
        let mut options = CopyOptions::default();
        options.streams.network.ports = chosen;
        let mut reports = working(options);
        reports.expect_answer(WorkerRole::Target);
        assert_eq!(
            take(&mut reports, WorkerRole::Target, WorkerMessage::Listening { port }).is_ok(),
            is_one,
            "{chosen:?} {port}"
        );
    }
}
