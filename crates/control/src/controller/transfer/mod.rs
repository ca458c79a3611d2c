//! One attempt from the workers' Hello to their ends.

mod transport_path;

use std::collections::HashSet;
use std::time::{Duration, Instant};

use haul_base::copy::error::{Error, FIRST_FAILURE, GO_ON, Outcome};
use haul_base::copy::event::{Event, MISSING, Observer, TransportPath};
use haul_base::copy::rate::NewRateLimit;
use haul_base::copy::spec::{CopySpec, Transport};
use haul_base::copy::summary::{ConnectionSummary, Diagnosis, Summary};
use haul_base::sys::cancel::Cancel;
use haul_proto::diagnose::path_parts::path_parts;
use haul_proto::feature::Features;
use haul_proto::wire::report::WorkerMessage;
use haul_proto::wire::request::{ControllerMessage, SessionSettings, TargetOperand};

use self::transport_path::{TransferConnection, TransferPulse};
use crate::controller::advice::advice;
use crate::controller::attempt_result::{CopyAttempt, EarlierAttempts, interrupted_first};
use crate::controller::base::{parents_of_sources, refuse_twins};
use crate::controller::control_requests::{ControlRequest, ControlRequests};
use crate::controller::copy_progress::{CopyProgress, EndedAttempt, TransferTerms, streams};
use crate::controller::held_events::HeldEvents;
use crate::controller::list_feeder::ListFeed;
use crate::controller::notices::{NoticeCounts, NoticeKind};
use crate::controller::report_checker::ReportChecker;
use crate::controller::requests::{
    SourceArguments, expected_digests, keeps_extraneous, match_request, name_missing, numbered, source_request,
    target_request,
};
use crate::controller::routes::{directions, shown};
use crate::controller::settings::suite_name;
use crate::controller::worker_role::WorkerRole;
use crate::controller::workers::Workers;

/// One attempt, after both workers have said Hello.
pub struct TransferController<'a> {
    copy: &'a CopySpec,
    settings: SessionSettings,
    workers: Workers,
    /// Checks the workers' reports.
    reports: ReportChecker,
    cancel: &'a Cancel,
    /// Events held until the transport path is known.
    events: HeldEvents<'a>,
    notices: NoticeCounts,
    progress: CopyProgress,
    connection: TransferConnection,
    control_requests: &'a mut ControlRequests,
    earlier: EarlierAttempts,
    /// Sends the list's entries to the ends.
    feeding: Option<ListFeed>,
    /// Source arguments that do not exist, if the target removes their names.
    missing: HashSet<Vec<u8>>,
}

/// Warning for an incomplete source walk: extraneous files are unknown.
const NOTHING_REMOVED: &str =
    "a source cannot be read, so nothing is deleted at the target (--ignore-errors deletes anyway)";

impl<'a> TransferController<'a> {
    /// Both workers have said Hello, and nothing has been sent to them.
    pub fn new(
        copy: &'a CopySpec,
        settings: SessionSettings,
        workers: Workers,
        cancel: &'a Cancel,
        observer: &'a mut dyn Observer,
        control_requests: &'a mut ControlRequests,
        earlier: EarlierAttempts,
    ) -> Self {
        Self {
            copy,
            settings,
            reports: ReportChecker::new(copy, workers.is_one()),
            progress: CopyProgress::new(&workers),
            workers,
            cancel,
            events: HeldEvents::new(observer),
            notices: earlier.notices,
            connection: TransferConnection::default(),
            control_requests,
            earlier,
            feeding: None,
            missing: HashSet::new(),
        }
    }

    /// Runs the attempt, which began then.
    pub fn run(mut self, begun: Instant) -> CopyAttempt {
        let mut new_tree = false;
        let outcome = self.transfer(begun, &mut new_tree).map_err(|error| interrupted_first(error, self.cancel));
        self.events.release();
        self.report_hidden_notices();
        let stopped = (outcome.is_err() && self.progress.has_total()).then(|| self.summary(begun));
        match &outcome {
            Ok(summary) if !summary.is_timed => self.workers.close(),
            Ok(_) | Err(_) => self.workers.cancel(),
        }
        let wrong_deltas = self.progress.delta.map_or(0, |figures| u32::try_from(figures.wrong).unwrap_or(u32::MAX));
        let (ends, sync, notices) = (self.progress.counters(), self.progress.sync, self.notices);
        CopyAttempt { outcome, stopped, ends, sync, new_tree, wrong_deltas, notices }
    }

    /// Starts both ends, connects them, and waits for their ends.
    fn transfer(&mut self, begun: Instant, new_tree: &mut bool) -> Outcome {
        if self.copy.options.range.is_some() {
            self.workers.require(Features::RANGES)?;
        }
        if self.copy.options.source.filters.has_rsync_rules() {
            self.workers.require(Features::RSYNC_RULES)?;
        }
        if self.copy.options.source.filters.changed.is_some() {
            self.workers.require(Features::WATCH)?;
        }
        match self.copy.options.streams.network.transport {
            Transport::Ssh => self.connection.forbid_direct(),
            _ if self.workers.is_one() => {}
            Transport::Auto | Transport::Tcp => {
                self.connection.directions = directions(self.copy, &self.workers)?.into();
            }
        }
        let Some(arguments) = self.prepare_source()? else {
            return Ok(self.summary(begun));
        };
        let (ready, is_new_tree) = self.prepare_target(arguments)?;
        *new_tree = is_new_tree;
        self.start_source(ready)?;
        self.connect()?;
        self.await_ends()?;
        Ok(self.summary(begun))
    }

    /// Sends the Request to the source. Returns its arguments; `None` if none of them can be copied.
    fn prepare_source(&mut self) -> Result<Option<SourceArguments>, Error> {
        let rate_bytes_per_s = self.control_requests.limit.bytes_per_s().unwrap_or(0);
        let request = source_request(self.copy, self.settings.clone(), rate_bytes_per_s);
        self.workers.send(WorkerRole::Source, &ControllerMessage::Source(request))?;
        transport_path::listen_early(self, WorkerRole::Source)?;
        let (operands, origin) = self.expect(|role, message| match (role, message) {
            (WorkerRole::Source, WorkerMessage::SourceReady { operands, origin }) => Ok((operands, origin)),
            (_, other) => Err(other),
        })?;
        self.check_operands(&operands)?;
        if self.copy.list.is_none() && operands.iter().all(Option::is_none) && self.missing.is_empty() {
            return Ok(None);
        }
        let is_missing = operands.iter().any(Option::is_none) && !self.copy.options.source.skip.missing;
        let (mut operands, below) = (numbered(operands), parents_of_sources(self.copy)?);
        let removed = name_missing(&mut operands, self.copy, &self.missing);
        refuse_twins(&operands, &below)?;
        self.reports.set_operands(&operands, &below);
        let boot = self.workers.hello(WorkerRole::Source).boot;
        Ok(Some(SourceArguments { operands, below, origin, boot, is_missing, removed }))
    }

    /// Sends the Request to the target, and starts it before the source, so that it is ready for the first offer.
    /// Returns device and inode number of its directory, if the source's are comparable, and whether it is a new tree.
    fn prepare_target(&mut self, arguments: SourceArguments) -> Result<(Option<(u64, u64)>, bool), Error> {
        if keeps_extraneous(&self.copy.options.target.sync, arguments.is_missing) {
            self.events.emit(Event::Warning(NOTHING_REMOVED.into()));
        }
        let source_boot = arguments.boot;
        let request = target_request(self.copy, self.settings.clone(), &self.earlier, arguments);
        self.workers.send(WorkerRole::Target, &ControllerMessage::Target(request))?;
        for lines in expected_digests(&self.copy.options) {
            self.workers.send(WorkerRole::Target, &ControllerMessage::Expected(lines))?;
        }
        let one = self.workers.is_one();
        if !one {
            self.workers.send(WorkerRole::Target, &ControllerMessage::Start { skip: None })?;
            transport_path::listen_early(self, WorkerRole::Target)?;
        }
        self.expect(|role, message| match message {
            WorkerMessage::TargetReady { boot, device, inode, new_tree } if one || role == WorkerRole::Target => {
                Ok(((boot == source_boot).then_some((device, inode)), new_tree))
            }
            other => Err(other),
        })
    }

    /// Starts the source. Offers and answers go through the control channels while data connections are made.
    fn start_source(&mut self, skip: Option<(u64, u64)>) -> Result<(), Error> {
        self.workers.send(WorkerRole::Source, &ControllerMessage::Start { skip })?;
        self.forward_control_requests();
        let base = self.copy.options.source.base.as_deref();
        self.feeding = self.copy.list.as_ref().map(|list| ListFeed::start(list, base, &self.workers)).transpose()?;
        Ok(())
    }

    /// Connects both ends, and reports the path before all events held until now.
    fn connect(&mut self) -> Result<(), Error> {
        let (transport, streams) = transport_path::find(self)?;
        self.connection.transport = transport.clone();
        if transport != TransportPath::None {
            let cipher = suite_name(self.settings.suite);
            self.events.emit_now(&Event::Connected { transport, streams, cipher });
        }
        self.events.release();
        Ok(())
    }

    /// Checks that the source offers what the user asked for.
    fn check_operands(&self, operands: &[Option<TargetOperand>]) -> Result<(), Error> {
        let missing = operands.iter().filter(|operand| operand.is_none()).count() as u64;
        let fault = if missing > self.progress.failed + self.progress.left_out() {
            "protocol error: a source was refused without a reason"
        } else if !match_request(operands, self.copy) {
            "protocol error: the offered sources are not those requested"
        } else {
            return Ok(());
        };
        Err(Error::Failed(self.workers.with_host(WorkerRole::Source, fault)))
    }

    /// Waits for a message that `take` accepts; handles or refuses all others.
    fn expect<T>(&mut self, take: impl Fn(WorkerRole, WorkerMessage) -> Result<T, WorkerMessage>) -> Result<T, Error> {
        loop {
            let (role, message) = self.receive(false)?;
            match take(role, message) {
                Ok(taken) => return Ok(taken),
                Err(other) => self.observe(role, other, false)?,
            }
        }
    }

    fn receive(&mut self, begun: bool) -> Result<(WorkerRole, WorkerMessage), Error> {
        loop {
            let (role, message) = self.workers.receive(self.cancel, Some(&self.progress.finals), begun)?;
            if let Some(admitted) = self.admit(role, message)? {
                return Ok(admitted);
            }
        }
    }

    /// Returns the next message before the copy has begun to move data; `None` if none arrives before `deadline`.
    fn receive_until(&mut self, deadline: Option<Instant>) -> Result<Option<(WorkerRole, WorkerMessage)>, Error> {
        let next = self.workers.receive_until(self.cancel, Some(&self.progress.finals), false, deadline)?;
        next.map_or(Ok(None), |(role, message)| self.admit(role, message))
    }

    /// Checks a message; `None` for one that is late.
    fn admit(
        &mut self,
        role: WorkerRole,
        message: WorkerMessage,
    ) -> Result<Option<(WorkerRole, WorkerMessage)>, Error> {
        let is_admitted = self.reports.admit_report(role, &message, || self.workers.label(role))?;
        Ok(is_admitted.then_some((role, message)))
    }

    /// Runs the transfer: handles events until both ends have finished, or until the copy's duration is over.
    fn await_ends(&mut self) -> Result<(), Error> {
        let every = self.copy.options.reports.progress_every.max(Duration::from_millis(10));
        let duration = self.copy.options.stop.after.unwrap_or(Duration::MAX);
        let begun = Instant::now();
        let mut last_shown = begun;
        let mut pulse = TransferPulse::new();
        while !self.progress.is_over() && begun.elapsed() < duration {
            let (role, message) = self.receive(true)?;
            self.observe(role, message, true)?;
            pulse.record(role, self.progress.ends[WorkerRole::Target.index()].counters.bytes_written);
            transport_path::keep_moving(self, &mut pulse)?;
            self.forward_control_requests();
            if self.progress.has_total() && last_shown.elapsed() >= every {
                last_shown = Instant::now();
                self.show_progress();
            }
        }
        self.show_progress();
        Ok(())
    }

    fn show_progress(&mut self) {
        let figures = self.progress.figures(self.settings.streams_max, self.control_requests);
        self.events.emit_now(&Event::Progress(Box::new(figures)));
    }

    /// Reports the number of each worker's hidden lines.
    fn report_hidden_notices(&mut self) {
        for role in WorkerRole::BOTH {
            for (kind, words) in NoticeKind::ALL {
                let hidden = self.notices.hidden_since(&self.earlier.notices, role, kind);
                if hidden > 0 {
                    let text = format!("{}: {hidden} more {words} not shown", self.workers.label(role));
                    self.events.emit(Event::Warning(text));
                }
            }
        }
    }

    /// Forwards the caller's requests to the source. The reader of the source's messages reports its loss.
    fn forward_control_requests(&mut self) {
        let written = self.progress.ends[WorkerRole::Target.index()].counters.bytes_written;
        if let Some(NewRateLimit { bytes_per_s }) = self.control_requests.limit.poll(written) {
            let _ = self.workers.send(WorkerRole::Source, &ControllerMessage::Rate(bytes_per_s.unwrap_or(0)));
            self.events.emit(Event::RateLimit { bytes_per_s });
        }
        for request in self.control_requests.poll() {
            let _ = self.workers.send(WorkerRole::Source, &request.message());
            match request {
                ControlRequest::Pause(is_paused) => {
                    let terms = TransferTerms { transport: &self.connection.transport, control: self.control_requests };
                    self.progress.record_pause(is_paused, terms);
                    self.events.emit(Event::Pause { is_paused });
                }
                ControlRequest::Streams(wanted) => {
                    let wanted = wanted.min(self.settings.streams_max.max(1));
                    self.events.emit(Event::Streams { wanted });
                }
            }
        }
    }

    /// Records the paths of the data that the source reports.
    fn record_paths(&mut self, in_use: Vec<(String, String)>, because: String) {
        let TransferConnection {
            connector: Some(connector), transport: TransportPath::Tcp { path, others, .. }, ..
        } = &mut self.connection
        else {
            return;
        };
        let mut paths = in_use.into_iter().map(|(from, to)| shown(&self.workers, *connector, from, to));
        let Some(first) = paths.next() else {
            self.connection.transport = transport_path::tunnel(self.copy, because.clone());
            let transport = self.connection.transport.clone();
            self.events.emit(Event::PathChanged { transport, because: Some(because) });
            return;
        };
        let now = (first, paths.collect());
        if (&*path, &*others) == (&now.0, &now.1) {
            return;
        }
        (*path, *others) = now;
        if self.notices.count(WorkerRole::Source, NoticeKind::Notice) {
            let (transport, because) =
                (self.connection.transport.clone(), Some(because).filter(|text| !text.is_empty()));
            self.events.emit(Event::PathChanged { transport, because });
        }
    }

    fn observe(&mut self, role: WorkerRole, message: WorkerMessage, begun: bool) -> Result<(), Error> {
        let Err(message) = self.connection.listening.answered(role, message) else {
            return transport_path::advance(self);
        };
        let Some(message) = transport_path::answered(self, role, message)? else { return Ok(()) };
        let Some(message) = self.record_figures(role, message)? else { return Ok(()) };
        let Some(message) = self.report_entry(role, message)? else { return Ok(()) };
        let (text, is_lost) = match message {
            WorkerMessage::Refused { usage: true, text } => {
                return Err(Error::Usage(self.workers.with_host(role, &text)));
            }
            // No retry after a protocol violation.
            WorkerMessage::Refused { text, .. } | WorkerMessage::Fatal { fault: true, text } => (text, false),
            WorkerMessage::Fatal { text, .. } | WorkerMessage::CannotConnect { text } => (text, true),
            other => (format!("protocol error: {} out of order", other.rule().name), false),
        };
        if !is_lost {
            return Err(Error::Failed(self.workers.with_host(role, &text)));
        }
        let text = self.workers.explain(role, &text, begun);
        Err(if begun { Error::Broken(format!("{text}\n{GO_ON}")) } else { Error::Connect(text) })
    }

    /// Records a worker's figures. Returns any other message.
    fn record_figures(&mut self, role: WorkerRole, message: WorkerMessage) -> Result<Option<WorkerMessage>, Error> {
        let is_target = role == WorkerRole::Target || self.workers.is_one();
        match message {
            WorkerMessage::Counters(counters) => self.progress.record_counters(role, *counters),
            WorkerMessage::ListAck { .. } if is_target && self.feeding.as_ref().is_some_and(ListFeed::acknowledge) => {}
            WorkerMessage::Load(load) => {
                let terms = TransferTerms { transport: &self.connection.transport, control: self.control_requests };
                self.progress.record_load(role, *load, terms);
            }
            WorkerMessage::Work(work) if role == WorkerRole::Source => self.progress.work = *work,
            WorkerMessage::Streams(streams) => self.progress.ends[role.index()].streams = streams,
            WorkerMessage::Slowest(files) => self.progress.slowest = files,
            WorkerMessage::Delta(figures) if is_target => self.progress.delta = Some(figures),
            WorkerMessage::Synced(figures) => self.progress.sync = self.progress.sync.later(figures),
            WorkerMessage::Sandboxed(sandbox) => self.progress.record_sandbox(role, &sandbox),
            WorkerMessage::Paths { in_use, because } if role == WorkerRole::Source => {
                self.record_paths(in_use, because)
            }
            WorkerMessage::Finished(last) => {
                if !self.progress.record_end(role, *last) {
                    return Err(Error::Failed(self.workers.with_host(role, "protocol error: finished twice")));
                }
                if self.progress.is_over() {
                    let labels = WorkerRole::BOTH.map(|role| self.workers.label(role));
                    self.reports.check_end(&self.progress.counters(), labels)?;
                }
            }
            other => return Ok(Some(other)),
        }
        Ok(None)
    }

    /// Reports what became of an entry, or a worker's warning. Returns any other message.
    fn report_entry(&mut self, role: WorkerRole, message: WorkerMessage) -> Result<Option<WorkerMessage>, Error> {
        let event = match message {
            WorkerMessage::Item(item) => {
                if self.copy.options.target.sync.is_dry {
                    self.progress.record_planned(&item);
                }
                Event::Item(item)
            }
            WorkerMessage::FileDone(file) => Event::FileDone(file),
            WorkerMessage::Checksum { path, digest } => match &self.copy.options.integrity.checksum {
                Some(checksum) => Event::Checksum { path, algorithm: checksum.algorithm, digest },
                None => return Ok(None),
            },
            WorkerMessage::Resumed(file) => Event::Resumed(file),
            WorkerMessage::FileFailed { path, text } => {
                self.progress.failed += 1;
                Event::FileFailed { path, host: self.workers.label(role), message: text }
            }
            WorkerMessage::Skipped(entry) => {
                self.progress.record_left_out(&entry.reason);
                if self.copy.options.source.removes_missing && entry.reason == MISSING {
                    self.missing.insert(entry.path.clone());
                }
                Event::Skipped(entry)
            }
            WorkerMessage::SourceChanged { path, change } => Event::SourceChanged { path, change },
            WorkerMessage::Differs { path, differences } => {
                Event::Differs { path, host: self.workers.label(role), differences }
            }
            WorkerMessage::Warning { text } => Event::Warning(format!("{}: {text}", self.workers.label(role))),
            other => return Ok(Some(other)),
        };
        let kind = match event {
            Event::FileFailed { .. } => Some(NoticeKind::Failure),
            Event::Skipped(_) => Some(NoticeKind::Skipped),
            Event::SourceChanged { .. } => Some(NoticeKind::Live),
            Event::Warning(_) => Some(NoticeKind::Notice),
            _ => None,
        };
        let ends = self.copy.options.stop.at_failure && kind == Some(NoticeKind::Failure);
        if kind.is_none_or(|kind| self.notices.count(role, kind)) {
            self.events.emit(event);
        }
        if ends { Err(Error::Failed(FIRST_FAILURE.into())) } else { Ok(None) }
    }

    fn terms(&self) -> TransferTerms<'_> {
        TransferTerms { transport: &self.connection.transport, control: self.control_requests }
    }

    fn summary(&mut self, begun: Instant) -> Summary {
        let elapsed = begun.elapsed();
        let reports = self.progress.end_reports();
        let source = reports[WorkerRole::Source.index()];
        let transport = self.connection.transport.clone();
        let cipher = matches!(transport, TransportPath::Tcp { .. } | TransportPath::Tunnel { .. })
            .then(|| suite_name(self.settings.suite));
        let connection = ConnectionSummary {
            transport,
            streams: streams(&source.counters),
            cipher,
            path: source.path,
            rate_limit_bytes_per_s: self.control_requests.limit.bytes_per_s(),
        };
        let (progress, copy, blake3) = (&self.progress, self.copy, self.settings.blake3);
        let ended = EndedAttempt { progress, copy, reports, elapsed, blake3, connection };
        let verdict = progress.verdict(copy, &ended.counters(), self.terms());
        let case = progress.measurements(self.terms());
        let advise = |verdict| advice(copy, &self.workers, verdict, &case, &source, &self.connection.transport);
        let advice = verdict.iter().flat_map(advise).collect();
        let diagnosis = Diagnosis { verdict, parts: path_parts(&case), advice, ..Diagnosis::default() };
        ended.summary(self.control_requests.paused_for(), diagnosis)
    }
}
