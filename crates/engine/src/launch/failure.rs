//! Turns a failed start into an error with its kind, place and remedy.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

use crate::job::error::Error;

use crate::job::End;

/// Most lines of output from ssh or the host in an error.
const SHOWN_LINES: usize = 3;

/// Context of a start, in words that can be pasted into a shell.
#[derive(Debug, Clone)]
pub(super) struct LaunchScene {
    /// The host as the user named it.
    pub host: String,
    /// The end, which decides between `-S` and `-T`.
    pub end: End,
    /// A command that tests the connection alone.
    pub attempt: String,
    /// A quoted `-S` or `-T` command, with an example path of an administrator's.
    pub example: String,
    /// Whether the user gave the command.
    pub own_command: bool,
    /// ssh's connection timeout in seconds, if haul set it.
    pub connect_limit_s: Option<u64>,
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

/// ssh's words for a passed time limit.
const TIMED_OUT: &str = "timed out";

/// Searched in this order: a specific text precedes a general one.
const KNOWN: &[KnownMessage] = &[
    (
        "REMOTE HOST IDENTIFICATION HAS CHANGED",
        "the host key of {} is not the one that is known: it was installed anew, or someone stands in between",
        "ask its administrator; if the new key is right, remove the old one with ssh-keygen -R and connect once: {ssh}",
    ),
    (
        "Host key verification failed",
        "the host key of {} is not known here",
        "connect once and compare the key that is shown: {ssh}",
    ),
    (
        "Too many authentication failures",
        "{} refused the login after too many keys",
        "name the right key: -i KEY --ssh-option IdentitiesOnly=yes",
    ),
    (
        "Permission denied (",
        "{} refused the login",
        "name a key with -i KEY, load one with ssh-add, or name another account (user@host); try it: {ssh}",
    ),
    ("Could not resolve hostname", "{} is not a name that can be resolved", "check its spelling, or use an address"),
    (
        "Connection refused",
        "nothing on {} accepts ssh connections at that port",
        "start its ssh server, or name the port: --ssh-port N",
    ),
    (TIMED_OUT, "{} did not answer", "check that it is up and that no firewall is in the way: {ssh}"),
    ("No route to host", "there is no way to {}", "check that it is up and that no firewall is in the way: {ssh}"),
    ("Network is unreachable", "there is no way to {}", "check this host's network: {ssh}"),
    (
        "no matching ",
        "ssh and the server of {} have no algorithm in common",
        "allow one that both know with --ssh-option, for example --ssh-option HostKeyAlgorithms=+ssh-rsa",
    ),
    (
        "Cannot execute command-line and remote command",
        "ssh's configuration has a RemoteCommand for {}",
        "turn it off for haul: --ssh-option RemoteCommand=none",
    ),
    ("onfiguration option", "ssh does not understand its options", "correct ~/.ssh/config or --ssh-option"),
    (
        "Bad owner or permissions on",
        "ssh does not trust its own configuration",
        "make that file writable by its owner only",
    ),
    (
        "account is currently not available",
        "the account at {} allows no commands",
        "use an account with a login shell: user@host",
    ),
    ("Connection closed by", "{} closed the connection", "look into its ssh server's log, or try it: {ssh}"),
    ("Connection reset by", "{} closed the connection", "look into its ssh server's log, or try it: {ssh}"),
];

impl LaunchScene {
    /// Returns the error of a start that ended without a greeting.
    pub(super) fn ended(&self, remains: &FailedChild) -> Error {
        let said = remains.stderr.iter().chain(&remains.noise);
        let known = KNOWN.iter().find(|known| said.clone().any(|line| line.contains(known.0)));
        let (what, remedy) = match (self.missing_program(remains), known) {
            (Some(found), _) => found,
            (None, Some((text, what, remedy))) => {
                let what = match self.connect_limit_s {
                    Some(limit_s) if *text == TIMED_OUT => format!("connecting to {{}}: no answer within {limit_s} s"),
                    _ => (*what).to_owned(),
                };
                (what.replace("{}", &self.host), remedy.replace("{ssh}", &self.attempt))
            }
            (None, None) => (
                format!("haul could not be started at {}: {}", self.host, status_words(remains.status)),
                format!("try the connection alone: {}", self.attempt),
            ),
        };
        self.error(&what, remains, &remedy)
    }

    /// Returns the error of a retry without any output in time.
    pub(super) fn silent(&self, waited: Duration) -> Error {
        let what = format!("{} did not answer within {} s", self.host, waited.as_secs());
        Error::Connect(format!("{what}\ncheck that it is up and that no firewall is in the way: {}", self.attempt))
    }

    /// Returns the error of a host with more output than any banner.
    pub(super) fn too_much_noise(&self, remains: &FailedChild) -> Error {
        let what = format!("{} printed too much else before haul could speak", self.host);
        self.error(&what, remains, "let its login shell print nothing when its input is not a terminal")
    }

    /// Returns the error of a haul with another protocol version.
    pub(super) fn other_protocol(&self, version: &str, protocol: u32, own: u32) -> Error {
        let remedy = if self.own_command {
            format!("let {} name a haul of the same version", self.option())
        } else {
            "use the same version at both ends".to_owned()
        };
        Error::Connect(format!(
            "haul {version} at {} speaks protocol {protocol}, and this one speaks {own}\n{remedy}",
            self.host
        ))
    }

    /// Returns the error of a script that gave up. `found` describes the program found instead of haul.
    pub(super) fn cannot(&self, code: &str, detail: &str, found: &str) -> Error {
        let (why, remedy) = self.why_not(code, detail);
        Error::Connect(format!("{}, and none could be put there: {why}\n{remedy}", self.has_none(found)))
    }

    /// Returns the error of a forbidden deployment; `why` names the policy and `remedy` the alternative.
    pub(super) fn not_allowed(&self, found: &str, why: &str, remedy: Option<&str>) -> Error {
        let remedy = remedy.map_or_else(|| self.place_by_hand(""), str::to_owned);
        Error::Connect(format!("{}, and {why}\n{remedy}", self.has_none(found)))
    }

    /// Returns a hint to use a haul installed by hand; `which` qualifies the directory.
    pub(super) fn place_by_hand(&self, which: &str) -> String {
        format!(
            "put haul into a directory{which} of {} and name it, for example: {} {}",
            self.host,
            self.option(),
            self.example
        )
    }

    fn option(&self) -> &'static str {
        match self.end {
            End::Source => "-S",
            End::Target => "-T",
        }
    }

    fn has_none(&self, found: &str) -> String {
        match found.strip_prefix("other ") {
            Some(other) => format!("{} has another haul ({})", self.host, other.trim()),
            None => format!("{} has no haul", self.host),
        }
    }

    fn why_not(&self, code: &str, detail: &str) -> (String, String) {
        let with_detail = |text: &str| if detail.is_empty() { text.to_owned() } else { format!("{text} ({detail})") };
        match code {
            "arch" => (
                format!("it is {detail}, and this haul was built for {}", own_system()),
                self.place_by_hand(" (a haul built for it)"),
            ),
            "no-home" => (with_detail("the account has no home directory"), self.place_by_hand("")),
            "read-only" => (with_detail("its cache directory cannot be written"), self.place_by_hand("")),
            "no-space" => (
                with_detail("its disk is full"),
                "make room in the account's home directory there, or use another account".into(),
            ),
            "noexec" => (
                with_detail("its home directory does not allow execution, noexec"),
                self.place_by_hand(" that allows execution"),
            ),
            "unsafe" => (with_detail("its cache directory is not safe"), self.place_by_hand("")),
            "policy" => (format!("{detail} forbids it"), self.place_by_hand("")),
            "no-tools" => (format!("it has no program {detail}"), self.place_by_hand("")),
            "verify" => (
                with_detail("what arrived does not work there"),
                format!("try again; if it stays so, {}", self.place_by_hand("")),
            ),
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
            let what = format!("the program that {} names {why} at {}", self.option(), self.host);
            (what, format!("give haul's full path on that host, for example: {} {}", self.option(), self.example))
        } else {
            (format!("a shell {why} at {}", self.host), self.place_by_hand(""))
        })
    }

    fn error(&self, what: &str, remains: &FailedChild, remedy: &str) -> Error {
        let mut lines = vec![what.to_owned()];
        for (who, said) in [("it said", &remains.noise), ("ssh said", &remains.stderr)] {
            let who = if who == "ssh said" && self.own_command { "the command said" } else { who };
            let shown = &said[said.len().saturating_sub(SHOWN_LINES)..];
            lines.extend(shown.iter().map(|line| format!("{who}: {line}")));
        }
        lines.push(remedy.to_owned());
        Error::Connect(lines.join("\n"))
    }
}

/// Returns the system of this build, as `uname` prints it.
fn own_system() -> String {
    format!("Linux {}", std::env::consts::ARCH)
}

/// Describes how a process ended.
pub(super) fn status_words(status: Option<ExitStatus>) -> String {
    let Some(status) = status else { return "it does not end".into() };
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("it ended with status {code}"),
        (None, Some(signal)) => format!("it was ended by signal {signal}"),
        (None, None) => "it ended".into(),
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
            ("ssh: connect to host db1 port 22: Connection refused", "nothing on ann@db1 accepts", "--ssh-port"),
            ("ssh: connect to host db1 port 22: Connection timed out", "did not answer", "firewall"),
            ("Connection timed out during banner exchange", "did not answer", "firewall"),
            ("ssh: connect to host db1 port 22: No route to host", "no way to ann@db1", "firewall"),
            ("Host key verification failed.", "is not known here", "ssh -p 2222 ann@db1 true"),
            (
                "Received disconnect from ::1 port 22:2: Too many authentication failures",
                "too many keys",
                "IdentitiesOnly",
            ),
            ("Cannot execute command-line and remote command.", "RemoteCommand", "RemoteCommand=none"),
            ("command-line: line 0: Bad configuration option: foo", "does not understand its options", "--ssh-option"),
            ("Connection closed by 10.0.0.1 port 22", "closed the connection", "log"),
        ];
        for (text, what, remedy) in cases {
            let what = what.replace("cannot be resolved", "is not a name that can be resolved");
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
    fn a_changed_host_key_is_not_taken_for_an_unknown_one() {
        let error =
            ended(255, &["@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @", "Host key verification failed."], &[]);
        assert!(error.starts_with("the host key of ann@db1 is not the one that is known"), "{error}");
    }

    #[test]
    fn what_the_login_shell_said_is_shown() {
        let error = ended(1, &[], &["This account is currently not available."]);
        assert!(error.contains("allows no commands") && error.contains("it said: This account"), "{error}");
        let error = ended(9, &[], &["a", "b", "c", "d"]);
        assert!(error.contains("it ended with status 9") && !error.contains("it said: a"), "{error}");
        assert!(error.contains("it said: b\nit said: c\nit said: d"), "{error}");
    }

    #[test]
    fn a_program_that_is_not_there_is_named_by_its_option() {
        let mut scene = scene();
        scene.own_command = true;
        scene.end = End::Source;
        let remains = FailedChild {
            status: Some(ExitStatus::from_raw(127 << 8)),
            stderr: vec!["bash: line 1: haul: command not found".into()],
            noise: Vec::new(),
        };
        let error = scene.ended(&remains).to_string();
        assert!(error.starts_with("the program that -S names was not found at ann@db1"), "{error}");
        assert!(
            error.contains("the command said: bash") && error.ends_with("-S 'ssh -p 2222 %U@%H /opt/bin/haul'"),
            "{error}"
        );
    }

    #[test]
    fn each_code_of_the_script_says_why_and_what_to_do() {
        let codes = ["arch", "no-home", "read-only", "no-space", "noexec", "verify", "no-tools", "unsafe", "policy"];
        for code in codes {
            let error = scene().cannot(code, "some detail", "none").to_string();
            assert!(error.starts_with("ann@db1 has no haul, and none could be put there: "), "{error}");
            assert!(error.contains("some detail") && error.lines().count() == 2, "{error}");
        }
        let error =
            scene().cannot("noexec", "/home/ann/.cache", "other /usr/bin/haul haul 0.0.1 protocol 0").to_string();
        assert!(error.starts_with("ann@db1 has another haul (/usr/bin/haul haul 0.0.1 protocol 0), and"), "{error}");
        assert!(error.contains("-T 'ssh -p 2222 %U@%H /opt/bin/haul'"), "{error}");
    }
}
