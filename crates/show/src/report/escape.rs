//! Escapes text for HTML and SVG.

use haul_proto::path::disturbs;

/// Escapes markup and bidirectional controls. A line feed stays: it separates lines of a title.
pub fn text(content: &str) -> String {
    let mut shown = String::with_capacity(content.len());
    for c in content.chars() {
        match c {
            '&' => shown.push_str("&amp;"),
            '<' => shown.push_str("&lt;"),
            '>' => shown.push_str("&gt;"),
            '"' => shown.push_str("&quot;"),
            '\'' => shown.push_str("&#39;"),
            c => push_harmless(&mut shown, c),
        }
    }
    shown
}

/// Escapes text for plotters, which escapes markup itself.
pub fn harmless(content: &str) -> String {
    let mut shown = String::with_capacity(content.len());
    content.chars().for_each(|c| push_harmless(&mut shown, c));
    shown
}

fn push_harmless(shown: &mut String, c: char) {
    match c {
        c if c != '\n' && disturbs(c) => shown.extend(c.escape_default()),
        c => shown.push(c),
    }
}
