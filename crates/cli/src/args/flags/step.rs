//! Options of the other steps of `haul job`.

use super::job::CONFIRM;
use super::*;

options! {
    /// Options of the other steps of `haul job`.
    ALL;
    VERIFY: Switch = row("verify", None, Nothing, Integrity, "finish: compare source and target at the end, as haul verify does").switch();
    WAIT: Switch = row("wait", None, Nothing, Performance, "finish: wait until every shard is done or has failed").switch();
    LOCAL: Single<u32> = row("local", None, One("N"), Performance, "work: copy N shards at a time (default: 1)").one(|a| a.number(1..=256));
    HOSTS: Single<OsString> = row("hosts", None, One("LIST"), Connecting, "work: take shards on these hosts, by ssh: n1,n{2..4}").one(raw);
    OUT: Single<OsString> = row("out", None, One("FILE"), Output, "report: write a page about all hosts (FILE.html, FILE.md)").one(raw);
    CONFIRM.with_help("shard, finish: start the programs that the job's options name; the refusal and haul job plan print the digest");
    JSON.with_help("print one JSON object a line");
    QUIET;
    SHOW_HELP;
}
