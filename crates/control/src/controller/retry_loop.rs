//! Runs a copy in as many attempts as needed. After a lost connection, a new attempt starts new workers with a new
//! secret. It skips complete files at the target, as any rerun does.

use std::time::{Duration, Instant};

use haul_base::copy::error::{Error, GO_ON, Outcome};
use haul_base::copy::event::{Event, Observer};
use haul_base::copy::location::Host;
use haul_base::copy::runtime_control::RuntimeControl;
use haul_base::copy::spec::{CopySpec, DeleteMode, PipeEnd, WorkerProgram};
use haul_base::copy::summary::{CopyTimes, Summary, TransferTotals};
use haul_base::sys::cancel::Cancel;
use haul_proto::limits::WRONG_DELTAS_MAX;

use super::attempt::attempt;
use super::attempt_result::{CopyAttempt, EarlierAttempts};
use super::copy_check::check_copy;
use super::totals::CopyTotals;
use crate::controller::control_requests::ControlRequests;
use crate::controller::event_dedup::EventDedup;
use crate::controller::retry_policy::{RetryLoop, RetryStep};

/// Time limit for a login and start after a lost connection, as a multiple of ssh's connection timeout: the user may be
/// typing.
const GREETING_PART: u32 = 5;

/// Runs a copy to its end, in as many attempts as needed. Blocks; `cancel` ends it within a second. `steering` changes
/// its rate and stream count, and pauses it.
///
/// # Errors
/// See [`Error`]. Single files that fail are events, counted in the summary.
pub fn run(
    mut copy: CopySpec,
    program: WorkerProgram,
    cancel: &Cancel,
    steering: &RuntimeControl,
    observer: &mut dyn Observer,
) -> Outcome {
    if !copy.options.target.delete_first {
        return run_all(copy, &program, cancel, steering, observer);
    }
    let mut removing = copy.clone();
    removing.options.target.sync.delete = DeleteMode::Only;
    let removed = run_all(removing, &program, cancel, steering, observer)?;
    let sync = &mut copy.options.target.sync;
    (sync.delete, sync.removed_before) = (DeleteMode::No, removed.sync.removed);
    let copied = run_all(copy, &program, cancel, steering, observer)?;
    Ok(Summary {
        files: TransferTotals {
            failed: copied.files.failed + removed.files.failed,
            vanished: copied.files.vanished + removed.files.vanished,
            ..copied.files
        },
        sync: copied.sync.plus(removed.sync),
        times: CopyTimes {
            elapsed: copied.times.elapsed + removed.times.elapsed,
            paused: copied.times.paused + removed.times.paused,
            ..copied.times
        },
        ..copied
    })
}

fn run_all(
    copy: CopySpec,
    program: &WorkerProgram,
    cancel: &Cancel,
    steering: &RuntimeControl,
    observer: &mut dyn Observer,
) -> Outcome {
    let begun = Instant::now();
    let mut stopped = None;
    let outcome = run_attempts(copy, program, cancel, steering, observer, &mut stopped);
    match (outcome, stopped) {
        (Ok(last), _) => Ok(Summary { times: CopyTimes { elapsed: begun.elapsed(), ..last.times }, ..last }),
        (Err(error), None) => Err(error),
        (Err(error), Some(mut summary)) => {
            summary.times.elapsed = begun.elapsed();
            observer.event(&Event::Stopped(Box::new(summary)));
            Err(error)
        }
    }
}

/// Runs the attempts. An error leaves in `stopped` what they had done.
fn run_attempts(
    mut copy: CopySpec,
    program: &WorkerProgram,
    cancel: &Cancel,
    steering: &RuntimeControl,
    observer: &mut dyn Observer,
    stopped: &mut Option<Summary>,
) -> Outcome {
    check_copy(&copy)?;
    let mut retry = RetryLoop::new(copy.access.retries);
    let mut control_requests = ControlRequests::new(copy.options.streams.rate_bytes_per_s, steering);
    let mut totals = CopyTotals::default();
    let mut events = EventDedup::new(observer);
    let mut earlier = EarlierAttempts::none()?;
    loop {
        let CopyAttempt { outcome, stopped: last, ends, sync, new_tree, wrong_deltas, notices } =
            attempt(&mut copy, program, cancel, &mut control_requests, &mut events, earlier);
        let error = match outcome {
            Ok(last) => return Ok(totals.complete(last, retry.begun())),
            Err(error) => error,
        };
        *stopped = last.map(|last| totals.clone().complete(last, retry.begun())).or(stopped.take());
        if is_once(&copy) {
            return Err(of_pipe(error));
        }
        let broke = matches!(error, Error::Broken(_));
        earlier.was_under_way |= broke;
        earlier.own_tree |= new_tree;
        earlier.wrong_deltas = earlier.wrong_deltas.max(wrong_deltas).min(WRONG_DELTAS_MAX);
        earlier.notices = notices;
        let is_lost = broke || matches!(error, Error::Connect(_));
        let is_wanted = copy.access.retries.from_the_start || earlier.was_under_way && has_connection(&copy);
        if !(is_lost && is_wanted) {
            return Err(error);
        }
        let Some(next) = retry.next(Instant::now(), &ends[0].plus(&ends[1]), broke) else {
            return Err(given_up(error, earlier.was_under_way, retry.begun()));
        };
        totals.add(&ends, sync);
        // `--max-delete` limits the total over all attempts.
        let removed_before = &mut copy.options.target.sync.removed_before;
        *removed_before = removed_before.saturating_add(sync.removed);
        events.event(&again(&error, &next, &copy));
        pause(next.pause, cancel)?;
        copy.access.connect_timeout = next.connect_timeout;
        copy.access.greeting_timeout = Some(GREETING_PART * next.connect_timeout);
        control_requests.begin_again();
        events.begin_again();
    }
}

/// Whether an end is a pipe that cannot be reopened.
fn is_once(copy: &CopySpec) -> bool {
    let may_be_again = |piped: &PipeEnd| matches!(piped, PipeEnd::Growing(_));
    let ends = [&copy.options.pipes.source, &copy.options.pipes.target];
    !ends.into_iter().flatten().all(may_be_again)
}

/// Removes the hint to resume: piped data cannot be replayed.
fn of_pipe(error: Error) -> Error {
    match error {
        Error::Broken(text) => {
            let text = text.strip_suffix(GO_ON).unwrap_or(&text).trim_end();
            Error::Failed(format!("{text}\na pipe cannot be resumed: restart the copy from its beginning"))
        }
        error => error,
    }
}

/// Whether the copy involves another host.
fn has_connection(copy: &CopySpec) -> bool {
    [copy.source_host(), &copy.target.host].into_iter().any(|host| *host != Host::Local)
}

fn again(error: &Error, next: &RetryStep, copy: &CopySpec) -> Event {
    let text = error.to_string();
    Event::Restarted {
        reason: text.lines().next().unwrap_or_default().to_owned(),
        pause: next.pause,
        attempt: next.attempt,
        attempts: copy.access.retries.times,
        left: next.left,
    }
}

/// Returns the last error, with the number of attempts. A copy that was under way can be resumed, whatever ended the
/// last attempt.
fn given_up(error: Error, was_under_way: bool, attempts: u32) -> Error {
    if attempts == 0 {
        return error;
    }
    let text = error.to_string();
    let text = text.strip_suffix(GO_ON).unwrap_or(&text).trim_end();
    let times = if attempts == 1 { "1 time".to_owned() } else { format!("{attempts} times") };
    let text = format!("{text}\nnote: reconnected {times} without success");
    if was_under_way { Error::Broken(format!("{text}\n{GO_ON}")) } else { Error::Connect(text) }
}

fn pause(length: Duration, cancel: &Cancel) -> Result<(), Error> {
    if cancel.wait(length) { Err(Error::Interrupted) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use haul_base::copy::location::Location;
    use haul_base::copy::spec::{CopyOptions, RemoteAccess, Retries};
    use haul_proto::feature::{Features, PROTOCOL_VERSION};
    use haul_proto::path::Name;
    use haul_proto::wire::control_channel::{ControlChannel, encode_header};
    use haul_proto::wire::report::{WindowLimits, WorkerHello, WorkerMessage};
    use haul_proto::wire::request::TargetOperand;

    use super::*;

    struct Listener(Vec<Event>);

    impl Observer for Listener {
        fn event(&mut self, event: &Event) {
            self.0.push(event.clone());
        }
    }

    /// Runs a copy whose remote host is unreachable.
    fn unreachable(retries: Retries, cancel: &Cancel) -> (Error, Vec<Event>) {
        let location = |host, path: &str| Location { host, path: path.into() };
        let far = Host::Remote { user: None, name: "far".into() };
        let access = RemoteAccess { target_command: Some("false".into()), retries, ..RemoteAccess::default() };
        let copy = CopySpec {
            sources: vec![location(Host::Local, "source")],
            list: None,
            target: location(far, "target"),
            options: CopyOptions::default(),
            access,
        };
        let script = format!("printf '{}'; cat", haul_base::copy::hello::greeting_line().replace('\n', "\\n"));
        let program = WorkerProgram {
            executable: "/bin/sh".into(),
            worker_arguments: vec!["-c".into(), script.into()],
            ..WorkerProgram::default()
        };
        let mut listener = Listener(Vec::new());
        (run(copy, program, cancel, &RuntimeControl::new(), &mut listener).unwrap_err(), listener.0)
    }

    #[test]
    fn an_unreached_host_is_retried_only_on_request() {
        let (error, events) = unreachable(Retries::default(), &Cancel::new());
        assert!(matches!(&error, Error::Connect(_)) && !error.to_string().contains("without success"), "{error}");
        assert!(events.is_empty(), "{events:?}");
        let asked = Retries { times: Some(1), time: None, breaks: None, from_the_start: true };
        let (error, events) = unreachable(asked, &Cancel::new());
        assert!(matches!(error, Error::Connect(_)), "{error:?}");
        assert!(error.to_string().ends_with("\nnote: reconnected 1 time without success"), "{error}");
        let [Event::Restarted { reason, attempt: 1, attempts: Some(1), left: None, .. }] = &events[..] else {
            panic!("{events:?}");
        };
        assert!(reason.contains("far") && reason.lines().count() == 1, "{reason}");
    }

    /// Returns a worker's greeting and Hello.
    fn greeting() -> Vec<u8> {
        let hello = WorkerMessage::Hello(WorkerHello {
            protocol: PROTOCOL_VERSION,
            features: Features::ALL,
            cores: 1,
            aes: true,
            boot: [7; 16],
            ssh_connection: None,
            addresses: Vec::new(),
            rate_bytes_per_s: 0,
            windows: WindowLimits::default(),
            requires_blake3: false,
        });
        [haul_base::copy::hello::greeting_line().into_bytes(), frame(&hello)].concat()
    }

    fn frame(message: &WorkerMessage) -> Vec<u8> {
        let content = message.encode();
        [encode_header(ControlChannel::Controller, u32::try_from(content.len()).unwrap()).to_vec(), content].concat()
    }

    /// Runs a copy whose target sends this message in each attempt after its Request. Returns the error and the number
    /// of restarts.
    fn with_target(message: &WorkerMessage) -> (Error, usize) {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str, bytes: &[u8]| {
            std::fs::write(dir.path().join(name), bytes).unwrap();
            dir.path().join(name).display().to_string()
        };
        let operand = TargetOperand { name: Name::new(b"source").ok(), directory: false, device: 1, inode: 1 };
        let ready = WorkerMessage::SourceReady { operands: vec![Some(operand)], origin: [0; 32] };
        let hello = file("hello", &greeting());
        // This size means a Request, which follows the Hellos of both ends; a heartbeat has 6 bytes.
        let says = |name: &str, message: &WorkerMessage| {
            let message = file(name, &frame(message));
            format!("cat {hello}; head -c 100 >{0}; cat {message}; cat >{0}", dir.path().join("heard").display())
        };
        let script = file("script", says("far", message).as_bytes());
        let location = |host, path: &str| Location { host, path: path.into() };
        let retries = Retries { times: Some(1), time: None, breaks: None, from_the_start: true };
        let access =
            RemoteAccess { target_command: Some(format!("/bin/sh {script}")), retries, ..RemoteAccess::default() };
        let copy = CopySpec {
            sources: vec![location(Host::Local, "source")],
            list: None,
            target: location(Host::Remote { user: None, name: "far".into() }, "target"),
            options: CopyOptions::default(),
            access,
        };
        let arguments = vec!["-c".into(), says("near", &ready).into()];
        let program =
            WorkerProgram { executable: "/bin/sh".into(), worker_arguments: arguments, ..WorkerProgram::default() };
        let mut listener = Listener(Vec::new());
        let error = run(copy, program, &Cancel::new(), &RuntimeControl::new(), &mut listener).unwrap_err();
        let again = listener.0.iter().filter(|event| matches!(event, Event::Restarted { .. })).count();
        (error, again)
    }

    #[test]
    fn a_protocol_fault_is_not_retried() {
        let fatal = |fault| WorkerMessage::Fatal { fault, text: "an invalid message".into() };
        let (error, again) = with_target(&fatal(true));
        assert!(matches!(&error, Error::Failed(text) if text.contains("an invalid message")), "{error:?}");
        assert_eq!(again, 0);
        let (error, again) = with_target(&fatal(false));
        assert!(matches!(error, Error::Connect(_)), "{error:?}");
        assert_eq!(again, 1);
    }

    #[test]
    fn a_pause_ends_when_the_copy_is_cancelled() {
        let cancel = Cancel::new();
        let stop = cancel.clone();
        let stopping = thread::spawn(move || {
            thread::sleep(Duration::from_millis(100));
            stop.cancel();
        });
        let began = Instant::now();
        assert!(matches!(pause(Duration::from_secs(60), &cancel), Err(Error::Interrupted)));
        assert!(began.elapsed() < Duration::from_secs(5));
        stopping.join().unwrap();
    }

    #[test]
    fn a_started_copy_can_be_resumed() {
        let error = given_up(Error::Connect("far is down\nask there".into()), true, 3);
        assert!(matches!(error, Error::Broken(_)));
        assert_eq!(
            error.to_string(),
            format!("far is down\nask there\nnote: reconnected 3 times without success\n{GO_ON}")
        );
        let broken = given_up(Error::Broken(format!("far was lost\n{GO_ON}")), true, 0);
        assert_eq!(broken.to_string(), format!("far was lost\n{GO_ON}"));
    }
}
