//! `haul job manifest JOB`: an Indexed Job of Kubernetes with a pod for each shard, and the Job that finishes.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use haul_base::copy::location::Host;
use haul_control::operand::parse_operand;
use haul_job::error::{JobError, shown};
use haul_job::opened::{OpenedJob, absolute};
use haul_job::plan_index::PlanIndex;
use haul_proto::path::escape;
use haul_show::exit::Exit;
use haul_show::json::harmless_json;
use haul_show::output::print;
use serde_json::Value;

use crate::args::flag::{Flag, Single};
use crate::args::values::Values;
use crate::args::{UsageError, flags};
use crate::user_dirs::state_dir;

/// Pods at a time.
const PODS: u32 = 8;
/// Most indexes of an Indexed Job (Kubernetes 1.33).
const INDEXES_MAX: u32 = 100_000;
/// Number of replacements of an interrupted pod.
const RETRIES: u32 = 5;

/// Prints the manifest of the job of `operands`.
pub fn run(values: &Values, operands: &[OsString]) -> anyhow::Result<Exit> {
    let job = OpenedJob::open_for("manifest JOB", &operands[0], values.get(&flags::job::CONFIRM)?, state_dir())?;
    let confirming = job.confirming_words()?;
    let needed = |flag: &Flag<Single<String>>, example: &str| {
        let missing = || UsageError::new(format!("haul job manifest needs {}", flag.typed())).remedy(example);
        values.get(flag)?.filter(|text| !text.is_empty()).ok_or_else(missing)
    };
    let image = needed(&flags::manifest::IMAGE, "--image registry.example.org/haul:1 names an image with haul")?;
    let claim = needed(
        &flags::manifest::CLAIM,
        "--claim shared names the volume claim with the job, its source and its target",
    )?;
    let path = job.directory.path();
    let Some(totals) = PlanIndex::read(&job.directory)?.complete else {
        return Err(JobError::usage(
            format!("{}: the plan is not complete", shown(path)),
            "wait for haul job plan, or repeat it: a manifest has the number of shards",
        )
        .into());
    };
    if !(1..=INDEXES_MAX).contains(&totals.shards) {
        return Err(JobError::usage(
            format!("{}: {} shards, and an Indexed Job has 1 to {INDEXES_MAX}", shown(path), totals.shards),
            "use a larger --shard-files or --shard-bytes; haul job finish alone completes a job without files",
        )
        .into());
    }
    let mount = mount(&job, values.last(&flags::manifest::MOUNT).map(|typed| absolute(Path::new(typed))))?;
    let manifest = KubernetesManifest {
        name: format!("haul-{}", job.description.id),
        image,
        claim,
        mount: text(&mount)?,
        job: text(path)?,
        confirming,
        shards: totals.shards,
        at_once: values.get(&flags::manifest::LIMIT)?.unwrap_or(PODS).min(totals.shards),
        user: (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw()),
        verifies: values.is_set(&flags::manifest::VERIFY),
    };
    print(&manifest.yaml());
    Ok(Exit::Done)
}

fn text(path: &Path) -> Result<String, JobError> {
    path.to_str().map(str::to_owned).ok_or_else(|| {
        JobError::usage(format!("{}: a manifest is UTF-8, and this path is not", shown(path)), "rename the directory")
    })
}

/// The mount point of the claim. Pods read and write below it.
fn mount(job: &OpenedJob, typed: Option<PathBuf>) -> Result<PathBuf, JobError> {
    let mut paths = vec![job.directory.path().to_owned(), job.description.source.clone()];
    if let Some(host) = job.description.source_hosts.first() {
        return Err(JobError::usage(
            format!("{}: an image of haul has no ssh", escape(host.as_bytes())),
            "plan the job where the source is mounted",
        ));
    }
    for target in &job.description.targets {
        match parse_operand(target).map(|at| (at.host, at.path)) {
            Ok((Host::Local, path)) => paths.push(path),
            Ok((Host::Remote { .. }, _)) => {
                return Err(JobError::usage(
                    format!("{}: an image of haul has no ssh", escape(target.as_bytes())),
                    "run haul serve at the target, and plan the job with haul://HOST:PORT/ and --secret-file",
                ));
            }
            _ => {}
        }
    }
    if let Some(mount) = typed {
        return match paths.iter().find(|path| !path.starts_with(&mount)) {
            None => Ok(mount),
            Some(path) => Err(JobError::usage(
                format!("--mount {}: {} is not below it", shown(&mount), shown(path)),
                "the job's directory, its source and its target have to be on the claim",
            )),
        };
    }
    let mut common = paths[0].clone();
    while !paths.iter().all(|path| path.starts_with(&common)) && common.pop() {}
    match common.components().any(|part| matches!(part, Component::Normal(_))) {
        true => Ok(common),
        false => Err(JobError::usage(
            "the job's directory, its source and its target have only / in common",
            "--mount PATH names the directory that is on the claim; all have to be below",
        )),
    }
}

struct KubernetesManifest {
    name: String,
    image: String,
    claim: String,
    mount: String,
    job: String,
    confirming: Vec<String>,
    shards: u32,
    at_once: u32,
    user: (u32, u32),
    verifies: bool,
}

impl KubernetesManifest {
    fn yaml(&self) -> String {
        let Self { shards, at_once, .. } = self;
        let verify = if self.verifies { &["--verify"][..] } else { &[] };
        let confirming: Vec<_> = self.confirming.iter().map(String::as_str).collect();
        let step = |words: &[&'static str]| [words, &confirming, &[self.job.as_str()]].concat();
        let indexed = format!(
            "  completionMode: Indexed\n  completions: {shards}\n  parallelism: {at_once}\n  \
             backoffLimitPerIndex: {RETRIES}\n  maxFailedIndexes: {shards}\n"
        );
        // 1: files failed; 2: the command is wrong. Repeating changes neither.
        let fails = self.policy("FailIndex");
        let shard = self.one("", &indexed, &fails, &step(&["job", "shard", "--quiet"]));
        let finish = step(&[&["job", "finish", "--wait"][..], verify].concat());
        let last = self.one("-finish", &format!("  backoffLimit: {RETRIES}\n"), &self.policy("FailJob"), &finish);
        format!("{shard}---\n{last}")
    }

    fn policy(&self, action: &str) -> String {
        format!(
            "  podFailurePolicy:\n    rules:\n    - action: Ignore\n      onPodConditions:\n      - type: DisruptionTarget\n        \
             status: \"True\"\n    - action: {action}\n      onExitCodes:\n        containerName: haul\n        operator: In\n        \
             values: [1, 2, 5]\n"
        )
    }

    fn one(&self, ending: &str, own: &str, policy: &str, words: &[&str]) -> String {
        let quoted = |text: &str| harmless_json(&Value::from(text).to_string());
        let words: Vec<_> = words.iter().map(|word| quoted(word)).collect();
        let user = match self.user {
            (0, _) => String::new(),
            (user, group) => {
                format!("      securityContext:\n        runAsUser: {user}\n        runAsGroup: {group}\n")
            }
        };
        format!(
            "apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: {}\nspec:\n{own}{policy}  template:\n    spec:\n      \
             restartPolicy: Never\n{user}      containers:\n      - name: haul\n        image: {}\n        \
             command: [haul]\n        args: [{}]\n        volumeMounts:\n        - name: shared\n          mountPath: {}\n      \
             volumes:\n      - name: shared\n        persistentVolumeClaim:\n          claimName: {}\n",
            quoted(&format!("{}{ending}", self.name)),
            quoted(&self.image),
            words.join(", "),
            quoted(&self.mount),
            quoted(&self.claim),
        )
    }
}
