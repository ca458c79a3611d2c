//! Markdown tables, aligned for reading as plain text.

use std::fmt::Write as _;

/// Lines of equal length, the heading first. Numbers are aligned right; the columns numbered in `texts`, left.
pub fn aligned(lines: &[Vec<String>], texts: &[usize]) -> String {
    let columns = lines.first().map_or(0, Vec::len);
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(|column| width(column).max(2)).collect();
    let numeric: Vec<bool> = (0..columns).map(|column| !texts.contains(&column)).collect();
    let mut text = String::new();
    for (index, line) in lines.iter().enumerate() {
        let cells = line.iter().zip(&widths).zip(&numeric);
        let padded: Vec<String> = cells
            .map(|((cell, &width), &right)| if right { format!("{cell:>width$}") } else { format!("{cell:<width$}") })
            .collect();
        let _ = writeln!(text, "| {} |", padded.join(" | "));
        if index == 0 {
            let rule = |(&width, &right): (&usize, &bool)| {
                if right { format!("{}:", "-".repeat(width - 1)) } else { "-".repeat(width) }
            };
            let rules: Vec<String> = widths.iter().zip(&numeric).map(rule).collect();
            let _ = writeln!(text, "| {} |", rules.join(" | "));
        }
    }
    text.push('\n');
    text
}

/// A number with this many decimals, or a dash.
pub fn number(value: Option<f64>, decimals: usize) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.decimals$}"))
}
