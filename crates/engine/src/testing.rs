//! For tests: what both ends of a session are told.

use haul_proto::cpus::Cpus;
use haul_proto::ids::{JobId, JobNumber};
use haul_proto::integrity::FrameLen;
use haul_proto::wire::handshake::Suite;
use haul_proto::wire::limits::REKEY_BYTES;
use haul_proto::wire::request::SessionSettings;

/// Of a session with one stream.
pub fn settings() -> SessionSettings {
    SessionSettings {
        job: JobId([1; 16]),
        number: JobNumber(1),
        session: JobId([2; 16]),
        secret: [3; 32],
        suite: Suite::Aes256Gcm,
        frame: FrameLen::DEFAULT,
        streams: 1,
        streams_max: 1,
        congestion: String::new(),
        window_bytes: 0,
        rekey_bytes: REKEY_BYTES,
        report_files: false,
        report_every_ms: 200,
        cpus: Cpus::default(),
        all_paths: false,
        ports: None,
        silence_ms: 12_000,
    }
}
