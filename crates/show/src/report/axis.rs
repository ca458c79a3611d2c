//! The axes of a chart: the positions of figures and names, and their labels.

use std::ops::Range;

use super::chart::{Chart, ChartLine, ChartPoint, Marks, Span};
use super::escape::harmless;
use crate::units::Quantity;

/// Width of a chart.
pub(super) const WIDTH: u32 = 880;
/// Width for labels.
pub(super) const LEFT: u32 = 76;
pub(super) const LEFT_OF_NAMES: u32 = 150;
pub(super) const RIGHT: u32 = 24;
/// Approximate width of a label's character.
const CHARACTER: u32 = 7;

/// An axis: of figures, or of names at whole numbers.
pub(super) struct Axis {
    quantity: Quantity,
    scale: Scale,
    /// Its label.
    pub(super) label: String,
    /// The positions of its ends.
    pub(super) range: Range<f64>,
    /// Names at whole numbers; `None` for figures.
    pub(super) names: Option<Vec<String>>,
}

/// The positions of figures.
#[derive(Clone, Copy, PartialEq)]
enum Scale {
    /// In this unit.
    Linear(f64),
    /// For sizes.
    PowersOfTwo,
    /// For rates that differ tenfold, with labels in this unit.
    PowersOfTen(f64),
}

impl Axis {
    fn of_figures((quantity, what): (Quantity, &str), least: f64, most: f64) -> Self {
        let (name, unit) = quantity.unit(most);
        let label = if name.is_empty() { what.to_owned() } else { format!("{what} ({name})") };
        let scale = if quantity == Quantity::Size { Scale::PowersOfTwo } else { Scale::Linear(unit) };
        let mut axis = Self { quantity, scale, label, range: 0.0..1.0, names: None };
        let (from, to) = (axis.at(least), axis.at(most));
        if to.is_finite() && to > from {
            axis.range = from..to + (to - from) * 0.02;
        }
        axis
    }

    /// An axis of the figures that `of` returns. It is logarithmic if they are rates, and the highest ones of two lines
    /// differ tenfold: a tenth of the lowest line's is its origin.
    fn of_lines(named: (Quantity, &str), lines: &[ChartLine], most: f64, of: fn(&ChartPoint) -> f64) -> Self {
        let highest = lines.iter().map(|line| line.points.iter().map(of).fold(0.0, f64::max));
        let lowest = highest.filter(|rate| *rate > 0.0).fold(f64::INFINITY, f64::min);
        if named.0 != Quantity::Rate || !most.is_finite() || most < lowest * 10.0 {
            return Self::of_figures(named, 0.0, most);
        }
        let range = (lowest / 10.0).log10()..most.log10() + 0.05;
        let (name, unit) = named.0.unit(most);
        let label = format!("{} ({name}, logarithmic)", named.1);
        Self { quantity: named.0, scale: Scale::PowersOfTen(unit), label, range, names: None }
    }

    fn of_names(what: &str, names: Vec<String>) -> Self {
        let range = -0.5..names.len() as f64 - 0.5;
        Self { quantity: Quantity::Count, scale: Scale::Linear(1.0), label: what.to_owned(), range, names: Some(names) }
    }

    /// The x-axis.
    pub(super) fn across(chart: &Chart) -> Self {
        let room = |count: usize| (WIDTH - LEFT - RIGHT) / u32::try_from(count).unwrap_or(u32::MAX).max(1);
        let names = |names: Vec<&str>| names.iter().map(|name| shortened(name, room(names.len()))).collect();
        match &chart.marks {
            Marks::Bars(bars) => Self::of_names(chart.x.1, names(bars.iter().map(|bar| bar.name.as_str()).collect())),
            Marks::Heat(map) => {
                let what = format!("{} (in cells: {})", chart.x.1, map.unit().0);
                Self::of_names(&what, names(map.columns.iter().map(String::as_str).collect()))
            }
            Marks::Lines(lines) | Marks::Points(lines) if chart.x.0 == Quantity::Size => {
                let least = lines.iter().flat_map(|line| &line.points).map(|point| point.x).fold(f64::MAX, f64::min);
                Self::of_figures(chart.x, least, chart.extent().0)
            }
            Marks::Lines(lines) | Marks::Points(lines) => {
                Self::of_lines(chart.x, lines, chart.extent().0, |point| point.x)
            }
            Marks::Spans(_) => Self::of_figures(chart.x, 0.0, chart.extent().0),
        }
    }

    /// The y-axis.
    pub(super) fn upwards(chart: &Chart) -> Self {
        let names = |names: Vec<&str>| names.iter().map(|name| shortened(name, LEFT_OF_NAMES - 34)).collect();
        match &chart.marks {
            Marks::Spans(spans) => Self::of_names(chart.y.1, names(rows(spans).into_iter().rev().collect())),
            Marks::Heat(map) => {
                Self::of_names(chart.y.1, names(map.rows.iter().map(|(name, _)| name.as_str()).collect()))
            }
            Marks::Lines(lines) | Marks::Points(lines) => {
                Self::of_lines(chart.y, lines, chart.extent().1, |point| point.y)
            }
            Marks::Bars(_) => Self::of_figures(chart.y, 0.0, chart.extent().1),
        }
    }

    /// The position of a figure.
    pub(super) fn at(&self, value: f64) -> f64 {
        match self.scale {
            Scale::Linear(unit) => value / unit,
            Scale::PowersOfTwo => value.max(1.0).log2(),
            Scale::PowersOfTen(_) => value.log10().max(self.range.start),
        }
    }

    /// The number of labels; `of_figures` for figures.
    pub(super) fn ticks(&self, of_figures: usize) -> usize {
        self.names.as_ref().map_or(of_figures, |names| names.len() + 1)
    }

    /// The label of a position; empty between names or powers.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "names are few, and negative is none")]
    pub(super) fn tick(&self, at: f64) -> String {
        let is_whole = (at - at.round()).abs() < 1e-6;
        match &self.names {
            Some(names) if is_whole && at > -0.5 => names.get(at.round() as usize).cloned().unwrap_or_default(),
            None => match self.scale {
                Scale::Linear(_) => decimals(at, 2),
                Scale::PowersOfTwo if is_whole => self.quantity.shown(at.round().exp2()),
                Scale::PowersOfTen(unit) if is_whole => decimals(10_f64.powf(at.round()) / unit, 9),
                _ => String::new(),
            },
            Some(_) => String::new(),
        }
    }
}

/// A number without zeros at its end.
fn decimals(number: f64, most: usize) -> String {
    let text = format!("{number:.most$}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// The names of spans, each once, in their order.
pub(super) fn rows(spans: &[Span]) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for span in spans {
        if !names.contains(&span.name.as_str()) {
            names.push(&span.name);
        }
    }
    names
}

/// A name shortened to the available width.
fn shortened(name: &str, room: u32) -> String {
    let most = usize::try_from(room / CHARACTER).unwrap_or(0).max(4);
    let name = harmless(name);
    match name.char_indices().nth(most) {
        Some(_) => format!("{}…", name.chars().take(most - 1).collect::<String>()),
        None => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_at_powers_of_two() {
        let axis = Axis::of_figures((Quantity::Size, "size"), 1048576.0, 1073741824.0);
        assert_eq!(
            (axis.tick(20.0), axis.tick(20.5), axis.tick(30.0)),
            ("1 MiB".into(), String::new(), "1 GiB".into())
        );
    }

    #[test]
    fn odd_figures_have_a_usual_axis() {
        for odd in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(Axis::of_figures((Quantity::Rate, "rate"), 0.0, odd).range, 0.0..1.0, "{odd}");
            let line = ChartLine::new("odd", vec![ChartPoint::new(1.0, odd)]);
            let axis = Axis::of_lines((Quantity::Rate, "rate"), &[line], odd, |point| point.y);
            assert_eq!(axis.range, 0.0..1.0, "{odd}");
        }
    }
}
