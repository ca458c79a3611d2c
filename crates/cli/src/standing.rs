//! The file of a standing server: each table is a directory that is served under the table's name.
//!
//! ```toml
//! [incoming]
//! path = "/srv/incoming"
//! access = "write-only"                       # or read-only, or both (the default)
//! secrets = ["/etc/haul/partner.secret"]      # files; each of them opens it
//! ```

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use haul_engine::serve::{Access, Directory};
use haul_proto::path::escape;
use haul_proto::wire::serve::is_directory_name;
use toml::{Table, Value};

use crate::args::UsageError;
use crate::args::nearest::nearest;
use crate::secret;

/// What may stand in a table.
const KEYS: [&str; 3] = ["path", "access", "secrets"];

/// The directories that `file` has.
pub fn read(file: &OsStr) -> Result<Vec<Directory>, UsageError> {
    let shown = escape(file.as_bytes());
    let in_file = |what: String| UsageError::new(format!("{shown}: {what}"));
    let text = fs::read_to_string(file).map_err(|error| in_file(error.to_string()))?;
    let directories = parse(&text).map_err(in_file)?;
    if directories.is_empty() {
        return Err(
            in_file("it has no directories".into()).remedy("write, for each, [NAME], path = \"...\", secrets = [...]")
        );
    }
    directories.into_iter().map(|directory| complete(directory).map_err(in_file)).collect()
}

/// A directory as it is written.
#[derive(Debug, PartialEq, Eq)]
struct Written {
    name: String,
    path: PathBuf,
    access: Access,
    secrets: Vec<String>,
}

fn parse(text: &str) -> Result<Vec<Written>, String> {
    let all: Table = toml::from_str(text).map_err(|error| error.to_string().trim_end().to_owned())?;
    all.iter().map(|(name, value)| written(name, value).map_err(|why| format!("[{name}]: {why}"))).collect()
}

fn written(name: &str, value: &Value) -> Result<Written, String> {
    if name.is_empty() || !is_directory_name(name) {
        return Err("a name has letters, digits, '.', '_' and '-', at most 64, and does not begin with '.'".into());
    }
    let table = value.as_table().ok_or("this is no table")?;
    if let Some(unknown) = table.keys().find(|key| !KEYS.contains(&key.as_str())) {
        let meant = nearest(unknown, &KEYS).map(|key| format!("\ndid you mean {key}?"));
        return Err(format!("there is no key {unknown}{}", meant.unwrap_or_default()));
    }
    let text = |key: &str| match table.get(key) {
        None => Ok(None),
        Some(value) => value.as_str().map(Some).ok_or_else(|| format!("{key} needs a text in quotes")),
    };
    let access = match text("access")? {
        None => Access::Both,
        Some(word) => Access::from_word(word).ok_or("access is read-only, write-only or both")?,
    };
    let path = PathBuf::from(text("path")?.ok_or("its path is missing")?);
    let secrets = table.get("secrets").and_then(Value::as_array).filter(|secrets| !secrets.is_empty());
    let secrets = secrets.ok_or("secrets needs a list of files: [\"/etc/haul/partner.secret\"]")?;
    let secrets: Option<Vec<_>> = secrets.iter().map(|file| file.as_str().map(str::to_owned)).collect();
    Ok(Written { name: name.to_owned(), path, access, secrets: secrets.ok_or("a file's name needs quotes")? })
}

/// Looks at what is written: the directory is there, and so are the secrets.
fn complete(Written { name, path, access, secrets }: Written) -> Result<Directory, String> {
    let in_table = |why: String| format!("[{name}]: {why}");
    let path = absolute(&path).map_err(in_table)?;
    let secrets =
        secrets.iter().map(|file| secret::read(OsStr::new(file)).map_err(|error| in_table(error.to_string())));
    let secrets = secrets.collect::<Result<_, _>>()?;
    Ok(Directory { name, path, access, secrets })
}

/// A directory as a server has it.
pub fn absolute(path: &Path) -> Result<PathBuf, String> {
    let shown = escape(path.as_os_str().as_bytes());
    match fs::canonicalize(path) {
        Ok(path) if path.is_dir() => Ok(path),
        Ok(_) => Err(format!("{shown}: not a directory\nhaul serve serves a directory with all that is in it")),
        Err(error) => Err(format!("{shown}: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_table_is_a_directory() {
        let text = "[in]\npath = \"/srv/in\"\naccess = \"write-only\"\nsecrets = [\"a\", \"b\"]\n\n[pub]\npath = \"p\"\nsecrets = [\"c\"]\n";
        let directories = parse(text).unwrap();
        assert_eq!(
            directories[0],
            Written {
                name: "in".into(),
                path: "/srv/in".into(),
                access: Access::WriteOnly,
                secrets: vec!["a".into(), "b".into()]
            }
        );
        assert_eq!((directories[1].name.as_str(), directories[1].access), ("pub", Access::Both));
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, said) in [
            ("[in]\npaht = \"x\"", "did you mean path?"),
            ("[in]\nsecrets = [\"a\"]", "its path is missing"),
            ("[in]\npath = \"x\"", "secrets needs a list"),
            ("[in]\npath = \"x\"\naccess = \"w\"\nsecrets = [\"a\"]", "read-only, write-only or both"),
            ("[\"../x\"]\npath = \"x\"", "a name has letters"),
            ("in = 3", "no table"),
            ("[in\n", "line 1"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(said), "{text}: {error}");
        }
    }
}
