//! Options of `haul job manifest`.

use super::job::CONFIRM;
use super::*;

options! {
    /// Options of `haul job manifest`.
    ALL;
    IMAGE: Single<String> = row("image", None, One("IMAGE"), Connecting, "container image with haul").one(text);
    CLAIM: Single<String> = row("claim", None, One("PVC"), Connecting, "volume claim with the job's directory and the source").one(text);
    MOUNT: Single<OsString> = row("mount", None, One("PATH"), Connecting, "mount the claim at PATH (default: the directory that has job, source and target)").one(raw);
    LIMIT: Single<u32> = row("limit", None, One("N"), Performance, "copy at most N shards at a time (default: 8)").one(|a| a.number(1..=100_000));
    VERIFY: Switch = row("verify", None, Nothing, Integrity, "compare source and target at the end").switch();
    CONFIRM.with_help("pods start the programs that the job's options name; the refusal and haul job plan print the digest");
    SHOW_HELP;
}
