//! Arguments and what becomes of them.

use haul_base::copy::spec::{
    CacheUse, CompressionMethod, CompressionPolicy, ModeOptions, OverwritePolicy, RightsOptions, Striping,
    StripingPolicy,
};
use haul_proto::mode_rules::ModeRule;
use haul_show::display::JSON_PROGRESS_EVERY;

use super::*;
use crate::args::parse::{Command, parse};

/// What this command line comes to.
pub fn plan_of(line: &str, terminal: bool) -> Result<Plan, UsageError> {
    plan_under(Dialect::Haul, line, terminal)
}

fn plan_under(dialect: Dialect, line: &str, terminal: bool) -> Result<Plan, UsageError> {
    match parse(dialect, line.split(' ').map(OsString::from).collect(), &crate::args::local_files::PlainFiles)? {
        Command::Copy(values, operands) => plan(&values, &operands, terminal),
        Command::Sync(values, operands) => sync(&values, &operands, terminal),
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
    assert_eq!(plan.copy.sources.len(), 2);
    assert_eq!(plan.copy.target.path, PathBuf::from("c"));
    let options = plan.copy.options;
    assert_eq!(
        (options.streams.count, options.streams.socket.window_bytes, options.streams.frame_bytes),
        (None, None, None)
    );
    assert_eq!((options.streams.rate_bytes_per_s, options.cpus.len()), (None, 0));
    assert_eq!((options.streams.cipher, options.source.symlinks), (Cipher::Auto, Symlinks::Keep));
    assert!(
        options.target.write.overwrite == OverwritePolicy::Report
            && !options.reports.files
            && !options.source.recursive
            && options.integrity.verify == Verify::Wire
    );
    assert!(plan.copy.access.login.deploy);
    assert_eq!(plan.checksums, None);
}

#[test]
fn every_option_reaches_its_setting() {
    let plan = good(
        "-r -f --preserve --mkdir --symlinks ignore -s 16 -w 4m --congestion bbr --xfrrate 50m --cpus 16,0-2,1 --frame 1m --cipher chacha20-poly1305 --verify memory --checksums sums -i key \
         --ssh-port 2222 --ssh-option A=b --no-ssh-reuse --no-deploy --source-command s --target-command t h:a b",
    );
    let options = plan.copy.options;
    assert!(
        options.source.recursive
            && options.target.write.overwrite == OverwritePolicy::Replace
            && options.metadata.rights == RightsOptions::ALL
            && options.target.directory.create
    );
    assert!(options.integrity.verify == Verify::Memory && options.reports.files);
    assert_eq!((options.source.symlinks, options.streams.cipher), (Symlinks::Ignore, Cipher::ChaCha20Poly1305));
    assert_eq!(
        (options.streams.count, options.streams.socket.window_bytes, options.streams.frame_bytes),
        (Some(16), Some(4 << 20), Some(1 << 20))
    );
    assert_eq!((options.streams.rate_bytes_per_s, options.cpus), (Some(50 << 20), vec![0, 1, 2, 16]));
    assert_eq!(options.streams.socket.congestion.as_deref(), Some("bbr"));
    assert_eq!(good("--congestion auto a b").copy.options.streams.socket.congestion, None);
    let access = plan.copy.access;
    assert_eq!(
        (access.login.port, access.login.identity, access.login.deploy, access.login.no_ssh_reuse),
        (Some(2222), Some("key".into()), false, true)
    );
    assert_eq!((access.source_command.as_deref(), access.target_command.as_deref()), (Some("s"), Some("t")));
    assert_eq!(access.login.ssh_options, ["A=b"]);
    assert_eq!(plan.checksums, Some("sums".into()));
    let direct = |line| (good(line).copy.options.storage.source.direct, good(line).copy.options.storage.target.direct);
    assert_eq!(direct("--unbuffered s a b"), (DirectIo::Always, DirectIo::Auto));
    assert_eq!(direct("--unbuffered t a b"), (DirectIo::Auto, DirectIo::Always));
    assert_eq!(direct("--unbuffered st a b"), (DirectIo::Always, DirectIo::Always));
    assert_eq!(direct("--unbuffered off a b"), (DirectIo::Never, DirectIo::Never));
    assert_eq!(direct("a b"), (DirectIo::Auto, DirectIo::Auto));
    assert_eq!(good("--cache drop a b").copy.options.storage.source.cache, CacheUse::Drop);
    assert_eq!(good("a b").copy.options.storage.source.cache, CacheUse::Auto);
    assert_eq!(good("--no-encrypt a b").copy.options.streams.cipher, Cipher::AuthenticateOnly);
}

#[test]
fn bbcps_options_reach_their_settings() {
    let options = |line| good(line).copy.options;
    assert_eq!(options("--omit a b").target.write.overwrite, OverwritePolicy::Omit);
    let modes = |line| (options(line).target.write.modes.directory, options(line).target.write.modes.file);
    assert_eq!(modes("a b"), (None, None));
    assert_eq!(modes("--mode 640 a b"), (None, Some(0o640)));
    assert_eq!(modes("--mode 2750/640 a b"), (Some(0o2750), Some(0o640)));
    assert_eq!(modes("--mode 750/ a b"), (Some(0o750), None));
    let rules = |line| options(line).source.modes;
    let parsed = |rules| ModeRule::parse_all(rules, 0).unwrap();
    assert_eq!(rules("--chmod D2775,F664 --chmod u+rwX a b"), parsed("D2775,F664,u+rwX"));
    assert_eq!((rules("a b"), rules("--perms --chmod g-w a b")), (vec![], parsed("g-w")));
    for (line, why) in [
        ("--chmod u+q a b", "--chmod u+q: must be rules of chmod".to_owned()),
        ("--chmod u+r --mode 640 a b", "--chmod cannot be used with --mode".to_owned()),
        ("--acls --chmod u+r a b", "--chmod cannot be used with --acls".to_owned()),
        (&format!("{}a b", "--chmod 640,750 ".repeat(33)), "--chmod: more than 64 rules".to_owned()),
    ] {
        let error = plan_of(line, false).unwrap_err().to_string();
        assert!(error.starts_with(&why), "{error}");
    }
    let left_out = options("--readable --no-empty-dirs a b").source.skip;
    assert!(left_out.unreadable && left_out.empty_directories);
    assert!(!options("--nofschk a b").target.write.check_space && options("a b").target.write.check_space);
    let striping = |line| options(line).target.write.striping;
    let fixed = |count, size| StripingPolicy::Fixed(Striping { count, size });
    assert_eq!([striping("a b"), striping("--stripe off a b")], [StripingPolicy::Source, StripingPolicy::Directory]);
    assert_eq!([striping("--stripe 8 a b"), striping("--stripe 2000,4m a b")], [fixed(8, 0), fixed(2000, 4 << 20)]);
    assert_eq!(
        [striping("--stripe all a b"), striping("--stripe=-1,64k a b")],
        [fixed(u16::MAX, 0), fixed(u16::MAX, 64 << 10)]
    );
    for wrong in ["0", "2001", "-2", "off,1m", "4,0", "4,100k", "4,4g", "4,", ",1m"] {
        let error = plan_of(&format!("--stripe={wrong} a b"), false).unwrap_err().to_string();
        assert!(error.contains("must"), "{wrong}: {error}");
    }
    let window = |line| (options(line).streams.socket.window_bytes, options(line).streams.socket.window_fixed);
    assert_eq!([window("-w 4m a b"), window("-w4m a b")], [(Some(4 << 20), false); 2]);
    assert_eq!([window("-w =4m a b"), window("-w=4m a b"), window("--windowsz==4m a b")], [(Some(4 << 20), true); 3]);
    assert_eq!(options("--qos 184 a b").streams.socket.traffic_class, 184);
    let under_way = |line| (options(line).storage.source.under_way, options(line).storage.target.under_way);
    assert_eq!(under_way("--buffers 4 --buffers +8 a b"), (4, 8));
    let frame = |line| options(line).streams.frame_bytes;
    assert_eq!(
        ["--buffsz 1k a b", "--buffsz 300k a b", "--buffsz 4m a b"].map(frame),
        [256, 256, 1024].map(|k| Some(k << 10))
    );
    let ordered = options("--order a b");
    assert_eq!(
        (ordered.streams.count, ordered.storage.target.direct, ordered.storage.source.direct),
        (Some(1), DirectIo::Never, DirectIo::Auto)
    );
    assert_eq!(options("--order --unbuffered s a b").storage.source.direct, DirectIo::Always);
    assert_eq!(options("--bwlimit=1000 a b").streams.rate_bytes_per_s, Some(1000 << 10));
    assert_eq!(
        [options("--bwlimit 2m a b").streams.rate_bytes_per_s, options("--bwlimit 0 a b").streams.rate_bytes_per_s],
        [Some(2 << 20), None]
    );
    let rates = ["--xfrrate 400Mbit/s a b", "--xfrrate 20MB/s a b", "--bwlimit 1.5 a b", "--bwlimit 1gbps a b"];
    assert_eq!(
        rates.map(|line| options(line).streams.rate_bytes_per_s),
        [50_000_000, 20_000_000, 1536, 125_000_000].map(Some)
    );
    let small_journals = ["a b", "--keep a b", "--partial a b", "--journal-dir dir a b"]
        .map(|line| options(line).target.partial.small_journals);
    assert_eq!(small_journals, [false, true, true, true]);
    let archive = options("--archive a b");
    assert!(
        archive.source.recursive
            && archive.metadata.rights == RightsOptions::ALL
            && archive.source.symlinks == Symlinks::Keep
            && archive.source.judges_operands
    );
    assert!(!options("-r a b").source.judges_operands);
    for line in ["--keep a b", "--ptime a b", "--gross a b", "--nodns a b", "--partial a b"] {
        assert!(plan_of(line, false).is_ok(), "{line}");
    }
}

#[test]
fn sources_are_below_the_base_and_on_its_host() {
    let plan = good("--dirbase me@h:/base x me@h:/abs y/z there");
    let host = Host::Remote { user: Some("me".into()), name: "h".into() };
    assert_eq!(plan.copy.options.source.base, Some("/base".into()));
    assert!(plan.copy.sources[0].host == host && plan.copy.sources[2].host == host);
    assert_eq!(good("--dirbase /base x there").copy.sources[0].host, Host::Local);
}

#[test]
fn ssh_as_rsyncs_users_name_it() {
    let access = good("--rsh=ssh a h:b").copy.access;
    assert_eq!((access.login.port, access.login.ssh_options.len()), (None, 0));
    let words = ["--rsh", "/usr/bin/ssh -p2222 -i key -o A=b -oC=d", "a", "h:b"].map(OsString::from).to_vec();
    let Ok(Command::Copy(values, operands)) = parse(Dialect::Haul, words, &crate::args::local_files::PlainFiles) else {
        panic!("no copy")
    };
    let access = plan(&values, &operands, false).unwrap().copy.access;
    assert_eq!(
        (access.login.port, access.login.identity, access.login.ssh_options),
        (Some(2222), Some("key".into()), vec!["A=b".into(), "C=d".into()])
    );
}

#[test]
fn output_levels_and_destinations() {
    let display = |line| good(line).display;
    let verbosity =
        ["a b", "-v a b", "-vv a b", "--vverbose a b", "--debug a b", "-vvvv a b"].map(|line| display(line).verbosity);
    assert_eq!(verbosity, [0, 1, 2, 2, 3, 4]);
    assert!(!good("--vverbose a b").copy.options.reports.files && good("--debug a b").copy.options.reports.files);
    assert_eq!(plan_of("--logfile log a b", true).unwrap().display.mode, Mode::Plain, "a file has no bar");
    assert_eq!(display("--logfile log a b").log, Some("log".into()));
    assert_eq!(good("--timelimit 2m a b").time_limit, Some(Duration::from_secs(120)));
}

#[test]
fn under_bbcps_name_its_defaults_hold() {
    let bbcp = |line| plan_under(Dialect::Bbcp, line, true).unwrap();
    let options = |line| bbcp(line).copy.options;
    let plain = options("a b");
    assert_eq!((plain.target.write.overwrite, plain.source.symlinks), (OverwritePolicy::ReportEqual, Symlinks::Ignore));
    assert_eq!(plain.target.write.modes, ModeOptions { file: Some(0o644), directory: Some(0o755), less_umask: true });
    assert!(!plain.reports.files);
    assert_eq!(
        options("-m 600 a b").target.write.modes,
        ModeOptions { file: Some(0o600), directory: Some(0o755), less_umask: false }
    );
    assert_eq!(options("-p -m 600 a b").target.write.modes.file, Some(0o600), "-p is not contradicted");
    assert_eq!(options("-@ keep a b").source.symlinks, Symlinks::Keep);
    let rules = ["-a a b", "-f a b", "-O a b", "-f -O a b"].map(|line| options(line).target.write.overwrite);
    assert_eq!(
        rules,
        [OverwritePolicy::Report, OverwritePolicy::Replace, OverwritePolicy::Omit, OverwritePolicy::Replace]
    );
    assert_eq!((options("-o -s 16 a b").streams.count, options("-s 16 a b").streams.count), (Some(1), Some(16)));
    let display = |line| bbcp(line).display;
    assert_eq!((display("a b").mode, display("a b").progress_lines), (Mode::BbcpLines, false));
    assert!(display("-P 2 a b").progress_lines && display("-V a b").verbosity == 2);
    assert!(options("-v a b").reports.files);
    assert!(!plain.target.delta.in_place && options("-f -K a b").target.delta.in_place, "-K keeps the inode");
}

#[test]
fn compression_is_a_word_or_a_level() {
    let policy = |line| good(line).copy.options.streams.compression;
    for line in ["a b", "--compress a b", "--compress auto a b", "a b -rz"] {
        assert_eq!(policy(line), CompressionPolicy::Auto, "{line}");
    }
    for line in ["--compress off a b", "--compress 0 a b", "--compress=off a b"] {
        assert_eq!(policy(line), CompressionPolicy::Off, "{line}");
    }
    assert_eq!(policy("--compress lz4 a b"), CompressionPolicy::Always(CompressionMethod::Lz4));
    assert_eq!(policy("--compress zstd a b"), CompressionPolicy::Always(CompressionMethod::Zstd(3)));
    assert_eq!(
        [policy("-r --compress=1 a b"), policy("--compress 19 a b")],
        [1, 19].map(|level| CompressionPolicy::Always(CompressionMethod::Zstd(level)))
    );
    assert_eq!(good("--compress run b").copy.sources.len(), 1, "what it does not know is an operand");
}

#[test]
fn zeros_are_compressed_only_if_that_was_typed() {
    let applied = |line| {
        let plan = good(line);
        (plan.copy.compression(), plan.notes.iter().any(|note| note.contains("uncompressed")))
    };
    for line in ["null: h:null:", "--duration 3 h:null: null:", "null:1g h:file"] {
        assert_eq!(applied(line), (CompressionPolicy::Off, true), "{line}");
    }
    assert_eq!(applied("--compress off null: h:null:"), (CompressionPolicy::Off, false));
    assert_eq!(applied("--compress auto null: h:null:"), (CompressionPolicy::Auto, false));
    assert_eq!(applied("--compress lz4 null: h:null:"), (CompressionPolicy::Always(CompressionMethod::Lz4), false));
    assert_eq!(applied("a h:null:"), (CompressionPolicy::Auto, false));
    assert!(!applied("null: null:").1, "without a network");
}

#[test]
fn the_display_follows_the_options_and_the_terminal() {
    let mode = |line, terminal| plan_of(line, terminal).unwrap().display.mode;
    assert_eq!(mode("a b", true), Mode::Bar);
    assert_eq!(mode("a b", false), Mode::Plain);
    assert_eq!(mode("--progress=2 a b", true), Mode::ProgressLines);
    assert_eq!(mode("--json --progress=2 a b", true), Mode::Json);
    assert_eq!(mode("--quiet a b", true), Mode::Quiet);
    assert_eq!(good("--progress=2 a b").copy.options.reports.progress_every, Duration::from_secs(2));
    assert_eq!(good("--json a b").copy.options.reports.progress_every, JSON_PROGRESS_EVERY);
    assert!(good("--json a b").copy.options.reports.files);
}

#[test]
fn bad_values_name_the_option_and_the_remedy() {
    insta::assert_snapshot!(
        ["-s 0 a b", "-s x a b", "-s auto a b", "--streams 257 a b", "-w 1kb a b", "-w 1 a b", "--xfrrate 1023 a b", "--cpus 0-1024 a b", "--cpus 3-1 a b", "--cpus 1,,2 a b", "--congestion b/r a b", "--frame 300k a b", "--frame 2m a b",
         "--symlinks folow a b", "--unbuffered source a b", "--cache both a b", "--cipher aes a b", "--cipher auto --no-encrypt a b", "--verify wire a b", "--verify=disk --fsync=none a b", "--progress=0 a b",
         "--compress=20 a b", "--compress=max a b", "--quiet --progress=1 a b", "--quiet -v a b", "--checksums - --json a b", "--ssh-port 0 a b", "h:a g:b c",
         "h:a b c", "--checksums= a b", "--source-command= a b", "--ssh-option= a b",
         "--mode 8 a b", "--mode / a b", "--mode 17777 a b", "--mode 0 a b", "--qos 256 a b", "--buffers 0 a b", "--buffers +65 a b", "--buffsz 1 a b", "-w = a b", "--timelimit 0 a b", "--timelimit soon a b", "--timelimit 500ms a b", "--realtime 1500ms a b", "--newer 500ms a b", "--xfrrate 10Mb/s a b", "--min-size 99999999t a b", "--bwlimit x a b", "--bwlimit 1g0 a b",
         "--logfile= a b", "--dirbase g:x h:a b", "--rsh=rsh a b", "--netlogger x a b", "--infiles /nonexistent/list b", "-0 a b", "--pipe i --infiles list a b", "-f --omit a b", "--keep --no-keep a b", "--journal-dir /j --no-resume a b",
         "--buffsz 1m --frame 1m a b", "--xfrrate 1m --bwlimit 1 a b", "-p --mode 644 a b", "--order -s4 a b", "--order --unbuffered st a b", "--quiet --vverbose a b"]
            .map(|line| format!("$ haul {line}\n{}", plan_of(line, false).unwrap_err()))
            .join("\n\n"),
        @"
    $ haul -s 0 a b
    --streams 0: must be a whole number from 1 to 256

    $ haul -s x a b
    --streams x: must be a whole number from 1 to 256

    $ haul -s auto a b
    --streams auto: must be a whole number from 1 to 256
    hint: omit it for the default

    $ haul --streams 257 a b
    --streams 257: must be a whole number from 1 to 256

    $ haul -w 1kb a b
    --windowsz 1kb: must be a size from 4k to 1g

    $ haul -w 1 a b
    --windowsz 1: must be a size from 4k to 1g

    $ haul --xfrrate 1023 a b
    --xfrrate 1023: must be a rate from 1k to 1t, in bytes a second

    $ haul --cpus 0-1024 a b
    --cpus 0-1024: must be numbers below 1024 or ranges, for example 0-7,16

    $ haul --cpus 3-1 a b
    --cpus 3-1: must be numbers below 1024 or ranges, for example 0-7,16

    $ haul --cpus 1,,2 a b
    --cpus 1,,2: must be numbers below 1024 or ranges, for example 0-7,16

    $ haul --congestion b/r a b
    --congestion b/r: invalid name
    hint: available names are in /proc/sys/net/ipv4/tcp_available_congestion_control, for example bbr

    $ haul --frame 300k a b
    --frame 300k: must be a size of 256k, 512k or 1m

    $ haul --frame 2m a b
    --frame 2m: must be a size of 256k, 512k or 1m

    $ haul --symlinks folow a b
    --symlinks folow: must be keep, follow, ignore, safe, follow-unsafe or follow-dirs
    hint: did you mean: --symlinks follow

    $ haul --unbuffered source a b
    --unbuffered source: must be s, t, st or off

    $ haul --cache both a b
    --cache both: must be keep, drop or cold

    $ haul --cipher aes a b
    --cipher aes: must be auto, aes-256-gcm, aes-128-gcm or chacha20-poly1305

    $ haul --cipher auto --no-encrypt a b
    --cipher cannot be used with --no-encrypt

    $ haul --verify wire a b
    --verify wire: must be memory or disk

    $ haul --verify=disk --fsync=none a b
    --verify disk cannot be used with --fsync none

    $ haul --progress=0 a b
    --progress 0: must be a whole number from 1 to 86400

    $ haul --compress=20 a b
    --compress 20: must be a whole number from 0 to 19

    $ haul --compress=max a b
    --compress max: must be auto, off, lz4 or zstd

    $ haul --quiet --progress=1 a b
    --quiet cannot be used with --progress

    $ haul --quiet -v a b
    --quiet cannot be used with --verbose

    $ haul --checksums - --json a b
    --checksums - and --json both write to standard output
    hint: name a file: --checksums FILE

    $ haul --ssh-port 0 a b
    --ssh-port 0: must be a whole number from 1 to 65535

    $ haul h:a g:b c
    sources are on different hosts: h and g
    hint: the last word is the target: c
    hint: run one copy for each host

    $ haul h:a b c
    sources are on different hosts: h and this machine
    hint: the last word is the target: c
    hint: haul 'h:a b' c

    $ haul --checksums= a b
    --checksums: empty file name

    $ haul --source-command= a b
    --source-command: the command is empty
    hint: for example --source-command 'ssh %I -l %U %H /opt/bin/haul'

    $ haul --ssh-option= a b
    --ssh-option : invalid ssh option
    hint: write it as for ssh -o: --ssh-option ConnectTimeout=10

    $ haul --mode 8 a b
    --mode 8: must be octal modes, 1 to 7777: of files (640), or of directories and files (750/640)

    $ haul --mode / a b
    --mode /: must be octal modes, 1 to 7777: of files (640), or of directories and files (750/640)

    $ haul --mode 17777 a b
    --mode 17777: must be octal modes, 1 to 7777: of files (640), or of directories and files (750/640)

    $ haul --mode 0 a b
    --mode 0: must be octal modes, 1 to 7777: of files (640), or of directories and files (750/640)

    $ haul --qos 256 a b
    --qos 256: must be a whole number from 0 to 255

    $ haul --buffers 0 a b
    --buffers 0: must be a whole number from 1 to 64

    $ haul --buffers +65 a b
    --buffers 65: must be a whole number from 1 to 64

    $ haul --buffsz 1 a b
    --buffsz 1: must be a size from 1k to 1g

    $ haul -w = a b
    --windowsz : must be a size, for example 65536, 512k, 1.5g or 2GB

    $ haul --timelimit 0 a b
    --timelimit 0: must be a time from 1s to 365d

    $ haul --timelimit soon a b
    --timelimit soon: must be a time, for example 90, 10m, 1h30m or 7d

    $ haul --timelimit 500ms a b
    --timelimit 500ms: must be a time from 1s to 365d

    $ haul --realtime 1500ms a b
    --realtime 1500ms: must be a time from 1s to 1d, in whole seconds

    $ haul --newer 500ms a b
    --newer 500ms: must be a date or time in UTC (2026-11-01, 2026-11-01T18:30) or an age in whole seconds (12h, 7d)

    $ haul --xfrrate 10Mb/s a b
    --xfrrate 10Mb/s: must be a rate in bytes or bits: 10MB/s or 10Mbit/s

    $ haul --min-size 99999999t a b
    --min-size 99999999t: must be a size below 16384p

    $ haul --bwlimit x a b
    --bwlimit x: must be a rate, for example 50m (MiB/s), 50MB/s or 400Mbit/s

    $ haul --bwlimit 1g0 a b
    --bwlimit 1g0: must be a rate, for example 50m (MiB/s), 50MB/s or 400Mbit/s

    $ haul --logfile= a b
    --logfile: empty file name

    $ haul --dirbase g:x h:a b
    --dirbase: BASE is on g, but a source is on h
    hint: name the sources without a host: they are relative to BASE

    $ haul --rsh=rsh a b
    --rsh rsh: not ssh
    hint: only ssh with -F, -p, -i and -o is supported; see --source-command and --target-command

    $ haul --netlogger x a b
    unknown option --netlogger
    hint: haul --help all lists all options

    $ haul --infiles /nonexistent/list b
    --infiles /nonexistent/list: No such file or directory

    $ haul -0 a b
    --null needs a list
    hint: add --infiles FILE

    $ haul --pipe i --infiles list a b
    a pipe is one file, but there are several sources
    hint: pipe tar's output into haul: tar -cf - FILES | haul - TARGET

    $ haul -f --omit a b
    --force cannot be used with --omit

    $ haul --keep --no-keep a b
    --keep cannot be used with --no-keep

    $ haul --journal-dir /j --no-resume a b
    --journal-dir cannot be used with --no-resume

    $ haul --buffsz 1m --frame 1m a b
    --buffsz cannot be used with --frame

    $ haul --xfrrate 1m --bwlimit 1 a b
    --xfrrate cannot be used with --bwlimit

    $ haul -p --mode 644 a b
    --perms cannot be used with --mode

    $ haul --order -s4 a b
    --order cannot be used with --streams: sequential writing takes one stream

    $ haul --order --unbuffered st a b
    --order cannot be used with --unbuffered st: sequential writing is buffered

    $ haul --quiet --vverbose a b
    --quiet cannot be used with --vverbose
    "
    );
}

#[test]
fn both_ends_may_be_remote_and_interactive_logins_take_turns() {
    let plan = good("-r h:a h:b me@g:c");
    assert_eq!((plan.copy.sources.len(), plan.copy.access.in_turn), (2, false));
    assert_eq!(plan.copy.target.host, Host::Remote { user: Some("me".into()), name: "g".into() });
    assert!(plan_of("h:a g:b", true).unwrap().copy.access.in_turn);
}

#[test]
fn a_single_retry_limit_replaces_both_defaults() {
    let retries = |line| good(line).copy.access.retries;
    let (minutes, any) = (Some(Duration::from_secs(600)), true);
    assert_eq!(retries("a h:b"), Retries { times: None, time: minutes, breaks: Some(5), from_the_start: false });
    assert_eq!(retries("--retries 3 a h:b"), Retries { times: Some(3), time: None, breaks: None, from_the_start: any });
    assert_eq!(
        retries("--retry-for 10m a h:b"),
        Retries { times: None, time: minutes, breaks: None, from_the_start: any }
    );
    let both = Retries { times: Some(0), time: minutes, breaks: None, from_the_start: any };
    assert_eq!(retries("--retries 0 --retry-for 600 a h:b"), both);
    assert_eq!(good("a h:b").copy.access.silence, Duration::from_secs(13));
    assert_eq!(good("--silence 2m a h:b").copy.access.silence, Duration::from_secs(120));
    for line in ["--retries -1 a b", "--retries x a b", "--retry-for 1y a b", "--retry-for 31d a b", "--silence 2s a b"]
    {
        let error = plan_of(line, false).unwrap_err().to_string();
        assert!(error.contains(line.split(' ').nth(1).unwrap()), "{error}");
    }
}
