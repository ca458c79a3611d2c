//! Created, changed and removed entries: lines for people and programs, and totals.

use std::time::Duration;

use haul_base::copy::event::{ChangeKind, ChangeReasons, EntryKind, ItemChange};
use haul_base::copy::summary::PlannedTotals;
use haul_proto::path::escape;
use serde::Serialize;

use crate::differences;
use crate::units::{count, counted, duration, files, size};

/// The names of reasons, for people and programs.
const REASONS: [(ChangeReasons, &str); 8] = [
    (ChangeReasons::KIND, "kind"),
    (ChangeReasons::SIZE, "size"),
    (ChangeReasons::TIME, "time"),
    (ChangeReasons::CONTENT, "content"),
    (ChangeReasons::MODE, "mode"),
    (ChangeReasons::OWNER, "owner"),
    (ChangeReasons::ATTRIBUTES, "attributes"),
    (ChangeReasons::LINK, "link"),
];

/// Note for names that look like others of other characters, on lines where that matters.
const COMBINING: &str = "combining characters";

/// `replaced   run7/a.dat (size, time)`; directories end in a slash.
pub fn words(path: &[u8], item: &ItemChange) -> String {
    let slash = if item.what == EntryKind::Directory { "/" } else { "" };
    let is_only_here = matches!(item.change, ChangeKind::Made | ChangeKind::Removed);
    let note = Some(COMBINING).filter(|_| is_only_here && has_combining_characters(path));
    let because = match reasons(item).into_iter().chain(note).collect::<Vec<_>>().join(", ") {
        none if none.is_empty() => none,
        some => format!(" ({some})"),
    };
    format!("{:<11}{}{slash}{because}", change(item), escape(path))
}

/// `run7/a.dat`, `run7/` or `deleting run7/b`, as rsync -v names entries.
pub fn name(path: &[u8], item: &ItemChange) -> String {
    let deleting = if item.change == ChangeKind::Removed { "deleting " } else { "" };
    let slash = if item.what == EntryKind::Directory { "/" } else { "" };
    format!("{deleting}{}{slash}", escape(path))
}

/// Whether a path contains letters composed of several characters, as normalisation form D writes `é`. They look like
/// letters of one character, so a created and a deleted name may look alike.
fn has_combining_characters(path: &[u8]) -> bool {
    let is_combining =
        |character| matches!(character, '\u{300}'..='\u{36f}' | '\u{1160}'..='\u{11ff}' | '\u{3099}' | '\u{309a}');
    !path.is_ascii() && path.utf8_chunks().any(|chunk| chunk.valid().chars().any(is_combining))
}

/// The fields of its event.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
pub struct ItemFields {
    what: &'static str,
    change: &'static str,
    reasons: Vec<&'static str>,
}

impl From<&ItemChange> for ItemFields {
    fn from(item: &ItemChange) -> Self {
        Self { what: differences::name(item.what), change: change(item), reasons: reasons(item) }
    }
}

fn change(item: &ItemChange) -> &'static str {
    match item.change {
        ChangeKind::Made => "created",
        ChangeKind::Replaced(_) => "replaced",
        ChangeKind::Adjusted(_) => "adjusted",
        ChangeKind::Linked => "linked",
        ChangeKind::Removed => "deleted",
        ChangeKind::Unchanged => "unchanged",
        ChangeKind::Kept => "kept",
    }
}

fn reasons(item: &ItemChange) -> Vec<&'static str> {
    match item.change {
        ChangeKind::Replaced(reasons) | ChangeKind::Adjusted(reasons) => {
            REASONS.iter().filter(|(reason, _)| reasons.has(*reason)).map(|(_, word)| *word).collect()
        }
        _ => Vec::new(),
    }
}

/// Totals of each kind.
#[derive(Debug, Default)]
pub struct Tally {
    /// Directories, links and special files, created or replaced.
    others: u64,
    adjusted: u64,
    linked: u64,
    removed: u64,
}

impl Tally {
    /// Counts one more.
    pub fn add(&mut self, item: &ItemChange) {
        *match item.change {
            ChangeKind::Made | ChangeKind::Replaced(_) if item.what == EntryKind::File => return,
            ChangeKind::Made | ChangeKind::Replaced(_) => &mut self.others,
            ChangeKind::Adjusted(_) => &mut self.adjusted,
            ChangeKind::Linked => &mut self.linked,
            ChangeKind::Removed => &mut self.removed,
            ChangeKind::Unchanged | ChangeKind::Kept => return,
        } += 1;
    }

    /// The first line of the summary of a dry run.
    pub fn headline(&self, planned: PlannedTotals, elapsed: Duration) -> String {
        let copied = format!("copy {}, {}", files(planned.files), size(planned.bytes));
        let made = format!("create {}", counted(self.others, "other entry", "other entries"));
        let adjusted = format!("adjust the metadata of {}", count(self.adjusted));
        let all = [
            (planned.files, copied),
            (self.others, made),
            (self.adjusted, adjusted),
            (self.linked, format!("link {}", count(self.linked))),
            (self.removed, format!("delete {}", count(self.removed))),
        ];
        let acts: Vec<_> = all.into_iter().filter(|(number, _)| *number > 0).map(|(_, act)| act).collect();
        let elapsed = duration(elapsed);
        match acts.is_empty() {
            true => format!("dry run: nothing would be changed; checked in {elapsed}"),
            false => format!("dry run: would {}; checked in {elapsed}", acts.join("; ")),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// One of each kind, with their names.
    pub fn every_item() -> Vec<(Vec<u8>, ItemChange)> {
        let reasons = |all: &[ChangeReasons]| all.iter().fold(ChangeReasons::default(), |sum, one| sum.and(*one, true));
        let size_and_time = reasons(&[ChangeReasons::SIZE, ChangeReasons::TIME]);
        let others = [ChangeReasons::MODE, ChangeReasons::OWNER, ChangeReasons::ATTRIBUTES, ChangeReasons::LINK];
        [
            ("run7", EntryKind::Directory, ChangeKind::Made),
            ("run7/a.dat", EntryKind::File, ChangeKind::Made),
            ("run7/b", EntryKind::File, ChangeKind::Replaced(size_and_time)),
            (
                "run7/c",
                EntryKind::Symlink,
                ChangeKind::Replaced(reasons(&[ChangeReasons::KIND, ChangeReasons::CONTENT])),
            ),
            ("run7/d", EntryKind::Directory, ChangeKind::Adjusted(reasons(&others))),
            ("run7/e", EntryKind::File, ChangeKind::Linked),
            ("run7/z\n\x1b", EntryKind::Special, ChangeKind::Removed),
            ("run7/z", EntryKind::Directory, ChangeKind::Removed),
        ]
        .map(|(path, what, change)| (path.as_bytes().to_vec(), ItemChange { what, change }))
        .into()
    }

    #[test]
    fn each_is_a_line() {
        let lines: Vec<_> = every_item().iter().map(|(path, item)| words(path, item)).collect();
        insta::assert_snapshot!(lines.join("\n"), @r#"
            created    run7/
            created    run7/a.dat
            replaced   run7/b (size, time)
            replaced   run7/c (kind, content)
            adjusted   run7/d/ (mode, owner, attributes, link)
            linked     run7/e
            deleted    run7/z\n\u{1b}
            deleted    run7/z/
            "#);
    }

    #[test]
    fn names_alone_are_those_of_rsync() {
        let lines: Vec<_> = every_item().iter().map(|(path, item)| name(path, item)).collect();
        let expected = "run7/ run7/a.dat run7/b run7/c run7/d/ run7/e";
        assert_eq!(lines[..6].join(" "), expected);
        assert_eq!(lines[6..], ["deleting run7/z\\n\\u{1b}", "deleting run7/z/"]);
    }

    #[test]
    fn names_that_look_alike_differ_in_their_lines() {
        let line = |path: &str, change| words(path.as_bytes(), &ItemChange { what: EntryKind::File, change });
        let (one, several) = ("n/caf\u{e9}", "n/cafe\u{301}");
        let time = ChangeKind::Replaced(ChangeReasons::TIME);
        assert_eq!(line(one, ChangeKind::Made), "created    n/caf\u{e9}");
        assert_eq!(line(several, ChangeKind::Removed), "deleted    n/cafe\u{301} (combining characters)");
        assert_eq!(line(several, time), "replaced   n/cafe\u{301} (time)");
        let others = ["plain", "\u{d55c}\u{ae00}", "\u{304c}"].map(|path| line(path, ChangeKind::Made));
        assert!(others.iter().all(|line| !line.contains('(')), "{others:?}");
        for decomposed in ["\u{1112}\u{1161}\u{11ab}", "\u{304b}\u{3099}"] {
            assert!(line(decomposed, ChangeKind::Made).ends_with("(combining characters)"));
        }
        let undecodable = words(b"\xffe\xcc\x81", &ItemChange { what: EntryKind::File, change: ChangeKind::Made });
        assert!(undecodable.ends_with("(combining characters)"));
    }

    #[test]
    fn planned_changes_are_counted() {
        let headline = |items: &[(Vec<u8>, ItemChange)]| {
            let mut tally = Tally::default();
            items.iter().for_each(|(_, item)| tally.add(item));
            let is_file = |item: &ItemChange| item.what == EntryKind::File;
            let is_copied = |item: &ItemChange| matches!(item.change, ChangeKind::Made | ChangeKind::Replaced(_));
            let files = items.iter().filter(|(_, item)| is_file(item) && is_copied(item)).count() as u64;
            tally.headline(PlannedTotals { files, bytes: files * 1_500_000_000 }, Duration::from_millis(120))
        };
        let all = every_item();
        insta::assert_snapshot!([headline(&all), headline(&all[2..3]), headline(&[])].join("\n"), @"
        dry run: would copy 2 files, 3.00 GB; create 2 other entries; adjust the metadata of 1; link 1; delete 2; checked in 0.12 s
        dry run: would copy 1 file, 1.50 GB; checked in 0.12 s
        dry run: nothing would be changed; checked in 0.12 s
        ");
    }
}
