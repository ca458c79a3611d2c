//! Words to typed arguments, with clap driven by the table of options.
//!
//! clap finds the options and their arguments; the messages are haul's own, so
//! that every error names the word and the remedy in the same form.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgAction, ArgMatches};
use haul_engine::serve::{Access, Terms};
use haul_proto::path::escape;

use super::UsageError;
use super::nearest::nearest;
use super::optional::complete;
use super::table::{COPY, DEMO, PARTIALS, Row, SERVE, Takes, VERIFY};
use super::values::Values;

/// Words that are commands when they stand first.
const COMMANDS: &[&str] = &["clean", "demo", "serve", "status", "verify", "worker"];

/// Where every option is listed.
const HELP: &str = "haul --help all";

/// What the user wants.
#[derive(Debug)]
pub enum Command {
    /// Copy files.
    Copy(Values, Vec<OsString>),
    /// `haul verify`: compare what a copy would have made.
    Verify(Values, Vec<OsString>),
    /// `haul demo`: its own options, and those of the copy.
    Demo(Values, Values),
    /// `haul status`: paths to look at.
    Status(Values, Vec<OsString>),
    /// `haul clean`: paths to look at.
    Clean(Values, Vec<OsString>),
    /// `haul serve`: the directory, unless a file names several.
    Serve(Values, Option<OsString>),
    /// `haul worker`: started by a controller, never by a person.
    Worker(Worker),
    /// Text that was asked for.
    Print(String),
}

/// What a worker is asked to do.
#[derive(Debug, PartialEq, Eq)]
pub enum Worker {
    /// Take a Request from standard input and work.
    Run,
    /// Stand in the place of ssh: carry what is said to a server and back.
    Dial {
        /// Name or address.
        host: String,
        /// Its port.
        port: u16,
        /// The directory there.
        directory: String,
    },
    /// Work for a server: in this directory, held to this.
    Served(Terms, PathBuf),
    /// Say which version this is.
    Identify,
    /// Say whether this executable has this BLAKE3 value (64 hexadecimal digits).
    Verify(String),
}

/// Makes sense of the words after the program's name. `exists` says whether a file of that name is here.
pub fn parse(words: Vec<OsString>, exists: &dyn Fn(&OsStr) -> bool) -> Result<Command, UsageError> {
    match words.first().and_then(|word| word.to_str()) {
        Some("worker") => worker(&words[1..], exists),
        Some("demo") => demo(&words[1..], exists),
        Some("serve") => serve(&words[1..], exists),
        Some("verify") => verify(&words[1..], exists),
        Some(word @ ("status" | "clean")) => partials(word, &words[1..], exists),
        _ => copy(words, exists),
    }
}

fn copy(words: Vec<OsString>, exists: &dyn Fn(&OsStr) -> bool) -> Result<Command, UsageError> {
    let matches = matches(COPY, words, false)?;
    if let Some(topic) = matches.get_one::<OsString>("help") {
        return help_on(topic).map(Command::Print);
    }
    if matches.get_flag("version") {
        return Ok(Command::Print(super::help::VERSION.to_owned()));
    }
    let operands = words_of(&matches, "operands");
    if let [only] = operands.as_slice() {
        return Err(one_operand(only, exists));
    }
    if operands.is_empty() {
        return Err(UsageError::new("nothing to copy: say what, and where to")
            .remedy("haul SOURCE... TARGET      each a path, or [user@]host:path")
            .remedy("haul demo                  a copy on this machine, to see it work")
            .remedy("haul --help                the options"));
    }
    Ok(Command::Copy(Values::new(COPY, matches), operands))
}

fn demo(words: &[OsString], exists: &dyn Fn(&OsStr) -> bool) -> Result<Command, UsageError> {
    let file_called_demo = exists(OsStr::new("demo"));
    let matches = match matches(DEMO, words.to_vec(), true) {
        Ok(matches) => matches,
        Err(_) if file_called_demo => return Err(command_or_file("demo")),
        Err(error) => return Err(error.remedy("options of a copy follow --: haul demo --keep -- --no-encrypt")),
    };
    if let Some(operand) = words_of(&matches, "operands").first() {
        return Err(match file_called_demo {
            true => command_or_file("demo"),
            false => UsageError::new(format!("{}: haul demo takes no operands: it makes its own data", shown(operand)))
                .remedy("haul demo --help"),
        });
    }
    if matches.get_flag("help") {
        return Ok(Command::Print(super::help::demo()));
    }
    let copy = self::matches(COPY, words_of(&matches, "rest"), false)?;
    if let Some(operand) = words_of(&copy, "operands").first() {
        return Err(UsageError::new(format!(
            "{}: after -- haul demo takes options of a copy, and no operands",
            shown(operand)
        )));
    }
    Ok(Command::Demo(Values::new(DEMO, matches), Values::new(COPY, copy)))
}

/// `haul verify` takes sources and a target.
fn verify(words: &[OsString], exists: &dyn Fn(&OsStr) -> bool) -> Result<Command, UsageError> {
    with_operands("verify", VERIFY, words, exists, |values, operands| match operands.len() {
        0 | 1 => Err(UsageError::new("haul verify: say what is to be compared, and with what")
            .remedy("haul verify SOURCE... TARGET      as for the copy that made TARGET")),
        _ => Ok(Command::Verify(values, operands)),
    })
}

/// `haul status` and `haul clean` take paths.
fn partials(command: &str, words: &[OsString], exists: &dyn Fn(&OsStr) -> bool) -> Result<Command, UsageError> {
    with_operands(command, PARTIALS, words, exists, |values, paths| match command {
        _ if paths.is_empty() => Err(UsageError::new(format!("haul {command}: say where to look"))
            .remedy(format!("haul {command} PATH...      . is this directory"))),
        "clean" => Ok(Command::Clean(values, paths)),
        _ => Ok(Command::Status(values, paths)),
    })
}

/// A command that takes operands, as a copy does: where a file has the command's name, nothing is guessed.
fn with_operands(
    command: &str,
    table: &'static [Row],
    words: &[OsString],
    exists: &dyn Fn(&OsStr) -> bool,
    make: impl FnOnce(Values, Vec<OsString>) -> Result<Command, UsageError>,
) -> Result<Command, UsageError> {
    let may_be_a_copy = exists(OsStr::new(command));
    let matches = match matches(table, words.to_vec(), false) {
        Err(_) if may_be_a_copy => return Err(command_or_file(command)),
        matches => matches?,
    };
    if matches.get_flag("help") {
        return Ok(Command::Print(super::help::command(command)));
    }
    let operands = words_of(&matches, "operands");
    if may_be_a_copy {
        return Err(command_or_file(command).remedy("start it in another directory for the command"));
    }
    make(Values::new(table, matches), operands)
}

fn serve(words: &[OsString], exists: &dyn Fn(&OsStr) -> bool) -> Result<Command, UsageError> {
    let may_be_a_copy = exists(OsStr::new("serve"));
    let matches = match matches(SERVE, words.to_vec(), false) {
        Err(_) if may_be_a_copy => return Err(command_or_file("serve")),
        matches => matches?,
    };
    if matches.get_flag("help") {
        return Ok(Command::Print(super::help::serve()));
    }
    let directories = words_of(&matches, "operands");
    let is_standing = matches.contains_id("config");
    match &directories[..] {
        _ if may_be_a_copy => Err(command_or_file("serve").remedy("start it in another directory for the command")),
        [directory] if !is_standing => Ok(Command::Serve(Values::new(SERVE, matches), Some(directory.clone()))),
        [] if is_standing => Ok(Command::Serve(Values::new(SERVE, matches), None)),
        [directory, ..] if is_standing => {
            Err(UsageError::new(format!("{}: with --config, the directories are those in its file", shown(directory))))
        }
        [] => Err(UsageError::new("haul serve: say which directory").remedy("haul serve DIR      . is this one")),
        [.., last] => Err(UsageError::new(format!("{}: haul serve takes one directory", shown(last)))
            .remedy("or several in a file: haul serve --config FILE")),
    }
}

/// What a server tells its worker: `ACCESS RATE FIRST LAST DIRECTORY`, with 0 for no rate and for any port.
fn served(words: &[&str], directory: &OsStr) -> Option<Worker> {
    let [access, rate, first, last, _] = words else { return None };
    let (rate, first, last) = (rate.parse().ok()?, first.parse().ok()?, last.parse().ok()?);
    let terms = Terms {
        access: Access::from_word(access)?,
        rate: (rate > 0).then_some(rate),
        ports: (first > 0).then_some((first, last)),
    };
    Some(Worker::Served(terms, PathBuf::from(directory)))
}

fn worker(words: &[OsString], exists: &dyn Fn(&OsStr) -> bool) -> Result<Command, UsageError> {
    let last = words.last();
    let words: Vec<_> = words.iter().map(|word| word.to_str().unwrap_or_default()).collect();
    if let (["--served", rest @ ..], Some(last)) = (&words[..], last)
        && let Some(served) = served(rest, last)
    {
        return Ok(Command::Worker(served));
    }
    match words.as_slice() {
        ["--dial", host, port, directory] if port.parse::<u16>().is_ok() => Ok(Command::Worker(Worker::Dial {
            host: (*host).to_owned(),
            port: port.parse().unwrap_or_default(),
            directory: (*directory).to_owned(),
        })),
        [] => Ok(Command::Worker(Worker::Run)),
        ["--identify"] => Ok(Command::Worker(Worker::Identify)),
        ["--verify", hex] => Ok(Command::Worker(Worker::Verify((*hex).to_owned()))),
        _ if exists(OsStr::new("worker")) => Err(command_or_file("worker")),
        _ => Err(UsageError::new("haul worker is what haul starts at each end of a copy; it is not for people")),
    }
}

fn command_or_file(word: &str) -> UsageError {
    UsageError::new(format!("{word} is a command of haul, and a file here is called {word}"))
        .remedy(format!("write ./{word} for the file"))
}

fn one_operand(operand: &OsStr, exists: &dyn Fn(&OsStr) -> bool) -> UsageError {
    let text = operand.to_str().unwrap_or_default();
    if !exists(operand)
        && let Some(command) = nearest(text, COMMANDS).filter(|command| *command != "worker")
    {
        return UsageError::new(format!("{}: no command and no file of that name", shown(operand)))
            .remedy(format!("did you mean haul {command}?"));
    }
    UsageError::new(format!("{}: only one operand: say where it is to go", shown(operand)))
        .remedy(format!("haul {} TARGET      TARGET is a path, or [user@]host:path", shown(operand)))
}

fn help_on(topic: &OsStr) -> Result<String, UsageError> {
    match topic.as_bytes() {
        b"" => Ok(super::help::short()),
        b"all" => Ok(super::help::full()),
        _ => Err(UsageError::new(format!("--help {}: there is no help under that name", shown(topic)))
            .remedy("haul --help all")),
    }
}

fn shown(word: &OsStr) -> String {
    escape(word.as_bytes())
}

fn words_of(matches: &ArgMatches, id: &str) -> Vec<OsString> {
    matches.get_many::<OsString>(id).into_iter().flatten().cloned().collect()
}

fn matches(table: &'static [Row], words: Vec<OsString>, with_rest: bool) -> Result<ArgMatches, UsageError> {
    let mut command = clap::Command::new("haul")
        .no_binary_name(true)
        .disable_help_flag(true)
        .disable_version_flag(true)
        .args_override_self(true)
        .args(table.iter().map(argument))
        .arg(words_argument("operands"));
    if with_rest {
        command = command.arg(words_argument("rest").last(true).allow_hyphen_values(true));
    }
    command.try_get_matches_from(complete(table, words)).map_err(|error| explain(table, &error))
}

fn words_argument(id: &'static str) -> Arg {
    Arg::new(id).num_args(0..).action(ArgAction::Append).value_parser(clap::value_parser!(OsString))
}

fn argument(row: &Row) -> Arg {
    let mut arg = Arg::new(row.id);
    if row.long {
        arg = arg.long(row.id);
    }
    if let Some(letter) = row.letter {
        arg = arg.short(letter);
    }
    let words = clap::value_parser!(OsString);
    match row.takes {
        Takes::Nothing => arg.action(ArgAction::SetTrue),
        Takes::Repeats => arg.action(ArgAction::Count),
        Takes::One(name) | Takes::Word { name, .. } => arg.value_name(name).value_parser(words),
        Takes::Each(name) => arg.value_name(name).value_parser(words).action(ArgAction::Append),
        Takes::Place(name) => {
            arg.value_name(name).value_parser(words).num_args(0..=1).require_equals(true).default_missing_value("")
        }
        Takes::Perhaps(name) => arg.value_name(name).value_parser(words).num_args(0..=1).default_missing_value(""),
    }
}

/// clap's error in haul's words.
fn explain(table: &[Row], error: &clap::Error) -> UsageError {
    let context = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => escape(text.as_bytes()),
        _ => String::new(),
    };
    let word = context(ContextKind::InvalidArg);
    match error.kind() {
        ErrorKind::UnknownArgument => {
            let mut unknown = UsageError::new(format!("there is no option {word}"));
            let suggestion = context(ContextKind::SuggestedArg);
            if !suggestion.is_empty() {
                unknown = unknown.remedy(format!("did you mean {suggestion}?"));
            }
            unknown.remedy(format!("{HELP} lists them; a file of that name is written ./{word}"))
        }
        ErrorKind::TooManyValues => UsageError::new(format!("{word} takes no argument")),
        ErrorKind::InvalidValue | ErrorKind::TooFewValues | ErrorKind::WrongNumberOfValues => {
            let option = word.split(' ').next().unwrap_or_default();
            let row = table.iter().find(|row| row.typed() == option);
            UsageError::new(format!("{option} needs an argument")).remedy(match row {
                Some(row) => format!("{}: {}", super::help::signature(row).trim_start(), row.help),
                None => HELP.to_owned(),
            })
        }
        _ => UsageError::new(error.to_string().lines().next().unwrap_or_default().trim_start_matches("error: ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_words(words: &[&str]) -> Result<Command, UsageError> {
        parse(words.iter().map(OsString::from).collect(), &|name| name == "there")
    }

    fn error(words: &[&str]) -> String {
        parse_words(words).unwrap_err().to_string()
    }

    fn copy_of(words: &[&str]) -> (Values, Vec<OsString>) {
        match parse_words(words) {
            Ok(Command::Copy(values, operands)) => (values, operands),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn letters_cluster_and_options_may_follow_operands() {
        let (values, operands) = copy_of(&["-rfs4", "a", "-p", "b", "--", "-c"]);
        assert!(values.flag("recursive") && values.flag("force") && values.flag("preserve"));
        assert_eq!(values.last("streams"), Some(OsStr::new("4")));
        assert_eq!(operands, ["a", "b", "-c"]);
    }

    #[test]
    fn typed_twice_the_last_holds_and_repeatable_ones_add_up() {
        let (values, _) =
            copy_of(&["-r", "-r", "-s1", "--streams=2", "--ssh-option", "A=1", "--ssh-option=B=2", "-vv", "a", "b"]);
        assert!(values.flag("recursive"));
        assert_eq!(values.last("streams"), Some(OsStr::new("2")));
        assert_eq!(values.each("ssh-option"), ["A=1", "B=2"]);
        assert_eq!(values.count("verbose"), 2);
    }

    #[test]
    fn bbcp_letters_mean_what_they_mean_there() {
        let (values, _) = copy_of(&[
            "-k",
            "-A",
            "-P",
            "2",
            "-w",
            "1m",
            "-@",
            "follow",
            "-i",
            "key",
            "-S",
            "ssh %H haul",
            "-T",
            "t",
            "a",
            "b",
        ]);
        for (id, value) in [("progress", "2"), ("windowsz", "1m"), ("symlinks", "follow"), ("idfile", "key")] {
            assert_eq!(values.last(id), Some(OsStr::new(value)), "{id}");
        }
        assert!(values.flag("keep") && values.flag("mkdir") && !values.flag("preserve"));
        assert_eq!(values.last("source-command"), Some(OsStr::new("ssh %H haul")));
    }

    #[test]
    fn operands_may_be_any_bytes() {
        let odd = OsString::from(OsStr::from_bytes(b"\xff\n"));
        let command = parse(vec![odd.clone(), "b".into()], &|_| false);
        assert!(matches!(command, Ok(Command::Copy(_, operands)) if operands[0] == odd));
    }

    #[test]
    fn a_worker_is_one_even_where_a_file_has_that_name() {
        let parse = |words: &[&str]| parse(words.iter().map(OsString::from).collect(), &|_| true);
        assert!(matches!(parse(&["worker"]), Ok(Command::Worker(Worker::Run))));
        assert!(matches!(parse(&["worker", "--identify"]), Ok(Command::Worker(Worker::Identify))));
        assert!(
            matches!(parse(&["worker", "--verify", "ab"]), Ok(Command::Worker(Worker::Verify(hex))) if hex == "ab")
        );
        assert!(parse(&["worker", "host:"]).unwrap_err().to_string().contains("./worker"));
    }

    #[test]
    fn a_command_that_is_also_a_file_is_not_guessed_at() {
        let parse = |words: &[&str]| parse(words.iter().map(OsString::from).collect(), &|_| true);
        assert!(parse(&["demo", "host:"]).unwrap_err().to_string().contains("./demo"));
        assert!(parse(&["demo", "-r", "host:"]).unwrap_err().to_string().contains("./demo"));
        assert!(matches!(parse(&["demo", "--keep"]), Ok(Command::Demo(..))));
    }

    #[test]
    fn status_and_clean_take_paths() {
        let Ok(Command::Status(values, paths)) = parse_words(&["status", "a", "--append=/j", "b"]) else {
            panic!("no status");
        };
        assert_eq!((values.last("append"), paths), (Some(OsStr::new("/j")), vec!["a".into(), "b".into()]));
        assert!(matches!(parse_words(&["clean", "--json", "."]), Ok(Command::Clean(values, _)) if values.flag("json")));
        for command in ["status", "clean"] {
            assert!(error(&[command]).contains("PATH"));
            assert!(matches!(parse_words(&[command, "-h"]), Ok(Command::Print(_))));
            let parse = |words: &[&str]| parse(words.iter().map(OsString::from).collect(), &|_| true);
            assert!(parse(&[command, "host:"]).unwrap_err().to_string().contains(&format!("./{command}")));
            assert!(parse(&[command, "-r", "host:"]).unwrap_err().to_string().contains(&format!("./{command}")));
        }
    }

    #[test]
    fn verify_takes_operands_as_a_copy_does() {
        let Ok(Command::Verify(values, operands)) = parse_words(&["verify", "-rp", "a", "--json", "h:b"]) else {
            panic!("no comparison");
        };
        assert!(values.flag("recursive") && values.flag("preserve") && values.flag("json"));
        assert_eq!(operands, ["a", "h:b"]);
        assert!(error(&["verify", "a"]).contains("with what"));
        assert!(error(&["verify", "-f", "a", "b"]).contains("no option"), "it replaces nothing");
        assert!(matches!(parse_words(&["verify", "-h"]), Ok(Command::Print(_))));
        let parse = |words: &[&str]| parse(words.iter().map(OsString::from).collect(), &|_| true);
        for words in [&["verify", "a", "host:"][..], &["verify", "-f", "host:"]] {
            assert!(parse(words).unwrap_err().to_string().contains("./verify"));
        }
    }

    #[test]
    fn the_demo_takes_options_of_a_copy_after_two_dashes() {
        let Ok(Command::Demo(own, copy)) = parse_words(&["demo", "--size", "1m", "-s2", "--", "--no-encrypt", "-v"])
        else {
            panic!("not a demo");
        };
        assert_eq!(own.last("size"), Some(OsStr::new("1m")));
        assert!(copy.flag("no-encrypt"));
        assert_eq!(copy.count("verbose"), 1);
    }

    #[test]
    fn help_and_version() {
        let printed = |words: &[&str]| match parse_words(words) {
            Ok(Command::Print(text)) => text,
            other => panic!("{other:?}"),
        };
        assert_eq!(printed(&["-h"]), super::super::help::short());
        assert_eq!(printed(&["-r", "--help", "all"]), super::super::help::full());
        assert_eq!(printed(&["demo", "--help"]), super::super::help::demo());
        assert_eq!(printed(&["--version"]), concat!("haul ", env!("CARGO_PKG_VERSION"), "\n"));
    }

    #[test]
    fn errors_name_the_word_and_the_remedy() {
        insta::assert_snapshot!(
            [&[][..], &["a"], &["there"], &["dmeo"], &["--recusive", "a", "b"], &["-J", "a", "b"], &["-s"], &["-S"],
             &["a", "b", "--checksums"], &["--force=yes", "a", "b"], &["--help", "me"], &["demo", "a"], &["demo", "-r"],
             &["demo", "--", "a"], &["worker", "a"]]
                .map(|words| format!("$ haul {}\n{}", words.join(" "), error(words)))
                .join("\n\n"),
            @r#"
            $ haul 
            nothing to copy: say what, and where to
            haul SOURCE... TARGET      each a path, or [user@]host:path
            haul demo                  a copy on this machine, to see it work
            haul --help                the options

            $ haul a
            a: only one operand: say where it is to go
            haul a TARGET      TARGET is a path, or [user@]host:path

            $ haul there
            there: only one operand: say where it is to go
            haul there TARGET      TARGET is a path, or [user@]host:path

            $ haul dmeo
            dmeo: no command and no file of that name
            did you mean haul demo?

            $ haul --recusive a b
            there is no option --recusive
            did you mean --recursive?
            haul --help all lists them; a file of that name is written ./--recusive

            $ haul -J a b
            there is no option -J
            haul --help all lists them; a file of that name is written ./-J

            $ haul -s
            --streams needs an argument
            -s, --streams N: parallel streams, 1 to 256 (default: automatic)

            $ haul -S
            -S needs an argument
            -S COMMAND: starts haul at a remote source (see -T)

            $ haul a b --checksums
            --checksums needs an argument
            --checksums FILE: lines for b3sum --check (-: standard output)

            $ haul --force=yes a b
            --force takes no argument

            $ haul --help me
            --help me: there is no help under that name
            haul --help all

            $ haul demo a
            a: haul demo takes no operands: it makes its own data
            haul demo --help

            $ haul demo -r
            there is no option -r
            haul --help all lists them; a file of that name is written ./-r
            options of a copy follow --: haul demo --keep -- --no-encrypt

            $ haul demo -- a
            a: after -- haul demo takes options of a copy, and no operands

            $ haul worker a
            haul worker is what haul starts at each end of a copy; it is not for people
            "#
        );
    }
}
