//! Recovery of the source's streams while a copy runs: samples the sockets, applies the decisions of
//! [`crate::net::multipath`], closes broken or stalled streams, and has replacements opened.

use std::time::{Duration, Instant};

use haul_proto::ids::PathId;
use haul_proto::wire::report::WorkerMessage;

use crate::net::multipath::{PathChange, PathRepair};
use crate::net::stream_pool::StreamPool;
use crate::source::Source;
use crate::worker::error::WorkerError;

/// Sampling interval.
const PERIOD: Duration = Duration::from_millis(250);
/// Time for which a stream is idle at the end before it duplicates the unfinished work of a stream on a slower path. It
/// applies with several paths.
const DOUBLED_AFTER: Duration = Duration::from_millis(50);

/// Warning for a path on which connections open and data is lost.
const LARGE_PACKETS_LOST: &str =
    "the direct path seems to lose large packets (MTU): haul reopens its streams with small packets";

/// Monitors streams until `pause`, which waits for a given time, reports the end of the copy. An error ends the copy.
pub fn recover_streams(
    source: &Source,
    pool: &StreamPool,
    mut pause: impl FnMut(Duration) -> bool,
) -> Result<(), WorkerError> {
    let mut at = Instant::now();
    let (mut was_lost, mut is_told, mut doubles) = (false, false, false);
    let mut announced = AnnouncedPaths::default();
    while pause(PERIOD) && !source.is_finished() {
        let elapsed = std::mem::replace(&mut at, Instant::now()).elapsed();
        let PathRepair { give_up, make, hopeless, small_segments, moved } = pool.plan_repair(elapsed);
        if let Some(path) = small_segments {
            use_small_segments(source, pool, path);
        }
        give_up.iter().for_each(|stream| source.give_up_stream(*stream));
        make.into_iter().for_each(|(path, count)| make_streams(source, pool, count, path));
        keep_fixed(source, pool);
        share_out(source, pool);
        if hopeless {
            return Err(WorkerError::DataConnections);
        }
        announced.report_changes(source, pool, moved.as_ref());
        if pool.has_paths() && !doubles {
            source.double_after(DOUBLED_AFTER);
            doubles = true;
        }
        // The loss is reported at the next sample. If all streams broke because the other end is gone, the copy has
        // ended by then, and its error covers the loss.
        if was_lost && !is_told {
            report_loss(source, pool);
            is_told = true;
        }
        was_lost = pool.first_loss().is_some();
    }
    Ok(())
}

/// The paths last reported to the controller.
#[derive(Default)]
struct AnnouncedPaths {
    paths: Option<Vec<PathId>>,
}

impl AnnouncedPaths {
    /// Reports a change of paths to the controller. Without a report, it assumes only the first path.
    fn report_changes(&mut self, source: &Source, pool: &StreamPool, moved: Option<&PathChange>) {
        let names = pool.names();
        let paths: Vec<_> = names.iter().map(|(path, _)| *path).collect();
        if moved == Some(&PathChange::Unusable) {
            source.reporter.send(&WorkerMessage::Paths { in_use: Vec::new(), because: why(&PathChange::Unusable) });
        }
        if paths.is_empty() || self.paths.as_ref() == Some(&paths) {
            return;
        }
        let is_first = self.paths.is_none();
        self.paths = Some(paths);
        if !is_first || names.len() > 1 {
            let in_use = names.into_iter().map(|(_, name)| name).collect();
            let because = moved.map(why).unwrap_or_default();
            source.reporter.send(&WorkerMessage::Paths { in_use, because });
        }
    }
}

fn why(moved: &PathChange) -> String {
    let mbit_per_s = |bytes_per_s: u64| bytes_per_s / 125_000;
    match moved {
        PathChange::Faster(now, before) => {
            format!("it carries {} Mbit/s, the previous one {}", mbit_per_s(*now), mbit_per_s(*before))
        }
        PathChange::Lifeless => "the previous one had no answers".to_owned(),
        PathChange::Unusable => {
            "nothing was acknowledged for 10 s: a firewall drops the data, or large packets are lost (MTU)".to_owned()
        }
    }
}

fn report_loss(source: &Source, pool: &StreamPool) {
    if let Some(loss) = pool.first_loss() {
        let text = format!("{loss}; the other streams take over its work");
        source.reporter.send(&WorkerMessage::Warning { text });
    }
}

/// Has later streams of a path opened with small segments, and tells the user.
fn use_small_segments(source: &Source, pool: &StreamPool, path: PathId) {
    if !pool.use_small_segments(path) {
        source.ask_for_small_segments(path);
    }
    source.reporter.send(&WorkerMessage::Warning { text: LARGE_PACKETS_LOST.into() });
}

/// Opens `count` more streams on a path, or requests them from the other end.
pub fn make_streams(source: &Source, pool: &StreamPool, count: u16, path: PathId) {
    if count > 0 && !pool.make(count, path) {
        source.ask_for_streams(count, path);
    }
}

/// Opens the streams missing from a fixed number.
pub fn keep_fixed(source: &Source, pool: &StreamPool) {
    pool.keep_fixed().into_iter().for_each(|(path, count)| make_streams(source, pool, count, path));
}

/// Distributes the work among the streams in use.
pub fn share_out(source: &Source, pool: &StreamPool) {
    pool.share_out(|in_use| source.use_streams(in_use));
}
