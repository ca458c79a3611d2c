//! Calls of sbatch, squeue, scancel and scontrol, each with a time limit.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use haul_base::sys::cancel::Cancel;
use haul_base::sys::describe::describe;

use crate::error::JobError;
use crate::slurm::answers::{AnswerMeaning, SlurmCall};
use crate::slurm::queue::{ACCOUNTS_FORMAT, FORMAT, SlurmConfig, SlurmTask};
use crate::slurm::script::job_name;

/// What Slurm's commands say without a configuration (slurm.conf(5), "configless").
const NO_CLUSTER: &str = "Could not establish a configuration source";
/// Time limit of a call.
const CALL_LIMIT: Duration = Duration::from_secs(60);
const CHECK_EVERY: Duration = Duration::from_millis(10);
/// The error of a call.
#[derive(Debug)]
pub enum SlurmCallError {
    /// Slurm does not answer, or accepts no more jobs at present; with its message.
    Later(String),
    /// A permanent error.
    Refused(JobError),
}

/// A script for sbatch.
pub struct SubmittedScript {
    /// Its file in the job. Slurm runs it in that directory.
    pub path: PathBuf,
    /// What sbatch reads.
    pub text: Vec<u8>,
}

/// Calls programs of Slurm.
pub struct SlurmClient<'a> {
    /// Ends queries early.
    pub cancel: &'a Cancel,
}

impl SlurmClient<'_> {
    /// The configuration of the cluster.
    pub fn config(&self) -> Result<SlurmConfig, SlurmCallError> {
        let config = self.call(SlurmCall::Config, &["show".into(), "config".into()], None)?;
        let config = SlurmConfig::parse(&config);
        match config.array_size {
            0 | 1 => Err(SlurmCallError::Refused(JobError::usage(
                "Slurm takes no array jobs here: its MaxArraySize is 0",
                "ask the administrator, or run haul job run --local",
            ))),
            _ => Ok(config),
        }
    }

    /// A job's tasks, as squeue prints them: also ended ones, as long as Slurm remembers them (MinJobAge).
    pub fn queue_text(&self, id: &str) -> Result<String, SlurmCallError> {
        let words = ["--noheader", "--array", "--states=all", &format!("--name={}", job_name(id)), "--format", FORMAT];
        self.call(SlurmCall::Queue, &words.map(OsString::from), None)
    }

    /// Ended tasks of arrays by the cluster's accounts, which outlast the controller's memory. None without accounts.
    pub fn accounts(&self, ids: &[u64]) -> Vec<SlurmTask> {
        let ids: Vec<_> = ids.iter().map(u64::to_string).collect();
        let words = ["-X", "-n", "-P", "-j", &ids.join(","), "-o", ACCOUNTS_FORMAT];
        let text = self.call(SlurmCall::Accounts, &words.map(OsString::from), None).unwrap_or_default();
        SlurmTask::parse_all(&text).into_iter().filter(SlurmTask::is_over).collect()
    }

    /// Submits a script, through standard input. Returns the id of its job.
    pub fn submit(&self, script: &SubmittedScript) -> Result<u64, SlurmCallError> {
        let output = self.call(SlurmCall::Submit, &["--parsable".into()], Some(script))?;
        // `ID`, or `ID;CLUSTER`.
        let id = output.lines().last().unwrap_or_default().split(';').next().and_then(|id| id.trim().parse().ok());
        id.ok_or_else(|| {
            let what = format!("sbatch printed no id of a job: {}", output.trim());
            SlurmCallError::Refused(JobError::usage(what, "look at squeue, and cancel the job with scancel"))
        })
    }

    /// Sets the number of an array's concurrent tasks.
    pub fn set_throttle(&self, id: u64, throttle: u32) -> Result<(), SlurmCallError> {
        self.update(id, &format!("ArrayTaskThrottle={throttle}"))
    }

    /// Keeps an array's waiting tasks away from nodes.
    pub fn exclude(&self, id: u64, nodes: &str) -> Result<(), SlurmCallError> {
        self.update(id, &format!("ExcNodeList={nodes}"))
    }

    fn update(&self, id: u64, change: &str) -> Result<(), SlurmCallError> {
        let words = ["update".into(), format!("JobId={id}").into(), change.into()];
        self.call(SlurmCall::Update, &words, None).map(|_| ())
    }

    /// Releases a held task into the queue.
    pub fn release(&self, task: &SlurmTask) -> Result<(), SlurmCallError> {
        self.call(SlurmCall::Release, &["release".into(), task.id().into()], None).map(|_| ())
    }

    /// Cancels jobs. Ended jobs are no error.
    pub fn cancel(&self, ids: &[u64]) -> Result<(), SlurmCallError> {
        if ids.is_empty() { Ok(()) } else { self.scancel(ids.iter().map(u64::to_string)) }
    }

    /// Cancels the waiting tasks of jobs.
    pub fn cancel_waiting(&self, ids: &[u64]) -> Result<(), SlurmCallError> {
        let ids: Vec<_> = ids.iter().map(u64::to_string).collect();
        if ids.is_empty() { Ok(()) } else { self.scancel(std::iter::once("--state=PENDING".to_owned()).chain(ids)) }
    }

    /// Cancels one task of an array.
    pub fn cancel_task(&self, task: &SlurmTask) -> Result<(), SlurmCallError> {
        self.scancel(std::iter::once(task.id()))
    }

    fn scancel(&self, words: impl Iterator<Item = String>) -> Result<(), SlurmCallError> {
        let words: Vec<_> = std::iter::once("--quiet".into()).chain(words.map(OsString::from)).collect();
        self.call(SlurmCall::Cancel, &words, None).map(|_| ())
    }

    fn call(
        &self,
        call: SlurmCall,
        words: &[OsString],
        script: Option<&SubmittedScript>,
    ) -> Result<String, SlurmCallError> {
        self.call_program(call, call.program(), words, script)
    }

    fn call_program(
        &self,
        call: SlurmCall,
        program: &str,
        words: &[OsString],
        script: Option<&SubmittedScript>,
    ) -> Result<String, SlurmCallError> {
        let mut command = Command::new(program);
        // In its own process group, so that Ctrl-C reaches only haul.
        command.args(words).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        if let Some(script) = script {
            command.stdin(Stdio::piped()).current_dir(script.path.parent().unwrap_or(&script.path));
        }
        // SQUEUE_FORMAT and similar variables would change the output.
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("SQUEUE_")) {
            command.env_remove(name);
        }
        let mut child = command.spawn().map_err(|error| SlurmCallError::Refused(unavailable(program, &error)))?;
        if let (Some(mut pipe), Some(script)) = (child.stdin.take(), script) {
            let text = script.text.clone();
            // sbatch reports what it did not read.
            thread::spawn(move || pipe.write_all(&text));
        }
        // An interrupted submission may have been accepted, so sbatch is never cancelled.
        let cancel = Some(self.cancel).filter(|_| call != SlurmCall::Submit);
        let (status, output, complaint) =
            output(child, cancel).map_err(|error| SlurmCallError::Later(format!("{program}: {}", describe(&error))))?;
        if status {
            return Ok(output);
        }
        // scontrol writes some errors to standard output.
        let complaint = if complaint.trim().is_empty() { output.trim() } else { complaint.trim() };
        let complaint = &without_program(program, complaint);
        match call.meaning(complaint) {
            AnswerMeaning::Done => Ok(String::new()),
            AnswerMeaning::Later if complaint.is_empty() => {
                Err(SlurmCallError::Later(format!("{program}: failed without a message")))
            }
            AnswerMeaning::Later => Err(SlurmCallError::Later(format!("{program}: {complaint}"))),
            AnswerMeaning::Refused => Err(SlurmCallError::Refused(refusal(program, complaint))),
        }
    }
}

fn unavailable(program: &str, error: &io::Error) -> JobError {
    JobError::usage(
        format!("{program}: cannot be started: {}", describe(error)),
        "run haul job run --slurm on a host with Slurm's commands, for example a login node",
    )
}

/// A message in one line, without the program's name before each part: what follows the first line is a hint.
fn without_program(program: &str, message: &str) -> String {
    let own = |line: &str| {
        let named = line.strip_prefix(program).and_then(|line| line.strip_prefix(": "));
        named.map_or(line, |line| line.strip_prefix("error: ").unwrap_or(line)).to_owned()
    };
    message.lines().map(own).collect::<Vec<_>>().join("; ")
}

fn refusal(program: &str, complaint: &str) -> JobError {
    if complaint.contains(NO_CLUSTER) {
        return JobError::usage(
            format!("{program}: no controller of Slurm is configured on this host"),
            "run it on a login node, or copy from this host: haul job run --local N",
        );
    }
    let hint = "--partition, --account, --time and --sbatch change the script in slurm/ of the job's directory";
    JobError::usage(format!("{program}: {complaint}"), hint)
}

/// Waits for a call. Returns whether it succeeded, and its output.
fn output(mut child: Child, cancel: Option<&Cancel>) -> io::Result<(bool, String, String)> {
    let [output, complaint] = [
        child.stdout.take().map(|pipe| Box::new(pipe) as Box<dyn Read + Send>),
        child.stderr.take().map(|pipe| Box::new(pipe) as Box<dyn Read + Send>),
    ]
    .map(|pipe| {
        thread::spawn(move || {
            let mut bytes = Vec::new();
            pipe.map(|mut pipe| pipe.read_to_end(&mut bytes));
            String::from_utf8_lossy(&bytes).into_owned()
        })
    });
    let deadline = Instant::now() + CALL_LIMIT;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        let is_cancelled = cancel.is_some_and(Cancel::is_cancelled);
        if is_cancelled || Instant::now() >= deadline {
            let _ = child.kill();
            let _ = child.wait();
            return Err(io::Error::other(if is_cancelled { "interrupted" } else { "no answer within 60 s" }));
        }
        thread::sleep(CHECK_EVERY);
    };
    let text = |thread: thread::JoinHandle<String>| thread.join().unwrap_or_default();
    Ok((status.success(), text(output), text(complaint)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_without_a_cluster_is_named() {
        let complaint =
            "resolve_ctls_from_dns_srv: res_nsearch error; fatal: Could not establish a configuration source";
        let error = refusal("scontrol", complaint).to_string();
        assert!(error.starts_with("scontrol: no controller") && error.contains("--local"), "{error}");
        assert!(refusal("sbatch", "invalid partition").to_string().contains("--partition"));
    }

    #[test]
    fn a_message_names_its_program_once() {
        for (program, message, shown) in [
            ("scontrol", "scontrol: error: no such node\nscontrol: wrong", "scontrol: no such node; wrong"),
            ("squeue", "slurm_load_jobs error: Invalid job id", "squeue: slurm_load_jobs error: Invalid job id"),
            ("sbatch", "error: sbatch: no", "sbatch: error: sbatch: no"),
        ] {
            assert_eq!(format!("{program}: {}", without_program(program, message)), shown);
        }
    }

    #[test]
    fn a_programs_output_is_read_and_an_endless_one_is_ended() {
        let cancel = Cancel::new();
        let client = SlurmClient { cancel: &cancel };
        let words = ["-c", "yes | head -c 300000; echo wrong >&2; exit 1"].map(OsString::from);
        assert!(
            matches!(client.call_program(SlurmCall::Queue, "sh", &words, None), Err(SlurmCallError::Refused(error)) if error.to_string().contains("sh: wrong"))
        );
        let words = ["-c", "echo wrong; exit 1"].map(OsString::from);
        let wrong = client.call_program(SlurmCall::Queue, "sh", &words, None);
        assert!(matches!(wrong, Err(SlurmCallError::Refused(error)) if error.to_string().contains("sh: wrong")));
        cancel.cancel();
        let begun = Instant::now();
        assert!(matches!(
            client.call_program(SlurmCall::Queue, "sleep", &["30".into()], None),
            Err(SlurmCallError::Later(_))
        ));
        assert!(begun.elapsed() < Duration::from_secs(5));
        if !haul_lab::is_emulated_without("error of a failed exec") {
            assert!(matches!(
                client.call_program(SlurmCall::Queue, "no-such-program", &[], None),
                Err(SlurmCallError::Refused(_))
            ));
        }
    }
}
