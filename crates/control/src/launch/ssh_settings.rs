//! ssh's settings for a host that break a program over ssh, and the options that override them.
//!
//! ssh's own programs (scp, sftp) override them always. Versions before 7.6 and 8.7 refuse some of these words, so that
//! only what `ssh -G` prints as set is overridden. That takes 4 ms and no connection, while haul hashes its executable.

use std::ffi::{OsStr, OsString};
use std::io::Read;
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

/// A running `ssh -G`.
pub(super) struct SettingsQuery(Option<SpawnedChild>);

impl SettingsQuery {
    /// Asks `ssh` for its settings with these arguments, of which the last is the host.
    pub(super) fn start(ssh: &OsStr, arguments: &[OsString]) -> Self {
        Self(spawn(Command::new(ssh).arg("-G").args(arguments)).ok())
    }

    /// Returns the arguments that override what breaks a program; none if ssh cannot tell.
    pub(super) fn overrides(self) -> Vec<OsString> {
        let Some(SpawnedChild { mut guard, stdin, mut stdout }) = self.0 else { return Vec::new() };
        drop(stdin);
        if !guard.wait(PATIENCE).is_ok_and(|status| status.is_some_and(|status| status.success())) {
            return Vec::new();
        }
        let mut printed = String::new();
        match stdout.read_to_string(&mut printed) {
            Ok(_) => overrides_of(&printed).flat_map(|option| ["-o".into(), option.into()]).collect(),
            Err(_) => Vec::new(),
        }
    }
}

fn overrides_of(printed: &str) -> impl Iterator<Item = &'static str> {
    let breaks = |needed: &str| {
        let keyword = needed.split(' ').next();
        printed.lines().any(|line| line.split(' ').next() == keyword && line.trim_end() != needed)
    };
    NEEDED.into_iter().filter(move |(needed, _)| breaks(needed)).map(|(_, option)| option)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_settings_that_break_a_program_are_overridden() {
        let usual = "user ann\nsessiontype default\nstdinnull no\nforkafterauthentication no\nrequesttty auto\n";
        assert_eq!(overrides_of(usual).count(), 0);
        // OpenSSH before 8.7 prints none of the newer words.
        assert_eq!(overrides_of("user ann\nremotecommand tmux attach\n").collect::<Vec<_>>(), ["RemoteCommand=none"]);
        let breaking = "sessiontype none\nstdinnull yes\nforkafterauthentication yes\nremotecommand sh\n";
        assert_eq!(overrides_of(breaking).count(), NEEDED.len());
    }

    #[test]
    fn a_program_that_knows_no_settings_changes_nothing() {
        for program in ["false", "/nonexistent/ssh", "true"] {
            assert!(SettingsQuery::start(program.as_ref(), &["db1".into()]).overrides().is_empty(), "{program}");
        }
    }
}
