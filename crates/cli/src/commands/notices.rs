//! `haul --license all`: prints the installed licences of the libraries that the executable is linked with. They are too
//! large for the executable, which haul copies to other hosts.

use std::path::{Path, PathBuf};

use anyhow::Context;
use haul_show::exit::Exit;
use haul_show::output::print;

/// Places of the file below the directory of the executable: a release's directory, then those of packages.
const PLACES: [&str; 3] = ["notices.txt", "../share/doc/haul/notices.txt", "../share/licenses/haul/notices.txt"];

/// Runs the command.
pub fn run() -> anyhow::Result<Exit> {
    let program = std::env::current_exe().context("this program's path is unknown")?;
    print(&read(&program)?);
    Ok(Exit::Done)
}

fn read(program: &Path) -> anyhow::Result<String> {
    let directory = program.parent().unwrap_or(Path::new("/"));
    let places: Vec<PathBuf> = PLACES.iter().map(|place| directory.join(place)).collect();
    let found = places.iter().find(|place| place.is_file());
    let path = found.with_context(|| {
        format!(
            "notices.txt is neither in {0} nor in ../share/doc/haul there\npackages of haul contain it",
            directory.display()
        )
    })?;
    std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_notices_are_found_where_packages_have_them() {
        for place in PLACES {
            let prefix = tempfile::tempdir().unwrap();
            let program = prefix.path().join("bin/haul");
            std::fs::create_dir(prefix.path().join("bin")).unwrap();
            assert!(read(&program).is_err_and(|error| error.to_string().contains("notices.txt")));
            let file = program.with_file_name(place);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, "MIT").unwrap();
            assert_eq!(read(&program).unwrap(), "MIT");
        }
    }
}
