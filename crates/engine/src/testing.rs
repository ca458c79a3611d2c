//! For tests: what both ends of a session are told.

use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, Mutex};

use haul_base::sys::sync::lock;
use haul_proto::wire::request::{SourceRequest, TargetOperand, TargetRequest};
use haul_proto::wire::samples;
pub use haul_proto::wire::samples::settings;

/// That these operands go to `path`, and nothing besides.
pub fn target_request(path: &Path, operands: Vec<TargetOperand>) -> TargetRequest {
    TargetRequest { path: path.as_os_str().as_bytes().to_vec(), operands, ..samples::target_request() }
}

/// That these operands are read, with all that is in them.
pub fn source_request(operands: Vec<Vec<u8>>) -> SourceRequest {
    SourceRequest { operands, ..samples::source_request() }
}

/// Collects what a worker says.
#[derive(Clone, Default)]
pub struct SentReport(pub Arc<Mutex<Vec<u8>>>);

impl Write for SentReport {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        lock(&self.0).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
