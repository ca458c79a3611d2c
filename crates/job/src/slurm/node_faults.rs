//! Nodes that lose shards without progress: without haul, with a read-only job directory or a broken configuration. Such
//! a node is always idle, and takes every task. No I/O.

use std::collections::{BTreeMap, BTreeSet};

/// Losses after which a node is left out.
const LOSSES_MAX: u32 = 2;

/// What a loss means for the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeVerdict {
    /// Nothing yet.
    Keep,
    /// No further task for this node.
    LeaveOut,
    /// More than half of the nodes would be left out, so the fault is not a node's.
    Hold,
}

/// The nodes of a job.
#[derive(Debug, Default)]
pub struct NodeFaults {
    seen: BTreeSet<String>,
    losses: BTreeMap<String, u32>,
    left_out: BTreeSet<String>,
}

impl NodeFaults {
    /// Records a node that runs a task.
    pub fn see(&mut self, node: &str) {
        if !node.is_empty() && !self.seen.contains(node) {
            self.seen.insert(node.to_owned());
        }
    }

    /// Records a shard lost without progress.
    pub fn lose(&mut self, node: &str) -> NodeVerdict {
        if node.is_empty() {
            return NodeVerdict::Keep;
        }
        self.see(node);
        let losses = self.losses.entry(node.to_owned()).or_default();
        *losses += 1;
        if *losses < LOSSES_MAX || self.left_out.contains(node) {
            return NodeVerdict::Keep;
        }
        if (self.left_out.len() + 1) * 2 > self.seen.len() {
            return NodeVerdict::Hold;
        }
        self.left_out.insert(node.to_owned());
        NodeVerdict::LeaveOut
    }

    /// The nodes left out, as Slurm takes them.
    pub fn left_out(&self) -> String {
        self.left_out.iter().map(String::as_str).collect::<Vec<_>>().join(",")
    }

    /// The nodes to avoid for a shard that these nodes have lost: all left out ones, and these if others remain.
    pub fn avoided(&self, lost_on: &BTreeSet<String>) -> String {
        let all: BTreeSet<_> = self.left_out.union(lost_on).cloned().collect();
        if all.len() * 2 > self.seen.len() { self.left_out() } else { all.into_iter().collect::<Vec<_>>().join(",") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_left_out_after_two_losses_but_never_most_nodes() {
        let mut faults = NodeFaults::default();
        ["n1", "n2", "n3", ""].into_iter().for_each(|node| faults.see(node));
        assert_eq!([faults.lose("n3"), faults.lose("")], [NodeVerdict::Keep; 2]);
        assert_eq!(faults.avoided(&BTreeSet::from(["n3".to_owned()])), "n3");
        assert_eq!((faults.lose("n3"), faults.left_out()), (NodeVerdict::LeaveOut, "n3".to_owned()));
        assert_eq!([faults.lose("n3"), faults.lose("n1")], [NodeVerdict::Keep; 2]);
        assert_eq!((faults.lose("n1"), faults.left_out()), (NodeVerdict::Hold, "n3".to_owned()));
        assert_eq!(faults.avoided(&BTreeSet::from(["n1".to_owned()])), "n3");
        let mut only = NodeFaults::default();
        assert_eq!([only.lose("n1"), only.lose("n1")], [NodeVerdict::Keep, NodeVerdict::Hold]);
    }
}
