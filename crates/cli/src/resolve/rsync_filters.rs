//! rsync's filter rules from options, with the files that they merge.

use std::ffi::OsStr;
use std::io::{self, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use haul_base::copy::spec::PatternList;
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
    let rules = rsync_rules(typed.iter().map(|rule| (RsyncRuleOption::Filter, rule.as_bytes())), false);
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
pub fn rsync_rules<'t>(
    options: impl IntoIterator<Item = (RsyncRuleOption, &'t [u8])>,
    has_nul_lines: bool,
) -> Result<PatternList, RsyncRuleError> {
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let own = home.and_then(|home| read(home.join(".cvsignore").as_os_str()).ok()).unwrap_or_default();
    let cvs = [own, b" ".to_vec(), std::env::var_os("CVSIGNORE").unwrap_or_default().into_vec()].concat();
    let mut read = |name: &[u8]| read(OsStr::from_bytes(name));
    let surroundings = RsyncSurroundings { read: &mut read, cvs: &cvs, has_nul_lines };
    Ok(PatternList::rsync(&RsyncRules::parse(options, surroundings)?))
}

/// Reads a file of rules, or standard input.
fn read(name: &OsStr) -> io::Result<Vec<u8>> {
    let input: Box<dyn Read> =
        if name == "-" { Box::new(io::stdin().lock()) } else { Box::new(std::fs::File::open(name)?) };
    let mut text = Vec::new();
    input.take(FILTER_FILE_MAX as u64 + 1).read_to_end(&mut text)?;
    match text.len() > FILTER_FILE_MAX {
        true => Err(io::Error::other(format!("pattern file larger than {} MiB", FILTER_FILE_MAX >> 20))),
        false => Ok(text),
    }
}
