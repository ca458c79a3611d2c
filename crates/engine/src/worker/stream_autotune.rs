//! Tuning of the source's number of streams while a copy runs: samples the sockets, consults [`StreamAutotuner`], and
//! opens streams or leaves some idle. A number set by the user at run time ([`fix`]) ends the tuning.

use std::time::{Duration, Instant};

use haul_proto::ranges::RangeSet;
use haul_proto::stream_autotune::StreamAutotuner;

use crate::net::stream_pool::{PoolSnapshot, StreamPool};
use crate::source::Source;
use crate::worker::stream_recovery::{keep_fixed, make_streams, share_out};

/// Shortest round-trip time with tuning. Below it, packet loss is not what limits streams, and every stream costs
/// processor time.
const TUNED_FROM: Duration = Duration::from_millis(1);
/// Interval of checks for a direct path.
const DIRECT_AFTER: Duration = Duration::from_millis(250);
/// Samples to wait for requested streams. A stream whose first packet was lost takes seconds to open.
const SAMPLES_FOR_STREAMS: u32 = 2;

/// Round trips for which a stream is idle at the end before it duplicates the unfinished work of another.
const DOUBLED_AFTER_ROUND_TRIPS: u32 = 2;

/// Adjusts the number of streams until `pause`, which waits for a given time, reports the end of the copy.
pub fn tune(source: &Source, pool: &StreamPool, mut pause: impl FnMut(Duration) -> bool) {
    let most = source.settings().streams_max;
    let Some((mut tuner, mut last)) = begin(pool, most, &mut pause) else { return };
    source.double_after(DOUBLED_AFTER_ROUND_TRIPS * last.round_trip);
    if pool.bear_loss() == Some(true) {
        return;
    }
    let mut at = Instant::now();
    let mut missed = 0;
    let mut pauses = source.pauses();
    while pause(period(&last)) {
        if pool.is_fixed() {
            return;
        }
        let in_use = tuner.streams().min(pool.count());
        let Some(now) = pool.snapshot(in_use) else { continue };
        let elapsed = std::mem::replace(&mut at, Instant::now()).elapsed();
        let pauses_now = source.pauses();
        let was_paused = std::mem::replace(&mut pauses, pauses_now) != pauses_now || pauses_now % 2 == 1;
        if pool.is_recovering() || now.is_of_others_than(&last) || was_paused {
            // Rates that include a broken stream or a pause say nothing about the best number of streams.
            last = now;
            continue;
        }
        if in_use < tuner.streams() {
            // The requested streams are not open yet, so this period says nothing about them.
            missed += 1;
            if missed <= SAMPLES_FOR_STREAMS {
                last = now;
                continue;
            }
            tuner.have(in_use);
        }
        missed = 0;
        let wanted = tuner.sample(now.since(&last, elapsed, in_use));
        if let Some((path, count)) = pool.want(wanted) {
            make_streams(source, pool, count, path);
        }
        share_out(source, pool);
        // With a different number of streams in use, the next sample needs a base from those streams.
        last = if wanted == in_use { now } else { pool.snapshot(wanted).unwrap_or(now) };
    }
}

/// Fixes the number of streams in use, within the limits of the copy; measurements no longer change it.
pub fn fix(source: &Source, pool: &StreamPool, streams: u16) {
    pool.fix(streams);
    keep_fixed(source, pool);
    share_out(source, pool);
}

/// Fixes the number of threads where one worker is both ends. Each stream is a thread, and their number never exceeds
/// the initial one.
pub fn fix_threads(source: &Source, streams: u16) {
    let mut in_use = RangeSet::new();
    for id in 0..streams.clamp(1, source.settings().streams.max(1)) {
        in_use.insert(id.into());
    }
    source.use_streams(in_use);
}

/// Waits for the first streams; `None` if there is nothing to tune.
fn begin(
    pool: &StreamPool,
    most: u16,
    pause: &mut impl FnMut(Duration) -> bool,
) -> Option<(StreamAutotuner, PoolSnapshot)> {
    let mut count = 0;
    loop {
        let Some(first) = pool.snapshot(u16::MAX) else {
            // Through the control channel, until a direct path is up.
            if !pause(DIRECT_AFTER) {
                return None;
            }
            continue;
        };
        if count > 0 && pool.count() == count {
            return (first.round_trip >= TUNED_FROM && count < most)
                .then(|| (StreamAutotuner::new(count, most), first));
        }
        count = pool.count();
        if !pause(period(&first)) {
            return None;
        }
    }
}

fn period(snapshot: &PoolSnapshot) -> Duration {
    let round_trip_us = u64::try_from(snapshot.round_trip.as_micros()).unwrap_or(0);
    Duration::from_micros(StreamAutotuner::period_us(if snapshot.round_trip == Duration::MAX {
        0
    } else {
        round_trip_us
    }))
}
