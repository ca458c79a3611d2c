//! Tables, and whether the targets are reached.

use haul_lab::aligned;

use super::cases::{SyncAim, SyncCase};
use super::{SyncTool, megabytes};
use crate::statistics::median;

/// One run.
#[derive(Debug, Clone, Copy)]
pub struct MeasuredSync {
    /// From start to end.
    pub seconds: f64,
    /// CPU time of the whole machine.
    pub cpu_s: f64,
    /// Context switches of the whole machine.
    pub switches: u64,
    /// On the cable.
    pub bytes: u64,
}

/// One tool's runs.
#[derive(Debug)]
pub struct SyncRow {
    /// The tool.
    pub tool: SyncTool,
    /// Those that were made.
    pub runs: Vec<MeasuredSync>,
    /// The most memory at either end, as far as it is known: at the near one for others than haul.
    pub peak_bytes: u64,
    /// Bytes of the records that haul sent; 0 if not measured.
    pub sent_bytes: u64,
    /// System calls of the whole machine, in a run that is not timed; `None` if not counted.
    pub calls: Option<u64>,
    /// Why there are no more.
    pub failure: Option<String>,
}

impl SyncRow {
    /// No run yet.
    pub fn new(tool: SyncTool) -> Self {
        Self { tool, runs: Vec::new(), peak_bytes: 0, sent_bytes: 0, calls: None, failure: None }
    }

    fn seconds(&self) -> Option<f64> {
        self.median(|run| run.seconds)
    }

    #[expect(clippy::cast_precision_loss, reason = "far fewer than 2^53 bytes")]
    fn bytes(&self) -> Option<f64> {
        self.median(|run| run.bytes as f64)
    }

    #[expect(clippy::cast_precision_loss, reason = "far fewer than 2^53")]
    fn switches(&self) -> Option<f64> {
        self.median(|run| run.switches as f64)
    }

    fn median(&self, figure: impl Fn(&MeasuredSync) -> f64) -> Option<f64> {
        median(self.runs.iter().map(figure).collect())
    }
}

/// The table of a case, with its targets.
pub fn table(case: SyncCase, rows: &[SyncRow]) -> String {
    let mut lines = vec![
        ["", "median", "range", "CPU", "context switches", "system calls", "bytes on the cable", "most memory"]
            .map(str::to_owned)
            .to_vec(),
    ];
    for row in rows {
        let (low, high) =
            row.runs.iter().fold((f64::MAX, 0.0_f64), |(low, high), run| (run.seconds.min(low), run.seconds.max(high)));
        let failure = row.failure.as_deref().unwrap_or("not measured");
        let cells = match (&row.failure, row.seconds(), row.bytes()) {
            (None, Some(seconds), Some(bytes)) => [
                format!("{seconds:.2} s"),
                format!("{low:.2} to {high:.2}"),
                format!("{:.2} s", row.median(|run| run.cpu_s).unwrap_or_default()),
                format!("{:.0}", row.switches().unwrap_or_default()),
                row.calls.map_or_else(|| "-".to_owned(), |calls| calls.to_string()),
                format!("{:.2} MB", bytes / 1e6),
                format!("{:.0} MB", megabytes(row.peak_bytes)),
            ],
            _ => [failure, "", "", "", "", "", ""].map(str::to_owned),
        };
        lines.push([&[row.tool.name().to_owned()][..], &cells].concat());
    }
    let mut lines = vec![format!("\n## {}\n\n{}", case.about(), aligned(&lines, &[0]).trim_end())];
    if let [haul, peers @ ..] = rows {
        let peers = peers.iter().filter(|peer| peer.failure.is_none());
        lines.extend(peers.flat_map(|peer| verdicts(case.aim(), haul, peer)));
        lines.extend(limits(case.aim(), haul));
    }
    lines.join("\n")
}

/// Targets relative to a peer.
fn verdicts(aim: SyncAim, haul: &SyncRow, peer: &SyncRow) -> Vec<String> {
    let part = |of: fn(&SyncRow) -> Option<f64>| of(haul).zip(of(peer)).map(|(own, other)| own / other);
    let said = |what, part: Option<f64>, most: Option<f64>| {
        let (part, most) = part.zip(most)?;
        let met = if part <= most { "Met" } else { "MISSED" };
        Some(format!("\n{met}: {part:.3} of the {what} of {}; at most {most} is aimed at.", peer.tool.name()))
    };
    let time = said("time", part(SyncRow::seconds), aim.time);
    let bytes = said("bytes", part(SyncRow::bytes), aim.bytes);
    [time, bytes].into_iter().flatten().collect()
}

/// Absolute targets.
fn limits(aim: SyncAim, haul: &SyncRow) -> Vec<String> {
    let said = |what, own: f64, most: Option<u64>| {
        let most = megabytes(most?);
        let met = if own <= most { "Met" } else { "MISSED" };
        Some(format!("\n{met}: {own:.1} MB {what}; at most {most:.1} MB is aimed at."))
    };
    let memory = said("of memory", megabytes(haul.peak_bytes), aim.peak_bytes);
    let bytes = said("in records", megabytes(haul.sent_bytes), aim.sent_max);
    [memory, bytes].into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(tool: SyncTool, seconds: f64, bytes: u64) -> SyncRow {
        SyncRow {
            runs: vec![MeasuredSync { seconds, cpu_s: 1.0, switches: 9, bytes }],
            peak_bytes: 300 << 20,
            ..SyncRow::new(tool)
        }
    }

    #[test]
    fn aims_are_judged_beside_each_peer() {
        let rows =
            [row(SyncTool::Haul, 1.0, 90), row(SyncTool::RsyncSsh, 2.0, 100), row(SyncTool::RsyncDaemon, 1.5, 80)];
        let text = table(SyncCase::Added, &rows);
        assert!(text.contains("Met: 0.500 of the time of rsync over ssh"), "{text}");
        assert!(text.contains("MISSED: 0.667 of the time of rsync to a daemon"), "{text}");
        assert!(text.contains("Met: 0.900 of the bytes of rsync over ssh"), "{text}");
        assert!(table(SyncCase::Unchanged, &rows).contains("MISSED: 314.6 MB of memory"));
        let haul = SyncRow { sent_bytes: 100 << 20, ..row(SyncTool::Haul, 1.0, 110 << 20) };
        let sparse = table(SyncCase::Sparse, &[haul, row(SyncTool::Cp, 1.0, 0)]);
        assert!(sparse.contains("Met: 104.9 MB in records"), "{sparse}");
    }

    #[test]
    fn a_failed_tool_is_named() {
        let failed = SyncRow { failure: Some("no".into()), ..row(SyncTool::RsyncSsh, 1.0, 1) };
        let text = table(SyncCase::Insert, &[row(SyncTool::Haul, 1.0, 1), failed]);
        assert!(text.contains("| rsync over ssh |     no |") && !text.contains("Met"), "{text}");
    }
}
