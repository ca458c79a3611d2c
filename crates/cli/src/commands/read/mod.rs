//! `haul read`: prints a file or a part of it, or answers a program's requests to open and read files.

mod lines;

use std::ffi::{OsStr, OsString};
use std::io::{self, BufRead, Read, Write};
use std::os::unix::ffi::OsStrExt;

use haul_base::copy::error::Error;
use haul_base::copy::rate::RateHandle;
use haul_base::sys::cancel::Cancel;
use haul_control::controller::file_session::{FileNumber, FileSession, FileSessionError};
use haul_proto::limits::FILE_READ_MAX;
use haul_proto::path::escape;
use haul_proto::wire::file_session::SessionRights;
use haul_show::exit::Exit;
use haul_show::lost_output::stdout;
use haul_show::{self as show};

use self::lines::{LINE_MAX, SessionAnswer, SessionRequest};
use crate::args::values::Values;
use crate::args::{UsageError, flags};
use crate::commands::own_program::own_program;
use crate::commands::session_place::{Warnings, operands};
use crate::resolve::plan;
use crate::signals::Watch;

/// Reads from `place`.
pub fn run(own: &Values, copy: &Values, place: &OsString) -> anyhow::Result<Exit> {
    let mut copy = plan(copy, &operands(std::slice::from_ref(place)), false)?.copy;
    if copy.options.pipes.source.is_some() {
        return Err(UsageError::new("haul read reads files, and no pipe").into());
    }
    let range = own.get(&flags::read::RANGE)?;
    let is_session = own.is_set(&flags::read::SESSION);
    if is_session && range.is_some() {
        return Err(UsageError::new("--session and --range contradict each other").into());
    }
    copy.access.ssh_carries_data = range.is_none_or(|(_, length)| length > u64::from(FILE_READ_MAX));
    let changes = own.is_set(&flags::read::CHANGES);
    if changes && !is_session {
        return Err(UsageError::new("--changes needs --session").remedy("haul mkdir and haul rm change files").into());
    }
    let rights = if changes { SessionRights::ChangeNames } else { SessionRights::Read };
    // A program names its files.
    copy.options.source.patterns &= !is_session;
    let cancel = Cancel::new();
    let watch = Watch::start(cancel.clone(), RateHandle::new(), None)?;
    let outcome = watch.during(|| {
        let program = own_program();
        let mut session = FileSession::open(&mut copy, rights, &program, &cancel, &mut Warnings)?;
        match &copy.sources[..] {
            _ if is_session => serve(&mut session, &mut io::stdin().lock(), &mut stdout()),
            [source] => print(&mut session, &source.path, range.unwrap_or((0, u64::MAX)), &mut stdout()),
            several => Err(ReadError::Request(several_files(place, several.len()))),
        }
    });
    let Err(error) = outcome else { return Ok(Exit::Done) };
    let (text, exit) = match error {
        ReadError::Session(FileSessionError::Operation { text, .. }) => {
            let path = copy.sources.first().map(|source| escape(source.path.as_os_str().as_bytes()));
            (format!("{}: {text}", path.unwrap_or_default()), Exit::Failed)
        }
        ReadError::Session(FileSessionError::Over(error)) => (error.to_string(), Exit::of(&Err(error))),
        // The reader has enough, or standard output reports it.
        ReadError::Output => return Ok(Exit::Done),
        ReadError::Request(error) => (error.to_string(), Exit::Usage),
    };
    show::stderr().error(&text);
    Ok(exit)
}

fn several_files(place: &OsStr, count: usize) -> UsageError {
    UsageError::new(format!("{}: matches {count} files, but haul read reads one", escape(place.as_bytes())))
        .remedy("name one of them, or copy them with haul")
}

/// Why reading ended early.
enum ReadError {
    Session(FileSessionError),
    /// Standard output cannot be written.
    Output,
    /// Standard input is unreadable, a line of it is no request, or a pattern matches several files.
    Request(UsageError),
}

impl From<FileSessionError> for ReadError {
    fn from(error: FileSessionError) -> Self {
        Self::Session(error)
    }
}

impl From<Error> for ReadError {
    fn from(error: Error) -> Self {
        Self::Session(error.into())
    }
}

/// Prints the range of a file.
fn print(
    session: &mut FileSession,
    path: &std::path::Path,
    (mut offset, mut left): (u64, u64),
    output: &mut impl Write,
) -> Result<(), ReadError> {
    let (file, _) = session.open_file(path)?;
    while left > 0 {
        let bytes = session.read(file, offset, u32::try_from(left).unwrap_or(FILE_READ_MAX))?;
        if bytes.is_empty() {
            break;
        }
        output.write_all(&bytes).map_err(|_| ReadError::Output)?;
        (offset, left) = (offset + bytes.len() as u64, left - bytes.len() as u64);
    }
    output.flush().map_err(|_| ReadError::Output)
}

/// Answers requests, a line of JSON each, until the input ends.
fn serve(session: &mut FileSession, input: &mut impl BufRead, output: &mut impl Write) -> Result<(), ReadError> {
    let mut answer = (SessionAnswer::Ready, Vec::new());
    let mut line = Vec::new();
    loop {
        let (header, bytes) = answer;
        let written = output.write_all(&header.line()).and_then(|()| output.write_all(&bytes));
        written.and_then(|()| output.flush()).map_err(|_| ReadError::Output)?;
        line.clear();
        let read = input.take(LINE_MAX).read_until(b'\n', &mut line);
        let read = read.map_err(|error| ReadError::Request(UsageError::new(format!("standard input: {error}"))))?;
        if read == 0 {
            return Ok(());
        }
        let request = SessionRequest::parse(&line).map_err(ReadError::Request)?;
        answer = match perform(session, request) {
            Ok(answer) => answer,
            Err(FileSessionError::Operation { failure, text }) => {
                (SessionAnswer::Failed { failure: failure.word(), text }, Vec::new())
            }
            Err(over) => return Err(over.into()),
        };
    }
}

fn perform(session: &mut FileSession, request: SessionRequest) -> Result<(SessionAnswer, Vec<u8>), FileSessionError> {
    let answer = match request {
        SessionRequest::Read { file, offset, length } => {
            let bytes = session.read(FileNumber(file), offset, length)?;
            return Ok((SessionAnswer::Data { bytes: bytes.len() }, bytes));
        }
        SessionRequest::Open(path) => {
            let (FileNumber(file), version) = session.open_file(&path)?;
            SessionAnswer::opened(file, version)
        }
        SessionRequest::Close { file } => {
            session.close(FileNumber(file))?;
            SessionAnswer::Closed
        }
        SessionRequest::Stat(path, follows) => SessionAnswer::Found((&session.find(&path, follows)?).into()),
        SessionRequest::List(path) => SessionAnswer::listed(session.list(&path, true)?),
        SessionRequest::ListOn(listing) => SessionAnswer::listed(session.list_on(listing)?),
        SessionRequest::Mkdir(path, has_parents) => {
            session.make_directory(&path, has_parents)?;
            SessionAnswer::Made
        }
        SessionRequest::Remove(path, is_recursive) => SessionAnswer::removed(session.remove(&path, is_recursive)?),
    };
    Ok((answer, Vec::new()))
}
