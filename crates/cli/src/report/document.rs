//! The contents of a report, independent of its format: headings, text, charts, tables. Text is plain here; each format
//! escapes it.

use super::chart::Chart;
use super::table::Table;

/// A report.
#[derive(Debug, Default)]
pub struct Document {
    /// Its title.
    pub title: String,
    /// One line below that.
    pub about: String,
    /// Its parts.
    pub parts: Vec<DocumentPart>,
}

/// A part of a report.
#[derive(Debug)]
pub struct DocumentPart {
    /// Its heading.
    pub heading: String,
    /// Its contents.
    pub blocks: Vec<DocumentBlock>,
}

/// A piece of a part.
#[derive(Debug)]
pub enum DocumentBlock {
    /// A paragraph.
    Text(String),
    /// Lines, one below the other.
    List(Vec<String>),
    /// A picture; its figures follow as a table.
    Chart(Chart),
    /// Figures.
    Table(Table),
    /// Details that few readers need: folded where possible.
    Folded(String, Table),
}

impl Document {
    /// Adds a part, unless there is nothing in it.
    pub fn part(&mut self, heading: &str, blocks: Vec<DocumentBlock>) {
        if !blocks.is_empty() {
            self.parts.push(DocumentPart { heading: heading.to_owned(), blocks });
        }
    }
}
