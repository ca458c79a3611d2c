//! Filters: patterns, files of patterns and limits.

use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use haul_base::copy::spec::{FileLimits, FilterOptions, ListSyntax, PatternList};
use haul_base::quantity::parse_time;
use haul_proto::filter::{Matcher, PATTERN_MAX, PatternListError, PatternRules, RsyncAction, RsyncRule};
use haul_proto::limits::{FILTER_FILE_MAX, FILTER_LISTS_MAX, FILTER_NAMES_MAX, FILTERS_BYTES_MAX};
use haul_proto::path::{Name, escape};

use crate::args::argument::bad;
use crate::args::filters::ORDERED;
use crate::args::flag::{Flag, Single};
use crate::args::row::OptionRow;
use crate::args::values::Values;
use crate::args::{UsageError, flags};
use crate::resolve::rsync_filters::rsync_filters;

/// The filter rules of all options, with those of filter files.
pub fn filters(values: &Values) -> Result<FilterOptions, UsageError> {
    filters_at(values, SystemTime::now())
}

fn filters_at(values: &Values, now: SystemTime) -> Result<FilterOptions, UsageError> {
    let mut lists = typed_lists(values).map(|typed| typed.read()).collect::<Result<Vec<_>, _>>()?;
    lists.extend(rsync_filters(values, !lists.is_empty())?);
    let bytes: usize = lists.iter().map(|list| list.text.len()).sum();
    if lists.len() > FILTER_LISTS_MAX || bytes > FILTERS_BYTES_MAX {
        let what = format!("too many filters: more than {FILTER_LISTS_MAX} options or {} MiB", FILTERS_BYTES_MAX >> 20);
        return Err(UsageError::new(what).remedy("put the patterns into one file: --exclude-from FILE"));
    }
    let limits = FileLimits {
        min_size: values.get(&flags::MIN_SIZE)?,
        max_size: values.get(&flags::MAX_SIZE)?,
        newer_s: moment(values, &flags::NEWER, now)?,
        older_s: moment(values, &flags::OLDER, now)?,
    };
    let filters = FilterOptions { lists, files: names(values)?, limits, changed: None };
    refuse_excluding_everything(values, &filters)?;
    Ok(filters)
}

/// An option that is a list of patterns.
pub struct TypedList<'v> {
    row: &'static OptionRow,
    argument: &'v OsStr,
    includes: bool,
    is_file: bool,
}

/// Those options, in their order.
pub fn typed_lists(values: &Values) -> impl Iterator<Item = TypedList<'_>> {
    values.given().iter().filter_map(|(row, argument)| {
        let (_, includes, is_file) = ORDERED.into_iter().find(|(ordered, ..)| ordered.is(row))?;
        Some(TypedList { row, argument: argument.as_deref().unwrap_or_default(), includes, is_file })
    })
}

impl<'v> TypedList<'v> {
    /// The option and its pattern, if it is one.
    pub fn pattern(&self) -> Option<(String, &'v OsStr)> {
        (!self.is_file).then(|| (self.row.typed(), self.argument))
    }

    /// The name of a rule in messages.
    pub fn shown(&self, line: u32) -> String {
        let argument = escape(self.argument.as_bytes());
        if self.is_file { format!("{argument}, line {line}") } else { self.row.typed() }
    }

    /// Returns the refusal of an rsync filter rule.
    fn refuse_rsync_rule(&self, line: u32, text: &[u8]) -> Option<UsageError> {
        let text = text.trim_ascii_end();
        let rule = RsyncRule::parse(text)?;
        let why = "an rsync filter rule, not a pattern";
        let why = if self.is_file { format!("line {line}: {why}") } else { why.to_owned() };
        let modifiers = (!rule.modifiers.is_empty())
            .then(|| format!("its modifiers ({}) are not supported", escape(rule.modifiers)));
        let remedies = [Some(self.instead_of(&rule)), modifiers, Some(self.name_hint(text))];
        Some(remedies.into_iter().flatten().fold(bad(self.row, self.argument, &why), UsageError::remedy))
    }

    /// Returns the replacement for a rule.
    fn instead_of(&self, rule: &RsyncRule<'_>) -> String {
        let pattern = escape(rule.argument);
        let excludes = match rule.action {
            _ if rule.argument.is_empty() && rule.action != RsyncAction::Clear => {
                return "haul has no list of CVS patterns: write them into a file for --exclude-from".into();
            }
            RsyncAction::Exclude | RsyncAction::Hide | RsyncAction::Protect => true,
            RsyncAction::Include | RsyncAction::Show => false,
            RsyncAction::Risk => return "omit it: what no pattern excludes may be deleted".into(),
            RsyncAction::Merge => return format!("write --exclude-from {pattern}, or --include-from {pattern}"),
            RsyncAction::DirMerge => return format!("write --filter-files {pattern}"),
            RsyncAction::Clear => return "omit it, with the rules above it".into(),
        };
        let instead = match (self.is_file, excludes == self.includes) {
            (true, true) => format!("write !{pattern}; the last matching line decides"),
            (true, false) => format!("write {pattern}; the last matching line decides"),
            (false, _) => format!("write --{} '{pattern}'", if excludes { "exclude" } else { "include" }),
        };
        match rule.action {
            RsyncAction::Hide => format!("{instead}\n--delete deletes it at the target only with --delete-excluded"),
            RsyncAction::Protect => format!("{instead}\nit is then protected at the target, but not copied either"),
            _ => instead,
        }
    }

    /// Returns a hint for a name that has the form of a rule.
    fn name_hint(&self, text: &[u8]) -> String {
        let quote = if self.is_file { "" } else { "'" };
        format!("for a name that begins so, write {quote}\\{}{quote}", escape(text))
    }

    fn read(&self) -> Result<PatternList, UsageError> {
        let wrong = |why: &str| bad(self.row, self.argument, why);
        let text = match self.is_file {
            true => read(self.argument).map_err(|error| wrong(&error.to_string()))?,
            false => self.argument.as_bytes().to_vec(),
        };
        if !self.is_file && text.is_empty() {
            return Err(wrong("empty pattern"));
        }
        if !self.is_file && text.starts_with(b"!") {
            let contrary = if self.includes { "exclude" } else { "include" };
            let rest = escape(&text[1..]);
            return Err(wrong("! is valid in pattern files only").remedy(format!(
                "the opposite is an earlier --{contrary} '{rest}'; for a name that begins with !, write '\\!{rest}'"
            )));
        }
        if let Some(refused) = (!self.is_file).then(|| self.refuse_rsync_rule(1, &text)).flatten() {
            return Err(refused);
        }
        let list = PatternList {
            text,
            syntax: if self.is_file { ListSyntax::File } else { ListSyntax::Pattern },
            includes: self.includes,
        };
        match PatternRules::of(&list) {
            Ok(_) => Ok(list),
            Err(error @ PatternListError::RsyncRule { line }) => {
                let index = usize::try_from(line).unwrap_or_default().saturating_sub(1);
                let rule = list.text.split(|byte| *byte == b'\n').nth(index).unwrap_or_default();
                let rule = rule.strip_prefix("\u{feff}".as_bytes()).unwrap_or(rule);
                Err(self.refuse_rsync_rule(line, rule).unwrap_or_else(|| wrong(&error.to_string())))
            }
            Err(error) if self.is_file => Err(wrong(&error.to_string())),
            Err(_) => Err(wrong(&format!("pattern longer than {PATTERN_MAX} bytes"))),
        }
    }
}

/// Reads a file of patterns.
fn read(path: &OsStr) -> std::io::Result<Vec<u8>> {
    let mut text = Vec::new();
    std::fs::File::open(path)?.take(FILTER_FILE_MAX as u64 + 1).read_to_end(&mut text)?;
    match text.len() > FILTER_FILE_MAX {
        true => Err(std::io::Error::other(format!("pattern file larger than {} MiB", FILTER_FILE_MAX >> 20))),
        false => Ok(text),
    }
}

fn names(values: &Values) -> Result<Vec<Name>, UsageError> {
    let name = |text: &OsStr| {
        if text == ".rsync-filter" {
            let why = "rsync's filter files are not supported";
            return Err(bad(&flags::FILTER_FILES, text, why).remedy("use pattern files in the form of a .gitignore"));
        }
        let why = "must be a file name without a slash";
        Name::new(text.as_bytes())
            .map_err(|_| bad(&flags::FILTER_FILES, text, why).remedy("for one pattern file: --exclude-from FILE"))
    };
    let names: Vec<_> = values.each(&flags::FILTER_FILES).into_iter().map(name).collect::<Result<_, _>>()?;
    match names.len() > FILTER_NAMES_MAX {
        true => Err(UsageError::new(format!("--filter-files: more than {FILTER_NAMES_MAX} names"))),
        false => Ok(names),
    }
}

/// Refuses rules that exclude everything, such as rules in git's order with the general ones first.
fn refuse_excluding_everything(values: &Values, filters: &FilterOptions) -> Result<(), UsageError> {
    let number = Matcher::new(filters).ok().and_then(|matcher| matcher.leaves_out_everything());
    match number.and_then(|number| typed_lists(values).nth(number)) {
        None => Ok(()),
        Some(typed) => {
            Err(bad(typed.row, typed.argument, "excludes everything, and no earlier option includes anything")
                .remedy("the first matching option decides: put --include before it")
                .remedy("haul help filters"))
        }
    }
}

/// A point in time in seconds since 1970, given as a date or an age.
fn moment(values: &Values, flag: &Flag<Single<OsString>>, now: SystemTime) -> Result<Option<i64>, UsageError> {
    let Some(argument) = values.argument(flag) else { return Ok(None) };
    let text = argument.value.to_str().unwrap_or_default();
    let ago = |age: Duration| {
        let now_s = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        i64::try_from(now_s).unwrap_or(i64::MAX).checked_sub_unsigned(age.as_secs())
    };
    let age = parse_time(text).ok().filter(|age| age.subsec_nanos() == 0);
    let moment = age.and_then(ago).or_else(|| point(text));
    let why = "must be a date or time in UTC (2026-11-01, 2026-11-01T18:30) or an age in whole seconds (12h, 7d)";
    moment.map(Some).ok_or_else(|| argument.bad(why))
}

/// `YYYY-MM-DD`, optionally with `THH:MM` or `THH:MM:SS`, and `Z`.
fn point(text: &str) -> Option<i64> {
    let text = text.strip_suffix('Z').unwrap_or(text);
    let (date, time) = text.split_once('T').unwrap_or((text, "00:00"));
    let [year, month, day] = numbers(date, '-', [4, 2, 2])?;
    let [hour, minute, second] = match time.len() {
        5 => numbers(&format!("{time}:00"), ':', [2, 2, 2])?,
        _ => numbers(time, ':', [2, 2, 2])?,
    };
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = [31, if is_leap { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let in_month = *days.get(usize::try_from(month).ok()?.checked_sub(1)?)?;
    let is_good = year >= 1970 && (1..=in_month).contains(&day) && hour < 24 && minute < 60 && second < 60;
    let before: i64 = days.iter().take(usize::try_from(month).ok()? - 1).sum();
    // Leap years: divisible by 4, except by 100, but also by 400.
    let leaps = |year: i64| year / 4 - year / 100 + year / 400;
    let total = (year - 1970) * 365 + leaps(year - 1) - leaps(1969) + before + day - 1;
    is_good.then_some(((total * 24 + hour) * 60 + minute) * 60 + second)
}

/// Three numbers with these numbers of digits.
fn numbers(text: &str, between: char, digits: [usize; 3]) -> Option<[i64; 3]> {
    let mut parts = text.split(between);
    let mut numbers = [0; 3];
    for (number, digits) in numbers.iter_mut().zip(digits) {
        let part =
            parts.next().filter(|part| part.len() == digits && part.bytes().all(|byte| byte.is_ascii_digit()))?;
        *number = part.parse().ok()?;
    }
    parts.next().is_none().then_some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Dialect;
    use crate::args::parse::{Command, parse};

    fn resolved(words: &[&str]) -> Result<FilterOptions, String> {
        let all = words.iter().chain(&["a", "b"]).map(Into::into).collect();
        let values = match parse(Dialect::Haul, all, &crate::args::local_files::PlainFiles) {
            Ok(Command::Copy(values, _)) => values,
            other => panic!("{other:?}"),
        };
        filters_at(&values, UNIX_EPOCH + Duration::from_secs(1_000_000)).map_err(|error| error.to_string())
    }

    #[test]
    fn options_keep_their_order_and_files_are_read() {
        let temp = tempfile::tempdir().unwrap();
        let file = temp.path().join("rules");
        std::fs::write(&file, "*.o\n!a.o\n").unwrap();
        let file = file.to_str().unwrap();
        let filters = resolved(&["--exclude=x", "--include", "*.c", "--exclude-from", file, "--exclude", "y"]).unwrap();
        let shown = |list: &PatternList| {
            (String::from_utf8(list.text.clone()).unwrap(), list.syntax == ListSyntax::File, list.includes)
        };
        let lists: Vec<_> = filters.lists.iter().map(shown).collect();
        let list = |text: &str, is_file, includes| (text.to_owned(), is_file, includes);
        assert_eq!(
            lists,
            [
                list("x", false, false),
                list("*.c", false, true),
                list("*.o\n!a.o\n", true, false),
                list("y", false, false)
            ]
        );
    }

    #[test]
    fn limits_are_sizes_and_points_in_time() {
        let limits = resolved(&["--min-size", "1k", "--max-size=2g", "--newer", "6d24h", "--older", "2000-03-01"])
            .unwrap()
            .limits;
        let expected = FileLimits {
            min_size: Some(1024),
            max_size: Some(2 << 30),
            newer_s: Some(1_000_000 - 7 * 86_400),
            older_s: Some(951_868_800),
        };
        assert_eq!(limits, expected);
    }

    #[test]
    fn dates_match_the_calendar() {
        for (text, seconds) in [
            ("1970-01-01", Some(0)),
            ("2026-11-22T03:04:05Z", Some(1_795_316_645)),
            ("2024-02-29T12:00", Some(1_709_208_000)),
            ("2100-03-01", Some(4_107_542_400)),
            ("2023-02-29", None),
            ("2100-02-29", None),
            ("2026-13-01", None),
            ("2026-00-01", None),
            ("2026-1-01", None),
            ("2026-01-01T24:00", None),
            ("2026-01-01T1:00", None),
            ("1969-12-31", None),
            ("yesterday", None),
        ] {
            assert_eq!(point(text), seconds, "{text}");
        }
    }

    #[test]
    fn an_rsync_rule_file_is_refused_with_the_replacement() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("rules");
        for (option, rule, expected) in [
            ("--exclude-from", "- *.o", "write *.o; the last matching"),
            ("--exclude-from", "+ a.c", "write !a.c; the last matching"),
            ("--include-from", "+ a.c", "write a.c; the last matching"),
            ("--include-from", "- *.o", "write !*.o; the last matching"),
            ("--exclude-from", ". more", "write --exclude-from more, or"),
            ("--exclude-from", ". more", "for a name that begins so, write \\. more"),
            ("--exclude-from", "P *.o", "write *.o; the last matching"),
            ("--exclude-from", "protect *.o", "protected at the target"),
            ("--exclude-from", "hide,s *.o", "its modifiers (s) are not supported"),
            ("--exclude-from", "hide *.o", "--delete-excluded"),
            ("--exclude-from", "S *.c", "write !*.c; the last matching"),
            ("--exclude-from", "risk *.o", "omit it"),
            ("--exclude-from", "merge more", "write --exclude-from more"),
            ("--exclude-from", "dir-merge .r", "write --filter-files .r"),
            ("--exclude-from", ":C", "CVS patterns"),
            ("--include-from", "clear", "with the rules above it\nhint: for a name that begins so, write \\clear"),
        ] {
            std::fs::write(&path, format!("b\n{rule}\n")).unwrap();
            let error = resolved(&[option, path.to_str().unwrap()]).unwrap_err();
            assert!(error.contains("line 2: an rsync filter rule") && error.contains(expected), "{rule}: {error}");
        }
        std::fs::write(&path, "\u{feff}P x\n").unwrap();
        let error = resolved(&["--exclude-from", path.to_str().unwrap()]).unwrap_err();
        assert!(error.contains("line 1: ") && error.contains("write x; the last matching"), "{error}");
    }

    #[test]
    fn an_rsync_rule_on_the_command_line_is_refused_with_the_replacement() {
        for (option, rule, expected) in [
            ("--exclude", "+ a.c", "write --include 'a.c'"),
            ("--exclude", "- a.c", "write --exclude 'a.c'"),
            ("--include", "- a.c", "write --exclude 'a.c'"),
            ("--exclude", "P x", "for a name that begins so, write '\\P x'"),
            ("--include", "merge f", "write --exclude-from f, or --include-from f"),
        ] {
            let error = resolved(&[&format!("{option}={rule}")]).unwrap_err();
            assert!(error.contains("an rsync filter rule") && error.contains(expected), "{rule}: {error}");
        }
        for name in ["\\+ a.c", "\\P x", "[P] x", "Pictures", "a - b"] {
            assert!(resolved(&[&format!("--exclude={name}")]).is_ok(), "{name}");
        }
    }

    #[test]
    fn obvious_mistakes_are_refused() {
        for (words, expected) in [
            (&["--exclude", "*"][..], "excludes everything"),
            (&["--exclude", "*", "--include", "*.c"], "put --include before it"),
            (&["--exclude", "!a"], "--include 'a'"),
            (&["--exclude="], "empty"),
            (&["--filter-files", "a/b"], "without a slash"),
            (&["--filter-files", ".rsync-filter"], "rsync's filter files"),
            (&["--exclude-from", "/nowhere/rules"], "No such file"),
            (&["--newer", "soon"], "UTC"),
        ] {
            let error = resolved(words).unwrap_err();
            assert!(error.contains(expected), "{words:?}: {error}");
        }
        assert!(resolved(&["--include", "*.c", "--exclude", "*"]).is_ok());
    }
}
