//! Finds the programs to run: peers in PATH, and the haul to measure.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// Directories of servers, which are not in every user's PATH.
const MORE_DIRECTORIES: [&str; 2] = ["/usr/sbin", "/usr/local/sbin"];

/// Finds a program in PATH or among the servers.
pub fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places = std::env::split_paths(&path).chain(MORE_DIRECTORIES.iter().map(PathBuf::from));
    places.map(|directory| directory.join(name)).find(|candidate| candidate.is_file())
}

/// The haul that was named, or this workspace's release build if there is one.
pub fn find_haul(named: Option<&Path>) -> Result<Option<PathBuf>> {
    if let Some(path) = named {
        let found = path.canonicalize().with_context(|| format!("--haul {path:?}"))?;
        return Ok(Some(found));
    }
    let target = build_directory();
    let triple = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let candidates = [target.join(triple).join("release/haul"), target.join("release/haul")];
    Ok(candidates.iter().find_map(|path| path.canonicalize().ok()))
}

/// Where cargo puts what it builds for this workspace.
pub fn build_directory() -> PathBuf {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let found = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| workspace.join("target"), PathBuf::from);
    found.canonicalize().unwrap_or(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_in_path_only_if_there() {
        assert!(find_program("sh").is_some_and(|path| path.is_absolute()));
        assert!(find_program("no-such-program-of-haul").is_none());
    }
}
