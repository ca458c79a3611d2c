//! Test executables and programs of a cargo build, from its JSON messages.

use std::path::{Path, PathBuf};

use serde_json::Value;

/// An executable that cargo reported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuiltExecutable {
    /// Directory of its package, where its tests expect to run.
    pub package_dir: PathBuf,
    /// Name of the target: a library's, a program's or a test file's.
    pub target: String,
    /// Whether it is a test harness rather than the program itself.
    pub test: bool,
    /// The file.
    pub path: PathBuf,
}

/// The executables in the output of `cargo ... --message-format=json`, in its order.
pub fn parse(messages: &str) -> Vec<BuiltExecutable> {
    messages
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .filter_map(|message| executable(&message))
        .collect()
}

/// The executable that one message names, if it names one.
fn executable(message: &Value) -> Option<BuiltExecutable> {
    if message["reason"] != "compiler-artifact" {
        return None;
    }
    Some(BuiltExecutable {
        package_dir: Path::new(message["manifest_path"].as_str()?).parent()?.to_owned(),
        target: message["target"]["name"].as_str()?.to_owned(),
        test: message["profile"]["test"].as_bool()?,
        path: PathBuf::from(message["executable"].as_str()?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_only_artifacts_with_an_executable() {
        let messages = concat!(
            r#"{"reason":"compiler-artifact","manifest_path":"/p/lab/Cargo.toml","target":{"name":"haul_lab"},"profile":{"test":true},"executable":"/t/haul_lab-1"}"#,
            "\nnot json\n",
            r#"{"reason":"compiler-artifact","manifest_path":"/p/lab/Cargo.toml","target":{"name":"haul_lab"},"profile":{"test":false},"executable":null}"#,
            "\n",
            r#"{"reason":"build-finished","success":true}"#,
            "\n"
        );
        let found = parse(messages);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].package_dir.as_path(), found[0].target.as_str()), (Path::new("/p/lab"), "haul_lab"));
        assert_eq!(found[0].path, Path::new("/t/haul_lab-1"));
    }
}
