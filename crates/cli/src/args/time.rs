//! Times: whole seconds, or a number with s, m, h or d.

use std::time::Duration;

/// Parses a time; `None` if `text` is none.
pub fn parse_time(text: &str) -> Option<Duration> {
    let (digits, unit_s) = match text.char_indices().last() {
        Some((at, 's')) => (&text[..at], 1),
        Some((at, 'm')) => (&text[..at], 60),
        Some((at, 'h')) => (&text[..at], 3600),
        Some((at, 'd')) => (&text[..at], 86_400),
        _ => (text, 1),
    };
    let number: u64 = Some(digits).filter(|digits| digits.bytes().all(|b| b.is_ascii_digit()))?.parse().ok()?;
    number.checked_mul(unit_s).map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_need_no_unit() {
        for (text, seconds) in [("0", 0), ("90", 90), ("15s", 15), ("10m", 600), ("2h", 7200), ("1d", 86_400)] {
            assert_eq!(parse_time(text), Some(Duration::from_secs(seconds)), "{text}");
        }
    }

    #[test]
    fn anything_else_is_no_time() {
        for text in ["", "m", "1.5h", "-1", "+1", "1 m", "5min", "1M", "18446744073709551615d", "1\u{444}"] {
            assert_eq!(parse_time(text), None, "{text:?}");
        }
    }
}
