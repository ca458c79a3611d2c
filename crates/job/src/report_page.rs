//! The report of a job of many hosts: its result, the rate of all hosts together, and the bottleneck of each.

use std::collections::BTreeMap;

use haul_base::copy::event::Bottleneck;
use haul_show::report::chart::{Chart, ChartLine, ChartPoint, Marks};
use haul_show::report::document::{Document, DocumentBlock};
use haul_show::report::table::Table;
use haul_show::text::harmless;
use haul_show::units::Quantity;
use haul_show::{units, verdict};

use crate::overview::{JobOverview, ShardState};
use crate::report::MergedReport;
use crate::shard_result::{ShardEnd, ShardResult};

/// Points of a line over time.
const SLICES: usize = 240;
/// Most unfinished shards listed by number.
const NAMED_MAX: usize = 200;

/// The data of a job's report.
pub struct ReportedJob<'a> {
    /// Sources and target.
    pub what: String,
    /// The time and host of its plan.
    pub when: String,
    /// Its merged figures, one per line.
    pub summary: &'a str,
    /// Its shards.
    pub overview: &'a JobOverview,
}

/// The report.
pub fn document(job: &ReportedJob<'_>) -> Document {
    let merged = MergedReport::of(job.overview);
    let results: Vec<_> = job.overview.shards.iter().filter_map(|(_, state)| ended(state)).collect();
    let mut document =
        Document { title: format!("haul job: {}", job.what), about: job.when.clone(), ..Document::default() };
    document.part("Result", vec![DocumentBlock::List(job.summary.lines().map(str::to_owned).collect())]);
    document.part("Shards that are not done", unfinished(job.overview));
    document.part("All hosts over time", over_time(&results));
    document.part("Hosts", hosts(&merged, &results));
    document.part("Slowest shards", slowest(&merged, &results));
    document
}

fn ended(state: &ShardState) -> Option<&ShardResult> {
    match state {
        ShardState::Ended(result) => Some(result),
        ShardState::Planned | ShardState::Running(_) => None,
    }
}

fn unfinished(overview: &JobOverview) -> Vec<DocumentBlock> {
    let missing: Vec<_> = overview.shards.iter().filter(|(_, state)| state.end() != Some(ShardEnd::Done)).collect();
    let line = |(number, state): (u32, &ShardState)| match state {
        ShardState::Planned => format!("shard {number}: planned"),
        ShardState::Running(holder) => format!("shard {number}: run by {}", harmless(&holder.shown())),
        ShardState::Ended(result) => {
            let why = result.message.lines().next().unwrap_or_default();
            let failed = if result.counts.failed > 0 {
                format!(", {} failed", units::files(result.counts.failed))
            } else {
                String::new()
            };
            format!("shard {number}: {} on {}{failed} {}", result.end.word(), harmless(&result.host), harmless(why))
        }
    };
    let mut lines: Vec<_> = missing
        .iter()
        .take(NAMED_MAX)
        .map(|(shard, state)| line((shard.number, state)).trim_end().to_owned())
        .collect();
    if missing.len() > NAMED_MAX {
        lines.push(format!("and {} more", units::count((missing.len() - NAMED_MAX) as u64)));
    }
    if lines.is_empty() { Vec::new() } else { vec![DocumentBlock::List(lines)] }
}

/// Slices of a job's time, with the sums of all shards.
struct Timeline {
    slice_s: f64,
    bytes: Vec<f64>,
    busy_s: Vec<f64>,
}

impl Timeline {
    /// Spreads the bytes of each shard evenly over its last run; `None` without time.
    fn of(results: &[&ShardResult]) -> Option<Self> {
        let begin = results.iter().map(|result| result.began).fold(f64::INFINITY, f64::min);
        let end = results.iter().map(|result| result.began + result.seconds).fold(f64::NEG_INFINITY, f64::max);
        let slice_s = Some((end - begin) / SLICES as f64).filter(|slice| slice.is_normal() && *slice > 0.0)?;
        let mut timeline = Self { slice_s, bytes: vec![0.0; SLICES], busy_s: vec![0.0; SLICES] };
        for result in results {
            let from = result.began - begin;
            timeline.add(from, from + result.seconds, result.counts.bytes as f64);
        }
        Some(timeline)
    }

    fn add(&mut self, from: f64, to: f64, bytes: f64) {
        let bytes_per_s = bytes / (to - from).max(f64::MIN_POSITIVE);
        for (at, (bytes, busy_s)) in self.bytes.iter_mut().zip(&mut self.busy_s).enumerate() {
            let begin = at as f64 * self.slice_s;
            let overlap_s = (to.min(begin + self.slice_s) - from.max(begin)).max(0.0);
            *bytes += overlap_s * bytes_per_s;
            *busy_s += overlap_s;
        }
    }

    /// A figure of each slice per second.
    fn line(&self, name: &str, sums: &[f64]) -> ChartLine {
        let point = |(at, sum): (usize, &f64)| ChartPoint::new((at as f64 + 0.5) * self.slice_s, sum / self.slice_s);
        ChartLine::new(name, sums.iter().enumerate().map(point).collect())
    }
}

fn over_time(results: &[&ShardResult]) -> Vec<DocumentBlock> {
    let Some(timeline) = Timeline::of(results) else { return Vec::new() };
    let chart = |title: &str, y, line| {
        let (title, x) = (title.to_owned(), (Quantity::Time, "time since the first shard began"));
        DocumentBlock::Chart(Chart { title, x, y, marks: Marks::Lines(vec![line]), happened: Vec::new() })
    };
    vec![
        DocumentBlock::Text("Sums of all shards, each with its mean rate during its last run".to_owned()),
        chart("Rate of all hosts together", (Quantity::Rate, "rate"), timeline.line("all hosts", &timeline.bytes)),
        chart("Shards at a time", (Quantity::Count, "shards"), timeline.line("shards", &timeline.busy_s)),
    ]
}

fn limit_text(limit: &str) -> String {
    let known = Bottleneck::ALL.into_iter().find(|known| known.id() == limit);
    known.map_or_else(|| harmless(limit), |known| verdict::words(known).to_owned())
}

/// The bottleneck in a shard's summary.
fn limit(result: &ShardResult) -> &str {
    result.summary["verdict"]["limit"].as_str().unwrap_or("unknown")
}

/// Returns the main bottleneck of each host, and its share of the time.
fn bottlenecks<'a>(results: &[&'a ShardResult]) -> BTreeMap<&'a str, (&'a str, f64)> {
    let mut seconds: BTreeMap<(&str, &str), f64> = BTreeMap::new();
    for result in results {
        *seconds.entry((&result.host, limit(result))).or_default() += result.seconds;
    }
    let mut hosts: BTreeMap<&str, (&str, f64, f64)> = BTreeMap::new();
    for ((host, limit), seconds) in seconds {
        let (longest, most, sum) = hosts.entry(host).or_insert((limit, 0.0, 0.0));
        *sum += seconds;
        if seconds > *most {
            (*longest, *most) = (limit, seconds);
        }
    }
    let share = |(host, (limit, most, sum))| (host, (limit, most / f64::max(sum, f64::MIN_POSITIVE)));
    hosts.into_iter().map(share).collect()
}

fn hosts(merged: &MergedReport, results: &[&ShardResult]) -> Vec<DocumentBlock> {
    let bottlenecks = bottlenecks(results);
    let mut table = Table::new(&["host", "shards", "bytes", "time in shards", "rate", "limited by", "for"]);
    table.rows.extend(merged.hosts.iter().map(|(host, totals)| {
        let (limit, share) = bottlenecks.get(host.as_str()).copied().unwrap_or(("unknown", 0.0));
        vec![
            harmless(host),
            units::count(totals.shards),
            units::size(totals.bytes),
            Quantity::Time.shown(totals.seconds),
            Quantity::Rate.shown(totals.bytes_per_s()),
            limit_text(limit),
            Quantity::Share.shown(share),
        ]
    }));
    if table.rows.is_empty() { Vec::new() } else { vec![DocumentBlock::Table(table)] }
}

fn slowest(merged: &MergedReport, results: &[&ShardResult]) -> Vec<DocumentBlock> {
    let by_number: BTreeMap<_, _> = results.iter().map(|result| (result.shard, result)).collect();
    let mut table = Table::new(&["shard", "host", "time", "files", "bytes", "runs", "limited by"]);
    let slow = merged.slowest.iter().filter_map(|(shard, ..)| by_number.get(shard));
    table.rows.extend(slow.map(|result| {
        vec![
            result.shard.to_string(),
            harmless(&result.host),
            Quantity::Time.shown(result.seconds),
            units::count(result.counts.files_copied.saturating_add(result.counts.files_skipped)),
            units::size(result.counts.bytes),
            units::count(result.attempts.into()),
            limit_text(limit(result)),
        ]
    }));
    if table.rows.is_empty() { Vec::new() } else { vec![DocumentBlock::Table(table)] }
}

#[cfg(test)]
mod tests {
    use haul_show::report::ReportFormat;
    use serde_json::json;

    use super::*;
    use crate::plan_index::PlannedShard;
    use crate::shard_progress::ShardProgress;
    use crate::shard_result::{ShardCounts, ShardEnd};

    const HOSTILE: &str = "n<script>alert(1)</script>\u{202e}\u{1b}[2J";

    fn result(shard: u32, host: &str, (began, seconds): (f64, f64), limit: &str) -> ShardResult {
        ShardResult {
            shard,
            end: if host == HOSTILE { ShardEnd::Failed } else { ShardEnd::Done },
            host: host.to_owned(),
            target: "dtn1:/a".to_owned(),
            began,
            seconds,
            attempts: 2,
            counts: ShardCounts {
                files_copied: 10,
                files_skipped: 2,
                failed: 0,
                vanished: 0,
                bytes: 8_000_000,
                bytes_skipped: 5,
            },
            progress: ShardProgress::default(),
            message: HOSTILE.to_owned(),
            summary: json!({ "verdict": { "limit": limit } }),
        }
    }

    fn overview(results: Vec<ShardResult>) -> JobOverview {
        let state = |result: ShardResult| {
            let shard = PlannedShard { number: result.shard, files: 12, bytes: 8_000_000, range: None };
            (shard, ShardState::Ended(Box::new(result)))
        };
        JobOverview::of_shards(results.into_iter().map(state).collect())
    }

    fn page(results: Vec<ShardResult>, format: ReportFormat) -> String {
        let overview = overview(results);
        let job = ReportedJob {
            what: HOSTILE.to_owned(),
            when: "today".to_owned(),
            summary: "3 of 3 shards",
            overview: &overview,
        };
        format.write(&document(&job))
    }

    #[test]
    fn a_page_has_all_hosts_their_bottlenecks_and_the_slowest_shards() {
        let results = vec![
            result(0, "n1", (100.0, 2.0), "target-disk"),
            result(1, "n1", (102.0, 6.0), "congestion"),
            result(2, "n2", (100.0, 4.0), "target-disk"),
        ];
        let page = page(results, ReportFormat::Html);
        for expected in [
            "<li>3 of 3 shards</li>",
            "<tr><td>n1</td><td>2</td><td>16.0 MB</td><td>8.00 s</td><td>2.00 MB/s</td><td>network</td><td>75 %</td></tr>",
            "<tr><td>n2</td><td>1</td><td>8.00 MB</td><td>4.00 s</td><td>2.00 MB/s</td><td>target disk</td><td>100 %</td></tr>",
            "<tr><td>1</td><td>n1</td><td>6.00 s</td><td>12</td><td>8.00 MB</td><td>2</td><td>network</td></tr>",
        ] {
            assert!(page.contains(expected), "{expected}: {page}");
        }
        assert_eq!(page.matches("<svg class=\"chart\"").count(), 2);
    }

    #[test]
    fn rates_of_shards_at_a_time_add_up() {
        let results = [result(0, "n1", (0.0, 8.0), ""), result(1, "n2", (4.0, 2.0), "")];
        let timeline = Timeline::of(&results.iter().collect::<Vec<_>>()).unwrap();
        let rates = timeline.line("all", &timeline.bytes);
        let at = |second: f64| rates.points.iter().find(|point| point.x >= second).unwrap().y;
        for (second, rate) in [(1.0, 1e6), (5.0, 5e6), (7.0, 1e6)] {
            assert!((at(second) - rate).abs() < 1.0, "{second}: {rates:?}");
        }
        assert!((timeline.bytes.iter().sum::<f64>() - 16e6).abs() < 1.0);
        assert!(Timeline::of(&[]).is_none() && Timeline::of(&[&result(0, "n", (5.0, 0.0), "")]).is_none());
        let strange = [result(0, "n", (-1e300, 1e308), ""), result(1, "n", (1e308, f64::MAX), "")];
        assert!(
            Timeline::of(&strange.iter().collect::<Vec<_>>()).is_none_or(|timeline| timeline.bytes.len() == SLICES)
        );
    }

    #[test]
    fn no_name_of_a_host_or_shard_is_more_than_text() {
        let results = || vec![result(0, HOSTILE, (0.0, 1.0), HOSTILE), result(1, "n2", (0.0, 2.0), "congestion")];
        for format in [ReportFormat::Html, ReportFormat::Markdown] {
            let page = page(results(), format);
            for never in ["<script", "\u{202e}", "\u{1b}"] {
                assert!(!page.contains(never), "{never}: {page}");
            }
            assert!(page.contains("shard 0: failed on "), "{page}");
        }
    }
}
