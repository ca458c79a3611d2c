//! A worker process: one end of a transfer. Its controller starts it and is its only source of commands.
//!
//! The worker sends a greeting line and Hello. It then handles messages from the control channel: a Request, the setup
//! of data connections, and the transfer. When the control channel closes, the worker removes unfinished work and
//! exits.

mod assigned_work;
pub mod client_limits;
pub mod client_refusal;
mod connections;
mod direct_sink;
mod directory_operations;
mod environment;
mod error;
mod file_operation_error;
mod file_session;
mod file_session_policy;
mod inherited_pipes;
pub mod measure;
mod partial_search;
mod predecessor;
mod process;
mod replica_runtime;
mod request_policy;
pub(crate) mod resource_metrics;
pub(crate) mod runtime;
mod stream_autotune;
mod stream_recovery;

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufReader, Write};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use haul_base::control_channel::{ControlReader, ControlWriter};
use haul_base::copy::End;
use haul_base::copy::account::WorkAccount;
use haul_base::copy::hello::greeting_line;
use haul_proto::feature::{Features, PROTOCOL_VERSION};
use haul_proto::wire::report::{WorkerHello, WorkerMessage};

pub use self::environment::Environment;
use self::error::WorkerError;
pub use self::inherited_pipes::InheritedPipes;
pub use self::process::WorkerEnd;
use self::process::WorkerProcess;
use crate::io::program::keeper;
use crate::net::controller_watchdog::{ControllerWatchdog, WatchedInput};
use crate::sys::{interfaces, machine, open_files, tcp_info};

/// Runs and supervises a program of a worker. `which` is the command-line word for the end.
pub fn keep_program(which: &str, command: &OsStr, stop: &OwnedFd) -> Option<io::Result<u8>> {
    let end = [End::Source, End::Target].into_iter().find(|end| keeper::word(*end) == which)?;
    Some(keeper::keep(end, command, stop))
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
    let control = ControlWriter::new(output);
    let mut worker = WorkerProcess::new(control, environment.clone(), inherited, Arc::clone(&watchdog));
    worker.report(&WorkerMessage::Hello(hello(environment)));
    if let Err(error) = worker.keep_alive() {
        worker.fail(&WorkerError::Thread(error));
        return worker.end();
    }
    let reader = ControlReader::new(BufReader::with_capacity(256 << 10, WatchedInput(Arc::clone(&watchdog))));
    let failed = worker.handle_messages(reader).err();
    // After a stop, or without a controller, the worker exits at once: the report may have no reader.
    if let Some(error) = failed.filter(|_| !watchdog.is_stopped() && !watchdog.is_unheard()) {
        worker.fail(&error);
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
