//! The answers of Slurm's programs to failed calls, and what they mean. Messages are those of Slurm 22.05 and 24.11.

/// A call of one of Slurm's programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SlurmCall {
    /// `scontrol show config`
    Config,
    /// `squeue`
    Queue,
    /// `sbatch`
    Submit,
    /// `scontrol update` of an array: its tasks at a time, or its excluded nodes.
    Update,
    /// `scontrol release`
    Release,
    /// `scancel`
    Cancel,
    /// `sacct`, which many clusters have without accounting.
    Accounts,
}

/// What a failed call means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerMeaning {
    /// Nothing is left to do: of the named tasks, those that could change have changed.
    Done,
    /// Slurm does not answer, or accepts no more jobs at present.
    Later,
    /// It never will.
    Refused,
}

/// Messages if the controller does not answer.
const DOWN: [&str; 7] = [
    "Unable to contact",
    "Socket timed out",
    "Zero Bytes were transmitted",
    "Connection refused",
    "standby mode",
    "Communication",
    "Transport endpoint",
];
/// Messages of sbatch at a limit of the user or the cluster.
const FULL: [&str; 5] =
    ["SubmitJobLimit", "job submit limit", "temporarily unable", "SubmitJobPerUserLimit", "MaxJobCount"];
/// Messages about tasks that have ended or started. scontrol fails with a line for each such group of an array, does the
/// rest, and reports that as "No error".
const NOTHING_LEFT: [&str; 6] = [
    "No error",
    "Job has already finished",
    "Job is no longer pending execution",
    "already completing or completed",
    "Invalid job id",
    "Job/step already",
];

impl SlurmCall {
    /// The program.
    pub fn program(self) -> &'static str {
        match self {
            Self::Config | Self::Update | Self::Release => "scontrol",
            Self::Queue => "squeue",
            Self::Submit => "sbatch",
            Self::Cancel => "scancel",
            Self::Accounts => "sacct",
        }
    }

    /// The meaning of the message of a failed call.
    pub fn meaning(self, message: &str) -> AnswerMeaning {
        let mut lines = message.lines().map(str::trim).filter(|line| !line.is_empty()).peekable();
        let is_one_of = |phrases: &[&str], line: &str| phrases.iter().any(|phrase| line.contains(phrase));
        // If the controller ends during the call, some programs print nothing. sbatch prints a reason.
        if lines.peek().is_none() && self != Self::Submit || is_one_of(&DOWN, message) {
            return AnswerMeaning::Later;
        }
        match self {
            Self::Accounts => AnswerMeaning::Done,
            Self::Submit if is_one_of(&FULL, message) => AnswerMeaning::Later,
            Self::Update | Self::Release | Self::Cancel if lines.all(|line| is_one_of(&NOTHING_LEFT, line)) => {
                AnswerMeaning::Done
            }
            Self::Config | Self::Queue | Self::Submit | Self::Update | Self::Release | Self::Cancel => {
                AnswerMeaning::Refused
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_answer_has_its_meaning() {
        use AnswerMeaning::{Done, Later, Refused};
        for (call, message, meaning) in [
            (SlurmCall::Update, "1_0: Job has already finished\n1_1-5: No error", Done),
            (SlurmCall::Update, "1_0: Job has already finished\n1_1: Job is no longer pending execution", Done),
            (SlurmCall::Update, "Invalid job id specified for job 99999\n", Done),
            (SlurmCall::Update, "4_0-5: Invalid node name specified", Refused),
            (SlurmCall::Update, "1_0: Job has already finished\n1_1: Access/permission denied", Refused),
            (SlurmCall::Update, "", Later),
            (SlurmCall::Release, "1_0: Job has already finished", Done),
            (
                SlurmCall::Release,
                "Invalid job id specified for job 9\nslurm_suspend error: Invalid job id specified",
                Done,
            ),
            (SlurmCall::Cancel, "scancel: error: Kill job error on job id 9: Invalid job id specified", Done),
            (SlurmCall::Cancel, "scancel: error: Job/step already completing or completed", Done),
            (SlurmCall::Cancel, "scancel: error: Kill job error on job id 9: Access/permission denied", Refused),
            (
                SlurmCall::Submit,
                "sbatch: error: Batch job submission failed: Invalid partition name specified",
                Refused,
            ),
            (SlurmCall::Submit, "sbatch: error: QOSMaxSubmitJobPerUserLimit", Later),
            (SlurmCall::Submit, "sbatch: error: Slurm temporarily unable to accept job, sleeping and retrying", Later),
            (SlurmCall::Submit, "", Refused),
            (SlurmCall::Queue, "slurm_load_jobs error: Unable to contact slurm controller (connect failure)", Later),
            (SlurmCall::Queue, "slurm_load_jobs error: Invalid job id specified", Refused),
            (SlurmCall::Accounts, "Slurm accounting storage is disabled", Done),
            (SlurmCall::Config, "slurm_load_ctl_conf error: Socket timed out on send/recv operation", Later),
        ] {
            assert_eq!(call.meaning(message), meaning, "{}: {message}", call.program());
        }
    }
}
