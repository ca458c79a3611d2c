//! Figures for people: decimal units, thousands separators, times, shares.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use haul_base::size_text::{BINARY_UNITS, size_limit};
pub use haul_base::size_text::{part_of, size};

const RATE_UNITS: [&str; 7] = ["B", "kB", "MB", "GB", "TB", "PB", "EB"];
const BIT_UNITS: [&str; 5] = ["bit", "kbit", "Mbit", "Gbit", "Tbit"];

/// `12,408`
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut shown = String::with_capacity(digits.len() * 4 / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            shown.push(',');
        }
        shown.push(digit);
    }
    shown
}

/// `1 file`, `12,408 files`
pub fn counted(number: u64, one: &str, many: &str) -> String {
    format!("{} {}", count(number), if number == 1 { one } else { many })
}

/// `12,408 files`
pub fn files(number: u64) -> String {
    counted(number, "file", "files")
}

/// A rate limit: `20 MiB/s`, as typed.
pub fn limit(bytes_per_s: u64) -> String {
    match SHOWS_BITS.load(Ordering::Relaxed) {
        true => bit_rate(self::bytes_per_s(bytes_per_s, Duration::from_secs(1))),
        false => format!("{}/s", size_limit(bytes_per_s)),
    }
}

/// Whether rates are in bits: one choice for the whole process.
static SHOWS_BITS: AtomicBool = AtomicBool::new(false);

/// Makes [`rate`] use bits per second (`--bits`).
pub fn show_bits() {
    SHOWS_BITS.store(true, Ordering::Relaxed);
}

/// `1.17 GB/s`: three digits.
pub fn rate(bytes_per_s: f64) -> String {
    if SHOWS_BITS.load(Ordering::Relaxed) {
        return bit_rate(bytes_per_s);
    }
    per_second(bytes_per_s, RATE_UNITS)
}

/// `9.41 Gbit/s`.
pub fn bit_rate(bytes_per_s: f64) -> String {
    per_second(8.0 * bytes_per_s, BIT_UNITS)
}

/// Three digits in the smallest possible of `units`, each 1,000 times the one before.
fn per_second<const N: usize>(rate: f64, units: [&str; N]) -> String {
    let mut value = rate.max(0.0);
    let mut unit = 0;
    while unit + 1 < N && value >= 999.5 {
        value /= 1000.0;
        unit += 1;
    }
    let decimals = if unit == 0 { 0 } else { decimals(value) };
    format!("{value:.decimals$} {}/s", units[unit])
}

/// Bytes per second; 0 when no time has passed.
#[allow(clippy::cast_precision_loss, reason = "a rate is shown with three digits")]
pub fn bytes_per_s(bytes: u64, elapsed: Duration) -> f64 {
    match elapsed.as_secs_f64() {
        seconds if seconds > 0.0 => bytes as f64 / seconds,
        _ => 0.0,
    }
}

/// `0.84 s`, `12.3 s`, `4 min 44 s`, `2 h 03 min`, `3 d 04 h`
pub fn duration(elapsed: Duration) -> String {
    let seconds = elapsed.as_secs_f64();
    if seconds < 9.995 {
        return format!("{seconds:.2} s");
    }
    if seconds < 59.95 {
        return format!("{seconds:.1} s");
    }
    let whole = elapsed.as_secs() + u64::from(elapsed.subsec_millis() >= 500);
    match whole {
        0..3600 => format!("{} min {:02} s", whole / 60, whole % 60),
        3600..86_400 => format!("{} h {:02} min", whole / 3600, whole % 3600 / 60),
        _ => format!("{} d {:02} h", whole / 86_400, whole % 86_400 / 3600),
    }
}

/// `2 s`, `9 min 58 s`: a remaining time, rounded up to the second.
pub fn time_ahead(time: Duration) -> String {
    let whole = Duration::from_secs(time.as_secs() + u64::from(time.subsec_nanos() > 0));
    match whole.as_secs() {
        seconds @ 0..60 => format!("{seconds} s"),
        _ => duration(whole),
    }
}

/// `42 s ago`, `5 min ago`, `2 h ago`, `3 d ago`
pub fn ago(elapsed: Duration) -> String {
    let seconds = elapsed.as_secs();
    match seconds {
        0..60 => format!("{seconds} s ago"),
        60..3600 => format!("{} min ago", seconds / 60),
        3600..86_400 => format!("{} h ago", seconds / 3600),
        _ => format!("{} d ago", count(seconds / 86_400)),
    }
}

/// Percentage of `total`, rounded down, so that 100 means all.
pub fn percent(done: u64, total: u64) -> u64 {
    match total {
        0 => 100,
        _ => u64::try_from(u128::from(done) * 100 / u128::from(total)).unwrap_or(100).min(100),
    }
}

/// `96 %`: a fraction of one.
pub fn share(of_one: f64) -> String {
    format!("{:.0} %", of_one * 100.0)
}

/// `96 %`, and `0.12 %` below one percent.
pub fn exact_share(of_one: f64) -> String {
    if of_one > 0.0 && of_one < 0.01 { format!("{:.2} %", of_one * 100.0) } else { share(of_one) }
}

/// `80.3 ms`: a round trip, from microseconds.
pub fn round_trip(us: f64) -> String {
    format!("{:.1} ms", us / 1000.0)
}

fn decimals(value: f64) -> usize {
    match value {
        v if v < 9.995 => 2,
        v if v < 99.95 => 1,
        _ => 0,
    }
}

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
            Self::Share => exact_share(value),
        }
    }
}

/// `1.5 KiB`: a size with a binary unit, as in options.
pub fn binary_size(bytes: f64) -> String {
    let (mut value, mut unit) = (bytes, 0);
    while unit + 1 < BINARY_UNITS.len() && value >= 1024.0 {
        value /= 1024.0;
        unit += 1;
    }
    let text = format!("{value:.1}");
    format!("{} {}", text.trim_end_matches(".0"), BINARY_UNITS[unit])
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
    fn counts_have_separators() {
        assert_eq!([0, 999, 1000, 12_408, 1_234_567].map(count), ["0", "999", "1,000", "12,408", "1,234,567"]);
        assert_eq!([files(1), files(0), files(2)], ["1 file", "0 files", "2 files"]);
    }

    #[test]
    fn rates_have_three_digits() {
        let rates = [0.0, 12.4, 1000.0, 1_170_000_000.0, 11_700_000.0, 117_000_000.0, 999_600.0, -1.0];
        assert_eq!(
            rates.map(rate),
            ["0 B/s", "12 B/s", "1.00 kB/s", "1.17 GB/s", "11.7 MB/s", "117 MB/s", "1.00 MB/s", "0 B/s"]
        );
        assert_eq!(rate(bytes_per_s(500, Duration::from_millis(500))), "1.00 kB/s");
        assert_eq!(rate(bytes_per_s(500, Duration::ZERO)), "0 B/s");
    }

    #[test]
    fn limits_are_shown_as_typed() {
        let limits = [20 << 20, 1000 << 10, 50_000_000, 12_500_000, 1 << 40];
        assert_eq!(limits.map(limit), ["20 MiB/s", "1000 KiB/s", "50 MB/s", "12.5 MB/s", "1 TiB/s"]);
    }

    #[test]
    fn durations_are_in_plain_words() {
        let millis = [0, 840, 9_994, 9_996, 12_300, 59_940, 59_960, 284_000, 3_599_600, 7_380_000, 273_600_000];
        let shown = [
            "0.00 s",
            "0.84 s",
            "9.99 s",
            "10.0 s",
            "12.3 s",
            "59.9 s",
            "1 min 00 s",
            "4 min 44 s",
            "1 h 00 min",
            "2 h 03 min",
            "3 d 04 h",
        ];
        assert_eq!(millis.map(|ms| duration(Duration::from_millis(ms))), shown);
    }

    #[test]
    fn ages_are_approximate() {
        let seconds = [0, 59, 60, 3599, 3600, 86_399, 86_400, 200_000_000];
        let shown = ["0 s ago", "59 s ago", "1 min ago", "59 min ago", "1 h ago", "23 h ago", "1 d ago", "2,314 d ago"];
        assert_eq!(seconds.map(|seconds| ago(Duration::from_secs(seconds))), shown);
    }

    #[test]
    fn a_hundred_percent_is_all_of_it() {
        assert_eq!(
            [percent(0, 3), percent(999, 1000), percent(3, 3), percent(0, 0), percent(9, 3)],
            [0, 99, 100, 100, 100]
        );
        assert_eq!(percent(u64::MAX - 1, u64::MAX), 99);
    }

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
            Quantity::Size.shown(2f64.powi(62)),
        ];
        assert_eq!(
            shown,
            [
                "117 MB/s", "12.3 s", "80.30 ms", "12,408", "2.5", "96 %", "0.12 %", "61 µs", "16 MiB", "1.5 KiB",
                "4 EiB"
            ]
        );
    }
}
