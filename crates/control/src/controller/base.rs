//! `--dirbase`: sources relative to a base, with their relative paths recreated below the target. The controller derives
//! these paths from the command line; the ends only receive them.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path};

use haul_base::copy::display_path::marked_base;
use haul_base::copy::error::Error;
use haul_base::copy::location::Location;
use haul_base::copy::spec::CopySpec;
use haul_proto::path::{Name, escape};
use haul_proto::wire::request::TargetOperand;

/// Returns the source path sent to its host.
pub fn full_path(base: Option<&Path>, source: &Location) -> Vec<u8> {
    match base {
        // `join` would drop the trailing `.` that selects a directory's contents.
        Some(base) if source.path.is_relative() => {
            haul_base::copy::display_path::below(base.as_os_str().as_bytes(), bytes(source))
        }
        _ => bytes(source).to_vec(),
    }
}

/// Returns, for each source, its parent directories below the target; empty without a base.
pub fn parents_of_sources(copy: &CopySpec) -> Result<Vec<Vec<Name>>, Error> {
    let below_mark = |source: &Location| {
        let below = marked_base(bytes(source)).map_or(&b""[..], |(_, below)| below);
        source_parents(&Location { host: source.host.clone(), path: OsStr::from_bytes(below).into() })
    };
    match &copy.options.source.base {
        _ if copy.options.source.marks_bases => copy.sources.iter().map(below_mark).collect(),
        Some(_) => copy.sources.iter().map(source_parents).collect(),
        None => Ok(Vec::new()),
    }
}

/// Returns the parent directories of a source below the target, relative to the base.
pub fn source_parents(source: &Location) -> Result<Vec<Name>, Error> {
    let path = bytes(source);
    if source.path.is_absolute() {
        return Ok(Vec::new());
    }
    let no_way = || {
        let shown = escape(path);
        Error::Usage(format!("{shown} leads out of the base (--dirbase)\nwrite the path without .."))
    };
    let own_name = haul_base::copy::display_path::own_name(&source.path).is_some();
    let components = Path::new(&source.path).components();
    let mut names = Vec::new();
    for component in components.filter(|component| *component != Component::CurDir) {
        let Component::Normal(name) = component else { return Err(no_way()) };
        names.push(Name::new(name.as_bytes()).map_err(|_| no_way())?);
    }
    if own_name {
        names.pop();
    }
    Ok(names)
}

/// Refuses two source arguments with the same name and destination.
pub fn refuse_twins(operands: &[TargetOperand], below: &[Vec<Name>]) -> Result<(), Error> {
    let names = |number: usize| below.get(number).map_or(&[][..], |names| names);
    let mut seen = HashSet::new();
    let mut named =
        operands.iter().enumerate().filter_map(|(number, operand)| Some((names(number), operand.name.as_ref()?)));
    match named.find(|place| !seen.insert(*place)) {
        None => Ok(()),
        Some((_, name)) => Err(Error::Usage(format!(
            "two sources have the same name at the target: '{name}'\ncopy them separately, to different directories"
        ))),
    }
}

fn bytes(source: &Location) -> &[u8] {
    source.path.as_os_str().as_bytes()
}

#[cfg(test)]
mod tests {
    use haul_base::copy::location::Host;
    use haul_base::copy::spec::{CopyOptions, RemoteAccess, SourceOptions};

    use super::*;

    fn copy(base: Option<&str>, sources: &[&str]) -> CopySpec {
        let at = |path: &str| Location { host: Host::Local, path: path.into() };
        let source = SourceOptions { base: base.map(Into::into), ..SourceOptions::default() };
        let options = CopyOptions { source, ..CopyOptions::default() };
        CopySpec {
            sources: sources.iter().map(|path| at(path)).collect(),
            list: None,
            target: at("t"),
            options,
            access: RemoteAccess::default(),
        }
    }

    fn parents(base: Option<&str>, sources: &[&str]) -> Vec<String> {
        let shown = |names: &Vec<Name>| names.iter().map(Name::to_string).collect::<Vec<_>>().join("/");
        parents_of_sources(&copy(base, sources)).unwrap().iter().map(shown).collect()
    }

    #[test]
    fn a_relative_source_is_below_the_base_and_an_absolute_one_is_not() {
        let sources = ["a", "a/b/c", "./a//b/", "a/b/.", "/x/y", "."];
        assert_eq!(parents(Some("/base"), &sources), ["", "a/b", "a", "a/b", "", ""]);
        assert!(parents(None, &sources).is_empty());
        let copy = copy(Some("/base"), &sources);
        let paths: Vec<_> =
            copy.sources.iter().map(|source| full_path(copy.options.source.base.as_deref(), source)).collect();
        let expected = ["/base/a", "/base/a/b/c", "/base/./a//b/", "/base/a/b/.", "/x/y", "/base/."];
        assert_eq!(paths, expected.map(|path| path.as_bytes().to_vec()));
    }

    #[test]
    fn a_marked_source_is_below_its_own_base() {
        let mut copy = copy(None, &["/x/./a/b", "y/./c/./d/.", "./.", "z/././e"]);
        copy.options.source.marks_bases = true;
        let shown = |names: &Vec<Name>| names.iter().map(Name::to_string).collect::<Vec<_>>().join("/");
        assert_eq!(parents_of_sources(&copy).unwrap().iter().map(shown).collect::<Vec<_>>(), ["a", "c/d", "", ""]);
        copy.sources[0].path = "/x/./../a".into();
        assert!(matches!(parents_of_sources(&copy), Err(Error::Usage(_))));
    }

    #[test]
    fn paths_cannot_leave_the_base() {
        for source in ["../x", "a/../b", "..", "a/.."] {
            assert!(matches!(parents_of_sources(&copy(Some("/base"), &[source])), Err(Error::Usage(_))), "{source}");
        }
    }

    #[test]
    fn two_sources_of_one_name_need_different_places() {
        let operand =
            |name: &str| TargetOperand { name: Name::new(name.as_bytes()).ok(), directory: false, device: 0, inode: 0 };
        let operands = |names: &[&str]| names.iter().map(|name| operand(name)).collect::<Vec<_>>();
        assert!(refuse_twins(&operands(&["a", "b"]), &[]).is_ok());
        assert!(matches!(refuse_twins(&operands(&["a", "b", "a"]), &[]), Err(Error::Usage(_))));
        assert!(refuse_twins(&operands(&["", ""]), &[]).is_ok(), "contents have no name");
        let names = |name: &str| vec![Name::new(name.as_bytes()).unwrap()];
        assert!(refuse_twins(&operands(&["a", "a"]), &[names("x"), names("y")]).is_ok());
        assert!(refuse_twins(&operands(&["a", "a"]), &[names("x"), names("x")]).is_err());
    }
}
