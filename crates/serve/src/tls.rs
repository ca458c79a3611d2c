//! TLS 1.3 of client and server, with an unchecked raw public key instead of a certificate. The peer authenticates by a
//! proof over keying material that only these two ends can derive ([`crate::auth`]).

use std::io;
use std::sync::Arc;

use aws_lc_rs::signature::Ed25519KeyPair;
use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, aws_lc_rs as provider};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::server::AlwaysResolvesServerRawPublicKeys;
use rustls::sign::CertifiedKey;
use rustls::version::TLS13;
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, Error, PeerMisbehaved, ServerConfig, ServerConnection,
    SignatureScheme,
};

/// Server name that rustls requires; it is not sent.
const NOBODY: &str = "haul.invalid";

/// Returns the server's configuration for all its connections.
pub(super) fn server() -> io::Result<Arc<ServerConfig>> {
    let key = Ed25519KeyPair::generate().and_then(|key| key.to_pkcs8v1());
    let key = key.map_err(|_| io::Error::other("cannot generate a key"))?;
    let key = provider::sign::any_eddsa_type(&PrivatePkcs8KeyDer::from(key.as_ref())).map_err(io::Error::other)?;
    let public = key.public_key().ok_or_else(|| io::Error::other("the generated key has no public part"))?;
    let certified = CertifiedKey::new(vec![CertificateDer::from(public.to_vec())], key);
    let mut config = ServerConfig::builder_with_provider(suites())
        .with_protocol_versions(&[&TLS13])
        .map_err(io::Error::other)?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(AlwaysResolvesServerRawPublicKeys::new(Arc::new(certified))));
    // Every connection authenticates anew.
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}

/// Accepts a connection at the server.
pub(super) fn accept(config: &Arc<ServerConfig>) -> Result<ServerConnection, Error> {
    ServerConnection::new(Arc::clone(config))
}

/// Creates a connection at the client.
pub(super) fn connect() -> Result<ClientConnection, Error> {
    let provider = suites();
    let any_key = Arc::new(AnyKey(provider.signature_verification_algorithms));
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(any_key)
        .with_no_client_auth();
    config.resumption = Resumption::disabled();
    config.enable_sni = false;
    let nobody = ServerName::try_from(NOBODY).map_err(|_| Error::General("not a name".into()))?;
    ClientConnection::new(Arc::new(config), nobody)
}

fn suites() -> Arc<CryptoProvider> {
    Arc::new(provider::default_provider())
}

/// Accepts every key that the server can prove to own; authentication follows later.
#[derive(Debug)]
struct AnyKey(WebPkiSupportedAlgorithms);

impl ServerCertVerifier for AnyKey {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(PeerMisbehaved::SignedHandshakeWithUnadvertisedSigScheme.into())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        key: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let key = SubjectPublicKeyInfoDer::from(key.as_ref());
        rustls::crypto::verify_tls13_signature_with_raw_key(message, &key, signed, &self.0)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_schemes()
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}
