//! The lines of `--list-only`.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use haul_base::copy::event::EntryKind;
use haul_show::mode_text::mode_text;
use haul_show::units::count;
use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::shown_name::shown;

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
