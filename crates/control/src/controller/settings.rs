//! Settings shared by both ends, decided after both Hellos.

use std::io;
use std::time::Duration;

use haul_base::copy::error::Error;
use haul_base::copy::spec::{
    ChecksumAlgorithm, ChecksumOptions, ChecksumReference, Cipher, CopyOptions, CopySpec, NetworkOptions, Verify,
};
use haul_base::sys::random::random;
use haul_proto::cpus::Cpus;
use haul_proto::ids::{CopyId, CopyNumber};
use haul_proto::integrity::FrameLen;
use haul_proto::limits::{CPUS_MAX, REKEY_BYTES, STREAMS_MAX};
use haul_proto::wire::checksum as wire;
use haul_proto::wire::handshake::CipherSuite;
use haul_proto::wire::request::SessionSettings;

use super::worker_role::WorkerRole;
use super::workers::Workers;

/// Most initial streams without a user setting.
const STREAMS_BY_DEFAULT_MAX: u16 = 8;
/// Most streams that a copy uses automatically. Measured: at 50 ms and 0.1 % loss, one cubic stream carries 10 Mbit/s.
const STREAMS_AUTO_MAX: u16 = 128;

/// Longest interval between two reports of a worker, however rare progress events are: the current rate derives from
/// them.
const COUNTERS_EVERY_MAX: Duration = Duration::from_millis(500);

/// Returns the settings of one attempt at a copy, whose id is `id`.
pub fn session_settings(copy: &CopySpec, id: CopyId, workers: &Workers) -> Result<SessionSettings, Error> {
    let options = &copy.options;
    let frame = options.streams.frame_bytes.map_or(Ok(FrameLen::DEFAULT), FrameLen::new);
    let frame =
        frame.map_err(|_| Error::Usage("invalid frame size: must be a power of two from 256 KiB to 1 MiB".into()))?;
    let streams = options.streams.count.unwrap_or_else(|| streams_by_default(workers));
    // Within one machine the path needs no tuning.
    let may_grow = options.streams.count.is_none() && !workers.is_one();
    let streams_max = if may_grow { STREAMS_AUTO_MAX.max(streams) } else { streams };
    if !(1..=STREAMS_MAX).contains(&streams) {
        return Err(Error::Usage(format!("invalid number of streams {streams}: must be from 1 to {STREAMS_MAX}")));
    }
    Ok(SessionSettings {
        copy: id,
        number: CopyNumber(1),
        session: CopyId(random().map_err(no_random)?),
        secret: random().map_err(no_random)?,
        suite: suite(options.streams.cipher, workers),
        frame,
        streams,
        streams_max,
        socket: options.streams.socket.clone(),
        rekey_bytes: options.streams.rekey_bytes.unwrap_or(REKEY_BYTES),
        report_files: options.reports.files,
        blake3: needs_blake3(options, workers),
        report_every_ms: u32::try_from(options.reports.progress_every.min(COUNTERS_EVERY_MAX).as_millis())
            .unwrap_or(u32::MAX),
        cpus: cpus(&options.cpus)?,
        all_paths: options.streams.network.all_paths,
        ports: ports(&options.streams.network),
        silence_ms: workers_silence_ms(copy.access.silence),
        checksum: options.integrity.checksum.as_ref().map(checksum),
    })
}

/// Returns the id of a new copy, which all of its attempts have.
pub fn new_copy_id() -> Result<CopyId, Error> {
    random().map(CopyId).map_err(no_random)
}

fn no_random(error: io::Error) -> Error {
    Error::Failed(format!("no random bytes from the kernel: {error}"))
}

/// Whether BLAKE3 hashes of files or of frames are used.
fn needs_blake3(options: &CopyOptions, workers: &Workers) -> bool {
    options.integrity.blake3
        || options.compare
        || options.integrity.verify != Verify::Wire
        || options.target.delta.applies_within_host()
        || options.integrity.checksum.as_ref().is_some_and(|checksum| checksum.algorithm == ChecksumAlgorithm::Blake3)
        || WorkerRole::BOTH.iter().any(|role| workers.hello(*role).requires_blake3)
}

/// Returns the workers' idle timeout, a fifth shorter than the controller's. So on a cut path the worker is gone before
/// the controller retries.
pub fn workers_silence_ms(silence: Duration) -> u32 {
    u32::try_from((silence * 4 / 5).as_millis()).unwrap_or(u32::MAX)
}

/// Returns the initial stream count: the cores of the end with fewer cores, within bounds. More streams than cores
/// would overload a small machine. At least two, since one lost packet halves the rate of a stream.
fn streams_by_default(workers: &Workers) -> u16 {
    let cores = workers.hello(WorkerRole::Source).cores.min(workers.hello(WorkerRole::Target).cores);
    cores.clamp(2, STREAMS_BY_DEFAULT_MAX)
}

/// Returns the cipher suite for the records between these two ends.
pub fn suite(cipher: Cipher, workers: &Workers) -> CipherSuite {
    let aes = workers.hello(WorkerRole::Source).aes && workers.hello(WorkerRole::Target).aes;
    match cipher {
        Cipher::Auto if aes => CipherSuite::Aes128Gcm,
        Cipher::Auto | Cipher::ChaCha20Poly1305 => CipherSuite::ChaCha20Poly1305,
        Cipher::Aes256Gcm => CipherSuite::Aes256Gcm,
        Cipher::Aes128Gcm => CipherSuite::Aes128Gcm,
        Cipher::AuthenticateOnly => CipherSuite::AuthenticateOnly,
    }
}

/// Returns the user's name of a suite.
pub fn suite_name(suite: CipherSuite) -> Cipher {
    match suite {
        CipherSuite::Aes256Gcm => Cipher::Aes256Gcm,
        CipherSuite::Aes128Gcm => Cipher::Aes128Gcm,
        CipherSuite::ChaCha20Poly1305 => Cipher::ChaCha20Poly1305,
        CipherSuite::AuthenticateOnly => Cipher::AuthenticateOnly,
    }
}

/// Returns the ports chosen by the user; a port of `--callback` is the only one.
pub(super) fn ports(network: &NetworkOptions) -> Option<(u16, u16)> {
    let port = network.callback.as_ref().and_then(|callback| callback.port);
    port.map(|port| (port, port)).or(network.ports)
}

fn cpus(numbers: &[u16]) -> Result<Cpus, Error> {
    let mut cpus = Cpus::default();
    match numbers.iter().find(|cpu| !cpus.insert(**cpu)) {
        None => Ok(cpus),
        Some(cpu) => Err(Error::Usage(format!("invalid CPU {cpu}: numbers are below {CPUS_MAX}"))),
    }
}

fn checksum(asked: &ChecksumOptions) -> wire::ChecksumRequest {
    let against = match &asked.against {
        ChecksumReference::Nothing => wire::ChecksumSource::Nothing,
        ChecksumReference::Value(value) => wire::ChecksumSource::Value(value.clone()),
        ChecksumReference::Lines(_) => wire::ChecksumSource::Lines,
    };
    wire::ChecksumRequest { algorithm: asked.algorithm, at_source: asked.at_source, against }
}
