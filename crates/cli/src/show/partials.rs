//! What unfinished copies have left, as `haul status` and `haul clean` show it: a line each, in words or as JSON.

use haul_engine::partials::{Extent, Partial, State};
use haul_proto::path::escape;

use super::json::Line;
use super::units;

/// A form of output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// For people.
    Words,
    /// For programs: see docs/JSON.md.
    Json,
}

/// What became of something that was looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It was only to be shown.
    Shown,
    /// It was removed.
    Removed,
    /// It was left alone, though it was to be removed.
    Kept,
}

/// How many, and how much space they take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sum {
    /// How many.
    pub count: u64,
    /// Bytes on the disk.
    pub disk_bytes: u64,
}

impl Sum {
    /// One more.
    pub fn add(&mut self, partial: &Partial) {
        self.count += 1;
        self.disk_bytes += partial.disk_bytes;
    }
}

impl Form {
    /// The line of one of them, with its end.
    pub fn line(self, partial: &Partial, fate: Fate) -> String {
        match self {
            Self::Words => words(partial, fate),
            Self::Json => object(partial, fate).ended(),
        }
    }

    /// The last line. `below` is what the user named.
    pub fn sum(self, found: Sum, removed: Option<Sum>, below: &str) -> String {
        match (self, removed) {
            (Self::Json, None) => sum_of(found).ended(),
            (Self::Json, Some(removed)) => {
                sum_of(found).with("removed", removed.count).with("bytes_freed", removed.disk_bytes).ended()
            }
            (Self::Words, _) if found.count == 0 => format!("nothing unfinished below {below}\n"),
            (Self::Words, None) => {
                format!("{} unfinished, {} on the disk\n", units::count(found.count), units::size(found.disk_bytes))
            }
            (Self::Words, Some(removed)) => {
                format!("{} removed, {} freed\n", units::count(removed.count), units::size(removed.disk_bytes))
            }
        }
    }
}

fn sum_of(found: Sum) -> Line {
    Line::new("summary").with("unfinished", found.count).with("bytes_on_disk", found.disk_bytes)
}

fn words(partial: &Partial, fate: Fate) -> String {
    let (path, left) = (escape(&partial.path), units::ago(partial.idle()));
    let done = match fate {
        Fate::Shown => "",
        Fate::Removed => "removed ",
        Fate::Kept => "kept ",
    };
    let what = match partial.state {
        State::Part(extent) if fate == Fate::Removed => part_of(extent),
        State::Part(extent) => format!("{}, left {left}; the same command goes on with it", part_of(extent)),
        State::Busy { extent, process } => {
            let extent = extent.map(|extent| part_of(extent) + ", ").unwrap_or_default();
            let by = process.map_or_else(|| "another haul".to_owned(), |process| format!("process {process}"));
            format!("{extent}being written by {by}")
        }
        State::Unrecorded if fate == Fate::Removed => units::size(partial.disk_bytes),
        State::Unrecorded => {
            let size = units::size(partial.disk_bytes);
            format!("{size}, left {left}; nothing is recorded of it, so that the same command begins anew")
        }
        State::Journal => "the record of a part that is gone".to_owned(),
        State::Elsewhere => "the record of a part that lies in another directory (-a)".to_owned(),
        State::Foreign { uid } => format!("belongs to the user with the number {uid}, who can look at it"),
    };
    format!("{done}{path}: {what}\n")
}

fn part_of(extent: Extent) -> String {
    units::part_of(extent.recorded, extent.size)
}

fn object(partial: &Partial, fate: Fate) -> Line {
    let (state, extent, process) = match partial.state {
        State::Part(extent) => ("part", Some(extent), None),
        State::Busy { extent, process } => ("busy", extent, process),
        State::Unrecorded => ("unrecorded", None, None),
        State::Journal => ("journal", None, None),
        State::Elsewhere => ("elsewhere", None, None),
        State::Foreign { .. } => ("foreign", None, None),
    };
    let event = match fate {
        Fate::Shown => "unfinished",
        Fate::Removed => "removed",
        Fate::Kept => "kept",
    };
    Line::new(event)
        .path(&partial.path)
        .with("state", state)
        .with("bytes", extent.map(|extent| extent.size))
        .with("bytes_recorded", extent.map(|extent| extent.recorded))
        .with("bytes_on_disk", partial.disk_bytes)
        .with("idle_s", partial.idle().as_secs())
        .with("process", process)
}
