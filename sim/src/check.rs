//! Invariants of the target: at any time, and at the end of a copy.

use std::collections::BTreeMap;

use haul_proto::overwrite_policy::{OverwriteDecision, decide};

use crate::disk::{DiskEntry, SimDisk, existing};
use crate::receiver::{EntryOutcome, Receiver, conduct};
use crate::scenario::Scenario;
use crate::sender::Sender;
use crate::tree::{SimTree, TreeEntry, TreeEntryKind};

/// Holds after every run, however it ended: a file with a final name is complete, and is the source's or an old one.
pub fn names(disk: &SimDisk, before: &SimDisk, tree: &SimTree) -> Result<(), String> {
    if let Some(gone) = before.keys().find(|path| !disk.contains_key(*path)) {
        return Err(format!("{} was there and is gone", shown(gone)));
    }
    let nodes: BTreeMap<_, _> = tree.nodes.iter().map(|node| (&node.path, node)).collect();
    for (path, standing) in disk {
        let ours = nodes.get(path).is_some_and(|node| is_of(standing, node));
        if !ours && before.get(path) != Some(standing) {
            return Err(format!("{} is neither what the source has nor what was there before", shown(path)));
        }
    }
    Ok(())
}

/// Holds after every run, however it ended: every entry reported done is there, even after a power cut.
pub fn done_stays(receiver: &Receiver, disk: &SimDisk) -> Result<(), String> {
    let done = receiver.fates.iter().filter(|(_, fate)| **fate == EntryOutcome::Done).map(|(path, _)| path);
    match done.into_iter().find(|path| !disk.contains_key(*path)) {
        Some(gone) => Err(format!("{} was called done and is gone", shown(gone))),
        None => Ok(()),
    }
}

/// Whether this can have come from this entry.
fn is_of(standing: &DiskEntry, node: &TreeEntry) -> bool {
    match (standing, &node.what) {
        (DiskEntry::Directory, TreeEntryKind::Directory) => true,
        (DiskEntry::Link(there), TreeEntryKind::Link(points_to)) => there == points_to,
        (DiskEntry::File(content, _), TreeEntryKind::File(file)) => file.versions.contains(content),
        _ => false,
    }
}

/// Holds after a run that both ends finished.
pub fn finished(
    scenario: &Scenario,
    tree: &SimTree,
    disk: &SimDisk,
    at_start: &SimDisk,
    ends: (&Sender, &Receiver),
) -> Result<(), String> {
    counts(ends.0, ends.1)?;
    for node in &tree.nodes {
        let parent = node.parent.map(|parent| &tree.nodes[parent].path);
        let reached = parent
            .is_none_or(|parent| matches!(ends.1.fates.get(parent), Some(EntryOutcome::Done | EntryOutcome::Failed)));
        match ends.1.fates.get(&node.path) {
            None if reached => return Err(format!("nothing became of {}", shown(&node.path))),
            Some(_) if !reached => return Err(format!("{} is in a refused directory", shown(&node.path))),
            None => {}
            Some(fate) => entry(scenario, node, *fate, disk, at_start)?,
        }
    }
    for (path, written) in &ends.1.device_writes {
        let node = tree.nodes.iter().find(|node| node.path == *path);
        if !node.is_some_and(|node| matches!(&node.what, TreeEntryKind::File(file) if file.versions.contains(written)))
        {
            return Err(format!("the device {} got something else", shown(path)));
        }
    }
    Ok(())
}

/// Both ends agree on the number of entries with each outcome.
fn counts(sender: &Sender, receiver: &Receiver) -> Result<(), String> {
    let count = |wanted| receiver.fates.values().filter(|fate| **fate == wanted).count() as u64;
    let refused = count(EntryOutcome::Refused) + receiver.refused_below;
    let here = (count(EntryOutcome::Done), count(EntryOutcome::Kept), refused);
    let there = (sender.told.done, sender.told.kept, sender.told.refused);
    if here != there {
        return Err(format!("done, kept, refused: {here:?} at the target, {there:?} at the source"));
    }
    let settled = receiver.fates.len() as u64 + receiver.refused_below + receiver.replaced;
    if settled != sender.offered() as u64 {
        return Err(format!("{} entries were offered and {settled} settled", sender.offered()));
    }
    Ok(())
}

/// An entry's outcome is right, and matches the disk.
fn entry(
    scenario: &Scenario,
    node: &TreeEntry,
    fate: EntryOutcome,
    disk: &SimDisk,
    at_start: &SimDisk,
) -> Result<(), String> {
    let wrong = |what: &str| Err(format!("{} is {fate:?}, but {what}", shown(&node.path)));
    let there = disk.get(&node.path);
    let device = there == Some(&DiskEntry::Device);
    let current = |standing: &DiskEntry| match (standing, &node.what) {
        (DiskEntry::File(content, stamp), TreeEntryKind::File(file)) => {
            content == &file.content && *stamp == node.stamp
        }
        _ => is_of(standing, node),
    };
    match fate {
        EntryOutcome::Done if device || there.is_some_and(|there| is_of(there, node)) => {
            if scenario.is_calm() && !device && !there.is_some_and(current) {
                return wrong("another version is there");
            }
            Ok(())
        }
        EntryOutcome::Kept if there.is_some_and(current) => Ok(()),
        EntryOutcome::Kept if is_secretly_changed(node) && there.is_some_and(|there| is_of(there, node)) => Ok(()),
        EntryOutcome::Done | EntryOutcome::Kept => wrong("it is not there"),
        // Data for a device stays in its stream's order.
        EntryOutcome::Failed if scenario.is_calm() && !device => wrong("nothing went wrong"),
        EntryOutcome::Failed => Ok(()),
        EntryOutcome::Refused => {
            let kind = node.offered_kind();
            let decision = decide(&kind, node.stamp, &existing(at_start, &node.path), conduct(scenario.overwrite));
            if scenario.is_calm() && !matches!(decision, OverwriteDecision::Refuse(_)) {
                return wrong("nothing stood in its way");
            }
            Ok(())
        }
    }
}

/// Whether a file can be another one with the same size and time.
fn is_secretly_changed(node: &TreeEntry) -> bool {
    matches!(&node.what, TreeEntryKind::File(file) if file.secretly_changed)
}

/// A run that finds everything done gives no new names.
pub fn nothing_left_to_do(receiver: &Receiver, tree: &SimTree) -> Result<(), String> {
    let again = tree.nodes.iter().find(|node| {
        matches!(node.what, TreeEntryKind::File(_)) && receiver.fates.get(&node.path) == Some(&EntryOutcome::Done)
    });
    match again {
        Some(node) if !receiver.device_writes.iter().any(|(path, _)| *path == node.path) => {
            Err(format!("{} was copied again", shown(&node.path)))
        }
        _ => Ok(()),
    }
}

/// A path for a person.
fn shown(path: &[u8]) -> String {
    haul_proto::path::escape(path)
}
