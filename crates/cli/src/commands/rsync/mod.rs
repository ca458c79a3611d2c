//! `haul rsync ...`, and haul under the name rsync: rsync's command line, lines and exit statuses.
//!
//! A dialect is no engine: [`translate()`] makes haul's options of rsync's, and [`lines`] shows haul's events as rsync does.

mod choices;
mod effective;
mod files_from;
mod formats;
mod lines;
mod listing;
mod rules;
mod shown_name;
mod status;
mod stop_time;
mod translate;
mod words;

use std::cell::Cell;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io::{self, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::rc::Rc;

use haul_base::copy::display_path::marked_base;
use haul_base::copy::spec::{ChecksumOptions, ChecksumReference, ParentMetadata, PartialOptions, Retries};
use haul_control::operand::host_prefix;
use haul_engine::fs::trusted_links::{LinkRules, open_directory};
use haul_proto::path::escape;
use haul_show as show;
use haul_show::output::print;
use rustix::fs::CWD;
use rustix::io::Errno;

use self::lines::RsyncLines;
use self::translate::{RsyncMeaning, translate};
use self::words::{RsyncLine, in_rsyncs_words};
use super::configured::copy_values;
use super::copy;
use super::next_program::hand_over;
use crate::args::letters::with;
use crate::args::meaning::Meaning;
use crate::args::rsync::OPTIONS;
use crate::args::worker_task::worker_task;
use crate::args::{UsageError, version};
use crate::resolve::{rsync_plan, rsync_rules};

/// Runs rsync's command line. Returns rsync's exit status.
pub fn run(words: Vec<OsString>) -> u8 {
    run_line(words).unwrap_or_else(|error| {
        let status = match () {
            () if error.is::<UsageError>() => status::USAGE,
            () if error.is::<UnreadableRules>() => status::FILE_IO,
            () => status::PARTIAL,
        };
        let mut stderr = io::stderr();
        for line in in_rsyncs_words(&error.to_string()).lines() {
            let _ = writeln!(stderr, "rsync: {line}");
        }
        let _ = writeln!(stderr, "rsync error: {} (code {status}) [haul]", status::words(status).unwrap_or_default());
        status
    })
}

/// A file that an option names cannot be read.
#[derive(Debug)]
struct UnreadableRules(String);

impl fmt::Display for UnreadableRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UnreadableRules {}

fn run_line(words: Vec<OsString>) -> anyhow::Result<u8> {
    if let Some(task) = worker_task(&words) {
        return Ok(super::worker::run(&task));
    }
    // The other end of a real rsync calls it so.
    if words.iter().any(|word| word == "--server") {
        return Ok(hand_over("rsync", &words));
    }
    let mut line = RsyncLine::parse(words)?;
    let versions = line.options.iter().filter(|typed| typed.option.long == "version").count();
    if versions > 1 {
        print(&choices::version_json());
        return Ok(status::DONE);
    }
    if versions > 0 {
        print(&format!("rsync  version 3.5.0  protocol version 32\nA dialect of {}", version::VERSION));
        return Ok(status::DONE);
    }
    if let Some(typed) = line.options.iter().find(|typed| is_question(typed)) {
        print(&format!("Levels of --{}: haul shows what -v and -vv show.\n", typed.option.long));
        return Ok(status::DONE);
    }
    if line.options.iter().any(|typed| typed.option.long == "help") {
        print(&usage());
        return Ok(status::DONE);
    }
    if line.operands.is_empty() && !line.options.iter().any(|typed| typed.option.long == "files-from") {
        let _ = io::stderr().write_all(usage().as_bytes());
        return Err(UsageError::new("no source given").into());
    }
    line.split_old_operands(std::env::var_os("RSYNC_OLD_ARGS").as_deref());
    let mut meaning = translate(&line)?;
    let mut operands = line.operands;
    refuse_daemons(&operands)?;
    if meaning.lists_only {
        aim_at_nothing(&mut operands)?;
    }
    check_temp_dir(&meaning, &operands)?;
    let links = LinkRules { follows_all: meaning.follows_all_links, make: None };
    if let Some(shown) = foreign_link(operands.last(), links) {
        show::stderr().called("rsync").error(&format!("{shown}: another user's symbolic link leads there"));
        return Ok(status::PLACE);
    }
    anchor(&mut meaning, &mut operands, links)?;
    let values = copy_values(std::mem::take(&mut meaning.words), &operands)?;
    let mut plan = rsync_plan(&values, &operands)?;
    plan.copy.options.target.sync.tells_items = true;
    plan.copy.options.target.sync.is_dry = meaning.is_dry;
    plan.copy.options.target.directory.parents = meaning.parents;
    plan.copy.options.target.directory.only_parents = true;
    plan.copy.options.target.directory.replaces_special = true;
    let partial = &mut plan.copy.options.target.partial;
    partial.foreign_dir = std::mem::take(&mut meaning.partial_dir);
    if let Some(directory) = meaning.temp_dir.as_ref().or(meaning.staging_dir.as_ref()).filter(|_| !meaning.is_in_place)
    {
        let foreign_dir = std::mem::take(&mut partial.foreign_dir);
        let (temp_dir, make_temp_dir) = (directory.as_bytes().to_vec(), meaning.temp_dir.is_none());
        // A later run looks for partial files beside their final names.
        *partial = PartialOptions { foreign_dir, temp_dir, make_temp_dir, ..PartialOptions::NONE };
    }
    plan.copy.options.metadata.executability = meaning.keeps_executability;
    plan.copy.options.metadata.preserve.without_capabilities = meaning.without_capabilities;
    plan.copy.options.source.skip.missing = meaning.ignores_missing;
    plan.copy.options.source.removes_missing = meaning.removes_missing;
    plan.copy.options.source.marks_bases = meaning.is_relative && meaning.files_from.is_none();
    plan.copy.options.source.skip.device_contents = true;
    plan.copy.options.source.live.restart_growing = true;
    // All kinds of entries are listed.
    plan.copy.options.metadata.preserve.devices |= meaning.lists_only;
    plan.copy.options.metadata.preserve.specials |= meaning.lists_only;
    plan.copy.options.source.skip.contents = !meaning.is_recursive && meaning.has_directories;
    let rules: Vec<_> = meaning.rules.iter().map(|(kind, rule)| (*kind, rule.as_slice())).collect();
    if !rules.is_empty() {
        let rules = rsync_rules(rules, meaning.is_null, links).map_err(|error| match error.is_unreadable() {
            true => UnreadableRules(error.to_string()).into(),
            false => anyhow::Error::from(UsageError::new(error.to_string())),
        })?;
        plan.copy.options.source.filters.lists.push(rules);
    }
    let sync = &mut plan.copy.options.target.sync;
    sync.replaces_trees |= meaning.replaces_trees;
    sync.insecure_links = meaning.follows_all_links;
    sync.keep_dirlinks = meaning.keeps_dirlinks;
    sync.append = meaning.appends;
    sync.tells_unchanged = meaning.lists_unchanged || meaning.shows_skipped;
    sync.safe_backups = meaning.has_safe_links;
    if let Some((earlier_use, directories)) = meaning.earlier.take() {
        (sync.earlier_use, sync.link_dests) = (earlier_use, directories);
    }
    if meaning.removes_sources {
        sync.source_removes = !meaning.is_dry;
        // A second attempt would delete at the target what the first one has moved there.
        plan.copy.access.retries = Retries::NEVER;
    }
    if let Some(algorithm) = meaning.digest {
        let against = ChecksumReference::Nothing;
        plan.copy.options.integrity.checksum = Some(ChecksumOptions { algorithm, at_source: false, against });
    }
    let status = Rc::new(Cell::new(status::DONE));
    let shown = Rc::clone(&status);
    copy::carry_out_with(plan, move |plan, _| Ok(Box::new(RsyncLines::new(meaning, &plan.copy, shown)?)))?;
    Ok(status.get())
}

/// `--temp-dir` has to exist at a local target.
fn check_temp_dir(meaning: &RsyncMeaning, operands: &[OsString]) -> Result<(), UsageError> {
    let (Some(directory), Some(target)) = (&meaning.temp_dir, operands.last()) else { return Ok(()) };
    if !host_prefix(target).is_empty() {
        return Ok(());
    }
    let found = Path::new(target).join(directory);
    let what = match std::fs::metadata(&found) {
        Ok(found) if found.is_dir() => return Ok(()),
        Ok(_) => "is not a directory".to_owned(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => "does not exist".to_owned(),
        Err(error) => format!("cannot be read ({error})"),
    };
    Err(UsageError::new(format!("The temp-dir {what}: {}", escape(directory.as_bytes()))))
}

/// A local target that another user's link leads to, escaped. rsync refuses to enter it.
fn foreign_link(target: Option<&OsString>, links: LinkRules) -> Option<String> {
    let target = target.filter(|target| host_prefix(target).is_empty())?;
    let path = Path::new(target);
    let is_foreign = |path: &Path| open_directory(CWD, path, links).err() == Some(Errno::LOOP);
    let above = path.parent().filter(|above| !above.as_os_str().is_empty());
    (is_foreign(path) || above.is_some_and(is_foreign)).then(|| escape(target.as_bytes()))
}

/// `--info=help` and `--debug=help`.
fn is_question(typed: &words::TypedOption) -> bool {
    ["info", "debug"].contains(&typed.option.long) && typed.argument.as_deref().is_some_and(|flags| flags == "help")
}

/// rsync's usage, and the options that the dialect accepts.
fn usage() -> String {
    let mut text = String::from(
        "rsync, as haul speaks it: haul help rsync\n\n\
         Usage: rsync [OPTION]... SRC [SRC]... DEST\n  or   rsync [OPTION]... SRC [SRC]... [USER@]HOST:DEST\n\
         \x20 or   rsync [OPTION]... [USER@]HOST:SRC [DEST]\n\nOptions\n",
    );
    let accepted =
        OPTIONS.iter().filter(|option| !option.long.is_empty() && !matches!(option.meaning, Meaning::Refused(_)));
    for option in accepted {
        let letter = option.letter.map_or_else(String::new, |letter| format!(", -{letter}"));
        let argument = if option.takes { "=ARG" } else { "" };
        text.push_str(&format!("--{}{argument}{letter}\n", option.long));
    }
    text
}

/// A listing is a dry run to a target that does not exist.
fn aim_at_nothing(operands: &mut Vec<OsString>) -> Result<(), UsageError> {
    operands.truncate(operands.len().saturating_sub(1).max(1));
    if let Some(source) = operands.iter().find(|source| !host_prefix(source).is_empty()) {
        return Err(UsageError::new(format!("{}: a list of another host is not supported", escape(source.as_bytes())))
            .remedy("run rsync --list-only there"));
    }
    let nothing = std::env::temp_dir().join(format!("haul-lists-{}/", std::process::id()));
    operands.push(nothing.into());
    Ok(())
}

/// Refuses `HOST::MODULE` and `rsync://`.
fn refuse_daemons(operands: &[OsString]) -> Result<(), UsageError> {
    let is_daemons = |word: &&OsString| {
        let bytes = word.as_bytes();
        let host = bytes.split(|byte| *byte == b'/').next().unwrap_or_default();
        bytes.starts_with(b"rsync://") || host.windows(2).any(|pair| pair == b"::")
    };
    match operands.iter().find(is_daemons) {
        Some(word) => Err(UsageError::new(format!("{}: an rsync daemon is not supported", escape(word.as_bytes())))
            .remedy("haul serve replaces the daemon; ssh takes HOST:PATH")),
        None => Ok(()),
    }
}

/// `-R` and `--files-from`: haul's base directory.
fn anchor(meaning: &mut RsyncMeaning, operands: &mut Vec<OsString>, links: LinkRules) -> anyhow::Result<()> {
    if let Some(list) = &meaning.files_from {
        if operands.len() != 2 {
            return Err(UsageError::new("--files-from takes one source directory and a destination").into());
        }
        let base = operands.remove(0);
        let hosts = [&base, &operands[0]].map(|operand| host_prefix(operand));
        let text = files_from::read_list(list, hosts, &meaning.words, links)?;
        let form = files_from::FilesFromForm { is_null: meaning.is_null, has_directories: meaning.has_directories };
        let (list, below) = files_from::relative_list(&text, form)?;
        let base = OsString::from_vec([base.as_bytes(), if below.is_empty() { b"" } else { b"/" }, &below].concat());
        meaning.words.extend([with("--infiles", "", &list), with("--dirbase", "", &base)]);
        return Ok(());
    }
    if !meaning.is_relative {
        return Ok(());
    }
    let last = operands.len().saturating_sub(1);
    // The leading dot is an entry of its own: the target.
    let has_dot = operands[..last].iter().any(|source| {
        let path = &source.as_bytes()[host_prefix(source).len()..];
        path.strip_prefix(b"./").is_some_and(|rest| !rest.is_empty() && marked_base(path).is_none())
    });
    if has_dot && meaning.parents == ParentMetadata::All {
        meaning.parents = ParentMetadata::AllFromBase;
    }
    operands[..last].iter_mut().for_each(|source| *source = with_marked_base(source));
    Ok(())
}

/// A source of `-R` whose base ends at the first `/./`.
fn with_marked_base(source: &OsStr) -> OsString {
    let (host, path) = source.as_bytes().split_at(host_prefix(source).len());
    let (base, below) = match marked_base(path) {
        Some(marked) => marked,
        None if path.starts_with(b"/") => (&b"/"[..], path),
        None => (&b"./"[..], path),
    };
    let below = &below[below.iter().take_while(|byte| **byte == b'/').count()..];
    let below = if below.is_empty() { b"." } else { below };
    OsString::from_vec([host, base, b"./", below].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_source_has_its_base_before_the_first_mark() {
        let marked = |source: &str| with_marked_base(OsStr::new(source)).into_string().unwrap();
        assert_eq!(["a/b", "./a/", "/a", "x/./a/./b"].map(marked), ["././a/b", "./././a/", "/./a", "x/./a/./b"]);
        assert_eq!(["x/./", "/", "h:a", "h:/x/.//a"].map(marked), ["x/./.", "/./.", "h:././a", "h:/x/./a"]);
    }
}
