//! The list of `--files-from`, as haul reads lists.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read, Write};
use std::os::fd::IntoRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use haul_base::copy::own_executable::own_executable;
use haul_control::operand::host_prefix;
use haul_engine::fs::trusted_links::LinkRules;
use haul_proto::path::escape;
use rustix::fs::{MemfdFlags, memfd_create};

use crate::args::UsageError;
use crate::resolve::open_named;

/// The options that a copy of the list shares: how haul starts on a host.
const ACCESS: [&str; 6] = ["--rsh=", "--source-command=", "--ssh-port=", "--ssh-option=", "--ipv4=", "--ipv6="];

/// The form of a list.
#[derive(Clone, Copy)]
pub(super) struct FilesFromForm {
    /// Names end with NUL (`-0`).
    pub is_null: bool,
    /// Listed directories are copied without their contents, unless a slash follows.
    pub has_directories: bool,
}

/// Reads a list here, or at a host: `HOST:LIST`, or `:LIST` at that of an operand. `words` are the copy's options.
pub(super) fn read_list(
    list: &OsStr,
    hosts: [&OsStr; 2],
    words: &[OsString],
    links: LinkRules,
) -> anyhow::Result<Vec<u8>> {
    let shown = escape(list.as_bytes());
    let mut text = Vec::new();
    let (host, path) = match list.as_bytes() {
        [b':', path @ ..] => (hosts.into_iter().find(|host| !host.is_empty()).unwrap_or_default().as_bytes(), path),
        list_bytes => list_bytes.split_at(host_prefix(list).len()),
    };
    if host.is_empty() {
        let read = open_named(OsStr::from_bytes(path), links).and_then(|mut file| file.read_to_end(&mut text));
        read.map_err(|error| UsageError::new(format!("failed to open files-from file {shown}: {error}")))?;
        return Ok(text);
    }
    let access = words.iter().filter(|word| ACCESS.iter().any(|option| word.as_bytes().starts_with(option.as_bytes())));
    let read = Command::new(own_executable()?)
        .arg0("haul")
        .arg("--quiet")
        .args(access)
        .args([OsStr::from_bytes(&[host, path].concat()), OsStr::new("-")])
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()?;
    match read.status.success() {
        true => Ok(read.stdout),
        false => Err(UsageError::new(format!("failed to read files-from file {shown}")).into()),
    }
}

/// A list without comments, with paths relative to the source, and the directory before `/./` in its paths.
pub(super) fn relative_list(text: &[u8], form: FilesFromForm) -> anyhow::Result<(OsString, Vec<u8>)> {
    let FilesFromForm { is_null, has_directories } = form;
    let end = if is_null { 0 } else { b'\n' };
    let file = memfd_create("files-from", MemfdFlags::CLOEXEC)?;
    let mut out = io::BufWriter::new(std::fs::File::from(file));
    let is_comment = |line: &[u8]| matches!(line.first(), Some(b'#' | b';'));
    let mut common: Option<&[u8]> = None;
    for line in text.split(|byte| *byte == end || !is_null && *byte == b'\r').filter(|line| !is_comment(line)) {
        if line.is_empty() {
            continue;
        }
        let (below, path) = split(line);
        if *common.get_or_insert(below) != below {
            return Err(
                UsageError::new("--files-from is not supported for paths with different roots before /./").into()
            );
        }
        out.write_all(path)?;
        // `DIR/` has its contents listed, `DIR` has not.
        out.write_all(if has_directories && path.ends_with(b"/") { b"." } else { b"" })?;
        out.write_all(&[end])?;
    }
    let file = out.into_inner().map_err(io::IntoInnerError::into_error)?;
    // The copy reads it by this name, until the process ends.
    let name = format!("/proc/self/fd/{}", file.into_raw_fd());
    Ok((OsString::from(name), common.unwrap_or_default().to_vec()))
}

/// The directory before `/./`, and the path below that.
fn split(line: &[u8]) -> (&[u8], &[u8]) {
    let path = line.iter().position(|byte| *byte != b'/').map_or(&b""[..], |start| &line[start..]);
    let (below, path) = match path.windows(3).position(|dots| dots == b"/./") {
        Some(dots) => (&path[..dots], &path[dots + 3..]),
        None => (&b""[..], path),
    };
    (below, if path.is_empty() { b"." } else { path })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_one_root_before_its_paths() {
        let read = |text: &str| {
            let form = FilesFromForm { is_null: false, has_directories: true };
            let (list, below) = relative_list(text.as_bytes(), form).map_err(|error| error.to_string())?;
            let list = std::fs::read_to_string(list).map_err(|error| error.to_string())?;
            Ok::<_, String>((list, String::from_utf8(below).unwrap()))
        };
        let of = |list: &str, below: &str| Ok((list.to_owned(), below.to_owned()));
        assert_eq!(read("# no\n/a\r\ndir/\n\n/\n"), of("a\ndir/.\n.\n", ""));
        assert_eq!(read("from/./\n/from/./dir/a\nfrom/./dir/\n"), of(".\ndir/a\ndir/.\n", "from"));
        assert!(read("from/./a\nb\n").unwrap_err().contains("different roots"));
    }
}
