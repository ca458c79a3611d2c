//! Lines of `haul ls`, `haul du`, `haul mkdir` and `haul rm`, for people and programs.

use haul_base::copy::location::{Host, Location};
use haul_proto::entry::Timestamp;
use haul_proto::path::escape;
use haul_proto::wire::file_session::FoundEntry;
use haul_show::json::JsonName;
use haul_show::mode_text::{mode_text, type_letter};
use haul_show::units;
use serde::Serialize;

use super::label;

/// A line of `--json`.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum FileLine {
    /// An entry.
    Entry {
        #[serde(flatten)]
        name: PlaceName,
        #[serde(flatten)]
        entry: EntryFields,
    },
    /// The sum of a path.
    Usage {
        #[serde(flatten)]
        name: PlaceName,
        entries: u64,
        bytes: u64,
        bytes_on_disk: u64,
        repeats_links: bool,
    },
    /// A directory was made, or exists.
    Made {
        #[serde(flatten)]
        name: PlaceName,
    },
    /// A path was deleted, as far as possible.
    Deleted {
        #[serde(flatten)]
        name: PlaceName,
        entries: u64,
    },
}

/// What an entry is, for programs.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
pub struct EntryFields {
    kind: &'static str,
    bytes: u64,
    mode: String,
    modified_ns: i64,
    points_to: Option<String>,
}

impl From<&FoundEntry> for EntryFields {
    fn from(entry: &FoundEntry) -> Self {
        let (letter, kind) = kind(entry);
        Self {
            kind,
            bytes: entry.size,
            mode: format!("{:04o}", entry.mode & 0o7777),
            modified_ns: nanoseconds(entry.modified),
            points_to: (letter == 'l').then(|| String::from_utf8_lossy(&entry.points_to).into_owned()),
        }
    }
}

/// Nanoseconds since 1970.
pub fn nanoseconds(Timestamp { seconds, nanoseconds }: Timestamp) -> i64 {
    seconds.saturating_mul(1_000_000_000).saturating_add(nanoseconds.into())
}

/// A path with its host.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
pub struct PlaceName {
    host: Option<String>,
    #[serde(flatten)]
    name: JsonName,
    #[serde(skip)]
    path: Vec<u8>,
    #[serde(skip)]
    is_served: bool,
}

impl PlaceName {
    /// A path on the host of `place`.
    pub fn of(place: &Location, path: &[u8]) -> Self {
        let is_served = matches!(place.host, Host::Served { .. });
        Self { host: label(&place.host), name: JsonName::from(path), path: path.to_vec(), is_served }
    }

    /// As it is typed, escaped.
    pub fn shown(&self) -> String {
        let path = escape(&self.path);
        match &self.host {
            None => path,
            Some(address) if self.is_served && path == "." => address.clone(),
            Some(address) if self.is_served => format!("{}/{path}", address.trim_end_matches('/')),
            Some(host) => format!("{host}:{path}"),
        }
    }
}

/// The letter of an entry's type, and the word for it.
pub fn kind(entry: &FoundEntry) -> (char, &'static str) {
    let letter = type_letter(entry.mode);
    let word = match letter {
        'd' => "directory",
        '-' => "file",
        'l' => "symlink",
        _ => "special",
    };
    (letter, word)
}

/// The columns before the name in `haul ls -l`; the size has this width.
pub fn long(entry: &FoundEntry, size: &str, width: usize) -> String {
    format!("{}  {size:>width$}  {}  ", mode_text(entry.mode), time_text(entry.modified.seconds))
}

/// The size in `haul ls -l`.
pub fn size_text(entry: &FoundEntry, is_human: bool) -> String {
    if is_human { units::size(entry.size) } else { entry.size.to_string() }
}

/// The target of a link after its name.
pub fn target(entry: &FoundEntry) -> String {
    if kind(entry).0 == 'l' { format!(" -> {}", escape(&entry.points_to)) } else { String::new() }
}

/// `2026-11-29 05:14`, in the time zone here.
fn time_text(seconds: i64) -> String {
    let time = jiff::Timestamp::from_second(seconds).map(|time| time.to_zoned(jiff::tz::TimeZone::system()));
    time.map_or_else(|_| format!("{seconds:>16}"), |time| time.strftime("%Y-%m-%d %H:%M").to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_shown_as_they_are_typed() {
        let shown = |typed: &str| {
            let place = haul_control::operand::parse_operand(typed.as_ref()).unwrap();
            PlaceName::of(&place, place.path.as_os_str().as_encoded_bytes()).shown()
        };
        for typed in ["a/b", "db1:x", "haul://db1:7000/x"] {
            assert_eq!(shown(typed), typed);
        }
        assert_eq!(shown("haul://db1:7000/"), "haul://db1:7000/");
    }

    #[test]
    fn a_time_beyond_the_calendar_is_a_number() {
        assert_eq!(time_text(i64::MAX), i64::MAX.to_string());
    }
}
