//! The directory of a job: its files, written atomically.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{JobError, shown};
use crate::this_host::host_name;

/// Paths in a job's directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobDirectory(PathBuf);

/// The directories in it.
const FOLDERS: [&str; 7] = ["shards", "results", "failures", "running", "attempts", "hosts", "spill"];
/// The file that makes a directory a job.
const DESCRIPTION: &str = "job.json";

impl JobDirectory {
    /// A new job, which does not exist yet, except for folders of a killed run.
    pub fn vacant(path: &Path) -> Result<Self, JobError> {
        let directory = Self(path.to_owned());
        if directory.description().exists() {
            return Err(JobError::usage(
                format!("{}: there is a job in this directory", shown(path)),
                format!("haul job run {} continues it; a new job needs another directory", shown(path)),
            ));
        }
        if directory.is_vacant().is_ok_and(|is_vacant| !is_vacant) {
            return Err(JobError::usage(
                format!("{}: the directory is not empty", shown(path)),
                "name a new directory with --dir",
            ));
        }
        Ok(directory)
    }

    fn is_vacant(&self) -> io::Result<bool> {
        let is_empty = |folder: &Path| fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_none());
        for entry in fs::read_dir(&self.0)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let is_own = match FOLDERS.contains(&name.as_str()) {
                true => is_empty(&entry.path()),
                false => name.starts_with(&NamelessFile::prefix(DESCRIPTION)),
            };
            if !is_own {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Creates the folders. The description makes it a job later.
    pub fn make_folders(&self) -> Result<(), JobError> {
        FOLDERS.iter().try_for_each(|folder| {
            let folder = self.0.join(folder);
            fs::create_dir_all(&folder).map_err(|error| JobError::io(&folder, &error))
        })
    }

    /// Creates a new one.
    #[cfg(test)]
    pub fn create(path: &Path) -> Result<Self, JobError> {
        let directory = Self::vacant(path)?;
        directory.make_folders().map(|()| directory)
    }

    /// An existing one.
    pub fn open(path: &Path) -> Result<Self, JobError> {
        let directory = Self(path.to_owned());
        match fs::metadata(directory.description()) {
            Ok(found) if found.is_file() => Ok(directory),
            _ if !path.exists() => Err(JobError::usage(
                format!("{}: no such job directory on this host", shown(path)),
                "every host of a job needs its directory, under one path, on a shared file system",
            )),
            _ => Err(JobError::usage(
                format!("{}: not a job: it has no {DESCRIPTION}", shown(path)),
                "haul job plan --dir JOB makes a job",
            )),
        }
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The description.
    pub fn description(&self) -> PathBuf {
        self.0.join(DESCRIPTION)
    }

    /// The index of shards.
    pub fn plan(&self) -> PathBuf {
        self.0.join("plan")
    }

    /// Unreadable entries of the walk.
    pub fn plan_failures(&self) -> PathBuf {
        self.0.join("failures/plan.jsonl")
    }

    /// The paths of a shard.
    pub fn list(&self, shard: u32) -> PathBuf {
        self.numbered("shards", shard, ".list.zst")
    }

    /// The last result of a shard.
    pub fn result(&self, shard: u32) -> PathBuf {
        self.numbered("results", shard, ".json")
    }

    /// The files of a shard that failed.
    pub fn failures(&self, shard: u32) -> PathBuf {
        self.numbered("failures", shard, ".jsonl")
    }

    /// A line for each start of a shard.
    pub fn attempts(&self, shard: u32) -> PathBuf {
        self.numbered("attempts", shard, ".log")
    }

    /// The directory of locks.
    pub fn running(&self) -> PathBuf {
        self.0.join("running")
    }

    /// Marks of hosts that did not answer.
    pub fn hosts(&self) -> PathBuf {
        self.0.join("hosts")
    }

    /// Scripts, output and submissions of a job on Slurm.
    pub fn slurm(&self) -> PathBuf {
        self.0.join("slurm")
    }

    /// Names of hard-linked files, while the plan is made.
    pub fn spill(&self) -> PathBuf {
        self.0.join("spill")
    }

    /// Exists if the job was cancelled.
    pub fn cancelled(&self) -> PathBuf {
        self.0.join("cancelled")
    }

    /// The merged summary. Exists if the job is finished.
    pub fn report(&self) -> PathBuf {
        self.0.join("report.json")
    }

    /// An empty directory: a dry run into it reports a remote source's entries.
    pub fn vacant_target(&self) -> PathBuf {
        self.0.join("vacant")
    }

    /// The comparison of this job.
    pub fn comparison(&self) -> Self {
        Self(self.0.join("verify"))
    }

    /// Fails if the job was cancelled.
    pub fn refuse_cancelled(&self) -> Result<(), JobError> {
        if self.cancelled().exists() { Err(JobError::cancelled(&self.0)) } else { Ok(()) }
    }

    /// Removes an interrupted plan. The next shards find copied files.
    pub fn clear_plan(&self) -> Result<(), JobError> {
        let plan = self.plan();
        match fs::remove_file(&plan) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(JobError::io(&plan, &error)),
            _ => {}
        }
        for folder in ["shards", "results", "failures", "attempts", "spill"] {
            let folder = self.0.join(folder);
            let wrong = |error: io::Error| JobError::io(&folder, &error);
            for entry in fs::read_dir(&folder).map_err(wrong)? {
                fs::remove_file(entry.map_err(wrong)?.path()).map_err(wrong)?;
            }
        }
        Ok(())
    }

    fn numbered(&self, folder: &str, shard: u32, ending: &str) -> PathBuf {
        self.0.join(folder).join(format!("{}{ending}", shard_label(shard)))
    }
}

/// A shard's number in names of files.
pub fn shard_label(shard: u32) -> String {
    format!("{shard:06}")
}

/// A file that gets its name once it is complete and durable.
#[derive(Debug)]
pub struct NamelessFile {
    file: Option<File>,
    temporary: PathBuf,
    path: PathBuf,
}

impl NamelessFile {
    /// Creates a temporary file for `path`, with a name unique to this host and process.
    pub fn create(path: &Path) -> Result<Self, JobError> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let own = format!("{}{}-{}-{number}", Self::prefix(&name), host_name(), std::process::id());
        let temporary = path.with_file_name(own);
        let file = File::create(&temporary).map_err(|error| JobError::io(&temporary, &error))?;
        Ok(Self { file: Some(file), temporary, path: path.to_owned() })
    }

    /// The prefix of temporary names of the file `name`.
    fn prefix(name: &str) -> String {
        format!(".{name}.")
    }

    /// Publishes it, in place of an older file.
    pub fn publish(mut self) -> Result<(), JobError> {
        let sync = self.file.take().map_or(Ok(()), |file| file.sync_all());
        sync.and_then(|()| fs::rename(&self.temporary, &self.path)).map_err(|error| JobError::io(&self.path, &error))
    }
}

impl Write for NamelessFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.as_mut().map_or(Ok(0), |file| file.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for NamelessFile {
    fn drop(&mut self) {
        // A published file no longer has this name.
        let _ = fs::remove_file(&self.temporary);
    }
}

/// Writes a whole file by rename.
pub fn replace(path: &Path, bytes: &[u8]) -> Result<(), JobError> {
    let mut file = NamelessFile::create(path)?;
    file.write_all(bytes).map_err(|error| JobError::io(path, &error))?;
    file.publish()
}

#[cfg(test)]
mod tests {
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
        fs::write(path.join(".job.json.n1-7-0"), "{").unwrap();
        assert_eq!(JobDirectory::create(&path), Ok(job.clone()));
        fs::write(job.list(0), "").unwrap();
        assert!(JobDirectory::create(&path).unwrap_err().to_string().contains("not empty"));
        replace(&job.description(), b"{}").unwrap();
        assert_eq!(JobDirectory::open(&path), Ok(job));
        assert!(JobDirectory::create(&path).unwrap_err().to_string().contains("there is a job"));
        assert!(JobDirectory::create(temp.path()).unwrap_err().to_string().contains("not empty"));
    }

    #[test]
    fn a_file_appears_completely_or_not_at_all() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("file");
        let mut half = NamelessFile::create(&path).unwrap();
        half.write_all(b"half").unwrap();
        assert!(!path.exists());
        drop(half);
        assert_eq!(fs::read_dir(temp.path()).unwrap().count(), 0);
        replace(&path, b"old").unwrap();
        replace(&path, b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(fs::read_dir(temp.path()).unwrap().count(), 1);
    }
}
