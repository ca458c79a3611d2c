//! Events and the result as text, without progress: the output if standard error is not a terminal.

use std::collections::HashSet;
use std::io::{self, Write};
use std::time::Duration;

use haul_base::copy::error::{Error, GO_ON, Outcome, START_OVER};
use haul_base::copy::event::{
    Event, FileReport, ItemReport, Observer, ResumeReport, SkipReport, SourceChange, TransportPath,
};
use haul_base::copy::summary::{Summary, TransferTotals};

use crate::items::{self, Tally};
use crate::output_form::ListForm;
pub use crate::output_form::Verbosity;
use crate::text::{TextOutput, Tone, harmless};
use crate::{Show, names, parts, paths, streams, summary};

/// Most failures listed, except in a log; the others are counted.
const FAILURES_SHOWN: u64 = 10;
/// Most remembered hints, which are not repeated.
const HINTS_REMEMBERED: usize = 64;

/// Messages on standard error, and lists on standard output.
pub struct Human {
    text: TextOutput,
    /// Output of lists (`--items`, `--dry-run`); `None`: with the messages.
    list: Option<Box<dyn Write>>,
    list_form: ListForm,
    /// A line of a list could not be written.
    failed: Option<io::Error>,
    level: Verbosity,
    has_traffic: bool,
    is_terminal: bool,
    tally: Tally,
    failures: FailureList,
    /// What a copy had done that ends with an error.
    stopped: Option<Box<Summary>>,
}

/// Failures of single files so far.
struct FailureList {
    count: u64,
    /// Failures to list at most.
    limit: u64,
    /// Hints printed already.
    hints: HashSet<String>,
}

impl FailureList {
    /// The text to print for a failure: without a hint that was printed before, or nothing beyond the limit.
    fn next<'a>(&mut self, message: &'a str) -> Option<&'a str> {
        self.count = self.count.saturating_add(1);
        if self.count > self.limit {
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
        let more = self.count.saturating_sub(self.limit);
        let counted = crate::units::counted(more, "more failure", "more failures");
        (more > 0).then(|| format!("{counted}: --json or --logfile FILE lists all"))
    }
}

impl Human {
    /// Writes messages of `level` to `text`.
    pub fn new(text: TextOutput, level: Verbosity) -> Self {
        let (tally, failures) =
            (Tally::default(), FailureList { count: 0, limit: FAILURES_SHOWN, hints: HashSet::new() });
        let list_form = ListForm::default();
        let (list, failed, stopped) = (None, None, None);
        Self { text, list, list_form, failed, level, has_traffic: false, is_terminal: false, tally, failures, stopped }
    }

    /// Writes lists to `list`.
    pub fn with_list(self, list: Box<dyn Write>) -> Self {
        Self { list: Some(list), ..self }
    }

    /// Writes lines of a list in `list_form`.
    pub fn with_list_form(self, list_form: ListForm) -> Self {
        Self { list_form, ..self }
    }

    /// Adds the bytes between the hosts to the summary.
    pub fn with_traffic(self, has_traffic: bool) -> Self {
        Self { has_traffic, ..self }
    }

    /// Adapts to a terminal: slow logins are reported.
    pub fn on_terminal(self) -> Self {
        Self { is_terminal: true, ..self }
    }

    /// Lists all failures, for a log.
    pub fn with_all_failures(mut self) -> Self {
        self.failures.limit = u64::MAX;
        self
    }

    fn list(&mut self, line: &str) {
        let Some(list) = &mut self.list else { return self.text.plain(line) };
        // One write, since copies to several targets share the output.
        if let Err(error) = list.write_all(format!("{}{line}\n", self.text.label()).as_bytes()) {
            self.failed.get_or_insert(error);
        }
    }

    /// The lines of a summary below its first.
    fn details(&self, result: &Summary) -> String {
        let mut output = summary::below(result, self.level);
        if self.has_traffic && !result.is_dry {
            output.push_str(&summary::traffic(result));
        }
        if self.level >= Verbosity::Path {
            output.push_str(&summary::path(result));
            output.push_str(&parts::table(result));
            output.push_str(&streams::table([&result.source().streams, &result.target().streams]));
        }
        output
    }

    /// Whether a summary would only count the one failure that was printed.
    fn has_said_all(&self, result: &Summary) -> bool {
        let TransferTotals { copied: 0, skipped: 0, failed: 1, .. } = result.files else { return false };
        let is_copy = !result.is_dry && result.integrity.comparison.is_none();
        is_copy && self.failures.count == 1 && self.details(result).lines().count() == 1
    }

    /// Says why a copy ended, and what it had done.
    fn fail(&mut self, error: &Error) {
        let Some(result) = self.stopped.take() else { return self.text.error(&error.to_string()) };
        let reached = summary::reached(&result);
        match error {
            Error::Interrupted => {
                let rerun = if result.is_resumable { GO_ON } else { START_OVER };
                self.text.error(&format!("interrupted{reached}; {rerun}"));
            }
            error => self.text.error(&error.to_string()),
        }
        if self.level < Verbosity::Normal {
            return;
        }
        if !matches!(error, Error::Interrupted) && !reached.is_empty() {
            self.text.plain(&format!("stopped{reached}"));
        }
        if self.level >= Verbosity::Verbose || result.times.elapsed >= summary::LONG {
            self.text.plain(self.details(&result).trim_end());
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
            Event::Connected { .. } | Event::PathChanged { .. } | Event::SourceChanged { .. } => {
                self.level >= Verbosity::Verbose
            }
            Event::FileDone(_) => self.level >= Verbosity::Files,
            Event::Progress(_) | Event::Stopped(_) | Event::Checksum { .. } => false,
        }
    }
}

impl Observer for Human {
    fn event(&mut self, event: &Event) {
        match event {
            Event::Progress(_) => self.flush(),
            Event::Stopped(summary) => self.stopped = Some(summary.clone()),
            _ => {}
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
                match self.list_form {
                    ListForm::Changes => self.list(&items::words(path, item)),
                    ListForm::Names => self.list(&items::name(path, item)),
                }
            }
            Event::Warning(line) => self.text.warning(line),
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
        Event::SourceChanged { path, change } => {
            let what = match change {
                SourceChange::Vanished => "vanished before it was read",
                SourceChange::Grew => "grew while being read; copied up to its length at the start",
            };
            format!("{}: {what}", haul_proto::path::escape(path))
        }
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
        | Event::Checksum { .. }
        | Event::Warning(_) => return None,
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
            Ok(result) if self.level == Verbosity::Normal && self.has_said_all(result) => {}
            Ok(result) if self.level >= Verbosity::Normal => {
                let headline = match result.is_dry {
                    true => self.tally.headline(result.planned, result.times.elapsed),
                    false => summary::headline(result),
                };
                let tone = match result {
                    _ if result.files.failed > 0 || result.differs() => Tone::Warning,
                    _ if result.is_dry => Tone::Plain,
                    _ => Tone::Done,
                };
                self.text.result(format!("{headline}\n{}", self.details(result)).trim_end(), tone);
            }
            Ok(_) => {}
            Err(error) => self.fail(error),
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
        TransportPath::Tunnel { is_ssh, because } => format!("{} ({})", paths::tunnel(*is_ssh), harmless(because)),
    }
}

#[cfg(test)]
#[path = "human_tests.rs"]
mod tests;
