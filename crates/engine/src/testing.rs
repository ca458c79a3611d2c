//! For tests: what both ends of a session are told.

use haul_proto::compression::CompressionPolicy;
use haul_proto::cpus::Cpus;
use haul_proto::ids::{JobId, JobNumber};
use haul_proto::integrity::FrameLen;
use haul_proto::limits::REKEY_BYTES;
use haul_proto::wire::handshake::CipherSuite;
use haul_proto::wire::list_batch::ListedKinds;
use haul_proto::wire::pipe::PipeKind;
use haul_proto::wire::request::{SessionSettings, SourceRequest, SymlinkMode, TargetOperand, TargetRequest};
use haul_proto::wire::storage::{Fsync, StorageRequest, Verify};
use haul_proto::wire::write_options::WriteOptions;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, Mutex};

use crate::sys::sync::lock;

/// Of a session with one stream.
pub fn settings() -> SessionSettings {
    SessionSettings {
        job: JobId([1; 16]),
        number: JobNumber(1),
        session: JobId([2; 16]),
        secret: [3; 32],
        suite: CipherSuite::Aes256Gcm,
        frame: FrameLen::DEFAULT,
        streams: 1,
        streams_max: 1,
        congestion: String::new(),
        window_bytes: 0,
        window_fixed: false,
        traffic_class: 0,
        rekey_bytes: REKEY_BYTES,
        report_files: false,
        blake3: true,
        report_every_ms: 200,
        cpus: Cpus::default(),
        all_paths: false,
        ports: None,
        silence_ms: 12_000,
        checksum: None,
    }
}

/// That these operands go to `path`, and nothing besides.
pub fn target_request(path: &Path, operands: Vec<TargetOperand>) -> TargetRequest {
    TargetRequest {
        settings: settings(),
        path: path.as_os_str().as_bytes().to_vec(),
        operands,
        listed: ListedKinds::No,
        source_boot: [9; 16],
        origin: [0; 32],
        again: false,
        own_tree: false,
        make_directory: false,
        needs_directory: false,
        preserve: false,
        owners: Default::default(),
        kept: Default::default(),
        verify: Verify::Wire,
        digest_existing: false,
        filters: Default::default(),
        rules: WriteOptions::default(),
        storage: StorageRequest::default(),
        fsync: Fsync::None,
        delta: haul_proto::delta::options::DeltaOptions::default(),
        sync: Default::default(),
        pipe: PipeKind::No,
        resume: false,
        small_journals: false,
        keep_partial: false,
        journal_dir: Vec::new(),
        compare: None,
    }
}

/// That these operands are read, with all that is in them.
pub fn source_request(operands: Vec<Vec<u8>>) -> SourceRequest {
    SourceRequest {
        settings: settings(),
        operands,
        listed: false,
        base: None,
        recursive: true,
        links: SymlinkMode::Keep,
        leave_out: Default::default(),
        kept: Default::default(),
        filters: Default::default(),
        tell_left_out: false,
        rate_bytes_per_s: 0,
        storage: StorageRequest::default(),
        compression: CompressionPolicy::Off,
        pipe: PipeKind::No,
        compare: false,
        tell_digests: false,
        remove_files: false,
        tell_owners: false,
    }
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
