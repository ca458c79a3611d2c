//! Builds a [`Scene`], copies through it, and gives haul's last output.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use haul_lab::{Cgroup, Disk, Rng, SlowFs, Slowness, TestTree, Throttle, Wan};
use serde_json::Value;

use super::busy::OtherPrograms;
use super::hosts::DiagnoseHosts;
use super::judge::Ruling;
use super::scene::{Network, Scene, SceneData, SceneEnd, StartedBy, Store};
use crate::{ProgramRun, Sandbox, haul_binary};

/// Much longer than any case takes.
const LIMIT: Duration = Duration::from_secs(60);
/// The file's name at either end.
const NAME: &str = "data";
/// Free space of a file system beside its data.
const SPARE_BYTES: u64 = 64 << 20;

/// Builds the scene, copies, and gives the copy's last event.
pub fn play(scene: &Scene, way: StartedBy, seed: u64) -> Result<Value, Ruling> {
    copied(scene, way, seed, &["--json"]).map(|run| run.summary())
}

/// The same, with the output for people.
pub fn show(scene: &Scene, way: StartedBy, seed: u64) -> Result<String, Ruling> {
    copied(scene, way, seed, &[]).map(|run| run.stderr)
}

fn copied(scene: &Scene, way: StartedBy, seed: u64, form: &[&str]) -> Result<ProgramRun, Ruling> {
    if let Some(why) = lacking(scene) {
        return Err(Ruling::Skipped(why));
    }
    // The test hosts report failures by panics.
    let played = std::panic::catch_unwind(|| DiagnoseStage::play(scene, way, seed, form));
    let failed = |why: String| Ruling::Failed(why);
    match played {
        Ok(result) => result.map_err(|error| failed(format!("{error:#}"))),
        Err(panic) => Err(failed(words_of(&*panic))),
    }
}

/// Features missing on this machine for a scene.
fn lacking(scene: &Scene) -> Option<String> {
    let stores = [scene.source, scene.target];
    let has = |wanted: fn(&Store) -> bool| stores.iter().any(wanted);
    let needs = [
        (true, rustix::process::geteuid().is_root(), "network namespaces need root"),
        (has(|store| matches!(store, Store::Slow(_))), SlowFs::available(), "there is no /dev/fuse"),
        (has(|store| matches!(store, Store::Device { .. })), Cgroup::can_throttle("blkio"), "no cgroup for blkio"),
        (scene.quota.is_some(), Cgroup::can_throttle("cpu"), "no cgroup for cpu"),
        (matches!(scene.network, Network::Wan(_)), Wan::available(), "there is no /dev/net/tun"),
    ];
    needs.into_iter().find(|(needed, there, _)| *needed && !there).map(|(_, _, why)| why.to_owned())
}

fn words_of(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("it panicked").to_owned()
}

/// One end's files, and their limit.
struct EndFiles {
    /// Where its files are; a program's, too.
    path: PathBuf,
    slow: Option<(SlowFs, Slowness)>,
    group: Option<Cgroup>,
    _disk: Option<Disk>,
}

struct DiagnoseStage<'a> {
    scene: &'a Scene,
    way: StartedBy,
    source: EndFiles,
    target: EndFiles,
}

impl DiagnoseStage<'_> {
    fn play(scene: &Scene, way: StartedBy, seed: u64, form: &[&str]) -> Result<ProgramRun> {
        // Dropped in reverse: hosts and their processes first, then their open files.
        let sandbox = Sandbox::new();
        let _memory = sandbox.tmpfs("memory", &format!("size={}", 3 * scene.bytes() + 8 * SPARE_BYTES));
        let places = (place(scene, SceneEnd::Source, &sandbox)?, place(scene, SceneEnd::Target, &sandbox)?);
        let stage = DiagnoseStage { scene, way, source: places.0, target: places.1 };
        stage.make_data(seed)?;
        stage.begin_to_hold_back(&sandbox)?;
        let hosts = DiagnoseHosts::build(&sandbox, &scene.network)?;
        if let Some(window) = scene.window {
            hosts.keep_small(window, way)?;
        }
        stage.copy(&sandbox, &hosts, form)
    }

    fn make_data(&self, seed: u64) -> Result<()> {
        if self.scene.source == Store::Nothing {
            return Ok(());
        }
        let mut tree = TestTree::new(&self.source.path, seed);
        match self.scene.data {
            SceneData::File { bytes } => tree.incompressible_file(NAME, bytes)?,
            SceneData::Text { bytes } => tree.file(NAME, &text(seed, bytes))?,
            SceneData::Files { count, bytes } => tree.small_files(NAME, count, count.div_ceil(500), bytes..=bytes)?,
        };
        let root = fs::File::open(&self.source.path)?;
        rustix::fs::syncfs(&root).context("writing the data to its disk")
    }

    /// File systems become slow, and the far end's haul is started in its group.
    fn begin_to_hold_back(&self, sandbox: &Sandbox) -> Result<()> {
        for (slow, slowness) in [&self.source, &self.target].into_iter().filter_map(|place| place.slow.as_ref()) {
            slow.set(*slowness);
        }
        let far = if self.way.near() == SceneEnd::Source { &self.target } else { &self.source };
        if let Some(group) = &far.group {
            let (haul, procs) = (haul_binary(), group.procs());
            let script = format!("#!/bin/sh\necho $$ >{}\nexec {} \"$@\"\n", procs.display(), haul.display());
            sandbox.script("remote-bin/haul", &script);
        }
        Ok(())
    }

    fn copy(&self, sandbox: &Sandbox, hosts: &DiagnoseHosts, form: &[&str]) -> Result<ProgramRun> {
        let _others = self.scene.is_busy.then(OtherPrograms::start).transpose()?;
        let haul = hosts.haul(sandbox).args(form).args(["--retries", "0"]);
        let mut haul = haul.args(&self.scene.options).limit(LIMIT);
        let programs: String = [(SceneEnd::Source, 'i'), (SceneEnd::Target, 'o')]
            .into_iter()
            .filter_map(|(end, letter)| matches!(self.scene.store(end), Store::Program { .. }).then_some(letter))
            .collect();
        if !programs.is_empty() {
            haul = haul.args(["--pipe", &programs]);
        }
        if matches!(self.scene.data, SceneData::Files { .. }) {
            haul = haul.arg("-r");
        }
        haul = haul.arg(self.operand(SceneEnd::Source, hosts)).arg(self.operand(SceneEnd::Target, hosts));
        let near = if self.way.near() == SceneEnd::Source { &self.source } else { &self.target };
        if let Some(group) = &near.group {
            haul = haul.cgroup(group);
        }
        let run = haul.run();
        ensure!(run.status == Some(0), "haul ended with status {:?}: {}", run.status, run.stderr.trim_end());
        Ok(run)
    }

    fn operand(&self, end: SceneEnd, hosts: &DiagnoseHosts) -> OsString {
        let place = if end == SceneEnd::Source { &self.source } else { &self.target };
        let words: OsString = match self.scene.store(end) {
            Store::Nothing if end == SceneEnd::Source => format!("null:{}", self.scene.bytes()).into(),
            Store::Nothing => "null:".into(),
            Store::Program { block, rest } => program(end, &place.path, self.scene.bytes(), block, rest).into(),
            // Output of a pipe has no name.
            _ if end == SceneEnd::Source || matches!(self.scene.source, Store::Program { .. }) => {
                place.path.join(NAME).into()
            }
            _ => place.path.clone().into(),
        };
        if self.way.near() == end { words } else { hosts.remote().at(PathBuf::from(words)) }
    }
}

/// So many hexadecimal digits.
fn text(seed: u64, bytes: u64) -> Vec<u8> {
    let random = Rng::new(seed).bytes(usize::try_from(bytes).unwrap_or(0));
    random.into_iter().map(|byte| b"0123456789abcdef"[usize::from(byte % 16)]).collect()
}

/// Makes one end's file system, and the group that holds its worker back.
fn place(scene: &Scene, end: SceneEnd, sandbox: &Sandbox) -> Result<EndFiles> {
    let name = if end == SceneEnd::Source { "source" } else { "target" };
    let in_memory = sandbox.dir(Path::new("memory").join(name));
    let mut place = EndFiles { path: in_memory, slow: None, group: None, _disk: None };
    match scene.store(end) {
        Store::Memory | Store::Program { .. } | Store::Nothing => {}
        Store::Disk => place.path = sandbox.dir(format!("disk/{name}")),
        Store::Slow(slowness) => {
            place.path = sandbox.dir(format!("slow-{name}"));
            place.slow = Some((SlowFs::mount(&place.path)?, slowness));
        }
        Store::Device { bytes_per_s } => {
            let disk = Disk::new("ext4", &place.path, scene.bytes() * 5 / 4 + SPARE_BYTES)?;
            place.path = disk.path().to_owned();
            let throttle = match end {
                SceneEnd::Source => Throttle::Reads(&place.path, bytes_per_s),
                SceneEnd::Target => Throttle::Writes(&place.path, bytes_per_s),
            };
            place.group = Some(Cgroup::throttled(throttle)?);
            place._disk = Some(disk);
        }
    }
    if let Some((_, percent)) = scene.quota.filter(|(limited, _)| *limited == end) {
        place.group = Some(Cgroup::throttled(Throttle::Cpu { percent })?);
    }
    Ok(place)
}

/// A line of shell that reads or writes all of it, and rests after each block.
fn program(end: SceneEnd, place: &Path, bytes: u64, block: u64, rest: Duration) -> String {
    let rests = if rest.is_zero() { ":".to_owned() } else { format!("sleep {}", rest.as_secs_f64()) };
    let blocks = bytes.div_ceil(block);
    match end {
        SceneEnd::Source => {
            let file = place.join(NAME);
            format!(
                "i=0; while [ $i -lt {blocks} ]; do head -c {block} <&3; {rests}; i=$((i+1)); done 3<{}",
                file.display()
            )
        }
        SceneEnd::Target => {
            format!("i=0; while [ $i -lt {blocks} ]; do head -c {block} >/dev/null; {rests}; i=$((i+1)); done")
        }
    }
}
