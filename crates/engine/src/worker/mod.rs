//! A worker process: one end of a transfer. Its controller starts it and is its only source of commands.
//!
//! The worker sends a greeting line and Hello. It then handles messages from the control channel: a Request, the setup
//! of data connections, and the transfer. When the control channel closes, the worker removes unfinished work and
//! exits.

pub mod client_limits;
pub mod client_refusal;
mod error;
pub mod measure;
mod pipe_policy;
mod predecessor;
mod request_policy;
pub(crate) mod resource_metrics;
pub(crate) mod runtime;
mod stream_autotune;
mod stream_recovery;

use crate::sys::inherited_fds;
use haul_proto::cpus::Cpus;
use haul_proto::feature::{Features, PROTOCOL_VERSION};
use haul_proto::ids::JobId;
use haul_proto::path::escape;
use haul_proto::wire::control_channel::LinkChannel;
use haul_proto::wire::handshake::CipherSuite;
use haul_proto::wire::measure::MeasureRequest;
use haul_proto::wire::report::{WorkerHello, WorkerMessage};
use haul_proto::wire::request::{ControllerMessage, SessionSettings, SourceRequest, TargetRequest};
use haul_proto::wire::route::Route;
use haul_proto::wire::sandbox::Confinement;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufReader, Write};
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crate::fs::FileIdentity;
use crate::io::program::{InheritedPipe, PipeProgram, keeper};
use crate::job::End;
use crate::job::account::WorkAccount;
use crate::job::allowance::Allowance;
use crate::job::hello::greeting_line;
use crate::metrics::control_channel::{LinkReader, LinkWriter};
use crate::metrics::reporter::Reporter;
use crate::net::controller_watchdog::{ControllerWatchdog, WatchedInput};
use crate::net::stream::accept::{AcceptAddress, listen};
use crate::net::stream::connect::{ConnectTerms, ConnectedStreams, connect};
use crate::net::stream::handshake::StreamCredentials;
use crate::net::stream::socket::{SocketSettings, permits_congestion};
use crate::net::stream::tunnel::{StreamTunnel, prove};
use crate::net::stream::window::{self, RequestedWindow};
use crate::net::stream::{AcceptedStreams, StreamIds};
use crate::policy::audit::{AuditAction, AuditError, AuditLog, AuditRecord};
use crate::policy::{HostPolicy, PolicyRule};
use crate::receiver::TargetReceiver;
use crate::receiver::WorkerContext;
use crate::source::Source;
use crate::sys::confine::{ConfineBounds, ConfineNetwork};
use crate::sys::{affinity, interfaces, machine, memory, open_files, tcp_info};
use crate::worker::client_limits::{ClientLimits as ServedTerms, ServedAccess, sandbox};
use crate::worker::error::{MessageOrderError, RequestRefusal, WorkerError};
use crate::worker::measure::MeasureBench;
use crate::worker::predecessor::{RunningPredecessor, WorkerMark};
use crate::worker::resource_metrics::SystemGauges;
use crate::worker::runtime::{JobEnds, JobRuntime, StreamIntake, panicked};

/// The part of the process environment that a worker uses. The library itself reads no environment variables.
#[derive(Debug, Clone)]
pub struct Environment {
    /// `SSH_CONNECTION`, if ssh started the worker.
    pub ssh_connection: Option<String>,
    /// The directory for persistent state.
    pub state_dir: Option<PathBuf>,
    /// The host's policy.
    pub policy: HostPolicy,
    /// The audit log if the policy requires one, or the reason why it is unavailable.
    pub audit: Result<Option<Arc<AuditLog>>, Arc<AuditError>>,
    /// Whether a controller deployed this executable to the host.
    pub is_deployed: bool,
    /// The file mode creation mask.
    pub umask: u16,
    /// The limits that a server imposes, if one started the worker.
    pub served: Option<ServedTerms>,
    /// The server's byte allowance for all its clients.
    pub allowance: Option<Arc<Allowance>>,
}

/// Pipes handed over by the parent process: the standard input and output of the command, or the pipe of a server.
#[derive(Default)]
pub struct InheritedPipes {
    /// Input for a source.
    pub input: Option<InheritedPipe>,
    /// Output for a target.
    pub output: Option<InheritedPipe>,
}

impl InheritedPipes {
    /// Takes ownership of the descriptors by number. Call it once, before any other file is opened.
    pub fn adopt(input: Option<i32>, output: Option<i32>) -> io::Result<Self> {
        let take = |number: Option<i32>| number.map(inherited_fds::adopt).transpose();
        Ok(Self { input: take(input)?.map(InheritedPipe::from), output: take(output)?.map(InheritedPipe::from) })
    }

    fn program(&self) -> Option<Arc<PipeProgram>> {
        self.input.as_ref().or(self.output.as_ref())?.program.clone()
    }
}

/// Runs and supervises a program of a worker. `which` is the command-line word for the end.
pub fn keep_program(which: &str, command: &OsStr, stop: &OwnedFd) -> Option<io::Result<u8>> {
    let end = [End::Source, End::Target].into_iter().find(|end| keeper::word(*end) == which)?;
    Some(keeper::keep(end, command, stop))
}

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

/// Runs a worker until the controller closes the control channel or times out, or until `stop` is readable or closed at
/// its other end. Returns the outcome and an account of the work.
pub fn run(
    input: OwnedFd,
    output: OwnedFd,
    stop: OwnedFd,
    inherited: InheritedPipes,
    environment: &Environment,
) -> (WorkerEnd, WorkAccount) {
    open_files::raise_limit();
    let Ok(watched) = output.try_clone() else { return (WorkerEnd::Undone, WorkAccount::default()) };
    let watchdog = Arc::new(ControllerWatchdog::new(input, watched, stop));
    let mut output = File::from(output);
    if output.write_all(greeting_line().as_bytes()).is_err() {
        return (WorkerEnd::Undone, WorkAccount::default());
    }
    let link = LinkWriter::new(output);
    let hello = hello(environment);
    let mut worker = WorkerProcess {
        link,
        environment: environment.clone(),
        program: inherited.program(),
        inherited,
        source: None,
        target: None,
        bench: None,
        confined: false,
        refused: None,
        is_fault: false,
        arrivals: None,
        tunnel: None,
        running: None,
        gauges: None,
        watchdog: Arc::clone(&watchdog),
        marks: Vec::new(),
    };
    worker.report(&WorkerMessage::Hello(hello));
    if worker.link.keep_alive().is_err() {
        return (WorkerEnd::Undone, WorkAccount::default());
    }
    let mut reader = LinkReader::new(BufReader::with_capacity(256 << 10, WatchedInput(Arc::clone(&watchdog))));
    let failed = loop {
        match reader.next_frame() {
            Ok(None) => break None,
            Ok(Some((channel, content))) => match worker.handle(channel, content) {
                Ok(true) => {}
                Ok(false) => break None,
                Err(error) => break Some(error),
            },
            Err(error) => break Some(WorkerError::ControlChannel(error)),
        }
    };
    // After a stop, or without a controller, the worker exits at once: the report may have no reader.
    if let Some(error) = failed.filter(|_| !watchdog.is_stopped() && !watchdog.is_unheard()) {
        let text = error.to_string();
        worker.report(&WorkerMessage::Fatal { fault: worker.is_fault, text: text.clone() });
        worker.refused = Some(text);
    }
    worker.end()
}

fn hello(environment: &Environment) -> WorkerHello {
    let served = environment.served.as_ref();
    let mut addresses = interfaces::addresses();
    if let Some(only) = served.and_then(|terms| terms.address) {
        addresses.retain(|local| local.address == only);
    }
    WorkerHello {
        protocol: PROTOCOL_VERSION,
        features: Features::ALL,
        cores: machine::cores(),
        aes: machine::has_aes(),
        boot: machine::boot_id(),
        ssh_connection: environment.ssh_connection.clone(),
        addresses,
        rate_bytes_per_s: served.and_then(|terms| terms.rate).unwrap_or(0),
        windows: tcp_info::windows(),
        requires_blake3: matches!(environment.audit, Ok(Some(_))),
    }
}

struct WorkerProcess {
    link: LinkWriter,
    environment: Environment,
    /// A served program, which starts with the job.
    program: Option<Arc<PipeProgram>>,
    inherited: InheritedPipes,
    source: Option<Arc<Source>>,
    target: Option<Arc<TargetReceiver>>,
    /// The state of a measurement, for a worker that is neither source nor target.
    bench: Option<MeasureBench>,
    /// Whether the worker is in its sandbox. It accepts no further Request then.
    confined: bool,
    /// The reason for a refused Request. Messages that the controller sent before it knew are ignored.
    refused: Option<String>,
    /// Whether the other end violated the protocol.
    is_fault: bool,
    /// Streams accepted before Start.
    arrivals: Option<AcceptedStreams>,
    tunnel: Option<Arc<StreamTunnel>>,
    running: Option<JobRuntime>,
    /// Gauges to sample while the job runs, opened before the sandbox.
    gauges: Option<SystemGauges>,
    watchdog: Arc<ControllerWatchdog>,
    /// By which later attempts of the job find this process, for each of its ends.
    marks: Vec<WorkerMark>,
}

impl WorkerProcess {
    /// Handles a frame; `false` ends the worker.
    fn handle(&mut self, channel: LinkChannel, content: &[u8]) -> Result<bool, WorkerError> {
        match channel {
            LinkChannel::Peer => match &self.running {
                Some(running) => {
                    let taken = running.handle_peer(content, &self.watchdog);
                    self.is_fault = taken.is_err();
                    return Ok(taken?);
                }
                None => return Err(MessageOrderError::PeerMessage.into()),
            },
            LinkChannel::Stream(stream) => {
                if let Some(tunnel) = &self.tunnel {
                    return Ok(tunnel.deliver(stream, content, &self.watchdog));
                }
            }
            LinkChannel::Controller => {
                let mut message = ControllerMessage::decode(content)?;
                if let Some(Err(refusal)) = self.environment.served.as_ref().map(|terms| terms.enforce(&mut message)) {
                    self.refuse(&refusal.into());
                    return Ok(true);
                }
                return self.obey(message);
            }
        }
        Ok(true)
    }

    fn obey(&mut self, message: ControllerMessage) -> Result<bool, WorkerError> {
        match message {
            ControllerMessage::Cancel => return Ok(false),
            _ if self.refused.is_some() => {}
            ControllerMessage::Source(_) | ControllerMessage::Target(_) | ControllerMessage::Measure(_)
                if self.confined =>
            {
                return Err(MessageOrderError::RequestAfterStart.into());
            }
            ControllerMessage::Source(_) | ControllerMessage::Target(_) | ControllerMessage::Measure(_)
                if let Err(refusal) = self.permit(&message) =>
            {
                self.refuse(&refusal);
            }
            ControllerMessage::Source(SourceRequest { settings, .. })
            | ControllerMessage::Target(TargetRequest { settings, .. })
                if !settings.congestion.is_empty() && !permits_congestion(&settings.congestion) =>
            {
                let available = tcp_info::congestion_controls();
                self.refuse(&RequestRefusal::CongestionControl { name: settings.congestion, available });
            }
            ControllerMessage::Source(request) => {
                self.watchdog.set_silence_ms(request.settings.silence_ms);
                // A source of an earlier attempt reads, and holds nothing.
                let _ = self.mark(&request.settings.job, End::Source);
                let reporter = self.reporter(&request.settings);
                pin_threads(&request.settings.cpus, &reporter);
                let source = Source::prepare(request, reporter, self.inherited.input.take(), &self.environment.policy);
                self.report(&WorkerMessage::SourceReady { operands: source.operands(), origin: source.origin() });
                self.source = Some(Arc::new(source));
            }
            ControllerMessage::Target(request) => {
                self.watchdog.set_silence_ms(request.settings.silence_ms);
                self.mark(&request.settings.job, End::Target)?;
                let reporter = self.reporter(&request.settings);
                // A worker that is also the source has done this already.
                if self.source.is_none() {
                    pin_threads(&request.settings.cpus, &reporter);
                }
                let served = self.environment.served.as_ref();
                let context = WorkerContext {
                    umask: self.environment.umask & 0o777,
                    rate: served.and_then(|terms| terms.rate),
                    allowance: self.environment.allowance.clone(),
                    links_inside: served
                        .is_some_and(|terms| !terms.policy.unsafe_links || terms.access == ServedAccess::Create),
                    creates_only: served.is_some_and(|terms| terms.access == ServedAccess::Create),
                    state_dir: self.environment.state_dir.clone(),
                    policy: self.environment.policy.clone(),
                };
                match TargetReceiver::prepare(request, reporter, &context, self.inherited.output.take()) {
                    Ok(target) => {
                        self.report(&target_ready(&target));
                        self.target = Some(Arc::new(target));
                    }
                    Err(refused) => {
                        self.refuse(&RequestRefusal::Target { usage: refused.usage, text: refused.text });
                    }
                }
            }
            ControllerMessage::Listen { address } => self.listen(address)?,
            ControllerMessage::Connect { .. } if self.environment.served.is_some() => {
                self.report(&WorkerMessage::CannotConnect { text: "a server opens no connections".into() });
            }
            ControllerMessage::Connect { routes, timeout_ms } => self.connect(routes, timeout_ms)?,
            ControllerMessage::Tunnel { connector } => self.open_tunnel(connector)?,
            ControllerMessage::Start { skip } => self.begin(skip)?,
            ControllerMessage::Measure(_) if self.source.is_some() || self.target.is_some() => {
                return Err(MessageOrderError::MeasurementDuringCopy.into());
            }
            ControllerMessage::Measure(request) => self.measure(&request),
            ControllerMessage::Expected(lines) => {
                let target = self.target.as_mut().and_then(Arc::get_mut);
                let target = target.ok_or(MessageOrderError::DigestsBeforeRequest)?;
                target.digests.expect_lines(&lines).map_err(WorkerError::ExpectedDigests)?;
            }
            ControllerMessage::SourceBatch(batch) => {
                let source = self.source.as_ref().ok_or(MessageOrderError::SourceBatchBeforeRequest)?;
                source.add_listed(batch)?;
            }
            ControllerMessage::DestinationBatch(batch) => {
                let target = self.target.as_ref().ok_or(MessageOrderError::DestinationBatchBeforeRequest)?;
                target.tree.add_listed(batch)?;
            }
            ControllerMessage::Rate(bytes_per_s) => {
                self.source.as_ref().ok_or(MessageOrderError::RateBeforeRequest)?.set_rate(bytes_per_s);
            }
            ControllerMessage::Pause(is_paused) => {
                self.source.as_ref().ok_or(MessageOrderError::PauseBeforeRequest)?.pause(is_paused);
            }
            ControllerMessage::Streams(count) => {
                self.running.as_ref().ok_or(MessageOrderError::StreamsBeforeStart)?.fix_streams(count)?;
            }
        }
        Ok(true)
    }

    /// Ends the worker of an earlier attempt at this job, and marks this one. A server ends its workers itself, and
    /// these may use no local sockets.
    fn mark(&mut self, job: &JobId, end: End) -> Result<(), RunningPredecessor> {
        if self.environment.served.is_none() {
            self.marks.extend(WorkerMark::take_over(job, end)?);
        }
        Ok(())
    }

    /// Checks a Request against the host's policy and records it in the audit log.
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
        let written = audit.as_ref().map_or(Ok(()), |audit| audit.write(&AuditRecord::of(AuditAction::Job, path)));
        written.map_err(|error| RequestRefusal::AuditLog(Arc::new(error)))
    }

    fn measure(&mut self, request: &MeasureRequest) {
        self.watchdog.set_silence_ms(request.silence_ms);
        self.confined = true;
        match MeasureBench::prepare(request, self.environment.state_dir.as_deref()) {
            Ok((bench, measured)) => {
                self.bench = Some(bench);
                self.report(&WorkerMessage::Measured(Box::new(measured)));
            }
            Err(error) => self.refuse(&error.into()),
        }
    }

    fn reporter(&self, settings: &SessionSettings) -> Reporter {
        let audit = self.environment.audit.as_ref().ok().and_then(Clone::clone);
        Reporter::new(self.link.clone(), settings.report_files).with_audit(audit)
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
        let ports = self.settings()?.ports;
        if std::mem::replace(&mut self.confined, true) {
            return Ok(());
        }
        let read_from = self.source.as_ref().map_or(0, |source| source.device());
        let written_to = self.target.as_ref().and_then(|target| target.job.landing_identity());
        self.gauges = Some(SystemGauges::open([read_from, written_to.map_or(0, |landing| landing.device)]));
        let is_both = self.source.is_some() && self.target.is_some();
        let only_compares = self.source.as_ref().is_some_and(|source| source.compares())
            || self.target.as_ref().is_some_and(|target| target.job.compares());
        let mut bounds = ConfineBounds::new(if is_both || only_compares {
            ConfineNetwork::None
        } else {
            ConfineNetwork::Streams(ports)
        });
        if !is_both && !only_compares {
            self.warn_of_windows()?;
        }
        self.source.iter().for_each(|source| source.allow(&mut bounds));
        self.target.iter().for_each(|target| target.allow(&mut bounds));
        let sandbox = bounds.enforce_with_filter();
        if sandbox.confinement == Confinement::None {
            self.environment.policy.check(PolicyRule::SandboxRequired)?;
        }
        self.report(&WorkerMessage::Sandboxed(sandbox));
        Ok(())
    }

    fn warn_of_windows(&self) -> Result<(), WorkerError> {
        let settings = self.settings()?;
        let asked = RequestedWindow { bytes: settings.window_bytes, is_fixed: settings.window_fixed };
        let warnings = window::warnings(asked, settings.streams, memory::available_bytes());
        warnings.into_iter().for_each(|text| self.report(&WorkerMessage::Warning { text }));
        Ok(())
    }

    fn listen(&mut self, address: Option<IpAddr>) -> Result<(), WorkerError> {
        self.confine()?;
        let settings = self.settings()?;
        let place = AcceptAddress { address, ports: settings.ports };
        match listen(place, credentials(settings), sockets(settings)) {
            Ok((port, arrivals)) => {
                self.report(&WorkerMessage::Listening { port });
                match &self.running {
                    Some(running) => running.streams().take_streams(arrivals),
                    None => self.arrivals = Some(arrivals),
                }
            }
            Err(error) => {
                self.report(&WorkerMessage::CannotConnect { text: place.describe_failure(&error) });
            }
        }
        Ok(())
    }

    fn connect(&mut self, routes: Vec<Route>, timeout_ms: u32) -> Result<(), WorkerError> {
        let settings = self.settings()?;
        let ids = self.ids()?;
        let terms = ConnectTerms {
            ids,
            credentials: credentials(settings),
            sockets: sockets(settings),
            streams: settings.streams,
            streams_max: settings.streams_max,
            all_paths: settings.all_paths,
            timeout: Duration::from_millis(timeout_ms.into()),
        };
        self.make_streams(move |streams| match connect(&routes, &terms) {
            Ok(ConnectedStreams { connector, arrivals, streams: count, from, to }) => {
                streams.set_connector(connector);
                streams.take_streams(arrivals);
                WorkerMessage::Connected { from, to, streams: count }
            }
            Err(error) => WorkerMessage::CannotConnect { text: error.to_string() },
        })
    }

    fn open_tunnel(&mut self, connector: bool) -> Result<(), WorkerError> {
        let settings = self.settings()?;
        let (credentials, count) = (credentials(settings), settings.streams);
        let (tunnel, inner) = StreamTunnel::open(count, &self.link).map_err(WorkerError::Tunnel)?;
        self.tunnel = Some(Arc::new(tunnel));
        let ids = if connector { Some(self.ids()?) } else { None };
        self.make_streams(move |streams| match prove(inner, &credentials, ids.as_ref()) {
            Ok(arrivals) => {
                streams.take_streams(arrivals);
                WorkerMessage::Connected { from: String::new(), to: String::new(), streams: count }
            }
            Err(error) => WorkerMessage::CannotConnect { text: error.to_string() },
        })
    }

    /// Returns the intake for streams of the running job.
    fn streams(&self) -> Result<StreamIntake, MessageOrderError> {
        self.running.as_ref().map(JobRuntime::streams).ok_or(MessageOrderError::ConnectionBeforeStart)
    }

    fn ids(&self) -> Result<StreamIds, MessageOrderError> {
        Ok(self.streams()?.ids())
    }

    /// Opens streams in a separate thread, so that the control channel is still read. `make` returns the message to
    /// send.
    fn make_streams(
        &mut self,
        make: impl FnOnce(&StreamIntake) -> WorkerMessage + Send + 'static,
    ) -> Result<(), WorkerError> {
        let (streams, link) = (self.streams()?, self.link.clone());
        let spawned = thread::Builder::new().name("haul-connect".into()).spawn(move || {
            let said = catch_unwind(AssertUnwindSafe(|| make(&streams)));
            let said = said
                .unwrap_or_else(|panic| WorkerMessage::Fatal { fault: false, text: panicked("haul-connect", &*panic) });
            let _ = link.send(LinkChannel::Controller, &said.encode());
        });
        spawned.map(drop).map_err(WorkerError::Thread)
    }

    fn begin(&mut self, skip: Option<(u64, u64)>) -> Result<(), WorkerError> {
        if let (Some(source), Some((device, inode))) = (&self.source, skip) {
            source.skip_directory(FileIdentity { device, inode });
        }
        if let Some(target) = &self.target {
            target.digests.has_all_lines();
        }
        let ends = match (&self.source, &self.target) {
            (Some(source), None) => JobEnds::Source(Arc::clone(source)),
            (None, Some(target)) => JobEnds::Target(Arc::clone(target)),
            (Some(source), Some(target)) => JobEnds::Both(Arc::clone(source), Arc::clone(target)),
            (None, None) => return Err(MessageOrderError::StartBeforeRequest.into()),
        };
        self.confine()?;
        let every = Duration::from_millis(self.settings()?.report_every_ms.max(10).into());
        let gauges = self.gauges.take().ok_or(MessageOrderError::SecondStart)?;
        let started = self.program.as_ref().map_or(Ok(()), |program| program.start_prepared());
        started.map_err(WorkerError::Program)?;
        let running = JobRuntime::start(ends, self.link.clone(), every, gauges);
        self.arrivals.take().into_iter().for_each(|arrivals| running.streams().take_streams(arrivals));
        self.running = Some(running);
        Ok(())
    }

    fn settings(&self) -> Result<&SessionSettings, MessageOrderError> {
        let source = self.source.as_ref().map(|source| source.settings());
        let target = self.target.as_ref().map(|target| target.job.settings());
        source.or(target).ok_or(MessageOrderError::ConnectionBeforeRequest)
    }

    fn report(&self, message: &WorkerMessage) {
        // The reading side detects a lost controller.
        let _ = self.link.send(LinkChannel::Controller, &message.encode());
    }

    fn end(self) -> (WorkerEnd, WorkAccount) {
        let is_idle = self.running.is_none() && self.bench.is_none();
        let measured = self.bench.is_some_and(MeasureBench::end);
        let ended = match measured || self.running.is_some_and(JobRuntime::end) {
            true => WorkerEnd::Done,
            false if self.watchdog.is_unheard() => WorkerEnd::Unheard,
            false => WorkerEnd::Undone,
        };
        self.target.iter().for_each(|target| target.tree.end_quota());
        let received = self.target.as_ref().map(|target| target.job.did());
        let did = received.or_else(|| self.source.as_ref().map(|source| source.did()));
        let why = self.refused.map(|why| escape(why.lines().next().unwrap_or_default().as_bytes()));
        (ended, WorkAccount { did, why, is_idle })
    }
}

fn target_ready(target: &TargetReceiver) -> WorkerMessage {
    let new_tree = target.job.begins_tree();
    match target.job.landing_identity() {
        Some(FileIdentity { device, inode }) => {
            WorkerMessage::TargetReady { boot: machine::boot_id(), device, inode, new_tree }
        }
        None => WorkerMessage::TargetReady { boot: [0; 16], device: 0, inode: 0, new_tree },
    }
}

fn credentials(settings: &SessionSettings) -> StreamCredentials {
    StreamCredentials {
        session: settings.session,
        secret: settings.secret,
        suite: settings.suite,
        rekey_bytes: settings.rekey_bytes,
    }
}

fn sockets(settings: &SessionSettings) -> SocketSettings {
    SocketSettings {
        window_bytes: settings.window_bytes,
        window_fixed: settings.window_fixed,
        traffic_class: settings.traffic_class,
        congestion: settings.congestion.clone(),
    }
}

fn pin_threads(cpus: &Cpus, reporter: &Reporter) {
    if let Some(text) = affinity::keep_to(cpus) {
        reporter.send(&WorkerMessage::Warning { text });
    }
}
