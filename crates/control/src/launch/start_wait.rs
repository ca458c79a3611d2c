//! How long a start through ssh may say nothing: while ssh logs in, and after that.
//!
//! ssh asks questions on the terminal, and a server may wait for a second factor: only the end of the login starts the
//! short limit. ssh tells it in words ([`TELLS_LOGIN`]). A client of a shared connection has none of its own, which
//! its only descriptor shows.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use haul_base::sys::child::{ChildErrors, ChildGuard};

use crate::launch::prompt::Prompter;

/// ssh's option that makes it say [`LOGGED_IN`].
pub(super) const TELLS_LOGIN: &str = "LogLevel=VERBOSE";

/// The beginning of ssh's line about a login.
const LOGGED_IN: &str = "Authenticated to ";

/// The beginnings of ssh's lines that only [`TELLS_LOGIN`] or a master (`ssh_master`) brings.
const REPORTS: [&str; 6] = [
    LOGGED_IN,
    "Authenticated using ",
    "Transferred: sent ",
    "Bytes per second: sent ",
    "mux_client_request_session: ",
    "ControlSocket ",
];

/// Longest login without a question on the terminal. A server usually gives up after 2 min (LoginGraceTime).
pub(super) const LOGIN_LIMIT: Duration = Duration::from_secs(600);

/// A start that takes longer after the login is reported.
const SLOW_START: Duration = Duration::from_secs(5);

/// Drops the lines that ssh prints only because of haul's options.
pub fn drop_ssh_reports(lines: &mut Vec<String>) {
    lines.retain(|line| !REPORTS.iter().any(|start| line.starts_with(start)));
}

/// What a wait has come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StartWaitState {
    /// It goes on.
    Waiting,
    /// It goes on, and is long enough to be reported; returned once.
    Slow,
    /// The login goes on, and asks nothing; returned once.
    SlowLogin,
    /// The login took too long.
    NoLogin,
    /// haul has not started in this time after the login.
    NoStart(Duration),
}

/// The wait for a child that logs in, and then starts haul.
#[derive(Debug)]
pub(super) struct StartWait {
    child: u32,
    errors: ChildErrors,
    prompter: Option<Prompter>,
    begun: Instant,
    login_limit: Duration,
    start_limit: Duration,
    /// The end of the login, or of the last step after it.
    since: Option<Instant>,
    has_said: bool,
    is_reported: bool,
    is_login_reported: bool,
}

impl StartWait {
    /// Begins to wait for `child`. Each step after the login may take `start_limit`.
    pub(super) fn new(child: &ChildGuard, login_limit: Duration, start_limit: Duration) -> Self {
        Self {
            child: child.id(),
            errors: child.errors(),
            prompter: Prompter::of(child.id()),
            begun: Instant::now(),
            login_limit,
            start_limit,
            since: None,
            has_said: false,
            is_reported: false,
            is_login_reported: false,
        }
    }

    /// Any output shows that the login has ended.
    pub(super) fn heard(&mut self) {
        self.has_said = true;
        self.since.get_or_insert_with(Instant::now);
    }

    /// A step has ended; the next one may take this much longer.
    pub(super) fn begin_step(&mut self, longer: Duration) {
        self.since = Some(Instant::now() + longer);
    }

    /// Looks how far it is.
    pub(super) fn check(&mut self) -> StartWaitState {
        self.has_said = self.has_said || self.errors.has_line(LOGGED_IN);
        if !self.has_said && !self.prompter.as_ref().is_some_and(Prompter::shares_connection) {
            self.since = None;
            let waited = self.begun.elapsed();
            let is_slow = waited > SLOW_START && !self.is_login_reported;
            if (is_slow || waited > self.login_limit) && !asks_on_terminal(self.child) {
                self.is_login_reported = true;
                return if is_slow { StartWaitState::SlowLogin } else { StartWaitState::NoLogin };
            }
            return StartWaitState::Waiting;
        }
        let waited = self.since.get_or_insert_with(Instant::now).elapsed();
        if waited > self.start_limit {
            return StartWaitState::NoStart(self.start_limit);
        }
        if waited > SLOW_START && !self.is_reported {
            self.is_reported = true;
            return StartWaitState::Slow;
        }
        StartWaitState::Waiting
    }
}

/// Whether a program that this process started asks something on the terminal: ssh, or the ssh that it started for a
/// jump. Words would land in its question.
pub fn is_question_open() -> bool {
    is_asked_below(std::process::id())
}

fn is_asked_below(process: u32) -> bool {
    let Ok(threads) = fs::read_dir(format!("/proc/{process}/task")) else { return false };
    let children = threads.flatten().filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    children
        .flat_map(|ids| ids.split_ascii_whitespace().filter_map(|id| id.parse().ok()).collect::<Vec<_>>())
        .any(|child| asks_on_terminal(child) || is_asked_below(child))
}

/// Whether a child has opened a terminal, as ssh does for the time of a question. Its standard streams are pipes.
fn asks_on_terminal(child: u32) -> bool {
    let Ok(descriptors) = fs::read_dir(format!("/proc/{child}/fd")) else { return false };
    let is_terminal = |path: &Path| path == Path::new("/dev/tty") || path.starts_with("/dev/pts");
    descriptors.flatten().any(|descriptor| fs::read_link(descriptor.path()).is_ok_and(|path| is_terminal(&path)))
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::thread;

    use haul_base::sys::child::{SpawnedChild, spawn};

    use super::*;

    const LONG: Duration = Duration::from_secs(600);
    const SHORT: Duration = Duration::from_millis(20);

    fn shell(script: &str) -> SpawnedChild {
        spawn(Command::new("bash").args(["-c", script])).unwrap()
    }

    /// Waits for a state other than the usual one.
    fn outcome(wait: &mut StartWait) -> StartWaitState {
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            match wait.check() {
                StartWaitState::Waiting if Instant::now() < deadline => thread::sleep(Duration::from_millis(1)),
                state => return state,
            }
        }
    }

    #[test]
    fn only_the_end_of_the_login_starts_the_limit() {
        let says_so = "echo 'Authenticated to db1 ([::1]:22) using \"none\".' >&2; read -t 20";
        let spawned = shell(says_so);
        assert_eq!(outcome(&mut StartWait::new(&spawned.guard, LONG, SHORT)), StartWaitState::NoStart(SHORT));
        let mute = shell("read -t 20");
        let mut wait = StartWait::new(&mute.guard, LONG, Duration::ZERO);
        (0..10).for_each(|_| assert_eq!(wait.check(), StartWaitState::Waiting));
        wait.heard();
        assert_eq!(outcome(&mut wait), StartWaitState::NoStart(Duration::ZERO));
        wait.begin_step(LONG);
        assert_eq!(wait.check(), StartWaitState::Waiting);
    }

    #[test]
    fn a_login_has_a_limit_unless_a_question_waits() {
        let mute = shell("read -t 20");
        assert_eq!(outcome(&mut StartWait::new(&mute.guard, SHORT, LONG)), StartWaitState::NoLogin);
        // `script` gives its child a terminal, and opens no other.
        let ask = "exec script -qec 'echo $$; exec sleep 20' /dev/null";
        let mut asking = shell(ask);
        let mut id = String::new();
        while !id.ends_with('\n') {
            let mut byte = [0];
            std::io::Read::read_exact(&mut asking.stdout, &mut byte).unwrap();
            id.push(char::from(byte[0]));
        }
        assert!(asks_on_terminal(id.trim().parse().unwrap()));
        assert!(!asks_on_terminal(mute.guard.id()));
        assert!(is_question_open() && !is_asked_below(mute.guard.id()));
    }

    #[test]
    fn a_slow_login_is_reported_once() {
        let mute = shell("read -t 20");
        let mut wait = StartWait::new(&mute.guard, LONG, LONG);
        wait.begun = Instant::now().checked_sub(SLOW_START * 2).unwrap();
        assert_eq!([wait.check(), wait.check()], [StartWaitState::SlowLogin, StartWaitState::Waiting]);
    }

    #[test]
    fn a_slow_start_is_reported_once() {
        let spawned = shell("read -t 20");
        let mut wait = StartWait::new(&spawned.guard, LONG, LONG);
        wait.heard();
        wait.since = Instant::now().checked_sub(SLOW_START * 2);
        assert_eq!([wait.check(), wait.check()], [StartWaitState::Slow, StartWaitState::Waiting]);
    }

    #[test]
    fn sshs_reports_are_told_from_its_complaints() {
        let mut lines = [
            "Authenticated to db1 ([::1]:22) using \"publickey\".",
            "Timeout, server db1 not responding.",
            "Transferred: sent 3472, received 3280 bytes, in 0.2 seconds",
            "Bytes per second: sent 15993.1, received 15108.7",
        ]
        .map(str::to_owned)
        .to_vec();
        drop_ssh_reports(&mut lines);
        assert_eq!(lines, ["Timeout, server db1 not responding."]);
    }
}
