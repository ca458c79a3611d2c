//! Options of `haul verify`.

use super::*;

options! {
    /// Options of `haul verify`: those of a copy that select data and the way of reading it.
    ALL;
    RECURSIVE.says("compare directories recursively");
    PRESERVE.says("compare mode, owner and group");
    ARCHIVE;
    HARD_LINKS.says("compare hard links");
    XATTRS.says("compare extended attributes");
    ACLS.says("compare access control lists (implies -p)");
    NUMERIC_IDS.says("with -p, compare owners and groups by number instead of by name");
    USERMAP.says("with -p, map users as the copy did");
    GROUPMAP.says("with -p, map groups as the copy did");
    CHOWN.says("with -p, expect this owner and group of everything");
    DEVICES.says("compare device nodes");
    SPECIALS.says("compare FIFOs and sockets");
    DIRBASE.says("find source paths relative to BASE below the target");
    INFILES.without_bbcp();
    NULL;
    SYMLINKS.without_bbcp();
    INCLUDE;
    EXCLUDE;
    INCLUDE_FROM;
    EXCLUDE_FROM;
    FILTER_FILES;
    FILTER;
    MIN_SIZE;
    MAX_SIZE;
    NEWER;
    OLDER;
    EXPLAIN;
    STREAMS.says("read with N threads on each host, 1 to 256 (default: automatic)");
    CPUS;
    FRAME.says("size of the blocks that are compared: 256k, 512k (default) or 1m");
    UNBUFFERED.without_bbcp();
    CACHE.says("page cache after reading: keep, or drop (default: drop large files)");
    IDFILE.without_bbcp();
    SSH_CONFIG;
    SSH_PORT;
    SSH_OPTION;
    SOURCE_COMMAND.says("command that starts haul on a remote source");
    TARGET_COMMAND.says("command that starts haul on a remote target");
    IPV4.says("use IPv4 only for ssh");
    IPV6.says("use IPv6 only for ssh");
    RSH;
    NO_DEPLOY;
    WORKER_BINARY;
    RETRIES.says("reconnect at most N times without progress");
    RETRY_FOR;
    SILENCE;
    PROGRESS.without_bbcp();
    JSON;
    QUIET.says("print differences and errors only");
    VERBOSE.says("print more about both hosts");
    VVERBOSE.without_bbcp();
    DEBUG.without_bbcp();
    LOGFILE.without_bbcp();
    TIMELIMIT.says("stop after TIME (90, 10m, 2h)").listed_in(Output);
    CONFIG.without_bbcp();
    SHOW_HELP;
    SECRET_FILE;
}
