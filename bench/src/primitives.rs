//! The rates of one core for the work on every byte of a copy: seal, hash, check, copy.
//!
//! Each primitive works over buffers of [`BUFFER`] bytes, small enough for the core's cache. The result is the median
//! of [`ROUNDS`] interleaved rounds. `--primitives` runs them for this CPU and for each older kind that CPUID can be
//! masked to.

use std::ffi::OsString;
use std::hint::black_box;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use haul_engine::aead::{CipherKey, CipherLibrary, TAG_LEN, key_len};
use haul_proto::integrity::frame_check;
use haul_proto::wire::handshake::CipherSuite;
use rustix::time::{ClockId, clock_gettime};

use crate::cpuid::{self, CpuLevel};
use crate::machine::Machine;
use crate::old_cpu;
use crate::statistics::median;

/// Bytes that a primitive works on at a time: a frame.
const BUFFER: usize = 512 << 10;
const ROUNDS: usize = 7;
/// Time of one primitive in one round.
const TURN: Duration = Duration::from_millis(60);

struct PrimitiveRow {
    name: String,
    /// Does the work once over [`BUFFER`] bytes.
    work: Box<dyn FnMut()>,
}

/// A table for this CPU, and one for each kind of CPU that masking makes of it.
pub fn run() -> Result<bool> {
    println!("# Primitives, one core, buffers of {} KiB\n", BUFFER >> 10);
    println!("CPU: {}; flags: {}\n", Machine::describe(None).cpu, cpuid::features());
    let mut columns = vec![("this CPU".to_owned(), measure()?)];
    if cfg!(target_arch = "x86_64") {
        let directory = tempfile::tempdir()?;
        let own = std::env::current_exe()?;
        let copy = old_cpu::without_cpuid(&own, directory.path())?;
        for level in CpuLevel::value_variants() {
            columns.push((level.to_string(), masked(&copy, *level)?));
        }
    }
    print!("{}", table(&columns));
    Ok(true)
}

/// The rows of a process that takes this CPU for one of `level`.
fn masked(copy: &Path, level: CpuLevel) -> Result<Vec<(String, Cost)>> {
    rows_of(&mut old_cpu::helper_on(level, copy, "primitives")?)
}

fn rows_of(command: &mut Command) -> Result<Vec<(String, Cost)>> {
    let text = haul_lab::output_of(command)?;
    text.lines().map(|line| row(line).with_context(|| format!("not a row: {line:?}"))).collect()
}

fn row(line: &str) -> Result<(String, Cost)> {
    let [name, wall, cpu] = line.split('\t').collect::<Vec<_>>()[..] else { bail!("three fields are wanted") };
    Ok((name.to_owned(), Cost { wall: wall.parse()?, cpu: cpu.parse()? }))
}

/// The helper: the rows of this process, for [`rows_of`].
pub fn main(_: &[OsString]) -> Result<ExitCode> {
    for (name, Cost { wall, cpu }) in measure()? {
        println!("{name}\t{wall}\t{cpu}");
    }
    Ok(ExitCode::SUCCESS)
}

/// Seconds per GB.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Cost {
    wall: f64,
    cpu: f64,
}

fn measure() -> Result<Vec<(String, Cost)>> {
    let mut primitives = all()?;
    let mut costs = vec![Vec::new(); primitives.len()];
    for _ in 0..ROUNDS {
        for (primitive, costs) in primitives.iter_mut().zip(&mut costs) {
            costs.push(turn(&mut primitive.work));
        }
    }
    let medians = costs.iter().map(|costs| {
        let of = |part: fn(&Cost) -> f64| median(costs.iter().map(part).collect()).unwrap_or(f64::NAN);
        Cost { wall: of(|cost| cost.wall), cpu: of(|cost| cost.cpu) }
    });
    Ok(primitives.iter().map(|primitive| primitive.name.clone()).zip(medians).collect())
}

fn turn(work: &mut dyn FnMut()) -> Cost {
    let (begun, cpu_begun) = (Instant::now(), thread_cpu());
    let mut bytes = 0.0;
    while begun.elapsed() < TURN {
        work();
        bytes += BUFFER as f64;
    }
    let per_gb = |seconds: f64| seconds / bytes * 1e9;
    Cost { wall: per_gb(begun.elapsed().as_secs_f64()), cpu: per_gb(thread_cpu() - cpu_begun) }
}

fn thread_cpu() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

fn all() -> Result<Vec<PrimitiveRow>> {
    let mut primitives = Vec::new();
    for (library, of) in [(CipherLibrary::AwsLc, "AWS-LC"), (CipherLibrary::Ring, "ring")] {
        for (suite, cipher) in [
            (CipherSuite::Aes128Gcm, "AES-128-GCM"),
            (CipherSuite::Aes256Gcm, "AES-256-GCM"),
            (CipherSuite::AuthenticateOnly, "AES-256-GMAC"),
            (CipherSuite::ChaCha20Poly1305, "ChaCha20-Poly1305"),
        ] {
            primitives.push(PrimitiveRow { name: format!("{cipher}, {of}"), work: sealing(library, suite)? });
        }
    }
    let buffer = || vec![7; BUFFER];
    let (a, b, c, d) = (buffer(), buffer(), buffer(), buffer());
    let mut copy = buffer();
    let hashes: [(_, Box<dyn FnMut()>); 4] = [
        ("BLAKE3", Box::new(move || _ = black_box(blake3::hash(&a)))),
        ("XXH3-64, twox-hash", Box::new(move || _ = black_box(frame_check(&b)))),
        ("CRC-64/NVME, crc-fast", {
            Box::new(move || _ = black_box(crc_fast::checksum(crc_fast::CrcAlgorithm::Crc64Nvme, &c)))
        }),
        ("memcpy", {
            Box::new(move || {
                copy.copy_from_slice(&d);
                black_box(&mut copy);
            })
        }),
    ];
    primitives.extend(hashes.into_iter().map(|(name, work)| PrimitiveRow { name: name.to_owned(), work }));
    Ok(primitives)
}

/// Seals a buffer in place, or authenticates it, under a nonce of its own each time.
fn sealing(library: CipherLibrary, suite: CipherSuite) -> Result<Box<dyn FnMut()>> {
    let key = CipherKey::new(library, suite, &[7; 32][..key_len(suite)]).ok().context("there is no such cipher")?;
    let (mut buffer, mut tag) = (vec![7; BUFFER], [0; TAG_LEN]);
    let mut nonces = nonces();
    let clear_len = if suite == CipherSuite::AuthenticateOnly { BUFFER } else { 0 };
    Ok(Box::new(move || {
        let (clear, text) = buffer.split_at_mut(clear_len);
        _ = black_box(key.seal(nonces(), clear, text, &mut tag));
    }))
}

fn nonces() -> impl FnMut() -> [u8; 12] {
    let mut sealed = 0u64;
    move || {
        sealed += 1;
        let mut nonce = [0; 12];
        nonce[4..].copy_from_slice(&sealed.to_le_bytes());
        nonce
    }
}

/// A row for each primitive: GB/s of wall time and CPU seconds per GB, by kind of CPU.
fn table(columns: &[(String, Vec<(String, Cost)>)]) -> String {
    let mut heading = vec!["primitive".to_owned()];
    heading.extend(columns.iter().flat_map(|(name, _)| [format!("{name}: GB/s"), "CPU s/GB".to_owned()]));
    let mut lines = vec![heading];
    for index in 0..columns.first().map_or(0, |(_, rows)| rows.len()) {
        let costs: Vec<_> = columns.iter().filter_map(|(_, rows)| rows.get(index)).collect();
        let mut line = vec![costs[0].0.clone()];
        line.extend(costs.iter().flat_map(|(_, cost)| [format!("{:.2}", 1.0 / cost.wall), format!("{:.3}", cost.cpu)]));
        lines.push(line);
    }
    haul_lab::aligned(&lines, &[0])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_primitive_does_work() {
        for PrimitiveRow { name, mut work } in all().expect("every cipher is there") {
            work();
            let cost = turn(&mut work);
            assert!(cost.wall > 0.0 && cost.wall < 1000.0, "{name}: {cost:?}");
        }
    }

    #[test]
    fn rows_survive_the_pipe() {
        let (name, cost) = row("BLAKE3\t0.25\t0.26").expect("a row");
        assert_eq!((name.as_str(), cost), ("BLAKE3", Cost { wall: 0.25, cpu: 0.26 }));
        assert!(row("BLAKE3 0.25").is_err());
    }

    #[test]
    fn the_table_has_a_pair_of_columns_for_each_cpu() {
        let rows = |wall| vec![("memcpy".to_owned(), Cost { wall, cpu: 0.5 })];
        let text = table(&[("this CPU".to_owned(), rows(0.1)), ("AES-NI".to_owned(), rows(0.2))]);
        let cells: Vec<_> = text.lines().nth(2).into_iter().flat_map(|line| line.split('|').map(str::trim)).collect();
        assert_eq!(cells, ["", "memcpy", "10.00", "0.500", "5.00", "0.500", ""], "{text}");
    }
}
