//! `haul report`: several copies or measurements of `haul net` in one chart, from their output of `--json`.

use std::io::{self, BufRead, Read};
use std::time::Duration;

use serde_json::Value;

use super::chart::{Chart, ChartBar, ChartLine, Marks};
use super::document::{Document, DocumentBlock};
use super::series::Moved;
use super::statistics::{Quartiles, distribution};
use super::table::Table;
use super::track::Track;
use super::transfer::rates_over_time;
use crate::units;
use crate::units::Quantity;

/// Longest line of an event.
const LINE_MAX: u64 = 1 << 20;

/// A copy, by its events.
#[derive(Debug)]
pub struct RecordedCopy {
    name: String,
    begun: Duration,
    moved: Track<Moved>,
    /// Its last line: `summary`, `net` or `error`. `None` if haul was killed.
    last: Option<Value>,
}

impl RecordedCopy {
    /// Reads the events of a copy.
    ///
    /// # Errors
    /// Those of `from`; [`io::ErrorKind::InvalidData`] where there is no progress.
    pub fn read(name: String, mut from: impl BufRead) -> io::Result<Self> {
        let mut copy = Self { name, begun: Duration::ZERO, moved: Track::default(), last: None };
        let (mut line, mut before, mut is_progress) = (Vec::new(), 0, false);
        let mut interval_end = Duration::ZERO;
        while from.by_ref().take(LINE_MAX).read_until(b'\n', &mut line)? > 0 {
            let event: Value = serde_json::from_slice(&line).map_err(|_| unreadable("not events of haul --json"))?;
            line.clear();
            let [seconds, end] = ["seconds", "end_s"].map(|field| time(&event[field]));
            match (event["event"].as_str(), seconds) {
                (Some("connected"), Some(now)) => {
                    copy.begun = now;
                    copy.moved.close(now);
                }
                (Some("progress"), Some(now)) => {
                    let written = event["bytes_written"].as_u64().unwrap_or_default();
                    let bytes = written.saturating_sub(before);
                    copy.moved.record(now, Moved { bytes, ..Moved::default() }, bytes > 0);
                    (before, is_progress) = (written, true);
                }
                (Some("net_interval"), _) if let Some(now) = end => {
                    let rate = event["bytes_per_s"].as_f64().unwrap_or_default();
                    let bytes = bytes_in(rate, now.saturating_sub(interval_end));
                    copy.moved.record(now, Moved { bytes, ..Moved::default() }, true);
                    (interval_end, is_progress) = (now, true);
                }
                // Each attempt counts from zero.
                (Some("again"), _) => before = 0,
                (Some("summary" | "net" | "error"), _) => copy.last = Some(event),
                _ => {}
            }
        }
        copy.moved.end();
        if is_progress { Ok(copy) } else { Err(unreadable("no progress in it")) }
    }

    fn rates(&self) -> Vec<f64> {
        let samples = self.moved.samples().iter().filter(|sample| sample.from >= self.begun);
        samples.map(|sample| sample.a_second(sample.figures.bytes)).collect()
    }

    /// The cells of its row.
    fn row(&self) -> Vec<String> {
        let last = self.last.as_ref().unwrap_or(&Value::Null);
        let quartiles = Quartiles::of(&self.rates());
        let rate = |figure: fn(&Quartiles) -> f64| quartiles.as_ref().map(|rates| units::rate(figure(rates)));
        let result = match last["event"].as_str() {
            Some("summary") => last["verdict"]["limit"].as_str().unwrap_or_default(),
            Some("net") => last["limited_by"].as_str().unwrap_or_default(),
            Some("error") => last["message"].as_str().and_then(|text| text.lines().next()).unwrap_or_default(),
            _ => "no last line: killed",
        };
        let cells = [
            Some(self.name.clone()),
            last["bytes"].as_u64().map(units::size),
            time(&last["seconds"]).map(units::duration),
            last["bytes_per_s"].as_f64().map(units::rate),
            rate(|rates| rates.first),
            rate(|rates| rates.median),
            rate(|rates| rates.third),
            last["streams"].as_u64().map(units::count),
            last["path"]["retransmitted"].as_u64().or_else(|| last["retransmitted"].as_u64()).map(units::count),
            Some(result.to_owned()),
        ];
        cells.map(|cell| cell.unwrap_or_else(|| "-".to_owned())).into()
    }
}

fn time(seconds: &Value) -> Option<Duration> {
    Duration::try_from_secs_f64(seconds.as_f64()?).ok()
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a float becomes the nearest number")]
fn bytes_in(bytes_per_s: f64, time: Duration) -> u64 {
    (bytes_per_s * time.as_secs_f64()).round() as u64
}

fn unreadable(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

/// The report.
pub fn document(copies: &[RecordedCopy]) -> Document {
    let mut document = Document {
        title: format!("haul report: {}", units::counted(copies.len() as u64, "copy", "copies")),
        about: copies.iter().map(|copy| copy.name.as_str()).collect::<Vec<_>>().join(", "),
        ..Document::default()
    };
    let mut table = Table::new(&[
        "copy",
        "bytes",
        "time",
        "rate",
        "a quarter below",
        "median",
        "a quarter above",
        "streams",
        "retransmitted",
        "limited by",
    ]);
    table.rows.extend(copies.iter().map(RecordedCopy::row));
    document.part("Result", vec![DocumentBlock::Table(table)]);
    let lines = |at: usize| {
        copies.iter().map(move |copy| {
            let [within, mean] = rates_over_time(copy.moved.samples(), copy.begun);
            ChartLine { name: copy.name.clone(), ..if at == 0 { within } else { mean } }
        })
    };
    let time = (Quantity::Time, "time since the command began");
    let rate = (Quantity::Rate, "rate");
    let chart = |title: &str, x, y, marks| {
        DocumentBlock::Chart(Chart { title: title.to_owned(), x, y, marks, happened: Vec::new() })
    };
    let bar = |copy: &RecordedCopy| {
        let rates = Quartiles::of(&copy.rates())?;
        Some(ChartBar { name: copy.name.clone(), value: rates.median, spread: Some((rates.first, rates.third)) })
    };
    let shares = copies.iter().map(|copy| ChartLine::new(copy.name.clone(), distribution(&copy.rates())));
    document.part(
        "Rate",
        vec![
            chart("Rate over time (incremental)", time, rate, Marks::Lines(lines(0).collect())),
            chart("Mean rate so far (cumulative)", time, rate, Marks::Lines(lines(1).collect())),
            chart(
                "Median rate (bars: half of the time)",
                (Quantity::Count, "copy"),
                rate,
                Marks::Bars(copies.iter().filter_map(bar).collect()),
            ),
            chart(
                "Rates by share of the time",
                rate,
                (Quantity::Share, "share of the time"),
                Marks::Lines(shares.collect()),
            ),
        ],
    );
    document
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(bytes_a_second: u64) -> String {
        let mut text = "{\"event\":\"connected\",\"seconds\":1.0}\n".to_owned();
        for second in 2..=6 {
            let bytes = (second - 1) * bytes_a_second;
            text.push_str(&format!("{{\"event\":\"progress\",\"seconds\":{second},\"bytes_written\":{bytes}}}\n"));
        }
        text + "{\"event\":\"summary\",\"bytes\":50000000,\"seconds\":6.0,\"bytes_per_s\":8e6,\"streams\":4}\n"
    }

    fn read(text: &str) -> io::Result<RecordedCopy> {
        RecordedCopy::read("<a>.json".to_owned(), text.as_bytes())
    }

    #[test]
    fn copies_are_lines_of_one_chart() {
        let copies = [read(&events(10_000_000)).unwrap(), read(&events(20_000_000)).unwrap()];
        assert_eq!(Quartiles::of(&copies[1].rates()).unwrap().median, 20e6);
        let document = document(&copies);
        let DocumentBlock::Chart(Chart { marks: Marks::Lines(lines), .. }) = &document.parts[1].blocks[1] else {
            panic!("a chart of lines")
        };
        assert!(lines.len() == 2 && lines[0].points.iter().all(|point| (point.y - 1e7).abs() < 1.0), "{lines:?}");
        let page = super::super::html::page(&document);
        assert!(page.matches("<svg class=\"chart\"").count() == 4 && !page.contains("<a>"), "{page}");
        assert_eq!(copies[0].row()[..4], ["<a>.json", "50.0 MB", "6.00 s", "8.00 MB/s"]);
    }

    #[test]
    fn a_new_attempt_counts_from_zero_and_a_killed_copy_has_no_result() {
        let text = "{\"event\":\"progress\",\"seconds\":1,\"bytes_written\":5}\n{\"event\":\"again\"}\n\
                    {\"event\":\"progress\",\"seconds\":2,\"bytes_written\":7}\n";
        let copy = read(text).unwrap();
        assert_eq!(copy.moved.samples().iter().map(|sample| sample.figures.bytes).sum::<u64>(), 12);
        assert_eq!(copy.row().last().unwrap(), "no last line: killed");
    }

    #[test]
    fn measurements_of_the_network_are_lines_too() {
        let interval = |end: f64, rate: f64| {
            format!("{{\"event\":\"net_interval\",\"end_s\":{end},\"bytes_per_s\":{rate},\"streams\":2}}\n")
        };
        let last = "{\"event\":\"net\",\"bytes\":30,\"seconds\":3,\"bytes_per_s\":10,\"streams\":2,\
                    \"retransmitted\":7,\"limited_by\":\"link\"}\n";
        let net =
            read(&["{\"event\":\"connected\"}\n", &interval(1.0, 8e6), &interval(3.0, 2e6), last].concat()).unwrap();
        assert_eq!(net.rates(), [8e6, 2e6]);
        assert_eq!(net.row()[7..], ["2", "7", "link"]);
        assert!(read(&interval(-1.0, 8e6)).is_err());
    }

    #[test]
    fn a_foreign_file_is_refused() {
        for text in ["", "{}\n", "hello\n", "[1]\n", "\"event\"\n", &format!("\"{}\"", "x".repeat(2 << 20))] {
            assert_eq!(read(text).unwrap_err().kind(), io::ErrorKind::InvalidData);
        }
        let odd = "{\"event\":\"progress\",\"seconds\":-1}\n{\"event\":\"progress\",\"seconds\":1e300}\n";
        assert!(read(odd).is_err(), "no time is before the start");
    }
}
