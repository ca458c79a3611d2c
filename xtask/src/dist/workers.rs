//! The package `haul-workers`: executables for other architectures, and a trial of their deployment.

use std::fs;
use std::path::Path;

use super::build::check_static;
use super::cell::Cell;
use super::commands::fail;

/// Architectures that haul is released for.
const RELEASED: [&str; 2] = ["x86_64", "aarch64"];
/// Where the package has its executables, beside the `bin` of haul.
const DIRECTORY: &str = "usr/lib/haul";
/// Stands in for ssh: runs the command in its last argument, as a host of another architecture would. busybox's shell
/// uses its built-in `uname`, so a fake `uname` on PATH has no effect.
const SSH: &str = r#"#!/bin/sh
for command; do :; done
command=$(printf '%s\n' "$command" | sed 's/uname -sm/echo Linux aarch64/')
mkdir -p /other/home && cd /other/home || exit
exec env -i HOME=/other/home PATH=/other/bin:/usr/bin:/bin sh -c "$command"
"#;
/// Copies a file to that host, and compares.
const COPY: [&str; 3] =
    ["sh", "-c", "PATH=/other/ssh:$PATH haul /usr/bin/haul other:/other/copy 2>&1 && cmp /usr/bin/haul /other/copy"];

/// Fails unless `file` is a released executable of this version, for another architecture than `target`'s.
pub(super) fn check_file(file: &Path, version: &str, target: &str) -> Result<(), String> {
    let machine = check_static(file)?;
    check_name(&file.file_name().unwrap_or_default().to_string_lossy(), machine, version, target)
        .map_err(|why| fail(file, why))
}

fn check_name(name: &str, architecture: &str, version: &str, target: &str) -> Result<(), String> {
    if !RELEASED.contains(&architecture) {
        return Err("it is for no architecture that haul is released for".to_owned());
    }
    let released = format!("haul-{version}-{architecture}-unknown-linux-gnu");
    match target.split('-').next() == Some(architecture) {
        true => Err(format!("it is for {architecture}, as haul itself: the package is for others")),
        false if name != released => Err(format!("haul looks for {released}\nhint: build it with --target")),
        false => Ok(()),
    }
}

/// Makes the installed haul deploy its executable to an aarch64 host, emulated by qemu.
pub(super) fn deploy(cell: &Cell) -> Result<(), String> {
    cell.write_script("other/ssh/ssh", SSH)?;
    // Instead of the one that the package has installed here.
    cell.write_script("other/bin/haul", "#!/bin/sh\nexit 1\n")?;
    let printed = cell.run_emulating(&COPY)?;
    let placed = cell.root().join("other/home/.cache/haul");
    let deployed = fs::read_dir(&placed).map_err(|error| fail(&placed, format!("{error}\n{printed}")))?;
    let deployed = deployed.filter_map(|entry| fs::read(entry.ok()?.path().join("haul")).ok()).next();
    let packaged = fs::read_dir(cell.root().join(DIRECTORY)).map_err(|error| fail(Path::new(DIRECTORY), error))?;
    let packaged = packaged.filter_map(|entry| fs::read(entry.ok()?.path()).ok()).collect::<Vec<_>>();
    match deployed {
        Some(deployed) if packaged.contains(&deployed) => {
            fs::remove_dir_all(cell.root().join("other")).map_err(|error| fail(&placed, error))
        }
        _ => Err(format!("haul deployed another executable than that of haul-workers: {printed}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_executables_usable_by_haul_are_packaged() {
        let (name, target) = ("haul-0.1.0-aarch64-unknown-linux-gnu", "x86_64-unknown-linux-gnu");
        let check = |name, architecture| check_name(name, architecture, "0.1.0", target);
        assert_eq!(check(name, "aarch64"), Ok(()));
        assert!(check(name, "x86_64").is_err_and(|why| why.contains("as haul itself")));
        assert!(
            check("haul-0.1.0-riscv64-unknown-linux-gnu", "riscv64").is_err_and(|why| why.contains("no architecture"))
        );
        for other in ["haul", "haul-0.1.1-aarch64-unknown-linux-gnu"] {
            assert!(check(other, "aarch64").is_err_and(|why| why.contains(name)), "{other}");
        }
    }
}
