//! The streams of a running copy: admission and end of streams, samples of their sockets, closing of broken streams,
//! and opening of new ones. The contents of streams are handled elsewhere.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;

use haul_base::sys::sync::lock;
use haul_proto::ids::{PathId, StreamId};
use haul_proto::limits::STREAM_FIGURES_MAX;
use haul_proto::ranges::RangeSet;
use haul_proto::stream_autotune::RateSample;
use haul_proto::wire::counters::PathFigures;
use haul_proto::wire::resource_metrics::{Sockets, StreamFigures};
use haul_proto::wire::source_activity::StreamPath;

use crate::net::multipath::{Multipath, PathMeasurement, PathRepair};
use crate::net::stream::connector::Connector;
use crate::net::stream::socket::{abandon, bears_loss, names, own_address, send_buffer_bytes};
use crate::net::stream::{DataStream, StreamIds};
use crate::sys::tcp_info::{TcpInfo, tcp_info};
use crate::sys::usage::micros;

/// All streams of a copy.
pub struct StreamPool {
    /// Most streams in use per path. More may exist for a while, because an end detects the loss of a stream late.
    most: usize,
    state: Mutex<PoolState>,
    /// Held while the set of streams in use is computed and passed to the source, so that an older set never follows a
    /// newer one.
    sharing: Mutex<()>,
    /// Opens more streams, at the connecting end.
    connector: OnceLock<Arc<Connector>>,
    /// The reason for the loss of the first lost stream.
    first_loss: OnceLock<String>,
    ids: StreamIds,
}

#[derive(Default)]
struct PoolState {
    streams: BTreeMap<u16, PooledStream>,
    /// Ids of all admitted streams: no id is admitted twice.
    ids: RangeSet,
    multipath: Multipath,
    /// Number of streams per path fixed by the user.
    fixed: Option<u16>,
    /// Number of lost streams and path changes: a new value makes older samples incomparable.
    gone: u64,
    past: PathFigures,
    /// Socket counters of ended streams for detailed reports, and sums of the samples of all sockets.
    past_sockets: Sockets,
    looks: Sockets,
    /// Figures of each ended stream, up to the limit.
    ended: Vec<StreamFigures>,
}

struct PooledStream {
    socket: Weak<OwnedFd>,
    path: PathId,
    /// Whether another connection can replace the stream.
    is_tcp: bool,
    given_up: bool,
    /// The last sample of the socket.
    last: TcpInfo,
    /// The largest effective window of all samples.
    effective_window_bytes: u64,
    /// Bytes acknowledged at the last sample of all sockets.
    seen_bytes: u64,
}

/// A sample of the streams in use at one time.
#[derive(Debug, Clone, Copy, Default)]
pub struct PoolSnapshot {
    /// The shortest round-trip time of all streams.
    pub round_trip: Duration,
    acknowledged_bytes: u64,
    waited: Duration,
    gone: u64,
}

impl StreamPool {
    /// Creates the pool of a copy with at most `most` streams in use per path.
    pub fn new(most: u16, all_paths: bool) -> Self {
        let state = Mutex::new(PoolState { multipath: Multipath::new(all_paths), ..PoolState::default() });
        let (connector, first_loss, ids) = (OnceLock::new(), OnceLock::new(), StreamIds::default());
        Self { most: most.into(), state, sharing: Mutex::default(), connector, first_loss, ids }
    }

    /// Returns the source of ids for streams opened at this end.
    pub fn ids(&self) -> StreamIds {
        self.ids.clone()
    }

    /// Admits a new stream; `false` for a duplicate id and for a stream over the limit.
    pub fn admit(&self, StreamId(id): StreamId, stream: &DataStream) -> bool {
        self.ids.saw(StreamId(id));
        let mut state = lock(&self.state);
        let path = stream.path();
        let is_too_many = usize::from(state.live(path)) >= 2 * self.most || !state.multipath.takes(path);
        if is_too_many || !state.ids.insert(id.into()) {
            return false;
        }
        let socket = stream.watch();
        let is_tcp = tcp_info(stream.socket()).is_ok();
        state.streams.insert(id, PooledStream::new(socket, path, is_tcp));
        let live = state.live(path);
        state.multipath.stream_added(path, live);
        true
    }

    /// Removes a stream that is about to end and keeps its figures. Returns whether another connection can replace it.
    /// `is_lost` marks a stream that broke.
    pub fn ending(&self, StreamId(id): StreamId, is_lost: bool) -> bool {
        let mut state = lock(&self.state);
        let Some(mut stream) = state.streams.remove(&id) else { return false };
        stream.sample_tcp_info();
        count(&mut state.past, &stream.last);
        state.past_sockets.add(&counted(&stream.last));
        if state.ended.len() < STREAM_FIGURES_MAX {
            state.ended.push(stream.figures(id));
        }
        if is_lost && !stream.given_up {
            state.record_loss(stream.path);
        }
        stream.is_tcp
    }

    /// Returns the number of streams on the main path.
    pub fn count(&self) -> u16 {
        let state = lock(&self.state);
        state.multipath.main().map_or(0, |path| state.live(path))
    }

    /// Sets the connector that opens streams at this end.
    pub fn set_connector(&self, connector: Arc<Connector>) {
        // A second connector belongs to a second transport path, which is ignored after the first.
        let _ = self.connector.set(connector);
    }

    /// Opens `count` more streams on a path; `false` if that is up to the other end.
    pub fn make(&self, count: u16, path: PathId) -> bool {
        self.connector.get().map(|connector| connector.make(count, path)).is_some()
    }

    /// Uses small segments on later streams of a path; `false` if that is up to the other end.
    pub fn use_small_segments(&self, path: PathId) -> bool {
        self.connector.get().map(|connector| connector.use_small_segments(path)).is_some()
    }

    /// Sets the intended number of streams on the main path. Returns that path and the number of streams to open.
    pub fn want(&self, streams: u16) -> Option<(PathId, u16)> {
        let mut state = lock(&self.state);
        let path = state.multipath.main()?;
        let live = state.live(path);
        Some((path, state.multipath.recovery(path).want(streams, live)))
    }

    /// Fixes the number of streams in use on each path, within the limits, and ends the tuning.
    pub fn fix(&self, streams: u16) {
        let most = u16::try_from(self.most).unwrap_or(u16::MAX);
        lock(&self.state).fixed = Some(streams.clamp(1, most.max(1)));
    }

    /// Whether the number of streams is fixed.
    pub fn is_fixed(&self) -> bool {
        lock(&self.state).fixed.is_some()
    }

    /// Applies the fixed number to all paths, including new ones. Returns how many streams to open on each path.
    pub fn keep_fixed(&self) -> Vec<(PathId, u16)> {
        let mut state = lock(&self.state);
        let Some(streams) = state.fixed else { return Vec::new() };
        let mut make = Vec::new();
        for path in state.multipath.kept() {
            let live = state.live(path);
            let recovery = state.multipath.recovery(path);
            if recovery.wanted() != streams {
                make.push((path, recovery.want(streams, live)));
            }
        }
        make
    }

    /// Passes the set of streams in use to `tell`.
    pub fn share_out(&self, tell: impl FnOnce(RangeSet)) {
        let _sharing = lock(&self.sharing);
        let in_use = lock(&self.state).in_use();
        tell(in_use);
    }

    /// Returns the addresses of all paths, and the path of each stream.
    pub fn path_activity(&self) -> (Vec<(String, String)>, Vec<StreamPath>) {
        let mut state = lock(&self.state);
        let in_use = state.in_use();
        let (mut known, mut paths, mut activity) = (Vec::new(), Vec::new(), Vec::new());
        for (id, stream) in state.streams.iter().filter(|(_, stream)| stream.is_tcp && !stream.given_up) {
            let place = known.iter().position(|path| *path == stream.path);
            let Some(path) = place.or_else(|| {
                let socket = stream.socket.upgrade()?;
                known.push(stream.path);
                paths.push(names(&*socket));
                Some(paths.len() - 1)
            }) else {
                continue;
            };
            let path = u8::try_from(path).unwrap_or(u8::MAX);
            activity.push(StreamPath { stream: *id, path, in_use: in_use.contains((*id).into()) });
        }
        (paths, activity)
    }

    /// Whether total rates mean nothing now: a lost stream awaits its replacement, or paths are being compared.
    pub fn is_recovering(&self) -> bool {
        lock(&self.state).multipath.is_unsettled()
    }

    /// Lets the next repair leave direct paths on which nothing is acknowledged.
    pub fn permit_detour(&self) {
        lock(&self.state).multipath.permit_detour();
    }

    /// Samples all TCP sockets and closes broken or stalled streams; their threads detect that.
    pub fn plan_repair(&self, elapsed: Duration) -> PathRepair {
        let mut state = lock(&self.state);
        let mut seen: BTreeMap<PathId, PathMeasurement> = BTreeMap::new();
        for (id, stream) in state.streams.iter_mut().filter(|(_, stream)| stream.is_tcp && !stream.given_up) {
            let path = seen.entry(stream.path).or_default();
            match stream.sample_tcp_info() {
                Some(info) if info.is_established => path.alive(StreamId(*id), &info),
                _ => path.broken.push(StreamId(*id)),
            }
        }
        let repair = state.multipath.sample(elapsed, &seen);
        let broken: Vec<_> = seen.values().flat_map(|path| path.broken.iter().copied()).collect();
        let silent = repair.give_up.iter().filter(|id| !broken.contains(id));
        silent.for_each(|id| self.note_loss(format!("data stream {} had no answer", id.0)));
        broken.iter().for_each(|id| self.note_loss(format!("data stream {} broke", id.0)));
        state.gone += repair.give_up.len() as u64 + u64::from(repair.moved.is_some());
        state.give_up(&repair.give_up);
        repair
    }

    /// Whether streams of more than one path were admitted.
    pub fn has_paths(&self) -> bool {
        lock(&self.state).multipath.is_several()
    }

    /// Returns the paths in use, each with the addresses of the connecting and the accepting end.
    pub fn names(&self) -> Vec<(PathId, (String, String))> {
        let state = lock(&self.state);
        let is_connector = self.connector.get().is_some();
        let name = |path: PathId| {
            let of_path = |stream: &&PooledStream| stream.path == path && !stream.given_up;
            let socket = state.streams.values().find(of_path)?.socket.upgrade()?;
            let (own, peer) = names(&*socket);
            Some((path, if is_connector { (own, peer) } else { (peer, own) }))
        };
        state.multipath.kept().into_iter().filter(|path| path.is_direct()).filter_map(name).collect()
    }

    /// Closes streams that the other end has given up. A thread that still receives from one reads the remaining data
    /// and ends.
    pub fn give_up(&self, streams: &[StreamId]) {
        lock(&self.state).give_up(streams);
    }

    /// Records the reason of a loss for the user. Only the first one is kept, since a broken path may cause many.
    pub fn note_loss(&self, why: String) {
        let _ = self.first_loss.set(why);
    }

    /// Returns the reason for the first lost stream.
    pub fn first_loss(&self) -> Option<&str> {
        self.first_loss.get().map(String::as_str)
    }

    /// Samples the first `streams` streams of the main path; `None` if one of them is not TCP.
    pub fn snapshot(&self, streams: u16) -> Option<PoolSnapshot> {
        let mut state = lock(&self.state);
        let main = state.multipath.main();
        let mut all = PoolSnapshot { round_trip: Duration::MAX, gone: state.gone, ..PoolSnapshot::default() };
        let in_use = |stream: &&mut PooledStream| !stream.given_up && Some(stream.path) == main;
        for stream in state.streams.values_mut().filter(in_use).take(streams.into()) {
            let info = stream.sample_tcp_info()?;
            all.round_trip = all.round_trip.min(info.round_trip_min);
            all.acknowledged_bytes = all.acknowledged_bytes.saturating_add(info.acknowledged_bytes);
            all.waited += info.busy.network_limited();
        }
        Some(all)
    }

    /// Whether all streams use a loss-tolerant congestion control ([`bears_loss`]); `None` without streams.
    pub fn bear_loss(&self) -> Option<bool> {
        let state = lock(&self.state);
        let each =
            state.streams.values().filter_map(|stream| stream.socket.upgrade()).map(|socket| bears_loss(&*socket));
        each.reduce(|all, one| all && one)
    }

    /// Returns the socket figures of all streams, including ended ones.
    pub fn sockets(&self) -> Sockets {
        let mut state = lock(&self.state);
        let PoolState { streams, looks, past_sockets, .. } = &mut *state;
        let mut all = *past_sockets;
        for stream in streams.values_mut() {
            stream.sample_tcp_info();
            if std::mem::replace(&mut stream.seen_bytes, stream.last.acknowledged_bytes)
                < stream.last.acknowledged_bytes
            {
                looks.add(&stream.seen());
            }
            all.add(&counted(&stream.last));
        }
        all.add(looks);
        all
    }

    /// Returns the socket figures of each stream.
    pub fn stream_figures(&self) -> Vec<StreamFigures> {
        let mut state = lock(&self.state);
        let PoolState { streams, ended, .. } = &mut *state;
        for stream in streams.values_mut() {
            stream.sample_tcp_info();
        }
        let there = streams.iter().map(|(id, stream)| stream.figures(*id));
        ended.iter().copied().chain(there).take(STREAM_FIGURES_MAX).collect()
    }

    /// Returns this end's address on the main path; `None` if that is not TCP.
    pub fn own_address(&self) -> Option<IpAddr> {
        let state = lock(&self.state);
        let main = state.multipath.main();
        let mut in_use =
            state.streams.values().filter(|stream| stream.is_tcp && !stream.given_up && Some(stream.path) == main);
        in_use.find_map(|stream| own_address(&*stream.socket.upgrade()?))
    }

    /// Returns the path figures of all streams, including ended ones.
    pub fn figures(&self) -> PathFigures {
        let mut state = lock(&self.state);
        let mut figures = state.past;
        for stream in state.streams.values_mut() {
            stream.sample_tcp_info();
            count(&mut figures, &stream.last);
        }
        if figures.segments == 0 { PathFigures::default() } else { figures }
    }
}

impl PoolState {
    /// Returns the streams that get work: the intended number on each path in use.
    fn in_use(&mut self) -> RangeSet {
        let mut in_use = RangeSet::new();
        for path in self.multipath.in_use() {
            let wanted = self.multipath.recovery(path).wanted().into();
            for id in self.ids_of_live(path).take(wanted) {
                in_use.insert(id.into());
            }
        }
        in_use
    }

    fn ids_of_live(&self, path: PathId) -> impl Iterator<Item = u16> {
        self.streams.iter().filter(move |(_, stream)| stream.path == path && !stream.given_up).map(|(id, _)| *id)
    }

    fn live(&self, path: PathId) -> u16 {
        u16::try_from(self.ids_of_live(path).count()).unwrap_or(u16::MAX)
    }

    fn record_loss(&mut self, path: PathId) {
        self.gone += 1;
        self.multipath.recovery(path).stream_lost();
    }

    fn give_up(&mut self, streams: &[StreamId]) {
        for StreamId(id) in streams {
            if let Some(stream) = self.streams.get_mut(id) {
                stream.given_up = true;
                stream.socket.upgrade().into_iter().for_each(|socket| abandon(&*socket));
            }
        }
    }
}

/// Adds a stream's figures. A stream without sent segments has none.
fn count(figures: &mut PathFigures, info: &TcpInfo) {
    if info.segments.sent == 0 {
        return;
    }
    let round_trip_us = micros(info.round_trip_min);
    let is_first = figures.segments == 0;
    figures.round_trip_us = if is_first { round_trip_us } else { figures.round_trip_us.min(round_trip_us) };
    figures.segments += info.segments.sent;
    figures.retransmitted += info.segments.retransmitted;
    figures.busy_us += micros(info.busy.all);
    figures.receiver_limited_us += micros(info.busy.receiver_limited);
    figures.buffer_limited_us += micros(info.busy.buffer_limited);
}

/// Returns the counters of a socket.
fn counted(info: &TcpInfo) -> Sockets {
    Sockets {
        acknowledged_bytes: info.acknowledged_bytes,
        segments: info.segments.sent,
        retransmitted: info.segments.retransmitted,
        reordered: info.segments.reordered,
        busy_us: micros(info.busy.all),
        receiver_limited_us: micros(info.busy.receiver_limited),
        buffer_limited_us: micros(info.busy.buffer_limited),
        ..Sockets::default()
    }
}

impl PooledStream {
    fn new(socket: Weak<OwnedFd>, path: PathId, is_tcp: bool) -> Self {
        let last = TcpInfo::default();
        Self { socket, path, is_tcp, given_up: false, last, effective_window_bytes: 0, seen_bytes: 0 }
    }

    /// Returns the instantaneous values of one socket sample.
    fn seen(&self) -> Sockets {
        let info = &self.last;
        Sockets {
            looks: 1,
            rtt_us: micros(info.round_trip),
            rtt_min_us: micros(info.round_trip_min),
            window_bytes: info.window_bytes,
            receiver_bytes: info.receiver_bytes,
            buffer_bytes: self.socket.upgrade().map_or(0, |socket| send_buffer_bytes(&*socket)),
            under_way_bytes: info.under_way_bytes,
            delivery_bytes_per_s: info.delivery_bytes_per_s,
            ..Sockets::default()
        }
    }

    /// Returns the socket's figures at the last sample.
    fn figures(&self, id: u16) -> StreamFigures {
        let (counted, seen) = (counted(&self.last), self.seen());
        StreamFigures {
            stream: id.into(),
            acknowledged_bytes: counted.acknowledged_bytes,
            rtt_us: seen.rtt_us,
            window_bytes: seen.window_bytes,
            receiver_bytes: seen.receiver_bytes,
            buffer_bytes: seen.buffer_bytes,
            effective_window_bytes: self.effective_window_bytes,
            segments: counted.segments,
            retransmitted: counted.retransmitted,
            reordered: counted.reordered,
            busy_us: counted.busy_us,
            receiver_limited_us: counted.receiver_limited_us,
            buffer_limited_us: counted.buffer_limited_us,
            ..StreamFigures::default()
        }
    }

    /// Samples the socket if it still exists. Returns the last sample.
    fn sample_tcp_info(&mut self) -> Option<TcpInfo> {
        if let Some(socket) = self.socket.upgrade() {
            self.last = tcp_info(&*socket).ok()?;
            self.effective_window_bytes = self.effective_window_bytes.max(self.last.effective_window_bytes());
        }
        Some(self.last)
    }
}

impl PoolSnapshot {
    /// Whether streams were lost since `earlier`: the two samples then cover different streams.
    pub fn is_of_others_than(&self, earlier: &Self) -> bool {
        self.gone != earlier.gone
    }

    /// Returns the rate of `streams` streams since `earlier`.
    pub fn since(&self, earlier: &Self, elapsed: Duration, streams: u16) -> RateSample {
        let waited = self.waited.saturating_sub(earlier.waited).as_secs_f64();
        let all = elapsed.as_secs_f64() * f64::from(streams.max(1));
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let network_permille = if all > 0.0 { (1000.0 * waited / all) as u32 } else { 0 };
        RateSample {
            elapsed_us: micros(elapsed),
            acknowledged_bytes: self.acknowledged_bytes.saturating_sub(earlier.acknowledged_bytes),
            network_permille,
        }
    }
}

#[cfg(test)]
#[path = "stream_pool_tests.rs"]
mod tests;
