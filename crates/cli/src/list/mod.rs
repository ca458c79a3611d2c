//! `--infiles`: sources from a file or standard input, one per line, read while the copy runs.
//!
//! Lines are operands. Everything between two line feeds is a path, blanks and carriage returns included. With `-0`,
//! NUL ends a path.

mod lines;
mod text;

use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::time::Duration;

use haul_base::copy::location::{Host, Location};
use haul_base::copy::spec::{ListLine, ListReader, SourceList};
use haul_base::sys::describe::describe;
use haul_proto::path::escape;

use self::lines::{ListFileReader, ListFormat};
use self::text::ListText;
use crate::args::values::Values;
use crate::args::{UsageError, flags};

/// Longest single wait for the first line.
const PATIENCE: Duration = Duration::from_secs(60);

/// The list of `--infiles`, if given. Typed `sources` come before its lines; `base` is that of `--dirbase`.
pub fn list(
    values: &Values,
    sources: &mut Vec<Location>,
    base: Option<Location>,
) -> Result<Option<SourceList>, UsageError> {
    let is_null = values.is_set(&flags::NULL);
    let Some(file) = values.last(&flags::INFILES) else {
        return match is_null {
            true => Err(UsageError::new(format!("{} needs a list", flags::NULL.typed()))
                .remedy(format!("add {} FILE", flags::INFILES.typed()))),
            false => Ok(None),
        };
    };
    let shown = escape(file.as_bytes());
    let cannot = |error| UsageError::new(format!("{} {shown}: {}", flags::INFILES.typed(), describe(&error)));
    let (name, text) = match file == "-" {
        true => ("standard input".to_owned(), ListText::standard_input().map_err(cannot)?),
        false => (shown.clone(), ListText::open(file.as_ref()).map_err(cannot)?),
    };
    let end = if is_null { 0 } else { b'\n' };
    let default_host = base.as_ref().map_or(Host::Local, |base| base.host.clone());
    let written = Arc::new(ListFormat { name: name.clone(), text, end, typed: std::mem::take(sources), base });
    let host = first_host(ListFileReader::new(Arc::clone(&written), None)).unwrap_or(default_host);
    if let Host::Served { .. } = host {
        return Err(UsageError::new(format!("{} {shown}: a server reads no lists of files", flags::INFILES.typed()))
            .remedy("name the files, or a directory with -r"));
    }
    let all_on = Some(host.clone());
    let open =
        Arc::new(move || Box::new(ListFileReader::new(Arc::clone(&written), all_on.clone())) as Box<dyn ListReader>);
    Ok(Some(SourceList { name, host, open }))
}

/// The host of the first source. All others must share it.
fn first_host(mut lines: ListFileReader) -> Option<Host> {
    loop {
        match lines.next(PATIENCE) {
            ListLine::Source(source) => return Some(source.host),
            ListLine::End(_) => return None,
            ListLine::Bad(..) | ListLine::NotYet => {}
        }
    }
}
