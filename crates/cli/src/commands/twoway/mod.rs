//! `haul twoway A B`: brings two replicas that both changed to agreement.

mod choices;
mod interactive;
pub mod lines;
mod shown;

use std::ffi::{OsStr, OsString};
use std::io::IsTerminal;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use haul_base::copy::error::Error;
use haul_base::copy::event::{Event, Observer};
use haul_base::copy::runtime_control::RuntimeControl;
use haul_base::copy::spec::{CopyOptions, EqualityTest};
use haul_base::sys::cancel::Cancel;
use haul_control::controller::replica_session::ReplicaOptions;
use haul_control::controller::twoway::{TwowayResults, TwowayRun, TwowaySpec};
use haul_proto::checksum::hex;
use haul_proto::path::escape;
use haul_proto::twoway::ReplicaSide;
use haul_proto::twoway::limits::DeletionDoubt;
use haul_proto::twoway::plan::TwowayPlan;
use haul_proto::twoway::unreadable::UnreadablePath;
use haul_proto::watch::ChangedPart;
use haul_show as show;
use haul_show::bar::BarView;
use haul_show::display::Mode;
use haul_show::exit::Exit;
use haul_show::human::{Human, Verbosity};
use haul_show::json::encode;
use haul_show::output::print;
use haul_show::terminal;

use self::choices::conflict_rules;
use self::lines::{TwowayLine, ended, planned};
use self::shown::{notice_text, plan_text, planned_results, summary_text};
use crate::args::local_files::LocalDisk;
use crate::args::parse::{Command, parse};
use crate::args::row::OptionRow;
use crate::args::values::Values;
use crate::args::{Dialect, UsageError, contradiction, flags};
use crate::commands::configured::between;
use crate::commands::own_program::own_program;
use crate::commands::watch::{WatchedRoot, repeat};
use crate::resolve::{Plan, plan};
use crate::signals::Watch;

/// Why a name is left out at a file system that folds case.
const FOLDED: &str = "this file system takes an existing name, spelled differently, for the same\nrename one of them";
/// Options without a meaning for several runs.
const OF_ONE_RUN: [&OptionRow; 3] =
    [&flags::twoway::PLAN.row, &flags::twoway::PLAN_FILE.row, &flags::twoway::INTERACTIVE.row];
/// What becomes of a path that cannot be read.
const UNREADABLE: &str = "; skipped with all below it, at both sides\nmake it readable, or exclude it";
/// Largest file of a reviewed plan.
const PLAN_FILE_MAX: u64 = 1 << 30;

/// Synchronises two roots, or the pair of a configuration file.
pub fn run(own: &Values, copy: &Values, roots: &[OsString]) -> anyhow::Result<Exit> {
    match roots {
        [a, b] => synchronise(own, copy, [a.clone(), b.clone()]),
        _ => of_pair(copy, &roots[0]),
    }
}

/// Parses the command line again, with the words of a pair: those that were typed come last, and prevail.
fn of_pair(copy: &Values, name: &OsStr) -> anyhow::Result<Exit> {
    let shown = name.to_string_lossy();
    if shown.contains(['/', ':']) {
        return Err(UsageError::new(format!("{}: one directory has nothing to agree with", escape(name.as_bytes())))
            .remedy("haul twoway A B names both")
            .into());
    }
    let pair = crate::config::pair_words(copy, &shown)?;
    let typed: Vec<OsString> = std::env::args_os().skip(1).collect();
    let typed = without(&typed, typed.iter().position(|word| word == "twoway"));
    let mut failure = None;
    // An option's argument may be the same word. Without it instead, there would be an operand more.
    for at in (0..typed.len()).rev().filter(|at| typed[*at] == name) {
        let words = [OsString::from("twoway")].into_iter().chain(pair.options.clone());
        let words = words.chain(without(&typed, Some(at))).chain([OsString::from("--")]).chain(pair.roots.clone());
        match parse(Dialect::Haul, words.collect(), &LocalDisk) {
            Ok(Command::Twoway(own, copy, roots)) if roots.len() == 2 => return run(&own, &copy, &roots),
            Ok(_) => {}
            Err(error) => failure = failure.or(Some(error)),
        }
    }
    let other = || UsageError::new(format!("the pair {} is no pair of directories", escape(name.as_bytes())));
    Err(failure.unwrap_or_else(other).into())
}

fn without(words: &[OsString], at: Option<usize>) -> Vec<OsString> {
    let kept = words.iter().enumerate().filter(|(index, _)| Some(*index) != at);
    kept.map(|(_, word)| word.clone()).collect()
}

fn synchronise(own: &Values, copy: &Values, roots: [OsString; 2]) -> anyhow::Result<Exit> {
    let rules = conflict_rules(own)?;
    let digest_all = match own.get(&flags::COMPARE)? {
        None | Some(Some(EqualityTest::SizeAndTime)) => false,
        Some(Some(EqualityTest::Digest)) => true,
        Some(_) => return Err(UsageError::new("--compare of haul twoway is time or digest").into()),
    };
    if own.is_set(&flags::twoway::INTERACTIVE) && own.is_set(&flags::twoway::BATCH) {
        return Err(UsageError::new("--interactive cannot be used with --batch, which asks nothing").into());
    }
    let values = between(copy.clone(), &roots)?;
    let Plan { copy: planned, display, .. } = plan(&values, &roots, terminal::stderr_is_terminal())?;
    let [a] = &planned.sources[..] else {
        return Err(UsageError::new("haul twoway takes two directories").into());
    };
    if planned.options.pipes.source.is_some() || planned.options.pipes.target.is_some() {
        return Err(UsageError::new("- is a pipe, and no directory").into());
    }
    let backup_dir = own.last(&flags::BACKUP_DIR).map(|dir| Path::new(dir).to_owned());
    let replica = ReplicaOptions { filters: planned.options.source.filters.clone(), backup_dir };
    let copies = CopyOptions { source: Default::default(), ..planned.options.clone() };
    let roots = [a.clone(), planned.target.clone()];
    let spec = TwowaySpec { roots, access: planned.access, copies, replica, digest_all };
    let cancel = Cancel::new();
    let control = RuntimeControl::new();
    let watch = Watch::start(cancel.clone(), control.rate().clone(), None)?;
    let (is_json, is_quiet) = (own.is_set(&flags::JSON), values.is_set(&flags::QUIET));
    let has_bar = display.mode == Mode::Bar;
    let mut command = TwowayCommand { own, is_json, is_quiet, has_bar, is_follow_up: false };
    if !own.is_set(&flags::WATCH) {
        return result_of(watch.during(|| command.run(spec, rules, &cancel, &control)), &cancel);
    }
    if let Some(row) = own.first_of(&OF_ONE_RUN) {
        return Err(contradiction(&flags::WATCH, row).into());
    }
    let watched = ReplicaSide::BOTH.map(|side| WatchedRoot {
        root: spec.roots[side.index()].clone(),
        access: spec.access_at(side),
        filters: spec.replica.filters.clone(),
    });
    repeat(watched.into(), is_quiet || is_json, &cancel, |part| {
        let mut spec = spec.clone();
        if let ChangedPart::Paths(paths) = part {
            // The roots' own properties stay.
            if paths.iter().all(|changed| changed.path.is_empty()) {
                return Ok(Exit::Done);
            }
            spec.replica.filters.changed = Some(paths.clone());
            command.is_follow_up = true;
        }
        result_of(watch.during(|| command.run(spec, rules.clone(), &cancel, &control)), &cancel)
    })
}

fn result_of(ended: anyhow::Result<Exit>, cancel: &Cancel) -> anyhow::Result<Exit> {
    match ended {
        Err(error) if cancel.is_cancelled() && error.is::<Error>() => Ok(report(&Error::Interrupted)),
        Err(error) => match error.downcast::<Error>() {
            Ok(error) => Ok(report(&error)),
            Err(other) => Err(other),
        },
        ended => ended,
    }
}

fn report(error: &Error) -> Exit {
    show::stderr().error(&error.to_string());
    match error {
        Error::Usage(_) => Exit::Usage,
        Error::Connect(_) => Exit::Unreachable,
        Error::Interrupted | Error::Broken(_) => Exit::Interrupted,
        Error::Failed(_) => Exit::Failed,
    }
}

/// The command while it runs.
struct TwowayCommand<'v> {
    own: &'v Values,
    is_json: bool,
    is_quiet: bool,
    /// Whether copies have a progress bar.
    has_bar: bool,
    /// A run after a change says nothing if there is nothing to do: its own changes are followed by one.
    is_follow_up: bool,
}

impl TwowayCommand<'_> {
    fn run(
        &mut self,
        spec: TwowaySpec,
        rules: haul_proto::twoway::prefer::ConflictRules,
        cancel: &Cancel,
        control: &RuntimeControl,
    ) -> anyhow::Result<Exit> {
        let mut view = CopyView::new(self.is_json, self.has_bar);
        let mut run = TwowayRun::start(spec, own_program(), cancel, &mut view)?;
        for notice in run.notices() {
            self.tell(&notice_text(&run, notice));
        }
        let mut decisions = run.decide()?;
        let rules = choices::with_hosts(rules, &run);
        run.prefer(&mut decisions, &rules)?;
        if self.own.is_set(&flags::twoway::INTERACTIVE) && !interactive::choose(&run, &mut decisions)? {
            return Ok(Exit::Interrupted);
        }
        let mut plan = run.plan(decisions);
        let folded = run.without_folded_names(&mut plan)?;
        for (side, path) in &folded {
            show::stderr().failure(&run.label(*side), path.as_bytes(), FOLDED);
        }
        let left_out = folded.len() as u64 + report_unreadable(&run);
        if self.is_follow_up && plan.actions.is_empty() && plan.conflicts.is_empty() && left_out == 0 {
            run.record(&plan, &TwowayResults::default())?;
            return Ok(Exit::Done);
        }
        let is_only_shown = self.own.is_set(&flags::twoway::PLAN);
        if is_only_shown || !self.is_quiet || self.is_json {
            self.show(&run, &plan);
        }
        if is_only_shown {
            if !self.is_json {
                print(&format!("plan: {}", summary_text(&run, &plan, &planned_results(&plan), left_out)));
            }
            return Ok(exit_of(&plan, left_out));
        }
        if let Some(file) = self.own.last(&flags::twoway::PLAN_FILE) {
            check_reviewed(file, &plan)?;
        }
        let allowed = self.own.get(&flags::MAX_DELETE)?.map(u64::from);
        let may_be_empty = self.own.is_set(&flags::ALLOW_EMPTY_SOURCE);
        if let Err(doubt) = run.check(&plan, allowed, may_be_empty)
            && !self.confirms(&run, doubt)?
        {
            return Ok(Exit::Failed);
        }
        let performed = run.perform(&plan, control, &mut view);
        view.clear();
        let results = performed?;
        run.record(&plan, &results)?;
        Ok(self.finish(&run, &plan, &results, left_out))
    }

    fn tell(&self, text: &str) {
        match self.is_json {
            true => print(&encode(&TwowayLine::Notice { text: text.to_owned() })),
            false => show::stderr().notice(text),
        }
    }

    fn show(&self, run: &TwowayRun, plan: &TwowayPlan) {
        match self.is_json {
            true => planned(plan).iter().for_each(|line| print(&encode(line))),
            false => print(&plan_text(run, plan)),
        }
    }

    /// Asks about deletions that nobody may have meant.
    fn confirms(&self, run: &TwowayRun, doubt: DeletionDoubt) -> anyhow::Result<bool> {
        let (text, permits) = shown::doubt_text(run, doubt);
        let asks = !self.own.is_set(&flags::twoway::BATCH) && !self.is_json && std::io::stdin().is_terminal();
        if !asks {
            show::stderr().error(&format!("{text}\nhint: {permits} permits it"));
            return Ok(false);
        }
        show::stderr().notice(&text);
        interactive::ask_yes("continue? [y/N] ")
    }

    fn finish(&self, run: &TwowayRun, plan: &TwowayPlan, results: &TwowayResults, left_out: u64) -> Exit {
        for (side, path, text) in &results.failed {
            let host = run.label(*side);
            show::stderr().failure(&host, path.as_bytes(), text);
        }
        for (side, path) in &results.skipped {
            self.tell(&format!("{}: {path}: changed since the scan; the next run sees it", run.label(*side)));
        }
        let failed = results.failed.len() as u64 + results.failed_copies + left_out;
        match self.is_json {
            true => print(&encode(&ended(plan, results, failed))),
            false if self.is_quiet => {}
            false => print(&summary_text(run, plan, results, failed)),
        }
        exit_of(plan, failed + results.skipped.len() as u64)
    }
}

/// Reports what the scans could not read, and returns its number.
fn report_unreadable(run: &TwowayRun) -> u64 {
    let mut reported = 0;
    for side in ReplicaSide::BOTH {
        for UnreadablePath { path, text } in run.unreadable(side) {
            show::stderr().failure(&run.label(side), path.as_bytes(), &format!("{text}{UNREADABLE}"));
            reported += 1;
        }
    }
    reported
}

/// The status: what is not done goes before conflicts.
fn exit_of(plan: &TwowayPlan, not_done: u64) -> Exit {
    match (not_done, plan.conflicts.is_empty()) {
        (1.., _) => Exit::Failed,
        (0, true) => Exit::Done,
        (0, false) => Exit::Conflicts,
    }
}

/// Refuses a plan that is not the reviewed one.
fn check_reviewed(file: &OsStr, plan: &TwowayPlan) -> anyhow::Result<()> {
    let shown = escape(file.as_bytes());
    let wrong = |what: &str| UsageError::new(format!("--plan-file {shown}: {what}"));
    let found = std::fs::metadata(file).map_err(|error| wrong(&haul_base::sys::describe::describe(&error)))?;
    if found.len() > PLAN_FILE_MAX {
        return Err(wrong("larger than 1 GiB").into());
    }
    let text = std::fs::read_to_string(file).map_err(|error| wrong(&haul_base::sys::describe::describe(&error)))?;
    let reviewed = text.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let reviewed = reviewed.filter_map(|line| Some(line.get("plan")?.as_str()?.to_owned())).next_back();
    match reviewed {
        None => Err(wrong("is not what haul twoway --plan --json printed").into()),
        Some(digest) if digest == hex(&plan.digest()) => Ok(()),
        Some(_) => Err(Error::Failed(format!(
            "--plan-file {shown}: something has changed since the plan was made\nhint: review a new one: haul twoway --plan --json A B"
        ))
        .into()),
    }
}

/// Shows the copies of a run.
enum CopyView {
    Json,
    /// Warnings and failures.
    Lines,
    /// Progress as well, on a terminal.
    Bar(Box<BarView>),
}

impl CopyView {
    fn new(is_json: bool, has_bar: bool) -> Self {
        match (is_json, has_bar) {
            (true, _) => Self::Json,
            (false, false) => Self::Lines,
            (false, true) => {
                Self::Bar(Box::new(BarView::new(Human::new(show::stderr(), Verbosity::Normal), "copying")))
            }
        }
    }

    fn clear(&mut self) {
        if let Self::Bar(bar) = self {
            bar.clear();
        }
    }
}

impl Observer for CopyView {
    fn event(&mut self, event: &Event) {
        match (self, event) {
            (Self::Bar(bar), event) => bar.event(event),
            (Self::Json, Event::Warning(text)) => print(&encode(&TwowayLine::Notice { text: text.clone() })),
            (Self::Lines, Event::Warning(text)) => show::stderr().notice(text),
            (_, Event::FileFailed { path, host, message }) => show::stderr().failure(host, path, message),
            _ => {}
        }
    }
}

/// The word for a side.
fn side_word(side: ReplicaSide) -> &'static str {
    match side {
        ReplicaSide::A => "a",
        ReplicaSide::B => "b",
    }
}
