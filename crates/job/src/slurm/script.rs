//! Scripts for sbatch: a task of an array copies one shard, and the last job finishes.
//!
//! Slurm sends SIGUSR1 to the script before the time limit. The script ends haul with SIGTERM, which leaves a
//! checkpoint, and requeues its task. SIGTERM to the script means a cancelled task.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use haul_base::shell_word::quote_bytes;

use crate::slurm::settings::SlurmSettings;
use crate::slurm::submissions::ranges;
use crate::slurm::waves::SlurmWave;

/// Most runs of an interrupted task without a time limit.
const RERUNS_MAX: u32 = 5;

/// Common values of a job's scripts.
#[derive(Debug)]
pub struct SlurmScripts<'a> {
    /// The job's directory.
    pub job: &'a Path,
    /// Its id.
    pub id: &'a str,
    /// haul; a node without this file uses the one on its PATH.
    pub executable: &'a Path,
    /// `--confirm DIGEST`; empty if the job starts no programs.
    pub confirming: &'a str,
    /// Options of sbatch.
    pub settings: &'a SlurmSettings,
}

/// What an array needs besides its shards.
#[derive(Debug, Default)]
pub struct ArrayRules {
    /// Nodes to avoid, as Slurm takes them.
    pub avoided: String,
    /// Whether other arrays wait for its success: failed files are none of their concern.
    pub is_trial: bool,
    /// The array whose success this one waits for.
    pub after_trial: Option<u64>,
}

/// The name of the arrays and of the last step of a job in Slurm.
pub fn job_name(id: &str) -> String {
    format!("haul-{id}")
}

impl SlurmScripts<'_> {
    /// The script of an array.
    pub fn array(&self, wave: &SlurmWave, rules: &ArrayRules) -> Vec<u8> {
        let indexes: Vec<_> = wave.shards.iter().map(|shard| shard - wave.offset).collect();
        let throttle = wave.throttle.map_or(String::new(), |throttle| format!("%{throttle}"));
        let mut own = vec![
            format!("--job-name={}", job_name(self.id)),
            format!("--array={}{throttle}", ranges(&indexes)),
            "--output=array-%A.out".to_owned(),
        ];
        let after = wave.after.map(|id| format!("afterany:{id}"));
        let after: Vec<_> = after.into_iter().chain(rules.after_trial.map(|id| format!("afterok:{id}"))).collect();
        own.extend((!after.is_empty()).then(|| format!("--dependency={}", after.join(","))));
        own.extend(rules.after_trial.map(|_| "--kill-on-invalid-dep=yes".to_owned()));
        own.extend((!rules.avoided.is_empty()).then(|| format!("--exclude={}", rules.avoided)));
        own.extend(self.settings.is_exclusive.then(|| "--exclusive".to_owned()));
        let tolerated = if rules.is_trial { "yes" } else { "" };
        let number =
            format!("tolerated={tolerated}\nname=$((SLURM_ARRAY_TASK_ID + {}))\nwhat=\"shard $name\"\n", wave.offset);
        let task = "\"${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID\"";
        self.script(&own, &number, &format!("shard --quiet {} \"$job\" \"$name\"", self.confirming), task)
    }

    /// The script of the last step, which records its exit status.
    pub fn finish(&self, after: &[u64]) -> Vec<u8> {
        let mut own = vec![format!("--job-name={}", job_name(self.id)), "--output=finish-%j.out".to_owned()];
        if !after.is_empty() {
            let ids: String = after.iter().map(|id| format!(":{id}")).collect();
            own.push(format!("--dependency=afterany{ids}"));
        }
        let verify = if self.settings.verifies { "--verify " } else { "" };
        let record = "finally() { (umask 077; echo \"$status\" > \"$job/slurm/finish-$SLURM_JOB_ID.status\"); }\n";
        let head = format!("what='the last step'\nname=finish\nstatus=4\n{record}");
        self.script(&own, &head, &format!("finish {verify}{} \"$job\"", self.confirming), "\"$SLURM_JOB_ID\"")
    }

    /// The script of a job that plans, submits and follows, so that no login node has to stay up.
    pub fn follow(&self) -> Vec<u8> {
        let own = [format!("--job-name={}-run", job_name(self.id)), "--output=run-%j.out".to_owned()];
        let step = format!("run --slurm {} \"$job\"", self.confirming);
        self.script(&own, "what='the run'\nname=run\n", &step, "\"$SLURM_JOB_ID\"")
    }

    fn script(&self, own: &[String], head: &str, step: &str, task: &str) -> Vec<u8> {
        let mut text = b"#!/bin/sh\n".to_vec();
        let common = [
            "--nodes=1".to_owned(),
            "--ntasks=1".to_owned(),
            "--requeue".to_owned(),
            format!("--signal=B:USR1@{}", self.settings.warn_s()),
            "--open-mode=append".to_owned(),
        ];
        for option in common.iter().chain(own).chain(&self.settings.directives()) {
            text.extend_from_slice(format!("#SBATCH {option}\n").as_bytes());
        }
        for (name, value) in [("job", self.job), ("haul", self.executable)] {
            text.extend_from_slice(format!("{name}=").as_bytes());
            text.extend_from_slice(quote_bytes(value.as_os_str()).as_bytes());
            text.push(b'\n');
        }
        text.extend_from_slice(
            format!(
                r#"[ -x "$haul" ] || haul=haul
finally() {{ :; }}
tolerated=
{head}ends_soon=
pid=
errors=$(mktemp) || errors=
trap 'rm -f "$errors"; finally' EXIT
trap 'ends_soon=1; [ -z "$pid" ] || kill -TERM "$pid"' USR1
"$haul" job {step} 2>"${{errors:-/dev/null}}" &
pid=$!
[ -z "$ends_soon" ] || kill -TERM "$pid"
wait "$pid"
status=$?
while kill -0 "$pid" 2>/dev/null; do
    wait "$pid"
    status=$?
done
[ -z "$errors" ] || cat "$errors" >&2
[ "$status" -eq 0 ] && exit 0
[ -n "$tolerated" ] && [ "$status" -eq 1 ] && exit 0
echo "$what on $(uname -n): status $status"
why=$([ -z "$errors" ] || head -n 1 "$errors")
(umask 077; echo "${{SLURMD_NODENAME:-$(uname -n)}} $status $why" >>"$job/slurm/$name.end")
case $status in
3 | 4 | 1[3-5]?) ;;
*) exit "$status" ;;
esac
[ ! -e "$job/cancelled" ] && [ ! -e "$job/held" ] || exit "$status"
[ -n "$ends_soon" ] || [ "${{SLURM_RESTART_COUNT:-0}}" -lt {RERUNS_MAX} ] || exit "$status"
scontrol requeue {task}
exit "$status"
"#
            )
            .as_bytes(),
        );
        text
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};
    use std::{fs, thread};

    use super::*;

    struct Scene {
        temp: tempfile::TempDir,
    }

    impl Scene {
        /// haul and scontrol are scripts that write down how they were called.
        fn new(haul: &str) -> Self {
            let temp = tempfile::tempdir().unwrap();
            let script = |name: &str, text: &str| {
                let path = temp.path().join(name);
                fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
                fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
            };
            script("haul", &format!("echo \"$*\" >> \"$(dirname \"$0\")/calls\"\n{haul}"));
            script("scontrol", "echo \"$*\" >> \"$(dirname \"$0\")/requeued\"");
            fs::create_dir_all(temp.path().join("it's a job/slurm")).unwrap();
            Self { temp }
        }

        fn start(&self, restarts: &str) -> std::process::Child {
            let settings = SlurmSettings { more: vec!["--mem=4G".to_owned()], ..SlurmSettings::default() };
            let job = self.temp.path().join("it's a job");
            let executable = self.temp.path().join("haul");
            let confirming = "--confirm 0123";
            let scripts =
                SlurmScripts { job: &job, id: "00ff", executable: &executable, confirming, settings: &settings };
            let wave = SlurmWave { offset: 1000, shards: vec![1002, 1003, 1007], throttle: Some(8), after: None };
            let path = self.temp.path().join("array.sh");
            fs::write(&path, scripts.array(&wave, &ArrayRules { avoided: "n4".to_owned(), ..ArrayRules::default() }))
                .unwrap();
            let search = format!("{}:{}", self.temp.path().display(), std::env::var("PATH").unwrap());
            let mut command = Command::new("sh");
            command.arg(&path).stdout(Stdio::null()).env("PATH", search).env("SLURM_RESTART_COUNT", restarts);
            command.env("SLURM_ARRAY_JOB_ID", "4711").env("SLURM_ARRAY_TASK_ID", "7").spawn().unwrap()
        }

        fn read(&self, name: &str) -> String {
            fs::read_to_string(self.temp.path().join(name)).unwrap_or_default()
        }
    }

    #[test]
    fn a_task_runs_its_shard_and_ends_as_it_does() {
        let scene = Scene::new("echo 'haul: a fault' >&2; exit 1");
        assert_eq!(scene.start("0").wait().unwrap().code(), Some(1));
        let calls =
            format!("job shard --quiet --confirm 0123 {} 1007\n", scene.temp.path().join("it's a job").display());
        assert_eq!((scene.read("calls"), scene.read("requeued")), (calls, String::new()));
        let end = scene.read("it's a job/slurm/1007.end");
        assert!(end.ends_with(" 1 haul: a fault\n"), "{end}");
        let script = scene.read("array.sh");
        for line in
            ["--array=2-3,7%8", "--job-name=haul-00ff", "--signal=B:USR1@60", "--requeue", "--mem=4G", "--exclude=n4"]
        {
            assert!(script.contains(&format!("#SBATCH {line}\n")), "{line}\n{script}");
        }
    }

    #[test]
    fn an_interrupted_shard_is_requeued_a_few_times_and_not_when_cancelled() {
        let scene = Scene::new("exit 4");
        scene.start("4").wait().unwrap();
        assert_eq!(scene.read("requeued"), "requeue 4711_7\n");
        assert_eq!(scene.start("5").wait().unwrap().code(), Some(4));
        fs::write(scene.temp.path().join("it's a job/cancelled"), "").unwrap();
        scene.start("0").wait().unwrap();
        assert_eq!(scene.read("requeued"), "requeue 4711_7\n");
    }

    #[test]
    fn the_time_limit_ends_the_shard_with_a_checkpoint_and_requeues_it() {
        let scene = Scene::new(
            "trap 'touch \"$(dirname \"$0\")/checkpoint\"; exit 4' TERM\ntouch \"$(dirname \"$0\")/ready\"\nwhile :; do sleep 0.02; done",
        );
        let mut task = scene.start("99");
        let deadline = Instant::now() + Duration::from_secs(20);
        while !scene.temp.path().join("ready").exists() && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(5));
        }
        let pid = rustix::process::Pid::from_child(&task);
        rustix::process::kill_process(pid, rustix::process::Signal::USR1).unwrap();
        assert_eq!(task.wait().unwrap().code(), Some(4));
        assert!(scene.temp.path().join("checkpoint").exists());
        assert_eq!(scene.read("requeued"), "requeue 4711_7\n");
    }

    #[test]
    fn the_last_step_waits_for_all_arrays_and_records_its_status() {
        let scene = Scene::new("exit 1");
        let job = scene.temp.path().join("it's a job");
        let settings = SlurmSettings { verifies: true, ..SlurmSettings::default() };
        let executable = scene.temp.path().join("haul");
        let scripts =
            SlurmScripts { job: &job, id: "00ff", executable: &executable, confirming: "", settings: &settings };
        let script = scripts.finish(&[11, 12]);
        assert!(String::from_utf8_lossy(&script).contains("#SBATCH --dependency=afterany:11:12\n"));
        let path = scene.temp.path().join("finish.sh");
        fs::write(&path, script).unwrap();
        let mut command = Command::new("sh");
        let status = command.arg(&path).stdout(Stdio::null()).env("SLURM_JOB_ID", "13").status().unwrap();
        assert_eq!(status.code(), Some(1));
        assert_eq!(fs::read_to_string(job.join("slurm/finish-13.status")).unwrap(), "1\n");
        assert!(scene.read("calls").contains("job finish --verify "));
    }
}
