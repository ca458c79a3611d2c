//! Workers that measure, each at one end of a copy. They stay until all measurements are done, since their temporary
//! files are removed with them.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use haul_base::copy::error::Error;
use haul_base::copy::event::Observer;
use haul_base::copy::spec::{CopySpec, WorkerProgram, names_null};
use haul_base::sys::cancel::Cancel;
use haul_proto::wire::measure::{MeasureAnswer, MeasureRequest};
use haul_proto::wire::report::{WorkerHello, WorkerMessage};
use haul_proto::wire::request::ControllerMessage;

use super::copy_check::check_copy;
use super::settings::{suite, workers_silence_ms};
use super::worker_role::WorkerRole;
use super::workers::Workers;
use crate::controller::report_checker::ReportChecker;

/// Measuring workers at both ends of a copy that is not run.
pub struct Benches<'a> {
    copy: &'a CopySpec,
    workers: Workers,
    cancel: &'a Cancel,
}

/// Measurements of one end.
#[derive(Debug, Clone)]
pub struct EndMeasurement {
    /// The host, as the user named it.
    pub label: String,
    /// Hello of its worker.
    pub hello: WorkerHello,
    /// Its measurements.
    pub measured: MeasureAnswer,
    /// Offset of its clock to the local clock in microseconds; accurate to within the time of the answer's transfer.
    pub clock_ahead_us: i64,
}

impl<'a> Benches<'a> {
    /// Starts the workers that the copy would start.
    pub fn start(
        copy: &'a CopySpec,
        program: &WorkerProgram,
        cancel: &'a Cancel,
        observer: &mut dyn Observer,
    ) -> Result<Self, Error> {
        check_copy(copy)?;
        Ok(Self { copy, workers: Workers::start(copy, program, cancel, observer)?, cancel })
    }

    /// Measures source and target in turn, since both may be on one machine; a single worker is measured once.
    pub fn measure(&mut self, compute: Duration) -> Result<[EndMeasurement; 2], Error> {
        let (path, source) =
            (self.copy.target.path.clone(), self.copy.sources.first().map(|source| source.path.clone()));
        let source = source.filter(|path| !names_null(path.as_os_str()));
        if self.workers.is_one() {
            let both = self.measure_one(WorkerRole::Source, Some(&path), source.as_deref(), compute)?;
            return Ok([both.clone(), both]);
        }
        let source = self.measure_one(WorkerRole::Source, None, source.as_deref(), compute)?;
        Ok([source, self.measure_one(WorkerRole::Target, Some(&path), None, compute)?])
    }

    fn measure_one(
        &mut self,
        role: WorkerRole,
        path: Option<&Path>,
        cold: Option<&Path>,
        compute: Duration,
    ) -> Result<EndMeasurement, Error> {
        let bytes = |path: Option<&Path>| path.map(|path| path.as_os_str().as_bytes().to_vec()).unwrap_or_default();
        let request = MeasureRequest {
            path: bytes(path),
            cold: bytes(cold),
            compute_ms: u32::try_from(compute.as_millis()).unwrap_or(u32::MAX),
            suite: suite(self.copy.options.streams.cipher, &self.workers),
            silence_ms: workers_silence_ms(self.copy.access.silence),
        };
        self.workers.send(role, &ControllerMessage::Measure(request))?;
        let (from, message) = self.workers.receive(self.cancel, None, false)?;
        let mut reports = ReportChecker::of_measurements(self.copy, self.workers.is_one());
        reports.admit_report(from, &message, || self.workers.label(from))?;
        match (from, message) {
            (from, WorkerMessage::Measured(measured)) if from == role => {
                let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                let now_us = i64::try_from(now.as_micros()).unwrap_or(i64::MAX);
                let clock_us = i64::try_from(measured.clock_us).unwrap_or(i64::MAX);
                Ok(EndMeasurement {
                    label: self.workers.label(role),
                    hello: self.workers.hello(role).clone(),
                    measured: *measured,
                    clock_ahead_us: clock_us.saturating_sub(now_us),
                })
            }
            (from, WorkerMessage::Refused { text, .. } | WorkerMessage::Fatal { text, .. }) => {
                Err(Error::Failed(self.workers.with_host(from, &text)))
            }
            (from, _) => Err(Error::Failed(self.workers.with_host(from, "protocol error: answer out of order"))),
        }
    }

    /// Ends the workers, which remove their temporary files.
    pub fn close(&mut self) {
        self.workers.close_and_wait();
    }
}
