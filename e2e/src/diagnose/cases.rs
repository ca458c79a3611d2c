//! The table of limits, each with its ranges of settings, and of runs without one.
//!
//! Rates are in MB/s unless a setting's name says otherwise. A range is wide, and its every value has to be the limit by far: a
//! held-out set is drawn from it.

use std::time::Duration;

use haul_lab::{Congestion, Slowness, WanSettings};

use super::judge::Claim;
use super::pick::{Pick, Strength};
use super::scene::{Data, End, Network, Scene, Store, Way, Window};

const MB: u64 = 1_000_000;
const KIB: u64 = 1 << 10;

/// A limit that is made on purpose.
struct Limit {
    name: &'static str,
    expected: Claim,
    /// The direction in which the everyday suite tries it.
    everyday: Option<Way>,
    scene: fn(&mut Pick) -> Scene,
}

/// A run without a limit of the lab's making.
struct Free {
    name: &'static str,
    /// What else than `none` may be named: what this machine itself may be short of.
    allowed: &'static [Claim],
    scene: fn() -> Scene,
}

const fn limit(name: &'static str, expected: Claim, everyday: Option<Way>, scene: fn(&mut Pick) -> Scene) -> Limit {
    Limit { name, expected, everyday, scene }
}

const LIMITS: &[Limit] = &[
    limit("source-disk", Claim::of("source-disk"), Some(Way::Push), |pick| slow_disk(pick, End::Source)),
    limit("target-disk", Claim::of("target-disk"), Some(Way::Pull), |pick| slow_disk(pick, End::Target)),
    limit("source-device", Claim::of("source-disk"), None, |pick| slow_device(pick, End::Source)),
    limit("target-device", Claim::of("target-disk"), None, |pick| slow_device(pick, End::Target)),
    limit("source-cpu", Claim::of("source-cpu"), Some(Way::Pull), |pick| quota(pick, End::Source)),
    limit("target-cpu", Claim::of("target-cpu"), Some(Way::Push), |pick| quota(pick, End::Target)),
    limit("one-thread", Claim::of("source-cpu"), None, one_thread),
    limit("link", Claim::of("link"), Some(Way::Push), shaped),
    limit("far-link", Claim::of("link"), None, far_link),
    limit("policer", Claim::with("rate-limit", "policer"), Some(Way::Pull), policer),
    limit("loss", Claim::with("congestion", "loss"), Some(Way::Push), loss),
    limit("rtt", Claim::with("congestion", "rtt"), None, rtt),
    limit("sender-buffer", Claim::of("sender-buffer"), Some(Way::Push), |pick| window(pick, End::Source)),
    limit("receiver-window", Claim::of("receiver-window"), Some(Way::Pull), |pick| window(pick, End::Target)),
    limit("own-rate", Claim::with("rate-limit", "own"), Some(Way::Push), own_rate),
    limit("interrupts", Claim::of("interrupts"), None, interrupts),
    limit("source-names", Claim::of("small-files"), Some(Way::Pull), |pick| names(pick, End::Source)),
    limit("target-names", Claim::of("small-files"), Some(Way::Push), |pick| names(pick, End::Target)),
    limit("source-program", Claim::of("source-program"), Some(Way::Push), |pick| program(pick, End::Source)),
    limit("target-program", Claim::of("target-program"), Some(Way::Pull), |pick| program(pick, End::Target)),
];

const NONE: Claim = Claim::of("none");
const SOURCE_CPU: Claim = Claim::of("source-cpu");
const TARGET_CPU: Claim = Claim::of("target-cpu");

const FREE: &[Free] = &[
    free("free-memory", &[SOURCE_CPU, TARGET_CPU], || Scene { data: big(), ..Scene::default() }),
    free("free-loopback", &[SOURCE_CPU, TARGET_CPU], || Scene {
        network: Network::Loopback,
        data: big(),
        ..Scene::default()
    }),
    // This machine's disk is whatever it is.
    free("free-disk", &[SOURCE_CPU, TARGET_CPU, Claim::of("source-disk"), Claim::of("target-disk")], || Scene {
        source: Store::Disk,
        target: Store::Disk,
        data: big(),
        ..Scene::default()
    }),
    free("free-small", &[SOURCE_CPU, TARGET_CPU, Claim::of("small-files")], || Scene {
        data: Data::Files { count: 20_000, bytes: 4 * KIB },
        ..Scene::default()
    }),
    free("free-pipes", &[SOURCE_CPU, TARGET_CPU], || {
        let whole = Store::Program { block: BIG, rest: Duration::ZERO };
        Scene { source: whole, target: whole, data: big(), ..Scene::default() }
    }),
];

/// What takes more than a second where nothing holds it up.
const BIG: u64 = 800 * MB;

const fn free(name: &'static str, allowed: &'static [Claim], scene: fn() -> Scene) -> Free {
    Free { name, allowed, scene }
}

const fn big() -> Data {
    Data::File { bytes: BIG }
}

/// One case: a scene in one direction.
#[derive(Debug)]
pub struct Case {
    name: String,
    settings: String,
    expected: Vec<Claim>,
    /// Whether the everyday suite tries it.
    pub everyday: bool,
    /// What is built.
    pub scene: Scene,
    /// Who starts the copy.
    pub way: Way,
}

impl Case {
    /// The limit, the strength, the direction: `loss/mild/push`.
    pub fn name(&self) -> String {
        self.name.clone()
    }

    /// Its settings, in words.
    pub fn settings(&self) -> String {
        self.settings.clone()
    }

    /// What would be right, in words.
    pub fn expected_text(&self) -> String {
        match self.expected.as_slice() {
            [only] => only.text(),
            _ => "no accusation".to_owned(),
        }
    }

    /// The verdicts that are right.
    pub fn expected(&self) -> &[Claim] {
        &self.expected
    }
}

/// All cases: with a seed, other settings from the same ranges. Limits hold the copy up for about `seconds`.
pub fn cases(seed: Option<u64>, seconds: u64) -> Vec<Case> {
    let mut all = Vec::new();
    for limit in LIMITS {
        for strength in Strength::ALL {
            for way in Way::ALL {
                let name = format!("{}/{}/{}", limit.name, strength.name(), way.name());
                // Each case has settings of its own, whichever others there are.
                let own = seed.map(|seed| name.bytes().fold(seed, |sum, byte| sum.wrapping_mul(257) + u64::from(byte)));
                let mut pick = Pick::new(strength, own, seconds);
                let scene = (limit.scene)(&mut pick);
                let everyday = strength == Strength::Hard && limit.everyday == Some(way);
                all.push(Case { name, settings: pick.picked(), expected: vec![limit.expected], everyday, scene, way });
            }
        }
    }
    for free in FREE {
        for way in Way::ALL {
            let name = format!("{}/{}", free.name, way.name());
            let expected = [&[NONE], free.allowed].concat();
            let scene = (free.scene)();
            all.push(Case { name, settings: String::new(), expected, everyday: false, scene, way });
        }
    }
    all
}

fn slow_disk(pick: &mut Pick, end: End) -> Scene {
    let rate = MB * pick.of("MB/s", 60..=140, 8..=30);
    let latency = Duration::from_millis(pick.of("latency ms", 0..=2, 2..=10));
    let slow = Store::Slow(Slowness { bytes_per_s: Some(rate), latency, names: Duration::ZERO });
    Scene { data: Data::File { bytes: pick.bytes_at(rate) }, ..Scene::default() }.with(end, slow)
}

/// Past the page cache: what the kernel writes for a process later is not charged to it.
fn slow_device(pick: &mut Pick, end: End) -> Scene {
    let rate = MB * pick.of("MB/s", 60..=140, 8..=30);
    let direct = if end == End::Source { "s" } else { "t" };
    let options = vec!["-u".to_owned(), direct.to_owned()];
    let data = Data::File { bytes: pick.bytes_at(rate) };
    Scene { data, options, ..Scene::default() }.with(end, Store::Device { bytes_per_s: rate })
}

fn quota(pick: &mut Pick, end: End) -> Scene {
    let percent = pick.of("% of a core", 15..=30, 4..=10);
    let data = Data::File { bytes: pick.bytes_at(8 * MB * percent) };
    Scene { data, quota: Some((end, percent)), ..Scene::default() }
}

/// One stream, which compresses with all its might.
fn one_thread(pick: &mut Pick) -> Scene {
    let level = pick.of("zstd level", 8..=10, 15..=18);
    let rate = if level > 10 { 3 * MB } else { 25 * MB };
    let options = ["-s", "1", "-c", &level.to_string()].map(str::to_owned).to_vec();
    Scene { data: Data::Text { bytes: pick.bytes_at(rate) }, options, ..Scene::default() }
}

fn shaped(pick: &mut Pick) -> Scene {
    let mbit_per_s = pick.of("Mbit/s", 200..=400, 40..=100);
    let data = Data::File { bytes: pick.bytes_at(mbit_per_s * MB / 8) };
    let mbit_per_s = u32::try_from(mbit_per_s).unwrap_or(u32::MAX);
    Scene { network: Network::Slow { mbit_per_s }, data, ..Scene::default() }
}

fn far_link(pick: &mut Pick) -> Scene {
    let mbit_per_s = pick.of("Mbit/s", 100..=200, 30..=60);
    let rtt = Duration::from_millis(pick.any("rtt ms", 5..=30));
    let wan = WanSettings { rtt, rate_bits_per_s: mbit_per_s * MB, ..WanSettings::default() };
    Scene { data: Data::File { bytes: pick.bytes_at(mbit_per_s * MB / 8) }, ..over(wan) }
}

fn policer(pick: &mut Pick) -> Scene {
    let kib_per_s = KIB * pick.of("MiB/s", 15..=30, 4..=8);
    let data = Data::File { bytes: pick.bytes_at(kib_per_s * KIB) };
    Scene { network: Network::Policed { kib_per_s }, data, ..Scene::default() }
}

/// Under a congestion control that minds losses. A stream carries about 1.2 segments in a round trip, divided by the
/// root of the loss (Mathis and others, 1997).
fn loss(pick: &mut Pick) -> Scene {
    let per_10_000 = pick.of("loss in 10000", 40..=80, 100..=200);
    let rtt_ms = pick.of("rtt ms", 20..=30, 25..=45);
    let streams = pick.any("streams", 6..=12);
    let congestion = Some(Congestion { name: "cubic".to_owned(), only: true });
    let loss = f64::from(u32::try_from(per_10_000).unwrap_or(0)) / 1e4;
    let wan = WanSettings { rtt: Duration::from_millis(rtt_ms), loss, congestion, ..WanSettings::default() };
    let per_round_trip = streams * 1448 * 12 / 10 * 100 / per_10_000.isqrt();
    let data = Data::File { bytes: pick.bytes_at(per_round_trip * 1000 / rtt_ms) };
    Scene { data, options: vec!["-s".to_owned(), streams.to_string()], ..over(wan) }
}

/// So long a way that one stream has not found its speed before all is sent.
fn rtt(pick: &mut Pick) -> Scene {
    let rtt_ms = pick.of("rtt ms", 120..=160, 200..=300);
    let megabytes = pick.any("MB", 8..=12);
    let window_max_bytes = Some(64 << 20);
    let wan = WanSettings { rtt: Duration::from_millis(rtt_ms), window_max_bytes, ..WanSettings::default() };
    let options = vec!["-s".to_owned(), "1".to_owned()];
    Scene { data: Data::File { bytes: MB * megabytes }, options, ..over(wan) }
}

/// Two or more streams on a long way, whose buffers hold a few packets at one end.
fn window(pick: &mut Pick, end: End) -> Scene {
    let kib = pick.of("buffer KiB", 192..=320, 64..=128);
    let rtt_ms = pick.of("rtt ms", 25..=40, 50..=90);
    let streams = pick.any("streams", 4..=10);
    let wan = WanSettings { rtt: Duration::from_millis(rtt_ms), ..WanSettings::default() };
    let bytes_per_s = streams * kib * KIB / 2 * 1000 / rtt_ms;
    let window = Some(Window { end, bytes: kib * KIB });
    let options = vec!["-s".to_owned(), streams.to_string()];
    Scene { data: Data::File { bytes: pick.bytes_at(bytes_per_s) }, window, options, ..over(wan) }
}

fn over(wan: WanSettings) -> Scene {
    Scene { network: Network::Wan(wan), ..Scene::default() }
}

fn own_rate(pick: &mut Pick) -> Scene {
    let rate = MB * pick.of("MB/s", 40..=80, 3..=10);
    let options = vec!["-x".to_owned(), rate.to_string()];
    Scene { data: Data::File { bytes: pick.bytes_at(rate) }, options, ..Scene::default() }
}

/// Each packet costs one processor a walk through a filter's rules, in the interrupt that brings it.
fn interrupts(pick: &mut Pick) -> Scene {
    let rules = pick.of("rules", 1000..=2000, 4000..=8000);
    let data = Data::File { bytes: pick.bytes_at(60_000 * MB / rules) };
    Scene { network: Network::Filtered { rules: u32::try_from(rules).unwrap_or(u32::MAX) }, data, ..Scene::default() }
}

/// Small files where each name takes its time, as on a far file server.
fn names(pick: &mut Pick, end: End) -> Scene {
    let us = pick.of("us a name", 500..=1000, 2000..=5000);
    let kib = pick.any("KiB a file", 1..=8);
    let slow = Store::Slow(Slowness { names: Duration::from_micros(us), ..Slowness::default() });
    // About what gets through: the source looks at some names at a time, and the target needs many for each file.
    let files_per_s = if end == End::Source { 250_000 } else { 60_000 } / us;
    let data = Data::Files { count: pick.count_at(files_per_s), bytes: KIB * kib };
    Scene { data, ..Scene::default() }.with(end, slow)
}

fn program(pick: &mut Pick, end: End) -> Scene {
    let block = 1000 * pick.any("kB a block", 200..=1000);
    let rest_ms = pick.of("rest ms", 10..=20, 60..=150);
    let data = Data::File { bytes: pick.bytes_at(block * 1000 / (rest_ms + 3)) };
    Scene { data, ..Scene::default() }.with(end, Store::Program { block, rest: Duration::from_millis(rest_ms) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_as_many_cases_as_were_promised() {
        let all = cases(None, 3);
        let free = all.iter().filter(|case| case.expected.contains(&NONE)).count();
        assert!(all.len() - free >= 40, "{}", all.len());
        assert!(free >= 10, "{free}");
        let mut names: Vec<_> = all.iter().map(Case::name).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), all.len(), "no two have one name");
    }

    #[test]
    fn every_limit_is_tried_every_day_in_one_direction_at_most() {
        for limit in LIMITS {
            let tried = cases(None, 2).into_iter().filter(|case| case.everyday);
            assert!(tried.filter(|case| case.name.starts_with(&format!("{}/", limit.name))).count() <= 1);
        }
    }

    #[test]
    fn a_seed_changes_settings_and_nothing_else() {
        let (middle, drawn, other) = (cases(None, 3), cases(Some(1), 3), cases(Some(2), 3));
        let names = |cases: &[Case]| cases.iter().map(Case::name).collect::<Vec<_>>();
        let settings = |cases: &[Case]| cases.iter().map(Case::settings).collect::<Vec<_>>();
        assert_eq!(names(&middle), names(&drawn));
        assert_ne!(settings(&middle), settings(&drawn));
        assert_ne!(settings(&other), settings(&drawn));
        assert_eq!(settings(&cases(Some(1), 3)), settings(&drawn));
    }
}
