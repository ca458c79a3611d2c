//! `haul probe [SOURCE] TARGET`: measures the parts of a copy, predicts its rate, and can save recommended options.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use anyhow::Context;
use haul_base::copy::error::Error;
use haul_base::copy::location::Host;
use haul_base::copy::rate::RateHandle;
use haul_base::sys::cancel::Cancel;
use haul_control::probe::{EndMeasurement, Probe, ProbeObserver, ProbePart, ProbeSample};
use haul_proto::forecast::Forecast;
use haul_show::display::Mode;
use haul_show::exit::Exit;
use haul_show::output::{print, say};
use haul_show::text::TextOutput;
use haul_show::{self as show, terminal, units};
use jiff::Zoned;

use crate::args::values::Values;
use crate::args::{UsageError, flags};
use crate::commands::own_program::own_program;
use crate::config;
use crate::probe::buffers::MeasuredPath;
use crate::probe::figures::{self, Direction, ProbeFigures};
use crate::probe::options::{Option_, recommended};
use crate::probe::sysctl::{SysctlFile, SysctlOutcome};
use crate::probe::{json, ready, save, shown};
use crate::resolve::probe;
use crate::signals::Watch;
use crate::user_dirs::state_dir;

/// Probes `operands`: a target, or a source and a target.
pub fn run(own: &Values, copy: &Values, operands: &[OsString]) -> anyhow::Result<Exit> {
    let (probe, display, time_limit) = probe(own, copy, operands, terminal::stderr_is_terminal())?;
    if display.bits {
        units::show_bits();
    }
    let saves = own.is_set(&flags::probe::SAVE).then(|| place_to_save(&probe, copy)).transpose()?;
    let sysctl = own.last(&flags::probe::SYSCTL).map(|file| sysctl_file(&probe, file, copy)).transpose()?;
    let cancel = Cancel::new();
    let rate = RateHandle::new();
    let watch = Watch::start(cancel.clone(), rate, time_limit)?;
    let mut messages = ProbeMessages {
        text: show::stderr(),
        mode: display.mode,
        is_one: probe.is_one_worker(),
        knows_way: false,
        has_failed_part: false,
        window_bytes: probe.options.streams.socket.window_bytes,
        ends: Vec::new(),
        path: MeasuredPath::default(),
    };
    let found = watch.during(|| haul_control::probe::run(&probe, &own_program(), &cancel, &mut messages));
    match found {
        Ok(found) => messages.end(found, copy, saves, sysctl),
        Err(Error::Interrupted) => {
            messages.error(&watch.time_is_up().unwrap_or_else(|| "interrupted".to_owned()), Exit::Interrupted);
            Ok(Exit::Interrupted)
        }
        Err(error) => {
            let text = error.to_string();
            let exit = Exit::of(&Err(error));
            messages.error(&text, exit);
            Ok(exit)
        }
    }
}

/// Creates the file of `--sysctl`.
fn sysctl_file(probe: &Probe, file: &OsStr, copy: &Values) -> anyhow::Result<SysctlFile> {
    if probe.is_one_worker() {
        let error = UsageError::new("--sysctl: both ends are on this host, without a network");
        return Err(error.remedy("haul probe --sysctl FILE host:").into());
    }
    if probe.network_only {
        let error = UsageError::new("--sysctl: the settings of both hosts are unknown without logins at them");
        return Err(error.remedy("haul probe --sysctl FILE host:, without --network").into());
    }
    SysctlFile::begin(Path::new(file), copy.is_set(&flags::FORCE))
}

/// The file and section for the host's options.
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
    let named = copy.last(&flags::CONFIG).map(PathBuf::from);
    let path = named.or_else(config::users_file).ok_or_else(|| {
        UsageError::new("--save: neither HOME nor XDG_CONFIG_HOME is set").remedy("use --config FILE")
    })?;
    Ok(Saved { path, host, direction })
}

/// The destination of saved options.
struct Saved {
    /// The file to change.
    path: PathBuf,
    /// The host of the section.
    host: String,
    /// The direction of the data.
    direction: Direction,
}

/// Prints the results.
struct ProbeMessages {
    text: TextOutput,
    mode: Mode,
    is_one: bool,
    knows_way: bool,
    has_failed_part: bool,
    /// The size given by `-w`.
    window_bytes: Option<u32>,
    /// Each worker's measurements; empty if only the network is measured.
    ends: Vec<EndMeasurement>,
    path: MeasuredPath,
}

impl ProbeMessages {
    fn say(&self, line: impl FnOnce() -> String, json: impl FnOnce() -> String) {
        say(self.mode, line, json);
    }

    fn error(&mut self, message: &str, exit: Exit) {
        if self.mode == Mode::Json {
            print(&json::error(message, exit));
        }
        self.text.error(message);
    }

    fn end(
        &mut self,
        found: Option<Forecast>,
        copy: &Values,
        saves: Option<Saved>,
        sysctl: Option<SysctlFile>,
    ) -> anyhow::Result<Exit> {
        self.path_checks();
        let sysctl = sysctl.map(|file| file.write(&self.ends, &self.path).context("--sysctl")).transpose();
        let options = found.as_ref().map(|found| recommended(&found.settings, copy)).unwrap_or_default();
        let saved = found.as_ref().zip(saves).map(|(found, place)| saved(found, &options, &place));
        let saved = saved.transpose();
        let is_done = found.is_some() && saved.is_ok() && sysctl.is_ok() && !self.has_failed_part;
        let exit = if is_done { Exit::Done } else { Exit::Failed };
        let place = saved.as_ref().ok().cloned().flatten();
        let written = sysctl.as_ref().ok().cloned().flatten();
        match (&found, self.mode) {
            (_, Mode::Json) => {
                let files = [place.as_deref(), written.as_ref().and_then(SysctlOutcome::file)];
                print(&json::forecast(found.as_ref(), &options, files, exit.number()));
            }
            (Some(found), Mode::Quiet) => print(&format!("{}\n", units::rate(found.rate))),
            (Some(found), _) => {
                let lines = shown::forecast(found, &options).into_iter();
                let saved = place.map(|place| format!("{:<12}{place}", "saved"));
                let sysctl = written.map(|outcome| format!("{:<12}{}", "sysctl", outcome.text()));
                let lines: Vec<_> = lines.chain(saved).chain(sysctl).collect();
                print(&format!("\n{}\n", lines.join("\n")));
            }
            (None, _) => self.text.error("no part could be measured"),
        }
        saved?;
        sysctl?;
        Ok(exit)
    }

    /// Shows the checks of the measured path.
    fn path_checks(&self) {
        for check in self.ends.iter().flat_map(|end| self.path.checks(end, self.window_bytes)) {
            self.say(|| shown::check(&check), || json::check(&check));
        }
        if let (true, Some(needs)) = (self.ends.is_empty(), self.path.needs()) {
            let text = format!("{} in flight", self.path.product(needs));
            let check = ready::Check { id: "bdp", host: None, is_fine: true, text };
            self.say(|| shown::check(&check), || json::check(&check));
        }
    }
}

/// Saves options, and returns a line about it.
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
            Mode::Json => print(&json::notice(text)),
            Mode::Quiet => {}
            _ => self.text.notice(text),
        }
    }

    fn ends(&mut self, ends: &[EndMeasurement; 2]) {
        for check in ready::of_ends(ends, self.is_one) {
            self.say(|| shown::check(&check), || json::check(&check));
        }
        let several = if self.is_one { &ends[1..] } else { &ends[..] };
        self.ends = several.to_vec();
        for (end, which) in several.iter().zip(if self.is_one { &["both"][..] } else { &["source", "target"] }) {
            self.say(|| shown::computing(end), || json::end(end, which));
        }
    }

    fn sample(&mut self, part: ProbePart, sample: &ProbeSample) {
        if matches!(part, ProbePart::Network { .. }) && !std::mem::replace(&mut self.knows_way, true) {
            let check = ready::of_transport(&sample.transport);
            self.say(|| shown::check(&check), || json::check(&check));
            if let (Some(transport), true) = (shown::transport(&sample.transport), self.mode != Mode::Json) {
                self.say(|| transport, String::new);
            }
        }
        self.path.add(part, sample);
        self.say(|| shown::sample(part, sample), || json::sample(part, sample));
    }

    fn failed(&mut self, part: ProbePart, why: &str) {
        self.has_failed_part = true;
        self.say(|| shown::failed(part, why), || json::failed(part, why));
    }
}
