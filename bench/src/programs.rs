//! Finds the haul to measure, and where cargo builds it.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

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

/// cargo's output folder for this workspace.
pub fn build_directory() -> PathBuf {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let found = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| workspace.join("target"), PathBuf::from);
    found.canonicalize().unwrap_or(found)
}
