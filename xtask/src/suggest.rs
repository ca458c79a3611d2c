//! "Did you mean": the known word that is nearest to one that is not known.

/// How many letters may be wrong before a suggestion stops being helpful.
const MAX_DISTANCE: usize = 3;

/// The message for an unknown `word`: what it is, the nearest of `known`, and the command that lists them.
pub fn unknown<'a>(what: &str, word: &str, known: impl IntoIterator<Item = &'a str>, list: &str) -> String {
    let hint = match nearest(word, known) {
        Some(name) => format!("did you mean '{name}'? "),
        None => String::new(),
    };
    format!("cargo xtask: there is no {what} '{word}'\n{hint}All of them: {list}")
}

/// The word of `known` with the smallest edit distance, if that is small enough to be a slip.
fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    known
        .into_iter()
        .map(|name| (distance(word, name), name))
        .filter(|&(distance, name)| distance <= MAX_DISTANCE && distance < name.len())
        .min()
        .map(|(_, name)| name)
}

/// Levenshtein's edit distance: insertions, deletions and replacements, one each.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, &to) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(from != to);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_edits() {
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("test", "test"), 0);
    }

    #[test]
    fn suggests_slips_and_nothing_far_fetched() {
        let known = ["test", "dist", "bench", "fuzz"];
        assert_eq!(nearest("tset", known), Some("test"));
        assert_eq!(nearest("benhc", known), Some("bench"));
        assert_eq!(nearest("deployment", known), None);
        assert!(unknown("chore", "tst", known, "L").contains("did you mean 'test'?"));
        assert!(!unknown("chore", "deployment", known, "L").contains("did you mean"));
    }
}
