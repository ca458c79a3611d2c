//! What both ends say of where their time goes, put together: what limits the job now, and what did in the end.

use haul_proto::diagnose::watch::{Now, Watch};
use haul_proto::diagnose::{Case, Verdict, diagnose};
use haul_proto::wire::load::{Load, StreamFigures};
use haul_proto::wire::report::Counters;

use super::workers::{Role, Workers};

/// Both ends' reports.
#[derive(Default)]
pub struct Loads {
    /// Of source and target, the latest.
    pub latest: [Load; 2],
    watch: Watch,
    /// What the streams did, as source and target said at the end.
    pub streams: [Vec<StreamFigures>; 2],
}

impl Loads {
    /// An end tells its load; a worker that is both ends tells it once.
    pub fn tell(&mut self, role: Role, load: Load, workers: &Workers, ends: &[Counters; 2], rate_limit: Option<u64>) {
        self.latest[role.index()] = load;
        if workers.is_one() {
            self.latest[role.other().index()] = load;
        }
        self.watch.tell(&self.case(workers, ends, rate_limit));
    }

    /// What limits now.
    pub fn now(&self) -> Option<Now> {
        self.watch.now()
    }

    /// What limited the whole job.
    pub fn verdict(&self, workers: &Workers, ends: &[Counters; 2], rate_limit: Option<u64>) -> Verdict {
        diagnose(&self.case(workers, ends, rate_limit))
    }

    fn case(&self, workers: &Workers, [_, target]: &[Counters; 2], rate_limit: Option<u64>) -> Case {
        let [source_load, target_load] = self.latest;
        Case {
            source: source_load,
            target: target_load,
            is_one_worker: workers.is_one(),
            is_one_machine: workers.hello(Role::Source).boot == workers.hello(Role::Target).boot,
            bytes: target.bytes_written,
            files: target.files_copied,
            rate_limit_bytes_per_s: rate_limit,
        }
    }
}
