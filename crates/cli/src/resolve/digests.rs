//! `--checksum`, `--checksum-alg` and `--expect`: the digest of each file, the end that computes it, and its use.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use haul_base::copy::spec::{ChecksumAlgorithm, ChecksumOptions, ChecksumReference};
use haul_proto::checksum::from_hex;
use haul_proto::path::escape;

use crate::args::argument::bad;
use crate::args::row::OptionRow;
use crate::args::values::Values;
use crate::args::{Dialect, UsageError, contradiction, flags};

/// Uses of the files' digests.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Digests {
    /// Output of `-E`: lines in bbcp's form.
    pub output: Option<(ChecksumAlgorithm, DigestSink)>,
    /// `--checksum-alg`: the algorithm of `--checksums`; `None` for BLAKE3 in b3sum's form.
    pub of_lines: Option<ChecksumAlgorithm>,
    /// The file of `--expect`, and its algorithm if given.
    pub expected: Option<(PathBuf, Option<ChecksumAlgorithm>)>,
}

/// Destination of `--checksum`'s output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DigestSink {
    /// On standard output.
    Shown,
    /// Appended to this file.
    Added(PathBuf),
}

/// A parsed argument of `--checksum`.
struct DigestOutput {
    algorithm: ChecksumAlgorithm,
    at_source: bool,
    /// Whether a `=` follows the algorithm.
    has_what: bool,
    what: DigestMode,
}

enum DigestMode {
    Report(DigestSink),
    Compare(Vec<u8>),
}

/// The digests for the engine, without the contents of the file of `--expect`, and for the display.
pub fn digests(values: &Values) -> Result<(Option<ChecksumOptions>, Digests), UsageError> {
    let asked = values.last(&flags::CHECKSUM).map(asked).transpose()?;
    // bbcp prints a digest only with `=`.
    let is_printed = |asked: &DigestOutput| values.dialect() == Dialect::Haul || asked.has_what;
    let asked = asked.filter(is_printed);
    let named =
        values.last(&flags::CHECKSUM_ALG).map(|value| algorithm(&flags::CHECKSUM_ALG, value, value)).transpose()?;
    let expected = match values.last(&flags::EXPECT) {
        Some(file) if file.is_empty() || file == "-" => {
            return Err(UsageError::new(format!(
                "{}: must be a regular file, since it is read twice",
                flags::EXPECT.typed()
            )));
        }
        file => file.map(PathBuf::from),
    };
    let writes_lines = values.is_set(&flags::CHECKSUMS);
    if named.is_some() && !writes_lines && expected.is_none() {
        return Err(UsageError::new("--checksum-alg needs --checksums or --expect")
            .remedy("to print the digest of each file: --checksum ALG"));
    }
    let of_lines = named.filter(|algorithm| writes_lines && *algorithm != ChecksumAlgorithm::Blake3);
    if let Some(asked) = &asked {
        refuse_a_second(asked, named, expected.is_some())?;
    }
    let output = asked.as_ref().and_then(|asked| match &asked.what {
        DigestMode::Report(output) => Some((asked.algorithm, output.clone())),
        DigestMode::Compare(_) => None,
    });
    let algorithm = asked.as_ref().map(|asked| asked.algorithm);
    let expected = expected.map(|file| (file, algorithm.or(named)));
    let checksum = match asked {
        Some(DigestOutput { algorithm, at_source, what, .. }) => {
            let against = match what {
                DigestMode::Report(_) => ChecksumReference::Nothing,
                DigestMode::Compare(value) => ChecksumReference::Value(value),
            };
            Some(ChecksumOptions { algorithm, at_source, against })
        }
        None => of_lines.map(|algorithm| ChecksumOptions {
            algorithm,
            at_source: false,
            against: ChecksumReference::Nothing,
        }),
    };
    Ok((checksum, Digests { output, of_lines, expected }))
}

/// Whether the BLAKE3 digest of each file is computed: if requested or displayed.
pub fn blake3(values: &Values, writes_lines: bool) -> Result<bool, UsageError> {
    let asked = values.get(&flags::DIGEST)?;
    if asked == Some(false) && (writes_lines || values.is_set(&flags::VERIFY)) {
        let other: &OptionRow = if writes_lines { &flags::CHECKSUMS } else { &flags::VERIFY };
        let what = format!("{} xxh3 cannot be used with {}, which needs BLAKE3", flags::DIGEST.typed(), other.typed());
        return Err(UsageError::new(what));
    }
    Ok(asked.unwrap_or(writes_lines || values.is_set(&flags::JSON)))
}

/// Refuses a second digest: besides BLAKE3, one is computed, at one end.
fn refuse_a_second(asked: &DigestOutput, named: Option<ChecksumAlgorithm>, expects: bool) -> Result<(), UsageError> {
    if named.is_some_and(|named| named != asked.algorithm && named != ChecksumAlgorithm::Blake3) {
        return Err(UsageError::new(
            "--checksum and --checksum-alg name different digests, but only one can be computed",
        )
        .remedy("name the same digest"));
    }
    if asked.at_source && (expects || named.is_some_and(|named| named != ChecksumAlgorithm::Blake3)) {
        return Err(UsageError::new(
            "--checksum % computes digests at the source, but digest lists are computed at the target",
        )
        .remedy("omit %"));
    }
    if expects && matches!(asked.what, DigestMode::Compare(_)) {
        return Err(contradiction(&flags::CHECKSUM, &flags::EXPECT));
    }
    Ok(())
}

/// `[%]ALGORITHM[=[VALUE or FILE]]`. An argument with the hexadecimal digits of the algorithm is a value.
fn asked(value: &OsStr) -> Result<DigestOutput, UsageError> {
    let bytes = value.as_bytes();
    let (bytes, at_source) = match bytes.strip_prefix(b"%") {
        Some(rest) => (rest, true),
        None => (bytes, false),
    };
    let mut parts = bytes.splitn(2, |byte| *byte == b'=');
    let algorithm = algorithm(&flags::CHECKSUM, value, OsStr::from_bytes(parts.next().unwrap_or_default()))?;
    let rest = parts.next();
    let has_what = rest.is_some();
    let what = match rest {
        None | Some([]) => DigestMode::Report(DigestSink::Shown),
        Some(text) if !text.iter().all(u8::is_ascii_hexdigit) => {
            DigestMode::Report(DigestSink::Added(OsStr::from_bytes(text).into()))
        }
        Some(text) => {
            let digest = from_hex(text).filter(|digest| digest.len() == algorithm.bytes());
            DigestMode::Compare(digest.ok_or_else(|| neither(algorithm, text))?)
        }
    };
    Ok(DigestOutput { algorithm, at_source, has_what, what })
}

fn neither(algorithm: ChecksumAlgorithm, text: &[u8]) -> UsageError {
    let (name, digits, shown) = (algorithm.name(), 2 * algorithm.bytes(), escape(text));
    UsageError::new(format!(
        "--checksum {name}={shown}: a {name} digest has {digits} hexadecimal digits, not {}",
        text.len()
    ))
    .remedy(format!("for a file of that name, write --checksum {name}=./{shown}"))
}

/// Parses the name of an algorithm.
fn algorithm(row: &OptionRow, value: &OsStr, name: &OsStr) -> Result<ChecksumAlgorithm, UsageError> {
    let names = || ChecksumAlgorithm::all().map(ChecksumAlgorithm::name).collect::<Vec<_>>().join(", ");
    name.to_str()
        .and_then(ChecksumAlgorithm::named)
        .ok_or_else(|| bad(row, value, &format!("must be one of {}", names())))
}

#[cfg(test)]
#[path = "digests_tests.rs"]
mod tests;
