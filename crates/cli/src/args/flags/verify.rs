//! Options of `haul verify`.

use super::*;

options! {
    /// Options of `haul verify`: those of a copy that select data and the way of reading it.
    ALL;
    RECURSIVE.with_help("compare directories recursively");
    PRESERVE.with_help("compare mode, owner and group");
    ARCHIVE;
    HARD_LINKS.with_help("compare hard links");
    XATTRS.with_help("compare extended attributes");
    ACLS.with_help("compare access control lists (implies -p)");
    NUMERIC_IDS.with_help("with -p, compare owners and groups by number instead of by name");
    USERMAP.with_help("with -p, map users as the copy did");
    GROUPMAP.with_help("with -p, map groups as the copy did");
    CHOWN.with_help("with -p, expect this owner and group of everything");
    DEVICES.with_help("compare device nodes");
    SPECIALS.with_help("compare FIFOs and sockets");
    DIRBASE.with_help("find source paths relative to BASE below the target");
    INFILES.without_bbcp();
    NULL;
    SYMLINKS.without_bbcp();
    ONE_FILE_SYSTEM;
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
    STREAMS.with_help("read with N threads on each host, 1 to 256 (default: automatic)");
    CPUS;
    FRAME.with_help("size of the blocks that are compared: 256k, 512k (default) or 1m");
    UNBUFFERED.without_bbcp();
    CACHE.with_help("page cache after reading: keep, or drop (default: drop large files)");
    IDFILE.without_bbcp();
    SSH_CONFIG;
    SSH_PORT;
    SSH_OPTION;
    SOURCE_COMMAND.with_help("command that starts haul on a remote source");
    TARGET_COMMAND.with_help("command that starts haul on a remote target");
    IPV4.with_help("use IPv4 only for ssh");
    IPV6.with_help("use IPv6 only for ssh");
    RSH;
    NO_DEPLOY;
    WORKER_BINARY;
    REMOTE_DIR;
    RETRIES.with_help("reconnect at most N times without progress");
    RETRY_FOR;
    SILENCE;
    PROGRESS.without_bbcp();
    JSON;
    QUIET.with_help("print differences and errors only");
    VERBOSE.with_help("print more about both hosts");
    VVERBOSE.without_bbcp();
    DEBUG.without_bbcp();
    LOGFILE.without_bbcp();
    TIMELIMIT.with_help("stop after TIME (90, 10m, 2h)").listed_in(Output);
    CONFIG.without_bbcp();
    SHOW_HELP;
    SECRET_FILE;
}
