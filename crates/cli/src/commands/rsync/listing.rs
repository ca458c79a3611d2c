//! The lines of `--list-only`, and that of `--mkpath`.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use haul_base::copy::event::EntryKind;
use haul_base::copy::location::{Host, Location};
use haul_base::copy::spec::CopySpec;
use haul_show::mode_text::mode_text;
use haul_show::units::count;
use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::shown_name::shown;

/// The line about the directories that `--mkpath` creates for a local target, if there are any.
pub(super) fn made_path(copy: &CopySpec) -> Option<String> {
    let target = copy.target.path.as_path();
    let is_file = |source: &Location| source.host == Host::Local && source.path.is_file();
    let is_renamed = matches!(&copy.sources[..], [source] if is_file(source));
    let directory = match target.as_os_str().as_bytes().ends_with(b"/") || !is_renamed || target.is_dir() {
        true => target,
        false => target.parent()?,
    };
    let is_missing = |path: &&Path| !path.as_os_str().is_empty() && path.symlink_metadata().is_err();
    let missing = directory.ancestors().take_while(is_missing).count();
    let noun = if missing == 1 { "directory" } else { "directories" };
    let name = shown(directory.components().as_path().as_os_str().as_bytes());
    (missing > 0).then(|| format!("created {missing} {noun} for {name}"))
}

/// The line of a source's entry: mode, size, time and name.
pub fn list_line(source: &Path, what: EntryKind, path: &[u8], has_links: bool) -> io::Result<String> {
    let meta = match source.symlink_metadata()? {
        meta if meta.is_symlink() && what != EntryKind::Symlink => source.metadata()?,
        meta => meta,
    };
    let modified = Timestamp::from_second(meta.mtime()).map_err(io::Error::other)?;
    let modified = modified.to_zoned(TimeZone::system()).strftime("%Y/%m/%d %H:%M:%S");
    let link = match meta.is_symlink() && has_links {
        true => format!(" -> {}", shown(source.read_link()?.as_os_str().as_bytes())),
        false => String::new(),
    };
    Ok(format!("{} {:>14} {modified} {}{link}", mode_text(meta.mode()), count(meta.size()), shown(path)))
}
