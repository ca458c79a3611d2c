//! Algorithms that rsync lets choose: what `--debug=NSTR` and `-VV` name, and the digest of `%C`.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use haul_base::copy::spec::ChecksumAlgorithm;

use super::effective::Effective;
use super::formats::has;
use crate::args::UsageError;

/// Digests of `%C` by rsync's names.
const DIGESTS: [ChecksumAlgorithm; 3] = [ChecksumAlgorithm::Md5, ChecksumAlgorithm::Xxh3, ChecksumAlgorithm::Sha1];
/// Methods of compression, with rsync's levels.
const METHODS: [(&str, &str); 2] = [("zstd", "3"), ("lz4", "0")];

/// The name of `--checksum-choice`: the digest of whole files is the second of two.
fn checksum_choice(effective: &Effective<'_>) -> String {
    let choice = effective.argument("checksum-choice").map(OsStr::to_string_lossy).unwrap_or_default();
    choice.rsplit(',').next().unwrap_or_default().to_lowercase()
}

/// The digest that a format shows, if any.
pub(super) fn digest(effective: &Effective<'_>) -> Result<Option<ChecksumAlgorithm>, UsageError> {
    if !effective.argument("out-format").is_some_and(|format| has(format.as_bytes(), b'C')) {
        return Ok(None);
    }
    let name = match checksum_choice(effective) {
        choice if choice.is_empty() || choice == "auto" => ChecksumAlgorithm::Md5.name().to_owned(),
        choice => choice,
    };
    let found = DIGESTS.into_iter().find(|digest| digest.name() == name);
    found.map(Some).ok_or_else(|| {
        UsageError::new(format!("%C of --out-format: {name} is not supported")).remedy("use --checksum-choice=md5")
    })
}

/// The lines of `--debug=NSTR`.
pub(super) fn choices(effective: &Effective<'_>) -> Vec<String> {
    if !effective.shows("debug", "nstr") {
        return Vec::new();
    }
    let named = checksum_choice(effective);
    let digest = DIGESTS.into_iter().find(|digest| digest.name() == named).unwrap_or(ChecksumAlgorithm::Blake3);
    let mut lines = vec![format!("Client checksum: {}", digest.name())];
    if effective.is_on("compress") {
        let chosen = effective.argument("compress-choice").and_then(OsStr::to_str);
        let (method, level) = METHODS.into_iter().find(|(method, _)| chosen == Some(method)).unwrap_or(METHODS[0]);
        let level = effective.argument("compress-level").and_then(OsStr::to_str).unwrap_or(level);
        lines.push(format!("Client compress: {method} (level {level})"));
    }
    lines
}

/// The text of `-VV`.
pub(super) fn version_json() -> String {
    let list = |names: &mut dyn Iterator<Item = &str>| {
        let names: Vec<_> = names.chain(["none"]).map(|name| format!("\"{name}\"")).collect();
        names.join(", ")
    };
    format!(
        concat!(
            "{{\n  \"program\": \"rsync\",\n  \"version\": \"3.5.0\",\n  \"protocol\": \"32.0\",\n",
            "  \"dialect_of\": \"haul {}\",\n  \"capabilities\": {{\n    \"symlinks\": true, \"symtimes\": true, ",
            "\"hardlinks\": true, \"hardlink_specials\": false,\n    \"hardlink_symlinks\": true, \"IPv6\": true, ",
            "\"atimes\": false, \"batchfiles\": false,\n    \"inplace\": true, \"append\": true, \"ACLs\": true, ",
            "\"xattrs\": true, \"iconv\": false,\n    \"stop_at\": true, \"crtimes\": false\n  }},\n",
            "  \"checksum_list\": [{}],\n  \"compress_list\": [{}]\n}}\n"
        ),
        env!("CARGO_PKG_VERSION"),
        list(&mut DIGESTS.iter().map(|digest| digest.name())),
        list(&mut METHODS.iter().map(|(method, _)| *method)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::rsync::words::RsyncLine;

    fn of<T>(words: &str, act: impl Fn(&Effective<'_>) -> T) -> T {
        let line = RsyncLine::parse(words.split_whitespace().map(Into::into).collect()).unwrap();
        act(&Effective::of(&line))
    }

    #[test]
    fn a_format_with_a_digest_asks_for_the_chosen_one() {
        let digest = |words: &str| of(words, |line| digest(line).map_err(|error| error.to_string()));
        assert_eq!(digest("-i --out-format=%n"), Ok(None));
        assert_eq!(digest("--out-format=%C"), Ok(Some(ChecksumAlgorithm::Md5)));
        assert_eq!(digest("--out-format=%C --checksum-choice=md5,xxh3"), Ok(Some(ChecksumAlgorithm::Xxh3)));
        assert!(digest("--out-format=%C --cc=md4").unwrap_err().contains("md4 is not supported"));
    }

    #[test]
    fn choices_are_named_on_request() {
        assert!(of("-z", choices).is_empty());
        assert_eq!(of("--debug=nstr --cc=md5", choices), ["Client checksum: md5"]);
        let of_zstd = ["Client checksum: blake3", "Client compress: zstd (level 9)"];
        assert_eq!(of("-z --debug=NSTR --zl=9", choices), of_zstd);
    }

    #[test]
    fn the_version_is_json() {
        let parsed: serde_json::Value = serde_json::from_str(&version_json()).unwrap();
        assert_eq!(parsed["checksum_list"][0], "md5");
        assert_eq!(parsed["compress_list"], serde_json::json!(["zstd", "lz4", "none"]));
    }
}
