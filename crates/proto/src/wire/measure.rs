//! Measurements of a single worker without another end: computation rates, system limits and the target directory.

use super::handshake::CipherSuite;
use super::network_settings::NetworkSettings;
use crate::encoding::{Decoded, Reader, Writer};
use crate::error::ProtocolError;
use crate::limits::{MEASURE_MS_MAX, PATH_MAX, TEXT_MAX};

/// Request for a measurement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MeasureRequest {
    /// Target directory to inspect; a scratch directory is created there. Empty: none.
    pub path: Vec<u8>,
    /// File or directory tree to evict from the page cache. Empty: none.
    pub cold: Vec<u8>,
    /// Duration of each computation in milliseconds.
    pub compute_ms: u32,
    /// Cipher suite to measure.
    pub suite: CipherSuite,
    /// Idle timeout of the control channel in milliseconds: after it, the worker gives up its controller.
    pub silence_ms: u32,
}

/// Result of a measurement.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MeasureAnswer {
    /// BLAKE3 rate of one core, in bytes per second.
    pub hash_bytes_per_s: u64,
    /// Rate of the frame check.
    pub check_bytes_per_s: u64,
    /// Rate of encryption, which equals that of decryption.
    pub seal_bytes_per_s: u64,
    /// Settings of its kernel for the network.
    pub network: NetworkSettings,
    /// Loaded congestion controls, by the kernel's names.
    pub congestion_controls: String,
    /// `MaxStartups` of sshd's configuration; empty if it cannot be read.
    pub max_startups: String,
    /// The version of haul.
    pub version: String,
    /// Time of the reply, in microseconds since 1970.
    pub clock_us: u64,
    /// State of the target directory, if requested.
    pub place: Option<TargetDirectoryFigures>,
}

/// State of the target directory.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TargetDirectoryFigures {
    /// Path of the scratch directory; the worker removes it at its end.
    pub scratch: Vec<u8>,
    /// Bytes that this user may still write there.
    pub free_bytes: u64,
    /// Files that can still be created there; 0 on a file system without such a limit.
    pub free_files: u64,
    /// Whether the file system limits the number of files.
    pub counts_files: bool,
    /// Whether the file system may compress data, so that zeros are poor test data.
    pub may_compress: bool,
    /// Number of scratch directories removed that killed probes had left.
    pub removed: u32,
}

impl MeasureRequest {
    pub(super) fn encode(&self, out: &mut Writer) {
        out.bytes(&self.path).bytes(&self.cold).u32(self.compute_ms).u8(self.suite.number()).u32(self.silence_ms);
    }

    pub(super) fn decode(reader: &mut Reader<'_>) -> Decoded<Self> {
        let path = reader.bytes(PATH_MAX, "a path")?.to_vec();
        let cold = reader.bytes(PATH_MAX, "a path")?.to_vec();
        let compute_ms = reader.u32()?;
        if compute_ms > MEASURE_MS_MAX {
            return Err(ProtocolError::OverLimit("time to measure"));
        }
        Ok(Self { path, cold, compute_ms, suite: CipherSuite::from_number(reader.u8()?)?, silence_ms: reader.u32()? })
    }
}

impl MeasureAnswer {
    pub(super) fn encode(&self, out: &mut Writer) {
        out.varint(self.hash_bytes_per_s).varint(self.check_bytes_per_s).varint(self.seal_bytes_per_s);
        self.network.encode(out);
        out.text(&self.congestion_controls, TEXT_MAX).text(&self.max_startups, TEXT_MAX).text(&self.version, TEXT_MAX);
        out.u64(self.clock_us).bool(self.place.is_some());
        self.place.iter().for_each(|place| place.encode(out));
    }

    pub(super) fn decode(reader: &mut Reader<'_>) -> Decoded<Self> {
        Ok(Self {
            hash_bytes_per_s: reader.varint()?,
            check_bytes_per_s: reader.varint()?,
            seal_bytes_per_s: reader.varint()?,
            network: NetworkSettings::decode(reader)?,
            congestion_controls: reader.text(TEXT_MAX, "a text")?,
            max_startups: reader.text(TEXT_MAX, "a text")?,
            version: reader.text(TEXT_MAX, "a text")?,
            clock_us: reader.u64()?,
            place: if reader.bool()? { Some(TargetDirectoryFigures::decode(reader)?) } else { None },
        })
    }
}

impl TargetDirectoryFigures {
    fn encode(&self, out: &mut Writer) {
        out.bytes(&self.scratch).varint(self.free_bytes).varint(self.free_files);
        out.bool(self.counts_files).bool(self.may_compress).u32(self.removed);
    }

    fn decode(reader: &mut Reader<'_>) -> Decoded<Self> {
        Ok(Self {
            scratch: reader.bytes(PATH_MAX, "a path")?.to_vec(),
            free_bytes: reader.varint()?,
            free_files: reader.varint()?,
            counts_files: reader.bool()?,
            may_compress: reader.bool()?,
            removed: reader.u32()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::request::ControllerMessage;

    #[test]
    fn a_request_that_would_take_too_long_is_a_fault() {
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
