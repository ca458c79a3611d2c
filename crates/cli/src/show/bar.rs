//! The progress bar on a terminal. It is drawn only while the job is in the foreground.

use std::io;
use std::time::{Duration, Instant};

use haul_engine::job::error::Outcome;
use haul_engine::job::event::{Event, Observer, Progress};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::Show;
use super::human::Human;
use super::meter::Meter;
use crate::terminal;
use crate::units::{count, counted, part_of, percent, rate, size, time_ahead};

/// Longest title, in characters.
const MAX_TITLE: usize = 24;
/// Widest bar, in columns.
const MAX_BAR: usize = 30;
/// A narrower one says nothing.
const MIN_BAR: usize = 8;
/// No time left is shown before this much of the job has been seen.
const ETA_AFTER: Duration = Duration::from_secs(1);
/// Times left beyond this say only that the rate is near zero.
const MAX_ETA_S: f64 = 99.0 * 86_400.0;

/// The bar, and words above it.
pub struct BarView {
    human: Human,
    title: String,
    meter: Meter,
    started: Instant,
    /// From the first figures on: before, ssh may be asking for a password.
    drawn: Option<ProgressBar>,
}

impl BarView {
    /// A bar with `title` in front.
    pub fn new(human: Human, title: &str) -> Self {
        Self { human, title: shortened(title), meter: Meter::default(), started: Instant::now(), drawn: None }
    }

    fn draw(&mut self, progress: &Progress) {
        let elapsed = self.started.elapsed();
        let moved = progress.moved();
        let rate = self.meter.update(elapsed, moved);
        if terminal::in_foreground() {
            let line = line(&self.title, progress, &figures(progress, rate, elapsed), terminal::stderr_columns());
            self.drawn.get_or_insert_with(new_bar).set_message(line);
        }
    }

    /// Lets words be said above the bar.
    fn say(&mut self, words: impl FnOnce(&mut Human)) {
        match &self.drawn {
            Some(drawn) if terminal::in_foreground() => drawn.suspend(|| words(&mut self.human)),
            _ => words(&mut self.human),
        }
    }
}

/// A line redrawn with each message, so that numbers and bar belong to one moment.
fn new_bar() -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
    if let Ok(style) = ProgressStyle::with_template("{wide_msg}") {
        bar.set_style(style);
    }
    bar.set_draw_target(ProgressDrawTarget::stderr_with_hz(10));
    bar
}

impl Observer for BarView {
    fn event(&mut self, event: &Event) {
        match event {
            Event::Progress(progress) => self.draw(progress),
            Event::Connected { .. } => {
                self.started = Instant::now();
                self.say(|human| human.event(event));
            }
            _ if self.human.speaks_of(event) => self.say(|human| human.event(event)),
            _ => {}
        }
    }
}

impl Show for BarView {
    fn complain(&mut self, message: &str) {
        self.say(|human| human.complain(message));
    }

    fn finish(&mut self, outcome: &Outcome) -> io::Result<()> {
        if let Some(drawn) = self.drawn.take() {
            if !terminal::in_foreground() {
                drawn.set_draw_target(ProgressDrawTarget::hidden());
            }
            drawn.finish_and_clear();
        }
        self.human.finish(outcome)
    }
}

/// Bar and numbers, for callers with a title elsewhere.
#[cfg(feature = "tui")]
pub fn whole_line(progress: &Progress, bytes_per_s: f64, elapsed: Duration, columns: usize) -> String {
    line("", progress, &figures(progress, bytes_per_s, elapsed), columns).trim_start().to_owned()
}

/// Title, bar and figures on one line; the bar gives way first.
fn line(title: &str, progress: &Progress, figures: &str, columns: usize) -> String {
    let room = columns.saturating_sub(title.chars().count() + figures.chars().count() + "  []  ".len() + 1);
    match room.min(MAX_BAR) {
        0..MIN_BAR => format!("{title}  {figures}"),
        cells => format!("{title}  [{}]  {figures}", cells_of(progress, cells)),
    }
}

/// `=====>     `; empty while the total is unknown.
fn cells_of(progress: &Progress, cells: usize) -> String {
    let share = if progress.walk_complete { percent(progress.done(), progress.bytes_found) } else { 0 };
    let full = cells * usize::try_from(share).unwrap_or(0) / 100;
    let head = if (1..cells).contains(&full) { ">" } else { "" };
    format!("{:<cells$}", format!("{}{head}", "=".repeat(full)))
}

/// The fields behind the bar, most important first: a narrow terminal cuts the end off.
fn figures(progress: &Progress, bytes_per_s: f64, elapsed: Duration) -> String {
    let (done, found) = (progress.done(), progress.bytes_found);
    let mut parts = Vec::new();
    if progress.walk_complete {
        parts.push(format!("{:>2} %", percent(done, found)));
        parts.push(part_of(done, found));
    } else {
        parts.push(so_far(size(done), (done < found).then(|| size(found))));
    }
    parts.push(rate(bytes_per_s));
    if progress.walk_complete && done < found && elapsed >= ETA_AFTER {
        parts.extend(time_left(found - done, bytes_per_s));
    }
    if progress.files_found > 1 || !progress.walk_complete {
        let (settled, found) = (progress.files_settled, progress.files_found);
        parts.push(format!("{} files", so_far(count(settled), (settled <= found).then(|| count(found)))));
    }
    if progress.streams > 0 {
        parts.push(counted(progress.streams.into(), "stream", "streams"));
    }
    parts.extend(progress.limited_by.map(|now| format!("limited by: {}", super::verdict::words(now.limit))));
    parts.join("   ")
}

/// The whole is left out where the walk is reported later than what it found.
fn so_far(done: String, found: Option<String>) -> String {
    match found {
        Some(found) => format!("{done} of {found}"),
        None => done,
    }
}

#[allow(clippy::cast_precision_loss, reason = "an estimate")]
fn time_left(bytes: u64, bytes_per_s: f64) -> Option<String> {
    let seconds = bytes as f64 / bytes_per_s;
    (seconds < MAX_ETA_S).then(|| format!("{} left", time_ahead(Duration::from_secs_f64(seconds))))
}

fn shortened(title: &str) -> String {
    match title.chars().count() {
        0..=MAX_TITLE => title.to_owned(),
        _ => title.chars().take(MAX_TITLE - 3).chain("...".chars()).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn figures_in_the_middle_of_a_job() {
        let figures = figures(&at(203_400_000_000, 333_100_000_000, true), 1.17e9, Duration::from_secs(9));
        insta::assert_snapshot!(figures, @"61 %   203.4 of 333.1 GB   1.17 GB/s   1 min 51 s left   7,001 of 12,408 files   8 streams");
    }

    #[test]
    fn what_is_compared_needs_no_stream() {
        let progress = Progress { bytes_compared: 203_400_000_000, streams: 0, ..at(0, 333_100_000_000, true) };
        insta::assert_snapshot!(figures(&progress, 1.17e9, Duration::from_secs(9)), @"61 %   203.4 of 333.1 GB   1.17 GB/s   1 min 51 s left   7,001 of 12,408 files");
    }

    #[test]
    fn no_percentage_before_the_whole_is_known() {
        let figures = figures(&at(4_290_000, 90_000_000, false), 0.0, Duration::from_secs(9));
        insta::assert_snapshot!(figures, @"4.29 MB of 90.0 MB   0 B/s   7,001 of 12,408 files   8 streams");
    }

    #[test]
    fn a_whole_that_is_not_known_yet_is_not_made_up() {
        let early = Progress { files_found: 0, files_settled: 295, ..at(134_900_000, 0, false) };
        insta::assert_snapshot!(figures(&early, 0.0, Duration::from_secs(9)), @"134.9 MB   0 B/s   295 files   8 streams");
    }

    #[test]
    fn the_bar_gives_way_to_figures() {
        let (progress, figures) = (at(50, 100, true), "50 of 100 bytes");
        assert_eq!(
            line("big", &progress, figures, 200),
            format!("big  [{}>{}]  {figures}", "=".repeat(15), " ".repeat(14))
        );
        assert_eq!(
            line("big", &progress, figures, 35),
            format!("big  [{}>{}]  {figures}", "=".repeat(5), " ".repeat(4))
        );
        assert_eq!(line("big", &progress, figures, 32), format!("big  {figures}"));
        assert_eq!(line("big", &progress, figures, 0), format!("big  {figures}"));
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
    fn time_left_is_whole_seconds_and_unknown_at_a_standstill() {
        assert_eq!(time_left(10, 3.0).as_deref(), Some("4 s left"));
        assert_eq!(time_left(0, 3.0).as_deref(), Some("0 s left"));
        assert_eq!(time_left(111, 1.0).as_deref(), Some("1 min 51 s left"));
        assert_eq!(time_left(10, 0.0), None);
        assert_eq!(time_left(0, 0.0), None);
        assert_eq!(time_left(u64::MAX, 0.1), None);
    }

    #[test]
    fn long_titles_are_cut() {
        assert_eq!(shortened("run7"), "run7");
        assert_eq!(shortened(&"x".repeat(25)), format!("{}...", "x".repeat(21)));
    }
}
