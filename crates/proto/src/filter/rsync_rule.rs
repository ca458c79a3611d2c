//! Recognition of rsync's filter rules (rsync(1), "FILTER RULES"), which a file of patterns may have by mistake.

/// The action of an rsync filter rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RsyncAction {
    /// `-`: excludes.
    Exclude,
    /// `+`: includes.
    Include,
    /// `H`: excludes at the source only.
    Hide,
    /// `S`: includes at the source only.
    Show,
    /// `P`: protects from deletion at the target.
    Protect,
    /// `R`: permits deletion at the target.
    Risk,
    /// `.`: reads a file of rules.
    Merge,
    /// `:`: reads a file of rules in each directory.
    DirMerge,
    /// `!`: forgets the rules above it.
    Clear,
}

/// An rsync filter rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RsyncRule<'l> {
    /// What it does.
    pub action: RsyncAction,
    /// Its modifiers, without the comma.
    pub modifiers: &'l [u8],
    /// Its pattern or file name.
    pub argument: &'l [u8],
}

/// Each action with its letter, its word and its modifiers.
const ACTIONS: [(RsyncAction, u8, &[u8], &[u8]); 9] = [
    (RsyncAction::Exclude, b'-', b"exclude", PATTERN_MODIFIERS),
    (RsyncAction::Include, b'+', b"include", PATTERN_MODIFIERS),
    (RsyncAction::Hide, b'H', b"hide", PATTERN_MODIFIERS),
    (RsyncAction::Show, b'S', b"show", PATTERN_MODIFIERS),
    (RsyncAction::Protect, b'P', b"protect", PATTERN_MODIFIERS),
    (RsyncAction::Risk, b'R', b"risk", PATTERN_MODIFIERS),
    (RsyncAction::Merge, b'.', b"merge", FILE_MODIFIERS),
    (RsyncAction::DirMerge, b':', b"dir-merge", FILE_MODIFIERS),
    (RsyncAction::Clear, b'!', b"clear", b""),
];
const PATTERN_MODIFIERS: &[u8] = b"/!Csrpx";
const FILE_MODIFIERS: &[u8] = b"-+Cenw/!srpx";
/// The modifier that stands for CVS's patterns and needs no argument.
const CVS: &[u8] = b"C";

impl<'l> RsyncRule<'l> {
    /// Parses a line or a typed pattern; `None` if it has not the form of a rule. A space precedes the argument: an
    /// underscore, which rsync also takes, is too common in names.
    pub fn parse(line: &'l [u8]) -> Option<Self> {
        ACTIONS.iter().find_map(|(action, letter, word, known)| {
            let of_letter = line.strip_prefix(&[*letter]).and_then(|rest| Self::rest(*action, known, true, rest));
            of_letter.or_else(|| Self::rest(*action, known, false, line.strip_prefix(*word)?))
        })
    }

    /// Parses what follows the letter or the word. A comma precedes modifiers; after a letter it may be missing.
    fn rest(action: RsyncAction, known: &[u8], is_letter: bool, rest: &'l [u8]) -> Option<Self> {
        let (head, argument) = match rest.iter().position(|byte| *byte == b' ') {
            Some(end) => (&rest[..end], rest[end..].trim_ascii_start()),
            None => (rest, &b""[..]),
        };
        let modifiers = match head {
            [b',', modifiers @ ..] => modifiers,
            modifiers if is_letter || modifiers.is_empty() => modifiers,
            _ => return None,
        };
        let needs_argument = action != RsyncAction::Clear && modifiers != CVS;
        let is_rule = modifiers.iter().all(|byte| known.contains(byte)) && argument.is_empty() != needs_argument;
        is_rule.then_some(Self { action, modifiers, argument })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_and_words_with_modifiers_are_rules() {
        use RsyncAction::*;
        for (line, action, modifiers, argument) in [
            ("- *.o", Exclude, "", "*.o"),
            ("+ a.c", Include, "", "a.c"),
            ("-! *.o", Exclude, "!", "*.o"),
            ("-,s *.o", Exclude, "s", "*.o"),
            ("-C", Exclude, "C", ""),
            ("+/ /a/b", Include, "/", "/a/b"),
            ("P *.o", Protect, "", "*.o"),
            ("P,p .nfs*", Protect, "p", ".nfs*"),
            ("H,! *.o", Hide, "!", "*.o"),
            ("S *.c", Show, "", "*.c"),
            ("R  a b", Risk, "", "a b"),
            (". more", Merge, "", "more"),
            (".e- rules", Merge, "e-", "rules"),
            (": .rules", DirMerge, "", ".rules"),
            (":C", DirMerge, "C", ""),
            ("!", Clear, "", ""),
            ("clear", Clear, "", ""),
            ("exclude *.o", Exclude, "", "*.o"),
            ("exclude,s *.o", Exclude, "s", "*.o"),
            ("include a.c", Include, "", "a.c"),
            ("hide *.o", Hide, "", "*.o"),
            ("show *.c", Show, "", "*.c"),
            ("protect *.o", Protect, "", "*.o"),
            ("risk *.o", Risk, "", "*.o"),
            ("merge rules", Merge, "", "rules"),
            ("dir-merge,n .rules", DirMerge, "n", ".rules"),
        ] {
            let rule = RsyncRule { action, modifiers: modifiers.as_bytes(), argument: argument.as_bytes() };
            assert_eq!(RsyncRule::parse(line.as_bytes()), Some(rule), "{line}");
        }
    }

    #[test]
    fn names_and_patterns_are_no_rules() {
        for line in [
            "",
            "-",
            "+",
            "..",
            "...",
            ":",
            "-a",
            "+x",
            "*.o",
            "P",
            "Pictures",
            "Private notes",
            "H_x",
            "Program Files",
            ".ssh keys",
            "!a",
            "!a b",
            "clear all",
            "clearance",
            "hide",
            "hidef x",
            "merged x",
            "excludes x",
            "include.h",
            "exclude/",
            "\\P x",
            "\\- notes",
            "[P] *.o",
            "p x",
            "# P x",
            " - x",
        ] {
            assert_eq!(RsyncRule::parse(line.as_bytes()), None, "{line}");
        }
    }
}
