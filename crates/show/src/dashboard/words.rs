//! The dashboard's texts. Text of another machine is escaped here.

use std::time::Duration;

use haul_base::copy::event::{Bottleneck, Progress, SlowFile, TransportPath};
use haul_proto::path::escape;

use super::board::{Board, Phase};
use super::lanes::StreamRow;
use super::layout::Panel;
use super::rate_history::RateHistory;
use crate::progress_line::{self, Pace};
use crate::text::{harmless, within};
use crate::units::{count, counted, duration, limit, rate, round_trip, share, size};
use crate::{paths, verdict};

/// The last line.
pub const KEYS: &str = "q end  space pause  - + rate  0 no limit  < > streams  tab files  ? help";

/// The help.
pub const HELP: [&str; 12] = [
    "space, p  pause and resume",
    "+  -      limit the rate: higher, lower",
    "0         no limit",
    ">  <      one stream more, one fewer;",
    "          the number is then fixed",
    "up, down  earlier and later messages",
    "tab       slow files or messages",
    "?, h      this help",
    "q         end now, as Ctrl-C does:",
    "          rerun the command to resume",
    "",
    "? closes this",
];

/// The heads of the streams' columns.
pub const STREAM_HEAD: [&str; 5] = ["stream", "rate", "rtt", "resent", "path"];

/// Title of a panel.
pub fn title(panel: Panel, board: &Board) -> String {
    match panel {
        Panel::Graph => format!("rate, now {}", rate(board.rate.bytes_per_s)),
        Panel::Streams => "streams".to_owned(),
        Panel::Verdict => "limited by".to_owned(),
        Panel::Queue => "files".to_owned(),
        Panel::Slowest => "slowest files".to_owned(),
        Panel::Messages if board.messages.below() > 0 => {
            format!("messages, {} below", counted(board.messages.below() as u64, "line", "lines"))
        }
        Panel::Messages => "messages".to_owned(),
    }
}

/// Progress: a bar and figures, on one line.
pub fn progress(board: &Board, columns: usize) -> String {
    if board.phase == Phase::Connecting && board.progress.files_found == 0 {
        return String::new();
    }
    let RateHistory { bytes_per_s, elapsed: measured, stalled, .. } = board.rate;
    let pace = Pace { bytes_per_s: Some(bytes_per_s), measured, stalled };
    progress_line::with_bar("", &board.progress, pace, columns)
}

/// A setting, and its origin.
pub fn settings(board: &Board) -> String {
    let Progress { streams, streams_max, .. } = board.progress;
    let mut parts = vec![match board.limit {
        Some(bytes_per_s) => format!("rate limit {}", limit(bytes_per_s)),
        None => "no rate limit".to_owned(),
    }];
    if streams > 0 {
        let in_use = counted(streams.into(), "stream", "streams");
        parts.push(match board.streams {
            Some(wanted) if wanted == streams => format!("{in_use}, as set (at most {streams_max})"),
            Some(wanted) => format!("{in_use}, {wanted} set (at most {streams_max})"),
            None if streams_max > streams => format!("{in_use} (at most {streams_max})"),
            None => in_use,
        });
    }
    parts.extend(transport(&board.transport));
    parts.join("   ")
}

fn transport(transport: &TransportPath) -> Option<String> {
    match transport {
        TransportPath::None => None,
        TransportPath::Local { host } => Some(within(host.as_deref())),
        TransportPath::Tcp { path, .. } => Some(paths::without_ports(path)),
        TransportPath::Tunnel { is_ssh, .. } => Some(paths::tunnel(*is_ssh).to_owned()),
    }
}

/// The text without streams.
pub fn no_streams(board: &Board) -> String {
    match &board.transport {
        TransportPath::Tcp { .. } => "no data yet".to_owned(),
        other => match transport(other) {
            Some(transport) => format!("no TCP streams: {transport}"),
            None => "none yet".to_owned(),
        },
    }
}

/// The cells of a stream's line.
pub fn stream(row: &StreamRow) -> [String; 5] {
    let (own, other) = &row.path;
    [
        format!("{:>6}", row.stream),
        if row.in_use { rate(row.rate) } else { "rests".to_owned() },
        round_trip(row.round_trip_us),
        format!("{} ({})", count(row.sent_again), share(row.sent_again as f64 / row.segments.max(1) as f64)),
        format!("{} -> {}", harmless(paths::without_port(own)), harmless(paths::without_port(other))),
    ]
}

/// The bottleneck, its evidence, and other utilisation.
pub fn verdict(board: &Board) -> Vec<String> {
    if board.is_paused {
        return vec!["paused: press space to resume".to_owned()];
    }
    let too_early = || "too early to tell".to_owned();
    let Some(found) = &board.progress.verdict else { return vec![too_early()] };
    if found.limit == Bottleneck::None {
        return vec![verdict::line(found).unwrap_or_else(too_early)];
    }
    let next = found.next.map(|next| format!("; next: {} at {}", verdict::words(next.limit), share(next.share)));
    let first = format!("{}, {} of the time{}", verdict::named(found), share(found.share), next.unwrap_or_default());
    let facts: Vec<_> = found.facts.iter().map(verdict::fact_text).collect();
    vec![first, facts.join("; ")]
}

/// Numbers of files by state.
pub fn queue(progress: &Progress) -> Vec<String> {
    let Progress { files_found, files_settled, .. } = *progress;
    let under_way = progress.work.files_in_progress.min(files_found.saturating_sub(files_settled));
    let waiting = files_found.saturating_sub(files_settled).saturating_sub(under_way);
    let looking = if progress.walk_complete { "" } else { " so far" };
    vec![
        format!(
            "{} found{looking}   {} waiting   {} in flight   {} settled",
            count(files_found),
            count(waiting),
            count(under_way),
            count(files_settled)
        ),
        format!("{} found, {} up to date", size(progress.bytes_found), size(progress.bytes_skipped)),
    ]
}

/// The line of a slow file.
pub fn slow_file(file: &SlowFile) -> String {
    let took = duration(Duration::from_micros(file.took_us));
    format!("{took:>11}  {:>9}  {}", size(file.size), escape(&file.path))
}
