//! The archive of the sources, and recipes of Homebrew and conda-forge that fetch it: `packaging/` has their forms.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::commands::{fail, succeeds};
use super::sums::{SHA256, digest};
use crate::workspace::root;

const ARCHIVE_LIMIT: Duration = Duration::from_secs(120);
/// Templates in `packaging/`, and the names of the generated files.
const FORMS: [(&str, &str); 2] = [("homebrew/haul.rb", "haul.rb"), ("conda/recipe.yaml", "recipe.yaml")];

/// Archives the last commit in `directory`, and fills in the forms for an archive below `url`; paths of all.
pub(super) fn write(directory: &Path, version: &str, url: &str) -> Result<Vec<PathBuf>, String> {
    let url = url.trim_end_matches('/');
    if !url.starts_with("https://") || url.contains(|c: char| c.is_whitespace() || c == '"') {
        return Err(format!("--source {url}: not an address that begins with https://"));
    }
    let archive = directory.join(format!("haul-{version}.tar.gz"));
    let mut command = Command::new("git");
    command.args(["-c", "tar.tar.gz.command=gzip -9 -n -c", "archive", "--format=tar.gz"]);
    command.arg(format!("--prefix=haul-{version}/")).arg("--output").arg(&archive).arg("HEAD").current_dir(root());
    succeeds(&mut command, ARCHIVE_LIMIT)?;
    let digest = digest(SHA256, &archive)?;
    let mut made = vec![archive];
    for (form, name) in FORMS {
        let form = root().join("packaging").join(form);
        let text = fs::read_to_string(&form).map_err(|error| fail(&form, error))?;
        let path = directory.join(name);
        fs::write(&path, fill(&text, version, url, &digest)).map_err(|error| fail(&path, error))?;
        made.push(path);
    }
    Ok(made)
}

fn fill(form: &str, version: &str, url: &str, digest: &str) -> String {
    let known = [
        ("@VERSION@", version),
        ("@URL@", url),
        ("@SHA256@", digest),
        ("@HOMEPAGE@", env!("CARGO_PKG_HOMEPAGE")),
        ("@REPOSITORY@", env!("CARGO_PKG_REPOSITORY")),
    ];
    known.iter().fold(form.to_owned(), |text, (name, value)| text.replace(name, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_names_the_archive_and_its_digest() {
        for (form, _) in FORMS {
            let text = fs::read_to_string(root().join("packaging").join(form)).unwrap();
            let filled = fill(&text, "1.2.3", "https://example.org/haul", "0123abcd");
            assert!(filled.contains("https://example.org/haul/haul-") && filled.contains("1.2.3"), "{filled}");
            assert!(filled.contains("0123abcd") && !filled.contains('@'), "{filled}");
            assert!(filled.contains(env!("CARGO_PKG_HOMEPAGE")), "{filled}");
        }
    }

    #[test]
    fn every_package_takes_its_homepage_from_the_workspace() {
        let text = |name: &str| fs::read_to_string(root().join(name)).unwrap();
        for directory in fs::read_dir(root().join("crates")).unwrap() {
            let manifest = directory.unwrap().path().join("Cargo.toml");
            let manifest = text(&manifest.to_string_lossy());
            assert!(manifest.contains("\nhomepage.workspace = true\nrepository.workspace = true\n"), "{manifest}");
        }
        for name in ["packaging/nix/package.nix", "python/hatch_build.py"] {
            assert!(text(name).contains("homepage") && !text(name).contains("://"), "{name}");
        }
    }

    #[test]
    fn recipes_ask_for_the_static_c_library() {
        for (form, package) in [("conda/recipe.yaml", "- sysroot_${{"), ("nix/package.nix", "glibc.static")] {
            let text = fs::read_to_string(root().join("packaging").join(form)).unwrap();
            assert!(text.contains(package), "{form}");
        }
    }

    #[test]
    fn an_invalid_address_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        for url in ["http://example.org", "example.org", "https://example.org/\" x"] {
            assert!(write(directory.path(), "1.2.3", url).is_err_and(|why| why.contains("--source")), "{url}");
        }
    }
}
