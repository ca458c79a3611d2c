//! Names in rsync's lines.

use std::sync::LazyLock;

use haul_show::terminal::takes_unicode;

/// A name as rsync prints it: `\\#ooo` for control characters other than a tab, and for bytes that the locale lacks.
pub(super) fn shown(name: &[u8]) -> String {
    shown_in(name, *HAS_UNICODE)
}

/// Whether the locale has characters beyond ASCII.
static HAS_UNICODE: LazyLock<bool> = LazyLock::new(takes_unicode);

fn shown_in(name: &[u8], has_unicode: bool) -> String {
    let mut text = String::with_capacity(name.len());
    for chunk in name.utf8_chunks() {
        for c in chunk.valid().chars() {
            match (c.is_control() && c != '\t', c.is_ascii() || has_unicode) {
                (false, true) => text.push(c),
                _ => c.encode_utf8(&mut [0; 4]).bytes().for_each(|byte| text.push_str(&format!("\\#{byte:03o}"))),
            }
        }
        chunk.invalid().iter().for_each(|byte| text.push_str(&format!("\\#{byte:03o}")));
    }
    text
}
