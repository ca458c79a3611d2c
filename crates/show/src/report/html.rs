//! A report as one self-contained HTML page without external scripts, fonts or pictures. Its content security policy
//! forbids all requests, so a hostile name has no effect.

use std::fmt::Write;

use haul_base::copy::spec::ChecksumAlgorithm;
use haul_engine::checksum::sum_of;

use super::document::{Document, DocumentBlock};
use super::escape::text;
use super::svg;
use super::table::Table;

/// Rows of the table below a chart.
const ROWS_MAX: usize = 600;

/// Additions to a page's document: its only permitted script, and the script's data.
pub struct Extra<'e> {
    /// Additional style.
    pub style: &'e str,
    /// Elements before the document's parts.
    pub body: &'e str,
    /// JSON for the element `data`, escaped for a script element.
    pub data: &'e str,
    /// The script.
    pub script: &'e str,
}

/// The page.
pub fn page(document: &Document) -> String {
    page_with(document, None)
}

/// The page with a script. The page permits this script alone, by its digest.
pub fn page_with(document: &Document, extra: Option<&Extra<'_>>) -> String {
    let title = text(&document.title);
    let style = include_str!("style.css").to_owned() + extra.map_or("", |extra| extra.style);
    let allowed = extra.map_or_else(String::new, |extra| format!("; script-src 'sha256-{}'", digest(extra.script)));
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'{allowed}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>{title}</title>\n<style>\n{style}</style>\n</head>\n<body>\n\
         <h1>{title}</h1>\n<p class=\"about\">{}</p>\n",
        text(&document.about)
    );
    if let Some(extra) = extra {
        page.push_str(extra.body);
    }
    for part in &document.parts {
        let _ = writeln!(page, "<section>\n<h2>{}</h2>", text(&part.heading));
        part.blocks.iter().for_each(|block| push_block(&mut page, block));
        page.push_str("</section>\n");
    }
    if let Some(Extra { data, script, .. }) = extra {
        let _ =
            write!(page, "<script type=\"application/json\" id=\"data\">{data}</script>\n<script>{script}</script>\n");
    }
    page.push_str("</body>\n</html>\n");
    page
}

/// The script's SHA-256 in base64, for a policy (Content Security Policy Level 3, 2.3.1).
fn digest(script: &str) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digest = sum_of(ChecksumAlgorithm::Sha256, script.as_bytes());
    let mut shown = String::new();
    for bytes in digest.chunks(3) {
        let word = bytes.iter().fold(0_u32, |word, byte| word << 8 | u32::from(*byte)) << (8 * (3 - bytes.len()));
        let digits = (0..4).map(|at| DIGITS[(word >> (18 - 6 * at)) as usize & 63] as char);
        shown.extend(digits.take(bytes.len() + 1));
        shown.extend(std::iter::repeat_n('=', 3 - bytes.len()));
    }
    shown
}

fn push_block(page: &mut String, block: &DocumentBlock) {
    match block {
        DocumentBlock::Text(line) => page.push_str(&format!("<p>{}</p>\n", text(line))),
        DocumentBlock::List(lines) => {
            page.push_str("<ul class=\"list\">\n");
            lines.iter().for_each(|line| page.push_str(&format!("<li>{}</li>\n", text(line))));
            page.push_str("</ul>\n");
        }
        DocumentBlock::Table(table) => push_table(page, table),
        DocumentBlock::Folded(what, table) => push_folded(page, what, table),
        DocumentBlock::Chart(chart) if chart.has_figures() => {
            let (drawn, legend) = (svg::draw(chart), svg::legend(chart));
            page.push_str(&format!("<h3>{}</h3>\n<figure>\n{drawn}\n{legend}\n</figure>\n", text(&chart.title)));
            push_folded(page, "the same as a table", &chart.table().thinned(ROWS_MAX));
        }
        DocumentBlock::Chart(chart) => {
            let title = text(&chart.title);
            page.push_str(&format!("<h3>{title}</h3>\n<p class=\"small\">too few figures for a chart</p>\n"));
        }
    }
}

fn push_folded(page: &mut String, what: &str, table: &Table) {
    page.push_str(&format!("<details><summary>{}</summary>\n", text(what)));
    push_table(page, table);
    page.push_str("</details>\n");
}

/// A table without headings has labels and values.
fn push_table(page: &mut String, table: &Table) {
    let class = if table.columns.is_empty() { " class=\"facts\"" } else { "" };
    page.push_str(&format!("<div class=\"wide\"><table{class}>\n"));
    if !table.columns.is_empty() {
        page.push_str("<thead>");
        push_row(page, "th", &table.columns);
        page.push_str("</thead>\n");
    }
    page.push_str("<tbody>\n");
    table.rows.iter().for_each(|row| push_row(page, "td", row));
    page.push_str("</tbody></table></div>\n");
}

fn push_row(page: &mut String, cell: &str, row: &[String]) {
    page.push_str("<tr>");
    row.iter().for_each(|content| page.push_str(&format!("<{cell}>{}</{cell}>", text(content))));
    page.push_str("</tr>\n");
}

#[cfg(test)]
mod tests {
    use super::super::chart::tests::example;
    use super::*;

    const HOSTILE: &str = "<script>alert('1')</script>\" onload=\"x & \u{202e}gnp.exe \u{1b}[2J";

    #[test]
    fn no_text_gets_out_of_its_place() {
        let shown = text(HOSTILE);
        assert!(!shown.contains(['<', '>', '"', '\'', '\u{202e}', '\u{1b}']), "{shown}");
        assert_eq!(text("a & b"), "a &amp; b");
    }

    #[test]
    fn a_page_of_hostile_texts_has_no_tags_but_its_own() {
        let mut chart = example();
        chart.title = HOSTILE.to_owned();
        chart.happened.push((1.0, HOSTILE.to_owned()));
        let table = Table { columns: vec![HOSTILE.into()], rows: vec![vec![HOSTILE.into()]] };
        let mut document = Document { title: HOSTILE.into(), about: HOSTILE.into(), ..Document::default() };
        let texts = vec![
            DocumentBlock::Text(HOSTILE.into()),
            DocumentBlock::List(vec![HOSTILE.into()]),
            DocumentBlock::Chart(chart),
            DocumentBlock::Table(table.clone()),
            DocumentBlock::Folded(HOSTILE.into(), table),
        ];
        document.part(HOSTILE, texts);
        let page = page(&document);
        assert!(!page.contains("<script") && !page.contains("\" onload"), "{page}");
        assert_eq!(page.matches("<svg").count(), page.matches("</svg>").count());
        for elsewhere in ["src=", "href=", "url(", "@import", "http://", "https://"] {
            assert!(!page.contains(elsewhere), "{elsewhere}");
        }
    }

    #[test]
    fn a_script_is_named_by_its_digest_and_no_other_may_run() {
        assert_eq!(digest(""), "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=");
        let extra = Extra { style: ".x {}", body: "<p id=\"x\"></p>", data: "{}", script: "run();" };
        let page = page_with(&Document::default(), Some(&extra));
        let allowed =
            format!("default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{}'\">", digest("run();"));
        assert!(
            page.contains(&allowed) && page.contains("<script>run();</script>") && page.contains(".x {}"),
            "{page}"
        );
    }

    #[test]
    fn every_chart_has_its_table() {
        let mut document = Document::default();
        document.part("Rate", vec![DocumentBlock::Chart(example())]);
        document.part("Nothing", vec![]);
        let page = page(&document);
        assert!(page.contains("<svg class=\"chart\"") && page.contains("<td>117 MB/s</td>"), "{page}");
        assert!(!page.contains("Nothing"));
    }
}
