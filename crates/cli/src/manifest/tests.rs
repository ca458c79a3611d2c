//! Manifests are read, and what has no other half is named.

use super::*;

/// A manifest, and the directory that it is in.
type Read = (Manifest, tempfile::TempDir);

fn manifest(text: &str, algorithm: Option<ChecksumAlgorithm>) -> Result<Read, String> {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("sums");
    std::fs::write(&file, text).unwrap();
    let manifest =
        Manifest::read(&file, algorithm).map_err(|error| error.to_string().split_once("sums").unwrap().1.to_owned());
    Ok((manifest?, dir))
}

fn md5(byte: &str) -> String {
    byte.repeat(16)
}

fn done(path: &[u8]) -> Event {
    Event::Checksum { path: path.to_vec(), algorithm: ChecksumAlgorithm::Md5, digest: vec![0; 16] }
}

#[test]
fn the_line_the_user_or_the_length_determines_the_digest() {
    let algorithm = |text: &str, said| manifest(text, said).map(|(manifest, _)| manifest.lines.algorithm().name());
    let (sha512, sha256) = ("00".repeat(64), "00".repeat(32));
    assert_eq!(algorithm(&format!("{}  a\n", md5("00")), None), Ok("md5"));
    assert_eq!(algorithm(&format!("# of today\n\n{sha512} *a\r\n"), None), Ok("sha512"));
    assert_eq!(algorithm(&format!("BLAKE3 (a) = {sha256}\n"), None), Ok("blake3"));
    assert_eq!(algorithm(&format!("{sha256}  a\n"), Some(ChecksumAlgorithm::Sha256)), Ok("sha256"));
    let wrong = |text: &str, said| manifest(text, said).err().unwrap();
    assert_eq!(
        wrong(&format!("{sha256}  a\n"), None),
        ":1: 64 digits are sha256 or blake3\nchoose one with --checksum-alg ALG"
    );
    assert_eq!(
        wrong(&format!("{}  a\n", md5("00")), Some(ChecksumAlgorithm::Sha1)),
        ":1: not sha1, the digest of --checksum-alg or --checksum"
    );
    assert_eq!(wrong("0000  a\n", None), ":1: unknown digest of 4 digits");
    assert!(wrong(&format!("{}  a\n{sha512}  b\n", md5("00")), None).starts_with(":2: not md5, unlike the lines"));
    assert!(wrong("\n\nhello\n", None).starts_with(":3: not a line"));
    assert_eq!(wrong("# nothing\n", None), ": empty");
    assert_eq!(
        wrong(&format!("{}  x\n{}  b\n{}  ./b\n", md5("02"), md5("00"), md5("01")), None),
        ": b: two lines with different digests"
    );
}

#[test]
fn files_without_lines_and_lines_without_files_are_named() {
    let text = format!("{0}  a\n{0}  d/b\n{0}  d/c\n", md5("00"));
    let (mut all, _dir) = manifest(&text, None).unwrap();
    assert!(!all.event(&done(b"a")) && !all.event(&done(b"d/b")));
    // A failure is reported with the target's path.
    let failed = Event::FileFailed { path: b"/archive/d/c".to_vec(), host: String::new(), message: String::new() };
    assert!(!all.event(&failed));
    let halves = all.halves();
    assert!(halves.count == 0 && halves.messages.is_empty(), "{halves:?}");
    let (mut some, _dir) = manifest(&text, None).unwrap();
    assert!(!some.event(&done(b"d/b")) && some.event(&done(b"new\n")));
    let halves = some.halves();
    assert_eq!((halves.count, &halves.unmet), (3, &vec![b"a".to_vec(), b"d/c".to_vec()]));
    assert!(halves.messages[0].ends_with("sums: 1 file has no line, so was not verified\n  new\\n"));
    assert!(halves.messages[1].ends_with("sums: 2 lines have no file\n  a\n  d/c"), "{:?}", halves.messages);
}

#[test]
fn of_many_some_are_named() {
    let text: String = (0..100).map(|i| format!("{}  f{i}\n", md5("00"))).collect();
    let (manifest, _dir) = manifest(&text, None).unwrap();
    let halves = manifest.halves();
    assert_eq!((halves.count, halves.unmet.len()), (100, NAMED_MAX));
    assert!(halves.messages[0].ends_with("\n  f19\n  and 80 more"), "{:?}", halves.messages);
}
