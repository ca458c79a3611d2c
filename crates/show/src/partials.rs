//! Partial files in `haul status` and `haul clean`: one line each, as text or JSON.

use std::time::Duration;

use haul_proto::path::escape;
use haul_proto::wire::partials::{PartialDetails, PartialExtent, PartialOutcome, PartialState};
use serde::Serialize;

use crate::json::{JsonName, encode};
use crate::units;

/// A form of output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PartialsFormat {
    /// The outcome as text.
    Words,
    /// For programs: see docs/JSON.md.
    Json,
}

/// A number of partial files, and their disk space.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sum {
    /// Number of files.
    pub count: u64,
    /// Bytes on the disk.
    pub disk_bytes: u64,
}

impl Sum {
    /// Counts one more.
    pub fn add(&mut self, about: &PartialDetails) {
        self.count += 1;
        self.disk_bytes += about.disk_bytes;
    }
}

impl PartialsFormat {
    /// Returns its line, with the newline. `host` is another than this one.
    pub fn line(self, host: Option<&str>, about: &PartialDetails, fate: PartialOutcome) -> String {
        match self {
            Self::Words => words(host, about, fate),
            Self::Json => encode(&PartialLine::new(host, about, fate)),
        }
    }

    /// The last line. `below` is the typed path.
    pub fn sum(self, found: Sum, removed: Option<Sum>, below: &str) -> String {
        match (self, removed) {
            (Self::Json, _) => encode(&PartialLine::Summary {
                unfinished: found.count,
                bytes_on_disk: found.disk_bytes,
                removed: removed.map(|removed| removed.count),
                bytes_freed: removed.map(|removed| removed.disk_bytes),
            }),
            (Self::Words, _) if found.count == 0 => format!("no partial files below {below}\n"),
            (Self::Words, None) => {
                format!("{} unfinished, {} on disk\n", units::count(found.count), units::size(found.disk_bytes))
            }
            (Self::Words, Some(removed)) => {
                format!("{} deleted, {} freed\n", units::count(removed.count), units::size(removed.disk_bytes))
            }
        }
    }
}

/// A line of `haul status --json` and `haul clean --json`.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(tag = "event", rename_all = "snake_case")]
#[allow(missing_docs, reason = "docs/JSON.md describes each field")]
pub enum PartialLine {
    Unfinished(PartialFields),
    Removed(PartialFields),
    Kept(PartialFields),
    Summary {
        unfinished: u64,
        bytes_on_disk: u64,
        #[serde(skip_serializing_if = "Option::is_none")]
        removed: Option<u64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        bytes_freed: Option<u64>,
    },
}

/// A partial file.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema), schemars(inline))]
pub struct PartialFields {
    #[serde(skip_serializing_if = "Option::is_none")]
    host: Option<String>,
    #[serde(flatten)]
    name: JsonName,
    state: &'static str,
    bytes: Option<u64>,
    bytes_recorded: Option<u64>,
    bytes_on_disk: u64,
    idle_s: u64,
    process: Option<u32>,
}

fn words(host: Option<&str>, about: &PartialDetails, fate: PartialOutcome) -> String {
    let path = host.map(|host| format!("{host}:")).unwrap_or_default() + &escape(&about.path);
    let left = units::ago(Duration::from_secs(about.idle_s));
    let done = match fate {
        PartialOutcome::Shown => "",
        PartialOutcome::Removed => "deleted ",
        PartialOutcome::Kept => "kept ",
    };
    let what = match about.state {
        PartialState::Part(extent) if fate == PartialOutcome::Removed => part_of(extent),
        PartialState::Part(extent) => format!("{}, last written {left}; rerun the command to resume", part_of(extent)),
        PartialState::Busy { extent, process } => {
            let extent = extent.map(|extent| part_of(extent) + ", ").unwrap_or_default();
            let by = process.map_or_else(|| "another haul".to_owned(), |process| format!("process {process}"));
            format!("{extent}being written by {by}")
        }
        PartialState::Unrecorded if fate == PartialOutcome::Removed => units::size(about.disk_bytes),
        PartialState::Unrecorded => {
            let size = units::size(about.disk_bytes);
            format!("{size}, last written {left}; no journal, so a rerun starts over")
        }
        PartialState::Journal => "journal without a partial file".to_owned(),
        PartialState::Elsewhere => "journal of a partial file in another directory (--journal-dir)".to_owned(),
        PartialState::Patch { bytes, .. } => {
            let changes = units::size(bytes);
            format!("{changes} of pending changes, last written {left}; rerun the command to apply all")
        }
        PartialState::Spent => "obsolete changes: applied, or their file is gone or replaced".to_owned(),
        PartialState::Damaged => "damaged changes: rerun the command to complete their file".to_owned(),
        PartialState::Foreign { uid } => format!("belongs to user {uid}, who can inspect it"),
    };
    format!("{done}{path}: {what}\n")
}

fn part_of(extent: PartialExtent) -> String {
    units::part_of(extent.recorded, extent.size)
}

impl PartialLine {
    fn new(host: Option<&str>, about: &PartialDetails, fate: PartialOutcome) -> Self {
        let (state, extent, process) = match about.state {
            PartialState::Part(extent) => ("part", Some(extent), None),
            PartialState::Busy { extent, process } => ("busy", extent, process),
            PartialState::Unrecorded => ("unrecorded", None, None),
            PartialState::Journal => ("journal", None, None),
            PartialState::Elsewhere => ("elsewhere", None, None),
            PartialState::Patch { bytes, size } => ("patch", Some(PartialExtent { recorded: bytes, size }), None),
            PartialState::Spent => ("spent", None, None),
            PartialState::Damaged => ("damaged", None, None),
            PartialState::Foreign { .. } => ("foreign", None, None),
        };
        let fields = PartialFields {
            host: host.map(str::to_owned),
            name: about.path.as_slice().into(),
            state,
            bytes: extent.map(|extent| extent.size),
            bytes_recorded: extent.map(|extent| extent.recorded),
            bytes_on_disk: about.disk_bytes,
            idle_s: about.idle_s,
            process,
        };
        match fate {
            PartialOutcome::Shown => Self::Unfinished(fields),
            PartialOutcome::Removed => Self::Removed(fields),
            PartialOutcome::Kept => Self::Kept(fields),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn examples() -> Vec<PartialDetails> {
        let extent = PartialExtent { recorded: 231_400_000_000, size: 333_100_000_000 };
        let states = [
            PartialState::Part(extent),
            PartialState::Busy { extent: Some(extent), process: Some(1234) },
            PartialState::Busy { extent: None, process: None },
            PartialState::Unrecorded,
            PartialState::Journal,
            PartialState::Elsewhere,
            PartialState::Patch { bytes: 4_100_000, size: 333_100_000_000 },
            PartialState::Spent,
            PartialState::Damaged,
            PartialState::Foreign { uid: 1000 },
        ];
        let about = |state| PartialDetails {
            path: b"/archive/big\ndb".to_vec(),
            state,
            disk_bytes: 231_400_001_024,
            idle_s: 7300,
        };
        states.map(about).into()
    }

    fn shown(form: PartialsFormat) -> String {
        let mut sum = Sum::default();
        let lines: String = examples()
            .iter()
            .inspect(|about| sum.add(about))
            .map(|about| form.line(None, about, PartialOutcome::Shown))
            .collect();
        lines + &form.sum(sum, None, "/archive")
    }

    #[test]
    fn the_listing_gives_each_files_kind_and_future() {
        insta::assert_snapshot!(shown(PartialsFormat::Words), @r#"
            /archive/big\ndb: 231.4 of 333.1 GB, last written 2 h ago; rerun the command to resume
            /archive/big\ndb: 231.4 of 333.1 GB, being written by process 1234
            /archive/big\ndb: being written by another haul
            /archive/big\ndb: 231.4 GB, last written 2 h ago; no journal, so a rerun starts over
            /archive/big\ndb: journal without a partial file
            /archive/big\ndb: journal of a partial file in another directory (--journal-dir)
            /archive/big\ndb: 4.10 MB of pending changes, last written 2 h ago; rerun the command to apply all
            /archive/big\ndb: obsolete changes: applied, or their file is gone or replaced
            /archive/big\ndb: damaged changes: rerun the command to complete their file
            /archive/big\ndb: belongs to user 1000, who can inspect it
            10 unfinished, 2.31 TB on disk
            "#);
        let removed = [0, 3, 4]
            .map(|which: usize| PartialsFormat::Words.line(None, &examples()[which], PartialOutcome::Removed))
            .concat();
        insta::assert_snapshot!(removed, @r#"
            deleted /archive/big\ndb: 231.4 of 333.1 GB
            deleted /archive/big\ndb: 231.4 GB
            deleted /archive/big\ndb: journal without a partial file
            "#);
        assert_eq!(
            PartialsFormat::Words.line(Some("db1"), &examples()[6], PartialOutcome::Kept),
            "kept db1:/archive/big\\ndb: 4.10 MB of pending changes, last written 2 h ago; rerun the command to apply all\n"
        );
        let sum = Sum { count: 3, disk_bytes: 1 << 30 };
        assert_eq!(PartialsFormat::Words.sum(sum, Some(sum), ""), "3 deleted, 1.07 GB freed\n");
        assert_eq!(PartialsFormat::Words.sum(Sum::default(), None, "a and b"), "no partial files below a and b\n");
    }

    #[test]
    fn objects_have_all_of_it() {
        insta::assert_snapshot!(shown(PartialsFormat::Json), @r#"
            {"event":"unfinished","path":"/archive/big\ndb","state":"part","bytes":333100000000,"bytes_recorded":231400000000,"bytes_on_disk":231400001024,"idle_s":7300,"process":null}
            {"event":"unfinished","path":"/archive/big\ndb","state":"busy","bytes":333100000000,"bytes_recorded":231400000000,"bytes_on_disk":231400001024,"idle_s":7300,"process":1234}
            {"event":"unfinished","path":"/archive/big\ndb","state":"busy","bytes":null,"bytes_recorded":null,"bytes_on_disk":231400001024,"idle_s":7300,"process":null}
            {"event":"unfinished","path":"/archive/big\ndb","state":"unrecorded","bytes":null,"bytes_recorded":null,"bytes_on_disk":231400001024,"idle_s":7300,"process":null}
            {"event":"unfinished","path":"/archive/big\ndb","state":"journal","bytes":null,"bytes_recorded":null,"bytes_on_disk":231400001024,"idle_s":7300,"process":null}
            {"event":"unfinished","path":"/archive/big\ndb","state":"elsewhere","bytes":null,"bytes_recorded":null,"bytes_on_disk":231400001024,"idle_s":7300,"process":null}
            {"event":"unfinished","path":"/archive/big\ndb","state":"patch","bytes":333100000000,"bytes_recorded":4100000,"bytes_on_disk":231400001024,"idle_s":7300,"process":null}
            {"event":"unfinished","path":"/archive/big\ndb","state":"spent","bytes":null,"bytes_recorded":null,"bytes_on_disk":231400001024,"idle_s":7300,"process":null}
            {"event":"unfinished","path":"/archive/big\ndb","state":"damaged","bytes":null,"bytes_recorded":null,"bytes_on_disk":231400001024,"idle_s":7300,"process":null}
            {"event":"unfinished","path":"/archive/big\ndb","state":"foreign","bytes":null,"bytes_recorded":null,"bytes_on_disk":231400001024,"idle_s":7300,"process":null}
            {"event":"summary","unfinished":10,"bytes_on_disk":2314000010240}
            "#);
        let about = &examples()[0];
        let kept = PartialsFormat::Json.line(Some("db1"), about, PartialOutcome::Kept);
        assert!(kept.starts_with(r#"{"event":"kept","host":"db1","path":"#), "{kept}");
        let sum = PartialsFormat::Json.sum(Sum::default(), Some(Sum::default()), "");
        assert_eq!(
            sum,
            "{\"event\":\"summary\",\"unfinished\":0,\"bytes_on_disk\":0,\"removed\":0,\"bytes_freed\":0}\n"
        );
    }
}
