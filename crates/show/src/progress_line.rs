//! The progress line: name, bar and figures. Whole fields are dropped until it fits its columns.

use std::time::Duration;

use haul_base::copy::event::Progress;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::units::{count, counted, part_of, percent, rate, size, time_ahead};
use crate::verdict;

/// Longest name, in columns.
const MAX_NAME: usize = 24;
/// Shortest name: the last remaining fields fit after it in 40 columns.
const MIN_NAME: usize = 5;
/// Widest bar, in columns.
const MAX_BAR: usize = 30;
/// Narrowest useful bar.
const MIN_BAR: usize = 8;
/// The space between two fields.
const GAP: &str = "  ";
/// Shortest measurement for an estimate of the remaining time.
const ETA_AFTER: Duration = Duration::from_secs(1);
/// Longest displayed remaining time: beyond it, the rate is near zero.
const MAX_ETA_S: f64 = 99.0 * 86_400.0;

/// The rate of a copy.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// The rate; `None` until measured.
    pub bytes_per_s: Option<f64>,
    /// The time over which it was measured.
    pub measured: Duration,
    /// For how long nothing has moved, if that is long.
    pub stalled: Option<Duration>,
}

/// Priorities of fields, the most important first. The last is dropped first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Priority {
    Share,
    Rate,
    TimeLeft,
    Bottleneck,
    Bytes,
    Files,
    Streams,
}

/// A line of name, bar and figures in at most `columns`. The bar is dropped first, and the name shortened last.
pub fn with_bar(name: &str, progress: &Progress, pace: Pace, columns: usize) -> String {
    let (mut parts, room) = fitted(name, fields(progress, pace), columns);
    let cells = room.saturating_sub("[]".len()).min(MAX_BAR);
    if cells >= MIN_BAR {
        let place = usize::from(!name.is_empty());
        parts.insert(place, format!("[{}]", cells_of(progress, cells)));
    }
    parts.join(GAP)
}

/// A line without a bar.
pub fn without_bar(name: &str, progress: &Progress, pace: Pace, columns: usize) -> String {
    fitted(name, fields(progress, pace), columns).0.join(GAP)
}

/// The name and the fitting fields, in order, and the remaining columns.
fn fitted(name: &str, fields: Vec<(Priority, String)>, columns: usize) -> (Vec<String>, usize) {
    let taken = |field: &str| field.width() + GAP.len();
    let essential = fields.iter().filter(|(priority, _)| *priority <= Priority::TimeLeft);
    let essential: usize = essential.map(|(_, field)| taken(field)).sum();
    let longest = columns.saturating_sub(essential).clamp(MIN_NAME, MAX_NAME).min(columns);
    let name = Some(shortened(name, longest)).filter(|name| !name.is_empty());
    let mut room = (columns + GAP.len()).saturating_sub(name.as_deref().map_or(0, taken));
    let mut by_priority: Vec<_> = fields.iter().collect();
    by_priority.sort_by_key(|(priority, _)| *priority);
    let mut kept = Vec::new();
    for (priority, field) in by_priority {
        if let Some(rest) = room.checked_sub(taken(field)) {
            room = rest;
            kept.push(*priority);
        }
    }
    let shown = fields.into_iter().filter(|(priority, _)| kept.contains(priority)).map(|(_, field)| field);
    (name.into_iter().chain(shown).collect(), room.saturating_sub(GAP.len()))
}

/// The fields in display order.
fn fields(progress: &Progress, pace: Pace) -> Vec<(Priority, String)> {
    let (done, found) = (progress.done(), progress.bytes_found);
    let mut fields = Vec::new();
    if progress.walk_complete {
        fields.push((Priority::Share, format!("{:>2} %", percent(done, found))));
        fields.push((Priority::Bytes, part_of(done, found)));
    } else {
        fields.push((Priority::Share, so_far(size(done), (done < found).then(|| size(found)))));
    }
    if let Some(stalled) = pace.stalled {
        fields.push((Priority::Rate, format!("stalled {}", time_ahead(stalled))));
    } else if let Some(bytes_per_s) = pace.bytes_per_s {
        fields.push((Priority::Rate, rate(bytes_per_s)));
        if progress.walk_complete && done < found && pace.measured >= ETA_AFTER {
            fields.extend(time_left(found - done, bytes_per_s).map(|time| (Priority::TimeLeft, time)));
        }
    }
    let (settled, files) = (progress.files_settled, progress.files_found);
    if settled.max(files) > 1 {
        let files = so_far(count(settled), (settled <= files).then(|| count(files)));
        fields.push((Priority::Files, format!("{files} files")));
    }
    if progress.streams > 0 {
        fields.push((Priority::Streams, counted(progress.streams.into(), "stream", "streams")));
    }
    let limit = progress.limited_by.map(|now| format!("limited by: {}", verdict::words(now.limit)));
    fields.extend(limit.map(|limit| (Priority::Bottleneck, limit)));
    fields
}

/// `=====>     `; empty while the total is unknown.
fn cells_of(progress: &Progress, cells: usize) -> String {
    let share = if progress.walk_complete { percent(progress.done(), progress.bytes_found) } else { 0 };
    let full = cells * usize::try_from(share).unwrap_or(0) / 100;
    let head = if (1..cells).contains(&full) { ">" } else { "" };
    format!("{:<cells$}", format!("{}{head}", "=".repeat(full)))
}

/// A count with its total, without the total while the walk lags behind.
fn so_far(done: String, found: Option<String>) -> String {
    match found {
        Some(found) => format!("{done} of {found}"),
        None => done,
    }
}

#[allow(clippy::cast_precision_loss, reason = "an estimate")]
fn time_left(bytes: u64, bytes_per_s: f64) -> Option<String> {
    let seconds = bytes as f64 / bytes_per_s;
    (seconds < MAX_ETA_S).then(|| format!("{} left", time_ahead(Duration::from_secs_f64(seconds))))
}

/// Shortens `name` to `columns`, with three dots.
fn shortened(name: &str, columns: usize) -> String {
    const DOTS: &str = "...";
    if name.width() <= columns {
        return name.to_owned();
    }
    let mut room = columns.saturating_sub(DOTS.len());
    let fits = |char: &char| {
        let rest = room.checked_sub(char.width().unwrap_or(0));
        room = rest.unwrap_or(0);
        rest.is_some()
    };
    let start: String = name.chars().take_while(fits).collect();
    format!("{start}{}", &DOTS[..columns.min(DOTS.len())])
}

#[cfg(test)]
#[path = "progress_line_tests.rs"]
mod tests;
