//! `cargo xtask messages`: every message of haul in one listing, in the order of the sources.
//!
//! A message is a string literal with a letter and a space, in the users' code. Two kinds are left out: help texts
//! (docs/OPTIONS.md has them), and texts of assertions, since those report bugs of haul.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::ExitCode;

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};

use crate::imports::{is_for_tests, is_item_for_tests, source_files};
use crate::workspace::root;

const LISTING: &str = "xtask/src/messages.txt";
/// Crates with messages for users.
const PRODUCT: &[&str] = &[
    "crates/base/src",
    "crates/cli/src",
    "crates/control/src",
    "crates/engine/src",
    "crates/inspect/src",
    "crates/job/src",
    "crates/proto/src",
    "crates/serve/src",
    "crates/show/src",
];
/// Sources of documents and of commands for a shell: they hold no messages.
const NO_MESSAGES: &[&str] = &[
    "args/commands.rs",
    "args/completions.rs",
    "args/manual.rs",
    "args/markdown.rs",
    "launch/script.rs",
    "src/plan_index.rs",
];
/// A longer text is a document.
const MESSAGE_LINES_MAX: usize = 4;
/// Types of constants that hold help.
const HELP: &[&str] = &["Flag", "Takes"];
/// Functions that take help, in the declarations of options.
const HELP_CALLS: &[&str] = &["row", "with_help", "refused"];
/// Macros and methods with texts about bugs of haul.
const ASSERTIONS: &str =
    "assert assert_eq assert_ne debug_assert debug_assert_eq debug_assert_ne panic unreachable expect expect_err";
const LINE_CHARS_MAX: usize = 100;
/// Words that only this project knew; docs/glossary.md and docs/STYLE.md have better ones.
const OLD_WORDS: &str = "goes on, go on, going on, anew, begun again, in vain, told, let in, left out, leaves out, \
                         there alone, there already, alone has, alone had, proven, operand, way";

const INTRODUCTION: &str = "\
Every text that haul shows, by file of its sources. `cargo xtask messages` writes this listing, and a test compares it.
Braces stand for values, some texts are parts of others, and further lines of a message are hints.
";

/// The messages of one file, in order.
#[derive(Default)]
struct Messages(Vec<String>);

impl Messages {
    fn of(text: &str) -> Result<Self, syn::Error> {
        let mut messages = Self::default();
        messages.visit_file(&syn::parse_file(text)?);
        Ok(messages)
    }

    fn push(&mut self, literal: &syn::LitStr) {
        let text = literal.value();
        let is_words =
            text.trim().contains(' ') && shown(&text).split(|c: char| !c.is_alphabetic()).any(|word| word.len() > 1);
        let is_document = text.lines().count() > MESSAGE_LINES_MAX || text.starts_with(['<', '#']);
        if is_words && !is_document && !text.starts_with("exec ") && !self.0.contains(&text) {
            self.0.push(text);
        }
    }

    /// Literals among the tokens of a macro call. Only the macro knows its grammar.
    fn read_tokens(&mut self, tokens: TokenStream) {
        let mut last = String::new();
        let mut is_attribute = false;
        for token in tokens {
            match token {
                TokenTree::Literal(literal) => {
                    if let syn::Lit::Str(text) = syn::Lit::new(literal) {
                        self.push(&text);
                    }
                }
                TokenTree::Group(group)
                    if !is_attribute && !is_assertion(&last) && !HELP_CALLS.contains(&last.as_str()) =>
                {
                    self.read_tokens(group.stream());
                }
                TokenTree::Ident(ident) => last = ident.to_string(),
                TokenTree::Punct(punct) if punct.as_char() == '#' => {
                    is_attribute = true;
                    continue;
                }
                TokenTree::Punct(punct) if punct.as_char() == '!' => continue,
                _ => last.clear(),
            }
            is_attribute = false;
        }
    }
}

impl<'a> Visit<'a> for Messages {
    fn visit_item(&mut self, item: &'a syn::Item) {
        let is_help = matches!(item, syn::Item::Const(one) if is_help(&one.ty));
        if !is_help && !is_item_for_tests(item) {
            visit::visit_item(self, item);
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'a syn::ImplItemFn) {
        if !is_for_tests(&item.attrs) {
            visit::visit_impl_item_fn(self, item);
        }
    }

    fn visit_attribute(&mut self, attribute: &'a syn::Attribute) {
        if let (true, syn::Meta::List(list)) = (attribute.path().is_ident("error"), &attribute.meta) {
            self.read_tokens(list.tokens.clone());
        }
    }

    fn visit_lit_str(&mut self, literal: &'a syn::LitStr) {
        self.push(literal);
    }

    fn visit_expr_method_call(&mut self, call: &'a syn::ExprMethodCall) {
        if is_assertion(&call.method.to_string()) {
            self.visit_expr(&call.receiver);
        } else {
            visit::visit_expr_method_call(self, call);
        }
    }

    fn visit_macro(&mut self, one: &'a syn::Macro) {
        let name = one.path.segments.last().map(|segment| segment.ident.to_string()).unwrap_or_default();
        if !is_assertion(&name) {
            self.read_tokens(one.tokens.clone());
        }
    }
}

fn is_assertion(name: &str) -> bool {
    ASSERTIONS.split(' ').any(|one| one == name)
}

/// Whether a constant of this type holds help.
fn is_help(ty: &syn::Type) -> bool {
    match ty {
        syn::Type::Path(one) => one.path.segments.iter().any(|segment| HELP.iter().any(|name| segment.ident == name)),
        syn::Type::Reference(one) => is_help(&one.elem),
        syn::Type::Slice(one) => is_help(&one.elem),
        syn::Type::Array(one) => is_help(&one.elem),
        _ => false,
    }
}

/// The messages of the product: by folder, by file.
fn collect() -> Result<BTreeMap<String, Vec<(String, Messages)>>, String> {
    let mut rooms: BTreeMap<String, Vec<(String, Messages)>> = BTreeMap::new();
    for source in PRODUCT {
        for file in source_files(&root().join(source))? {
            if NO_MESSAGES.iter().any(|name| file.ends_with(name)) {
                continue;
            }
            let text = fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
            let messages = Messages::of(&text).map_err(|error| format!("{}: {error}", file.display()))?;
            if !messages.0.is_empty() {
                rooms.entry(room(&file)).or_default().push((file_name(&file), messages));
            }
        }
    }
    Ok(rooms)
}

/// The folder of a file as the listing calls it: the crate, and the folder in its sources.
fn room(file: &Path) -> String {
    let folder = file.parent().and_then(|folder| folder.strip_prefix(root().join("crates")).ok());
    let parts = folder.into_iter().flat_map(Path::iter).map(|part| part.to_string_lossy());
    parts.filter(|part| part != "src").collect::<Vec<_>>().join("/")
}

fn file_name(file: &Path) -> String {
    file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

fn render(rooms: &BTreeMap<String, Vec<(String, Messages)>>) -> String {
    let mut listing = INTRODUCTION.to_owned();
    for (room, files) in rooms {
        for (file, messages) in files {
            let _ = writeln!(listing, "\n{room}/{file}");
            for message in &messages.0 {
                let shown: String = message.chars().filter(|c| *c == '\n' || !c.is_control()).collect();
                let lines: Vec<_> = shown.trim_matches('\n').lines().map(str::trim_end).collect();
                let _ = writeln!(listing, "    {}", lines.join("\n        "));
            }
        }
    }
    listing
}

/// A message without the names of inserted values. Users never see those.
fn shown(message: &str) -> String {
    message.split('{').map(|part| part.split_once('}').map_or(part, |(_, text)| text)).collect()
}

/// A message's mistakes.
fn fault(message: &str) -> Option<String> {
    let lower = shown(message).to_lowercase();
    let is_word = |start: usize, word: &str| {
        let before = lower[..start].chars().next_back();
        let after = lower[start + word.len()..].chars().next();
        ![before, after].into_iter().flatten().any(|c| c.is_alphanumeric() || c == '-' || c == '_')
    };
    let old = OLD_WORDS.split(", ").find(|word| lower.match_indices(word).any(|(start, _)| is_word(start, word)));
    if let Some(word) = old {
        return Some(format!("\"{word}\" is not plain English here"));
    }
    let first_chars = message.lines().next().unwrap_or_default().chars().count();
    if first_chars > LINE_CHARS_MAX {
        return Some(format!("{first_chars} characters in the first line, at most {LINE_CHARS_MAX}"));
    }
    let is_sentence = message.ends_with('.') && !message.ends_with("..") && !message.contains(". ");
    is_sentence.then(|| "a full stop after one sentence".to_owned())
}

/// Output in another program's format. Scripts depend on it.
const FOREIGN_ROOM: &str = "cli/commands/bbcp";

/// The messages that break a rule, each with its file.
fn faults(rooms: &BTreeMap<String, Vec<(String, Messages)>>) -> Vec<String> {
    let own_rooms = rooms.iter().filter(|(room, _)| *room != FOREIGN_ROOM);
    let files = own_rooms.flat_map(|(room, files)| files.iter().map(move |file| (room, file)));
    let of_file = |(room, (file, messages)): (&String, &(String, Messages))| {
        let found = messages.0.iter().filter_map(|message| Some((message, fault(message)?)));
        found.map(|(message, fault)| format!("{room}/{file}: {fault}\n    {message:?}")).collect::<Vec<_>>()
    };
    files.flat_map(of_file).collect()
}

fn write_listing() -> Result<(), String> {
    let rooms = collect()?;
    let path = root().join(LISTING);
    fs::write(&path, render(&rooms)).map_err(|error| format!("{}: {error}", path.display()))?;
    let faults = faults(&rooms);
    if faults.is_empty() { Ok(()) } else { Err(faults.join("\n")) }
}

/// Runs the chore.
pub fn main() -> ExitCode {
    match write_listing() {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_listing_has_each_message_of_the_sources() {
        let rooms = collect().expect("they are Rust");
        let count: usize = rooms.values().flatten().map(|(_, messages)| messages.0.len()).sum();
        let listing = fs::read_to_string(root().join(LISTING)).unwrap_or_default();
        assert!(count > 500, "{count} messages");
        assert!(listing == render(&rooms), "{LISTING} differs from the sources: run `cargo xtask messages`");
    }

    #[test]
    fn messages_follow_the_rules() {
        let faults = faults(&collect().expect("they are Rust"));
        assert!(faults.is_empty(), "{} messages:\n{}", faults.len(), faults.join("\n"));
    }

    #[test]
    fn messages_are_found_in_users_code() {
        let source = r##"
            //! A comment.
            const HELP: Flag<Switch> = row("a help text").switch();
            options! { ALL; HELP.with_help("a help text"); TIME: Single<u8> = row("a help text").one(|a| a.time("of an hour")); }
            const WORDS: [&str; 1] = ["in a table"];
            #[derive(Error)]
            enum Failed {
                /// A comment.
                #[error("of an {0}")]
                Error(u8),
            }
            #[deprecated = "not this"]
            fn shown(name: &str) {
                let text = format!("{name}: in a\n\tmacro", name.expect("no macro"));
                assert!(text.is_empty(), "no {text}");
                text.chars().next().map(|c| "in code").expect("no code");
                vec![("in a tuple", format!("nested {}", unreachable!("no nest"))), "word", "1 2"];
            }
            #[cfg(test)]
            mod tests { fn f() { "no test" } }
        "##;
        let expected =
            ["of an hour", "in a table", "of an {0}", "{name}: in a\n\tmacro", "in code", "in a tuple", "nested {}"];
        assert_eq!(Messages::of(source).expect("it is Rust").0, expected);
    }

    #[test]
    fn faults_of_messages_are_found() {
        for good in
            ["cannot read {path}: {cause}\ncheck it", "a way-point away: {way}", "First. Second.", "and so on ..."]
        {
            assert_eq!(fault(good), None, "{good}");
        }
        let long = format!("{}\nshort", "x ".repeat(51));
        for bad in ["it Goes on", "the way", "one sentence.", &long] {
            assert!(fault(bad).is_some(), "{bad}");
        }
    }
}
