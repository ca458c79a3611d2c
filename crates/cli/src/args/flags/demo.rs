//! Options of `haul demo`.

use super::*;

options! {
    /// Options of `haul demo`.
    ALL;
    SIZE: Single<u64> = row("size", None, One("SIZE"), Copying, "amount of data to create (default: 1g)").one(|a| a.size(1..=1 << 40, "from 1 to 1024g"));
    STREAMS.without_bbcp();
    KEEP: Switch = row("keep", None, Nothing, Copying, "keep the data afterwards").switch();
    SHOW_HELP;
}
