//! Choice of the number of streams: doubled while that raises the total rate, and reduced again where it did not.
//!
//! A loss halves the rate of one stream only, so many streams carry more over a lossy path. On a clean path a few are
//! enough. Neither is known in advance. The engine supplies samples every [`StreamAutotuner::period_us`]; the decision
//! uses no clock of its own.

/// Shortest period of a rate sample, in microseconds.
const PERIOD_MIN_US: u64 = 100_000;
/// Longest period of a rate sample, in microseconds.
const PERIOD_MAX_US: u64 = 1_000_000;
/// Round trips in a period.
const PERIOD_ROUND_TRIPS: u64 = 4;
/// Least increase of the rate that justifies more streams.
const GAIN_PERCENT: u64 = 10;
/// Increase of the rate below which it counts as steady. At the start of connections it rises by itself.
const STEADY_PERCENT: u64 = 25;
/// Most periods of a rising rate before it is used as it is.
const RAMP_PERIODS: u32 = 4;
/// Share of the best rate below which a settled tuner tries again.
const FALLEN_PERCENT: u64 = 75;
/// Periods of a lower rate before another try, at first; doubled after each unsuccessful try.
const FALLEN_PERIODS: u32 = 2;
/// Steady periods before a second try. A burst of losses may have spoiled the first one.
const SECOND_TRY_PERIODS: u32 = 10;
/// Most periods before another try.
const FALLEN_PERIODS_MAX: u32 = 64;
/// Least share of time spent waiting for the network alone for the number of streams to matter.
const WAITING_PERMILLE: u32 = 500;

/// Totals of all streams since the last sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateSample {
    /// Time since the last sample, in microseconds.
    pub elapsed_us: u64,
    /// Bytes acknowledged by the other end since then.
    pub acknowledged_bytes: u64,
    /// Share of that time that the streams in use waited for the network (the congestion window) alone.
    pub network_permille: u32,
}

/// Chooses the number of streams.
#[derive(Debug)]
pub struct StreamAutotuner {
    streams: u16,
    most: u16,
    phase: AutotunePhase,
    /// Tries since more streams last helped.
    in_vain: u32,
}

#[derive(Debug, Clone, Copy)]
enum AutotunePhase {
    /// The rate of the first streams rises by itself. Next: Trying, Settled.
    Ramp { last: u64, periods: u32 },
    /// The number of streams was increased at the rate `before`. The new streams have finished their start-up when
    /// `settled`. Next: Trying, Settled.
    Trying { before: u64, settled: bool },
    /// Enough streams, until the rate falls or a second try is due. Next: Trying.
    Settled { best: u64, fallen: u32, steady: u32 },
}

impl StreamAutotuner {
    /// Starts with `streams`; `most` is the maximum.
    pub fn new(streams: u16, most: u16) -> Self {
        let streams = streams.clamp(1, most.max(1));
        Self { streams, most: most.max(1), phase: AutotunePhase::Ramp { last: 0, periods: 0 }, in_vain: 0 }
    }

    /// Returns the number of streams to use.
    pub fn streams(&self) -> u16 {
        self.streams
    }

    /// Sets the number of streams that could be opened.
    pub fn have(&mut self, streams: u16) {
        self.streams = streams.clamp(1, self.most);
    }

    /// Returns the time to the next sample in microseconds, for this round-trip time.
    pub fn period_us(round_trip_us: u64) -> u64 {
        round_trip_us.saturating_mul(PERIOD_ROUND_TRIPS).clamp(PERIOD_MIN_US, PERIOD_MAX_US)
    }

    /// Takes a sample; returns the number of streams to use from now on.
    pub fn sample(&mut self, sample: RateSample) -> u16 {
        // With a disk, a processor or the other end as the limit, the rate says nothing about the number of streams.
        if sample.network_permille >= WAITING_PERMILLE {
            let rate = rate_bytes_per_s(sample);
            self.phase = match self.phase {
                AutotunePhase::Ramp { last, periods } => self.ramp(last, periods, rate),
                AutotunePhase::Trying { before, settled: false } => AutotunePhase::Trying { before, settled: true },
                AutotunePhase::Trying { before, settled: true } => self.judge(before, rate),
                AutotunePhase::Settled { best, fallen, steady } => self.watch(best, fallen, steady, rate),
            };
        }
        self.streams
    }

    fn ramp(&mut self, last: u64, periods: u32, rate: u64) -> AutotunePhase {
        let steady = last > 0 && rate < more(last, STEADY_PERCENT);
        match steady || periods >= RAMP_PERIODS {
            true => self.multiply(2, rate),
            false => AutotunePhase::Ramp { last: rate, periods: periods + 1 },
        }
    }

    fn judge(&mut self, before: u64, rate: u64) -> AutotunePhase {
        if rate > more(before, GAIN_PERCENT) {
            self.in_vain = 0;
            return self.multiply(2, rate);
        }
        self.streams = self.streams.div_ceil(2);
        self.in_vain = self.in_vain.saturating_add(1);
        AutotunePhase::Settled { best: before.max(rate), fallen: 0, steady: 0 }
    }

    fn watch(&mut self, best: u64, fallen: u32, steady: u32, rate: u64) -> AutotunePhase {
        if rate >= best / 100 * FALLEN_PERCENT {
            let steady = steady.saturating_add(1);
            return match self.in_vain == 1 && steady >= SECOND_TRY_PERIODS {
                true => self.multiply(2, rate),
                false => AutotunePhase::Settled { best: best.max(rate), fallen: 0, steady },
            };
        }
        if fallen + 1 < self.patience() {
            return AutotunePhase::Settled { best, fallen: fallen + 1, steady };
        }
        // Where losses limit each stream, the rate is proportional to the number of streams.
        self.multiply(if best / 4 > rate { 4 } else { 2 }, rate)
    }

    /// Returns the number of periods of a lower rate before another try.
    fn patience(&self) -> u32 {
        FALLEN_PERIODS.saturating_mul(2_u32.saturating_pow(self.in_vain)).min(FALLEN_PERIODS_MAX)
    }

    fn multiply(&mut self, times: u16, rate: u64) -> AutotunePhase {
        if self.streams == self.most {
            return AutotunePhase::Settled { best: rate, fallen: 0, steady: 0 };
        }
        self.streams = self.streams.saturating_mul(times).min(self.most);
        AutotunePhase::Trying { before: rate, settled: false }
    }
}

fn rate_bytes_per_s(sample: RateSample) -> u64 {
    sample.acknowledged_bytes.saturating_mul(1_000_000) / sample.elapsed_us.max(1)
}

fn more(rate: u64, percent: u64) -> u64 {
    rate.saturating_add(rate / 100 * percent)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUND_TRIP_US: u64 = 50_000;
    const LINE: u64 = 125_000_000;

    /// Runs a tuner over a path with the rate `rate(streams, time)`; returns the time of each change in the number.
    fn run(start: u16, most: u16, for_us: u64, rate: impl Fn(u16, u64) -> u64) -> (Vec<(u64, u16)>, StreamAutotuner) {
        let mut tuner = StreamAutotuner::new(start, most);
        let period = StreamAutotuner::period_us(ROUND_TRIP_US);
        let mut steps = vec![(0, tuner.streams())];
        for now in (period..for_us).step_by(usize::try_from(period).unwrap()) {
            let before = tuner.streams();
            let acknowledged_bytes = rate(before, now) * period / 1_000_000;
            let after = tuner.sample(RateSample { elapsed_us: period, acknowledged_bytes, network_permille: 900 });
            if after != before {
                steps.push((now, after));
            }
        }
        (steps, tuner)
    }

    #[test]
    fn a_lossy_path_gets_sixty_four_streams_within_three_seconds() {
        let (steps, tuner) = run(8, 128, 10_000_000, |streams, _| LINE.min(u64::from(streams) * 1_250_000));
        let (at, _) = steps.iter().find(|(_, streams)| *streams >= 64).unwrap();
        assert!(*at <= 3_000_000, "{steps:?}");
        assert_eq!(tuner.streams(), 128, "{steps:?}");
    }

    #[test]
    fn a_clean_path_keeps_few_streams_that_fill_it() {
        for start in [2, 4, 8] {
            let (steps, tuner) = run(start, 128, 60_000_000, |_, _| LINE);
            assert_eq!((tuner.streams(), steps.len()), (start, 5), "two tries, taken back: {steps:?}");
        }
    }

    #[test]
    fn a_burst_of_losses_while_more_streams_are_tried_is_not_the_last_word() {
        let path = |streams: u16, now| match now {
            0..2_000_000 => 8 * 1_250_000,
            _ => LINE.min(u64::from(streams) * 1_250_000),
        };
        let (steps, tuner) = run(8, 64, 8_000_000, path);
        assert_eq!(tuner.streams(), 64, "{steps:?}");
    }

    #[test]
    fn it_stops_at_the_knee() {
        let (_, tuner) = run(2, 128, 60_000_000, |streams, _| LINE.min(u64::from(streams) * 10_000_000));
        assert_eq!(tuner.streams(), 16);
    }

    #[test]
    fn a_later_drop_of_the_rate_adds_streams() {
        // Slow start lasts three seconds; then losses reduce the rate.
        let path = |streams: u16, now| if now < 3_000_000 { LINE } else { LINE.min(u64::from(streams) * 1_250_000) };
        let (steps, tuner) = run(8, 64, 12_000_000, path);
        assert_eq!(tuner.streams(), 64, "{steps:?}");
    }

    #[test]
    fn useless_streams_are_tried_less_and_less_often() {
        let (steps, tuner) = run(8, 64, 600_000_000, |_, now| if now / 1_000_000 % 20 < 10 { LINE } else { LINE / 4 });
        assert!(steps.len() < 2 * 3000 / 40, "{} changes", steps.len());
        assert!(tuner.streams() >= 8);
    }

    #[test]
    fn time_not_spent_waiting_for_the_network_changes_nothing() {
        let mut tuner = StreamAutotuner::new(2, 64);
        for step in 0..100 {
            let sample =
                RateSample { elapsed_us: 100_000, acknowledged_bytes: step * 1_000_000, network_permille: 499 };
            assert_eq!(tuner.sample(sample), 2);
        }
    }

    #[test]
    fn no_figure_makes_it_overflow() {
        let mut tuner = StreamAutotuner::new(0, 0);
        for elapsed_us in [0, 1, u64::MAX] {
            for acknowledged_bytes in [0, 1, u64::MAX] {
                tuner.sample(RateSample { elapsed_us, acknowledged_bytes, network_permille: u32::MAX });
            }
        }
        assert_eq!(tuner.streams(), 1);
        assert_eq!(
            (StreamAutotuner::period_us(0), StreamAutotuner::period_us(u64::MAX)),
            (PERIOD_MIN_US, PERIOD_MAX_US)
        );
    }
}
