//! Checks names: a type's name has one meaning in the whole workspace.

use std::collections::BTreeMap;
use std::fs;

use proc_macro2::TokenTree;
use syn::visit::{self, Visit};

use crate::imports::{CRATES, is_item_for_tests, source_files};
use crate::workspace::root;

/// Names with the same meaning in every crate.
const SHARED: &[&str] = &["Error"];

/// The types that a file defines, outside of tests.
#[derive(Default)]
struct TypeNames(Vec<String>);

impl<'a> Visit<'a> for TypeNames {
    fn visit_item(&mut self, item: &'a syn::Item) {
        let name = match item {
            syn::Item::Struct(one) => Some(&one.ident),
            syn::Item::Enum(one) => Some(&one.ident),
            syn::Item::Trait(one) => Some(&one.ident),
            syn::Item::Type(one) => Some(&one.ident),
            _ => None,
        };
        if !is_item_for_tests(item) {
            self.0.extend(name.map(ToString::to_string));
            visit::visit_item(self, item);
        }
    }

    /// Types that a macro declares.
    fn visit_macro(&mut self, one: &'a syn::Macro) {
        let tokens: Vec<TokenTree> = one.tokens.clone().into_iter().collect();
        for pair in tokens.windows(2) {
            if let [TokenTree::Ident(word), TokenTree::Ident(name)] = pair
                && (word == "struct" || word == "enum")
            {
                self.0.push(name.to_string());
            }
        }
    }
}

#[test]
fn a_type_name_means_one_thing_in_the_workspace() {
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for folder in CRATES {
        for file in source_files(&root().join(folder)).expect("it is readable") {
            let syntax = syn::parse_file(&fs::read_to_string(&file).expect("it is UTF-8")).expect("it is Rust");
            let mut names = TypeNames::default();
            names.visit_file(&syntax);
            for name in names.0 {
                places.entry(name).or_default().push(file.display().to_string());
            }
        }
    }
    assert!(places.len() > 500, "{} types", places.len());
    let is_reused = |(name, files): &(&String, &Vec<String>)| files.len() > 1 && !SHARED.contains(&name.as_str());
    let reused: Vec<String> =
        places.iter().filter(is_reused).map(|(name, files)| format!("{name}: {files:?}")).collect();
    assert!(reused.is_empty(), "{} names:\n{}", reused.len(), reused.join("\n"));
}
