//! Lists of checksums of the released files, for `sha256sum --check` and `b3sum --check`, and their signatures.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use haul_lab::find_program;

use super::commands::{fail, succeeds};

/// The lists, and the programs that write and check them. Files in this form are not in them.
const LISTS: [(&str, &str); 2] = [("SHA256SUMS", SHA256), ("B3SUMS", BLAKE3)];
/// Programs that print digests.
pub(super) const SHA256: &str = "sha256sum";
pub(super) const BLAKE3: &str = "b3sum";
const DIGEST_LIMIT: Duration = Duration::from_secs(120);
const SIGNER: &str = "minisign";

/// Lists the files of a release, which are in `directory`, of all targets; paths of the lists.
pub(super) fn write(directory: &Path) -> Result<Vec<PathBuf>, String> {
    let released = released(directory)?;
    let mut lists = Vec::new();
    for (name, program) in LISTS {
        let mut list = String::new();
        for file in &released {
            list += &format!("{}  {file}\n", digest(program, &directory.join(file))?);
        }
        let path = directory.join(name);
        fs::write(&path, list).map_err(|error| fail(&path, error))?;
        lists.push(path);
    }
    Ok(lists)
}

/// Names of the files, sorted; without the lists and their signatures.
fn released(directory: &Path) -> Result<Vec<String>, String> {
    let entries = fs::read_dir(directory).map_err(|error| fail(directory, error))?;
    let mut names = Vec::new();
    for entry in entries {
        let name = entry.map_err(|error| fail(directory, error))?.file_name().to_string_lossy().into_owned();
        if !LISTS.iter().any(|(list, _)| name.starts_with(list)) {
            names.push(name);
        }
    }
    names.sort_unstable();
    Ok(names)
}

/// A file's digest by `program`, in hexadecimal digits.
pub(super) fn digest(program: &str, file: &Path) -> Result<String, String> {
    let printed = succeeds(Command::new(program).arg(file), DIGEST_LIMIT)?;
    let digest = printed.split_whitespace().next().map(str::to_owned);
    digest.ok_or_else(|| format!("{program} {}: it printed no digest", file.display()))
}

/// Signs each list with minisign's secret key in `key`, and asks for its password if it has one; paths of the signatures.
pub(super) fn sign(lists: &[PathBuf], key: &Path, version: &str) -> Result<Vec<PathBuf>, String> {
    if find_program(SIGNER).is_none() {
        return Err(format!("{SIGNER} is not installed: apt-get install minisign"));
    }
    if !key.is_file() {
        return Err(format!("{}: no such key\nhint: minisign -G -s {0} makes one", key.display()));
    }
    let mut signatures = Vec::new();
    for list in lists {
        let mut command = Command::new(SIGNER);
        command.args(["-S", "-t", &format!("haul {version}"), "-s"]).arg(key).arg("-m").arg(list);
        // With the terminal: for the password.
        match command.status() {
            Ok(status) if status.success() => {}
            Ok(status) => return Err(format!("{}: {SIGNER} could not sign it: {status}", list.display())),
            Err(error) => return Err(format!("{SIGNER}: {error}")),
        }
        let mut signature = list.clone().into_os_string();
        signature.push(".minisig");
        signatures.push(signature.into());
    }
    Ok(signatures)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RELEASED: [&str; 10] = [
        "_haul",
        "haul-1.2.0-x86_64-unknown-linux-gnu",
        "haul-1.2.0.tar.gz",
        "haul-proto-1.2.0.crate",
        "haul-workers_1.2.0-1_amd64.deb",
        "haul.1",
        "haul_1.2.0-1_amd64.deb",
        "haul_transfer-1.2.0-py3-none-manylinux2014_x86_64.whl",
        "notices.txt",
        "recipe.yaml",
    ];

    /// A directory with released files, lists of an earlier release, a signature, and the new lists.
    fn release() -> (tempfile::TempDir, Vec<PathBuf>) {
        let directory = tempfile::tempdir().unwrap();
        for name in RELEASED.iter().chain(&["B3SUMS", "SHA256SUMS", "SHA256SUMS.minisig"]) {
            fs::write(directory.path().join(name), name).unwrap();
        }
        let lists = write(directory.path()).unwrap();
        (directory, lists)
    }

    fn checks(program: &str, directory: &Path, list: &str) -> bool {
        let output = Command::new(program).args(["--check", list]).current_dir(directory).output();
        output.expect("it is installed").status.success()
    }

    #[test]
    fn the_lists_hold_for_all_files_of_the_release() {
        let (directory, lists) = release();
        for list in &lists {
            let text = fs::read_to_string(list).unwrap();
            let names: Vec<_> = text.lines().filter_map(|line| line.split_once("  ")).map(|(_, name)| name).collect();
            assert_eq!(names, RELEASED);
        }
        let tools = [("sha256sum", "SHA256SUMS"), ("b3sum", "B3SUMS")];
        for (program, list) in tools {
            assert!(checks(program, directory.path(), list), "{list}");
        }
        fs::write(directory.path().join("haul_1.2.0-1_amd64.deb"), "another").unwrap();
        for (program, list) in tools {
            assert!(!checks(program, directory.path(), list), "{list}");
        }
    }

    fn verifies(directory: &Path, public: &Path) -> bool {
        let mut command = Command::new(SIGNER);
        command.args(["-V", "-m", "SHA256SUMS", "-p"]).arg(public).current_dir(directory);
        command.output().unwrap().status.success()
    }

    #[test]
    fn a_signature_holds_for_its_list_and_key_alone() {
        if find_program(SIGNER).is_none() {
            println!("SKIPPED: there is no {SIGNER}");
            return;
        }
        let (directory, lists) = release();
        let keys = tempfile::tempdir().unwrap();
        let key = |name: &str| (keys.path().join(name), keys.path().join(format!("{name}.pub")));
        for name in ["ours", "theirs"] {
            let (secret, public) = key(name);
            let made =
                Command::new(SIGNER).args(["-G", "-W", "-s"]).arg(secret).arg("-p").arg(public).output().unwrap();
            assert!(made.status.success(), "{made:?}");
        }
        assert_eq!(sign(&lists, &key("ours").0, "1.2.0").unwrap().len(), lists.len());
        assert!(verifies(directory.path(), &key("ours").1));
        assert!(!verifies(directory.path(), &key("theirs").1));
        fs::write(directory.path().join("SHA256SUMS"), "another").unwrap();
        assert!(!verifies(directory.path(), &key("ours").1));
        assert!(sign(&lists, &keys.path().join("none"), "1.2.0").is_err_and(|why| why.contains("no such key")));
    }
}
