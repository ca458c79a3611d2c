//! What ends a detached copy at logout, or keeps it from reconnecting.

use std::io::Read;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use haul_base::copy::location::Host;
use haul_base::copy::spec::CopySpec;
use haul_base::sys::child::spawn_with;

/// Longest wait for an answer of systemd.
const ANSWER: Duration = Duration::from_secs(2);

/// What logging out means for a detached copy.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Logout {
    /// systemd ends the processes of a session: the copy needs a scope of its own.
    pub needs_scope: bool,
    /// Warnings, with their hints.
    pub warnings: Vec<String>,
}

/// What this login and its host say about processes that stay.
#[derive(Debug, Default, Clone)]
struct LoginFacts {
    /// It is a session of systemd.
    is_session: bool,
    /// `KillUserProcesses` is on.
    kills: bool,
    /// The user's processes may stay without a session.
    lingers: bool,
    /// The socket of the ssh agent, if it belongs to this login.
    agent: Option<String>,
}

/// What logging out means for `copy`.
pub fn logout(copy: &CopySpec) -> Logout {
    LoginFacts::find().judge(copy)
}

impl LoginFacts {
    fn find() -> Self {
        let is_session = std::env::var_os("XDG_SESSION_ID").is_some();
        let manager = ["org.freedesktop.login1", "/org/freedesktop/login1", "org.freedesktop.login1.Manager"];
        let asked = ["--system", "get-property"].into_iter().chain(manager).chain(["KillUserProcesses"]);
        let kills = is_session && answer("busctl", asked).is_some_and(|answer| answer.trim() == "b true");
        let lingers = kills
            && answer("loginctl", ["show-user", "--property=Linger"]).is_some_and(|text| text.trim() == "Linger=yes");
        let of_login = |socket: &PathBuf| {
            let is_forwarded = std::env::var_os("SSH_CONNECTION").is_some() && socket.starts_with("/tmp");
            is_forwarded || socket.starts_with("/run/user")
        };
        let agent = std::env::var_os("SSH_AUTH_SOCK").map(PathBuf::from).filter(of_login);
        Self { is_session, kills, lingers, agent: agent.map(|socket| socket.display().to_string()) }
    }

    fn judge(&self, copy: &CopySpec) -> Logout {
        let mut logout = Logout { needs_scope: self.is_session && self.kills, ..Logout::default() };
        if logout.needs_scope && !self.lingers {
            logout.warnings.push(
                "systemd ends this user's processes at logout (KillUserProcesses), and this copy with them\n\
                 hint: loginctl enable-linger"
                    .to_owned(),
            );
        }
        let uses_ssh = |host: &Host| matches!(host, Host::Remote { .. });
        if let Some(socket) =
            self.agent.as_ref().filter(|_| uses_ssh(copy.source_host()) || uses_ssh(&copy.target.host))
        {
            logout.warnings.push(format!(
                "the ssh agent of this login ends with it ({socket}): a connection that breaks later stays broken\n\
                 hint: a key file without the agent, or haul copies rerun after the next login"
            ));
        }
        logout
    }
}

/// The output of a program that answers soon.
fn answer<'w>(program: &str, words: impl IntoIterator<Item = &'w str>) -> Option<String> {
    let mut command = Command::new(program);
    command.args(words).stderr(Stdio::null());
    let (mut child, _, stdout) = spawn_with(&mut command, Stdio::piped()).ok()?;
    let status = child.wait(ANSWER).ok()??;
    let mut text = String::new();
    stdout?.take(1 << 10).read_to_string(&mut text).ok()?;
    status.success().then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Dialect;
    use crate::args::local_files::LocalDisk;
    use crate::args::parse::{Command, parse};

    fn copy(target: &str) -> CopySpec {
        let words = ["--no-config", "a", target].map(Into::into).to_vec();
        let words = words[1..].to_vec();
        let Ok(Command::Copy(values, operands)) = parse(Dialect::Haul, words, &LocalDisk) else { panic!("no copy") };
        crate::resolve::plan(&values, &operands, false).unwrap().copy
    }

    #[test]
    fn systemd_and_the_agent_are_named_where_they_matter() {
        let facts =
            LoginFacts { is_session: true, kills: true, lingers: false, agent: Some("/tmp/ssh-x/agent.1".into()) };
        let logout = facts.judge(&copy("db1:b"));
        assert!(logout.needs_scope && logout.warnings.len() == 2);
        assert!(
            logout.warnings[0].contains("loginctl enable-linger") && logout.warnings[1].contains("/tmp/ssh-x/agent.1")
        );
        let logout = LoginFacts { lingers: true, ..facts.clone() }.judge(&copy("b"));
        assert_eq!(logout, Logout { needs_scope: true, warnings: Vec::new() });
        let logout = LoginFacts { kills: false, agent: None, ..facts }.judge(&copy("db1:b"));
        assert_eq!(logout, Logout::default());
    }
}
