//! `haul scp ...`, and haul under the name scp: scp's command line (OpenSSH 9) and exit statuses.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::io::{self, IsTerminal};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use haul_base::copy::error::{Error, Outcome};
use haul_base::copy::event::{Event, Observer};
use haul_proto::path::escape;
use haul_show::exit::Exit;
use haul_show::{self as show, Show, terminal};

use super::configured::copy_values;
use super::copy;
use super::dialect_words::{in_words_of, long_option};
use super::next_program::hand_over;
use crate::args::UsageError;
use crate::args::letters::with;
use crate::args::meaning::Meaning::{self, Is, Nothing, With};
use crate::args::worker_task::worker_task;

/// Every option of scp, and whether it takes an argument.
const LETTERS: [(char, bool, Meaning); 24] = [
    ('3', false, Is(&["--transport=ssh"])),
    ('4', false, Is(&["--ipv4=cst"])),
    ('6', false, Is(&["--ipv6=cst"])),
    ('A', false, Is(&["--ssh-option=ForwardAgent=yes"])),
    ('B', false, Is(&["--ssh-option=BatchMode=yes"])),
    ('C', false, Is(&["--compress=auto"])),
    ('c', true, With("--ssh-option", "Ciphers=")),
    ('D', true, Nothing),
    ('F', true, With("--ssh-config", "")),
    ('i', true, With("--idfile", "")),
    ('J', true, With("--ssh-option", "ProxyJump=")),
    ('l', true, With("--xfrrate", "")),
    ('O', false, Nothing),
    ('o', true, With("--ssh-option", "")),
    ('P', true, With("--ssh-port", "")),
    ('p', false, Is(&["--perms"])),
    ('q', false, Is(&["--quiet"])),
    ('R', false, Nothing),
    ('r', false, Is(&["--recursive"])),
    ('S', true, With("--rsh", "")),
    ('s', false, Nothing),
    ('T', false, Nothing),
    ('v', false, Is(&["--verbose"])),
    ('X', true, Nothing),
];

/// Runs scp's command line. Returns scp's exit status.
pub fn run(words: Vec<OsString>) -> u8 {
    let exit = run_line(words).unwrap_or_else(|error| {
        show::stderr().called("scp").error(&in_scps_words(&error.to_string()));
        Exit::Failed.number()
    });
    match exit {
        0 => 0,
        // ssh's own status.
        3 => 255,
        _ => 1,
    }
}

fn run_line(words: Vec<OsString>) -> anyhow::Result<u8> {
    if let Some(task) = worker_task(&words) {
        return Ok(super::worker::run(&task));
    }
    let is_remote_end = |word: &OsString| word == "-t" || word == "-f";
    if words.iter().take_while(|word| word.as_bytes().starts_with(b"-")).any(is_remote_end) {
        return Ok(hand_over("scp", &words));
    }
    let (mut words, operands) = translate(words)?;
    if operands.len() < 2 {
        return Err(UsageError::new("usage: scp [-346ABCOpqRrsTv] [-c cipher] [-D sftp_server_path] [-F ssh_config]")
            .remedy("scp [-i identity_file] [-J destination] [-l limit] [-o ssh_option] [-P port] source ... target")
            .into());
    }
    let is_watched = io::stdout().is_terminal() && terminal::stderr_is_terminal();
    if !is_watched && !words.iter().any(|word| word == "--verbose") {
        words.push("--quiet".into());
    }
    let values = copy_values(words, &operands)?;
    let exit =
        copy::run_as(&values, &operands, |plan, steering| Ok(Box::new(ScpShow(copy::display(plan, steering)?))))?;
    Ok(exit.number())
}

/// haul's display, without hints about options that scp lacks.
struct ScpShow(Box<dyn Show>);

impl Observer for ScpShow {
    fn event(&mut self, event: &Event) {
        match event {
            Event::FileFailed { path, host, message } => self.0.event(&Event::FileFailed {
                path: path.clone(),
                host: host.clone(),
                message: in_scps_words(message),
            }),
            Event::Warning(text) => self.0.event(&Event::Warning(in_scps_words(text))),
            event => self.0.event(event),
        }
    }
}

impl Show for ScpShow {
    fn complain(&mut self, message: &str) {
        self.0.complain(&in_scps_words(message));
    }

    fn finish(&mut self, outcome: &Outcome) -> io::Result<()> {
        let translated = match outcome {
            Err(Error::Usage(text)) => Error::Usage(in_scps_words(text)),
            Err(Error::Connect(text)) => Error::Connect(in_scps_words(text)),
            Err(Error::Broken(text)) => Error::Broken(in_scps_words(text)),
            Err(Error::Failed(text)) => Error::Failed(in_scps_words(text)),
            Ok(_) | Err(Error::Interrupted) => return self.0.finish(outcome),
        };
        self.0.finish(&Err(translated))
    }
}

/// An error without hints that name options of haul: scp has none of them.
fn in_scps_words(text: &str) -> String {
    in_words_of(text, |_, word| long_option(word).is_none().then(|| word.to_owned()))
}

/// Options of haul, and the operands.
fn translate(words: Vec<OsString>) -> Result<(Vec<OsString>, Vec<OsString>), UsageError> {
    // scp replaces files, and copies what links point to.
    let mut options: Vec<OsString> = ["--force", "--symlinks=follow"].map(OsString::from).into();
    let mut operands = Vec::new();
    let (mut words, mut keeps_times, mut port) = (VecDeque::from(words), false, None);
    while let Some(word) = words.pop_front() {
        match word.as_bytes() {
            b"--" => operands.extend(words.drain(..)),
            [b'-', letters @ ..] if !letters.is_empty() => {
                keeps_times |= letters.contains(&b'p');
                read_letters(letters, &mut words, &mut options)?;
            }
            _ => operands.push(word),
        }
    }
    if !keeps_times {
        options.push("--no-times".into());
    }
    for operand in &mut operands {
        if let Some((place, of_url)) = url(operand)? {
            *operand = place;
            port = of_url.or(port);
        }
    }
    options.extend(port.map(|port| with("--ssh-port", "", &port)));
    Ok((options, operands))
}

fn read_letters(letters: &[u8], words: &mut VecDeque<OsString>, options: &mut Vec<OsString>) -> Result<(), UsageError> {
    for (at, byte) in letters.iter().enumerate() {
        let shown = format!("-{}", escape(&[*byte]));
        let known = LETTERS.iter().find(|(letter, ..)| *letter == char::from(*byte));
        let (letter, takes, meaning) = known.ok_or_else(|| UsageError::new(format!("unknown option {shown}")))?;
        if !takes {
            options.extend(if let Is(words) = meaning {
                words.iter().map(OsString::from).collect()
            } else {
                Vec::new()
            });
            continue;
        }
        let attached = OsStr::from_bytes(&letters[at + 1..]).to_owned();
        let mut next = || words.pop_front().ok_or_else(|| UsageError::new(format!("{shown} needs an argument")));
        let argument = if attached.is_empty() { next()? } else { attached };
        let argument = if *letter == 'l' { limit(&argument)? } else { argument };
        if let With(option, before) = meaning {
            options.push(with(option, before, &argument));
        }
        return Ok(());
    }
    Ok(())
}

/// A limit in Kbit/s as one in bytes a second.
fn limit(kilobits: &OsStr) -> Result<OsString, UsageError> {
    let kilobits = kilobits.to_str().and_then(|text| text.parse::<u64>().ok()).filter(|limit| *limit > 0);
    let bytes = kilobits.ok_or_else(|| UsageError::new("-l: must be a limit in Kbit/s"))?.saturating_mul(1000) / 8;
    Ok(bytes.max(1024).to_string().into())
}

/// `scp://[user@]host[:port][/path]` as a place and a port.
fn url(operand: &OsStr) -> Result<Option<(OsString, Option<OsString>)>, UsageError> {
    let Some(rest) = operand.as_bytes().strip_prefix(b"scp://") else { return Ok(None) };
    let at = rest.iter().position(|byte| *byte == b'/').unwrap_or(rest.len());
    let (host, path) = (&rest[..at], rest[at..].strip_prefix(b"/").unwrap_or_default());
    let colon = host.iter().rposition(|byte| *byte == b':').filter(|colon| !host[*colon..].contains(&b']'));
    let (name, port) = colon.map_or((host, None), |colon| (&host[..colon], Some(&host[colon + 1..])));
    if name.is_empty() {
        return Err(UsageError::new(format!("{}: invalid URI", escape(operand.as_bytes()))));
    }
    let place = [name, b":", path].concat();
    Ok(Some((OsString::from_vec(place), port.map(|port| OsStr::from_bytes(port).to_owned()))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn becomes(line: &str) -> String {
        match translate(line.split(' ').map(OsString::from).collect()) {
            Ok((options, operands)) => {
                let all: Vec<_> = options.into_iter().chain(["|".into()]).chain(operands).collect();
                all.join(OsStr::new(" ")).into_string().unwrap().replace("--force --symlinks=follow ", "")
            }
            Err(error) => format!("refused: {error}"),
        }
    }

    #[test]
    fn hints_with_options_of_haul_are_omitted() {
        let text = "the directory x does not exist\n--mkdir creates it\nname another target";
        assert_eq!(in_scps_words(text), "the directory x does not exist\nname another target");
    }

    #[test]
    fn every_option_has_scps_meaning() {
        for (line, expected) in [
            ("a h:b", "--no-times | a h:b"),
            ("-rp a h:b", "--recursive --perms | a h:b"),
            ("-P 2222 a h:", "--ssh-port=2222 --no-times | a h:"),
            ("-P2222 -l8000 a h:", "--ssh-port=2222 --xfrrate=1000000 --no-times | a h:"),
            (
                "-oUser=x -J gate -C a h:",
                "--ssh-option=User=x --ssh-option=ProxyJump=gate --compress=auto --no-times | a h:",
            ),
            ("-3 -T -O h:a g:b", "--transport=ssh --no-times | h:a g:b"),
            ("a scp://me@h:2222/x/y", "--no-times --ssh-port=2222 | a me@h:x/y"),
            ("scp://[::1]:22//etc/x .", "--no-times --ssh-port=22 | [::1]:/etc/x ."),
            ("-- -r h:", "--no-times | -r h:"),
        ] {
            assert_eq!(becomes(line), expected, "{line}");
        }
        for line in ["-P", "-z a h:", "-l x a h:", "a scp:///x"] {
            assert!(becomes(line).starts_with("refused: "), "{line}");
        }
    }
}
