//! Filter options with a significant order, and the text of `haul help filters`.

use super::flags::{EXCLUDE, EXCLUDE_FROM, INCLUDE, INCLUDE_FROM};
use super::row::OptionRow;

/// Options with a significant order: whether they include, and whether the argument is a file.
pub const ORDERED: [(&OptionRow, bool, bool); 4] = [
    (&INCLUDE.row, true, false),
    (&EXCLUDE.row, false, false),
    (&INCLUDE_FROM.row, true, true),
    (&EXCLUDE_FROM.row, false, true),
];

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

Skipping a directory skips everything in it. A directory named on the command
line is always copied; a named file obeys the filters, by its path in the
transfer. --explain PATH prints the rule that decides.
";
