//! Gives every target its saved corpus, and its seeds with bytes changed here and there.

use std::path::PathBuf;

use haul_fuzz::{TARGETS, Target, seeds};

/// Most bytes of a file in the corpus: it is kept small.
const FILE_MAX: usize = 8192;

fn corpus(target: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let directory = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
    let listing = std::fs::read_dir(&directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    let mut files: Vec<_> = listing.map(|file| file.expect("an entry of the directory").path()).collect();
    files.sort();
    files.into_iter().map(|path| (path.clone(), std::fs::read(path).expect("a file of the corpus"))).collect()
}

#[test]
fn every_target_takes_its_corpus() {
    for (name, target) in TARGETS {
        let files = corpus(name);
        assert!(files.len() >= seeds::of(name).len(), "{name} lacks seeds: cargo run -p haul-fuzz --bin make-corpus");
        assert!(!files.is_empty(), "{name} has no corpus: cargo run -p haul-fuzz --bin make-corpus");
        for (path, data) in files {
            assert!(data.len() <= FILE_MAX, "{} is too long", path.display());
            if std::panic::catch_unwind(|| target(&data)).is_err() {
                panic!("{} fails", path.display());
            }
        }
    }
}

#[test]
fn every_target_has_the_seeds_that_the_code_makes() {
    for (name, _) in TARGETS {
        let files = corpus(name);
        for seed in seeds::of(name) {
            assert!(
                files.iter().any(|(_, data)| *data == seed),
                "the corpus of {name} is out of date: cargo run -p haul-fuzz --bin make-corpus"
            );
        }
    }
}

#[test]
fn seeds_with_changed_bytes_are_taken() {
    for (name, target) in TARGETS {
        seeds::of(name).iter().for_each(|seed| change(seed, target));
    }
}

/// Every byte set to a few values, and every length.
fn change(seed: &[u8], target: Target) {
    for at in 0..seed.len() {
        target(&seed[..at]);
        for value in [0, 1, 3, 0x7f, 0x80, 0xff, seed[at] ^ 1, seed[at].wrapping_add(1)] {
            let mut data = seed.to_vec();
            data[at] = value;
            target(&data);
        }
    }
}

#[test]
fn every_target_has_its_program() {
    let manifest = include_str!("../Cargo.toml");
    for (name, _) in TARGETS {
        assert!(manifest.contains(&format!("name = \"{name}\"")), "{name} is not in Cargo.toml");
    }
    assert_eq!(manifest.matches("[[bin]]").count(), TARGETS.len());
}
