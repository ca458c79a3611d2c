//! One seed: a scenario, the runs of a copy in it (crashes in between), and the scheduler that decides who moves next.

use std::collections::HashMap;

use haul_lab::Rng;

use crate::disk::{self, SimDisk};
use crate::net::Net;
use crate::receiver::{EntryOutcome, Receiver, SimSettings};
use crate::scenario::{Rates, Scenario};
use crate::sender::Sender;
use crate::storage::SimStorage;
use crate::tree::{SimTree, TreeEntryKind};
use crate::{Plant, check};

/// Most streams that break in a run.
const BREAKS_MAX: u64 = 20;
/// Most moves of a target after the crash of its source.
const MOVES_ALONE_MAX: u64 = 40;
/// Number of moves in a thousand that make room on a full disk.
const ROOM_AGAIN: u64 = 100;
/// Consecutive moves without progress before all parties move.
const IDLE_MAX: u32 = 32;

/// How a run is cut off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Crash {
    /// The source crashes. The target continues for a while.
    Source,
    /// The target crashes.
    Target,
    /// The target loses power.
    Power,
}

/// The result of a seed.
#[derive(Debug, Clone, Copy, Default)]
pub struct SeedOutcome {
    /// Entries of the tree.
    pub entries: u64,
    /// Moves that were made.
    pub steps: u64,
    /// Runs that were cut off.
    pub crashes: u64,
    /// Entries that the last run brought.
    pub done: u64,
    /// Entries that failed in the last run.
    pub failed: u64,
    /// Entries that were refused in it.
    pub refused: u64,
    /// Frames and packs that were sent again in it.
    pub resent: u64,
    /// Files that its source gave up after they were needed.
    pub abandoned: u64,
    /// Files with frames that did not match the source's checksums.
    pub mismatched: u64,
    /// Files that went to a device.
    pub to_devices: u64,
    /// Streams that broke.
    pub broken: u64,
    /// Frames that an earlier run had left, and that were proven.
    pub held: u64,
    /// Frames that were recorded, and not there.
    pub unproven: u64,
    /// Runs that found everything calm again after some that did not.
    pub healed: u64,
}

impl SeedOutcome {
    /// Both added up.
    pub fn plus(self, other: SeedOutcome) -> SeedOutcome {
        SeedOutcome {
            entries: self.entries + other.entries,
            steps: self.steps + other.steps,
            crashes: self.crashes + other.crashes,
            done: self.done + other.done,
            failed: self.failed + other.failed,
            refused: self.refused + other.refused,
            resent: self.resent + other.resent,
            abandoned: self.abandoned + other.abandoned,
            mismatched: self.mismatched + other.mismatched,
            to_devices: self.to_devices + other.to_devices,
            broken: self.broken + other.broken,
            held: self.held + other.held,
            unproven: self.unproven + other.unproven,
            healed: self.healed + other.healed,
        }
    }
}

impl Crash {
    const ALL: [Self; 3] = [Self::Source, Self::Target, Self::Power];
}

/// How a run ended.
enum RunEnd {
    Finished,
    Crashed,
}

/// Runs a seed to its end; an error names the broken rule.
pub fn run(seed: u64, plant: Plant, verbose: bool) -> Result<SeedOutcome, String> {
    let mut rng = Rng::new(seed);
    let mut scenario = Scenario::random(seed, &mut rng);
    let mut tree = SimTree::random(&mut rng, scenario.wide, scenario.rates.troubles);
    let mixed = rng.chance(600) && !scenario.wide;
    let before = disk::before(&tree, mixed, &mut rng);
    if verbose {
        println!("{scenario:?}\n{tree:#?}\nat the target: {before:#?}");
    }
    let mut world = World::new(&scenario, plant, verbose, rng, before.clone());
    for _ in 0..scenario.crashes {
        let crash = (crash_step(&mut world.rng, step_limit(&tree)), world.rng.pick(&Crash::ALL));
        let ended = world.run_once(&mut tree, &scenario, Some(crash), &before)?;
        if matches!(ended, RunEnd::Finished) {
            break;
        }
        world.outcome.crashes += 1;
        tree.pass_time(&mut world.rng);
    }
    world.run_once(&mut tree, &scenario, None, &before)?;
    if scenario.wide {
        return Ok(world.outcome);
    }
    if !scenario.is_calm() {
        world.calm_down(&mut scenario, &mut tree);
        world.run_once(&mut tree, &scenario, None, &before)?;
    }
    world.again = true;
    world.run_once(&mut tree, &scenario, None, &before)?;
    Ok(world.outcome)
}

struct World {
    rng: Rng,
    storage: SimStorage,
    settings: SimSettings,
    verbose: bool,
    /// A run that finds everything done.
    again: bool,
    outcome: SeedOutcome,
}

/// The two ends, and the network between them.
struct SimEnds {
    sender: Sender,
    receiver: Receiver,
    net: Net,
}

impl World {
    fn new(scenario: &Scenario, plant: Plant, verbose: bool, rng: Rng, disk: SimDisk) -> Self {
        let Scenario { overwrite, rates, verify_memory, resumes, .. } = *scenario;
        let settings = SimSettings { overwrite, verify_memory, resumes, rates, plant };
        Self { rng, storage: SimStorage::new(disk), settings, verbose, again: false, outcome: SeedOutcome::default() }
    }

    /// No more faults from here on: retries succeed.
    fn calm_down(&mut self, scenario: &mut Scenario, tree: &mut SimTree) {
        tree.pass_time(&mut self.rng);
        tree.calm_down();
        scenario.rates = Rates::default();
        self.settings.rates = scenario.rates;
        self.storage.full = false;
        self.outcome.healed += 1;
    }

    fn run_once(
        &mut self,
        tree: &mut SimTree,
        scenario: &Scenario,
        crash: Option<(u64, Crash)>,
        before: &SimDisk,
    ) -> Result<RunEnd, String> {
        let Scenario { streams, rates, .. } = *scenario;
        let operands = tree.nodes.iter().enumerate().filter(|(_, node)| node.parent.is_none());
        let operands: HashMap<_, _> =
            operands.map(|(id, node)| (u32::try_from(id).unwrap_or(u32::MAX), node.path.clone())).collect();
        let mut ends = SimEnds {
            sender: Sender::new(streams, rates, self.settings.plant),
            receiver: Receiver::new(streams, self.settings, operands),
            net: Net::new(streams),
        };
        let at_start = self.storage.names.clone();
        let ended = self.drive(&mut ends, tree, crash)?;
        check::names(&self.storage.names, before, tree)?;
        check::done_stays(&ends.receiver, &self.storage.names)?;
        if matches!(ended, RunEnd::Finished) {
            self.storage.sync_names();
            check::finished(scenario, tree, &self.storage.names, &at_start, (&ends.sender, &ends.receiver))?;
            if self.again {
                check::nothing_left_to_do(&ends.receiver, tree)?;
            }
        }
        self.note_outcome(tree, &ends);
        Ok(ended)
    }

    fn note_outcome(&mut self, tree: &SimTree, ends: &SimEnds) {
        let SimEnds { sender, receiver, .. } = ends;
        let failed = receiver.fates.values().filter(|fate| **fate == EntryOutcome::Failed).count();
        let run = SeedOutcome {
            done: sender.told.done,
            failed: failed as u64,
            refused: sender.told.refused,
            resent: receiver.resent,
            abandoned: receiver.abandoned,
            mismatched: receiver.mismatched,
            to_devices: receiver.device_writes.len() as u64,
            held: receiver.held,
            unproven: receiver.unproven,
            ..SeedOutcome::default()
        };
        self.outcome = SeedOutcome { entries: tree.nodes.len() as u64, ..self.outcome.plus(run) };
    }

    /// Moves one or the other until both are finished, or until the crash.
    fn drive(&mut self, ends: &mut SimEnds, tree: &mut SimTree, crash: Option<(u64, Crash)>) -> Result<RunEnd, String> {
        let limit = step_limit(tree);
        let (mut steps, mut idle, mut breaks) = (0, 0, 0);
        while !(ends.sender.is_finished() && ends.receiver.is_finished() && ends.net.is_empty()) {
            if let Some((_, crash)) = crash.filter(|(at, _)| *at <= steps) {
                self.crash(crash, ends, tree)?;
                return Ok(RunEnd::Crashed);
            }
            self.fill_or_clear();
            if breaks < BREAKS_MAX && self.rng.chance(self.settings.rates.breaks) {
                breaks += 1;
                self.break_stream(&mut ends.net);
            }
            let actors = 6 + 2 * ends.net.streams.len();
            let actor = self.rng.index(actors);
            let mut moved = self.step(actor, ends, tree)?;
            idle = if moved { 0 } else { idle + 1 };
            if idle > IDLE_MAX {
                for actor in 0..actors {
                    moved |= self.step(actor, ends, tree)?;
                }
                if !moved {
                    return Err("both ends wait for each other".into());
                }
            }
            steps += u64::from(moved);
            if steps > limit {
                return Err(format!("no end after {steps} steps"));
            }
        }
        self.outcome.steps += steps;
        Ok(RunEnd::Finished)
    }

    /// Cuts the run off.
    fn crash(&mut self, crash: Crash, ends: &mut SimEnds, tree: &mut SimTree) -> Result<(), String> {
        self.note("crash", true);
        if crash == Crash::Source {
            let targets: Vec<_> = [4, 5].into_iter().chain((0..ends.net.streams.len()).map(|n| 7 + 2 * n)).collect();
            for _ in 0..self.rng.below(MOVES_ALONE_MAX) {
                let actor = self.rng.pick(&targets);
                self.step(actor, ends, tree)?;
            }
        }
        ends.receiver.die(&mut self.storage, &mut self.rng);
        if crash == Crash::Power {
            self.storage.lose_power(&mut self.rng);
        }
        self.storage.decay(&mut self.rng);
        self.storage.full = false;
        Ok(())
    }

    /// The target's disk is full now and then, and gets room again.
    fn fill_or_clear(&mut self) {
        if self.storage.full {
            self.storage.full = !self.rng.chance(ROOM_AGAIN);
        } else if self.settings.rates.full > 0 {
            self.storage.full = self.rng.chance(self.settings.rates.full);
        }
    }

    fn break_stream(&mut self, net: &mut Net) {
        let at = self.rng.index(net.streams.len());
        if !net.streams[at].broken {
            self.note("a stream breaks", true);
            net.streams[at].break_off(&mut self.rng);
            self.outcome.broken += 1;
        }
    }

    /// Lets one party move, if it can.
    fn step(&mut self, actor: usize, ends: &mut SimEnds, tree: &mut SimTree) -> Result<bool, String> {
        let SimEnds { sender, receiver, net } = ends;
        let (rng, storage) = (&mut self.rng, &mut self.storage);
        let (name, moved) = match actor {
            0 => ("walk", sender.walk(tree, rng)),
            1 => ("source speaks", sender.speak(net)),
            2 => ("source listens", sender.listen(net)?),
            3 => ("target speaks", receiver.speak(net)),
            4 => ("target listens", receiver.listen(net, storage, rng)?),
            5 => ("target works", receiver.work(storage, rng)?),
            n if n % 2 == 0 => ("source's stream", sender.stream((n - 6) / 2, tree, net, rng)),
            n => ("target's stream", receiver.stream((n - 6) / 2, net, storage, rng)?),
        };
        self.note(name, moved);
        Ok(moved)
    }

    fn note(&self, name: &str, moved: bool) {
        if self.verbose && moved {
            println!("{name}");
        }
    }
}

/// More moves than any run of this tree takes.
fn step_limit(tree: &SimTree) -> u64 {
    let frames =
        |what: &TreeEntryKind| if let TreeEntryKind::File(file) = what { 2 + (file.content.size() >> 18) } else { 1 };
    let work: u64 = tree.nodes.iter().map(|node| frames(&node.what)).sum();
    5000 + 100 * (work + tree.nodes.len() as u64)
}

/// Where a run is cut off, if it is.
fn crash_step(rng: &mut Rng, steps: u64) -> u64 {
    let most = [20, steps / 50, steps / 10][rng.index(3)];
    1 + rng.below(most.max(2))
}
