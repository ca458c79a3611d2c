//! The directory of a job: its files, written atomically.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use haul_base::held_directory::HeldDirectory;
use haul_base::trusted_files::{Distrust, TrustError, quoted};
use haul_show::text::harmless;

use crate::error::{JobError, shown};
use crate::job_file::JobFile;

/// A job's directory. It belongs to this user, and permits nothing to others: its files command haul.
#[derive(Debug, Clone)]
pub struct JobDirectory {
    path: PathBuf,
    /// The directory itself, or that of the compared job. Empty until it is created.
    held: Arc<OnceLock<HeldDirectory>>,
}

impl PartialEq for JobDirectory {
    fn eq(&self, other: &Self) -> bool {
        self.path == other.path
    }
}

impl Eq for JobDirectory {}

/// The directories in it.
const FOLDERS: [&str; 7] = ["shards", "results", "failures", "running", "attempts", "hosts", "spill"];
/// Most failures known at a time.
const KNOWN_MAX: usize = 10_000;
/// Largest reason of a hold, in bytes.
const REASON_MAX: u64 = 4096;
/// The file that makes a directory a job.
const DESCRIPTION: &str = "job.json";

impl JobDirectory {
    fn of(path: &Path, held: Option<HeldDirectory>) -> Self {
        Self { path: path.to_owned(), held: Arc::new(held.map_or_else(OnceLock::new, OnceLock::from)) }
    }

    /// A new job, which does not exist yet, except for folders of a killed run.
    pub fn vacant(path: &Path) -> Result<Self, JobError> {
        let directory = match HeldDirectory::readable(path) {
            Ok(held) => Self::of(path, Some(held)),
            Err(error) if error.is_absent() => return Ok(Self::of(path, None)),
            Err(error) => return Err(not_private(path, &error)),
        };
        let private = HeldDirectory::private(path).map_err(|error| not_private(path, &error));
        if directory.description().exists() {
            private?;
            return Err(JobError::usage(
                format!("{}: there is a job in this directory", shown(path)),
                format!("haul job run {} continues it; a new job needs another directory", shown(path)),
            ));
        }
        if !directory.is_vacant()? {
            return Err(JobError::usage(
                format!("{}: the directory is not empty", shown(path)),
                "name a new directory with --dir",
            ));
        }
        Ok(Self::of(path, Some(private?)))
    }

    fn is_vacant(&self) -> Result<bool, JobError> {
        let of_description = format!(".{DESCRIPTION}.");
        let is_own = |name: &str| match FOLDERS.contains(&name) {
            true => self.file(name).names().is_ok_and(|names| names.is_empty()),
            false => name.starts_with(&of_description),
        };
        Ok(self.file("").names()?.iter().all(|name| name.to_str().is_some_and(is_own)))
    }

    /// Creates the directory and its folders. The description makes it a job later.
    pub fn make_folders(&self) -> Result<(), JobError> {
        if self.held.get().is_none() {
            // The first one to come creates it.
            let _ =
                self.held.set(HeldDirectory::create_private(&self.path).map_err(|error| unfit(&self.path, &error))?);
        }
        FOLDERS.iter().try_for_each(|folder| self.file(folder).make_directory())
    }

    /// Creates a new one.
    #[cfg(test)]
    pub fn create(path: &Path) -> Result<Self, JobError> {
        let directory = Self::vacant(path)?;
        directory.make_folders().map(|()| directory)
    }

    /// An existing one of this user, which nobody else can read or write.
    pub fn open(path: &Path) -> Result<Self, JobError> {
        let directory = Self::open_to_read(path)?;
        if directory.is_own() {
            return Ok(directory);
        }
        let held = HeldDirectory::private(path).map_err(|error| not_private(path, &error))?;
        Ok(Self::of(path, Some(held)))
    }

    /// An existing one, perhaps another user's: what is in it starts nothing, and nothing is written there unless
    /// [`Self::is_own`].
    pub fn open_to_read(path: &Path) -> Result<Self, JobError> {
        let held = HeldDirectory::private(path).or_else(|error| match error.why {
            Distrust::Owner(_) | Distrust::Exposed(_) => HeldDirectory::readable(path),
            _ => Err(error),
        });
        let directory = match held {
            Ok(held) => Self::of(path, Some(held)),
            Err(error) if error.is_absent() && !path.exists() => {
                return Err(JobError::usage(
                    format!("{}: no such job directory on this host", shown(path)),
                    "every host of a job needs its directory, under one path, on a shared file system",
                ));
            }
            Err(error) => return Err(not_private(path, &error)),
        };
        match directory.description().exists() {
            true => Ok(directory),
            false => Err(JobError::usage(
                format!("{}: not a job: it has no {DESCRIPTION}", shown(path)),
                "haul job plan --dir JOB makes a job",
            )),
        }
    }

    /// Whether it is this user's alone.
    pub fn is_own(&self) -> bool {
        self.held.get().is_some_and(HeldDirectory::is_own)
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn file(&self, name: impl AsRef<Path>) -> JobFile {
        JobFile { held: Arc::clone(&self.held), path: self.path.join(name) }
    }

    /// The description.
    pub fn description(&self) -> JobFile {
        self.file(DESCRIPTION)
    }

    /// The index of shards.
    pub fn plan(&self) -> JobFile {
        self.file("plan")
    }

    /// Unreadable entries of the walk.
    pub fn plan_failures(&self) -> JobFile {
        self.file("failures/plan.jsonl")
    }

    /// The paths of a shard.
    pub fn list(&self, shard: u32) -> JobFile {
        self.numbered("shards", shard, ".list.zst")
    }

    /// The last result of a shard.
    pub fn result(&self, shard: u32) -> JobFile {
        self.numbered("results", shard, ".json")
    }

    /// The files of a shard that failed.
    pub fn failures(&self, shard: u32) -> JobFile {
        self.numbered("failures", shard, ".jsonl")
    }

    /// A line for each start of a shard.
    pub fn attempts(&self, shard: u32) -> JobFile {
        self.numbered("attempts", shard, ".log")
    }

    /// The directory of locks.
    pub fn running(&self) -> JobFile {
        self.file("running")
    }

    /// Marks of hosts that did not answer.
    pub fn hosts(&self) -> JobFile {
        self.file("hosts")
    }

    /// Scripts, output and submissions of a job on Slurm.
    pub fn slurm(&self) -> JobFile {
        self.file("slurm")
    }

    /// Names of hard-linked files, while the plan is made.
    pub fn spill(&self) -> JobFile {
        self.file("spill")
    }

    /// Exists if the job was cancelled.
    pub fn cancelled(&self) -> JobFile {
        self.file("cancelled")
    }

    /// The merged summary. Exists if the job is finished.
    pub fn report(&self) -> JobFile {
        self.file("report.json")
    }

    /// An empty directory: a dry run into it reports a remote source's entries.
    pub fn vacant_target(&self) -> JobFile {
        self.file("vacant")
    }

    /// The comparison of this job.
    pub fn comparison(&self) -> Self {
        Self { path: self.path.join("verify"), held: Arc::clone(&self.held) }
    }

    /// Whether any shard has begun, on any host.
    pub fn has_attempts(&self) -> bool {
        self.file("attempts").names().is_ok_and(|names| !names.is_empty())
    }

    /// Exists if the job found no tree of its name at the target.
    pub fn new_tree(&self) -> JobFile {
        self.file("new-tree")
    }

    /// Says why no shard may start, once the job is held: its target is full, or most nodes fail.
    pub fn held(&self) -> JobFile {
        self.file("held")
    }

    /// The reason of a held job.
    pub fn held_because(&self) -> Option<String> {
        let reason = self.held().read_text_of(REASON_MAX).ok()??;
        Some(harmless(reason.lines().next().unwrap_or_default()))
    }

    /// Holds the job. The first reason stays.
    pub fn hold(&self, reason: &str) -> Result<(), JobError> {
        if self.held().exists() { Ok(()) } else { self.held().replace(format!("{reason}\n").as_bytes()) }
    }

    /// Refuses a cancelled or held job.
    pub fn refuse_stopped(&self) -> Result<(), JobError> {
        if self.cancelled().exists() {
            return Err(JobError::cancelled(&self.path));
        }
        self.held_because().map_or(Ok(()), |reason| Err(JobError::held(&self.path, &reason)))
    }

    /// Removes an interrupted plan. The next shards find copied files.
    pub fn clear_plan(&self) -> Result<(), JobError> {
        self.plan().remove()?;
        for folder in ["shards", "results", "failures", "attempts", "spill"] {
            let folder = self.file(folder);
            folder.names()?.iter().try_for_each(|name| folder.join(name).remove())?;
        }
        Ok(())
    }

    /// The first lines of all lists of failures but this one.
    pub fn known_failures(&self, own: &str) -> BTreeSet<String> {
        let folder = self.file("failures");
        let names = folder.names().unwrap_or_default().into_iter().filter(|name| name != own);
        let texts = names.filter_map(|name| folder.join(name).read_text().ok()?);
        texts.flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>()).take(KNOWN_MAX).collect()
    }

    /// Removes all lists of failures but this one, which has them all.
    pub fn clear_failures(&self, all: &str) -> Result<(), JobError> {
        let folder = self.file("failures");
        let names = folder.names()?;
        names.iter().filter(|name| name.as_os_str() != all).try_for_each(|name| folder.join(name).remove())
    }

    /// Removes the whole directory.
    pub fn remove_tree(&self) -> Result<(), JobError> {
        self.file("").remove_tree()
    }

    /// Failures of a step outside of the shards.
    pub fn step_failures(&self, name: &str) -> JobFile {
        self.file("failures").join(name)
    }

    fn numbered(&self, folder: &str, shard: u32, ending: &str) -> JobFile {
        self.file(folder).join(format!("{}{ending}", shard_label(shard)))
    }
}

/// A shard's number in names of files.
pub fn shard_label(shard: u32) -> String {
    format!("{shard:06}")
}

/// Why a directory is not used as a job's.
fn not_private(path: &Path, error: &TrustError) -> JobError {
    let hint = match error.why {
        Distrust::Owner(owner) => format!("only its owner continues a job: sudo -u '#{owner}' haul job ..."),
        Distrust::Exposed(_) => format!("chmod -R go= {}", quoted(path)),
        Distrust::Link => "name the directory that it leads to".to_owned(),
        _ => return JobError::failed(error.to_string(), "name another directory"),
    };
    JobError::usage(error.to_string(), hint)
}

/// Why a directory that was just created is not fit for a job.
fn unfit(path: &Path, error: &TrustError) -> JobError {
    let why = match error.why {
        Distrust::Owner(owner) => format!("this file system gives new files another owner ({owner})"),
        Distrust::Exposed(mode) => format!("this file system gives new directories the mode {mode:03o}, not 700"),
        _ => return JobError::failed(error.to_string(), "name another directory with --dir"),
    };
    JobError::usage(format!("{}: {why}", shown(path)), "others could change the job: choose another file system")
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions, set_permissions};
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    use super::*;
    use crate::error::JobErrorKind;

    #[test]
    fn only_a_directory_with_a_description_is_a_job() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("job");
        let missing = JobDirectory::open(&path).unwrap_err();
        assert!(missing.to_string().contains("no such job directory on this host"), "{missing}");
        let job = JobDirectory::create(&path).unwrap();
        let unfinished = JobDirectory::open(&path).unwrap_err();
        assert!(unfinished.kind == JobErrorKind::Usage && unfinished.to_string().contains("not a job"));
        // A run that was killed before the description leaves this.
        fs::write(path.join(".job.json.0123456789abcdef"), "{").unwrap();
        assert_eq!(JobDirectory::create(&path), Ok(job.clone()));
        job.list(0).replace(b"").unwrap();
        assert!(JobDirectory::create(&path).unwrap_err().to_string().contains("not empty"));
        job.description().replace(b"{}").unwrap();
        assert_eq!(JobDirectory::open(&path), Ok(job));
        assert!(JobDirectory::create(&path).unwrap_err().to_string().contains("there is a job"));
        let used = temp.path().join("used");
        fs::create_dir(&used).and_then(|()| fs::write(used.join("file"), "")).unwrap();
        set_permissions(&used, Permissions::from_mode(0o700)).unwrap();
        assert!(JobDirectory::create(&used).unwrap_err().to_string().contains("not empty"));
    }

    #[test]
    fn a_job_that_others_may_enter_is_only_looked_at() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("a job");
        let job = JobDirectory::create(&path).unwrap();
        job.description().replace(b"{}").unwrap();
        let mode = |path: &Path| fs::symlink_metadata(path).unwrap().mode() & 0o7777;
        assert_eq!([&path, &path.join("shards"), job.description().path()].map(mode), [0o700, 0o700, 0o600]);
        assert!(JobDirectory::open_to_read(&path).unwrap().is_own());
        set_permissions(&path, Permissions::from_mode(0o2710)).unwrap();
        for refused in [JobDirectory::open(&path), JobDirectory::vacant(&path)] {
            let error = refused.unwrap_err().to_string();
            let hint = format!("hint: chmod -R go= '{}'", path.display());
            assert!(error.ends_with(&hint) && error.contains("others can read or write it (mode 710)"), "{error}");
        }
        assert!(!JobDirectory::open_to_read(&path).unwrap().is_own());
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(&path, Some(65_534), None).unwrap();
            let error = JobDirectory::open(&path).unwrap_err().to_string();
            assert!(error.contains("another user (65534)") && error.contains("sudo -u '#65534' haul"), "{error}");
            assert!(!JobDirectory::open_to_read(&path).unwrap().is_own());
        }
    }
}
