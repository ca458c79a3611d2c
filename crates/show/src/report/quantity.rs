//! Quantities of charts and tables, and their units.

use std::time::Duration;

use crate::units::{count, duration, rate};

/// A measured quantity. Figures are in base units: bytes per second, seconds, counts, fractions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quantity {
    /// Bytes per second.
    Rate,
    /// Elapsed seconds.
    Time,
    /// Seconds of a round trip.
    RoundTrip,
    /// Bytes; powers of two on a logarithmic axis.
    Size,
    /// A count.
    Count,
    /// A fraction of one.
    Share,
}

/// A unit: its name, and its size in base units.
type Unit = (&'static str, f64);

impl Quantity {
    /// The largest unit not above `most`.
    pub fn unit(self, most: f64) -> Unit {
        let units: &[Unit] = match self {
            Self::Rate => &[("B/s", 1.0), ("kB/s", 1e3), ("MB/s", 1e6), ("GB/s", 1e9), ("TB/s", 1e12)],
            Self::Time => &[("s", 1.0), ("min", 60.0), ("h", 3600.0), ("d", 86_400.0)],
            Self::RoundTrip => &[("µs", 1e-6), ("ms", 1e-3), ("s", 1.0)],
            Self::Count | Self::Size => &[("", 1.0)],
            Self::Share => &[("%", 0.01)],
        };
        // Two minutes are displayed as 120 s.
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
            Self::Size => binary_size(value),
            Self::Count if value.fract().abs() < 1e-9 => count(rounded(value)),
            Self::Count => format!("{value:.1}"),
            Self::Share if value > 0.0 && value < 0.01 => format!("{:.2} %", value * 100.0),
            Self::Share => format!("{:.0} %", value * 100.0),
        }
    }
}

/// A size with a binary unit, as in options.
fn binary_size(bytes: f64) -> String {
    let units = [(2f64.powi(40), "TiB"), (2f64.powi(30), "GiB"), (2f64.powi(20), "MiB"), (1024.0, "KiB")];
    let (size, unit) = units.into_iter().find(|(size, _)| *size <= bytes).unwrap_or((1.0, "B"));
    let text = format!("{:.1}", bytes / size);
    format!("{} {unit}", text.trim_end_matches(".0"))
}

/// The nearest whole number; 0 below that.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the conversion saturates")]
fn rounded(value: f64) -> u64 {
    value.round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_suits_the_largest_figure() {
        let units = [
            (Quantity::Rate, 117e6),
            (Quantity::Rate, 1.17e9),
            (Quantity::Time, 150.0),
            (Quantity::Time, 181.0),
            (Quantity::RoundTrip, 0.0003),
            (Quantity::Count, f64::NAN),
            (Quantity::Size, 1.0),
        ];
        let names = units.map(|(quantity, most)| quantity.unit(most).0);
        assert_eq!(names, ["MB/s", "GB/s", "s", "min", "µs", "", ""]);
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
            Quantity::Size.shown(16_777_216.0),
            Quantity::Size.shown(1536.0),
        ];
        assert_eq!(
            shown,
            ["117 MB/s", "12.3 s", "80.30 ms", "12,408", "2.5", "96 %", "0.12 %", "61 µs", "16 MiB", "1.5 KiB"]
        );
    }
}
