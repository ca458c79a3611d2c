//! The data connections of a worker: it listens, connects, or opens a tunnel, as its controller says.

use std::net::IpAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use haul_base::control_channel::ControlWriter;
use haul_base::sys::panic::panicked;
use haul_proto::wire::control_channel::ControlChannel;
use haul_proto::wire::report::WorkerMessage;
use haul_proto::wire::request::SessionSettings;
use haul_proto::wire::route::Route;

use crate::net::stream::AcceptedStreams;
use crate::net::stream::accept::{AcceptAddress, listen};
use crate::net::stream::connect::{ConnectTerms, ConnectedStreams, connect};
use crate::net::stream::handshake::StreamCredentials;
use crate::net::stream::tunnel::{StreamTunnel, prove};
use crate::worker::error::{MessageOrderError, WorkerError};
use crate::worker::runtime::{CopyRuntime, StreamIntake};

/// Makes data connections for the copy, and holds those that came before it.
pub(super) struct DataConnections {
    control: ControlWriter,
    /// Streams accepted before Start.
    pub arrivals: Option<AcceptedStreams>,
    /// Streams through the control channel.
    pub tunnel: Option<Arc<StreamTunnel>>,
}

impl DataConnections {
    /// Reports to the controller over the control channel.
    pub fn new(control: ControlWriter) -> Self {
        Self { control, arrivals: None, tunnel: None }
    }

    /// Accepts streams for the copy, before or after its start.
    pub fn listen(&mut self, settings: &SessionSettings, address: Option<IpAddr>, running: Option<&CopyRuntime>) {
        let place = AcceptAddress { address, ports: settings.ports };
        match listen(place, credentials(settings), settings.socket.clone()) {
            Ok((port, arrivals)) => {
                self.report(&WorkerMessage::Listening { port });
                match running {
                    Some(running) => running.streams().take_streams(arrivals),
                    None => self.arrivals = Some(arrivals),
                }
            }
            Err(error) => self.report(&WorkerMessage::CannotConnect { text: place.describe_failure(&error) }),
        }
    }

    /// Connects over the first usable route.
    pub fn connect(
        &self,
        settings: &SessionSettings,
        streams: StreamIntake,
        routes: Vec<Route>,
        timeout_ms: u32,
    ) -> Result<(), WorkerError> {
        let terms = ConnectTerms {
            ids: streams.ids(),
            credentials: credentials(settings),
            socket: settings.socket.clone(),
            streams: settings.streams,
            streams_max: settings.streams_max,
            all_paths: settings.all_paths,
            timeout: Duration::from_millis(timeout_ms.into()),
        };
        self.make_streams(streams, move |streams| match connect(&routes, &terms) {
            Ok(ConnectedStreams { connector, arrivals, streams: count, from, to }) => {
                streams.set_connector(connector);
                (WorkerMessage::Connected { from, to, streams: count }, Some(arrivals))
            }
            Err(error) => (WorkerMessage::CannotConnect { text: error.to_string() }, None),
        })
    }

    /// Opens streams through the control channel; this end proves them if it is the `connector`.
    pub fn open_tunnel(
        &mut self,
        settings: &SessionSettings,
        running: Option<&CopyRuntime>,
        connector: bool,
    ) -> Result<(), WorkerError> {
        let (credentials, count) = (credentials(settings), settings.streams);
        let (tunnel, inner) = StreamTunnel::open(count, &self.control).map_err(WorkerError::Tunnel)?;
        self.tunnel = Some(Arc::new(tunnel));
        let streams = intake(running)?;
        let ids = connector.then(|| streams.ids());
        self.make_streams(streams, move |_| match prove(inner, &credentials, ids.as_ref()) {
            Ok(arrivals) => {
                let (from, to) = (String::new(), String::new());
                (WorkerMessage::Connected { from, to, streams: count }, Some(arrivals))
            }
            // The controller has lost nothing but this: an attempt to connect may be under way.
            Err(error) => (WorkerMessage::Fatal { fault: false, text: error.to_string() }, None),
        })
    }

    /// Opens streams in a separate thread, so that the control channel is still read. `make` returns the message to
    /// send, and the streams.
    fn make_streams(
        &self,
        streams: StreamIntake,
        make: impl FnOnce(&StreamIntake) -> (WorkerMessage, Option<AcceptedStreams>) + Send + 'static,
    ) -> Result<(), WorkerError> {
        let control = self.control.clone();
        let spawned = thread::Builder::new().name("haul-connect".into()).spawn(move || {
            let made = catch_unwind(AssertUnwindSafe(|| make(&streams)));
            let (report, arrivals) = made.unwrap_or_else(|panic| {
                (WorkerMessage::Fatal { fault: false, text: panicked("haul-connect", &*panic) }, None)
            });
            // A small copy ends with its first frame: the controller hears of the connection before that.
            let _ = control.send(ControlChannel::Controller, &report.encode());
            arrivals.into_iter().for_each(|arrivals| streams.take_streams(arrivals));
        });
        spawned.map(drop).map_err(WorkerError::Thread)
    }

    fn report(&self, message: &WorkerMessage) {
        // The reading side detects a lost controller.
        let _ = self.control.send(ControlChannel::Controller, &message.encode());
    }
}

/// Returns the intake for streams of the running copy.
pub(super) fn intake(running: Option<&CopyRuntime>) -> Result<StreamIntake, MessageOrderError> {
    running.map(CopyRuntime::streams).ok_or(MessageOrderError::ConnectionBeforeStart)
}

fn credentials(settings: &SessionSettings) -> StreamCredentials {
    StreamCredentials {
        session: settings.session,
        secret: settings.secret,
        suite: settings.suite,
        rekey_bytes: settings.rekey_bytes,
    }
}
