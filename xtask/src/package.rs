//! `cargo xtask dist --deb`: a Debian package of what is shipped. It needs dpkg-deb and gzip.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::install::{DOCUMENT, PROGRAM, install};
use crate::run::{Output, run};
use crate::workspace::root;

/// How long dpkg-deb and gzip may take.
const LIMIT: Duration = Duration::from_secs(60);

/// Where files of `target/dist` go in a system.
const PLACES: [(&str, &str); 4] = [
    ("haul.1", "usr/share/man/man1/haul.1"),
    ("haul.bash", "usr/share/bash-completion/completions/haul"),
    ("_haul", "usr/share/zsh/vendor-completions/_haul"),
    ("haul.fish", "usr/share/fish/vendor_completions.d/haul.fish"),
];
/// The same for files of the sources.
const DOCUMENTS: [(&str, &str); 4] = [
    ("CHANGELOG.md", "usr/share/doc/haul/changelog"),
    ("docs/BBCP.md", "usr/share/doc/haul/BBCP.md"),
    ("LICENSE-MIT", "usr/share/doc/haul/LICENSE-MIT"),
    ("LICENSE-APACHE", "usr/share/doc/haul/LICENSE-APACHE"),
];
/// Debian wants these compressed.
const COMPRESSED: [&str; 2] = ["usr/share/man/man1/haul.1", "usr/share/doc/haul/changelog"];

/// Puts `program` and what lies beside it in `directory` into a package there; its path.
pub fn build(directory: &Path, program: &Path, version: &str) -> Result<PathBuf, String> {
    let stage = tempfile::tempdir().map_err(|error| format!("no temporary directory: {error}"))?;
    let stage = stage.path().join("haul");
    install(program, &stage.join("usr/bin/haul"), PROGRAM).map_err(|error| format!("usr/bin/haul: {error}"))?;
    let sources = root();
    let made = PLACES.iter().map(|(from, to)| (directory.join(from), to));
    for (from, to) in made.chain(DOCUMENTS.iter().map(|(from, to)| (sources.join(from), to))) {
        install(&from, &stage.join(to), DOCUMENT).map_err(|error| format!("{to}: {error}"))?;
    }
    for file in COMPRESSED {
        succeeds(Command::new("gzip").args(["-9", "-n"]).arg(stage.join(file)))?;
    }
    write(&stage.join("usr/share/doc/haul/copyright"), COPYRIGHT)?;
    let architecture = succeeds(Command::new("dpkg").arg("--print-architecture"))?;
    let architecture = architecture.trim();
    write(&stage.join("DEBIAN/control"), &control(version, architecture))?;
    let package = directory.join(format!("haul_{version}_{architecture}.deb"));
    succeeds(Command::new("dpkg-deb").args(["--root-owner-group", "--build"]).arg(&stage).arg(&package))?;
    Ok(package)
}

const COPYRIGHT: &str = "haul is licensed under the MIT License (LICENSE-MIT) or the Apache License, Version 2.0\n\
                         (LICENSE-APACHE), as you like. Copyright: the haul authors.\n";

/// The program is static, so that it needs no library; it is started over ssh.
fn control(version: &str, architecture: &str) -> String {
    format!(
        "Package: haul\n\
         Version: {version}\n\
         Architecture: {architecture}\n\
         Maintainer: The haul authors\n\
         Section: net\n\
         Priority: optional\n\
         Depends: openssh-client\n\
         Description: copies files between hosts, encrypted and verified, over parallel streams\n \
         One command, started over ssh, for big files and trees of many small ones. It\n \
         goes on where a broken copy ended, and takes bbcp's command line.\n"
    )
}

fn write(path: &Path, content: &str) -> Result<(), String> {
    let made = path.parent().map_or(Ok(()), std::fs::create_dir_all);
    made.and_then(|()| std::fs::write(path, content)).map_err(|error| format!("{}: {error}", path.display()))
}

fn succeeds(command: &mut Command) -> Result<String, String> {
    let shown = format!("{command:?}");
    let ended = run(command, LIMIT, Output::Kept);
    match ended.failure {
        None => Ok(ended.stdout),
        Some(why) => Err(format!("{shown}: {why}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_has_the_program_and_what_it_says_of_itself() {
        if Command::new("dpkg-deb").arg("--version").output().is_err() {
            println!("SKIPPED: there is no dpkg-deb");
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        for (name, _) in crate::dist::SAID {
            std::fs::write(directory.path().join(name), name).unwrap();
        }
        let program = directory.path().join("program");
        std::fs::write(&program, "program").unwrap();
        let package = build(directory.path(), &program, "1.2.3").unwrap();
        let listed = succeeds(Command::new("dpkg-deb").arg("--contents").arg(&package)).unwrap();
        for place in
            ["./usr/bin/haul", "./usr/share/man/man1/haul.1.gz", "./usr/share/fish/vendor_completions.d/haul.fish"]
        {
            assert!(listed.contains(place), "{listed}");
        }
        assert!(listed.lines().all(|line| line.contains("root/root")), "{listed}");
        let fields = succeeds(Command::new("dpkg-deb").arg("--field").arg(&package)).unwrap();
        assert!(fields.contains("Version: 1.2.3") && fields.contains("Depends: openssh-client"), "{fields}");
    }
}
