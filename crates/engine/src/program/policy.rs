//! Where programs may be started: a file on each host may forbid it. Without one they may, since whoever started the worker
//! through ssh could start them just so.
//!
//! Each line is empty, a comment that begins with `#`, or `programs = yes` or `no`. What cannot be read or understood
//! forbids.

use std::io;
use std::path::{Path, PathBuf};

use crate::fs::describe;

/// Whether all these files let programs be started; those that do not exist do.
pub fn allows_programs(files: &[PathBuf]) -> Result<(), String> {
    files.iter().try_for_each(|file| allows(file))
}

fn allows(file: &Path) -> Result<(), String> {
    let shown = file.display();
    let text = match std::fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(format!("programs are not allowed here: {shown}: {}", describe(&error))),
    };
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        match line.split_once('=').map(|(name, value)| (name.trim(), value.trim())) {
            Some(("programs", "yes")) => {}
            Some(("programs", "no")) => return Err(format!("programs are not allowed here: {shown} says so")),
            _ => {
                return Err(format!(
                    "programs are not allowed here: {shown} says '{}', which is not understood\nwrite programs = yes or programs = no",
                    haul_proto::path::escape(line.as_bytes())
                ));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_says_no_or_nothing_sensible_forbids() {
        let dir = tempfile::tempdir().unwrap();
        let said = |text: &str| {
            let file = dir.path().join("policy");
            std::fs::write(&file, text).unwrap();
            allows_programs(&[dir.path().join("absent"), file])
                .map_err(|text| text.replace(&*dir.path().to_string_lossy(), ""))
        };
        assert_eq!(said(""), Ok(()));
        assert_eq!(said("# programs = no\n\n programs=yes \n"), Ok(()));
        assert_eq!(
            said("programs = yes\nprograms = no\n"),
            Err("programs are not allowed here: /policy says so".into())
        );
        assert!(said("programs = maybe").unwrap_err().contains("'programs = maybe', which is not understood"));
        assert!(allows_programs(&[dir.path().to_owned()]).is_err(), "a directory");
    }
}
