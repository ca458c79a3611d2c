//! Common code of `haul status` and `haul clean`: visits paths, and reports partial files.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use haul_base::copy::location::{Host, Location};
use haul_base::shell_word::quote;
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
                Err(UsageError::new(format!("haul {command} works on local paths, not on a server"))
                    .remedy(format!("type haul {command} PATH on the host of the server")))
            }
            _ => Ok(()),
        };
    };
    let host = user.map(|user| format!("{user}@")).unwrap_or_default() + &name;
    let shown = escape(path.as_bytes());
    // Both shells read it, the one here and the one there.
    let there = quote(&escape(there.as_os_str().as_bytes()));
    let words = format!("haul {command} {there}");
    let words = if there.starts_with('\'') { quote(&words) } else { words };
    let deployed = quote(&format!("$(ls -t .cache/haul/*/haul | head -n 1) {command} {there}"));
    Err(UsageError::new(format!("{shown} is on another host, but haul {command} works on local paths"))
        .remedy(format!("ssh {host} {words}"))
        .remedy(format!("where haul is not in PATH: ssh {host} {deployed}"))
        .remedy(format!("for a local path with a colon, write {}", quote(&format!("./{shown}")))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_to_type_instead_is_quoted_for_both_shells() {
        let hints = |path: &str| {
            let text = refuse_remote("clean", OsStr::new(path)).unwrap_err().to_string();
            text.lines().skip(1).map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(
            hints("ann@db1:run7/a"),
            [
                "hint: ssh ann@db1 haul clean run7/a",
                "hint: where haul is not in PATH: ssh ann@db1 '$(ls -t .cache/haul/*/haul | head -n 1) clean run7/a'",
                "hint: for a local path with a colon, write ./ann@db1:run7/a",
            ]
        );
        assert_eq!(
            hints("db1:a; rm -rf b"),
            [
                r"hint: ssh db1 'haul clean '\''a; rm -rf b'\'''",
                r"hint: where haul is not in PATH: ssh db1 '$(ls -t .cache/haul/*/haul | head -n 1) clean '\''a; rm -rf b'\'''",
                "hint: for a local path with a colon, write './db1:a; rm -rf b'",
            ]
        );
        assert!(refuse_remote("clean", OsStr::new("./a:b")).is_ok());
    }
}
