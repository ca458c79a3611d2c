//! The lines of `--list-only`.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use haul_base::copy::event::EntryKind;
use haul_show::units::count;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use rustix::fs::FileType;

use super::lines::shown;

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
    Ok(format!("{} {:>14} {modified} {}{link}", permissions(meta.mode()), count(meta.size()), shown(path)))
}

/// The type and mode of an entry as ls(1) prints them.
fn permissions(mode: u32) -> String {
    let kind = match FileType::from_raw_mode(mode) {
        FileType::Directory => 'd',
        FileType::Symlink => 'l',
        FileType::BlockDevice => 'b',
        FileType::CharacterDevice => 'c',
        FileType::Socket => 's',
        FileType::Fifo => 'p',
        _ => '-',
    };
    let mut text = String::from(kind);
    for (shift, special, letter) in [(6, 0o4000, 's'), (3, 0o2000, 's'), (0, 0o1000, 't')] {
        let bits = mode >> shift;
        text.push(if bits & 4 != 0 { 'r' } else { '-' });
        text.push(if bits & 2 != 0 { 'w' } else { '-' });
        text.push(match (mode & special != 0, bits & 1 != 0) {
            (true, true) => letter,
            (true, false) => letter.to_ascii_uppercase(),
            (false, true) => 'x',
            (false, false) => '-',
        });
    }
    text
}

#[cfg(test)]
mod tests {
    use super::permissions;

    #[test]
    fn modes_look_as_in_ls() {
        for (mode, shown) in [
            (0o100_644, "-rw-r--r--"),
            (0o040_755, "drwxr-xr-x"),
            (0o120_777, "lrwxrwxrwx"),
            (0o104_755, "-rwsr-xr-x"),
            (0o102_644, "-rw-r-Sr--"),
            (0o041_777, "drwxrwxrwt"),
            (0o041_776, "drwxrwxrwT"),
            (0o010_600, "prw-------"),
        ] {
            assert_eq!(permissions(mode), shown);
        }
    }
}
