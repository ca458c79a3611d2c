//! `haul verify SOURCE... TARGET`: compares, and copies nothing.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;

use haul_base::copy::display_path::{below, own_name};
use haul_base::copy::error::Outcome;
use haul_base::copy::event::{Difference, EntryKind, Event, Observer};
use haul_base::secrets::without_secrets;
use haul_base::shell_word::quote;
use haul_proto::path::escape;
use haul_show::exit::Exit;
use haul_show::{Half, Show, terminal};

use crate::args::values::Values;
use crate::resolve::{Plan, comparison};

/// Compares `operands`. The last operand is the target.
pub fn run(values: &Values, operands: &[OsString]) -> anyhow::Result<Exit> {
    let plan = comparison(values, operands, terminal::stderr_is_terminal())?;
    super::explain::asked(values, &plan).unwrap_or_else(|| {
        super::copy::carry_out_with(plan, |plan, steering| {
            let (show, words) = (super::copy::display(plan, steering)?, std::env::args_os().collect::<Vec<_>>());
            Ok(Box::new(ContentsHint { show, looked_up: looked_up(plan, operands), words }))
        })
    })
}

/// Paths at the target that stand for source directories, by cp's rules, with the sources as typed.
fn looked_up(plan: &Plan, operands: &[OsString]) -> Vec<(Vec<u8>, OsString)> {
    let root = plan.copy.target.path.as_os_str().as_bytes();
    let sources = plan.copy.sources.iter().filter(|_| plan.copy.options.source.base.is_none());
    let named = sources.zip(operands).filter_map(|(source, typed)| Some((own_name(&source.path)?, typed)));
    named.map(|(name, typed)| (below(root, name.as_bytes()), typed.clone())).collect()
}

/// A display that explains a missing directory: the user may have meant its contents.
struct ContentsHint {
    show: Box<dyn Show>,
    looked_up: Vec<(Vec<u8>, OsString)>,
    words: Vec<OsString>,
}

impl Observer for ContentsHint {
    fn event(&mut self, event: &Event) {
        self.show.event(event);
        let Event::Differs { path, differences, .. } = event else { return };
        let found = self.looked_up.iter().find(|(looked_up, _)| looked_up == path);
        if let (Some((_, source)), [Difference::Missing(EntryKind::Directory)]) = (found, &differences[..]) {
            let line = line_for_contents(&self.words, source);
            let (looked_up, source) = (escape(path), escape(source.as_bytes()));
            let text = format!("looked for {looked_up}; to compare the contents of {source}:\nhint: {line}");
            self.show.event(&Event::Warning(text));
        }
    }
}

impl Show for ContentsHint {
    fn complain(&mut self, message: &str) {
        self.show.complain(message);
    }

    fn without_other_half(&mut self, half: Half, path: &[u8]) {
        self.show.without_other_half(half, path);
    }

    fn finish(&mut self, outcome: &Outcome) -> io::Result<()> {
        self.show.finish(outcome)
    }
}

/// The typed line with the contents of `source` instead of `source`. `SOURCE/` means them in a sync.
fn line_for_contents(words: &[OsString], source: &OsStr) -> String {
    let (is_of_sync, mut line) = (source.as_bytes().ends_with(b"/"), String::from("haul"));
    for word in words.iter().skip(1) {
        let contents = if word == source && !is_of_sync { "/." } else { "" };
        let sync = if word == "verify" && is_of_sync && !line.contains(" --sync") { " --sync" } else { "" };
        line += &format!(" {}{sync}", quote(&format!("{}{contents}", escape(word.as_bytes()))));
    }
    without_secrets(&line).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_to_type_names_the_contents() {
        let line = |typed: &str, source: &str| {
            let words: Vec<_> = typed.split('|').map(OsString::from).collect();
            line_for_contents(&words, OsStr::new(source))
        };
        assert_eq!(line("haul|verify|-r|tree/a|vt", "tree/a"), "haul verify -r tree/a/. vt");
        assert_eq!(line("haul|-v|verify|-r|a b/|h:b", "a b/"), "haul -v verify --sync -r 'a b/' h:b");
        assert_eq!(line("/opt/haul|verify|-r|verify/|verify", "verify/"), "haul verify --sync -r verify/ verify");
    }
}
