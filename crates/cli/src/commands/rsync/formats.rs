//! `--out-format` and the flags of `-i`.

use haul_base::copy::event::{ChangeKind, ChangeReasons, EntryKind};

/// What a format shows of an entry.
pub(super) struct Fields<'f> {
    /// `%i`.
    pub flags: &'f str,
    /// `%n`.
    pub name: &'f str,
    /// `%L`.
    pub link: &'f str,
    /// `%l`.
    pub size: u64,
    /// `%C`.
    pub digest: &'f str,
}

/// What the flags depend on besides the change.
#[derive(Clone, Copy, Default)]
pub(super) struct FlagTerms {
    /// `-t`.
    pub keeps_times: bool,
    /// `-c`.
    pub compares_contents: bool,
    /// The entry is a further name of a file.
    pub is_link: bool,
}

/// The flags of `%i`: `YXcstpoguax`.
pub(super) fn flags(what: EntryKind, change: ChangeKind, terms: FlagTerms) -> String {
    let FlagTerms { keeps_times, compares_contents, is_link } = terms;
    let kind = match what {
        EntryKind::File => 'f',
        EntryKind::Directory => 'd',
        EntryKind::Symlink => 'L',
        EntryKind::Special => 'S',
    };
    let (update, reasons) = match change {
        ChangeKind::Made if is_link => return "hf+++++++++".to_owned(),
        ChangeKind::Made if what == EntryKind::File => return ">f+++++++++".to_owned(),
        ChangeKind::Made => return format!("c{kind}+++++++++"),
        ChangeKind::Linked => return format!("h{kind}+++++++++"),
        ChangeKind::Removed => return "*deleting  ".to_owned(),
        ChangeKind::Replaced(reasons) if is_link => ('h', reasons),
        ChangeKind::Replaced(reasons) => (if what == EntryKind::File { '>' } else { 'c' }, reasons),
        ChangeKind::Adjusted(reasons) => ('.', reasons),
        ChangeKind::Unchanged if is_link => return "hf         ".to_owned(),
        ChangeKind::Unchanged | ChangeKind::Kept => return format!(".{kind}         "),
    };
    let flag = |reason: ChangeReasons, letter: char| if reasons.has(reason) { letter } else { '.' };
    let has_other_data = compares_contents && update == '>';
    let content = if has_other_data { 'c' } else { flag(ChangeReasons::CONTENT, 'c') };
    let size = flag(ChangeReasons::SIZE, 's');
    // The time of a transfer is its own.
    let time = match (keeps_times, change) {
        (false, ChangeKind::Replaced(_)) => 'T',
        _ => flag(ChangeReasons::TIME, 't'),
    };
    let [mode, owner] = [flag(ChangeReasons::MODE, 'p'), flag(ChangeReasons::OWNER, 'o')];
    let attributes = flag(ChangeReasons::ATTRIBUTES, 'x');
    let differences = format!("{content}{size}{time}{mode}{owner}...{attributes}");
    let is_equal = is_link && differences.bytes().all(|byte| byte == b'.');
    format!("{update}{kind}{}", if is_equal { "         " } else { &differences })
}

/// A figure of `-h`: in units of 1000 with two decimals.
pub(super) fn human(value: u64) -> String {
    let unit = ["", "K", "M", "G", "T", "P", "E"].into_iter().zip(0_u32..);
    let found = unit.take_while(|(_, power)| value >= 1000_u64.pow(*power)).last();
    match found {
        Some((unit, power @ 1..)) => {
            let hundredths = u128::from(value) * 100 / u128::from(1000_u64.pow(power));
            format!("{}.{:02}{unit}", hundredths / 100, hundredths % 100)
        }
        _ => value.to_string(),
    }
}

/// Whether a format contains `%` and this letter.
pub(super) fn has(format: &[u8], letter: u8) -> bool {
    let mut is_escaped = false;
    format.iter().any(|byte| {
        let is_found = is_escaped && *byte == letter;
        is_escaped = *byte == b'%' && !is_escaped;
        is_found
    })
}

/// Fills in rsync's `--out-format`.
pub(super) fn expand(format: &[u8], fields: &Fields<'_>) -> String {
    let Fields { flags, name, link, size, digest } = *fields;
    let mut line = String::new();
    let text = String::from_utf8_lossy(format);
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match (c, if c == '%' { chars.next() } else { None }) {
            ('%', Some('i')) => line.push_str(flags),
            ('%', Some('n')) => line.push_str(name),
            ('%', Some('f')) => line.push_str(name.trim_end_matches('/')),
            ('%', Some('L')) => line.push_str(link),
            ('%', Some('C')) => line.push_str(digest),
            ('%', Some('o')) => line.push_str("send"),
            ('%', Some('l')) => line.push_str(&size.to_string()),
            ('%', Some('%')) => line.push('%'),
            ('%', Some(other)) => line.extend(['%', other]),
            (c, _) => line.push(c),
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_format_shows_the_digest_and_percent_signs() {
        let fields = Fields { flags: ">f", name: "a/", link: " -> b", size: 7, digest: "c0de" };
        assert_eq!(expand(b"%i %n%L %l %C %f %%C 100%", &fields), ">f a/ -> b 7 c0de a %C 100%");
        assert_eq!(expand(b"%00%C", &fields), "%00c0de");
        let found = ["%C", "%%C", "%00%C", "C"].map(|format| has(format.as_bytes(), b'C'));
        assert_eq!(found, [true, false, true, false]);
    }

    #[test]
    fn human_figures_have_decimal_units() {
        let figures = [0, 999, 1000, 50_000, 1_234_567, u64::MAX].map(human);
        assert_eq!(figures, ["0", "999", "1.00K", "50.00K", "1.23M", "18.44E"]);
    }

    #[test]
    fn an_unchanged_entry_has_blank_flags() {
        assert_eq!(flags(EntryKind::File, ChangeKind::Unchanged, FlagTerms::default()), ".f         ");
    }

    #[test]
    fn checksums_tell_other_contents() {
        let replaced = ChangeKind::Replaced(ChangeReasons::SIZE);
        let flags = |terms| flags(EntryKind::File, replaced, terms);
        let terms = FlagTerms { keeps_times: true, ..FlagTerms::default() };
        assert_eq!(flags(terms), ">f.s.......");
        assert_eq!(flags(FlagTerms { compares_contents: true, ..terms }), ">fcs.......");
    }

    #[test]
    fn a_further_name_of_a_file_has_flags_of_its_own() {
        let terms = FlagTerms { keeps_times: true, compares_contents: true, is_link: true };
        let flags = |change| flags(EntryKind::File, change, terms);
        let of_link = ChangeReasons::LINK;
        assert_eq!([ChangeKind::Made, ChangeKind::Unchanged].map(flags), ["hf+++++++++", "hf         "]);
        assert_eq!(flags(ChangeKind::Replaced(of_link)), "hf         ");
        assert_eq!(flags(ChangeKind::Replaced(of_link.and(ChangeReasons::MODE, true))), "hf...p.....");
    }
}
