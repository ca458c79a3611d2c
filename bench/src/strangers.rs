//! `--strangers`: the cost of strangers at the data port to a copy.
//!
//! haul copies a file over the loopback of a private network namespace, from memory to memory, in two alternating
//! settings: alone, and with 200 slow or silent strangers at the data port. More strangers arrive steadily with
//! greetings of unknown sessions. The strangers' own CPU time counts against haul: they are on the same machine.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};
use std::{fs, thread};

use anyhow::{Context, Result, ensure};
use haul_lab::{Loiterers, Netns, Running, Seen, TestTree, compare, knock, start};
use tempfile::TempDir;

use crate::machine::Machine;
use crate::programs::find_haul;
use crate::settings::BenchSettings;
use crate::statistics::median;

const SEED: u64 = 0x73_7472;
const BYTES: u64 = 4 << 30;
const LOITERERS: u64 = 200;
/// Number of faulty connections in a group; groups follow after a pause.
const KNOCKS: u64 = 20;
const PAUSE: Duration = Duration::from_millis(100);
/// A greeting (`docs/PROTOCOL.md`, section 8): its public part, and the rest.
const GREETING_HEAD: &[u8] = b"haul str\x00\x01";
const GREETING_BYTES: usize = 62;
/// The largest acceptable loss of rate, as a fraction.
const LOSS_MAX: f64 = 0.10;
/// How long a copy may take to listen.
const START_LIMIT: Duration = Duration::from_secs(20);

struct StrangersBench<'s> {
    haul: PathBuf,
    netns: Netns,
    directory: TempDir,
    settings: &'s BenchSettings,
}

/// Measures, and prints the table. Whether no more was lost than may be.
pub fn run(settings: &BenchSettings) -> Result<bool> {
    ensure!(Netns::available(), "--strangers needs a network namespace of its own, and that needs root");
    let haul = find_haul(settings.haul.as_deref())?
        .context("there is no haul to measure: cargo build --release --package haul")?;
    let directory = tempfile::Builder::new().prefix("haul-bench-").tempdir_in(&settings.dir);
    let directory = directory.with_context(|| format!("making a directory in {:?}", settings.dir))?;
    let bytes = settings.scaled(BYTES);
    TestTree::new(directory.path(), SEED).incompressible_file("source", bytes)?;
    let bench = StrangersBench { haul, netns: Netns::create()?, directory, settings };
    bench.copy(false)?;
    let (mut alone, mut beset, mut knocks) = (Vec::new(), Vec::new(), 0);
    for round in 0..settings.runs {
        for with_strangers in [round % 2 == 0, round % 2 == 1] {
            let (seconds, came) = bench.copy(with_strangers)?;
            eprintln!("bench: {seconds:.2} s, {came} strangers with wrong keys");
            if with_strangers { &mut beset } else { &mut alone }.push(seconds);
            knocks += came;
        }
    }
    let (alone_s, beset_s) = median(alone).zip(median(beset)).context("there is at least one round")?;
    let lost = 1.0 - alone_s / beset_s;
    let verdict = if lost <= LOSS_MAX { "reached" } else { "NOT reached" };
    println!("# Strangers at the port\n\n{}\n", Machine::describe(None).line());
    println!("{bytes} bytes over loopback, memory to memory; {} rounds, medians.\n", settings.runs);
    println!("| | seconds |\n|---|---|\n| alone | {alone_s:.2} |");
    println!("| {LOITERERS} slow or silent, {knocks} with wrong keys in all | {beset_s:.2} |\n");
    println!("Lost: {:.1} % (aim: at most {:.0} %): {verdict}", 100.0 * lost, 100.0 * LOSS_MAX);
    Ok(lost <= LOSS_MAX)
}

impl StrangersBench<'_> {
    /// Copies once. Returns the seconds, and how many came with wrong keys.
    fn copy(&self, with_strangers: bool) -> Result<(f64, u64)> {
        let (source, target) = (self.directory.path().join("source"), self.directory.path().join("target"));
        let mut command = Command::new(&self.haul);
        // As many streams as haul likes: then the port stays open.
        command.args(["--fsync=none", "-T"]).arg(&self.haul).arg(&source);
        command.arg(format!("127.0.0.1:{}", target.display())).env("HOME", self.directory.path());
        let begun = Instant::now();
        let mut running = start(self.netns.enclose(&command))?;
        let knocks = if with_strangers { self.beset(&mut running)? } else { 0 };
        ensure!(running.wait_up_to(self.settings.timeout), "haul takes longer than {:?}", self.settings.timeout);
        let seconds = begun.elapsed().as_secs_f64();
        let finished = running.finish(Duration::ZERO)?;
        ensure!(finished.success(), "haul failed: {}", finished.stderr_text());
        compare(&source, &target).map_err(anyhow::Error::msg)?;
        fs::remove_file(&target)?;
        Ok((seconds, knocks))
    }

    /// Strangers come until the copy is over; how many came with wrong keys.
    fn beset(&self, running: &mut Running) -> Result<u64> {
        let mut greeting = GREETING_HEAD.to_vec();
        greeting.resize(GREETING_BYTES, 0x5a);
        let Some(port) = self.port(running)? else { return Ok(0) };
        let seen = Seen { address: SocketAddrV4::new(Ipv4Addr::LOCALHOST, port), bytes: greeting };
        let _loiterers = Loiterers::start(&self.netns, &seen, LOITERERS)?;
        let mut knocks = 0;
        while !running.wait_up_to(Duration::ZERO) {
            knock(&self.netns, &seen, GREETING_BYTES, KNOCKS)?;
            knocks += KNOCKS;
            thread::sleep(PAUSE);
        }
        Ok(knocks)
    }

    /// The port of the copy, the only listener in this network. `None` if the copy was over before.
    fn port(&self, running: &mut Running) -> Result<Option<u16>> {
        let begun = Instant::now();
        while !running.wait_up_to(Duration::from_millis(1)) {
            ensure!(begun.elapsed() < START_LIMIT, "haul does not listen: {}", running.stderr_so_far());
            let listening = self.netns.run("ss", ["-tlnH"])?;
            if let Some(port) = listening.lines().find_map(port_of) {
                return Ok(Some(port));
            }
        }
        Ok(None)
    }
}

/// The local port in a line of `ss -tlnH`.
fn port_of(line: &str) -> Option<u16> {
    line.split_whitespace().nth(3)?.rsplit(':').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_port_is_found_in_sss_output() {
        let line = "LISTEN 0      128        127.0.0.1:40321      0.0.0.0:*";
        assert_eq!(port_of(line), Some(40321));
        assert_eq!(port_of("LISTEN 0 128 [::]:22 [::]:*"), Some(22));
        assert_eq!(port_of(""), None);
    }
}
