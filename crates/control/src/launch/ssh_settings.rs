//! ssh's settings for a host, and the options that override those that break a program over ssh.
//!
//! ssh's own programs (scp, sftp) override them always. Versions before 7.6 and 8.7 refuse some of these words, so that
//! only what `ssh -G` prints as set is overridden. That takes 4 ms and no connection, while haul hashes its executable.

use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use haul_base::sys::child::{SpawnedChild, spawn};

/// Each setting, as `ssh -G` prints it, and the option with the only value that lets a program run.
const NEEDED: [(&str, &str); 4] = [
    ("remotecommand none", "RemoteCommand=none"),
    ("sessiontype default", "SessionType=default"),
    ("stdinnull no", "StdinNull=no"),
    ("forkafterauthentication no", "ForkAfterAuthentication=no"),
];

/// Longest wait for the settings. A configuration may run commands (`Match exec`) or resolve names.
const PATIENCE: Duration = Duration::from_secs(2);

/// Returns the keyword of an ssh option: `Keyword=value` or `Keyword value`.
pub(super) fn keyword_of(option: &str) -> &str {
    option.trim_start().split(|c: char| c == '=' || c.is_whitespace()).next().unwrap_or_default()
}

/// A running `ssh -G`.
pub(super) struct SettingsQuery(Option<SpawnedChild>);

impl SettingsQuery {
    /// Asks `ssh` for its settings with these arguments, of which the last is the host.
    pub(super) fn start(ssh: &OsStr, arguments: &[OsString]) -> Self {
        Self(spawn(Command::new(ssh).arg("-G").args(arguments)).ok())
    }

    /// Waits for the settings; none if ssh cannot tell.
    pub(super) fn finish(self) -> SshSettings {
        let Some(SpawnedChild { mut guard, stdin, mut stdout }) = self.0 else { return SshSettings::default() };
        drop(stdin);
        let mut printed = String::new();
        let has_ended = guard.wait(PATIENCE).is_ok_and(|status| status.is_some_and(|status| status.success()));
        match has_ended && stdout.read_to_string(&mut printed).is_ok() {
            true => SshSettings(printed),
            false => SshSettings::default(),
        }
    }
}

/// The settings for a host: a keyword in small letters and its value in each line.
#[derive(Debug, Default)]
pub(super) struct SshSettings(String);

impl SshSettings {
    /// Returns the arguments that override what breaks a program.
    pub(super) fn overrides(&self) -> Vec<OsString> {
        let breaks = |needed: &str| {
            let set = needed.split_once(' ').and_then(|(keyword, value)| Some(self.value(keyword)? != value));
            set.unwrap_or(false)
        };
        let breaking = NEEDED.into_iter().filter(|(needed, _)| breaks(needed));
        breaking.flat_map(|(_, option)| ["-o".into(), option.into()]).collect()
    }

    /// Whether ssh printed none.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns all settings, as printed.
    pub(super) fn text(&self) -> &str {
        &self.0
    }

    /// Returns the value of a keyword.
    pub(super) fn value(&self, keyword: &str) -> Option<&str> {
        self.lines().find(|(found, _)| *found == keyword).map(|(_, value)| value)
    }

    /// Returns the files that depend on the working directory.
    pub(super) fn relative_files(&self) -> impl Iterator<Item = &str> {
        let files = self.lines().filter(|(keyword, _)| keyword.ends_with("file") || *keyword == "identityagent");
        let words = ["none", "SSH_AUTH_SOCK"];
        files
            .map(|(_, value)| value)
            .filter(move |value| !value.starts_with(['/', '~', '%', '$']) && !words.contains(value))
    }

    /// Returns the agent's socket, which is this one unless a setting names another.
    pub(super) fn agent<'a>(&'a self, usual: Option<&'a Path>) -> Option<&'a Path> {
        match self.value("identityagent") {
            None | Some("SSH_AUTH_SOCK") => usual,
            Some(named) => Some(Path::new(named)),
        }
    }

    fn lines(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.lines().filter_map(|line| line.trim_end().split_once(' '))
    }
}

#[cfg(test)]
impl From<&str> for SshSettings {
    fn from(printed: &str) -> Self {
        Self(printed.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_settings_that_break_a_program_are_overridden() {
        let usual = "user ann\nsessiontype default\nstdinnull no\nforkafterauthentication no\nrequesttty auto\n";
        let overrides = |printed: &str| SshSettings::from(printed).overrides();
        assert_eq!(overrides(usual).len(), 0);
        // OpenSSH before 8.7 prints none of the newer words.
        assert_eq!(overrides("user ann\nremotecommand tmux attach\n"), ["-o", "RemoteCommand=none"]);
        let breaking = "sessiontype none\nstdinnull yes\nforkafterauthentication yes\nremotecommand sh\n";
        assert_eq!(overrides(breaking).len(), 2 * NEEDED.len());
    }

    #[test]
    fn a_program_that_knows_no_settings_changes_nothing() {
        for program in ["false", "/nonexistent/ssh", "true"] {
            assert!(SettingsQuery::start(program.as_ref(), &["db1".into()]).finish().is_empty(), "{program}");
        }
    }
}
