//! For tests of all crates: plain Requests, from which a test changes what matters to it.

use super::handshake::CipherSuite;
use super::list_batch::ListedKinds;
use super::pipe::PipeKind;
use super::request::{SessionSettings, SourceRequest, Symlinks, TargetRequest};
use super::storage::{Fsync, StorageRequest, Verify};
use crate::compression::CompressionPolicy;
use crate::cpus::Cpus;
use crate::ids::{CopyId, CopyNumber};
use crate::integrity::FrameLen;
use crate::limits::REKEY_BYTES;
use crate::wire::write_options::{PartialOptions, WriteOptions};

/// Returns the settings of a session with one stream.
pub fn settings() -> SessionSettings {
    SessionSettings {
        copy: CopyId([1; 16]),
        number: CopyNumber(1),
        session: CopyId([2; 16]),
        secret: [3; 32],
        suite: CipherSuite::Aes256Gcm,
        frame: FrameLen::DEFAULT,
        streams: 1,
        streams_max: 1,
        socket: Default::default(),
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

/// Returns a Request for reading nothing, and of a directory all its contents.
pub fn source_request() -> SourceRequest {
    SourceRequest {
        settings: settings(),
        operands: Vec::new(),
        listed: false,
        base: None,
        recursive: true,
        links: Symlinks::Keep,
        judges_operands: false,
        skip: Default::default(),
        live: Default::default(),
        preserve: Default::default(),
        modes: Vec::new(),
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
        range: None,
    }
}

/// Returns a Request for writing nothing, with the defaults of a copy and without fsync.
pub fn target_request() -> TargetRequest {
    TargetRequest {
        settings: settings(),
        path: Vec::new(),
        operands: Vec::new(),
        listed: ListedKinds::No,
        source_boot: [9; 16],
        origin: [0; 32],
        again: false,
        own_tree: false,
        directory: Default::default(),
        metadata: Default::default(),
        verify: Verify::Wire,
        digest_existing: false,
        write: WriteOptions::default(),
        below: Vec::new(),
        filters: Default::default(),
        storage: StorageRequest::default(),
        partial: PartialOptions::NONE,
        fsync: Fsync::None,
        delta: Default::default(),
        sync: Default::default(),
        pipe: PipeKind::No,
        compare: None,
        range: None,
    }
}
