//! A table of a report.

/// Rows and columns.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Table {
    /// The columns' heads.
    pub columns: Vec<String>,
    /// The cells of each row, one per column. All but the first column are figures.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these columns.
    pub fn new(columns: &[&str]) -> Self {
        Self { columns: columns.iter().map(|&name| name.to_owned()).collect(), rows: Vec::new() }
    }

    /// Samples rows down to this number, the last row included.
    pub fn thinned(&self, most: usize) -> Self {
        let every = self.rows.len().div_ceil(most.max(1)).max(1);
        let last = self.rows.len().saturating_sub(1);
        let rows = self.rows.iter().enumerate().filter(|(at, _)| (last - at).is_multiple_of(every));
        Self { columns: self.columns.clone(), rows: rows.map(|(_, row)| row.clone()).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_table_is_thinned_and_keeps_its_last_row() {
        let rows = |count: usize| (0..count).map(|row| vec![row.to_string()]).collect();
        let table = Table { columns: vec!["row".into()], rows: rows(25) };
        let thin = table.thinned(10);
        assert_eq!(thin.rows.iter().map(|row| row[0].as_str()).collect::<Vec<_>>().join(" "), "0 3 6 9 12 15 18 21 24");
        assert_eq!(table.thinned(25), table);
        assert_eq!(Table::new(&["row"]).thinned(3).rows.len(), 0);
    }
}
