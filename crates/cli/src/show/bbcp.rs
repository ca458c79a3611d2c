//! bbcp's lines (`-P`), letter for letter, for scripts that read them. Its rates count in powers of 1024.

use std::io;
use std::time::{Duration, Instant};

use haul_engine::error::Outcome;
use haul_engine::event::{Event, Observer, Progress};
use haul_proto::path::escape;

use super::Show;
use super::human::Human;
use super::text::Text;
use super::units::{bytes_per_s, percent};

/// bbcp's lines, and haul's own words between them.
pub struct Lines {
    human: Human,
    text: Text,
    average: bool,
    started: Instant,
    last: (Duration, u64),
}

impl Lines {
    /// Lines on `text`; with the average since the start if `average`.
    pub fn new(human: Human, text: Text, average: bool) -> Self {
        Self { human, text, average, started: Instant::now(), last: (Duration::ZERO, 0) }
    }

    fn progress(&mut self, progress: &Progress) {
        let now = self.started.elapsed();
        let moved = progress.bytes_written.saturating_add(progress.bytes_compared);
        let (then, before) = std::mem::replace(&mut self.last, (now, moved));
        let current = bytes_per_s(moved.saturating_sub(before), now.saturating_sub(then));
        let average = self.average.then(|| bytes_per_s(moved, now));
        let done = moved.saturating_add(progress.bytes_skipped);
        let stamp = jiff::Zoned::now().strftime("%y%m%d %H:%M:%S").to_string();
        self.text.plain(&progress_line(&stamp, percent(done, progress.bytes_found), current, average));
    }
}

impl Observer for Lines {
    fn event(&mut self, event: &Event) {
        match event {
            Event::Connected { .. } => {
                self.started = Instant::now();
                self.human.event(event);
            }
            Event::Progress(progress) => self.progress(progress),
            Event::FileDone { path, size, digest: Some(_) } => {
                let rate = bytes_per_s(self.last.1.max(*size), self.started.elapsed());
                self.text.plain(&format!("File {} created; {size} bytes at {}", escape(path), binary_rate(rate)));
            }
            Event::FileDone { digest: None, .. } => {}
            other => self.human.event(other),
        }
    }
}

impl Show for Lines {
    fn complain(&mut self, message: &str) {
        self.human.complain(message);
    }

    fn finish(&mut self, outcome: &Outcome) -> io::Result<()> {
        if let Ok(summary) = outcome
            && summary.files_copied > 0
        {
            let files = if summary.files_copied == 1 { "file" } else { "files" };
            let rate = binary_rate(bytes_per_s(summary.bytes, summary.elapsed));
            self.text.plain(&format!("{} {files} copied at effectively {rate}", summary.files_copied));
        }
        self.human.finish(outcome)
    }
}

fn progress_line(stamp: &str, percent: u64, current: f64, average: Option<f64>) -> String {
    let average = average.map(|average| format!(", avg {}", binary_rate(average))).unwrap_or_default();
    format!("bbcp: {stamp}  {percent}% done; {}{average}", binary_rate(current))
}

/// `6.9 MB/s`, where a megabyte is 1,048,576 bytes.
fn binary_rate(bytes_per_s: f64) -> String {
    let mut value = bytes_per_s;
    let mut unit = "";
    for next in ["K", "M", "G", "T"] {
        if value < 1024.0 {
            break;
        }
        value /= 1024.0;
        unit = next;
    }
    format!("{value:.1} {unit}B/s")
}

#[cfg(test)]
mod tests {
    use super::super::human::tests::every_event;
    use super::super::human::{Human, Level};
    use super::super::summary::tests::example;
    use super::super::text::tests::Paper;
    use super::*;

    #[test]
    fn lines_have_bbcps_form() {
        assert_eq!(
            progress_line("140304 06:46:12", 1, 6.9 * 1024.0 * 1024.0, None),
            "bbcp: 140304 06:46:12  1% done; 6.9 MB/s"
        );
        assert_eq!(
            progress_line("140304 06:46:12", 1, 6.9 * 1024.0 * 1024.0, Some(7.5 * 1024.0 * 1024.0)),
            "bbcp: 140304 06:46:12  1% done; 6.9 MB/s, avg 7.5 MB/s"
        );
        assert_eq!(
            [0.0, 1023.0, 1024.0, 1.1e9, 1e20].map(binary_rate).join(" "),
            "0.0 B/s 1023.0 B/s 1.0 KB/s 1.0 GB/s 90949470.2 TB/s"
        );
    }

    #[test]
    fn a_whole_run() {
        let paper = Paper::default();
        let text = || Text::new(Box::new(paper.clone()), false);
        let mut lines = Lines::new(Human::new(text(), Level::Normal), text(), false);
        every_event().iter().for_each(|event| lines.event(event));
        lines.finish(&Ok(example())).unwrap();
        let shown = paper.text();
        let stamp_and_rate = shown.lines().find(|line| line.starts_with("bbcp: ")).unwrap();
        let fields: Vec<_> = stamp_and_rate.split(' ').collect();
        assert_eq!((fields[1].len(), fields[2].len(), fields[3], fields[4]), (6, 8, "", "61%"), "{stamp_and_rate}");
        assert!(shown.contains("\nFile run7/a created; 5 bytes at "), "{shown}");
        assert!(!shown.contains("\\xff"), "what was there already is not created: {shown}");
        assert!(shown.contains("\n12408 files copied at effectively 1.1 GB/s\n"), "{shown}");
    }
}
