//! `haul demo`: makes data, copies it on this machine as between two hosts, and compares.

mod compare;
mod data;

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use haul_base::copy::location::{Host, Location};
use haul_base::copy::runtime_control::RuntimeControl;
use haul_base::copy::spec::CopySpec;
use haul_base::sys::cancel::Cancel;
use haul_engine::fs::MadeDirectory;
use haul_proto::path::Name;
use haul_show::display::Mode;
use haul_show::exit::Exit;
use haul_show::{self as show, terminal, units};

use super::copy::perform;
use crate::args::values::Values;
use crate::args::{UsageError, flags};
use crate::resolve::{Plan, ResolvedSettings, settings};
use crate::signals::Watch;

/// Default size of the data.
const DEFAULT_BYTES: u64 = 1 << 30;

/// Makes data, copies it, compares, removes it.
pub fn run(own: &Values, copy: &Values) -> anyhow::Result<Exit> {
    let bytes = own.get(&flags::demo::SIZE)?.unwrap_or(DEFAULT_BYTES);
    let mut settings = settings(copy, terminal::stderr_is_terminal())?;
    settings.options.streams.count = own.get(&flags::STREAMS)?.or(settings.options.streams.count);
    settings.options.source.recursive = true;
    settings.options.streams.within_host = true;
    let cancel = Cancel::new();
    let steering = RuntimeControl::new();
    let watch = Watch::start(cancel.clone(), steering.rate().clone(), settings.time_limit)?;
    Demo { bytes, keep: own.is_set(&flags::demo::KEEP), cancel: &cancel, steering: &steering, watch: &watch }
        .run(settings)
}

struct Demo<'a> {
    bytes: u64,
    keep: bool,
    cancel: &'a Cancel,
    steering: &'a RuntimeControl,
    watch: &'a Watch,
}

impl Demo<'_> {
    fn run(&self, settings: ResolvedSettings) -> anyhow::Result<Exit> {
        let quiet = settings.display.mode == Mode::Quiet;
        let mut text = show::stderr();
        let mut say = |line: &str| {
            if !quiet {
                text.plain(line)
            }
        };
        let place = DemoDirectory::create(&std::env::temp_dir(), self.bytes, self.keep)?;
        let (source, target) = (place.path.join(MADE[0]), place.path.join(MADE[1]));

        say(&format!("creating {} of data in {}", units::size(self.bytes), place.path.display()));
        if !data::make(&source, self.bytes, &|| self.cancel.is_cancelled()).with_context(|| place.shown())? {
            return Ok(interrupted());
        }
        let exit = perform(plan(settings, &source, &target), self.cancel, self.steering, self.watch)?;
        if exit == Exit::Done {
            match compare::compare(&source, &target, self.cancel) {
                Ok(()) => say("source and target compared: identical"),
                Err(_) if self.cancel.is_cancelled() => return Ok(interrupted()),
                Err(error) => return Err(error.context("the demo's comparison of source and target failed")),
            }
        }
        if self.keep {
            say(&format!("kept {}", place.path.display()));
        }
        place.close()?;
        Ok(exit)
    }
}

fn interrupted() -> Exit {
    show::stderr().error("interrupted");
    Exit::Interrupted
}

fn plan(settings: ResolvedSettings, source: &Path, target: &Path) -> Plan {
    let here = |path: &Path| Location { host: Host::Local, path: path.to_owned() };
    let ResolvedSettings { options, access, display, checksums, digests, report, metrics, time_limit } = settings;
    let copy = CopySpec { sources: vec![here(source)], list: None, target: here(target), options, access };
    Plan { copy, display, checksums, digests, report, metrics, time_limit, notes: Vec::new() }
}

/// Names in the demo's directory.
const MADE: [&str; 2] = ["source", "target"];

fn is_of_demo(name: &Name) -> bool {
    MADE.iter().any(|made| name.as_bytes() == made.as_bytes())
}

/// The demo's own directory, removed with its contents unless the user keeps it.
struct DemoDirectory {
    path: PathBuf,
    made: MadeDirectory,
    keep: bool,
}

impl DemoDirectory {
    fn create(parent: &Path, bytes: u64, keep: bool) -> anyhow::Result<Self> {
        check_space(parent, bytes)?;
        let path = parent.join(format!("haul-demo-{}", std::process::id()));
        let made = MadeDirectory::create_at(&path).with_context(|| path.display().to_string())?;
        Ok(Self { path, made, keep })
    }

    fn shown(&self) -> String {
        self.path.display().to_string()
    }

    /// Removes it, and reports an error.
    fn close(mut self) -> anyhow::Result<()> {
        if !std::mem::replace(&mut self.keep, true) {
            self.made.remove(is_of_demo).with_context(|| format!("cannot delete {}", self.shown()))?;
        }
        Ok(())
    }
}

impl Drop for DemoDirectory {
    fn drop(&mut self) {
        if !self.keep {
            let _ = self.made.remove(is_of_demo);
        }
    }
}

/// Checks the free space for the data and its copy.
fn check_space(parent: &Path, bytes: u64) -> anyhow::Result<()> {
    let there = rustix::fs::statvfs(parent).map_err(|error| {
        let why = haul_base::sys::describe::describe(&error.into());
        UsageError::new(format!("{}: {why}", parent.display())).remedy("set TMPDIR to a directory for the demo")
    })?;
    let free = there.f_bavail.saturating_mul(there.f_frsize);
    let needed = bytes.saturating_mul(2).saturating_add(bytes / 50);
    if free < needed {
        bail!(
            UsageError::new(format!(
                "{}: the demo needs {}, but {} are free",
                parent.display(),
                units::size(needed),
                units::size(free)
            ))
            .remedy("use a smaller --size, or set TMPDIR to a directory with more space")
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_place_is_removed_unless_it_is_kept() {
        let parent = tempfile::tempdir().unwrap();
        let place = DemoDirectory::create(parent.path(), 1, false).unwrap();
        fs::create_dir_all(place.path.join("source/a")).unwrap();
        assert!(DemoDirectory::create(parent.path(), 1, false).is_err(), "it is not shared");
        drop(place);
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
        DemoDirectory::create(parent.path(), 1, true).unwrap().close().unwrap();
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 1);
    }

    #[test]
    fn too_little_room_is_a_usage_error_with_a_remedy() {
        let error = check_space(Path::new("/"), u64::MAX / 4).unwrap_err();
        assert!(error.is::<UsageError>() && error.to_string().contains("--size"), "{error}");
    }
}
