//! Paths allowed in the reports of an end: those of its source arguments or of the target, and all below them.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Components, Path};

use haul_base::copy::display_path::{before_contents, below};
use haul_base::copy::location::Host;
use haul_base::copy::spec::CopySpec;
use haul_proto::limits::PATH_MAX;
use haul_proto::path::{MAX_NAME, Name};
use haul_proto::wire::request::TargetOperand;

use super::base::full_path;

/// Paths that the ends of a copy may name.
pub struct ReportScope {
    /// Paths of the source arguments; `None` for a list or a server, which name sources differently.
    operands: Option<AllowedPaths>,
    /// Path of the target, as typed.
    target: Vec<u8>,
    /// Whether the target may name another directory: it follows a link to a file, or belongs to a server.
    is_target_elsewhere: bool,
    landings: AllowedDestinations,
}

/// Allowed destinations below the target.
enum AllowedDestinations {
    /// Any path: a directory or a list may contain any name.
    Anywhere,
    /// The target itself, or one file in its directory.
    One,
    /// These paths, or paths below them.
    At(AllowedPaths),
}

/// Paths with their lengths, to avoid a lookup at each component of a deep path.
#[derive(Default)]
struct AllowedPaths {
    all: HashSet<Vec<u8>>,
    lengths: HashSet<usize>,
}

impl FromIterator<Vec<u8>> for AllowedPaths {
    fn from_iter<I: IntoIterator<Item = Vec<u8>>>(paths: I) -> Self {
        let all: HashSet<_> = paths.into_iter().collect();
        let lengths = all.iter().map(Vec::len).collect();
        Self { all, lengths }
    }
}

impl AllowedPaths {
    /// Whether this is one of the paths, or below one.
    fn cover(&self, path: &[u8]) -> bool {
        self.all.contains(path)
            || splits(path)
                .any(|(above, rest)| self.lengths.contains(&above.len()) && self.all.contains(above) && is_below(rest))
    }
}

impl ReportScope {
    /// Creates the scope before the source has reported its arguments.
    pub fn new(copy: &CopySpec) -> Self {
        let base = copy.options.source.base.as_deref();
        let is_served = |host: &Host| matches!(host, Host::Served { .. });
        let operands: AllowedPaths =
            copy.sources.iter().map(|source| full_path(base, source)).flat_map(with_contents).collect();
        let target = copy.target.path.as_os_str().as_bytes();
        Self {
            operands: (copy.list.is_none() && !is_served(copy.source_host())).then_some(operands),
            target: if target.is_empty() { b".".to_vec() } else { target.to_vec() },
            is_target_elsewhere: is_served(&copy.target.host),
            landings: AllowedDestinations::Anywhere,
        }
    }

    /// Sets the source's arguments, and the directories below the target for each. A copy with a list has none.
    pub fn set_operands(&mut self, operands: &[TargetOperand], parents: &[Vec<Name>]) {
        let is_contents = |operand: &TargetOperand| operand.directory && operand.name.is_none();
        self.landings = match operands {
            [] | [TargetOperand { directory: true, .. }] => AllowedDestinations::Anywhere,
            [_] if parents.iter().all(Vec::is_empty) => {
                self.is_target_elsewhere = true;
                AllowedDestinations::One
            }
            _ if operands.iter().any(is_contents) => AllowedDestinations::Anywhere,
            _ => AllowedDestinations::At(
                operands.iter().enumerate().map(|(number, operand)| landing(parents, number, operand)).collect(),
            ),
        };
    }

    /// Whether the source may report on this path.
    pub fn has_source(&self, path: &[u8]) -> bool {
        let Some(operands) = &self.operands else { return true };
        operands.cover(path) || is_cut_below(path, &operands.all)
    }

    /// Whether the target may report this path, relative to its destination, as complete. Data in a pipe or a device
    /// has no path.
    pub fn has_landed(&self, path: &[u8]) -> bool {
        if path.is_empty() || path == self.target || is_cut_below(path, [&self.target]) {
            return true;
        }
        is_below(path)
            && match &self.landings {
                AllowedDestinations::Anywhere => true,
                AllowedDestinations::One => !path.contains(&b'/'),
                AllowedDestinations::At(paths) => paths.cover(path),
            }
    }

    /// Whether the target may report on this display path.
    pub fn has_target(&self, path: &[u8]) -> bool {
        if is_cut_below(path, [&self.target]) {
            return true;
        }
        let parent = Path::new(OsStr::from_bytes(&self.target)).parent();
        let is_parent = parent.is_some_and(|parent| parent.as_os_str().as_bytes() == path);
        let is_elsewhere = self.is_target_elsewhere && components(path).all(|part| part != Component::ParentDir);
        !path.contains(&0) && (is_parent || is_elsewhere || self.begins_with_target(path))
    }

    fn begins_with_target(&self, path: &[u8]) -> bool {
        let mut rest = components(path);
        components(&self.target).all(|part| rest.next() == Some(part))
            && rest.all(|part| matches!(part, Component::Normal(_)))
    }
}

/// A source argument as it stands alone, and before its contents.
fn with_contents(path: Vec<u8>) -> [Vec<u8>; 2] {
    [before_contents(&path).to_vec(), path]
}

/// Returns the destination of one of several source arguments.
fn landing(parents: &[Vec<Name>], number: usize, operand: &TargetOperand) -> Vec<u8> {
    let names = parents.get(number).into_iter().flatten();
    names.chain(&operand.name).fold(Vec::new(), |path, name| below(&path, name.as_bytes()))
}

fn components(path: &[u8]) -> Components<'_> {
    Path::new(OsStr::from_bytes(path)).components()
}

/// Whether this is the end of a longer path, as a worker sends it: names, after the end of a name or of a `known` path.
fn is_cut_below<'a>(path: &[u8], known: impl IntoIterator<Item = &'a Vec<u8>>) -> bool {
    if path.len() < PATH_MAX {
        return false;
    }
    let names = path.rsplit(|&byte| byte == b'/').take_while(|part| Name::new(part).is_ok());
    let below: usize = names.map(|name| name.len() + 1).sum();
    let start = &path[..path.len().saturating_sub(below)];
    let is_end_of_name = start.len() <= MAX_NAME && !start.iter().any(|byte| [b'/', 0].contains(byte));
    let is_in = |known: &Vec<u8>| path.get(..=start.len()).is_some_and(|start| contains(known, start));
    is_end_of_name || known.into_iter().any(is_in)
}

fn contains(path: &[u8], part: &[u8]) -> bool {
    path.windows(part.len()).any(|window| window == part)
}

/// Whether each component is a valid name.
fn is_below(path: &[u8]) -> bool {
    path.split(|&byte| byte == b'/').all(|part| Name::new(part).is_ok())
}

/// Splits a path at each slash that follows a name or comes first. Yields the part above, without and with the slash,
/// and the part below.
fn splits(path: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let at = (0..path.len()).filter(|&at| path[at] == b'/' && !path[..at].ends_with(b"/"));
    at.flat_map(|at| [(&path[..at], &path[at + 1..]), (&path[..=at], &path[at + 1..])])
}

#[cfg(test)]
mod tests {
    use haul_base::copy::location::Location;
    use haul_base::copy::spec::{CopyOptions, RemoteAccess};

    use super::*;

    fn scope(sources: &[&str], target: &str, operands: &[(&str, bool)], parents: &[&str]) -> ReportScope {
        let at = |path: &str| Location { host: Host::Local, path: path.into() };
        let copy = CopySpec {
            sources: sources.iter().map(|path| at(path)).collect(),
            list: None,
            target: at(target),
            options: CopyOptions::default(),
            access: RemoteAccess::default(),
        };
        let mut scope = ReportScope::new(&copy);
        let name = |text: &str| Name::new(text.as_bytes()).ok();
        let operand = |(text, directory): &(&str, bool)| TargetOperand {
            name: name(text),
            directory: *directory,
            device: 0,
            inode: 0,
        };
        let parents: Vec<Vec<Name>> = parents.iter().map(|names| names.split('/').filter_map(name).collect()).collect();
        scope.set_operands(&operands.iter().map(operand).collect::<Vec<_>>(), &parents);
        scope
    }

    #[test]
    fn a_source_names_its_arguments_and_entries_below() {
        let contents = scope(&["tree/."], "t", &[("", true)], &[]);
        for (path, is_source) in [("tree/.", true), ("tree/x/y", true), ("tree/../x", false), ("tree2/x", false)] {
            assert_eq!(contents.has_source(path.as_bytes()), is_source, "{path}");
        }
        let scope = scope(&["/data/tree", "a/", "../b"], "t", &[("tree", true), ("a", true), ("b", false)], &[]);
        for path in ["/data/tree", "/data/tree/x/y", "a/", "a/x", "../b"] {
            assert!(scope.has_source(path.as_bytes()), "{path}");
        }
        for path in
            ["/etc/passwd", "/data/tree2", "/data/tree/../x", "/data", "a//x", "a/./x", "../c", "b", "", "a/x\0"]
        {
            assert!(!scope.has_source(path.as_bytes()), "{path}");
        }
        let root = scope_of_root();
        assert!(root.has_source(b"/etc") && !root.has_source(b"etc"));
    }

    fn scope_of_root() -> ReportScope {
        scope(&["/"], "t", &[("", true)], &[])
    }

    #[test]
    fn files_have_the_destination_of_their_arguments() {
        let several = scope(&["x/a", "b"], "t", &[("a", false), ("b", true)], &["x", ""]);
        for (path, lands) in
            [("x/a", true), ("b", true), ("b/c", true), ("a", false), ("c", false), ("b/../c", false), ("/b", false)]
        {
            assert_eq!(several.has_landed(path.as_bytes()), lands, "{path}");
        }
        let tree = scope(&["tree"], "/t", &[("tree", true)], &[]);
        for (path, lands) in [("tree/x", true), ("x", true), ("/etc/passwd", false), ("../x", false), ("a//b", false)] {
            assert_eq!(tree.has_landed(path.as_bytes()), lands, "{path}");
        }
        let file = scope(&["f"], "/dev/sda", &[("f", false)], &[]);
        for (path, lands) in [("f", true), ("g", true), ("/dev/sda", true), ("", true), ("etc/passwd", false)] {
            assert_eq!(file.has_landed(path.as_bytes()), lands, "{path}");
        }
    }

    #[test]
    fn a_cut_path_is_the_end_of_a_known_one() {
        let scope = scope(&["a//./b"], "t/././u", &[("b", true)], &[]);
        let admits = |path: &[u8]| (scope.has_source(path), scope.has_landed(path), scope.has_target(path));
        for (start, by_source, by_target) in [
            ("ame", true, true),
            ("", true, true),
            ("..", true, true),
            ("//./b", true, false),
            ("/././u", false, true),
            ("././../../../etc", false, false),
            ("x/..", false, false),
            ("x//y", false, false),
            ("x\0", false, false),
        ] {
            let left = PATH_MAX - start.len();
            let path = [start, &"/name".repeat(left / 5), &"x".repeat(left % 5)].concat();
            assert_eq!(admits(path.as_bytes()), (by_source, by_target, by_target), "{start}");
        }
        assert!(!scope.has_source(&[&vec![b'x'; PATH_MAX - 12][..], b"/.././passwd"].concat()));
        assert!(!scope.has_source(&vec![b'x'; PATH_MAX]), "no name is so long");
    }

    #[test]
    fn a_target_names_itself_and_entries_below() {
        for (target, good, bad) in [
            ("/t", ["/t", "/t/x", "/"], ["/u", "t", "/t/../x"]),
            ("t/", ["t/x", "t", ""], ["/t", "u", "t/../x"]),
            ("", [".", "./x", "./x/y"], ["/x", "..", "./../x"]),
            ("../t", ["../t", "../t/x", ".."], ["../u", "t", "../../t"]),
        ] {
            let scope = scope(&["tree"], target, &[("tree", true)], &[]);
            good.iter().for_each(|path| assert!(scope.has_target(path.as_bytes()), "{target}: {path}"));
            bad.iter().for_each(|path| assert!(!scope.has_target(path.as_bytes()), "{target}: {path}"));
        }
        let file = scope(&["f"], "link", &[("f", false)], &[]);
        assert!(file.has_target(b"/what/it/leads/to") && !file.has_target(b"/what/../it"));
    }
}
