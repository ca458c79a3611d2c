//! The report of one transfer: its result and progress.

use std::time::Duration;

use haul_base::copy::error::Outcome;
use haul_base::copy::event::SlowFile;
use haul_base::copy::summary::{Diagnosis, Summary};
use haul_proto::path::escape;
use serde_json::Value;

use super::chart::{Chart, ChartLine, ChartPoint, LINES_MAX, Marks, Span};
use super::document::{Document, DocumentBlock};
use super::series::{Met, Moved, Series};
use super::statistics::{Quartiles, distribution};
use super::table::Table;
use super::track::TrackSample;
use crate::output_form::Verbosity;
use crate::units::Quantity;
use crate::{json, parts, summary, units, verdict};

/// The data of a transfer's report.
pub struct Transfer<'a> {
    /// Sources and target as typed.
    pub what: &'a str,
    /// Its start time, as text.
    pub when: &'a str,
    /// Its time series.
    pub series: &'a Series,
    /// Its result.
    pub outcome: &'a Outcome,
    /// Its failures, one per line.
    pub failures: &'a [String],
}

/// The report.
pub fn document(transfer: &Transfer<'_>) -> Document {
    let mut document =
        Document { title: format!("haul: {}", transfer.what), about: transfer.when.to_owned(), ..Document::default() };
    document.part("Result", result(transfer.outcome));
    document.part("Failed", failed(transfer.failures));
    document.part("Rate", rate(transfer.series));
    document.part("Bottleneck", limits(transfer.series));
    document.part("Parts of the path", path_parts(transfer.outcome));
    document.part("Connections", connections(transfer.series));
    document.part("Slowest files", slowest(transfer.outcome));
    document.part("All figures", figures(transfer.outcome));
    document
}

fn result(outcome: &Outcome) -> Vec<DocumentBlock> {
    match outcome {
        Ok(result) => {
            let facts = summary::facts(result, Verbosity::Path);
            let rows = facts.into_iter().map(|(label, text)| vec![label.to_owned(), text]).collect();
            vec![
                DocumentBlock::Text(summary::headline(result)),
                DocumentBlock::Table(Table { columns: Vec::new(), rows }),
            ]
        }
        Err(error) => {
            let text = error.to_string();
            let lines = text.lines().map(str::to_owned).collect();
            vec![DocumentBlock::Text("Incomplete: ".to_owned()), DocumentBlock::List(lines)]
        }
    }
}

fn failed(failures: &[String]) -> Vec<DocumentBlock> {
    if failures.is_empty() { Vec::new() } else { vec![DocumentBlock::List(failures.to_vec())] }
}

/// The rate over time, and its distribution.
fn rate(series: &Series) -> Vec<DocumentBlock> {
    let begun = series.first_stream_time().unwrap_or_default();
    let moved = series.moved();
    let rate = |sample: &TrackSample<Moved>| sample.a_second(sample.figures.bytes);
    let rates: Vec<f64> = moved.iter().filter(|sample| sample.from >= begun).map(rate).collect();
    let Some(quartiles) = Quartiles::of(&rates) else { return Vec::new() };
    let streams = moved.iter().map(|sample| ChartPoint::new(sample.middle(), sample.figures.streams.into())).collect();
    vec![
        DocumentBlock::Text(quartiles.sentence(Quantity::Rate, "time")),
        DocumentBlock::Chart(Chart {
            happened: happened(series),
            ..over_time("Rate over time", (Quantity::Rate, "rate"), rates_over_time(moved, begun).into())
        }),
        DocumentBlock::Chart(Chart {
            x: (Quantity::Rate, "rate"),
            ..over_time(
                "Rates by share of the time",
                (Quantity::Share, "share of the time"),
                vec![ChartLine::new("all streams", distribution(&rates))],
            )
        }),
        DocumentBlock::Chart(over_time(
            "Streams in use",
            (Quantity::Count, "streams"),
            vec![ChartLine::new("streams", streams)],
        )),
    ]
}

/// The rate within each sample, and the mean since `begun`.
pub fn rates_over_time(moved: &[TrackSample<Moved>], begun: Duration) -> [ChartLine; 2] {
    let within = moved.iter().map(|sample| ChartPoint::new(sample.middle(), sample.a_second(sample.figures.bytes)));
    let mut bytes = 0u64;
    let mean = moved.iter().filter(|sample| sample.to > begun).map(|sample| {
        bytes = bytes.saturating_add(sample.figures.bytes);
        ChartPoint::new(sample.middle(), units::bytes_per_s(bytes, sample.to - begun))
    });
    [
        ChartLine::new("at the time (incremental)", within.collect()),
        ChartLine::new("mean so far (cumulative)", mean.collect()),
    ]
}

/// Bytes, retransmissions and RTT of each connection; empty without any.
fn connections(series: &Series) -> Vec<DocumentBlock> {
    let met: Vec<_> = series.met().iter().filter(|sample| sample.figures.sockets.segments > 0).collect();
    if met.is_empty() {
        return Vec::new();
    }
    let points = |figure: &dyn Fn(&TrackSample<Met>) -> Option<f64>| {
        met.iter().filter_map(|sample| Some(ChartPoint::new(sample.middle(), figure(sample)?))).collect::<Vec<_>>()
    };
    let trips = points(&|sample| sample.figures.round_trip());
    let shortest = points(&|sample| {
        let sockets = &sample.figures.sockets;
        (sockets.looks > 0).then(|| sockets.rtt_min_us as f64 / sockets.looks as f64 / 1e6)
    });
    let resent = points(&|sample| Some(sample.a_second(sample.figures.sockets.retransmitted)));
    vec![
        DocumentBlock::Chart(over_time("Rate of each stream", (Quantity::Rate, "rate"), by_stream(series))),
        DocumentBlock::Chart(over_time(
            "Round trips",
            (Quantity::RoundTrip, "round trip"),
            vec![ChartLine::new("while carrying data", trips), ChartLine::new("the kernel's minimum", shortest)],
        )),
        DocumentBlock::Chart(over_time(
            "Retransmitted segments",
            (Quantity::Count, "segments a second"),
            vec![ChartLine::new("retransmitted", resent)],
        )),
    ]
}

/// A line for each stream; for too many streams, the minimum, median and maximum.
fn by_stream(series: &Series) -> Vec<ChartLine> {
    let count = series.streams().len();
    let carrying = || series.met().iter().filter(|sample| sample.figures.sockets.acknowledged_bytes > 0);
    if count <= LINES_MAX {
        let rate = |at: usize| {
            let figure = |sample: &TrackSample<Met>| {
                Some(ChartPoint::new(sample.middle(), sample.a_second(*sample.figures.bytes.get(at)?)))
            };
            carrying().filter_map(figure).collect()
        };
        let mut streams: Vec<_> = series.streams().iter().copied().zip(0..).collect();
        streams.sort_unstable();
        return streams.into_iter().map(|(stream, at)| ChartLine::new(format!("stream {stream}"), rate(at))).collect();
    }
    let part = |figure: fn(&Quartiles) -> f64| {
        let point = |sample: &TrackSample<Met>| {
            let rates: Vec<_> =
                sample.figures.bytes.iter().filter(|bytes| **bytes > 0).map(|bytes| sample.a_second(*bytes)).collect();
            Some(ChartPoint::new(sample.middle(), figure(&Quartiles::of(&rates)?)))
        };
        carrying().filter_map(point).collect()
    };
    vec![
        ChartLine::new("the slowest stream", part(|rates| rates.least)),
        ChartLine::new("the median", part(|rates| rates.median)),
        ChartLine::new("the fastest", part(|rates| rates.most)),
    ]
}

/// The bottlenecks of the transfer over time.
fn limits(series: &Series) -> Vec<DocumentBlock> {
    let mut spans: Vec<Span> = Vec::new();
    for sample in series.moved() {
        let Some(limit) = sample.figures.limit else { continue };
        let (name, from, to) = (verdict::words(limit), sample.from.as_secs_f64(), sample.to.as_secs_f64());
        match spans.last_mut() {
            Some(last) if last.name == name && (from - last.to).abs() < 1e-9 => last.to = to,
            _ => spans.push(Span { name: name.to_owned(), from, to }),
        }
    }
    if spans.is_empty() {
        return Vec::new();
    }
    let title = "Bottleneck over the last seconds of each moment";
    let chart = over_time(title, (Quantity::Count, "limited by"), Vec::new());
    vec![DocumentBlock::Chart(Chart { marks: Marks::Spans(spans), happened: happened(series), ..chart })]
}

/// The utilisation of disks, CPUs and the network.
fn path_parts(outcome: &Outcome) -> Vec<DocumentBlock> {
    let rows: Vec<_> = outcome.iter().flat_map(parts::rows).map(Vec::from).collect();
    if rows.is_empty() {
        return Vec::new();
    }
    let about = "Bound: the rate at which the part would always hold up this copy. Other programs: their CPU time";
    vec![DocumentBlock::Text(about.into()), DocumentBlock::Table(Table { rows, ..Table::new(&parts::COLUMNS) })]
}

fn over_time(title: &str, y: (Quantity, &'static str), lines: Vec<ChartLine>) -> Chart {
    let x = (Quantity::Time, "time since the command began");
    Chart { title: title.to_owned(), x, y, marks: Marks::Lines(lines), happened: Vec::new() }
}

fn happened(series: &Series) -> Vec<(f64, String)> {
    series.happened().iter().map(|(at, what)| (at.as_secs_f64(), what.clone())).collect()
}

/// The slowest files.
fn slowest(outcome: &Outcome) -> Vec<DocumentBlock> {
    let Ok(Summary { diagnosis: Diagnosis { slowest, .. }, .. }) = outcome else { return Vec::new() };
    if slowest.is_empty() {
        return Vec::new();
    }
    let mut table = Table::new(&["file", "size", "time", "rate"]);
    table.rows.extend(slowest.iter().map(|SlowFile { path, size, took_us }| {
        let took = Duration::from_micros(*took_us);
        vec![escape(path), units::size(*size), units::duration(took), units::rate(units::bytes_per_s(*size, took))]
    }));
    vec![DocumentBlock::Text("From the first byte written to the final name".into()), DocumentBlock::Table(table)]
}

/// All figures of the last line of `--json`.
fn figures(outcome: &Outcome) -> Vec<DocumentBlock> {
    let mut table = Table::new(&["field", "value"]);
    flatten("", &json::last(outcome), &mut table.rows);
    vec![DocumentBlock::Folded("as in --json; see docs/JSON.md".into(), table)]
}

fn flatten(name: &str, value: &Value, rows: &mut Vec<Vec<String>>) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                let name = if name.is_empty() { key.clone() } else { format!("{name}.{key}") };
                flatten(&name, value, rows);
            }
        }
        Value::Array(values) => {
            values.iter().enumerate().for_each(|(at, value)| flatten(&format!("{name}[{at}]"), value, rows))
        }
        Value::String(text) => rows.push(vec![name.to_owned(), text.clone()]),
        value => rows.push(vec![name.to_owned(), value.to_string()]),
    }
}

#[cfg(test)]
mod tests {
    use haul_base::copy::error::Error;

    use super::super::{html, markdown, series};
    use super::*;
    use crate::testing::example;

    fn made(outcome: &Outcome) -> Document {
        let series = series::tests::steady(10);
        let failures = ["db1: a<b: permission denied".to_owned()];
        document(&Transfer {
            what: "run7 to db1:/archive",
            when: "today",
            series: &series,
            outcome,
            failures: &failures,
        })
    }

    #[test]
    fn a_transfer_has_its_summary_charts_and_all_figures() {
        let page = html::page(&made(&Ok(example())));
        assert_eq!(page.matches("<svg class=\"chart\"").count(), 7);
        for expected in [
            "<h2>Result</h2>",
            "<td>connection</td>",
            "half of the time from 10.0 MB/s to 10.0 MB/s",
            "source_cpu_s",
            "<td>run7/big.db</td><td>4.29 GB</td><td>3.70 s</td><td>1.16 GB/s</td>",
            "target disk: 3.60 s to 10.0 s",
            "stream 7",
            "80.00 ms",
            "a&lt;b",
        ] {
            assert!(page.contains(expected), "{expected}: {page}");
        }
        let text = markdown::page(&made(&Ok(example())));
        assert!(text.contains("### Rate over time") && text.contains("`█"), "{text}");
    }

    #[test]
    fn the_mean_so_far_counts_from_the_first_stream() {
        let series = series::tests::steady(10);
        let begun = series.moved()[3].to;
        let [within, mean] = rates_over_time(series.moved(), begun);
        assert_eq!(within.points.len(), mean.points.len() + 4);
        assert!(mean.points.iter().all(|point| (point.y - 1e7).abs() < 1.0), "{mean:?}");
    }

    #[test]
    fn a_failed_copy_reports_its_data() {
        let page = html::page(&made(&Err(Error::Broken("lost the connection to db1\nrerun it".into()))));
        assert!(page.contains("Incomplete:") && page.contains("<li>rerun it</li>"), "{page}");
        assert!(page.contains("Rate over time") && page.contains("<td>error</td>"));
    }
}
