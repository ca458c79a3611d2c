//! `haul probe [SOURCE] TARGET`: measures what a copy is made of, says what to expect, and may save what it recommends.

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::Context;
use haul_engine::job::error::Error;
use haul_engine::job::location::Host;
use haul_engine::job::rate::RateHandle;
use haul_engine::probe::{EndMeasurement, Probe, ProbeObserver, ProbePart, ProbeSample};
use haul_engine::sys::cancel::Cancel;
use haul_proto::forecast::Forecast;
use jiff::Zoned;

use crate::args::UsageError;
use crate::args::values::Values;
use crate::config;
use crate::exit::Exit;
use crate::probe::figures::{self, Direction, ProbeFigures};
use crate::probe::options::{Option_, recommended};
use crate::probe::{json, ready, save, shown};
use crate::resolve::probe;
use crate::show::display::Mode;
use crate::signals::Watch;
use crate::terminal;
use crate::text::TextOutput;
use crate::user_dirs::state_dir;
use crate::{show, units};

/// Probes `operands`: a target, or a source and a target.
pub fn run(own: &Values, copy: &Values, operands: &[OsString]) -> anyhow::Result<Exit> {
    let (probe, display, time_limit) = probe(own, copy, operands, terminal::stderr_is_terminal())?;
    if display.bits {
        units::show_bits();
    }
    let saves = own.flag("save").then(|| place_to_save(&probe, copy)).transpose()?;
    let cancel = Cancel::new();
    let rate = RateHandle::new();
    let watch = Watch::start(cancel.clone(), rate, time_limit).context("signals cannot be caught")?;
    let mut told = ProbeMessages {
        text: show::stderr(),
        mode: display.mode,
        is_one: probe.is_one_worker(),
        knows_way: false,
        has_failed_part: false,
    };
    let found = watch.during(|| haul_engine::probe::run(&probe, &super::program(), &cancel, &mut told));
    match found {
        Ok(found) => told.end(found, copy, saves),
        Err(Error::Interrupted) => {
            told.error(&watch.time_is_up().unwrap_or_else(|| "interrupted".to_owned()));
            Ok(Exit::Interrupted)
        }
        Err(error) => {
            told.error(&error.to_string());
            Ok(Exit::of(&Err(error)))
        }
    }
}

/// Where a profile of the host belongs.
fn place_to_save(probe: &Probe, copy: &Values) -> Result<Saved, UsageError> {
    let source = probe.source.as_ref().map(|source| (&source.host, Direction::From));
    let ends = [Some((&probe.target.host, Direction::To)), source];
    let host = ends.into_iter().flatten().find_map(|(host, direction)| match host {
        Host::Remote { name, .. } => Some((name.clone(), direction)),
        Host::Local | Host::Served { .. } => None,
    });
    let (host, direction) = host.ok_or_else(|| {
        UsageError::new("--save: no remote host to save a profile for").remedy("haul probe --save [SOURCE] host:/path")
    })?;
    let named = copy.last("config").map(PathBuf::from);
    let path = named
        .or_else(config::users_file)
        .ok_or_else(|| UsageError::new("--save: neither HOME nor XDG_CONFIG_HOME is set").remedy("use -C FILE"))?;
    Ok(Saved { path, host, direction })
}

/// Where the results are to be saved.
struct Saved {
    /// The file to be changed.
    path: PathBuf,
    /// The host whose section it is.
    host: String,
    /// Whether data goes there, or comes from there.
    direction: Direction,
}

/// Prints the results.
struct ProbeMessages {
    text: TextOutput,
    mode: Mode,
    is_one: bool,
    knows_way: bool,
    has_failed_part: bool,
}

impl ProbeMessages {
    fn say(&self, line: impl FnOnce() -> String, json: impl FnOnce() -> String) {
        super::say(self.mode, line, json);
    }

    fn error(&mut self, message: &str) {
        if self.mode == Mode::Json {
            super::print(&show::json::JsonLine::new("error").with("message", message).ended());
        }
        self.text.error(message);
    }

    fn end(&mut self, found: Option<Forecast>, copy: &Values, saves: Option<Saved>) -> anyhow::Result<Exit> {
        let options = found.as_ref().map(|found| recommended(&found.settings, copy)).unwrap_or_default();
        let saved = found.as_ref().zip(saves).map(|(found, place)| saved(found, &options, &place));
        let saved = saved.transpose();
        let is_done = found.is_some() && saved.is_ok() && !self.has_failed_part;
        let exit = if is_done { Exit::Done } else { Exit::Failed };
        let place = saved.as_ref().ok().cloned().flatten();
        match (&found, self.mode) {
            (_, Mode::Json) => super::print(&json::forecast(found.as_ref(), &options, place.as_deref(), exit.number())),
            (Some(found), Mode::Quiet) => super::print(&format!("{}\n", units::rate(found.rate))),
            (Some(found), _) => {
                let lines = shown::forecast(found, &options).into_iter();
                let saved = place.map(|place| format!("{:<12}{place}", "saved"));
                let lines: Vec<_> = lines.chain(saved).collect();
                super::print(&format!("\n{}\n", lines.join("\n")));
            }
            (None, _) => self.text.error("no part could be measured"),
        }
        saved?;
        Ok(exit)
    }
}

/// Saves, and says where.
fn saved(found: &Forecast, options: &[Option_], place: &Saved) -> anyhow::Result<String> {
    let Saved { path, host, direction } = place;
    let limit = show::verdict::words(found.limit);
    save::save(path, host, options, &format!("haul probe: {}, limited by {limit}", units::rate(found.rate)))?;
    if let Some(state) = state_dir() {
        let when = Zoned::now().strftime("%Y-%m-%d %H:%M").to_string();
        figures::keep(
            &state,
            *direction,
            host,
            &ProbeFigures { bytes_per_s: found.rate, limit: limit.to_owned(), when },
        )?;
    }
    Ok(format!("{} [host.\"{}\"]", config::shown(path), haul_proto::path::escape(host.as_bytes())))
}

impl ProbeObserver for ProbeMessages {
    fn begins(&mut self, _: ProbePart) {}

    fn notice(&mut self, text: &str) {
        match self.mode {
            Mode::Json => super::print(&show::json::JsonLine::new("notice").with("message", text).ended()),
            Mode::Quiet => {}
            _ => self.text.notice(text),
        }
    }

    fn ends(&mut self, ends: &[EndMeasurement; 2]) {
        for check in ready::of_ends(ends, self.is_one) {
            self.say(|| shown::check(&check), || json::check(&check));
        }
        let several = if self.is_one { &ends[1..] } else { &ends[..] };
        for (end, which) in several.iter().zip(if self.is_one { &["both"][..] } else { &["source", "target"] }) {
            self.say(|| shown::computing(end), || json::end(end, which));
        }
    }

    fn sample(&mut self, part: ProbePart, sample: &ProbeSample) {
        if matches!(part, ProbePart::Network { .. }) && !std::mem::replace(&mut self.knows_way, true) {
            let check = ready::of_way(&sample.way);
            self.say(|| shown::check(&check), || json::check(&check));
            if let (Some(way), true) = (shown::way(&sample.way), self.mode != Mode::Json) {
                self.say(|| way, String::new);
            }
        }
        self.say(|| shown::sample(part, sample), || json::sample(part, sample));
    }

    fn failed(&mut self, part: ProbePart, why: &str) {
        self.has_failed_part = true;
        self.say(|| shown::failed(part, why), || json::failed(part, why));
    }
}
