//! Common code of `haul status` and `haul clean`: visits paths, and reports partial files.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use haul_base::copy::location::{Host, Location};
use haul_base::sys::describe::describe;
use haul_control::operand::parse_operand;
use haul_engine::partials::{Partial, PartialDetails, find};
use haul_proto::path::escape;
use haul_show as show;
use haul_show::exit::Exit;
use haul_show::output::print;
use haul_show::partials::{PartialOutcome, PartialsFormat, Sum};

use crate::args::values::Values;
use crate::args::{UsageError, flags};

/// Errors and totals of a visit.
pub struct Account {
    form: PartialsFormat,
    failed: bool,
    found: Sum,
    removed: Sum,
}

/// Calls `each` for every unfinished file at `paths`; `command` is the typed one. Ends with the total.
pub fn visit(
    command: &str,
    values: &Values,
    paths: &[OsString],
    mut each: impl FnMut(&mut Account, Partial),
) -> anyhow::Result<Exit> {
    paths.iter().try_for_each(|path| refuse_remote(command, path))?;
    let form = if values.is_set(&flags::JSON) { PartialsFormat::Json } else { PartialsFormat::Words };
    let mut account = Account { form, failed: false, found: Sum::default(), removed: Sum::default() };
    let journals = values.last(&flags::partials::JOURNAL_DIR).map(Path::new);
    for path in paths {
        let found = match find(Path::new(path), journals) {
            Ok(found) => found,
            Err(error) => {
                account.fail(path.as_bytes(), &describe(&error));
                continue;
            }
        };
        for partial in found {
            match partial {
                Ok(partial) => {
                    account.found.add(&partial.about);
                    each(&mut account, partial);
                }
                Err(unreadable) => account.fail(&unreadable.path, &unreadable.text),
            }
        }
    }
    let shown: Vec<_> = paths.iter().map(|path| escape(path.as_bytes())).collect();
    let removed = (command == "clean").then_some(account.removed);
    let sum = form.sum(account.found, removed, &shown.join(" and "));
    if form == PartialsFormat::Json || account.found.count > 0 || !account.failed {
        print(&sum);
    }
    Ok(if account.failed { Exit::Failed } else { Exit::Done })
}

impl Account {
    /// Reports the outcome for a partial file.
    pub fn report(&mut self, about: &PartialDetails, fate: PartialOutcome) {
        if fate == PartialOutcome::Removed {
            self.removed.add(about);
        }
        print(&self.form.line(about, fate));
    }

    /// Reports an entry that could not be checked or removed.
    pub fn fail(&mut self, path: &[u8], text: &str) {
        self.failed = true;
        show::stderr().failure("", path, text);
    }
}

/// Refuses paths on other hosts.
pub(super) fn refuse_remote(command: &str, path: &OsStr) -> Result<(), UsageError> {
    let Location { host, path: there } = parse_operand(path)?;
    let Host::Remote { user, name } = host else {
        return match host {
            Host::Served { .. } => {
                Err(UsageError::new(format!("haul {command} works on local paths, not on a server")))
            }
            _ => Ok(()),
        };
    };
    let host = user.map(|user| format!("{user}@")).unwrap_or_default() + &name;
    let shown = escape(path.as_bytes());
    let there = escape(there.as_os_str().as_bytes());
    Err(UsageError::new(format!("{shown} is on another host, but haul {command} works on local paths"))
        .remedy(format!("ssh {host} haul {command} {there}"))
        .remedy(format!(
            "where haul is not in PATH: ssh {host} '$(ls -t .cache/haul/*/haul | head -n 1) {command} {there}'"
        ))
        .remedy(format!("for a local path with a colon, write ./{shown}")))
}
