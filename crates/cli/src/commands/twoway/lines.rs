//! Lines of `haul twoway --json`.

use haul_control::controller::twoway::TwowayResults;
use haul_proto::checksum::hex;
use haul_proto::twoway::ReplicaSide;
use haul_proto::twoway::entry::{ReplicaContent, ReplicaEntry};
use haul_proto::twoway::plan::{ActionKind, TwowayAction, TwowayPlan};
use haul_proto::twoway::reconcile::{ConflictKind, PathDecision, PathVerdict};
use haul_show::json::JsonName;
use serde::Serialize;

use super::side_word;
use crate::commands::files::lines::nanoseconds;

/// A line.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum TwowayLine {
    /// Something worth knowing.
    Notice { text: String },
    /// A step of the plan.
    Action {
        /// `make_directory`, `copy`, `move`, `set_metadata` or `delete`.
        action: &'static str,
        /// The side that changes: `a` or `b`.
        side: &'static str,
        #[serde(flatten)]
        name: JsonName,
        /// Size of a file in bytes.
        bytes: Option<u64>,
        /// Where a moved file was.
        from: Option<String>,
        /// The name under which the replaced file stays.
        keep_as: Option<String>,
    },
    /// A path on which nothing happens until somebody decides.
    Conflict {
        #[serde(flatten)]
        name: JsonName,
        /// `contents` or `metadata`.
        about: &'static str,
        a: Option<ConflictSide>,
        b: Option<ConflictSide>,
    },
    /// The end of the plan.
    Planned {
        /// Identifies it for `--plan-file`.
        plan: String,
        actions: usize,
        conflicts: usize,
    },
    /// The end of the run.
    Ended {
        changed_at_a: u64,
        changed_at_b: u64,
        bytes_to_a: u64,
        bytes_to_b: u64,
        skipped: usize,
        failed: u64,
        conflicts: usize,
    },
}

/// A side of a conflict.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
pub struct ConflictSide {
    kind: &'static str,
    bytes: Option<u64>,
    mode: String,
    modified_ns: i64,
}

/// The word for contents.
pub fn kind_word(content: &ReplicaContent) -> &'static str {
    match content {
        ReplicaContent::Directory => "directory",
        ReplicaContent::File { .. } => "file",
        ReplicaContent::Symlink { .. } => "symlink",
        ReplicaContent::Special(_) => "special",
    }
}

fn conflict_side(entry: &ReplicaEntry) -> ConflictSide {
    ConflictSide {
        kind: kind_word(&entry.content),
        bytes: entry.content.file_size(),
        mode: format!("{:04o}", entry.metadata.basic.mode),
        modified_ns: nanoseconds(entry.metadata.basic.modified),
    }
}

fn action_line(action: &TwowayAction) -> TwowayLine {
    let (word, from) = match &action.kind {
        ActionKind::MakeDirectory => ("make_directory", None),
        ActionKind::Copy { .. } | ActionKind::Link { .. } => ("copy", None),
        ActionKind::Move { from, .. } => ("move", Some(from)),
        ActionKind::SetMetadata => ("set_metadata", None),
        ActionKind::Delete => ("delete", None),
    };
    TwowayLine::Action {
        action: word,
        side: side_word(action.side),
        name: action.path.as_bytes().into(),
        bytes: action.entry.as_ref().and_then(|entry| entry.content.file_size()),
        from: from.map(ToString::to_string),
        keep_as: action.keep_as.as_ref().map(ToString::to_string),
    }
}

fn conflict_line(conflict: &PathDecision) -> TwowayLine {
    let about = match conflict.verdict {
        PathVerdict::Conflict(ConflictKind::Metadata) => "metadata",
        _ => "contents",
    };
    let side = |side| conflict.side(side).entry.as_ref().map(conflict_side);
    TwowayLine::Conflict {
        name: conflict.path.as_bytes().into(),
        about,
        a: side(ReplicaSide::A),
        b: side(ReplicaSide::B),
    }
}

/// Returns the lines of a plan.
pub fn planned(plan: &TwowayPlan) -> Vec<TwowayLine> {
    let actions = plan.actions.iter().map(action_line);
    let conflicts = plan.conflicts.iter().map(conflict_line);
    let end =
        TwowayLine::Planned { plan: hex(&plan.digest()), actions: plan.actions.len(), conflicts: plan.conflicts.len() };
    actions.chain(conflicts).chain([end]).collect()
}

/// Returns the line of a run's end.
pub fn ended(plan: &TwowayPlan, results: &TwowayResults, failed: u64) -> TwowayLine {
    TwowayLine::Ended {
        changed_at_a: results.done[0],
        changed_at_b: results.done[1],
        bytes_to_a: results.bytes[0],
        bytes_to_b: results.bytes[1],
        skipped: results.skipped.len(),
        failed,
        conflicts: plan.conflicts.len(),
    }
}
