//! bbcp's treatment of paths, modes and programs, where haul's own differs.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::time::Duration;

use haul_base::copy::location::{Host, Location};
use haul_base::copy::spec::{ListLine, PipeEnd, SourceList};
use haul_base::shell_word::quote_bytes;
use rustix::fs::Mode;

use crate::args::row::OptionRow;
use crate::args::values::Values;
use crate::args::{UsageError, contradiction, flags};
use crate::resolve::{Plan, contents};

/// The fixed umask of new files and directories: modes 644 and 755.
const UMASK: u32 = 0o022;

/// Options that bbcp refuses with `-N`.
const NOT_WITH_PIPES: &[&OptionRow] = &[
    &flags::JOURNAL_DIR.row,
    &flags::DIRBASE.row,
    &flags::TRUNCATE.row,
    &flags::RECURSIVE.row,
    &flags::UNBUFFERED.row,
];
/// Options that bbcp refuses if the target is a pipe.
const NOT_WITH_TARGET_PIPES: &[&OptionRow] = &[&flags::FORCE.row, &flags::MODE.row, &flags::PRESERVE.row];

/// Refuses pairs of options that bbcp refuses and haul allows.
pub fn refuse_contradictions(values: &Values) -> Result<(), UsageError> {
    let pipe = values.last(&flags::PIPE).map(OsStr::as_bytes);
    let target = pipe.filter(|ends| ends.contains(&b'o'));
    let beside_pipes = NOT_WITH_PIPES.iter().filter(|_| pipe.is_some());
    let mut refused = beside_pipes.chain(NOT_WITH_TARGET_PIPES.iter().filter(|_| target.is_some()));
    if let Some(other) = refused.find(|other| values.is_set(other)) {
        return Err(contradiction(&flags::PIPE, other));
    }
    let is_digest_used = values.last(&flags::CHECKSUM).is_some_and(|digest| digest.as_bytes().contains(&b'='));
    if is_digest_used && values.is_set(&flags::JOURNAL_DIR) {
        return Err(contradiction(&flags::JOURNAL_DIR, &flags::CHECKSUM));
    }
    Ok(())
}

/// The operands in haul's terms: the target `-` is a file.
pub fn operands(values: &Values, operands: &[OsString]) -> Vec<OsString> {
    let mut operands = operands.to_vec();
    let is_program = values.last(&flags::PIPE).is_some_and(|ends| ends.as_bytes().contains(&b'o'));
    if let Some(target) = operands.last_mut().filter(|target| *target == "-" && !is_program) {
        *target = "./-".into();
    }
    operands
}

/// Refuses a list without sources.
pub fn refuse_empty_list(list: Option<&SourceList>) -> Result<(), UsageError> {
    match list.map(|list| (list.open)().next(Duration::ZERO)) {
        Some(ListLine::End(None)) => Err(UsageError::new("no source given")),
        _ => Ok(()),
    }
}

/// Changes a plan to bbcp's behaviour.
pub fn adopt(plan: &mut Plan) {
    rustix::process::umask(Mode::from_raw_mode(UMASK));
    let job = &mut plan.copy;
    if job.target.path == Path::new("./-") {
        job.target.path = "-".into();
    }
    if job.options.pipes.source.is_none() && job.options.pipes.target.is_none() && job.options.source.recursive {
        job.options.target.directory.must_exist = true;
        let is_remote = |source: &Location| source.host != Host::Local;
        let sources = std::mem::take(&mut job.sources).into_iter();
        // `HOST:DIR/` means the contents of DIR.
        job.sources = sources.map(|source| if is_remote(&source) { contents(source) } else { source }).collect();
    }
    if let (Some(PipeEnd::Named), None) = (&job.options.pipes.source, &job.options.pipes.target)
        && let Some(name) = job.sources.first().and_then(|source| program_name(&source.path))
        && job.target.host == Host::Local
        && job.target.path.is_dir()
    {
        job.target.path.push(name);
    }
    for (end, place) in
        [(&job.options.pipes.source, job.sources.first_mut()), (&job.options.pipes.target, Some(&mut job.target))]
    {
        if let (Some(PipeEnd::Named), Some(place)) = (end, place) {
            place.path = without_shell(place.path.as_os_str()).into();
        }
    }
    if let Some(checksum) = job.options.integrity.checksum.as_mut().filter(|_| job.options.target.delta.in_place) {
        // A file updated in place is not read from beginning to end; the source's is.
        checksum.at_source = true;
    }
}

/// The name of a program: bbcp gives its output this name in a directory.
fn program_name(line: &Path) -> Option<OsString> {
    let word = line.as_os_str().as_bytes().split(|byte| *byte == b' ').find(|word| !word.is_empty())?;
    Path::new(OsStr::from_bytes(word)).file_name().map(OsStr::to_owned)
}

/// Quotes a program's words, since bbcp has no shell expand them. A single word may also be a FIFO.
fn without_shell(program: &OsStr) -> OsString {
    let words: Vec<_> = program.as_bytes().split(|byte| *byte == b' ').filter(|word| !word.is_empty()).collect();
    if words.len() < 2 {
        return program.to_owned();
    }
    let mut line = b"exec".to_vec();
    for word in words {
        line.push(b' ');
        line.extend(quote_bytes(OsStr::from_bytes(word)).into_vec());
    }
    OsString::from_vec(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_a_program_are_no_shells() {
        let line = |program: &str| without_shell(OsStr::new(program)).into_string().unwrap();
        assert_eq!(line("cat > it's"), r"exec 'cat' '>' 'it'\''s'");
        assert_eq!([line("fifo"), line(" tar  -c")], ["fifo", "exec 'tar' '-c'"]);
    }
}
