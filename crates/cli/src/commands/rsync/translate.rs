//! From rsync's options to haul's, and what the display has to know.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use haul_base::copy::spec::{ChecksumAlgorithm, EarlierCopyUse, ParentMetadata};
use haul_proto::filter::RsyncRuleOption;
use haul_proto::limits::LINK_DESTS_MAX;

use super::choices::{choices, digest};
use super::effective::{Effective, name};
use super::rules::{SECURITY, attribute_rules, partial_dir, rules};
use super::stop_time::stop;
use super::words::{RsyncLine, TypedOption};
use crate::args::UsageError;
use crate::args::letters::with;
use crate::args::meaning::Meaning;

/// What a command line of rsync means, apart from its operands.
#[derive(Debug, Default)]
pub struct RsyncMeaning {
    /// Options of haul, each one word.
    pub words: Vec<OsString>,
    /// `-v`, each.
    pub verbosity: u8,
    /// `-q`.
    pub is_quiet: bool,
    /// `-i`.
    pub itemises: bool,
    /// `-n`.
    pub is_dry: bool,
    /// `-t`.
    pub keeps_times: bool,
    /// `--stats`.
    pub has_statistics: bool,
    /// `--out-format`.
    pub out_format: Option<OsString>,
    /// `--log-file`.
    pub log_file: Option<OsString>,
    /// Directories are copied with their contents.
    pub is_recursive: bool,
    /// Directories are copied without their contents, if not with them.
    pub has_directories: bool,
    /// The source is listed, and nothing copied.
    pub lists_only: bool,
    /// `-l`.
    pub keeps_links: bool,
    /// `-R`.
    pub is_relative: bool,
    /// What directories that `-R` implies get.
    pub parents: ParentMetadata,
    /// `-0`: names in lists end with NUL.
    pub is_null: bool,
    /// `--files-from`.
    pub files_from: Option<OsString>,
    /// `--ignore-missing-args`.
    pub ignores_missing: bool,
    /// `--delete-missing-args`.
    pub removes_missing: bool,
    /// `-E`.
    pub keeps_executability: bool,
    /// A rule (`-x`) excludes file capabilities.
    pub without_capabilities: bool,
    /// Filter rules, in their order.
    pub rules: Vec<(RsyncRuleOption, Vec<u8>)>,
    /// Backups that are named in lines of their own (`--info=backup`).
    pub shown_backups: Option<BackupPlace>,
    /// `--append`, `--append-verify`.
    pub appends: bool,
    /// Files are changed in place.
    pub is_in_place: bool,
    /// `--temp-dir`.
    pub temp_dir: Option<OsString>,
    /// An absolute `--partial-dir` with `--delay-updates`, which collects complete files: another directory of
    /// temporary files, created if missing.
    pub staging_dir: Option<OsString>,
    /// `--insecure-links`.
    pub follows_all_links: bool,
    /// `-K`.
    pub keeps_dirlinks: bool,
    /// `--compare-dest` or `--copy-dest`: earlier copies, and their use.
    pub earlier: Option<EarlierCopies>,
    /// Unchanged entries are listed too: `-ii`.
    pub lists_unchanged: bool,
    /// Kept entries are named (`--info=skip`).
    pub shows_skipped: bool,
    /// `-c`.
    pub compares_contents: bool,
    /// `--ignore-existing`.
    pub keeps_existing: bool,
    /// The digest of `%C`.
    pub digest: Option<ChecksumAlgorithm>,
    /// The lines of `--debug=NSTR`.
    pub shown_choices: Vec<String>,
    /// rsync's directory of partial files (`--partial-dir`, `--delay-updates`).
    pub partial_dir: Vec<u8>,
    /// `--safe-links`.
    pub has_safe_links: bool,
    /// `--remove-source-files` with `--delete`.
    pub removes_sources: bool,
    /// `--mkpath`.
    pub makes_path: bool,
    /// `--progress`: files are named with their progress.
    pub has_progress: bool,
    /// `-h`: figures have suffixes.
    pub is_human: bool,
    /// `-8`: bytes of names that the locale lacks are shown as they are.
    pub shows_bytes: bool,
    /// `--force`: a file may replace a directory with contents.
    pub replaces_trees: bool,
}

/// Earlier copies, and their use.
type EarlierCopies = (EarlierCopyUse, Vec<Vec<u8>>);

/// Where backups go.
#[derive(Debug, Clone, Default)]
pub struct BackupPlace {
    /// `--backup-dir`; empty: each stays in its own directory.
    pub directory: OsString,
    /// Appended to their names.
    pub suffix: OsString,
}

/// Options that are refused, since only the daemon or another rsync has a use for them.
const ONLY_RSYNCS: [&str; 7] =
    ["daemon", "server", "config", "write-batch", "only-write-batch", "read-batch", "early-input"];

/// Translates the options of `line`.
pub fn translate(line: &RsyncLine) -> Result<RsyncMeaning, UsageError> {
    let effective = Effective::of(line);
    let is_on = |name: &str| effective.is_on(name);
    let has_list = effective.argument("files-from").is_some();
    let lists_only = is_on("list-only") || line.operands.len() == 1 && !has_list;
    let mut meaning = RsyncMeaning {
        verbosity: if effective.is_off("verbose") { 0 } else { effective.count("verbose") },
        is_quiet: is_on("quiet"),
        itemises: is_on("itemize-changes"),
        is_dry: is_on("dry-run") || lists_only,
        keeps_times: is_on("times"),
        has_statistics: is_on("stats"),
        out_format: effective.argument("out-format").map(OsStr::to_owned),
        log_file: effective.argument("log-file").map(OsStr::to_owned),
        // With a list, -a does not imply -r.
        is_recursive: if has_list { effective.is_named("recursive") } else { is_on("recursive") },
        has_directories: is_on("dirs") || is_on("old-dirs") || (has_list || lists_only) && !effective.is_off("dirs"),
        lists_only,
        keeps_links: is_on("links"),
        is_relative: is_on("relative"),
        parents: if effective.is_off("implied-dirs") { ParentMetadata::Nothing } else { ParentMetadata::All },
        is_null: is_on("from0"),
        files_from: effective.argument("files-from").map(OsStr::to_owned),
        ignores_missing: is_on("ignore-missing-args") || is_on("delete-missing-args"),
        removes_missing: is_on("delete-missing-args"),
        keeps_executability: is_on("executability"),
        appends: is_on("append") || is_on("append-verify"),
        temp_dir: effective.argument("temp-dir").map(OsStr::to_owned),
        staging_dir: effective
            .argument("partial-dir")
            .filter(|directory| directory.as_bytes().starts_with(b"/") && is_on("delay-updates"))
            .map(OsStr::to_owned),
        follows_all_links: is_on("insecure-links"),
        keeps_dirlinks: is_on("keep-dirlinks"),
        replaces_trees: is_on("force"),
        lists_unchanged: is_on("itemize-changes")
            && (effective.count("itemize-changes") > 1 || effective.count("verbose") > 1),
        shows_skipped: effective.shows("info", "skip") || effective.count("verbose") > 1,
        compares_contents: is_on("checksum"),
        keeps_existing: is_on("ignore-existing"),
        digest: digest(&effective)?,
        shown_choices: choices(&effective),
        partial_dir: partial_dir(&effective),
        has_safe_links: is_on("safe-links"),
        has_progress: is_on("progress") || is_on("P") || effective.shows("info", "progress1"),
        makes_path: is_on("mkpath"),
        is_human: is_on("human-readable"),
        shows_bytes: is_on("8-bit-output"),
        without_capabilities: attribute_rules(line).any(|pattern| pattern == SECURITY),
        rules: rules(line, &effective),
        ..RsyncMeaning::default()
    };
    if meaning.removes_missing && has_list {
        return Err(UsageError::new("--delete-missing-args is not supported with --files-from")
            .remedy("name the files as sources of -R"));
    }
    let mut words: Vec<OsString> = Vec::new();
    let mut add = |word: &str| words.push(word.into());
    if meaning.is_recursive || meaning.has_directories {
        add("--recursive");
    }
    add(match symlinks(&effective)? {
        "--symlinks=ignore" if lists_only => "--symlinks=keep",
        symlinks => symlinks,
    });
    if !is_on("times") {
        add("--no-times");
    }
    for name in ["perms", "owner", "group", "devices", "specials"] {
        if is_on(name) && (name != "devices" || rustix::process::geteuid().is_root()) {
            add(&format!("--{name}"));
        }
    }
    // rsync compares whole seconds, unless the window is negative.
    match effective.argument("modify-window").and_then(|seconds| seconds.to_str()?.parse::<i64>().ok()) {
        Some(..0) => {}
        Some(seconds) => add(&format!("--modify-window={seconds}")),
        None => add("--modify-window=0"),
    }
    let deletes = ["delete", "delete-before", "delete-during", "delete-delay", "delete-after", "delete-excluded"];
    let deletes = deletes.iter().any(|name| is_on(name));
    if deletes {
        if !meaning.is_recursive && !meaning.has_directories {
            return Err(UsageError::new("--delete does not work without --recursive (-r) or --dirs (-d)"));
        }
        let when = match (is_on("delete-before"), is_on("delete-delay") || is_on("delete-after")) {
            (true, _) => "before",
            (_, true) => "after",
            _ => "during",
        };
        add(&format!("--delete={when}"));
        // rsync empties a target whose source is empty.
        add("--allow-empty-source");
    }
    meaning.removes_sources = deletes && is_on("remove-source-files");
    if is_on("remove-source-files") && !is_on("size-only") {
        // haul removes only what it has verified.
        words.push("--compare=digest".into());
    }
    let backups = backups(&effective);
    if let Some(BackupPlace { directory, suffix }) = &backups {
        words.extend([with("--suffix", "", suffix), "--backup".into()]);
        if !directory.is_empty() {
            words.push(with("--backup-dir", "", directory));
        } else {
            words.push("--omit-dir-times".into());
            if deletes && !is_on("delete-excluded") {
                let rule = [b"P *", suffix.as_bytes()].concat();
                meaning.rules.push((RsyncRuleOption::Filter, rule));
            }
        }
    }
    meaning.shown_backups = backups.clone().filter(|_| meaning.verbosity > 1 || effective.shows("info", "backup"));
    if meaning.appends && is_on("whole-file") {
        return Err(UsageError::new("--append cannot be used with --whole-file"));
    }
    let is_in_place = meaning.appends || is_on("inplace");
    // The old file stays as a backup or in an earlier copy, or it is not changed at all.
    let keeps_old = backups.is_some() || is_on("link-dest") || is_on("ignore-existing");
    meaning.is_in_place = is_in_place && !keeps_old;
    if meaning.is_in_place {
        words.push("--inplace".into());
    }
    meaning.earlier = earlier(line)?;
    words.extend(shell(&effective)?);
    for typed in line.options.iter().filter(|typed| !meaning.removes_sources || name(typed) != "remove-source-files") {
        if let Some(word) = word(typed, &effective)? {
            words.extend(word);
        }
    }
    meaning.words = words;
    Ok(meaning)
}

/// The treatment of symbolic links.
fn symlinks(effective: &Effective<'_>) -> Result<&'static str, UsageError> {
    let is_on = |name: &str| effective.is_on(name);
    if is_on("copy-links") {
        return Ok("--symlinks=follow");
    }
    match (is_on("links"), is_on("copy-unsafe-links"), is_on("copy-dirlinks"), is_on("safe-links")) {
        (true, false, false, false) => Ok("--symlinks=keep"),
        (true, false, false, true) => Ok("--symlinks=safe"),
        // No unsafe link is left to be skipped.
        (true, true, false, _) => Ok("--symlinks=follow-unsafe"),
        (true, false, true, false) => Ok("--symlinks=follow-dirs"),
        (true, _, true, _) => {
            Err(UsageError::new("--copy-dirlinks is not supported with --copy-unsafe-links or --safe-links"))
        }
        (false, false, false, _) => Ok("--symlinks=ignore"),
        (false, ..) => Err(UsageError::new(
            "--copy-unsafe-links and --copy-dirlinks are not supported without --links (-l) or --copy-links (-L)",
        )),
    }
}

/// The directories of `--compare-dest` or `--copy-dest`.
fn earlier(line: &RsyncLine) -> Result<Option<EarlierCopies>, UsageError> {
    let mut found: Option<EarlierCopies> = None;
    for typed in &line.options {
        let earlier_use = match typed.option.long {
            "compare-dest" => EarlierCopyUse::Compare,
            "copy-dest" => EarlierCopyUse::Copy,
            "link-dest" => EarlierCopyUse::Link,
            _ => continue,
        };
        let (kind, directories) = found.get_or_insert_with(|| (earlier_use, Vec::new()));
        if *kind != earlier_use {
            return Err(UsageError::new(format!("--{} conflicts with another option of its kind", typed.option.long)));
        }
        directories.extend(typed.argument.as_deref().map(|directory| directory.as_bytes().to_vec()));
    }
    match &found {
        Some((_, directories)) if directories.len() > LINK_DESTS_MAX => {
            Err(UsageError::new(format!("at most {LINK_DESTS_MAX} earlier copies may be specified")))
        }
        _ => Ok(found.filter(|(earlier_use, _)| *earlier_use != EarlierCopyUse::Link)),
    }
}

/// Backups: `--backup-dir` implies them.
fn backups(effective: &Effective<'_>) -> Option<BackupPlace> {
    let mut directory = effective.argument("backup-dir").map(OsStr::as_bytes).unwrap_or_default();
    while let Some(rest) = directory.strip_prefix(b"./") {
        directory = rest;
    }
    let directory = if directory == b"." { b"" } else { directory };
    if directory.is_empty() && !effective.is_on("backup") && !effective.is_on("backup-dir") {
        return None;
    }
    let suffix =
        effective.argument("suffix").unwrap_or(OsStr::new(if effective.is_on("backup-dir") { "" } else { "~" }));
    Some(BackupPlace { directory: OsStr::from_bytes(directory).to_owned(), suffix: suffix.to_owned() })
}

/// `-e` and `--rsync-path`: ssh, `sudo` at the host, or another program that takes a host and a command.
fn shell(effective: &Effective<'_>) -> Result<Vec<OsString>, UsageError> {
    let text = |name: &str| effective.argument(name).map(|text| text.to_string_lossy().into_owned());
    let of_environment = || std::env::var("RSYNC_RSH").ok().filter(|rsh| !rsh.is_empty());
    let (rsh, program) = (text("rsh").or_else(of_environment), text("rsync-path").unwrap_or_default());
    let is_ssh = |rsh: &str| rsh.split_whitespace().next().is_some_and(|word| word == "ssh" || word.ends_with("/ssh"));
    let command = match &rsh {
        Some(rsh) if !is_ssh(rsh) => format!("{rsh} %H {}", if program.is_empty() { "haul" } else { &program }),
        Some(rsh) if !program.starts_with("sudo ") => return Ok(vec![with("--rsh", "", OsStr::new(rsh))]),
        Some(rsh) => format!("{rsh} %4 %I -l %U %H sudo -n haul"),
        None if program.starts_with("sudo ") => "ssh %4 %I -l %U %H sudo -n haul".to_owned(),
        None => return Ok(Vec::new()),
    };
    Ok(["--source-command", "--target-command"].map(|option| with(option, "", OsStr::new(&command))).into())
}

/// Options that [`translate()`] has treated, or the display.
const TREATED: [&str; 60] = [
    "insecure-links",
    "append",
    "append-verify",
    "inplace",
    "temp-dir",
    "keep-dirlinks",
    "compare-dest",
    "copy-dest",
    "backup",
    "backup-dir",
    "suffix",
    "cvs-exclude",
    "exclude",
    "exclude-from",
    "F",
    "filter",
    "include",
    "include-from",
    "debug",
    "force",
    "rsh",
    "rsync-path",
    "archive",
    "recursive",
    "links",
    "copy-links",
    "copy-unsafe-links",
    "copy-dirlinks",
    "safe-links",
    "dirs",
    "old-dirs",
    "list-only",
    "times",
    "perms",
    "owner",
    "group",
    "devices",
    "specials",
    "D",
    "modify-window",
    "delete",
    "delete-before",
    "delete-during",
    "delete-delay",
    "delete-after",
    "verbose",
    "quiet",
    "itemize-changes",
    "dry-run",
    "stats",
    "progress",
    "P",
    "out-format",
    "log-file",
    "log-file-format",
    "human-readable",
    "relative",
    "files-from",
    "ignore-missing-args",
    "delete-missing-args",
];

/// The words of haul for one option; none if it has been treated.
fn word(typed: &TypedOption, effective: &Effective<'_>) -> Result<Option<Vec<OsString>>, UsageError> {
    let name = name(typed);
    let shown = if name.len() == 1 { format!("-{name}") } else { format!("--{name}") };
    if ONLY_RSYNCS.contains(&name.as_str()) {
        let Meaning::Refused(why) = typed.option.meaning else { return Ok(None) };
        return Err(UsageError::new(format!("{shown} is not supported: {why}")));
    }
    if TREATED.contains(&name.as_str()) {
        return Ok(None);
    }
    let is_repeatable = matches!(name.as_str(), "chmod" | "link-dest");
    let is_last = effective.last(&name).is_some_and(|last| std::ptr::eq(last, typed));
    if !is_repeatable && !is_last {
        return Ok(None);
    }
    let text = typed.argument.as_deref().and_then(OsStr::to_str).unwrap_or_default();
    let one = |word: String| Ok(Some(vec![word.into()]));
    match (name.as_str(), typed.is_negated) {
        ("timeout" | "contimeout", _) if text.parse::<u64>().is_ok_and(|seconds| seconds < 3) => return Ok(None),
        ("max-alloc", false) if text.trim_end_matches(|c: char| c.is_ascii_alphabetic()).parse() == Ok(0_u64) => {
            return Err(UsageError::new("--max-alloc must be greater than zero"));
        }
        ("partial-dir" | "old-args", _) => return Ok(None),
        ("stop-after" | "stop-at", false) => return stop(typed, text).map(Some),
        ("compress-choice", false) => match text {
            "none" => return one("--compress=off".into()),
            "auto" | "zlib" | "zlibx" => return one("--compress=auto".into()),
            _ => {}
        },
        _ => {}
    }
    match (typed.is_negated, typed.option.negated, typed.option.meaning) {
        (true, Some(Meaning::Is(words)), _) => Ok(Some(words.iter().map(OsString::from).collect())),
        (true, _, _) => Ok(None),
        (false, _, Meaning::Is(words)) => Ok(Some(words.iter().map(OsString::from).collect())),
        (false, _, Meaning::With(option, before)) => {
            Ok(typed.argument.as_deref().map(|argument| vec![with(option, before, argument)]))
        }
        (false, _, Meaning::Nothing) => Ok(None),
        (false, _, Meaning::Refused(why)) => Err(UsageError::new(format!("{shown} is not supported: {why}"))),
    }
}
