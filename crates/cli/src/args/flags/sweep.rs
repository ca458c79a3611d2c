//! Options of `haul sweep`.

use super::*;

options! {
    /// Options of `haul sweep` besides those of a copy ([`crate::args::sweep`]).
    ALL;
    WINDOWSZ: Single<OsString> = row("windowsz", Some('w'), One("LIST"), Performance, "socket buffer sizes (SIZE or =SIZE, as in a copy)").or("windows").one(raw);
    STREAMS: Single<OsString> = row("streams", Some('s'), One("LIST"), Performance, "stream counts, for example 1,4,16").one(raw);
    CIPHER: Single<OsString> = row("cipher", None, One("LIST"), Performance, "ciphers, as in a copy, and none (--no-encrypt)").or("ciphers").one(raw);
    FRAME: Single<OsString> = row("frame", None, One("LIST"), Performance, "frame payloads: 256k,512k,1m").or("frames").one(raw);
    UNBUFFERED: Single<OsString> = row("unbuffered", None, One("LIST"), Performance, "O_DIRECT at these ends: s,t,st,off").or("engines").one(raw);
    XFRRATE: Single<OsString> = row("xfrrate", None, One("LIST"), Performance, "rate limits").or("rates").one(raw);
    QOS: Single<OsString> = row("qos", None, One("LIST"), Performance, "IP traffic classes, for example 0,8,32").one(raw);
    SIZE: Single<OsString> = row("size", None, One("LIST"), Copying, "sizes of the source null:, for example 1m,16m,1g").or("sizes").one(raw);
    DURATION: Single<OsString> = row("duration", None, One("LIST"), Copying, "times of copies to null:, for example 2s,5s,20s").or("durations").one(raw);
    TARGET: Single<OsString> = row("target", None, One("LIST"), Copying, "further targets, with the same runs each").or("targets").one(raw);
    REPEAT: Single<u32> = row("repeat", None, One("N"), Copying, "make every run N times, in rounds").one(|a| a.number(1..=1000));
    OUT: Single<OsString> = row("out", None, One("NAME"), Output, "write results to NAME.csv and NAME.json after every run (default: sweep)").one(raw);
    REPORT: Switch = row("report", None, Nothing, Output, "write NAME.html too, a page with charts").switch();
    NO_PAUSE: Switch = row("no-pause", None, Nothing, Copying, "do not pause between runs (default: as long as the run before)").switch();
    SHOW_HELP;
}
