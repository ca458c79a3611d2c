//! Saved results of the last probe to or from each host, in the state directory: forecasts use them.

use std::io::{ErrorKind, Read};
use std::path::Path;

use anyhow::Context;
use toml_edit::{DocumentMut, Item, Table, value};

use super::save::replace;

/// The file in the state directory.
const FILE: &str = "probes.toml";
/// Largest file that is read.
const FILE_MAX: u64 = 1 << 20;
/// Only the user may read and write it.
const MODE: u32 = 0o600;

/// The direction of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From here to the host.
    To,
    /// From the host to here.
    From,
}

/// The forecast of a probe.
#[derive(Debug, Clone, PartialEq)]
pub struct ProbeFigures {
    /// Bytes per second.
    pub bytes_per_s: f64,
    /// The predicted bottleneck, in words.
    pub limit: String,
    /// The time of the probe.
    pub when: String,
}

impl Direction {
    fn key(self) -> &'static str {
        match self {
            Self::To => "to",
            Self::From => "from",
        }
    }
}

/// Saves the forecast of a host in place of the earlier one.
pub fn keep(state: &Path, direction: Direction, host: &str, figures: &ProbeFigures) -> anyhow::Result<()> {
    let path = state.join(FILE);
    let new = with_figures(&text(&path)?, direction, host, figures);
    replace(&path, &new, MODE).with_context(|| format!("cannot write {}", crate::config::shown(&path)))
}

/// Returns the last saved figures; `None` if absent or unreadable.
pub fn last(state: &Path, direction: Direction, host: &str) -> Option<ProbeFigures> {
    let document: DocumentMut = text(&state.join(FILE)).ok()?.parse().ok()?;
    let kept = document.get(direction.key())?.get(host)?;
    let word = |key| kept.get(key).and_then(Item::as_str).unwrap_or_default().to_owned();
    let bytes_per_s = kept.get("bytes_per_s").and_then(Item::as_integer).filter(|rate| *rate > 0)?;
    Some(ProbeFigures { bytes_per_s: bytes_per_s as f64, limit: word("limit"), when: word("when") })
}

/// Reads a file of the state directory; empty if it does not exist.
pub fn text(path: &Path) -> anyhow::Result<String> {
    let file = match std::fs::File::open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(String::new()),
        file => file?,
    };
    let mut text = String::new();
    file.take(FILE_MAX).read_to_string(&mut text)?;
    Ok(text)
}

/// An unreadable file is replaced: users do not edit it.
#[allow(clippy::cast_possible_truncation, reason = "it saturates")]
fn with_figures(old: &str, direction: Direction, host: &str, figures: &ProbeFigures) -> String {
    let mut document: DocumentMut = old.parse().unwrap_or_default();
    let mut hosts = match document.remove(direction.key()) {
        Some(Item::Table(hosts)) => hosts,
        _ => Table::new(),
    };
    hosts.set_implicit(true);
    let mut kept = Table::new();
    kept.insert("bytes_per_s", value(figures.bytes_per_s as i64));
    kept.insert("limit", value(&figures.limit));
    kept.insert("when", value(&figures.when));
    hosts.insert(host, Item::Table(kept));
    document.insert(direction.key(), Item::Table(hosts));
    document.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(bytes_per_s: f64) -> ProbeFigures {
        ProbeFigures { bytes_per_s, limit: "target disk".into(), when: "2026-11-22 10:00".into() }
    }

    #[test]
    fn the_last_figures_of_each_host_and_direction_are_found_again() {
        let state = tempfile::tempdir().unwrap();
        let state = state.path().join("haul");
        assert_eq!(last(&state, Direction::To, "db1"), None);
        keep(&state, Direction::To, "db1", &figures(1e9)).unwrap();
        keep(&state, Direction::From, "db1", &figures(2e9)).unwrap();
        keep(&state, Direction::To, "fe80::1%eth0", &figures(3e9)).unwrap();
        keep(&state, Direction::To, "db1", &figures(4e9)).unwrap();
        assert_eq!(last(&state, Direction::To, "db1"), Some(figures(4e9)));
        assert_eq!(last(&state, Direction::From, "db1"), Some(figures(2e9)));
        assert_eq!(last(&state, Direction::To, "fe80::1%eth0"), Some(figures(3e9)));
        assert_eq!(last(&state, Direction::From, "db2"), None);
        insta::assert_snapshot!(std::fs::read_to_string(state.join(FILE)).unwrap(), @r#"
            [to."fe80::1%eth0"]
            bytes_per_s = 3000000000
            limit = "target disk"
            when = "2026-11-22 10:00"

            [from.db1]
            bytes_per_s = 2000000000
            limit = "target disk"
            when = "2026-11-22 10:00"

            [to.db1]
            bytes_per_s = 4000000000
            limit = "target disk"
            when = "2026-11-22 10:00"
            "#);
    }

    #[test]
    fn an_unreadable_file_gives_nothing_and_is_rewritten() {
        let state = tempfile::tempdir().unwrap();
        for text in ["= 3", "to = 3\n", "[to]\ndb1 = 3\n", "[to.db1]\nbytes_per_s = -1\n", "\u{0}"] {
            std::fs::write(state.path().join(FILE), text).unwrap();
            assert_eq!(last(state.path(), Direction::To, "db1"), None, "{text}");
            keep(state.path(), Direction::To, "db1", &figures(5e9)).unwrap();
            assert_eq!(last(state.path(), Direction::To, "db1"), Some(figures(5e9)), "{text}");
        }
    }
}
