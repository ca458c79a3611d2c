//! Events and the result as text, without progress: the output if standard error is not a terminal.

use std::collections::HashSet;
use std::io::{self, Write};
use std::time::Duration;

use haul_base::job::error::Outcome;
use haul_base::job::event::{Event, FileReport, ItemReport, Observer, ResumeReport, SkipReport, TransportPath};

use super::items::{self, Tally};
use super::{Show, names, parts, paths, streams, summary};
use crate::terminal;
use crate::text::{TextOutput, harmless};

/// Most failures listed on a terminal; the others are counted.
const FAILURES_SHOWN: u64 = 10;
/// Most remembered hints, which are not repeated.
const HINTS_REMEMBERED: usize = 64;

/// Level of detail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verbosity {
    /// Failures only.
    Errors,
    /// Also warnings and the summary.
    Normal,
    /// Also connections.
    Verbose,
    /// Also figures of the path.
    Path,
    /// Also each complete file.
    Files,
}

/// Messages on standard error, and lists on standard output.
pub struct Human {
    text: TextOutput,
    /// Output of lists (`--items`, `--dry-run`); `None`: with the messages.
    list: Option<Box<dyn Write>>,
    /// A line of a list could not be written.
    failed: Option<io::Error>,
    level: Verbosity,
    is_terminal: bool,
    tally: Tally,
    failures: FailureList,
}

/// Failures of single files so far.
#[derive(Default)]
struct FailureList {
    count: u64,
    /// Failures to list at most; `None`: all.
    limit: Option<u64>,
    /// Hints printed already.
    hints: HashSet<String>,
}

impl FailureList {
    /// The text to print for a failure: without a hint that was printed before, or nothing beyond the limit.
    fn next<'a>(&mut self, message: &'a str) -> Option<&'a str> {
        self.count = self.count.saturating_add(1);
        if self.limit.is_some_and(|limit| self.count > limit) {
            return None;
        }
        let Some((cause, hint)) = message.split_once('\n') else { return Some(message) };
        if self.hints.contains(hint) {
            return Some(cause);
        }
        if self.hints.len() < HINTS_REMEMBERED {
            self.hints.insert(hint.to_owned());
        }
        Some(message)
    }

    /// One line for all failures beyond the limit.
    fn remainder(&self) -> Option<String> {
        let more = self.limit.map_or(0, |limit| self.count.saturating_sub(limit));
        let counted = crate::units::counted(more, "more failure", "more failures");
        (more > 0).then(|| format!("{counted}: --json or -l FILE lists all"))
    }
}

impl Human {
    /// Writes messages of `level` to `text`.
    pub fn new(text: TextOutput, level: Verbosity) -> Self {
        let (tally, failures) = (Tally::default(), FailureList::default());
        Self { text, list: None, failed: None, level, is_terminal: false, tally, failures }
    }

    /// Writes lists to `list`.
    pub fn with_list(self, list: Box<dyn Write>) -> Self {
        Self { list: Some(list), ..self }
    }

    /// Adapts to a terminal: few failures are listed, and slow logins reported.
    pub fn on_terminal(mut self) -> Self {
        self.is_terminal = true;
        self.failures.limit = Some(FAILURES_SHOWN);
        self
    }

    fn list(&mut self, line: &str) {
        let Some(list) = &mut self.list else { return self.text.plain(line) };
        if let Err(error) = writeln!(list, "{line}") {
            self.failed.get_or_insert(error);
        }
    }

    fn flush(&mut self) {
        if let Some(Err(error)) = self.list.as_mut().map(|list| list.flush()) {
            self.failed.get_or_insert(error);
        }
    }

    /// Whether this event gets a line.
    pub fn shows_event(&self, event: &Event) -> bool {
        match event {
            Event::FileFailed { .. } | Event::Differs { .. } => true,
            Event::Deployed { .. }
            | Event::Skipped(_)
            | Event::Resumed(_)
            | Event::Item(_)
            | Event::Warning(_)
            | Event::RateLimit { .. }
            | Event::Pause { .. }
            | Event::Streams { .. }
            | Event::Restarted { .. } => self.level >= Verbosity::Normal,
            Event::Connecting { .. } => self.is_terminal && self.level >= Verbosity::Normal,
            Event::Connected { .. } | Event::PathChanged { .. } => self.level >= Verbosity::Verbose,
            Event::FileDone(_) => self.level >= Verbosity::Files,
            Event::Progress(_) | Event::Stopped(_) | Event::Checksum { .. } => false,
        }
    }
}

impl Observer for Human {
    fn event(&mut self, event: &Event) {
        if matches!(event, Event::Progress(_)) {
            self.flush();
        }
        if !self.shows_event(event) {
            return;
        }
        match event {
            Event::FileFailed { path, host, message } => {
                if let Some(message) = self.failures.next(message) {
                    self.text.failure(host, path, message);
                }
            }
            Event::Differs { path, host, differences } => {
                self.text.failure(host, path, &super::differences::words(differences));
            }
            Event::Item(ItemReport { path, item, .. }) => {
                self.tally.add(item);
                self.list(&items::words(path, item));
            }
            // ssh's prompt would end in the middle of this line.
            Event::Connecting { .. } if terminal::hides_typing() => {}
            _ => notice(event).iter().for_each(|line| self.text.notice(line)),
        }
    }
}

/// The line for an event that needs no other treatment.
fn notice(event: &Event) -> Option<String> {
    let streams = |streams: u16| crate::units::counted(streams.into(), "stream", "streams");
    Some(match event {
        Event::Connecting { host } => format!("connecting to {host}..."),
        Event::Deployed { host, path } => format!("installed haul on {host}: {path}"),
        Event::Skipped(SkipReport { path, reason }) => format!("{}: skipped: {reason}", haul_proto::path::escape(path)),
        Event::Resumed(ResumeReport { path, size, held, damaged, compared }) => {
            let part = crate::units::part_of(*held, *size);
            let compared = if *compared { ", and the source compares them" } else { "" };
            let damaged = match damaged {
                0 => String::new(),
                frames => format!("; {} damaged and resent", crate::units::counted(*frames, "frame is", "frames are")),
            };
            let path = haul_proto::path::escape(path);
            format!("{path}: resuming, {part} verified{compared}{damaged}")
        }
        Event::Warning(line) => line.clone(),
        Event::RateLimit { bytes_per_s } => {
            let limit = bytes_per_s.map_or("none".to_owned(), crate::units::limit);
            format!("rate limit: {limit} from now on")
        }
        Event::Pause { is_paused } => if *is_paused { "paused" } else { "resumed" }.to_owned(),
        Event::Streams { wanted } => format!("{} from now on", streams(*wanted)),
        Event::Restarted { reason, pause, attempt, attempts, left } => {
            let pause = crate::units::time_ahead(*pause);
            let until = until(*attempt, *attempts, *left);
            format!("{}; reconnecting in {pause}{until}", harmless(reason))
        }
        Event::Connected { transport, streams: count, cipher } => {
            let cipher = names::sealed(transport, *cipher).map(|cipher| format!(", {cipher}")).unwrap_or_default();
            format!("connected: {}, {}{cipher}", connection(transport), streams(*count))
        }
        Event::PathChanged { transport, because } => {
            let because = because.as_ref().map(|why| format!(": {}", harmless(why))).unwrap_or_default();
            format!("data now takes {}{because}", connection(transport))
        }
        Event::FileDone(FileReport { path, size, copied, .. }) => {
            let path = haul_proto::path::escape(path);
            let end = if *copied { "done" } else { "up to date" };
            format!("{path}: {end}, {}", crate::units::size(*size))
        }
        Event::FileFailed { .. }
        | Event::Differs { .. }
        | Event::Item(_)
        | Event::Stopped(_)
        | Event::Progress(_)
        | Event::Checksum { .. } => return None,
    })
}

impl Show for Human {
    fn complain(&mut self, message: &str) {
        self.text.error(message);
    }

    fn finish(&mut self, outcome: &Outcome) -> io::Result<()> {
        self.flush();
        if let Some(remainder) = self.failures.remainder() {
            self.text.error(&remainder);
        }
        match outcome {
            Ok(result) if self.level >= Verbosity::Normal => {
                let headline = match result.is_dry {
                    true => self.tally.headline(result.times.elapsed),
                    false => summary::headline(result),
                };
                let mut output = summary::below(&headline, result, self.level >= Verbosity::Verbose);
                if self.level >= Verbosity::Path {
                    output.push_str(&summary::path(result));
                    output.push_str(&parts::table(result));
                    output.push_str(&streams::table([&result.source().streams, &result.target().streams]));
                }
                self.text.plain(output.trim_end());
            }
            Ok(_) => {}
            Err(error) => self.text.error(&error.to_string()),
        }
        self.failed.take().map_or(Ok(()), Err)
    }
}

/// The text about the retry limit.
fn until(attempt: u32, attempts: Option<u32>, left: Option<Duration>) -> String {
    match (attempts, left) {
        (Some(attempts), _) => format!(" ({attempt} of {attempts})"),
        (None, Some(left)) => format!(", for up to {}", crate::units::time_ahead(left)),
        (None, None) => format!(" ({attempt})"),
    }
}

/// Formats a transport path. Addresses and reasons are a worker's text, so line feeds are escaped.
fn connection(transport: &TransportPath) -> String {
    match transport {
        TransportPath::None => "no data to move".to_owned(),
        TransportPath::Local { host } => crate::text::within(host.as_deref()),
        TransportPath::Tcp { path, others, instead_of } => {
            let why = instead_of.as_ref().map(|why| format!("; {}", harmless(why))).unwrap_or_default();
            let paths: Vec<_> = std::iter::once(path).chain(others).map(paths::with_ports).collect();
            format!("{}{why}", paths.join(" and "))
        }
        TransportPath::Ssh { because } => format!("through ssh ({})", harmless(because)),
    }
}

#[cfg(test)]
pub mod tests {
    use haul_base::job::error::Error;
    use haul_base::job::event::{ChangeKind, EntryKind, ItemChange, Progress};
    use haul_base::job::spec::Cipher;
    use haul_base::job::summary::{ConnectionSummary, Summary};

    use super::super::paths::tests::bare;
    use super::super::summary::tests::example;
    use super::*;
    use crate::text::tests::Paper;

    fn moved() -> Event {
        let (path, other) = (bare("10.2.0.1:1", "10.2.0.2:2"), bare("10.1.0.1:3", "10.1.0.2:4"));
        let transport = TransportPath::Tcp { path, others: vec![other], instead_of: None };
        Event::PathChanged { transport, because: Some("it carries 944 Mbit/s, the previous one 95".into()) }
    }

    /// One event of each kind.
    pub fn every_event() -> Vec<Event> {
        let progress = Progress {
            files_found: 12_408,
            bytes_found: 333_100_000_000,
            walk_complete: true,
            files_settled: 7_001,
            bytes_written: 203_300_000_000,
            bytes_skipped: 100_000_000,
            bytes_compared: 0,
            streams: 8,
            limited_by: None,
            ..Progress::default()
        };
        let transport = example().connection.transport;
        vec![
            Event::Deployed { host: "db1".into(), path: "/home/me/.cache/haul/0.1.0-ab/haul".into() },
            Event::Connected { transport, streams: 8, cipher: Cipher::Aes256Gcm },
            moved(),
            Event::Progress(Box::new(progress)),
            Event::FileDone(FileReport { path: b"run7/a".to_vec(), size: 5, copied: true, digest: Some([0xab; 32]) }),
            Event::FileDone(FileReport { path: b"run7/\xff".to_vec(), size: 0, copied: false, digest: None }),
            Event::Skipped(SkipReport { path: b"run7/pipe".to_vec(), reason: "is a FIFO".into() }),
            Event::Item(ItemReport {
                path: b"run7/\xfe".to_vec(),
                item: ItemChange { what: EntryKind::Directory, change: ChangeKind::Removed },
                size: None,
            }),
            Event::FileFailed {
                path: b"run7/b".to_vec(),
                host: "db1".into(),
                message: "no space left\nfree some".into(),
            },
            Event::RateLimit { bytes_per_s: Some(52_428_800) },
            Event::Pause { is_paused: true },
            Event::Streams { wanted: 12 },
            Event::Restarted {
                reason: "lost the connection to db1: no message for 15 s".into(),
                pause: Duration::from_secs(2),
                attempt: 2,
                attempts: Some(10),
                left: None,
            },
            Event::Warning("a word".into()),
        ]
    }

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
        haul: rate limit: 52.4 MB/s from now on
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
        let all = failures(|human| human, (0..200).chain(0..200).map(|number| format!("full\n{number}")));
        assert_eq!(all.lines().count(), 800 - HINTS_REMEMBERED, "{all}");
    }

    #[test]
    fn a_terminal_lists_ten_failures_and_counts_the_others() {
        let many = |count| (0..count).map(|_| "full".to_owned());
        let last = |count: usize| failures(Human::on_terminal, many(count)).lines().last().unwrap().to_owned();
        assert_eq!(last(10), "haul: 9: full");
        assert_eq!(last(11), "haul: 1 more failure: --json or -l FILE lists all");
        assert_eq!(last(1010), "haul: 1,000 more failures: --json or -l FILE lists all");
        assert_eq!(failures(Human::on_terminal, many(1010)).lines().count(), 11);
        assert_eq!(failures(|human| human, many(1010)).lines().count(), 1010, "a log lists all");
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
        let moved =
            "haul: data now takes 10.2.0.1:1 -> 10.2.0.2:2 (tcp) and 10.1.0.1:3 -> 10.1.0.2:4 (tcp): it carries";
        assert!(output.contains(moved) && output.contains("memory "), "{output}");
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
        assert_eq!(connection(&TransportPath::Ssh { because: hostile() }), format!("through ssh ({shown})"));
    }

    #[test]
    fn a_dry_run_ends_with_its_planned_changes() {
        let dry = Summary { is_dry: true, ..example() };
        let shown = printed(Verbosity::Normal, &Ok(dry));
        let first = "\ndry run: 1 would be deleted; nothing was changed, checked in 4 min 44 s\n";
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
        assert_eq!(
            printed(Verbosity::Errors, &Ok(example())),
            "haul: db1: run7/b: no space left\n      hint: free some\n"
        );
        let error =
            printed(Verbosity::Errors, &Err(Error::Connect("db1: connection refused\nis sshd running there?".into())));
        assert!(error.ends_with("haul: db1: connection refused\n      hint: is sshd running there?\n"), "{error}");
    }
}
