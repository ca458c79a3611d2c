//! Logs in to the lab's own servers with the system's ssh.

use std::fs;
use std::net::IpAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use haul_lab::{Finished, Netns, Options, Sshd, run_with_timeout};

const TIMEOUT: Duration = Duration::from_secs(20);

fn at(host: &Sshd, remote: &[&str]) -> Finished {
    run_with_timeout(host.ssh_command(remote), TIMEOUT).expect("ssh starts")
}

#[test]
fn commands_run_with_the_home_path_and_environment_asked_for() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let home = home.path().canonicalize().expect("it exists");
    fs::write(home.join(".bashrc"), "echo welcome\n").expect("written");
    let options = Options {
        home: Some(home.clone()),
        path: Some("/nowhere:/usr/bin:/bin".into()),
        environment: vec![("GREETING".to_owned(), "say \"hello\" to a\\b".to_owned())],
        ..Options::default()
    };
    let host = Sshd::start(options).expect("sshd starts");
    let finished = at(&host, &["pwd; echo $HOME; echo $PATH; echo \"$GREETING\"; echo ${BASH_ENV-unset}; exit 9"]);
    let home = home.display();
    let expected = format!("welcome\n{home}\n{home}\n/nowhere:/usr/bin:/bin\nsay \"hello\" to a\\b\nunset\n");
    assert_eq!(finished.stdout_text(), expected, "{}", finished.stderr_text());
    assert_eq!(finished.code(), Some(9));
}

#[test]
fn the_options_for_haul_suffice_for_ssh() {
    let host = Sshd::start(Options::default()).expect("sshd starts");
    let mut ssh = std::process::Command::new("ssh");
    ssh.args(["-F", "/dev/null", "-p", &host.port().to_string(), "-i"]).arg(host.identity());
    for option in host.ssh_options() {
        ssh.args(["-o", &option]);
    }
    ssh.args([&host.host(), "echo here"]);
    let finished = run_with_timeout(ssh, TIMEOUT).expect("ssh starts");
    assert_eq!(finished.stdout_text(), "here\n", "{}", finished.stderr_text());
    assert_eq!(host.haul_args().len(), 4 + 2 * host.ssh_options().len());
    assert_eq!(host.location(Path::new("/x y")), "127.0.0.1:/x y");
}

#[test]
fn sessions_are_counted_and_ended_with_the_server() {
    let host = Sshd::start(Options::default()).expect("sshd starts");
    let before_s = host.cpu_s();
    let script = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; sleep 66 >/dev/null 2>&1 </dev/null & echo $!";
    let finished = at(&host, &[script]);
    let stray: u32 = finished.stdout_text().trim().parse().expect("a process id");
    assert!(host.cpu_s() - before_s > 0.05, "{} s", host.cpu_s() - before_s);
    let (server, directory) = (host.pid(), host.directory().to_owned());
    assert!(Path::new(&format!("/proc/{stray}")).exists() && !host.session_pids().contains(&server));
    drop(host);
    assert!(!Path::new(&format!("/proc/{server}")).exists() && !directory.exists());
    if rustix::process::geteuid().is_root() {
        assert!(is_gone(stray), "an orphan of a session outlived its server");
    }
}

#[test]
fn a_server_in_a_namespace_is_reached_from_its_neighbour_only() {
    if !Netns::available() {
        eprintln!("SKIPPED: network namespaces need root");
        return;
    }
    let (near, far) = (Netns::create().expect("a namespace"), Netns::create().expect("a namespace"));
    near.connect(&far, "10.98.0.1/24", "10.98.0.2/24").expect("a cable");
    let address: IpAddr = "10.98.0.2".parse().expect("an address");
    let host = Sshd::start(Options { address, netns: Some(&far), ..Options::default() }).expect("sshd starts");
    let command = near.enclose(&host.ssh_command(["ip -brief address show veth0"]));
    let finished = run_with_timeout(command, TIMEOUT).expect("ssh starts");
    assert!(finished.stdout_text().contains("10.98.0.2/24"), "{}", finished.stderr_text());
}

#[test]
fn a_wrong_configuration_is_reported_with_the_servers_words() {
    let options = Options { extra_config: "NoSuchKeyword yes".to_owned(), ..Options::default() };
    let error = Sshd::start(options).expect_err("sshd refuses it");
    assert!(format!("{error:#}").contains("NoSuchKeyword"), "{error:#}");
}

fn is_gone(pid: u32) -> bool {
    let deadline = Instant::now() + Duration::from_secs(5);
    let path = format!("/proc/{pid}/stat");
    let runs = || fs::read_to_string(&path).is_ok_and(|stat| !stat.contains(") Z "));
    while runs() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(10));
    }
    !runs()
}
