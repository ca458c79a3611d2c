//! How busy this machine was with other things: a verdict is worth little where they had the processors.

use std::fs;
use std::process::{Child, Command};
use std::time::Instant;

use anyhow::{Context, Result};
use serde_json::Value;

/// A busy loop for each processor; ended with this value.
#[derive(Debug, Default)]
pub struct OtherPrograms(Vec<Child>);

impl OtherPrograms {
    /// Starts them.
    pub fn start() -> Result<Self> {
        let mut all = Self::default();
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            let started = Command::new("sh").args(["-c", "while :; do :; done"]).spawn();
            all.0.push(started.context("starting a busy loop")?);
        }
        Ok(all)
    }
}

impl Drop for OtherPrograms {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // It fails where the loop has ended, which it never does by itself.
            let _ = child.kill().and_then(|()| child.wait());
        }
    }
}

/// A look at the machine's account of its processors' time.
#[derive(Debug)]
pub struct ProcessorSnapshot {
    at: Instant,
    busy_s: f64,
}

impl ProcessorSnapshot {
    /// Now.
    pub fn now() -> Self {
        let text = fs::read_to_string("/proc/stat").unwrap_or_default();
        let all = text.lines().find(|line| line.starts_with("cpu ")).unwrap_or_default();
        // user nice system idle iowait irq softirq steal, in ticks (proc(5)).
        let ticks: Vec<u64> = all.split_whitespace().skip(1).take(8).filter_map(|word| word.parse().ok()).collect();
        let idle: u64 = ticks.iter().skip(3).take(2).sum();
        let busy = u32::try_from(ticks.iter().sum::<u64>() - idle).unwrap_or(u32::MAX);
        let per_s = u32::try_from(rustix::param::clock_ticks_per_second()).unwrap_or(100);
        Self { at: Instant::now(), busy_s: f64::from(busy) / f64::from(per_s) }
    }

    /// Processors that something else than the copy has had since then, on average.
    pub fn others_since(&self, summary: &Value) -> f64 {
        let own: f64 = ["source_cpu_s", "target_cpu_s"].iter().filter_map(|name| summary[*name].as_f64()).sum();
        let elapsed_s = self.at.elapsed().as_secs_f64().max(0.001);
        ((Self::now().busy_s - self.busy_s - own) / elapsed_s).max(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tests_computation_is_visible() {
        let look = ProcessorSnapshot::now();
        let begun = Instant::now();
        while begun.elapsed().as_millis() < 300 {
            std::hint::spin_loop();
        }
        let others = look.others_since(&Value::Null);
        assert!(others > 0.1 && others < 10_000.0, "{others}");
    }
}
