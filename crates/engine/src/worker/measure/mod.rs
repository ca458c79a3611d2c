//! A worker that measures instead of copying: processor speed, system limits, and the properties of a target directory.
//! It holds a scratch directory there for its lifetime.

mod compute;
mod place;
mod system;

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use haul_base::sys::describe::describe;
use haul_proto::error::ProtocolError;
use haul_proto::path::escape;
use haul_proto::wire::measure::{MeasureAnswer, MeasureRequest};

pub use self::compute::{Primitive, primitives};
use self::place::ScratchDirectory;
use crate::io::storage::cold;
use crate::sys::confine::{ConfineBounds, ConfineNetwork};
use crate::sys::tcp_info;

/// A measurement that failed.
#[derive(Debug, thiserror::Error)]
pub enum MeasureError {
    /// A file or directory to measure cannot be opened or queried.
    #[error("{}: {}", escape(.path.as_os_str().as_bytes()), describe(.cause))]
    Inaccessible {
        /// The file or directory.
        path: PathBuf,
        /// What the system said.
        #[source]
        cause: io::Error,
    },
    /// There is no scratch directory.
    #[error("{path}: cannot create a directory there: {}", describe(.cause), path = escape(.path.as_os_str().as_bytes()))]
    ScratchDirectory {
        /// The directory around it.
        path: PathBuf,
        /// What the system said.
        #[source]
        cause: io::Error,
    },
    /// There is no key for the cipher.
    #[error("no random bytes from the kernel: {0}")]
    RandomBytes(#[source] io::Error),
    /// The cipher failed.
    #[error("{0}")]
    Cipher(#[from] ProtocolError),
}

impl MeasureError {
    fn inaccessible(path: &Path, cause: io::Error) -> Self {
        Self::Inaccessible { path: path.to_owned(), cause }
    }
}

/// The state of a measuring worker.
pub struct MeasureBench {
    scratch: Option<ScratchDirectory>,
}

impl MeasureBench {
    /// Creates the scratch directory, recorded in `state_dir`, enters the sandbox and measures.
    pub fn prepare(request: &MeasureRequest, state_dir: Option<&Path>) -> Result<(Self, MeasureAnswer), MeasureError> {
        if !request.cold.is_empty() {
            let path = Path::new(OsStr::from_bytes(&request.cold));
            cold::evict_pages(path).map_err(|cause| MeasureError::inaccessible(path, cause))?;
        }
        let path = (!request.path.is_empty()).then(|| Path::new(OsStr::from_bytes(&request.path)));
        let scratch = path.map(|path| ScratchDirectory::make(path, state_dir)).transpose()?;
        let mut measured = MeasureAnswer {
            network: system::network(),
            congestion_controls: tcp_info::congestion_controls(),
            max_startups: system::max_startups(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            place: scratch.as_ref().map(ScratchDirectory::figures).transpose()?,
            ..MeasureAnswer::default()
        };
        let mut bounds = ConfineBounds::new(ConfineNetwork::None);
        scratch.iter().for_each(|scratch| scratch.allow_removal(&mut bounds));
        // A kernel without a sandbox does not prevent the measurement: no input comes from another end.
        let _ = bounds.enforce_with_filter();
        let speed = compute::speed(request.suite, Duration::from_millis(request.compute_ms.into()))?;
        (measured.hash_bytes_per_s, measured.check_bytes_per_s) = (speed.hash, speed.check);
        measured.seal_bytes_per_s = speed.seal;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        measured.clock_us = u64::try_from(now.as_micros()).unwrap_or(u64::MAX);
        Ok((Self { scratch }, measured))
    }

    /// Removes the scratch directory; `true` if nothing remains.
    pub fn end(self) -> bool {
        self.scratch.is_none_or(|scratch| scratch.remove().is_ok())
    }
}
