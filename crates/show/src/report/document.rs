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

/// An element of a part.
#[derive(Debug)]
pub enum DocumentBlock {
    /// A paragraph.
    Text(String),
    /// A list.
    List(Vec<String>),
    /// A picture; its figures follow as a table.
    Chart(Chart),
    /// Figures.
    Table(Table),
    /// Details for few readers, folded if possible.
    Folded(String, Table),
}

impl Document {
    /// Adds a part, unless it is empty.
    pub fn part(&mut self, heading: &str, blocks: Vec<DocumentBlock>) {
        if !blocks.is_empty() {
            self.parts.push(DocumentPart { heading: heading.to_owned(), blocks });
        }
    }
}
