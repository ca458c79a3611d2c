//! Where data connections lead: to the host that was typed, and never to another service of this machine, whatever a
//! host says of its addresses.

use std::io;
use std::net::{IpAddr, TcpListener};
use std::time::Duration;

use haul_e2e::{FakeLink, FakeWorker, ProgramRun, Sandbox, hello};
use haul_proto::ids::EntryId;
use haul_proto::wire::address::LocalAddress;
use haul_proto::wire::control_channel::ControlChannel;
use haul_proto::wire::message::{SourceMessage, TargetMessage, TransferNeed};
use haul_proto::wire::report::{WorkerHello, WorkerMessage};
use haul_proto::wire::request::ControllerMessage;

/// The result of a push to a host with this Hello.
struct Outcome {
    run: ProgramRun,
    /// Whether the listener on this machine was connected to.
    is_reached: bool,
    /// The routes that the far end was given when it was its turn.
    routes: Vec<String>,
}

/// Pushes a file to `host`, played by this test: it sends this Hello and names the port of a listener on this machine.
fn push_to(host: &str, hello: &WorkerHello) -> Outcome {
    let sandbox = Sandbox::new();
    sandbox.file("source", "content");
    let service = TcpListener::bind("[::]:0").or_else(|_| TcpListener::bind("0.0.0.0:0")).expect("a port");
    service.set_nonblocking(true).expect("a socket");
    let port = service.local_addr().expect("an address").port();
    let fake = FakeWorker::new(&sandbox);
    let command = fake.command(env!("CARGO_BIN_EXE_haul-fake-worker"));
    let haul = sandbox.haul(["--target-command", &command, "--retries", "0", "source", &format!("{host}:/far/target")]);
    let running = haul.start();
    let mut link = fake.accept(Duration::from_secs(20)).expect("the controller starts its worker");
    let played = play(&mut link, hello, port);
    link.close();
    let run = ProgramRun::of(running);
    let routes = played.unwrap_or_else(|error| panic!("{error}\n{}", run.account()));
    Outcome { run, is_reached: service.accept().is_ok(), routes }
}

fn play(link: &mut FakeLink, hello: &WorkerHello, port: u16) -> io::Result<Vec<String>> {
    link.greet_with(hello)?;
    let copy = link.wait_for(|message| match message {
        ControllerMessage::Target(request) => Some(request.settings.number),
        _ => None,
    })?;
    link.report(&WorkerMessage::TargetReady { boot: [0x5a; 16], device: 1, inode: 2, new_tree: false })?;
    // The test can stop once the controller has no more routes: its request for a tunnel says so.
    let mut routes = Vec::new();
    let mut offered = false;
    let mut over = false;
    while !(over && offered) {
        let (channel, content) = link.next_frame()?;
        match channel {
            ControlChannel::Controller => match ControllerMessage::decode(&content).map_err(io::Error::other)? {
                ControllerMessage::Listen { .. } => link.report(&WorkerMessage::Listening { port })?,
                ControllerMessage::Connect { routes: given, .. } => {
                    routes = given.into_iter().map(|route| route.to).collect();
                    link.report(&WorkerMessage::CannotConnect { text: "no".into() })?;
                    over = true;
                }
                ControllerMessage::Tunnel { .. } => over = true,
                _ => {}
            },
            ControlChannel::Peer => {
                let message = SourceMessage::decode(&content, copy).map_err(io::Error::other)?;
                offered |= message == SourceMessage::OffersEnd;
            }
            ControlChannel::Stream(_) => {}
        }
    }
    link.send(
        ControlChannel::Peer,
        &TargetMessage::Want { first: EntryId(0), needs: vec![TransferNeed::Nothing] }.encode(copy),
    )?;
    link.report(&WorkerMessage::Finished(Box::default()))?;
    link.drain();
    Ok(routes)
}

/// Says that it has these addresses, and that ssh reached it at the first of them.
fn with(reached: &str, addresses: &[IpAddr]) -> WorkerHello {
    let local =
        |address: &IpAddr| LocalAddress { address: *address, prefix: 8, interface: "eth0".into(), mbit_per_s: 100_000 };
    let ssh_connection = Some(format!("192.0.2.1 40000 {reached} 22"));
    WorkerHello { ssh_connection, addresses: addresses.iter().map(local).collect(), ..hello() }
}

/// Addresses of this machine's own interfaces.
fn own_addresses() -> Vec<IpAddr> {
    let said = std::process::Command::new("hostname").arg("-I").output().map(|run| run.stdout).unwrap_or_default();
    String::from_utf8_lossy(&said).split_whitespace().filter_map(|word| word.parse().ok()).collect()
}

#[test]
fn a_host_that_claims_to_be_this_machine_is_not_believed() {
    let texts = ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1", "0.0.0.0", "::", "::127.0.0.1", "::ffff:0.0.0.0"];
    let mut addresses: Vec<IpAddr> = texts.iter().map(|text| text.parse().expect("an address")).collect();
    addresses.extend(own_addresses());
    for reached in ["127.0.0.1", "::1", "::ffff:127.0.0.1", "localhost", "0.0.0.0"] {
        let Outcome { run, is_reached, routes } = push_to("far", &with(reached, &addresses));
        assert!(!is_reached, "{reached}: a service of this machine was connected to\n{}", run.account());
        let is_address = |route: &String| route.parse::<std::net::SocketAddr>().is_ok();
        assert!(routes.iter().all(is_address), "{routes:?}");
        run.succeeds();
    }
}

#[test]
fn a_typed_loopback_address_means_this_machine() {
    for host in ["127.0.0.1", "localhost"] {
        let Outcome { run, is_reached, .. } = push_to(host, &with("127.0.0.1", &[]));
        assert!(is_reached, "{host}\n{}", run.account());
    }
}

/// The account controls a worker's claims about ssh's connection.
#[test]
fn no_ssh_connection_reaches_a_service_of_either_machine() {
    let far: IpAddr = "192.0.2.7".parse().expect("an address");
    let long = "9".repeat(4096);
    let words = [
        "127.0.0.1",
        "::1",
        "::ffff:127.0.0.1",
        "127.9.9.9",
        "0.0.0.0",
        "::",
        "192.0.2.7",
        "::ffff:192.0.2.7",
        "localhost",
        "224.0.0.1",
        "fe80::1",
        "fe80::1%lo",
        "169.254.1.1",
        "255.255.255.255",
        "\u{1b}[2J",
        &long,
    ];
    for word in words {
        let said = format!("{word} 40000 {word} 22");
        let hello = WorkerHello { ssh_connection: Some(said.clone()), ..with("", &[far]) };
        let Outcome { run, is_reached, routes } = push_to("far", &hello);
        assert!(!is_reached, "{said}: a service of this machine was connected to\n{}", run.account());
        for route in &routes {
            let to = route.parse::<std::net::SocketAddr>().expect("an address").ip().to_canonical();
            let leads_elsewhere = haul_proto::path_candidates::may_lead_elsewhere(&to) && to != far;
            assert!(leads_elsewhere, "{said}: {to} was offered");
        }
        run.succeeds();
    }
}
