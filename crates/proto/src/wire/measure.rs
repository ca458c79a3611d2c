//! Measurements of a single worker without another end: computation rates, system limits and the target directory.

use super::handshake::CipherSuite;
use super::network_settings::NetworkSettings;
use crate::codec::wire_struct;
use crate::error::ProtocolError;
use crate::field_codecs::{AtMost, PATH, TEXT, Varint};
use crate::limits::MEASURE_MS_MAX;

/// Names of the entries that a probe's copies make in a scratch directory: written past the page cache, written through
/// it, and the whole copy.
pub const SCRATCH_NAMES: [&str; 3] = ["direct", "buffered", "whole"];

wire_struct! {
    /// Request for a measurement.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct MeasureRequest {
        /// Target directory to inspect; a scratch directory is created there. Empty: none.
        pub path: Vec<u8> as PATH,
        /// File or directory tree to evict from the page cache. Empty: none.
        pub cold: Vec<u8> as PATH,
        /// Duration of each computation in milliseconds.
        pub compute_ms: u32 as AtMost(MEASURE_MS_MAX, ProtocolError::OverLimit("time to measure")),
        /// Cipher suite to measure.
        pub suite: CipherSuite,
        /// Idle timeout of the control channel in milliseconds: after it, the worker gives up its controller.
        pub silence_ms: u32,
    }
}

wire_struct! {
    /// Result of a measurement.
    #[derive(Debug, Clone, PartialEq, Eq, Default)]
    pub struct MeasureAnswer {
        /// BLAKE3 rate of one core, in bytes per second.
        pub hash_bytes_per_s: u64 as Varint,
        /// Rate of the frame check.
        pub check_bytes_per_s: u64 as Varint,
        /// Rate of encryption, which equals that of decryption.
        pub seal_bytes_per_s: u64 as Varint,
        /// Settings of its kernel for the network.
        pub network: NetworkSettings,
        /// Loaded congestion controls, by the kernel's names.
        pub congestion_controls: String as TEXT,
        /// `MaxStartups` of the sshd that answered, as begin and full (`10-100`); empty if unknown.
        pub max_startups: String as TEXT,
        /// The version of haul.
        pub version: String as TEXT,
        /// Time of the reply, in microseconds since 1970.
        pub clock_us: u64,
        /// State of the target directory, if requested.
        pub place: Option<TargetDirectoryFigures>,
    }
}

wire_struct! {
    /// State of the target directory.
    #[derive(Debug, Clone, PartialEq, Eq, Default)]
    pub struct TargetDirectoryFigures {
        /// Path of the scratch directory; the worker removes it at its end.
        pub scratch: Vec<u8> as PATH,
        /// Bytes that this user may still write there.
        pub free_bytes: u64 as Varint,
        /// Files that can still be created there; 0 on a file system without such a limit.
        pub free_files: u64 as Varint,
        /// Whether the file system limits the number of files.
        pub counts_files: bool,
        /// Whether the file system may compress data, so that zeros are poor test data.
        pub may_compress: bool,
        /// Number of scratch directories removed that killed probes had left.
        pub removed: u32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::request::ControllerMessage;

    #[test]
    fn a_too_long_measurement_is_a_fault() {
        let request = |compute_ms| {
            let request = MeasureRequest {
                path: b"/a".to_vec(),
                cold: Vec::new(),
                compute_ms,
                suite: CipherSuite::Aes256Gcm,
                silence_ms: 13_000,
            };
            ControllerMessage::Measure(request).encode()
        };
        let short = request(MEASURE_MS_MAX);
        assert!(ControllerMessage::decode(&short).is_ok_and(|message| message.encode() == short));
        assert!((0..short.len()).all(|cut| ControllerMessage::decode(&short[..cut]).is_err()));
        let long = ControllerMessage::decode(&request(MEASURE_MS_MAX + 1)).err();
        assert_eq!(long, Some(ProtocolError::OverLimit("time to measure")));
    }
}
