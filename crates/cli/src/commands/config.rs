//! `haul config [HOST]`: the options in force for a copy from or to a host, and the origin of each.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use haul_proto::path::escape;
use haul_show::exit::Exit;
use haul_show::json::{OptionArgument, encode};
use haul_show::output::print;
use serde::Serialize;

use crate::args::flags::{self, COPY};
use crate::args::parse::command_host;
use crate::args::row::{HelpSection, OptionRow, Takes};
use crate::args::values::Values;
use crate::config::{self, ConfigSettings, Loaded, ProfileLine, ProfileSetting};
use crate::path_memory::{FailedPath, PathMemory};
use crate::resolve::HostNames;

/// The value of an option, and its origin.
struct ConfigLine<'a> {
    row: &'static OptionRow,
    arguments: Vec<Option<OsString>>,
    origin: Origin<'a>,
}

enum Origin<'a> {
    Default,
    CommandLine,
    File(&'a ProfileLine),
}

/// A line of `haul config --json`.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct OptionLine<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    host: Option<Option<&'a str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<usize>,
    option: &'static str,
    origin: &'static str,
    values: Vec<OptionArgument<'a>>,
}

/// Shows the settings for a copy from or to `host`, or within this machine.
pub fn run(own: &Values, values: &Values, host: Option<&OsString>) -> anyhow::Result<Exit> {
    let host = host.map(|host| command_host(host)).transpose()?;
    let failed = host.as_deref().and_then(|host| PathMemory::of_host(host)?.failed);
    let hosts = HostNames { source: host.clone(), target: host };
    config::check(values.given().to_vec())?;
    let files = config::load(values)?;
    let ConfigSettings { chosen, left_out } = config::config_settings(values, &files, &hosts);
    let rows = COPY.iter().filter(|row| !row.of_one_copy && row.section != HelpSection::Accepted);
    let lines: Vec<_> = rows.flat_map(|row| lines(row, values, &chosen)).collect();
    let is_complete = own.is_set(&flags::config::EVERY);
    let text = match own.is_set(&flags::JSON) {
        true => lines.iter().map(|line| encode(&line.json())).collect(),
        false => words(&files, &lines, is_complete, &left_out, failed.as_ref()),
    };
    print(&text);
    Ok(Exit::Done)
}

/// An option has several lines if several places set it.
fn lines<'a>(row: &'static OptionRow, values: &Values, chosen: &'a [ProfileSetting]) -> Vec<ConfigLine<'a>> {
    let typed = values.given().iter().filter(|(given, _)| given.is(row)).map(|(_, argument)| argument.clone());
    let typed = ConfigLine { row, arguments: typed.collect(), origin: Origin::CommandLine };
    let is_undone = values.undone().iter().any(|undone| undone.is(row));
    let from_files = chosen.iter().filter(|setting| setting.row.is(row));
    let from_files = from_files.map(|ProfileSetting { arguments, place, .. }| ConfigLine {
        row,
        arguments: arguments.clone(),
        origin: Origin::File(place),
    });
    let all = Some(typed).filter(|line| is_undone || !line.arguments.is_empty()).into_iter().chain(from_files);
    let mut all: Vec<_> = all.collect();
    if all.is_empty() {
        all.push(ConfigLine { row, arguments: Vec::new(), origin: Origin::Default });
    }
    all
}

fn words(
    files: &[Loaded],
    lines: &[ConfigLine<'_>],
    is_complete: bool,
    left_out: &[(ProfileSetting, crate::args::UsageError)],
    failed: Option<&FailedPath>,
) -> String {
    let mut text = String::new();
    for file in files {
        text.push_str(&format!("{}{}\n", file.shown, if file.exists() { "" } else { " (missing)" }));
    }
    text.push('\n');
    for line in lines.iter().filter(|line| is_complete || !matches!(line.origin, Origin::Default)) {
        text.push_str(&format!("{:<16} {:<20} {}\n", line.row.id, line.value(), line.origin.words()));
    }
    if !is_complete {
        text.push_str("other options have their defaults: haul config --all lists them\n");
    }
    for (setting, why) in left_out {
        let why = why.to_string();
        let why = why.lines().next().unwrap_or_default();
        text.push_str(&format!("\nignored: {}: {why}\n", Origin::File(&setting.place).words()));
    }
    if let Some(FailedPath { network, when, because }) = failed {
        let because = escape(because.as_bytes());
        text.push_str(&format!(
            "\nno direct path from {network} at {when} ({because}): for a day, copies begin through ssh\n"
        ));
    }
    text
}

impl Origin<'_> {
    fn words(&self) -> String {
        match self {
            Self::Default => "default".to_owned(),
            Self::CommandLine => "command line".to_owned(),
            Self::File(ProfileLine { file, line, host: None }) => format!("{file}:{line}"),
            Self::File(ProfileLine { file, line, host: Some(host) }) => {
                format!("{file}:{line} [host.\"{}\"]", escape(host.as_bytes()))
            }
        }
    }
}

/// The default named in the help: `(default: 13s)`, or `auto (default)`.
fn default(row: &OptionRow) -> Option<String> {
    let help = row.help;
    if let Some((_, rest)) = help.split_once("(default: ") {
        return rest.split(')').next().map(str::to_owned);
    }
    let (before, _) = help.split_once(" (default)")?;
    before.rsplit(' ').next().map(str::to_owned)
}

impl ConfigLine<'_> {
    /// The value as typed; for a default, the help's text.
    fn value(&self) -> String {
        let is_flag = matches!(self.row.takes, Takes::Nothing);
        let shown =
            |argument: &Option<OsString>| argument.as_ref().map_or_else(String::new, |text| escape(text.as_bytes()));
        match self.arguments.as_slice() {
            [] if is_flag => "off".to_owned(),
            [] => default(self.row).unwrap_or_else(|| "-".to_owned()),
            [..] if is_flag => "on".to_owned(),
            [None, ..] if self.row.takes == Takes::Repeats => self.arguments.len().to_string(),
            [None] => "on".to_owned(),
            several => several.iter().map(shown).collect::<Vec<_>>().join(", "),
        }
    }

    fn json(&self) -> OptionLine<'_> {
        let (origin, place) = match self.origin {
            Origin::Default => ("default", None),
            Origin::CommandLine => ("command line", None),
            Origin::File(place) => ("file", Some(place)),
        };
        OptionLine {
            file: place.map(|place| &*place.file),
            host: place.map(|place| place.host.as_deref()),
            line: place.map(|place| place.line),
            option: self.row.id,
            origin,
            values: self
                .arguments
                .iter()
                .map(|argument| argument.as_deref().map(OsStr::to_string_lossy).into())
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_match_the_help() {
        let of = |id| COPY.iter().find(|row| row.id == id).and_then(default);
        assert_eq!(of("silence").as_deref(), Some("13s"));
        assert_eq!(of("compress").as_deref(), Some("auto"));
        assert_eq!(of("symlinks").as_deref(), Some("keep"));
        assert_eq!(of("windowsz").as_deref(), Some("autotuning"));
        assert_eq!(of("idfile"), None);
    }
}
