//! The test vectors of the protocol, `crates/proto/tests/vectors.txt`: code and vectors cannot drift.

const TEXT: &str = include_str!("../../crates/proto/tests/vectors.txt");

/// Checks that the document's block has these vectors: names and bytes.
///
/// # Panics
/// If it has others.
pub fn check_vectors<N: AsRef<str>>(block_name: &str, vectors: &[(N, Vec<u8>)]) {
    let mut ours = String::new();
    for (name, bytes) in vectors {
        ours.push_str(&format!("{}\n", name.as_ref()));
        for line in bytes.chunks(32) {
            let digits: String = line.iter().map(|byte| format!("{byte:02x}")).collect();
            ours.push_str(&format!("  {digits}\n"));
        }
    }
    assert!(block(block_name) == ours, "crates/proto/tests/vectors.txt, block '{block_name}': this code makes\n{ours}");
}

/// The bytes of one vector as the document has them.
///
/// # Panics
/// If it has none of that name.
pub fn documented_vector(block_name: &str, name: &str) -> Vec<u8> {
    let lines = block(block_name).lines().skip_while(|line| *line != name).skip(1);
    let digits: String = lines.take_while(|line| line.starts_with(' ')).map(str::trim).collect();
    assert!(!digits.is_empty(), "crates/proto/tests/vectors.txt, block '{block_name}' has no vector '{name}'");
    let byte = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).expect("hexadecimal digits");
    (0..digits.len()).step_by(2).map(byte).collect()
}

/// A block of the document, without its fences.
fn block(name: &str) -> &'static str {
    let opening = format!("```vectors {name}\n");
    let (_, rest) =
        TEXT.split_once(&opening).unwrap_or_else(|| panic!("crates/proto/tests/vectors.txt has no block '{name}'"));
    rest.split_once("```").expect("a block has an end").0
}
