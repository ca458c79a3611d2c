//! Sizes in bbcp's form: an integer with an optional k, m or g (powers of 1024).

/// Parses a size in bytes.
pub fn parse_size(text: &str) -> Result<u64, SizeError> {
    let (digits, unit) = match text.char_indices().last() {
        Some((at, 'k' | 'K')) => (&text[..at], 1 << 10),
        Some((at, 'm' | 'M')) => (&text[..at], 1 << 20),
        Some((at, 'g' | 'G')) => (&text[..at], 1 << 30),
        _ => (text, 1),
    };
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(SizeError::Form);
    }
    let number: u64 = digits.parse().map_err(|_| SizeError::TooLarge)?;
    number.checked_mul(unit).ok_or(SizeError::TooLarge)
}

/// An invalid size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SizeError {
    /// Not digits with at most one unit letter.
    Form,
    /// More than 64 bits.
    TooLarge,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_powers_of_1024_in_either_case() {
        assert_eq!(parse_size("0"), Ok(0));
        assert_eq!(parse_size("512"), Ok(512));
        assert_eq!(parse_size("256k"), Ok(256 * 1024));
        assert_eq!(parse_size("1M"), Ok(1 << 20));
        assert_eq!(parse_size("3g"), Ok(3 << 30));
        assert_eq!(parse_size("17179869183G"), Ok(17_179_869_183 << 30));
    }

    #[test]
    fn anything_else_is_refused() {
        for text in ["", "k", "1kb", "1.5g", "-1", "+1", "1 k", "0x10", "1\u{212a}", "kk"] {
            assert_eq!(parse_size(text), Err(SizeError::Form), "{text:?}");
        }
        assert_eq!(parse_size("17179869184g"), Err(SizeError::TooLarge));
        assert_eq!(parse_size("99999999999999999999"), Err(SizeError::TooLarge));
    }
}
