//! Measures the parts of a transfer one by one, each bounded in time and size, then the whole, and predicts a
//! transfer's rate. Every part except computing is a copy over the normal transport path, stopped once enough samples
//! exist (`sample`, `copies`). Workers that only measure (`measure`) run throughout and own the scratch directory. So no
//! file remains, however a probe ends.

mod copies;
pub mod ping;
mod sample;

use std::path::PathBuf;
use std::time::Duration;

use haul_base::copy::error::Error;
use haul_base::copy::event::{Event, Observer};
use haul_base::copy::location::{Host, Location};
use haul_base::copy::spec::{CopyOptions, RemoteAccess, WorkerProgram};
use haul_base::sys::cancel::Cancel;
use haul_proto::forecast::{CopyRates, Forecast, MethodRates, PartRates, forecast};

pub use self::sample::ProbeSample;
use self::sample::SampleBounds;
use crate::controller::measurement::Benches;
pub use crate::controller::measurement::EndMeasurement;

/// Measuring time of each kind of computing.
const COMPUTE: Duration = Duration::from_millis(250);
/// All scratch files of a probe together take at most one part in this number of the target's free space.
const FREE_PART: u64 = 10;
/// Number of scratch files that may exist at a time.
const FILES_AT_A_TIME: u64 = 3;
/// Fewest bytes worth writing.
const BYTES_MIN: u64 = 16 << 20;
/// Assumed rate of a part before any measurement, in bytes per second.
const RATE_GUESS: f64 = 200e6;

/// A probe: a copy of `source` to `target`.
#[derive(Debug, Clone)]
pub struct Probe {
    /// Source of the copy; `None` for data from this machine's memory.
    pub source: Option<Location>,
    /// Target of the copy.
    pub target: Location,
    /// Options of the copy.
    pub options: CopyOptions,
    /// Access to remote hosts.
    pub access: RemoteAccess,
    /// Duration of a part.
    pub time: Duration,
    /// Most bytes that a part writes.
    pub bytes_max: u64,
    /// Stream counts to try besides haul's own choice.
    pub streams: Vec<u16>,
    /// Measure the network alone: no disk, nothing written.
    pub network_only: bool,
}

/// A part of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProbePart {
    /// Reading at the source, without a target.
    Read {
        /// Bypassing the page cache.
        direct: bool,
    },
    /// From the source's memory to the target's.
    Network {
        /// Number of streams; `None` lets haul choose.
        streams: Option<u16>,
    },
    /// From the target's memory to the source's.
    Back,
    /// Writing at the target, from its memory to its disk.
    Write {
        /// Bypassing the page cache.
        direct: bool,
    },
    /// The copy itself.
    Whole,
}

/// Receives results as soon as they are known.
pub trait ProbeObserver {
    /// Reports the start of a part.
    fn begins(&mut self, part: ProbePart);
    /// Reports a remark of one line.
    fn notice(&mut self, text: &str);
    /// Reports the measurements of both ends.
    fn ends(&mut self, ends: &[EndMeasurement; 2]);
    /// Reports the sample of a part.
    fn sample(&mut self, part: ProbePart, sample: &ProbeSample);
    /// Reports a part that could not be measured; the other parts still run.
    fn failed(&mut self, part: ProbePart, why: &str);
}

/// Runs a probe. Returns `None` if no part could be measured.
///
/// # Errors
/// See [`Error`]. A failed part is reported and is no error.
pub fn run(
    probe: &Probe,
    program: &WorkerProgram,
    cancel: &Cancel,
    listener: &mut dyn ProbeObserver,
) -> Result<Option<Forecast>, Error> {
    if probe.network_only {
        return measure_network(probe, program, cancel, listener);
    }
    let whole = probe.whole();
    let mut benches = Benches::start(&whole, program, cancel, &mut Notices(listener))?;
    let ends = benches.measure(COMPUTE);
    let found = ends.and_then(|ends| {
        listener.ends(&ends);
        let scratch = ends[1].measured.place.as_ref().map(|place| copies::path(&place.scratch)).unwrap_or_default();
        let free_bytes = ends[1].measured.place.as_ref().map_or(0, |place| place.free_bytes);
        let mut round = Round { probe, program, cancel, listener, free_bytes, scratch };
        round.measure(computing(&ends, probe.is_one_worker()))
    });
    // The workers remove the scratch files when they end.
    benches.close();
    found
}

/// Measures the network alone. A served host measures nothing else.
fn measure_network(
    probe: &Probe,
    program: &WorkerProgram,
    cancel: &Cancel,
    listener: &mut dyn ProbeObserver,
) -> Result<Option<Forecast>, Error> {
    let mut round = Round { probe, program, cancel, listener, free_bytes: 0, scratch: PathBuf::new() };
    let (mut parts, mut methods) = (PartRates::default(), MethodRates::default());
    round.network(&mut parts, &mut methods)?;
    Ok(forecast(&parts, None, &methods))
}

struct Round<'a> {
    probe: &'a Probe,
    program: &'a WorkerProgram,
    cancel: &'a Cancel,
    listener: &'a mut dyn ProbeObserver,
    /// Free space at the target, in bytes.
    free_bytes: u64,
    scratch: PathBuf,
}

impl Round<'_> {
    fn measure(&mut self, mut parts: PartRates) -> Result<Option<Forecast>, Error> {
        let mut methods = MethodRates::default();
        if self.probe.source.is_some() {
            let both = self.measure_twice(|direct| ProbePart::Read { direct })?;
            (parts.read, methods.read) = (fastest(&both), pair(&both));
        }
        if !self.probe.is_one_worker() {
            self.network(&mut parts, &mut methods)?;
        }
        let both = self.measure_twice(|direct| ProbePart::Write { direct })?;
        (parts.write, methods.write) = (fastest(&both), pair(&both));
        let slowest = forecast(&parts, None, &methods).map_or(RATE_GUESS, |forecast| forecast.rate);
        let whole = self.measure_part(ProbePart::Whole, slowest)?.map(|sample| CopyRates {
            rate: sample.rate,
            limit: sample.limit,
            was_settled: sample.is_complete,
            // The page cache dropped the source's files before the reads.
            was_cold: true,
        });
        Ok(forecast(&parts, whole.as_ref(), &methods))
    }

    /// Measures a part without the page cache first; its rate bounds the amount worth writing through the cache.
    fn measure_twice(&mut self, part: impl Fn(bool) -> ProbePart) -> Result<[Option<ProbeSample>; 2], Error> {
        let direct = self.measure_part(part(true), RATE_GUESS)?;
        let rate = direct.as_ref().map_or(RATE_GUESS, |sample| sample.rate);
        Ok([self.measure_part(part(false), rate)?, direct])
    }

    fn network(&mut self, parts: &mut PartRates, methods: &mut MethodRates) -> Result<(), Error> {
        for streams in &self.probe.streams {
            let sample = self.measure_part(ProbePart::Network { streams: Some(*streams) }, RATE_GUESS)?;
            methods.streams.extend(sample.map(|sample| (*streams, sample.rate)));
        }
        let chosen = self.measure_part(ProbePart::Network { streams: None }, RATE_GUESS)?;
        methods.streams_chosen = chosen.as_ref().map(|sample| sample.rate);
        parts.network = chosen.map(|sample| (sample.rate, sample.limit_of_network()));
        self.measure_part(ProbePart::Back, RATE_GUESS).map(|_| ())
    }

    /// Measures a part. Reports a failed part; only a failure of the whole probe is an error.
    fn measure_part(&mut self, part: ProbePart, expected: f64) -> Result<Option<ProbeSample>, Error> {
        self.listener.begins(part);
        let most = self.most_bytes();
        let bytes = most.min(truncated(expected * self.probe.time.as_secs_f64()).max(BYTES_MIN));
        let writes = matches!(part, ProbePart::Write { .. } | ProbePart::Whole);
        // Direct writes are bounded by time alone, since no data is left in the cache to flush.
        let bytes = if part == (ProbePart::Write { direct: true }) { most } else { bytes };
        let copy = self.probe.copy_of(part, &self.scratch, bytes);
        let bounds = SampleBounds { time: self.probe.time, bytes: if writes { most } else { u64::MAX } };
        match sample::measure(copy, self.program, self.cancel, bounds) {
            Ok(sample) => {
                self.listener.sample(part, &sample);
                Ok(Some(sample))
            }
            Err(Error::Interrupted) => Err(Error::Interrupted),
            Err(error) => {
                self.listener.failed(part, &error.to_string());
                Ok(None)
            }
        }
    }

    /// Returns the largest size of one file.
    fn most_bytes(&self) -> u64 {
        (self.free_bytes / FREE_PART / FILES_AT_A_TIME).min(self.probe.bytes_max)
    }
}

impl Probe {
    /// Whether one worker is both ends, without a network.
    pub fn is_one_worker(&self) -> bool {
        let here = self.source.as_ref().map_or(&Host::Local, |source| &source.host);
        let is_started_alike = *here == Host::Local || self.access.source_command == self.access.target_command;
        *here == self.target.host && is_started_alike && !self.options.streams.within_host
    }
}

/// Returns the rate of all cores for the transfer's computing alone.
fn computing(ends: &[EndMeasurement; 2], is_one_worker: bool) -> PartRates {
    // Seconds of one core per byte.
    let cost = |rates: &[u64]| rates.iter().map(|rate| 1.0 / (*rate).max(1) as f64).sum::<f64>();
    let [source, target] = ends;
    let (first, second) = (&source.measured, &target.measured);
    let at_source = match is_one_worker {
        true => cost(&[first.check_bytes_per_s]),
        false => cost(&[first.check_bytes_per_s, first.seal_bytes_per_s]),
    };
    let at_target = match is_one_worker {
        true => cost(&[second.check_bytes_per_s]),
        false => cost(&[second.check_bytes_per_s, second.seal_bytes_per_s]),
    };
    let is_one_machine = source.hello.boot == target.hello.boot;
    let of = |end: &EndMeasurement, own: f64| {
        f64::from(end.hello.cores.max(1)) / if is_one_machine { at_source + at_target } else { own }
    };
    PartRates {
        source_cpu: Some(of(source, at_source)),
        target_cpu: Some(of(target, at_target)),
        ..PartRates::default()
    }
}

fn fastest(samples: &[Option<ProbeSample>; 2]) -> Option<f64> {
    samples.iter().flatten().map(|sample| sample.rate).max_by(f64::total_cmp)
}

fn pair([buffered, direct]: &[Option<ProbeSample>; 2]) -> Option<[f64; 2]> {
    Some([buffered.as_ref()?.rate, direct.as_ref()?.rate])
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a conversion of floats saturates")]
fn truncated(value: f64) -> u64 {
    value as u64
}

/// Forwards events of the starting workers.
struct Notices<'a>(&'a mut dyn ProbeObserver);

impl Observer for Notices<'_> {
    fn event(&mut self, event: &Event) {
        match event {
            Event::Deployed { host, path } => self.0.notice(&format!("installed haul on {host}: {path}")),
            Event::Warning(text) => self.0.notice(text),
            _ => {}
        }
    }
}
