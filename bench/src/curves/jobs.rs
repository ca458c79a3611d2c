//! Runs one job over the data of one number, and takes the least of several rounds.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use haul_lab::{Cgroup, start};
use tempfile::TempDir;

use super::cases::{CurveCase, CurveJob, DataShape};
use super::{CurvePoint, data, needs_copy};
use crate::settings::BenchSettings;

/// Interval between checks of a partial file before its copy is killed.
const CHECK_EVERY: Duration = Duration::from_millis(1);
/// The end of a killed copy's processes, and of their locks.
const END_LIMIT: Duration = Duration::from_secs(10);
/// One entry in this number is extraneous at the target before a sync.
const EXTRANEOUS_EVERY: u64 = 10;
/// Bytes that change before a sync of one file.
const CHANGED_BYTES: usize = 4096;
/// Most of a failed job's complaint that is repeated.
const COMPLAINT_CHARS_MAX: usize = 200;

/// The data of one number.
pub struct CurveBench<'s> {
    settings: &'s BenchSettings,
    haul: &'s Path,
    case: &'static CurveCase,
    number: u64,
    place: TempDir,
}

impl<'s> CurveBench<'s> {
    /// Makes the data.
    pub fn prepare(settings: &'s BenchSettings, haul: &'s Path, case: &'static CurveCase, number: u64) -> Result<Self> {
        let place = tempfile::Builder::new().prefix("haul-bench-").tempdir_in(&settings.dir);
        let place = place.with_context(|| format!("making a directory in {:?}", settings.dir))?;
        data::make(place.path(), case.shape, number)?;
        Ok(Self { settings, haul, case, number, place })
    }

    /// The least CPU time and the least wall time of all rounds; or the reason why the job failed.
    pub fn measure(&self, job: CurveJob) -> Result<Result<CurvePoint, String>> {
        let mut least: Option<CurvePoint> = None;
        for _ in 0..self.settings.runs {
            self.make_ready(job)?;
            let point = match self.run(job, self.command(job))? {
                Ok(point) => point,
                Err(text) => return Ok(Err(text)),
            };
            let least = least.get_or_insert(point);
            *least = CurvePoint {
                number: self.number,
                cpu_s: least.cpu_s.min(point.cpu_s),
                user_s: least.user_s.min(point.user_s),
                wall_s: least.wall_s.min(point.wall_s),
            };
        }
        least.context("there is at least one round").map(Ok)
    }

    fn source(&self) -> PathBuf {
        self.place.path().join("source")
    }

    /// The directory that holds the copy.
    fn target(&self) -> PathBuf {
        self.place.path().join("target")
    }

    fn is_one_file(&self) -> bool {
        matches!(self.case.shape, DataShape::Hole | DataShape::Noise | DataShape::Holes | DataShape::Frames)
    }

    /// Prepares the target for the job.
    fn make_ready(&self, job: CurveJob) -> Result<()> {
        if !needs_copy(job) {
            remove(&self.target())?;
            fs::create_dir(self.target())?;
        }
        match (job, self.case.shape) {
            (CurveJob::Resume, _) => self.break_off(),
            (CurveJob::Sync, DataShape::Noise | DataShape::Holes) => {
                let file = File::options().write(true).open(self.source())?;
                let middle = file.metadata()?.len() / 2;
                // Behind the middle: the blocks before it are compared as well.
                file.write_all_at(&[self.next_byte()?; CHANGED_BYTES], middle)?;
                Ok(())
            }
            (CurveJob::Sync, DataShape::OneDirectory | DataShape::Directories | DataShape::HardLinks) => {
                let target = self.target().join("source");
                let extraneous = self.number.div_ceil(EXTRANEOUS_EVERY);
                (0..extraneous)
                    .try_for_each(|file| Ok(File::create(target.join(format!("extraneous-{file}"))).map(drop)?))
            }
            (CurveJob::Sync, DataShape::Renames) => {
                let [old, new] = ["old", "new"].map(|name| self.source().join(name));
                let (from, to) = if old.exists() { (old, new) } else { (new, old) };
                fs::rename(from, to).context("renaming a directory")
            }
            _ => Ok(()),
        }
    }

    /// A byte that the middle of the source does not have.
    fn next_byte(&self) -> Result<u8> {
        let file = File::open(self.source())?;
        let mut byte = [0];
        file.read_exact_at(&mut byte, file.metadata()?.len() / 2)?;
        Ok(byte[0].wrapping_add(1))
    }

    fn command(&self, job: CurveJob) -> Command {
        let mut command = Command::new(self.haul);
        let place = self.place.path();
        command.env("HOME", place).current_dir(place);
        match job {
            CurveJob::Sync => command.args(["sync", "--delete"]),
            CurveJob::Verify => command.arg("verify"),
            CurveJob::Survey => command.arg("survey"),
            CurveJob::Copy | CurveJob::Rerun | CurveJob::Resume if self.is_one_file() => &mut command,
            CurveJob::Copy | CurveJob::Rerun | CurveJob::Resume => command.arg("-r"),
        };
        if job == CurveJob::Verify && !self.is_one_file() {
            command.arg("-r");
        }
        if self.case.shape == DataShape::HardLinks && job != CurveJob::Survey {
            command.arg("--hard-links");
        }
        if self.case.shape == DataShape::Rules {
            command.arg("--exclude-from").arg(place.join("rules"));
        }
        if (job, self.case.shape) == (CurveJob::Sync, DataShape::Renames) {
            command.arg("--detect-renames");
        }
        if self.case.shape == DataShape::Frames {
            command.args(["--frame", data::FRAME]);
        }
        if job == CurveJob::Survey {
            command.arg(self.source());
            return command;
        }
        if job != CurveJob::Verify {
            command.arg("--fsync=none");
        }
        command.arg("--quiet").arg("--target-command").arg(self.haul);
        match self.case.shape {
            DataShape::Operands => {
                command.current_dir(self.source().join("d0")).args((0..self.number).map(|file| format!("f{file}")))
            }
            DataShape::Lines => command.arg("--dirbase").arg(self.source()).arg("--infiles").arg(place.join("list")),
            _ => command.arg(self.source()),
        };
        command.arg(format!("127.0.0.1:{}/", self.target().display()));
        command
    }

    fn run(&self, job: CurveJob, command: Command) -> Result<Result<CurvePoint, String>> {
        let account = Cgroup::create().context("a control group")?;
        let running = start(account.enclose(&command))?;
        let finished = running.finish(self.settings.timeout)?;
        let said = format!("{}{}", finished.stderr_text(), finished.stdout_text());
        if finished.timed_out {
            return Ok(Err(format!("took more than {} s", self.settings.timeout.as_secs())));
        }
        if !finished.success() {
            let text: String = said.trim().replace('\n', "; ").chars().take(COMPLAINT_CHARS_MAX).collect();
            return Ok(Err(format!("{} failed ({}): {text}", job.name(), finished.status)));
        }
        let (cpu_s, user_s) = (account.cpu_s(), account.user_cpu_s());
        Ok(Ok(CurvePoint { number: self.number, cpu_s, user_s, wall_s: finished.wall_s }))
    }

    /// Kills a copy once most of the data is at the target.
    fn break_off(&self) -> Result<()> {
        let wanted = fs::metadata(self.source())?.blocks() / 4 * 3;
        let account = Cgroup::create().context("a control group")?;
        let mut command = self.command(CurveJob::Copy);
        // Slow enough that it does not end between two looks.
        command.args(["-x", "400m"]);
        let mut running = start(account.enclose(&command))?;
        let begun = Instant::now();
        while self.blocks_at_target()? < wanted {
            ensure!(
                !running.wait_up_to(CHECK_EVERY),
                "the copy ended before it could be killed: {}",
                running.stderr_so_far()
            );
            ensure!(begun.elapsed() < self.settings.timeout, "the copy took too long");
        }
        account.kill_all();
        running.finish(END_LIMIT)?;
        ensure!(account.pids().is_empty(), "the killed copy is still running");
        if self.case.shape == DataShape::Frames {
            data::forget_every_second_frame(&self.target())?;
        }
        Ok(())
    }

    fn blocks_at_target(&self) -> Result<u64> {
        let mut blocks = 0;
        for entry in fs::read_dir(self.target())? {
            // It may have got its name meanwhile.
            blocks += entry?.metadata().map_or(0, |metadata| metadata.blocks());
        }
        Ok(blocks)
    }
}

impl Drop for CurveBench<'_> {
    fn drop(&mut self) {
        // Trees that are deeper than a path can say.
        let _ = remove(&self.source()).and_then(|()| remove(&self.target()));
    }
}

fn remove(path: &Path) -> Result<()> {
    let status = Command::new("rm").args(["-r", "-f", "--"]).arg(path).status().context("starting rm")?;
    ensure!(status.success(), "rm failed: {status}");
    Ok(())
}
