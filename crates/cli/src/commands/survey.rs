//! `haul survey PATH...`: shows the composition of a transfer.

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use haul_base::copy::error::Error;
use haul_base::copy::location::{Host, Location};
use haul_base::copy::rate::RateHandle;
use haul_base::copy::spec::Symlinks;
use haul_base::shell_word::quote;
use haul_base::sys::cancel::Cancel;
use haul_base::sys::describe::describe;
use haul_control::operand::parse_operand;
use haul_inspect::survey::{self, Ask, Survey};
use haul_proto::path::escape;
use haul_show::exit::Exit;
use haul_show::output::print;
use haul_show::pending::{Pending, ReplaceableFile};
use haul_show::{self as show, terminal};
use jiff::Zoned;

use crate::args::argument::bad;
use crate::args::values::Values;
use crate::args::{UsageError, flags};
use crate::probe::figures::{self, Direction};
use crate::resolve::filters;
use crate::signals::Watch;
use crate::survey::outlook::Outlook;
use crate::survey::progress::ProgressLine;
use crate::survey::{SurveyView, contents, json, page, words};
use crate::user_dirs::state_dir;

/// Default time for reading files.
const TIME: Duration = Duration::from_secs(60);
/// Rows of tables as text, and on a page.
const ROWS: usize = 10;
const PAGE_ROWS: usize = 20;

/// Surveys `paths`.
pub fn run(values: &Values, paths: &[OsString]) -> anyhow::Result<Exit> {
    let (ask, host) = asked(values, paths)?;
    let page = values.last(&flags::survey::HTML).map(|to| begin(Path::new(to))).transpose()?;
    let cancel = Cancel::new();
    let watch = Watch::start(cancel.clone(), RateHandle::new(), None)?;
    let is_shown = terminal::stderr_is_terminal() && terminal::in_foreground();
    let mut progress = ProgressLine::new(is_shown.then(std::io::stderr));
    let found = watch.during(|| survey::run(&ask, &cancel, &mut |so_far| progress.show(so_far)));
    progress.end();
    match found {
        Ok(found) => show_survey(values, paths, &found, host, page),
        Err(Error::Interrupted) => {
            show::stderr().error("interrupted");
            Ok(Exit::Interrupted)
        }
        Err(Error::Usage(text)) => Err(UsageError::of_lines(&text).into()),
        Err(error) => {
            show::stderr().error(&error.to_string());
            Ok(Exit::of(&Err(error)))
        }
    }
}

/// Refuses paths on other hosts: their files would have to come here.
fn refuse_remote(path: &OsStr) -> Result<(), UsageError> {
    let Location { host, path: there } = parse_operand(path)?;
    let (user, name) = match host {
        Host::Local => return Ok(()),
        Host::Served { .. } => {
            return Err(UsageError::new("haul survey works on local paths, not on a server")
                .remedy("type haul survey PATH on the host of the server"));
        }
        Host::Remote { user, name } => (user, name),
    };
    let host = user.map(|user| format!("{user}@")).unwrap_or_default() + &name;
    let shown = escape(path.as_bytes());
    // Both shells read it, the one here and the one there.
    let there = quote(&escape(there.as_os_str().as_bytes()));
    let words = format!("haul survey {there}");
    let words = if there.starts_with('\'') { quote(&words) } else { words };
    Err(UsageError::new(format!("{shown} is on another host, but haul survey works on local paths"))
        .remedy(format!("ssh {host} {words}"))
        .remedy(format!("for its files and bytes alone: haul du {}", quote(&shown)))
        .remedy(format!("for a local path with a colon, write {}", quote(&format!("./{shown}")))))
}

/// The request for the engine, and the target host.
fn asked(values: &Values, paths: &[OsString]) -> Result<(Ask, Option<String>), UsageError> {
    paths.iter().try_for_each(|path| refuse_remote(path))?;
    let paths = paths.iter().map(|path| Ok(parse_operand(path)?.path)).collect::<Result<Vec<_>, UsageError>>()?;
    let (target, host) = values.last(&flags::survey::TO).map_or(Ok((None, None)), target)?;
    let ask = Ask {
        paths,
        symlinks: values.get(&flags::SYMLINKS)?.unwrap_or(Symlinks::Keep),
        one_file_system: values.is_set(&flags::ONE_FILE_SYSTEM),
        filters: filters(values)?,
        target,
        state_dir: state_dir(),
        duplicates: !values.is_set(&flags::survey::NO_DUPLICATES),
        sample: !values.is_set(&flags::survey::NO_SAMPLE),
        time: values.get(&flags::survey::TIME)?.unwrap_or(TIME),
    };
    Ok((ask, host))
}

/// The target: a local directory to compare with, or a host with saved measurements.
fn target(to: &OsStr) -> Result<(Option<PathBuf>, Option<String>), UsageError> {
    let place = parse_operand(to)?;
    match place.host {
        Host::Local => Ok((Some(place.path), None)),
        Host::Remote { name, .. } => Ok((None, Some(name))),
        Host::Served { .. } => Err(bad(&flags::survey::TO, to, "haul survey needs a local directory, not a server")
            .remedy("use a local directory, or host:path where ssh reaches the host")),
    }
}

/// Creates the page before the survey, so that errors appear early. It is published when complete.
fn begin(to: &Path) -> anyhow::Result<(Pending, String)> {
    let shown = format!("--html {}", escape(to.as_os_str().as_bytes()));
    let pending =
        Pending::create(to, ReplaceableFile::Page).map_err(|error| anyhow::anyhow!("{shown}: {}", describe(&error)))?;
    Ok((pending, shown))
}

fn show_survey(
    values: &Values,
    paths: &[OsString],
    found: &Survey,
    host: Option<String>,
    page: Option<(Pending, String)>,
) -> anyhow::Result<Exit> {
    if !values.is_set(&flags::JSON) && found.is_unreadable() {
        let first = found.unreadable.first.iter();
        first.for_each(|(path, why)| show::stderr().failure("", path, why));
        return Ok(Exit::Failed);
    }
    let kept = host.as_deref().zip(state_dir());
    let figures = kept.and_then(|(host, state)| figures::last(&state, Direction::To, host));
    let outlook = Outlook::new(found, host, figures);
    let named: Vec<_> = paths.iter().map(|path| escape(path.as_bytes())).collect();
    let shown = SurveyView { what: named.join(" and "), survey: found, outlook: &outlook };
    let exit = if found.unreadable.count == 0 { Exit::Done } else { Exit::Failed };
    if let Some((pending, to)) = page {
        let when = Zoned::now().strftime("%Y-%m-%d %H:%M:%S %Z").to_string();
        let text = page::page(&contents::document(&shown, when, PAGE_ROWS), &shown);
        let written = pending.writer().and_then(|mut file| file.write_all(text.as_bytes()));
        written.and_then(|()| pending.publish()).map_err(|error| anyhow::anyhow!("{to}: {}", describe(&error)))?;
    }
    print(&match values.is_set(&flags::JSON) {
        true => json::lines(&shown, exit.number()),
        false => words::text(&contents::document(&shown, String::new(), ROWS)),
    });
    Ok(exit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Dialect;
    use crate::args::parse::{Command, parse};

    fn planned(words: &str) -> Result<(Ask, Option<String>), UsageError> {
        let words = std::iter::once("survey").chain(words.split_whitespace()).map(OsString::from).collect();
        match parse(Dialect::Haul, words, &crate::args::local_files::PlainFiles)? {
            Command::Survey(values, paths) => asked(&values, &paths),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn options_choose_the_places() {
        let (ask, host) = planned("a ./b:c").unwrap();
        assert_eq!(ask.paths, [PathBuf::from("a"), "./b:c".into()]);
        assert!(ask.duplicates && ask.sample && ask.target.is_none() && host.is_none() && ask.time == TIME);
        let (ask, host) =
            planned("-r --no-duplicates --no-sample --time 5 --symlinks follow --max-size 1k --to t a").unwrap();
        assert!(!ask.duplicates && !ask.sample && ask.symlinks == Symlinks::Follow);
        assert_eq!((ask.time, ask.filters.limits.max_size), (Duration::from_secs(5), Some(1024)));
        assert_eq!((ask.target, host), (Some("t".into()), None));
        let (ask, host) = planned("--to ann@db1:/archive a").unwrap();
        assert_eq!((ask.target, host.as_deref()), (None, Some("db1")));
    }

    #[test]
    fn an_impossible_place_is_refused_with_the_remedy() {
        for (words, says) in [
            ("ann@db1:/data", "ssh ann@db1 haul survey /data"),
            ("haul://db1/data", "works on local paths"),
            ("", "haul survey . surveys"),
            ("--time 0 a", "--time 0"),
            ("--to haul://db1/x a", "not a server"),
            ("--symlinks some a", "--symlinks some"),
        ] {
            let error = planned(words).unwrap_err().to_string();
            assert!(error.contains(says), "{words}: {error}");
        }
    }

    #[test]
    fn what_to_type_instead_is_quoted_for_both_shells() {
        let hints = |path: &str| {
            let text = refuse_remote(OsStr::new(path)).unwrap_err().to_string();
            text.lines().skip(1).map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(
            hints("ann@db1:run7/a"),
            [
                "hint: ssh ann@db1 haul survey run7/a",
                "hint: for its files and bytes alone: haul du ann@db1:run7/a",
                "hint: for a local path with a colon, write ./ann@db1:run7/a",
            ]
        );
        assert_eq!(
            hints("db1:a; rm -rf b"),
            [
                r"hint: ssh db1 'haul survey '\''a; rm -rf b'\'''",
                "hint: for its files and bytes alone: haul du 'db1:a; rm -rf b'",
                "hint: for a local path with a colon, write './db1:a; rm -rf b'",
            ]
        );
        assert!(refuse_remote(OsStr::new("./a:b")).is_ok());
    }
}
