//! Options of `haul probe`.

use super::*;

options! {
    /// Options of `haul probe` besides those of a copy ([`crate::args::shared`]).
    ALL;
    NETWORK: Switch = row("network", None, Nothing, Output, "measure only the network: from memory to memory, back and forth").switch();
    TIME: Single<Duration> = row("time", None, One("TIME"), Output, "measure each part for TIME (default: 3s)").one(|a| a.time(SECOND..=SECOND * 600, "from 1s to 10m"));
    SIZE: Single<u64> = row("size", None, One("SIZE"), Output, "write at most SIZE for each part (default: 4g), and at most a tenth of the free space").one(|a| a.size(1 << 20..=1 << 50, "from 1m"));
    TRY_STREAMS: Single<Vec<u16>> = row("try-streams", None, One("LIST"), Output, "stream counts to try besides the automatic one (default: 1,4)").one(|a| a.numbers(STREAMS_MAX + 1));
    SAVE: Switch = row("save", None, Nothing, Output, "write the recommended settings to your configuration, for this host").switch();
    SYSCTL: Single<OsString> = row("sysctl", None, One("FILE"), Output, "write larger socket buffers for the measured path to FILE, for sysctl -p; nothing is applied").one(raw);
    SHOW_HELP;
}
