//! The scenes of the limits, with the ranges of their settings.
//!
//! Rates are in MB/s unless a setting's name says otherwise. A range is wide, and its every value has to be the limit
//! by far: a held-out set is drawn from it.

use std::time::Duration;

use haul_lab::{Congestion, Slowness, WanSettings};

use super::pick::Pick;
use super::scene::{Network, Scene, SceneData, SceneEnd, Store, Window};

const MB: u64 = 1_000_000;
const KIB: u64 = 1 << 10;

/// Files on a slow disk, through the page cache.
pub fn slow_disk(pick: &mut Pick, end: SceneEnd) -> Scene {
    let rate = MB * pick.of("MB/s", 60..=140, 8..=30);
    let latency = Duration::from_millis(pick.of("latency ms", 0..=2, 2..=10));
    let slow = Store::Slow(Slowness { bytes_per_s: Some(rate), latency, names: Duration::ZERO });
    Scene { data: SceneData::File { bytes: pick.bytes_at(rate) }, ..Scene::default() }.with(end, slow)
}

/// Direct I/O: later writeback by the kernel is not charged to the process.
pub fn slow_device(pick: &mut Pick, end: SceneEnd) -> Scene {
    let rate = MB * pick.of("MB/s", 60..=140, 8..=30);
    let direct = if end == SceneEnd::Source { "s" } else { "t" };
    let options = vec!["--unbuffered".to_owned(), direct.to_owned()];
    let data = SceneData::File { bytes: pick.bytes_at(rate) };
    Scene { data, options, ..Scene::default() }.with(end, Store::Device { bytes_per_s: rate })
}

/// A worker that gets little of the processors.
pub fn quota(pick: &mut Pick, end: SceneEnd) -> Scene {
    let percent = pick.of("% of a core", 15..=30, 4..=10);
    let data = SceneData::File { bytes: pick.bytes_at(8 * MB * percent) };
    Scene { data, quota: Some((end, percent)), ..Scene::default() }
}

/// One stream at the highest compression level.
pub fn one_thread(pick: &mut Pick) -> Scene {
    let level = pick.of("zstd level", 8..=10, 15..=18);
    let rate = if level > 10 { 3 * MB } else { 25 * MB };
    let options = ["-s", "1", "--compress", &level.to_string()].map(str::to_owned).to_vec();
    Scene { data: SceneData::Text { bytes: pick.bytes_at(rate) }, options, ..Scene::default() }
}

/// The same on hosts where other programs compete for the processors. More data, for a moment without them.
pub fn one_busy_thread(pick: &mut Pick) -> Scene {
    let scene = one_thread(pick);
    Scene { data: SceneData::Text { bytes: 4 * scene.bytes() }, ..scene.on_busy_hosts() }
}

/// A cable that carries little, with a queue in front of it.
pub fn shaped(pick: &mut Pick) -> Scene {
    let mbit_per_s = pick.of("Mbit/s", 200..=400, 40..=100);
    let data = SceneData::File { bytes: pick.bytes_at(mbit_per_s * MB / 8) };
    let mbit_per_s = u32::try_from(mbit_per_s).unwrap_or(u32::MAX);
    Scene { network: Network::Slow { mbit_per_s }, data, ..Scene::default() }
}

/// A narrow link on a long way.
pub fn far_link(pick: &mut Pick) -> Scene {
    let mbit_per_s = pick.of("Mbit/s", 100..=200, 30..=60);
    let rtt = Duration::from_millis(pick.any("rtt ms", 5..=30));
    let wan = WanSettings { rtt, rate_bits_per_s: mbit_per_s * MB, ..WanSettings::default() };
    Scene { data: SceneData::File { bytes: pick.bytes_at(mbit_per_s * MB / 8) }, ..over(wan) }
}

/// A host that drops traffic above a rate.
pub fn policer(pick: &mut Pick) -> Scene {
    let kib_per_s = KIB * pick.of("MiB/s", 15..=30, 4..=8);
    let data = SceneData::File { bytes: pick.bytes_at(kib_per_s * KIB) };
    Scene { network: Network::Policed { kib_per_s }, data, ..Scene::default() }
}

/// Under a congestion control that minds losses. A stream carries about 1.2 segments in a round trip, divided by the
/// root of the loss (Mathis and others, 1997).
pub fn loss(pick: &mut Pick) -> Scene {
    let per_10_000 = pick.of("loss in 10000", 30..=60, 80..=150);
    let rtt_ms = pick.of("rtt ms", 15..=25, 20..=35);
    let streams = pick.any("streams", 4..=8);
    let congestion = Some(Congestion { name: "cubic".to_owned(), only: true });
    let loss = f64::from(u32::try_from(per_10_000).unwrap_or(0)) / 1e4;
    let wan = WanSettings { rtt: Duration::from_millis(rtt_ms), loss, congestion, ..WanSettings::default() };
    let per_round_trip = streams * 1448 * 12 / 10 * 100 / per_10_000.isqrt();
    let data = SceneData::File { bytes: pick.bytes_at(per_round_trip * 1000 / rtt_ms) };
    Scene { data, options: vec!["-s".to_owned(), streams.to_string()], ..over(wan) }
}

/// So long a way that one stream has not found its speed before all is sent.
pub fn rtt(pick: &mut Pick) -> Scene {
    let rtt_ms = pick.of("rtt ms", 120..=160, 200..=300);
    let megabytes = pick.any("MB", 8..=12);
    let window_max_bytes = Some(64 << 20);
    let wan = WanSettings { rtt: Duration::from_millis(rtt_ms), window_max_bytes, ..WanSettings::default() };
    let options = vec!["-s".to_owned(), "1".to_owned()];
    Scene { data: SceneData::File { bytes: MB * megabytes }, options, ..over(wan) }
}

/// Two or more streams on a long path, with buffers of a few packets at one end.
pub fn window(pick: &mut Pick, end: SceneEnd) -> Scene {
    let kib = pick.of("buffer KiB", 192..=320, 64..=128);
    let rtt_ms = pick.of("rtt ms", 25..=40, 50..=90);
    let streams = pick.any("streams", 4..=10);
    let wan = WanSettings { rtt: Duration::from_millis(rtt_ms), ..WanSettings::default() };
    let bytes_per_s = streams * kib * KIB / 2 * 1000 / rtt_ms;
    let window = Some(Window { end, bytes: kib * KIB });
    let options = vec!["-s".to_owned(), streams.to_string()];
    Scene { data: SceneData::File { bytes: pick.bytes_at(bytes_per_s) }, window, options, ..over(wan) }
}

fn over(wan: WanSettings) -> Scene {
    Scene { network: Network::Wan(wan), ..Scene::default() }
}

/// The user's own rate limit.
pub fn own_rate(pick: &mut Pick) -> Scene {
    let rate = MB * pick.of("MB/s", 40..=80, 3..=10);
    let options = vec!["--xfrrate".to_owned(), rate.to_string()];
    Scene { data: SceneData::File { bytes: pick.bytes_at(rate) }, options, ..Scene::default() }
}

/// Each packet costs one processor a walk through a filter's rules, in the interrupt that brings it.
pub fn interrupts(pick: &mut Pick) -> Scene {
    let rules = pick.of("rules", 1000..=2000, 4000..=8000);
    let data = SceneData::File { bytes: pick.bytes_at(60_000 * MB / rules) };
    Scene { network: Network::Filtered { rules: u32::try_from(rules).unwrap_or(u32::MAX) }, data, ..Scene::default() }
}

/// Small files where each name takes its time, as on a far file server.
pub fn names(pick: &mut Pick, end: SceneEnd) -> Scene {
    let us = pick.of("us a name", 500..=1000, 2000..=5000);
    let kib = pick.any("KiB a file", 1..=8);
    let slow = Store::Slow(Slowness { names: Duration::from_micros(us), ..Slowness::default() });
    // The approximate rate: the source looks up several names at once, and the target needs many lookups for each file.
    let files_per_s = if end == SceneEnd::Source { 250_000 } else { 60_000 } / us;
    let data = SceneData::Files { count: pick.count_at(files_per_s), bytes: KIB * kib };
    Scene { data, ..Scene::default() }.with(end, slow)
}

/// A program that rests after each block.
pub fn program(pick: &mut Pick, end: SceneEnd) -> Scene {
    let block = 1000 * pick.any("kB a block", 200..=1000);
    let rest_ms = pick.of("rest ms", 10..=20, 60..=150);
    let data = SceneData::File { bytes: pick.bytes_at(block * 1000 / (rest_ms + 3)) };
    Scene { data, ..Scene::default() }.with(end, Store::Program { block, rest: Duration::from_millis(rest_ms) })
}
