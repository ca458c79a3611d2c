//! The report of one transfer: what came of it, and how it went.

use haul_engine::error::Outcome;
use serde_json::Value;

use super::chart::{Chart, Line, Marks, Point};
use super::document::{Block, Document, Table};
use super::scale::Quantity;
use super::series::Series;
use super::statistics::{Quartiles, distribution};
use crate::show::{json, summary};

/// What a report of a transfer is made from.
pub struct Transfer<'a> {
    /// What was copied to where, as the user named it.
    pub what: &'a str,
    /// When it began, for people.
    pub when: &'a str,
    /// How it went.
    pub series: &'a Series,
    /// What came of it.
    pub outcome: &'a Outcome,
    /// What failed, a line each.
    pub failures: &'a [String],
}

/// The report.
pub fn document(transfer: &Transfer<'_>) -> Document {
    let mut document =
        Document { title: format!("haul: {}", transfer.what), about: transfer.when.to_owned(), ..Document::default() };
    document.part("Result", result(transfer.outcome));
    document.part("Failed", failed(transfer.failures));
    document.part("Rate", rate(transfer.series));
    document.part("All figures", figures(transfer.outcome));
    document
}

fn result(outcome: &Outcome) -> Vec<Block> {
    match outcome {
        Ok(result) => {
            let facts = summary::facts(result, true);
            let rows = facts.into_iter().map(|(label, text)| vec![label.to_owned(), text]).collect();
            vec![Block::Text(summary::headline(result)), Block::Table(Table { columns: Vec::new(), rows })]
        }
        Err(error) => {
            let text = error.to_string();
            let lines = text.lines().map(str::to_owned).collect();
            vec![Block::Text("It did not run to its end:".to_owned()), Block::List(lines)]
        }
    }
}

fn failed(failures: &[String]) -> Vec<Block> {
    if failures.is_empty() { Vec::new() } else { vec![Block::List(failures.to_vec())] }
}

/// What was moved over time, and how often which rate was reached.
fn rate(series: &Series) -> Vec<Block> {
    let begun = series.begun().unwrap_or_default();
    let samples = series.samples();
    let points = samples.iter().map(|sample| Point::new(sample.middle(), sample.rate())).collect();
    let rates: Vec<f64> = samples
        .iter()
        .filter(|sample| sample.from >= begun && sample.seconds() > 0.0)
        .map(|sample| sample.rate())
        .collect();
    let Some(quartiles) = Quartiles::of(&rates) else { return Vec::new() };
    let time = (Quantity::Time, "time since the command began");
    let over_time = Chart {
        title: "Rate over time".into(),
        x: time,
        y: (Quantity::Rate, "rate"),
        marks: Marks::Lines(vec![Line::new("all streams", points)]),
        happened: happened(series),
    };
    let how_often = Chart {
        title: "How much of the time which rate was not exceeded".into(),
        x: (Quantity::Rate, "rate"),
        y: (Quantity::Share, "part of the time"),
        marks: Marks::Lines(vec![Line::new("all streams", distribution(&rates))]),
        happened: Vec::new(),
    };
    let streams = samples.iter().map(|sample| Point::new(sample.middle(), sample.streams.into())).collect();
    let streams = Chart {
        title: "Streams in use".into(),
        x: time,
        y: (Quantity::Count, "streams"),
        marks: Marks::Lines(vec![Line::new("streams", streams)]),
        happened: Vec::new(),
    };
    vec![
        Block::Text(quartiles.sentence(Quantity::Rate, "time")),
        Block::Chart(over_time),
        Block::Chart(how_often),
        Block::Chart(streams),
    ]
}

fn happened(series: &Series) -> Vec<(f64, String)> {
    series.happened().iter().map(|(at, what)| (at.as_secs_f64(), what.clone())).collect()
}

/// All that `--json` says in its last line.
fn figures(outcome: &Outcome) -> Vec<Block> {
    let mut table = Table::new(&["field", "value"]);
    flatten("", &json::last(outcome), &mut table.rows);
    vec![Block::Folded("as --json has them; docs/JSON.md says what they mean".into(), table)]
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
    use super::super::{html, markdown, series};
    use super::*;
    use haul_engine::error::Error;

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
        let page = html::page(&made(&Ok(summary::tests::example())));
        assert_eq!(page.matches("<svg class=\"chart\"").count(), 3);
        for said in [
            "<h2>Result</h2>",
            "<td>way</td>",
            "half of the time from 10.0 MB/s to 10.0 MB/s",
            "source_cpu_s",
            "a&lt;b",
        ] {
            assert!(page.contains(said), "{said}: {page}");
        }
        let text = markdown::page(&made(&Ok(summary::tests::example())));
        assert!(text.contains("### Rate over time") && text.contains("`█"), "{text}");
    }

    #[test]
    fn a_job_that_failed_has_a_report_of_what_there_was() {
        let page = html::page(&made(&Err(Error::Broken("db1: the connection was lost\nrun it again".into()))));
        assert!(page.contains("It did not run to its end") && page.contains("<li>run it again</li>"), "{page}");
        assert!(page.contains("Rate over time") && page.contains("<td>error</td>"));
    }
}
