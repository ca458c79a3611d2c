//! `cargo xtask imports`: imports between the modules of a crate, and circles among them.
//!
//! A module stands for its file and everything below it. Siblings never import each other in a circle, at any depth. A
//! folder's own module and its children may, up to five of them. Test code is left out.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use syn::visit::{self, Visit};

use crate::workspace::root;

/// The folders with the sources of each crate.
pub const CRATES: &[&str] = &[
    "crates/proto/src",
    "crates/base/src",
    "crates/engine/src",
    "crates/control/src",
    "crates/serve/src",
    "crates/inspect/src",
    "crates/job/src",
    "crates/show/src",
    "crates/cli/src",
    "bench/src",
    "e2e/src",
    "lab/src",
    "sim/src",
    "xtask/src",
];

/// Names of modules from the crate's root down; none is the root.
type ModulePath = Vec<String>;

/// One import: the importing module, the defining module, and the item's name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Import {
    /// The module that imports.
    pub from: ModulePath,
    /// The defining module.
    pub to: ModulePath,
    /// The imported item.
    pub item: String,
}

impl Import {
    fn describe(&self) -> String {
        let Self { from, to, item } = self;
        format!("{} -> {}::{item}", from.join("::"), to.join("::"))
    }
}

/// One file's references to other modules.
#[derive(Default)]
struct Module {
    /// Local names and their full paths, from `use`. Names of a `pub use` are exported again.
    uses: Vec<Use>,
    /// Every path in the code, as written.
    paths: Vec<Vec<String>>,
}

struct Use {
    name: String,
    path: Vec<String>,
    is_glob: bool,
}

/// The modules of a crate and their imports.
pub struct Crate {
    modules: BTreeMap<ModulePath, Module>,
}

impl Crate {
    /// Reads every file of the crate with its root in `folder`.
    pub fn read(folder: &Path) -> Result<Self, String> {
        let mut modules = BTreeMap::new();
        for file in source_files(folder)? {
            let Some(path) = module_path(folder, &file) else { continue };
            let text = fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
            let syntax = syn::parse_file(&text).map_err(|error| format!("{}: {error}", file.display()))?;
            let mut module = Module::default();
            SyntaxReader { module: &mut module }.visit_file(&syntax);
            modules.insert(path, module);
        }
        Ok(Self { modules })
    }

    /// All imports between modules, sorted, except between a module and its ancestor.
    pub fn imports(&self) -> BTreeSet<Import> {
        let is_own = |import: &Import| import.from.starts_with(&import.to) || import.to.starts_with(&import.from);
        self.all_imports().into_iter().filter(|import| !is_own(import)).collect()
    }

    /// Every import between two modules, in order.
    fn all_imports(&self) -> BTreeSet<Import> {
        let mut imports = BTreeSet::new();
        for (from, module) in &self.modules {
            let written = module.uses.iter().map(|one| &one.path).chain(&module.paths);
            for path in written {
                let Some((to, item)) = self.resolve(from, path, 0) else { continue };
                if to != *from {
                    imports.insert(Import { from: from.clone(), to, item });
                }
            }
        }
        imports
    }

    /// The modules of the largest circle of files.
    pub fn largest_strict_circle(&self) -> BTreeSet<String> {
        largest_circle(self.all_imports())
    }

    /// The same without imports between a module and those below it.
    pub fn largest_circle(&self) -> BTreeSet<String> {
        largest_circle(self.imports())
    }

    /// Resolves `path` in `module` to the defining module and the name there.
    fn resolve(&self, module: &[String], path: &[String], depth: usize) -> Option<(ModulePath, String)> {
        const DEPTH_MAX: usize = 8;
        if depth > DEPTH_MAX {
            return None;
        }
        let mut rest = path;
        let mut base: ModulePath;
        match path.first()?.as_str() {
            "crate" => {
                base = Vec::new();
                rest = &rest[1..];
            }
            "self" | "super" => {
                base = module.to_vec();
                while let Some(first) = rest.first() {
                    match first.as_str() {
                        "self" => {}
                        "super" => {
                            base.pop()?;
                        }
                        _ => break,
                    }
                    rest = &rest[1..];
                }
            }
            first => {
                let mut child = module.to_vec();
                child.push(first.to_owned());
                if self.modules.contains_key(&child) {
                    base = module.to_vec();
                } else {
                    let used = self.modules.get(module)?.uses.iter().find(|one| !one.is_glob && one.name == first)?;
                    if used.path.first().is_some_and(|start| start == first) {
                        return None;
                    }
                    let whole: Vec<String> = used.path.iter().chain(&path[1..]).cloned().collect();
                    return self.resolve(module, &whole, depth + 1);
                }
            }
        }
        while let Some(first) = rest.first() {
            base.push(first.clone());
            if !self.modules.contains_key(&base) {
                base.pop();
                break;
            }
            rest = &rest[1..];
        }
        if !self.modules.contains_key(&base) {
            return None;
        }
        let Some(name) = rest.first() else { return Some((base, "*".to_owned())) };
        let exported = self.modules[&base].uses.iter().find(|one| !one.is_glob && &one.name == name);
        if let Some(exported) = exported {
            let whole: Vec<String> = exported.path.iter().chain(&rest[1..]).cloned().collect();
            if let Some(found) = self.resolve(&base, &whole, depth + 1) {
                return Some(found);
            }
        }
        Some((base, name.clone()))
    }

    /// The circles of modules beside each other, each with the imports that close it.
    pub fn circles(&self) -> Vec<Circle> {
        let mut graphs: BTreeMap<ModulePath, BTreeMap<String, BTreeMap<String, Vec<Import>>>> = BTreeMap::new();
        for import in self.imports() {
            let common = import.from.iter().zip(&import.to).take_while(|(a, b)| a == b).count();
            let (from, to) = (import.from[common].clone(), import.to[common].clone());
            let graph = graphs.entry(import.from[..common].to_vec()).or_default();
            graph.entry(from).or_default().entry(to).or_default().push(import);
        }
        let mut circles = Vec::new();
        for (folder, graph) in graphs {
            let names: BTreeSet<&String> = graph.keys().chain(graph.values().flat_map(BTreeMap::keys)).collect();
            let reached: BTreeMap<&String, BTreeSet<&String>> =
                names.iter().map(|name| (*name, reachable(&graph, name))).collect();
            let mut seen = BTreeSet::new();
            for name in &names {
                let members: BTreeSet<&String> =
                    reached[*name].iter().copied().filter(|other| reached[*other].contains(*name)).collect();
                if members.len() < 2 || !seen.insert(members.clone()) {
                    continue;
                }
                let imports = members
                    .iter()
                    .flat_map(|from| graph[*from].iter().filter(|(to, _)| members.contains(to)))
                    .flat_map(|(_, imports)| imports.iter().cloned())
                    .collect();
                circles.push(Circle {
                    folder: folder.clone(),
                    members: members.into_iter().cloned().collect(),
                    imports,
                });
            }
        }
        circles
    }

    /// Modules right below `folder`, ground first, each with those beside it that it imports.
    pub fn layers(&self, folder: &[String]) -> Vec<(String, BTreeSet<String>)> {
        let mut graph: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for path in self.modules.keys().filter(|path| path.len() > folder.len() && path.starts_with(folder)) {
            graph.entry(path[folder.len()].clone()).or_default();
        }
        for import in self.imports() {
            let is_below = |path: &[String]| path.len() > folder.len() && path.starts_with(folder);
            if is_below(&import.from) && is_below(&import.to) && import.from[folder.len()] != import.to[folder.len()] {
                let from = graph.get_mut(&import.from[folder.len()]).expect("every module has an entry");
                from.insert(import.to[folder.len()].clone());
            }
        }
        let mut layers = Vec::new();
        while !graph.is_empty() {
            let is_ground = |needs: &BTreeSet<String>| needs.iter().all(|need| !graph.contains_key(need));
            let next = graph.iter().find(|(_, needs)| is_ground(needs)).or_else(|| graph.iter().next());
            let name = next.map(|(name, _)| name.clone()).expect("it is not empty");
            let needs = graph.remove(&name).unwrap_or_default();
            layers.push((name, needs));
        }
        layers
    }
}

/// Modules beside each other that import each other.
pub struct Circle {
    folder: ModulePath,
    members: Vec<String>,
    imports: Vec<Import>,
}

impl Circle {
    /// Its modules, and every import between them.
    pub fn describe(&self) -> String {
        let folder = if self.folder.is_empty() { "the crate".to_owned() } else { self.folder.join("::") };
        let mut text = format!("in {folder}: {} import each other\n", self.members.join(", "));
        for import in &self.imports {
            let _ = writeln!(text, "    {}", import.describe());
        }
        text
    }
}

/// The largest set of modules that all reach each other.
fn largest_circle(imports: BTreeSet<Import>) -> BTreeSet<String> {
    let mut graph: BTreeMap<String, BTreeMap<String, Vec<Import>>> = BTreeMap::new();
    for import in imports {
        let (from, to) = (import.from.join("::"), import.to.join("::"));
        graph.entry(from).or_default().entry(to).or_default().push(import);
    }
    let reached: BTreeMap<&String, BTreeSet<&String>> =
        graph.keys().map(|name| (name, reachable(&graph, name))).collect();
    let members = |name: &String| -> BTreeSet<&String> {
        let is_member = |other: &&&String| reached.get(**other).is_some_and(|back| back.contains(name));
        reached[name].iter().filter(is_member).copied().collect()
    };
    let largest = graph.keys().map(members).max_by_key(BTreeSet::len).unwrap_or_default();
    largest.into_iter().cloned().collect()
}

fn reachable<'a>(
    graph: &'a BTreeMap<String, BTreeMap<String, Vec<Import>>>,
    start: &'a String,
) -> BTreeSet<&'a String> {
    let mut found = BTreeSet::new();
    let mut open = vec![start];
    while let Some(next) = open.pop() {
        for to in graph.get(next).into_iter().flat_map(BTreeMap::keys) {
            if found.insert(to) {
                open.push(to);
            }
        }
    }
    found
}

/// Every Rust file below `folder` that is not built for tests only.
pub fn source_files(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let mut files = Vec::new();
    list(folder, &mut files)?;
    files.retain(|file| module_path(folder, file).is_some());
    Ok(files)
}

/// Every Rust file below `folder`.
pub fn list(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), String> {
    let entries = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    for entry in entries {
        let path = entry.map_err(|error| format!("{}: {error}", folder.display()))?.path();
        if path.is_dir() {
            list(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files.sort();
    Ok(())
}

/// The module that a file is, or none where it is only built for tests.
fn module_path(folder: &Path, file: &Path) -> Option<ModulePath> {
    let relative = file.strip_prefix(folder).ok()?.with_extension("");
    let mut path: ModulePath = relative.iter().map(|part| part.to_string_lossy().into_owned()).collect();
    let is_test = |name: &String| name == "tests" || name == "testing" || name.ends_with("_tests");
    if path.iter().any(is_test) {
        return None;
    }
    if matches!(path.last().map(String::as_str), Some("mod"))
        || matches!(path.as_slice(), [one] if one == "lib" || one == "main")
    {
        path.pop();
    }
    Some(path)
}

/// Collects a file's paths and imports.
struct SyntaxReader<'a> {
    module: &'a mut Module,
}

impl SyntaxReader<'_> {
    fn flatten(&mut self, tree: &syn::UseTree, prefix: &[String]) {
        let mut path = prefix.to_vec();
        match tree {
            syn::UseTree::Path(one) => {
                path.push(one.ident.to_string());
                self.flatten(&one.tree, &path);
            }
            syn::UseTree::Name(one) => self.push(&path, &one.ident.to_string(), None),
            syn::UseTree::Rename(one) => self.push(&path, &one.ident.to_string(), Some(one.rename.to_string())),
            syn::UseTree::Glob(_) => self.module.uses.push(Use { name: "*".to_owned(), path, is_glob: true }),
            syn::UseTree::Group(group) => group.items.iter().for_each(|item| self.flatten(item, prefix)),
        }
    }

    fn push(&mut self, prefix: &[String], ident: &str, rename: Option<String>) {
        let mut path = prefix.to_vec();
        if ident != "self" || path.is_empty() {
            path.push(ident.to_owned());
        }
        let name = rename.unwrap_or_else(|| path.last().cloned().unwrap_or_default());
        self.module.uses.push(Use { name, path, is_glob: false });
    }

    /// Paths among the tokens of a macro call. Only the macro knows its grammar.
    fn read_tokens(&mut self, tokens: proc_macro2::TokenStream) {
        use proc_macro2::TokenTree;
        let mut path: Vec<String> = Vec::new();
        let mut colons = 0;
        for token in tokens {
            match token {
                TokenTree::Ident(ident) => {
                    if colons != 2 {
                        self.end_path(&mut path);
                    }
                    path.push(ident.to_string());
                    colons = 0;
                }
                TokenTree::Punct(punct) if punct.as_char() == ':' => colons += 1,
                other => {
                    self.end_path(&mut path);
                    colons = 0;
                    if let TokenTree::Group(group) = other {
                        self.read_tokens(group.stream());
                    }
                }
            }
        }
        self.end_path(&mut path);
    }

    fn end_path(&mut self, path: &mut Vec<String>) {
        if path.len() > 1 {
            self.module.paths.push(path.clone());
        }
        path.clear();
    }
}

/// Whether an item is only built for tests.
pub fn is_for_tests(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let syn::Meta::List(list) = &attribute.meta else { return attribute.path().is_ident("test") };
        list.path.is_ident("cfg") && list.tokens.to_string() == "test"
    })
}

/// The attributes of the handled kinds of item. All other items count as always built.
pub fn is_item_for_tests(item: &syn::Item) -> bool {
    is_for_tests(match item {
        syn::Item::Mod(one) => &one.attrs,
        syn::Item::Use(one) => &one.attrs,
        syn::Item::Fn(one) => &one.attrs,
        syn::Item::Impl(one) => &one.attrs,
        syn::Item::Struct(one) => &one.attrs,
        syn::Item::Enum(one) => &one.attrs,
        syn::Item::Trait(one) => &one.attrs,
        syn::Item::Type(one) => &one.attrs,
        syn::Item::Const(one) => &one.attrs,
        _ => &[],
    })
}

impl<'a> Visit<'a> for SyntaxReader<'_> {
    fn visit_item(&mut self, item: &'a syn::Item) {
        if !is_item_for_tests(item) {
            visit::visit_item(self, item);
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'a syn::ImplItemFn) {
        if !is_for_tests(&item.attrs) {
            visit::visit_impl_item_fn(self, item);
        }
    }

    /// `pub(in PATH)` is no import.
    fn visit_visibility(&mut self, _: &'a syn::Visibility) {}

    fn visit_item_use(&mut self, item: &'a syn::ItemUse) {
        self.flatten(&item.tree, &[]);
    }

    fn visit_path(&mut self, path: &'a syn::Path) {
        if path.segments.len() > 1 {
            self.module.paths.push(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, one: &'a syn::Macro) {
        self.read_tokens(one.tokens.clone());
        visit::visit_macro(self, one);
    }
}

/// Options of the chore.
#[derive(Args)]
pub struct ImportsArguments {
    /// Print each module's imports, lowest first; only those of MODULE, if given
    #[arg(long, value_name = "MODULE", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    graph: Option<String>,
    /// Every import
    #[arg(long)]
    list: bool,
}

/// Runs the chore.
pub fn main(arguments: &ImportsArguments) -> ExitCode {
    let folder = |name: &str| name.split("::").filter(|part| !part.is_empty()).map(str::to_owned).collect();
    let shown: Option<ModulePath> = arguments.graph.as_deref().map(folder);
    let mut status = ExitCode::SUCCESS;
    for folder in CRATES {
        let one = match Crate::read(&root().join(folder)) {
            Ok(one) => one,
            Err(message) => {
                eprintln!("{message}");
                return ExitCode::FAILURE;
            }
        };
        println!("{folder}: {} modules", one.modules.len());
        if let Some(folder) = &shown {
            for (name, needs) in one.layers(folder) {
                println!("    {name:<20} {}", needs.into_iter().collect::<Vec<_>>().join(" "));
            }
        }
        if arguments.list {
            one.all_imports().iter().for_each(|import| println!("    {}", import.describe()));
        }
        for circle in one.circles() {
            print!("{}", circle.describe());
            status = ExitCode::FAILURE;
        }
    }
    status
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rooms of a crate, ground first, as its `lib.rs` lists them.
    fn rooms(folder: &Path) -> Vec<String> {
        let text = fs::read_to_string(folder.join("lib.rs")).expect("it is readable");
        let file = syn::parse_file(&text).expect("it is Rust");
        let modules = file.items.iter().filter_map(|item| match item {
            syn::Item::Mod(one) if !is_for_tests(&one.attrs) => Some(one.ident.to_string()),
            _ => None,
        });
        modules.collect()
    }

    fn crate_of(files: &[(&str, &str)]) -> Crate {
        let folder = tempfile::tempdir().expect("a temporary directory");
        for (name, text) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().expect("it is below the folder")).expect("a directory");
            fs::write(path, text).expect("a file");
        }
        Crate::read(folder.path()).expect("it is Rust")
    }

    #[test]
    fn no_modules_import_each_other_in_a_circle() {
        let mut found = Vec::new();
        for folder in CRATES {
            let one = Crate::read(&root().join(folder)).expect("it is Rust");
            assert!(one.modules.len() > 5, "{folder}");
            found.extend(one.circles().iter().map(|circle| format!("{folder}, {}", circle.describe())));
        }
        assert!(found.is_empty(), "{}", found.join("\n"));
    }

    #[test]
    fn rooms_import_only_lower_ones() {
        for (folder, rooms_min) in [("crates/base/src", 4), ("crates/engine/src", 10), ("crates/control/src", 3)] {
            let folder = root().join(folder);
            let rooms = rooms(&folder);
            let one = Crate::read(&folder).expect("it is Rust");
            let level = |path: &ModulePath| {
                let room = path.first().expect("the root imports nothing");
                rooms.iter().position(|name| name == room).unwrap_or_else(|| panic!("lib.rs does not list {room}"))
            };
            let is_upward = |import: &&Import| {
                let crosses_rooms = import.from.first() != import.to.first() && !import.to.is_empty();
                crosses_rooms && level(&import.from) < level(&import.to)
            };
            let imports = one.imports();
            let upward: Vec<String> = imports.iter().filter(is_upward).map(Import::describe).collect();
            assert!(rooms.len() >= rooms_min && upward.is_empty(), "{}", upward.join("\n"));
        }
    }

    #[test]
    fn a_folder_and_its_modules_form_small_circles_only() {
        for folder in CRATES.iter().filter(|folder| folder.starts_with("crates/")) {
            let circle = Crate::read(&root().join(folder)).expect("it is readable").largest_strict_circle();
            assert!(circle.len() <= 5, "{folder}: {circle:?}");
        }
    }

    #[test]
    fn a_circle_is_reported_with_its_imports() {
        let one = crate_of(&[
            ("lib.rs", "mod a; mod b; mod c;"),
            ("a.rs", "use crate::b::B; pub struct A;"),
            ("b.rs", "pub struct B; fn f() { super::c::inner::g(); }"),
            ("c/mod.rs", "pub mod inner; pub use inner::g;"),
            ("c/inner.rs", "use super::super::a::{self, A}; pub fn g() {}"),
        ]);
        let circles: Vec<String> = one.circles().iter().map(Circle::describe).collect();
        assert_eq!(circles.len(), 1);
        for expected in ["in the crate: a, b, c", "a -> b::B", "b -> c::inner::g", "c::inner -> a::A"] {
            assert!(circles[0].contains(expected), "{expected} is not in {}", circles[0]);
        }
    }

    #[test]
    fn folders_import_their_modules_and_tests_import_anything() {
        let one = crate_of(&[
            ("lib.rs", "mod a; mod b;"),
            ("a/mod.rs", "mod inner; pub use self::inner::B; pub struct A;"),
            ("a/inner.rs", "use super::A; pub struct B;"),
            ("b.rs", "use crate::a::B; #[cfg(test)] mod tests {}"),
            ("a/tests.rs", "use crate::b::X;"),
        ]);
        assert!(one.circles().is_empty());
        let imports: Vec<String> = one.imports().iter().map(Import::describe).collect();
        assert_eq!(imports, ["b -> a::inner::B"], "the module that defines it is the one that is imported");
    }
}
