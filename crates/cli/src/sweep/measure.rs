//! One run: copies, measures and removes the copy.

use std::net::{IpAddr, ToSocketAddrs};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use haul_base::job::event::{Event, Observer, TransportPath};
use haul_base::job::location::{Host, Location};
use haul_base::job::runtime_control::RuntimeControl;
use haul_base::job::spec::{Job, NULL_TARGET, WorkerProgram, is_null};
use haul_base::sys::cancel::Cancel;
use haul_proto::path::escape;

use super::figures::{Figures, SweepRun};
use super::scratch::ScratchSpace;
use super::setting::SweepSetting;
use crate::echoes::{Echoes, RoundTrips, idle, other_end};
use crate::report::series::Series;
use crate::signals::Watch;

/// The environment of runs.
pub struct SweepBench<'a> {
    /// The executable of workers.
    pub program: WorkerProgram,
    /// Handles signals.
    pub watch: &'a Watch,
    /// For SIGUSR1 and SIGUSR2.
    pub steering: &'a RuntimeControl,
}

/// The result of a run.
pub struct MeasuredRun {
    /// The run; `None` if it was stopped.
    pub run: Option<SweepRun>,
    /// The transport path.
    pub transport: Option<TransportPath>,
    /// Why its copy could not be removed, in one line.
    pub leftover: Option<String>,
}

impl SweepBench<'_> {
    /// Removes the remains of a killed call.
    pub fn clear(&self, job: &Job, number: u64) -> anyhow::Result<()> {
        placed(job, number).and_then(|(_, scratch)| scratch).map_or(Ok(()), |scratch| scratch.remove(&job.access))
    }

    /// Makes a run. `number` is that of the sweep; `address` is the other host's, if known from an earlier run.
    pub fn measure(
        &self,
        (round, setting, job): (u32, &SweepSetting, &Job),
        address: Option<IpAddr>,
        number: u64,
        cancel: &Cancel,
    ) -> MeasuredRun {
        let began = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        let not_run = |why: String| {
            let run = SweepRun { round, setting: setting.clone(), began, limited_by: String::new(), result: Err(why) };
            MeasuredRun { run: Some(run), transport: None, leftover: None }
        };
        let Some((job, scratch)) = placed(job, number) else {
            let target = escape(job.target.path.as_os_str().as_encoded_bytes());
            return not_run(format!("{target}: not a path for a sweep"));
        };
        if let Some(Err(error)) = scratch.as_ref().map(|scratch| scratch.create(&job.access)) {
            return not_run(format!("{error:#}"));
        }
        let idle = address.or_else(|| host_address(&job)).and_then(idle);
        let mut witness = Witness { begun: Instant::now(), series: Series::default(), echoes: None, failure: None };
        let outcome = self.watch.during(|| {
            haul_control::controller::run(job.clone(), self.program.clone(), cancel, self.steering, &mut witness)
        });
        let echoes = RoundTrips { idle, loaded: witness.echoes.and_then(Echoes::finish) };
        let leftover = scratch.and_then(|scratch| scratch.remove(&job.access).err()).map(|error| format!("{error:#}"));
        witness.series.end();
        let transport = outcome.as_ref().ok().map(|summary| summary.connection.transport.clone());
        let limited_by =
            outcome.as_ref().ok().and_then(|summary| Some(summary.diagnosis.verdict.as_ref()?.limit.id().to_owned()));
        let limited_by = limited_by.unwrap_or_default();
        let result = match (outcome, witness.failure) {
            (Err(_), _) if cancel.is_cancelled() => return MeasuredRun { run: None, transport, leftover },
            (Err(error), _) => Err(error.to_string()),
            (Ok(_), Some(failure)) => Err(failure),
            (Ok(summary), None) => Ok(Figures::of(&summary, &witness.series, echoes)),
        };
        let run = SweepRun { round, setting: setting.clone(), began, limited_by, result };
        MeasuredRun { run: Some(run), transport, leftover }
    }
}

/// The address of the other host, by its name; `None` for a name known only to ssh, or if there is no other host.
fn host_address(job: &Job) -> Option<IpAddr> {
    let (Host::Remote { name, .. } | Host::Served { name, .. }) =
        [job.source_host(), &job.target.host].into_iter().find(|host| **host != Host::Local)?
    else {
        return None;
    };
    (name.as_str(), 0).to_socket_addrs().ok()?.next().map(|address| address.ip())
}

/// Whether the target discards data.
pub fn is_nowhere(target: &Location) -> bool {
    is_null(&target.path) || target.path.as_os_str() == NULL_TARGET
}

/// The job with its own scratch directory as the target, unless the target is null. `None` if impossible.
fn placed(job: &Job, number: u64) -> Option<(Job, Option<ScratchSpace>)> {
    if is_nowhere(&job.target) {
        return Some((job.clone(), None));
    }
    let scratch = ScratchSpace::below(&job.target, number)?;
    let mut job = Job { target: scratch.data(), ..job.clone() };
    job.options.target.directory.create = true;
    Some((job, Some(scratch)))
}

/// Observes a run.
struct Witness {
    begun: Instant,
    series: Series,
    echoes: Option<Echoes>,
    /// The first failure.
    failure: Option<String>,
}

impl Observer for Witness {
    fn event(&mut self, event: &Event) {
        self.series.event(self.begun.elapsed(), event);
        if let (Event::Connected { transport, .. }, None) = (event, &self.echoes) {
            self.echoes = other_end(transport).and_then(Echoes::start);
        }
        if let (Event::FileFailed { path, host, message }, None) = (event, &self.failure) {
            self.failure = Some(format!("{host}: {}: {message}", escape(path)));
        }
    }
}

#[cfg(test)]
mod tests {
    use haul_base::job::spec::{JobOptions, RemoteAccess};

    use super::*;

    fn job(target: &str) -> Job {
        let here = |path: &str| Location { host: Host::Local, path: path.into() };
        Job {
            sources: vec![here("a")],
            list: None,
            target: here(target),
            options: JobOptions::default(),
            access: RemoteAccess::default(),
        }
    }

    #[test]
    fn written_files_go_into_a_separate_directory() {
        let (placed_job, scratch) = placed(&job("/archive"), 7).unwrap();
        assert_eq!(placed_job.target.path.to_str(), Some("/archive/haul-sweep-794bb29cbcd99681/data"));
        assert!(placed_job.options.target.directory.create && scratch.is_some());
        for nowhere in ["null:", "/dev/null"] {
            let (job, scratch) = placed(&job(nowhere), 7).unwrap();
            assert!(
                scratch.is_none() && job.target.path.to_str() == Some(nowhere) && !job.options.target.directory.create
            );
        }
        assert!(placed(&job("a\nb"), 7).is_none());
    }
}
