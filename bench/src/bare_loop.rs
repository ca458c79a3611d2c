//! The floor: the cost of haul's work without haul. One thread and one connection a stream; read, hash, seal, send at
//! one end; receive, open, hash, write at the other. No login, no protocol, no manifest, no temporary name. The ciphers
//! are haul's, from the library that haul chooses on this CPU.
//!
//! Blocks, buffers, congestion control and the order of writes to a file are haul's. A difference between the two is
//! therefore haul's overhead.

use std::ffi::OsString;
use std::fs::File;
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, bail, ensure};
use clap::{Args, Parser};
use haul_engine::aead::{CipherKey, CipherLibrary, NONCE_LEN};
use haul_proto::integrity::frame_check;
use haul_proto::wire::handshake::CipherSuite;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketType, sockopt};

/// Bytes of a file in a record, as in haul.
const BLOCK: usize = 512 << 10;
/// Bytes that a stream takes at a time.
const PIECE: u64 = 8 << 20;
/// Offset and length, in front of a block.
const HEAD: usize = 16;
const TAG: usize = 16;
/// Socket buffers, as in haul within one host.
const WINDOW: usize = 512 << 10;
const STREAMS_MAX: usize = 64;

/// The two ends.
#[derive(Debug, PartialEq, Parser)]
#[command(name = "bare-loop", no_binary_name = true)]
enum BareLoop {
    Send(LoopEnd),
    Receive(LoopEnd),
}

/// One end's settings.
#[derive(Debug, Clone, PartialEq, Args)]
struct LoopEnd {
    #[arg(long, default_value_t = 0)]
    port: u16,
    #[arg(long, default_value_t = 1)]
    streams: usize,
    /// Neither check nor seal.
    #[arg(long)]
    plain: bool,
    path: PathBuf,
}

/// `send` or `receive`, options, and a path.
pub fn main(args: &[OsString]) -> Result<ExitCode> {
    let asked = BareLoop::try_parse_from(args)?;
    let (BareLoop::Send(end) | BareLoop::Receive(end)) = &asked;
    ensure!((1..=STREAMS_MAX).contains(&end.streams), "--streams is 1 to {STREAMS_MAX}");
    match &asked {
        BareLoop::Send(end) => send(end)?,
        BareLoop::Receive(end) => receive(&listen(end.port)?, end)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn send(end: &LoopEnd) -> Result<()> {
    let file = File::open(&end.path).with_context(|| format!("opening {:?}", end.path))?;
    let size = file.metadata()?.len();
    let next = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let streams: Vec<_> = (0..end.streams)
            .map(|number| {
                scope.spawn({
                    let (file, next) = (&file, &next);
                    move || send_stream(end, file, size, next, number)
                })
            })
            .collect();
        streams.into_iter().try_for_each(|stream| stream.join().unwrap_or_else(|_| bail!("a stream panicked")))
    })
}

fn send_stream(end: &LoopEnd, file: &File, size: u64, next: &AtomicU64, number: usize) -> Result<()> {
    let socket = connect(end.port)?;
    let mut sealing = Sealing::new(number)?;
    let mut record = vec![0; HEAD + BLOCK + TAG];
    rustix::io::write(&socket, &[u8::try_from(number)?])?;
    loop {
        let from = next.fetch_add(PIECE, Ordering::Relaxed);
        if from >= size {
            break;
        }
        let to = size.min(from + PIECE);
        let mut offset = from;
        while offset < to {
            let len = usize::try_from(to - offset)?.min(BLOCK);
            record[..8].copy_from_slice(&offset.to_le_bytes());
            record[8..HEAD].copy_from_slice(&(len as u64).to_le_bytes());
            file.read_exact_at(&mut record[HEAD..HEAD + len], offset).context("reading")?;
            if !end.plain {
                std::hint::black_box(frame_check(&record[HEAD..HEAD + len]));
                sealing.seal(&mut record[..HEAD + len + TAG])?;
            }
            send_all(&socket, &record[..HEAD + len + TAG])?;
            offset += len as u64;
        }
    }
    Ok(())
}

fn receive(listener: &TcpListener, end: &LoopEnd) -> Result<()> {
    let file = File::create(&end.path).with_context(|| format!("making {:?}", end.path))?;
    let writing = Mutex::new(());
    std::thread::scope(|scope| {
        let mut streams = Vec::new();
        for _ in 0..end.streams {
            let (socket, _) = listener.accept().context("accepting")?;
            let (file, writing) = (&file, &writing);
            streams.push(scope.spawn(move || receive_stream(end, &socket, file, writing)));
        }
        streams.into_iter().try_for_each(|stream| stream.join().unwrap_or_else(|_| bail!("a stream panicked")))
    })
}

fn receive_stream(end: &LoopEnd, socket: &TcpStream, file: &File, writing: &Mutex<()>) -> Result<()> {
    suit_connection(socket)?;
    let mut number = [0];
    ensure!(receive_all(socket, &mut number)?, "the sender said nothing");
    let mut sealing = Sealing::new(number[0].into())?;
    let mut record = vec![0; HEAD + BLOCK + TAG];
    while receive_all(socket, &mut record[..HEAD])? {
        let offset = number_at(&record[..8])?;
        let len = usize::try_from(number_at(&record[8..HEAD])?)?;
        ensure!(len <= BLOCK, "a block of {len} bytes");
        ensure!(receive_all(socket, &mut record[HEAD..HEAD + len + TAG])?, "the sender ended within a block");
        if !end.plain {
            sealing.open(&mut record[..HEAD + len + TAG])?;
            std::hint::black_box(frame_check(&record[HEAD..HEAD + len]));
        }
        let _turn = writing.lock().unwrap_or_else(PoisonError::into_inner);
        file.write_all_at(&record[HEAD..HEAD + len], offset).context("writing")?;
    }
    Ok(())
}

fn number_at(bytes: &[u8]) -> Result<u64> {
    Ok(u64::from_le_bytes(bytes.try_into()?))
}

/// AES-128-GCM with a counter as nonce. The key is public: this loop measures, and protects nothing.
struct Sealing {
    key: CipherKey,
    records: u64,
}

impl Sealing {
    fn new(stream: usize) -> Result<Self> {
        let key = [u8::try_from(stream)?; 16];
        let key = CipherKey::new(CipherLibrary::of_this_cpu(CipherSuite::Aes128Gcm), CipherSuite::Aes128Gcm, &key);
        Ok(Self { key: key.map_err(|_| anyhow::anyhow!("no AES-128-GCM"))?, records: 0 })
    }

    fn nonce(&mut self) -> [u8; NONCE_LEN] {
        self.records += 1;
        let mut nonce = [0; NONCE_LEN];
        nonce[4..].copy_from_slice(&self.records.to_le_bytes());
        nonce
    }

    fn seal(&mut self, record: &mut [u8]) -> Result<()> {
        let nonce = self.nonce();
        let (head, rest) = record.split_at_mut(HEAD);
        let (block, tag) = rest.split_at_mut(rest.len() - TAG);
        self.key.seal(nonce, head, block, tag).map_err(|_| anyhow::anyhow!("sealing failed"))
    }

    fn open(&mut self, record: &mut [u8]) -> Result<()> {
        let nonce = self.nonce();
        let (head, rest) = record.split_at_mut(HEAD);
        let (block, tag) = rest.split_at_mut(rest.len() - TAG);
        self.key.open(nonce, head, block, tag).map_err(|_| anyhow::anyhow!("a block is not authentic"))
    }
}

fn listen(port: u16) -> Result<TcpListener> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).with_context(|| format!("listening on {port}"))?;
    prefer_cubic(&listener);
    Ok(listener)
}

fn connect(port: u16) -> Result<OwnedFd> {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None)?;
    prefer_cubic(&socket);
    rustix::net::connect(&socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, port))
        .with_context(|| format!("connecting to {port}"))?;
    suit_connection(&socket)?;
    Ok(socket)
}

/// As haul does on short paths. Where it is not permitted, both do without.
fn prefer_cubic(socket: impl AsFd) {
    let _ = sockopt::set_tcp_congestion(socket, "cubic");
}

fn suit_connection(socket: impl AsFd) -> Result<()> {
    sockopt::set_tcp_nodelay(&socket, true)?;
    sockopt::set_socket_send_buffer_size(&socket, WINDOW)?;
    Ok(sockopt::set_socket_recv_buffer_size(&socket, WINDOW)?)
}

fn send_all(socket: impl AsFd, mut bytes: &[u8]) -> Result<()> {
    while !bytes.is_empty() {
        let sent = rustix::net::send(&socket, bytes, SendFlags::NOSIGNAL).context("sending")?;
        bytes = &bytes[sent..];
    }
    Ok(())
}

/// Fills the buffer; false when the peer has closed before its first byte.
fn receive_all(socket: impl AsFd, buffer: &mut [u8]) -> Result<bool> {
    let mut filled = 0;
    while filled < buffer.len() {
        let (got, _) = rustix::net::recv(&socket, &mut buffer[filled..], RecvFlags::WAITALL).context("receiving")?;
        match got {
            0 if filled == 0 => return Ok(false),
            0 => bail!("the sender ended within a record"),
            _ => filled += got,
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn round_trip(source: &Path, streams: usize, plain: bool, at: &Path) -> Vec<u8> {
        let listener = listen(0).expect("a port");
        let end = LoopEnd { port: listener.local_addr().expect("bound").port(), streams, plain, path: at.join("copy") };
        let sender = LoopEnd { path: source.to_owned(), ..end.clone() };
        std::thread::scope(|scope| {
            scope.spawn(|| send(&sender).expect("sent"));
            receive(&listener, &end).expect("received");
        });
        std::fs::read(&end.path).expect("a copy")
    }

    #[test]
    fn data_arrives_unchanged() {
        let at = tempfile::tempdir().expect("a temporary directory");
        let mut tree = haul_lab::TestTree::new(at.path(), 1);
        tree.incompressible_file("odd", 2 * PIECE + BLOCK as u64 + 77).expect("made");
        let source = at.path().join("odd");
        let bytes = std::fs::read(&source).expect("there");
        for (streams, plain) in [(1, false), (2, false), (3, true)] {
            assert!(round_trip(&source, streams, plain, at.path()) == bytes, "{streams} streams, plain {plain}");
        }
    }

    #[test]
    fn a_changed_block_is_not_authentic() {
        let mut record = vec![7; HEAD + 100 + TAG];
        Sealing::new(0).and_then(|mut sealing| sealing.seal(&mut record)).expect("sealed");
        assert_ne!(record[HEAD..HEAD + 100], [7; 100]);
        let mut changed = record.clone();
        changed[0] ^= 1;
        assert!(Sealing::new(0).and_then(|mut sealing| sealing.open(&mut changed)).is_err());
        assert!(Sealing::new(1).and_then(|mut sealing| sealing.open(&mut record.clone())).is_err());
        Sealing::new(0).and_then(|mut sealing| sealing.open(&mut record)).expect("it is authentic");
    }

    #[test]
    fn words_are_read() {
        let words = |text: &str| BareLoop::try_parse_from(text.split(' '));
        let end = LoopEnd { port: 7, streams: 2, plain: true, path: "/f".into() };
        assert_eq!(words("send --port 7 --streams 2 --plain /f").expect("right"), BareLoop::Send(end));
        assert!(words("send --streams x /f").is_err() && words("receive --port 7").is_err());
    }
}
