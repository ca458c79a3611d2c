//! `cargo xtask house`: figures of the code's shape. They say where it grows too large to read, and tests hold none of them.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::ExitCode;

use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use crate::imports::{CRATES, Crate, is_for_tests, is_item_for_tests, source_files};
use crate::workspace::root;

/// Crates that users run or call; the others test, measure and release them.
const PRODUCT: &str = "crates/";
/// Limits: lines of a file, lines of a function. Longer ones are listed.
const FILE_LINES: usize = 500;
const FUNCTION_LINES: usize = 60;
/// Function names that say an act without its object.
const BARE_VERBS: &[&str] = &["look", "take", "tell", "told", "put", "pass"];

/// Counts of one crate, or of all.
#[derive(Default)]
struct Shape {
    /// Lines outside of tests.
    product: usize,
    /// Lines of tests.
    tests: usize,
    long_files: Vec<String>,
    long_functions: Vec<String>,
    /// Signatures with `Result<_, String>`.
    untyped_errors: usize,
    bare_verbs: usize,
    unwraps: usize,
}

/// Counts in the syntax of one file, outside of tests.
struct FileReader<'s> {
    place: &'s str,
    shape: &'s mut Shape,
    test_lines: usize,
}

impl FileReader<'_> {
    fn read_function(&mut self, signature: &syn::Signature, block: &syn::Block) {
        let (name, lines) = (signature.ident.to_string(), lines_of(block));
        if lines > FUNCTION_LINES {
            self.shape.long_functions.push(format!("{}: {name}, {lines} lines", self.place));
        }
        self.shape.bare_verbs += usize::from(BARE_VERBS.contains(&name.as_str()));
        if let syn::ReturnType::Type(_, returned) = &signature.output {
            self.shape.untyped_errors += usize::from(is_untyped_result(returned));
        }
    }
}

impl<'a> Visit<'a> for FileReader<'_> {
    fn visit_item(&mut self, item: &'a syn::Item) {
        if is_item_for_tests(item) {
            self.test_lines += lines_of(item);
            return;
        }
        if let syn::Item::Fn(function) = item {
            self.read_function(&function.sig, &function.block);
        }
        visit::visit_item(self, item);
    }

    fn visit_impl_item_fn(&mut self, function: &'a syn::ImplItemFn) {
        if !is_for_tests(&function.attrs) {
            self.read_function(&function.sig, &function.block);
            visit::visit_impl_item_fn(self, function);
        }
    }

    fn visit_expr_method_call(&mut self, call: &'a syn::ExprMethodCall) {
        self.shape.unwraps += usize::from(["unwrap", "expect"].contains(&call.method.to_string().as_str()));
        visit::visit_expr_method_call(self, call);
    }
}

fn lines_of(code: &impl Spanned) -> usize {
    let span = code.span();
    span.end().line - span.start().line + 1
}

/// Whether this is `Result<_, String>`.
fn is_untyped_result(returned: &syn::Type) -> bool {
    let syn::Type::Path(path) = returned else { return false };
    let Some(last) = path.path.segments.last().filter(|last| last.ident == "Result") else { return false };
    let syn::PathArguments::AngleBracketed(arguments) = &last.arguments else { return false };
    let error = arguments.args.iter().nth(1);
    matches!(error, Some(syn::GenericArgument::Type(syn::Type::Path(error))) if error.path.is_ident("String"))
}

impl Shape {
    fn read_crate(folder: &str) -> Result<Self, String> {
        let mut shape = Self::default();
        let is_built = source_files(&root().join(folder))?;
        for file in every_file(&root().join(folder)) {
            let text = fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
            let lines = text.lines().count();
            if !is_built.contains(&file) {
                shape.tests += lines;
                continue;
            }
            let place = file.strip_prefix(root()).unwrap_or(&file).display().to_string();
            let syntax = syn::parse_file(&text).map_err(|error| format!("{place}: {error}"))?;
            let mut reader = FileReader { place: &place, shape: &mut shape, test_lines: 0 };
            reader.visit_file(&syntax);
            let in_tests = reader.test_lines;
            let product = lines.saturating_sub(in_tests);
            (shape.product, shape.tests) = (shape.product + product, shape.tests + in_tests);
            if product > FILE_LINES {
                shape.long_files.push(format!("{place}: {product} lines"));
            }
        }
        Ok(shape)
    }

    fn row(&self, name: &str) -> String {
        let Self { product, tests, long_files, long_functions, untyped_errors, bare_verbs, unwraps } = self;
        let (files, functions) = (long_files.len(), long_functions.len());
        format!(
            "| {name} | {product} | {tests} | {files} | {functions} | {untyped_errors} | {bare_verbs} | {unwraps} |"
        )
    }

    fn add(&mut self, other: Self) {
        self.product += other.product;
        self.tests += other.tests;
        self.long_files.extend(other.long_files);
        self.long_functions.extend(other.long_functions);
        self.untyped_errors += other.untyped_errors;
        self.bare_verbs += other.bare_verbs;
        self.unwraps += other.unwraps;
    }
}

/// Every Rust file below `folder`, those of tests included.
fn every_file(folder: &Path) -> Vec<std::path::PathBuf> {
    let mut files = Vec::new();
    // The reader of modules reports unreadable files.
    let _ = crate::imports::list(folder, &mut files);
    files
}

/// Prints the tables.
pub fn main() -> ExitCode {
    match tables() {
        Ok(text) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

fn tables() -> Result<String, String> {
    let shapes: BTreeMap<&str, Shape> =
        CRATES.iter().map(|folder| Ok((*folder, Shape::read_crate(folder)?))).collect::<Result<_, String>>()?;
    let mut text = format!(
        "| crate | lines | of tests | files > {FILE_LINES} | functions > {FUNCTION_LINES} | Result<_, String> | bare verbs | unwrap, expect |\n\
         |---|---:|---:|---:|---:|---:|---:|---:|\n"
    );
    let mut product = Shape::default();
    for (folder, shape) in shapes {
        text.push_str(&format!("{}\n", shape.row(folder)));
        if folder.starts_with(PRODUCT) {
            product.add(shape);
        }
    }
    text.push_str(&format!(
        "{}\n\nlargest circle of modules (with and without a folder's own module):",
        product.row("**product**")
    ));
    let mut circles = Vec::new();
    for folder in CRATES.iter().filter(|folder| folder.starts_with(PRODUCT)) {
        let modules = Crate::read(&root().join(folder))?;
        let circle = modules.largest_strict_circle();
        text.push_str(&format!(" {folder} {} and {};", circle.len(), modules.largest_circle().len()));
        if !circle.is_empty() {
            circles.push(format!("{folder}: {}", circle.into_iter().collect::<Vec<_>>().join(" ")));
        }
    }
    text.push('\n');
    for (title, mut rows) in
        [("Files", product.long_files), ("Functions", product.long_functions), ("Circles", circles)]
    {
        rows.sort();
        text.push_str(&format!("\n{title}\n\n"));
        rows.iter().for_each(|row| text.push_str(&format!("- {row}\n")));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_code_is_distinguished_from_product_code() {
        let text = "fn put(x: Option<u8>) -> Result<u8, String> { Ok(x.unwrap()) }\n\
                    fn typed() -> Result<String, Error> { Ok(String::new()) }\n\
                    #[cfg(test)]\nmod tests {\n    fn take() { None::<u8>.unwrap(); }\n}\n";
        let mut shape = Shape::default();
        let mut reader = FileReader { place: "x.rs", shape: &mut shape, test_lines: 0 };
        reader.visit_file(&syn::parse_file(text).unwrap());
        assert_eq!(reader.test_lines, 4);
        assert_eq!((shape.untyped_errors, shape.bare_verbs, shape.unwraps), (1, 1, 1));
    }

    #[test]
    fn long_functions_are_named() {
        let lines = "    let _ = 1;\n".repeat(FUNCTION_LINES);
        let mut shape = Shape::default();
        let mut reader = FileReader { place: "x.rs", shape: &mut shape, test_lines: 0 };
        reader.visit_file(&syn::parse_file(&format!("fn long() {{\n{lines}}}")).unwrap());
        assert_eq!(shape.long_functions, ["x.rs: long, 62 lines"]);
    }
}
