//! Text like users' data: words at a language's frequencies, sentences, and lines of records.
//!
//! A seed always gives the same text. It shrinks to about a third under zstd 3, like prose and logs, and has no long
//! repetitions.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::{Context, Result};
use haul_lab::Rng;

/// Different words.
const WORDS: usize = 20_000;
/// Draws that a word's frequency is a share of.
const TABLE: usize = 1 << 16;
/// Phrases that are used as a whole, as often as words are.
const PHRASES: usize = 4_000;
/// One word in this number is a phrase instead.
const PHRASE_EVERY: u64 = 3;
/// One line in this number is a record.
const RECORD_EVERY: u64 = 3;
const CONSONANTS: &[u8] = b"tnshrdlcmwfgypbvk";
const VOWELS: &[u8] = b"eaoiu";
const BUFFER_BYTES: usize = 1 << 20;

/// Writes `bytes` bytes of text.
pub fn write(path: &Path, bytes: u64, seed: u64) -> Result<()> {
    let file = File::create(path).with_context(|| format!("making {path:?}"))?;
    let mut out = BufWriter::with_capacity(BUFFER_BYTES, file);
    let mut text = TableText::new(seed);
    let mut left = bytes;
    while left > 0 {
        let line = text.line();
        let line = &line[..line.len().min(usize::try_from(left).unwrap_or(usize::MAX))];
        out.write_all(line).with_context(|| format!("writing {path:?}"))?;
        left -= line.len() as u64;
    }
    out.flush().with_context(|| format!("writing {path:?}"))
}

struct TableText {
    random: Rng,
    words: Vec<Vec<u8>>,
    phrases: Vec<Vec<u8>>,
    /// Words by how often they come: the word of rank n about 1/n as often as the first.
    drawn: Vec<usize>,
    line: Vec<u8>,
    clock_ms: u64,
}

impl TableText {
    fn new(seed: u64) -> Self {
        let mut random = Rng::new(seed);
        let words: Vec<_> = (0..WORDS).map(|rank| word(&mut random, rank)).collect();
        let drawn = zipf();
        let phrases = (0..PHRASES).map(|_| phrase(&mut random, &words, &drawn)).collect();
        Self { random, words, phrases, drawn, line: Vec::new(), clock_ms: 1_700_000_000_000 }
    }

    fn line(&mut self) -> &[u8] {
        self.line.clear();
        match self.random.below(RECORD_EVERY) {
            0 => self.record(),
            _ => self.sentence(),
        }
        self.line.push(b'\n');
        &self.line
    }

    fn sentence(&mut self) {
        let begin = self.line.len();
        for place in 0..6 + self.random.below(14) {
            if place > 0 {
                let comma = self.random.below(12) == 0;
                self.line.extend_from_slice(if comma { b", " } else { b" " });
            }
            self.word();
        }
        if let Some(first) = self.line.get_mut(begin) {
            first.make_ascii_uppercase();
        }
        self.line.push(b'.');
    }

    fn record(&mut self) {
        self.clock_ms += self.random.below(900);
        let (clock_ms, session) = (self.clock_ms, self.random.below(1 << 20));
        let (number, float) = (self.random.below(100_000), self.random.below(10_000_000));
        // Writing to memory does not fail.
        let _ = write!(
            self.line,
            "{clock_ms} session={session:05x} value={number} load={}.{:05} ",
            float >> 16,
            float % 99_991
        );
        for _ in 0..3 {
            self.word();
            self.line.push(b' ');
        }
        self.line.extend_from_slice(if number % 7 == 0 { b"failed" } else { b"ok" });
    }

    fn word(&mut self) {
        let rank = self.random.pick(&self.drawn);
        let phrase = self.phrases.get(rank).filter(|_| self.random.below(PHRASE_EVERY) == 0);
        if let Some(words) = phrase.or(self.words.get(rank)) {
            self.line.extend_from_slice(words);
        }
    }
}

/// Common words are short.
fn word(random: &mut Rng, rank: usize) -> Vec<u8> {
    let syllables = 1 + random.below(if rank < 200 { 2 } else { 4 });
    let mut word = Vec::new();
    for _ in 0..syllables {
        for letters in [CONSONANTS, VOWELS] {
            word.push(random.pick(letters));
        }
        if random.below(3) == 0 {
            word.push(b'n');
        }
    }
    word
}

/// Words that follow one another in many places.
fn phrase(random: &mut Rng, words: &[Vec<u8>], drawn: &[usize]) -> Vec<u8> {
    let count = 3 + random.below(4);
    let drawn: Vec<_> = (0..count).filter_map(|_| words.get(random.pick(drawn)).cloned()).collect();
    drawn.join(&b' ')
}

/// A table of ranks; rank n has about 1/(n + 1) of the frequency of rank 0.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "small numbers"
)]
fn zipf() -> Vec<usize> {
    let weight = |rank: usize| 1.0 / (rank as f64 + 1.0);
    let all: f64 = (0..WORDS).map(weight).sum();
    let mut table = Vec::with_capacity(TABLE);
    let mut sum = 0.0;
    for rank in 0..WORDS {
        sum += weight(rank);
        table.resize(((sum / all * TABLE as f64).round() as usize).max(table.len()), rank);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_has_the_length_and_is_the_same_every_time() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let made = |name: &str, bytes, seed| {
            let path = directory.path().join(name);
            write(&path, bytes, seed).expect("written");
            std::fs::read(path).expect("read")
        };
        let text = made("a", 3_000_001, 1);
        assert_eq!(text.len(), 3_000_001);
        assert!(text.is_ascii() && text == made("b", 3_000_001, 1) && text != made("c", 3_000_001, 2));
    }

    #[test]
    fn word_frequencies_are_uneven() {
        let table = zipf();
        let count = |rank| table.iter().filter(|other| **other == rank).count();
        assert!((TABLE - 2..=TABLE).contains(&table.len()));
        assert!(count(0) > 5000 && (count(0) / 12..count(0) / 8).contains(&count(9)) && count(15_000) <= 1);
    }

    #[test]
    fn lines_repeat_nowhere() {
        let mut text = TableText::new(7);
        let lines: std::collections::HashSet<Vec<u8>> = (0..20_000).map(|_| text.line().to_vec()).collect();
        assert!(lines.len() > 19_990, "{}", lines.len());
    }
}
