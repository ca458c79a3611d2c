//! rsync's filter rules from options, with the files that they merge.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use haul_base::copy::spec::PatternList;
use haul_engine::fs::trusted_links::{LinkRules, open_file};
use haul_proto::filter::{RsyncRuleError, RsyncRuleOption, RsyncRules, RsyncSurroundings};
use haul_proto::limits::FILTER_FILE_MAX;

use crate::args::values::Values;
use crate::args::{UsageError, flags};

/// The rules of `--filter`; `None` without any. They do not combine with patterns.
pub fn rsync_filters(values: &Values, has_patterns: bool) -> Result<Option<PatternList>, UsageError> {
    let typed: Vec<_> = values.each(&flags::FILTER);
    if typed.is_empty() {
        return Ok(None);
    }
    if has_patterns || values.is_set(&flags::FILTER_FILES) {
        let what = "--filter has rsync's rules, which cannot be combined with haul's patterns";
        return Err(UsageError::new(what).remedy("write them as rules: --filter '- PATTERN' or --filter '+ PATTERN'"));
    }
    let typed_rules = typed.iter().map(|rule| (RsyncRuleOption::Filter, rule.as_bytes()));
    let rules = rsync_rules(typed_rules, false, LinkRules::default());
    let list = rules.map_err(|error| {
        let rule = typed.get(error.option).map(|rule| rule.as_bytes()).unwrap_or_default();
        UsageError::new(format!("--filter '{}': {error}", haul_proto::path::escape(rule)))
    })?;
    match list.text.len() > FILTER_FILE_MAX {
        true => Err(UsageError::new(format!("--filter: more than {} MiB of rules", FILTER_FILE_MAX >> 20))),
        false => Ok(Some(list)),
    }
}

/// The rules of rsync's options in their order. Files are relative to the working directory, and `-` is standard input.
/// `links` says whose links may lead to them.
pub fn rsync_rules<'t>(
    options: impl IntoIterator<Item = (RsyncRuleOption, &'t [u8])>,
    has_nul_lines: bool,
    links: LinkRules,
) -> Result<PatternList, RsyncRuleError> {
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let own = home.and_then(|home| read_rules(home.join(".cvsignore").as_os_str(), links).ok()).unwrap_or_default();
    let cvs = [own, b" ".to_vec(), std::env::var_os("CVSIGNORE").unwrap_or_default().into_vec()].concat();
    let mut read = |name: &[u8]| read_rules(OsStr::from_bytes(name), links);
    let surroundings = RsyncSurroundings { read: &mut read, cvs: &cvs, has_nul_lines };
    Ok(PatternList::rsync(&RsyncRules::parse(options, surroundings)?))
}

/// Reads a file of rules, or standard input.
fn read_rules(name: &OsStr, links: LinkRules) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    open_named(name, links)?.take(FILTER_FILE_MAX as u64 + 1).read_to_end(&mut text)?;
    match text.len() > FILTER_FILE_MAX {
        true => Err(io::Error::other(format!("pattern file larger than {} MiB", FILTER_FILE_MAX >> 20))),
        false => Ok(text),
    }
}

/// Opens a file that an option names; `-` is standard input. A descriptor of this process is opened as it is.
pub fn open_named(name: &OsStr, links: LinkRules) -> io::Result<Box<dyn Read>> {
    let is_descriptor =
        ["/dev/fd", "/dev/stdin", "/proc/self/fd"].iter().any(|place| Path::new(name).starts_with(place));
    Ok(match name {
        name if name == "-" => Box::new(io::stdin().lock()),
        name if is_descriptor => Box::new(File::open(name)?),
        name => Box::new(File::from(open_file(Path::new(name), links)?)),
    })
}
