//! The options. Each is declared here once, for the parser, the help, the manual and the completions.
//!
//! Code reads an option's value with its item, so nobody can ask for an unknown option, or for a number where text is.
//! Letters are those of [`super::letters`], and bbcp's under its name. Other commands have their own lists below, which
//! include options of a copy.

pub mod config;
pub mod copies;
pub mod demo;
pub mod files;
pub mod job;
pub mod manifest;
pub mod net;
pub mod partials;
pub mod probe;
pub mod read;
pub mod report;
pub mod serve;
pub mod step;
pub mod survey;
pub mod sweep;
pub mod twoway;
pub mod verify;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use haul_base::copy::spec::{
    CacheUse, Cipher, CompressionPolicy, DeltaMode, EqualityTest, Fsync, HolePolicy, SILENCE_MIN, StripingPolicy,
    Symlinks, Transport, Verify,
};
use haul_control::served_operand::CLIENTS_MAX;
use haul_proto::limits::STREAMS_MAX;

use super::flag::{Flag, Repeated, Single, Switch, options};
use super::parsers::{
    DeleteTime, bwlimit, byte_range, cipher, compression, equality, forced_window, frame, fsync, places, ports,
    queue_depth, quiet_time, rate, raw, remote_dir, run_time, stripe, targets, text, window, word,
};
use super::row::HelpSection::{
    Accepted, Connecting, Copying, Filtering, Integrity, Output, Performance, Syncing, Unlisted,
};
use super::row::Takes::{self, Attached, Each, Nothing, One, Perhaps, Place, Repeats, Time, Word};
use super::row::{OptionRow, row};

/// bbcp has levels 0 to 9, zstd 1 to 19. In both, 0 is off.
const COMPRESS_MODES: Takes = Word {
    name: "MODE",
    known: &[
        "auto", "off", "lz4", "zstd", "0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14",
        "15", "16", "17", "18", "19",
    ],
    absent: "auto",
};

/// bbcp's `-y d` (the file) and `-y dd` (also its directory), and haul's words for them.
const FSYNC_MODES: Takes = Word { name: "MODE", known: &["none", "data", "full", "d", "dd"], absent: "full" };

/// Without an argument, it is rsync's option.
const SPARSE_MODES: Takes = Word { name: "MODE", known: &["keep", "make", "fill"], absent: "make" };

/// The time at which extraneous entries are removed.
const DELETE_TIMES: Takes = Word { name: "WHEN", known: &["before", "during", "after"], absent: "after" };

/// bbcp's letters for connections with one address family: c for ssh, s and t for the data.
const PLACES: Takes = Word {
    name: "WHERE",
    known: &["c", "s", "t", "cs", "ct", "st", "cst", "c,s", "c,t", "s,t", "c,s,t"],
    absent: "cst",
};

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(86_400);

/// Names of digests.
const DIGESTS: &[&str] =
    &["a32", "c32", "c32z", "md5", "crc32c", "crc64nvme", "sha1", "sha256", "sha512", "xxh3", "blake3"];

/// `--help` of every command but the copy.
pub const SHOW_HELP: Flag<Switch> = row("help", Some('h'), Nothing, Output, "show help").switch();

options! {
    /// Options of a copy.
    COPY;
    RECURSIVE: Switch = row("recursive", Some('r'), Nothing, Copying, "copy directories recursively").bbcp('r', 1).essential().switch();
    FORCE: Switch = row("force", Some('f'), Nothing, Copying, "overwrite existing files that differ").bbcp('f', 1).of_one_copy().essential().switch();
    OMIT: Switch = row("omit", None, Nothing, Copying, "skip files that exist on the target").bbcp('O', 4).of_one_copy().switch();
    PRESERVE: Switch = row("preserve", None, Nothing, Copying, "same as --perms --owner --group; times are always preserved").bbcp('p', 1).switch();
    PERMS: Switch = row("perms", Some('p'), Nothing, Copying, "preserve modes; set-id bits need the owner or group as well").switch();
    OWNER: Switch = row("owner", None, Nothing, Copying, "preserve owners (root only)").switch();
    GROUP: Switch = row("group", Some('g'), Nothing, Copying, "preserve groups").switch();
    NO_TIMES: Switch = row("no-times", None, Nothing, Copying, "do not preserve times of modification").switch();
    OMIT_DIR_TIMES: Switch = row("omit-dir-times", None, Nothing, Copying, "do not preserve times of directories").switch();
    OMIT_LINK_TIMES: Switch = row("omit-link-times", None, Nothing, Copying, "do not preserve times of symbolic links").switch();
    MODE: Single<OsString> = row("mode", None, One("[DIRS/][FILES]"), Copying, "set octal modes, for example 750/640").bbcp('m', 1).one(raw);
    CHMOD: Repeated<OsString> = row("chmod", None, Each("RULES"), Copying, "change the source's modes first, as chmod does; D is for directories, F for files (D2775,Fu+rw,go-w)").of_one_copy().each(raw);
    MKDIR: Switch = row("mkdir", None, Nothing, Copying, "create missing directories of the target").bbcp('A', 2).switch();
    DIRBASE: Single<OsString> = row("dirbase", None, One("BASE"), Copying, "recreate source paths relative to BASE below the target").bbcp('d', 3).of_one_copy().one(raw);
    INFILES: Single<OsString> = row("infiles", None, One("FILE"), Copying, "read source paths from FILE, one a line (-: standard input)").bbcp('I', 2).of_one_copy().one(raw);
    PAIRS: Single<OsString> = row("pairs", None, One("FILE"), Copying, "copy what each line of FILE names: a source and a target (-: standard input)").of_one_copy().one(raw);
    TO: Repeated<Vec<OsString>> = row("to", None, Each("TARGET,..."), Copying, "copy to each of these targets at the same time, and read the source's data once (\\, is a comma)").of_one_copy().each(targets);
    NULL: Switch = row("null", Some('0'), Nothing, Copying, "paths in --infiles and --pairs end with NUL").of_one_copy().switch();
    SYMLINKS: Single<Symlinks> = row("symlinks", None, One("MODE"), Copying, "symbolic links inside directories: keep (default), follow, ignore, safe, follow-unsafe or follow-dirs").bbcp('@', 2).words(&["keep", "follow", "ignore", "safe", "follow-unsafe", "follow-dirs"]).one(|a| a.choice(&[("keep", Symlinks::Keep), ("follow", Symlinks::Follow), ("ignore", Symlinks::Ignore), ("safe", Symlinks::Safe), ("follow-unsafe", Symlinks::FollowUnsafe), ("follow-dirs", Symlinks::FollowDirectories)]));
    READABLE: Switch = row("readable", None, Nothing, Copying, "skip unreadable files and directories").bbcp('+', 3).switch();
    NO_EMPTY_DIRS: Switch = row("no-empty-dirs", None, Nothing, Copying, "skip empty directories").bbcp_letter('^').switch();
    ONE_FILE_SYSTEM: Switch = row("one-file-system", Some('x'), Nothing, Copying, "stay on the file system of each source; mount points become empty directories").switch();
    INCLUDE: Repeated<OsString> = row("include", None, Each("PATTERN"), Filtering, "copy matching paths; the first matching rule decides (haul help filters)").of_one_copy().each(raw);
    EXCLUDE: Repeated<OsString> = row("exclude", None, Each("PATTERN"), Filtering, "skip matching paths (gitignore syntax: '*.o', '/build/', 'src/**/*.tmp')").of_one_copy().essential().each(raw);
    INCLUDE_FROM: Repeated<OsString> = row("include-from", None, Each("FILE"), Filtering, "read patterns to copy from FILE, in the form of a .gitignore (! skips; the last match decides)").of_one_copy().each(raw);
    EXCLUDE_FROM: Repeated<OsString> = row("exclude-from", None, Each("FILE"), Filtering, "read patterns to skip from FILE, in the form of a .gitignore").of_one_copy().each(raw);
    FILTER_FILES: Repeated<OsString> = row("filter-files", None, Each("NAME"), Filtering, "read patterns from files called NAME in the source's directories (.gitignore)").of_one_copy().each(raw);
    FILTER: Repeated<OsString> = row("filter", None, Each("RULE"), Unlisted, "apply a filter rule of rsync").of_one_copy().each(raw);
    MIN_SIZE: Single<u64> = row("min-size", None, One("SIZE"), Filtering, "skip files smaller than SIZE").of_one_copy().one(|a| a.size(0..=u64::MAX, "below 16384p"));
    MAX_SIZE: Single<u64> = row("max-size", None, One("SIZE"), Filtering, "skip files larger than SIZE").of_one_copy().one(|a| a.size(0..=u64::MAX, "below 16384p"));
    NEWER: Single<OsString> = row("newer", None, One("WHEN"), Filtering, "copy only files modified since WHEN (2026-11-01 in UTC, or an age: 12h, 7d)").of_one_copy().one(raw);
    OLDER: Single<OsString> = row("older", None, One("WHEN"), Filtering, "copy only files modified before WHEN").of_one_copy().one(raw);
    EXPLAIN: Single<OsString> = row("explain", None, One("PATH"), Filtering, "print which rule includes or excludes PATH, and exit").of_one_copy().one(raw);
    ORDER: Switch = row("order", None, Nothing, Copying, "write sequentially: one stream, buffered I/O").bbcp('o', 1).switch();
    PIPE: Single<(bool, bool)> = row("pipe", None, One("ENDS"), Copying, "treat the source (i), target (o) or both (io) as a shell command or FIFO").bbcp('N', 4).of_one_copy().one(|a| a.choice(&[("i", (true, false)), ("o", (false, true)), ("io", (true, true)), ("oi", (true, true))]));
    REALTIME: Single<Duration> = row("realtime", None, Time { name: "TIME", absent: "10s" }, Copying, "follow a growing file until it has not grown for TIME (default: 10s)").bbcp('R', 4).of_one_copy().one(quiet_time);
    REFUSE_GROWING: Switch = row("refuse-growing", None, Nothing, Copying, "fail files that grow while being read, instead of copying them up to their first length").switch();
    DELTA: Single<DeltaMode> = row("delta", None, One("MODE"), Copying, "transfer only changed blocks of existing files: auto (default), blocks (aligned), rolling (at any offset) or off").one(|a| a.choice(&[("auto", DeltaMode::Auto), ("off", DeltaMode::Off), ("blocks", DeltaMode::Blocks), ("rolling", DeltaMode::Rolling)]));
    INPLACE: Switch = row("inplace", None, Nothing, Copying, "with -f, update files in place instead of replacing them").switch();
    KEEP: Switch = row("keep", None, Nothing, Copying, "keep and resume partial files from 1 MiB on (default: from 16 MiB on)").or("partial").bbcp('k', 1).switch();
    JOURNAL_DIR: Single<OsString> = row("journal-dir", None, Place("DIR"), Copying, "the same as --keep, with resume journals in DIR instead of beside the files").bbcp_as("append", 'a', 1).one(raw);
    NO_RESUME: Switch = row("no-resume", None, Nothing, Copying, "restart partial files from the beginning, and write no resume journals").switch();
    NO_KEEP: Switch = row("no-keep", None, Nothing, Copying, "delete partial files when the copy fails").switch();
    NOFSCHK: Switch = row("nofschk", None, Nothing, Copying, "skip the free-space check").bbcp('F', 4).switch();
    TIMELIMIT: Single<Duration> = row("timelimit", None, One("TIME"), Copying, "stop after TIME (90, 10m, 2h); rerun to resume").bbcp('t', 1).one(run_time);
    CONFIG: Single<OsString> = row("config", None, One("FILE"), Copying, "read options from FILE instead of the user and system configuration").of_one_copy().bbcp('C', 6).one(raw);
    ARCHIVE: Switch = row("archive", Some('a'), Nothing, Copying, "-r with modes, owners, groups; -aHAX: all metadata").essential().switch();
    HARD_LINKS: Switch = row("hard-links", Some('H'), Nothing, Copying, "preserve hard links").switch();
    XATTRS: Switch = row("xattrs", Some('X'), Nothing, Copying, "preserve extended attributes").switch();
    ACLS: Switch = row("acls", Some('A'), Nothing, Copying, "preserve access control lists (implies -p)").switch();
    SPARSE: Single<HolePolicy> = row("sparse", Some('S'), SPARSE_MODES, Copying, "holes: keep (default), make (also for runs of zeros) or fill").one(|a| a.choice(&[("keep", HolePolicy::Keep), ("make", HolePolicy::Make), ("fill", HolePolicy::Fill)]));
    NUMERIC_IDS: Switch = row("numeric-ids", None, Nothing, Copying, "map owners and groups by number instead of by name").switch();
    USERMAP: Single<OsString> = row("usermap", None, One("FROM:TO,..."), Copying, "map users by name, number or range (anna:smith, 0-99:nobody, *:guest)").one(raw);
    GROUPMAP: Single<OsString> = row("groupmap", None, One("FROM:TO,..."), Copying, "map groups likewise").one(raw);
    CHOWN: Single<OsString> = row("chown", None, One("USER:GROUP"), Copying, "set owner and group of everything (either may be omitted)").one(raw);
    DEVICES: Switch = row("devices", None, Nothing, Copying, "preserve device nodes (root only)").switch();
    SPECIALS: Switch = row("specials", None, Nothing, Copying, "preserve FIFOs and sockets").switch();
    COMPARE: Single<Option<EqualityTest>> = row("compare", None, One("BY"), Syncing, "consider a file unchanged by time (default: size and mtime), size, digest or exists; never: transfer every file").of_one_copy().words(&["size", "time", "digest", "exists", "never"]).one(equality);
    MODIFY_WINDOW: Single<u32> = row("modify-window", None, One("SECONDS"), Syncing, "treat times as equal within SECONDS (0: ignore fractions of a second)").one(|a| a.number(0..=u32::MAX));
    UPDATE: Switch = row("update", Some('u'), Nothing, Syncing, "replace older files, and skip those that are newer on the target").of_one_copy().switch();
    EXISTING: Switch = row("existing", None, Nothing, Syncing, "skip files that do not exist on the target").of_one_copy().switch();
    IGNORE_EXISTING: Switch = row("ignore-existing", None, Nothing, Syncing, "skip files that exist on the target").of_one_copy().switch();
    DELETE: Single<DeleteTime> = row("delete", None, DELETE_TIMES, Syncing, "delete extraneous files from the target: after (default), during or before the copy").of_one_copy().essential().one(|a| a.choice(&[("before", DeleteTime::Before), ("during", DeleteTime::During), ("after", DeleteTime::After)]));
    DELETE_EXCLUDED: Switch = row("delete-excluded", None, Nothing, Syncing, "with --delete, delete excluded files as well").of_one_copy().switch();
    MAX_DELETE: Single<u32> = row("max-delete", None, One("N"), Syncing, "with --delete, delete nothing if it is more than N").one(|a| a.number(0..=u32::MAX));
    ALLOW_EMPTY_SOURCE: Switch = row("allow-empty-source", None, Nothing, Syncing, "with --delete, empty the target if the source is empty").of_one_copy().switch();
    IGNORE_ERRORS: Switch = row("ignore-errors", None, Nothing, Syncing, "with --delete, delete even after errors").of_one_copy().switch();
    DETECT_RENAMES: Switch = row("detect-renames", None, Nothing, Syncing, "use renamed files on the target as base files").of_one_copy().switch();
    BACKUP: Switch = row("backup", Some('b'), Nothing, Syncing, "keep replaced and deleted files beside the new ones, as NAME~").of_one_copy().switch();
    SUFFIX: Single<OsString> = row("suffix", None, One("SUFFIX"), Syncing, "append SUFFIX to the names of kept files (default: ~, or nothing with --backup-dir)").of_one_copy().one(raw);
    BACKUP_DIR: Single<OsString> = row("backup-dir", None, One("DIR"), Syncing, "move replaced and deleted files to DIR (relative to the target)").of_one_copy().one(raw);
    LINK_DEST: Repeated<OsString> = row("link-dest", None, Each("DIR"), Syncing, "hard-link unchanged files to those in DIR (relative to the target; up to 20 times)").of_one_copy().each(raw);
    REMOVE_SOURCE_FILES: Switch = row("remove-source-files", None, Nothing, Syncing, "delete source files and links after verification at the target").of_one_copy().switch();
    DRY_RUN: Switch = row("dry-run", Some('n'), Nothing, Syncing, "show what would be copied, changed and deleted").of_one_copy().essential().switch();
    WATCH: Switch = row("watch", None, Nothing, Syncing, "with haul sync: stay, and sync again whenever something has changed at the source").of_one_copy().switch();
    ITEMS: Switch = row("items", None, Nothing, Syncing, "list each created, changed and deleted entry").switch();
    STREAMS: Single<u16> = row("streams", Some('s'), One("N"), Performance, "use 1 to 256 parallel streams (default: automatic)").bbcp('s', 1).essential().one(|a| a.number(1..=STREAMS_MAX));
    CONGESTION: Single<String> = row("congestion", None, One("NAME"), Performance, "TCP congestion control (default: chosen by the path)").one(text);
    WINDOWSZ: Single<(u32, bool)> = row("windowsz", Some('w'), One("[=]SIZE"), Performance, "limit socket buffers to SIZE; =SIZE sets them exactly (default: autotuning)").bbcp('w', 1).or_letter('W').one(window);
    FORCED_WINDOW: Single<(u32, bool)> = row("forced-window", None, One("SIZE"), Unlisted, "same as -w =SIZE").bbcp_only().bbcp_letter('U').one(forced_window);
    QOS: Single<u8> = row("qos", None, One("CLASS"), Performance, "set the IP traffic class, 0 to 255").bbcp('q', 3).one(|a| a.number(0..=255));
    XFRRATE: Single<u64> = row("xfrrate", None, One("RATE"), Performance, "limit the total rate: 50m (MiB/s), 50MB/s, 400Mbit/s (SIGUSR1 doubles it, SIGUSR2 halves it)").bbcp('x', 1).essential().one(rate);
    BWLIMIT: Single<Option<u64>> = row("bwlimit", None, One("RATE"), Performance, "same as --xfrrate, in KiB/s unless a unit is given, as in rsync").one(bwlimit);
    DURATION: Single<Duration> = row("duration", None, One("TIME"), Performance, "copy to null: for TIME, then stop with a summary (90, 10m, 2h)").one(run_time);
    CPUS: Single<Vec<u16>> = row("cpus", None, One("LIST"), Performance, "pin both ends to these CPUs (0-7,16)").one(|a| a.numbers(1024));
    FRAME: Single<u32> = row("frame", None, One("SIZE"), Performance, "frame payload: 256k, 512k or 1m").one(frame);
    BUFFSZ: Single<u64> = row("buffsz", None, One("SIZE"), Performance, "read and write in blocks of up to SIZE, 256k to 1m").bbcp('B', 6).one(|a| a.size(1 << 10..=1 << 30, "from 1k to 1g"));
    BUFFERS: Repeated<(bool, u8)> = row("buffers", None, Each("[+]N"), Performance, "I/O queue depth per stream, 1 to 64, at the source (+N: at the target)").bbcp('b', 1).each(queue_depth);
    UNBUFFERED: Single<OsString> = row("unbuffered", None, One("ENDS"), Performance, "use O_DIRECT at the source (s), target (t) or both (st); off forbids it (default: measured)").bbcp('u', 1).words(&["s", "t", "st", "off"]).one(raw);
    CACHE: Single<CacheUse> = row("cache", None, One("MODE"), Performance, "page cache after the copy: keep, drop, or cold: also drop the source before it is read (default: drop large files)").words(&["keep", "drop", "cold"]).one(|a| a.choice(&[("keep", CacheUse::Keep), ("drop", CacheUse::Drop), ("cold", CacheUse::Cold)]));
    STRIPE: Single<StripingPolicy> = row("stripe", None, One("COUNT[,SIZE]"), Performance, "on Lustre, stripe files from 64 MiB on over COUNT storage targets or all, SIZE bytes each; off uses the directory's default (default: as the source)").one(stripe);
    CIPHER: Single<Cipher> = row("cipher", None, One("NAME"), Performance, "auto (default), aes-128-gcm, aes-256-gcm or chacha20-poly1305").words(&["auto", "aes-256-gcm", "aes-128-gcm", "chacha20-poly1305"]).one(cipher);
    NO_ENCRYPT: Switch = row("no-encrypt", None, Nothing, Performance, "authenticate only, for networks that inspect traffic").switch();
    COMPRESS: Single<CompressionPolicy> = row("compress", Some('z'), COMPRESS_MODES, Performance, "auto (default), off, lz4, zstd, or a zstd level from 1 to 19").bbcp('c', 1).one(compression);
    IDFILE: Single<OsString> = row("idfile", Some('i'), One("KEY"), Connecting, "ssh identity file").bbcp('i', 1).one(raw);
    SSH_CONFIG: Single<OsString> = row("ssh-config", Some('F'), One("FILE"), Connecting, "ssh configuration file, as ssh -F FILE").one(raw);
    SSH_PORT: Single<u16> = row("ssh-port", Some('P'), One("PORT"), Connecting, "ssh port").or("port").one(|a| a.number(1..=u16::MAX));
    SSH_OPTION: Repeated<String> = row("ssh-option", Some('o'), Each("OPTION"), Connecting, "option passed to ssh as -o OPTION (repeatable)").each(text);
    NO_SSH_REUSE: Switch = row("no-ssh-reuse", None, Nothing, Connecting, "log in for each command (default: commands within 60 s share a login)").switch();
    RSH: Single<String> = row("rsh", Some('e'), One("COMMAND"), Connecting, "ssh command line, as in rsync ('ssh -p 2222 -i key')").of_one_copy().one(text);
    SOURCE_COMMAND: Single<String> = row("source-command", None, One("CMD"), Connecting, "command that starts haul on a remote source (placeholders: see --target-command)").bbcp_letter('S').one(text);
    TARGET_COMMAND: Single<String> = row("target-command", None, One("CMD"), Connecting, "command that starts haul on a remote target, for example 'ssh %I -l %U %H sudo /usr/bin/haul' (%I: -i KEY, %U: user, %H: host, %4: -4 if given)").bbcp_letter('T').one(text);
    CALLBACK: Single<String> = row("callback", None, One("HOST[:PORT]"), Connecting, "address for data connections to the accepting end").bbcp('H', 2).one(text);
    BIND: Single<String> = row("bind", None, One("ADDRESS|INTERFACE"), Connecting, "use only this local address or interface").one(text);
    IPV4: Single<&'static str> = row("ipv4", Some('4'), PLACES, Connecting, "use IPv4 only, for ssh (c), data (s, t) or everything (cst, if omitted)").bbcp('4', 4).one(places);
    IPV6: Single<&'static str> = row("ipv6", Some('6'), PLACES, Connecting, "use IPv6 only, likewise").one(places);
    REVERSE: Switch = row("reverse", None, Nothing, Connecting, "open data connections from the target to the source").bbcp('z', 3).switch();
    DATA_PORTS: Single<(u16, u16)> = row("data-ports", None, One("P[:Q]"), Connecting, "accept data connections on ports P to Q (default: any)").bbcp_as("port", 'Z', 4).one(ports);
    PATHS: Single<bool> = row("paths", None, One("MODE"), Connecting, "several links between the hosts: best (default) or all").one(|a| a.choice(&[("best", false), ("all", true)]));
    TRANSPORT: Single<Transport> = row("transport", None, One("MODE"), Connecting, "data connections: auto (default: direct, else through ssh), ssh or tcp").one(|a| a.choice(&[("auto", Transport::Auto), ("ssh", Transport::Ssh), ("tcp", Transport::Tcp)]));
    SECRET_FILE: Single<OsString> = row("secret-file", None, One("FILE"), Connecting, "read the secret or private key for haul://HOST from the first line of FILE").one(raw);
    NO_DEPLOY: Switch = row("no-deploy", None, Nothing, Connecting, "do not copy haul to hosts that lack it").switch();
    WORKER_BINARY: Single<OsString> = row("worker-binary", None, One("FILE"), Connecting, "haul for hosts of another architecture that lack it").one(raw);
    REMOTE_DIR: Single<PathBuf> = row("remote-dir", None, One("DIR"), Connecting, "directory for haul on hosts that lack it (default: ~/.cache)").one(remote_dir);
    RETRIES: Single<u32> = row("retries", None, One("N"), Connecting, "reconnect at most N times without progress (0: never)").one(|a| a.number(0..=1_000_000));
    RETRY_FOR: Single<Duration> = row("retry-for", None, One("TIME"), Connecting, "reconnect for at most TIME without progress (default: 10m)").one(|a| a.time(Duration::ZERO..=DAY * 30, "of at most 30d"));
    SILENCE: Single<Duration> = row("silence", None, One("TIME"), Connecting, "treat a host as lost after TIME without a message (default: 13s)").one(|a| a.time(SILENCE_MIN..=HOUR, "from 3s to 1h"));
    VERIFY: Single<Verify> = row("verify", None, One("MODE"), Integrity, "memory: hash at the target as well; disk: read back from disk and repair").words(&["memory", "disk"]).one(|a| a.choice(&[("memory", Verify::Memory), ("disk", Verify::Disk)]));
    DIGEST: Single<bool> = row("digest", None, One("NAME"), Integrity, "xxh3 (default): check blocks only; blake3: compute the BLAKE3 of each file as well").words(&["xxh3", "blake3"]).one(|a| a.choice(&[("xxh3", false), ("blake3", true)]));
    FSYNC: Single<Fsync> = row("fsync", None, FSYNC_MODES, Integrity, "full (default): sync data and names; data; or none (d, dd: bbcp's data, full)").bbcp_as("sync", 'y', 4).one(fsync);
    CHECKSUMS: Single<OsString> = row("checksums", None, One("FILE"), Integrity, "write a digest list for b3sum --check (-: standard output)").of_one_copy().one(raw);
    CHECKSUM_ALG: Single<OsString> = row("checksum-alg", None, One("ALG"), Integrity, "digest of that list or of --expect's, in the format of sha256sum (names: see --checksum)").of_one_copy().words(DIGESTS).one(raw);
    EXPECT: Single<OsString> = row("expect", None, One("FILE"), Integrity, "verify files against a digest list before they get their names; report entries without a match").of_one_copy().one(raw);
    CHECKSUM: Single<OsString> = row("checksum", None, One("ALG[=VALUE|=FILE]"), Integrity, "print, compare or record the digest of each file; %ALG: at the source. ALG is a32, c32, c32z, md5, crc32c, crc64nvme, sha1, sha256, sha512, xxh3 or blake3").bbcp('E', 5).of_one_copy().words(DIGESTS).one(raw);
    PROGRESS: Single<Option<u32>> = row("progress", None, Attached("SECONDS"), Output, "print a progress line every SECONDS (default: as the terminal allows)").bbcp('P', 4).one(|a| if a.value.is_empty() { Ok(None) } else { a.number(1..=86_400).map(Some) });
    JSON: Switch = row("json", None, Nothing, Output, "print events as JSON lines").essential().switch();
    DETACH: Single<String> = row("detach", None, Attached("NAME"), Output, "run in the background, beyond this login; print the name of the copy (haul copies)").of_one_copy().one(text);
    NOTIFY: Single<String> = row("notify", None, One("COMMAND"), Output, "run COMMAND at the end; HAUL_STATUS, and HAUL_COPY and HAUL_LOG or HAUL_JOB and HAUL_REPORT, are in its environment").one(text);
    QUIET: Switch = row("quiet", Some('q'), Nothing, Output, "print errors only").switch();
    VERBOSE: Switch = row("verbose", Some('v'), Repeats, Output, "print more: -v names, -vv path, -vvv sizes of files").bbcp('v', 1).essential().switch();
    VVERBOSE: Switch = row("vverbose", None, Nothing, Output, "same as -vv").bbcp('V', 2).of_one_copy().switch();
    DEBUG: Switch = row("debug", None, Nothing, Output, "same as -vvv").bbcp('D', 5).of_one_copy().switch();
    TUI: Switch = row("tui", None, Nothing, Output, "show a full-screen dashboard (keys pause, change rate and streams)").of_one_copy().switch();
    REPORT: Single<OsString> = row("report", None, One("FILE"), Output, "write an HTML or Markdown report (FILE.html, FILE.md)").of_one_copy().one(raw);
    METRICS: Single<OsString> = row("metrics", None, One("FILE"), Output, "write the result to FILE as OpenMetrics text (for node_exporter)").one(raw);
    STATS: Switch = row("stats", None, Nothing, Output, "print the bytes sent and received, and the speedup").of_one_copy().switch();
    BITS: Switch = row("bits", None, Nothing, Output, "show rates in bit/s").switch();
    LOGFILE: Single<OsString> = row("logfile", None, One("FILE"), Output, "append messages to FILE").bbcp('l', 1).one(raw);
    VERSION: Switch = row("version", Some('V'), Nothing, Output, "print the version; with -v, CPU benchmarks as well").bbcp('#', 7).of_one_copy().switch();
    LICENSE: Switch = row("license", None, Nothing, Output, "print the licence; --license all: of linked libraries too").bbcp('$', 7).of_one_copy().switch();
    HELP: Single<OsString> = row("help", Some('h'), Perhaps("WHAT"), Output, "show help; --help all: every option; --help WHAT: one option or command").bbcp('h', 1).of_one_copy().one(raw);
    PTIME: Switch = row("ptime", None, Nothing, Accepted, "times are always preserved").bbcp('~', 2).switch();
    ERROR_CHECK: Switch = row("error-check", None, Nothing, Unlisted, "every frame is always checked").bbcp_only().bbcp_letter('e').switch();
    GROSS: Switch = row("gross", None, Nothing, Accepted, "empty directories are always copied").bbcp('g', 1).switch();
    TRUNCATE: Switch = row("truncate", None, Nothing, Unlisted, "with -f, a replaced file stays until the new one is complete").bbcp_only().bbcp_letter('K').switch();
    NODNS: Switch = row("nodns", None, Nothing, Accepted, "names are never looked up").bbcp('n', 1).switch();
    NETLOGGER: Single<OsString> = row("netlogger", None, One("OPTIONS"), Unlisted, "NetLogger").bbcp_only().bbcp_letter('L').refused("haul does not write NetLogger's events\n--json gives the events of a copy, one object a line").of_one_copy().one(raw);
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn names_and_letters_of_options_are_unique() {
        for table in [
            COPY,
            demo::ALL,
            job::ALL,
            manifest::ALL,
            net::ALL,
            partials::ALL,
            probe::ALL,
            read::ALL,
            report::ALL,
            serve::ALL,
            step::ALL,
            survey::ALL,
            verify::ALL,
        ] {
            let ids: HashSet<_> = table.iter().map(|row| row.id).collect();
            assert_eq!(ids.len(), table.len());
            let names: Vec<_> = table.iter().flat_map(OptionRow::long_forms).collect();
            assert_eq!(names.iter().collect::<HashSet<_>>().len(), names.len());
            let letters: Vec<_> = table.iter().flat_map(|row| row.letter).collect();
            assert_eq!(letters.iter().collect::<HashSet<_>>().len(), letters.len());
        }
    }

    #[test]
    fn verify_and_copy_options_are_typed_alike() {
        for row in verify::ALL.iter().filter(|row| !row.is(&verify::SYNC)) {
            let copy = COPY.iter().find(|copy| copy.id == row.id).expect("a copy has it");
            assert_eq!((row.letter, row.typed()), (copy.letter, copy.typed()));
        }
    }

    #[test]
    fn every_letter_of_bbcp_exists() {
        for letter in "aAbBcCdDeEfFghHiIkKlLmnNoOpPqrRsStTuUvVwWxyzZ4@^~+$#".chars() {
            assert!(COPY.iter().any(|row| row.has_bbcp_letter(letter)), "-{letter}");
        }
    }
}

#[cfg(test)]
#[path = "documented_tests.rs"]
mod documented_tests;
