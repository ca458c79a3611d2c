//! Options of `haul serve`.

use super::*;

options! {
    /// Options of `haul serve`.
    ALL;
    ONCE: Switch = row("once", None, Nothing, Connecting, "exit after the first complete copy").switch();
    PIPE: Single<OsString> = row("pipe", None, One("COMMAND"), Copying, "serve a program: COMMAND reads what clients send (with --read-only, they fetch its output)").one(raw);
    FOR: Single<Duration> = row("for", None, One("TIME"), Connecting, "accept no clients after TIME (90, 10m, 2h)").one(|a| a.time(SECOND..=DAY * 30, "from 1s to 30d"));
    READ_ONLY: Switch = row("read-only", None, Nothing, Copying, "refuse uploads").switch();
    WRITE_ONLY: Switch = row("write-only", None, Nothing, Copying, "refuse downloads").switch();
    CREATE: Switch = row("create", None, Nothing, Copying, "accept new names only: no downloads, and no replacing, renaming or deleting").switch();
    SECRET_FILE: Single<OsString> = row("secret-file", None, One("FILE"), Connecting, "read the secret from the first line of FILE, and do not print it (default: a new secret each time)").one(raw);
    OPEN: Repeated<OsString> = row("open", None, Each("NETWORK"), Connecting, "admit clients in NETWORK (10.1.0.0/16) without a secret").each(raw);
    NEW_KEY: Single<OsString> = row("new-key", None, One("FILE"), Connecting, "write a private key to FILE, print its public key, and exit").one(raw);
    CONFIG: Single<OsString> = row("config", None, One("FILE"), Copying, "serve the directories that FILE names, instead of DIR").one(raw);
    BIND: Single<String> = row("bind", None, One("ADDRESS"), Connecting, "listen on this local address only").one(text);
    PORT: Single<(u16, u16)> = row("port", None, One("P[:Q]"), Connecting, "listen on port P, and accept data on the following ports up to Q (default: any)").one(ports);
    CLIENTS: Single<u32> = row("clients", None, One("N"), Connecting, "accept at most N clients at a time (default: 16)").one(|a| a.number(1..=CLIENTS_MAX));
    XFRRATE.with_help("limit the rate of each client to RATE bytes/s, for example 50m, in each direction");
    MAX_SIZE: Single<u64> = row("max-size", None, One("SIZE"), Performance, "accept at most SIZE bytes, from all clients together").one(|a| a.size(1..=u64::MAX - 1, "of at least 1"));
    MAX_FILES: Single<u32> = row("max-files", None, One("N"), Performance, "accept at most N files, directories and links, from all clients together (with --max-size, default: one for each 4k, at least 1024)").one(|a| a.number(1..=u32::MAX));
    METRICS: Single<String> = row("metrics", None, One("ADDR:PORT"), Output, "answer GET /metrics with the figures of all clients; unix:PATH listens on a socket").one(text);
    METRICS_HOST: Repeated<String> = row("metrics-host", None, Each("NAME"), Output, "with --metrics, also answer requests for NAME (always: addresses, localhost, this host's name)").each(text);
    DELTA: Single<bool> = row("delta", None, One("MODE"), Performance, "off: send no block hashes of existing files (default: auto)").one(|a| a.choice(&[("auto", true), ("off", false)]));
    ALLOW_UNSAFE_LINKS: Switch = row("allow-unsafe-links", None, Nothing, Copying, "accept symbolic links that point outside DIR (default: refuse them)").switch();
    REQUIRE_ENCRYPTION: Switch = row("require-encryption", None, Nothing, Performance, "refuse clients with --no-encrypt").switch();
    ALLOW_TUNING: Switch = row("allow-tuning", None, Nothing, Performance, "let clients set traffic class, congestion control and socket buffers on this host (default: ignore them)").switch();
    REQUIRE_SANDBOX: Switch = row("require-sandbox", None, Nothing, Connecting, "refuse to start where the kernel cannot confine haul to DIR with Landlock (default)").switch();
    ALLOW_UNSANDBOXED: Switch = row("allow-unsandboxed", None, Nothing, Connecting, "start without Landlock too, and log a warning").switch();
    GRACE: Single<Duration> = row("grace", None, One("TIME"), Connecting, "after a signal to stop, let running copies finish for TIME (default: 30s)").one(|a| a.time(Duration::ZERO..=DAY * 30, "of at most 30d"));
    AUDIT: Single<OsString> = row("audit", None, One("journal|FILE"), Output, "write a JSON line for each file to journal (the systemd journal) or to a file (absolute path)").one(raw);
    JSON.with_help("write the log as JSON lines");
    SHOW_HELP;
}
