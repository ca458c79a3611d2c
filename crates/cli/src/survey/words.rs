//! A survey as text: figures first and names last, since names may be long.

use haul_show::report::document::{Document, DocumentBlock};
use haul_show::report::table::Table;

/// The text, of a document without charts.
pub fn text(document: &Document) -> String {
    let mut shown = String::new();
    for (number, part) in document.parts.iter().enumerate() {
        if number > 0 {
            shown.push_str(&format!("\n{}:\n", part.heading));
        }
        part.blocks.iter().for_each(|block| push(&mut shown, block));
    }
    shown
}

fn push(shown: &mut String, block: &DocumentBlock) {
    match block {
        DocumentBlock::Text(line) => shown.push_str(&format!("{line}\n")),
        DocumentBlock::List(lines) => lines.iter().for_each(|line| shown.push_str(&format!("  {line}\n"))),
        DocumentBlock::Table(table) | DocumentBlock::Folded(_, table) if table.columns.is_empty() => {
            push_facts(shown, table)
        }
        DocumentBlock::Table(table) | DocumentBlock::Folded(_, table) => push_table(shown, table),
        // A survey has none.
        DocumentBlock::Chart(_) => {}
    }
}

fn push_facts(shown: &mut String, table: &Table) {
    for row in &table.rows {
        let [label, text] = row.as_slice() else { continue };
        shown.push_str(&format!("{label:<14}{text}\n"));
    }
}

fn push_table(shown: &mut String, table: &Table) {
    let rows = || std::iter::once(&table.columns).chain(&table.rows);
    let width = |column: usize| rows().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let widths: Vec<_> = (0..table.columns.len()).map(|column| width(column).unwrap_or(0)).collect();
    for row in rows() {
        for (cell, width) in row.iter().zip(&widths).skip(1) {
            shown.push_str(&format!("  {cell:>width$}"));
        }
        shown.push_str(&format!("  {}\n", row.first().map_or("", String::as_str)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::survey::contents::document;
    use crate::survey::contents::tests::{example, shown};
    use crate::survey::outlook::Outlook;

    #[test]
    fn all_findings_are_described() {
        let (survey, outlook) = (example(), Outlook::Unmeasured("db1".into()));
        insta::assert_snapshot!(text(&document(&shown(&survey, &outlook), String::new(), 10)));
    }
}
