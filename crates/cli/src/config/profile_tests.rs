//! What a file may say, and what is said of one that may not.

use super::*;

/// What was read, a line for each setting.
fn said(text: &str) -> Result<Vec<String>, String> {
    let sections = parse("FILE", text).map_err(|error| error.to_string())?;
    let shown = |setting: &ProfileSetting| {
        let arguments =
            setting.arguments.iter().map(|one| one.as_ref().map(|text| text.to_string_lossy().into_owned()));
        let host = setting.place.host.as_deref().unwrap_or("all");
        format!("{host} {} {} {:?}", setting.place.line, setting.row.id, arguments.collect::<Vec<_>>())
    };
    Ok(sections.iter().flat_map(|section| section.settings.iter().map(shown)).collect())
}

#[test]
fn options_have_their_long_names_and_the_values_of_the_command_line() {
    let text = r#"
# A comment.
xfrrate = "50m"
streams = 8
preserve = true
no-deploy = false
verbose = 2
fsync = "data"
ipv4 = true
compress = 3
cipher = "default"
ssh-option = ["A=b", "C=d"]
buffers = "4"

[host."db*"]
streams = 4

[host.db1]
ssh-port = 2222
"#;
    let expected = [
        r#"db1 19 ssh-port [Some("2222")]"#,
        r#"db* 16 streams [Some("4")]"#,
        r#"all 3 xfrrate [Some("50m")]"#,
        r#"all 4 streams [Some("8")]"#,
        "all 5 preserve [None]",
        "all 6 no-deploy []",
        "all 7 verbose [None, None]",
        r#"all 8 fsync [Some("data")]"#,
        "all 9 ipv4 [None]",
        r#"all 10 compress [Some("3")]"#,
        "all 11 cipher []",
        r#"all 12 ssh-option [Some("A=b"), Some("C=d")]"#,
        r#"all 13 buffers [Some("4")]"#,
    ];
    assert_eq!(said(text).unwrap(), expected);
}

#[test]
fn of_two_sections_the_more_particular_is_first_and_then_the_later() {
    let text = "[host.\"d*\"]\ncpus=\"1\"\n[host.\"*\"]\ncpus=\"2\"\n[host.\"*1\"]\ncpus=\"3\"\n[host.d]\ncpus=\"4\"\n";
    let hosts: Vec<_> = parse("FILE", text).unwrap().iter().map(|section| section.host.clone()).collect();
    let hosts: Vec<_> = hosts.iter().map(|host| host.as_deref()).collect();
    assert_eq!(hosts, [Some("d"), Some("*1"), Some("d*"), Some("*"), None]);
}

#[test]
fn mistakes_are_named_with_their_line() {
    let all = [
        "\nstreems = 4",
        "hots = 4",
        "x = 4",
        "force = true",
        "\"no\\u001bsuch\" = 1",
        "streams = 999",
        "streams = 1_0",
        "streams = 8.5",
        "streams = [8]",
        "preserve = \"yes\"",
        "preserve = 1",
        "verbose = 4",
        "cipher = \"aes256-gcm\"",
        "xfrrate = \"fast\"",
        "ssh-option = [true]",
        "callback = \"x:y\"",
        "streams = 4\nstreams = 5",
        "streams =",
        "-s 4\n-w 8m",
        "host = 3",
        "[hosts.db1]\nstreams = 4",
        "[host]\ndb1 = 4",
        "[host.\"ann@db1\"]\nstreams = 4",
        "[host.db1]\nstreams = 4\n[host.db1]\nstreams = 5",
        "[host.db1]\nstreems = 4",
        "xfrrate = \"1m\"\n\nbwlimit = \"1m\"",
    ];
    let said = all.map(|text| {
        let error = said(text).unwrap_err();
        format!("{}\n    {}", text.replace('\n', "\\n"), error.replace('\n', "\n    "))
    });
    insta::assert_snapshot!(said.join("\n"), @r#"
    \nstreems = 4
        FILE:2: unknown option streems
        hint: did you mean: streams
    hots = 4
        FILE:1: unknown option hots
        hint: did you mean: [host."NAME"]
    x = 4
        FILE:1: unknown option x
        hint: use long names without dashes: haul help config
    force = true
        FILE:1: force: only valid on the command line
        hint: haul help config lists these options
    "no\u001bsuch" = 1
        FILE:1: unknown option no\u{1b}such
        hint: use long names without dashes: haul help config
    streams = 999
        FILE:1: --streams 999: must be a whole number from 1 to 256
    streams = 1_0
        FILE:1: --streams 1_0: must be a whole number from 1 to 256
    streams = 8.5
        FILE:1: streams: must be text in quotes or a number
    streams = [8]
        FILE:1: streams: must be text in quotes or a number
    preserve = "yes"
        FILE:1: preserve: must be true or false
    preserve = 1
        FILE:1: preserve: must be true or false
    verbose = 4
        FILE:1: verbose: must be true, false, or a number up to 3
    cipher = "aes256-gcm"
        FILE:1: --cipher aes256-gcm: must be auto, aes-256-gcm, aes-128-gcm or chacha20-poly1305
        hint: did you mean: --cipher aes-256-gcm
    xfrrate = "fast"
        FILE:1: --xfrrate fast: must be a rate, for example 50m (MiB/s), 50MB/s or 400Mbit/s
    ssh-option = [true]
        FILE:1: ssh-option: must be text in quotes, or several: ["...", "..."]
    callback = "x:y"
        FILE:1: --callback x:y: not an address or a name
        hint: for example --callback 10.10.1.155, 10.10.1.155:5031 or [fd00::1]:5031
    streams = 4\nstreams = 5
        FILE:2: duplicate key
        hint: write OPTION = VALUE, with text in quotes: haul help config
    streams =
        FILE:1: string values must be quoted, expected literal string
        hint: write OPTION = VALUE, with text in quotes: haul help config
    -s 4\n-w 8m
        FILE:1: key with no value, expected `=`
        hint: haul's files have lines such as streams = 8; bbcp's are read under the name bbcp
    host = 3
        FILE:1: host is not an option
        hint: write [host."db*"]
    [hosts.db1]\nstreams = 4
        FILE:1: unknown option hosts
        hint: did you mean: [host."NAME"]
    [host]\ndb1 = 4
        FILE:2: host.db1 is not an option
        hint: write [host."db*"], and its options on lines of their own
    [host."ann@db1"]\nstreams = 4
        FILE:1: [host."ann@db1"]: the name of a host contains no '@'
        hint: a pattern is a host name with * and ?, without a user
    [host.db1]\nstreams = 4\n[host.db1]\nstreams = 5
        FILE:3: duplicate key
        hint: write OPTION = VALUE, with text in quotes: haul help config
    [host.db1]\nstreems = 4
        FILE:2: unknown option streems
        hint: did you mean: streams
    xfrrate = "1m"\n\nbwlimit = "1m"
        FILE:3: --xfrrate cannot be used with --bwlimit
    "#);
}

#[test]
fn no_content_of_a_file_is_too_much() {
    let deep = format!("a = {}1{}", "[".repeat(50_000), "]".repeat(50_000));
    assert!(said(&deep).is_err());
    let wide: String = (0..20_000).map(|at| format!("[host.h{at}]\n")).collect();
    assert_eq!(said(&wide).unwrap(), Vec::<String>::new());
}

#[test]
fn these_options_are_valid_in_a_file() {
    let ids: Vec<_> = COPY.iter().filter(|row| !row.of_one_copy).map(|row| row.id).collect();
    insta::assert_snapshot!(ids.join(" "), @"recursive preserve perms owner group no-times omit-dir-times omit-link-times mode mkdir symlinks readable no-empty-dirs one-file-system order refuse-growing delta inplace keep journal-dir no-resume no-keep nofschk timelimit archive hard-links xattrs acls sparse numeric-ids usermap groupmap chown devices specials modify-window max-delete items streams congestion windowsz forced-window qos xfrrate bwlimit duration cpus frame buffsz buffers unbuffered cache stripe cipher no-encrypt compress idfile ssh-config ssh-port ssh-option no-ssh-reuse source-command target-command callback bind ipv4 ipv6 reverse data-ports paths transport secret-file no-deploy worker-binary remote-dir retries retry-for silence verify digest fsync progress json notify quiet verbose metrics bits logfile ptime error-check gross truncate nodns");
}
