//! The one table of options: parser, help, manual and completions are made from it, and nothing else lists them.
//!
//! Letters are bbcp's.

use super::filters;
use super::row::{HelpSection, OptionRow, Takes, row};

/// bbcp's levels are 0 to 9; those of zstd are 1 to 19, and 0 is off in both.
const COMPRESS: Takes = Takes::Word {
    name: "MODE",
    known: &[
        "auto", "off", "lz4", "zstd", "0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14",
        "15", "16", "17", "18", "19",
    ],
    absent: "auto",
};

/// bbcp's `-y d` (the file) and `-y dd` (its directory, too), and words for the same.
const FSYNC: Takes = Takes::Word { name: "MODE", known: &["none", "data", "full", "d", "dd"], absent: "full" };

/// Alone, it is rsync's.
const SPARSE: Takes = Takes::Word { name: "MODE", known: &["keep", "make", "fill"], absent: "make" };

/// When extraneous entries are removed.
const DELETE: Takes = Takes::Word { name: "WHEN", known: &["before", "during", "after"], absent: "after" };

/// bbcp's places at which only one kind of addresses is used: c for ssh, s and t for the data.
const PLACES: Takes = Takes::Word {
    name: "WHERE",
    known: &["c", "s", "t", "cs", "ct", "st", "cst", "c,s", "c,t", "s,t", "c,s,t"],
    absent: "cst",
};

/// Of every command that a configuration file has a say in.
const CONFIG: OptionRow = row(
    "config",
    Some('C'),
    Takes::One("FILE"),
    HelpSection::Copying,
    "read options from FILE instead of the user and system configuration",
)
.of_one_job();

/// Options of a copy.
pub const COPY: &[OptionRow] = &[
    row("recursive", Some('r'), Takes::Nothing, HelpSection::Copying, "copy directories recursively").bbcp(1).essential(),
    row("force", Some('f'), Takes::Nothing, HelpSection::Copying, "overwrite existing files that differ").bbcp(1).of_one_job().essential(),
    row("omit", Some('O'), Takes::Nothing, HelpSection::Copying, "skip files that exist on the target").bbcp(4).of_one_job(),
    row("preserve", Some('p'), Takes::Nothing, HelpSection::Copying, "also preserve mode, owner and group, not only times").bbcp(1).essential(),
    row("mode", Some('m'), Takes::One("[DIRS/][FILES]"), HelpSection::Copying, "set octal modes, for example 750/640").bbcp(1),
    row("mkdir", Some('A'), Takes::Nothing, HelpSection::Copying, "create a missing target directory").bbcp(2),
    row("dirbase", Some('d'), Takes::One("BASE"), HelpSection::Copying, "recreate source paths relative to BASE below the target").bbcp(3).of_one_job(),
    row("infiles", Some('I'), Takes::One("FILE"), HelpSection::Copying, "read source paths from FILE, one a line (-: standard input)").bbcp(2).of_one_job(),
    row("null", Some('0'), Takes::Nothing, HelpSection::Copying, "paths in -I end with NUL instead of a newline").of_one_job(),
    row("symlinks", Some('@'), Takes::One("MODE"), HelpSection::Copying, "symbolic links inside directories: keep (default), follow or ignore").bbcp(2),
    row("readable", Some('+'), Takes::Nothing, HelpSection::Copying, "skip unreadable files and directories").bbcp(3),
    row("no-empty-dirs", Some('^'), Takes::Nothing, HelpSection::Copying, "skip empty directories").bbcp_letter(),
    filters::INCLUDE,
    filters::EXCLUDE,
    filters::INCLUDE_FROM,
    filters::EXCLUDE_FROM,
    filters::FILTER_FILES,
    filters::FILTER,
    filters::MIN_SIZE,
    filters::MAX_SIZE,
    filters::NEWER,
    filters::OLDER,
    filters::EXPLAIN,
    row("order", Some('o'), Takes::Nothing, HelpSection::Copying, "write sequentially: one stream, buffered I/O").bbcp(1),
    row("pipe", Some('N'), Takes::One("ENDS"), HelpSection::Copying, "treat the source (i), target (o) or both (io) as a shell command or FIFO").bbcp(4).of_one_job(),
    row("realtime", Some('R'), Takes::Time { name: "TIME", absent: "10s" }, HelpSection::Copying, "follow a growing file until it has not grown for TIME (default: 10s)").bbcp(4).of_one_job(),
    row("delta", None, Takes::One("MODE"), HelpSection::Copying, "transfer only changed blocks of existing files: auto (default), blocks (aligned), rolling (at any offset) or off"),
    row("inplace", None, Takes::Nothing, HelpSection::Copying, "with -f, update files in place instead of replacing them"),
    row("keep", Some('k'), Takes::Nothing, HelpSection::Copying, "keep and resume partial files from 1 MiB on (default: from 16 MiB on)").or("partial").bbcp(1),
    row("append", Some('a'), Takes::Place("DIR"), HelpSection::Copying, "the same as -k, with resume journals in DIR (default: beside the files)").bbcp(1),
    row("no-resume", None, Takes::Nothing, HelpSection::Copying, "restart partial files from the beginning, and write no resume journals"),
    row("no-keep", None, Takes::Nothing, HelpSection::Copying, "delete partial files when the copy fails"),
    row("nofschk", Some('F'), Takes::Nothing, HelpSection::Copying, "skip the free-space check").bbcp(4),
    row("timelimit", Some('t'), Takes::One("TIME"), HelpSection::Copying, "stop after TIME (90, 10m, 2h); rerun to resume").bbcp(1),
    CONFIG.bbcp(6),
    row("archive", None, Takes::Nothing, HelpSection::Copying, "same as -r -p --hard-links --xattrs --acls"),
    row("hard-links", None, Takes::Nothing, HelpSection::Copying, "preserve hard links"),
    row("xattrs", None, Takes::Nothing, HelpSection::Copying, "preserve extended attributes"),
    row("acls", None, Takes::Nothing, HelpSection::Copying, "preserve access control lists (implies -p)"),
    row("sparse", None, SPARSE, HelpSection::Copying, "holes: keep (default), make (also for runs of zeros) or fill"),
    row("numeric-ids", None, Takes::Nothing, HelpSection::Copying, "with -p, map owners and groups by number instead of by name"),
    row("usermap", None, Takes::One("FROM:TO,..."), HelpSection::Copying, "with -p, map users by name, number or range (anna:smith, 0-99:nobody, *:guest)"),
    row("groupmap", None, Takes::One("FROM:TO,..."), HelpSection::Copying, "with -p, map groups likewise"),
    row("chown", None, Takes::One("USER:GROUP"), HelpSection::Copying, "with -p, set owner and group of everything (either may be omitted)"),
    row("devices", None, Takes::Nothing, HelpSection::Copying, "preserve device nodes (root only)"),
    row("specials", None, Takes::Nothing, HelpSection::Copying, "preserve FIFOs and sockets"),
    row("compare", None, Takes::One("BY"), HelpSection::Syncing, "consider a file unchanged by time (default: size and mtime), size, digest or exists").of_one_job(),
    row("modify-window", None, Takes::One("SECONDS"), HelpSection::Syncing, "treat times as equal within SECONDS (0: ignore fractions of a second)"),
    row("update", None, Takes::Nothing, HelpSection::Syncing, "skip files that are newer on the target").of_one_job(),
    row("existing", None, Takes::Nothing, HelpSection::Syncing, "skip files that do not exist on the target").of_one_job(),
    row("ignore-existing", None, Takes::Nothing, HelpSection::Syncing, "skip files that exist on the target").of_one_job(),
    row("delete", None, DELETE, HelpSection::Syncing, "delete extraneous files from the target: after (default), during or before the copy").of_one_job().essential(),
    row("delete-excluded", None, Takes::Nothing, HelpSection::Syncing, "with --delete, delete excluded files as well").of_one_job(),
    row("max-delete", None, Takes::One("N"), HelpSection::Syncing, "with --delete, delete at most N entries"),
    row("allow-empty-source", None, Takes::Nothing, HelpSection::Syncing, "with --delete, empty the target if the source is empty").of_one_job(),
    row("ignore-errors", None, Takes::Nothing, HelpSection::Syncing, "with --delete, delete even after errors").of_one_job(),
    row("detect-renames", None, Takes::Nothing, HelpSection::Syncing, "rename files on the target instead of sending them again").of_one_job(),
    row("backup-dir", None, Takes::One("DIR"), HelpSection::Syncing, "move replaced and deleted files to DIR (relative to the target)").of_one_job(),
    row("link-dest", None, Takes::Each("DIR"), HelpSection::Syncing, "hard-link unchanged files to those in DIR (relative to the target; up to 20 times)").of_one_job(),
    row("remove-source-files", None, Takes::Nothing, HelpSection::Syncing, "delete source files and links after verification at the target").of_one_job(),
    row("dry-run", None, Takes::Nothing, HelpSection::Syncing, "show what would be copied, changed and deleted").of_one_job().essential(),
    row("items", None, Takes::Nothing, HelpSection::Syncing, "list each created, changed and deleted entry"),
    row("streams", Some('s'), Takes::One("N"), HelpSection::Performance, "use 1 to 256 parallel streams (default: automatic)").bbcp(1).essential(),
    row("congestion", None, Takes::One("NAME"), HelpSection::Performance, "TCP congestion control (default: chosen by the path)"),
    row("windowsz", Some('w'), Takes::One("[=]SIZE"), HelpSection::Performance, "limit socket buffers to SIZE; =SIZE sets them exactly (default: autotuning)").or_letter('W').bbcp(1),
    row("forced-window", Some('U'), Takes::One("SIZE"), HelpSection::Performance, "same as -w =SIZE").letter_only().bbcp_letter(),
    row("qos", Some('q'), Takes::One("CLASS"), HelpSection::Performance, "set the IP traffic class, 0 to 255").bbcp(3),
    row("xfrrate", Some('x'), Takes::One("RATE"), HelpSection::Performance, "limit the total rate to RATE bytes/s, for example 50m (SIGUSR1 doubles it, SIGUSR2 halves it)").bbcp(1).essential(),
    row("bwlimit", None, Takes::One("RATE"), HelpSection::Performance, "same as -x, in KiB/s unless a unit is given, as in rsync"),
    row("duration", None, Takes::One("TIME"), HelpSection::Performance, "copy to null: for TIME, then stop with a summary (90, 10m, 2h)"),
    row("cpus", None, Takes::One("LIST"), HelpSection::Performance, "pin both ends to these CPUs (0-7,16)"),
    row("frame", None, Takes::One("SIZE"), HelpSection::Performance, "frame payload: 256k, 512k or 1m"),
    row("buffsz", Some('B'), Takes::One("SIZE"), HelpSection::Performance, "read and write in blocks of up to SIZE, 256k to 1m").bbcp(6),
    row("buffers", Some('b'), Takes::Each("[+]N"), HelpSection::Performance, "I/O queue depth per stream, 1 to 64, at the source (+N: at the target)").bbcp(1),
    row("unbuffered", Some('u'), Takes::One("ENDS"), HelpSection::Performance, "use O_DIRECT at the source (s), target (t) or both (st); off forbids it (default: measured)").bbcp(1),
    row("cache", None, Takes::One("MODE"), HelpSection::Performance, "page cache after the copy: keep, drop, or cold: also drop the source before it is read (default: drop large files)"),
    row("cipher", None, Takes::One("NAME"), HelpSection::Performance, "auto (default), aes-128-gcm, aes-256-gcm or chacha20-poly1305"),
    row("no-encrypt", None, Takes::Nothing, HelpSection::Performance, "send data unencrypted but authenticated"),
    row("compress", Some('c'), COMPRESS, HelpSection::Performance, "auto (default), off, lz4, zstd, or a zstd level from 1 to 19").bbcp(1),
    row("idfile", Some('i'), Takes::One("KEY"), HelpSection::Connecting, "ssh identity file").bbcp(1),
    row("ssh-config", None, Takes::One("FILE"), HelpSection::Connecting, "ssh configuration file, as ssh -F FILE"),
    row("ssh-port", None, Takes::One("PORT"), HelpSection::Connecting, "ssh port"),
    row("ssh-option", None, Takes::Each("OPTION"), HelpSection::Connecting, "option passed to ssh as -o OPTION (repeatable)"),
    row("rsh", None, Takes::One("COMMAND"), HelpSection::Connecting, "ssh command line, as in rsync ('ssh -p 2222 -i key')").of_one_job(),
    row("source-command", Some('S'), Takes::One("CMD"), HelpSection::Connecting, "command that starts haul on a remote source (placeholders: see -T)").bbcp_letter(),
    row("target-command", Some('T'), Takes::One("CMD"), HelpSection::Connecting, "command that starts haul on a remote target, for example 'ssh %I -l %U %H /opt/bin/haul' (%I: -i KEY, %U: user, %H: host, %4: -4 if given)").bbcp_letter(),
    row("callback", Some('H'), Takes::One("HOST[:PORT]"), HelpSection::Connecting, "address for data connections to the accepting end").bbcp(2),
    row("bind", None, Takes::One("ADDRESS|INTERFACE"), HelpSection::Connecting, "use only this local address or interface"),
    row("ipv4", Some('4'), PLACES, HelpSection::Connecting, "use IPv4 only, for ssh (c), data (s, t) or everything (cst, if omitted)").bbcp(4),
    row("ipv6", Some('6'), PLACES, HelpSection::Connecting, "use IPv6 only, likewise"),
    row("reverse", Some('z'), Takes::Nothing, HelpSection::Connecting, "open data connections from the target to the source").bbcp(3),
    row("port", Some('Z'), Takes::One("P[:Q]"), HelpSection::Connecting, "accept data connections on ports P to Q (default: any)").bbcp(4),
    row("paths", None, Takes::One("MODE"), HelpSection::Connecting, "several links between the hosts: best (default) or all"),
    row("secret-file", None, Takes::One("FILE"), HelpSection::Connecting, "read the secret or private key for haul://HOST from the first line of FILE"),
    row("no-deploy", None, Takes::Nothing, HelpSection::Connecting, "do not copy haul to hosts that lack it"),
    row("retries", None, Takes::One("N"), HelpSection::Connecting, "reconnect at most N times without progress (0: never)"),
    row("retry-for", None, Takes::One("TIME"), HelpSection::Connecting, "reconnect for at most TIME without progress (default: 10m)"),
    row("silence", None, Takes::One("TIME"), HelpSection::Connecting, "treat a host as lost after TIME without a message (default: 13s)"),
    row("verify", None, Takes::One("MODE"), HelpSection::Integrity, "memory: hash at the target as well; disk: read back from disk and repair"),
    row("digest", None, Takes::One("NAME"), HelpSection::Integrity, "xxh3 (default): check blocks only; blake3: compute the BLAKE3 of each file as well"),
    row("fsync", Some('y'), FSYNC, HelpSection::Integrity, "full (default): sync data and names; data; or none (d, dd: bbcp's data, full)").or("sync").bbcp_as("sync", 4),
    row("checksums", None, Takes::One("FILE"), HelpSection::Integrity, "write a digest list for b3sum --check (-: standard output)").of_one_job(),
    row("checksum-alg", None, Takes::One("ALG"), HelpSection::Integrity, "digest of that list or of --expect's, in the format of sha256sum (names: see -E)").of_one_job(),
    row("expect", None, Takes::One("FILE"), HelpSection::Integrity, "verify files against a digest list before they get their names; report entries without a match").of_one_job(),
    row("checksum", Some('E'), Takes::One("ALG[=VALUE|=FILE]"), HelpSection::Integrity, "print, compare or record the digest of each file; %ALG: at the source. ALG is a32, c32, c32z, md5, crc32c, crc64nvme, sha1, sha256, sha512, xxh3 or blake3").bbcp(5).of_one_job(),
    row("progress", Some('P'), Takes::One("SECONDS"), HelpSection::Output, "print a progress line every SECONDS").bbcp(4),
    row("json", None, Takes::Nothing, HelpSection::Output, "print events as JSON lines").essential(),
    row("quiet", None, Takes::Nothing, HelpSection::Output, "print errors only"),
    row("verbose", Some('v'), Takes::Repeats, HelpSection::Output, "print more: -v connection, -vv path, -vvv each file").bbcp(1).essential(),
    row("vverbose", Some('V'), Takes::Nothing, HelpSection::Output, "same as -vv").bbcp(2).of_one_job(),
    row("debug", Some('D'), Takes::Nothing, HelpSection::Output, "same as -vvv").bbcp(5).of_one_job(),
    row("tui", None, Takes::Nothing, HelpSection::Output, "show a full-screen dashboard (keys pause, change rate and streams)").of_one_job(),
    row("report", None, Takes::One("FILE"), HelpSection::Output, "write an HTML or Markdown report (FILE.html, FILE.md)").of_one_job(),
    row("metrics", None, Takes::One("FILE"), HelpSection::Output, "write the result to FILE as OpenMetrics text (for node_exporter)"),
    row("bits", None, Takes::Nothing, HelpSection::Output, "show rates in bit/s"),
    row("logfile", Some('l'), Takes::One("FILE"), HelpSection::Output, "append messages to FILE").bbcp(1),
    row("version", Some('#'), Takes::Nothing, HelpSection::Output, "print the version; with -v, CPU benchmarks as well").bbcp(7).of_one_job(),
    row("license", Some('$'), Takes::Nothing, HelpSection::Output, "print the licence").bbcp(7).of_one_job(),
    row("help", Some('h'), Takes::Perhaps("WHAT"), HelpSection::Output, "show help; --help all: every option; --help WHAT: one option or command").bbcp(1).of_one_job(),
    row("ptime", Some('~'), Takes::Nothing, HelpSection::Accepted, "times are always preserved").bbcp(2),
    row("error-check", Some('e'), Takes::Nothing, HelpSection::Accepted, "every frame is always checked").letter_only().bbcp_letter(),
    row("gross", Some('g'), Takes::Nothing, HelpSection::Accepted, "empty directories are always copied").bbcp(1),
    row("truncate", Some('K'), Takes::Nothing, HelpSection::Accepted, "with -f, a replaced file stays until the new one is complete").letter_only().bbcp_letter(),
    row("nodns", Some('n'), Takes::Nothing, HelpSection::Accepted, "names are never looked up").bbcp(1),
    row("netlogger", Some('L'), Takes::One("OPTIONS"), HelpSection::Unlisted, "NetLogger").letter_only().bbcp_letter().refused("haul does not write NetLogger's events\n--json gives the events of a copy, one object a line").of_one_job(),
];

/// Options of `haul verify`: those of a copy that select data and the way of reading it.
pub const VERIFY: &[OptionRow] = &[
    row("recursive", Some('r'), Takes::Nothing, HelpSection::Copying, "compare directories recursively"),
    row("preserve", Some('p'), Takes::Nothing, HelpSection::Copying, "compare mode, owner and group"),
    row("archive", None, Takes::Nothing, HelpSection::Copying, "same as -r -p --hard-links --xattrs --acls"),
    row("hard-links", None, Takes::Nothing, HelpSection::Copying, "compare hard links"),
    row("xattrs", None, Takes::Nothing, HelpSection::Copying, "compare extended attributes"),
    row("acls", None, Takes::Nothing, HelpSection::Copying, "compare access control lists (implies -p)"),
    row(
        "numeric-ids",
        None,
        Takes::Nothing,
        HelpSection::Copying,
        "with -p, compare owners and groups by number instead of by name",
    ),
    row("usermap", None, Takes::One("FROM:TO,..."), HelpSection::Copying, "with -p, map users as the copy did"),
    row("groupmap", None, Takes::One("FROM:TO,..."), HelpSection::Copying, "with -p, map groups as the copy did"),
    row(
        "chown",
        None,
        Takes::One("USER:GROUP"),
        HelpSection::Copying,
        "with -p, expect this owner and group of everything",
    ),
    row("devices", None, Takes::Nothing, HelpSection::Copying, "compare device nodes"),
    row("specials", None, Takes::Nothing, HelpSection::Copying, "compare FIFOs and sockets"),
    row(
        "dirbase",
        Some('d'),
        Takes::One("BASE"),
        HelpSection::Copying,
        "find source paths relative to BASE below the target",
    ),
    row(
        "infiles",
        Some('I'),
        Takes::One("FILE"),
        HelpSection::Copying,
        "read source paths from FILE, one a line (-: standard input)",
    ),
    row("null", Some('0'), Takes::Nothing, HelpSection::Copying, "paths in -I end with NUL instead of a newline"),
    row(
        "symlinks",
        Some('@'),
        Takes::One("MODE"),
        HelpSection::Copying,
        "symbolic links inside directories: keep (default), follow or ignore",
    ),
    filters::INCLUDE,
    filters::EXCLUDE,
    filters::INCLUDE_FROM,
    filters::EXCLUDE_FROM,
    filters::FILTER_FILES,
    filters::FILTER,
    filters::MIN_SIZE,
    filters::MAX_SIZE,
    filters::NEWER,
    filters::OLDER,
    filters::EXPLAIN,
    row(
        "streams",
        Some('s'),
        Takes::One("N"),
        HelpSection::Performance,
        "read with N threads on each host, 1 to 256 (default: automatic)",
    ),
    row("cpus", None, Takes::One("LIST"), HelpSection::Performance, "pin both ends to these CPUs (0-7,16)"),
    row(
        "frame",
        None,
        Takes::One("SIZE"),
        HelpSection::Performance,
        "size of the blocks that are compared: 256k, 512k (default) or 1m",
    ),
    row(
        "unbuffered",
        Some('u'),
        Takes::One("ENDS"),
        HelpSection::Performance,
        "use O_DIRECT at the source (s), target (t) or both (st); off forbids it (default: measured)",
    ),
    row(
        "cache",
        None,
        Takes::One("MODE"),
        HelpSection::Performance,
        "page cache after reading: keep, or drop (default: drop large files)",
    ),
    row("idfile", Some('i'), Takes::One("KEY"), HelpSection::Connecting, "ssh identity file"),
    row("ssh-config", None, Takes::One("FILE"), HelpSection::Connecting, "ssh configuration file, as ssh -F FILE"),
    row("ssh-port", None, Takes::One("PORT"), HelpSection::Connecting, "ssh port"),
    row(
        "ssh-option",
        None,
        Takes::Each("OPTION"),
        HelpSection::Connecting,
        "option passed to ssh as -o OPTION (repeatable)",
    ),
    row(
        "source-command",
        Some('S'),
        Takes::One("CMD"),
        HelpSection::Connecting,
        "command that starts haul on a remote source",
    ),
    row(
        "target-command",
        Some('T'),
        Takes::One("CMD"),
        HelpSection::Connecting,
        "command that starts haul on a remote target",
    ),
    row("ipv4", Some('4'), PLACES, HelpSection::Connecting, "use IPv4 only for ssh"),
    row("ipv6", Some('6'), PLACES, HelpSection::Connecting, "use IPv6 only for ssh"),
    row(
        "rsh",
        None,
        Takes::One("COMMAND"),
        HelpSection::Connecting,
        "ssh command line, as in rsync ('ssh -p 2222 -i key')",
    ),
    row("no-deploy", None, Takes::Nothing, HelpSection::Connecting, "do not copy haul to hosts that lack it"),
    row("retries", None, Takes::One("N"), HelpSection::Connecting, "reconnect at most N times without progress"),
    row(
        "retry-for",
        None,
        Takes::One("TIME"),
        HelpSection::Connecting,
        "reconnect for at most TIME without progress (default: 10m)",
    ),
    row(
        "silence",
        None,
        Takes::One("TIME"),
        HelpSection::Connecting,
        "treat a host as lost after TIME without a message (default: 13s)",
    ),
    row("progress", Some('P'), Takes::One("SECONDS"), HelpSection::Output, "print a progress line every SECONDS"),
    row("json", None, Takes::Nothing, HelpSection::Output, "print events as JSON lines"),
    row("quiet", None, Takes::Nothing, HelpSection::Output, "print differences and errors only"),
    row("verbose", Some('v'), Takes::Repeats, HelpSection::Output, "print more about both hosts"),
    row("vverbose", Some('V'), Takes::Nothing, HelpSection::Output, "same as -vv"),
    row("debug", Some('D'), Takes::Nothing, HelpSection::Output, "same as -vvv"),
    row("logfile", Some('l'), Takes::One("FILE"), HelpSection::Output, "append messages to FILE"),
    row("timelimit", Some('t'), Takes::One("TIME"), HelpSection::Output, "stop after TIME (90, 10m, 2h)"),
    CONFIG,
    row("help", Some('h'), Takes::Nothing, HelpSection::Output, "show help"),
    row(
        "secret-file",
        None,
        Takes::One("FILE"),
        HelpSection::Connecting,
        "read the secret or private key for haul://HOST from the first line of FILE",
    ),
];

/// Options of `haul demo`.
pub const DEMO: &[OptionRow] = &[
    row("size", None, Takes::One("SIZE"), HelpSection::Copying, "amount of data to create (default: 1g)"),
    row(
        "streams",
        Some('s'),
        Takes::One("N"),
        HelpSection::Performance,
        "use 1 to 256 parallel streams (default: automatic)",
    ),
    row("keep", None, Takes::Nothing, HelpSection::Copying, "keep the data afterwards"),
    row("help", Some('h'), Takes::Nothing, HelpSection::Output, "show help"),
];

/// Options of `haul status` and `haul clean`.
pub const PARTIALS: &[OptionRow] = &[
    row(
        "append",
        Some('a'),
        Takes::One("DIR"),
        HelpSection::Copying,
        "the DIR of the copies' -a, where their resume journals are",
    ),
    row("json", None, Takes::Nothing, HelpSection::Output, "print one JSON object a line"),
    CONFIG,
    row("help", Some('h'), Takes::Nothing, HelpSection::Output, "show help"),
];

/// Options of `haul probe` besides those of a copy ([`super::probe`]).
pub const PROBE: &[OptionRow] = &[
    row(
        "network",
        None,
        Takes::Nothing,
        HelpSection::Output,
        "measure only the network: from memory to memory, back and forth",
    ),
    row("time", None, Takes::One("TIME"), HelpSection::Output, "measure each part for TIME (default: 3s)"),
    row(
        "size",
        None,
        Takes::One("SIZE"),
        HelpSection::Output,
        "write at most SIZE for each part (default: 4g), and at most a tenth of the free space",
    ),
    row(
        "try-streams",
        None,
        Takes::One("LIST"),
        HelpSection::Output,
        "stream counts to try besides the automatic one (default: 1,4)",
    ),
    row(
        "save",
        None,
        Takes::Nothing,
        HelpSection::Output,
        "write the recommended settings to your configuration, for this host",
    ),
    row(
        "sysctl",
        None,
        Takes::One("FILE"),
        HelpSection::Output,
        "write larger socket buffers for the measured path to FILE, for sysctl -p; nothing is applied",
    ),
    row("help", Some('h'), Takes::Nothing, HelpSection::Output, "show help"),
];

/// Options of `haul net` besides those of a copy ([`super::net`]).
pub const NET: &[OptionRow] = &[
    row("reverse", Some('R'), Takes::Nothing, HelpSection::Performance, "send from HOST to this machine"),
    row("help", Some('h'), Takes::Nothing, HelpSection::Output, "show help"),
];

/// Options of `haul serve`.
pub const SERVE: &[OptionRow] = &[
    row("once", None, Takes::Nothing, HelpSection::Connecting, "exit after the first complete copy"),
    row(
        "pipe",
        None,
        Takes::One("COMMAND"),
        HelpSection::Copying,
        "serve a program: COMMAND reads what clients send (with --read-only, they fetch its output)",
    ),
    row("for", None, Takes::One("TIME"), HelpSection::Connecting, "accept no clients after TIME (90, 10m, 2h)"),
    row("read-only", None, Takes::Nothing, HelpSection::Copying, "refuse uploads"),
    row("write-only", None, Takes::Nothing, HelpSection::Copying, "refuse downloads"),
    row(
        "create",
        None,
        Takes::Nothing,
        HelpSection::Copying,
        "accept new names only: no downloads, and no replacing, renaming or deleting",
    ),
    row(
        "secret-file",
        None,
        Takes::One("FILE"),
        HelpSection::Connecting,
        "read the secret from the first line of FILE, and do not print it (default: a new secret each time)",
    ),
    row(
        "open",
        None,
        Takes::Each("NETWORK"),
        HelpSection::Connecting,
        "admit clients in NETWORK (10.1.0.0/16) without a secret",
    ),
    row(
        "new-key",
        None,
        Takes::One("FILE"),
        HelpSection::Connecting,
        "write a private key to FILE, print its public key, and exit",
    ),
    row(
        "config",
        Some('C'),
        Takes::One("FILE"),
        HelpSection::Copying,
        "serve the directories that FILE names, instead of DIR",
    ),
    row("bind", None, Takes::One("ADDRESS"), HelpSection::Connecting, "listen on this local address only"),
    row(
        "port",
        Some('Z'),
        Takes::One("P[:Q]"),
        HelpSection::Connecting,
        "listen on port P, and accept data on the following ports up to Q (default: any)",
    ),
    row("clients", None, Takes::One("N"), HelpSection::Connecting, "accept at most N clients at a time (default: 16)"),
    row(
        "xfrrate",
        Some('x'),
        Takes::One("RATE"),
        HelpSection::Performance,
        "limit the rate of each client to RATE bytes/s, for example 50m, in each direction",
    ),
    row(
        "max-size",
        None,
        Takes::One("SIZE"),
        HelpSection::Performance,
        "accept at most SIZE bytes, from all clients together",
    ),
    row(
        "max-files",
        None,
        Takes::One("N"),
        HelpSection::Performance,
        "accept at most N files, directories and links, from all clients together (with --max-size, default: one for each 4k, at least 1024)",
    ),
    row(
        "metrics",
        None,
        Takes::One("ADDR:PORT"),
        HelpSection::Output,
        "answer GET /metrics with the figures of all clients; unix:PATH listens on a socket",
    ),
    row(
        "delta",
        None,
        Takes::One("MODE"),
        HelpSection::Performance,
        "off: send no block hashes of existing files (default: auto)",
    ),
    row(
        "allow-unsafe-links",
        None,
        Takes::Nothing,
        HelpSection::Copying,
        "accept symbolic links that point outside DIR (default: refuse them)",
    ),
    row("require-encryption", None, Takes::Nothing, HelpSection::Performance, "refuse clients with --no-encrypt"),
    row(
        "allow-tuning",
        None,
        Takes::Nothing,
        HelpSection::Performance,
        "let clients set traffic class, congestion control and socket buffers on this host (default: ignore them)",
    ),
    row(
        "require-sandbox",
        None,
        Takes::Nothing,
        HelpSection::Connecting,
        "refuse to start where the kernel cannot confine haul to DIR with Landlock (default)",
    ),
    row(
        "allow-unsandboxed",
        None,
        Takes::Nothing,
        HelpSection::Connecting,
        "start without Landlock too, and log a warning",
    ),
    row(
        "grace",
        None,
        Takes::One("TIME"),
        HelpSection::Connecting,
        "after a signal to stop, let running copies finish for TIME (default: 30s)",
    ),
    row(
        "audit",
        None,
        Takes::One("journal|FILE"),
        HelpSection::Output,
        "write a JSON line for each file to journal (the systemd journal) or to a file (absolute path)",
    ),
    row("json", None, Takes::Nothing, HelpSection::Output, "write the log as JSON lines"),
    row("help", Some('h'), Takes::Nothing, HelpSection::Output, "show help"),
];

/// Options of `haul survey`.
pub const SURVEY: &[OptionRow] = &[
    row(
        "to",
        None,
        Takes::One("TARGET"),
        HelpSection::Copying,
        "show what exists at TARGET (a local directory), or estimate the time of a copy (host:path)",
    ),
    row(
        "recursive",
        Some('r'),
        Takes::Nothing,
        HelpSection::Copying,
        "accepted, as in a copy: directories are always walked",
    ),
    row(
        "symlinks",
        Some('@'),
        Takes::One("MODE"),
        HelpSection::Copying,
        "symbolic links inside directories: keep (default), follow or ignore",
    ),
    filters::INCLUDE,
    filters::EXCLUDE,
    filters::INCLUDE_FROM,
    filters::EXCLUDE_FROM,
    filters::FILTER_FILES,
    filters::FILTER,
    filters::MIN_SIZE,
    filters::MAX_SIZE,
    filters::NEWER,
    filters::OLDER,
    row("no-duplicates", None, Takes::Nothing, HelpSection::Integrity, "do not read files to find duplicates"),
    row("no-sample", None, Takes::Nothing, HelpSection::Performance, "do not read files to estimate compression"),
    row("time", None, Takes::One("TIME"), HelpSection::Output, "read files for at most TIME in total (default: 60s)"),
    row("html", None, Takes::One("FILE"), HelpSection::Output, "write a page with a map of the bytes"),
    row("json", None, Takes::Nothing, HelpSection::Output, "print one JSON object a line"),
    CONFIG,
    row("help", Some('h'), Takes::Nothing, HelpSection::Output, "show help"),
];

/// Options of `haul sweep` besides those of a copy ([`super::sweep`]).
pub const SWEEP: &[OptionRow] = &[
    row(
        "windowsz",
        Some('w'),
        Takes::One("LIST"),
        HelpSection::Performance,
        "socket buffer sizes (SIZE or =SIZE, as in a copy)",
    )
    .or("windows"),
    row("streams", Some('s'), Takes::One("LIST"), HelpSection::Performance, "stream counts, for example 1,4,16"),
    row("cipher", None, Takes::One("LIST"), HelpSection::Performance, "ciphers, as in a copy, and none (--no-encrypt)")
        .or("ciphers"),
    row("frame", None, Takes::One("LIST"), HelpSection::Performance, "frame payloads: 256k,512k,1m").or("frames"),
    row("unbuffered", Some('u'), Takes::One("LIST"), HelpSection::Performance, "O_DIRECT at these ends: s,t,st,off")
        .or("engines"),
    row("xfrrate", Some('x'), Takes::One("LIST"), HelpSection::Performance, "rate limits").or("rates"),
    row("qos", Some('q'), Takes::One("LIST"), HelpSection::Performance, "IP traffic classes, for example 0,8,32"),
    row("size", None, Takes::One("LIST"), HelpSection::Copying, "sizes of the source null:, for example 1m,16m,1g")
        .or("sizes"),
    row("duration", None, Takes::One("LIST"), HelpSection::Copying, "times of copies to null:, for example 2s,5s,20s")
        .or("durations"),
    row("target", None, Takes::One("LIST"), HelpSection::Copying, "further targets, with the same runs each")
        .or("targets"),
    row("repeat", None, Takes::One("N"), HelpSection::Copying, "make every run N times, in rounds"),
    row(
        "out",
        None,
        Takes::One("NAME"),
        HelpSection::Output,
        "write results to NAME.csv and NAME.json after every run (default: sweep)",
    ),
    row("report", None, Takes::Nothing, HelpSection::Output, "write NAME.html too, a page with charts"),
    row(
        "no-pause",
        None,
        Takes::Nothing,
        HelpSection::Copying,
        "do not pause between runs (default: as long as the run before)",
    ),
    row("help", Some('h'), Takes::Nothing, HelpSection::Output, "show help"),
];

/// Options of `haul report`.
pub const REPORT: &[OptionRow] = &[
    row(
        "out",
        None,
        Takes::One("FILE"),
        HelpSection::Output,
        "write the page to FILE, .html or .md (default: report.html)",
    ),
    row("help", Some('h'), Takes::Nothing, HelpSection::Output, "show help"),
];

/// Options of `haul job plan` and `haul job run` besides those of a copy ([`super::job`]).
pub const JOB: &[OptionRow] = &[
    row(
        "dir",
        None,
        Takes::One("JOB"),
        HelpSection::Copying,
        "keep the job in the directory JOB, which all hosts see (run: default haul-job-ID)",
    ),
    row("sync", None, Takes::Nothing, HelpSection::Syncing, "make TARGET match SOURCE, as haul sync does"),
    row(
        "shard-bytes",
        None,
        Takes::One("SIZE"),
        HelpSection::Performance,
        "bytes of a full shard (default: 25g, growing up to 200g in large sources)",
    ),
    row(
        "shard-files",
        None,
        Takes::One("N"),
        HelpSection::Performance,
        "files of a full shard (default: 62.5k, growing up to 500k)",
    ),
    row("targets", None, Takes::One("FILE"), HelpSection::Connecting, "read further targets from FILE, one a line"),
    row(
        "local",
        None,
        Takes::One("N"),
        HelpSection::Performance,
        "run: copy N shards at a time on this host (default: 1)",
    ),
    row("slurm", None, Takes::Nothing, HelpSection::Performance, "run: submit shards to Slurm, and follow the job"),
    row(
        "nodes",
        None,
        Takes::One("N"),
        HelpSection::Performance,
        "--slurm: copy on at most N nodes at a time, each for one shard alone; plan: size shards for N nodes",
    ),
    row(
        "limit",
        None,
        Takes::One("N"),
        HelpSection::Performance,
        "--slurm: copy at most N shards at a time (default: as many as Slurm starts)",
    ),
    row("partition", None, Takes::One("NAME"), HelpSection::Performance, "--slurm: partition of the tasks"),
    row("account", None, Takes::One("NAME"), HelpSection::Performance, "--slurm: account of the tasks"),
    row(
        "time",
        None,
        Takes::One("LIMIT"),
        HelpSection::Performance,
        "--slurm: time limit of a task, as sbatch takes it; a shard that needs more is requeued and resumes",
    ),
    row("cpus-per-task", None, Takes::One("N"), HelpSection::Performance, "--slurm: CPUs of a task"),
    row(
        "sbatch",
        None,
        Takes::Each("OPTION"),
        HelpSection::Performance,
        "--slurm: a further option of sbatch, for example --sbatch=--mem=4G; repeatable",
    ),
    row(
        "no-wait",
        None,
        Takes::Nothing,
        HelpSection::Performance,
        "--slurm: end when everything is submitted (default: follow the job to its end)",
    ),
    row(
        "then-verify",
        None,
        Takes::Nothing,
        HelpSection::Integrity,
        "run: compare source and target at the end, as haul verify does",
    ),
    row("help", Some('h'), Takes::Nothing, HelpSection::Output, "show help"),
];

/// Options of the other steps of `haul job`.
pub const JOB_STEP: &[OptionRow] = &[
    row(
        "verify",
        None,
        Takes::Nothing,
        HelpSection::Integrity,
        "finish: compare source and target at the end, as haul verify does",
    ),
    row("wait", None, Takes::Nothing, HelpSection::Performance, "finish: wait until every shard is done or has failed"),
    row(
        "out",
        None,
        Takes::One("FILE"),
        HelpSection::Output,
        "report: write a page about all hosts (FILE.html, FILE.md)",
    ),
    row("json", None, Takes::Nothing, HelpSection::Output, "print one JSON object a line"),
    row("quiet", None, Takes::Nothing, HelpSection::Output, "print errors only"),
    row("help", Some('h'), Takes::Nothing, HelpSection::Output, "show help"),
];

/// Options of `haul job manifest`.
pub const JOB_MANIFEST: &[OptionRow] = &[
    row("image", None, Takes::One("IMAGE"), HelpSection::Connecting, "container image with haul"),
    row(
        "claim",
        None,
        Takes::One("PVC"),
        HelpSection::Connecting,
        "volume claim with the job's directory and the source",
    ),
    row(
        "mount",
        None,
        Takes::One("PATH"),
        HelpSection::Connecting,
        "mount the claim at PATH (default: the directory that has job, source and target)",
    ),
    row("limit", None, Takes::One("N"), HelpSection::Performance, "copy at most N shards at a time (default: 8)"),
    row("verify", None, Takes::Nothing, HelpSection::Integrity, "compare source and target at the end"),
    row("help", Some('h'), Takes::Nothing, HelpSection::Output, "show help"),
];

/// The row of `id`, as a person types it.
///
/// # Panics
/// If no row has that id: a mistake in this program.
pub fn typed(id: &str) -> String {
    let mut all = COPY
        .iter()
        .chain(DEMO)
        .chain(PROBE)
        .chain(NET)
        .chain(SERVE)
        .chain(SURVEY)
        .chain(SWEEP)
        .chain(JOB)
        .chain(JOB_MANIFEST);
    all.find(|row| row.id == id).map(OptionRow::typed).expect("every option is in the table")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn no_name_and_no_letter_stands_for_two_options() {
        for table in [COPY, DEMO, JOB, JOB_MANIFEST, JOB_STEP, NET, PARTIALS, PROBE, REPORT, SERVE, SURVEY, VERIFY] {
            let ids: HashSet<_> = table.iter().map(|row| row.id).collect();
            assert_eq!(ids.len(), table.len());
            let names: Vec<_> = table.iter().flat_map(OptionRow::long_forms).collect();
            assert_eq!(names.iter().collect::<HashSet<_>>().len(), names.len());
            let letters: Vec<_> = table.iter().flat_map(|row| row.letter.into_iter().chain(row.other_letter)).collect();
            assert_eq!(letters.iter().collect::<HashSet<_>>().len(), letters.len());
            assert!(table.iter().all(|row| row.long || row.letter.is_some()));
        }
    }

    #[test]
    fn an_option_of_verify_is_typed_as_that_of_a_copy() {
        for row in VERIFY {
            let copy = COPY.iter().find(|copy| copy.id == row.id).expect("a copy has it");
            assert_eq!((row.letter, row.typed()), (copy.letter, copy.typed()));
        }
    }

    #[test]
    fn every_letter_of_bbcp_is_there() {
        for letter in "aAbBcCdDeEfFghHiIkKlLmnNoOpPqrRsStTuUvVwWxyzZ4@^~+$#".chars() {
            assert!(COPY.iter().any(|row| row.has_letter(letter) && row.bbcp.is_some()), "-{letter}");
        }
    }
}

#[cfg(test)]
#[path = "documented_tests.rs"]
mod documented_tests;
