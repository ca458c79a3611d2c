//! Stages of a copy's threads, and their time, with one clock reading per change of stage.
//!
//! A registered thread ([`StageTimers::enter`]) sets its stage by [`during`]. In other threads, that has no effect, so
//! shared code can call it. The kernel reports the CPU time of a stage; that call is expensive, and made for a sample
//! of the time.

use std::cell::RefCell;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use haul_base::sys::sync::lock;
use haul_proto::limits::STREAM_FIGURES_MAX;
use haul_proto::wire::resource_metrics::{Spent, Stage, StreamFigures};

use crate::sys::usage::{ThreadId, ThreadUsage, cpu_us_of, micros, thread_id, thread_use};

/// The sampled part of the time, as a divisor.
const SAMPLED_PART: u64 = 32;

/// Time in every stage.
pub type StageTotals = [Spent; Stage::ALL.len()];

/// The threads of a copy.
#[derive(Default)]
pub struct StageTimers(Mutex<TimerState>);

#[derive(Default)]
struct TimerState {
    threads: Vec<Arc<ThreadTimer>>,
    /// Times of ended threads.
    past: StageTotals,
    ended: Vec<StreamFigures>,
}

/// One thread.
struct ThreadTimer {
    /// Its stream, if any.
    stream: Option<u16>,
    thread: ThreadId,
    begun: Instant,
    hand: Mutex<TimerHand>,
}

struct TimerHand {
    stage: Stage,
    since: Instant,
    /// The thread's usage at `since`, if sampled.
    used: Option<ThreadUsage>,
    spent: StageTotals,
}

thread_local! {
    static OWN: RefCell<Option<Arc<ThreadTimer>>> = const { RefCell::new(None) };
}

/// Runs `work` in this stage, except for nested stages. Threads without a stream have stages of their own.
pub fn during<T>(stage: Stage, work: impl FnOnce() -> T) -> T {
    let before = switch_stage(stage);
    let result = work();
    before.map(switch_stage);
    result
}

/// Changes the calling thread's stage. Returns the one before; `None` without a timer.
fn switch_stage(stage: Stage) -> Option<Stage> {
    OWN.with_borrow(|own| {
        let clock = own.as_ref().filter(|clock| clock.stream.is_some() == stage.is_of_stream())?;
        Some(lock(&clock.hand).switch_stage(stage))
    })
}

impl TimerHand {
    fn new(stage: Stage) -> Self {
        Self { stage, since: Instant::now(), used: None, spent: StageTotals::default() }
    }

    fn switch_stage(&mut self, stage: Stage) -> Stage {
        let now = Instant::now();
        let wall_us = micros(now.duration_since(self.since));
        let left = std::mem::replace(&mut self.stage, stage);
        let spent = &mut self.spent[left as usize];
        spent.wall_us += wall_us;
        if let Some(used) = self.used.take() {
            spent.sampled_us += wall_us;
            spent.computed_us += computed_us(&used, &thread_use(), wall_us);
        }
        // By time, not by number: with alternating long and short calls, samples might hit only the short ones.
        let Spent { wall_us, sampled_us, .. } = self.spent[stage as usize];
        if sampled_us * SAMPLED_PART <= wall_us {
            self.used = Some(thread_use());
        }
        self.since = now;
        left
    }
}

/// A thread without waits counts as computing all the time, also while preempted.
fn computed_us(before: &ThreadUsage, after: &ThreadUsage, wall_us: u64) -> u64 {
    match after.waits == before.waits {
        true => wall_us,
        false => micros(after.cpu.saturating_sub(before.cpu)).min(wall_us),
    }
}

impl ThreadTimer {
    /// The times so far, including the present stage.
    fn spent(&self) -> StageTotals {
        let hand = lock(&self.hand);
        let mut spent = hand.spent;
        spent[hand.stage as usize].wall_us += micros(hand.since.elapsed());
        spent
    }

    /// The figures of a running thread.
    fn figures(&self, stream: u16, spent: &StageTotals) -> StreamFigures {
        let of = |stages: &[Stage]| stages.iter().map(|stage| spent[*stage as usize].wall_us).sum();
        StreamFigures {
            stream: stream.into(),
            wall_us: micros(self.begun.elapsed()),
            cpu_us: cpu_us_of(self.thread),
            idle_us: of(&[Stage::Idle, Stage::Rest, Stage::Receive]),
            storage_us: of(&[Stage::Read, Stage::Write, Stage::ReadPipe, Stage::WritePipe, Stage::Room]),
            send_us: of(&[Stage::Send, Stage::Pace]),
            ..StreamFigures::default()
        }
    }
}

impl StageTimers {
    /// Times the calling thread until the returned guard is dropped. `stream` is its stream, `stage` its default stage.
    pub fn enter(&self, stream: Option<u16>, stage: Stage) -> TimedThread<'_> {
        let hand = Mutex::new(TimerHand::new(stage));
        let clock = Arc::new(ThreadTimer { stream, thread: thread_id(), begun: Instant::now(), hand });
        lock(&self.0).threads.push(Arc::clone(&clock));
        OWN.set(Some(clock));
        TimedThread { stages: self, bound: PhantomData }
    }

    /// Time of all threads in every stage.
    pub fn spent(&self) -> StageTotals {
        let state = lock(&self.0);
        let mut all = state.past;
        state.threads.iter().for_each(|clock| add(&mut all, &clock.spent()));
        all
    }

    /// Number of threads with streams.
    pub fn streams(&self) -> u16 {
        let count = lock(&self.0).threads.iter().filter(|clock| clock.stream.is_some()).count();
        u16::try_from(count).unwrap_or(u16::MAX)
    }

    /// The times of each stream's thread, with ended ones up to a limit.
    pub fn figures(&self) -> Vec<StreamFigures> {
        let state = lock(&self.0);
        let there = state.threads.iter();
        let there = there.filter_map(|clock| Some(clock.figures(clock.stream?, &clock.spent())));
        let mut all: Vec<_> = state.ended.iter().copied().chain(there).take(STREAM_FIGURES_MAX).collect();
        all.sort_by_key(|figures| figures.stream);
        all
    }
}

/// The registration of a thread.
pub struct TimedThread<'s> {
    stages: &'s StageTimers,
    /// Bound to the thread that entered.
    bound: PhantomData<*const ()>,
}

impl Drop for TimedThread<'_> {
    fn drop(&mut self) {
        let Some(clock) = OWN.take() else { return };
        let stage = lock(&clock.hand).stage;
        lock(&clock.hand).switch_stage(stage);
        let mut state = lock(&self.stages.0);
        state.threads.retain(|other| !Arc::ptr_eq(other, &clock));
        let spent = lock(&clock.hand).spent;
        add(&mut state.past, &spent);
        if let Some(stream) = clock.stream.filter(|_| state.ended.len() < STREAM_FIGURES_MAX) {
            let figures = clock.figures(stream, &spent);
            state.ended.push(figures);
        }
    }
}

fn add(all: &mut StageTotals, more: &StageTotals) {
    all.iter_mut().zip(more).for_each(|(all, more)| all.add(more));
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::Duration;

    use super::*;

    const NAP: Duration = Duration::from_millis(20);

    fn wall(spent: &StageTotals, stage: Stage) -> Duration {
        Duration::from_micros(spent[stage as usize].wall_us)
    }

    #[test]
    fn time_counts_for_the_current_stage_and_then_for_the_outer_one() {
        let stages = StageTimers::default();
        {
            let _entered = stages.enter(Some(3), Stage::Prepare);
            during(Stage::Read, || {
                thread::sleep(NAP);
                during(Stage::Open, || thread::sleep(NAP));
                during(Stage::Walk, || thread::sleep(NAP));
            });
            assert_eq!(stages.streams(), 1);
            let spent = stages.spent();
            assert!(wall(&spent, Stage::Read) >= 2 * NAP && wall(&spent, Stage::Open) >= NAP, "{spent:?}");
            assert_eq!(spent[Stage::Walk as usize], Spent::default(), "that is no stage of a stream");
            let read = spent[Stage::Read as usize];
            assert!(read.sampled_us >= 20_000 && read.computed_us < read.sampled_us / 2, "it slept: {read:?}");
        }
        let (spent, figures) = (stages.spent(), stages.figures());
        assert!(wall(&spent, Stage::Read) >= 2 * NAP, "it has ended and counts");
        assert_eq!((stages.streams(), figures.len(), figures[0].stream), (0, 1, 3));
        assert!(figures[0].wall_us >= 60_000 && figures[0].storage_us >= 40_000, "{figures:?}");
    }

    #[test]
    fn the_current_stage_counts_while_it_lasts() {
        let stages = StageTimers::default();
        thread::scope(|scope| {
            let (leave, told) = std::sync::mpsc::channel::<()>();
            let stages = &stages;
            scope.spawn(move || {
                let _entered = stages.enter(Some(0), Stage::Prepare);
                during(Stage::Receive, || told.recv().unwrap());
            });
            let deadline = Instant::now() + Duration::from_secs(10);
            while wall(&stages.spent(), Stage::Receive) < NAP {
                assert!(Instant::now() < deadline, "it does not count");
                during(Stage::Send, || thread::sleep(Duration::from_millis(1)));
            }
            assert_eq!(stages.spent()[Stage::Send as usize], Spent::default());
            leave.send(()).unwrap();
        });
    }

    #[test]
    fn alternating_long_and_short_calls_are_both_sampled() {
        let stages = StageTimers::default();
        let _entered = stages.enter(Some(0), Stage::Prepare);
        for _ in 0..20 {
            during(Stage::Send, || ());
            during(Stage::Send, || thread::sleep(Duration::from_millis(2)));
        }
        let send = stages.spent()[Stage::Send as usize];
        assert!(send.sampled_us * 40 >= send.wall_us, "{send:?}");
    }

    #[test]
    fn a_computing_thread_shows_its_stage() {
        let stages = StageTimers::default();
        let _entered = stages.enter(None, Stage::WalkWait);
        during(Stage::Walk, || {
            let begun = Instant::now();
            while begun.elapsed() < NAP {
                std::hint::black_box(0);
            }
        });
        let walk = stages.spent()[Stage::Walk as usize];
        assert!(walk.computed_us == walk.sampled_us && walk.wall_us >= 20_000, "{walk:?}");
        assert_eq!((stages.streams(), stages.figures().len()), (0, 0));
    }
}
