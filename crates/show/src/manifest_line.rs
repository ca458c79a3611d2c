//! A line of a manifest: a digest and a name, in the forms of sha256sum, b3sum and bbcp.

use haul_base::copy::spec::ChecksumAlgorithm;
use haul_proto::checksum::{from_hex, hex};
use haul_proto::path::escape;

/// b3sum refuses names with the replacement character.
const REPLACEMENT: char = '\u{fffd}';

/// The form of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineFormat {
    /// b3sum's, with names in UTF-8.
    B3sum,
    /// That of sha256sum, md5sum and similar programs, with names as bytes.
    Coreutils,
    /// bbcp's: the algorithm, the digest and the escaped name. Programs cannot read names from it.
    Bbcp(ChecksumAlgorithm),
}

impl LineFormat {
    /// The line of a file; `None` for a name that cannot be read back. A leading backslash marks an escaped name.
    pub fn line(self, path: &[u8], digest: &[u8]) -> Option<Vec<u8>> {
        let digest = hex(digest);
        if let Self::Bbcp(algorithm) = self {
            return Some(format!("{}: {digest} {}\n", algorithm.name(), escape(path)).into_bytes());
        }
        if self == Self::B3sum {
            std::str::from_utf8(path).ok().filter(|name| !name.contains([REPLACEMENT, '\0']))?;
        }
        let mut line = Vec::new();
        if path.iter().any(|byte| b"\\\n".contains(byte)) {
            line.push(b'\\');
        }
        line.extend_from_slice(digest.as_bytes());
        line.extend_from_slice(b"  ");
        for byte in path {
            match byte {
                b'\\' => line.extend_from_slice(b"\\\\"),
                b'\n' => line.extend_from_slice(b"\\n"),
                byte => line.push(*byte),
            }
        }
        line.push(b'\n');
        Some(line)
    }
}

/// A parsed line.
#[derive(Debug, PartialEq, Eq)]
pub struct ManifestLine {
    /// The algorithm, if the line names it (`--tag`).
    pub algorithm: Option<ChecksumAlgorithm>,
    /// The digest.
    pub digest: Vec<u8>,
    /// The name, without `./` before it.
    pub path: Vec<u8>,
}

impl ManifestLine {
    /// Parses a line without its line feed; `None` if it is not a line of a manifest.
    pub fn parse(line: &[u8]) -> Option<Self> {
        let (line, is_escaped) = match line.strip_prefix(b"\\") {
            Some(rest) => (rest, true),
            None => (line, false),
        };
        let (algorithm, digest, path) = tagged(line).or_else(|| plain(line))?;
        let path = if is_escaped { unescape(path)? } else { path.to_vec() };
        let path = without_dots(&path).to_vec();
        (!path.is_empty()).then_some(Self { algorithm, digest, path })
    }
}

/// Whether a line has bbcp's form: `md5: DIGEST NAME`.
pub fn is_bbcps(line: &[u8]) -> bool {
    let mut words = line.splitn(3, |byte| *byte == b' ');
    let (Some(name), Some(digest), Some(_)) = (words.next(), words.next(), words.next()) else { return false };
    let name = name.strip_suffix(b":").and_then(|name| std::str::from_utf8(name).ok());
    let algorithm = name.and_then(|name| ChecksumAlgorithm::all().find(|algorithm| algorithm.name() == name));
    algorithm.is_some_and(|algorithm| from_hex(digest).is_some_and(|digest| digest.len() == algorithm.bytes()))
}

type Parts<'l> = (Option<ChecksumAlgorithm>, Vec<u8>, &'l [u8]);

/// `SHA256 (name) = digest`.
fn tagged(line: &[u8]) -> Option<Parts<'_>> {
    let open = line.windows(2).position(|pair| pair == b" (")?;
    let close = line.windows(4).rposition(|four| four == b") = ")?;
    let name = std::str::from_utf8(&line[..open]).ok()?;
    let algorithm = ChecksumAlgorithm::all().find(|algorithm| algorithm.name().eq_ignore_ascii_case(name))?;
    let digest = from_hex(&line[close + 4..]).filter(|digest| digest.len() == algorithm.bytes())?;
    Some((Some(algorithm), digest, line.get(open + 2..close)?))
}

/// `digest  name`, or `digest *name`.
fn plain(line: &[u8]) -> Option<Parts<'_>> {
    let space = line.iter().position(|byte| *byte == b' ')?;
    let digest = from_hex(&line[..space])?;
    let rest = &line[space + 1..];
    Some((None, digest, rest.strip_prefix(b" ").or_else(|| rest.strip_prefix(b"*"))?))
}

fn unescape(path: &[u8]) -> Option<Vec<u8>> {
    let (mut plain, mut bytes) = (Vec::with_capacity(path.len()), path.iter());
    while let Some(byte) = bytes.next() {
        plain.push(match byte {
            b'\\' => match bytes.next()? {
                b'\\' => b'\\',
                b'n' => b'\n',
                b'r' => b'\r',
                _ => return None,
            },
            byte => *byte,
        });
    }
    Some(plain)
}

fn without_dots(mut path: &[u8]) -> &[u8] {
    while let Some(rest) = path.strip_prefix(b"./") {
        path = rest;
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_escaped_as_b3sum_and_coreutils_escape_them() {
        let digest = "ab".repeat(32);
        let lines = |form: LineFormat| {
            let names: [&[u8]; 7] =
                [b"run7/a b", b"a\nb", b"c\\d", b" lead", b"end\r", b"g\xff", "x\u{fffd}".as_bytes()];
            names.map(|path| form.line(path, &[0xab; 32]))
        };
        let text = |line: String| Some(line.into_bytes());
        let alike = [
            text(format!("{digest}  run7/a b\n")),
            text(format!("\\{digest}  a\\nb\n")),
            text(format!("\\{digest}  c\\\\d\n")),
            text(format!("{digest}   lead\n")),
            text(format!("{digest}  end\r\n")),
        ];
        assert_eq!((&lines(LineFormat::B3sum)[..5], &lines(LineFormat::B3sum)[5..]), (&alike[..], &[None, None][..]));
        assert_eq!(lines(LineFormat::Coreutils)[..5], alike);
        assert!(lines(LineFormat::Coreutils)[5].as_ref().is_some_and(|line| line.ends_with(b"  g\xff\n")));
        let bbcp = LineFormat::Bbcp(ChecksumAlgorithm::Md5).line(b"a\nb", &[0xab; 16]);
        assert_eq!(bbcp, text(format!("md5: {} a\\nb\n", &digest[..32])));
    }

    #[test]
    fn lines_round_trip() {
        for path in [&b"a"[..], b"a\nb\\c", b"g\xff", b" lead", b"a (b) = c"] {
            let line = LineFormat::Coreutils.line(path, &[7; 20]).unwrap();
            let line = ManifestLine::parse(line.strip_suffix(b"\n").unwrap());
            assert_eq!(line, Some(ManifestLine { algorithm: None, digest: vec![7; 20], path: path.to_vec() }));
        }
    }

    #[test]
    fn every_existing_form_is_read() {
        let read = |text: &str| {
            ManifestLine::parse(text.as_bytes()).map(|line| (line.algorithm, line.digest.len(), line.path))
        };
        let md5 = "00".repeat(16);
        for (text, algorithm, path) in [
            (format!("{md5}  a"), None, "a"),
            (format!("{} *./b/c", md5.to_uppercase()), None, "b/c"),
            (format!("MD5 (d (e) = f) = {md5}"), Some(ChecksumAlgorithm::Md5), "d (e) = f"),
            (format!("\\MD5 (a\\nb) = {md5}"), Some(ChecksumAlgorithm::Md5), "a\nb"),
        ] {
            assert_eq!(read(&text), Some((algorithm, 16, path.into())), "{text}");
        }
        for text in [
            String::new(),
            md5.clone(),
            format!("{md5} a"),
            format!("{md5}  "),
            format!("{md5}0  a"),
            format!("\\{md5}  a\\x"),
            format!("SHA256 (a) = {md5}"),
            format!("MD5 (a = {md5}"),
            "zz  a".to_owned(),
        ] {
            assert_eq!(read(&text), None, "{text}");
        }
    }
}
