//! Options that leave something out, in the table of a copy and in others; and what `haul help filters` says of them.

use super::row::{HelpSection, OptionRow, Takes, row};

/// The options whose order counts: what they say, and whether it is a file.
pub const ORDERED: [(&str, bool, bool); 4] =
    [("include", true, false), ("exclude", false, false), ("include-from", true, true), ("exclude-from", false, true)];

pub const INCLUDE: OptionRow = choosing(
    "include",
    Takes::Each("PATTERN"),
    "take what matches; the first of these options that\nmatches decides (haul help filters)",
);
pub const EXCLUDE: OptionRow = choosing(
    "exclude",
    Takes::Each("PATTERN"),
    "leave out what matches: a gitignore pattern, such as\n'*.o', '/build/' or 'src/**/*.tmp'",
);
pub const INCLUDE_FROM: OptionRow = choosing(
    "include-from",
    Takes::Each("FILE"),
    "patterns of what is taken, one a line; of these the\nlast that matches decides, and ! leaves out",
);
pub const EXCLUDE_FROM: OptionRow =
    choosing("exclude-from", Takes::Each("FILE"), "patterns of what is left out, as in a .gitignore");
pub const FILTER_FILES: OptionRow = choosing(
    "filter-files",
    Takes::Each("NAME"),
    "files of that name in the source's directories have\npatterns, such as .gitignore or .haulignore",
);
pub const MIN_SIZE: OptionRow = choosing("min-size", Takes::One("SIZE"), "leave out files with fewer bytes");
pub const MAX_SIZE: OptionRow = choosing("max-size", Takes::One("SIZE"), "leave out files with more bytes");
pub const NEWER: OptionRow = choosing(
    "newer",
    Takes::One("WHEN"),
    "only files modified at WHEN (2026-11-01, in UTC) or\nlater, or in that time (12h, 7d)",
);
pub const OLDER: OptionRow = choosing("older", Takes::One("WHEN"), "only files modified before that");
pub const EXPLAIN: OptionRow =
    choosing("explain", Takes::One("PATH"), "copy nothing: say whether PATH would be taken, and\nwhich rule says so");

/// It would be taken for the beginning of --filter-files.
pub const FILTER: OptionRow = {
    let mut made = row("filter", None, Takes::Each("RULE"), HelpSection::Unlisted, "rsync's rules");
    made.of_one_job = true;
    made.refusal = Some(
        "rsync's rules are options here\n'- PATTERN' is --exclude PATTERN, '+ PATTERN' --include PATTERN, ': NAME' --filter-files NAME",
    );
    made
};

const fn choosing(id: &'static str, takes: Takes, help: &'static str) -> OptionRow {
    let mut made = row(id, None, takes, HelpSection::Choosing, help);
    made.of_one_job = true;
    made
}

/// `haul help filters`.
pub const HELP: &str = "\
Filters leave something out of a copy, and of haul verify.

    haul -r --exclude '*.o' --exclude /build/ src db1:/backup
    haul -r --include '*/' --include '*.c' --exclude '*' src db1:/backup
    haul -r --filter-files .gitignore --max-size 1g src db1:/backup
    haul -r --exclude-from rules --explain src/a/b.o src db1:/backup

A PATTERN is one of gitignore's. Without a slash, or with one at its end only,
it is about names, wherever they are; else about the path below the directory
that was named as the source. * and ? are anything but a slash, [a-z] is one of
a set, ** between slashes any directories; with a slash at its end a pattern is
about directories alone.

Which rule decides:
  1. --include, --exclude, --include-from and --exclude-from are asked in the
     order in which they were typed; the first that matches decides (as in rsync).
     In a file, that is the last line that matches (as in git).
  2. Then the files of --filter-files, from the directory that something is in
     up to the source.
  3. What nothing matches is taken.
A file has to keep to --min-size, --max-size, --newer and --older besides.

What is in a directory that is left out is left out, too. Sources that are
named are always taken. --explain PATH says which rule decides.
";
