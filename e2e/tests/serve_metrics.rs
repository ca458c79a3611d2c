//! `haul serve --metrics`: a scraper's view of the clients.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use haul_e2e::{Sandbox, ServedShare, eventually};

const LIMIT: Duration = Duration::from_secs(20);

fn free_address() -> String {
    let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    free.expect("a free port").to_string()
}

/// The response until the server closes the connection.
fn ask(address: &str, request: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    match stream.read_to_end(&mut answer) {
        Err(error) if error.kind() != ErrorKind::ConnectionReset => panic!("{error}"),
        _ => String::from_utf8(answer).unwrap(),
    }
}

fn scrape(address: &str) -> String {
    let answer = ask(address, "GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    assert!(head.contains(&format!("Content-Length: {}", body.len())), "{head}");
    body.to_owned()
}

fn value(text: &str, sample: &str) -> Option<f64> {
    text.lines().find_map(|line| line.strip_prefix(sample)?.trim().parse().ok())
}

#[test]
fn clients_are_counted_and_bad_requests_are_answered() {
    let sandbox = Sandbox::new();
    sandbox.file("data/a", "12345");
    sandbox.file("data/b", "678");
    let address = free_address();
    let server = ServedShare::start(&sandbox, &["--metrics", &address]);
    assert_eq!(value(&scrape(&address), "haul_serve_refused_total"), Some(0.0));
    sandbox.haul(["-r", "data", &server.line]).run().succeeds();
    sandbox.haul([&server.at("data/a"), "back"]).run().succeeds();
    let ended = r#"haul_serve_copies_total{directory="",result="complete"}"#;
    eventually("both are counted", || value(&scrape(&address), ended) == Some(2.0));
    let text = scrape(&address);
    for (sample, expected) in [
        (r#"haul_serve_clients{directory=""}"#, 0.0),
        (ended, 2.0),
        (r#"haul_serve_failed_entries_total{directory=""}"#, 0.0),
        (r#"haul_serve_bytes_total{directory="",direction="received"}"#, 8.0),
        (r#"haul_serve_bytes_total{directory="",direction="sent"}"#, 5.0),
        (r#"haul_serve_files_total{directory="",direction="received"}"#, 2.0),
    ] {
        assert_eq!(value(&text, sample), Some(expected), "{sample}\n{text}");
    }
    assert!(value(&text, r#"haul_serve_last_success_timestamp_seconds{directory=""}"#) > Some(1.7e9), "{text}");
    sandbox.file("shared/other/a/in-the-way", "");
    sandbox.file("other/a", "1");
    sandbox.haul(["-r", "other", &server.line]).run().ends(1);
    let failed = r#"haul_serve_copies_total{directory="",result="incomplete"}"#;
    eventually("the failure is counted", || value(&scrape(&address), failed) == Some(1.0));
    assert_eq!(value(&scrape(&address), r#"haul_serve_failed_entries_total{directory=""}"#), Some(1.0));
    for (request, status) in [
        ("GET / HTTP/1.1\r\n\r\n".to_owned(), "404"),
        ("POST /metrics HTTP/1.1\r\n\r\n".to_owned(), "405"),
        ("nonsense\r\n\r\n".to_owned(), "400"),
        // No more than the server reads: a reset could overtake the answer.
        ("a".repeat(4 << 10), "431"),
    ] {
        assert!(ask(&address, &request).starts_with(&format!("HTTP/1.1 {status} ")), "{status}");
    }
    check_with_promtool(&text);
    server.end().succeeds();
}

#[test]
fn a_copy_is_counted_while_it_runs_and_its_bottleneck_is_named() {
    const BYTES: u32 = 16 << 20;
    let sandbox = Sandbox::new();
    sandbox.big_file("shared/big", BYTES.into());
    let address = free_address();
    let server = ServedShare::start(&sandbox, &["--metrics", &address]);
    let sent = r#"haul_serve_bytes_total{directory="",direction="sent"}"#;
    let ended = r#"haul_serve_copies_total{directory="",result="complete"}"#;
    let mut running = sandbox.haul(["--xfrrate", "8m", &server.at("big"), "back"]).start();
    let mut seen = Vec::new();
    eventually("the job is counted", || {
        let text = scrape(&address);
        seen.extend(value(&text, sent).filter(|_| value(&text, ended) != Some(1.0)));
        value(&text, ended) == Some(1.0)
    });
    assert!(running.wait_up_to(LIMIT));
    let text = scrape(&address);
    seen.extend(value(&text, sent));
    assert!(seen.is_sorted(), "a counter decreases: {seen:?}");
    assert!(seen.iter().any(|bytes| (1.0..f64::from(BYTES)).contains(bytes)), "counted at the end alone: {seen:?}");
    assert_eq!(seen.last(), Some(&f64::from(BYTES)), "{text}");
    let limit = r#"haul_serve_last_job_bottleneck{directory="",limit="rate-limit"}"#;
    assert_eq!(value(&text, limit), Some(1.0), "{text}");
    check_with_promtool(&text);
    server.end().succeeds();
}

/// Where promtool is installed.
fn check_with_promtool(text: &str) {
    let started =
        Command::new("promtool").args(["check", "metrics"]).stdin(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let Ok(mut promtool) = started else { return println!("SKIPPED: promtool is not installed") };
    promtool.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = promtool.wait_with_output().unwrap();
    assert!(output.status.success(), "{}\n{text}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn silent_scrapers_stop_neither_clients_nor_other_scrapers() {
    let sandbox = Sandbox::new();
    sandbox.file("a", "1");
    let address = free_address();
    let server = ServedShare::start(&sandbox, &["--metrics", &address]);
    let silent: Vec<_> = (0..100).map(|_| TcpStream::connect(&address).unwrap()).collect();
    (&silent[0]).write_all(b"GET /met").unwrap();
    let begun = Instant::now();
    sandbox.haul(["a", &server.line]).run().succeeds();
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
    let begun = Instant::now();
    scrape(&address);
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
    let rebound = ask(&address, "GET /metrics HTTP/1.1\r\nHost: rebound.example\r\n\r\n");
    assert!(rebound.starts_with("HTTP/1.1 421 "), "{rebound}");
    server.end().succeeds();
}

#[test]
fn the_file_of_a_server_names_a_socket_and_an_occupied_one_is_refused() {
    let sandbox = Sandbox::new();
    sandbox.dir("data");
    sandbox.secret_file("secret", "0f".repeat(16));
    let socket = sandbox.path("m.sock");
    // A killed server leaves its socket.
    drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
    let file = format!("metrics = \"unix:{}\"\n[in]\npath = \"data\"\nsecrets = [\"secret\"]\n", socket.display());
    sandbox.file("serve.toml", &file);
    let server = ServedShare::standing(&sandbox, "serve.toml");
    let mut stream = UnixStream::connect(&socket).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nAccept: application/openmetrics-text\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("version=1.0.0") && answer.ends_with("# EOF\n"), "{answer}");
    let metrics = format!("unix:{}", socket.display());
    let second = sandbox.haul(["serve", "--bind", "127.0.0.1", "--metrics", &metrics, "data"]).run();
    second.ends(1).says(["--metrics unix:", "in use"]);
    server.end().succeeds();
    assert!(fs::symlink_metadata(&socket).is_err(), "the socket is left");
    sandbox.haul(["serve", "--metrics", "nowhere", "data"]).run().ends(2).says(["not an address"]);
}
