//! Detached copies: `--detach` starts one, and `haul copies` lists, follows, stops and repeats them.
//!
//! A detached copy is `haul copies run NAME` in a session of its own. Its record is `STATE/copies/NAME`.

mod attach;
pub mod detach;
mod figures;
mod list;
mod logout;
mod planned;
mod record;
mod recorder;

use std::ffi::{OsStr, OsString};

use haul_show::exit::Exit;
#[cfg(test)]
pub use list::CopyLine;
pub use list::list;

use self::planned::planned;
use self::record::{Copies, CopyRecord};
use self::recorder::RecordedShow;
use crate::args::local_files::LocalDisk;
use crate::args::parse::{CopiesAction, parse};
use crate::args::{Dialect, UsageError};
use crate::commands::copy::{display, notify};
use crate::commands::many_targets;

/// Performs an action on the copy `name`.
pub fn run(action: CopiesAction, name: &OsStr) -> anyhow::Result<Exit> {
    let record = Copies::open()?.named(name)?;
    match action {
        CopiesAction::Attach => attach::attach(&record),
        CopiesAction::Log => attach::print_log(&record).map(|()| Exit::Done),
        CopiesAction::Cancel => attach::cancel(&record),
        CopiesAction::Rerun => detach::rerun(&record),
        CopiesAction::Run => run_recorded(&record),
    }
}

/// `haul copies run NAME`: the detached process.
fn run_recorded(record: &CopyRecord) -> anyhow::Result<Exit> {
    // It fails where a scope or a shell has made this process a leader already.
    let _ = rustix::process::setsid();
    let Some(running) = record.run()? else { return Err(record.is_running_error().into()) };
    let ended = perform(record, &running);
    let exit = ended.as_ref().map_or_else(exit_of, |exit| *exit);
    running.end(exit);
    ended
}

fn exit_of(error: &anyhow::Error) -> Exit {
    if error.is::<UsageError>() { Exit::Usage } else { Exit::Failed }
}

fn perform(record: &CopyRecord, running: &record::RecordedRun) -> anyhow::Result<Exit> {
    let words: Vec<OsString> = record.request.words.clone();
    let Some((values, plans)) = planned(parse(Dialect::Haul, words, &LocalDisk)?)? else {
        return Err(anyhow::anyhow!("{}: the record holds no copy", record.name));
    };
    let state = running.state();
    let exit = many_targets::carry_out(plans, |plan, steering| {
        let shown = display(plan, steering)?;
        Ok(Box::new(RecordedShow::new(shown, state.clone())))
    })?;
    notify(&values, exit, &[("HAUL_COPY", OsStr::new(&record.name)), ("HAUL_LOG", record.log_path().as_os_str())])?;
    Ok(exit)
}
