//! Options that leave something out, in the table of a copy and in others; and what `haul help filters` says of them.

use super::row::{HelpSection, OptionRow, Takes, row};

/// The options whose order counts: what they say, and whether it is a file.
pub const ORDERED: [(&str, bool, bool); 4] =
    [("include", true, false), ("exclude", false, false), ("include-from", true, true), ("exclude-from", false, true)];

pub const INCLUDE: OptionRow = choosing(
    "include",
    Takes::Each("PATTERN"),
    "copy matching paths; the first matching rule decides (haul help filters)",
);
pub const EXCLUDE: OptionRow = choosing(
    "exclude",
    Takes::Each("PATTERN"),
    "skip matching paths (gitignore syntax: '*.o', '/build/', 'src/**/*.tmp')",
)
.essential();
pub const INCLUDE_FROM: OptionRow = choosing(
    "include-from",
    Takes::Each("FILE"),
    "read patterns to copy from FILE, in the form of a .gitignore (! skips; the last match decides)",
);
pub const EXCLUDE_FROM: OptionRow =
    choosing("exclude-from", Takes::Each("FILE"), "read patterns to skip from FILE, in the form of a .gitignore");
pub const FILTER_FILES: OptionRow = choosing(
    "filter-files",
    Takes::Each("NAME"),
    "read patterns from files called NAME in the source's directories (.gitignore)",
);
pub const MIN_SIZE: OptionRow = choosing("min-size", Takes::One("SIZE"), "skip files smaller than SIZE");
pub const MAX_SIZE: OptionRow = choosing("max-size", Takes::One("SIZE"), "skip files larger than SIZE");
pub const NEWER: OptionRow = choosing(
    "newer",
    Takes::One("WHEN"),
    "copy only files modified since WHEN (2026-11-01 in UTC, or an age: 12h, 7d)",
);
pub const OLDER: OptionRow = choosing("older", Takes::One("WHEN"), "copy only files modified before WHEN");
pub const EXPLAIN: OptionRow =
    choosing("explain", Takes::One("PATH"), "print which rule includes or excludes PATH, and exit");

/// It would be taken for the beginning of --filter-files.
pub const FILTER: OptionRow = {
    let mut made = row("filter", None, Takes::Each("RULE"), HelpSection::Unlisted, "rsync's filter rules");
    made.of_one_job = true;
    made.refusal = Some(
        "rsync's rules are options here\n'- PATTERN' is --exclude PATTERN, '+ PATTERN' --include PATTERN, ': NAME' --filter-files NAME",
    );
    made
};

const fn choosing(id: &'static str, takes: Takes, help: &'static str) -> OptionRow {
    let mut made = row(id, None, takes, HelpSection::Filtering, help);
    made.of_one_job = true;
    made
}

/// `haul help filters`.
pub const HELP: &str = "\
Filters select the files of a copy, a sync, a survey or haul verify.

    haul -r --exclude '*.o' --exclude /build/ src db1:/backup
    haul -r --include '*/' --include '*.c' --exclude '*' src db1:/backup
    haul -r --filter-files .gitignore --max-size 1g src db1:/backup
    haul -r --exclude-from rules --explain src/a/b.o src db1:/backup

A PATTERN has the syntax of a .gitignore. Without a slash, or with a trailing
one only, it matches names at any depth. Otherwise it matches paths relative to
the source directory. * and ? match anything but a slash, [a-z] matches a set,
and ** between slashes matches any directories. A trailing slash restricts a
pattern to directories.

Order of the rules:
  1. --include, --exclude, --include-from and --exclude-from in the order
     typed; the first match decides, as in rsync. Within a file, the last
     matching line decides, as in git.
  2. The files of --filter-files, from the innermost directory up to the source.
  3. Everything else is copied.
Files must also satisfy --min-size, --max-size, --newer and --older.

Skipping a directory skips everything in it. Sources named on the command line
are always copied. --explain PATH prints the rule that decides.
";
