//! The policy of a host: files in which its administrator, or the user of an account, restricts what haul does there.
//!
//! Each line is empty, a comment that begins with `#`, or `name = value`; `SETTINGS` has the names and values. Policies
//! only restrict: what one file forbids, no other file allows. A file that others can write, or that cannot be read or
//! understood, forbids every copy.

pub mod audit;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use haul_base::policy_lines::{self, AUDIT, PolicyLine};
use haul_base::trusted_files::{OthersMay, TrustError, read_own};
use haul_proto::path::escape;

use crate::policy::audit::AuditDestination;

/// The policy of all users of a host.
pub const HOST_FILE: &str = "/etc/haul/policy";
/// Longest policy file, in bytes.
const FILE_MAX: u64 = 64 << 10;

/// A restriction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PolicyRule {
    /// No programs at the ends of a copy (`--pipe`).
    NoPrograms,
    /// No contents in clear text (`--no-encrypt`).
    NoClearText,
    /// No worker deployed to the cache directory by a controller.
    NoDeployedWorker,
    /// No replacement of ssh by the user (`--source-command`, `--target-command`).
    NoOwnCommands,
    /// No hashes of blocks of existing files for sources (`--delta`, `--detect-renames`).
    NoDeltas,
    /// No copy without a sandbox for the worker.
    SandboxRequired,
}

impl PolicyRule {
    /// The setting that states the rule.
    fn setting(self) -> Option<&'static PolicySetting> {
        SETTINGS.iter().find(|setting| setting.rule == self)
    }

    fn refusal(self) -> &'static str {
        self.setting().map_or("", |setting| setting.refusal)
    }
}

/// A policy file that forbids every copy.
#[derive(Debug, thiserror::Error)]
pub enum PolicyFileError {
    /// It cannot be read or trusted.
    #[error("{}{}", .0, hint_line(.0))]
    Unreadable(#[from] TrustError),
    /// A line is invalid.
    #[error("{file}, line {line}: invalid setting '{text}'\nvalid: {known}", file = shown(.path), text = escape(.text.as_bytes()), known = known_lines())]
    InvalidLine {
        /// The file.
        path: PathBuf,
        /// The number of the line, from 1.
        line: usize,
        /// The line.
        text: String,
    },
}

/// A refusal by the host's policy, with its file.
#[derive(Debug, Clone, thiserror::Error)]
pub enum PolicyRefusal {
    /// A file states the rule.
    #[error("{refusal}: policy {file}", refusal = .rule.refusal(), file = shown(.file))]
    Stated {
        /// The rule.
        rule: PolicyRule,
        /// The file.
        file: PathBuf,
    },
    /// A file forbids everything.
    #[error("{refusal}: {fault}", refusal = .rule.refusal())]
    Everything {
        /// The rule.
        rule: PolicyRule,
        /// The file's error.
        #[source]
        fault: Arc<PolicyFileError>,
    },
}

/// A setting: its name and values.
struct PolicySetting {
    line: PolicyLine,
    rule: PolicyRule,
    /// The refusal.
    refusal: &'static str,
}

/// All settings.
const SETTINGS: &[PolicySetting] = &[
    PolicySetting {
        line: policy_lines::PROGRAMS,
        rule: PolicyRule::NoPrograms,
        refusal: "programs are forbidden here",
    },
    PolicySetting {
        line: policy_lines::CLEAR_TEXT,
        rule: PolicyRule::NoClearText,
        refusal: "--no-encrypt is forbidden here",
    },
    PolicySetting {
        line: policy_lines::DEPLOY,
        rule: PolicyRule::NoDeployedWorker,
        refusal: "a deployed haul is forbidden here",
    },
    PolicySetting {
        line: policy_lines::OWN_COMMANDS,
        rule: PolicyRule::NoOwnCommands,
        refusal: "commands instead of ssh (--source-command, --target-command) are forbidden here",
    },
    PolicySetting { line: policy_lines::DELTAS, rule: PolicyRule::NoDeltas, refusal: "deltas are forbidden here" },
    PolicySetting {
        line: policy_lines::SANDBOX,
        rule: PolicyRule::SandboxRequired,
        refusal: "a worker without a sandbox is forbidden here",
    },
];

/// The combined policy files of a host.
#[derive(Debug, Clone, Default)]
pub struct HostPolicy {
    /// Each restriction, with the file that states it.
    rules: Vec<(PolicyRule, PathBuf)>,
    /// Destinations of the audit log.
    audit: Vec<AuditDestination>,
    /// The error of a file, which forbids every copy.
    fault: Option<Arc<PolicyFileError>>,
}

impl HostPolicy {
    /// Reads all of these files that exist.
    pub fn read(files: &[PathBuf]) -> Self {
        let mut policy = Self::default();
        for (number, file) in files.iter().enumerate() {
            if let Err(fault) = policy.add(file, number > 0) {
                policy.fault.get_or_insert(Arc::new(fault));
            }
        }
        policy
    }

    /// The error that forbids every copy.
    pub fn fault(&self) -> Option<&Arc<PolicyFileError>> {
        self.fault.as_ref()
    }

    /// Destinations of the audit log.
    pub fn audit(&self) -> &[AuditDestination] {
        &self.audit
    }

    /// Whether `rule` applies.
    pub fn has(&self, rule: PolicyRule) -> bool {
        self.fault.is_some() || self.rules.iter().any(|(stated, _)| *stated == rule)
    }

    /// Fails if `rule` applies.
    pub fn check(&self, rule: PolicyRule) -> Result<(), PolicyRefusal> {
        if let Some(fault) = &self.fault {
            return Err(PolicyRefusal::Everything { rule, fault: Arc::clone(fault) });
        }
        match self.rules.iter().find(|(stated, _)| *stated == rule) {
            Some((_, file)) => Err(PolicyRefusal::Stated { rule, file: file.clone() }),
            None => Ok(()),
        }
    }

    fn add(&mut self, path: &Path, is_accounts: bool) -> Result<(), PolicyFileError> {
        let bytes = match read_own(path, OthersMay::Read, FILE_MAX) {
            Ok(bytes) => bytes,
            Err(error) if error.is_absent() => return Ok(()),
            // Its directory belongs to another user: after su, HOME may name another account's home. The host's own
            // policy has no such exception.
            Err(error) if is_accounts && error.is_hidden() => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let text = String::from_utf8(bytes).map_err(|error| TrustError::of(path, io::Error::other(error)))?;
        let lines = text.lines().map(str::trim).enumerate();
        for (number, line) in lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#')) {
            self.add_line(path, line).ok_or_else(|| PolicyFileError::InvalidLine {
                path: path.to_owned(),
                line: number + 1,
                text: line.to_owned(),
            })?;
        }
        Ok(())
    }

    /// Adds a line; `None` if it is invalid.
    fn add_line(&mut self, path: &Path, line: &str) -> Option<()> {
        let (name, value) = line.split_once('=').map(|(name, value)| (name.trim(), value.trim()))?;
        if name == AUDIT {
            self.audit.push(AuditDestination::parse(value)?);
            return Some(());
        }
        let setting = SETTINGS.iter().find(|setting| setting.line.name == name)?;
        let PolicyLine { permits, restricts, .. } = setting.line;
        if value == restricts {
            self.rules.push((setting.rule, path.to_owned()));
        }
        (value == restricts || value == permits).then_some(())
    }
}

fn hint_line(error: &TrustError) -> String {
    error.hint().map_or_else(String::new, |hint| format!("\n{hint}"))
}

fn known_lines() -> String {
    let shown = |line: &PolicyLine| format!("{} = {}|{}", line.name, line.permits, line.restricts);
    let lines = SETTINGS.iter().map(|setting| shown(&setting.line));
    lines.chain([format!("{AUDIT} = journal|/FILE")]).collect::<Vec<_>>().join(", ")
}

fn shown(path: &Path) -> String {
    escape(path.as_os_str().as_encoded_bytes())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn read(text: &str) -> (HostPolicy, tempfile::TempDir) {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("policy");
        std::fs::write(&file, text).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
        (HostPolicy::read(&[dir.path().join("absent"), file]), dir)
    }

    /// The refusal of programs, without the directory's name.
    fn refusal(text: &str) -> Result<(), String> {
        let (policy, dir) = read(text);
        let refused = policy.check(PolicyRule::NoPrograms);
        refused.map_err(|refusal| refusal.to_string().replace(&*dir.path().to_string_lossy(), ""))
    }

    #[test]
    fn no_in_a_file_forbids() {
        assert_eq!(refusal(""), Ok(()));
        assert_eq!(refusal("# programs = no\n\n programs=yes \n"), Ok(()));
        assert_eq!(refusal("programs = no"), Err("programs are forbidden here: policy /policy".into()));
        for text in ["programs = yes\nprograms = no\n", "programs = no\nprograms = yes\n"] {
            assert!(refusal(text).is_err(), "a policy only restricts");
        }
    }

    #[test]
    fn each_setting_restricts_only_its_own_rule() {
        for setting in SETTINGS {
            let PolicyLine { name, permits, restricts } = setting.line;
            let (policy, _dir) = read(&format!("{name} = {restricts}"));
            let held: Vec<PolicyRule> =
                SETTINGS.iter().map(|other| other.rule).filter(|rule| policy.has(*rule)).collect();
            assert_eq!(held, [setting.rule], "{name}");
            assert!(policy.check(setting.rule).unwrap_err().to_string().starts_with(setting.refusal));
            let (policy, _dir) = read(&format!("{name} = {permits}"));
            assert!(policy.rules.is_empty() && policy.audit().is_empty() && policy.fault().is_none());
        }
        assert_eq!(SETTINGS.len(), policy_lines::ALL.len());
    }

    #[test]
    fn each_file_may_request_an_audit_log() {
        let (policy, _dir) = read("audit = journal\naudit=/var/log/haul\n");
        assert_eq!(policy.audit(), [AuditDestination::Journal, AuditDestination::File("/var/log/haul".into())]);
        for line in ["audit = log", "audit =", "audit = /var/log/"] {
            assert!(read(line).0.fault().is_some(), "{line}");
        }
    }

    #[test]
    fn an_invalid_line_forbids_every_copy_and_is_named() {
        for line in ["programs = maybe", "progams = no", "programs", "= no", "programs = no = no", "\u{1b}[2J = no"] {
            let (policy, _dir) = read(&format!("# policy\n{line}\n"));
            let fault = policy.fault().unwrap_or_else(|| panic!("{line}")).to_string();
            assert!(fault.contains(", line 2: invalid setting '") && !fault.contains('\u{1b}'), "{fault}");
            assert!(SETTINGS.iter().all(|setting| policy.has(setting.rule)), "{line}");
        }
    }

    #[test]
    fn a_file_writable_by_others_forbids_every_copy() {
        if haul_lab::is_emulated_without("other owner") {
            return;
        }
        let (_, dir) = read("programs = yes\n");
        let file = dir.path().join("policy");
        let policy = || HostPolicy::read(std::slice::from_ref(&file));
        assert!(policy().fault().is_none());
        for mode in [0o666, 0o646] {
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
            assert!(policy().fault().unwrap().to_string().contains("others can write it"), "{mode:o}");
        }
        if rustix::process::geteuid().is_root() {
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
            std::os::unix::fs::chown(&file, Some(65534), None).unwrap();
            assert!(policy().fault().unwrap().to_string().contains("another user"));
        }
        assert!(HostPolicy::read(&[dir.path().to_owned()]).fault().is_some(), "a directory");
    }
}
