//! The threads of a transfer: one for each stream, one that walks the source or checks target entries, one that sends
//! messages, and one that reports. All have names that `top -H` shows.

mod threads;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, TrySendError};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use haul_base::control_channel::ControlWriter;
use haul_base::copy::account::WorkDone;
use haul_base::copy::work_progress::WorkProgress;
use haul_base::sys::describe::describe_start;
use haul_base::sys::panic::panicked;
use haul_base::sys::sync::lock;
use haul_proto::error::ProtocolError;
use haul_proto::ids::StreamId;
use haul_proto::wire::control_channel::ControlChannel;
use haul_proto::wire::counters::PathFigures;
use haul_proto::wire::report::WorkerMessage;
use haul_proto::wire::resource_metrics::{ResourceMetrics, Stage};
use haul_proto::wire::source_activity::SourceActivity;

use crate::metrics::stage_timer::StageTimers;
use crate::net::controller_watchdog::ControllerWatchdog;
use crate::net::stream::connector::Connector;
use crate::net::stream::{AcceptedStreams, DataStream, StreamError, StreamIds};
use crate::net::stream_pool::StreamPool;
use crate::receiver::TargetReceiver;
use crate::source::Source;
use crate::worker::error::{MessageOrderError, WorkerError};
use crate::worker::resource_metrics::{ResourceMeter, SystemGauges, own_bottleneck, stream_figures};
use crate::worker::stream_autotune::{fix, fix_threads};
use crate::worker::stream_recovery::{keep_fixed, share_out};

/// Retry interval while the inbox is full.
const INBOX_POLL: Duration = Duration::from_millis(5);
/// Interval at which a thread that waits for streams checks for the end of the copy.
const STREAMS_POLL: Duration = Duration::from_millis(100);

/// The ends that this worker acts as.
pub enum CopyEnds {
    /// The source.
    Source(Arc<Source>),
    /// The target.
    Target(Arc<TargetReceiver>),
    /// Both: frames and messages stay in the process.
    Both(Arc<Source>, Arc<TargetReceiver>),
}

/// A running copy.
pub struct CopyRuntime {
    shared: Arc<RuntimeShared>,
    /// Queue of messages from the other end for the thread that handles them.
    inbox: Option<SyncSender<Vec<u8>>>,
}

/// Adds streams to a running copy.
#[derive(Clone)]
pub struct StreamIntake(Arc<RuntimeShared>);

struct RuntimeShared {
    source: Option<Arc<Source>>,
    target: Option<Arc<TargetReceiver>>,
    control: ControlWriter,
    pool: StreamPool,
    /// The current stage of each thread.
    stages: StageTimers,
    load: Mutex<ResourceMeter>,
    /// Figures of the copy for a server.
    progress: Option<Arc<WorkProgress>>,
    /// Number of threads that the end of the copy waits for.
    busy: AtomicUsize,
    failed: AtomicBool,
    finished: AtomicBool,
    /// Whether the copy is over, and the wakeup of paused threads.
    tick: (Mutex<bool>, Condvar),
}

impl CopyRuntime {
    /// Starts all threads except those of streams, which [`StreamIntake::take_streams`] starts.
    pub fn start(
        ends: CopyEnds,
        control: ControlWriter,
        report_every: Duration,
        gauges: SystemGauges,
        progress: Option<Arc<WorkProgress>>,
    ) -> Self {
        let (source, target) = match ends {
            CopyEnds::Source(source) => (Some(source), None),
            CopyEnds::Target(target) => (None, Some(target)),
            CopyEnds::Both(source, target) => (Some(source), Some(target)),
        };
        let shared = Arc::new(RuntimeShared { progress, ..RuntimeShared::new(source, target, control, gauges) });
        let mut inbox = None;
        match (&shared.source, &shared.target) {
            (Some(source), Some(target)) => threads::start_both(&shared, source, target),
            (Some(source), None) => threads::start_source(&shared, source),
            (None, Some(target)) => inbox = Some(threads::start_target(&shared, target)),
            (None, None) => {}
        }
        let ended = Arc::downgrade(&shared);
        let end = move |text: &str| ended.upgrade().into_iter().for_each(|shared| shared.fail(text));
        if let Some(reporter) = shared.reporters().next() {
            reporter.on_audit_failure(end);
        }
        shared.spawn("haul-report", move |shared| threads::report(shared, report_every));
        shared.spawn("haul-load", threads::report_load);
        shared.leave();
        Self { shared, inbox }
    }

    /// Returns the intake for new streams.
    pub fn streams(&self) -> StreamIntake {
        StreamIntake(Arc::clone(&self.shared))
    }

    /// Fixes the source's number of streams in use; measurements no longer change it.
    pub fn fix_streams(&self, streams: u16) -> Result<(), MessageOrderError> {
        match (&self.shared.source, &self.shared.target) {
            (Some(source), None) if !source.compares() => fix(source, &self.shared.pool, streams),
            (Some(source), _) => fix_threads(source, streams),
            (None, _) => return Err(MessageOrderError::StreamsOfTarget),
        }
        Ok(())
    }

    /// Lets the source leave direct paths on which nothing is acknowledged.
    pub fn permit_detour(&self) -> Result<(), MessageOrderError> {
        self.shared.source.as_ref().ok_or(MessageOrderError::StreamsOfTarget)?;
        self.shared.pool.permit_detour();
        Ok(())
    }

    /// Handles a message from the other end. It may wait for the thread that checks files; `false` if the copy ends
    /// meanwhile.
    pub fn handle_peer(&self, bytes: &[u8], watchdog: &ControllerWatchdog) -> Result<bool, ProtocolError> {
        match (&self.inbox, &self.shared.source) {
            // A target checks files for a message. Another thread does that, so that the control channel is still read.
            (Some(inbox), _) => Ok(enqueue_message(inbox, bytes.to_vec(), watchdog)),
            (None, Some(source)) => source.handle_peer(bytes).map(|()| true),
            (None, None) => Ok(true),
        }
    }

    /// Stops the running threads. Returns whether the copy finished successfully.
    pub fn end(self) -> bool {
        let finished = self.shared.finished.load(Ordering::SeqCst);
        match (finished, &self.shared.target) {
            (false, _) => self.shared.stop(),
            (true, target) => target.iter().for_each(|target| target.release_directories()),
        }
        finished && !self.shared.failed.load(Ordering::SeqCst)
    }
}

impl StreamIntake {
    /// Starts a thread for each new stream while the copy lasts: a later stream may replace a broken one.
    pub fn take_streams(&self, arrivals: AcceptedStreams) {
        let streams = self.clone();
        self.0.spawn("haul-streams", move |shared| {
            while !shared.is_over() {
                match arrivals.next(STREAMS_POLL) {
                    Ok((id, stream)) => streams.0.run_stream(id, stream),
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => return,
                }
            }
        });
    }

    /// Returns the source of ids for streams opened at this end.
    pub fn ids(&self) -> StreamIds {
        self.0.pool.ids()
    }

    /// Sets the connector with which this end opens streams.
    pub fn set_connector(&self, connector: Arc<Connector>) {
        self.0.pool.set_connector(connector);
    }
}

/// Queues a message in an inbox that may be full; `false` if the copy ends before there is space.
fn enqueue_message(inbox: &SyncSender<Vec<u8>>, mut message: Vec<u8>, watchdog: &ControllerWatchdog) -> bool {
    loop {
        match inbox.try_send(message) {
            // A thread that ended has already reported the reason.
            Ok(()) | Err(TrySendError::Disconnected(_)) => return true,
            Err(TrySendError::Full(back)) => message = back,
        }
        if !watchdog.pause(INBOX_POLL) {
            return false;
        }
    }
}

fn stream_failed(StreamId(id): StreamId, error: &StreamError) -> String {
    let reason = match error {
        StreamError::Io(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => "closed by the other end".into(),
        StreamError::Io(error) => {
            haul_base::sys::describe::describe(error).lines().next().unwrap_or_default().to_owned()
        }
        StreamError::Protocol(fault) => fault.to_string(),
    };
    format!("data stream {id} broke: {reason}")
}

impl RuntimeShared {
    fn new(
        source: Option<Arc<Source>>,
        target: Option<Arc<TargetReceiver>>,
        control: ControlWriter,
        gauges: SystemGauges,
    ) -> Self {
        let settings = source.as_ref().map(|source| source.settings());
        let settings = settings.or(target.as_ref().map(|target| target.parts.copy.settings()));
        let (most, all_paths) = settings.map_or((0, false), |settings| (settings.streams_max, settings.all_paths));
        let pool = StreamPool::new(most, all_paths);
        Self {
            source,
            target,
            control,
            pool,
            stages: StageTimers::default(),
            load: Mutex::new(ResourceMeter::new(gauges)),
            progress: None,
            busy: AtomicUsize::new(1),
            failed: AtomicBool::new(false),
            finished: AtomicBool::new(false),
            tick: (Mutex::new(false), Condvar::new()),
        }
    }

    /// Runs a stream in its own thread. The copy does not wait for the thread, whose end may take a round trip: once
    /// all entries are complete, a stream has nothing left to deliver.
    fn run_stream(self: &Arc<Self>, id: StreamId, mut stream: DataStream) {
        if !self.pool.admit(id, &stream) {
            return;
        }
        let StreamId(number) = id;
        match (&self.source, &self.target) {
            (Some(source), _) => {
                let source = Arc::clone(source);
                keep_fixed(&source, &self.pool);
                share_out(&source, &self.pool);
                self.spawn(&format!("haul-s{number}"), move |shared| {
                    let _entered = shared.stages.enter(Some(number), Stage::Prepare);
                    let result = source.run_stream(id, &mut source.compressing_stream(&mut stream));
                    shared.stream_ended(id, result, source.is_finished());
                });
            }
            (None, Some(target)) => {
                let target = Arc::clone(target);
                self.spawn(&format!("haul-t{number}"), move |shared| {
                    let _entered = shared.stages.enter(Some(number), Stage::Check);
                    let result = target.run_stream(&mut stream);
                    shared.stream_ended(id, result, target.parts.session.is_finished());
                });
            }
            (None, None) => {}
        }
    }

    /// Handles the end of a stream. Once all entries are complete, the result is irrelevant. Before that, a broken
    /// stream is replaced unless it was in a tunnel; a protocol violation ends the copy.
    fn stream_ended(&self, id: StreamId, result: Result<(), StreamError>, is_finished: bool) {
        let is_lost = result.is_err() && !is_finished;
        let can_be_replaced = self.pool.ending(id, is_lost);
        if self.is_over() {
            return;
        }
        let Err(error) = result.as_ref().map_err(|error| stream_failed(id, error)) else { return };
        match &self.source {
            _ if is_finished => {}
            // Corruption in the network can cause this too, so it does not count as a protocol violation.
            _ if matches!(result, Err(StreamError::Protocol(ProtocolError::NotAuthentic))) => self.fail(&error),
            _ if matches!(result, Err(StreamError::Protocol(_))) => self.fail_for_good(&error),
            _ if !can_be_replaced => self.fail(&error),
            Some(source) => {
                self.pool.note_loss(error);
                share_out(source, &self.pool);
            }
            // The source detects the loss at its own end.
            None => {}
        }
    }

    /// Waits for `time`; `false` if the copy ends earlier.
    fn pause(&self, time: Duration) -> bool {
        let (over, wake) = &self.tick;
        let deadline = Instant::now() + time;
        let mut over = lock(over);
        while !*over {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            over = wake.wait_timeout(over, left).unwrap_or_else(std::sync::PoisonError::into_inner).0;
        }
        false
    }

    fn is_over(&self) -> bool {
        *lock(&self.tick.0)
    }

    fn reporters(&self) -> impl Iterator<Item = &crate::metrics::reporter::Reporter> {
        let source = self.source.iter().map(|source| &source.reporter);
        source.chain(self.target.iter().map(|target| &target.parts.copy.reporter))
    }

    /// Starts a thread that the end of the copy waits for.
    fn work(
        self: &Arc<Self>,
        name: &str,
        work: impl FnOnce(&RuntimeShared) -> Result<(), WorkerError> + Send + 'static,
    ) {
        self.busy.fetch_add(1, Ordering::SeqCst);
        self.spawn_holding(ThreadSlot(Arc::clone(self)), name, move |shared| {
            if let Err(error) = work(shared) {
                shared.fail(&error.to_string());
            }
        });
    }

    fn spawn(self: &Arc<Self>, name: &str, work: impl FnOnce(&RuntimeShared) + Send + 'static) {
        self.spawn_holding((), name, work);
    }

    /// Starts a thread that drops `held` at its end. A panic fails the copy before the drop.
    fn spawn_holding(
        self: &Arc<Self>,
        held: impl Send + 'static,
        name: &str,
        work: impl FnOnce(&RuntimeShared) + Send + 'static,
    ) {
        let shared = Arc::clone(self);
        let own_name = name.to_owned();
        let body = move || {
            let _held = held;
            // Other threads ignore the poisoned locks (see `lock`), and the copy ends anyway.
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| work(&shared))) {
                shared.fail(&panicked(&own_name, &*panic));
            }
        };
        if let Err(error) = thread::Builder::new().name(name.into()).spawn(body) {
            self.fail_for_good(&format!("cannot start a thread: {}", describe_start(&error)));
        }
    }

    /// Records the end of a thread. The last one reports the result to the controller.
    fn leave(&self) {
        if self.busy.fetch_sub(1, Ordering::SeqCst) > 1 {
            return;
        }
        self.end_reports();
        self.target.iter().for_each(|target| target.close_queues());
        if !self.failed.load(Ordering::SeqCst) {
            self.finished.store(true, Ordering::SeqCst);
            self.report_load();
            self.report(&WorkerMessage::Streams(stream_figures(&self.stages, &self.pool)));
            let path = self.pool.figures();
            self.source.iter().for_each(|source| source.reporter.finished(path));
            self.target.iter().for_each(|target| target.parts.copy.reporter.finished(PathFigures::default()));
        }
    }

    /// Fails the copy. Only the first reason is reported.
    fn fail(&self, text: &str) {
        self.fail_as(false, text);
    }

    /// Fails the copy where a retry is useless: the other end violated the protocol, or a limit of this host is
    /// reached.
    fn fail_for_good(&self, text: &str) {
        self.fail_as(true, text);
    }

    fn fail_as(&self, fault: bool, text: &str) {
        if !self.failed.swap(true, Ordering::SeqCst) {
            self.report(&WorkerMessage::Fatal { fault, text: text.into() });
            self.stop();
        }
    }

    /// Sends a message to the controller. The reader of the control channel detects a lost controller.
    fn report(&self, message: &WorkerMessage) {
        let _ = self.control.send(ControlChannel::Controller, &message.encode());
    }

    /// Reports how this worker has spent its time so far.
    fn report_load(&self) {
        let load = self.sample_metrics();
        self.report(&WorkerMessage::Load(Box::new(load)));
    }

    /// Reports the figures of the source's connections so far.
    fn report_source_streams(&self) {
        if self.source.is_some() && self.pool.own_address().is_some() {
            self.report(&WorkerMessage::Streams(stream_figures(&self.stages, &self.pool)));
        }
    }

    /// Reports the current activity of the source.
    fn report_activity(&self) {
        if let Some(source) = &self.source {
            let (paths, streams) = self.pool.path_activity();
            let work = SourceActivity { files_in_progress: source.files_in_progress(), paths, streams };
            self.report(&WorkerMessage::Work(Box::new(work)));
        }
    }

    fn sample_metrics(&self) -> ResourceMetrics {
        let load = lock(&self.load).sample(&self.stages, &self.pool);
        if let Some(progress) = &self.progress
            && let Some(work) = self.work_done()
        {
            // Without a record, the server knows the figures at the end of the copy.
            let _ = progress.record(&work, own_bottleneck(self.source.is_some(), load, &work));
        }
        load
    }

    fn work_done(&self) -> Option<WorkDone> {
        let received = self.target.as_ref().map(|target| target.parts.copy.did());
        received.or_else(|| self.source.as_ref().map(|source| source.did()))
    }

    /// Stops all threads. It marks the copy as failed, so that threads ending now are not reported as finished.
    fn stop(&self) {
        self.failed.store(true, Ordering::SeqCst);
        self.end_reports();
        self.source.iter().for_each(|source| source.stop());
        self.target.iter().for_each(|target| target.stop());
    }

    fn end_reports(&self) {
        *lock(&self.tick.0) = true;
        self.tick.1.notify_all();
    }
}

/// A thread's count towards the end of the copy, released however the thread ends.
struct ThreadSlot(Arc<RuntimeShared>);

impl Drop for ThreadSlot {
    fn drop(&mut self) {
        self.0.leave();
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;
    use std::sync::mpsc::sync_channel;

    use haul_base::control_channel::ControlReader;

    use super::*;
    use crate::net::controller_watchdog::tests::watchdog;

    /// Returns the state of a copy without source and target, and a reader of its messages to the controller.
    fn shared() -> (Arc<RuntimeShared>, ControlReader<UnixStream>) {
        let (control, controller) = UnixStream::pair().unwrap();
        controller.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let shared = RuntimeShared::new(None, None, ControlWriter::new(control), SystemGauges::open([0; 2]));
        (Arc::new(shared), ControlReader::new(controller))
    }

    #[test]
    fn a_panicking_thread_ends_the_copy() {
        for in_work in [true, false] {
            let (shared, mut controller) = shared();
            if in_work {
                shared.work("haul-test", |_| panic!("no such {}", "luck"));
            } else {
                shared.spawn("haul-test", |_| panic!("no such luck"));
            }
            let (_, content) = controller.next_frame().unwrap().unwrap();
            let text = "thread haul-test panicked: no such luck\nthis is a bug in haul: please report it";
            let fatal = WorkerMessage::Fatal { fault: false, text: text.into() };
            assert_eq!(WorkerMessage::decode(content).unwrap(), fatal);
            let deadline = Instant::now() + Duration::from_secs(10);
            while shared.busy.load(Ordering::SeqCst) > 1 {
                assert!(Instant::now() < deadline, "its place was not given up");
                thread::sleep(Duration::from_millis(1));
            }
            shared.leave();
            assert!(!shared.finished.load(Ordering::SeqCst) && *lock(&shared.tick.0));
        }
    }

    #[test]
    fn a_stopped_copy_has_not_finished() {
        let (shared, _controller) = shared();
        shared.work("haul-test", |shared| {
            while shared.pause(Duration::from_millis(5)) {}
            Ok(())
        });
        shared.leave();
        let running = CopyRuntime { shared: Arc::clone(&shared), inbox: None };
        assert!(!running.end(), "it was stopped");
        let deadline = Instant::now() + Duration::from_secs(10);
        while shared.busy.load(Ordering::SeqCst) > 0 || Arc::strong_count(&shared) > 1 {
            assert!(Instant::now() < deadline, "the thread did not end");
            thread::sleep(Duration::from_millis(1));
        }
        assert!(!shared.finished.load(Ordering::SeqCst));
    }

    #[test]
    fn a_full_inbox_is_waited_for_while_the_controller_lives() {
        let (inbox, messages) = sync_channel(1);
        let (watchdog, controller, _stopper) = watchdog();
        assert!(enqueue_message(&inbox, vec![1], &watchdog));
        let putting = thread::spawn(move || {
            let second = enqueue_message(&inbox, vec![2], &watchdog);
            (second, enqueue_message(&inbox, vec![3], &watchdog))
        });
        assert_eq!(messages.recv().unwrap(), [1]);
        thread::sleep(4 * INBOX_POLL);
        drop(controller);
        assert_eq!(putting.join().unwrap(), (true, false));
        assert_eq!(messages.try_iter().collect::<Vec<_>>(), [[2]]);
    }
}
