//! Which of several places has its way.

use super::*;
use crate::args::parse::{Command, parse as parse_words};
use crate::resolve::{Plan, hosts, plan};

/// The plan for a command line, with these files: the user's, the system's.
fn planned(line: &str, texts: &[&str]) -> Result<Plan, String> {
    let words = line.split(' ').map(OsString::from).collect();
    let Ok(Command::Copy(values, operands)) = parse_words(Dialect::Haul, words, &crate::args::local_files::PlainFiles)
    else {
        panic!("{line}")
    };
    let names = ["user's", "system's"];
    let load = |(text, name): (&&str, &str)| {
        let sections = parse(name, text).map_err(|error| error.to_string())?;
        Ok(Loaded { shown: name.into(), sections: Some(sections) })
    };
    let files = texts.iter().zip(names).map(load).collect::<Result<Vec<_>, String>>()?;
    let hosts = hosts(&values, &operands).unwrap();
    let values = with_files(values, &files, &hosts);
    plan(&values, &operands, false).map_err(|error| error.to_string())
}

fn good(line: &str, texts: &[&str]) -> Plan {
    planned(line, texts).unwrap()
}

const FILE: &str = r#"
streams = 2
[host."db*"]
streams = 3
[host."db1*"]
streams = 4
[host.db1]
streams = 5
"#;

#[test]
fn the_most_specific_section_takes_precedence() {
    let streams = |line| good(line, &[FILE]).copy.options.streams.count;
    assert_eq!(streams("a b"), Some(2));
    assert_eq!(streams("a other:b"), Some(2));
    assert_eq!(streams("a db2:b"), Some(3));
    assert_eq!(streams("a db12:b"), Some(4));
    assert_eq!(streams("ann@DB1:a b"), Some(5));
    assert_eq!(streams("--dirbase db1:/base a b"), Some(5));
    assert_eq!(streams("a ./db1:b"), Some(2));
}

#[test]
fn the_command_line_precedes_the_users_file_and_the_systems() {
    let streams = |line| good(line, &["streams = 2", "streams = 3\n[host.db1]\nstreams = 4\ncpus = 7"]).copy.options;
    assert_eq!(streams("-s 9 a db1:b").streams.count, Some(9));
    assert_eq!(streams("a db1:b").streams.count, Some(2));
    assert_eq!(streams("a db1:b").cpus, [7]);
    assert_eq!(streams("--streams=default a db1:b").streams.count, None);
    assert_eq!(streams("-s 3 -s=default -s 7 a b").streams.count, Some(7));
    assert_eq!(streams("-s 3 --streams=default a b").streams.count, None);
}

#[test]
fn a_files_flag_can_be_revoked() {
    let file = [
        "preserve = true\nno-encrypt = true\nssh-option = \"A=b\"\n[host.db1]\npreserve = false\nno-encrypt = \"default\"",
    ];
    let of = |line| {
        let copy = good(line, &file).copy;
        (
            copy.options.metadata.rights.any(),
            copy.options.streams.cipher == haul_base::copy::spec::Cipher::AuthenticateOnly,
        )
    };
    assert_eq!(of("a b"), (true, true));
    assert_eq!(of("a db1:b"), (false, false));
    assert_eq!(of("--preserve=default --no-encrypt=default a b"), (false, false));
    assert_eq!(of("--preserve=default a b"), (false, true));
    assert_eq!(of("-p a db1:b"), (true, false));
    assert_eq!(good("--ssh-option=default a b", &file).copy.access.login.ssh_options, Vec::<String>::new());
}

#[test]
fn settings_in_conflict_with_precedent_ones_are_ignored() {
    let file =
        ["xfrrate = \"1m\"\norder = true\ncipher = \"aes-128-gcm\"\nverify = \"disk\"\nverbose = 1\nport = 5000"];
    let plan = good("--bwlimit 500 -s 4 --no-encrypt -y none --quiet --callback 10.0.0.1:9 a b", &file);
    assert_eq!(plan.copy.options.streams.rate_bytes_per_s, Some(500 << 10));
    assert_eq!(plan.copy.options.streams.count, Some(4));
    assert_eq!(plan.copy.options.streams.network.ports, None);
    assert_eq!(plan.display.verbosity, 0);
    // What can, stays.
    let plan = good("-y data a b", &file);
    assert_eq!(plan.copy.options.integrity.verify, haul_base::copy::spec::Verify::Disk);
}

#[test]
fn options_of_ssh_add_up_and_the_most_particular_is_first() {
    let file = ["ssh-option = \"A=1\"\n[host.db1]\nssh-option = [\"A=2\", \"B=2\"]", "ssh-option = \"A=3\""];
    let options = |line| good(line, &file).copy.access.login.ssh_options;
    assert_eq!(options("--ssh-option A=0 a db1:b"), ["A=0", "A=2", "B=2", "A=1", "A=3"]);
    assert_eq!(options("--ssh-option=default --ssh-option A=0 a db1:b"), ["A=0"]);
}

#[test]
fn each_of_two_hosts_has_its_own_login_and_the_targets_section_decides_the_rest() {
    let file = [r#"
ssh-port = 22
[host.a]
ssh-port = 2201
idfile = "a.key"
source-command = "s-a"
target-command = "t-a"
streams = 3
no-deploy = true
[host.b]
ssh-port = 2202
source-command = "s-b"
target-command = "t-b"
streams = 4
[host."*"]
cpus = 1
"#];
    let access = good("a:x b:y", &file).copy.access;
    assert_eq!((access.login.port, access.login.deploy), (Some(2201), false));
    assert_eq!(access.login.identity, Some("a.key".into()));
    assert_eq!((access.source_command.as_deref(), access.target_command.as_deref()), (Some("s-a"), Some("t-b")));
    let target = access.of_target();
    assert_eq!((target.login.port, target.login.identity, target.login.deploy), (Some(2202), None, true));
    assert_eq!(target.target_command.as_deref(), Some("t-b"));
    assert_eq!(good("a:x b:y", &file).copy.options.streams.count, Some(4));
    assert_eq!(good("b:x a:y", &file).copy.options.streams.count, Some(3));
    assert_eq!(good("x b:y", &file).copy.access.login.port, Some(2202));
    assert_eq!(good("a:x y", &file).copy.access.login.port, Some(2201));
    let typed = good("--ssh-port 9 a:x b:y", &file).copy.access;
    assert_eq!((typed.login.port, typed.of_target().login.port), (Some(9), Some(9)));
}

#[test]
fn a_directory_for_the_executable_is_the_hosts_own() {
    let file = ["[host.a]\nremote-dir = \"/scratch/ann\"\n[host.b]\nremote-dir = \"~/big disk\""];
    let access = good("a:x b:y", &file).copy.access;
    assert_eq!(access.login.remote_dir, Some("/scratch/ann".into()));
    assert_eq!(access.of_target().login.remote_dir, Some("~/big disk".into()));
    for wrong in ["scratch", "~ann/x", "/a\u{1}b"] {
        let error = planned(&format!("--remote-dir={wrong} a b:y"), &[]).err().unwrap();
        assert!(error.contains("must be an absolute path, or begin with ~/"), "{error}");
    }
}

#[test]
fn rsync_like_options_precede_a_file() {
    let file = ["ssh-port = 2222\nidfile = \"file.key\"\nssh-option = \"A=1\""];
    let words = ["--rsh", "ssh -p 9 -o A=0", "a", "b:c"].map(OsString::from).to_vec();
    let Ok(Command::Copy(values, operands)) = parse_words(Dialect::Haul, words, &crate::args::local_files::PlainFiles)
    else {
        panic!()
    };
    let files = [Loaded { shown: "user's".into(), sections: Some(parse("user's", file[0]).unwrap()) }];
    let hosts = hosts(&values, &operands).unwrap();
    let access = plan(&with_files(values, &files, &hosts), &operands, false).unwrap().copy.access;
    assert_eq!((access.login.port, access.login.identity), (Some(9), Some("file.key".into())));
    assert_eq!(access.login.ssh_options, ["A=0", "A=1"]);
}

#[test]
fn settings_from_a_file_cause_no_remarks() {
    assert_eq!(good("a h:b", &["reverse = true\nnodns = true\nprogress = 22"]).notes, Vec::<String>::new());
    assert_eq!(good("--buffsz 4m a h:b", &["nodns = true"]).notes.len(), 1);
}
