//! The list of components (SBOM) in CycloneDX's format, by cargo-cyclonedx.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use super::build::{copy_sources, glibc_version};
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
    let list = add_glibc(&list.replace(&*sources.to_string_lossy(), SOURCES), target, &glibc(target)?)?;
    check(&list, version)?;
    let path = directory.join(format!("haul-{version}-{target}.cdx.json"));
    fs::write(&path, list).map_err(|error| fail(&path, error))?;
    Ok(path)
}

/// Adds the statically linked C library, which is no crate.
fn add_glibc(list: &str, target: &str, version: &str) -> Result<String, String> {
    let mut list: Value = serde_json::from_str(list).map_err(|error| format!("list of components: {error}"))?;
    let reference = format!("pkg:generic/glibc@{version}");
    let glibc = json!({
        "type": "library",
        "bom-ref": reference,
        "name": "glibc",
        "version": version,
        "description": format!("The GNU C Library, linked statically for {target}"),
        "licenses": [{ "license": { "id": "LGPL-2.1-or-later" } }],
        "purl": reference,
    });
    let components = list["components"].as_array_mut().ok_or("list of components: it has none")?;
    components.push(glibc);
    let haul = list["metadata"]["component"]["bom-ref"].clone();
    let dependencies = list["dependencies"].as_array_mut().ok_or("list of components: no dependencies")?;
    dependencies.push(json!({ "ref": reference }));
    let of_haul = dependencies.iter_mut().find(|dependency| dependency["ref"] == haul);
    let of_haul = of_haul.and_then(|dependency| dependency["dependsOn"].as_array_mut());
    of_haul.ok_or("list of components: no dependencies of haul")?.push(reference.into());
    serde_json::to_string_pretty(&list).map_err(|error| error.to_string())
}

/// Fails where the list lacks haul's version, glibc, or a component's licence.
fn check(list: &str, version: &str) -> Result<(), String> {
    let list: Value = serde_json::from_str(list).map_err(|error| format!("list of components: {error}"))?;
    let described = &list["metadata"]["component"];
    if described["name"] != "haul" || described["version"] != version {
        return Err(format!("list of components: it describes {described}, not haul {version}"));
    }
    let components = list["components"].as_array().ok_or("list of components: it has none")?;
    let without: Vec<_> =
        components.iter().filter(|component| component["licenses"].as_array().is_none_or(Vec::is_empty)).collect();
    let names: Vec<_> = without.iter().map(|component| component["name"].as_str().unwrap_or("?")).collect();
    if components.iter().all(|component| component["name"] != "glibc") {
        return Err("list of components: glibc is missing".to_owned());
    }
    if !names.is_empty() {
        return Err(format!("list of components: no licence of {}", names.join(", ")));
    }
    Ok(())
}

fn glibc(target: &str) -> Result<String, String> {
    let (major, minor) = glibc_version(target)?;
    Ok(format!("{major}.{minor}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dist::build::host;

    /// A list of one crate, as cargo-cyclonedx makes it.
    fn list(version: &str, licences: &Value) -> String {
        let haul = json!({ "bom-ref": "haul", "name": "haul", "version": version });
        let toml = json!({ "bom-ref": "toml", "name": "toml", "licenses": licences });
        let dependencies = json!([{ "ref": "haul", "dependsOn": ["toml"] }, { "ref": "toml" }]);
        let list = json!({ "metadata": { "component": haul }, "components": [toml], "dependencies": dependencies });
        list.to_string()
    }

    #[test]
    fn a_list_names_haul_glibc_and_every_licence() {
        let mit = json!([{ "expression": "MIT" }]);
        let checked = |crates: &str| check(&add_glibc(crates, "x86_64", "2.36")?, "1.0.0");
        assert_eq!(checked(&list("1.0.0", &mit)), Ok(()));
        assert!(checked(&list("1.0.0", &json!([]))).is_err_and(|why| why.contains("no licence of toml")));
        assert!(checked(&list("0.9.0", &mit)).is_err_and(|why| why.contains("0.9.0")));
        assert!(check(&list("1.0.0", &mit), "1.0.0").is_err_and(|why| why.contains("glibc")));
        assert!(checked("{}").is_err());
    }

    #[test]
    fn haul_depends_on_glibc() {
        let completed = add_glibc(&list("1.0.0", &json!([])), "x86_64", "2.36").unwrap();
        let completed: Value = serde_json::from_str(&completed).unwrap();
        assert_eq!(completed["dependencies"][0]["dependsOn"], json!(["toml", "pkg:generic/glibc@2.36"]));
        assert_eq!(completed["components"][1]["version"], "2.36");
        let version = glibc(&host().unwrap()).unwrap();
        assert!(version.starts_with("2."), "{version}");
    }
}
