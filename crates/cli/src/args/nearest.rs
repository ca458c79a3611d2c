//! "Did you mean": the known word closest to a typed one.

/// The closest candidate, if at most a quarter of its letters differ, and none is the other's negation.
pub fn nearest<'a>(typed: &str, candidates: &[&'a str]) -> Option<&'a str> {
    let is_no = |word: &str| word.starts_with("no-");
    let near = candidates.iter().filter(|word| is_no(word) == is_no(typed));
    let near = near.map(|word| (distance(typed, word), *word)).min()?;
    (near.0 <= near.1.len() / 4).then_some(near.1)
}

/// Letters to insert, remove, replace or swap with their neighbour (optimal string alignment).
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows: Vec<Vec<usize>> = vec![(0..=b.len()).collect()];
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let replace = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut best = replace.min(rows[i - 1][j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            row.push(best);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_only_slips() {
        assert_eq!(nearest("dmeo", &["demo", "sweep"]), Some("demo"));
        assert_eq!(nearest("folow", &["keep", "follow", "ignore"]), Some("follow"));
        assert_eq!(nearest("aes256-gcm", &["aes-128-gcm", "aes-256-gcm"]), Some("aes-256-gcm"));
        assert_eq!(nearest("notes.txt", &["demo"]), None);
        assert_eq!(nearest("resume", &["no-resume"]), None);
        assert_eq!(nearest("silent", &["silence"]), None);
        assert_eq!(nearest("", &["demo"]), None);
        assert_eq!(nearest("x", &[]), None);
    }
}
