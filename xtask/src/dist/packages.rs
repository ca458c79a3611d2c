//! Debian and RPM packages, by cargo-deb and cargo-generate-rpm. `crates/cli/Cargo.toml` lists their contents; the
//! other files are in `packaging/`.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use super::commands::{fail, succeeds};
use super::start::MANUAL;
use crate::install::{DOCUMENT, PROGRAM, install};
use crate::notices;
use crate::tools::{CARGO_DEB, CARGO_GENERATE_RPM};
use crate::workspace::root;

/// How long a packager may take: it compresses.
const PACK_LIMIT: Duration = Duration::from_secs(300);
/// The packages' maintainer if `DEBFULLNAME` and `DEBEMAIL` are not set.
const NOBODY: (&str, &str) = ("The haul authors", "haul@packages.invalid");

/// Files of the sources, and where the packagers look for them.
const SOURCES: [(&str, &str); 10] = [
    ("contrib/haul-serve.service", "systemd/haul.haul-serve.service"),
    ("packaging/sysusers.conf", "systemd/haul.sysusers"),
    ("packaging/serve.toml", "serve.toml"),
    ("packaging/deb/lintian-overrides", "lintian-overrides"),
    ("packaging/deb/lintian-overrides-workers", "lintian-overrides-workers"),
    ("CHANGELOG.md", "CHANGELOG.md"),
    ("docs/BBCP.md", "BBCP.md"),
    ("LICENSE-MIT", "LICENSE-MIT"),
    ("LICENSE-APACHE", "LICENSE-APACHE"),
    (notices::TEXT, "notices.txt"),
];

/// Revision of a version's first packages.
pub(super) const FIRST: &str = "1";

/// The contents of a package.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PackageKind {
    /// This target's executable, and all that belongs to it.
    Haul,
    /// Executables for other architectures, to deploy to remote hosts.
    Workers,
}

impl PackageKind {
    /// The name of the package; `haul` and the variant in `crates/cli/Cargo.toml`.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Haul => "haul",
            Self::Workers => "haul-workers",
        }
    }
}

/// The release files of one target.
pub(super) struct Release<'r> {
    /// Where manual page and completions lie.
    pub directory: &'r Path,
    /// The executable.
    pub executable: &'r Path,
    /// Executables for other architectures, with their released names.
    pub workers: &'r [PathBuf],
    /// `0.1.0`.
    pub version: &'r str,
    /// The target triple.
    pub target: &'r str,
    /// Seconds since 1970.
    pub date: u64,
}

impl Release<'_> {
    /// The packages of this release.
    pub(super) fn kinds(&self) -> &'static [PackageKind] {
        if self.workers.is_empty() { &[PackageKind::Haul] } else { &[PackageKind::Haul, PackageKind::Workers] }
    }

    /// Makes the Debian package with this revision in `to`; its path.
    pub(super) fn deb(&self, kind: PackageKind, to: &Path, revision: &str) -> Result<PathBuf, String> {
        CARGO_DEB.provide()?;
        let stage = self.stage()?;
        let maintainer = maintainer();
        let changelog = stage.join("changelog.Debian");
        fs::write(&changelog, self.debian_changelog(kind, revision, &maintainer)?)
            .map_err(|error| fail(&changelog, error))?;
        let architecture = architecture(self.target)?.0;
        let package = to.join(format!("{}_{}-{revision}_{architecture}.deb", kind.name(), self.version));
        let mut command = Command::new("cargo-deb");
        command.args(["--no-build", "--no-strip", "--quiet", "--compress-system", "--package", "haul"]);
        if kind == PackageKind::Workers {
            command.args(["--variant", "workers"]);
        }
        command
            .args(["--deb-revision", revision])
            .args(["--target", self.target, "--maintainer", &maintainer, "--output"])
            .arg(&package);
        self.pack(&mut command)?;
        Ok(package)
    }

    /// Makes the RPM package with this release number in `to`; its path.
    pub(super) fn rpm(&self, kind: PackageKind, to: &Path, release: &str) -> Result<PathBuf, String> {
        CARGO_GENERATE_RPM.provide()?;
        let stage = self.stage()?;
        let pages = self.manual_pages()?;
        let pages = pages.iter().map(|name| stage.join("man").join(name));
        succeeds(Command::new("gzip").args(["-9", "-n", "-f"]).args(pages), PACK_LIMIT)?;
        let architecture = architecture(self.target)?.1;
        let package = to.join(format!("{}-{}-{release}.{architecture}.rpm", kind.name(), self.version));
        let mut metadata = format!("release = \"{release}\"\n");
        if kind == PackageKind::Workers {
            // haul finds only executables of its own version.
            metadata += &format!("requires = {{ haul = \"= {}\" }}\n", self.version);
        }
        let mut command = Command::new("cargo-generate-rpm");
        command
            .args(["--package", "crates/cli", "--arch", architecture, "--variant", kind.name()])
            .args(["--set-metadata", &metadata, "--source-date", &self.date.to_string(), "--output"])
            .arg(&package);
        self.pack(&mut command)?;
        Ok(package)
    }

    fn pack(&self, command: &mut Command) -> Result<(), String> {
        let date = self.date.to_string();
        succeeds(command.current_dir(root()).env("SOURCE_DATE_EPOCH", date), PACK_LIMIT).map(drop)
    }

    /// Lays out the files that the packagers look for; the folder.
    fn stage(&self) -> Result<PathBuf, String> {
        let stage = root().join("target/dist/stage");
        match fs::remove_dir_all(&stage) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(fail(&stage, error)),
            _ => {}
        }
        let date = SystemTime::UNIX_EPOCH + Duration::from_secs(self.date);
        let put = |from: &Path, name: &str, mode| {
            let to = stage.join(name);
            let installed = install(from, &to, mode).and_then(|()| File::open(&to)?.set_modified(date));
            installed.map_err(|error| fail(&to, error))
        };
        put(self.executable, "haul", PROGRAM)?;
        for name in ["haul.bash", "_haul", "haul.fish"] {
            put(&self.directory.join(name), name, DOCUMENT)?;
        }
        for name in self.manual_pages()? {
            put(&self.directory.join(&name), &format!("man/{name}"), DOCUMENT)?;
        }
        for (from, to) in SOURCES {
            put(&root().join(from), to, DOCUMENT)?;
        }
        for worker in self.workers {
            let name = worker.file_name().unwrap_or_default().to_string_lossy();
            put(worker, &format!("workers/{name}"), PROGRAM)?;
        }
        Ok(stage)
    }

    /// Names of the manual pages in the release.
    fn manual_pages(&self) -> Result<Vec<String>, String> {
        let entries = fs::read_dir(self.directory).map_err(|error| fail(self.directory, error))?;
        let names = entries.filter_map(|entry| Some(entry.ok()?.file_name().to_string_lossy().into_owned()));
        Ok(names.filter(|name| name == MANUAL || name.starts_with("haul-") && name.ends_with(".1")).collect())
    }

    /// Files required by Debian's policy, and `CHANGELOG.md`.
    fn debian_changelog(&self, kind: PackageKind, revision: &str, maintainer: &str) -> Result<String, String> {
        let seconds = format!("@{}", self.date);
        let date = succeeds(Command::new("date").args(["--utc", "--rfc-email", "--date", &seconds]), PACK_LIMIT)?;
        let (name, version) = (kind.name(), self.version);
        Ok(format!(
            "{name} ({version}-{revision}) unstable; urgency=medium\n\n  * Release {version}: see changelog.gz.\n\n \
             -- {maintainer}  {date}"
        ))
    }
}

/// `Name <address>`, by Debian's variables.
fn maintainer() -> String {
    let variable = |name: &str, default: &str| std::env::var(name).unwrap_or_else(|_| default.to_owned());
    format!("{} <{}>", variable("DEBFULLNAME", NOBODY.0), variable("DEBEMAIL", NOBODY.1))
}

/// The names of an architecture in Debian's and in RPM's packages.
fn architecture(target: &str) -> Result<(&'static str, &'static str), String> {
    match target.split('-').next() {
        Some("x86_64") => Ok(("amd64", "x86_64")),
        Some("aarch64") => Ok(("arm64", "aarch64")),
        _ => Err(format!("{target}: packages are made for x86_64 and aarch64 only")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn architectures_have_their_names() {
        assert_eq!(architecture("x86_64-unknown-linux-gnu"), Ok(("amd64", "x86_64")));
        assert_eq!(architecture("aarch64-unknown-linux-gnu"), Ok(("arm64", "aarch64")));
        assert!(architecture("riscv64gc-unknown-linux-gnu").is_err_and(|why| why.contains("riscv64gc")));
    }

    #[test]
    fn workers_depend_on_the_workspace_version() {
        let version = env!("CARGO_PKG_VERSION");
        let depends = format!("depends = \"haul (>= {version}), haul (<< {version}.1)\"\n");
        let manifest = fs::read_to_string(root().join("crates/cli/Cargo.toml")).unwrap();
        assert!(manifest.contains(&depends), "crates/cli/Cargo.toml lacks {depends}");
    }

    #[test]
    fn every_package_has_the_notices() {
        let manifest = fs::read_to_string(root().join("crates/cli/Cargo.toml")).unwrap();
        for folder in ["doc/haul", "doc/haul-workers", "licenses/haul", "licenses/haul-workers"] {
            let line = manifest.lines().find(|line| line.contains(&format!("usr/share/{folder}/notices.txt")));
            assert!(line.is_some_and(|line| line.contains("stage/notices.txt")), "{folder}");
        }
        let wheel = fs::read_to_string(root().join("python/pyproject.toml")).unwrap();
        assert!(wheel.contains("\"notices.txt\" = \"share/doc/haul/notices.txt\""));
        assert_eq!(fs::read(root().join("python/notices.txt")).unwrap(), fs::read(root().join(notices::TEXT)).unwrap());
        for form in ["conda/recipe.yaml", "homebrew/haul.rb", "nix/package.nix"] {
            let form = fs::read_to_string(root().join("packaging").join(form)).unwrap();
            assert!(form.contains(notices::TEXT), "{form}");
        }
    }

    #[test]
    fn the_changelog_of_debian_has_its_form() {
        let here = Path::new("/");
        let (version, target) = ("1.2.3", "x86_64");
        let release = Release { directory: here, executable: here, workers: &[], version, target, date: 0 };
        let text = release.debian_changelog(PackageKind::Haul, "4", "A <a@b>").unwrap();
        assert!(text.starts_with("haul (1.2.3-4) unstable; urgency=medium\n\n  * "), "{text}");
        assert!(text.ends_with("\n\n -- A <a@b>  Thu, 01 Jan 1970 00:00:00 +0000\n"), "{text}");
    }
}
