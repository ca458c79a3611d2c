//! The one line of shell that looks for haul on a host, and puts it there if it may. Composes text; sends nothing.
//!
//! It is read twice: by the login shell, whichever that is, and by `sh`. For the
//! login shell it is `exec sh -c '...'`, and what stands in the quotes holds
//! nothing that bash, zsh, csh, tcsh, fish or ash would change: no single quote, no
//! `!` (csh's history), no line feed and no backslash (fish). `sh` may be
//! any POSIX shell; besides it `uname` and `head` are needed to find haul, and `head -c`,
//! `wc`, `mkdir`, `chmod`, `mv` and `rm` to put it there.
//!
//! Each of its own lines starts after a line feed, as the greeting does. Nothing
//! is read from standard input before `HAUL-READY` was printed, and then exactly
//! one line, which is the executable's SHA-256, and the executable's bytes.

use std::ffi::OsString;

use super::hello::{VERSION, worker_identify_line};

/// What the script is told.
#[derive(Debug, Clone)]
pub(super) struct Request<'a> {
    /// BLAKE3 of the executable, 64 hexadecimal digits.
    pub blake3: &'a str,
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

/// Functions: one for lines, one to give up.
const FUNCTIONS: &str = r#"
set -f;
t=;
say() { echo; echo "$*"; };
clean() { if [ -n "$t" ]; then rm -f "$t"; t=; fi; };
cannot() { clean; say HAUL-CANNOT "$@"; exit 1; };
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

/// Looks in the cache directory, then in PATH.
///
/// The cached copy proves its own hash each time: a copy that a crash cut short would otherwise stand in the way for ever.
const FIND: &str = r#"
case "${XDG_CACHE_HOME:-}" in
  /*) c=$XDG_CACHE_HOME;;
  *) case "${HOME:-}" in /*) c=$HOME/.cache; [ -d "$HOME" ] || c=;; *) c=;; esac;;
esac;
d=$c/haul/@VERSION@-@SHORT@;
f=$d/haul;
if [ -n "$c" ] && [ -x "$f" ] && "$f" @WORKER@ --verify @BLAKE3@ </dev/null >/dev/null 2>&1; then exec "$f" @WORKER@; fi;
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
/// The file that is tried is a script without a first line that names a shell: every
/// POSIX shell runs such a file itself, but only where the kernel agrees to execute it.
///
/// `LC_ALL=C` is set around what is known by its message, and there only.
const PREPARE: &str = r#"
[ "$s $m" = "@SYSTEM@" ] || cannot arch $s $m;
for x in head wc mkdir chmod mv rm; do command -v $x >/dev/null 2>&1 || cannot no-tools $x; done;
[ -n "$c" ] || cannot no-home ${HOME:-};
u=$(umask);
umask 077;
trap clean EXIT;
trap "exit 1" HUP INT TERM PIPE;
e=$( { LC_ALL=C; export LC_ALL; mkdir -p "$d"; } 2>&1) || failed $e;
t=$d/.new-@TOKEN@;
e=$( { LC_ALL=C; export LC_ALL; echo "exit 0" | head -c 7 >"$t"; } 2>&1) || failed $e;
chmod 700 "$t";
"$t" </dev/null >/dev/null 2>&1 || cannot noexec $d;
say HAUL-READY;
"#;

/// Receives, verifies, renames, starts. The user's own umask is back before haul runs.
///
/// Of a pipe, `read` takes byte by byte, and none after the line feed.
const PLACE: &str = r#"
read -r h;
e=$( { LC_ALL=C; export LC_ALL; head -c @SIZE@ >"$t"; } 2>&1);
n=$(wc -c <"$t");
if [ "${n:-0}" -ne @SIZE@ ]; then
  [ -z "$e" ] || { full && cannot no-space $e; failed $e; };
  cannot verify $n of @SIZE@ bytes arrived;
fi;
if command -v sha256sum >/dev/null 2>&1; then
  case "$(sha256sum <"$t")" in "$h "*) ;; *) cannot verify its SHA-256 differs;; esac;
fi;
e=$("$t" @WORKER@ --verify @BLAKE3@ </dev/null 2>&1);
r=$?;
case $r in 0) ;; 126) cannot noexec $d;; *) cannot verify it ended with status $r: $e;; esac;
e=$( { LC_ALL=C; export LC_ALL; mv -f "$t" "$f"; } 2>&1) || failed $e;
t=;
trap - EXIT HUP INT TERM PIPE;
umask $u;
say HAUL-PLACED "$f";
exec "$f" @WORKER@;
"#;

/// The remote command: one line, for any login shell.
pub(super) fn remote_command(request: &Request<'_>) -> String {
    let mut script = [FUNCTIONS, FIND].concat();
    match &request.placement {
        None => script.push_str(FORBIDDEN),
        Some(placement) => {
            script.extend([PLACE_FUNCTIONS, PREPARE, PLACE]);
            script = script
                .replace("@SYSTEM@", placement.system)
                .replace("@SIZE@", &placement.size.to_string())
                .replace("@TOKEN@", placement.token);
        }
    }
    let script = script
        .replace("@VERSION@", VERSION)
        .replace("@SHORT@", request.blake3.get(..16).unwrap_or(request.blake3))
        .replace("@BLAKE3@", request.blake3)
        .replace("@IDENTITY@", &worker_identify_line())
        .replace("@WORKER@", request.arguments);
    let line = script.split_ascii_whitespace().collect::<Vec<_>>().join(" ");
    format!("exec sh -c '{line}'")
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

    fn request(deploy: bool) -> Request<'static> {
        let placement = Placement { system: "Linux x86_64", size: 12_345, token: "00ff" };
        Request { blake3: HEX, arguments: "worker", placement: deploy.then_some(placement) }
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
    fn only_plain_words_become_remote_arguments() {
        let words = |list: &[&str]| plain_arguments(&list.iter().map(OsString::from).collect::<Vec<_>>());
        assert_eq!(words(&["worker", "--x=1"]).as_deref(), Some("worker --x=1"));
        for bad in ["", "a b", "a'b", "$x", "a;b", "!", "é"] {
            assert_eq!(words(&["worker", bad]), None, "{bad}");
        }
    }
}
