//! Sizes, rates and times as people write them. Options, configuration files and `null:SIZE` share these parsers.
//!
//! As in rsync, K, KiB and so on are powers of 1024, KB and so on powers of 1000: copied command lines keep their
//! meaning. Bits are decimal, as in networks. In a rate, `b` without `it` or `ps` may mean either, and is refused.

use std::time::Duration;

use QuantityError::{Form, TooLarge};

/// Decimal places that count.
const DECIMALS_MAX: usize = 18;
/// Letters of units, each a thousand times the one before, or 1024 times.
const PREFIXES: [&str; 6] = ["", "k", "m", "g", "t", "p"];
/// Units of times, in milliseconds.
const TIME_UNITS: [(&str, u64); 6] =
    [("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("m", 60_000), ("s", 1000), ("ms", 1)];

/// The reason why a text is no size, rate or time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QuantityError {
    /// Not a number with a known unit.
    Form,
    /// More than 64 bits.
    TooLarge,
}

/// Parses a size in bytes, rounded down.
pub fn parse_size(text: &str) -> Result<u64, QuantityError> {
    let (number, unit) = Number::with_unit(text)?;
    number.bytes(&unit.to_ascii_lowercase())
}

/// Parses a rate in bytes per second, rounded down: a size or a number of bits, with `/s` or without.
pub fn parse_rate(text: &str) -> Result<u64, QuantityError> {
    let (number, unit) = Number::with_unit(text)?;
    let unit = unit.strip_suffix("/s").unwrap_or(unit);
    let lower = unit.to_ascii_lowercase();
    match lower.strip_suffix("bit").or_else(|| lower.strip_suffix("bps").filter(|_| unit.ends_with("bps"))) {
        Some(prefix) if !text.ends_with("bps/s") => Ok(number.times(power(prefix, 1000).ok_or(Form)?)? / 8),
        None if !unit.ends_with('b') => number.bytes(&lower),
        _ => Err(Form),
    }
}

/// Parses a time: seconds, or numbers with units, the largest first.
pub fn parse_time(text: &str) -> Result<Duration, QuantityError> {
    let (mut left, mut all_ms, mut above_ms) = (text, 0u64, u64::MAX);
    while above_ms == u64::MAX || !left.is_empty() {
        let (number, after) = Number::at_start(left)?;
        let (unit, after) = after.split_at(after.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(after.len()));
        let unit_ms = match TIME_UNITS.iter().find(|(name, _)| *name == unit) {
            Some((_, unit_ms)) if *unit_ms < above_ms && (after.is_empty() || number.decimals == 0) => *unit_ms,
            None if unit.is_empty() && after.is_empty() && above_ms == u64::MAX => 1000,
            _ => return Err(Form),
        };
        all_ms = all_ms.checked_add(number.times(unit_ms)?).ok_or(TooLarge)?;
        (left, above_ms) = (after, unit_ms);
    }
    Ok(Duration::from_millis(all_ms))
}

fn power(prefix: &str, base: u64) -> Option<u64> {
    (0..).zip(PREFIXES).find(|(_, known)| *known == prefix).map(|(exponent, _)| base.pow(exponent))
}

/// A decimal number: its digits, and how many of them follow the point.
struct Number {
    digits: u128,
    decimals: u32,
}

impl Number {
    /// Returns the number and its unit, which may follow a space.
    fn with_unit(text: &str) -> Result<(Self, &str), QuantityError> {
        let (number, rest) = Self::at_start(text)?;
        Ok((number, rest.strip_prefix(' ').filter(|unit| !unit.is_empty()).unwrap_or(rest)))
    }

    /// Returns the number at the start of `text`, and the rest.
    fn at_start(text: &str) -> Result<(Self, &str), QuantityError> {
        let split = |text: &'_ str| text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (whole, mut rest) = text.split_at(split(text));
        let mut fraction = "";
        if let Some(after) = rest.strip_prefix('.') {
            (fraction, rest) = after.split_at(split(after));
            if fraction.is_empty() {
                return Err(Form);
            }
        }
        if whole.is_empty() {
            return Err(Form);
        }
        let fraction = fraction.get(..DECIMALS_MAX).unwrap_or(fraction);
        let digits = format!("{whole}{fraction}").parse().map_err(|_| TooLarge)?;
        Ok((Self { digits, decimals: u32::try_from(fraction.len()).unwrap_or_default() }, rest))
    }

    /// Its bytes in a unit of small letters.
    fn bytes(&self, unit: &str) -> Result<u64, QuantityError> {
        let factor = match (unit.strip_suffix("ib").filter(|prefix| !prefix.is_empty()), unit.strip_suffix('b')) {
            (Some(prefix), _) => power(prefix, 1024),
            (None, Some(prefix)) => power(prefix, 1000),
            (None, None) => power(unit, 1024),
        };
        // Without a unit, a point is rather a slip.
        self.times(factor.filter(|factor| *factor > 1 || self.decimals == 0).ok_or(Form)?)
    }

    /// Its product with `unit`, rounded down.
    fn times(&self, unit: u64) -> Result<u64, QuantityError> {
        // With at most 18 decimal places, an overflow is one of 64 bits, too.
        let product = self.digits.checked_mul(unit.into()).ok_or(TooLarge)?;
        u64::try_from(product / 10u128.pow(self.decimals)).map_err(|_| TooLarge)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_binary_unless_a_b_makes_them_decimal() {
        for (text, bytes) in [
            ("0", 0),
            ("512", 512),
            ("512B", 512),
            ("512k", 512 << 10),
            ("100K", 100 << 10),
            ("64KiB", 64 << 10),
            ("10M", 10 << 20),
            ("10MiB", 10 << 20),
            ("10mib", 10 << 20),
            ("10MB", 10_000_000),
            ("10 MB", 10_000_000),
            ("10mb", 10_000_000),
            ("1kB", 1000),
            ("1KB", 1000),
            ("1.5g", 3 << 29),
            ("0.1k", 102),
            ("1.5KB", 1500),
            ("2.0000000000000000000000001k", 2048),
            ("1t", 1 << 40),
            ("2P", 2 << 50),
            ("2PB", 2_000_000_000_000_000),
            ("17179869183g", 17_179_869_183 << 30),
            ("18446744073709551615", u64::MAX),
        ] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn no_other_text_is_a_size() {
        for text in [
            "",
            "k",
            "g",
            "1.5",
            "1.5B",
            "1.",
            ".5g",
            "1.5.5g",
            "1,5g",
            "1  g",
            "1 ",
            " 1g",
            "1g ",
            "-1",
            "+1",
            "1e9",
            "0x10",
            "1kk",
            "1ib",
            "1i",
            "1ki",
            "1bb",
            "1kbb",
            "1_000",
            "1e",
            "1g0",
            "1m/s",
            "1Mbit",
            "１０m",
            "1\u{212a}",
            "1µ",
            "ten",
        ] {
            assert_eq!(parse_size(text), Err(Form), "{text:?}");
        }
        for text in ["17179869184g", "99999999t", "18446744073709551616", &"9".repeat(60), "16384.0p"] {
            assert_eq!(parse_size(text), Err(TooLarge), "{text}");
        }
    }

    #[test]
    fn rates_are_sizes_or_bits_per_second() {
        for (text, bytes_per_s) in [
            ("20m", 20 << 20),
            ("20M/s", 20 << 20),
            ("10MB/s", 10_000_000),
            ("10MiB/s", 10 << 20),
            ("1.5GB", 1_500_000_000),
            ("4096", 4096),
            ("100Mbit", 12_500_000),
            ("100Mbit/s", 12_500_000),
            ("100mbit", 12_500_000),
            ("1Gbit", 125_000_000),
            ("2.5Gbit/s", 312_500_000),
            ("1gbps", 125_000_000),
            ("1Gbps", 125_000_000),
            ("400mbps", 50_000_000),
            ("9bit", 1),
        ] {
            assert_eq!(parse_rate(text), Ok(bytes_per_s), "{text}");
        }
    }

    #[test]
    fn no_other_text_is_a_rate() {
        for text in [
            "", "/s", "m", "10Mb", "10mb/s", "10MBps", "10MBPS", "10MiBps", "10mps", "1Mibit", "1gbps/s", "1m/s/s",
            "1m/min", "1.5", "1  Gbit", "1gbits", "-1m", "1bps2", "１m",
        ] {
            assert_eq!(parse_rate(text), Err(Form), "{text:?}");
        }
        assert_eq!(parse_rate("99999999t/s"), Err(TooLarge));
    }

    #[test]
    fn times_are_sums_of_units() {
        for (text, ms) in [
            ("0", 0),
            ("90", 90_000),
            ("1.5", 1500),
            ("15s", 15_000),
            ("10m", 600_000),
            ("10min", 600_000),
            ("2h", 7_200_000),
            ("1h30m", 5_400_000),
            ("1h30min5s", 5_405_000),
            ("1d12h", 129_600_000),
            ("1.5h", 5_400_000),
            ("1h1.5m", 3_690_000),
            ("500ms", 500),
            ("1s500ms", 1500),
            ("0.0015s", 1),
            ("365d", 31_536_000_000),
        ] {
            assert_eq!(parse_time(text), Ok(Duration::from_millis(ms)), "{text}");
        }
    }

    #[test]
    fn no_other_text_is_a_time() {
        for text in [
            "",
            "m",
            ".5",
            "1.",
            "1.5.5",
            "-1",
            "+1",
            "1 m",
            "1M",
            "1H",
            "1e9",
            "30m1h",
            "1h1h",
            "1m1min",
            "1.5h30m",
            "1h30",
            "1h 30m",
            "1ms1s",
            "90_",
            "1w",
            "1\u{444}",
            "１０m",
            "tomorrow",
            "2026-11-01",
        ] {
            assert_eq!(parse_time(text), Err(Form), "{text:?}");
        }
        for text in ["18446744073709551615d", "99999999999999999999", "18446744073709551615ms1ms"] {
            assert!(parse_time(text).is_err(), "{text}");
        }
        assert_eq!(parse_time("18446744073709551615"), Err(TooLarge));
    }
}
