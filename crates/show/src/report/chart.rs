//! A chart: its data, and the same data as a table. `svg` draws it.

use std::collections::BTreeSet;

use super::table::Table;
use crate::units::Quantity;

/// Most distinguishable lines in one chart.
pub const LINES_MAX: usize = 12;

/// Figures to be drawn.
#[derive(Debug, Clone)]
pub struct Chart {
    /// Its title.
    pub title: String,
    /// The quantity on the x-axis, and its name.
    pub x: (Quantity, &'static str),
    /// The quantity on the y-axis.
    pub y: (Quantity, &'static str),
    /// The figures.
    pub marks: Marks,
    /// Events along the x-axis.
    pub happened: Vec<(f64, String)>,
}

/// The kind of chart.
#[derive(Debug, Clone)]
pub enum Marks {
    /// Lines through points.
    Lines(Vec<ChartLine>),
    /// The same points without lines.
    Points(Vec<ChartLine>),
    /// A vertical bar for each name.
    Bars(Vec<ChartBar>),
    /// Horizontal spans, a row for each name.
    Spans(Vec<Span>),
    /// A cell for each pair of names.
    Heat(HeatMap),
}

/// Figures of all pairs of two lists.
#[derive(Debug, Clone)]
pub struct HeatMap {
    /// The quantity of a cell.
    pub quantity: Quantity,
    /// Names on the x-axis.
    pub columns: Vec<String>,
    /// Names on the y-axis, with a figure for each column.
    pub rows: Vec<(String, Vec<Option<f64>>)>,
}

/// A line through points.
#[derive(Debug, Clone)]
pub struct ChartLine {
    /// Its label.
    pub name: String,
    /// Its points, from left to right.
    pub points: Vec<ChartPoint>,
}

/// A point of a line.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ChartPoint {
    /// Position on the x-axis.
    pub x: f64,
    /// Position on the y-axis.
    pub y: f64,
    /// The interquartile range, for a point of several values.
    pub spread: Option<(f64, f64)>,
}

/// A bar.
#[derive(Debug, Clone)]
pub struct ChartBar {
    /// Its label.
    pub name: String,
    /// Its height.
    pub value: f64,
    /// As in [`ChartPoint`].
    pub spread: Option<(f64, f64)>,
}

/// A span.
#[derive(Debug, Clone, PartialEq)]
pub struct Span {
    /// Label of its row.
    pub name: String,
    /// Its start.
    pub from: f64,
    /// Its end.
    pub to: f64,
}

impl ChartPoint {
    /// A point of one figure.
    pub const fn new(x: f64, y: f64) -> Self {
        Self { x, y, spread: None }
    }
}

impl ChartLine {
    /// A line.
    pub fn new(name: impl Into<String>, points: Vec<ChartPoint>) -> Self {
        Self { name: name.into(), points }
    }
}

impl Chart {
    /// Whether the chart has figures.
    pub fn has_figures(&self) -> bool {
        match &self.marks {
            Marks::Lines(lines) => lines.iter().any(|line| line.points.len() > 1),
            Marks::Points(sets) => sets.iter().any(|set| !set.points.is_empty()),
            Marks::Bars(bars) => !bars.is_empty(),
            Marks::Spans(spans) => !spans.is_empty(),
            Marks::Heat(map) => map.columns.len() > 1 && map.rows.len() > 1,
        }
    }

    /// The largest x and y.
    pub fn extent(&self) -> (f64, f64) {
        let most = |figures: &mut dyn Iterator<Item = f64>| figures.fold(0.0, f64::max);
        let upper = |value: f64, spread: Option<(f64, f64)>| spread.map_or(value, |(_, high)| high.max(value));
        let happened = self.happened.iter().map(|(at, _)| *at);
        match &self.marks {
            Marks::Lines(lines) | Marks::Points(lines) => {
                let points = || lines.iter().flat_map(|line| &line.points);
                let x = most(&mut points().map(|point| point.x).chain(happened));
                (x, most(&mut points().map(|point| upper(point.y, point.spread))))
            }
            Marks::Bars(bars) => (0.0, most(&mut bars.iter().map(|bar| upper(bar.value, bar.spread)))),
            Marks::Spans(spans) => (most(&mut spans.iter().map(|span| span.to).chain(happened)), 0.0),
            Marks::Heat(_) => (0.0, 0.0),
        }
    }

    /// The figures as a table.
    pub fn table(&self) -> Table {
        let (x, y) = (self.x.0, self.y.0);
        match &self.marks {
            Marks::Lines(lines) | Marks::Points(lines) => lines_table(self.x, y, lines),
            Marks::Bars(bars) => {
                let mut table = Table::new(&[self.x.1, self.y.1, "a quarter below", "a quarter above"]);
                table.rows.extend(bars.iter().map(|bar| {
                    let (low, high) = bar.spread.unwrap_or((bar.value, bar.value));
                    vec![bar.name.clone(), y.shown(bar.value), y.shown(low), y.shown(high)]
                }));
                table
            }
            Marks::Spans(spans) => {
                let mut table = Table::new(&[self.y.1, "from", "to"]);
                table
                    .rows
                    .extend(spans.iter().map(|span| vec![span.name.clone(), x.shown(span.from), x.shown(span.to)]));
                table
            }
            Marks::Heat(map) => map.table(self.y.1),
        }
    }
}

impl HeatMap {
    /// The largest figure.
    pub fn most(&self) -> f64 {
        let figures = self.rows.iter().flat_map(|(_, figures)| figures);
        figures.flatten().copied().fold(f64::MIN_POSITIVE, f64::max)
    }

    /// The unit of its figures, and its size in base units.
    pub fn unit(&self) -> (&'static str, f64) {
        self.quantity.unit(self.most())
    }

    fn table(&self, of_rows: &str) -> Table {
        let columns = std::iter::once(of_rows.to_owned()).chain(self.columns.iter().cloned()).collect();
        let cell = |value: &Option<f64>| value.map_or_else(String::new, |value| self.quantity.shown(value));
        let row = |(name, values): &(String, Vec<Option<f64>>)| {
            std::iter::once(name.clone()).chain(values.iter().map(cell)).collect()
        };
        Table { columns, rows: self.rows.iter().map(row).collect() }
    }
}

/// A row for each x, a column for each line.
fn lines_table(x: (Quantity, &str), y: Quantity, lines: &[ChartLine]) -> Table {
    // Non-negative floats sort like their bits.
    let places: BTreeSet<u64> = lines.iter().flat_map(|line| &line.points).map(|point| point.x.to_bits()).collect();
    let mut columns = vec![x.1.to_owned()];
    columns.extend(lines.iter().map(|line| line.name.clone()));
    let mut rest: Vec<_> = lines.iter().map(|line| line.points.iter().peekable()).collect();
    let rows = places.into_iter().map(f64::from_bits).map(|place| {
        let cells = rest.iter_mut().map(|points| {
            let here = points.next_if(|point| point.x.to_bits() == place.to_bits());
            here.map_or_else(String::new, |point| y.shown(point.y))
        });
        std::iter::once(x.0.shown(place)).chain(cells).collect()
    });
    let rows = rows.collect();
    Table { columns, rows }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Two lines; the second begins later.
    pub fn example() -> Chart {
        let line = |name: &str, points: &[(f64, f64)]| {
            ChartLine::new(name, points.iter().map(|&(x, y)| ChartPoint::new(x, y)).collect())
        };
        Chart {
            title: "Rate".into(),
            x: (Quantity::Time, "time"),
            y: (Quantity::Rate, "rate"),
            marks: Marks::Lines(vec![
                line("stream 0", &[(1.0, 80e6), (2.0, 117e6), (3.0, 115e6)]),
                line("<stream> 1", &[(2.0, 20e6), (3.0, 30e6)]),
            ]),
            happened: vec![(2.5, "a connection was lost".into())],
        }
    }

    #[test]
    fn the_figures_of_a_chart_are_a_table() {
        let table = example().table();
        assert_eq!(table.columns, ["time", "stream 0", "<stream> 1"]);
        assert_eq!(
            table.rows,
            [["1.00 s", "80.0 MB/s", ""], ["2.00 s", "117 MB/s", "20.0 MB/s"], ["3.00 s", "115 MB/s", "30.0 MB/s"]]
        );
        assert_eq!(example().extent(), (3.0, 117e6));
    }

    #[test]
    fn a_point_is_no_line() {
        let mut chart = example();
        assert!(chart.has_figures());
        chart.marks = Marks::Lines(vec![ChartLine::new("one", vec![ChartPoint::new(1.0, 1.0)])]);
        assert!(!chart.has_figures());
    }
}
