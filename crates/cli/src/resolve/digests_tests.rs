//! What `--checksum`, `--checksum-alg` and `--expect` come to.

use std::ffi::OsString;

use super::*;
use crate::args::Dialect;
use crate::args::parse::{Command, parse};
use crate::resolve::{Plan, plan};

fn plan_of(line: &str) -> Result<Plan, String> {
    let words = line.split(' ').chain(["a", "b"]).map(OsString::from).collect();
    let command =
        parse(Dialect::Haul, words, &crate::args::local_files::PlainFiles).map_err(|error| error.to_string())?;
    let Command::Copy(values, operands) = command else { panic!("{line}") };
    plan(&values, &operands, false).map_err(|error| error.to_string())
}

fn planned(line: &str) -> Result<(Option<ChecksumOptions>, Digests, bool), String> {
    let plan = plan_of(line)?;
    let options = plan.copy.options;
    Ok((options.integrity.checksum, plan.digests, options.integrity.digest_existing))
}

fn good(line: &str) -> (Option<ChecksumOptions>, Digests, bool) {
    planned(line).unwrap()
}

#[test]
fn blake3_is_computed_if_requested_or_shown() {
    for (line, is_computed) in [
        ("-f", false),
        ("-vvv", false),
        ("--json", true),
        ("--checksums sums", true),
        ("--checksums sums --checksum-alg md5", false),
        ("--digest blake3", true),
        ("--digest xxh3 --json", false),
    ] {
        assert_eq!(plan_of(line).map(|plan| plan.copy.options.integrity.blake3).ok(), Some(is_computed), "{line}");
    }
    for line in ["--digest xxh3 --checksums sums", "--digest xxh3 --verify memory", "--digest md5"] {
        assert!(plan_of(line).is_err(), "{line}");
    }
}

#[test]
fn bbcps_argument_gives_algorithm_end_and_purpose() {
    let asked = |line: &str| {
        let (checksum, digests, _) = good(line);
        let ChecksumOptions { algorithm, at_source, against } = checksum.unwrap();
        let value = if let ChecksumReference::Value(value) = against { Some(value) } else { None };
        (algorithm.name(), at_source, value, digests.output.map(|(_, output)| output))
    };
    assert_eq!(asked("--checksum md5"), ("md5", false, None, Some(DigestSink::Shown)));
    assert_eq!(asked("--checksum %c32="), ("c32", true, None, Some(DigestSink::Shown)));
    assert_eq!(asked("--checksum a32=00Ff0010"), ("a32", false, Some(vec![0, 255, 0, 16]), None));
    assert_eq!(asked("--checksum %xxh3=sums"), ("xxh3", true, None, Some(DigestSink::Added("sums".into()))));
    // What looks like a digest and is none of this algorithm is not guessed at.
    assert_eq!(asked("--checksum a32=./00ff0010"), ("a32", false, None, Some(DigestSink::Added("./00ff0010".into()))));
    for wrong in ["--checksum a32=00ff001", "--checksum a32=00ff00100", "--checksum md5=abc"] {
        assert!(planned(wrong).unwrap_err().contains("hexadecimal digits"), "{wrong}");
    }
    for wrong in ["--checksum MD5", "--checksum crc32", "--checksum %", "--checksum =sums", "--checksum md4=x"] {
        assert!(planned(wrong).unwrap_err().contains(": must be "), "{wrong}");
    }
}

#[test]
fn lines_are_b3sums_unless_another_digest_is_named() {
    let (checksum, digests, existing) = good("--checksums sums");
    assert!(checksum.is_none() && existing && digests == Digests::default());
    assert!(good("--checksums sums --checksum-alg blake3").0.is_none());
    let (checksum, digests, existing) = good("--checksums sums --checksum-alg sha256");
    assert_eq!(
        (checksum.unwrap().algorithm, digests.of_lines, existing),
        (ChecksumAlgorithm::Sha256, Some(ChecksumAlgorithm::Sha256), false)
    );
    let (checksum, digests, existing) = good("--checksums sums --checksum %md5");
    assert!(checksum.unwrap().at_source && existing && digests.of_lines.is_none());
}

#[test]
fn one_digest_is_computed_at_a_time() {
    let (checksum, digests, _) = good("--expect sums");
    assert!(checksum.is_none() && digests.expected == Some(("sums".into(), None)));
    let (_, digests, _) = good("--expect sums --checksum-alg sha1");
    assert_eq!(digests.expected, Some(("sums".into(), Some(ChecksumAlgorithm::Sha1))));
    assert_eq!(good("--expect sums --checksum sha1").1.expected, Some(("sums".into(), Some(ChecksumAlgorithm::Sha1))));
    for (wrong, why) in [
        ("--checksum-alg sha1", "needs --checksums or --expect"),
        ("--checksum-alg sha1 --expect sums --checksum md5", "name the same digest"),
        ("--expect sums --checksum %md5", "omit %"),
        ("--checksums sums --checksum-alg md5 --checksum %md5", "omit %"),
        ("--expect sums --checksum a32=00000001", "cannot be used with"),
        ("--expect -", "must be a regular file"),
        ("--expect= ", "must be a regular file"),
    ] {
        let error = planned(wrong).unwrap_err();
        assert!(error.contains(why), "{wrong}: {error}");
    }
}
