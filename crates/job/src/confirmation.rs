//! Words of a job that can start programs. Whoever can exchange the job's directory must not choose them, so they are
//! used only if their digest comes from elsewhere: from the command line of the step, or from this user's state.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use haul_base::held_directory::HeldDirectory;
use haul_base::trusted_files::quoted;
use haul_proto::path::escape;

use crate::error::{JobError, shown};

/// Hexadecimal digits of a digest.
const DIGITS: usize = 32;

/// The digest of `words`; `None` without any.
pub fn digest(words: &[OsString]) -> Option<String> {
    let mut hasher = blake3::Hasher::new();
    for word in words {
        hasher.update(word.as_bytes()).update(b"\0");
    }
    (!words.is_empty()).then(|| hasher.finalize().to_hex()[..DIGITS].to_owned())
}

/// The digests that this user confirmed.
#[derive(Debug, Clone)]
pub struct Confirmation {
    /// The step, with `JOB` and `N` for its operands.
    step: &'static str,
    /// The one of the command line, which takes precedence.
    typed: Option<String>,
    /// The directory of this user's state with a file for each digest.
    state: Option<PathBuf>,
}

impl Confirmation {
    /// A digest of the command line of this step, and those in a directory of this user's state.
    pub fn new(step: &'static str, typed: Option<String>, state: Option<PathBuf>) -> Self {
        Self { step, typed, state }
    }

    /// Fails unless `words` of the job at `path` are confirmed.
    pub fn check(&self, path: &Path, words: &[OsString]) -> Result<(), JobError> {
        let Some(digest) = digest(words) else { return Ok(()) };
        let is_confirmed = self.typed.as_ref().map_or_else(|| self.remembers(&digest), |typed| *typed == digest);
        if is_confirmed {
            return Ok(());
        }
        let words: Vec<_> = words.iter().map(|word| escape(word.as_bytes())).collect();
        let (operand, path) = (quoted(path), shown(path));
        Err(JobError::usage(
            format!("{path}: not confirmed by you on this host, and able to start programs: {}", words.join(" ")),
            format!(
                "if they are yours: haul job {}",
                self.step.replacen(" JOB", &format!(" --confirm {digest} {operand}"), 1)
            ),
        ))
    }

    /// Confirms words of the command line: for this run, and for later ones on hosts with this state.
    pub fn confirm(&mut self, words: &[OsString]) {
        self.typed = digest(words);
        let (Some(digest), Some(state)) = (&self.typed, &self.state) else { return };
        // Without a state directory, later runs need the digest on their command lines.
        let _ = HeldDirectory::looked_up(state).map(|held| held.replace(&state.join(digest), b""));
    }

    fn remembers(&self, digest: &str) -> bool {
        let Some(state) = &self.state else { return false };
        HeldDirectory::looked_up(state).is_ok_and(|held| held.open(&state.join(digest)).is_ok())
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions, set_permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        line.split_whitespace().map(Into::into).collect()
    }

    #[test]
    fn only_confirmed_words_start_programs() {
        let temp = tempfile::tempdir().unwrap();
        let (state, job) = (Some(temp.path().join("state/confirmed")), Path::new("/shared/a job"));
        let (own, other) = (words("-T=ssh --rsh=ssh"), words("-T=evil"));
        let elsewhere = Confirmation::new("shard JOB N", None, None);
        assert_eq!(elsewhere.check(job, &[]), Ok(()));
        let refusal = elsewhere.check(job, &other).unwrap_err().to_string();
        let line =
            format!("hint: if they are yours: haul job shard --confirm {} '/shared/a job' N", digest(&other).unwrap());
        assert!(refusal.contains("able to start programs: -T=evil\n") && refusal.contains(&line), "{refusal}");
        let typed = Confirmation::new("finish JOB", digest(&own), state.clone());
        assert!(typed.check(job, &own).is_ok() && typed.check(job, &other).is_err());
        let mut planning = Confirmation::new("run JOB", None, state.clone());
        assert!(planning.check(job, &own).is_err());
        planning.confirm(&own);
        let later = Confirmation::new("run JOB", None, state.clone());
        assert!(planning.check(job, &own).is_ok() && later.check(job, &own).is_ok());
        assert!(planning.check(job, &other).is_err() && later.check(job, &other).is_err());
        assert!(
            Confirmation::new("run JOB", digest(&other), state).check(job, &own).is_err(),
            "the command line decides"
        );
    }

    #[test]
    fn a_state_directory_that_others_can_write_confirms_nothing() {
        let temp = tempfile::tempdir().unwrap();
        let state = temp.path().join("confirmed");
        let (own, job) = (words("-T=ssh"), Path::new("/job"));
        Confirmation::new("run JOB", None, Some(state.clone())).confirm(&own);
        let later = Confirmation::new("run JOB", None, Some(state.clone()));
        assert!(later.check(job, &own).is_ok());
        set_permissions(&state, Permissions::from_mode(0o777)).unwrap();
        assert!(later.check(job, &own).is_err());
        set_permissions(&state, Permissions::from_mode(0o700)).unwrap();
        let file = state.join(digest(&own).unwrap());
        fs::remove_file(&file).and_then(|()| std::os::unix::fs::symlink("/etc/passwd", &file)).unwrap();
        assert!(later.check(job, &own).is_err());
    }

    #[test]
    fn a_digest_depends_on_each_word_and_its_ends() {
        let all = ["a b", "ab", "b a", "a", "a a b"].map(|line| digest(&words(line)).unwrap());
        assert!(all.iter().all(|digest| digest.len() == DIGITS));
        assert_eq!(all.iter().collect::<std::collections::BTreeSet<_>>().len(), all.len());
        assert_eq!(digest(&[]), None);
    }
}
