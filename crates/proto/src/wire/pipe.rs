//! Pipes as an end of a copy.

use crate::codec::wire_enum;

wire_enum! {
    /// Meaning of a path argument.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub enum PipeKind: "kind of pipe" {
        /// Files, by their paths.
        #[default]
        No = 0,
        /// Standard input or output of the command; only a worker on the same host can use it.
        Standard = 1,
        /// A FIFO, where the path is one; otherwise a program, as a shell command line.
        Named = 2,
        /// A growing file at the source. It is read to its end, and further until it has not grown for this many seconds.
        Growing(quiet_s: u32) = 3,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::tests::{check_round_trip, refuses};

    #[test]
    fn kinds_round_trip_and_unknown_ones_are_refused() {
        for pipe in [PipeKind::No, PipeKind::Standard, PipeKind::Named, PipeKind::Growing(70_000)] {
            assert!(refuses::<PipeKind>(&check_round_trip(&pipe), &[(0, 4)]));
        }
    }
}
