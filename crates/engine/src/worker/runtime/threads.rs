//! The threads of each end of a copy: what they run, and which of them the end of the copy waits for.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use haul_proto::error::ProtocolError;
use haul_proto::ids::StreamId;
use haul_proto::wire::control_channel::ControlChannel;
use haul_proto::wire::resource_metrics::Stage;

use super::RuntimeShared;
use crate::metrics::reporter::Reporter;
use crate::metrics::stage_timer::during;
use crate::net::message_compression::{MessageCompressor, MessageDecompressor};
use crate::receiver::{StreamRequest, TargetReceiver};
use crate::source::Source;
use crate::worker::direct_sink::DirectSink;
use crate::worker::error::WorkerError;
use crate::worker::resource_metrics;
use crate::worker::stream_autotune::tune;
use crate::worker::stream_recovery::recover_streams;

/// Most messages queued for the thread that handles them. When the queue is full, the control channel waits.
const INBOX_MAX: usize = 1024;
/// Delay of the first counter report.
const FIRST_REPORT: Duration = Duration::from_millis(10);
/// Interval of checks for a failed program that reports nothing by itself.
const PROGRAM_POLL: Duration = Duration::from_millis(200);

fn start_walk(shared: &Arc<RuntimeShared>, source: &Arc<Source>) {
    let walking = Arc::clone(source);
    shared.work("haul-walk", move |shared| {
        let _entered = shared.stages.enter(None, Stage::Walk);
        walking.walk();
        Ok(())
    });
    if source.removes_files() {
        let removing = Arc::clone(source);
        shared.work("haul-remove", move |_| {
            removing.remove_verified();
            Ok(())
        });
    }
}

/// Starts the threads that read and compare, for a copy that only compares.
fn start_comparison(shared: &Arc<RuntimeShared>, source: &Arc<Source>) {
    for id in 0..source.settings().streams {
        let source = Arc::clone(source);
        shared.work(&format!("haul-s{id}"), move |shared| {
            let _entered = shared.stages.enter(Some(id), Stage::Prepare);
            Ok(source.run_comparison(StreamId(id))?)
        });
    }
}

pub(super) fn start_source(shared: &Arc<RuntimeShared>, source: &Arc<Source>) {
    start_walk(shared, source);
    let sending = Arc::clone(source);
    shared.work("haul-control", move |shared| {
        let (mut packing, copy) = (MessageCompressor::default(), sending.settings().number);
        send_messages(shared, || {
            let messages = sending.wait_for_messages()?;
            Some(messages.into_iter().map(|message| packing.pack(message, copy)).collect())
        })
    });
    if source.compares() {
        return start_comparison(shared, source);
    }
    let recovering = Arc::clone(source);
    shared.spawn("haul-recovery", move |shared| {
        let recovered = recover_streams(&recovering, &shared.pool, |time| shared.pause(time));
        recovered.unwrap_or_else(|error| shared.fail(&error.to_string()));
    });
    let settings = source.settings();
    // With all paths in use, the links are the limit.
    if settings.streams_max > settings.streams && !settings.all_paths {
        let source = Arc::clone(source);
        shared.spawn("haul-tune", move |shared| tune(&source, &shared.pool, |time| shared.pause(time)));
    }
}

/// Starts the target's threads that read and verify files. They end with the copy, and its end does not wait for them:
/// the source waits for their results.
fn start_proof(shared: &Arc<RuntimeShared>, target: &Arc<TargetReceiver>) {
    if target.parts.copy.compares() {
        for id in 0..target.parts.copy.settings().streams {
            let target = Arc::clone(target);
            shared.spawn(&format!("haul-t{id}"), move |shared| {
                let _entered = shared.stages.enter(Some(id), Stage::Check);
                target.run_comparison();
            });
        }
        return;
    }
    for number in 0..target.parts.deltas.base_file_readers() {
        let target = Arc::clone(target);
        let making = Arc::clone(&target);
        shared.spawn(&format!("haul-o{number}"), move |_| target.sign_base_files());
        shared.spawn(&format!("haul-m{number}"), move |shared| {
            let made = making.make_frames();
            made.unwrap_or_else(|fault| shared.fail_for_good(&format!("protocol error of the source: {fault}")));
        });
    }
    let proving = Arc::clone(target);
    shared.spawn("haul-proof", move |_| proving.run_verification());
}

pub(super) fn start_target(shared: &Arc<RuntimeShared>, target: &Arc<TargetReceiver>) -> SyncSender<Vec<u8>> {
    let (inbox, messages) = sync_channel(INBOX_MAX);
    let examining = Arc::clone(target);
    // This thread ends with the control channel, so the end of the copy does not wait for it.
    shared.spawn("haul-manifest", move |shared| take_messages(shared, &examining, &messages));
    start_proof(shared, target);
    let sending = Arc::clone(target);
    shared.work("haul-control", move |shared| send_messages(shared, || sending.wait_for_messages()));
    start_settling(shared, target);
    start_watching(shared, target);
    let weak = Arc::downgrade(shared);
    target.parts.session.on_stream_request(move |wish| {
        let Some(shared) = weak.upgrade() else { return };
        match wish {
            StreamRequest::More(count, path) => drop(shared.pool.make(count, path)),
            StreamRequest::SmallSegments(path) => drop(shared.pool.use_small_segments(path)),
            StreamRequest::Without(streams) => shared.pool.give_up(&streams),
        }
    });
    inbox
}

/// Starts the supervision of a program; it ends with the copy.
fn start_watching(shared: &Arc<RuntimeShared>, target: &Arc<TargetReceiver>) {
    if target.parts.copy.has_program() {
        let target = Arc::clone(target);
        shared.spawn("haul-program", move |shared| {
            let failed = target.parts.copy.watch_program(|| shared.pause(PROGRAM_POLL));
            failed.into_iter().for_each(|error| shared.fail(&error.to_string()));
        });
    }
}

/// Starts the commit thread; it ends once all entries are complete and durable.
fn start_settling(shared: &Arc<RuntimeShared>, target: &Arc<TargetReceiver>) {
    if target.committer.has_groups() {
        let target = Arc::clone(target);
        shared.work("haul-commit", move |shared| {
            let _entered = shared.stages.enter(None, Stage::Sync);
            target.run_commits();
            Ok(())
        });
    }
}

pub(super) fn start_both(shared: &Arc<RuntimeShared>, source: &Arc<Source>, target: &Arc<TargetReceiver>) {
    target.parts.copy.joins_source();
    start_walk(shared, source);
    start_proof(shared, target);
    let (from, to) = (Arc::clone(source), Arc::clone(target));
    shared.work("haul-offers", move |shared| {
        let _entered = shared.stages.enter(None, Stage::ExamineWait);
        forward_messages(|| from.wait_for_messages(), |message| during(Stage::Examine, || to.handle_peer(message)))
    });
    let (from, to) = (Arc::clone(target), Arc::clone(source));
    shared
        .work("haul-needs", move |_| forward_messages(|| from.wait_for_messages(), |message| to.handle_peer(message)));
    start_settling(shared, target);
    start_watching(shared, target);
    if source.compares() {
        return start_comparison(shared, source);
    }
    let streams = source.settings().streams;
    source.share_among(streams);
    for id in 0..streams {
        let (source, target) = (Arc::clone(source), Arc::clone(target));
        shared.work(&format!("haul-c{id}"), move |shared| {
            let _entered = shared.stages.enter(Some(id), Stage::Prepare);
            Ok(source.run_stream(StreamId(id), &mut DirectSink::new(&target))?)
        });
    }
}

fn send_messages(shared: &RuntimeShared, mut next: impl FnMut() -> Option<Vec<Vec<u8>>>) -> Result<(), WorkerError> {
    while let Some(messages) = next() {
        let sent = shared.control.send_all(ControlChannel::Peer, &messages);
        sent.map_err(|error| WorkerError::ControlChannel(error.into()))?;
    }
    Ok(())
}

fn forward_messages(
    mut next: impl FnMut() -> Option<Vec<Vec<u8>>>,
    take: impl Fn(&[u8]) -> Result<(), ProtocolError>,
) -> Result<(), WorkerError> {
    while let Some(messages) = next() {
        messages.iter().try_for_each(|message| take(message))?;
    }
    Ok(())
}

fn take_messages(shared: &RuntimeShared, target: &TargetReceiver, messages: &Receiver<Vec<u8>>) {
    let _entered = shared.stages.enter(None, Stage::ExamineWait);
    let (mut unpacking, copy) = (MessageDecompressor::default(), target.parts.copy.settings().number);
    for message in messages {
        let take = || target.handle_peer(&unpacking.unpack(&message, copy)?);
        if let Err(fault) = during(Stage::Examine, take) {
            shared.fail_for_good(&format!("protocol error of the source: {fault}"));
            return;
        }
    }
}

/// Reports counters, often at first, so that a copy that fails early has figures as well.
pub(super) fn report(shared: &RuntimeShared, every: Duration) {
    let mut pause = FIRST_REPORT.min(every);
    while shared.pause(pause) {
        shared.reporters().for_each(Reporter::progress);
        pause = (2 * pause).min(every);
    }
}

/// Samples the load. Only every [`resource_metrics::SAMPLES_PER_REPORT`]th sample is reported; the others refine the
/// rates of change.
pub(super) fn report_load(shared: &RuntimeShared) {
    let mut before = None;
    for sample in 1u32.. {
        if !shared.pause(resource_metrics::CHECK_EVERY) {
            return;
        }
        match sample % resource_metrics::SAMPLES_PER_REPORT {
            0 => {
                shared.report_load();
                shared.report_source_streams();
                shared.report_activity();
                shared.target.iter().for_each(|target| target.mark_progress(&mut before));
                shared.reporters().for_each(Reporter::report_slowest);
            }
            _ => drop(shared.sample_metrics()),
        }
    }
}
