//! A disk with a power switch: a file system in an image, on a loop device.
//!
//! The file system cuts itself off (`FS_IOC_SHUTDOWN`, linux/fs.h, in ext4 and XFS): it stops writing, and loses data
//! held only in memory. The next mount recovers as after a power cut. Data in the device's own cache survives, so a
//! missing barrier goes unnoticed.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use rustix::ioctl::{Opcode, Setter, ioctl, opcode};
use rustix::thread::{UnshareFlags, unshare_unsafe};

use crate::run::output_of;

/// `FS_IOC_SHUTDOWN`.
const SHUTDOWN: Opcode = opcode::read::<u32>(b'X', 125);

/// The moment of a power cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// Right after the file system has written its log, for whatever reason it had (`FS_SHUTDOWN_FLAGS_LOGFLUSH`).
    LogWritten,
    /// Before it has (`FS_SHUTDOWN_FLAGS_NOLOGFLUSH`).
    LogLost,
}

/// Runs `work` in a thread with its own mounts. They end with the thread and with all processes it started. Needs root.
pub fn apart<T: Send>(work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    let result = std::thread::scope(|scope| {
        let inside = scope.spawn(|| {
            // SAFETY: only this new thread gets its own mounts, root and working directory, and it relies on no mounts
            // of other threads. Descriptors and memory stay shared.
            #[allow(unsafe_code)]
            let unshared = unsafe { unshare_unsafe(UnshareFlags::NEWNS) };
            unshared.context("getting mounts of one's own (needs root)")?;
            output_of(Command::new("mount").args(["--make-rprivate", "/"]))?;
            work()
        });
        inside.join()
    });
    result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// A file system in an image, mounted.
#[derive(Debug)]
pub struct Disk {
    kind: &'static str,
    image: PathBuf,
    place: PathBuf,
}

impl Disk {
    /// Makes a disk of `bytes` in the empty `directory`, and mounts it. Call within [`apart`].
    pub fn new(kind: &'static str, directory: &Path, bytes: u64) -> Result<Self> {
        let (image, place) = (directory.join("image"), directory.join("disk"));
        File::create_new(&image)?.set_len(bytes)?;
        fs::create_dir(&place)?;
        output_of(Command::new(format!("mkfs.{kind}")).arg("-q").arg(&image))?;
        let disk = Self { kind, image, place };
        disk.mount()?;
        Ok(disk)
    }

    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        &self.place
    }

    /// Cuts the power. Whoever works there meets errors from now on.
    pub fn cut(&self, cut: Cut) -> Result<()> {
        let flags: u32 = match cut {
            Cut::LogWritten => 1,
            Cut::LogLost => 2,
        };
        let root = File::open(&self.place)?;
        // SAFETY: FS_IOC_SHUTDOWN reads one u32; the setter holds it until the call returns.
        #[allow(unsafe_code)]
        let down = unsafe { ioctl(&root, Setter::<SHUTDOWN, u32>::new(flags)) };
        down.context("shutting a file system down")
    }

    /// Gives the power back: mounts it again. Nobody may have anything open there.
    pub fn recover(&self) -> Result<()> {
        output_of(Command::new("umount").arg(&self.place))?;
        self.mount()
    }

    fn mount(&self) -> Result<()> {
        output_of(Command::new("mount").args(["-t", self.kind, "-o", "loop"]).arg(&self.image).arg(&self.place))
            .map(drop)
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = output_of(Command::new("umount").arg("--lazy").arg(&self.place));
    }
}
