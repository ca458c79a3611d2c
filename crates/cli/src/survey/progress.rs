//! The progress of a survey on one line of a terminal, erased at the end.

use std::io::Write;
use std::time::{Duration, Instant};

use haul_inspect::survey::{SurveyProgress, SurveyStage};
use haul_show::units::{files, size};

/// Interval between updates.
const EVERY: Duration = Duration::from_millis(200);
/// Erases the line (ECMA-48, EL).
const RUB_OUT: &str = "\r\x1b[K";

/// The line.
pub struct ProgressLine<W: Write> {
    /// The terminal, if any.
    out: Option<W>,
    due: Instant,
    is_there: bool,
}

impl<W: Write> ProgressLine<W> {
    /// Writes to `out`.
    pub fn new(out: Option<W>) -> Self {
        Self { out, due: Instant::now() + EVERY, is_there: false }
    }

    /// Shows progress, at intervals.
    pub fn show(&mut self, progress: SurveyProgress) {
        if self.out.is_some() && Instant::now() >= self.due {
            self.due = Instant::now() + EVERY;
            self.is_there = true;
            self.write(&format!("{RUB_OUT}{}", words(progress)));
        }
    }

    /// Erases the line.
    pub fn end(&mut self) {
        if std::mem::take(&mut self.is_there) {
            self.write(RUB_OUT);
        }
    }

    /// Errors of a closed terminal are ignored.
    fn write(&mut self, text: &str) {
        if let Some(out) = &mut self.out {
            let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
        }
    }
}

fn words(SurveyProgress { stage, files: found, bytes }: SurveyProgress) -> String {
    match stage {
        SurveyStage::Walking => format!("{}, {} found", files(found), size(bytes)),
        SurveyStage::Sampling => format!("{} found; compressing a sample: {}", files(found), size(bytes)),
        SurveyStage::Comparing => {
            format!("{} found; comparing files of equal size: {} read", files(found), size(bytes))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_written_now_and_then_and_rubbed_out() {
        let mut out = Vec::new();
        let mut line = ProgressLine::new(Some(&mut out));
        let progress = SurveyProgress { stage: SurveyStage::Walking, files: 2, bytes: 5_000_000 };
        line.show(progress);
        line.due = Instant::now();
        line.show(progress);
        line.end();
        line.end();
        assert_eq!(String::from_utf8(out).unwrap(), "\r\x1b[K2 files, 5.00 MB found\r\x1b[K");
    }
}
