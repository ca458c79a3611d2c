//! The one line of shell that looks for haul on a host, and puts it there if it may. Composes text; sends nothing.
//!
//! It is read twice: by the login shell, whichever that is, and by `sh`. For the
//! login shell it is `exec sh -c '...'`, and what stands in the quotes holds
//! nothing that bash, zsh, csh, tcsh, fish or ash would change: no single quote, no
//! `!` (csh's history), no line feed and no backslash (fish). `sh` may be
//! any POSIX shell; besides it `uname`, `head`, `ls`, `id` and a tool for SHA-256 are needed to find haul, and
//! `head -c`, `wc`, `mkdir`, `chmod`, `mv` and `rm` to put it there.
//!
//! Each of its own lines starts after a line feed, as the greeting does. Nothing
//! is read from standard input before `HAUL-READY` was printed, and then exactly
//! the executable's bytes.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use crate::job::hello::{VERSION, worker_identify_line};

/// What the name of a directory for one job's executable begins with.
const PRIVATE_PREFIX: &str = ".haul-";
/// Hexadecimal digits in the names of directories for the executable.
const TOKEN_LENGTH: usize = 16;

/// What the script is told.
#[derive(Debug, Clone)]
pub(super) struct ScriptRequest<'a> {
    /// SHA-256 of the executable, 64 hexadecimal digits: tools of most hosts know it.
    pub sha256: &'a str,
    /// The arguments that make haul a worker, as [`plain_arguments`] gives them.
    pub arguments: &'a str,
    /// How haul may be put there; `None` forbids it.
    pub placement: Option<Placement<'a>>,
}

/// What the script needs to know to put haul there.
#[derive(Debug, Clone)]
pub(super) struct Placement<'a> {
    /// `uname -s` and `uname -m` of the hosts that the executable runs on.
    pub system: &'a str,
    /// The executable's size in bytes.
    pub size: u64,
    /// Makes the temporary name unique: hexadecimal digits.
    pub token: &'a str,
}

/// Functions: `say` a line, give up, and find out whether somebody else could change a file.
///
/// `walk` looks at each directory from the root down: it belongs to this user or to root (the owner of `/`), and nobody
/// else can write to it, or it is sticky and so nobody else can exchange what is in it and belongs to this user. A path
/// that has passed is the same file later: those who could exchange it may do all that this account may.
const FUNCTIONS: &str = r#"
set -f;
t=; k=; y=; g=;
say() { echo; echo "$*"; };
clean() { if [ -n "$t" ]; then rm -f "$t"; t=; fi; if [ -n "$k" ]; then rm -rf "$k"; k=; fi; };
cannot() { clean; say HAUL-CANNOT "$@"; exit 1; };
look() { set -- $(LC_ALL=C ls -ldn "$1" 2>/dev/null); l=${1:-}; o=${3:-}; };
ours() { case "$o" in "") return 1;; "$me"|"$root") ;; *) return 1;; esac; };
walk() {
  q=/; z=${1#/};
  while :; do
    look "$q";
    case "$l" in
      d????-??-*|d????????[tT]*) ;;
      *) y="others can write to $q"; return 1;;
    esac;
    ours || { y="$q belongs to another user"; return 1; };
    [ -n "$z" ] || return 0;
    q=${q%/}/${z%%/*};
    case "$z" in */*) z=${z#*/};; *) z=;; esac;
  done;
};
enter() {
  p=$(cd -P "$1" 2>/dev/null && pwd -P);
  case "$p" in /*) walk "$p";; *) y="$1 cannot be entered"; return 1;; esac;
};
own() {
  look "$1";
  case "$l" in d????-??-*) ours && return 0;; esac;
  y="others can write to $1"; return 1;
};
cache() {
  if [ -h "$c/haul" ] || [ -h "$d" ]; then y="$d is behind a link"; return 1; fi;
  enter "$d" && own "$p" && own "${p%/*}";
};
digest() {
  if command -v sha256sum; then sha256sum <"$1";
  elif command -v shasum; then shasum -a 256 <"$1";
  elif command -v openssl; then openssl dgst -sha256 -r <"$1";
  elif command -v busybox; then busybox sha256sum <"$1";
  fi 2>/dev/null | { read -r x && read -r x h && echo "$x"; };
};
me=$(id -u 2>/dev/null);
look /; root=$o;
"#;

/// Functions: one gives up over a file that could not be written, one asks whether the rest has no room
/// (busybox's `head` calls a full disk an "I/O error").
const PLACE_FUNCTIONS: &str = r#"
failed() {
  case "$*" in
    *"No space"*|*"no space"*|*uota*) cannot no-space "$@";;
    *) cannot read-only "$@";;
  esac;
};
full() {
  set -- $(df -P -k "$d" 2>/dev/null | tail -n 1);
  [ "${4:-none}" -lt $(( (@SIZE@ - ${n:-0}) / 1024 + 1 )) ] 2>/dev/null;
};
"#;

/// Looks for a policy that forbids deployment, in the cache directory, then in PATH.
///
/// The cached copy is started only from a directory that nobody else can change, and after a tool of the host has found
/// its SHA-256 to be right. It is not asked itself: whoever planted it would answer.
const FIND: &str = r#"
case "${XDG_CACHE_HOME:-}" in
  /*) c=$XDG_CACHE_HOME;;
  *) case "${HOME:-}" in /*) c=$HOME/.cache; [ -d "$HOME" ] || c=;; *) c=;; esac;;
esac;
for x in /etc/haul/policy "${XDG_CONFIG_HOME:-${HOME:-}/.config}/haul/policy"; do
  if [ -r "$x" ]; then
    while IFS="= " read -r a b || [ -n "$a" ]; do
      if [ "$a $b" = "deploy no" ]; then g=$x; fi;
    done <"$x" 2>/dev/null;
  fi;
done;
d=$c/haul/@VERSION@-@SHORT@;
if [ -z "$g" ] && [ -n "$c" ] && [ -f "$d/haul" ] && cache; then
  look "$p/haul";
  case "$l" in -??x?-??-*)
    if ours && [ "$(digest "$p/haul")" = @SHA256@ ]; then exec "$p/haul" @WORKER@; fi;;
  esac;
fi;
i=$( { haul @WORKER@ --identify | head -n 1; } </dev/null 2>/dev/null);
if [ "$i" = "@IDENTITY@" ]; then exec haul @WORKER@; fi;
if p=$(command -v haul 2>/dev/null); then w="other $p $i"; else w=none; fi;
s=$(uname -s); m=$(uname -m);
say HAUL-ABSENT ${s:-unknown} ${m:-unknown} $w;
"#;

/// Says that it may not go on.
const FORBIDDEN: &str = "cannot not-allowed";

/// Tries first what could fail (the directory, a file in it, running that file), then asks for the bytes.
///
/// Where others could change the cache directory, the executable goes into a new directory for this job alone. Its name
/// has 64 random bits, and `mkdir` takes no directory that exists.
///
/// The file that is tried is a script without a first line that names a shell: every
/// POSIX shell runs such a file itself, but only where the kernel agrees to execute it.
///
/// `LC_ALL=C` is set around what is known by its message, and there only.
const PREPARE: &str = r#"
[ "$s $m" = "@SYSTEM@" ] || cannot arch $s $m;
for x in head wc mkdir chmod mv rm ls id; do command -v $x >/dev/null 2>&1 || cannot no-tools $x; done;
[ -n "$c" ] || cannot no-home ${HOME:-};
[ -z "$g" ] || cannot policy "$g";
u=$(umask);
umask 077;
trap clean EXIT;
trap "exit 1" HUP INT TERM PIPE;
y=; z=$d;
until [ -d "$z/" ]; do z=${z%/*}; done;
if enter "$z/"; then
  e=$( { LC_ALL=C; export LC_ALL; mkdir -p "$d"; } 2>&1) || failed $e;
  cache;
fi;
w=$y;
if [ -n "$w" ]; then
  case "${TMPDIR:-}" in /*) d=$TMPDIR;; *) d=/tmp;; esac;
  d=${d%/}/@PRIVATE@@TOKEN@;
  e=$( { LC_ALL=C; export LC_ALL; mkdir "$d"; } 2>&1) || failed $e;
  k=$d;
  enter "$k" && own "$p" || cannot unsafe "$w, and $y";
fi;
d=$p;
f=$d/haul;
t=$d/.new-@TOKEN@;
e=$( { LC_ALL=C; export LC_ALL; echo "exit 0" | head -c 7 >"$t"; } 2>&1) || failed $e;
chmod 700 "$t";
if "$t" </dev/null >/dev/null 2>&1; then :;
elif [ -n "$k" ]; then cannot unsafe "$w, and $d allows no execution";
else cannot noexec $d; fi;
say HAUL-READY;
"#;

/// Receives, verifies, renames, starts. The user's own umask is back before haul runs.
///
/// An executable for this job alone has lost its name before it is started, so that nothing is left of it however the
/// job ends; where there is no `/proc`, the shell waits for its end and removes it.
const PLACE: &str = r#"
e=$( { LC_ALL=C; export LC_ALL; head -c @SIZE@ >"$t"; } 2>&1);
n=$(wc -c <"$t");
if [ "${n:-0}" -ne @SIZE@ ]; then
  [ -z "$e" ] || { full && cannot no-space $e; failed $e; };
  cannot verify $n of @SIZE@ bytes arrived;
fi;
case "$(digest "$t")" in ""|@SHA256@) ;; *) cannot verify its SHA-256 differs;; esac;
e=$("$t" @WORKER@ --verify @SHA256@ </dev/null 2>&1);
r=$?;
case $r in 0) ;; 126) cannot noexec $d;; *) cannot verify it ended with status $r: $e;; esac;
e=$( { LC_ALL=C; export LC_ALL; mv -f "$t" "$f"; } 2>&1) || failed $e;
t=;
umask $u;
if [ -n "$k" ]; then
  exec 9<"$f";
  say HAUL-PLACED "$f (for this job alone: $w)";
  if [ -x /proc/self/fd/9 ]; then
    clean;
    trap - EXIT HUP INT TERM PIPE;
    exec /proc/self/fd/9 @WORKER@ 9<&9;
  fi;
  "$f" @WORKER@;
  exit $?;
fi;
trap - EXIT HUP INT TERM PIPE;
say HAUL-PLACED "$f";
exec "$f" @WORKER@;
"#;

/// The remote command: one line, for any login shell.
pub(super) fn remote_command(request: &ScriptRequest<'_>) -> String {
    let mut script = [FUNCTIONS, FIND].concat();
    match &request.placement {
        None => script.push_str(FORBIDDEN),
        Some(placement) => {
            script.extend([PLACE_FUNCTIONS, PREPARE, PLACE]);
            script = script
                .replace("@SYSTEM@", placement.system)
                .replace("@SIZE@", &placement.size.to_string())
                .replace("@PRIVATE@", PRIVATE_PREFIX)
                .replace("@TOKEN@", placement.token);
        }
    }
    let script = script
        .replace("@VERSION@", VERSION)
        .replace("@SHORT@", request.sha256.get(..TOKEN_LENGTH).unwrap_or(request.sha256))
        .replace("@SHA256@", request.sha256)
        .replace("@IDENTITY@", &worker_identify_line())
        .replace("@WORKER@", request.arguments);
    let line = script.split_ascii_whitespace().collect::<Vec<_>>().join(" ");
    format!("exec sh -c '{line}'")
}

/// Whether an executable is where the script places it: in the cache directory, or in a directory of one job.
pub fn is_deployed(executable: &Path) -> bool {
    let Some(directory) = executable.parent().and_then(Path::file_name).and_then(OsStr::to_str) else { return false };
    let cached = directory.strip_prefix(VERSION).and_then(|rest| rest.strip_prefix('-'));
    let token = cached.or_else(|| directory.strip_prefix(PRIVATE_PREFIX));
    token.is_some_and(|token| token.len() == TOKEN_LENGTH && token.bytes().all(|b| b.is_ascii_hexdigit()))
}

/// `arguments` as text that needs no quotes in any shell, or nothing when there is no such text.
pub(super) fn plain_arguments(arguments: &[OsString]) -> Option<String> {
    let plain =
        |word: &str| !word.is_empty() && word.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_./,=+".contains(&b));
    let words: Option<Vec<&str>> = arguments.iter().map(|word| word.to_str().filter(|word| plain(word))).collect();
    Some(words?.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEX: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    fn request(deploy: bool) -> ScriptRequest<'static> {
        let placement = Placement { system: "Linux x86_64", size: 12_345, token: "00ff" };
        ScriptRequest { sha256: HEX, arguments: "worker", placement: deploy.then_some(placement) }
    }

    #[test]
    fn no_login_shell_finds_anything_to_change_in_it() {
        for deploy in [true, false] {
            let command = remote_command(&request(deploy));
            let script = command.strip_prefix("exec sh -c '").and_then(|s| s.strip_suffix('\'')).unwrap();
            for forbidden in ["'", "!", "\n", "\r", "\\", "@"] {
                assert!(!script.replace("$@", "").contains(forbidden), "{forbidden:?} in {script}");
            }
            assert!(script.is_ascii());
        }
    }

    #[test]
    fn it_reads_nothing_where_placing_is_forbidden() {
        let command = remote_command(&request(false));
        assert!(!command.contains("head -c") && !command.contains("mkdir") && command.ends_with("cannot not-allowed'"));
        assert!(remote_command(&request(true)).contains("head -c 12345 >"));
    }

    #[test]
    fn a_placed_executable_is_known_by_its_directory() {
        let cached = format!("/home/ann/.cache/haul/{VERSION}-0123456789abcdef/haul");
        for path in [cached.as_str(), "/tmp/.haul-0123456789abcdef/haul (deleted)"] {
            assert!(is_deployed(Path::new(path)), "{path}");
        }
        let short = format!("/opt/{VERSION}-0123/haul");
        for path in ["/usr/bin/haul", "/opt/haul-0123456789abcdef/haul", "haul", "/", short.as_str()] {
            assert!(!is_deployed(Path::new(path)), "{path}");
        }
    }

    #[test]
    fn only_plain_words_become_remote_arguments() {
        let words = |list: &[&str]| plain_arguments(&list.iter().map(OsString::from).collect::<Vec<_>>());
        assert_eq!(words(&["worker", "--x=1"]).as_deref(), Some("worker --x=1"));
        for bad in ["", "a b", "a'b", "$x", "a;b", "!", "é"] {
            assert_eq!(words(&["worker", bad]), None, "{bad}");
        }
    }
}
