//! The answers of Slurm's programs about ended, held, requeued, cancelled and unknown tasks, from a real cluster: what
//! haul takes them for.

use std::time::Duration;

use haul_e2e::{Sandbox, SlurmCluster, within};
use haul_job::slurm::answers::{AnswerMeaning, SlurmCall};
use haul_job::slurm::queue::{ACCOUNTS_FORMAT, FORMAT, SlurmConfig, SlurmTask};

const LIMIT: Duration = Duration::from_secs(20);

struct Answers<'a>(&'a SlurmCluster);

impl Answers<'_> {
    /// Calls a program as haul does; the meaning of its answer.
    #[track_caller]
    fn meaning(&self, call: SlurmCall, words: &[&str]) -> AnswerMeaning {
        let (succeeded, text) = self.0.answer(call.program(), words);
        let meaning = if succeeded { AnswerMeaning::Done } else { call.meaning(&text) };
        println!("{} {words:?}: {succeeded} {text:?}: {meaning:?}", call.program());
        meaning
    }

    fn submit(&self, words: &[&str]) -> String {
        let (_, id) = self.0.answer("sbatch", &[&["--parsable", "--output=/dev/null"], words].concat());
        id.trim().to_owned()
    }

    /// The states of a job's tasks, sorted by their index.
    fn states(&self, job: &str) -> Vec<(Option<u32>, String)> {
        let words = ["--noheader", "--array", "--states=all", "--format", FORMAT];
        let tasks = SlurmTask::parse_all(&self.0.command("squeue", &words).unwrap());
        let own = tasks.into_iter().filter(|task| task.job.to_string() == job);
        let mut states: Vec<_> = own.map(|task| (task.index, task.state)).collect();
        states.sort();
        states
    }

    fn waits_for(&self, job: &str, is_there: impl Fn(&[(Option<u32>, String)]) -> bool) {
        let states = || self.states(job);
        assert!(within(LIMIT, || is_there(&states())), "{:?}\n{}", states(), self.0.logs());
    }
}

fn is(states: &[(Option<u32>, String)], index: u32, state: &str) -> bool {
    states.iter().any(|(at, found)| *at == Some(index) && found == state)
}

#[test]
fn each_answer_about_each_kind_of_task_means_what_the_table_says() {
    use AnswerMeaning::{Done, Refused};
    let sandbox = Sandbox::new();
    let Some(cluster) = SlurmCluster::start(&sandbox) else { return };
    let answers = Answers(&cluster);
    let update =
        |job: &str, change: &str| answers.meaning(SlurmCall::Update, &["update", &format!("JobId={job}"), change]);
    let cancel = |job: &str| answers.meaning(SlurmCall::Cancel, &["--quiet", job]);
    let release = |job: &str| answers.meaning(SlurmCall::Release, &["release", job]);

    // Task 0 has ended, 1 runs, others wait.
    let mixed = answers.submit(&["--array=0-5%2", "--wrap", "sleep $((SLURM_ARRAY_TASK_ID * 60))"]);
    answers.waits_for(&mixed, |states| is(states, 0, "COMPLETED") && is(states, 1, "RUNNING"));
    assert_eq!(update(&mixed, "ArrayTaskThrottle=2"), Done);
    assert_eq!(update(&mixed, "ExcNodeList=n4"), Done);
    assert_eq!([cancel(&format!("{mixed}_5")), release(&format!("{mixed}_0"))], [Done, Done]);
    let has_vanished = |states: &[(Option<u32>, String)]| states.iter().all(|(index, _)| *index != Some(5));
    answers.waits_for(&mixed, has_vanished);
    assert_eq!(cancel(&mixed), Done);
    let of_cancelled = |states: &[(Option<u32>, String)]| [1, 3, 4].iter().all(|index| is(states, *index, "CANCELLED"));
    answers.waits_for(&mixed, of_cancelled);
    assert_eq!([cancel(&mixed), update(&mixed, "ArrayTaskThrottle=3")], [Done, Done], "all have ended");

    let held = answers.submit(&["--array=0-3", "--hold", "--wrap", "true"]);
    assert_eq!(update(&held, "ArrayTaskThrottle=3"), Done);
    assert_eq!(update(&held, "ExcNodeList=nosuch"), Refused);
    assert_eq!(cancel(&held), Done);
    // One record for the whole array, or one for each task.
    let all_cancelled = |states: &[(Option<u32>, String)]| states.iter().all(|(_, state)| state == "CANCELLED");
    answers.waits_for(&held, |states| !states.is_empty() && all_cancelled(states));

    let requeued = answers.submit(&["--array=0", "--requeue", "--wrap", "sleep 60"]);
    answers.waits_for(&requeued, |states| is(states, 0, "RUNNING"));
    cluster.command("scontrol", &["requeue", &requeued]).unwrap();
    answers.waits_for(&requeued, |states| is(states, 0, "PENDING"));
    assert_eq!([update(&requeued, "ArrayTaskThrottle=3"), cancel(&requeued)], [Done, Done]);

    assert_eq!([update("99999", "ArrayTaskThrottle=3"), cancel("99999"), release("99999")], [Done, Done, Done]);
    for words in [["--partition=nosuch"], ["--time=abc"], ["--array=0-99"]] {
        assert_eq!(answers.meaning(SlurmCall::Submit, &[&words[..], &["--wrap", "true"]].concat()), Refused);
    }
    assert_eq!(answers.meaning(SlurmCall::Accounts, &["-X", "-n", "-P", "-j", &mixed, "-o", ACCOUNTS_FORMAT]), Done);
    let config = SlurmConfig::parse(&cluster.command("scontrol", &["show", "config"]).unwrap());
    assert_eq!(config, SlurmConfig { array_size: 8, remembers: Duration::from_secs(300) });
}
