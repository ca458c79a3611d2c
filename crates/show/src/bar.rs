//! The progress bar on a terminal, drawn only while the copy is in the foreground.

use std::io;
use std::time::Instant;

use haul_base::copy::error::Outcome;
use haul_base::copy::event::{Event, Observer, Progress};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::human::Human;
use crate::meter::{Meter, StallWatch};
use crate::progress_line::Pace;
use crate::{Show, progress_line, terminal};

/// The bar, and messages above it.
pub struct BarView {
    human: Human,
    title: String,
    meter: Meter,
    stall: StallWatch,
    started: Instant,
    /// The bar, after the first figures: before, ssh may ask for a password.
    drawn: Option<ProgressBar>,
}

impl BarView {
    /// A bar with a leading `title`.
    pub fn new(human: Human, title: &str) -> Self {
        let (meter, stall) = Default::default();
        Self { human, title: title.to_owned(), meter, stall, started: Instant::now(), drawn: None }
    }

    fn draw(&mut self, progress: &Progress) {
        let now = self.started.elapsed();
        let stalled = self.stall.update(now, progress);
        let pace = Pace { stalled, ..self.meter.update(now, progress.moved()) };
        if terminal::in_foreground() {
            let line = progress_line::with_bar(&self.title, progress, pace, terminal::stderr_columns());
            self.drawn.get_or_insert_with(new_bar).set_message(line);
        }
    }

    /// Restarts the measurement: each connection starts new counters.
    fn restart(&mut self) {
        (self.started, self.meter, self.stall) = (Instant::now(), Meter::default(), StallWatch::default());
    }

    /// Removes the line: its figures are outdated, and ssh may ask for a password again.
    pub fn clear(&mut self) {
        if let Some(drawn) = self.drawn.take() {
            if !terminal::in_foreground() {
                drawn.set_draw_target(ProgressDrawTarget::hidden());
            }
            drawn.finish_and_clear();
        }
    }

    /// Prints messages above the bar.
    fn print_above(&mut self, words: impl FnOnce(&mut Human)) {
        match &self.drawn {
            Some(drawn) if terminal::in_foreground() => drawn.suspend(|| words(&mut self.human)),
            _ => words(&mut self.human),
        }
    }
}

/// A bar redrawn with each message, so that figures and bar match. The message is cut beforehand: indicatif would count
/// characters, not columns.
fn new_bar() -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
    if let Ok(style) = ProgressStyle::with_template("{msg}") {
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
                self.restart();
                self.print_above(|human| human.event(event));
            }
            Event::Restarted { .. } => {
                self.clear();
                self.restart();
                self.human.event(event);
            }
            Event::Pause { .. } => {
                self.meter.forget();
                self.print_above(|human| human.event(event));
            }
            Event::Stopped(_) => self.human.event(event),
            _ if self.human.shows_event(event) => self.print_above(|human| human.event(event)),
            _ => {}
        }
    }
}

impl Show for BarView {
    fn complain(&mut self, message: &str) {
        self.print_above(|human| human.complain(message));
    }

    fn finish(&mut self, outcome: &Outcome) -> io::Result<()> {
        self.clear();
        self.human.finish(outcome)
    }
}
