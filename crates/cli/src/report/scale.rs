//! The scale of a chart: its quantity, unit and ticks.

use std::time::Duration;

use crate::units::{count, duration, rate};

/// Approximate number of steps between ticks.
const STEPS: f64 = 5.0;

/// What is measured. Figures are in base units: bytes a second, seconds, pieces, parts of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quantity {
    /// Bytes a second.
    Rate,
    /// Seconds that pass.
    Time,
    /// Seconds that a packet takes.
    RoundTrip,
    /// Pieces.
    Count,
    /// Parts of one.
    Share,
}

/// A unit: its name, and how many base units it has.
type Unit = (&'static str, f64);

impl Quantity {
    /// The largest unit that `most` reaches.
    fn unit(self, most: f64) -> Unit {
        let units: &[Unit] = match self {
            Self::Rate => &[("B/s", 1.0), ("kB/s", 1e3), ("MB/s", 1e6), ("GB/s", 1e9), ("TB/s", 1e12)],
            Self::Time => &[("s", 1.0), ("min", 60.0), ("h", 3600.0), ("d", 86_400.0)],
            Self::RoundTrip => &[("µs", 1e-6), ("ms", 1e-3), ("s", 1.0)],
            Self::Count => &[("", 1.0)],
            Self::Share => &[("%", 0.01)],
        };
        // Two minutes are better shown as 120 s.
        let least = if self == Self::Time { 3.0 } else { 1.0 };
        let fits = |unit: &&Unit| unit.1 * least <= most;
        units.iter().rev().find(fits).or(units.first()).copied().unwrap_or(("", 1.0))
    }

    /// A figure in a table.
    pub fn shown(self, value: f64) -> String {
        match self {
            Self::Rate => rate(value),
            Self::Time => duration(Duration::try_from_secs_f64(value).unwrap_or_default()),
            Self::RoundTrip if value < 0.001 => format!("{:.0} µs", value * 1e6),
            Self::RoundTrip => format!("{:.2} ms", value * 1e3),
            Self::Count if value.fract().abs() < 1e-9 => count(whole(value)),
            Self::Count => format!("{value:.1}"),
            Self::Share if value > 0.0 && value < 0.01 => format!("{:.2} %", value * 100.0),
            Self::Share => format!("{:.0} %", value * 100.0),
        }
    }
}

/// The nearest whole number; 0 below that.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the conversion saturates")]
fn whole(value: f64) -> u64 {
    value.round() as u64
}

/// A scale from zero to a round number.
#[derive(Debug, Clone, PartialEq)]
pub struct Scale {
    /// The name of the unit; empty where there is none.
    pub unit: &'static str,
    /// Where it ends, in base units.
    pub end: f64,
    /// The ticks' positions, in base units, and their labels.
    pub ticks: Vec<(f64, String)>,
}

impl Scale {
    /// A scale that has room for all from zero to `most`.
    pub fn new(quantity: Quantity, most: f64) -> Self {
        let most = if most.is_finite() && most > 0.0 { most } else { 1.0 };
        let (unit, size) = quantity.unit(most);
        let least = if quantity == Quantity::Count { 1.0 } else { 0.0 };
        let step = nice_step(most / size).max(least);
        let steps = (most / size / step - 1e-9).ceil().max(1.0);
        let decimals = if step < 0.1 - 1e-9 { 2 } else { usize::from(step < 1.0 - 1e-9) };
        let tick = |at: u32| (f64::from(at) * step * size, format!("{:.decimals$}", f64::from(at) * step));
        let ticks = (0..=u32::try_from(whole(steps)).unwrap_or(0)).map(tick).collect();
        Self { unit, end: steps * step * size, ticks }
    }

    /// A scale that ends right behind `most`, and not at a tick.
    pub fn fitted(quantity: Quantity, most: f64) -> Self {
        let mut scale = Self::new(quantity, most);
        if most.is_finite() && most > 0.0 {
            scale.end = scale.end.min(most * 1.01);
            scale.ticks.retain(|(at, _)| *at <= scale.end);
        }
        scale
    }

    /// Which part of the scale lies below a figure.
    pub fn part(&self, value: f64) -> f64 {
        (value / self.end).clamp(0.0, 1.0)
    }
}

/// A step of 1, 2 or 5 times a power of ten, for about [`STEPS`] steps up to `most`.
fn nice_step(most: f64) -> f64 {
    let rough = most / STEPS;
    let power = 10f64.powf(rough.log10().floor());
    let times = [1.0, 2.0, 5.0, 10.0].into_iter().find(|times| times * power >= rough * (1.0 - 1e-9));
    times.unwrap_or(10.0) * power
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticks(quantity: Quantity, most: f64) -> (&'static str, Vec<String>) {
        let scale = Scale::new(quantity, most);
        assert!(scale.end >= most * (1.0 - 1e-9), "{scale:?} has no room for {most}");
        (scale.unit, scale.ticks.into_iter().map(|(_, label)| label).collect())
    }

    #[test]
    fn ticks_are_round_numbers_in_a_unit_that_suits() {
        assert_eq!(ticks(Quantity::Rate, 117e6), ("MB/s", ["0", "50", "100", "150"].map(String::from).to_vec()));
        let tenths = ["0.0", "0.5", "1.0", "1.5"].map(String::from).to_vec();
        assert_eq!(ticks(Quantity::Rate, 1.17e9), ("GB/s", tenths));
        let seconds = ["0", "2", "4", "6", "8", "10"].map(String::from).to_vec();
        assert_eq!(ticks(Quantity::Time, 10.0), ("s", seconds));
        assert_eq!(ticks(Quantity::Time, 150.0).0, "s");
        assert_eq!(ticks(Quantity::Time, 181.0).0, "min");
        assert_eq!(ticks(Quantity::Time, 4.0 * 3600.0).0, "h");
        assert_eq!(ticks(Quantity::RoundTrip, 0.0003).0, "µs");
        assert_eq!(ticks(Quantity::RoundTrip, 0.08).0, "ms");
        assert_eq!(ticks(Quantity::Count, 3.0).1, ["0", "1", "2", "3"]);
        assert_eq!(ticks(Quantity::Count, 40.0).1, ["0", "10", "20", "30", "40"]);
        assert_eq!(ticks(Quantity::Share, 1.0).1, ["0", "20", "40", "60", "80", "100"]);
    }

    #[test]
    fn a_fitted_scale_ends_behind_the_last_figure() {
        let scale = Scale::fitted(Quantity::Time, 10.4);
        let labels: Vec<_> = scale.ticks.iter().map(|(_, label)| label.as_str()).collect();
        assert_eq!(labels, ["0", "5", "10"]);
        assert!((10.4..10.6).contains(&scale.end));
        assert_eq!(Scale::fitted(Quantity::Time, 0.0), Scale::new(Quantity::Time, 0.0));
    }

    #[test]
    fn any_figure_gets_few_ticks_and_nothing_breaks_on_what_is_no_figure() {
        let mut most = 1e-9;
        while most < 1e18 {
            for quantity in [Quantity::Rate, Quantity::Time, Quantity::RoundTrip, Quantity::Count, Quantity::Share] {
                let labels = ticks(quantity, most).1.len();
                assert!((2..=7).contains(&labels) || quantity == Quantity::Count, "{quantity:?} {most}: {labels}");
            }
            most *= 1.37;
        }
        for odd in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(Scale::new(Quantity::Rate, odd).end, 1.0, "{odd}");
        }
    }

    #[test]
    fn figures_in_tables_have_their_units() {
        let shown = [
            Quantity::Rate.shown(117e6),
            Quantity::Time.shown(12.34),
            Quantity::RoundTrip.shown(0.0803),
            Quantity::Count.shown(12_408.0),
            Quantity::Count.shown(2.5),
            Quantity::Share.shown(0.957),
            Quantity::Share.shown(0.00123),
            Quantity::RoundTrip.shown(0.000_061),
        ];
        assert_eq!(shown, ["117 MB/s", "12.3 s", "80.30 ms", "12,408", "2.5", "96 %", "0.12 %", "61 µs"]);
    }
}
