//! Parsers of arguments that take more than one line in the declaration.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::time::Duration;

use haul_base::copy::rate::RATE_MAX;
use haul_base::copy::spec::{
    Cipher, CompressionMethod, CompressionPolicy, EqualityTest, Fsync, RangeLen, Striping, StripingPolicy,
};
use haul_base::quantity::parse_size;
use haul_proto::compression::{LEVEL_DEFAULT, LEVEL_MAX};
use haul_proto::limits::{RATE_MIN, UNDER_WAY_MAX};

use super::UsageError;
use super::argument::Argument;

type Parsed<T> = Result<T, UsageError>;

/// Most stripes of a file (`LOV_MAX_STRIPE_COUNT`).
const STRIPES_MAX: u16 = 2000;

const RATES: &str = "from 1k to 1t, in bytes a second";

/// The time at which extraneous entries are removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeleteTime {
    /// Before the copy.
    Before,
    /// During the copy.
    During,
    /// After the copy.
    After,
}

/// The argument as typed.
pub fn raw(argument: Argument<'_>) -> Parsed<OsString> {
    Ok(argument.value.to_owned())
}

/// `--to`: targets, separated by commas.
pub fn targets(argument: Argument<'_>) -> Parsed<Vec<OsString>> {
    let mut targets = vec![Vec::new()];
    let mut bytes = argument.value.as_bytes().iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        match (byte, targets.last_mut()) {
            (b'\\', Some(target)) if bytes.next_if_eq(&b',').is_some() => target.push(b','),
            (b',', _) | (_, None) => targets.push(Vec::new()),
            (byte, Some(target)) => target.push(byte),
        }
    }
    match targets.iter().any(Vec::is_empty) {
        true => Err(argument.bad("must be targets, separated by commas: h1:d,h2:d,/local/d")),
        false => Ok(targets.into_iter().map(OsString::from_vec).collect()),
    }
}

pub fn text(argument: Argument<'_>) -> Parsed<String> {
    argument.text().map(str::to_owned)
}

pub fn word(argument: Argument<'_>) -> Parsed<String> {
    let text = argument.text()?;
    match text.is_empty() || text.contains(char::is_whitespace) {
        true => Err(argument.bad("must be one word")),
        false => Ok(text.to_owned()),
    }
}

/// `--remote-dir`: the other host's shell gets it.
pub fn remote_dir(argument: Argument<'_>) -> Parsed<PathBuf> {
    let bytes = argument.value.as_bytes();
    let is_path = bytes.starts_with(b"/") || bytes.starts_with(b"~/");
    match is_path && !bytes.iter().any(u8::is_ascii_control) {
        true => Ok(PathBuf::from(argument.value)),
        false => Err(argument.bad("must be an absolute path, or begin with ~/")),
    }
}

/// `--timelimit`, and the duration of a copy to null.
pub fn run_time(argument: Argument<'_>) -> Parsed<Duration> {
    argument.time(Duration::from_secs(1)..=Duration::from_secs(365 * 86_400), "from 1s to 365d")
}

/// `--realtime`: ends agree on whole seconds.
pub fn quiet_time(argument: Argument<'_>) -> Parsed<Duration> {
    let limits = "from 1s to 1d, in whole seconds";
    match argument.time(Duration::from_secs(1)..=Duration::from_secs(86_400), limits)? {
        time if time.subsec_nanos() > 0 => Err(argument.bad(&format!("must be a time {limits}"))),
        time => Ok(time),
    }
}

pub fn rate(argument: Argument<'_>) -> Parsed<u64> {
    argument.rate(RATE_MIN..=RATE_MAX, RATES)
}

/// rsync's limit: KiB per second without a unit; 0 is none.
pub fn bwlimit(argument: Argument<'_>) -> Parsed<Option<u64>> {
    let text = argument.value.to_str().unwrap_or_default();
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let with_unit = if is_number { format!("{text}k") } else { text.to_owned() };
    match (Argument { value: OsStr::new(&with_unit), ..argument }).rate(0..=RATE_MAX, RATES)? {
        0 => Ok(None),
        rate if rate < RATE_MIN => Err(argument.bad("must be a rate of at least 1k per second")),
        rate => Ok(Some(rate)),
    }
}

pub fn frame(argument: Argument<'_>) -> Parsed<u32> {
    let sizes = "of 256k, 512k or 1m";
    match argument.size(256u32 << 10..=1 << 20, sizes)? {
        size if size.is_power_of_two() => Ok(size),
        _ => Err(argument.bad(&format!("must be a size {sizes}"))),
    }
}

/// `[=]SIZE`: the size, and whether it overrides tuning.
pub fn window(argument: Argument<'_>) -> Parsed<(u32, bool)> {
    let fixed = argument.value.as_bytes().strip_prefix(b"=");
    let (bytes, _) = forced_window(Argument { value: fixed.map_or(argument.value, OsStr::from_bytes), ..argument })?;
    Ok((bytes, fixed.is_some()))
}

/// `SIZE`, which always overrides tuning.
pub fn forced_window(argument: Argument<'_>) -> Parsed<(u32, bool)> {
    Ok((argument.size(4 << 10..=1 << 30, "from 4k to 1g")?, true))
}

/// `[+]N`: whether it applies to the target, and the number of frames in flight.
pub fn queue_depth(argument: Argument<'_>) -> Parsed<(bool, u8)> {
    let at_target = argument.value.as_bytes().strip_prefix(b"+");
    let number = Argument { value: at_target.map_or(argument.value, OsStr::from_bytes), ..argument };
    Ok((at_target.is_some(), number.number(1..=UNDER_WAY_MAX)?))
}

pub fn cipher(argument: Argument<'_>) -> Parsed<Cipher> {
    argument.choice(&[
        ("auto", Cipher::Auto),
        ("aes-256-gcm", Cipher::Aes256Gcm),
        ("aes-128-gcm", Cipher::Aes128Gcm),
        ("chacha20-poly1305", Cipher::ChaCha20Poly1305),
    ])
}

/// A word, or a level; 0 is off, as in bbcp.
pub fn compression(argument: Argument<'_>) -> Parsed<CompressionPolicy> {
    let given = argument.value.as_bytes();
    if !given.is_empty() && given.iter().all(u8::is_ascii_digit) {
        return Ok(match argument.number(0..=LEVEL_MAX)? {
            0 => CompressionPolicy::Off,
            level => CompressionPolicy::Always(CompressionMethod::Zstd(level)),
        });
    }
    argument.choice(&[
        ("auto", CompressionPolicy::Auto),
        ("off", CompressionPolicy::Off),
        ("lz4", CompressionPolicy::Always(CompressionMethod::Lz4)),
        ("zstd", CompressionPolicy::Always(CompressionMethod::Zstd(LEVEL_DEFAULT))),
    ])
}

/// haul's words, and bbcp's `d` and `dd`.
pub fn fsync(argument: Argument<'_>) -> Parsed<Fsync> {
    let words = [("none", Fsync::None), ("data", Fsync::Data), ("full", Fsync::Full)];
    argument.choice(&[&words[..], &[("d", Fsync::Data), ("dd", Fsync::Full)]].concat())
}

/// Test for equality with an existing file; `None`: any existing file counts as equal.
pub fn equality(argument: Argument<'_>) -> Parsed<Option<EqualityTest>> {
    argument.choice(&[
        ("time", Some(EqualityTest::SizeAndTime)),
        ("size", Some(EqualityTest::Size)),
        ("digest", Some(EqualityTest::Digest)),
        ("exists", None),
        ("never", Some(EqualityTest::Never)),
    ])
}

/// Connections with one address family.
pub fn places(argument: Argument<'_>) -> Parsed<&'static str> {
    argument.choice(&["c", "s", "t", "cs", "ct", "st", "cst", "c,s", "c,t", "s,t", "c,s,t"].map(|word| (word, word)))
}

/// `COUNT[,SIZE]`, or the directory's default.
pub fn stripe(argument: Argument<'_>) -> Parsed<StripingPolicy> {
    let text = argument.text()?;
    let (count, size) = text.split_once(',').map_or((text, None), |(count, size)| (count, Some(size)));
    let count = match count {
        "off" if size.is_none() => return Ok(StripingPolicy::Directory),
        "all" | "-1" => Striping::ALL,
        digits => digits.parse().ok().filter(|count| (1..=STRIPES_MAX).contains(count)).ok_or_else(|| {
            let remedy = "for example --stripe 8, --stripe 8,4m or --stripe all";
            argument.bad("must be off, or all or a count of 1 to 2000, with a size or without").remedy(remedy)
        })?,
    };
    let limits = "from 64k to 2g, a multiple of 64k";
    let bytes = |size| Argument { value: OsStr::new(size), ..argument }.size(Striping::SIZE_UNIT..=2 << 30, limits);
    match size.map_or(Ok(0), bytes)? {
        size if size % Striping::SIZE_UNIT == 0 => Ok(StripingPolicy::Fixed(Striping { count, size })),
        _ => Err(argument.bad(&format!("must have a size {limits}"))),
    }
}

/// `P` or `P:Q`.
pub fn ports(argument: Argument<'_>) -> Parsed<(u16, u16)> {
    let text = argument.text()?;
    let (first, last) = text.split_once(':').unwrap_or((text, text));
    let port = |text: &str| {
        let digits = Some(text).filter(|text| text.bytes().all(|b| b.is_ascii_digit()));
        digits.and_then(|text| text.parse::<u16>().ok()).filter(|port| *port > 0)
    };
    match (port(first), port(last)) {
        (Some(first), Some(last)) if first <= last => Ok((first, last)),
        _ => Err(argument.bad("must be a port from 1 to 65535, or a range").remedy("for example 5031 or 5031:5039")),
    }
}

/// `OFFSET+LENGTH`.
pub fn byte_range(argument: Argument<'_>) -> Parsed<(u64, u64)> {
    let sizes = argument.text()?.split_once('+');
    let range = sizes.and_then(|(offset, length)| Some((parse_size(offset).ok()?, parse_size(length).ok()?)));
    range.ok_or_else(|| argument.bad("must be two sizes").remedy("for example 4m+64k"))
}

/// The length of file ranges; 0 for none.
pub fn range_len(argument: Argument<'_>) -> Parsed<u64> {
    let limits = "that is 0, or a power of two from 1m on";
    let bytes = argument.size(0..=u64::MAX, limits)?;
    let is_len = bytes == 0 || RangeLen::new(bytes).is_ok();
    if is_len { Ok(bytes) } else { Err(argument.bad(&format!("must be a size {limits}"))) }
}
