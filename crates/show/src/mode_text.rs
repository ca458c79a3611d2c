//! Types and modes of entries, as ls(1) prints them.

/// `S_IFMT` and its values (inode(7)), with the letters of ls(1).
const TYPE: u32 = 0o170_000;
const TYPES: [(u32, char); 7] = [
    (0o040_000, 'd'),
    (0o100_000, '-'),
    (0o120_000, 'l'),
    (0o060_000, 'b'),
    (0o020_000, 'c'),
    (0o010_000, 'p'),
    (0o140_000, 's'),
];

/// The letter of an entry's type; `?` if it is unknown.
pub fn type_letter(mode: u32) -> char {
    TYPES.iter().find(|(bits, _)| mode & TYPE == *bits).map_or('?', |(_, letter)| *letter)
}

/// `drwxr-sr-x`
pub fn mode_text(mode: u32) -> String {
    let mut text = String::from(type_letter(mode));
    for (shift, special, letter) in [(6, 0o4000, 's'), (3, 0o2000, 's'), (0, 0o1000, 't')] {
        let bits = mode >> shift;
        text.push(if bits & 4 != 0 { 'r' } else { '-' });
        text.push(if bits & 2 != 0 { 'w' } else { '-' });
        text.push(match (mode & special != 0, bits & 1 != 0) {
            (true, true) => letter,
            (true, false) => letter.to_ascii_uppercase(),
            (false, true) => 'x',
            (false, false) => '-',
        });
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_those_of_ls() {
        for (mode, text) in [
            (0o100_644, "-rw-r--r--"),
            (0o042_755, "drwxr-sr-x"),
            (0o041_777, "drwxrwxrwt"),
            (0o041_776, "drwxrwxrwT"),
            (0o104_640, "-rwSr-----"),
            (0o102_644, "-rw-r-Sr--"),
            (0o120_777, "lrwxrwxrwx"),
            (0o010_600, "prw-------"),
            (0o140_000, "s---------"),
            (0, "?---------"),
        ] {
            assert_eq!(mode_text(mode), text);
        }
    }
}
