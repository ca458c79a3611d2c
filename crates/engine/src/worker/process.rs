//! The main thread of a worker: handles the controller's messages in order. Its Requests come first, then the sandbox,
//! the data connections and the threads of the copy.

use std::io::{self, Read};
use std::sync::Arc;
use std::time::Duration;

use haul_base::control_channel::{ControlReader, ControlWriter};
use haul_base::copy::End;
use haul_base::copy::account::WorkAccount;
use haul_proto::cpus::Cpus;
use haul_proto::ids::CopyId;
use haul_proto::path::escape;
use haul_proto::wire::control_channel::ControlChannel;
use haul_proto::wire::expansion::{ExpandRequest, ExpandedPatterns};
use haul_proto::wire::file_session::{FileAnswer, FileOperation, FileSessionRequest, SessionRights};
use haul_proto::wire::handshake::CipherSuite;
use haul_proto::wire::measure::MeasureRequest;
use haul_proto::wire::replica_session::{ReplicaAnswer, ReplicaRequest};
use haul_proto::wire::report::WorkerMessage;
use haul_proto::wire::request::{ControllerMessage, SessionSettings, SourceRequest, TargetRequest};
use haul_proto::wire::sandbox::Confinement;

use crate::fs::FileIdentity;
use crate::fs::remove_tree::ProtectedDirectories;
use crate::io::program::PipeProgram;
use crate::metrics::reporter::Reporter;
use crate::net::controller_watchdog::ControllerWatchdog;
use crate::net::stream::socket::permits_congestion;
use crate::net::stream::window;
use crate::policy::PolicyRule;
use crate::policy::audit::{AuditAction, AuditRecord};
use crate::receiver::{TargetReceiver, WorkerContext};
use crate::replica::ReplicaEnd;
use crate::source::Source;
use crate::source::expansion::{Expansion, expand};
use crate::sys::confine::{ConfineBounds, ConfineNetwork, ConfineRights};
use crate::sys::{affinity, machine, tcp_info};
use crate::worker::assigned_work::AssignedWork;
use crate::worker::client_limits::{ServedAccess, sandbox};
use crate::worker::client_refusal::ClientRefusal;
use crate::worker::connections::{DataConnections, intake};
use crate::worker::environment::Environment;
use crate::worker::error::{MessageOrderError, RequestRefusal, WorkerError};
use crate::worker::file_session::{FileSessionRights, FileSessionRuntime};
use crate::worker::inherited_pipes::InheritedPipes;
use crate::worker::measure::MeasureBench;
use crate::worker::predecessor::{RunningPredecessor, WorkerMark};
use crate::worker::replica_runtime::ReplicaRuntime;
use crate::worker::resource_metrics::SystemGauges;
use crate::worker::runtime::CopyRuntime;

/// The outcome of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkerEnd {
    /// All work is complete.
    Done,
    /// The work is incomplete; unfinished files are removed.
    Undone,
    /// The work is incomplete because the controller timed out.
    Unheard,
}

pub(super) struct WorkerProcess {
    control: ControlWriter,
    environment: Environment,
    /// A served program, which starts with the copy.
    program: Option<Arc<PipeProgram>>,
    inherited: InheritedPipes,
    work: AssignedWork,
    /// Whether the worker is in its sandbox. It accepts no further Request then.
    confined: bool,
    /// The reason for a refused Request. Messages that the controller sent before it knew are ignored.
    refused: Option<String>,
    connections: DataConnections,
    running: Option<CopyRuntime>,
    /// Gauges to sample while the copy runs, opened before the sandbox.
    gauges: Option<SystemGauges>,
    watchdog: Arc<ControllerWatchdog>,
    /// By which later attempts of the copy find this process, for each of its ends.
    marks: Vec<WorkerMark>,
}

impl WorkerProcess {
    /// Creates a worker without Requests.
    pub fn new(
        control: ControlWriter,
        environment: Environment,
        inherited: InheritedPipes,
        watchdog: Arc<ControllerWatchdog>,
    ) -> Self {
        Self {
            connections: DataConnections::new(control.clone()),
            control,
            environment,
            program: inherited.program(),
            inherited,
            work: AssignedWork::default(),
            confined: false,
            refused: None,
            running: None,
            gauges: None,
            watchdog,
            marks: Vec::new(),
        }
    }

    /// Handles messages until the controller closes the control channel or cancels.
    pub fn handle_messages(&mut self, mut reader: ControlReader<impl Read>) -> Result<(), WorkerError> {
        while let Some((channel, content)) = reader.next_frame().map_err(WorkerError::ControlChannel)? {
            if !self.handle(channel, content)? {
                break;
            }
        }
        Ok(())
    }

    /// Handles a frame; `false` ends the worker.
    fn handle(&mut self, channel: ControlChannel, content: &[u8]) -> Result<bool, WorkerError> {
        match channel {
            ControlChannel::Peer => {
                let running = self.running.as_ref().ok_or(MessageOrderError::PeerMessage)?;
                running.handle_peer(content, &self.watchdog).map_err(WorkerError::Peer)
            }
            ControlChannel::Stream(stream) => {
                let tunnel = self.connections.tunnel.as_ref();
                Ok(tunnel.is_none_or(|tunnel| tunnel.deliver(stream, content, &self.watchdog)))
            }
            ControlChannel::Controller => {
                let mut message = ControllerMessage::decode(content)?;
                let permitted = self.environment.served.as_ref().map_or(Ok(()), |terms| terms.enforce(&mut message));
                match (permitted, &message) {
                    (Ok(()), _) => return self.obey(message),
                    (Err(refusal), ControllerMessage::FileOperation(_)) => self.queue_operation(Err(refusal))?,
                    (Err(refusal), _) => self.refuse(&refusal.into()),
                }
                Ok(true)
            }
        }
    }

    fn obey(&mut self, message: ControllerMessage) -> Result<bool, WorkerError> {
        match message {
            ControllerMessage::Cancel => return Ok(false),
            _ if self.refused.is_some() => {}
            ControllerMessage::Source(_)
            | ControllerMessage::Target(_)
            | ControllerMessage::Measure(_)
            | ControllerMessage::FileSession(_)
            | ControllerMessage::Replica(_)
            | ControllerMessage::Expand(_) => {
                self.prepare(message)?;
            }
            ControllerMessage::FileOperation(operation) => self.queue_operation(Ok(operation))?,
            ControllerMessage::ReplicaStep(step) => {
                self.work.replica.as_ref().ok_or(MessageOrderError::ReplicaStep)?.queue(step)?;
            }
            ControllerMessage::Listen { address } => {
                self.confine()?;
                self.connections.listen(self.work.settings()?, address, self.running.as_ref());
            }
            ControllerMessage::Connect { .. } if self.environment.served.is_some() => {
                self.report(&WorkerMessage::CannotConnect { text: "a server opens no connections".into() });
            }
            ControllerMessage::Connect { routes, timeout_ms } => {
                let (settings, streams) = (self.work.settings()?, intake(self.running.as_ref())?);
                self.connections.connect(settings, streams, routes, timeout_ms)?;
            }
            ControllerMessage::Tunnel { connector } => {
                self.connections.open_tunnel(self.work.settings()?, self.running.as_ref(), connector)?;
            }
            ControllerMessage::Start { skip } => self.start(skip)?,
            ControllerMessage::Expected(lines) => {
                let target = self.work.target.as_mut().and_then(Arc::get_mut);
                let target = target.ok_or(MessageOrderError::DigestsBeforeRequest)?;
                target.parts.digests.expect_lines(&lines).map_err(WorkerError::ExpectedDigests)?;
            }
            ControllerMessage::SourceBatch(batch) => {
                self.source_or(MessageOrderError::SourceBatchBeforeRequest)?.add_listed(batch)?;
            }
            ControllerMessage::DestinationBatch(batch) => {
                let target = self.work.target.as_ref().ok_or(MessageOrderError::DestinationBatchBeforeRequest)?;
                target.parts.tree.add_listed(batch)?;
            }
            ControllerMessage::Rate(bytes_per_s) => {
                self.source_or(MessageOrderError::RateBeforeRequest)?.set_rate(bytes_per_s);
            }
            ControllerMessage::Pause(is_paused) => {
                self.source_or(MessageOrderError::PauseBeforeRequest)?.pause(is_paused);
            }
            ControllerMessage::Streams(count) => {
                self.running.as_ref().ok_or(MessageOrderError::StreamsBeforeStart)?.fix_streams(count)?;
            }
            ControllerMessage::Detour => {
                self.running.as_ref().ok_or(MessageOrderError::StreamsBeforeStart)?.permit_detour()?;
            }
        }
        Ok(true)
    }

    fn source_or(&self, error: MessageOrderError) -> Result<&Source, MessageOrderError> {
        self.work.source.as_deref().ok_or(error)
    }

    /// Handles a Request, or refuses it.
    fn prepare(&mut self, message: ControllerMessage) -> Result<(), WorkerError> {
        if self.confined {
            return Err(MessageOrderError::RequestAfterStart.into());
        }
        if let Err(refusal) = self.permit(&message) {
            self.refuse(&refusal);
            return Ok(());
        }
        match message {
            ControllerMessage::Source(request) => self.prepare_source(request),
            ControllerMessage::Target(request) => self.prepare_target(request)?,
            ControllerMessage::FileSession(_) if self.work.is_copy() => {
                return Err(MessageOrderError::FileSessionDuringCopy.into());
            }
            ControllerMessage::FileSession(request) => self.begin_file_session(&request)?,
            ControllerMessage::Replica(_) if self.work.is_copy() => {
                return Err(MessageOrderError::ReplicaDuringCopy.into());
            }
            ControllerMessage::Replica(request) => self.begin_replica_session(&request)?,
            ControllerMessage::Measure(_) if self.work.is_copy() => {
                return Err(MessageOrderError::MeasurementDuringCopy.into());
            }
            ControllerMessage::Measure(request) => self.measure(&request),
            ControllerMessage::Expand(request) => self.expand(&request),
            _ => {}
        }
        Ok(())
    }

    fn prepare_source(&mut self, request: SourceRequest) {
        self.watchdog.set_silence_ms(request.settings.silence_ms);
        // A source of an earlier attempt reads, and holds nothing.
        let _ = self.mark(&request.settings.copy, End::Source);
        let reporter = self.reporter(&request.settings);
        pin_threads(&request.settings.cpus, &reporter);
        let source = Source::prepare(request, reporter, self.inherited.input.take(), &self.environment.policy);
        self.report(&WorkerMessage::SourceReady { operands: source.operands(), origin: source.origin() });
        self.work.source = Some(Arc::new(source));
    }

    fn prepare_target(&mut self, request: TargetRequest) -> Result<(), WorkerError> {
        self.watchdog.set_silence_ms(request.settings.silence_ms);
        self.mark(&request.settings.copy, End::Target)?;
        let reporter = self.reporter(&request.settings);
        // A worker that is also the source has done this already.
        if self.work.source.is_none() {
            pin_threads(&request.settings.cpus, &reporter);
        }
        let served = self.environment.served.as_ref();
        let creates_only = served.is_some_and(|terms| terms.access == ServedAccess::Create);
        let context = WorkerContext {
            umask: self.environment.umask & 0o777,
            rate: served.and_then(|terms| terms.rate),
            allowance: self.environment.allowance.clone(),
            links_inside: creates_only || served.is_some_and(|terms| !terms.policy.unsafe_links),
            creates_only,
            state_dir: self.environment.state_dir.clone(),
            policy: self.environment.policy.clone(),
        };
        match TargetReceiver::prepare(request, reporter, &context, self.inherited.output.take()) {
            Ok(target) => {
                self.report(&target_ready(&target));
                self.work.target = Some(Arc::new(target));
            }
            Err(refused) => self.refuse(&RequestRefusal::Target { usage: refused.usage, text: refused.text }),
        }
        Ok(())
    }

    fn measure(&mut self, request: &MeasureRequest) {
        self.watchdog.set_silence_ms(request.silence_ms);
        self.confined = true;
        match MeasureBench::prepare(request, self.environment.state_dir.as_deref()) {
            Ok((bench, measured)) => {
                self.work.bench = Some(bench);
                self.report(&WorkerMessage::Measured(Box::new(measured)));
            }
            Err(error) => self.refuse(&error.into()),
        }
    }

    fn expand(&mut self, request: &ExpandRequest) {
        match expand(request) {
            Ok(Expansion { matches, notes }) => {
                notes.into_iter().for_each(|text| self.report(&WorkerMessage::Warning { text }));
                self.report(&WorkerMessage::Expanded(ExpandedPatterns { matches }));
            }
            Err(error) => self.refuse(&error.into()),
        }
    }

    /// Enters the sandbox, which permits reading, and changes on request, and answers operations from now on.
    fn begin_file_session(&mut self, request: &FileSessionRequest) -> Result<(), WorkerError> {
        self.watchdog.set_silence_ms(request.silence_ms);
        self.confined = true;
        let mut bounds = ConfineBounds::new(ConfineNetwork::None);
        // A server's sandbox, which holds as well, permits its directory alone.
        bounds.allow_anywhere(match request.rights {
            SessionRights::Read => ConfineRights::ReadTree,
            SessionRights::ChangeNames => ConfineRights::ChangeNames,
            SessionRights::RemovePartials => ConfineRights::RemovePartials,
        });
        let home = self.environment.home.as_deref();
        let changes = (request.rights == SessionRights::ChangeNames).then(|| ProtectedDirectories::with(home));
        if bounds.enforce_with_filter().confinement == Confinement::None {
            self.environment.policy.check(PolicyRule::SandboxRequired)?;
        }
        let rights = FileSessionRights {
            rate_bytes_per_s: self.environment.served.as_ref().and_then(|terms| terms.rate).unwrap_or(0),
            audit: self.environment.audit.as_ref().ok().and_then(Clone::clone),
            changes,
            removes_partials: request.rights == SessionRights::RemovePartials,
            umask: self.environment.umask,
        };
        let session = FileSessionRuntime::start(self.control.clone(), rights).map_err(WorkerError::Thread)?;
        self.work.files = Some(session);
        self.report(&WorkerMessage::FileAnswer(FileAnswer::Ready));
        Ok(())
    }

    /// Opens a replica, enters the sandbox, and performs steps from now on.
    fn begin_replica_session(&mut self, request: &ReplicaRequest) -> Result<(), WorkerError> {
        self.watchdog.set_silence_ms(request.silence_ms);
        self.confined = true;
        let mut bounds = ConfineBounds::new(ConfineNetwork::None);
        let opened = ReplicaEnd::open(request, self.environment.state_dir.as_deref(), &mut bounds);
        let session = match opened {
            Ok(session) => session,
            Err(error) => {
                self.refuse(&RequestRefusal::Replica(error));
                return Ok(());
            }
        };
        if bounds.enforce_with_filter().confinement == Confinement::None {
            self.environment.policy.check(PolicyRule::SandboxRequired)?;
        }
        let place = session.place();
        let runtime = ReplicaRuntime::start(self.control.clone(), session).map_err(WorkerError::Thread)?;
        self.work.replica = Some(runtime);
        self.report(&WorkerMessage::ReplicaAnswer(Box::new(ReplicaAnswer::Ready(place))));
        Ok(())
    }

    fn queue_operation(&self, operation: Result<FileOperation, ClientRefusal>) -> Result<(), MessageOrderError> {
        match &self.work.files {
            Some(session) => session.queue(operation),
            // The controller did not know yet.
            None if self.refused.is_some() => Ok(()),
            None => Err(MessageOrderError::FileOperation),
        }
    }

    /// Ends the worker of an earlier attempt at this copy, and marks this one. A server ends its workers itself, and
    /// these may use no local sockets.
    fn mark(&mut self, copy: &CopyId, end: End) -> Result<(), RunningPredecessor> {
        if self.environment.served.is_none() {
            self.marks.extend(WorkerMark::take_over(copy, end)?);
        }
        Ok(())
    }

    /// Checks a Request against the host's policy and its kernel, and records it in the audit log.
    fn permit(&self, message: &ControllerMessage) -> Result<(), RequestRefusal> {
        let policy = &self.environment.policy;
        if let Some(fault) = policy.fault() {
            return Err(RequestRefusal::PolicyFile(Arc::clone(fault)));
        }
        if self.environment.is_deployed {
            policy.check(PolicyRule::NoDeployedWorker)?;
        }
        let audit = self.environment.audit.as_ref();
        let audit = audit.map_err(|error| RequestRefusal::AuditLog(Arc::clone(error)))?;
        if audit.is_some() && matches!(message, ControllerMessage::Replica(_)) {
            return Err(RequestRefusal::AuditReplica);
        }
        let (settings, path) = match message {
            ControllerMessage::Source(request) => (&request.settings, request.operands.first()),
            ControllerMessage::Target(request) => (&request.settings, Some(&request.path)),
            _ => return Ok(()),
        };
        if audit.is_some() && !settings.blake3 {
            return Err(RequestRefusal::AuditDigests);
        }
        if settings.suite == CipherSuite::AuthenticateOnly {
            policy.check(PolicyRule::NoClearText)?;
        }
        if policy.has(PolicyRule::SandboxRequired) && sandbox().confinement == Confinement::None {
            policy.check(PolicyRule::SandboxRequired)?;
        }
        let path = path.map_or(&b""[..], |path| path);
        let written = audit.as_ref().map_or(Ok(()), |audit| audit.write(&AuditRecord::of(AuditAction::Accepted, path)));
        written.map_err(|error| RequestRefusal::AuditLog(Arc::new(error)))?;
        if let Some(name) = settings.socket.congestion.clone().filter(|name| !permits_congestion(name)) {
            return Err(RequestRefusal::CongestionControl { name, available: tcp_info::congestion_controls() });
        }
        Ok(())
    }

    fn reporter(&self, settings: &SessionSettings) -> Reporter {
        let audit = self.environment.audit.as_ref().ok().and_then(Clone::clone);
        Reporter::new(self.control.clone(), settings.report_files).with_audit(audit)
    }

    fn refuse(&mut self, refusal: &RequestRefusal) {
        let text = refusal.to_string();
        if let Ok(Some(audit)) = &self.environment.audit {
            let refused = AuditRecord { reason: Some(text.as_str()), ..AuditRecord::of(AuditAction::Refused, b"") };
            // A failed log entry changes nothing: the request is refused anyway.
            let _ = audit.write(&refused);
        }
        self.report(&WorkerMessage::Refused { usage: refusal.is_usage(), text: text.clone() });
        self.refused = Some(text);
    }

    /// Enters the sandbox: gives up every access that the Requests do not need. Only threads started later inherit the
    /// restrictions, so this precedes the first one.
    fn confine(&mut self) -> Result<(), WorkerError> {
        let ports = self.work.settings()?.ports;
        if std::mem::replace(&mut self.confined, true) {
            return Ok(());
        }
        self.gauges = Some(SystemGauges::open(self.work.devices()));
        let network = match self.work.needs_streams() {
            true => ConfineNetwork::Streams(ports),
            false => ConfineNetwork::None,
        };
        let mut bounds = ConfineBounds::new(network);
        if self.work.needs_streams() {
            self.warn_of_windows()?;
        }
        self.work.allow(&mut bounds);
        let sandbox = bounds.enforce_with_filter();
        if sandbox.confinement == Confinement::None {
            self.environment.policy.check(PolicyRule::SandboxRequired)?;
        }
        self.report(&WorkerMessage::Sandboxed(sandbox));
        Ok(())
    }

    fn warn_of_windows(&self) -> Result<(), WorkerError> {
        let settings = self.work.settings()?;
        let warnings = window::warnings(&settings.socket, settings.streams, machine::available_memory_bytes());
        warnings.into_iter().for_each(|text| self.report(&WorkerMessage::Warning { text }));
        Ok(())
    }

    /// Starts the threads of the copy.
    fn start(&mut self, skip: Option<(u64, u64)>) -> Result<(), WorkerError> {
        if let (Some(source), Some((device, inode))) = (&self.work.source, skip) {
            source.skip_directory(FileIdentity { device, inode });
        }
        if let Some(target) = &self.work.target {
            target.parts.digests.seal_expected_digests();
        }
        let ends = self.work.ends()?;
        self.confine()?;
        let every = Duration::from_millis(self.work.settings()?.report_every_ms.max(10).into());
        let gauges = self.gauges.take().ok_or(MessageOrderError::SecondStart)?;
        let started = self.program.as_ref().map_or(Ok(()), |program| program.start_prepared());
        started.map_err(WorkerError::Program)?;
        let running = CopyRuntime::start(ends, self.control.clone(), every, gauges, self.environment.progress.clone());
        self.connections.arrivals.take().into_iter().for_each(|arrivals| running.streams().take_streams(arrivals));
        self.running = Some(running);
        Ok(())
    }

    /// Sends heartbeats to the controller from now on.
    pub fn keep_alive(&self) -> io::Result<()> {
        self.control.keep_alive()
    }

    /// Reports the error that ends the worker.
    pub fn fail(&mut self, error: &WorkerError) {
        let text = error.to_string();
        self.report(&WorkerMessage::Fatal { fault: error.is_final(), text: text.clone() });
        self.refused = Some(text);
    }

    pub fn report(&self, message: &WorkerMessage) {
        // The reading side detects a lost controller.
        let _ = self.control.send(ControlChannel::Controller, &message.encode());
    }

    /// Stops the copy, and accounts for the work.
    pub fn end(self) -> (WorkerEnd, WorkAccount) {
        let AssignedWork { source, target, bench, files, replica } = self.work;
        let is_session = files.is_some() || replica.is_some();
        let is_idle = self.running.is_none() && bench.is_none() && !is_session;
        let measured = bench.is_some_and(MeasureBench::end);
        let ended =
            match measured || is_session && !self.watchdog.is_unheard() || self.running.is_some_and(CopyRuntime::end) {
                true => WorkerEnd::Done,
                false if self.watchdog.is_unheard() => WorkerEnd::Unheard,
                false => WorkerEnd::Undone,
            };
        target.iter().for_each(|target| target.parts.tree.end_quota());
        let received = target.as_ref().map(|target| target.parts.copy.did());
        let did = received.or_else(|| source.as_ref().map(|source| source.did()));
        let did = did.or_else(|| files.as_ref().map(FileSessionRuntime::did));
        let why = self.refused.map(|why| escape(why.lines().next().unwrap_or_default().as_bytes()));
        (ended, WorkAccount { did, why, is_idle })
    }
}

fn target_ready(target: &TargetReceiver) -> WorkerMessage {
    let new_tree = target.parts.copy.begins_tree();
    match target.parts.copy.landing_identity() {
        Some(FileIdentity { device, inode }) => {
            WorkerMessage::TargetReady { boot: machine::boot_id(), device, inode, new_tree }
        }
        None => WorkerMessage::TargetReady { boot: [0; 16], device: 0, inode: 0, new_tree },
    }
}

fn pin_threads(cpus: &Cpus, reporter: &Reporter) {
    if let Some(text) = affinity::keep_to(cpus) {
        reporter.send(&WorkerMessage::Warning { text });
    }
}
