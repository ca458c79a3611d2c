//! Compiles the executable that is shipped: from the same sources and toolchain, the same bytes in any folder.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use haul_lab::find_program;

use super::commands::{fail, succeeds};
use crate::artifacts;
use crate::run::{Output, run};
use crate::workspace::{cargo, root};

/// How long the build may take: it optimises across all crates.
const BUILD_LIMIT: Duration = Duration::from_secs(60 * 60);
/// How long a question to a tool may take.
const ASK_LIMIT: Duration = Duration::from_secs(60);
/// The first glibc whose static executables take packed relocations (DT_RELR).
const RELR_SINCE: (u32, u32) = (2, 36);
/// Replacements for the paths of the sources, cargo's folder and the standard library's sources in panic messages.
const SOURCES: &str = "/haul";
const CARGO_HOME: &str = "/cargo";
const STANDARD_LIBRARY: &str = "/rust";

/// This host's target triple.
pub(super) fn host() -> Result<String, String> {
    let printed = succeeds(Command::new("rustc").args(["--version", "--verbose"]), ASK_LIMIT)?;
    let triple = printed.lines().find_map(|line| line.strip_prefix("host: "));
    triple.map(str::to_owned).ok_or_else(|| "rustc --version --verbose names no host".to_owned())
}

/// The version of glibc that the compiler for `target` links: major and minor.
pub(super) fn glibc_version(target: &str) -> Result<(u32, u32), String> {
    let compiler = if target == host()? { "cc".to_owned() } else { cross_linker(target)?.1 };
    let mut command = Command::new(compiler);
    let macros = succeeds(command.args(["-E", "-dM", "-include", "features.h", "-x", "c", "/dev/null"]), ASK_LIMIT)?;
    let value = |name: &str| {
        let line = macros.lines().find_map(|line| line.strip_prefix(&format!("#define {name} ")))?;
        line.trim().parse().ok()
    };
    let version = value("__GLIBC__").zip(value("__GLIBC_MINOR__"));
    version.ok_or_else(|| format!("{target}: its C library is not glibc"))
}

/// Builds the executable from the sources in `sources` for `target`; its path.
pub(super) fn build(sources: &Path, target: &str) -> Result<PathBuf, String> {
    let folders_apart = folders(sources)?.into_iter().map(|(from, to)| format!("--remap-path-prefix={from}={to}"));
    // 320 KB less. A static executable relocates itself, and only this C library knows the packed form.
    let packs = glibc_version(target)? >= RELR_SINCE;
    let packed = packs.then(|| "-Clink-arg=-Wl,-z,pack-relative-relocs".to_owned());
    let rustflags =
        serde_json::to_string(&folders_apart.chain(packed).collect::<Vec<_>>()).map_err(|error| error.to_string())?;
    let c_flags = folders(sources)?.into_iter().map(|(from, to)| format!("-ffile-prefix-map={from}={to}"));
    // With the features that haul needs, not those of tests and chores: they make it larger.
    let mut command = cargo(&["build", "--profile", "dist", "--package", "haul", "--target", target]);
    command
        .arg("--message-format=json-render-diagnostics")
        .arg("--config")
        .arg(format!("target.{target}.rustflags={rustflags}"))
        .env(format!("CFLAGS_{}", target.replace('-', "_")), c_flags.collect::<Vec<_>>().join(" "))
        .env_remove("RUSTFLAGS")
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .current_dir(sources);
    if sources != root() {
        command.env_remove("CARGO_TARGET_DIR");
    }
    if target != host()? {
        command.envs([cross_linker(target)?]);
    }
    let ended = run(&mut command, BUILD_LIMIT, Output::Kept);
    if let Some(why) = ended.failure {
        return Err(format!("the build for {target} failed: {why}"));
    }
    let programs = artifacts::parse(&ended.stdout).into_iter();
    let program = programs.filter(|program| program.target == "haul").map(|program| program.path).next();
    program.ok_or_else(|| "cargo built no program called haul".to_owned())
}

/// The variable that names the linker for `target`, and its value. Looks for the target's standard library, too.
pub(super) fn cross_linker(target: &str) -> Result<(String, String), String> {
    let libraries = succeeds(Command::new("rustc").args(["--print", "target-libdir", "--target", target]), ASK_LIMIT)?;
    if !Path::new(libraries.trim()).is_dir() {
        return Err(format!(
            "{target}: the toolchain has no standard library for it\nhint: rustup target add {target}"
        ));
    }
    let architecture = target.split('-').next().unwrap_or_default();
    let linker = format!("{architecture}-linux-gnu-gcc");
    if find_program(&linker).is_none() {
        return Err(format!(
            "{target}: {linker} is not installed\n\
             hint: apt-get install gcc-{architecture}-linux-gnu and the C library of that architecture \
             (libc6-dev-arm64-cross for aarch64)"
        ));
    }
    Ok((format!("CARGO_TARGET_{}_LINKER", target.replace('-', "_").to_uppercase()), linker))
}

/// Folders of this machine, with their replacements in the executable. The last match wins: the outermost come first.
fn folders(sources: &Path) -> Result<[(String, &'static str); 3], String> {
    let home = std::env::var_os("HOME").map(|home| Path::new(&home).join(".cargo"));
    let cargo_home = std::env::var_os("CARGO_HOME").map(PathBuf::from).or(home).ok_or("HOME is not set")?;
    let sysroot = succeeds(Command::new("rustc").args(["--print", "sysroot"]), ASK_LIMIT)?;
    let library = Path::new(sysroot.trim()).join("lib/rustlib/src/rust");
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let sources = sources.canonicalize().map_err(|error| fail(sources, error))?;
    Ok([(text(&cargo_home), CARGO_HOME), (text(&library), STANDARD_LIBRARY), (text(&sources), SOURCES)])
}

/// Fails when the executable names a folder of this machine.
pub(super) fn check_no_folders(content: &[u8], sources: &Path) -> Result<(), String> {
    for (folder, _) in folders(sources)? {
        if content.windows(folder.len()).any(|window| window == folder.as_bytes()) {
            return Err(format!("it names {folder}, so that a build in another folder would differ"));
        }
    }
    Ok(())
}

/// Builds again from a copy of the sources in another folder, and compares the bytes with `first`.
pub(super) fn check_reproducible(first: &[u8], target: &str) -> Result<(), String> {
    let folder = tempfile::Builder::new().prefix("haul-second-build-").tempdir();
    let folder = folder.map_err(|error| format!("no folder for the second build: {error}"))?;
    let sources = folder.path().join("sources");
    copy_sources(&sources)?;
    let second = build(&sources, target)?;
    let content = fs::read(&second).map_err(|error| fail(&second, error))?;
    let Some(number) = differing_bytes(first, &content) else { return Ok(()) };
    let kept = root().join("target/dist/second-build");
    fs::copy(&second, &kept).map_err(|error| fail(&kept, error))?;
    Err(format!("a build in another folder differs in {number} bytes\nhint: compare with {}", kept.display()))
}

/// How many bytes differ; `None` where the two are equal.
fn differing_bytes(first: &[u8], second: &[u8]) -> Option<usize> {
    let pairs = first.iter().zip(second).filter(|(one, other)| one != other).count();
    let number = pairs + first.len().abs_diff(second.len());
    (number > 0).then_some(number)
}

/// Copies the files that git knows, as they are now.
pub(super) fn copy_sources(to: &Path) -> Result<(), String> {
    let listed = succeeds(Command::new("git").args(["ls-files", "-z"]).current_dir(root()), ASK_LIMIT)?;
    for name in listed.split('\0').filter(|name| !name.is_empty()) {
        let (from, to) = (root().join(name), to.join(name));
        if !from.is_file() {
            continue;
        }
        let directory = to.parent().ok_or("a file without a directory")?;
        fs::create_dir_all(directory).map_err(|error| fail(directory, error))?;
        fs::copy(&from, &to).map_err(|error| fail(&from, error))?;
    }
    Ok(())
}

/// The packages' time stamp: `SOURCE_DATE_EPOCH`, or the last commit's time.
pub(super) fn source_date() -> Result<u64, String> {
    let named = std::env::var("SOURCE_DATE_EPOCH").ok();
    let date = match named {
        Some(date) => date,
        None => succeeds(Command::new("git").args(["log", "-1", "--format=%ct"]).current_dir(root()), ASK_LIMIT)?,
    };
    date.trim().parse().map_err(|_| {
        format!(
            "{}: not a time\nhint: set SOURCE_DATE_EPOCH to seconds since 1970, or build in a git clone",
            date.trim()
        )
    })
}

/// Names of machines in readelf(1)'s output, and in target triples.
const MACHINES: [(&str, &str); 2] = [("Advanced Micro Devices X86-64", "x86_64"), ("AArch64", "aarch64")];

/// Checks that `file` is a static executable, position independent where Rust links such ones. Returns its machine.
pub(super) fn check_static(file: &Path) -> Result<&'static str, String> {
    let mut readelf = Command::new("readelf");
    readelf.args(["--wide", "--file-header", "--program-headers"]).arg(file).env("LC_ALL", "C");
    let headers = succeeds(&mut readelf, ASK_LIMIT)?;
    let field = |name| headers.lines().find_map(|line| line.trim_start().strip_prefix(name)).map(str::trim);
    let machine = MACHINES.iter().find(|(name, _)| field("Machine:") == Some(name)).map(|(_, machine)| *machine);
    let kind = field("Type:").unwrap_or_default();
    match machine {
        Some(_) if field("INTERP").is_some() || !(kind.starts_with("EXEC") || kind.starts_with("DYN")) => {
            Err(fail(file, "it is no static executable, so it needs the system's libraries"))
        }
        // Rust links static executables for aarch64 at a fixed address.
        Some(machine) if machine == "aarch64" || kind.starts_with("DYN") => Ok(machine),
        Some(_) => Err(fail(file, "it is not position independent")),
        None => Err(fail(file, "haul is not released for its machine")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differing_bytes_are_counted() {
        assert_eq!(differing_bytes(b"haul", b"haul"), None);
        assert_eq!(differing_bytes(b"haul", b"hauls"), Some(1));
        assert_eq!(differing_bytes(b"haul", b"foul"), Some(2));
    }

    #[test]
    fn a_folder_of_this_machine_is_found() {
        let here = root().canonicalize().unwrap();
        let content = format!("\0panicked at {}/crates/cli/src/main.rs\0", here.display());
        assert!(check_no_folders(content.as_bytes(), root()).is_err_and(|why| why.contains("it names")));
        assert_eq!(check_no_folders(b"panicked at /haul/crates/cli/src/main.rs", root()), Ok(()));
    }

    #[test]
    fn a_static_executable_is_position_independent_if_rust_supports_it() {
        let directory = tempfile::tempdir().unwrap();
        let headers = |kind: u8, machine: u8, segment: u8| {
            let mut file = vec![0; 120];
            file[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
            for (at, byte) in [(16, kind), (18, machine), (24, 1), (32, 64), (54, 56), (56, 1), (64, segment)] {
                file[at] = byte;
            }
            let path = directory.path().join(format!("{kind}-{machine}-{segment}"));
            fs::write(&path, file).unwrap();
            check_static(&path)
        };
        let (fixed, independent, x86_64, aarch64, loaded, interpreter) = (2, 3, 62, 183, 1, 3);
        assert_eq!(headers(independent, x86_64, loaded), Ok("x86_64"));
        assert_eq!(headers(fixed, aarch64, loaded), Ok("aarch64"));
        assert!(headers(fixed, x86_64, loaded).is_err_and(|why| why.contains("position")));
        assert!(headers(independent, x86_64, interpreter).is_err_and(|why| why.contains("no static")));
        assert!(headers(independent, 243, loaded).is_err_and(|why| why.contains("not released")));
    }
}
