//! `haul report FILE...`: several copies in one chart.

use std::ffi::OsString;
use std::fs::File;
use std::io::BufReader;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use haul_proto::path::escape;
use haul_show::exit::Exit;
use haul_show::output::print;
use haul_show::report::chart::LINES_MAX;
use haul_show::report::compare::{RecordedCopy, document};
use haul_show::report::{ReportFormat, publish};

use crate::args::values::Values;
use crate::args::{UsageError, flags};

const OUT: &str = "report.html";

/// Writes a page about the copies whose events are in `files`.
pub fn run(values: &Values, files: &[OsString]) -> anyhow::Result<Exit> {
    let out = Path::new(values.last(&flags::report::OUT).unwrap_or(OUT.as_ref()));
    ReportFormat::of(out)?;
    if files.len() > LINES_MAX {
        return Err(UsageError::new(format!("haul report: more than {LINES_MAX} copies"))
            .remedy("more lines are hard to tell apart in one chart")
            .into());
    }
    let copies = files.iter().map(read).collect::<anyhow::Result<Vec<_>>>()?;
    publish(out, &document(&copies))?;
    print(&format!("{}\n", escape(out.as_os_str().as_bytes())));
    Ok(Exit::Done)
}

fn read(file: &OsString) -> anyhow::Result<RecordedCopy> {
    let name = escape(file.as_bytes());
    let copy = File::open(file).and_then(|open| RecordedCopy::read(name.clone(), BufReader::new(open)));
    copy.map_err(|error| anyhow::anyhow!("{name}: {error}\nrecord a copy: haul --json SOURCE TARGET > copy.json"))
}
