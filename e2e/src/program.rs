//! The real program: its path, its start in a test's own environment, and checks of its output and exit status.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use haul_lab::{Cgroup, Netns, Running, rebuild, run_with_timeout, start};

use crate::RUN_LIMIT;
use crate::schema::assert_valid;

/// Variables of the tests' user that could change haul's or ssh's behaviour.
const FOREIGN: [&str; 8] = [
    "bbcp_CONFIGFN",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_STATE_HOME",
    "SSH_AUTH_SOCK",
    "SSH_CONNECTION",
    "NO_COLOR",
    "CLICOLOR_FORCE",
];

/// Copies the program to `place`, to be run from there.
///
/// `cp` writes it: a child that another test's thread forks meanwhile would keep this process's own descriptor open for
/// writing until it executes something, and a file open for writing cannot be executed (ETXTBSY, execve(2)).
#[track_caller]
pub fn copy_haul_binary(place: &Path) {
    let status = Command::new("cp").arg(haul_binary()).arg(place).status().expect("cp runs");
    assert!(status.success(), "{}: {status}", place.display());
}

/// The program under test: `HAUL_BIN`, or the one built beside this test.
#[track_caller]
pub fn haul_binary() -> PathBuf {
    if let Some(named) = std::env::var_os("HAUL_BIN") {
        let path = PathBuf::from(named);
        assert!(
            path.is_absolute() && path.exists(),
            "HAUL_BIN is {}, which is no absolute path of a program",
            path.display()
        );
        return path;
    }
    // This is target/TRIPLE/PROFILE/deps/TEST, and the program is target/TRIPLE/PROFILE/haul.
    let test = std::env::current_exe().expect("a running test has an executable");
    let beside = test.parent().and_then(Path::parent).expect("it is three levels deep").join("haul");
    assert!(
        beside.exists(),
        "there is no {}: run `cargo build --package haul` first, or `cargo xtask test --only e2e`, which does",
        beside.display()
    );
    beside
}

/// One call of the program, to be completed and run.
#[derive(Debug)]
pub struct Haul<'a> {
    command: Command,
    netns: Option<&'a Netns>,
    cgroup: Option<&'a Cgroup>,
    limit: Duration,
}

impl<'a> Haul<'a> {
    /// This command in `directory`, with `home` as the home directory.
    pub(crate) fn new(mut command: Command, home: &Path, directory: &Path) -> Self {
        // Removed one by one, since a wrapper (a namespace, a control group) does not learn that all were cleared.
        for name in FOREIGN {
            command.env_remove(name);
        }
        // Without a runtime directory, each command logs in, and leaves nothing on a host.
        command.env("HOME", home).env("XDG_RUNTIME_DIR", "/nonexistent").env("LC_ALL", "C").current_dir(directory);
        Self { command, netns: None, cgroup: None, limit: RUN_LIMIT }
    }

    /// More arguments, after those that are there.
    pub fn args<Word: AsRef<OsStr>>(mut self, arguments: impl IntoIterator<Item = Word>) -> Self {
        self.command.args(arguments);
        self
    }

    /// One more argument.
    pub fn arg(self, argument: impl AsRef<OsStr>) -> Self {
        self.args([argument])
    }

    /// Sets a variable.
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Starts it in this directory; else it starts in the sandbox's.
    pub fn current_dir(mut self, directory: impl AsRef<Path>) -> Self {
        self.command.current_dir(directory);
        self
    }

    /// Runs it in a network namespace.
    pub fn netns(mut self, netns: &'a Netns) -> Self {
        self.netns = Some(netns);
        self
    }

    /// Runs it in a control group, which reveals leftover processes.
    pub fn cgroup(mut self, cgroup: &'a Cgroup) -> Self {
        self.cgroup = Some(cgroup);
        self
    }

    /// Runs it and its children under strace, with `fault` injected into one of its `call`s: see [`strace_arguments`].
    pub fn injecting(mut self, call: &str, fault: &str) -> Self {
        let mut strace = Command::new("strace");
        strace.args(strace_arguments(call, fault));
        self.command = rebuild(&self.command, strace);
        self
    }

    /// Runs it and its children under strace, which writes a table of their system calls (`-c`) into `table`.
    pub fn counting_calls(mut self, table: &Path) -> Self {
        let mut strace = Command::new("strace");
        strace.args(["-f", "-qq", "-c", "-U", "calls,name", "-o"]).arg(table);
        self.command = rebuild(&self.command, strace);
        self
    }

    /// Kills it after this time.
    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// The whole command, with the requested wrappers.
    pub fn into_command(self) -> Command {
        let mut command = self.command;
        if let Some(netns) = self.netns {
            command = netns.enclose(&command);
        }
        if let Some(cgroup) = self.cgroup {
            command = cgroup.enclose(&command);
        }
        command
    }

    /// Runs it to its end.
    #[track_caller]
    pub fn run(self) -> ProgramRun {
        let limit = self.limit;
        let command = self.into_command();
        let shown = format!("{command:?}");
        let finished = run_with_timeout(command, limit).unwrap_or_else(|error| panic!("{error:#}"));
        ProgramRun::new(shown, &finished)
    }

    /// Starts it and lets it run. `Running::finish` or dropping it ends it.
    #[track_caller]
    pub fn start(self) -> Running {
        start(self.into_command()).unwrap_or_else(|error| panic!("{error:#}"))
    }
}

/// Arguments for strace to make a system call fail, or to send a signal in it: `error=EIO:when=3` (strace(1),
/// `inject`). strace counts the calls of each thread.
pub fn strace_arguments(call: &str, fault: &str) -> Vec<String> {
    // It stops for no other calls with this; but then it sends signals at the first call or never (6.1).
    let quick = if fault.starts_with("signal") { "-f" } else { "--seccomp-bpf" };
    let words = ["-f", quick, "-qq", "-o", "/dev/null", "-e"].map(str::to_owned);
    [words.to_vec(), vec![format!("trace={call}"), "-e".to_owned(), format!("inject={call}:{fault}")]].concat()
}

/// The end of a run, and its output.
#[derive(Debug, Clone)]
pub struct ProgramRun {
    /// The command line.
    pub command: String,
    /// Exit status; none when a signal ended it.
    pub status: Option<i32>,
    /// Standard output, lossily converted to UTF-8.
    pub stdout: String,
    /// Standard error, lossily converted to UTF-8.
    pub stderr: String,
    /// From start to end.
    pub elapsed: Duration,
    /// The most resident memory of it, or of a process that it waited for; no less than the test's own.
    pub peak_memory_bytes: u64,
    /// Whether it had to be killed because its time was up.
    pub timed_out: bool,
}

impl ProgramRun {
    /// From the lab's report.
    pub fn new(command: String, finished: &haul_lab::Finished) -> Self {
        Self {
            command,
            status: finished.code(),
            stdout: finished.stdout_text(),
            stderr: finished.stderr_text(),
            elapsed: Duration::from_secs_f64(finished.wall_s),
            peak_memory_bytes: finished.peak_memory_bytes,
            timed_out: finished.timed_out,
        }
    }

    /// Waits for a started program, at most [`RUN_LIMIT`].
    #[track_caller]
    pub fn of(running: Running) -> Self {
        let finished = running.finish(RUN_LIMIT).unwrap_or_else(|error| panic!("{error:#}"));
        Self::new("haul".to_owned(), &finished)
    }

    /// Everything about it, for a failed test's message.
    pub fn account(&self) -> String {
        let Self { command, status, stdout, stderr, elapsed, timed_out, .. } = self;
        format!(
            "{command}\nstatus {status:?}, timed out: {timed_out}, {elapsed:?}\nstdout:\n{stdout}\nstderr:\n{stderr}"
        )
    }

    /// It has to have ended with this status.
    #[track_caller]
    pub fn ends(self, status: i32) -> Self {
        assert_eq!(self.status, Some(status), "{}", self.account());
        self
    }

    /// It has to have ended with status 0.
    #[track_caller]
    pub fn succeeds(self) -> Self {
        self.ends(0)
    }

    /// It has to have said each of `phrases` on standard error, in any case of letters.
    #[track_caller]
    pub fn says<'a>(self, phrases: impl IntoIterator<Item = &'a str>) -> Self {
        let said = self.stderr.to_lowercase();
        for phrase in phrases {
            assert!(said.contains(&phrase.to_lowercase()), "did not say {phrase:?}\n{}", self.account());
        }
        self
    }

    /// It may not have said `phrase` on standard error.
    #[track_caller]
    pub fn does_not_say(self, phrase: &str) -> Self {
        assert!(!self.stderr.to_lowercase().contains(&phrase.to_lowercase()), "said {phrase:?}\n{}", self.account());
        self
    }

    /// Its events, where it was run with `--json`: each line is one, and valid.
    #[track_caller]
    pub fn events(&self) -> Vec<serde_json::Value> {
        let parse = |line: &str| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error} in {line:?}"));
        let events: Vec<_> = self.stdout.lines().map(parse).collect();
        events.iter().for_each(assert_valid);
        events
    }

    /// Its last event, which must be the summary.
    #[track_caller]
    pub fn summary(&self) -> serde_json::Value {
        let last = self.events().pop().unwrap_or_else(|| panic!("no event\n{}", self.account()));
        assert_eq!(last["event"], "summary", "{}", self.account());
        last
    }
}
