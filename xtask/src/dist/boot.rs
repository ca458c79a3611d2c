//! `cargo xtask boot`: the executable copies a file on an old kernel, alone in an emulated machine.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use clap::Args;
use haul_lab::find_program;

use super::commands::{fail, succeeds};
use crate::install::{PROGRAM, install};
use crate::run::{Output, run};

/// Time limit for booting and copying without hardware virtualisation.
const BOOT_LIMIT: Duration = Duration::from_secs(300);
const PACK_LIMIT: Duration = Duration::from_secs(60);
/// The machine's last line.
const SUCCESS: &str = "haul demo: status 0";
/// The machine's first process.
const INIT: &str = r#"#!/bin/busybox sh
for pair in "proc /proc" "sysfs /sys" "devtmpfs /dev" "tmpfs /tmp"; do
  /bin/busybox mount -t ${pair% *} none ${pair#* }
done
/bin/busybox ip link set lo up
export HOME=/tmp PATH=/bin
/bin/busybox uname -sr
/bin/haul demo --size 20m
echo "haul demo: status $?"
/bin/busybox poweroff -f
"#;

/// Options of the chore.
#[derive(Debug, Args)]
pub struct BootArguments {
    /// The kernel: a bzImage without needed modules (Debian's cloud kernels)
    #[arg(long, value_name = "FILE")]
    kernel: PathBuf,
    /// The executable that copies there
    #[arg(long, value_name = "FILE")]
    executable: PathBuf,
}

/// Runs the chore.
pub fn main(arguments: &BootArguments) -> ExitCode {
    match boot(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("cargo xtask boot: {why}");
            ExitCode::FAILURE
        }
    }
}

fn boot(arguments: &BootArguments) -> Result<(), String> {
    let directory = tempfile::tempdir().map_err(|error| format!("no temporary directory: {error}"))?;
    let archive = pack(directory.path(), &arguments.executable)?;
    let mut machine = Command::new("qemu-system-x86_64");
    machine.args(["-machine", "q35,accel=tcg", "-cpu", "max", "-smp", "2", "-m", "1024", "-nographic"]);
    machine.args(["-no-reboot", "-net", "none", "-append", "console=ttyS0 panic=-1 quiet", "-kernel"]);
    machine.arg(&arguments.kernel).arg("-initrd").arg(&archive);
    let ended = run(&mut machine, BOOT_LIMIT, Output::Shown);
    match ended.failure {
        Some(why) => Err(format!("the machine: {why}\nhint: apt-get install qemu-system-x86")),
        None if ended.stdout.contains(SUCCESS) => Ok(()),
        None => Err(format!("the machine did not print '{SUCCESS}'")),
    }
}

/// Packs the machine's files into an initial RAM file system; its path.
fn pack(directory: &Path, executable: &Path) -> Result<PathBuf, String> {
    let root = directory.join("root");
    for name in ["bin", "proc", "sys", "dev", "tmp"] {
        fs::create_dir_all(root.join(name)).map_err(|error| fail(&root, error))?;
    }
    let init = root.join("init");
    fs::write(directory.join("init"), INIT).map_err(|error| fail(&init, error))?;
    let busybox = find_program("busybox").ok_or("busybox is not installed: apt-get install busybox-static")?;
    for (from, to) in [
        (directory.join("init").as_path(), init.as_path()),
        (&busybox, &root.join("bin/busybox")),
        (executable, &root.join("bin/haul")),
    ] {
        install(from, to, PROGRAM).map_err(|error| fail(from, error))?;
    }
    let archive = directory.join("initrd");
    let mut cpio = Command::new("sh");
    cpio.args(["-c", "busybox find . | busybox cpio -o -H newc >\"$0\""]).arg(&archive).current_dir(&root);
    succeeds(&mut cpio, PACK_LIMIT)?;
    Ok(archive)
}
