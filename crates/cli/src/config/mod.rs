//! Configuration files: options of a copy, for all hosts or for a copy's hosts.
//!
//! Precedence: the command line, the user's file, the system's file; within a file, the more specific section. An
//! option that contradicts one of higher precedence is dropped: `--bwlimit` on the command line overrides `xfrrate` in
//! a file. `--OPTION=default` undoes an option: `--no-OPTION` would not do, since half of the flags begin with `no-`.
//! Only a user's command reads these files: no worker, and no library.

mod bbcp;
mod file;
mod pair;
mod pattern;
mod profile;

use std::cmp::Reverse;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

pub use self::file::{read as text, read_trusted, shown};
pub use self::pair::pair_words;
pub use self::profile::{ProfileLine, ProfileSetting, check};
use self::profile::{ProfileSection, parse};
use crate::args::row::OptionRow;
use crate::args::values::Values;
use crate::args::{Dialect, UsageError, flags};
use crate::resolve::HostNames;

/// Options of a host's login: each end has its own.
const OF_A_LOGIN: [&OptionRow; 8] = [
    &flags::IDFILE.row,
    &flags::SSH_CONFIG.row,
    &flags::SSH_PORT.row,
    &flags::SSH_OPTION.row,
    &flags::NO_SSH_REUSE.row,
    &flags::NO_DEPLOY.row,
    &flags::WORKER_BINARY.row,
    &flags::REMOTE_DIR.row,
];
/// An option with the values of all matching sections, the most specific first: ssh uses the first value.
const ADDED_UP: &OptionRow = &flags::SSH_OPTION.row;

/// An end of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ConfigEnd {
    Source,
    Target,
}

/// A configuration file, which may be absent.
#[derive(Debug)]
pub struct Loaded {
    /// Its path in messages.
    pub shown: String,
    /// Its sections; `None` if it does not exist.
    sections: Option<Vec<ProfileSection>>,
}

impl Loaded {
    /// Whether the file exists.
    pub fn exists(&self) -> bool {
        self.sections.is_some()
    }
}

/// The options of files for a copy.
#[derive(Debug, Default)]
pub struct ConfigSettings {
    /// The settings in force.
    pub chosen: Vec<ProfileSetting>,
    /// Dropped options, which contradict those of higher precedence, with the reason.
    pub left_out: Vec<(ProfileSetting, UsageError)>,
}

/// Completes typed options with those of files, for a copy between these hosts.
pub fn complete(values: Values, hosts: &HostNames) -> Result<Values, UsageError> {
    if values.dialect() == Dialect::Bbcp {
        return bbcp::complete(&values);
    }
    let files = load(&values)?;
    Ok(with_files(values, &files, hosts))
}

fn with_files(values: Values, files: &[Loaded], hosts: &HostNames) -> Values {
    let given = |settings: ConfigSettings| settings.chosen.iter().flat_map(ProfileSetting::given).collect();
    if hosts.source.is_none() || hosts.target.is_none() {
        let more = given(config_settings(&values, files, hosts));
        return values.and(more);
    }
    let [at_source, at_target] =
        [ConfigEnd::Source, ConfigEnd::Target].map(|end| given(set_at(&values, files, hosts, end)));
    let typed = Values::new(values.table(), values.dialect(), values.given().to_vec());
    values.and(at_source).logging_in_at_target_as(typed.and(at_target))
}

/// The user's own file; `None` without a known place.
pub fn users_file() -> Option<PathBuf> {
    file::users()
}

/// Checks the text of a configuration file.
pub fn check_text(shown: &str, text: &str) -> Result<(), UsageError> {
    parse(shown, text).map(drop)
}

/// Loads the existing files by precedence: that of `--config`, or the user's and the system's.
pub fn load(values: &Values) -> Result<Vec<Loaded>, UsageError> {
    let load = |path: &Path| {
        let shown = shown(path);
        let sections = file::read(path)?.map(|text| parse(&shown, &text)).transpose()?;
        Ok(Loaded { shown, sections })
    };
    let Some(named) = values.last(&flags::CONFIG) else {
        return file::places().iter().map(|path| load(path)).collect();
    };
    match load(Path::new(named))? {
        Loaded { shown, sections: None } => Err(UsageError::new(format!("--config {shown}: no such file"))),
        loaded => Ok(vec![loaded]),
    }
}

/// Options of files for a copy between these hosts. Those of a login apply to the first remote end.
pub fn config_settings(values: &Values, files: &[Loaded], hosts: &HostNames) -> ConfigSettings {
    let end = if hosts.source.is_none() && hosts.target.is_some() { ConfigEnd::Target } else { ConfigEnd::Source };
    set_at(values, files, hosts, end)
}

fn set_at(values: &Values, files: &[Loaded], hosts: &HostNames, login: ConfigEnd) -> ConfigSettings {
    let mut settings = ConfigSettings::default();
    let mut given = values.given().to_vec();
    let mut closed = values.undone().to_vec();
    closed.extend(given.iter().map(|(row, _)| *row).filter(|row| !row.is(ADDED_UP)));
    for (section, at) in files.iter().flat_map(|file| in_turn(file, hosts)) {
        for setting in &section.settings {
            let ProfileSetting { row, arguments, .. } = setting;
            let is_there = values.table().iter().any(|known| known.is(row));
            if !is_there || row.is_any(&closed) || !is_about(row, at, login) {
                continue;
            }
            if !row.is(ADDED_UP) || arguments.is_empty() {
                closed.push(row);
            }
            let with_it: Vec<_> = given.iter().cloned().chain(setting.given()).collect();
            match check(with_it.clone()) {
                Ok(()) => {
                    given = with_it;
                    settings.chosen.push(setting.clone());
                }
                Err(error) => settings.left_out.push((setting.clone(), error)),
            }
        }
    }
    settings
}

/// The ends that a section applies to.
#[derive(Debug, Clone, Copy)]
struct SectionEnds {
    source: bool,
    target: bool,
}

/// The sections of a file for this copy, the more specific first; of two equally specific ones, the target's.
fn in_turn<'f>(file: &'f Loaded, hosts: &HostNames) -> Vec<(&'f ProfileSection, SectionEnds)> {
    let ends = |section: &ProfileSection| match &section.host {
        None => SectionEnds { source: true, target: true },
        Some(pattern) => {
            let is_for = |host: &Option<String>| host.as_ref().is_some_and(|host| pattern::matches(pattern, host));
            SectionEnds { source: is_for(&hosts.source), target: is_for(&hosts.target) }
        }
    };
    let all = file.sections.iter().flatten().map(|section| (section, ends(section)));
    let mut found: Vec<_> = all.filter(|(_, at)| at.source || at.target).collect();
    found.sort_by_key(|(section, at)| Reverse((section.host.as_deref().map(pattern::rank), at.target)));
    found
}

/// Whether an option in a section for these ends applies to this copy.
fn is_about(row: &OptionRow, at: SectionEnds, login: ConfigEnd) -> bool {
    match row {
        row if row.is(&flags::SOURCE_COMMAND) => at.source,
        row if row.is(&flags::TARGET_COMMAND) => at.target,
        row if row.is_any(&OF_A_LOGIN) => match login {
            ConfigEnd::Source => at.source,
            ConfigEnd::Target => at.target,
        },
        _ => true,
    }
}

/// A given option, with its argument if any.
type Given = (&'static OptionRow, Option<OsString>);

#[cfg(test)]
#[path = "config_tests.rs"]
mod tests;
