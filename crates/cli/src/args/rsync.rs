//! rsync's letters for `haul sync`. Each becomes haul's option with the same meaning, or is refused. Long options are
//! always haul's. A lone letter with an argument in other commands of haul is refused too: `-i KEY` would copy the key.

use std::ffi::{OsStr, OsString};

use super::flags::COPY;
use super::names::{self, Named};
use super::row::{OptionRow, Takes};
use super::{Dialect, UsageError};

/// The meaning of a letter of rsync.
#[derive(Clone, Copy)]
enum Meaning {
    /// Always on in a sync.
    Implied,
    /// These options.
    Is(&'static [&'static str]),
    /// This option, with the letter's argument.
    With(&'static str),
    /// Refused, with the replacement.
    Refused(&'static str),
}

use Meaning::{Implied, Is, Refused, With};

/// Every letter of rsync 3.5.0 (rsync(1), "OPTION SUMMARY").
const LETTERS: &[(char, Meaning)] = &[
    ('a', Implied),
    ('r', Implied),
    ('l', Implied),
    ('p', Implied),
    ('t', Implied),
    ('g', Implied),
    ('o', Implied),
    ('E', Implied),
    ('s', Implied),
    ('z', Implied),
    ('h', Implied),
    ('P', Implied),
    ('v', Is(&["--verbose"])),
    ('q', Is(&["--quiet"])),
    ('n', Is(&["--dry-run"])),
    ('i', Is(&["--items"])),
    ('u', Is(&["--update"])),
    ('c', Is(&["--compare", "digest"])),
    ('D', Is(&["--devices", "--specials"])),
    ('H', Is(&["--hard-links"])),
    ('A', Is(&["--acls"])),
    ('X', Is(&["--xattrs"])),
    ('S', Is(&["--sparse=make"])),
    ('L', Is(&["--symlinks", "follow"])),
    ('W', Is(&["--delta", "off"])),
    ('m', Is(&["--no-empty-dirs"])),
    ('x', Is(&["--one-file-system"])),
    ('0', Is(&["--null"])),
    ('4', Is(&["--ipv4=cst"])),
    ('6', Is(&["--ipv6=cst"])),
    ('e', With("--rsh")),
    ('f', With("--filter")),
    ('@', With("--modify-window")),
    ('b', Refused("--backup-dir DIR keeps replaced and deleted files")),
    ('d', Refused("directories are always copied recursively; --exclude '/*/*' skips their contents")),
    ('I', Refused("--compare digest compares contents instead of times")),
    ('k', Refused("--symlinks follow follows links to files as well")),
    ('K', Refused("a symbolic link on the target is replaced by the source's directory")),
    ('O', Refused("directory times are always preserved")),
    ('J', Refused("times of symbolic links are always preserved")),
    ('U', Refused("access times are not preserved")),
    ('N', Refused("creation times cannot be set")),
    ('B', Refused("the block size is chosen by file size")),
    ('y', Refused("--detect-renames searches the whole target for moved files")),
    ('C', Refused("list the files that CVS ignores with --exclude PATTERN or --exclude-from FILE")),
    ('F', Refused("--filter-files NAME reads patterns from files in each directory, such as .gitignore")),
    ('R', Refused("--dirbase BASE recreates paths relative to BASE below the target")),
    ('T', Refused("partial files are beside their targets; --append DIR moves their resume journals")),
    ('M', Refused("options apply to both ends")),
    ('8', Refused("names are always printed unescaped, except for control characters")),
];

/// Replaces rsync's letters by long options.
pub fn without_letters(words: &[OsString]) -> Result<Vec<OsString>, UsageError> {
    let mut out = Vec::with_capacity(words.len());
    let mut words = words.iter().peekable();
    while let Some(word) = words.next() {
        let letters = word.to_str().and_then(|word| word.strip_prefix('-')).filter(|letters| !letters.is_empty());
        match letters {
            None => out.push(word.clone()),
            Some("-") => {
                out.push(word.clone());
                out.extend(words.by_ref().cloned());
            }
            Some(letters) if letters.starts_with('-') => {
                out.push(word.clone());
                if takes_next_word(&letters[1..]) {
                    out.extend(words.next().cloned());
                }
            }
            Some("h") => out.push(word.clone()),
            Some(letters) => {
                let next = words.peek().copied();
                if translate(letters, next, &mut out)? {
                    out.extend(words.next().cloned());
                }
            }
        }
    }
    Ok(out)
}

/// Whether this long option always takes the next word.
fn takes_next_word(long: &str) -> bool {
    match names::long(COPY, Dialect::Haul, long) {
        Named::One(row) => needs_argument(row),
        Named::Several(_) | Named::None(_) => false,
    }
}

fn needs_argument(row: &OptionRow) -> bool {
    matches!(row.takes, Takes::One(_) | Takes::Each(_))
}

/// Appends the meaning of one word's letters to `out`. Returns whether the last one takes the next word.
fn translate(letters: &str, next: Option<&OsString>, out: &mut Vec<OsString>) -> Result<bool, UsageError> {
    refuse_other_commands_argument(letters, next)?;
    for (at, letter) in letters.char_indices() {
        let Some((_, meaning)) = LETTERS.iter().find(|(known, _)| *known == letter) else {
            let Some(own) = names::letter(COPY, Dialect::Haul, letter) else { return Err(unknown(letters, letter)) };
            // haul's own letter. The rest of the word may be its argument.
            out.push(format!("-{}", &letters[at..]).into());
            return Ok(needs_argument(own) && letters.len() == at + letter.len_utf8());
        };
        match meaning {
            Implied => {}
            Is(words) => out.extend(words.iter().map(OsString::from)),
            Refused(instead) => {
                let what = format!("-{letters}: haul sync does not support rsync's -{letter}");
                return Err(UsageError::new(what).remedy(*instead));
            }
            With(option) => {
                out.push((*option).into());
                let attached = &letters[at + letter.len_utf8()..];
                if attached.is_empty() {
                    return Ok(true);
                }
                out.push(attached.into());
                return Ok(false);
            }
        }
    }
    Ok(false)
}

/// Refuses a lone letter with an argument in other commands of haul: it is ambiguous.
fn refuse_other_commands_argument(letters: &str, next: Option<&OsString>) -> Result<(), UsageError> {
    let mut chars = letters.chars();
    let Some((letter, row)) =
        chars.next().and_then(|letter| Some((letter, names::letter(COPY, Dialect::Haul, letter)?)))
    else {
        return Ok(());
    };
    let is_argument = |known: &[&str]| next.is_some_and(|next| known.iter().any(|word| OsStr::new(word) == next));
    let may_be_meant = match row.takes {
        Takes::One(_) | Takes::Each(_) => true,
        Takes::Word { known, .. } => is_argument(known),
        Takes::Nothing | Takes::Repeats | Takes::Perhaps(_) | Takes::Place(_) | Takes::Time { .. } => false,
    };
    let Some((_, meaning)) = LETTERS.iter().find(|(known, _)| *known == letter) else { return Ok(()) };
    if !may_be_meant || chars.next().is_some() {
        return Ok(());
    }
    let rsyncs = match meaning {
        With(_) => return Ok(()),
        Implied => "implied".to_owned(),
        Is(words) => words.join(" "),
        Refused(instead) => (*instead).to_owned(),
    };
    let what =
        format!("-{letter} is ambiguous: letters of haul sync are rsync's, but elsewhere it is haul's {}", row.typed());
    let hint = format!("rsync's -{letter}: {rsyncs}");
    Err(UsageError::new(what).remedy(hint).remedy(format!("haul's -{letter}: {}", row.typed())))
}

fn unknown(letters: &str, letter: char) -> UsageError {
    let error = UsageError::new(format!("-{letters}: letters of haul sync are rsync's, and rsync has no -{letter}"));
    let first = letters.chars().next().and_then(|first| names::letter(COPY, Dialect::Haul, first));
    match first {
        Some(row) => error.remedy(format!("haul's option is {}", row.typed())),
        None => error.remedy("haul help sync lists the options"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn becomes(line: &str) -> String {
        let words: Vec<_> = line.split(' ').map(OsString::from).collect();
        match without_letters(&words) {
            Ok(words) => words.iter().map(|word| word.to_str().unwrap()).collect::<Vec<_>>().join(" "),
            Err(error) => format!("refused: {error}"),
        }
    }

    #[test]
    fn letters_become_equivalent_options() {
        for (line, options) in [
            ("-a s/ t/", "s/ t/"),
            ("-avz s/ t/", "--verbose s/ t/"),
            ("-aHAXS s t", "--hard-links --acls --xattrs --sparse=make s t"),
            ("-rlptgoD s t", "--devices --specials s t"),
            ("-n s t", "--dry-run s t"),
            ("-vani s t", "--verbose --dry-run --items s t"),
            ("-c s t", "--compare digest s t"),
            ("-A s t", "--acls s t"),
            ("-avP s t", "--verbose s t"),
            ("-aL s t", "--symlinks follow s t"),
            ("-e ssh s t", "--rsh ssh s t"),
            ("-ae ssh s t", "--rsh ssh s t"),
            ("-@2 s t", "--modify-window 2 s t"),
            ("--exclude -n s t", "--exclude -n s t"),
            ("-- -n t", "-- -n t"),
            ("- t", "- t"),
            ("-w 4m s t", "-w 4m s t"),
            ("-vw4m s t", "--verbose -w4m s t"),
            ("-w -n s t", "-w -n s t"),
        ] {
            assert_eq!(becomes(line), options, "{line}");
        }
    }

    #[test]
    fn ambiguous_letters_are_refused() {
        for (line, expected) in [
            ("-i key s t", "elsewhere it is haul's --idfile"),
            ("-l log s t", "elsewhere it is haul's --logfile"),
            ("-x 2m s t", "elsewhere it is haul's --xfrrate"),
            ("-s 8 s t", "elsewhere it is haul's --streams"),
            ("-s8 s t", "does not support rsync's -8"),
            ("-c off s t", "elsewhere it is haul's --compress"),
            ("-u s t", "rsync's -u: --update"),
            ("-I list t", "--compare digest"),
            ("-ay s t", "--detect-renames"),
        ] {
            let refused = becomes(line);
            assert!(refused.starts_with("refused: ") && refused.contains(expected), "{line}: {refused}");
        }
    }

    #[test]
    fn every_letter_of_rsyncs_is_known() {
        // Those of rsync(1), version 3.5.0.
        let letters = "vqcarRbudlLkKHpEAXogDtUNOJSnWxBeIyzCfFs048hPimT@M6";
        for letter in letters.chars() {
            assert!(LETTERS.iter().any(|(known, _)| *known == letter), "{letter}");
        }
        assert_eq!(LETTERS.len(), letters.chars().count());
        for words in LETTERS.iter().filter_map(|(_, meaning)| if let Is(words) = meaning { Some(words) } else { None })
        {
            let long = words[0].trim_start_matches("--").split('=').next().unwrap();
            assert!(
                matches!(names::long(COPY, Dialect::Haul, long), Named::One(row) if row.typed() == format!("--{long}"))
            );
        }
    }
}
