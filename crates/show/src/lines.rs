//! haul's progress line at intervals (`--progress`), for logs and simple terminals.

use std::io;
use std::time::{Duration, Instant};

use haul_base::copy::error::Outcome;
use haul_base::copy::event::{Event, Observer, Progress};

use crate::human::Human;
use crate::meter::{IntervalMeter, StallWatch};
use crate::progress_line::Pace;
use crate::text::TextOutput;
use crate::{Show, progress_line};

/// Progress lines with messages among them.
pub struct ProgressLines {
    human: Human,
    text: TextOutput,
    name: String,
    /// The available columns; `None` for no limit.
    columns: fn() -> Option<usize>,
    started: Instant,
    meter: IntervalMeter,
    stall: StallWatch,
}

impl ProgressLines {
    /// Writes lines to `text`, each with a leading `name`.
    pub fn new(human: Human, text: TextOutput, name: &str, columns: fn() -> Option<usize>) -> Self {
        let (meter, stall) = Default::default();
        Self { human, text, name: name.to_owned(), columns, started: Instant::now(), meter, stall }
    }

    fn progress(&mut self, now: Duration, progress: &Progress) {
        let stalled = self.stall.update(now, progress);
        let pace = Pace { stalled, ..self.meter.update(now, progress) };
        let columns = (self.columns)().unwrap_or(usize::from(u16::MAX));
        self.text.plain(&progress_line::without_bar(&self.name, progress, pace, columns));
    }
}

impl Observer for ProgressLines {
    fn event(&mut self, event: &Event) {
        if matches!(event, Event::Connected { .. }) {
            (self.started, self.meter, self.stall) = (Instant::now(), IntervalMeter::default(), StallWatch::default());
        }
        self.human.event(event);
        if let Event::Progress(progress) = event {
            self.progress(self.started.elapsed(), progress);
        }
    }
}

impl Show for ProgressLines {
    fn complain(&mut self, message: &str) {
        self.human.complain(message);
    }

    fn finish(&mut self, outcome: &Outcome) -> io::Result<()> {
        self.human.finish(outcome)
    }
}

#[cfg(test)]
mod tests {
    use super::super::human::Verbosity;
    use super::*;
    use crate::testing::Paper;

    #[test]
    fn the_last_line_has_the_average() {
        let paper = Paper::default();
        let text = || TextOutput::new(Box::new(paper.clone()), false);
        let mut lines = ProgressLines::new(Human::new(text(), Verbosity::Normal), text(), "big100.bin", || None);
        for (ms, bytes) in [(1000, 20_000_000), (2000, 39_800_000), (2001, 104_900_000)] {
            let progress = Progress {
                files_found: 1,
                bytes_found: 104_900_000,
                walk_complete: true,
                bytes_written: bytes,
                ..Progress::default()
            };
            lines.progress(Duration::from_millis(ms), &progress);
        }
        insta::assert_snapshot!(paper.text(), @r"
            big100.bin  19 %  20.0 of 104.9 MB  20.0 MB/s  5 s left
            big100.bin  37 %  39.8 of 104.9 MB  19.8 MB/s  4 s left
            big100.bin  100 %  104.9 of 104.9 MB  52.4 MB/s
            ");
    }
}
