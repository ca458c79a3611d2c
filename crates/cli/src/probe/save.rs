//! Saves a probe's recommendations to the user's configuration, in the section of the host. Other lines and comments
//! stay. The new file is parsed before it replaces the old one.

use std::fs::{self, File, Permissions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use toml_edit::{DocumentMut, Item, Table, value};

use super::options::Option_;
use crate::args::row::Takes;
use crate::config;

/// The mode of a new file: for the user only.
const MODE: u32 = 0o600;
/// The table of host sections.
const HOST: &str = "host";

/// Adds `options` for `host` to the file at `path`; a new section begins with `remark`.
pub fn save(path: &Path, host: &str, options: &[Option_], remark: &str) -> anyhow::Result<()> {
    let shown = config::shown(path);
    let path = match fs::canonicalize(path) {
        Ok(path) => path,
        Err(error) if error.kind() == ErrorKind::NotFound => path.to_owned(),
        Err(error) => return Err(error).context(shown),
    };
    let old = config::text(&path)?;
    let mode = fs::metadata(&path).map_or(MODE, |found| found.permissions().mode() & 0o777);
    let new = with_options(old.as_deref().unwrap_or_default(), host, options, remark).context(shown.clone())?;
    config::check_text(&shown, &new)?;
    replace(&path, &new, mode).with_context(|| format!("cannot write {shown}"))
}

fn with_options(old: &str, host: &str, options: &[Option_], remark: &str) -> anyhow::Result<String> {
    let mut document: DocumentMut = old.parse()?;
    let hosts = document.entry(HOST).or_insert_with(|| {
        let mut table = Table::new();
        table.set_implicit(true);
        Item::Table(table)
    });
    let Some(hosts) = hosts.as_table_mut() else { bail!("{HOST} is not a table: write [host.\"{host}\"]") };
    let is_new = !hosts.contains_key(host);
    let section = hosts.entry(host).or_insert_with(|| Item::Table(Table::new()));
    let Some(section) = section.as_table_like_mut() else { bail!("host.{host} is not a table") };
    for (row, argument) in options {
        section.insert(row.id, written(row.takes, argument.as_deref()));
    }
    if let (true, Some(table)) = (is_new, hosts.get_mut(host).and_then(Item::as_table_mut)) {
        let before = if old.is_empty() { "" } else { "\n" };
        table.decor_mut().set_prefix(format!("{before}# {remark}\n"));
    }
    Ok(document.to_string())
}

fn written(takes: Takes, argument: Option<&str>) -> Item {
    match (takes, argument) {
        (Takes::Nothing | Takes::Repeats, _) | (_, None) => value(true),
        (_, Some(text)) => match text.parse::<i64>() {
            Ok(number) if number.to_string() == text => value(number),
            _ => value(text),
        },
    }
}

/// Replaces a file atomically.
pub fn replace(path: &Path, text: &str, mode: u32) -> anyhow::Result<()> {
    let directory = path.parent().context("no directory")?;
    fs::create_dir_all(directory)?;
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(format!(".new-{}", std::process::id()));
    let temporary = PathBuf::from(temporary);
    let written = (|| {
        let mut file = File::options().write(true).create_new(true).open(&temporary)?;
        file.set_permissions(Permissions::from_mode(mode))?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&temporary, path)
    })();
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    Ok(written?)
}

#[cfg(test)]
mod tests {
    use haul_proto::forecast::SuggestedSetting;

    use super::*;
    use crate::probe::options::recommended;
    use crate::probe::options::tests::asked;

    fn options() -> Vec<Option_> {
        recommended(
            &[SuggestedSetting::Streams(16), SuggestedSetting::Direct(false, true)],
            &asked(&[("windowsz", "8m")]),
        )
    }

    #[test]
    fn comments_and_other_lines_stay_and_a_section_is_changed_or_made() {
        let old = "# of mine\nno-deploy = true # never\n\n[host.\"db*\"]\nstreams = 4 # by hand\n";
        let new = with_options(old, "db1", &options(), "haul probe: 1.1 GB/s").unwrap();
        insta::assert_snapshot!(new, @r#"
            # of mine
            no-deploy = true # never

            [host."db*"]
            streams = 4 # by hand

            # haul probe: 1.1 GB/s
            [host.db1]
            windowsz = "8m"
            streams = 16
            unbuffered = "t"
            "#);
        let again =
            with_options(&new, "db1", &recommended(&[SuggestedSetting::Streams(8)], &asked(&[])), "again").unwrap();
        assert_eq!(again, new.replace("streams = 16", "streams = 8"));
    }

    #[test]
    fn a_new_file_is_private_and_readable_by_haul() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("haul/config.toml");
        save(&path, "fe80::1%eth0", &options(), "haul probe").unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, MODE);
        insta::assert_snapshot!(fs::read_to_string(&path).unwrap(), @r#"
            # haul probe
            [host."fe80::1%eth0"]
            windowsz = "8m"
            streams = 16
            unbuffered = "t"
            "#);
        assert_eq!(fs::read_dir(dir.path().join("haul")).unwrap().count(), 1);
    }

    #[test]
    fn an_invalid_file_is_left_unchanged() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config.toml");
        for text in ["streems = 3\n", "host = 3\n", "[host]\ndb1 = 3\n", "= 3\n"] {
            fs::write(&path, text).unwrap();
            assert!(save(&path, "db1", &options(), "haul probe").is_err(), "{text}");
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
    }
}
