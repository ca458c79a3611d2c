//! `haul report FILE...`: several copies in one chart.

use std::ffi::OsString;
use std::fs::File;
use std::io::{BufReader, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use haul_proto::path::escape;

use crate::args::UsageError;
use crate::args::flags;
use crate::args::values::Values;
use crate::exit::Exit;
use crate::pending::{Pending, ReplaceableFile};
use crate::report::ReportFormat;
use crate::report::chart::LINES_MAX;
use crate::report::compare::{RecordedCopy, document};

const OUT: &str = "report.html";

/// Writes a page about the copies whose events are in `files`.
pub fn run(values: &Values, files: &[OsString]) -> anyhow::Result<Exit> {
    let out = Path::new(values.last(&flags::report::OUT).unwrap_or(OUT.as_ref()));
    let format = ReportFormat::of(out)?;
    if files.len() > LINES_MAX {
        return Err(UsageError::new(format!("haul report: more than {LINES_MAX} copies"))
            .remedy("more lines are hard to tell apart in one chart")
            .into());
    }
    let copies = files.iter().map(read).collect::<anyhow::Result<Vec<_>>>()?;
    let shown = escape(out.as_os_str().as_bytes());
    let page = format.write(&document(&copies));
    let written = Pending::create(out, ReplaceableFile::Page).and_then(|pending| {
        pending.writer()?.write_all(page.as_bytes())?;
        pending.publish()
    });
    written.map_err(|error| anyhow::anyhow!("{shown}: {error}"))?;
    super::print(&format!("{shown}\n"));
    Ok(Exit::Done)
}

fn read(file: &OsString) -> anyhow::Result<RecordedCopy> {
    let name = escape(file.as_bytes());
    let copy = File::open(file).and_then(|open| RecordedCopy::read(name.clone(), BufReader::new(open)));
    copy.map_err(|error| anyhow::anyhow!("{name}: {error}\nrecord a copy: haul --json SOURCE TARGET > copy.json"))
}
