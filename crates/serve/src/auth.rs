//! Mutual authentication of both ends, by a shared secret or by known keys. The proofs cover keying material that TLS
//! exports to the two ends of one connection only. So a proof is useless in another connection, and a man in the middle
//! is detected.
//!
//! The client goes first, and receives only TLS's `close_notify` if its proof is wrong. It sends nothing but its proof
//! until the server has authenticated, too.

use std::io::{self, Read, Write};

use aws_lc_rs::hmac;
use haul_base::copy::credentials::{ClientCredentials, KnownClient, PrivateKey, Secret};
use haul_proto::wire::serve::{
    CLIENT_LABEL, ClientProof, DIRECTORY_MAX, EXPORTED_LEN, EXPORTER_LABEL, REASON_MAX, SERVER_LABEL, SIGNATURE_LEN,
    TAG_LEN, authenticated_bytes, decode_directory,
};
use rustls::{ClientConnection, ConnectionCommon, ServerConnection, SideData, Stream};

use crate::preauth_socket::PreauthSocket;

type ExportedKey = [u8; EXPORTED_LEN];

/// Why a client gets no worker.
#[derive(Debug, thiserror::Error)]
pub enum AuthError {
    /// The connection failed, or the server closed it.
    #[error("{0}")]
    Connection(#[from] io::Error),
    /// The server's proof is wrong.
    #[error("the server failed to authenticate itself")]
    ServerProof,
    /// The authenticated server refuses the client, in its words.
    #[error("{0}")]
    Refusal(String),
}

/// Runs the client's part: authenticates to the server, checks the server's proof, and names `directory`.
pub(super) fn as_client(
    connection: &mut ClientConnection,
    socket: &mut PreauthSocket<'_>,
    pass: &ClientCredentials,
    directory: &str,
) -> Result<(), AuthError> {
    finish_handshake(connection, socket)?;
    let exported = export(connection)?;
    let mut stream = Stream::new(connection, socket);
    stream.write_all(&prove_client(pass, &exported)?.encode())?;
    stream.flush()?;
    let is_tag = matches!(pass, ClientCredentials::Secret(_) | ClientCredentials::Open);
    let mut proof = vec![0; if is_tag { TAG_LEN } else { SIGNATURE_LEN }];
    stream.read_exact(&mut proof)?;
    if !is_the_server(pass, &exported, &proof) {
        return Err(AuthError::ServerProof);
    }
    let length = u8::try_from(directory.len()).map_err(io::Error::other)?;
    stream.write_all(&[&[length], directory.as_bytes()].concat())?;
    stream.flush()?;
    let mut length = [0; 2];
    stream.read_exact(&mut length)?;
    let mut reason = vec![0; usize::from(u16::from_le_bytes(length)).min(REASON_MAX)];
    stream.read_exact(&mut reason)?;
    let lines: Vec<_> = reason.split(|byte| *byte == b'\n').map(haul_proto::path::escape).collect();
    if reason.is_empty() { Ok(()) } else { Err(AuthError::Refusal(lines.join("\n"))) }
}

/// Runs the server's part, up to the name of the directory. Returns the member of `known` that admits the client, and
/// the requested directory. `own` is the server's key. Returns `None` for a client without a valid proof, which
/// receives no data.
pub(super) fn as_server<'k>(
    connection: &mut ServerConnection,
    socket: &mut PreauthSocket<'_>,
    own: Option<&PrivateKey>,
    known: impl Iterator<Item = &'k KnownClient>,
) -> io::Result<Option<(&'k KnownClient, String)>> {
    finish_handshake(connection, socket)?;
    let exported = export(connection)?;
    let mut stream = Stream::new(connection, socket);
    let mut proof = vec![0];
    stream.read_exact(&mut proof)?;
    proof.resize(1 + ClientProof::rest_len(proof[0]).map_err(io::Error::other)?, 0);
    stream.read_exact(&mut proof[1..])?;
    let proof = ClientProof::decode(&proof).map_err(io::Error::other)?;
    // Checks all, so that the time does not reveal which one matched.
    let proven = known.filter(|known| is_client(known, &exported, &proof)).last();
    let Some((known, answer)) = proven.and_then(|known| Some((known, prove_server(known, own, &exported)?))) else {
        // A wrong proof ends with TLS's `close_notify`; a full server closes without it.
        stream.conn.send_close_notify();
        let _ = stream.flush();
        return Ok(None);
    };
    stream.write_all(&answer)?;
    stream.flush()?;
    stream.sock.allow(DIRECTORY_MAX + REASON_MAX);
    let mut length = [0];
    stream.read_exact(&mut length)?;
    let mut name = vec![0; usize::from(length[0])];
    stream.read_exact(&mut name)?;
    let name = decode_directory(&name).map_err(io::Error::other)?;
    Ok(Some((known, name.to_owned())))
}

/// Sends the server's answer: a welcome, or the reason to refuse.
pub(super) fn answer(
    connection: &mut ServerConnection,
    socket: &mut PreauthSocket<'_>,
    refusal: Option<&str>,
) -> io::Result<()> {
    let reason = refusal.unwrap_or_default().as_bytes();
    let reason = &reason[..reason.len().min(REASON_MAX)];
    let length = u16::try_from(reason.len()).map_err(io::Error::other)?;
    let mut stream = Stream::new(connection, socket);
    stream.write_all(&[&length.to_le_bytes()[..], reason].concat())?;
    if refusal.is_some() {
        stream.conn.send_close_notify();
    }
    stream.flush()
}

fn finish_handshake<S: SideData>(
    connection: &mut ConnectionCommon<S>,
    socket: &mut PreauthSocket<'_>,
) -> io::Result<()> {
    while connection.is_handshaking() {
        connection.complete_io(socket)?;
    }
    Ok(())
}

fn export<S: SideData>(connection: &ConnectionCommon<S>) -> io::Result<ExportedKey> {
    connection.export_keying_material([0; EXPORTED_LEN], EXPORTER_LABEL, Some(b"")).map_err(io::Error::other)
}

fn prove_client(pass: &ClientCredentials, exported: &ExportedKey) -> io::Result<ClientProof> {
    match pass {
        ClientCredentials::Secret(secret) => Ok(ClientProof::Secret(tag(secret, CLIENT_LABEL, exported))),
        ClientCredentials::Open => Ok(ClientProof::Secret(tag(&Secret::OPEN, CLIENT_LABEL, exported))),
        ClientCredentials::Keys { own, .. } => {
            let signature = own.sign(&authenticated_bytes(CLIENT_LABEL, exported))?;
            Ok(ClientProof::Key { key: *own.public()?.bytes(), signature })
        }
        ClientCredentials::Missing | ClientCredentials::Server(_) => {
            Err(io::Error::other("no secret or key was given"))
        }
    }
}

fn is_client(known: &KnownClient, exported: &ExportedKey, proof: &ClientProof) -> bool {
    match (known, proof) {
        (KnownClient::Secret(secret), ClientProof::Secret(tag)) => is_tag(secret, CLIENT_LABEL, exported, tag),
        (KnownClient::Anyone, ClientProof::Secret(tag)) => is_tag(&Secret::OPEN, CLIENT_LABEL, exported, tag),
        (KnownClient::Key(known), ClientProof::Key { key, signature }) => {
            known.bytes() == key && known.has_signed(&authenticated_bytes(CLIENT_LABEL, exported), signature)
        }
        _ => false,
    }
}

/// Returns the server's proof, by the client's secret or by the server's key. `None` if the server has no key.
fn prove_server(known: &KnownClient, own: Option<&PrivateKey>, exported: &ExportedKey) -> Option<Vec<u8>> {
    match known {
        KnownClient::Secret(secret) => Some(tag(secret, SERVER_LABEL, exported).to_vec()),
        KnownClient::Anyone => Some(tag(&Secret::OPEN, SERVER_LABEL, exported).to_vec()),
        KnownClient::Key(_) => Some(own?.sign(&authenticated_bytes(SERVER_LABEL, exported)).ok()?.to_vec()),
    }
}

fn is_the_server(pass: &ClientCredentials, exported: &ExportedKey, proof: &[u8]) -> bool {
    match pass {
        ClientCredentials::Secret(secret) => is_tag(secret, SERVER_LABEL, exported, proof),
        ClientCredentials::Open => is_tag(&Secret::OPEN, SERVER_LABEL, exported, proof),
        ClientCredentials::Keys { server, .. } => {
            server.has_signed(&authenticated_bytes(SERVER_LABEL, exported), proof)
        }
        ClientCredentials::Missing | ClientCredentials::Server(_) => false,
    }
}

fn tag(secret: &Secret, label: &[u8], exported: &ExportedKey) -> [u8; TAG_LEN] {
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret.bytes()), &authenticated_bytes(label, exported));
    let mut bytes = [0; TAG_LEN];
    bytes.copy_from_slice(tag.as_ref());
    bytes
}

fn is_tag(secret: &Secret, label: &[u8], exported: &ExportedKey, tag: &[u8]) -> bool {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.bytes());
    hmac::verify(&key, &authenticated_bytes(label, exported), tag).is_ok()
}

#[cfg(test)]
#[path = "auth_tests.rs"]
mod tests;
