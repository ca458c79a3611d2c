use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use super::*;
use crate::dial::has_ended;
use crate::tls;

const LIMIT: Duration = Duration::from_secs(10);

fn secret(byte: u8) -> Secret {
    Secret::of_bytes([byte; 16])
}

fn key(byte: u8) -> PrivateKey {
    PrivateKey::parse(&format!("haul-private-{}", format!("{byte:02x}").repeat(32))).unwrap()
}

fn keys(own: u8, server: u8) -> ClientCredentials {
    ClientCredentials::Keys { own: key(own), server: key(server).public().unwrap() }
}

fn is_hang_up(error: &AuthError) -> bool {
    matches!(error, AuthError::Connection(error) if error.kind() == io::ErrorKind::UnexpectedEof)
}

/// Connects a client to a server with key 7 that admits `known`; returns both results.
fn meet(
    pass: &ClientCredentials,
    known: &[KnownClient],
    wanted: &str,
) -> (Result<(), AuthError>, io::Result<Option<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::scope(|scope| {
        let serving = scope.spawn(|| {
            let (socket, _) = listener.accept().unwrap();
            let mut connection = tls::accept(&tls::server().unwrap()).unwrap();
            let mut bounded = PreauthSocket::new(&socket, LIMIT, haul_proto::wire::serve::UNPROVEN_MAX);
            let proven = as_server(&mut connection, &mut bounded, Some(&key(7)), known.iter())?;
            let Some((_, name)) = proven else { return Ok(None) };
            answer(&mut connection, &mut bounded, (name == "busy").then_some("too many\n\u{1b}come later"))?;
            Ok(Some(name))
        });
        let socket = TcpStream::connect(address).unwrap();
        let mut connection = tls::connect().unwrap();
        let client = as_client(&mut connection, &mut PreauthSocket::new(&socket, LIMIT, 1 << 16), pass, wanted);
        let client = client.inspect_err(|error| {
            assert!(!is_hang_up(error) || has_ended(&mut connection), "a wrong proof ends with close_notify");
        });
        drop((connection, socket));
        (client, serving.join().unwrap())
    })
}

#[test]
fn an_open_server_accepts_only_explicitly_open_clients() {
    let (client, server) = meet(&ClientCredentials::Open, &[KnownClient::Anyone], "pub");
    assert!(client.is_ok() && server.unwrap().as_deref() == Some("pub"));
    let (client, server) = meet(&ClientCredentials::Open, &[KnownClient::Secret(secret(1))], "pub");
    assert!(client.is_err() && server.unwrap().is_none());
    let (client, server) = meet(&ClientCredentials::Secret(secret(1)), &[KnownClient::Anyone], "pub");
    assert!(client.is_err() && server.unwrap().is_none());
}

#[test]
fn clients_with_a_secret_or_key_get_in_or_learn_the_reason() {
    let known =
        [KnownClient::Secret(secret(1)), KnownClient::Secret(secret(2)), KnownClient::Key(key(3).public().unwrap())];
    for pass in [ClientCredentials::Secret(secret(2)), keys(3, 7)] {
        let (client, server) = meet(&pass, &known, "incoming");
        assert!(client.is_ok() && server.unwrap().as_deref() == Some("incoming"));
        let (client, _) = meet(&pass, &known, "busy");
        let refusal = client.unwrap_err();
        assert!(matches!(&refusal, AuthError::Refusal(reason) if reason == "too many\n\\u{1b}come later"), "{refusal}");
    }
}

#[test]
fn unknown_clients_learn_nothing() {
    let known =
        [KnownClient::Secret(secret(1)), KnownClient::Secret(secret(2)), KnownClient::Key(key(3).public().unwrap())];
    for pass in [ClientCredentials::Secret(secret(3)), keys(4, 7)] {
        let (client, server) = meet(&pass, &known, "");
        let client = client.unwrap_err();
        assert!(is_hang_up(&client), "{client}");
        assert!(server.unwrap().is_none());
    }
}

#[test]
fn a_server_with_another_key_learns_no_directory() {
    let (client, server) = meet(&keys(3, 8), &[KnownClient::Key(key(3).public().unwrap())], "incoming");
    assert!(matches!(client, Err(AuthError::ServerProof)));
    assert!(server.is_err());
}

#[test]
fn a_proof_is_invalid_elsewhere() {
    let (here, there) = ([1; 32], [2; 32]);
    let others = [keys(2, 7), ClientCredentials::Secret(secret(2))];
    for (pass, other) in [keys(1, 7), ClientCredentials::Secret(secret(1))].iter().zip(&others) {
        let known = |pass: &ClientCredentials| match pass {
            ClientCredentials::Keys { own, .. } => KnownClient::Key(own.public().unwrap()),
            ClientCredentials::Secret(secret) => KnownClient::Secret(secret.clone()),
            ClientCredentials::Open | ClientCredentials::Missing | ClientCredentials::Server(_) => unreachable!(),
        };
        let proof = prove_client(pass, &here).unwrap();
        assert!(is_client(&known(pass), &here, &proof));
        assert!(!is_client(&known(pass), &there, &proof), "another connection");
        assert!(!is_client(&known(other), &here, &proof), "another client");
        let answer = prove_server(&known(pass), Some(&key(7)), &here).unwrap();
        assert!(is_the_server(pass, &here, &answer));
        assert!(!is_the_server(pass, &there, &answer), "another connection");
        match proof {
            ClientProof::Secret(tag) => assert!(!is_the_server(pass, &here, &tag), "the other direction"),
            ClientProof::Key { signature, .. } => {
                let own_key = ClientCredentials::Keys { own: key(1), server: key(1).public().unwrap() };
                assert!(!is_the_server(&own_key, &here, &signature), "the other direction");
            }
        }
    }
}

#[test]
fn proofs_match_the_document() {
    let exported = std::array::from_fn(|i| u8::try_from(i).expect("below 32"));
    let (by_secret, by_key) = (ClientCredentials::Secret(secret(0x11)), keys(0x22, 0x33));
    let server = key(0x33);
    let known = KnownClient::Key(key(0x22).public().unwrap());
    let vectors = [
        ("client, secret 11...", prove_client(&by_secret, &exported).unwrap().encode()),
        ("server, secret 11...", prove_server(&KnownClient::Secret(secret(0x11)), None, &exported).unwrap()),
        ("client, private key 22...", prove_client(&by_key, &exported).unwrap().encode()),
        ("public key of the server's 33...", server.public().unwrap().bytes().to_vec()),
        ("server, private key 33...", prove_server(&known, Some(&server), &exported).unwrap()),
    ];
    haul_lab::check_vectors("serve", &vectors);
}
