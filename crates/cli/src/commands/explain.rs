//! `--explain PATH`: prints whether a copy would include PATH, and by which rule. Copies nothing.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use haul_base::copy::location::Host;
use haul_base::copy::spec::{CopySpec, FilterOptions, ListSyntax};
use haul_control::operand::host_label;
use haul_inspect::explain::{Explained, Reason, explain};
use haul_proto::filter::ExceededLimit;
use haul_proto::path::escape;
use haul_show::exit::Exit;
use haul_show::output::print;

use crate::args::values::Values;
use crate::args::{UsageError, flags};
use crate::resolve::{Plan, typed_lists};

/// Explains the option's path, if given.
pub fn asked(values: &Values, plan: &Plan) -> Option<anyhow::Result<Exit>> {
    let path = values.last(&flags::EXPLAIN)?;
    Some(found(&plan.copy, Path::new(path)).and_then(|(operand, below)| {
        let explained = explain(&plan.copy.options.source.filters, &operand, &below)
            .map_err(|error| anyhow::anyhow!("{}: {error}", escape(path.as_bytes())))?;
        print(&explanation_text(values, &plan.copy.options.source.filters, &operand, &below, &explained));
        Ok(Exit::Done)
    }))
}

/// The source of a path, and the path relative to it.
fn found(copy: &CopySpec, path: &Path) -> anyhow::Result<(PathBuf, PathBuf)> {
    if *copy.source_host() != Host::Local {
        let what = format!("--explain needs a local source, but this one is on {}", host_label(copy.source_host()));
        return Err(UsageError::new(what).remedy("run it there, with a copy to any other place").into());
    }
    let whole = |path: &Path| copy.options.source.base.as_ref().map_or_else(|| path.to_owned(), |base| base.join(path));
    // Users know the contents of `SOURCE/.` as those of SOURCE.
    let plain = |path: PathBuf| path.components().collect::<PathBuf>();
    let sources: Vec<_> =
        copy.sources.iter().map(|source| plain(whole(&source.path))).filter(|source| source.is_dir()).collect();
    let below = |source: &PathBuf| {
        let below = if source == Path::new(".") { path } else { path.strip_prefix(source).ok()? };
        Some((source.clone(), below.to_owned()))
    };
    let inside = || sources.first().filter(|source| path.is_relative() && source.join(path).symlink_metadata().is_ok());
    let known = sources.iter().find_map(below).or_else(|| inside().map(|source| (source.clone(), path.to_owned())));
    known.filter(|(_, below)| !below.as_os_str().is_empty()).ok_or_else(|| {
        UsageError::new(format!("--explain {}: below no source", escape(path.as_os_str().as_bytes())))
            .remedy("sources on the command line are always copied; name an entry below one")
            .into()
    })
}

/// The rule in a line of a list.
fn rule(filters: &FilterOptions, list: usize, line: u32) -> &[u8] {
    let Some(list) = filters.lists.get(list) else { return b"" };
    let at = (line as usize).saturating_sub(1);
    let end = match list.syntax {
        ListSyntax::Pattern => return &list.text,
        ListSyntax::File => b'\n',
        ListSyntax::Rsync => 0,
    };
    list.text.split(|byte| *byte == end).nth(at).unwrap_or_default()
}

fn explanation_text(
    values: &Values,
    filters: &FilterOptions,
    operand: &Path,
    below: &Path,
    explained: &Explained,
) -> String {
    let at = |path: &Path| escape(operand.join(path).as_os_str().as_bytes());
    let mut text = at(below);
    text += if explained.is_left_out { " is excluded" } else { " is included" };
    if explained.path != below {
        text += &format!(", with {}", at(&explained.path));
    }
    if explained.is_missing {
        text += " (missing: matched as a file)";
    }
    text += "\n  ";
    text += &match &explained.reason {
        Reason::Unspoken => "no rule matches".to_owned(),
        Reason::List(number, line) if filters.has_rsync_rules() => {
            format!("--filter: {}", escape(rule(filters, *number, *line)))
        }
        Reason::List(number, line) => typed_lists(values).nth(*number).map_or_else(String::new, |list| {
            format!("{}: {}", list.shown(*line), escape(rule(filters, *number, *line)))
        }),
        Reason::File { path, line, text } => format!("{}, line {line}: {}", at(path), escape(text)),
        Reason::Limit(limit) => {
            let argument = match limit {
                ExceededLimit::MinSize => values.argument(&flags::MIN_SIZE),
                ExceededLimit::MaxSize => values.argument(&flags::MAX_SIZE),
                ExceededLimit::Newer => values.argument(&flags::NEWER),
                ExceededLimit::Older => values.argument(&flags::OLDER),
            };
            argument
                .map_or_else(String::new, |limit| format!("{} {}", limit.row.typed(), escape(limit.value.as_bytes())))
        }
    };
    text + "\n"
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;
    use crate::resolve::tests::good;

    #[test]
    fn contents_of_a_source_are_named_without_its_trailing_slash() {
        let temp = tempfile::tempdir().unwrap();
        let (source, file) = (temp.path().join("run7"), temp.path().join("run7/a"));
        std::fs::create_dir(&source).unwrap();
        std::fs::write(&file, b"").unwrap();
        for slash in ["", "/"] {
            let copy = good(&format!("sync {}{slash} there", source.display())).copy;
            for asked in [&file, Path::new("a")] {
                let (operand, below) = found(&copy, asked).unwrap();
                assert_eq!((operand.as_os_str(), below.as_os_str()), (source.as_os_str(), OsStr::new("a")), "{slash}");
            }
        }
    }
}
