//! What the processors that this process may use are at (proc(5), `stat`, `pressure`), and how it fares under its
//! quota.

use haul_proto::wire::resource_metrics::Processors;
use rustix::thread::{CpuSet, sched_getaffinity};

use super::quota::QuotaGauge;
use super::{KernelFile, TEXT_MAX};
use crate::sys::usage::cpu_us;

/// More than a file of pressures is long.
const PRESSURE_MAX: usize = 512;

/// The processors, sampled repeatedly.
pub struct ProcessorsGauge {
    stat: KernelFile,
    /// Of CPU, memory and disks.
    pressures: [KernelFile; 3],
    quota: QuotaGauge,
    allowed: Option<CpuSet>,
    tick_us: u64,
    last: Vec<ProcessorTicks>,
    /// The first sample.
    base: Option<Processors>,
    top: [u64; 3],
}

/// Of one processor, in microseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct ProcessorTicks {
    number: usize,
    all: u64,
    busy: u64,
    interrupts: u64,
}

impl ProcessorsGauge {
    /// Opens the files in proc(5).
    pub fn open() -> Self {
        Self {
            stat: KernelFile::open("/proc/stat"),
            pressures: ["cpu", "memory", "io"].map(|what| KernelFile::open(format!("/proc/pressure/{what}"))),
            quota: QuotaGauge::open(),
            allowed: sched_getaffinity(None).ok(),
            tick_us: 1_000_000 / rustix::param::clock_ticks_per_second().max(1),
            last: Vec::new(),
            base: None,
            top: [0; 3],
        }
    }

    /// The quota, in thousandths of a processor; 0 where there is none.
    pub fn quota_permille(&self) -> u32 {
        self.quota.permille()
    }

    /// Differences since the first sample.
    pub fn sample(&mut self) -> Processors {
        let now = self.now();
        now.since(self.base.get_or_insert(now))
    }

    fn now(&mut self) -> Processors {
        let ticks = processors(&self.stat.read(TEXT_MAX), self.tick_us);
        let is_allowed = |ticks: &&ProcessorTicks| self.allowed.as_ref().is_none_or(|set| has(set, ticks.number));
        let ticks: Vec<ProcessorTicks> = ticks.iter().filter(is_allowed).copied().collect();
        for (top, more) in self.top.iter_mut().zip(top(&ticks, &self.last)) {
            *top += more;
        }
        let sum = |of: fn(&ProcessorTicks) -> u64| ticks.iter().map(of).sum();
        let [cpu_pressure_us, memory_pressure_us, io_pressure_us] =
            [0, 1, 2].map(|index| pressure_us(&self.pressures[index].read(PRESSURE_MAX)));
        let (quota_periods, quota_spent) = self.quota.sample();
        let [top_interrupts_us, top_busy_us, top_all_us] = self.top;
        let now = Processors {
            all_us: sum(|ticks| ticks.all),
            busy_us: sum(|ticks| ticks.busy),
            interrupts_us: sum(|ticks| ticks.interrupts),
            top_interrupts_us,
            top_busy_us,
            top_all_us,
            own_us: cpu_us(),
            quota_periods,
            quota_spent,
            cpu_pressure_us,
            memory_pressure_us,
            io_pressure_us,
        };
        self.last = ticks;
        now
    }
}

fn has(set: &CpuSet, number: usize) -> bool {
    number < CpuSet::MAX_CPU && set.is_set(number)
}

/// The lines `cpuN user nice system idle iowait irq softirq steal ...`.
fn processors(stat: &str, tick_us: u64) -> Vec<ProcessorTicks> {
    let line = |line: &str| {
        let (number, words) = line.strip_prefix("cpu")?.split_once(' ')?;
        let number = number.parse().ok()?;
        let words = words.split_ascii_whitespace();
        let fields: Vec<u64> = words.take(8).map(|word| word.parse().unwrap_or(0) * tick_us).collect();
        let field = |index: usize| fields.get(index).copied().unwrap_or(0);
        let all = fields.iter().sum();
        // The fourth and the fifth are times without work.
        Some(ProcessorTicks { number, all, busy: all - field(3) - field(4), interrupts: field(5) + field(6) })
    };
    // `cpu` without a number is the sum of all.
    stat.lines().take_while(|line| line.starts_with("cpu")).filter_map(line).collect()
}

/// Interrupts, busy time and total time of the processor with the most interrupts since the last sample.
fn top(now: &[ProcessorTicks], last: &[ProcessorTicks]) -> [u64; 3] {
    let since = now.iter().zip(last).filter(|(now, last)| now.number == last.number).map(|(now, last)| {
        [(now.interrupts, last.interrupts), (now.busy, last.busy), (now.all, last.all)]
            .map(|(now, last)| now.saturating_sub(last))
    });
    since.max_by_key(|[interrupts, ..]| *interrupts).unwrap_or_default()
}

/// The total of the line `some avg10=0.00 ... total=123`.
fn pressure_us(text: &str) -> u64 {
    let some = text.lines().find(|line| line.starts_with("some"));
    some.and_then(|line| line.rsplit_once("total=")?.1.trim().parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str = "cpu  8 0 4 20 2 1 1 0 0 0\ncpu0 4 0 2 10 1 0 1 0 0 0\ncpu1 4 0 2 10 1 1 0 9 0 0\nintr 5\n";

    #[test]
    fn each_processors_state_is_known() {
        let told = processors(STAT, 10);
        assert_eq!(told[0], ProcessorTicks { number: 0, all: 180, busy: 70, interrupts: 10 });
        assert_eq!(
            told[1],
            ProcessorTicks { number: 1, all: 270, busy: 160, interrupts: 10 },
            "what was stolen is not idle"
        );
        assert_eq!(told.len(), 2);
        let later =
            [ProcessorTicks { all: 280, ..told[0] }, ProcessorTicks { interrupts: 40, busy: 200, all: 370, number: 1 }];
        assert_eq!(top(&later, &told), [30, 40, 100]);
        assert_eq!(top(&later, &[]), [0; 3]);
        assert!(processors("", 10).is_empty());
    }

    #[test]
    fn pressure_is_a_total() {
        let text = "some avg10=97.71 avg60=90.06 avg300=57.25 total=15570\nfull avg10=0.00 total=3\n";
        assert_eq!((pressure_us(text), pressure_us("")), (15_570, 0));
    }

    #[test]
    fn the_work_of_this_process_is_visible() {
        let mut gauge = ProcessorsGauge::open();
        assert_eq!(gauge.sample(), Processors::default(), "it counts from the first look");
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
        loop {
            let now = gauge.sample();
            if now.own_us > 30_000 && now.busy_us > 0 && now.all_us >= now.busy_us {
                return;
            }
            assert!(std::time::Instant::now() < deadline, "{now:?}");
        }
    }
}
