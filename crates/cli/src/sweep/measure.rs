//! One run: copies, measures and removes the copy.

use std::net::{IpAddr, ToSocketAddrs};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use haul_base::copy::event::{Event, Observer, TransportPath};
use haul_base::copy::location::{Host, Location};
use haul_base::copy::runtime_control::RuntimeControl;
use haul_base::copy::spec::{CopySpec, NULL_TARGET, WorkerProgram, is_null};
use haul_base::sys::cancel::Cancel;
use haul_proto::path::escape;
use haul_show::report::series::Series;

use super::figures::{Figures, SweepRun};
use super::scratch::ScratchSpace;
use super::setting::SweepSetting;
use crate::echoes::{Echoes, RoundTrips, idle, other_end};
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
    pub fn clear(&self, copy: &CopySpec, number: u64) -> anyhow::Result<()> {
        placed(copy, number).and_then(|(_, scratch)| scratch).map_or(Ok(()), |scratch| scratch.remove(&copy.access))
    }

    /// Makes a run. `number` is that of the sweep; `address` is the other host's, if known from an earlier run.
    pub fn measure(
        &self,
        round: u32,
        setting: &SweepSetting,
        copy: &CopySpec,
        address: Option<IpAddr>,
        number: u64,
        cancel: &Cancel,
    ) -> MeasuredRun {
        let began = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        let not_run = |why: String| {
            let run = SweepRun { round, setting: setting.clone(), began, limited_by: String::new(), result: Err(why) };
            MeasuredRun { run: Some(run), transport: None, leftover: None }
        };
        let Some((copy, scratch)) = placed(copy, number) else {
            let target = escape(copy.target.path.as_os_str().as_encoded_bytes());
            return not_run(format!("{target}: not a path for a sweep"));
        };
        if let Some(Err(error)) = scratch.as_ref().map(|scratch| scratch.create(&copy.access)) {
            return not_run(format!("{error:#}"));
        }
        let idle = address.or_else(|| host_address(&copy)).and_then(idle);
        let mut witness = Witness { begun: Instant::now(), series: Series::default(), echoes: None, failure: None };
        let outcome = self.watch.during(|| {
            haul_control::controller::run(copy.clone(), self.program.clone(), cancel, self.steering, &mut witness)
        });
        let echoes = RoundTrips { idle, loaded: witness.echoes.and_then(Echoes::finish) };
        let leftover = scratch.and_then(|scratch| scratch.remove(&copy.access).err()).map(|error| format!("{error:#}"));
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
fn host_address(copy: &CopySpec) -> Option<IpAddr> {
    let name = [copy.source_host(), &copy.target.host].into_iter().find_map(Host::name)?;
    (name, 0).to_socket_addrs().ok()?.next().map(|address| address.ip())
}

/// Whether the target discards data.
pub fn is_nowhere(target: &Location) -> bool {
    is_null(&target.path) || target.path.as_os_str() == NULL_TARGET
}

/// The copy with its own scratch directory as the target, unless the target is null. `None` if impossible.
fn placed(copy: &CopySpec, number: u64) -> Option<(CopySpec, Option<ScratchSpace>)> {
    if is_nowhere(&copy.target) {
        return Some((copy.clone(), None));
    }
    let scratch = ScratchSpace::below(&copy.target, number)?;
    let mut copy = CopySpec { target: scratch.data(), ..copy.clone() };
    copy.options.target.directory.create = true;
    Some((copy, Some(scratch)))
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
    use haul_base::copy::spec::{CopyOptions, RemoteAccess};

    use super::*;

    fn copy(target: &str) -> CopySpec {
        let here = |path: &str| Location { host: Host::Local, path: path.into() };
        CopySpec {
            sources: vec![here("a")],
            list: None,
            target: here(target),
            options: CopyOptions::default(),
            access: RemoteAccess::default(),
        }
    }

    #[test]
    fn written_files_go_into_a_separate_directory() {
        let (placed_copy, scratch) = placed(&copy("/archive"), 7).unwrap();
        assert_eq!(placed_copy.target.path.to_str(), Some("/archive/haul-sweep-794bb29cbcd99681/data"));
        assert!(placed_copy.options.target.directory.create && scratch.is_some());
        for nowhere in ["null:", "/dev/null"] {
            let (copy, scratch) = placed(&copy(nowhere), 7).unwrap();
            assert!(
                scratch.is_none()
                    && copy.target.path.to_str() == Some(nowhere)
                    && !copy.options.target.directory.create
            );
        }
        assert!(placed(&copy("a\nb"), 7).is_none());
    }
}
