//! Authentication of a connection: greeting, answer, and a Finished record in each direction.

use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use haul_base::sys::random::random;
use haul_proto::error::ProtocolError;
use haul_proto::ids::{CopyId, PathId, StreamId};
use haul_proto::limits::GREETING_DEADLINE_MS;
use haul_proto::wire::frame::RecordTrailer;
use haul_proto::wire::handshake::{
    ANSWER_LEN, CipherSuite, GREETING_LEN, GreetingAnswer, KeyDirection, StreamGreeting, transcript,
};
use rustix::net::sockopt;

use super::seal::KeySchedule;
use super::socket::{receive_exact, send_all};
use super::{DataStream, StreamError};
use crate::io::frame_buffer::FrameBuffer;

/// The credentials of a connection.
#[derive(Clone)]
pub struct StreamCredentials {
    /// The session.
    pub session: CopyId,
    /// The secret of both ends and their controller.
    pub secret: [u8; 32],
    /// The cipher suite of records.
    pub suite: CipherSuite,
    /// Bytes encrypted with one key.
    pub rekey_bytes: u64,
}

/// Authenticates a connection made by this end.
pub fn as_connector(
    socket: OwnedFd,
    credentials: &StreamCredentials,
    stream: StreamId,
    path: PathId,
) -> Result<DataStream, StreamError> {
    let deadline = HandshakeDeadline::start(&socket)?;
    let greeting = StreamGreeting { session: credentials.session, stream, path, random: random()? }.encode();
    send_all(&socket, &greeting)?;
    let mut answer = [0; ANSWER_LEN];
    receive_exact(&socket, &mut answer)?;
    GreetingAnswer::decode(&answer)?;
    let keys = schedule(credentials, &greeting, &answer);
    let (ours, theirs) = (KeyDirection::FromConnector, KeyDirection::FromAcceptor);
    let mut proven = unproven(socket, &keys, ours, theirs, path)?;
    let mut record = FrameBuffer::empty();
    proven.send(&mut record, &RecordTrailer::Finished)?;
    expect_finished(&mut proven, &mut record, None)?;
    deadline.end(&proven.socket)?;
    Ok(proven)
}

/// Authenticates an accepted connection, which has no effect before.
pub fn as_acceptor(socket: OwnedFd, credentials: &StreamCredentials) -> Result<(StreamId, DataStream), StreamError> {
    let deadline = HandshakeDeadline::start(&socket)?;
    let mut greeting = [0; GREETING_LEN];
    deadline.receive(&socket, &mut greeting)?;
    let StreamGreeting { session, stream, path, .. } = StreamGreeting::decode(&greeting)?;
    if session != credentials.session {
        return Err(ProtocolError::NotAuthentic.into());
    }
    let answer = GreetingAnswer { random: random()? }.encode();
    send_all(&socket, &answer)?;
    let keys = schedule(credentials, &greeting, &answer);
    let (ours, theirs) = (KeyDirection::FromAcceptor, KeyDirection::FromConnector);
    let mut proven = unproven(socket, &keys, ours, theirs, path)?;
    let mut record = FrameBuffer::empty();
    expect_finished(&mut proven, &mut record, Some(&deadline))?;
    proven.send(&mut record, &RecordTrailer::Finished)?;
    deadline.end(&proven.socket)?;
    Ok((stream, proven))
}

fn unproven(
    socket: OwnedFd,
    keys: &KeySchedule,
    ours: KeyDirection,
    theirs: KeyDirection,
    path: PathId,
) -> Result<DataStream, StreamError> {
    Ok(DataStream::new(socket, keys.sealer(ours)?, keys.opener(theirs)?, path))
}

fn schedule(credentials: &StreamCredentials, greeting: &[u8; GREETING_LEN], answer: &[u8; ANSWER_LEN]) -> KeySchedule {
    let transcript = transcript(greeting, answer, credentials.suite);
    KeySchedule::new(&credentials.secret, &transcript, credentials.suite, credentials.rekey_bytes)
}

/// Receives the first record. Its length is checked first, so that an unauthenticated connection cannot make this end
/// read more.
fn expect_finished(
    stream: &mut DataStream,
    record: &mut FrameBuffer,
    deadline: Option<&HandshakeDeadline>,
) -> Result<(), StreamError> {
    use haul_proto::wire::frame::{PREFIX_LEN, RecordPrefix};
    let receive = |socket: &OwnedFd, buffer: &mut [u8]| match deadline {
        Some(deadline) => deadline.receive(socket, buffer),
        None => receive_exact(socket, buffer),
    };
    let mut prefix = [0; PREFIX_LEN];
    receive(&stream.socket, &mut prefix)?;
    let prefix = RecordPrefix::decode(prefix)?;
    if (prefix.payload, prefix.trailer) != (0, 1) {
        return Err(ProtocolError::NotAuthentic.into());
    }
    record.set_lengths(prefix);
    receive(&stream.socket, record.after_prefix_mut())?;
    stream.opener.open(record)?;
    stream.received += 1;
    match RecordTrailer::decode(record.trailer(), 0)? {
        RecordTrailer::Finished => Ok(()),
        _ => Err(ProtocolError::OutOfTurn("a record before Finished").into()),
    }
}

/// The time limit for authentication, enforced by the socket's own timeouts.
struct HandshakeDeadline(Instant);

impl HandshakeDeadline {
    fn start(socket: &OwnedFd) -> io::Result<Self> {
        let limit = Duration::from_millis(GREETING_DEADLINE_MS);
        sockopt::set_socket_timeout(socket, sockopt::Timeout::Recv, Some(limit))?;
        sockopt::set_socket_timeout(socket, sockopt::Timeout::Send, Some(limit))?;
        Ok(Self(Instant::now() + limit))
    }

    /// Receives until the deadline, also if single bytes arrive.
    fn receive(&self, socket: &OwnedFd, buffer: &mut [u8]) -> io::Result<()> {
        for byte in buffer.chunks_mut(1) {
            self.check()?;
            receive_exact(socket, byte)?;
        }
        Ok(())
    }

    fn check(&self) -> io::Result<()> {
        if Instant::now() < self.0 { Ok(()) } else { Err(io::ErrorKind::TimedOut.into()) }
    }

    fn end(self, socket: &OwnedFd) -> io::Result<()> {
        self.check()?;
        sockopt::set_socket_timeout(socket, sockopt::Timeout::Recv, None)?;
        sockopt::set_socket_timeout(socket, sockopt::Timeout::Send, None)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;
    use std::thread;

    use haul_proto::integrity::FrameLen;

    use super::*;

    fn credentials() -> StreamCredentials {
        StreamCredentials {
            session: CopyId([1; 16]),
            secret: [2; 32],
            suite: CipherSuite::Aes256Gcm,
            rekey_bytes: 4096,
        }
    }

    fn pair() -> (OwnedFd, OwnedFd) {
        let (a, b) = UnixStream::pair().unwrap();
        (a.into(), b.into())
    }

    #[test]
    fn two_ends_with_one_secret_exchange_records() {
        let (a, b) = pair();
        let connector = thread::spawn(move || {
            let mut stream = as_connector(a, &credentials(), StreamId(1), PathId(7)).unwrap();
            let mut record = FrameBuffer::new(FrameLen::DEFAULT);
            for i in 0..20u8 {
                record.room_mut()[..1000].fill(i);
                record.set_payload_len(1000);
                stream
                    .send(&mut record, &RecordTrailer::End { records: i.into() })
                    .unwrap_or_else(|e| panic!("{i}: {e}"));
            }
        });
        let (id, mut stream) = as_acceptor(b, &credentials()).unwrap();
        assert_eq!((id, stream.path()), (StreamId(1), PathId(7)));
        let mut record = FrameBuffer::empty();
        for i in 0..20u8 {
            // End has no payload: the record itself decrypts, and the error names the violation.
            assert!(
                matches!(stream.receive(&mut record), Err(StreamError::Protocol(ProtocolError::Invalid(_)))),
                "{i}"
            );
            assert_eq!(record.payload(), [i; 1000]);
        }
        connector.join().unwrap();
    }

    #[test]
    fn another_secret_session_or_suite_is_refused() {
        let good = credentials();
        let wrong = [
            StreamCredentials { secret: [3; 32], ..good.clone() },
            StreamCredentials { session: CopyId([9; 16]), ..good.clone() },
            StreamCredentials { suite: CipherSuite::AuthenticateOnly, ..good.clone() },
        ];
        for credentials in wrong {
            let (a, b) = pair();
            let connector = thread::spawn(move || as_connector(a, &credentials, StreamId(0), PathId(0)).is_ok());
            assert!(as_acceptor(b, &good).is_err());
            assert!(!connector.join().unwrap());
        }
    }

    #[test]
    fn a_connection_with_another_greeting_is_refused() {
        let (a, b) = pair();
        send_all(&a, &[b'x'; 200]).unwrap();
        assert!(matches!(as_acceptor(b, &credentials()), Err(StreamError::Protocol(ProtocolError::NotAuthentic))));
    }
}
