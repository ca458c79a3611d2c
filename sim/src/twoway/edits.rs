//! What users do: any edit at either side, and the truth about what it makes.

use std::collections::{BTreeMap, BTreeSet};

use haul_lab::Rng;
use haul_proto::twoway::ReplicaSide;
use haul_proto::twoway::entry::{ReplicaEntry, TreePath};

use super::replica::{ReplicaNode, ReplicaNodeContent, SECOND, SimReplica, size_of};

const NAMES: [&str; 5] = ["a", "b", "c.txt", "d-e", "a.b"];
const MODES: [u16; 4] = [0o644, 0o600, 0o755, 0o500];

/// Both replicas, and the truth about them.
#[derive(Debug, Default)]
pub struct SimPair {
    /// A and B.
    pub replicas: [SimReplica; 2],
    /// The state on which both archives agreed at the end of the last complete run.
    pub agreed: BTreeMap<TreePath, ReplicaEntry>,
    /// Paths that a user removed at one side when both were as agreed: nothing may come back there.
    pub removed: BTreeSet<TreePath>,
    /// Contents and mode that both sides had last at the same time.
    last_equal: BTreeMap<TreePath, (Option<ReplicaNodeContent>, Option<u16>)>,
    contents: u64,
}

impl SimPair {
    /// One side.
    pub fn side(&mut self, side: ReplicaSide) -> &mut SimReplica {
        &mut self.replicas[side.index()]
    }

    /// Records what both sides have at a path now.
    pub fn compare(&mut self, path: &TreePath) {
        let [a, b] = &mut self.replicas;
        if let (Some(a), Some(b)) = (a.nodes.get_mut(path), b.nodes.get_mut(path)) {
            let last = self.last_equal.entry(path.clone()).or_default();
            if a.content == b.content {
                (a.is_shared, b.is_shared) = (true, true);
                last.0 = Some(a.content);
            }
            if a.mode == b.mode {
                (a.is_mode_shared, b.is_mode_shared) = (true, true);
                last.1 = Some(a.mode);
            }
        }
    }

    fn changed(&mut self, path: &TreePath) {
        self.removed.remove(path);
        self.compare(path);
        // Who returns to what both had, or to the agreed state, has made no update.
        let (content, mode) = self.last_equal.get(path).copied().unwrap_or_default();
        let agreed = self.agreed.get(path);
        for node in self.replicas.iter_mut().filter_map(|replica| replica.nodes.get_mut(path)) {
            let is_agreed = agreed.is_some_and(|agreed| agreed.content == node.content.entry_content(true));
            node.is_shared |= is_agreed || Some(node.content) == content;
            let is_mode_agreed = agreed.is_some_and(|agreed| agreed.metadata.basic.mode == node.mode);
            node.is_mode_shared |= is_mode_agreed || Some(node.mode) == mode;
        }
    }

    fn new_contents(&mut self) -> u64 {
        self.contents += 1;
        self.contents
    }

    /// Lets time pass, or not: many things happen within a second.
    pub fn pass_time(&mut self, rng: &mut Rng) {
        let seconds = rng.pick(&[0, 0, 0, 1, 2, 5]);
        self.replicas.iter_mut().for_each(|replica| replica.clock += seconds * SECOND);
        if rng.chance(20) {
            // No two moments are the same for a clock of nanoseconds that was put back.
            let side = rng.index(2);
            self.replicas[side].clock += rng.pick(&[-86_400, -10, 30, 7200]) * SECOND + 1;
        }
    }

    /// Removes an entry with all below it, as a user.
    pub fn remove(&mut self, side: ReplicaSide, path: &TreePath) {
        for path in self.replicas[side.index()].subtree(path) {
            let gone = self.side(side).nodes.remove(&path).map(|node| node.content.entry_content(true));
            let other = self.side(side.other()).nodes.get(&path).map(|node| node.content.entry_content(true));
            let agreed = self.agreed.get(&path).map(|entry| entry.content.clone());
            if gone.is_some() && gone == agreed && other == agreed {
                self.removed.insert(path);
            }
        }
    }

    fn any_path(&self, rng: &mut Rng, side: ReplicaSide) -> Option<TreePath> {
        let nodes = &self.replicas[side.index()].nodes;
        if nodes.is_empty() { None } else { nodes.keys().nth(rng.index(nodes.len())).cloned() }
    }

    /// A path in an existing directory, free or not.
    fn place(&self, rng: &mut Rng, side: ReplicaSide) -> Option<TreePath> {
        let nodes = &self.replicas[side.index()].nodes;
        let directories: Vec<_> = nodes
            .iter()
            .filter(|(_, node)| node.content == ReplicaNodeContent::Directory)
            .map(|(path, _)| path)
            .collect();
        let name = rng.pick(&NAMES);
        let depth_of = |path: &TreePath| path.as_bytes().iter().filter(|byte| **byte == b'/').count();
        let path = match directories.get(rng.index(directories.len() + 1)) {
            Some(directory) if depth_of(directory) < 3 => [directory.as_bytes(), b"/", name.as_bytes()].concat(),
            _ => name.as_bytes().to_vec(),
        };
        TreePath::new(&path).ok()
    }

    /// One edit of a user at a side.
    pub fn edit(&mut self, rng: &mut Rng, side: ReplicaSide) {
        self.pass_time(rng);
        match rng.below(13) {
            0..4 => self.make(rng, side),
            4..6 => self.rewrite(rng, side),
            6 => {
                if let Some(path) = self.any_path(rng, side) {
                    self.remove(side, &path);
                }
            }
            7..9 => self.rename(rng, side),
            9 => self.change_mode(rng, side),
            10 => self.touch(rng, side),
            _ => self.make_equal(rng, side),
        }
    }

    fn make(&mut self, rng: &mut Rng, side: ReplicaSide) {
        let Some(path) = self.place(rng, side) else { return };
        let contents = self.new_contents();
        let content = match rng.below(6) {
            0 | 1 => ReplicaNodeContent::Directory,
            2 => ReplicaNodeContent::Link(contents),
            _ => ReplicaNodeContent::File(contents),
        };
        let is_directory = |node: &ReplicaNode| node.content == ReplicaNodeContent::Directory;
        let has_directory = self.side(side).nodes.get(&path).is_some_and(is_directory);
        if has_directory && content == ReplicaNodeContent::Directory {
            return;
        }
        self.remove(side, &path);
        let mode =
            if content == ReplicaNodeContent::Directory { rng.pick(&[0o755, 0o755, 0o500]) } else { rng.pick(&MODES) };
        self.side(side).make(&path, content, mode);
        self.changed(&path);
    }

    /// Writes to a file in place, often to the one that changed last and with the same size; now and then with the time
    /// put back, when the clock has moved on.
    fn rewrite(&mut self, rng: &mut Rng, side: ReplicaSide) {
        let last = self.replicas[side.index()].nodes.iter().max_by_key(|(_, node)| node.changed);
        let last = last.map(|(path, _)| path.clone()).filter(|_| rng.chance(500));
        let Some(path) = last.or_else(|| self.any_path(rng, side)) else { return };
        let Some(ReplicaNode { content: ReplicaNodeContent::File(old), .. }) =
            self.side(side).nodes.get(&path).copied()
        else {
            return;
        };
        let mut contents = self.new_contents();
        while rng.chance(900) && size_of(contents) != size_of(old) {
            contents = self.new_contents();
        }
        let is_secret = rng.chance(100);
        let replica = self.side(side);
        replica.clock += if is_secret { 5 * SECOND } else { 0 };
        let Some(node) = replica.nodes.get_mut(&path) else { return };
        let modified = if is_secret { node.modified } else { replica.clock };
        let (content, changed) = (ReplicaNodeContent::File(contents), replica.clock);
        *node = ReplicaNode { content, modified, changed, is_shared: false, ..*node };
        self.changed(&path);
    }

    fn rename(&mut self, rng: &mut Rng, side: ReplicaSide) {
        let (Some(from), Some(to)) = (self.any_path(rng, side), self.place(rng, side)) else { return };
        if to == from || to.is_below(&from) || from.is_below(&to) {
            return;
        }
        self.remove(side, &to);
        let moved = self.replicas[side.index()].subtree(&from);
        let nodes: Vec<_> =
            moved.iter().filter_map(|path| self.replicas[side.index()].nodes.get(path).copied()).collect();
        self.remove(side, &from);
        for (path, node) in moved.iter().zip(nodes) {
            let rest = &path.as_bytes()[from.as_bytes().len()..];
            let Ok(path) = TreePath::new(&[to.as_bytes(), rest].concat()) else { continue };
            let changed = self.side(side).clock;
            let node = ReplicaNode { changed, is_shared: false, is_mode_shared: false, ..node };
            self.side(side).nodes.insert(path.clone(), node);
            self.changed(&path);
        }
    }

    fn change_mode(&mut self, rng: &mut Rng, side: ReplicaSide) {
        let Some(path) = self.any_path(rng, side) else { return };
        let replica = self.side(side);
        let Some(node) = replica.nodes.get_mut(&path) else { return };
        let mode = rng.pick(&MODES);
        if matches!(node.content, ReplicaNodeContent::Link(_)) || node.mode == mode {
            return;
        }
        *node = ReplicaNode { mode, changed: replica.clock, is_mode_shared: false, ..*node };
        self.changed(&path);
    }

    fn touch(&mut self, rng: &mut Rng, side: ReplicaSide) {
        let Some(path) = self.any_path(rng, side) else { return };
        let replica = self.side(side);
        if let Some(node) = replica.nodes.get_mut(&path) {
            *node = ReplicaNode { modified: replica.clock, changed: replica.clock, ..*node };
        }
        self.changed(&path);
    }

    /// The same new file at both sides.
    fn make_equal(&mut self, rng: &mut Rng, side: ReplicaSide) {
        let Some(path) = self.place(rng, side) else { return };
        let content = ReplicaNodeContent::File(self.new_contents());
        let mode = rng.pick(&MODES);
        for side in ReplicaSide::BOTH {
            if self.side(side).has_parent(&path) {
                self.remove(side, &path);
                self.side(side).make(&path, content, mode);
            }
        }
        self.changed(&path);
    }
}
