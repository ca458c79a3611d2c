//! Tests of new, closed and replaced streams over real sockets.

use haul_proto::ids::CopyId;
use haul_proto::wire::handshake::CipherSuite;
use haul_proto::wire::request::SocketOptions;
use haul_proto::wire::resource_metrics::Stage;
use haul_proto::wire::route::Route;

use super::*;
use crate::metrics::stage_timer::StageTimers;
use crate::net::stream::accept::{AcceptAddress, listen};
use crate::net::stream::connect::{ConnectTerms, ConnectedStreams, connect};
use crate::net::stream::handshake::StreamCredentials;
use crate::net::stream::{AcceptedStreams, collect};
use crate::worker::resource_metrics::{ResourceMeter, SystemGauges};

const LIMIT: Duration = Duration::from_secs(10);

/// Returns two streams between two ends, with the first end's connector and the second's accepted streams.
fn two_streams() -> (ConnectedStreams, Vec<DataStream>, AcceptedStreams, Vec<DataStream>) {
    let (session, secret, suite) = (CopyId([1; 16]), [2; 32], CipherSuite::Aes128Gcm);
    let credentials = StreamCredentials { session, secret, suite, rekey_bytes: 1 << 30 };
    let (port, accepted) = listen(AcceptAddress::default(), credentials.clone(), SocketOptions::default()).unwrap();
    let socket = SocketOptions::default();
    let (ids, all_paths) = (StreamIds::default(), false);
    let terms = ConnectTerms { credentials, socket, streams: 2, streams_max: 2, all_paths, ids, timeout: LIMIT };
    let connected = connect(&[Route::to(format!("127.0.0.1:{port}"))], &terms).unwrap();
    let (near, far) = (collect(&connected.arrivals, 2), collect(&accepted, 2));
    (connected, near, accepted, far)
}

fn in_use(pool: &StreamPool) -> Vec<u64> {
    let mut told = Vec::new();
    pool.share_out(|in_use| told = in_use.iter().flatten().collect());
    told
}

/// Samples the sockets until there is something to repair.
#[track_caller]
fn until_something(pool: &StreamPool) -> PathRepair {
    let deadline = std::time::Instant::now() + LIMIT;
    loop {
        let repair = pool.plan_repair(Duration::from_millis(1));
        if repair != PathRepair::default() {
            return repair;
        }
        assert!(std::time::Instant::now() < deadline, "nothing happens");
    }
}

#[test]
fn a_stream_closed_by_the_other_end_is_replaced_and_its_figures_stay() {
    if haul_lab::is_emulated_without("TCP_INFO") {
        return;
    }
    let (connected, near, _accepted, mut far) = two_streams();
    let pool = StreamPool::new(2, false);
    pool.set_connector(Arc::clone(&connected.connector));
    assert!(near.iter().zip(0..).all(|(stream, id)| pool.admit(StreamId(id), stream)));
    assert!(!pool.admit(StreamId(1), &near[1]), "an id comes once");
    assert_eq!((pool.plan_repair(Duration::ZERO), in_use(&pool)), (PathRepair::default(), vec![0, 1]));
    let before = pool.snapshot(2).unwrap();
    drop(far.remove(0));
    let expected = PathRepair { give_up: vec![StreamId(0)], make: vec![(PathId(0), 1)], ..PathRepair::default() };
    assert_eq!(until_something(&pool), expected);
    assert_eq!((pool.count(), in_use(&pool), pool.is_recovering()), (1, vec![1], true));
    assert!(pool.snapshot(2).unwrap().is_of_others_than(&before));
    let figures = pool.figures();
    assert!(pool.ending(StreamId(0), true), "it can be replaced");
    assert_eq!(pool.figures().segments, figures.segments);
    assert!(pool.make(1, PathId(0)));
    let (id, stream) = connected.arrivals.next(LIMIT).unwrap();
    assert!(id == StreamId(2) && pool.admit(id, &stream));
    assert!(!pool.is_recovering() && in_use(&pool) == [1, 2]);
    assert!(!pool.admit(StreamId(0), &near[0]), "also when the first is gone");
}

#[test]
fn closing_a_stream_ends_its_reader() {
    let (_connected, near, _accepted, mut far) = two_streams();
    let pool = StreamPool::new(2, false);
    assert!(pool.admit(StreamId(0), &far[0]));
    let mut reading = far.remove(0);
    let ended =
        std::thread::spawn(move || reading.receive(&mut crate::io::frame_buffer::FrameBuffer::empty()).is_err());
    pool.give_up(&[StreamId(0), StreamId(77)]);
    assert!(ended.join().unwrap());
    drop(near);
}

#[test]
fn ids_known_to_the_other_end_are_not_reused() {
    let (_connected, near, _accepted, _far) = two_streams();
    let pool = StreamPool::new(1, false);
    let ids = pool.ids();
    assert_eq!([ids.next(), ids.next()], [Some(StreamId(0)), Some(StreamId(1))]);
    assert!(pool.admit(StreamId(7), &near[0]));
    assert_eq!(ids.next(), Some(StreamId(8)));
    ids.saw(StreamId(u16::MAX));
    assert_eq!([ids.next(), ids.next()], [None, None]);
}

#[test]
fn late_streams_rest_and_excess_ones_are_refused() {
    let (_connected, near, _accepted, far) = two_streams();
    let pool = StreamPool::new(1, false);
    assert!(pool.admit(StreamId(0), &near[0]));
    assert_eq!(pool.want(1), Some((PathId(0), 0)));
    assert!(pool.admit(StreamId(5), &near[1]));
    assert_eq!((pool.count(), in_use(&pool)), (2, vec![0]));
    assert!(!pool.admit(StreamId(6), &far[0]), "twice as many as are in use are enough");
}

#[test]
fn a_fixed_number_holds_for_present_and_later_streams() {
    if haul_lab::is_emulated_without("TCP_INFO") {
        return;
    }
    let (_connected, near, _accepted, _far) = two_streams();
    let pool = StreamPool::new(4, false);
    pool.fix(9);
    assert_eq!((pool.keep_fixed(), pool.is_fixed()), (vec![], true), "no path is known yet");
    assert!(near.iter().zip(0..).all(|(stream, id)| pool.admit(StreamId(id), stream)));
    assert_eq!(pool.keep_fixed(), [(PathId(0), 2)], "two are there, and four may be");
    assert_eq!((pool.keep_fixed(), in_use(&pool)), (vec![], vec![0, 1]), "they are asked for once");
    pool.fix(1);
    assert_eq!((pool.keep_fixed(), in_use(&pool)), (vec![(PathId(0), 0)], vec![0]));
    pool.want(3);
    assert_eq!(pool.keep_fixed(), [(PathId(0), 0)], "whoever wants more has no say");
    assert_eq!(in_use(&pool), [0]);
    let (paths, activity) = pool.path_activity();
    assert_eq!(paths.len(), 1);
    let activity: Vec<_> = activity.iter().map(|stream| (stream.stream, stream.path, stream.in_use)).collect();
    assert_eq!(activity, [(0, 0, true), (1, 0, false)]);
}

#[test]
fn a_sample_covers_the_time_since_the_last() {
    let earlier = PoolSnapshot { acknowledged_bytes: 1000, waited: Duration::from_secs(1), ..PoolSnapshot::default() };
    let later = PoolSnapshot { acknowledged_bytes: 5000, waited: Duration::from_secs(4), ..PoolSnapshot::default() };
    let stat = later.since(&earlier, Duration::from_secs(2), 3);
    assert_eq!(stat, RateSample { elapsed_us: 2_000_000, acknowledged_bytes: 4000, network_permille: 500 });
    assert_eq!(earlier.since(&later, Duration::ZERO, 0).acknowledged_bytes, 0);
}

#[test]
fn the_last_sample_includes_ended_streams() {
    if haul_lab::is_emulated_without("TCP_INFO") {
        return;
    }
    let (_connected, near, _accepted, _far) = two_streams();
    let (pool, stages) = (StreamPool::new(2, false), StageTimers::default());
    assert!(near.iter().zip(0..).all(|(stream, id)| pool.admit(StreamId(id), stream)));
    for stream in &near {
        rustix::net::sockopt::set_tcp_congestion(stream.socket(), "reno").unwrap();
    }
    let mut meter = ResourceMeter::new(SystemGauges::open([0, 0]));
    let carried = stages.enter(Some(0), Stage::Idle);
    let there = meter.sample(&stages, &pool).present;
    assert!(!there.bears_loss && there.streams == 1, "{there:?}");
    drop((carried, near));
    assert_eq!((pool.bear_loss(), stages.streams()), (None, 0));
    assert_eq!(meter.sample(&stages, &pool).present, there);
}
