//! Arguments and what becomes of them.

use super::*;
use crate::args::parse::{Command, parse};

/// What this command line comes to.
pub fn plan_of(line: &str, terminal: bool) -> Result<Plan, UsageError> {
    match parse(line.split(' ').map(OsString::from).collect(), &|_| false)? {
        Command::Copy(values, operands) => plan(&values, &operands, terminal),
        other => panic!("{other:?}"),
    }
}

/// The same for a good one.
pub fn good(line: &str) -> Plan {
    plan_of(line, false).unwrap()
}

#[test]
fn without_options_the_engine_decides() {
    let plan = good("a b h:c");
    assert_eq!(plan.job.sources.len(), 2);
    assert_eq!(plan.job.target.path, PathBuf::from("c"));
    let options = plan.job.options;
    assert_eq!((options.streams, options.window_bytes, options.frame_bytes), (None, None, None));
    assert_eq!((options.rate_bytes_per_s, options.cpus.len()), (None, 0));
    assert_eq!((options.cipher, options.symlinks), (Cipher::Auto, Symlinks::Keep));
    assert!(!options.report_files && !options.force && !options.recursive && options.verify == Verify::Wire);
    assert!(plan.job.access.deploy);
    assert_eq!(plan.checksums, None);
}

#[test]
fn every_option_reaches_its_setting() {
    let plan = good(
        "-rfpA -@ ignore -s 16 -w 4m --congestion bbr -x 50m --cpus 16,0-2,1 --frame 1m --cipher chacha20-poly1305 --verify memory --checksums sums -i key \
         --ssh-port 2222 --ssh-option A=b --no-deploy -S s -T t h:a b",
    );
    let options = plan.job.options;
    assert!(options.recursive && options.force && options.preserve && options.make_directory);
    assert!(options.verify == Verify::Memory && options.report_files);
    assert_eq!((options.symlinks, options.cipher), (Symlinks::Ignore, Cipher::ChaCha20Poly1305));
    assert_eq!((options.streams, options.window_bytes, options.frame_bytes), (Some(16), Some(4 << 20), Some(1 << 20)));
    assert_eq!((options.rate_bytes_per_s, options.cpus), (Some(50 << 20), vec![0, 1, 2, 16]));
    assert_eq!(options.congestion.as_deref(), Some("bbr"));
    assert_eq!(good("--congestion auto a b").job.options.congestion, None);
    let access = plan.job.access;
    assert_eq!((access.port, access.identity, access.deploy), (Some(2222), Some("key".into()), false));
    assert_eq!((access.source_command.as_deref(), access.target_command.as_deref()), (Some("s"), Some("t")));
    assert_eq!(access.ssh_options, ["A=b"]);
    assert_eq!(plan.checksums, Some("sums".into()));
    let direct = |line| (good(line).job.options.direct_source, good(line).job.options.direct_target);
    assert_eq!(direct("-u s a b"), (DirectIo::Always, DirectIo::Auto));
    assert_eq!(direct("-ut a b"), (DirectIo::Auto, DirectIo::Always));
    assert_eq!(direct("-u st a b"), (DirectIo::Always, DirectIo::Always));
    assert_eq!(direct("--unbuffered off a b"), (DirectIo::Never, DirectIo::Never));
    assert_eq!(direct("a b"), (DirectIo::Auto, DirectIo::Auto));
    assert_eq!(good("--cache drop a b").job.options.cache, CacheUse::Drop);
    assert_eq!(good("a b").job.options.cache, CacheUse::Auto);
    assert_eq!(good("--no-encrypt a b").job.options.cipher, Cipher::AuthenticateOnly);
}

#[test]
fn compression_is_a_word_or_a_level() {
    let policy = |line| good(line).job.options.compression;
    for line in ["a b", "-c a b", "-c auto a b", "a b -rc"] {
        assert_eq!(policy(line), Policy::Auto, "{line}");
    }
    for line in ["-c off a b", "-c 0 a b", "--compress=off a b"] {
        assert_eq!(policy(line), Policy::Off, "{line}");
    }
    assert_eq!(policy("-c lz4 a b"), Policy::Always(Method::Lz4));
    assert_eq!(policy("-c zstd a b"), Policy::Always(Method::Zstd(3)));
    assert_eq!([policy("-rc1 a b"), policy("-c 19 a b")], [1, 19].map(|level| Policy::Always(Method::Zstd(level))));
    assert_eq!(good("-c run7 b").job.sources.len(), 1, "what it does not know is an operand");
}

#[test]
fn the_display_follows_the_options_and_the_terminal() {
    let mode = |line, terminal| plan_of(line, terminal).unwrap().display.mode;
    assert_eq!(mode("a b", true), Mode::Bar);
    assert_eq!(mode("a b", false), Mode::Plain);
    assert_eq!(mode("-P 2 a b", true), Mode::BbcpLines);
    assert_eq!(mode("--json -P 2 a b", true), Mode::Json);
    assert_eq!(mode("--quiet a b", true), Mode::Quiet);
    assert_eq!(good("-P 2 a b").job.options.progress_every, Duration::from_secs(2));
    assert_eq!(good("--json a b").job.options.progress_every, JSON_PROGRESS_EVERY);
    assert!(good("--json a b").job.options.report_files);
}

#[test]
fn bad_values_name_the_option_and_the_remedy() {
    insta::assert_snapshot!(
        ["-s 0 a b", "-s x a b", "--streams 257 a b", "-w 1kb a b", "-w 1 a b", "-x 1023 a b", "--cpus 0-1024 a b", "--cpus 3-1 a b", "--cpus 1,,2 a b", "--congestion b/r a b", "--frame 300k a b", "--frame 2m a b",
         "-@ folow a b", "-u source a b", "--cache both a b", "--cipher aes a b", "--cipher auto --no-encrypt a b", "--verify wire a b", "--verify=disk --fsync=none a b", "-P 0 a b",
         "-c20 a b", "-cmax a b", "--quiet -P 1 a b", "--quiet -v a b", "--checksums - --json a b", "--ssh-port 0 a b", "h:a g:b c",
         "h:a b c", "--checksums= a b", "-S= a b", "--ssh-option= a b"]
            .map(|line| format!("$ haul {line}\n{}", plan_of(line, false).unwrap_err()))
            .join("\n\n"),
        @r#"
        $ haul -s 0 a b
        --streams 0: needs a whole number from 1 to 256

        $ haul -s x a b
        --streams x: needs a whole number from 1 to 256

        $ haul --streams 257 a b
        --streams 257: needs a whole number from 1 to 256

        $ haul -w 1kb a b
        --windowsz 1kb: needs a size: a whole number, with k, m or g for powers of 1024 (512k, 4m)

        $ haul -w 1 a b
        --windowsz 1: needs a size from 4k to 1g

        $ haul -x 1023 a b
        --xfrrate 1023: needs a size from 1k to 1024g, in bytes a second

        $ haul --cpus 0-1024 a b
        --cpus 0-1024: needs numbers below 1024 and ranges of them, such as 0-7,16

        $ haul --cpus 3-1 a b
        --cpus 3-1: needs numbers below 1024 and ranges of them, such as 0-7,16

        $ haul --cpus 1,,2 a b
        --cpus 1,,2: needs numbers below 1024 and ranges of them, such as 0-7,16

        $ haul --congestion b/r a b
        --congestion b/r: not a name of a congestion control
        one of those in /proc/sys/net/ipv4/tcp_available_congestion_control, such as bbr or cubic

        $ haul --frame 300k a b
        --frame 300k: needs a size of 256k, 512k or 1m

        $ haul --frame 2m a b
        --frame 2m: needs a size of 256k, 512k or 1m

        $ haul -@ folow a b
        --symlinks folow: not one of keep, follow, ignore
        did you mean --symlinks follow?

        $ haul -u source a b
        --unbuffered source: not one of s, t, st, off

        $ haul --cache both a b
        --cache both: not one of keep, drop

        $ haul --cipher aes a b
        --cipher aes: not one of auto, aes-256-gcm, aes-128-gcm, chacha20-poly1305

        $ haul --cipher auto --no-encrypt a b
        --cipher and --no-encrypt contradict each other
        leave one of them out

        $ haul --verify wire a b
        --verify wire: not one of memory, disk

        $ haul --verify=disk --fsync=none a b
        --verify disk and --fsync none contradict each other
        leave one of them out

        $ haul -P 0 a b
        --progress 0: needs a whole number from 1 to 86400

        $ haul -c20 a b
        --compress 20: needs a whole number from 0 to 19

        $ haul -cmax a b
        --compress max: not one of auto, off, lz4, zstd

        $ haul --quiet -P 1 a b
        --quiet and --progress contradict each other
        leave one of them out

        $ haul --quiet -v a b
        --quiet and --verbose contradict each other
        leave one of them out

        $ haul --checksums - --json a b
        --checksums - and --json both want standard output
        give --checksums a file

        $ haul --ssh-port 0 a b
        --ssh-port 0: needs a whole number from 1 to 65535

        $ haul h:a g:b c
        the sources are on two hosts: h and g
        copy from each host with a command of its own

        $ haul h:a b c
        the sources are on two hosts: h and this machine
        copy from each host with a command of its own

        $ haul --checksums= a b
        --checksums: the name of the file is empty

        $ haul -S= a b
        -S: the command is empty
        for example -S 'ssh %I -l %U %H /opt/bin/haul'

        $ haul --ssh-option= a b
        --ssh-option : not an option of ssh
        write it as ssh's -o takes it: --ssh-option ConnectTimeout=10
        "#
    );
}

#[test]
fn both_ends_may_be_elsewhere_and_are_logged_in_to_in_turn_where_somebody_may_be_asked() {
    let plan = good("-r h:a h:b me@g:c");
    assert_eq!((plan.job.sources.len(), plan.job.access.in_turn), (2, false));
    assert_eq!(plan.job.target.host, Host::Remote { user: Some("me".into()), name: "g".into() });
    assert!(plan_of("h:a g:b", true).unwrap().job.access.in_turn);
}

#[test]
fn one_limit_of_retries_alone_stands_in_the_place_of_the_default() {
    let retries = |line| good(line).job.access.retries;
    let (minutes, any) = (Some(Duration::from_secs(600)), true);
    assert_eq!(retries("a h:b"), Retries { times: None, time: minutes, breaks: Some(5), from_the_start: false });
    assert_eq!(retries("--retries 3 a h:b"), Retries { times: Some(3), time: None, breaks: None, from_the_start: any });
    assert_eq!(
        retries("--retry-for 10m a h:b"),
        Retries { times: None, time: minutes, breaks: None, from_the_start: any }
    );
    let both = Retries { times: Some(0), time: minutes, breaks: None, from_the_start: any };
    assert_eq!(retries("--retries 0 --retry-for 600 a h:b"), both);
    assert_eq!(good("a h:b").job.access.silence, Duration::from_secs(13));
    assert_eq!(good("--silence 2m a h:b").job.access.silence, Duration::from_secs(120));
    for line in ["--retries -1 a b", "--retries x a b", "--retry-for 1y a b", "--retry-for 31d a b", "--silence 2s a b"]
    {
        let error = plan_of(line, false).unwrap_err().to_string();
        assert!(error.contains(line.split(' ').nth(1).unwrap()), "{error}");
    }
}
