//! The one-line shell script that finds haul on a host, and deploys it if permitted. Composes text; sends nothing.
//!
//! It is parsed twice: by the login shell, of any kind, and by `sh`. For the login shell it is `exec sh -c '...'`. The
//! quoted part contains nothing that bash, zsh, csh, tcsh, fish or ash would change: no single quote, no `!` (csh's
//! history), no line feed and no two backslashes (fish). `sh` may be any POSIX shell. Finding haul also needs `uname`,
//! `head`, `ls`, `id` and a tool for SHA-256. Deployment needs `head -c`, `wc`, `mkdir`, `chmod`, `mv` and `rm`.
//!
//! Each of its own lines starts after a line feed, as the greeting does. It reads standard input only after it prints
//! `HAUL-SYSTEM`, and then one line, or `HAUL-READY`, and then exactly the executable's bytes.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use haul_base::copy::hello::{VERSION, worker_identify_line};
use haul_base::policy_lines::{self, AUDIT, DEPLOY};

/// Name prefix of a directory for one copy's executable.
const PRIVATE_PREFIX: &str = ".haul-";
/// Hexadecimal digits in the names of directories for the executable.
const TOKEN_LENGTH: usize = 16;

/// Parameters of the script.
#[derive(Debug, Clone)]
pub(super) struct ScriptRequest<'a> {
    /// Executables to find or deploy. The first for a system counts.
    pub executables: Vec<Deployable<'a>>,
    /// Arguments that make haul a worker, from [`plain_arguments`].
    pub arguments: &'a str,
    /// Hexadecimal digits that make temporary names unique; `None` forbids deployment.
    pub token: Option<&'a str>,
    /// What an earlier script has verified: the SHA-256, and the identity of the file.
    pub verified: Option<&'a str>,
    /// The directory for the executable in place of the cache directory, from `--remote-dir`.
    pub directory: Option<&'a Path>,
}

/// An executable, and the hosts that it runs on.
#[derive(Debug, Clone)]
pub(super) struct Deployable<'a> {
    /// `uname -sm` of these hosts.
    pub system: &'a str,
    /// Its SHA-256 as 64 hexadecimal digits, since most hosts have a tool for it.
    pub sha256: &'a str,
    /// Its size in bytes.
    pub size: u64,
}

/// Functions that print a line, give up, and check whether others could change a file.
///
/// `walk` checks each directory from the root down. It must belong to this user or to root (the owner of `/`), and must
/// not be writable by others. A sticky directory is fine, since others cannot replace this user's entries in it. A
/// checked path stays the same file: only those with this account's rights could replace it.
const FUNCTIONS: &str = r#"
set -f;
t=; k=; y=; g=;
say() { echo; printf %s "$*"; echo; };
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
identity() { stat -c "%d:%i:%s:%z" "$1" 2>/dev/null; };
me=$(id -u 2>/dev/null);
look /; root=$o;
"#;

/// Functions that explain a failed step, and check for a full disk (busybox's `head` calls it an "I/O error").
///
/// `try` tries the steps that can fail in a directory: a file in it, its execution, and room for the executable. A full
/// disk or quota shows only when it is written. The test file is a script without an interpreter line. Every POSIX shell
/// runs such a file itself, but only if the kernel permits its execution.
///
/// `LC_ALL=C` applies only to commands whose messages are compared.
const PLACE_FUNCTIONS: &str = r#"
failed() {
  y="$*"; r=read-only;
  case "$y" in *"No space"*|*"no space"*|*uota*) r=no-space;; esac;
  return 1;
};
full() {
  set -- $(df -P -k "$d" 2>/dev/null | tail -n 1);
  [ "${4:-none}" -lt $(( (size - ${n:-0}) / 1024 + 1 )) ] 2>/dev/null;
};
make() { e=$( { LC_ALL=C; export LC_ALL; mkdir "$@"; } 2>&1) || failed $e; };
fill() {
  e=$( { LC_ALL=C; export LC_ALL; head -c $size >"$t"; } 2>&1);
  n=$(wc -c <"$t");
  [ "${n:-0}" -ne $size ] || return 0;
  [ -z "$e" ] || failed $e;
  full && r=no-space;
  return 1;
};
try() {
  d=$p; f=$d/haul; t=$d/.new-@TOKEN@;
  e=$( { LC_ALL=C; export LC_ALL; echo "exit 0" | head -c 7 >"$t"; } 2>&1) || { failed $e; return 1; };
  chmod 700 "$t";
  "$t" </dev/null >/dev/null 2>&1 || { r=noexec; y="$d allows no execution"; return 1; };
  y="$d is full"; r=no-space;
  fill </dev/zero;
};
"#;

/// Chooses the executable for the host's system, asks for one if it knows none, looks for a policy that forbids
/// deployment, then for haul in the cache directory and in PATH.
///
/// A policy that cannot be read, or has a line that is not understood, forbids too: haul would refuse every copy.
///
/// The cached copy is started only from a directory that others cannot change, and after a tool of the host has
/// verified its SHA-256. It cannot vouch for itself: a planted file would claim to be right. A file whose device, inode,
/// size and last change (ctime) are those of a file verified before is that file, unchanged.
const FIND: &str = r#"
s=$(uname -sm);
case "$s" in @CHOICES@ *) say HAUL-SYSTEM ${s:-unknown unknown}; sha=; size=; v=; read -r sha size v;; esac;
@DIRECTORY@
m=$(printf "\r");
for x in /etc/haul/policy "${XDG_CONFIG_HOME:-${HOME:-}/.config}/haul/policy"; do
  if [ -f "$x" ] && [ -r "$x" ]; then
    while read -r a || [ -n "$a" ]; do
      set -- ${a%"$m"};
      a="$*"; b=${a#*=};
      case "$a" in
        ""|[#]*) ;;
        *) a=${a%%=*}; case "${a% }=${b# }" in */) g=$x;; @POLICY@) ;; *) g=$x;; esac;;
      esac;
    done <"$x" 2>/dev/null || g=$x;
  elif [ -e "$x" ]; then g=$x; fi;
done;
d=$c/haul/$v;
if [ -z "$g" ] && [ -n "$c" ] && [ -n "$sha" ] && [ -f "$d/haul" ] && cache; then
  look "$p/haul";
  case "$l" in -??x?-??-*)
    if ours; then
      e=$(identity "$p/haul");
      if [ -n "$e" ] && [ "$sha $e" = "@VERIFIED@" ]; then exec "$p/haul" @WORKER@; fi;
      if [ "$(digest "$p/haul")" = "$sha" ]; then
        [ -z "$e" ] || say HAUL-VERIFIED "$sha $e";
        exec "$p/haul" @WORKER@;
      fi;
    fi;;
  esac;
fi;
i=$( { haul @WORKER@ --identify | head -n 1; } </dev/null 2>/dev/null);
if [ "$i" = "@IDENTITY@" ]; then exec haul @WORKER@; fi;
if p=$(command -v haul 2>/dev/null); then w="other $p $i"; else w=none; fi;
say HAUL-ABSENT ${s:-unknown unknown} $w;
"#;

/// Sets the directory that holds the executable's, and the one for a copy's own, if they differ from a system's.
const CACHE_DIRECTORY: &str = r#"
j=${TMPDIR:-};
case "${XDG_CACHE_HOME:-}" in
  /*) c=$XDG_CACHE_HOME;;
  *) case "${HOME:-}" in /*) c=$HOME/.cache; [ -d "$HOME" ] || c=;; *) c=;; esac;;
esac;
"#;

/// Reports that deployment is forbidden.
const FORBIDDEN: &str = "cannot not-allowed";

/// Finds a directory for the executable, then requests the bytes.
///
/// If the cache directory is no good (others could change it, it allows no writing or execution, it is full), the
/// executable goes into a new directory for this copy alone. Its name has 64 random bits, and `mkdir` fails if it exists.
const PREPARE: &str = r#"
[ -n "$sha" ] || cannot arch $s;
for x in head wc mkdir chmod mv rm ls id; do command -v $x >/dev/null 2>&1 || cannot no-tools $x; done;
[ -z "$g" ] || cannot policy "$g";
u=$(umask);
umask 077;
trap clean EXIT;
trap "exit 1" HUP INT TERM PIPE;
cached() {
  r=no-home; y="${HOME:-HOME} does not exist";
  [ -n "$c" ] || return 1;
  r=unsafe; z=$d;
  until [ -d "$z/" ]; do z=${z%/*}; done;
  enter "$z/" || return 1;
  make -p "$d" || return 1;
  r=unsafe;
  cache && try;
};
alone() {
  case "$j" in /*) ;; *) j=/tmp;; esac;
  d=${j%/}/@PRIVATE@@TOKEN@;
  make "$d" || return 1;
  k=$d; r=unsafe;
  enter "$k" && own "$p" && try;
};
w=;
cached || { clean; w=$y; a=$r; alone || cannot $a "$w, and $y"; };
say HAUL-READY;
"#;

/// Receives, verifies, renames and starts the executable. The user's umask is restored before haul runs.
///
/// An executable for this copy alone is unlinked before its start, so that nothing remains however the copy ends. Without
/// `/proc`, the shell waits for its exit and removes it.
const PLACE: &str = r#"
fill || {
  [ -z "$e" ] || cannot $r "$y";
  cannot verify $n of $size bytes arrived;
};
case "$(digest "$t")" in ""|$sha) ;; *) cannot verify its SHA-256 differs;; esac;
e=$("$t" @WORKER@ --verify $sha </dev/null 2>&1);
r=$?;
case $r in 0) ;; 126) cannot noexec $d;; *) cannot verify it ended with status $r: $e;; esac;
e=$( { LC_ALL=C; export LC_ALL; mv -f "$t" "$f"; } 2>&1) || { failed $e; cannot $r "$y"; };
t=;
umask $u;
if [ -n "$k" ]; then
  exec 9<"$f";
  say HAUL-PLACED "$f (for this copy alone: $w)";
  if [ -x /proc/self/fd/9 ]; then
    clean;
    trap - EXIT HUP INT TERM PIPE;
    exec /proc/self/fd/9 @WORKER@ 9<&9;
  fi;
  "$f" @WORKER@;
  exit $?;
fi;
trap - EXIT HUP INT TERM PIPE;
e=$(identity "$f") && say HAUL-VERIFIED "$sha $e";
say HAUL-PLACED "$f";
exec "$f" @WORKER@;
"#;

/// Returns the remote command: one line, for any login shell.
pub(super) fn remote_command(request: &ScriptRequest<'_>) -> String {
    let mut script = [FUNCTIONS, FIND].concat();
    match request.token {
        None => script.push_str(FORBIDDEN),
        Some(token) => {
            script.extend([PLACE_FUNCTIONS, PREPARE, PLACE]);
            script = script.replace("@PRIVATE@", PRIVATE_PREFIX).replace("@TOKEN@", token);
        }
    }
    let script = script
        .replace("@DIRECTORY@", &request.directory.map_or_else(|| CACHE_DIRECTORY.to_owned(), named_directory))
        .replace("@CHOICES@", &request.executables.iter().map(choice).collect::<String>())
        .replace("@POLICY@", &permitting_lines())
        .replace("@IDENTITY@", &worker_identify_line())
        .replace("@VERIFIED@", request.verified.unwrap_or_default())
        .replace("@WORKER@", request.arguments);
    let line = script.split_ascii_whitespace().collect::<Vec<_>>().join(" ");
    format!("exec sh -c '{line}'")
}

/// Returns the lines that [`CACHE_DIRECTORY`] has for the cache directory. No shell changes what stands in octal digits.
fn named_directory(path: &Path) -> String {
    let bytes = path.as_os_str().as_encoded_bytes();
    let (start, rest) = bytes.strip_prefix(b"~/").map_or(("", bytes), |rest| ("${HOME:-}/", rest));
    let octal: String = rest.iter().map(|byte| format!(r"\0{byte:03o}")).collect();
    format!(r#"j={start}$(printf %b "{octal}"); c=$j;"#)
}

/// Returns a shell pattern of a policy's lines that do not forbid deployment.
fn permitting_lines() -> String {
    let both = policy_lines::ALL.iter().flat_map(|line| [(line.name, line.permits), (line.name, line.restricts)]);
    let others = both.filter(|line| *line != (DEPLOY.name, DEPLOY.restricts));
    let others: String = others.map(|(name, value)| format!("{name}={value}|")).collect();
    format!("{others}{AUDIT}=journal|{AUDIT}=/*")
}

/// Returns the case of the script for an executable's system.
fn choice(executable: &Deployable<'_>) -> String {
    let Deployable { system, sha256, size } = executable;
    let version = executable.version();
    format!(r#" "{system}") sha={sha256}; size={size}; v={version};;"#)
}

impl Deployable<'_> {
    /// Returns the answer to `HAUL-SYSTEM`: the values that [`choice`] sets.
    pub(super) fn words(&self) -> String {
        format!("{} {} {}", self.sha256, self.size, self.version())
    }

    /// Returns the name of its directory in the cache directory.
    fn version(&self) -> String {
        format!("{VERSION}-{}", self.sha256.get(..TOKEN_LENGTH).unwrap_or(self.sha256))
    }
}

/// Whether an executable is at a path of the script: in the cache directory, or in a directory of one copy.
pub fn is_deployed(executable: &Path) -> bool {
    let Some(directory) = executable.parent().and_then(Path::file_name).and_then(OsStr::to_str) else { return false };
    let cached = directory.strip_prefix(VERSION).and_then(|rest| rest.strip_prefix('-'));
    let token = cached.or_else(|| directory.strip_prefix(PRIVATE_PREFIX));
    token.is_some_and(|token| token.len() == TOKEN_LENGTH && token.bytes().all(|b| b.is_ascii_hexdigit()))
}

/// Returns `arguments` as text that needs no quotes in any shell; `None` if impossible.
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
        let executable = |system, size| Deployable { system, sha256: HEX, size };
        let executables = vec![executable("Linux x86_64", 12_345), executable("Linux aarch64", 23_456)];
        ScriptRequest {
            executables,
            arguments: "worker",
            token: deploy.then_some("00ff"),
            verified: None,
            directory: None,
        }
    }

    #[test]
    fn no_login_shell_finds_anything_to_change_in_it() {
        for deploy in [true, false] {
            let command = remote_command(&request(deploy));
            let script = command.strip_prefix("exec sh -c '").and_then(|s| s.strip_suffix('\'')).unwrap();
            for forbidden in ["'", "!", "\n", "\r", "\\\\", "@"] {
                assert!(!script.replace("$@", "").contains(forbidden), "{forbidden:?} in {script}");
            }
            assert!(script.is_ascii());
        }
    }

    #[test]
    fn without_deployment_the_script_reads_no_input() {
        let command = remote_command(&request(false));
        assert!(!command.contains("head -c") && !command.contains("mkdir") && command.ends_with("cannot not-allowed'"));
        assert!(remote_command(&request(true)).contains("head -c $size >"));
    }

    #[test]
    fn each_system_has_its_executable() {
        let command = remote_command(&request(true));
        let short = &HEX[..TOKEN_LENGTH];
        for (system, size) in [("x86_64", 12_345), ("aarch64", 23_456)] {
            let choice = format!(r#""Linux {system}") sha={HEX}; size={size}; v={VERSION}-{short};;"#);
            assert!(command.contains(&choice), "{command}");
        }
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
