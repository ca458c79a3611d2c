//! The one table of options: parser, help, manual and completions are made from it, and nothing else lists them.
//!
//! Letters are bbcp's.

use super::filters;
use super::row::{HelpSection, OptionRow, Takes, row};

/// bbcp's levels are 0 to 9; those of zstd are 1 to 19, and 0 is off in both.
const COMPRESS: Takes = Takes::Word {
    name: "HOW",
    known: &[
        "auto", "off", "lz4", "zstd", "0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14",
        "15", "16", "17", "18", "19",
    ],
    absent: "auto",
};

/// bbcp's `-y d` (the file) and `-y dd` (its directory, too), and words for the same.
const FSYNC: Takes = Takes::Word { name: "HOW", known: &["none", "data", "full", "d", "dd"], absent: "full" };

/// Alone, it is rsync's.
const SPARSE: Takes = Takes::Word { name: "WHAT", known: &["keep", "make", "fill"], absent: "make" };

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
    "options from FILE, and not from the configuration of\nuser and system (haul help config)",
)
.of_one_job();

/// Options of a copy.
pub const COPY: &[OptionRow] = &[
    row("recursive", Some('r'), Takes::Nothing, HelpSection::Copying, "copy directories with all that is in them").bbcp(1).essential(),
    row("force", Some('f'), Takes::Nothing, HelpSection::Copying, "replace files that exist and differ").bbcp(1).essential().of_one_job(),
    row("omit", Some('O'), Takes::Nothing, HelpSection::Copying, "leave out files that exist, whatever is in them").bbcp(4).of_one_job(),
    row("preserve", Some('p'), Takes::Nothing, HelpSection::Copying, "keep mode, owner, group (times are always kept)").bbcp(1).essential(),
    row("mode", Some('m'), Takes::One("[DIRS/][FILES]"), HelpSection::Copying, "octal modes of what is made, such as 750/640").bbcp(1),
    row("mkdir", Some('A'), Takes::Nothing, HelpSection::Copying, "make the target directory if it is missing").bbcp(2),
    row("dirbase", Some('d'), Takes::One("BASE"), HelpSection::Copying, "relative sources are below BASE, and come to lie in\nthe same directories below the target").bbcp(3).of_one_job(),
    row("infiles", Some('I'), Takes::One("FILE"), HelpSection::Copying, "copy what FILE names, too, one path a line; - is\nstandard input").bbcp(2).of_one_job(),
    row("null", Some('0'), Takes::Nothing, HelpSection::Copying, "NUL ends a path in that list, and not a line end").of_one_job(),
    row("symlinks", Some('@'), Takes::One("MODE"), HelpSection::Copying, "links in directories: keep (default), follow, ignore").bbcp(2),
    row("readable", Some('+'), Takes::Nothing, HelpSection::Copying, "leave out what cannot be read in directories").bbcp(3),
    row("no-empty-dirs", Some('^'), Takes::Nothing, HelpSection::Copying, "leave out directories with nothing in them").bbcp_letter(),
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
    row("order", Some('o'), Takes::Nothing, HelpSection::Copying, "write in ascending order: one stream, through the\npage cache").bbcp(1),
    row("pipe", Some('N'), Takes::One("ENDS"), HelpSection::Copying, "the source (i), the target (o) or both (io) are\nprograms, for the host's shell, or FIFOs").bbcp(4).of_one_job(),
    row("realtime", Some('R'), Takes::Time { name: "TIME", absent: "10s" }, HelpSection::Copying, "follow a file that grows, until it has not grown for\nTIME (default: 10s)").bbcp(4).of_one_job(),
    row("delta", None, Takes::One("HOW"), HelpSection::Copying, "of a file that is replaced, send what the old one\nlacks: auto (default), off, blocks (found at their\nplaces), rolling (found anywhere)"),
    row("inplace", None, Takes::Nothing, HelpSection::Copying, "with -f, change files in their own place, block by\nblock, and replace none"),
    row("append", Some('a'), Takes::Place("DIR"), HelpSection::Copying, "where the target records what is in unfinished\nfiles (default: beside them)").bbcp(1),
    row("no-resume", None, Takes::Nothing, HelpSection::Copying, "begin anew, and record nothing of unfinished files"),
    row("no-keep", None, Takes::Nothing, HelpSection::Copying, "remove unfinished files when the copy fails"),
    row("nofschk", Some('F'), Takes::Nothing, HelpSection::Copying, "begin files for which there is no room, too").bbcp(4),
    row("timelimit", Some('t'), Takes::One("TIME"), HelpSection::Copying, "give up after TIME (90, 10m, 2h); the same command\ngoes on").bbcp(1),
    CONFIG.bbcp(6),
    row("archive", None, Takes::Nothing, HelpSection::Copying, "-r, -p, --hard-links, --xattrs and --acls"),
    row("hard-links", None, Takes::Nothing, HelpSection::Copying, "names of one file are names of one file there, too"),
    row("xattrs", None, Takes::Nothing, HelpSection::Copying, "keep extended attributes"),
    row("acls", None, Takes::Nothing, HelpSection::Copying, "keep access control lists, and all that -p does"),
    row("sparse", None, SPARSE, HelpSection::Copying, "holes in files: keep (default), fill them, or make\nthem, too, where there are only zeros"),
    row("numeric-ids", None, Takes::Nothing, HelpSection::Copying, "with -p, owners and groups by their numbers, and not\nby their names"),
    row("usermap", None, Takes::One("FROM:TO,..."), HelpSection::Copying, "with -p, users that become others: by name or number\n(anna:smith, 0-99:nobody, *:guest)"),
    row("groupmap", None, Takes::One("FROM:TO,..."), HelpSection::Copying, "the same of groups"),
    row("chown", None, Takes::One("USER:GROUP"), HelpSection::Copying, "with -p, all become theirs; either may be left out"),
    row("devices", None, Takes::Nothing, HelpSection::Copying, "make devices, as root"),
    row("specials", None, Takes::Nothing, HelpSection::Copying, "make FIFOs and sockets"),
    row("compare", None, Takes::One("HOW"), HelpSection::Syncing, "what makes a file that is there the same: size and\ntime (time, the default), size, what is in it\n(digest), or that it is there (exists)").of_one_job(),
    row("modify-window", None, Takes::One("SECONDS"), HelpSection::Syncing, "times that differ by at most SECONDS are equal\n(0: only in fractions of a second)"),
    row("update", None, Takes::Nothing, HelpSection::Syncing, "leave files that are newer than the source's").of_one_job(),
    row("existing", None, Takes::Nothing, HelpSection::Syncing, "make nothing that is not there").of_one_job(),
    row("ignore-existing", None, Takes::Nothing, HelpSection::Syncing, "the same as --compare exists").of_one_job(),
    row("delete", None, DELETE, HelpSection::Syncing, "remove what is at the target alone: after the copy\n(default), during it, or before it").of_one_job(),
    row("delete-excluded", None, Takes::Nothing, HelpSection::Syncing, "with --delete: also what filters leave out").of_one_job(),
    row("max-delete", None, Takes::One("N"), HelpSection::Syncing, "with --delete: at most N entries"),
    row("ignore-errors", None, Takes::Nothing, HelpSection::Syncing, "with --delete: also where entries failed, or the source\ncould not be listed to its end").of_one_job(),
    row("detect-renames", None, Takes::Nothing, HelpSection::Syncing, "look for files that are not there under other names,\nand send only what those lack").of_one_job(),
    row("backup-dir", None, Takes::One("DIR"), HelpSection::Syncing, "keep what is replaced or removed in DIR, which is in\nthe target unless it begins with /").of_one_job(),
    row("link-dest", None, Takes::Each("DIR"), HelpSection::Syncing, "files that are the same in DIR, an earlier copy, are\nmade names of those; up to 20 times; in the target\nunless it begins with /").of_one_job(),
    row("remove-source-files", None, Takes::Nothing, HelpSection::Syncing, "remove files that were sent, and links, once they\nare proven at the target").of_one_job(),
    row("dry-run", None, Takes::Nothing, HelpSection::Syncing, "change nothing, and say what would be made, changed\nand removed").of_one_job(),
    row("items", None, Takes::Nothing, HelpSection::Syncing, "say what is made, changed and removed"),
    row("streams", Some('s'), Takes::One("N"), HelpSection::Moving, "parallel streams, 1 to 256 (default: automatic)").bbcp(1).essential(),
    row("congestion", None, Takes::One("NAME"), HelpSection::Moving, "congestion control (default: by the path)"),
    row("windowsz", Some('w'), Takes::One("[=]SIZE"), HelpSection::Moving, "most that a socket's buffers hold (default: the\nkernel's tuning); with = exactly that").or_letter('W').bbcp(1),
    row("forced-window", Some('U'), Takes::One("SIZE"), HelpSection::Moving, "the same as -w =SIZE").letter_only().bbcp_letter(),
    row("qos", Some('q'), Takes::One("CLASS"), HelpSection::Moving, "traffic class of the packets, 0 to 255 (IPv4: TOS)").bbcp(3),
    row("xfrrate", Some('x'), Takes::One("RATE"), HelpSection::Moving, "at most RATE (a SIZE) a second, over all streams;\nSIGUSR1 to this haul doubles it, SIGUSR2 halves it").bbcp(1),
    row("bwlimit", None, Takes::One("RATE"), HelpSection::Moving, "rsync's: the same, and a number is in KiB a second"),
    row("cpus", None, Takes::One("LIST"), HelpSection::Moving, "keep both ends to these CPUs (0-7,16)"),
    row("frame", None, Takes::One("SIZE"), HelpSection::Moving, "payload of a frame: 256k, 512k or 1m"),
    row("buffsz", Some('B'), Takes::One("SIZE"), HelpSection::Moving, "read and write files in pieces of at most SIZE\n(256k at least, 1m at most)").bbcp(6),
    row("buffers", Some('b'), Takes::Each("[+]N"), HelpSection::Moving, "frames that a stream has under way on the disk, 1 to\n64, at the source; with + at the target").bbcp(1),
    row("unbuffered", Some('u'), Takes::One("ENDS"), HelpSection::Moving, "O_DIRECT at the source (s), the target (t), both\n(st), or off (default: what measures faster)").bbcp(1),
    row("cache", None, Takes::One("HOW"), HelpSection::Moving, "keep copied files in the page cache, or drop\nthem (default: large ones are dropped)"),
    row("cipher", None, Takes::One("NAME"), HelpSection::Moving, "auto, aes-256-gcm, aes-128-gcm, chacha20-poly1305"),
    row("no-encrypt", None, Takes::Nothing, HelpSection::Moving, "contents in the clear, still authenticated"),
    row("compress", Some('c'), COMPRESS, HelpSection::Moving, "auto (default), off, lz4, zstd, or zstd's level,\n1 to 19").bbcp(1),
    row("idfile", Some('i'), Takes::One("KEY"), HelpSection::Reaching, "ssh's identity file").bbcp(1).essential(),
    row("ssh-port", None, Takes::One("PORT"), HelpSection::Reaching, "ssh's port").essential(),
    row("ssh-option", None, Takes::Each("OPTION"), HelpSection::Reaching, "passed to ssh as -o OPTION; can be repeated"),
    row("rsh", None, Takes::One("COMMAND"), HelpSection::Reaching, "rsync's: 'ssh -p PORT -i KEY -o OPTION'").of_one_job(),
    row("source-command", Some('S'), Takes::One("CMD"), HelpSection::Reaching, "starts haul at a remote source (see -T)").bbcp_letter(),
    row("target-command", Some('T'), Takes::One("CMD"), HelpSection::Reaching, "starts haul at a remote target, for example\n'ssh %I -l %U %H /opt/bin/haul'; %I is -i KEY,\n%U the user, %H the host, %4 nothing or -4").bbcp_letter(),
    row("callback", Some('H'), Takes::One("HOST"), HelpSection::Reaching, "connect to HOST or HOST:PORT for the data, and to\nnothing else: an address of the end that accepts").bbcp(2),
    row("bind", None, Takes::One("WHAT"), HelpSection::Reaching, "only over this address or interface of this machine"),
    row("ipv4", Some('4'), PLACES, HelpSection::Reaching, "IPv4 only: for ssh (c), the data (s, t), or both").bbcp(4),
    row("ipv6", Some('6'), PLACES, HelpSection::Reaching, "the same with IPv6"),
    row("reverse", Some('z'), Takes::Nothing, HelpSection::Reaching, "the target connects to the source, if it can").bbcp(3),
    row("port", Some('Z'), Takes::One("P[:Q]"), HelpSection::Reaching, "accept data on a port from P to Q (default: any)").bbcp(4),
    row("paths", None, Takes::One("HOW"), HelpSection::Reaching, "best (default): of several links the one that\ncarries most; all: several links at once"),
    row("secret-file", None, Takes::One("FILE"), HelpSection::Reaching, "the secret for haul://HOST, in FILE's first line"),
    row("no-deploy", None, Takes::Nothing, HelpSection::Reaching, "never put haul on a host that has none"),
    row("retries", None, Takes::One("N"), HelpSection::Reaching, "after a lost connection begin again, at most N\ntimes in a row without coming further; 0: never"),
    row("retry-for", None, Takes::One("TIME"), HelpSection::Reaching, "the same for at most TIME (90, 10m, 2h) without\ncoming further (default: 10m)"),
    row("silence", None, Takes::One("TIME"), HelpSection::Reaching, "a host that says nothing for TIME is lost\n(default: 13s)"),
    row("verify", None, Takes::One("HOW"), HelpSection::Verifying, "memory: the target hashes what it writes, too;\ndisk: it reads back what it has written, past the\npage cache, and has sent again what differs"),
    row("digest", None, Takes::One("WHAT"), HelpSection::Verifying, "xxh3 (default): each block is checked at both ends;\nblake3: the source computes each file's BLAKE3, too\n(as with --json, --checksums and --verify)"),
    row("fsync", Some('y'), FSYNC, HelpSection::Verifying, "full (default): files and their names are on the\ndisk when haul is done; data: only what is in them;\nnone; d and dd are bbcp's data and full").or("sync").bbcp_as("sync", 4),
    row("checksums", None, Takes::One("FILE"), HelpSection::Verifying, "lines for b3sum --check (-: standard output)").essential().of_one_job(),
    row("checksum-alg", None, Takes::One("ALG"), HelpSection::Verifying, "which digest these lines have, or those of --expect:\none of -E, in the form of sha256sum and its like").of_one_job(),
    row("expect", None, Takes::One("FILE"), HelpSection::Verifying, "hold each file against its line in FILE (as of\nsha256sum or b3sum) before it has its name; what has\nno line, or no file, is named").of_one_job(),
    row("checksum", Some('E'), Takes::One("ALG"), HelpSection::Verifying, "print ALG of each file at the target, with %ALG at\nthe source: a32, c32, c32z, md5, crc32c, crc64nvme,\nsha1, sha256, sha512, xxh3, blake3; ALG=FILE adds\nit to FILE, ALG=VALUE fails files that have another").bbcp(5).of_one_job(),
    row("progress", Some('P'), Takes::One("SECONDS"), HelpSection::Showing, "a progress line every SECONDS, in bbcp's form").bbcp(4),
    row("json", None, Takes::Nothing, HelpSection::Showing, "events on standard output, one object a line").essential(),
    row("quiet", None, Takes::Nothing, HelpSection::Showing, "nothing but errors").essential(),
    row("verbose", Some('v'), Takes::Repeats, HelpSection::Showing, "more about the connection and the ends; -vv about\nthe path, -vvv each file").bbcp(1),
    row("vverbose", Some('V'), Takes::Nothing, HelpSection::Showing, "the same as -vv").bbcp(2).of_one_job(),
    row("debug", Some('D'), Takes::Nothing, HelpSection::Showing, "the same as -vvv").bbcp(5).of_one_job(),
    row("tui", None, Takes::Nothing, HelpSection::Showing, "a dashboard on the whole terminal; keys change the\nrate and the number of streams, and pause").of_one_job(),
    row("report", None, Takes::One("FILE"), HelpSection::Showing, "at the end, also of a copy that failed, a page with\ncharts: FILE.html, or FILE.md").of_one_job(),
    row("logfile", Some('l'), Takes::One("FILE"), HelpSection::Showing, "add to FILE what would be shown on standard error").bbcp(1),
    row("version", Some('#'), Takes::Nothing, HelpSection::Showing, "the version; with -v also speeds of this CPU").bbcp(7).of_one_job(),
    row("license", Some('$'), Takes::Nothing, HelpSection::Showing, "the license of haul").bbcp(7).of_one_job(),
    row("help", Some('h'), Takes::Perhaps("WHAT"), HelpSection::Showing, "this help; --help all for every option, or the name\nof an option or a command").bbcp(1).of_one_job(),
    row("keep", Some('k'), Takes::Nothing, HelpSection::Accepted, "unfinished files are always kept").or("partial").bbcp(1),
    row("ptime", Some('~'), Takes::Nothing, HelpSection::Accepted, "times are always kept").bbcp(2),
    row("error-check", Some('e'), Takes::Nothing, HelpSection::Accepted, "every frame is always checked").letter_only().bbcp_letter(),
    row("gross", Some('g'), Takes::Nothing, HelpSection::Accepted, "empty directories are copied").bbcp(1),
    row("truncate", Some('K'), Takes::Nothing, HelpSection::Accepted, "with -f: what is replaced stays until the new file\nis whole").letter_only().bbcp_letter(),
    row("nodns", Some('n'), Takes::Nothing, HelpSection::Accepted, "addresses are never looked up").bbcp(1),
    row("netlogger", Some('L'), Takes::One("OPTIONS"), HelpSection::Unlisted, "NetLogger").letter_only().bbcp_letter().refused("haul does not write NetLogger's events\n--json gives the events of a copy, one object a line").of_one_job(),
];

/// Options of `haul verify`: those of a copy that select data and the way of reading it.
pub const VERIFY: &[OptionRow] = &[
    row("recursive", Some('r'), Takes::Nothing, HelpSection::Copying, "compare directories with all that is in them"),
    row("preserve", Some('p'), Takes::Nothing, HelpSection::Copying, "compare mode, owner and group, too"),
    row("archive", None, Takes::Nothing, HelpSection::Copying, "-r, -p, --hard-links, --xattrs and --acls"),
    row(
        "hard-links",
        None,
        Takes::Nothing,
        HelpSection::Copying,
        "whether names of one file are names of one file\nthere, too, and no others are",
    ),
    row("xattrs", None, Takes::Nothing, HelpSection::Copying, "compare extended attributes"),
    row("acls", None, Takes::Nothing, HelpSection::Copying, "compare access control lists, and all that -p does"),
    row(
        "numeric-ids",
        None,
        Takes::Nothing,
        HelpSection::Copying,
        "with -p, owners and groups by their numbers, and not\nby their names",
    ),
    row(
        "usermap",
        None,
        Takes::One("FROM:TO,..."),
        HelpSection::Copying,
        "with -p, users that the copy has made others",
    ),
    row("groupmap", None, Takes::One("FROM:TO,..."), HelpSection::Copying, "the same of groups"),
    row("chown", None, Takes::One("USER:GROUP"), HelpSection::Copying, "with -p, whose all was made"),
    row("devices", None, Takes::Nothing, HelpSection::Copying, "compare devices: kind and number"),
    row("specials", None, Takes::Nothing, HelpSection::Copying, "compare FIFOs and sockets"),
    row(
        "dirbase",
        Some('d'),
        Takes::One("BASE"),
        HelpSection::Copying,
        "relative sources are below BASE, and in the same\ndirectories below the target",
    ),
    row(
        "infiles",
        Some('I'),
        Takes::One("FILE"),
        HelpSection::Copying,
        "compare what FILE names, too, one path a line; - is\nstandard input",
    ),
    row("null", Some('0'), Takes::Nothing, HelpSection::Copying, "NUL ends a path in that list, and not a line end"),
    row(
        "symlinks",
        Some('@'),
        Takes::One("MODE"),
        HelpSection::Copying,
        "links in directories: keep (default), follow, ignore",
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
        HelpSection::Moving,
        "N threads at each end read, 1 to 256\n(default: automatic)",
    ),
    row("cpus", None, Takes::One("LIST"), HelpSection::Moving, "keep both ends to these CPUs (0-7,16)"),
    row(
        "frame",
        None,
        Takes::One("SIZE"),
        HelpSection::Moving,
        "what is named of a file that differs: blocks of\n256k, 512k (default) or 1m",
    ),
    row(
        "unbuffered",
        Some('u'),
        Takes::One("ENDS"),
        HelpSection::Moving,
        "O_DIRECT at the source (s), the target (t), both\n(st), or off (default: what measures faster)",
    ),
    row(
        "cache",
        None,
        Takes::One("HOW"),
        HelpSection::Moving,
        "keep what was read in the page cache, or drop it\n(default: large files are dropped)",
    ),
    row("idfile", Some('i'), Takes::One("KEY"), HelpSection::Reaching, "ssh's identity file"),
    row("ssh-port", None, Takes::One("PORT"), HelpSection::Reaching, "ssh's port"),
    row(
        "ssh-option",
        None,
        Takes::Each("OPTION"),
        HelpSection::Reaching,
        "passed to ssh as -o OPTION; can be repeated",
    ),
    row("source-command", Some('S'), Takes::One("CMD"), HelpSection::Reaching, "starts haul at a remote source"),
    row("target-command", Some('T'), Takes::One("CMD"), HelpSection::Reaching, "starts haul at a remote target"),
    row("ipv4", Some('4'), PLACES, HelpSection::Reaching, "ssh over IPv4 only"),
    row("ipv6", Some('6'), PLACES, HelpSection::Reaching, "the same with IPv6"),
    row("rsh", None, Takes::One("COMMAND"), HelpSection::Reaching, "rsync's: 'ssh -p PORT -i KEY -o OPTION'"),
    row("no-deploy", None, Takes::Nothing, HelpSection::Reaching, "never put haul on a host that has none"),
    row(
        "retries",
        None,
        Takes::One("N"),
        HelpSection::Reaching,
        "after a lost connection begin again, at most N times",
    ),
    row("retry-for", None, Takes::One("TIME"), HelpSection::Reaching, "the same for at most TIME (90, 10m, 2h)"),
    row("silence", None, Takes::One("TIME"), HelpSection::Reaching, "a host that says nothing for TIME is lost"),
    row(
        "progress",
        Some('P'),
        Takes::One("SECONDS"),
        HelpSection::Showing,
        "a progress line every SECONDS, in bbcp's form",
    ),
    row("json", None, Takes::Nothing, HelpSection::Showing, "events on standard output, one object a line"),
    row("quiet", None, Takes::Nothing, HelpSection::Showing, "nothing but differences and errors"),
    row("verbose", Some('v'), Takes::Repeats, HelpSection::Showing, "more about the ends"),
    row("vverbose", Some('V'), Takes::Nothing, HelpSection::Showing, "the same as -vv"),
    row("debug", Some('D'), Takes::Nothing, HelpSection::Showing, "the same as -vvv"),
    row(
        "logfile",
        Some('l'),
        Takes::One("FILE"),
        HelpSection::Showing,
        "add to FILE what would be shown on standard error",
    ),
    row("timelimit", Some('t'), Takes::One("TIME"), HelpSection::Showing, "give up after TIME (90, 10m, 2h)"),
    CONFIG,
    row("help", Some('h'), Takes::Nothing, HelpSection::Showing, "this help"),
    row(
        "secret-file",
        None,
        Takes::One("FILE"),
        HelpSection::Reaching,
        "the secret for haul://HOST, in FILE's first line",
    ),
];

/// Options of `haul demo`.
pub const DEMO: &[OptionRow] = &[
    row("size", None, Takes::One("SIZE"), HelpSection::Copying, "how much data to make (default: 1g)"),
    row("streams", Some('s'), Takes::One("N"), HelpSection::Moving, "parallel streams, 1 to 256 (default: automatic)"),
    row("keep", None, Takes::Nothing, HelpSection::Copying, "leave the data there afterwards"),
    row("help", Some('h'), Takes::Nothing, HelpSection::Showing, "this help"),
];

/// Options of `haul status` and `haul clean`.
pub const PARTIALS: &[OptionRow] = &[
    row(
        "append",
        Some('a'),
        Takes::One("DIR"),
        HelpSection::Copying,
        "the DIR of the copies' -a, where their records lie",
    ),
    row("json", None, Takes::Nothing, HelpSection::Showing, "one object a line"),
    CONFIG,
    row("help", Some('h'), Takes::Nothing, HelpSection::Showing, "this help"),
];

/// Options of `haul probe` besides those of a copy ([`super::probe`]).
pub const PROBE: &[OptionRow] = &[
    row("time", None, Takes::One("TIME"), HelpSection::Showing, "how long each part is measured (default: 3s)"),
    row(
        "size",
        None,
        Takes::One("SIZE"),
        HelpSection::Showing,
        "a part writes SIZE at most (default: 4g), and never\nmore than a tenth of what is free",
    ),
    row(
        "try-streams",
        None,
        Takes::One("LIST"),
        HelpSection::Showing,
        "numbers of streams to try besides haul's own choice\n(default: 1,4)",
    ),
    row(
        "save",
        None,
        Takes::Nothing,
        HelpSection::Showing,
        "write the settings that are worth having into your\nconfiguration, for this host",
    ),
    row("help", Some('h'), Takes::Nothing, HelpSection::Showing, "this help"),
];

/// Options of `haul serve`.
pub const SERVE: &[OptionRow] = &[
    row("once", None, Takes::Nothing, HelpSection::Reaching, "end after the first copy that is whole"),
    row("for", None, Takes::One("TIME"), HelpSection::Reaching, "take no more clients after TIME (90, 10m, 2h)"),
    row("read-only", None, Takes::Nothing, HelpSection::Copying, "nothing can be sent here"),
    row("write-only", None, Takes::Nothing, HelpSection::Copying, "nothing can be fetched from here"),
    row(
        "create",
        None,
        Takes::Nothing,
        HelpSection::Copying,
        "only new names can be sent here: nothing is fetched,\nreplaced, moved or removed",
    ),
    row(
        "secret-file",
        None,
        Takes::One("FILE"),
        HelpSection::Reaching,
        "the secret is in FILE's first line, and is not\nprinted (default: a new one each time)",
    ),
    row(
        "new-key",
        None,
        Takes::One("FILE"),
        HelpSection::Reaching,
        "make a private key in FILE, print the public one,\nand end",
    ),
    row(
        "config",
        Some('C'),
        Takes::One("FILE"),
        HelpSection::Copying,
        "several directories, under the names that FILE has\nfor them; in the place of DIR",
    ),
    row("bind", None, Takes::One("ADDRESS"), HelpSection::Reaching, "answer at this address of this machine only"),
    row(
        "port",
        Some('Z'),
        Takes::One("P[:Q]"),
        HelpSection::Reaching,
        "answer on port P; take data on those after it, up\nto Q (default: any)",
    ),
    row("clients", None, Takes::One("N"), HelpSection::Reaching, "at most N clients at a time (default: 16)"),
    row(
        "xfrrate",
        Some('x'),
        Takes::One("RATE"),
        HelpSection::Moving,
        "send each client, and take from each, at most RATE\n(a SIZE) a second",
    ),
    row(
        "max-size",
        None,
        Takes::One("SIZE"),
        HelpSection::Moving,
        "take at most SIZE bytes of files, from all clients\ntogether",
    ),
    row(
        "max-files",
        None,
        Takes::One("N"),
        HelpSection::Moving,
        "take at most N files, directories and links, from\nall clients together (default with --max-size: one\nfor each 4k, at least 1024)",
    ),
    row(
        "delta",
        None,
        Takes::One("HOW"),
        HelpSection::Moving,
        "off: send no block hashes of existing files\n(default: auto)",
    ),
    row(
        "allow-unsafe-links",
        None,
        Takes::Nothing,
        HelpSection::Copying,
        "accept symbolic links that lead out of DIR (default:\nrefuse them)",
    ),
    row("require-encryption", None, Takes::Nothing, HelpSection::Moving, "refuse clients that say --no-encrypt"),
    row(
        "allow-tuning",
        None,
        Takes::Nothing,
        HelpSection::Moving,
        "clients choose traffic class, congestion control and\nwindows at this end, too (default: ignore them)",
    ),
    row(
        "require-sandbox",
        None,
        Takes::Nothing,
        HelpSection::Reaching,
        "do not serve where the kernel cannot confine this to\nDIR (Landlock): the default",
    ),
    row("allow-unsandboxed", None, Takes::Nothing, HelpSection::Reaching, "serve there, too, and log a warning"),
    row(
        "grace",
        None,
        Takes::One("TIME"),
        HelpSection::Reaching,
        "copies that run may take TIME more once this is told\nto end (default: 30s)",
    ),
    row(
        "audit",
        None,
        Takes::One("WHERE"),
        HelpSection::Showing,
        "a line of JSON for each file: journal, or the\nabsolute path of a file to add to",
    ),
    row("json", None, Takes::Nothing, HelpSection::Showing, "the log as one object a line"),
    row("help", Some('h'), Takes::Nothing, HelpSection::Showing, "this help"),
];

/// Options of `haul survey`.
pub const SURVEY: &[OptionRow] = &[
    row(
        "to",
        None,
        Takes::One("TARGET"),
        HelpSection::Copying,
        "say what is at TARGET already (a directory here), or\nhow long a copy takes (host:path)",
    ),
    row("recursive", Some('r'), Takes::Nothing, HelpSection::Copying, "as for a copy: directories are always walked"),
    row(
        "symlinks",
        Some('@'),
        Takes::One("MODE"),
        HelpSection::Copying,
        "links in directories: keep (default), follow, ignore",
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
    row("no-duplicates", None, Takes::Nothing, HelpSection::Verifying, "read no files to find those that are the same"),
    row("no-sample", None, Takes::Nothing, HelpSection::Moving, "read no files to see how they compress"),
    row(
        "time",
        None,
        Takes::One("TIME"),
        HelpSection::Showing,
        "read files for at most TIME, for both together\n(default: 60s)",
    ),
    row("html", None, Takes::One("FILE"), HelpSection::Showing, "a page, too, with a map of the bytes"),
    row("json", None, Takes::Nothing, HelpSection::Showing, "one object a line"),
    CONFIG,
    row("help", Some('h'), Takes::Nothing, HelpSection::Showing, "this help"),
];

/// Options of `haul sweep` besides those of a copy ([`super::sweep`]).
pub const SWEEP: &[OptionRow] = &[
    row("windowsz", Some('w'), Takes::One("LIST"), HelpSection::Moving, "windows: sizes, =SIZE as in a copy")
        .or("windows"),
    row("streams", Some('s'), Takes::One("LIST"), HelpSection::Moving, "numbers of streams, such as 1,4,16"),
    row("cipher", None, Takes::One("LIST"), HelpSection::Moving, "ciphers, as in a copy, and none (--no-encrypt)")
        .or("ciphers"),
    row("frame", None, Takes::One("LIST"), HelpSection::Moving, "payloads of a frame: 256k,512k,1m").or("frames"),
    row("unbuffered", Some('u'), Takes::One("LIST"), HelpSection::Moving, "O_DIRECT at which ends: s,t,st,off")
        .or("engines"),
    row("xfrrate", Some('x'), Takes::One("LIST"), HelpSection::Moving, "limits on the rate").or("rates"),
    row("repeat", None, Takes::One("N"), HelpSection::Copying, "make every run N times, one round after the other"),
    row(
        "out",
        None,
        Takes::One("NAME"),
        HelpSection::Showing,
        "results go to NAME.csv and NAME.json after every run\n(default: sweep)",
    ),
    row("report", None, Takes::Nothing, HelpSection::Showing, "and to NAME.html, a page with charts"),
    row(
        "no-pause",
        None,
        Takes::Nothing,
        HelpSection::Copying,
        "no pause between runs, which else is as long as the\nrun before it took",
    ),
    row("help", Some('h'), Takes::Nothing, HelpSection::Showing, "this help"),
];

/// Words that are commands in first position. `worker` is one, too, but only haul itself uses it.
pub const COMMANDS: &[&str] =
    &["clean", "config", "demo", "help", "probe", "serve", "status", "survey", "sweep", "sync", "verify"];

/// The row of `id`, as a person types it.
///
/// # Panics
/// If no row has that id: a mistake in this program.
pub fn typed(id: &str) -> String {
    let mut all = COPY.iter().chain(DEMO).chain(PROBE).chain(SERVE).chain(SURVEY).chain(SWEEP);
    all.find(|row| row.id == id).map(OptionRow::typed).expect("every option is in the table")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn no_name_and_no_letter_stands_for_two_options() {
        for table in [COPY, DEMO, PARTIALS, PROBE, SERVE, SURVEY, VERIFY] {
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
