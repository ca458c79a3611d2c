//! The settings of a host's policy, by name and value. The engine enforces them; the script that deploys haul has to
//! understand the same lines.

/// A setting.
#[derive(Debug)]
pub struct PolicyLine {
    /// Its name.
    pub name: &'static str,
    /// The value that permits, and is the default.
    pub permits: &'static str,
    /// The value that restricts.
    pub restricts: &'static str,
}

/// `--pipe`.
pub const PROGRAMS: PolicyLine = yes_or_no("programs");
/// `--no-encrypt`.
pub const CLEAR_TEXT: PolicyLine = yes_or_no("clear-text");
/// Deployed workers.
pub const DEPLOY: PolicyLine = yes_or_no("deploy");
/// `--source-command` and `--target-command`.
pub const OWN_COMMANDS: PolicyLine = yes_or_no("own-commands");
/// Hashes of blocks of existing files.
pub const DELTAS: PolicyLine = yes_or_no("deltas");
/// The worker's sandbox.
pub const SANDBOX: PolicyLine = PolicyLine { name: "sandbox", permits: "optional", restricts: "required" };
/// All of them.
pub const ALL: [PolicyLine; 6] = [PROGRAMS, CLEAR_TEXT, DEPLOY, OWN_COMMANDS, DELTAS, SANDBOX];

/// The setting for an audit log: `journal`, or the path of a file.
pub const AUDIT: &str = "audit";

const fn yes_or_no(name: &'static str) -> PolicyLine {
    PolicyLine { name, permits: "yes", restricts: "no" }
}
