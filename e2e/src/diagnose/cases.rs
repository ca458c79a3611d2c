//! The table of limits that are made on purpose, and of runs without one; each is a case in each direction.

use std::time::Duration;

use super::claim::Claim;
use super::limits::{
    far_link, interrupts, loss, names, one_busy_thread, one_thread, own_rate, policer, program, quota, rtt, shaped,
    slow_device, slow_disk, window,
};
use super::pick::{Pick, Strength};
use super::scene::{Network, Scene, SceneData, SceneEnd, StartedBy, Store};

/// A limit that is made on purpose.
struct Limit {
    name: &'static str,
    expected: Claim,
    /// The direction tested by the everyday suite.
    everyday: Option<StartedBy>,
    scene: fn(&mut Pick) -> Scene,
}

/// A run without a limit of the lab's making.
struct Free {
    name: &'static str,
    /// Acceptable verdicts besides `none`: limits of this machine itself.
    allowed: &'static [Claim],
    scene: fn() -> Scene,
}

const fn limit(
    name: &'static str,
    expected: Claim,
    everyday: Option<StartedBy>,
    scene: fn(&mut Pick) -> Scene,
) -> Limit {
    Limit { name, expected, everyday, scene }
}

const LIMITS: &[Limit] = &[
    limit("source-disk", Claim::of("source-disk"), Some(StartedBy::Push), |pick| slow_disk(pick, SceneEnd::Source)),
    limit("target-disk", Claim::of("target-disk"), Some(StartedBy::Pull), |pick| slow_disk(pick, SceneEnd::Target)),
    limit("source-device", Claim::of("source-disk"), None, |pick| slow_device(pick, SceneEnd::Source)),
    limit("target-device", Claim::of("target-disk"), None, |pick| slow_device(pick, SceneEnd::Target)),
    limit("source-cpu", Claim::of("source-cpu"), Some(StartedBy::Pull), |pick| quota(pick, SceneEnd::Source)),
    limit("target-cpu", Claim::of("target-cpu"), Some(StartedBy::Push), |pick| quota(pick, SceneEnd::Target)),
    limit("one-thread", Claim::of("source-cpu"), None, one_thread),
    limit("link", Claim::of("link"), Some(StartedBy::Push), shaped),
    limit("far-link", Claim::of("link"), None, far_link),
    limit("policer", Claim::with("rate-limit", "policer"), Some(StartedBy::Pull), policer),
    limit("loss", Claim::with("congestion", "loss"), Some(StartedBy::Push), loss),
    limit("rtt", Claim::with("congestion", "rtt"), None, rtt),
    limit("sender-buffer", Claim::of("sender-buffer"), Some(StartedBy::Push), |pick| window(pick, SceneEnd::Source)),
    limit("receiver-window", Claim::of("receiver-window"), Some(StartedBy::Pull), |pick| {
        window(pick, SceneEnd::Target)
    }),
    limit("own-rate", Claim::with("rate-limit", "own"), Some(StartedBy::Push), own_rate),
    limit("busy-source-disk", Claim::of("source-disk"), Some(StartedBy::Push), |pick| {
        slow_disk(pick, SceneEnd::Source).on_busy_hosts()
    }),
    limit("busy-source-cpu", Claim::of("source-cpu"), Some(StartedBy::Pull), one_busy_thread),
    limit("busy-network", Claim::of("link"), Some(StartedBy::Push), |pick| shaped(pick).on_busy_hosts()),
    limit("busy-target-cpu", Claim::of("target-cpu"), Some(StartedBy::Push), |pick| {
        quota(pick, SceneEnd::Target).on_busy_hosts()
    }),
    limit("busy-target-disk", Claim::of("target-disk"), Some(StartedBy::Pull), |pick| {
        slow_disk(pick, SceneEnd::Target).on_busy_hosts()
    }),
    limit("interrupts", Claim::of("interrupts"), None, interrupts),
    limit("source-names", Claim::of("small-files"), Some(StartedBy::Pull), |pick| names(pick, SceneEnd::Source)),
    limit("target-names", Claim::of("small-files"), Some(StartedBy::Push), |pick| names(pick, SceneEnd::Target)),
    limit("source-program", Claim::of("source-program"), Some(StartedBy::Push), |pick| program(pick, SceneEnd::Source)),
    limit("target-program", Claim::of("target-program"), Some(StartedBy::Pull), |pick| program(pick, SceneEnd::Target)),
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
    free("free-zeros", &[SOURCE_CPU, TARGET_CPU], || Scene { source: Store::Nothing, data: big(), ..Scene::default() }),
    // This machine's disk is whatever it is.
    free("free-disk", &[SOURCE_CPU, TARGET_CPU, Claim::of("source-disk"), Claim::of("target-disk")], || Scene {
        source: Store::Disk,
        target: Store::Disk,
        data: big(),
        ..Scene::default()
    }),
    free("free-small", &[SOURCE_CPU, TARGET_CPU, Claim::of("small-files")], || Scene {
        data: SceneData::Files { count: 20_000, bytes: 4096 },
        ..Scene::default()
    }),
    free("free-pipes", &[SOURCE_CPU, TARGET_CPU], || {
        let whole = Store::Program { block: BIG, rest: Duration::ZERO };
        Scene { source: whole, target: whole, data: big(), ..Scene::default() }
    }),
];

/// Takes more than a second without a limit.
const BIG: u64 = 800_000_000;

const fn free(name: &'static str, allowed: &'static [Claim], scene: fn() -> Scene) -> Free {
    Free { name, allowed, scene }
}

const fn big() -> SceneData {
    SceneData::File { bytes: BIG }
}

/// One case: a scene in one direction.
#[derive(Debug)]
pub struct DiagnoseCase {
    name: String,
    settings: String,
    expected: Vec<Claim>,
    /// Whether the everyday suite tries it.
    pub everyday: bool,
    /// The scene to build.
    pub scene: Scene,
    /// Who starts the copy.
    pub way: StartedBy,
}

impl DiagnoseCase {
    /// The limit, the strength, the direction: `loss/mild/push`.
    pub fn name(&self) -> String {
        self.name.clone()
    }

    /// Its settings, in words.
    pub fn settings(&self) -> String {
        self.settings.clone()
    }

    /// A description of the right verdicts.
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
pub fn cases(seed: Option<u64>, seconds: u64) -> Vec<DiagnoseCase> {
    let mut all = Vec::new();
    for limit in LIMITS {
        for strength in Strength::ALL {
            for way in StartedBy::ALL {
                let name = format!("{}/{}/{}", limit.name, strength.name(), way.name());
                // Each case has settings of its own, whichever others there are.
                let own = seed.map(|seed| name.bytes().fold(seed, |sum, byte| sum.wrapping_mul(257) + u64::from(byte)));
                let mut pick = Pick::new(strength, own, seconds);
                let scene = (limit.scene)(&mut pick);
                let everyday = strength == Strength::Hard && limit.everyday == Some(way);
                all.push(DiagnoseCase {
                    name,
                    settings: pick.picked(),
                    expected: vec![limit.expected],
                    everyday,
                    scene,
                    way,
                });
            }
        }
    }
    for free in FREE {
        for way in StartedBy::ALL {
            let name = format!("{}/{}", free.name, way.name());
            let expected = [&[NONE], free.allowed].concat();
            let scene = (free.scene)();
            all.push(DiagnoseCase { name, settings: String::new(), expected, everyday: false, scene, way });
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_cases_is_as_promised() {
        let all = cases(None, 3);
        let free = all.iter().filter(|case| case.expected.contains(&NONE)).count();
        assert!(all.len() - free >= 40, "{}", all.len());
        assert!(free >= 10, "{free}");
        let mut names: Vec<_> = all.iter().map(DiagnoseCase::name).collect();
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
    fn a_seed_changes_only_settings() {
        let (middle, drawn, other) = (cases(None, 3), cases(Some(1), 3), cases(Some(2), 3));
        let names = |cases: &[DiagnoseCase]| cases.iter().map(DiagnoseCase::name).collect::<Vec<_>>();
        let settings = |cases: &[DiagnoseCase]| cases.iter().map(DiagnoseCase::settings).collect::<Vec<_>>();
        assert_eq!(names(&middle), names(&drawn));
        assert_ne!(settings(&middle), settings(&drawn));
        assert_ne!(settings(&other), settings(&drawn));
        assert_eq!(settings(&cases(Some(1), 3)), settings(&drawn));
    }
}
