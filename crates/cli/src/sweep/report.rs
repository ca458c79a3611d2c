//! The report of a sweep: rate against streams for each window (or whatever was varied), rate against time,
//! distributions, and all figures.

use super::figures::{SweepRun, columns};
use super::journal::Header;
use super::setting::{AUTO, COUNT, DIMENSIONS, SweepSetting};
use super::summary::{Group, fastest};
use crate::args::size::parse_size;
use crate::report::chart::{Chart, ChartBar, ChartLine, ChartPoint, LINES_MAX, Marks};
use crate::report::document::{Document, DocumentBlock};
use crate::report::quantity::Quantity;
use crate::report::statistics::{Quartiles, distribution};
use crate::report::table::Table;
use crate::units::counted;

/// Dimensions that can go from left to right, the first choice first.
const ACROSS: [usize; 2] = [1, 5];

/// The report.
pub fn document(header: &Header, runs: &[SweepRun], warnings: &[String]) -> Document {
    let groups = Group::all(runs);
    let mut document = Document {
        title: format!("haul sweep: {} to {}", header.source, header.target),
        about: format!(
            "{} with {}",
            counted(runs.len() as u64, "run", "runs"),
            counted(groups.len() as u64, "setting", "settings")
        ),
        ..Document::default()
    };
    document.part("Result", result(header, &groups));
    document
        .part("Beware", if warnings.is_empty() { Vec::new() } else { vec![DocumentBlock::List(warnings.to_vec())] });
    document.part("Rate by setting", by_setting(&groups));
    document.part("Round trips", round_trips(&groups));
    document.part("Rate against time", against_time(runs));
    document.part("Distribution", distributions(&groups));
    document.part("All settings", vec![DocumentBlock::Table(settings(&groups))]);
    let rows = runs.iter().map(SweepRun::cells).collect();
    let all = Table { columns: columns().into_iter().map(str::to_owned).collect(), rows };
    document.part("All runs", vec![DocumentBlock::Folded("as the CSV has them".into(), all)]);
    document
}

fn result(header: &Header, groups: &[Group<'_>]) -> Vec<DocumentBlock> {
    let mut blocks = Vec::new();
    if let Some((group, quartiles)) = fastest(groups) {
        blocks.push(DocumentBlock::Text(format!("Fastest: {}", group.setting.label())));
        blocks.push(DocumentBlock::Text(quartiles.sentence(Quantity::Rate, "runs")));
    }
    if !header.options.is_empty() {
        blocks.push(DocumentBlock::Text(format!("Options of all runs: {}", header.options)));
    }
    blocks
}

/// Dimensions with several values.
fn varied(groups: &[Group<'_>]) -> [bool; COUNT] {
    std::array::from_fn(|at| groups.iter().any(|group| group.setting.0[at] != groups[0].setting.0[at]))
}

/// The numeric value of a word.
fn number(word: &str) -> Option<f64> {
    parse_size(word.trim_start_matches('=')).ok().map(|size| size as f64)
}

/// The dimension that goes from left to right: one of numbers that was varied.
fn across(groups: &[Group<'_>], varied: &[bool; COUNT]) -> Option<usize> {
    ACROSS.into_iter().find(|&at| varied[at] && groups.iter().all(|group| number(&group.setting.0[at]).is_some()))
}

/// Groups that have all in common but the dimension that goes from left to right.
struct SweepRow<'a, 'b> {
    /// What they have in common.
    name: String,
    /// By what rows are sorted: the same as numbers.
    order: Vec<Option<u64>>,
    groups: Vec<&'b Group<'a>>,
}

impl<'a, 'b> SweepRow<'a, 'b> {
    /// All rows.
    fn all(groups: &'b [Group<'a>], across: Option<usize>) -> Vec<Self> {
        let varied = varied(groups);
        let mut rows: Vec<Self> = Vec::new();
        for group in groups {
            let name = named(group.setting, &varied, across);
            match rows.iter_mut().find(|row| row.name == name) {
                Some(row) => row.groups.push(group),
                None => {
                    let words = group.setting.0.iter().enumerate().filter(|(at, _)| Some(*at) != across);
                    let order = words.map(|(_, word)| parse_size(word.trim_start_matches('=')).ok()).collect();
                    rows.push(Self { name, order, groups: vec![group] });
                }
            }
        }
        rows.sort_by(|a, b| a.order.cmp(&b.order));
        rows
    }
}

/// The varied words of a setting, except that of one dimension.
fn named(setting: &SweepSetting, varied: &[bool; COUNT], except: Option<usize>) -> String {
    let words = (0..COUNT).filter(|at| varied[*at] && Some(*at) != except).map(|at| (at, setting.0[at].as_str()));
    let said = |(at, word): (usize, &str)| match word {
        AUTO => format!("automatic {}", DIMENSIONS[at].name.replace('_', " ")),
        word => format!("{} {word}", DIMENSIONS[at].name.replace('_', " ")),
    };
    let name = words.map(said).collect::<Vec<_>>().join(", ");
    if name.is_empty() { "all".to_owned() } else { name }
}

fn by_setting(groups: &[Group<'_>]) -> Vec<DocumentBlock> {
    if groups.is_empty() {
        return Vec::new();
    }
    let varied = varied(groups);
    match across(groups, &varied) {
        Some(at) => vec![DocumentBlock::Chart(curves(groups, at, (Quantity::Rate, "rate"), |group| group.rates()))],
        None => vec![DocumentBlock::Chart(bars(groups, &varied))],
    }
}

/// A figure against what goes from left to right, a line for each combination of the rest.
fn curves(
    groups: &[Group<'_>],
    at: usize,
    y: (Quantity, &'static str),
    figure: impl Fn(&Group<'_>) -> Option<Quartiles>,
) -> Chart {
    let x = match DIMENSIONS[at].id {
        "streams" => (Quantity::Count, "streams"),
        _ => (Quantity::Rate, "rate limit"),
    };
    let point = |group: &Group<'_>| {
        let quartiles = figure(group)?;
        let spread = Some((quartiles.first, quartiles.third));
        Some(ChartPoint { x: number(&group.setting.0[at])?, y: quartiles.median, spread })
    };
    let line = |row: SweepRow<'_, '_>| {
        let mut points: Vec<_> = row.groups.into_iter().filter_map(point).collect();
        points.sort_by(|a, b| a.x.total_cmp(&b.x));
        ChartLine::new(row.name, points)
    };
    let lines: Vec<_> =
        SweepRow::all(groups, Some(at)).into_iter().map(line).filter(|line| !line.points.is_empty()).collect();
    let title = format!("{} against {} (medians; bars: the middle half of the runs)", capital(y.1), x.1);
    Chart { title, x, y, marks: Marks::Lines(shown(lines)), happened: Vec::new() }
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|first| first.to_uppercase().chain(chars).collect()).unwrap_or_default()
}

/// The highest lines, as many as are distinguishable.
fn shown(mut lines: Vec<ChartLine>) -> Vec<ChartLine> {
    if lines.len() > LINES_MAX {
        let top = |line: &ChartLine| line.points.iter().map(|point| point.y).fold(0.0, f64::max);
        lines.sort_by(|a, b| top(b).total_cmp(&top(a)));
        lines.truncate(LINES_MAX);
    }
    lines
}

fn bars(groups: &[Group<'_>], varied: &[bool; COUNT]) -> Chart {
    let bar = |group: &Group<'_>| {
        let quartiles = group.rates()?;
        let name = match varied.iter().filter(|varied| **varied).count() {
            1 => group.setting.0.iter().zip(varied).find(|(_, varied)| **varied).map(|(word, _)| word.clone())?,
            _ => named(group.setting, varied, None),
        };
        Some(ChartBar { name, value: quartiles.median, spread: Some((quartiles.first, quartiles.third)) })
    };
    let what = DIMENSIONS.iter().zip(varied).find(|(_, varied)| **varied).map_or("setting", |(it, _)| it.name);
    Chart {
        title: "Median rate of each setting (bars: the middle half of the runs)".into(),
        x: (Quantity::Count, what),
        y: (Quantity::Rate, "rate"),
        marks: Marks::Bars(groups.iter().filter_map(bar).collect()),
        happened: Vec::new(),
    }
}

fn round_trips(groups: &[Group<'_>]) -> Vec<DocumentBlock> {
    let Some(at) = groups.first().and_then(|_| across(groups, &varied(groups))) else { return Vec::new() };
    let y = (Quantity::RoundTrip, "round trip under load");
    let chart = curves(groups, at, y, |group| group.quartiles(|figures| figures.rtt_loaded_s));
    if chart.has_figures() { vec![DocumentBlock::Chart(chart)] } else { Vec::new() }
}

fn against_time(runs: &[SweepRun]) -> Vec<DocumentBlock> {
    let mut points: Vec<_> =
        runs.iter().filter_map(|run| Some(ChartPoint::new(run.began, run.result.as_ref().ok()?.bytes_per_s))).collect();
    points.sort_by(|a, b| a.x.total_cmp(&b.x));
    let Some(first) = points.first().map(|point| point.x) else { return Vec::new() };
    points.iter_mut().for_each(|point| point.x -= first);
    vec![DocumentBlock::Chart(Chart {
        title: "Rate of each run, by its start".into(),
        x: (Quantity::Time, "time since the first run"),
        y: (Quantity::Rate, "rate"),
        marks: Marks::Lines(vec![ChartLine::new("runs", points)]),
        happened: Vec::new(),
    })]
}

fn distributions(groups: &[Group<'_>]) -> Vec<DocumentBlock> {
    if groups.is_empty() {
        return Vec::new();
    }
    let at = across(groups, &varied(groups));
    let line = |row: SweepRow<'_, '_>| {
        let rates: Vec<_> =
            row.groups.iter().flat_map(|group| &group.good).map(|(_, figures)| figures.bytes_per_s).collect();
        ChartLine::new(row.name, distribution(&rates))
    };
    vec![DocumentBlock::Chart(Chart {
        title: "Rates by share of the runs".into(),
        x: (Quantity::Rate, "rate"),
        y: (Quantity::Share, "share of the runs"),
        marks: Marks::Lines(shown(SweepRow::all(groups, at).into_iter().map(line).collect())),
        happened: Vec::new(),
    })]
}

/// Of each setting, medians; of rates, the quarters as well.
fn settings(groups: &[Group<'_>]) -> Table {
    let mut table = Table::new(&[
        "setting",
        "runs",
        "rate",
        "a quarter below",
        "a quarter above",
        "real",
        "user",
        "system",
        "round trip unloaded",
        "loaded",
        "retransmitted",
        "limited by",
    ]);
    for group in groups {
        let shown =
            |quantity: Quantity, figure: Option<f64>| figure.map_or("-".to_owned(), |figure| quantity.shown(figure));
        let median = |quantity, figure: fn(&super::figures::Figures) -> f64| {
            shown(quantity, group.quartiles(figure).map(|quartiles| quartiles.median))
        };
        let rates = group.rates();
        table.rows.push(vec![
            group.setting.label(),
            group.good.len().to_string(),
            shown(Quantity::Rate, rates.map(|rates| rates.median)),
            shown(Quantity::Rate, rates.map(|rates| rates.first)),
            shown(Quantity::Rate, rates.map(|rates| rates.third)),
            median(Quantity::Time, |figures| figures.real_s),
            median(Quantity::Time, |figures| figures.user_s),
            median(Quantity::Time, |figures| figures.system_s),
            median(Quantity::RoundTrip, |figures| figures.rtt_unloaded_s),
            median(Quantity::RoundTrip, |figures| figures.rtt_loaded_s),
            median(Quantity::Share, |figures| figures.retransmitted / figures.segments),
            group.limited_by().unwrap_or_default().to_owned(),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::super::figures::tests::run;
    use super::*;
    use crate::report::ReportFormat;

    fn header() -> Header {
        Header { source: "null:1g".into(), target: "db1:<null>:".into(), options: "-i key".into() }
    }

    fn made(runs: &[SweepRun]) -> String {
        ReportFormat::Html.write(&document(&header(), runs, &["a cache".to_owned()]))
    }

    #[test]
    fn rate_is_drawn_against_streams_with_a_line_for_each_window_in_their_order() {
        let mut runs = Vec::new();
        for (window, factor) in [("64k", 3.0), ("8k", 1.0), ("1024k", 9.0)] {
            for streams in ["8", "1", "20"] {
                (1..=3).for_each(|round| runs.push(run(round, window, streams, factor * 1e7 + f64::from(round))));
            }
        }
        let groups = Group::all(&runs);
        let DocumentBlock::Chart(chart) = &by_setting(&groups)[0] else { panic!("a chart") };
        let Marks::Lines(lines) = &chart.marks else { panic!("lines") };
        assert_eq!(
            lines.iter().map(|line| line.name.as_str()).collect::<Vec<_>>(),
            ["window 8k", "window 64k", "window 1024k"]
        );
        let points: Vec<_> = lines[1].points.iter().map(|point| (point.x, point.y)).collect();
        assert_eq!(points, [(1.0, 3e7 + 2.0), (8.0, 3e7 + 2.0), (20.0, 3e7 + 2.0)]);
        assert_eq!(lines[1].points[0].spread, Some((3e7 + 1.5, 3e7 + 2.5)));
        let page = made(&runs);
        assert_eq!(page.matches("<svg class=\"chart\"").count(), 3);
        assert!(page.contains("Fastest: window 1024k, streams") && page.contains("<li>a cache</li>"), "{page}");
        assert!(page.contains("db1:&lt;null&gt;:") && !page.contains("<null>"));
    }

    #[test]
    fn what_has_no_numbers_is_drawn_as_bars() {
        let cipher = |name: &str, rate: f64| {
            let mut run = run(1, "auto", "auto", rate);
            run.setting.0[2] = name.into();
            run
        };
        let runs = [cipher("aes-128-gcm", 2e8), cipher("none", 3e8)];
        let groups = Group::all(&runs);
        let DocumentBlock::Chart(chart) = &by_setting(&groups)[0] else { panic!("a chart") };
        let Marks::Bars(bars) = &chart.marks else { panic!("bars") };
        assert_eq!(bars.iter().map(|bar| bar.name.as_str()).collect::<Vec<_>>(), ["aes-128-gcm", "none"]);
        assert_eq!(chart.x.1, "cipher");
    }

    #[test]
    fn a_sweep_of_which_nothing_is_known_yet_has_a_report() {
        assert!(made(&[]).contains("0 runs with 0 settings"));
        let failed = SweepRun { result: Err("gone".into()), ..run(1, "8k", "1", 1.0) };
        assert!(made(&[failed]).contains("<td>gone</td>"));
    }
}
