//! The workspace: its root, and cargo run in it.

use std::path::Path;
use std::process::Command;

/// Subcommands of cargo that resolve dependencies.
const RESOLVE: &[&str] = &["build", "clippy", "doc", "run", "test"];

/// The workspace's root: the parent of this package.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."))
}

/// The cargo that started us, in the workspace's root, with the versions that Cargo.lock names and no others.
pub fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    let (subcommand, rest) = arguments.split_first().expect("a subcommand");
    command.arg(subcommand);
    if RESOLVE.contains(subcommand) {
        command.arg("--locked");
    }
    command.args(rest).current_dir(root());
    command
}
