//! The report of a sweep: rate against streams for each window (or other varied settings), rate against time,
//! distributions, and all figures.

use haul_base::quantity::{parse_rate, parse_size, parse_time};
use haul_show::report::chart::{Chart, ChartBar, ChartLine, ChartPoint, HeatMap, LINES_MAX, Marks};
use haul_show::report::document::{Document, DocumentBlock};
use haul_show::report::statistics::{Quartiles, distribution};
use haul_show::report::table::Table;
use haul_show::units::{Quantity, counted};

use super::figures::{Figures, SweepRun, columns};
use super::journal::Header;
use super::setting::{AUTO, COUNT, DIMENSIONS, SweepSetting};
use super::summary::{Group, fastest};

/// Dimensions for the x-axis, by preference.
const ACROSS: [&str; 4] = ["streams", "rate_limit", "size", "duration"];

/// The name of a line without others.
const ALL: &str = "all";

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
    document.part("CPU", cpu(&groups));
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
fn number(at: usize, word: &str) -> Option<f64> {
    match DIMENSIONS[at].name {
        "duration" => parse_time(word).ok().map(|time| time.as_secs_f64()),
        "rate_limit" => parse_rate(word).ok().map(|rate| rate as f64),
        _ => parse_size(word.trim_start_matches('=')).ok().map(|size| size as f64),
    }
}

/// Dimensions for the x-axis: varied numbers. Runs without a rate limit have no place on it.
fn across(groups: &[Group<'_>]) -> Vec<usize> {
    let varied = varied(groups);
    let is_number = |at: usize| {
        let without = |word: &str| word == AUTO && DIMENSIONS[at].name == "rate_limit";
        let mut words = groups.iter().map(|group| group.setting.0[at].as_str()).filter(|word| !without(word));
        let first = words.next();
        first.is_some_and(|first| number(at, first).is_some() && words.clone().any(|word| word != first))
            && words.all(|word| number(at, word).is_some())
    };
    let places = ACROSS.iter().filter_map(|name| DIMENSIONS.iter().position(|dimension| dimension.name == *name));
    places.filter(|&at| varied[at] && is_number(at)).collect()
}

/// Groups that differ only in the dimension of the x-axis.
struct SweepRow<'a, 'b> {
    /// Their common setting.
    name: String,
    /// Sort key: the setting as numbers.
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
                    let order = words.map(|(at, word)| number(at, word).map(f64::to_bits)).collect();
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
    let described = |(at, word): (usize, &str)| match word {
        AUTO => format!("automatic {}", DIMENSIONS[at].name.replace('_', " ")),
        word => format!("{} {word}", DIMENSIONS[at].name.replace('_', " ")),
    };
    let name = words.map(described).collect::<Vec<_>>().join(", ");
    if name.is_empty() { ALL.to_owned() } else { name }
}

fn by_setting(groups: &[Group<'_>]) -> Vec<DocumentBlock> {
    if groups.is_empty() {
        return Vec::new();
    }
    let mut charts: Vec<_> = across(groups)
        .into_iter()
        .map(|at| curves(groups, at, (Quantity::Rate, "rate"), |group| vec![(String::new(), group.rates())]))
        .collect();
    if charts.is_empty() {
        charts.push(bars(groups, &varied(groups)));
    }
    charts.extend(heat(groups));
    charts.into_iter().map(DocumentBlock::Chart).collect()
}

/// The median rate for each pair of values of the first two varied dimensions; the highest of several.
fn heat(groups: &[Group<'_>]) -> Option<Chart> {
    let varied = varied(groups);
    let mut dimensions = (0..COUNT).filter(|at| varied[*at]);
    let (down, across) = (dimensions.next()?, dimensions.next()?);
    let [rows, columns] = [down, across].map(|at| words(groups, at));
    let rate = |row: &str, column: &str| {
        let cell = groups.iter().filter(|group| group.setting.0[down] == row && group.setting.0[across] == column);
        cell.filter_map(|group| Some(group.rates()?.median)).reduce(f64::max)
    };
    let row = |row: &String| (row.clone(), columns.iter().map(|column| rate(row, column)).collect());
    let [x, y] = [across, down].map(|at| (Quantity::Count, DIMENSIONS[at].name));
    Some(Chart {
        title: format!("Median rate by {} and {}", y.1.replace('_', " "), x.1.replace('_', " ")),
        x,
        y,
        marks: Marks::Heat(HeatMap { quantity: Quantity::Rate, rows: rows.iter().map(row).collect(), columns }),
        happened: Vec::new(),
    })
}

/// The values of a dimension, numbers in order.
fn words(groups: &[Group<'_>], at: usize) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for group in groups {
        if !words.contains(&group.setting.0[at]) {
            words.push(group.setting.0[at].clone());
        }
    }
    words.sort_by_key(|word| number(at, word).map(f64::to_bits));
    words
}

/// Figures against the x-axis, with a line for each combination of the rest. `figures` have names, empty for a single
/// one.
fn curves(
    groups: &[Group<'_>],
    at: usize,
    y: (Quantity, &'static str),
    figures: impl Fn(&Group<'_>) -> Vec<(String, Option<Quartiles>)>,
) -> Chart {
    let quantity = match DIMENSIONS[at].name {
        "rate_limit" => Quantity::Rate,
        "size" => Quantity::Size,
        "duration" => Quantity::Time,
        _ => Quantity::Count,
    };
    let x = (quantity, DIMENSIONS[at].name);
    let mut lines: Vec<ChartLine> = Vec::new();
    for row in SweepRow::all(groups, Some(at)) {
        for group in row.groups {
            for (name, quartiles) in figures(group) {
                let (Some(quartiles), Some(x)) = (quartiles, number(at, &group.setting.0[at])) else { continue };
                let spread = Some((quartiles.first, quartiles.third));
                let point = ChartPoint { x, y: quartiles.median, spread };
                let name = match (name.as_str(), row.name.as_str()) {
                    ("", row) => row.to_owned(),
                    (_, ALL) => name,
                    (_, row) => format!("{row}, {name}"),
                };
                match lines.iter_mut().find(|line| line.name == name) {
                    Some(line) => line.points.push(point),
                    None => lines.push(ChartLine::new(name, vec![point])),
                }
            }
        }
    }
    lines.iter_mut().for_each(|line| line.points.sort_by(|a, b| a.x.total_cmp(&b.x)));
    let title =
        format!("{} against {} (medians; bars: the middle half of the runs)", capital(y.1), x.1.replace('_', " "));
    Chart { title, x, y, marks: Marks::Lines(shown(lines)), happened: Vec::new() }
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|first| first.to_uppercase().chain(chars).collect()).unwrap_or_default()
}

/// The highest distinguishable lines.
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

/// Round trips when idle and under load, of ICMP and of the data's connections.
fn round_trips(groups: &[Group<'_>]) -> Vec<DocumentBlock> {
    let Some(&at) = across(groups).first() else { return Vec::new() };
    let by_icmp = curves(groups, at, (Quantity::RoundTrip, "ICMP round trip"), |group| {
        vec![
            ("unloaded".to_owned(), group.quartiles(|figures| figures.ping_unloaded_s)),
            ("loaded".to_owned(), group.quartiles(|figures| figures.ping_loaded_s)),
        ]
    });
    let by_tcp = curves(groups, at, (Quantity::RoundTrip, "TCP round trip"), |group| {
        vec![
            ("unloaded".to_owned(), group.quartiles(|figures| figures.rtt_unloaded_s)),
            ("loaded".to_owned(), group.quartiles(|figures| figures.rtt_loaded_s)),
        ]
    });
    [by_icmp, by_tcp].into_iter().filter(Chart::has_figures).map(DocumentBlock::Chart).collect()
}

/// CPUs in use at both ends against the rate, a point for each setting.
fn cpu(groups: &[Group<'_>]) -> Vec<DocumentBlock> {
    let medians = |figure: fn(&Figures) -> f64| {
        let point = |group: &Group<'_>| {
            let quartiles = group.quartiles(figure)?;
            let spread = Some((quartiles.first, quartiles.third));
            Some(ChartPoint { x: group.rates()?.median, y: quartiles.median, spread })
        };
        let mut points: Vec<_> = groups.iter().filter_map(point).collect();
        points.sort_by(|a, b| a.x.total_cmp(&b.x));
        points
    };
    let sets = vec![
        ChartLine::new("source", medians(|figures| figures.source_cpu_s / figures.real_s)),
        ChartLine::new("target", medians(|figures| figures.target_cpu_s / figures.real_s)),
    ];
    let chart = Chart {
        title: "CPU against rate (medians of each setting)".into(),
        x: (Quantity::Rate, "rate"),
        y: (Quantity::Count, "CPUs in use"),
        marks: Marks::Points(sets),
        happened: Vec::new(),
    };
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
    let at = across(groups).first().copied();
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

/// The medians of each setting, with quartiles of rates.
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
        "TCP round trip unloaded",
        "loaded",
        "ICMP unloaded",
        "loaded",
        "retransmitted",
        "limited by",
    ]);
    for group in groups {
        let shown =
            |quantity: Quantity, figure: Option<f64>| figure.map_or("-".to_owned(), |figure| quantity.shown(figure));
        let median = |quantity, figure: fn(&Figures) -> f64| {
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
            median(Quantity::RoundTrip, |figures| figures.ping_unloaded_s),
            median(Quantity::RoundTrip, |figures| figures.ping_loaded_s),
            median(Quantity::Share, |figures| figures.retransmitted / figures.segments),
            group.limited_by().unwrap_or_default().to_owned(),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use haul_show::report::ReportFormat;

    use super::super::figures::tests::run;
    use super::*;

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
        // Against streams, by windows and streams, against time, the distribution; of CPU nothing is known.
        assert_eq!(page.matches("<svg class=\"chart\"").count(), 4);
        let DocumentBlock::Chart(Chart { marks: Marks::Heat(map), .. }) = &by_setting(&groups)[1] else {
            panic!("a map")
        };
        assert_eq!((map.columns.join(" "), map.rows.len()), ("1 8 20".to_owned(), 3));
        assert_eq!(map.rows[0], ("8k".to_owned(), vec![Some(1e7 + 2.0); 3]));
        assert!(page.contains("Fastest: window 1024k, streams") && page.contains("<li>a cache</li>"), "{page}");
        assert!(page.contains("db1:&lt;null&gt;:") && !page.contains("<null>"));
    }

    #[test]
    fn sizes_and_round_trips_have_their_charts() {
        let sized = |size: &str, rate: f64| {
            let mut run = run(1, "auto", "auto", rate);
            run.setting.0[7] = size.into();
            run.result = run.result.map(|figures| Figures {
                ping_unloaded_s: 0.01,
                ping_loaded_s: 0.05,
                source_cpu_s: 1.0,
                target_cpu_s: 2.0,
                ..figures
            });
            run
        };
        let runs = [sized("1g", 9e7), sized("1m", 1e7)];
        let groups = Group::all(&runs);
        let DocumentBlock::Chart(chart) = &by_setting(&groups)[0] else { panic!("a chart") };
        assert_eq!(chart.x, (Quantity::Size, "size"));
        let DocumentBlock::Chart(chart) = &round_trips(&groups)[0] else { panic!("a chart") };
        let Marks::Lines(lines) = &chart.marks else { panic!("lines") };
        let described: Vec<_> = lines.iter().map(|line| (line.name.as_str(), line.points[0].y)).collect();
        assert_eq!(described, [("unloaded", 0.01), ("loaded", 0.05)]);
        let DocumentBlock::Chart(chart) = &cpu(&groups)[0] else { panic!("a chart") };
        let Marks::Points(sets) = &chart.marks else { panic!("points") };
        assert!(sets[0].points[0].y < sets[1].points[0].y && sets[0].points.len() == 2);
    }

    #[test]
    fn values_without_numbers_are_drawn_as_bars() {
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
    fn a_sweep_without_results_has_a_report() {
        assert!(made(&[]).contains("0 runs with 0 settings"));
        let failed = SweepRun { result: Err("gone".into()), ..run(1, "8k", "1", 1.0) };
        assert!(made(&[failed]).contains("<td>gone</td>"));
    }
}
