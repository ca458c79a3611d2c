//! bbcp's log (`-l FILE`): lines with date and time, and a line of `=-` after each run.

use std::path::Path;

use haul_show::display::log_name;
use haul_show::lost_output::CheckedOutput;
use haul_show::pending::ReplaceableFile;
use haul_show::stamped_lines::StampedLines;

use super::stamp;

/// The line after a run.
pub const END: &str = "=-=-=-=-=-=-=-=";

/// Opens a log to append to. Any other file is refused.
pub fn open(path: &Path) -> anyhow::Result<CheckedOutput<StampedLines>> {
    let name = log_name(path);
    let file =
        ReplaceableFile::Log.open_to_append(path, is_bbcps).map_err(|error| anyhow::anyhow!("{name}: {error}"))?;
    Ok(CheckedOutput::new(StampedLines::new(file, stamp, END), name))
}

/// Whether a file begins like bbcp's log: with date and time, or with the end of a run.
fn is_bbcps(beginning: &[u8]) -> bool {
    let digits = |byte: &u8| if byte.is_ascii_digit() { b'0' } else { *byte };
    let shape: Vec<u8> = beginning.iter().take(16).map(digits).collect();
    shape.starts_with(b"000000 00:00:00 ") || beginning.starts_with(END.as_bytes())
}

#[cfg(test)]
mod tests {
    use haul_show::text::TextOutput;

    use super::*;

    #[test]
    fn each_line_has_its_date_and_only_logs_are_appended_to() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        for _ in 0..2 {
            let mut text = TextOutput::new(Box::new(open(&path).unwrap()), false).called("bbcp");
            text.error("a: failed\nhint: try b");
            text.plain(END);
        }
        let log = std::fs::read_to_string(&path).unwrap();
        let shape: String = log.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
        let once = format!("000000 00:00:00 bbcp: a: failed\n000000 00:00:00       hint: try b\n{END}\n");
        assert_eq!(shape, once.repeat(2));
        std::fs::write(&path, "a letter\n").unwrap();
        assert!(open(&path).is_err());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "a letter\n");
    }
}
