//! From words to a command: a copy, another command, or help.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use haul_base::copy::location::{Host, Location};
use haul_base::shell_word::quote;
use haul_control::operand::{host_prefix, parse_operand};
use haul_proto::path::escape;

use super::flags::{self, COPY};
use super::job::JobWords;
use super::letters::is_option;
use super::local_files::LocalFiles;
use super::operands::{
    refuse_dash, refuse_local_file_with_colon, refuse_missing_hosts, refuse_quoted_home, refuse_wide_deletion,
};
use super::row::OptionRow;
use super::scan::{Grammar, Scanned, scan, takes_next};
use super::values::Values;
use super::worker_task::{WorkerTask, worker_task};
use super::{Dialect, UsageError, commands, completions, habits, help, manual, shared, version};

/// A parsed command line.
#[derive(Debug)]
pub enum Command {
    /// Copy files.
    Copy(Values, Vec<OsString>),
    /// `haul sync`: make the target match the sources.
    Sync(Values, Vec<OsString>),
    /// `haul twoway`: its own options, those of a copy, and two roots or the name of a pair.
    Twoway(Values, Values, Vec<OsString>),
    /// `haul verify`: compare sources and target.
    Verify(Values, Vec<OsString>),
    /// `haul probe`: its own options, those of the copy, and a target, or a source and a target.
    Probe(Values, Values, Vec<OsString>),
    /// `haul net`: whether the host is the source, the options of the copy, and the host.
    Net(bool, Values, OsString),
    /// `haul read`: its own options, those of the copy, and the file.
    Read(Values, Values, OsString),
    /// `haul ls`, `haul du`, `haul mkdir`, `haul rm`, `haul status` or `haul clean`: its own options, those of the copy, and paths.
    Files(FileCommand, Values, Values, Vec<OsString>),
    /// `haul sweep`: measure the same copy with many settings.
    Sweep(Values, Vec<OsString>),
    /// `haul job`: a step of a job over many hosts.
    Job(JobWords),
    /// `haul report`: records of copies.
    Report(Values, Vec<OsString>),
    /// `haul survey`: paths to examine.
    Survey(Values, Vec<OsString>),
    /// `haul demo`: its own options, and those of the copy.
    Demo(Values, Values),
    /// `haul copies`: its options, and an action with the name of a detached copy.
    Copies(Values, Option<(CopiesAction, OsString)>),
    /// `haul jobs`: the jobs and detached copies of this user.
    Jobs(Values),
    /// `haul serve`: the directory or `-`; `None` with `--pipe` or a file of directories.
    Serve(Values, Option<OsString>),
    /// `haul config`: options of a copy, whether to print JSON, and the host.
    Config(Values, Values, Option<OsString>),
    /// `haul worker`: started by a controller only.
    Worker(WorkerTask),
    /// `haul --version --verbose`: the version, and this CPU's speed of encryption and hashing.
    Version,
    /// `haul --license all`: the licences of linked libraries.
    Notices,
    /// `haul completions paths`: for the completions of shells, a path on a host that has been begun.
    CompletePaths(OsString),
    /// Print this text.
    Print(String),
}

/// An action of `haul copies` on one of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopiesAction {
    /// Follows it to its end.
    Attach,
    /// Prints its log.
    Log,
    /// Stops it.
    Cancel,
    /// Starts it again.
    Rerun,
    /// Is that copy: only `--detach` and `rerun` use it.
    Run,
}

impl CopiesAction {
    /// The actions on one copy with their words.
    const WORDS: [(&str, Self); 5] = [
        ("attach", Self::Attach),
        ("log", Self::Log),
        ("cancel", Self::Cancel),
        ("rerun", Self::Rerun),
        ("run", Self::Run),
    ];
}

/// What to do with files of hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileCommand {
    /// List.
    Ls,
    /// Sum up.
    Du,
    /// Make directories.
    Mkdir,
    /// Remove.
    Rm,
    /// List partial files.
    Status,
    /// Remove partial files.
    Clean,
}

impl FileCommand {
    /// Whether it is about partial files of interrupted copies.
    pub fn is_about_partials(self) -> bool {
        matches!(self, Self::Status | Self::Clean)
    }
}

/// Parses the words after the program's name.
pub fn parse(dialect: Dialect, words: Vec<OsString>, files: &dyn LocalFiles) -> Result<Command, UsageError> {
    if dialect == Dialect::Bbcp {
        return match worker_task(&words) {
            Some(worker) => Ok(Command::Worker(worker)),
            None => copy(dialect, words, files),
        };
    }
    let words = command_first(words);
    match words.first().and_then(|word| word.to_str()) {
        Some("worker") => worker(&words),
        Some("demo") => demo(&words[1..], files),
        Some("help") => about(&words[1..]),
        Some("serve") => serve(&words[1..], files),
        Some("config") => config(&words[1..], files),
        Some("probe") => probe(&words[1..], files),
        Some("net") => net(&words[1..], files),
        Some("read") => read(&words[1..], files),
        Some("ls") => of_files(FileCommand::Ls, flags::files::ls::ALL, &words, files),
        Some("du") => of_files(FileCommand::Du, flags::files::du::ALL, &words, files),
        Some("mkdir") => of_files(FileCommand::Mkdir, flags::files::mkdir::ALL, &words, files),
        Some("rm") => of_files(FileCommand::Rm, flags::files::rm::ALL, &words, files),
        Some("verify") => verify(&words[1..], files),
        Some("report") => report(&words[1..], files),
        Some("survey") => survey(&words[1..], files),
        Some("sweep") => sweep(&words[1..], files),
        Some("sync") => sync(&words[1..], files),
        Some("twoway") => twoway(&words[1..], files),
        Some("job") => job(&words[1..], files),
        Some("copies") => copies(&words[1..], files),
        Some("jobs") => jobs(&words[1..], files),
        Some("status") => of_files(FileCommand::Status, flags::partials::ALL, &words, files),
        Some("clean") => of_files(FileCommand::Clean, flags::partials::ALL, &words, files),
        Some("bbftp") if !files.exists("bbftp".as_ref()) => Err(habits::of_bbftp()),
        // Without options before it, the whole line is that program's.
        Some(word @ ("rsync" | "scp" | "bbcp")) => {
            Err(UsageError::new(format!("options of {word} come after its name"))
                .remedy(format!("haul {word} OPTIONS ...")))
        }
        Some("completions") if words.len() == 3 && words[1] == "paths" => Ok(Command::CompletePaths(words[2].clone())),
        Some(word @ ("completions" | "man" | "version")) => prints(word, &words[1..]),
        _ => copy(dialect, words, files),
    }
}

/// Moves a command behind options to the front: `-v sync a b` is `sync -v a b`. A file of its name is `./sync`.
fn command_first(mut words: Vec<OsString>) -> Vec<OsString> {
    let mut at = 0;
    while let Some(word) = words.get(at).filter(|word| is_option(word) && *word != "--") {
        at += if takes_next(COPY, word) { 2 } else { 1 };
    }
    if words.get(at).is_some_and(|word| commands::names().iter().any(|name| word == name)) {
        words[..=at].rotate_right(1);
    }
    words
}

fn copy(dialect: Dialect, words: Vec<OsString>, files: &dyn LocalFiles) -> Result<Command, UsageError> {
    let Scanned { values, operands, .. } =
        scan(COPY, words, Grammar { dialect, operands: 2, has_rest: false, files, command: "" })?;
    if let Some(topic) = values.last(&flags::HELP) {
        return help::on(dialect, topic).map(Command::Print);
    }
    if values.is_set(&flags::VERSION) && values.count(&flags::VERBOSE) > 0 {
        return Ok(Command::Version);
    }
    if values.is_set(&flags::VERSION) {
        return Ok(Command::Print(version::VERSION.to_owned()));
    }
    if values.is_set(&flags::LICENSE) {
        let is_all = operands.len() == 1 && operands[0] == "all";
        return Ok(if is_all { Command::Notices } else { Command::Print(version::LICENSE.to_owned()) });
    }
    refuse_unavailable(&values)?;
    let names_files = dialect == Dialect::Haul && values.first_of(&[&flags::DIRBASE, &flags::PIPE]).is_none();
    let is_listed = values.first_of(&[&flags::INFILES, &flags::PAIRS, &flags::TO]).is_some();
    if names_files
        && !is_listed
        && (operands.len() > 1 || habits::taken_operand(&values, files).is_none())
        && let Some(error) = unknown_command(&values, &operands, files)
    {
        return Err(error);
    }
    if let [only] = operands.as_slice()
        && !is_listed
    {
        return Err(one_operand(dialect, only, &values, files));
    }
    refuse_local_files_with_colons(&values, &operands, files)?;
    if values.is_set(&flags::PAIRS) {
        return match operands.first() {
            None => Ok(Command::Copy(values, operands)),
            Some(operand) => Err(UsageError::new(format!("{}: --pairs names all sources and targets", shown(operand)))),
        };
    }
    if values.is_set(&flags::TO) {
        refuse_local_files_with_colons(&values, &values.all(&flags::TO)?.concat(), files)?;
        return match operands.is_empty() && !values.is_set(&flags::INFILES) {
            true => Err(UsageError::new("no source given").remedy("haul SOURCE... --to TARGET,TARGET")),
            false => Ok(Command::Copy(values, operands)),
        };
    }
    if operands.is_empty() {
        let program = dialect.program();
        let error = UsageError::new("no source and no target given")
            .remedy(format!("{program} SOURCE... TARGET copies; each is a path or [user@]host:path"));
        return Err(match dialect {
            Dialect::Haul => error
                .remedy("haul demo copies generated data on this machine")
                .remedy("haul --help lists commands and options"),
            Dialect::Bbcp => error.remedy("bbcp -h lists the options"),
        });
    }
    Ok(Command::Copy(values, operands))
}

fn refuse_unavailable(values: &Values) -> Result<(), UsageError> {
    let known = values.given().iter().find_map(|(row, _)| Some((row, row.refusal?)));
    known.map_or(Ok(()), |(row, why)| Err(refused(row, why)))
}

/// Only a copy has several targets.
fn refuse_several_targets(values: &Values) -> Result<(), UsageError> {
    let [pairs, to] = [&flags::PAIRS.row, &flags::TO.row];
    match values.first_of(&[pairs, to]) {
        Some(row) if row.is(pairs) => Err(UsageError::new("--pairs is for copies alone").remedy("haul --pairs FILE")),
        Some(_) => Err(UsageError::new("--to is for copies alone")
            .remedy("haul -a -f --delete SOURCE/. --to TARGET,... makes several targets match")),
        None => Ok(()),
    }
}

/// The error for an unsupported option.
pub fn refused(row: &OptionRow, why: &str) -> UsageError {
    let mut lines = why.lines();
    let error = UsageError::new(format!("{}: {}", row.typed(), lines.next().unwrap_or_default()));
    lines.fold(error, UsageError::remedy)
}

fn demo(words: &[OsString], files: &dyn LocalFiles) -> Result<Command, UsageError> {
    let grammar = Grammar { dialect: Dialect::Haul, operands: 0, has_rest: true, files, command: "demo" };
    let own = scan(flags::demo::ALL, words.to_vec(), grammar)
        .map_err(|error| error.remedy("copy options follow --, as in haul demo --keep -- --no-encrypt"))?;
    if let Some(operand) = own.operands.first() {
        let error = UsageError::new(format!("{}: haul demo takes no source and no target", shown(operand)));
        return Err(error.remedy("haul demo --help"));
    }
    if own.values.is_set(&flags::HELP) {
        return Ok(Command::Print(help::demo()));
    }
    let copy = scan(COPY, own.rest, Grammar { has_rest: false, command: "", ..grammar })?;
    if let Some(operand) = copy.operands.first() {
        return Err(UsageError::new(format!("{}: haul demo takes only copy options after --", shown(operand))));
    }
    Ok(Command::Demo(own.values, copy.values))
}

/// `haul sync` takes sources and a target, and all options of a copy.
fn sync(words: &[OsString], files: &dyn LocalFiles) -> Result<Command, UsageError> {
    with_operands("sync", words, files, |values, operands| {
        refuse_unavailable(&values)?;
        refuse_several_targets(&values)?;
        match operands.len() {
            0 | 1 if operands.is_empty() || !values.is_set(&flags::INFILES) => {
                Err(habits::too_few_for_sync(habits::taken_operand(&values, files)))
            }
            _ => {
                refuse_local_files_with_colons(&values, &operands, files)?;
                Ok(Command::Sync(values, operands))
            }
        }
    })
}

/// `haul twoway` takes two roots, or the name of a pair in a configuration file.
fn twoway(words: &[OsString], files: &dyn LocalFiles) -> Result<Command, UsageError> {
    with_operands("twoway", words, files, |values, roots| match roots.len() {
        1 | 2 => {
            refuse_unavailable(&values)?;
            refuse_local_files_with_colons(&values, &roots, files)?;
            roots.iter().try_for_each(|root| refuse_wide_deletion("haul twoway", root))?;
            let (own, copy) = shared::split(&values, flags::twoway::ALL);
            Ok(Command::Twoway(own, copy, roots))
        }
        _ => Err(UsageError::new("haul twoway needs two directories, or the name of a pair in a configuration file")
            .remedy("haul twoway ~/photos db1:photos")
            .remedy("haul twoway --plan A B shows what would happen")),
    })
}

/// `haul verify` takes sources and a target.
fn verify(words: &[OsString], files: &dyn LocalFiles) -> Result<Command, UsageError> {
    with_operands("verify", words, files, |values, operands| match operands.len() {
        0 | 1 if operands.is_empty() || !values.is_set(&flags::INFILES) => {
            Err(UsageError::new("haul verify needs a source and a target")
                .remedy("haul verify SOURCE... TARGET, with the arguments of the copy"))
        }
        _ => {
            refuse_unavailable(&values)?;
            refuse_local_files_with_colons(&values, &operands, files)?;
            Ok(Command::Verify(values, operands))
        }
    })
}

/// `haul probe` takes a target, or a source and a target.
fn probe(words: &[OsString], files: &dyn LocalFiles) -> Result<Command, UsageError> {
    with_operands("probe", words, files, |values, operands| match operands.len() {
        1 | 2 => {
            refuse_local_files_with_colons(&values, &operands, files)?;
            let (own, copy) = shared::split(&values, flags::probe::ALL);
            Ok(Command::Probe(own, copy, operands))
        }
        _ => Err(UsageError::new("haul probe needs a target, or a source and a target")
            .remedy("haul probe db1:/archive measures everything but reading")
            .remedy("haul probe run7 db1:/archive measures reading run7 as well")),
    })
}

/// `haul net` takes a host.
fn net(words: &[OsString], files: &dyn LocalFiles) -> Result<Command, UsageError> {
    if let Some(error) = habits::of_iperf(words) {
        return Err(error);
    }
    with_operands("net", words, files, |values, mut operands| match (operands.pop(), operands.len()) {
        (Some(other), 1..) => Err(UsageError::new(format!("{}: haul net takes one host", shown(&other)))
            .remedy("--duration TIME measures for TIME: 10, 1m")),
        (Some(host), 0) => {
            let (own, copy) = shared::split(&values, flags::net::ALL);
            Ok(Command::Net(own.is_set(&flags::net::REVERSE), copy, host))
        }
        _ => Err(UsageError::new("haul net needs a host")
            .remedy("haul net db1 sends to db1 for ten seconds")
            .remedy("haul net --reverse db1 lets db1 send")),
    })
}

/// `haul read` takes a file.
fn read(words: &[OsString], files: &dyn LocalFiles) -> Result<Command, UsageError> {
    with_operands("read", words, files, |values, mut operands| {
        refuse_local_files_with_colons(&values, &operands, files)?;
        match (operands.pop(), operands.len()) {
            (Some(place), 0) => {
                let (own, copy) = shared::split(&values, flags::read::ALL);
                Ok(Command::Read(own, copy, place))
            }
            _ => Err(UsageError::new("haul read needs one file").remedy("haul read db1:/archive/a prints it")),
        }
    })
}

/// Commands on files of hosts take paths. `words` begin with the command.
fn of_files(
    what: FileCommand,
    own: &'static [OptionRow],
    words: &[OsString],
    files: &dyn LocalFiles,
) -> Result<Command, UsageError> {
    let command = words[0].to_string_lossy();
    with_operands(&command, &words[1..], files, |values, places| {
        refuse_local_files_with_colons(&values, &places, files)?;
        if places.is_empty() {
            let example = || format!("haul {command} db1:/archive/run7, or a path of this machine");
            let error = UsageError::new(format!("haul {command} needs a path"));
            return Err(error.remedy(habits::taken_operand(&values, files).unwrap_or_else(example)));
        }
        let (own, copy) = shared::split(&values, own);
        Ok(Command::Files(what, own, copy, places))
    })
}

/// `haul report` takes records of copies.
fn report(words: &[OsString], files: &dyn LocalFiles) -> Result<Command, UsageError> {
    with_operands("report", words, files, |values, files| match files.is_empty() {
        true => Err(UsageError::new("haul report needs what haul --json printed of a copy")
            .remedy("haul --json SOURCE TARGET > a.json; haul report a.json b.json")),
        false => Ok(Command::Report(values, files)),
    })
}

/// `haul survey` takes paths.
fn survey(words: &[OsString], files: &dyn LocalFiles) -> Result<Command, UsageError> {
    with_operands("survey", words, files, |values, paths| match paths.is_empty() {
        true => Err(UsageError::new("haul survey needs a path").remedy("haul survey . surveys this directory")),
        false => refuse_unavailable(&values).map(|()| Command::Survey(values, paths)),
    })
}

/// `haul sweep` takes sources and a target.
fn sweep(words: &[OsString], files: &dyn LocalFiles) -> Result<Command, UsageError> {
    with_operands("sweep", words, files, |values, operands| match operands.len() {
        0 | 1 => Err(UsageError::new("haul sweep needs a source and a target")
            .remedy("haul sweep null:1g db1:null: measures memory to memory, without disks")
            .remedy("haul sweep SOURCE... TARGET deletes each copy after its run")),
        _ => {
            refuse_several_targets(&values)?;
            refuse_local_files_with_colons(&values, &operands, files)?;
            Ok(Command::Sweep(values, operands))
        }
    })
}

/// `haul job STEP` takes the operands of that step.
fn job(words: &[OsString], files: &dyn LocalFiles) -> Result<Command, UsageError> {
    match super::job::parse(words, files)? {
        None => Ok(Command::Print(help::command("job"))),
        Some(words) => {
            refuse_unavailable(&words.values)?;
            refuse_local_files_with_colons(&words.values, &words.operands, files)?;
            Ok(Command::Job(words))
        }
    }
}

/// `haul config` takes a host, and options of a copy.
fn config(words: &[OsString], files: &dyn LocalFiles) -> Result<Command, UsageError> {
    with_operands("config", words, files, |values, mut operands| match operands.len() {
        0 | 1 => {
            let (own, copy) = shared::split(&values, flags::config::ALL);
            Ok(Command::Config(own, copy, operands.pop()))
        }
        _ => Err(UsageError::new("haul config takes at most one host").remedy("haul config [OPTIONS] [HOST]")),
    })
}

/// The host of a command, without a user.
pub fn command_host(word: &OsStr) -> Result<String, UsageError> {
    let bytes = word.as_bytes();
    let name = bytes.strip_suffix(b":").unwrap_or(bytes);
    let is_path = matches!(parse_operand(OsStr::from_bytes(name)), Ok(Location { host: Host::Remote { .. }, .. }));
    match parse_operand(OsStr::from_bytes(&[name, b":"].concat()))?.host {
        Host::Remote { name, .. } | Host::Served { name, .. } if !is_path => Ok(name),
        _ => Err(UsageError::new(format!("{}: not a host", shown(word)))
            .remedy("write it as before the colon of a remote path: haul config db1")
            .remedy("for a file or directory called config, write ./config")),
    }
}

/// `haul copies` takes an action and the name of a copy.
fn copies(words: &[OsString], files: &dyn LocalFiles) -> Result<Command, UsageError> {
    with_operands("copies", words, files, |values, mut operands| {
        let usage = |text: String| UsageError::new(text).remedy("haul copies [attach|log|cancel|rerun NAME]");
        let Some(word) = operands.first() else { return Ok(Command::Copies(values, None)) };
        let Some((known, action)) = CopiesAction::WORDS.iter().find(|(known, _)| word == known) else {
            return Err(usage(format!("haul copies {}: unknown action", shown(word))));
        };
        match (operands.len(), operands.pop()) {
            (2, Some(name)) => Ok(Command::Copies(values, Some((*action, name)))),
            _ => Err(usage(format!("haul copies {known} takes the name of one copy"))),
        }
    })
}

/// `haul jobs` takes nothing.
fn jobs(words: &[OsString], files: &dyn LocalFiles) -> Result<Command, UsageError> {
    with_operands("jobs", words, files, |values, operands| match operands.first() {
        None => Ok(Command::Jobs(values)),
        Some(other) => Err(UsageError::new(format!("haul jobs takes no argument: {}", shown(other)))
            .remedy("haul job status JOB shows a job, haul copies attach NAME a detached copy")),
    })
}

/// A command with operands.
fn with_operands(
    command: &str,
    words: &[OsString],
    files: &dyn LocalFiles,
    make: impl FnOnce(Values, Vec<OsString>) -> Result<Command, UsageError>,
) -> Result<Command, UsageError> {
    // With one operand, an optional argument never takes a possible source.
    let operands = if command == "sync" { 2 } else { 1 };
    let grammar = Grammar { dialect: Dialect::Haul, operands, has_rest: false, files, command };
    let Scanned { values, operands, .. } = scan(commands::options(command), words.to_vec(), grammar)?;
    if values.is_set(&flags::HELP) {
        return Ok(Command::Print(help::command(command)));
    }
    make(values, operands)
}

/// `haul help`, `haul help WHAT`.
fn about(words: &[OsString]) -> Result<Command, UsageError> {
    match words {
        [] => Ok(Command::Print(help::short())),
        [what] => help::on(Dialect::Haul, what).map(Command::Print),
        _ => Err(UsageError::new("haul help takes one option, command or topic").remedy("haul help streams")),
    }
}

/// `haul completions`, `haul man` and `haul version` print text and take no paths.
fn prints(command: &str, words: &[OsString]) -> Result<Command, UsageError> {
    let words: Vec<_> = words.iter().map(|word| shown(word)).collect();
    let words: Vec<_> = words.iter().map(String::as_str).collect();
    let text = match (command, words.as_slice()) {
        (_, ["-h" | "--help"]) => Some(help::command(command)),
        ("man", []) => Some(manual::page()),
        ("man", [command]) => manual::command_page(command, &help::command(command)),
        ("version", []) => Some(version::VERSION.to_owned()),
        ("version", ["-v" | "--verbose"]) => return Ok(Command::Version),
        ("completions", [shell]) => completions::script(shell),
        _ => None,
    };
    match (text, words.last()) {
        (Some(text), _) => Ok(Command::Print(text)),
        (None, None) => {
            Err(UsageError::new("haul completions needs the name of a shell")
                .remedy("haul completions bash, zsh or fish"))
        }
        (None, Some(last)) if command == "completions" => {
            Err(UsageError::new(format!("haul completions {last}: must be one of bash, zsh and fish")))
        }
        (None, Some(last)) => Err(UsageError::new(format!("{last}: haul {command} takes no such argument"))
            .remedy(format!("haul {command} --help"))),
    }
}

/// `haul serve` takes one directory, or a file of several.
fn serve(words: &[OsString], files: &dyn LocalFiles) -> Result<Command, UsageError> {
    with_operands("serve", words, files, |values, directories| {
        let is_standing = values.is_set(&flags::serve::CONFIG);
        if values.is_set(&flags::serve::NEW_KEY) && directories.is_empty() {
            return Ok(Command::Serve(values, None));
        }
        let has_pipe = values.is_set(&flags::serve::PIPE);
        if let Some(other) = directories.first().map(|one| shown(one)).or(is_standing.then(|| "--config".into()))
            && has_pipe
        {
            return Err(UsageError::new(format!("{other} and --pipe contradict each other"))
                .remedy("serve a directory or a program"));
        }
        match &directories[..] {
            [] if has_pipe => Ok(Command::Serve(values, None)),
            [directory] if !is_standing => Ok(Command::Serve(values, Some(directory.clone()))),
            [] if is_standing => Ok(Command::Serve(values, None)),
            [directory, ..] if is_standing => Err(UsageError::new(format!(
                "{}: haul serve --config FILE takes no directory: FILE names them",
                shown(directory)
            ))),
            [] => Err(UsageError::new("haul serve needs a directory").remedy("haul serve . serves this directory")),
            [.., last] => Err(UsageError::new(format!("{}: haul serve takes one directory", shown(last)))
                .remedy("for several, list them in a file: haul serve --config FILE")),
        }
    })
}

fn worker(words: &[OsString]) -> Result<Command, UsageError> {
    let internal = || UsageError::new("haul worker is internal: haul starts it at each end of a copy");
    worker_task(words).map(Command::Worker).ok_or_else(internal)
}

fn one_operand(dialect: Dialect, operand: &OsStr, values: &Values, files: &dyn LocalFiles) -> UsageError {
    let error = UsageError::new(format!("no target given for {}", shown(operand)));
    match habits::taken_operand(values, files).filter(|_| dialect == Dialect::Haul) {
        Some(taken) => error.remedy(taken),
        None => error
            .remedy(format!(
                "{} {} TARGET, where TARGET is a path or [user@]host:path",
                dialect.program(),
                shown(operand)
            ))
            .remedies((dialect == Dialect::Haul && !host_prefix(operand).is_empty()).then(|| {
                let word = quote(&shown(operand));
                format!("for a pipe: haul {word} - prints a file, haul - {word} writes standard input there")
            })),
    }
}

/// Refuses a first word that is no file, and that people take for a command, before any login.
fn unknown_command(values: &Values, operands: &[OsString], files: &dyn LocalFiles) -> Option<UsageError> {
    let first = operands.first()?;
    let is_of_a_word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let typed = first.to_str()?;
    let lower = typed.to_ascii_lowercase();
    if lower != typed && !files.exists(first) && commands::names().contains(&lower.as_str()) {
        return Some(
            UsageError::new(format!("no command is called {typed}")).remedy(format!("did you mean: haul {lower}")),
        );
    }
    let text = Some(typed).filter(|text| text.chars().all(is_of_a_word))?;
    if files.exists(first) || !text.contains(|c: char| c.is_ascii_lowercase()) {
        return None;
    }
    let error = UsageError::new(format!("no command or file is called {text}"));
    let instead = habits::meant_by_command(text, &operands[1..], !values.given().is_empty());
    let host = files.is_known_host(first).then(|| format!("for the host of that name, write {text}:"));
    let near = || commands::near(text).map(|command| format!("did you mean: haul {command}"));
    // A missing source is reported as any other, unless the next word is the source.
    let is_command =
        matches!(operands, [_] | [_, _, _, ..]) && operands[1..].first().is_none_or(|next| files.exists(next));
    let list = || is_command.then(|| "haul --help lists the commands".to_owned());
    host.or(instead).or_else(near).or_else(list).map(|hint| error.remedy(hint))
}

/// Sources below a base are not in this directory, and programs are not files.
fn refuse_local_files_with_colons(
    values: &Values,
    operands: &[OsString],
    files: &dyn LocalFiles,
) -> Result<(), UsageError> {
    let are_others = values.first_of(&[&flags::DIRBASE, &flags::PIPE]).is_some();
    match values.dialect() == Dialect::Bbcp || are_others {
        true => Ok(()),
        false => {
            refuse_missing_hosts(operands, files)?;
            operands.iter().try_for_each(|operand| {
                refuse_local_file_with_colon(operand, files)?;
                refuse_dash(operand, files)?;
                refuse_quoted_home(operand, files)
            })
        }
    }
}

fn shown(word: &OsStr) -> String {
    escape(word.as_bytes())
}

#[cfg(test)]
#[path = "parse_tests.rs"]
mod tests;
