//! The command line for a remote host: the system's ssh, or the user's own command. Composes it; starts nothing.

use std::ffi::{OsStr, OsString};
use std::fs;

use haul_base::copy::End;
use haul_base::copy::error::Error;
use haul_base::copy::spec::{AddressFamily, RemoteAccess, WorkerProgram};
use haul_base::shell_word::quote;
use haul_proto::path::escape;

use super::command::{CommandValues, fill_in};
use crate::launch::failure::LaunchScene;
use crate::launch::ssh_settings::{SettingsQuery, keyword_of};
use crate::launch::start_wait::TELLS_LOGIN;

/// Example path of an administrator's haul, for hints.
const EXAMPLE_PATH: &str = "/opt/bin/haul";

/// Unanswered keepalives after which ssh drops the connection. haul detects the loss as well. An ssh shared with other
/// commands (ControlMaster) must detect it itself, or a retry would reuse it.
const UNANSWERED: u32 = 3;

/// A remote host in ssh's terms.
#[derive(Debug, Clone, Copy)]
pub(super) struct SshRemote<'a> {
    /// The account, if named.
    pub user: Option<&'a str>,
    /// Name or address.
    pub name: &'a str,
}

impl SshRemote<'_> {
    /// Returns the host as the user named it.
    pub(super) fn label(&self) -> String {
        match self.user {
            Some(user) => escape(format!("{user}@{}", self.name).as_bytes()),
            None => escape(self.name.as_bytes()),
        }
    }

    /// Refuses names that ssh could parse as an option.
    pub(super) fn check(&self) -> Result<(), Error> {
        let odd = |text: &str| text.is_empty() || text.starts_with('-') || text.contains('\0');
        if odd(self.name) || self.user.is_some_and(odd) {
            return Err(Error::Usage(format!("{}: not a host\nwrite it as host or user@host", self.label())));
        }
        Ok(())
    }
}

/// Returns the `--source-command` or `--target-command` command for this end.
pub(super) fn own_command(access: &RemoteAccess, end: End) -> Option<&str> {
    match end {
        End::Source => access.source_command.as_deref(),
        End::Target => access.target_command.as_deref(),
    }
}

/// Returns ssh's arguments up to and including the host; the remote command follows.
///
/// Disables X11, the terminal, forwarded ports and the escape character, limits the time to connect, and detects a
/// silent host. `ssh_settings` adds what the configuration makes necessary. All else follows that. ssh uses the first
/// of repeated options, so the user's come first.
pub(super) fn arguments(remote: SshRemote<'_>, access: &RemoteAccess) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = ["-x", "-T", "-e", "none"].iter().map(Into::into).collect();
    arguments.extend(["-o".into(), "ClearAllForwardings=yes".into()]);
    if !access.login.ssh_options.iter().any(|option| is_debugging(option)) {
        arguments.extend(["-o".into(), TELLS_LOGIN.into()]);
    }
    arguments.extend(choices(access));
    arguments.extend(notice_loss(access).into_iter().flat_map(|option| ["-o".into(), option.into()]));
    if let Some(user) = remote.user {
        arguments.extend(["-l".into(), user.into()]);
    }
    arguments.extend(["--".into(), remote.name.into()]);
    arguments
}

/// Returns the arguments of ssh for a command other than a worker, without the command.
///
/// # Errors
/// A user or host that ssh would take for an option.
pub fn words(user: Option<&str>, name: &str, access: &RemoteAccess) -> Result<Vec<OsString>, Error> {
    let remote = SshRemote { user, name };
    remote.check()?;
    let arguments = arguments(remote, access);
    Ok([SettingsQuery::start(OsStr::new("ssh"), &arguments).finish().overrides(), arguments].concat())
}

fn notice_loss(access: &RemoteAccess) -> Vec<String> {
    let every_s = (access.silence / UNANSWERED).as_secs().max(1);
    let mut options = vec![format!("ServerAliveInterval={every_s}"), format!("ServerAliveCountMax={UNANSWERED}")];
    options.extend(connect_limit_s(access).map(|limit_s| format!("ConnectTimeout={limit_s}")));
    options
}

/// Returns ssh's connection timeout, unless the user's ssh options set one. A first attempt through a proxy has none:
/// ssh's would cover a password prompt of the jump host.
fn connect_limit_s(access: &RemoteAccess) -> Option<u64> {
    let is_set =
        |keyword: &str| access.login.ssh_options.iter().any(|option| keyword_of(option).eq_ignore_ascii_case(keyword));
    let is_attended = access.greeting_timeout.is_none();
    let is_left_to_user = is_set("ConnectTimeout") || is_attended && (is_set("ProxyJump") || is_set("ProxyCommand"));
    (!is_left_to_user).then(|| access.connect_timeout.as_secs().max(1))
}

/// Whether an ssh option lets ssh say even more than [`TELLS_LOGIN`].
fn is_debugging(option: &str) -> bool {
    keyword_of(option).eq_ignore_ascii_case("LogLevel") && option.to_ascii_uppercase().contains("DEBUG")
}

/// Returns the words of the user's own command that starts a worker.
pub(super) fn custom_command(
    template: &str,
    remote: SshRemote<'_>,
    access: &RemoteAccess,
    end: End,
    program: &WorkerProgram,
) -> Result<Vec<OsString>, Error> {
    let values = CommandValues {
        identity: access.login.identity.as_deref(),
        user: remote.user,
        host: remote.name,
        ipv4_only: access.family == Some(AddressFamily::V4),
    };
    let mut words = fill_in(template, values, local_user).map_err(|why| {
        let option = if end == End::Source { "--source-command" } else { "--target-command" };
        Error::Usage(format!("{option} {}: {why}\nfor example {option} {}", quote(template), example(access)))
    })?;
    words.extend(program.worker_arguments.iter().cloned());
    Ok(words)
}

/// Returns the context of a start for messages.
pub(super) fn scene(remote: SshRemote<'_>, access: &RemoteAccess, end: End) -> LaunchScene {
    let mut attempt = vec![OsString::from("ssh")];
    attempt.extend(choices(access));
    attempt.extend(
        [remote.user.map_or_else(String::new, |user| format!("{user}@")) + remote.name, "true".into()].map(Into::into),
    );
    LaunchScene {
        host: remote.label(),
        end,
        attempt: quoted(&attempt),
        example: example(access),
        own_command: own_command(access, end).is_some(),
        connect_limit_s: own_command(access, end).is_none().then(|| connect_limit_s(access)).flatten(),
        agent: None,
    }
}

/// Quotes `words` for a shell, escaped.
pub(super) fn quoted(words: &[OsString]) -> String {
    let shown = |word: &OsString| quote(&escape(OsStr::as_encoded_bytes(word)));
    words.iter().map(shown).collect::<Vec<_>>().join(" ")
}

/// Returns the user's choices as ssh options.
fn choices(access: &RemoteAccess) -> Vec<OsString> {
    let mut words: Vec<OsString> = access.family.map(|family| family.option().into()).into_iter().collect();
    if let Some(config) = &access.login.ssh_config {
        words.extend(["-F".into(), config.clone().into_os_string()]);
    }
    if let Some(identity) = &access.login.identity {
        words.extend(["-i".into(), identity.clone().into_os_string()]);
    }
    if let Some(port) = access.login.port {
        words.extend(["-p".into(), port.to_string().into()]);
    }
    for option in &access.login.ssh_options {
        words.extend(["-o".into(), option.into()]);
    }
    words
}

/// Returns a quoted `--source-command` or `--target-command` command equivalent to these choices, with haul at an
/// example path.
fn example(access: &RemoteAccess) -> String {
    let mut words = vec!["ssh".to_owned()];
    words.extend(
        access
            .login
            .ssh_config
            .iter()
            .map(|config| format!("-F {}", quote(&escape(config.as_os_str().as_encoded_bytes())))),
    );
    words.extend(access.login.identity.as_ref().map(|_| "%I".to_owned()));
    words.extend(access.login.port.map(|port| format!("-p {port}")));
    words.extend(access.login.ssh_options.iter().map(|option| format!("-o {}", quote(&option.replace('%', "%%")))));
    words.extend(["%U@%H".to_owned(), EXAMPLE_PATH.to_owned()]);
    quote(&words.join(" "))
}

/// Returns this account's name from /etc/passwd; `None` for accounts known only to a directory service.
fn local_user() -> Option<String> {
    let id = rustix::process::getuid().as_raw().to_string();
    let accounts = fs::read_to_string("/etc/passwd").ok()?;
    accounts.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)? == id).then(|| name.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use haul_base::copy::spec::Login;

    use super::*;

    fn text(words: &[OsString]) -> Vec<&str> {
        words.iter().map(|word| word.to_str().unwrap()).collect()
    }

    fn access() -> RemoteAccess {
        RemoteAccess {
            login: Login {
                identity: Some("k/id".into()),
                ssh_config: Some("k/config".into()),
                port: Some(2222),
                ssh_options: vec!["ProxyJump=gate".into(), "ControlPath=/x y/%h".into()],
                ..Login::default()
            },
            ..RemoteAccess::default()
        }
    }

    #[test]
    fn the_users_choices_become_sshs_arguments() {
        let remote = SshRemote { user: Some("ann"), name: "::1" };
        let expected = [
            "-x",
            "-T",
            "-e",
            "none",
            "-o",
            "ClearAllForwardings=yes",
            "-o",
            "LogLevel=VERBOSE",
            "-F",
            "k/config",
            "-i",
            "k/id",
            "-p",
            "2222",
            "-o",
            "ProxyJump=gate",
            "-o",
            "ControlPath=/x y/%h",
            "-o",
            "ServerAliveInterval=4",
            "-o",
            "ServerAliveCountMax=3",
            "-l",
            "ann",
            "--",
            "::1",
        ];
        assert_eq!(text(&arguments(remote, &access())), expected);
        let plain = SshRemote { user: None, name: "db1" };
        let alive = ["-o", "ServerAliveInterval=4", "-o", "ServerAliveCountMax=3"];
        let limit = ["-o", "ConnectTimeout=15"];
        let last = ["--", "db1"];
        let first = ["-x", "-T", "-e", "none", "-o", "ClearAllForwardings=yes", "-o", TELLS_LOGIN];
        let expected = [&first[..], &alive, &limit, &last].concat();
        assert_eq!(text(&arguments(plain, &RemoteAccess::default())), expected);
        let only = RemoteAccess { family: Some(AddressFamily::V6), ..RemoteAccess::default() };
        assert_eq!(text(&arguments(plain, &only))[8], "-6");
        let again = RemoteAccess { connect_timeout: Duration::from_secs(4), ..RemoteAccess::default() };
        let expected = [&first[..], &alive, &["-o", "ConnectTimeout=4"], &last].concat();
        assert_eq!(text(&arguments(plain, &again)), expected);
    }

    #[test]
    fn ssh_tells_of_its_login_whatever_it_is_asked() {
        let first_level = |option: &str| {
            let login = Login { ssh_options: vec![option.to_owned()], ..Login::default() };
            let remote = SshRemote { user: None, name: "db1" };
            let arguments = arguments(remote, &RemoteAccess { login, ..RemoteAccess::default() });
            text(&arguments).into_iter().find(|word| word.contains("LogLevel")).unwrap().to_owned()
        };
        assert_eq!(first_level("LogLevel=ERROR"), TELLS_LOGIN);
        assert_eq!(first_level("LogLevel=DEBUG3"), "LogLevel=DEBUG3");
    }

    #[test]
    fn a_connection_has_a_limit_unless_the_user_sets_one() {
        let limit = |options: &[&str], greeting_timeout| {
            let ssh_options = options.iter().map(|&option| option.to_owned()).collect();
            let login = Login { ssh_options, ..Login::default() };
            connect_limit_s(&RemoteAccess { login, greeting_timeout, ..RemoteAccess::default() })
        };
        assert_eq!(limit(&["Compression=yes", "User=ConnectTimeout"], None), Some(15));
        for option in ["ConnectTimeout=60", "connecttimeout 60", " ConnectTimeout = none"] {
            assert_eq!(limit(&[option], None), None, "{option}");
        }
        assert_eq!(limit(&["ProxyJump=gate"], None), None);
        assert_eq!(limit(&["ProxyJump=gate"], Some(Duration::from_secs(75))), Some(15));
    }

    #[test]
    fn an_own_command_is_filled_in_and_made_a_worker() {
        let target_command = Some("ssh %I %4 %U@%H /opt/bin/haul".into());
        let access = RemoteAccess { target_command, family: Some(AddressFamily::V4), ..access() };
        let program = WorkerProgram {
            executable: "/x".into(),
            worker_arguments: vec!["worker".into()],
            ..WorkerProgram::default()
        };
        let remote = SshRemote { user: Some("ann"), name: "db1" };
        let template = own_command(&access, End::Target).unwrap();
        let words = custom_command(template, remote, &access, End::Target, &program).unwrap();
        assert_eq!(text(&words), ["ssh", "-i", "k/id", "-4", "ann@db1", "/opt/bin/haul", "worker"]);
        assert_eq!(own_command(&access, End::Source), None);
        let error = custom_command("ssh 'x", remote, &access, End::Source, &program).unwrap_err().to_string();
        assert!(error.starts_with("--source-command 'ssh '\\''x': unclosed single quote\n"), "{error}");
    }

    #[test]
    fn the_suggested_command_does_the_same() {
        let suggested = example(&access());
        let template = &super::super::command::split(&suggested).unwrap()[0];
        let values = CommandValues {
            identity: access().login.identity.as_deref().map(|_| "k/id".as_ref()),
            user: Some("ann"),
            host: "db1",
            ipv4_only: false,
        };
        let words = fill_in(template, values, || None).unwrap();
        let expected = [
            "ssh",
            "-F",
            "k/config",
            "-i",
            "k/id",
            "-p",
            "2222",
            "-o",
            "ProxyJump=gate",
            "-o",
            "ControlPath=/x y/%h",
            "ann@db1",
            EXAMPLE_PATH,
        ];
        assert_eq!(text(&words), expected);
    }

    #[test]
    fn option_like_hosts_are_rejected() {
        for (user, name) in [(None, "-oProxyCommand=x"), (Some("-l"), "db1"), (None, ""), (Some(""), "db1")] {
            assert!(SshRemote { user, name }.check().is_err(), "{user:?} {name}");
        }
        assert!(SshRemote { user: Some("a-b"), name: "fe80::1%eth0" }.check().is_ok());
    }

    #[test]
    fn this_accounts_name_matches_id() {
        let id = std::process::Command::new("id").arg("-un").output().unwrap();
        let name = String::from_utf8(id.stdout).unwrap();
        assert_eq!(local_user().as_deref(), Some(name.trim()));
    }
}
