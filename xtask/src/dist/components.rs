//! The list of components (SBOM) in CycloneDX's format, by cargo-cyclonedx.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::build::copy_sources;
use super::commands::{fail, succeeds};
use crate::tools::CARGO_CYCLONEDX;

const LIST_LIMIT: Duration = Duration::from_secs(300);
/// Placeholder for the sources' folder.
const SOURCES: &str = "/haul";

/// Writes the list of all crates in the executable for `target`; its path.
pub(super) fn write(directory: &Path, version: &str, target: &str, date: u64) -> Result<PathBuf, String> {
    CARGO_CYCLONEDX.provide()?;
    // cargo-cyclonedx writes a list beside the manifest of each package.
    let folder = tempfile::tempdir().map_err(|error| format!("no temporary directory: {error}"))?;
    let sources = folder.path().canonicalize().map_err(|error| fail(folder.path(), error))?;
    copy_sources(&sources)?;
    let mut command = Command::new("cargo-cyclonedx");
    command
        .args(["cyclonedx", "--manifest-path"])
        .arg(sources.join("crates/cli/Cargo.toml"))
        .args(["--format", "json", "--spec-version", "1.5", "--no-build-deps", "--target", target])
        .env("SOURCE_DATE_EPOCH", date.to_string())
        .env("CARGO_NET_OFFLINE", "true")
        .current_dir(&sources);
    succeeds(&mut command, LIST_LIMIT)?;
    let made = sources.join("crates/cli/haul.cdx.json");
    let list = fs::read_to_string(&made).map_err(|error| fail(&made, error))?;
    let list = list.replace(&*sources.to_string_lossy(), SOURCES);
    check(&list, version)?;
    let path = directory.join(format!("haul-{version}-{target}.cdx.json"));
    fs::write(&path, list).map_err(|error| fail(&path, error))?;
    Ok(path)
}

/// Fails where the list lacks haul's version, a component, or a component's licence.
fn check(list: &str, version: &str) -> Result<(), String> {
    let list: serde_json::Value = serde_json::from_str(list).map_err(|error| format!("list of components: {error}"))?;
    let described = &list["metadata"]["component"];
    if described["name"] != "haul" || described["version"] != version {
        return Err(format!("list of components: it describes {described}, not haul {version}"));
    }
    let components = list["components"].as_array().ok_or("list of components: it has none")?;
    let without: Vec<_> =
        components.iter().filter(|component| component["licenses"].as_array().is_none_or(Vec::is_empty)).collect();
    let names: Vec<_> = without.iter().map(|component| component["name"].as_str().unwrap_or("?")).collect();
    if components.is_empty() {
        return Err("list of components: it is empty".to_owned());
    }
    if !names.is_empty() {
        return Err(format!("list of components: no licence of {}", names.join(", ")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_names_haul_and_every_licence() {
        let list = |version: &str, licences: &str| {
            format!(
                r#"{{"metadata":{{"component":{{"name":"haul","version":"{version}"}}}},"components":[{{"name":"toml","licenses":{licences}}}]}}"#
            )
        };
        assert_eq!(check(&list("1.0.0", r#"[{"expression":"MIT"}]"#), "1.0.0"), Ok(()));
        assert!(check(&list("1.0.0", "[]"), "1.0.0").is_err_and(|why| why.contains("no licence of toml")));
        assert!(check(&list("0.9.0", r#"[{"expression":"MIT"}]"#), "1.0.0").is_err());
        assert!(check("{}", "1.0.0").is_err());
    }
}
