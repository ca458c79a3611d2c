//! rsync's options (rsync(1), version 3.5.0), and haul's for the same. A group of letters, such as `-avzP`, is rsync's
//! in every command. Long names work in haul, unless haul has an option of that name.

use super::meaning::Meaning::{self, Is, Nothing, Refused, With};

/// An option of rsync.
pub struct RsyncOption {
    /// Its long name; empty for those with a letter only.
    pub long: &'static str,
    /// Its letter.
    pub letter: Option<char>,
    /// Other long names.
    pub also: &'static [&'static str],
    /// Whether it takes an argument.
    pub takes: bool,
    /// The same in haul.
    pub meaning: Meaning,
    /// The opposite, as `--no-NAME`, if it has a meaning other than the default.
    pub negated: Option<Meaning>,
}

const fn switch(long: &'static str, letter: Option<char>, meaning: Meaning) -> RsyncOption {
    RsyncOption { long, letter, also: &[], takes: false, meaning, negated: None }
}

const fn one(long: &'static str, letter: Option<char>, meaning: Meaning) -> RsyncOption {
    RsyncOption { takes: true, ..switch(long, letter, meaning) }
}

impl RsyncOption {
    const fn also(mut self, names: &'static [&'static str]) -> Self {
        self.also = names;
        self
    }

    const fn negated(mut self, meaning: Meaning) -> Self {
        self.negated = Some(meaning);
        self
    }
}

const SPEED: Meaning = Nothing;
const DAEMON: Meaning = Refused("haul serve replaces rsync's daemon");
const BATCH: Meaning = Refused("batch files have no equivalent");
const ONLY_ADDED: Meaning = Refused("--inplace updates a file in place; haul rsync has this option");
const OTHER_DIRS: Meaning =
    Refused("nearest: --link-dest DIR, which hard-links unchanged files; haul rsync has this option");
const ONE_LEVEL: Meaning = Refused("--exclude '/*/*' skips the contents of directories");
const LISTED: Meaning =
    Refused("--items lists each created, changed and deleted entry, and --json does so for programs");

/// Every option of rsync 3.5.0.
pub const OPTIONS: &[RsyncOption] = &[
    switch("verbose", Some('v'), Is(&["--verbose"])),
    one("info", None, Nothing),
    one("debug", None, Is(&["--debug"])),
    one("stderr", None, Nothing),
    switch("quiet", Some('q'), Is(&["--quiet"])),
    switch("motd", None, Nothing),
    switch("checksum", Some('c'), Is(&["--compare=digest"])),
    switch("archive", Some('a'), Is(&["--archive"])),
    switch("recursive", Some('r'), Is(&["--recursive"])),
    switch("inc-recursive", None, Nothing).also(&["i-r"]),
    switch(
        "relative",
        Some('R'),
        Refused("--dirbase BASE recreates paths relative to BASE; haul rsync has this option"),
    ),
    switch("implied-dirs", None, Nothing),
    switch("backup", Some('b'), Is(&["--backup"])),
    one("backup-dir", None, With("--backup-dir", "")),
    one("suffix", None, With("--suffix", "")),
    switch("update", Some('u'), Is(&["--update"])),
    switch("inplace", None, Is(&["--inplace"])),
    switch("append", None, ONLY_ADDED),
    switch("append-verify", None, ONLY_ADDED),
    switch("dirs", Some('d'), ONE_LEVEL),
    switch("old-dirs", None, ONE_LEVEL).also(&["old-d"]),
    switch("mkpath", None, Is(&["--mkdir"])),
    switch("links", Some('l'), Is(&["--symlinks=keep"])).negated(Is(&["--symlinks=ignore"])),
    switch("copy-links", Some('L'), Is(&["--symlinks=follow"])),
    switch("copy-unsafe-links", None, Is(&["--symlinks=follow-unsafe"])),
    switch("safe-links", None, Is(&["--symlinks=safe"])),
    switch("insecure-links", None, Refused("haul follows no links of other users below the target")),
    one("confine-root", None, Refused("haul confines both ends to the paths on the command line")),
    switch("munge-links", None, Refused("links are kept as they are; --symlinks ignore skips them")),
    switch("copy-dirlinks", Some('k'), Is(&["--symlinks=follow-dirs"])),
    switch("keep-dirlinks", Some('K'), Refused("haul replaces a link by the directory; haul rsync has this option")),
    switch("hard-links", Some('H'), Is(&["--hard-links"])),
    switch("perms", Some('p'), Is(&["--perms"])),
    switch("executability", Some('E'), Nothing),
    one("chmod", None, With("--chmod", "")),
    switch("acls", Some('A'), Is(&["--acls"])),
    switch("xattrs", Some('X'), Is(&["--xattrs"])),
    switch("owner", Some('o'), Is(&["--owner"])),
    switch("group", Some('g'), Is(&["--group"])),
    switch("devices", None, Is(&["--devices"])),
    switch("copy-devices", None, Refused("haul - HOST:FILE < /dev/sdb copies a device's contents")),
    switch("write-devices", None, Refused("haul FILE - > /dev/sdb writes to a device")),
    switch("specials", None, Is(&["--specials"])),
    switch("drop-D", None, Nothing),
    switch("", Some('D'), Is(&["--devices", "--specials"])),
    switch("times", Some('t'), Nothing).negated(Is(&["--no-times"])),
    switch("atimes", Some('U'), Refused("access times are not preserved")),
    switch("open-noatime", None, SPEED),
    switch("crtimes", Some('N'), Refused("creation times cannot be set on Linux")),
    switch("omit-dir-times", Some('O'), Is(&["--omit-dir-times"])),
    switch("omit-link-times", Some('J'), Is(&["--omit-link-times"])),
    switch("super", None, Nothing),
    switch("fake-super", None, Refused("owners are preserved by root only")),
    switch("sparse", Some('S'), Is(&["--sparse=make"])),
    switch("preallocate", None, SPEED),
    switch("dry-run", Some('n'), Is(&["--dry-run"])),
    switch("whole-file", Some('W'), Is(&["--delta=off"])).negated(Is(&["--delta=auto"])),
    one("checksum-choice", None, SPEED).also(&["cc"]),
    switch("one-file-system", Some('x'), Is(&["--one-file-system"])),
    one("block-size", Some('B'), SPEED),
    one("rsh", Some('e'), With("--rsh", "")),
    one(
        "rsync-path",
        None,
        Refused(
            "--target-command 'ssh %U@%H sudo /usr/bin/haul' starts haul at the target\n--source-command does so at the source",
        ),
    ),
    switch("existing", None, Is(&["--existing"])).also(&["ignore-non-existing"]),
    switch("ignore-existing", None, Is(&["--ignore-existing"])),
    switch("remove-source-files", None, Is(&["--remove-source-files"])),
    switch("delete", None, Is(&["--delete"])),
    switch("delete-before", None, Is(&["--delete=before"])),
    switch("delete-during", None, Is(&["--delete=during"])).also(&["del"]),
    switch("delete-delay", None, Is(&["--delete=after"])),
    switch("delete-after", None, Is(&["--delete=after"])),
    switch("delete-excluded", None, Is(&["--delete-excluded"])),
    switch("ignore-missing-args", None, Refused("a missing source is an error; the others are copied")),
    switch("delete-missing-args", None, Refused("name the parent directory: --delete removes what it lacks")),
    switch("ignore-errors", None, Is(&["--ignore-errors"])),
    switch("force", None, Nothing),
    one("max-delete", None, With("--max-delete", "")),
    one("max-size", None, With("--max-size", "")),
    one("min-size", None, With("--min-size", "")),
    one("max-alloc", None, SPEED),
    switch("partial", None, Is(&["--partial"])),
    one(
        "partial-dir",
        None,
        Refused("partial files are beside their targets, hidden; --journal-dir DIR moves journals"),
    ),
    switch("delay-updates", None, Nothing),
    switch("prune-empty-dirs", Some('m'), Is(&["--no-empty-dirs"])),
    switch("numeric-ids", None, Is(&["--numeric-ids"])),
    one("usermap", None, With("--usermap", "")),
    one("groupmap", None, With("--groupmap", "")),
    one("chown", None, With("--chown", "")),
    one("timeout", None, With("--silence", "")),
    one("contimeout", None, With("--ssh-option", "ConnectTimeout=")),
    switch("ignore-times", Some('I'), Is(&["--compare=never"])),
    switch("size-only", None, Is(&["--compare=size"])),
    one("modify-window", Some('@'), With("--modify-window", "")),
    one("temp-dir", Some('T'), Refused("files are written beside their targets, hidden until they are complete")),
    switch("fuzzy", Some('y'), Is(&["--detect-renames"])),
    one("compare-dest", None, OTHER_DIRS),
    one("copy-dest", None, OTHER_DIRS),
    one("link-dest", None, With("--link-dest", "")),
    switch("compress", Some('z'), Is(&["--compress=auto"])).negated(Is(&["--compress=off"])),
    one("compress-choice", None, With("--compress", "")).also(&["zc"]),
    one("compress-level", None, With("--compress", "")).also(&["zl"]),
    one("compress-threads", None, SPEED).also(&["zt"]),
    one("skip-compress", None, SPEED),
    switch("cvs-exclude", Some('C'), Refused("list what CVS ignores: --exclude PATTERN, --exclude-from FILE")),
    one("filter", Some('f'), With("--filter", "")),
    switch(
        "",
        Some('F'),
        Refused("--filter-files NAME reads patterns from files in each directory, such as .gitignore"),
    ),
    one("exclude", None, With("--exclude", "")),
    one("exclude-from", None, With("--exclude-from", "")),
    one("include", None, With("--include", "")),
    one("include-from", None, With("--include-from", "")),
    one(
        "files-from",
        None,
        Refused("--infiles FILE --dirbase BASE TARGET copies the paths that FILE lists, relative to BASE"),
    ),
    switch("from0", Some('0'), Is(&["--null"])),
    switch("old-args", None, Nothing),
    switch("secluded-args", Some('s'), Nothing).also(&["protect-args"]),
    switch("trust-sender", None, Nothing),
    one("copy-as", None, Refused("log in as that user: USER@HOST:PATH")),
    one("address", None, With("--bind", "")),
    one("port", None, With("--ssh-port", "")),
    one("sockopts", None, SPEED),
    switch("blocking-io", None, SPEED),
    one("outbuf", None, Nothing),
    switch("stats", None, Is(&["--stats"])),
    switch("8-bit-output", Some('8'), Nothing),
    switch("human-readable", Some('h'), Nothing),
    switch("progress", None, Nothing),
    switch("", Some('P'), Nothing),
    switch("itemize-changes", Some('i'), Is(&["--items"])),
    one("remote-option", Some('M'), Refused("options apply to both ends")),
    one("out-format", None, LISTED),
    one("log-file", None, With("--logfile", "")),
    one("log-file-format", None, LISTED),
    one("password-file", None, With("--secret-file", "")),
    one("early-input", None, DAEMON),
    switch("list-only", None, Refused("haul ls -lr PATH lists; --dry-run shows what would be copied")),
    one("bwlimit", None, With("--bwlimit", "")),
    one("stop-after", None, Refused("--timelimit TIME stops after a time: 90, 10m, 2h")).also(&["time-limit"]),
    one("stop-at", None, Refused("--timelimit TIME stops after a time: 90, 10m, 2h")),
    switch("fsync", None, Is(&["--fsync=full"])),
    one("write-batch", None, BATCH),
    one("only-write-batch", None, BATCH),
    one("read-batch", None, BATCH),
    one("protocol", None, Nothing),
    one("iconv", None, Refused("names are copied byte for byte")),
    one("checksum-seed", None, SPEED),
    switch("ipv4", Some('4'), Is(&["--ipv4=cst"])),
    switch("ipv6", Some('6'), Is(&["--ipv6=cst"])),
    switch("version", Some('V'), Is(&["--version"])),
    switch("help", None, Is(&["--help"])),
    switch("daemon", None, DAEMON),
    switch("server", None, DAEMON),
    one("config", None, DAEMON),
];

/// The option with a letter.
pub fn letter(letter: char) -> Option<&'static RsyncOption> {
    OPTIONS.iter().find(|option| option.letter == Some(letter))
}

/// The option with a long name, and whether the name negates it.
pub fn long(name: &str) -> Option<(&'static RsyncOption, bool)> {
    let named = |name: &str| {
        let is_named = |option: &&RsyncOption| !name.is_empty() && (option.long == name || option.also.contains(&name));
        OPTIONS.iter().find(is_named)
    };
    let of_letter = |name: &str| {
        let mut letters = name.chars();
        letters.next().filter(|_| letters.next().is_none()).and_then(letter)
    };
    named(name).map(|option| (option, false)).or_else(|| {
        let positive = name.strip_prefix("no-")?;
        named(positive).or_else(|| of_letter(positive)).map(|option| (option, true))
    })
}
