//! Turns a failed start into an error with its kind, place and remedy.

use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

use haul_base::copy::End;
use haul_base::copy::error::Error;
use haul_base::trusted_files::quoted;

use crate::launch::ssh_master::agent_hangs;

/// Most lines of output from ssh or the host in an error.
const SHOWN_LINES: usize = 3;

/// Context of a start, in words that can be pasted into a shell.
#[derive(Debug, Clone)]
pub(super) struct LaunchScene {
    /// The host as the user named it.
    pub host: String,
    /// The end, which decides between `--source-command` and `--target-command`.
    pub end: End,
    /// A command that tests the connection alone.
    pub attempt: String,
    /// A quoted `--source-command` or `--target-command` command, with an example path of an administrator's.
    pub example: String,
    /// Whether the user gave the command.
    pub own_command: bool,
    /// ssh's connection timeout in seconds, if haul set it.
    pub connect_limit_s: Option<u64>,
    /// The agent that ssh asks for keys.
    pub agent: Option<PathBuf>,
}

/// Output and status of a child that ended before its greeting.
#[derive(Debug, Clone)]
pub(super) struct FailedChild {
    /// Its exit status, if it ended.
    pub status: Option<ExitStatus>,
    /// Its standard error.
    pub stderr: Vec<String>,
    /// Output in place of a greeting.
    pub noise: Vec<String>,
}

/// A known text of ssh or a login shell, its meaning, and the remedy. `{}` stands for the host, `{ssh}` for the test
/// command.
type KnownMessage = (&'static str, &'static str, &'static str);

/// ssh's exit status for failures of its own.
const SSH_FAILED: i32 = 255;

/// ssh's words for a passed time limit.
const TIMED_OUT: &str = "timed out";

/// The words of a shell that forbids `exec` (rbash, rksh).
const RESTRICTED: &str = ": restricted";

/// Searched in this order: a specific text precedes a general one.
const KNOWN: &[KnownMessage] = &[
    (
        "REMOTE HOST IDENTIFICATION HAS CHANGED",
        "the host key of {} has changed: a new installation, or a man-in-the-middle attack",
        "ask its administrator; if the key is right, remove the old one (ssh-keygen -R), then connect: {ssh}",
    ),
    ("Host key verification failed", "the host key of {} is unknown", "connect once and check the key: {ssh}"),
    (
        "Too many authentication failures",
        "{} refused the login after too many keys",
        "choose one key: -i KEY --ssh-option IdentitiesOnly=yes",
    ),
    (
        "Permission denied (",
        "{} refused the login",
        "use -i KEY, ssh-add or another account (user@host); to test: {ssh}",
    ),
    ("Could not resolve hostname", "cannot resolve {}", "check its spelling, or use an address"),
    (
        "Connection refused",
        "{} refused the connection: no ssh server at that port",
        "start its ssh server, or give the port: --ssh-port N",
    ),
    (TIMED_OUT, "{} did not answer", "check that it is up and that no firewall blocks it: {ssh}"),
    ("No route to host", "no route to {}", "check that it is up and that no firewall blocks it: {ssh}"),
    ("Network is unreachable", "the network of {} is unreachable", "check this host's network: {ssh}"),
    (
        "no matching ",
        "ssh and the server of {} have no common algorithm",
        "enable one of the server's, for example --ssh-option HostKeyAlgorithms=+ssh-rsa",
    ),
    (
        "Cannot execute command-line and remote command",
        "ssh's configuration has a RemoteCommand for {}",
        "disable it for haul: --ssh-option RemoteCommand=none",
    ),
    (
        RESTRICTED,
        "the account on {} has a restricted shell, which cannot install or search for haul",
        "put a haul of the same version in its PATH, or use another account (user@host)",
    ),
    ("onfiguration option", "ssh rejects an option", "correct ~/.ssh/config or --ssh-option"),
    (
        "Bad owner or permissions on",
        "ssh rejects its configuration file: wrong owner or permissions",
        "make the file writable by its owner only",
    ),
    (
        "account is currently not available",
        "the account on {} cannot run commands",
        "use an account with a login shell: user@host",
    ),
    ("Connection closed by", "{} closed the connection", "see its ssh server's log, or test the connection: {ssh}"),
    ("Connection reset by", "{} closed the connection", "see its ssh server's log, or test the connection: {ssh}"),
];

impl LaunchScene {
    /// Returns the error of a start that ended without a greeting.
    pub(super) fn ended(&self, remains: &FailedChild) -> Error {
        let output = remains.stderr.iter().chain(&remains.noise);
        let known = KNOWN.iter().find(|known| output.clone().any(|line| line.contains(known.0)));
        let (what, remedy) = match (self.missing_program(remains), known) {
            (Some(found), _) => found,
            (None, Some((text, what, remedy))) => {
                let what = match self.connect_limit_s {
                    Some(limit_s) if *text == TIMED_OUT => format!("connecting to {{}}: no answer within {limit_s} s"),
                    _ => (*what).to_owned(),
                };
                (what.replace("{}", &self.host), remedy.replace("{ssh}", &self.attempt))
            }
            (None, None) => {
                let logged_in = remains.status.and_then(|status| status.code()).is_some_and(|code| code != SSH_FAILED);
                let remedy = match logged_in && !self.own_command {
                    true => self.start_files("end the session"),
                    false => format!("test the connection: {}", self.attempt),
                };
                (format!("cannot start haul on {}: {}", self.host, describe_status(remains.status)), remedy)
            }
        };
        self.error(&what, remains, &remedy)
    }

    /// Whether the login shell forbids the script.
    pub(super) fn is_restricted(&self, remains: &FailedChild) -> bool {
        !self.own_command && remains.stderr.iter().any(|line| line.contains(RESTRICTED))
    }

    /// Returns the error of a host that let ssh in, and then did not start haul in time.
    pub(super) fn not_started(&self, waited: Duration, remains: &FailedChild) -> Error {
        let what = format!("haul did not start on {} within {} s of the login", self.host, waited.as_secs());
        let remedy = match self.own_command {
            true => format!("test the command: {}", self.attempt),
            false => self.start_files("run another program"),
        };
        self.error(&what, remains, &format!("{remedy}; if it is slow: --silence {}s", 5 * waited.as_secs().max(1)))
    }

    /// Returns a hint about what a login shell does before it runs a command.
    fn start_files(&self, what: &str) -> String {
        let test =
            self.attempt.strip_suffix("true").map_or_else(|| self.attempt.clone(), |ssh| format!("{ssh}echo ok"));
        format!("start-up files of the shell there (.bashrc) or a forced command may {what}: {test} must print ok")
    }

    /// Returns a warning if ssh waits for its agent.
    pub(super) fn hanging_agent(&self) -> Option<String> {
        let agent = self.agent.as_deref().filter(|agent| agent_hangs(agent))?;
        let agent = quoted(agent);
        Some(format!("the ssh agent at {agent} does not answer: restart it, or add --ssh-option IdentityAgent=none"))
    }

    /// Returns the error of a retry without any output in time.
    pub(super) fn silent(&self, waited: Duration) -> Error {
        let what = format!("{} did not answer within {} s", self.host, waited.as_secs());
        Error::Connect(format!("{what}\ncheck that it is up and that no firewall blocks it: {}", self.attempt))
    }

    /// Returns the error of a host with more output than any banner.
    pub(super) fn too_much_noise(&self, remains: &FailedChild) -> Error {
        let what = format!("{} printed too much before haul's greeting", self.host);
        self.error(&what, remains, "make its login shell silent when standard input is not a terminal")
    }

    /// Returns the error of a haul with another protocol version.
    pub(super) fn other_protocol(&self, version: &str, protocol: u32, own: u32) -> Error {
        let remedy = if self.own_command {
            format!("make {} run a haul of the same version", self.option())
        } else {
            "use the same version at both ends".to_owned()
        };
        Error::Connect(format!("haul {version} on {} speaks protocol {protocol}, this one {own}\n{remedy}", self.host))
    }

    /// Returns the error of a script that gave up. `found` describes the program found instead of haul.
    pub(super) fn cannot(&self, code: &str, detail: &str, found: &str) -> Error {
        let (why, remedy) = self.why_not(code, detail);
        Error::Connect(format!("{}, and it cannot be installed there: {why}\n{remedy}", self.has_none(found)))
    }

    /// Returns the error of a forbidden deployment; `why` names the policy and `remedy` the alternative.
    pub(super) fn not_allowed(&self, found: &str, why: &str, remedy: Option<&str>) -> Error {
        let remedy = remedy.map_or_else(|| self.place_by_hand(""), str::to_owned);
        Error::Connect(format!("{}, and {why}\n{remedy}", self.has_none(found)))
    }

    /// Returns a hint to use a haul installed by hand; `which` qualifies the directory.
    pub(super) fn place_by_hand(&self, which: &str) -> String {
        format!(
            "install haul in a directory{which} on {} and give its path: {} {}",
            self.host,
            self.option(),
            self.example
        )
    }

    fn other_directory(&self) -> String {
        format!("name another directory there: --remote-dir DIR, or {}", self.place_by_hand(""))
    }

    fn option(&self) -> &'static str {
        match self.end {
            End::Source => "--source-command",
            End::Target => "--target-command",
        }
    }

    fn has_none(&self, found: &str) -> String {
        match found.strip_prefix("other ") {
            Some(other) => format!("another version of haul on {} ({})", self.host, other.trim()),
            None => format!("no haul on {}", self.host),
        }
    }

    fn why_not(&self, code: &str, detail: &str) -> (String, String) {
        let with_detail = |text: &str| if detail.is_empty() { text.to_owned() } else { format!("{text} ({detail})") };
        match code {
            "arch" => (
                format!("the host is {detail}, but this haul is built for {}", own_system()),
                format!(
                    "give a haul built for it: --worker-binary FILE, the package haul-workers on this host, or {}",
                    self.place_by_hand("")
                ),
            ),
            "no-home" => (with_detail("the account has no home directory"), self.other_directory()),
            "read-only" => (with_detail("cannot write to the cache directory"), self.other_directory()),
            "no-space" => (with_detail("the disk is full"), format!("free space there, or {}", self.other_directory())),
            "noexec" => (with_detail("the cache directory allows no execution"), self.other_directory()),
            "unsafe" => (with_detail("the cache directory is not safe"), self.other_directory()),
            "policy" => (format!("{detail} forbids it"), self.place_by_hand("")),
            "no-tools" => (format!("the program {detail} is missing"), self.place_by_hand("")),
            "verify" => {
                (with_detail("the copy does not run there"), format!("try again, or {}", self.place_by_hand("")))
            }
            other => (with_detail(other), self.place_by_hand("")),
        }
    }

    /// Explains the exit status of a missing program, if no other explanation applies.
    fn missing_program(&self, remains: &FailedChild) -> Option<(String, String)> {
        let code = remains.status?.code()?;
        let why = match code {
            126 => "cannot be executed",
            127 => "was not found",
            _ => return None,
        };
        Some(if self.own_command {
            let what = format!("the program of {} {why} on {}", self.option(), self.host);
            (what, format!("give the full path of haul on that host: {} {}", self.option(), self.example))
        } else {
            (format!("a shell {why} on {}", self.host), self.place_by_hand(""))
        })
    }

    fn error(&self, what: &str, remains: &FailedChild, remedy: &str) -> Error {
        let mut lines = vec![what.to_owned()];
        for (who, output) in [("it said", &remains.noise), ("ssh said", &remains.stderr)] {
            let who = if who == "ssh said" && self.own_command { "the command said" } else { who };
            let shown = &output[output.len().saturating_sub(SHOWN_LINES)..];
            lines.extend(shown.iter().map(|line| format!("note: {who}: {line}")));
        }
        lines.push(remedy.to_owned());
        Error::Connect(lines.join("\n"))
    }
}

/// Returns the system of this build, as `uname` prints it.
pub(super) fn own_system() -> String {
    format!("Linux {}", std::env::consts::ARCH)
}

/// Describes how a process ended.
pub(super) fn describe_status(status: Option<ExitStatus>) -> String {
    let Some(status) = status else { return "does not end".into() };
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("ended with status {code}"),
        (None, Some(signal)) => format!("was killed by signal {signal}"),
        (None, None) => "ended".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scene() -> LaunchScene {
        LaunchScene {
            host: "ann@db1".into(),
            end: End::Target,
            attempt: "ssh -p 2222 ann@db1 true".into(),
            example: "'ssh -p 2222 %U@%H /opt/bin/haul'".into(),
            own_command: false,
            connect_limit_s: None,
            agent: None,
        }
    }

    fn ended(code: i32, stderr: &[&str], noise: &[&str]) -> String {
        let own = |lines: &[&str]| lines.iter().map(|&line| line.to_owned()).collect();
        let status = Some(ExitStatus::from_raw(code << 8));
        scene().ended(&FailedChild { status, stderr: own(stderr), noise: own(noise) }).to_string()
    }

    #[test]
    fn sshs_own_words_are_understood_and_shown() {
        let cases = [
            ("ann@db1: Permission denied (publickey,password).", "ann@db1 refused the login", "-i KEY"),
            ("ssh: Could not resolve hostname db1: Name or service not known", "cannot be resolved", "spelling"),
            ("ssh: connect to host db1 port 22: Connection refused", "ann@db1 refused the connection", "--ssh-port"),
            ("ssh: connect to host db1 port 22: Connection timed out", "did not answer", "firewall"),
            ("Connection timed out during banner exchange", "did not answer", "firewall"),
            ("ssh: connect to host db1 port 22: No route to host", "no route to ann@db1", "firewall"),
            ("Host key verification failed.", "is unknown", "ssh -p 2222 ann@db1 true"),
            (
                "Received disconnect from ::1 port 22:2: Too many authentication failures",
                "too many keys",
                "IdentitiesOnly",
            ),
            ("Cannot execute command-line and remote command.", "RemoteCommand", "RemoteCommand=none"),
            ("command-line: line 0: Bad configuration option: foo", "rejects an option", "--ssh-option"),
            ("Connection closed by 10.0.0.1 port 22", "closed the connection", "log"),
        ];
        for (text, what, remedy) in cases {
            let what = what.replace("cannot be resolved", "cannot resolve ann@db1");
            let error = ended(255, &["Warning: something", text], &[]);
            let lines: Vec<&str> = error.lines().collect();
            assert!(lines[0].contains(&what), "{error}");
            assert!(error.contains(&format!("ssh said: {text}")), "{error}");
            assert!(lines.last().unwrap().contains(remedy), "{error}");
        }
    }

    #[test]
    fn a_passed_limit_of_haul_is_named() {
        let scene = LaunchScene { connect_limit_s: Some(15), ..scene() };
        let stderr = vec!["Connection timed out during banner exchange".into()];
        let remains = FailedChild { status: Some(ExitStatus::from_raw(255 << 8)), stderr, noise: Vec::new() };
        let error = scene.ended(&remains).to_string();
        assert!(error.starts_with("connecting to ann@db1: no answer within 15 s\n"), "{error}");
    }

    #[test]
    fn a_changed_host_key_is_distinguished_from_an_unknown_one() {
        let error =
            ended(255, &["@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @", "Host key verification failed."], &[]);
        assert!(error.starts_with("the host key of ann@db1 has changed"), "{error}");
    }

    #[test]
    fn the_login_shells_output_is_shown() {
        let error = ended(1, &[], &["This account is currently not available."]);
        assert!(error.contains("cannot run commands") && error.contains("it said: This account"), "{error}");
        let error = ended(9, &[], &["a", "b", "c", "d"]);
        assert!(error.contains("ended with status 9") && !error.contains("it said: a"), "{error}");
        assert!(error.contains("it said: b\nnote: it said: c\nnote: it said: d"), "{error}");
    }

    #[test]
    fn a_missing_program_is_named_by_its_option() {
        let mut scene = scene();
        scene.own_command = true;
        scene.end = End::Source;
        let remains = FailedChild {
            status: Some(ExitStatus::from_raw(127 << 8)),
            stderr: vec!["bash: line 1: haul: command not found".into()],
            noise: Vec::new(),
        };
        let error = scene.ended(&remains).to_string();
        assert!(error.starts_with("the program of --source-command was not found on ann@db1"), "{error}");
        assert!(
            error.contains("the command said: bash")
                && error.ends_with("--source-command 'ssh -p 2222 %U@%H /opt/bin/haul'"),
            "{error}"
        );
    }

    #[test]
    fn each_exit_code_of_the_script_has_a_reason_and_remedy() {
        let codes = ["arch", "no-home", "read-only", "no-space", "noexec", "verify", "no-tools", "unsafe", "policy"];
        for code in codes {
            let error = scene().cannot(code, "some detail", "none").to_string();
            assert!(error.starts_with("no haul on ann@db1, and it cannot be installed there: "), "{error}");
            assert!(error.contains("some detail") && error.lines().count() == 2, "{error}");
        }
        let error =
            scene().cannot("noexec", "/home/ann/.cache", "other /usr/bin/haul haul 0.0.1 protocol 0").to_string();
        assert!(
            error.starts_with("another version of haul on ann@db1 (/usr/bin/haul haul 0.0.1 protocol 0), and"),
            "{error}"
        );
        assert!(error.contains("--target-command 'ssh -p 2222 %U@%H /opt/bin/haul'"), "{error}");
    }
}
