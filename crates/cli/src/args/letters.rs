//! haul's letters, the same in all commands. `haul help letters` prints them beside those of other programs.
//!
//! A lone letter is rsync's, cp's or scp's where these agree, or was decided here; any other is refused, with what to
//! write instead. A group, such as `-avzP`, is rsync's, or refused as a whole.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use haul_base::quantity::parse_rate;
use haul_proto::path::escape;

use super::flags::COPY;
use super::local_files::{LocalFiles, NoFiles};
use super::meaning::Meaning::{self, Is, Nothing, Refused, With};
use super::row::{OptionRow, Takes};
use super::{UsageError, names, rsync};

/// The largest number after `-P` that is hardly a port of ssh: streams in iperf, seconds in bbcp.
pub const NO_PORT_MAX: u16 = 21;

/// A letter with its meaning in each program; empty where a program lacks it.
struct Letter {
    letter: char,
    haul: Meaning,
    cp: &'static str,
    scp: &'static str,
    ssh: &'static str,
}

const fn letter(letter: char, haul: Meaning, cp: &'static str, scp: &'static str, ssh: &'static str) -> Letter {
    Letter { letter, haul, cp, scp, ssh }
}

/// Every letter of cp (GNU coreutils 9), scp and ssh (OpenSSH 9), rsync 3.5, and haul.
const LETTERS: &[Letter] = &[
    letter('a', Is(&["--archive"]), "archive", "", "no agent"),
    letter('A', Is(&["--acls"]), "", "agent", "agent"),
    letter('b', Is(&["--backup"]), "backup", "", "bind address"),
    letter('B', Refused("scp's -B: -o BatchMode=yes\nrsync's -B: omit it"), "", "batch mode", "bind interface"),
    letter('c', Refused("rsync's -c: --compare digest\nscp's -c: --cipher NAME"), "", "cipher", "cipher"),
    letter('C', Refused("scp's -C: -z\nrsync's -C: --exclude PATTERN"), "", "compress", "compress"),
    letter('d', Refused("rsync's -d: -r --exclude '/*/*'\ncp's -d: -r, which keeps links"), "keep links", "", ""),
    letter('D', Refused("rsync's -D: --devices --specials"), "", "sftp server", "forward"),
    letter('e', With("--rsh", ""), "", "", "escape"),
    letter('E', Nothing, "", "", "log file"),
    letter('f', Is(&["--force"]), "force", "", "background"),
    letter('F', With("--ssh-config", ""), "", "config", "config"),
    letter('g', Is(&["--group"]), "", "", "gateway"),
    letter('G', Refused("ssh -G HOST prints ssh's configuration"), "", "", "print config"),
    letter('h', Is(&["--help"]), "", "", ""),
    letter('H', Is(&["--hard-links"]), "follow source", "", ""),
    letter('i', With("--idfile", ""), "ask", "key", "key"),
    letter('I', Is(&["--compare=never"]), "", "", "smart card"),
    letter('J', With("--ssh-option", "ProxyJump="), "", "jump host", "jump host"),
    letter('k', Refused("rsync's -k: --symlinks follow-dirs"), "", "", "no GSSAPI"),
    letter('K', Refused("links on the target are replaced by directories"), "", "", "GSSAPI"),
    letter(
        'l',
        Refused("scp's -l: --xfrrate RATE\nrsync's -l: omit it\ncp's -l: --link-dest DIR"),
        "hard-link",
        "limit",
        "login",
    ),
    letter('L', Is(&["--symlinks=follow"]), "follow", "", "forward"),
    letter('m', Is(&["--no-empty-dirs"]), "", "", "MAC"),
    letter('M', Refused("options apply to both ends"), "", "", "master"),
    letter('n', Is(&["--dry-run"]), "no clobber", "", "no input"),
    letter('N', Refused("creation times cannot be set on Linux"), "", "", "no command"),
    letter('o', With("--ssh-option", ""), "", "ssh option", "ssh option"),
    letter('O', Refused("rsync's -O: --omit-dir-times\nscp's -O: omit it"), "", "old protocol", "control"),
    letter('p', Is(&["--perms"]), "preserve", "preserve", "port"),
    letter('P', With("--ssh-port", ""), "keep links", "port", "tag"),
    letter('q', Is(&["--quiet"]), "", "quiet", "quiet"),
    letter('r', Is(&["--recursive"]), "recursive", "recursive", ""),
    letter(
        'R',
        Refused("cp's -R: -r\nrsync's -R: --dirbase BASE\nscp's -R: omit it"),
        "recursive",
        "from source",
        "forward",
    ),
    letter('s', With("--streams", ""), "symbolic link", "sftp mode", "subsystem"),
    letter('S', Is(&["--sparse=make"]), "suffix", "program", "control path"),
    letter(
        't',
        Refused("rsync's -t: omit it, since times are always preserved\ncp's -t DIR: name DIR last"),
        "target",
        "",
        "terminal",
    ),
    letter(
        'T',
        Refused("cp's -T: SOURCE/. copies what SOURCE contains\nrsync's -T: omit it\nscp's -T: omit it"),
        "no directory",
        "no name check",
        "no terminal",
    ),
    letter('u', Is(&["--update"]), "update", "", ""),
    letter('U', Refused("access times are not preserved"), "", "", ""),
    letter('v', Is(&["--verbose"]), "verbose", "verbose", "verbose"),
    letter('V', Is(&["--version"]), "", "", "version"),
    letter('w', With("--windowsz", ""), "", "", "tunnel"),
    letter('W', Is(&["--delta=off"]), "", "", "forward"),
    letter('x', Is(&["--one-file-system"]), "one file system", "", "no X11"),
    letter('X', Is(&["--xattrs"]), "", "sftp option", "X11"),
    letter('y', Is(&["--detect-renames"]), "", "", "syslog"),
    letter('z', Is(&["--compress=auto"]), "", "", ""),
    letter('Z', Refused("--xattrs keeps SELinux contexts"), "SELinux", "", ""),
    letter('0', Is(&["--null"]), "", "", ""),
    letter('3', Is(&["--transport=ssh"]), "", "through here", ""),
    letter('4', Is(&["--ipv4=cst"]), "", "IPv4", "IPv4"),
    letter('6', Is(&["--ipv6=cst"]), "", "IPv6", "IPv6"),
    letter('8', Nothing, "", "", ""),
    letter('@', With("--modify-window", ""), "", "", ""),
];

/// Long options of haul in place of the letters of one word, each a word.
#[derive(Debug, Default)]
pub struct Expanded {
    /// The options.
    pub options: Vec<OsString>,
    /// Whether the following word was the argument of the last one.
    pub took_next: bool,
}

/// The options of `word` if all its letters are the command's own: `-la` of `haul ls`. An h is its option for readable
/// sizes, which most commands need not; only as `alone` on the line it asks for help, as in rsync.
pub fn own(table: &'static [OptionRow], word: &OsStr, alone: bool) -> Option<Vec<&'static OptionRow>> {
    let letters = &word.as_bytes()[1..];
    let of = |letter: char| table.iter().find(|row| row.has_own_letter && row.letter == Some(letter));
    let (mut rows, mut has_human) = (Vec::new(), false);
    for letter in letters.iter().map(|byte| char::from(*byte)) {
        match of(letter) {
            Some(row) => rows.push(row),
            None if letter == 'h' => has_human = true,
            None => return None,
        }
    }
    if rows.is_empty() && (alone || !has_human) {
        return None;
    }
    rows.extend(table.iter().filter(|row| has_human && row.is(&super::flags::files::ls::HUMAN)));
    Some(rows)
}

/// Replaces the letters of `word` (`-a`, `-avz`, `-s8`) by long options. `next` is the word after it.
pub fn expand(word: &OsStr, next: Option<&OsStr>, files: &dyn LocalFiles) -> Result<Expanded, UsageError> {
    let letters = &word.as_bytes()[1..];
    let text = std::str::from_utf8(letters).map_err(|_| unknown(word, &escape(letters)))?;
    let mut chars = text.chars();
    let Some(first) = chars.next() else { return Ok(Expanded::default()) };
    let rest = chars.as_str();
    let row = LETTERS.iter().find(|row| row.letter == first);
    match row.map(|row| row.haul) {
        None if rest.is_empty() => Err(unknown(word, text)),
        Some(meaning) if rest.is_empty() => alone(first, meaning, next, files),
        // A letter cannot follow an argument, and an argument of letters cannot be told from a group.
        Some(With(option, before)) if !rest.bytes().all(|byte| byte.is_ascii_alphabetic()) => {
            let argument = rest.strip_prefix('=').filter(|_| first != 'w').unwrap_or(rest);
            Ok(Expanded { options: vec![with(option, before, OsStr::new(argument))], took_next: false })
        }
        _ => group(text, matches!(row.map(|row| row.haul), Some(With(..)))),
    }
}

/// A lone letter. Three of scp's with an argument are rsync's without: only what cannot be rsync's is scp's.
fn alone(letter: char, meaning: Meaning, next: Option<&OsStr>, files: &dyn LocalFiles) -> Result<Expanded, UsageError> {
    let shown = |next: &OsStr| escape(next.as_bytes());
    let without =
        |options: &[&str]| Expanded { options: options.iter().map(OsString::from).collect(), took_next: false };
    if let (Is(_) | Nothing, Some(next)) = (meaning, next)
        && is_argument(letter, next, files)
    {
        return Err(takes_nothing(&format!("-{letter} {}", shown(next)), letter, next));
    }
    match (letter, next) {
        ('P', Some(next))
            if next.to_str().and_then(|next| next.parse().ok()).is_some_and(|port: u16| port <= NO_PORT_MAX) =>
        {
            let shown = shown(next);
            let error = UsageError::new(format!("-P {shown} is ambiguous: scp's port, and bbcp's interval"));
            return Err(error.remedy(format!("write --ssh-port {shown} for the port, or --progress={shown}")));
        }
        ('P', next) if !next.is_some_and(is_number) => return Ok(without(&[])),
        ('P', Some(next)) if files.exists(next) => {
            let shown = shown(next);
            let error = UsageError::new(format!("-P {shown} is ambiguous: a port, and a file here"));
            return Err(error.remedy(format!("write --ssh-port {shown} for the port, or ./{shown} for the file")));
        }
        ('o', next) if !next.is_some_and(is_ssh_option) => return Ok(without(&["--owner"])),
        ('i', Some(next)) if files.is_private_key(next) => {}
        ('i', Some(next)) if !files.exists(next) && !next.as_bytes().contains(&b':') => {
            let error = UsageError::new(format!("-i {}: no such file", shown(next)));
            return Err(error.remedy("ssh's -i is followed by a private key; rsync's -i is --items"));
        }
        ('i', _) => return Ok(without(&["--items"])),
        _ => {}
    }
    match (meaning, next) {
        (Is(options), _) => Ok(without(options)),
        (Nothing, _) => Ok(without(&[])),
        (Refused(instead), _) => Err(refused(&format!("-{letter}"), instead).remedies(bbcps(letter))),
        (With(option, before), Some(argument)) if !is_option(argument) => {
            Ok(Expanded { options: vec![with(option, before, argument)], took_next: true })
        }
        // The scanner reports the missing argument.
        (With(option, _), _) => Ok(without(&[option])),
    }
}

/// Whether a word after a letter that takes none in haul can be nothing but an argument: a port or a quantity, a word
/// that bbcp's option takes, or the program of `-S` and the list of `-I` in scp and bbcp.
fn is_argument(letter: char, word: &OsStr, files: &dyn LocalFiles) -> bool {
    let Some(row) = of_bbcp(letter) else { return false };
    let text = word.to_str().unwrap_or_default();
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let is_quantity = unit.len() < text.len() && (unit.len() <= 1 || parse_rate(text).is_ok());
    match (letter, row.takes) {
        ('S', _) => text.starts_with('/') && text.split(' ').next().is_some_and(|program| program.ends_with("/ssh")),
        ('I', _) => text == "-",
        _ if files.exists(word) => false,
        ('p', _) => is_number(word),
        (_, Takes::Nothing | Takes::Repeats | Takes::Perhaps(_) | Takes::Place(_)) => false,
        _ => is_quantity || row.words.contains(&text),
    }
}

/// The error for a letter with an argument that it does not take: the argument of which program's option it can be.
fn takes_nothing(shown: &str, letter: char, argument: &OsStr) -> UsageError {
    let error = UsageError::new(format!("{shown}: -{letter} takes no argument"));
    let typed = escape(argument.as_bytes());
    let long = named(letter).filter(|row| row.words.iter().any(|word| argument == *word));
    match (letter, long) {
        ('p', _) if is_number(argument) => error.remedy(format!("the port is -P {typed}")),
        ('S', None) => error.remedy("scp's -S: --rsh COMMAND").remedies(bbcps(letter)),
        (_, Some(row)) => error.remedy(format!("write --{}={typed}", row.id)),
        _ => error.remedies(bbcps(letter).filter(|_| is_argument(letter, argument, &NoFiles))),
    }
}

/// bbcp's option with this letter, if haul has it, too.
fn of_bbcp(letter: char) -> Option<&'static OptionRow> {
    COPY.iter().find(|row| row.has_bbcp_letter(letter)).filter(|row| !row.bbcp_only)
}

/// What to write for bbcp's letter.
fn bbcps(letter: char) -> Option<String> {
    let row = of_bbcp(letter)?;
    Some(format!("bbcp's -{letter}: --{}{}; haul bbcp takes bbcp's letters", row.id, row.argument()))
}

/// rsync's letters.
fn group(letters: &str, begins_with_an_option_that_takes: bool) -> Result<Expanded, UsageError> {
    let mut options = Vec::new();
    let whole = |letter: char, why: String| {
        let error = UsageError::new(format!("-{letters}: {why}"));
        if let Some(Letter { haul: Refused(instead), .. }) = LETTERS.iter().find(|row| row.letter == letter) {
            return error.remedies(instead.lines());
        }
        let apart: Vec<_> = letters.chars().map(|letter| format!("-{letter}")).collect();
        match begins_with_an_option_that_takes {
            _ if names::exact(COPY, letters).is_some() => error.remedy(format!("write --{letters}")),
            true => error.remedy(format!("write -{} {}", &letters[..1], &letters[1..])),
            false if letters.chars().all(|letter| LETTERS.iter().any(|row| row.letter == letter)) => {
                error.remedy(format!("a group of letters is rsync's; write haul's apart: {}", apart.join(" ")))
            }
            false => error.remedy("a group of letters is rsync's; haul help letters lists them"),
        }
    };
    for (at, letter) in letters.char_indices() {
        let before = letters[..at].trim_end_matches(|c: char| c.is_ascii_digit());
        if let (Some(of), '0'..='9' | '=', None) = (before.chars().next_back(), letter, rsync::letter(letter)) {
            let argument = letters[before.len()..].trim_start_matches('=');
            return Err(takes_nothing(&format!("-{letters}"), of, OsStr::new(argument)));
        }
        let Some(option) = rsync::letter(letter) else {
            return Err(whole(letter, format!("rsync has no -{}", escape(letter.to_string().as_bytes()))));
        };
        match option.meaning {
            _ if option.takes => return Err(whole(letter, format!("-{letter} takes an argument in rsync"))),
            Is(words) => options.extend(words.iter().map(OsString::from)),
            Refused(instead) => return Err(refused(&format!("-{letters}: rsync's -{letter}"), instead)),
            Nothing | With(..) => {}
        }
    }
    Ok(Expanded { options, took_next: false })
}

/// Whether this word is an option. `-` alone is an operand.
pub fn is_option(word: &OsStr) -> bool {
    matches!(word.as_bytes(), [b'-', _, ..])
}

/// `--option=argument`.
pub fn with(option: &str, before: &str, argument: &OsStr) -> OsString {
    OsString::from_vec([option.as_bytes(), b"=", before.as_bytes(), argument.as_bytes()].concat())
}

/// An option of another program that haul lacks, or that means several things.
pub fn refused(shown: &str, instead: &str) -> UsageError {
    UsageError::new(format!("{shown} is no option of haul")).remedies(instead.lines())
}

fn unknown(word: &OsStr, letter: &str) -> UsageError {
    UsageError::new(format!("unknown option {}", escape(word.as_bytes())))
        .remedy(format!("haul help letters lists the letters; -{letter} is none of them"))
}

/// Whether this is a number without a sign, such as a port.
pub fn is_number(word: &OsStr) -> bool {
    !word.is_empty() && word.as_bytes().iter().all(u8::is_ascii_digit)
}

/// Whether this is an option of ssh_config(5): `BatchMode=yes`.
fn is_ssh_option(word: &OsStr) -> bool {
    let name = word.as_bytes().split(|byte| *byte == b'=').next().unwrap_or_default();
    name.len() < word.len() && !name.is_empty() && name.iter().all(u8::is_ascii_alphanumeric)
}

/// `haul help letters`.
pub fn help() -> String {
    let mut text = String::from(
        "The letters of all commands, and of programs whose users know them. A group of\n\
         letters, such as -avzP, is rsync's. haul bbcp has bbcp's letters; ls, du, mkdir\n\
         and rm have some of their own. -h is help only when it stands alone.\n\n",
    );
    let columns = ["haul", "cp", "scp", "rsync", "ssh", "bbcp"];
    let row = |first: &str, cells: [String; 6]| {
        let [haul, cp, scp, rsync, ssh, bbcp] = cells;
        format!("{first:3}{haul:18}{cp:16}{scp:14}{rsync:17}{ssh:15}{bbcp}").trim_end().to_owned() + "\n"
    };
    text.push_str(&row("", columns.map(str::to_owned)));
    for Letter { letter, haul, cp, scp, ssh } in LETTERS {
        let haul = match haul {
            Is(options) => options.join(" "),
            With(option, _) => (*option).to_owned(),
            Nothing => "(no effect)".to_owned(),
            Refused(_) => "refused".to_owned(),
        };
        let of_rsync = rsync::letter(*letter).map_or("", |option| match (option.long, letter) {
            ("", 'D') => "devices specials",
            ("", 'F') => "filter files",
            ("", _) => "partial progress",
            (long, _) => long,
        });
        let of_bbcp = COPY.iter().find(|row| row.has_bbcp_letter(*letter)).map_or("", |row| row.id);
        let cells = [haul.trim_start_matches('-'), cp, scp, of_rsync, ssh, of_bbcp].map(str::to_owned);
        text.push_str(&row(&letter.to_string(), cells));
    }
    text
}

/// The meaning of a letter, in a group or alone. Alone, those with an argument are known by their long names.
pub fn meaning(letter: char, is_in_group: bool) -> Meaning {
    match is_in_group {
        true => rsync::letter(letter).map_or(Nothing, |option| option.meaning),
        false => match LETTERS.iter().find(|row| row.letter == letter).map(|row| row.haul) {
            Some(meaning @ Is(_)) => meaning,
            _ => Nothing,
        },
    }
}

/// The option of a lone letter, for the help.
pub fn named(letter: char) -> Option<&'static OptionRow> {
    let name = match LETTERS.iter().find(|row| row.letter == letter)?.haul {
        Is([option]) => option,
        With(option, _) => option,
        _ => return None,
    };
    let name = name.trim_start_matches('-').split('=').next()?;
    names::exact(COPY, name)
}

#[cfg(test)]
#[path = "letters_tests.rs"]
mod tests;
