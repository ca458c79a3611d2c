//! A plan, its doubts and its end, for people.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::process::Command;

use haul_base::copy::error::Error;
use haul_control::controller::twoway::{TwowayNotice, TwowayResults, TwowayRun};
use haul_proto::entry::Timestamp;
use haul_proto::path::escape;
use haul_proto::twoway::ReplicaSide;
use haul_proto::twoway::entry::{ReplicaEntry, TreePath};
use haul_proto::twoway::limits::DeletionDoubt;
use haul_proto::twoway::plan::{ActionKind, TwowayAction, TwowayPlan};
use haul_proto::twoway::reconcile::{ConflictKind, PathDecision, PathVerdict};
use haul_proto::wire::replica_session::ReplicaOrigin;
use haul_show::units;

use super::lines::kind_word;

/// Most lines of a plan; `--json` has all.
const LINES_MAX: usize = 1000;

/// Most lines of a difference.
const DIFFERENCE_LINES_MAX: usize = 200;
/// Largest file whose difference is shown.
const DIFFERENCE_BYTES_MAX: u64 = 16 << 20;

/// `2026-01-31`, in the time zone here.
pub fn date(time: Timestamp) -> String {
    in_zone(time, "%Y-%m-%d")
}

fn in_zone(time: Timestamp, form: &str) -> String {
    let zoned = jiff::Timestamp::from_second(time.seconds).map(|time| time.to_zoned(jiff::tz::TimeZone::system()));
    zoned.map_or_else(|_| time.seconds.to_string(), |zoned| zoned.strftime(form).to_string())
}

/// A root with its host.
pub fn root_text(run: &TwowayRun, side: ReplicaSide) -> String {
    let path = escape(&run.place(side).path);
    match run.label(side) {
        label if label == "this host" || label.is_empty() => path,
        label => format!("{label}:{path}"),
    }
}

/// What a notice says.
pub fn notice_text(run: &TwowayRun, notice: TwowayNotice) -> String {
    const UNION: &str = "nothing is deleted in this run, and files that differ are conflicts";
    match notice {
        TwowayNotice::First => format!("no earlier run of these two directories is on record: {UNION}"),
        TwowayNotice::NoCommonBase => format!("the archives of the last run are lost: {UNION}"),
        TwowayNotice::Origin(side, origin) => {
            let why = match origin {
                ReplicaOrigin::Restored => "is older than the last run, as after the restoration of a backup",
                ReplicaOrigin::Cloned => "is a copy of another replica, and is a new one now",
                ReplicaOrigin::OtherMachine => "has records of another machine, and is a new replica now",
                ReplicaOrigin::New | ReplicaOrigin::Known | ReplicaOrigin::Moved => "is a new replica",
            };
            format!("{} {why}: {UNION}", root_text(run, side))
        }
        TwowayNotice::Clocks(difference) => format!(
            "the clocks of both hosts differ by {}: 'newer' and 'older' may be wrong",
            units::duration(difference)
        ),
    }
}

/// What a doubt says, and the option that permits it.
pub fn doubt_text(run: &TwowayRun, doubt: DeletionDoubt) -> (String, String) {
    match doubt {
        DeletionDoubt::RootEmptied { side, entries } => (
            format!(
                "{} is empty, and had {} at the last run: is its disk mounted?",
                root_text(run, side),
                units::counted(entries, "entry", "entries")
            ),
            "--allow-empty-source".to_owned(),
        ),
        DeletionDoubt::ManyDeletions { side, deletions, limit } => (
            format!(
                "{} of {} would be deleted, and more than {} need a confirmation",
                units::counted(deletions, "entry", "entries"),
                root_text(run, side),
                units::count(limit)
            ),
            format!("--max-delete={deletions}"),
        ),
    }
}

/// The lines of a plan: an arrow points to the side that changes.
pub fn plan_text(run: &TwowayRun, plan: &TwowayPlan) -> String {
    let mut text = String::new();
    let roots = ReplicaSide::BOTH.map(|side| root_text(run, side));
    if plan.actions.is_empty() && plan.conflicts.is_empty() {
        return format!("A {}\nB {}\nnothing to do\n", roots[0], roots[1]);
    }
    let _ = writeln!(text, "A {}\nB {}", roots[0], roots[1]);
    let lines = lines_of(&plan.actions);
    lines.values().take(LINES_MAX).for_each(|line| text += line);
    if lines.len() > LINES_MAX {
        let _ =
            writeln!(text, "     ... and {} more: --json lists all", units::count((lines.len() - LINES_MAX) as u64));
    }
    plan.conflicts.iter().take(LINES_MAX).for_each(|conflict| text += &conflict_text(conflict));
    text
}

/// One line for each path and side, in the order of the tree.
fn lines_of(actions: &[TwowayAction]) -> BTreeMap<(TreePath, ReplicaSide), String> {
    let mut lines = BTreeMap::new();
    for action in actions {
        // The mode of a directory follows what is made in it.
        lines.entry((action.path.clone(), action.side)).or_insert_with(|| action_text(action));
    }
    lines
}

fn action_text(action: &TwowayAction) -> String {
    let arrow = if action.side == ReplicaSide::B { "->" } else { "<-" };
    let is_new = action.expected.is_none();
    let (word, more) = match &action.kind {
        ActionKind::MakeDirectory => ("new dir", String::new()),
        ActionKind::Copy { .. } | ActionKind::Link { .. } => {
            (if is_new { "new" } else { "changed" }, size_of(action.entry.as_ref()))
        }
        ActionKind::Move { from, .. } => ("moved", format!("  from {from}")),
        ActionKind::SetMetadata => ("metadata", String::new()),
        ActionKind::Delete => ("deleted", String::new()),
    };
    let kept = action.keep_as.as_ref().map(|name| format!("  (its old version stays as {name})")).unwrap_or_default();
    format!("  {arrow} {word:<9} {}{more}{kept}\n", action.path)
}

fn size_of(entry: Option<&ReplicaEntry>) -> String {
    let size = entry.and_then(|entry| entry.content.file_size());
    size.map(|size| format!("  {}", units::size(size))).unwrap_or_default()
}

/// The lines of a conflict: its path, and both sides.
pub fn conflict_text(conflict: &PathDecision) -> String {
    let about = match conflict.verdict {
        PathVerdict::Conflict(ConflictKind::Metadata) => "  (mode, owner or attributes)",
        _ => "",
    };
    let mut text = format!("  ?? conflict  {}{about}\n", conflict.path);
    for (side, letter) in ReplicaSide::BOTH.into_iter().zip(["A", "B"]) {
        let _ = writeln!(text, "       {letter}: {}", side_text(conflict, side));
    }
    text
}

/// What a side has at a path.
pub fn side_text(conflict: &PathDecision, side: ReplicaSide) -> String {
    let Some(entry) = &conflict.side(side).entry else { return "deleted".to_owned() };
    let basic = &entry.metadata.basic;
    let time = in_zone(basic.modified, "%Y-%m-%d %H:%M:%S");
    let is_new = if conflict.base.is_none() { "new" } else { "changed" };
    let state = if conflict.side(side).is_updated { is_new } else { "unchanged" };
    format!("{} {state}, {time}, mode {:04o}{}", kind_word(&entry.content), basic.mode, size_of(Some(entry)))
}

/// What a plan is about to do.
pub fn planned_results(plan: &TwowayPlan) -> TwowayResults {
    let mut results = TwowayResults::default();
    plan.actions.iter().for_each(|action| results.count(action));
    results
}

/// The last line.
pub fn summary_text(run: &TwowayRun, plan: &TwowayPlan, results: &TwowayResults, failed: u64) -> String {
    let changed = |side: ReplicaSide| {
        let (done, bytes) = (results.done[side.index()], results.bytes[side.index()]);
        let bytes = if bytes > 0 { format!(" ({})", units::size(bytes)) } else { String::new() };
        format!("{} in {}{bytes}", units::counted(done, "change", "changes"), root_text(run, side))
    };
    let mut text = format!("{}, {}", changed(ReplicaSide::A), changed(ReplicaSide::B));
    let others = [
        (results.skipped.len() as u64, ("path changed meanwhile", "paths changed meanwhile")),
        (failed, ("failure", "failures")),
        (plan.conflicts.len() as u64, ("conflict", "conflicts")),
    ];
    for (number, (one, many)) in others.into_iter().filter(|(number, _)| *number > 0) {
        let _ = write!(text, ", {}", units::counted(number, one, many));
    }
    text + "\n"
}

/// The difference between both sides of a conflict.
pub fn difference(run: &TwowayRun, conflict: &PathDecision) -> String {
    shown_difference(run, conflict).unwrap_or_else(|why| why + "\n")
}

fn shown_difference(run: &TwowayRun, conflict: &PathDecision) -> Result<String, String> {
    let size = |side| conflict.side(side).entry.as_ref().and_then(|entry| entry.content.file_size());
    match ReplicaSide::BOTH.map(size) {
        [Some(a), Some(b)] if a.max(b) <= DIFFERENCE_BYTES_MAX => {}
        [Some(_), Some(_)] => {
            return Err(format!("no difference of files above {}", units::size(DIFFERENCE_BYTES_MAX)));
        }
        _ => return Err("only files have a difference to show".to_owned()),
    }
    let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
    let [a, b] = ReplicaSide::BOTH.map(|side| run.fetch(side, &conflict.path, directory.path(), DIFFERENCE_BYTES_MAX));
    let of_error = |error: Error| error.to_string();
    let (a, b) = (a.map_err(of_error)?, b.map_err(of_error)?);
    let labels = ReplicaSide::BOTH.map(|side| format!("--label={}", root_text(run, side)));
    let shown = Command::new("diff").arg("-u").args(labels).arg("--").args([a, b]).output();
    match shown {
        Ok(shown) if shown.status.code() == Some(1) => {
            let lines = shown.stdout.split_inclusive(|byte| *byte == b'\n').take(DIFFERENCE_LINES_MAX);
            Ok(lines.map(|line| escape(line.trim_ascii_end()) + "\n").collect())
        }
        Ok(_) => Err("diff(1) shows no difference of text here".to_owned()),
        Err(error) => Err(format!("diff(1): {error}")),
    }
}
