//! Writes cells to the terminal: a few universal control sequences (ECMA-48), in one write.

use std::io;

use ratatui_core::backend::{Backend, ClearType, WindowSize};
use ratatui_core::buffer::Cell;
use ratatui_core::layout::{Position, Size};
use ratatui_core::style::{Color, Modifier};

use super::screen;

/// The number of the screen.
#[derive(Debug, Default)]
pub struct Ansi {
    out: Vec<u8>,
    /// A write was incomplete.
    is_torn: bool,
}

impl Ansi {
    /// Whether the next frame redraws everything.
    pub fn is_torn(&self) -> bool {
        self.is_torn
    }
}

/// The attributes of a cell (SGR).
fn cell_style(cell: &Cell) -> String {
    let mut codes = vec!["0"];
    let modifiers =
        [(Modifier::BOLD, "1"), (Modifier::DIM, "2"), (Modifier::UNDERLINED, "4"), (Modifier::REVERSED, "7")];
    codes.extend(modifiers.iter().filter(|(modifier, _)| cell.modifier.contains(*modifier)).map(|(_, code)| *code));
    codes.extend(match cell.fg {
        Color::Red => Some("31"),
        Color::Green => Some("32"),
        Color::Yellow => Some("33"),
        Color::Cyan => Some("36"),
        // Other colours are unused.
        _ => None,
    });
    format!("\x1b[{}m", codes.join(";"))
}

impl Backend for Ansi {
    type Error = io::Error;

    fn draw<'a, I>(&mut self, content: I) -> io::Result<()>
    where
        I: Iterator<Item = (u16, u16, &'a Cell)>,
    {
        let (mut next, mut shown) = (None, String::new());
        for (x, y, cell) in content {
            if next != Some((x, y)) {
                self.out.extend_from_slice(format!("\x1b[{};{}H", y + 1, x + 1).as_bytes());
            }
            let wanted = cell_style(cell);
            if wanted != shown {
                self.out.extend_from_slice(wanted.as_bytes());
                shown = wanted;
            }
            self.out.extend_from_slice(cell.symbol().as_bytes());
            next = Some((x + 1, y));
        }
        Ok(())
    }

    fn hide_cursor(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn show_cursor(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn get_cursor_position(&mut self) -> io::Result<Position> {
        Ok(Position::ORIGIN)
    }

    fn set_cursor_position<P: Into<Position>>(&mut self, _: P) -> io::Result<()> {
        Ok(())
    }

    fn clear(&mut self) -> io::Result<()> {
        self.out.extend_from_slice(b"\x1b[0m\x1b[2J");
        Ok(())
    }

    fn clear_region(&mut self, _: ClearType) -> io::Result<()> {
        self.clear()
    }

    fn size(&self) -> io::Result<Size> {
        let (columns, rows) = crate::terminal::stderr_size();
        Ok(Size::new(columns, rows))
    }

    fn window_size(&mut self) -> io::Result<WindowSize> {
        Ok(WindowSize { columns_rows: self.size()?, pixels: Size::ZERO })
    }

    fn flush(&mut self) -> io::Result<()> {
        let bytes = std::mem::take(&mut self.out);
        self.is_torn |= !bytes.is_empty() && !screen::draw(&bytes);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use ratatui_core::style::Style;

    use super::*;

    #[test]
    fn adjacent_cells_are_written_without_cursor_movement() {
        let mut ansi = Ansi::default();
        let mut bold = Cell::new("b");
        bold.set_style(Style::new().fg(Color::Red).add_modifier(Modifier::BOLD));
        let plain = Cell::new("a");
        ansi.draw([(0, 0, &plain), (1, 0, &plain), (2, 0, &bold), (5, 1, &bold)].into_iter()).unwrap();
        assert_eq!(String::from_utf8(ansi.out).unwrap(), "\x1b[1;1H\x1b[0maa\x1b[0;1;31mb\x1b[2;6Hb");
    }
}
