//! Options of `haul job plan` and `haul job run`.

use super::*;
use crate::args::parsers::range_len;

options! {
    /// Options of `haul job plan` and `haul job run` besides those of a copy ([`crate::args::job`]).
    ALL;
    DIR: Single<OsString> = row("dir", None, One("JOB"), Copying, "keep the job in the directory JOB, which all hosts see (run: default haul-job-ID)").one(raw);
    SYNC: Switch = row("sync", None, Nothing, Syncing, "make TARGET match SOURCE, as haul sync does").switch();
    SHARD_BYTES: Single<u64> = row("shard-bytes", None, One("SIZE"), Performance, "bytes of a full shard (default: 25g, growing up to 200g in large sources)").one(|a| a.size(1..=u64::MAX, "of at least 1"));
    SHARD_FILES: Single<u64> = row("shard-files", None, One("N"), Performance, "files of a full shard (default: 62.5k, growing up to 500k)").one(|a| a.size(1..=u64::MAX, "of at least 1"));
    SHARD_RANGE: Single<u64> = row("shard-range", None, One("SIZE"), Performance, "copy larger files in ranges of SIZE, a power of two from 1m on, each on any node; 0: copy files whole (default: 64g)").one(range_len);
    SOURCES: Single<OsString> = row("sources", None, One("FILE"), Connecting, "read further hosts of a remote source from FILE, one HOST:PATH a line").one(raw);
    TARGETS: Single<OsString> = row("targets", None, One("FILE"), Connecting, "read further targets from FILE, one a line").one(raw);
    LOCAL: Single<u32> = row("local", None, One("N"), Performance, "run: copy N shards at a time on this host (default: 1)").one(|a| a.number(1..=256));
    SLURM: Switch = row("slurm", None, Nothing, Performance, "run: submit shards to Slurm, and follow the job").switch();
    NODES: Single<u32> = row("nodes", None, One("N"), Performance, "--slurm: copy on at most N nodes at a time, each for one shard alone; plan: size shards for N nodes").one(|a| a.number(1..=1_000_000));
    LIMIT: Single<u32> = row("limit", None, One("N"), Performance, "--slurm: copy at most N shards at a time (default: as many as Slurm starts)").one(|a| a.number(1..=1_000_000));
    PARTITION: Single<String> = row("partition", None, One("NAME"), Performance, "--slurm: partition of the tasks").one(word);
    ACCOUNT: Single<String> = row("account", None, One("NAME"), Performance, "--slurm: account of the tasks").one(word);
    TIME: Single<String> = row("time", None, One("LIMIT"), Performance, "--slurm: time limit of a task, as sbatch takes it; a shard that needs more is requeued and resumes").one(word);
    CPUS_PER_TASK: Single<u32> = row("cpus-per-task", None, One("N"), Performance, "--slurm: CPUs of a task").one(|a| a.number(1..=1_000_000));
    SBATCH: Repeated<String> = row("sbatch", None, Each("OPTION"), Performance, "--slurm: a further option of sbatch, for example --sbatch=--mem=4G; repeatable").each(text);
    NO_WAIT: Switch = row("no-wait", None, Nothing, Performance, "--slurm: end when everything is submitted (default: follow the job to its end)").switch();
    THEN_VERIFY: Switch = row("then-verify", None, Nothing, Integrity, "run: compare source and target at the end, in shards, as haul job verify does").switch();
    ONLY_PLAN: Switch = row("only-plan", None, Nothing, Performance, "verify: only make JOB/verify, whose shards another scheduler runs").switch();
    DETACH: Switch = row("detach", None, Nothing, Performance, "--slurm: plan and follow in a job of Slurm, and end at once").switch();
    CONFIRM: Single<String> = row("confirm", None, One("DIGEST"), Connecting, "run JOB, verify: start the programs that the job's options name; the refusal and haul job plan print the digest").one(word);
    SHOW_HELP;
}
