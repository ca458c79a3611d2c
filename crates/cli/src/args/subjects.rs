//! Subjects of `haul help` that no option, command or topic is called: the options concerned, and a page of the guide.

use super::flags;
use super::row::OptionRow;

/// A subject by all its words.
pub struct Subject {
    /// What people look for.
    pub words: &'static [&'static str],
    /// Options.
    pub options: &'static [&'static OptionRow],
    /// The page.
    pub page: &'static str,
}

const fn subject(
    words: &'static [&'static str],
    options: &'static [&'static OptionRow],
    page: &'static str,
) -> Subject {
    Subject { words, options, page }
}

/// All subjects.
pub const SUBJECTS: [Subject; 12] = [
    subject(
        &["glob", "globs", "patterns", "wildcard", "wildcards"],
        &[&flags::INCLUDE.row, &flags::EXCLUDE.row],
        "docs/FILTERS.md",
    ),
    subject(
        &["bandwidth", "limit", "limits", "rate", "rates", "speed", "throttle"],
        &[&flags::XFRRATE.row, &flags::BWLIMIT.row, &flags::QOS.row],
        "docs/guide/slow-transfers.md",
    ),
    subject(
        &["bottleneck", "limited", "performance", "slow", "tuning"],
        &[&flags::STREAMS.row, &flags::WINDOWSZ.row, &flags::CONGESTION.row, &flags::COMPRESS.row],
        "docs/guide/slow-transfers.md",
    ),
    subject(&["compression", "zip"], &[&flags::COMPRESS.row], "docs/PERFORMANCE.md"),
    subject(
        &["firewall", "nat", "ports"],
        &[&flags::DATA_PORTS.row, &flags::REVERSE.row, &flags::CALLBACK.row, &flags::TRANSPORT.row],
        "docs/guide/connecting.md",
    ),
    subject(
        &["continue", "interrupted", "resume", "resuming"],
        &[&flags::KEEP.row, &flags::NO_RESUME.row, &flags::JOURNAL_DIR.row, &flags::RETRIES.row, &flags::RETRY_FOR.row],
        "docs/guide/resume.md",
    ),
    subject(&["root", "sudo"], &[&flags::SOURCE_COMMAND.row, &flags::TARGET_COMMAND.row], "docs/guide/connecting.md"),
    subject(
        &["hosts", "key", "keys", "login", "proxy", "ssh"],
        &[&flags::IDFILE.row, &flags::SSH_CONFIG.row, &flags::SSH_PORT.row, &flags::SSH_OPTION.row, &flags::RSH.row],
        "docs/guide/connecting.md",
    ),
    subject(&["background", "logout", "signal", "signals"], &[&flags::DETACH.row], "docs/guide/signals.md"),
    subject(
        &["acl", "attributes", "metadata", "permissions"],
        &[&flags::ARCHIVE.row, &flags::PERMS.row, &flags::XATTRS.row, &flags::ACLS.row],
        "docs/METADATA.md",
    ),
    subject(&["example", "examples", "recipes"], &[], "docs/guide/recipes.md"),
    subject(&["encryption", "security"], &[&flags::CIPHER.row, &flags::NO_ENCRYPT.row], "docs/SECURITY.md"),
];

/// The subject that an option belongs to.
pub fn subject_with(row: &OptionRow) -> Option<&'static Subject> {
    SUBJECTS.iter().find(|subject| subject.options.iter().any(|option| option.is(row)))
}

/// The subject of a word.
pub fn subject_of(word: &str) -> Option<&'static Subject> {
    SUBJECTS.iter().find(|subject| subject.words.contains(&word))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::path::Path;

    use super::super::commands::{TOPICS, names};
    use super::super::{Dialect, help};
    use super::*;

    #[test]
    fn subjects_are_no_names_and_lead_to_pages_that_exist() {
        let words: Vec<_> = SUBJECTS.iter().flat_map(|subject| subject.words).collect();
        assert_eq!(words.iter().collect::<HashSet<_>>().len(), words.len());
        for subject in &SUBJECTS {
            let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(subject.page);
            assert!(page.is_file(), "{}", subject.page);
            for word in subject.words {
                assert!(!names().contains(word) && !TOPICS.contains(word), "{word}");
                let text = help::on(Dialect::Haul, word.as_ref()).unwrap();
                assert!(text.ends_with(&format!("{} in the sources\n", subject.page)), "{word}: {text}");
                let shown = subject.options.iter().all(|row| text.contains(&format!("--{}", row.id)));
                assert!(shown, "{word}: {text}");
            }
        }
    }
}
