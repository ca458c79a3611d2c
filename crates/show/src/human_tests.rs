use haul_base::copy::summary::{ConnectionSummary, CopyTimes, TransferTotals};
use haul_proto::wire::counters::Counters;

use super::*;
use crate::testing::{Paper, bare, every_event, example};

fn printed(level: Verbosity, outcome: &Outcome) -> String {
    let paper = Paper::default();
    let mut human = Human::new(TextOutput::new(Box::new(paper.clone()), false), level);
    every_event().iter().for_each(|event| human.event(event));
    human.finish(outcome).unwrap();
    paper.text()
}

#[test]
fn normal_output_has_the_essentials() {
    insta::assert_snapshot!(printed(Verbosity::Normal, &Ok(example())), @r"
    haul: installed haul on db1: /home/me/.cache/haul/0.1.0-ab/haul
    haul: run7/pipe: skipped: is a FIFO
    deleted    run7/\xfe/
    haul: db1: run7/b: no space left
          hint: free some
    haul: rate limit: 50 MiB/s from now on
    haul: paused
    haul: 12 streams from now on
    haul: lost the connection to db1: no message for 15 s; reconnecting in 2 s (2 of 10)
    haul: a word
    12,408 files, 333.1 GB in 4 min 44 s: 1.17 GB/s, every byte verified (aes-256-gcm, blake3), durable
    connection  10.10.1.155 -> 10.10.1.202 over enp5s0f1 (10 Gbit/s), 8 streams
    cpu         source 12.3 s, target 14.1 s
    ");
}

/// What is printed of failures with these messages, before the summary.
fn failures(human: impl FnOnce(Human) -> Human, messages: impl IntoIterator<Item = String>) -> String {
    let paper = Paper::default();
    let mut human = human(Human::new(TextOutput::new(Box::new(paper.clone()), false), Verbosity::Errors));
    for (number, message) in messages.into_iter().enumerate() {
        human.event(&Event::FileFailed { path: number.to_string().into(), host: String::new(), message });
    }
    human.finish(&Ok(example())).unwrap();
    paper.text()
}

#[test]
fn a_hint_is_printed_once_for_each_cause() {
    let messages = ["full\nfree some", "full\nfree some", "locked\nask", "full\nfree some"].map(str::to_owned);
    let lines =
        "haul: 0: full\n      hint: free some\nhaul: 1: full\nhaul: 2: locked\n      hint: ask\nhaul: 3: full\n";
    assert_eq!(failures(|human| human, messages), lines);
    // Peers word the hints: no more are kept than a limit.
    let all = failures(Human::with_all_failures, (0..200).chain(0..200).map(|number| format!("full\n{number}")));
    assert_eq!(all.lines().count(), 800 - HINTS_REMEMBERED, "{all}");
}

#[test]
fn ten_failures_are_listed_and_the_others_counted_except_in_a_log() {
    let many = |count| (0..count).map(|_| "full".to_owned());
    let last = |count: usize| failures(|human| human, many(count)).lines().last().unwrap().to_owned();
    assert_eq!(last(10), "haul: 9: full");
    assert_eq!(last(11), "haul: 1 more failure: --json or --logfile FILE lists all");
    assert_eq!(last(1010), "haul: 1,000 more failures: --json or --logfile FILE lists all");
    assert_eq!(failures(Human::on_terminal, many(1010)).lines().count(), 11);
    assert_eq!(failures(Human::with_all_failures, many(1010)).lines().count(), 1010);
}

#[test]
fn only_lists_go_to_standard_output() {
    let (list, words) = (Paper::default(), Paper::default());
    let mut human = Human::new(TextOutput::new(Box::new(words.clone()), false), Verbosity::Normal);
    human = human.with_list(Box::new(list.clone()));
    every_event().iter().for_each(|event| human.event(event));
    human.finish(&Ok(example())).unwrap();
    assert_eq!(list.text(), "deleted    run7/\\xfe/\n");
    assert!(!words.text().contains("deleted") && words.text().contains("skipped"), "{}", words.text());
}

#[test]
fn an_unwritable_list_is_an_error() {
    let words = Paper::default();
    let mut human =
        Human::new(TextOutput::new(Box::new(words), false), Verbosity::Normal).with_list(Box::new(FullDisk));
    every_event().iter().for_each(|event| human.event(event));
    assert!(human.finish(&Ok(example())).is_err());
}

struct FullDisk;

impl Write for FullDisk {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(io::ErrorKind::StorageFull.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn verbose_describes_the_connection() {
    let output = printed(Verbosity::Verbose, &Ok(example()));
    assert!(
        output.contains("haul: connected: 10.10.1.155:40312 -> 10.10.1.202:35011 over enp5s0f1 (10 Gbit/s), 8 streams, aes-256-gcm\n"),
        "{output}"
    );
    let moved = "haul: data now takes 10.2.0.1:1 -> 10.2.0.2:2 (tcp) and 10.1.0.1:3 -> 10.1.0.2:4 (tcp): it carries";
    assert!(output.contains(moved) && output.contains("cpu ") && !output.contains("memory "), "{output}");
}

#[test]
fn very_verbose_describes_the_path_and_then_names_files() {
    use haul_proto::wire::counters::PathFigures;
    let path = PathFigures {
        round_trip_us: 50_400,
        segments: 123_456,
        retransmitted: 12,
        busy_us: 1_000_000,
        receiver_limited_us: 430_000,
        buffer_limited_us: 0,
    };
    let outcome = Ok(Summary { connection: ConnectionSummary { path, ..example().connection }, ..example() });
    let output = |level| printed(level, &outcome);
    let line = "path        RTT 50.4 ms; 123,456 segments, 12 resent; limited 43 % by the receive window, 0 % by \
                send buffers\n";
    assert!(output(Verbosity::Path).ends_with(line), "{}", output(Verbosity::Path));
    assert!(!output(Verbosity::Verbose).contains("RTT") && !output(Verbosity::Path).contains("run7/a: "));
    assert!(output(Verbosity::Files).contains("haul: run7/a: done, 5 bytes\n"), "{}", output(Verbosity::Files));
    assert!(output(Verbosity::Files).contains("haul: run7/\\xff: up to date, 0 bytes\n"));
}

#[test]
fn a_workers_path_text_disturbs_no_terminal() {
    let hostile = || "\x1b[2Ja\nb\\".to_owned();
    let shown = "\\u{1b}[2Ja\\nb\\";
    let path = bare(&hostile(), &hostile());
    let tcp = TransportPath::Tcp { path, others: Vec::new(), instead_of: Some(hostile()) };
    assert_eq!(connection(&tcp), format!("{shown} -> {shown} (tcp); {shown}"));
    assert_eq!(
        connection(&TransportPath::Tunnel { is_ssh: true, because: hostile() }),
        format!("through ssh ({shown})")
    );
}

/// What is printed of a copy that ends with `error` after so many seconds.
fn ended(error: Error, seconds: u64, is_resumable: bool) -> String {
    let example = example();
    let stopped = Summary {
        files: TransferTotals { bytes: 38_200_000, bytes_skipped: 0, ..example.files },
        counters: Counters { walk_complete: true, bytes_found: 104_900_000, ..example.counters },
        times: CopyTimes { elapsed: Duration::from_secs(seconds), ..example.times },
        is_resumable,
        ..example
    };
    let paper = Paper::default();
    let mut human = Human::new(TextOutput::new(Box::new(paper.clone()), false), Verbosity::Normal);
    human.event(&Event::Stopped(Box::new(stopped)));
    human.finish(&Err(error)).unwrap();
    paper.text()
}

#[test]
fn an_unfinished_copy_says_how_far_it_came_and_resumes_only_what_was_kept() {
    let broken = || Error::Broken(format!("lost the connection to db1\n{GO_ON}"));
    let ends = [
        ended(Error::Interrupted, 3, true),
        ended(Error::Interrupted, 3, false),
        ended(Error::Interrupted, 20, true),
        ended(broken(), 3, true),
        ended(broken().of_nothing_kept(), 3, false),
    ];
    insta::assert_snapshot!(ends.join("\n"), @r"
    haul: interrupted at 38.2 of 104.9 MB, 12.7 MB/s; rerun the command to resume

    haul: interrupted at 38.2 of 104.9 MB, 12.7 MB/s; rerun the command

    haul: interrupted at 38.2 of 104.9 MB, 1.91 MB/s; rerun the command to resume
    connection  10.10.1.155 -> 10.10.1.202 over enp5s0f1 (10 Gbit/s), 8 streams
    cpu         source 12.3 s, target 14.1 s

    haul: lost the connection to db1
          hint: rerun the command to resume
    stopped at 38.2 of 104.9 MB, 12.7 MB/s

    haul: lost the connection to db1
          hint: rerun the command
    stopped at 38.2 of 104.9 MB, 12.7 MB/s
    ");
}

#[test]
fn a_dry_run_ends_with_its_planned_changes() {
    let dry = Summary { is_dry: true, ..example() };
    let shown = printed(Verbosity::Normal, &Ok(dry));
    let first = "\ndry run: would delete 1; checked in 4 min 44 s\n";
    assert!(shown.contains(first), "{shown}");
    assert!(!printed(Verbosity::Normal, &Ok(example())).contains("dry run"));
}

#[test]
fn giving_up_is_reported() {
    let (seconds, any) = (Duration::from_millis(598_100), None);
    assert_eq!(until(2, Some(10), Some(seconds)), " (2 of 10)");
    assert_eq!(until(2, any, Some(seconds)), ", for up to 9 min 59 s");
    assert_eq!(until(2, any, None), " (2)");
}

#[test]
fn quiet_output_has_only_failures() {
    assert_eq!(printed(Verbosity::Errors, &Ok(example())), "haul: db1: run7/b: no space left\n      hint: free some\n");
    let error =
        printed(Verbosity::Errors, &Err(Error::Connect("db1: connection refused\nis sshd running there?".into())));
    assert!(error.ends_with("haul: db1: connection refused\n      hint: is sshd running there?\n"), "{error}");
}
