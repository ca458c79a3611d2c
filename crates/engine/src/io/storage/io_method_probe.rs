//! The choice between buffered and direct I/O, unless the user made it: both are tried on the present file, and the
//! cheaper one is kept.
//!
//! [`IoMethodProbe`] has the rule, without file or clock: runs of some MiB alternate between both methods, and their
//! costs are compared. After enough bytes, the cheaper method is kept for that file system. [`IoMethodProbes`] has a
//! probe for each file system.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use haul_base::sys::sync::lock;

use super::IoMethod;
use super::meter::IoCost;

/// Smallest file for a trial: for smaller ones, a trial would not pay.
pub const TRIAL_FILE_MIN: u64 = 256 << 20;
/// Smallest file for direct I/O, even if it is cheaper.
pub const DIRECT_FILE_MIN: u64 = 16 << 20;
/// Bytes of a run at the target: more than a stream has in flight, so that each run shows its own cost.
pub const RUN_BYTES: u64 = 16 << 20;
/// Bytes of each method before the measurement: files are opened, space is allocated, a ring is created.
const WARM_UP_BYTES: u64 = 8 << 20;
/// Bytes of each method before the comparison.
const SAMPLE_BYTES: u64 = 48 << 20;

/// A trial of both methods on one file system, in one direction.
#[derive(Debug, Default)]
pub struct IoMethodProbe {
    buffered: ProbedMethod,
    direct: ProbedMethod,
    settled: Option<IoMethod>,
}

#[derive(Debug, Default)]
struct ProbedMethod {
    /// Bytes assigned to this method.
    given: u64,
    warmed_up: u64,
    cost: IoCost,
}

impl IoMethodProbe {
    /// The method for the next `bytes`, and whether to report their cost.
    pub fn next(&mut self, bytes: u64) -> (IoMethod, bool) {
        if let Some(method) = self.settled {
            return (method, false);
        }
        let direct = self.direct.given <= self.buffered.given;
        let (method, tried) =
            if direct { (IoMethod::Direct, &mut self.direct) } else { (IoMethod::Buffered, &mut self.buffered) };
        tried.given += bytes;
        (method, true)
    }

    /// Records the cost of a run.
    pub fn cost(&mut self, method: IoMethod, cost: IoCost) {
        let tried = match method {
            IoMethod::Buffered => &mut self.buffered,
            IoMethod::Direct => &mut self.direct,
        };
        if tried.warmed_up < WARM_UP_BYTES {
            tried.warmed_up += cost.bytes;
            return;
        }
        tried.cost.bytes += cost.bytes;
        tried.cost.elapsed += cost.elapsed;
        tried.cost.cpu += cost.cpu;
        let enough = |tried: &ProbedMethod| tried.cost.bytes >= SAMPLE_BYTES;
        if self.settled.is_none() && enough(&self.buffered) && enough(&self.direct) {
            self.settled = Some(cheaper(&self.buffered.cost, &self.direct.cost));
        }
    }

    /// Records that O_DIRECT is refused.
    pub fn refuse(&mut self) {
        self.settled = Some(IoMethod::Buffered);
    }

    /// Returns the cheaper method; `None` while methods are compared.
    pub fn settled(&self) -> Option<IoMethod> {
        self.settled
    }
}

/// A second of CPU time costs twice as much as one of waiting, since another stream could use the CPU. At equal cost,
/// buffered I/O is preferred, since it cannot be refused.
pub fn cheaper(buffered: &IoCost, direct: &IoCost) -> IoMethod {
    let of = |cost: &IoCost| cost.elapsed.as_nanos() + cost.cpu.as_nanos();
    let (buffered_total, direct_total) =
        (of(buffered) * u128::from(direct.bytes.max(1)), of(direct) * u128::from(buffered.bytes.max(1)));
    if direct_total < buffered_total { IoMethod::Direct } else { IoMethod::Buffered }
}

/// A trial for each file system of a copy.
#[derive(Debug, Default)]
pub struct IoMethodProbes(Mutex<HashMap<u64, Arc<Mutex<IoMethodProbe>>>>);

impl IoMethodProbes {
    /// The trial of a file system, by its device number.
    pub fn of(&self, device: u64) -> Arc<Mutex<IoMethodProbe>> {
        Arc::clone(lock(&self.0).entry(device).or_default())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const RUN: u64 = 8 << 20;

    fn cost(bytes: u64, elapsed_ms: u64, cpu_ms: u64) -> IoCost {
        IoCost { bytes, elapsed: Duration::from_millis(elapsed_ms), cpu: Duration::from_millis(cpu_ms) }
    }

    /// Tries methods with these costs for a run; returns the chosen one, and the number of runs.
    fn tried(buffered: (u64, u64), direct: (u64, u64)) -> (IoMethod, u32) {
        let mut trial = IoMethodProbe::default();
        for runs in 0..1000 {
            let (method, is_measured) = trial.next(RUN);
            if !is_measured {
                return (method, runs);
            }
            let (elapsed, cpu) = if method == IoMethod::Direct { direct } else { buffered };
            trial.cost(method, cost(RUN, elapsed, cpu));
        }
        panic!("never settled");
    }

    #[test]
    fn the_cheaper_one_is_kept_after_few_runs() {
        assert_eq!(tried((10, 5), (4, 1)), (IoMethod::Direct, 14));
        assert_eq!(tried((4, 4), (10, 1)), (IoMethod::Buffered, 14));
        assert_eq!(tried((10, 6), (10, 1)).0, IoMethod::Direct, "the same time with less CPU");
        assert_eq!(tried((10, 1), (10, 1)).0, IoMethod::Buffered, "no difference");
    }

    #[test]
    fn runs_are_compared_by_the_byte_without_the_first_ones() {
        assert_eq!(cheaper(&cost(10, 10, 0), &cost(20, 15, 0)), IoMethod::Direct);
        assert_eq!(cheaper(&cost(20, 10, 0), &cost(10, 15, 0)), IoMethod::Buffered);
        assert_eq!(cheaper(&cost(0, 0, 0), &cost(0, 0, 0)), IoMethod::Buffered);
        let mut trial = IoMethodProbe::default();
        trial.cost(IoMethod::Direct, cost(RUN, 60_000, 0));
        trial.cost(IoMethod::Buffered, cost(RUN, 1, 0));
        for _ in 0..6 {
            trial.cost(IoMethod::Direct, cost(RUN, 1, 0));
            trial.cost(IoMethod::Buffered, cost(RUN, 2, 0));
        }
        assert_eq!(trial.settled(), Some(IoMethod::Direct));
    }

    #[test]
    fn methods_take_turns_by_bytes() {
        let mut trial = IoMethodProbe::default();
        let turns: Vec<_> = (0..6).map(|_| trial.next(RUN).0).collect();
        assert_eq!(turns.iter().filter(|method| **method == IoMethod::Direct).count(), 3);
        assert_eq!(trial.next(100 * RUN).0, IoMethod::Direct);
        assert!((0..99).all(|_| trial.next(RUN).0 == IoMethod::Buffered));
    }

    #[test]
    fn a_refusal_ends_the_probe_for_its_file_system() {
        let choices = IoMethodProbes::default();
        lock(&choices.of(1)).refuse();
        assert_eq!(lock(&choices.of(1)).next(1), (IoMethod::Buffered, false));
        assert!(lock(&choices.of(2)).next(1).1);
    }
}
