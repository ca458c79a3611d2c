//! Lines of `haul ls`, `haul du`, `haul mkdir` and `haul rm`, for people and programs.

use haul_base::copy::location::Location;
use haul_proto::entry::Timestamp;
use haul_proto::path::escape;
use haul_proto::wire::file_session::FoundEntry;
use haul_show::json::JsonName;
use haul_show::units;
use serde::Serialize;

use super::label;

/// `S_IFMT` and its values (inode(7)).
const TYPE: u32 = 0o170_000;
const TYPES: [(u32, char, &str); 7] = [
    (0o040_000, 'd', "directory"),
    (0o100_000, '-', "file"),
    (0o120_000, 'l', "symlink"),
    (0o060_000, 'b', "special"),
    (0o020_000, 'c', "special"),
    (0o010_000, 'p', "special"),
    (0o140_000, 's', "special"),
];

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
}

impl PlaceName {
    /// A path on the host of `place`.
    pub fn of(place: &Location, path: &[u8]) -> Self {
        Self { host: label(&place.host), name: JsonName::from(path), path: path.to_vec() }
    }

    /// As it is typed, escaped.
    pub fn shown(&self) -> String {
        let host = self.host.as_ref().map(|host| format!("{host}:")).unwrap_or_default();
        host + &escape(&self.path)
    }
}

/// The letter and the word for an entry's type.
pub fn kind(entry: &FoundEntry) -> (char, &'static str) {
    let found = TYPES.iter().find(|(bits, ..)| entry.mode & TYPE == *bits);
    found.map_or(('?', "special"), |(_, letter, word)| (*letter, *word))
}

/// The columns before the name in `haul ls -l`; the size has this width.
pub fn long(entry: &FoundEntry, size: &str, width: usize) -> String {
    format!("{}  {size:>width$}  {}  ", mode_text(entry), time_text(entry.modified.seconds))
}

/// The size in `haul ls -l`.
pub fn size_text(entry: &FoundEntry, is_human: bool) -> String {
    if is_human { units::size(entry.size) } else { entry.size.to_string() }
}

/// The target of a link after its name.
pub fn target(entry: &FoundEntry) -> String {
    if kind(entry).0 == 'l' { format!(" -> {}", escape(&entry.points_to)) } else { String::new() }
}

/// `drwxr-sr-x`
fn mode_text(entry: &FoundEntry) -> String {
    let mut text = String::from(kind(entry).0);
    for (shift, special, letter) in [(6, 0o4000, 's'), (3, 0o2000, 's'), (0, 0o1000, 't')] {
        let bits = entry.mode >> shift;
        text.push(if bits & 4 != 0 { 'r' } else { '-' });
        text.push(if bits & 2 != 0 { 'w' } else { '-' });
        text.push(match (entry.mode & special != 0, bits & 1 != 0) {
            (true, true) => letter,
            (true, false) => letter.to_ascii_uppercase(),
            (false, true) => 'x',
            (false, false) => '-',
        });
    }
    text
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
    fn modes_are_those_of_ls() {
        for (mode, text) in [
            (0o100_644, "-rw-r--r--"),
            (0o042_755, "drwxr-sr-x"),
            (0o041_777, "drwxrwxrwt"),
            (0o104_640, "-rwSr-----"),
            (0o120_777, "lrwxrwxrwx"),
            (0o140_000, "s---------"),
            (0, "?---------"),
        ] {
            assert_eq!(mode_text(&FoundEntry { mode, ..FoundEntry::default() }), text);
        }
        assert_eq!(time_text(i64::MAX), i64::MAX.to_string());
    }
}
