//! A report as Markdown: charts become lines of block characters and a short table.

use haul_proto::path::disturbs;

use super::chart::{Chart, ChartPoint, Marks};
use super::document::{Document, DocumentBlock};
use super::table::Table;

/// Rows of the table below a chart.
const ROWS_MAX: usize = 24;
/// Blocks of a line.
const BLOCKS_MAX: usize = 60;
const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// The text.
pub fn page(document: &Document) -> String {
    let mut page = format!("# {}\n\n{}\n", text(&document.title), text(&document.about));
    for part in &document.parts {
        page.push_str(&format!("\n## {}\n", text(&part.heading)));
        part.blocks.iter().for_each(|block| push_block(&mut page, block));
    }
    page
}

fn push_block(page: &mut String, block: &DocumentBlock) {
    match block {
        DocumentBlock::Text(line) => page.push_str(&format!("\n{}\n", text(line))),
        DocumentBlock::List(lines) => {
            page.push('\n');
            lines.iter().for_each(|line| page.push_str(&format!("- {}\n", text(line))));
        }
        DocumentBlock::Table(table) => push_table(page, table),
        DocumentBlock::Folded(what, table) => {
            page.push_str(&format!("\n{}:\n", text(what)));
            push_table(page, table);
        }
        DocumentBlock::Chart(chart) => {
            page.push_str(&format!("\n### {}\n", text(&chart.title)));
            if !chart.has_figures() {
                return page.push_str("\ntoo few figures for a chart\n");
            }
            push_blocks(page, chart);
            push_table(page, &chart.table().thinned(ROWS_MAX));
        }
    }
}

/// Appends each line as blocks of eight heights, all to the same scale.
fn push_blocks(page: &mut String, chart: &Chart) {
    let Marks::Lines(lines) = &chart.marks else { return };
    let (_, most) = chart.extent();
    page.push('\n');
    for line in lines {
        let every = line.points.len().div_ceil(BLOCKS_MAX).max(1);
        let blocks: String = line.points.chunks(every).map(|points| block(points, most)).collect();
        let top = line.points.iter().map(|point| point.y).fold(0.0, f64::max);
        page.push_str(&format!("- `{blocks}` {}, at most {}\n", text(&line.name), text(&chart.y.0.shown(top))));
    }
}

/// The block for the mean of some points.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is from 0 to 7")]
fn block(points: &[ChartPoint], most: f64) -> char {
    let mean = points.iter().map(|point| point.y).sum::<f64>() / points.len() as f64;
    BLOCKS[(mean / most.max(f64::MIN_POSITIVE) * 7.0).round().clamp(0.0, 7.0) as usize]
}

fn push_table(page: &mut String, table: &Table) {
    let width = table.columns.len().max(table.rows.first().map_or(0, Vec::len));
    let mut columns = table.columns.clone();
    columns.resize(width, String::new());
    page.push('\n');
    push_row(page, &columns);
    let rule: Vec<_> = (0..width).map(|at| if at == 0 || table.columns.is_empty() { "---" } else { "---:" }).collect();
    page.push_str(&format!("| {} |\n", rule.join(" | ")));
    table.rows.iter().for_each(|row| push_row(page, row));
}

fn push_row(page: &mut String, row: &[String]) {
    let cells: Vec<_> = row.iter().map(|cell| text(cell)).collect();
    page.push_str(&format!("| {} |\n", cells.join(" | ")));
}

/// Escapes text for Markdown and for HTML made from it.
fn text(content: &str) -> String {
    let mut shown = String::with_capacity(content.len());
    for c in content.chars() {
        match c {
            '&' => shown.push_str("&amp;"),
            '<' => shown.push_str("&lt;"),
            '>' => shown.push_str("&gt;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '~' | '#' | '!' | '$' => shown.extend(['\\', c]),
            c if disturbs(c) => {
                shown.extend(c.escape_default().flat_map(|c| if c == '\\' { vec!['\\', c] } else { vec![c] }))
            }
            c => shown.push(c),
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::super::chart::tests::example;
    use super::*;

    #[test]
    fn a_report_is_headings_blocks_and_tables() {
        let mut document = Document { title: "haul".into(), about: "a|b".into(), ..Document::default() };
        let facts = Table { columns: Vec::new(), rows: vec![vec!["way".into(), "tcp".into()]] };
        document.part(
            "Result",
            vec![DocumentBlock::Text("*done*".into()), DocumentBlock::Table(facts), DocumentBlock::Chart(example())],
        );
        insta::assert_snapshot!(page(&document), @r#"
            # haul

            a\|b

            ## Result

            \*done\*

            |  |  |
            | --- | --- |
            | way | tcp |

            ### Rate

            - `▆██` stream 0, at most 117 MB/s
            - `▂▃` &lt;stream&gt; 1, at most 30.0 MB/s

            | time | stream 0 | &lt;stream&gt; 1 |
            | --- | ---: | ---: |
            | 1.00 s | 80.0 MB/s |  |
            | 2.00 s | 117 MB/s | 20.0 MB/s |
            | 3.00 s | 115 MB/s | 30.0 MB/s |
            "#);
    }

    #[test]
    fn no_name_is_a_tag_a_link_or_a_new_line() {
        let shown = text("<b>[x](y) | `z`\n# \u{202e}");
        assert_eq!(shown, "&lt;b&gt;\\[x\\](y) \\| \\`z\\`\\\\n\\# \\\\u{202e}");
    }
}
