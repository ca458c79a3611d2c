//! bbcp's lines (`-P`), letter for letter, for scripts that read them. Its rates count in powers of 1024.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use haul_engine::job::error::Outcome;
use haul_engine::job::event::{Event, Observer, Progress};
use haul_proto::path::escape;

use super::Show;
use super::human::Human;
use super::meter::IntervalMeter;
use crate::text::TextOutput;
use crate::units::{bytes_per_s, percent};

/// Which messages are shown.
#[derive(Debug, Clone, Copy)]
pub struct Style {
    /// How far it is.
    pub progress: bool,
    /// Beside the rate, also the average since the start.
    pub average: bool,
    /// Each complete file, and in the end all of them.
    pub ends: bool,
}

/// bbcp's lines, and haul's own words between them.
pub struct Lines {
    human: Human,
    text: TextOutput,
    style: Style,
    target: PathBuf,
    started: Instant,
    meter: IntervalMeter,
    moved: u64,
}

impl Lines {
    /// Lines on `text`, about what goes to `target`.
    pub fn new(human: Human, text: TextOutput, style: Style, target: &Path) -> Self {
        Self {
            human,
            text,
            style,
            target: target.to_owned(),
            started: Instant::now(),
            meter: IntervalMeter::default(),
            moved: 0,
        }
    }

    fn progress(&mut self, progress: &Progress) {
        let now = self.started.elapsed();
        let current = self.meter.update(now, progress).bytes_per_s.unwrap_or_default();
        self.moved = progress.moved();
        let average = self.style.average.then(|| bytes_per_s(self.moved, now));
        let done = progress.done();
        let stamp = jiff::Zoned::now().strftime("%y%m%d %H:%M:%S").to_string();
        self.text.plain(&progress_line(&stamp, percent(done, progress.bytes_found), current, average));
    }
}

impl Observer for Lines {
    fn event(&mut self, event: &Event) {
        match event {
            Event::Connected { .. } => {
                (self.started, self.meter) = (Instant::now(), IntervalMeter::default());
                self.human.event(event);
            }
            Event::Progress(progress) if self.style.progress => self.progress(progress),
            Event::FileDone { path, size, copied: true, .. } if self.style.ends => {
                let rate = bytes_per_s(self.moved.max(*size), self.started.elapsed());
                let path = escape(whole_path(&self.target, path).as_os_str().as_bytes());
                self.text.plain(&format!("File {path} created; {size} bytes at {}", binary_rate(rate)));
            }
            Event::Progress(_) | Event::FileDone { .. } => {}
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
            && self.style.ends
            && summary.files_copied > 0
        {
            let files = if summary.files_copied == 1 { "file" } else { "files" };
            let rate = binary_rate(bytes_per_s(summary.bytes, summary.elapsed));
            self.text.plain(&format!("{} {files} copied at effectively {rate}", summary.files_copied));
        }
        if outcome.is_err() { self.human.finish(outcome) } else { Ok(()) }
    }
}

/// Where a file is: bbcp says the whole path. A file that got the target's own name is the target.
fn whole_path(target: &Path, relative: &[u8]) -> PathBuf {
    let relative = Path::new(OsStr::from_bytes(relative));
    if target.file_name() == Some(relative.as_os_str()) { target.to_owned() } else { target.join(relative) }
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
    use super::super::human::{Human, Verbosity};
    use super::super::summary::tests::example;
    use super::*;
    use crate::text::tests::Paper;

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
    fn the_whole_path_is_named() {
        let whole = |target: &str, relative: &str| whole_path(Path::new(target), relative.as_bytes());
        assert_eq!(whole("/home/u/", "file.256m"), Path::new("/home/u/file.256m"));
        assert_eq!(whole("test.file", "test.file"), Path::new("test.file"));
        assert_eq!(whole(".", "F"), Path::new("./F"));
        assert_eq!(whole("/archive/copy", "a/copy"), Path::new("/archive/copy/a/copy"));
    }

    #[test]
    fn a_whole_run() {
        let paper = Paper::default();
        let text = || TextOutput::new(Box::new(paper.clone()), false);
        let style = Style { progress: true, average: false, ends: true };
        let mut lines = Lines::new(Human::new(text(), Verbosity::Normal), text(), style, Path::new("/archive"));
        every_event().iter().for_each(|event| lines.event(event));
        lines.finish(&Ok(example())).unwrap();
        let shown = paper.text();
        let stamp_and_rate = shown.lines().find(|line| line.starts_with("bbcp: ")).unwrap();
        let fields: Vec<_> = stamp_and_rate.split(' ').collect();
        assert_eq!((fields[1].len(), fields[2].len(), fields[3], fields[4]), (6, 8, "", "61%"), "{stamp_and_rate}");
        assert!(shown.contains("\nFile /archive/run7/a created; 5 bytes at "), "{shown}");
        assert!(!shown.contains("\\xff"), "what was there already is not created: {shown}");
        assert!(shown.contains("\n12408 files copied at effectively 1.1 GB/s\n"), "{shown}");
        assert!(!shown.contains("every byte verified"), "one summary: {shown}");
    }

    #[test]
    fn under_bbcps_name_there_is_nothing_but_what_bbcp_says() {
        let shown = |style, outcome: &Outcome| {
            let paper = Paper::default();
            let text = || TextOutput::new(Box::new(paper.clone()), false).called("bbcp");
            let mut lines = Lines::new(Human::new(text(), Verbosity::Errors), text(), style, Path::new("there/a"));
            every_event().iter().for_each(|event| lines.event(event));
            lines.finish(outcome).unwrap();
            paper.text()
        };
        let silent = Style { progress: false, average: false, ends: false };
        assert_eq!(shown(silent, &Ok(example())), "bbcp: db1: run7/b: no space left\n      hint: free some\n");
        let wordy = shown(Style { ends: true, ..silent }, &Ok(example()));
        assert!(wordy.ends_with("\n12408 files copied at effectively 1.1 GB/s\n"), "{wordy}");
        let error = haul_engine::job::error::Error::Connect("db1: no".into());
        assert!(shown(silent, &Err(error)).ends_with("bbcp: db1: no\n"));
    }
}
