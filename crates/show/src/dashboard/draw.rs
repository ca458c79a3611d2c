//! Draws a board: lines of text, and the rate as a graph.

use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;
use ratatui_core::style::{Color, Modifier, Style};
use ratatui_core::symbols::bar;

use super::board::{Board, Phase};
use super::layout::{Panel, arrange};
use super::words;

/// Capabilities of a terminal.
#[derive(Debug, Clone, Copy)]
pub struct TerminalStyle {
    /// Whether it has colours.
    pub colour: bool,
    /// Whether it has characters beyond ASCII.
    pub unicode: bool,
}

/// Bars in eighths of a character's height.
const BARS: [&str; 9] = [
    " ",
    bar::ONE_EIGHTH,
    bar::ONE_QUARTER,
    bar::THREE_EIGHTHS,
    bar::HALF,
    bar::FIVE_EIGHTHS,
    bar::THREE_QUARTERS,
    bar::SEVEN_EIGHTHS,
    bar::FULL,
];
/// Bars in ASCII.
const ASCII_BARS: [&str; 9] = [" ", ".", "_", "-", "=", "+", "+", "#", "#"];
/// Widths of the columns of streams; the last column takes the rest.
const COLUMNS: [u16; 4] = [7, 11, 9, 13];

impl TerminalStyle {
    fn tinted(self, colour: Color, modifier: Modifier) -> Style {
        let style = Style::new().add_modifier(modifier);
        if self.colour { style.fg(colour) } else { style }
    }

    fn title(self) -> Style {
        self.tinted(Color::Cyan, Modifier::BOLD)
    }

    fn error(self) -> Style {
        self.tinted(Color::Red, Modifier::empty())
    }

    fn warning(self) -> Style {
        self.tinted(Color::Yellow, Modifier::BOLD)
    }

    fn aside(self) -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }

    fn help(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }
}

/// A part of the screen, written line by line from the top.
struct ScreenPart<'b> {
    buffer: &'b mut Buffer,
    left: Rect,
}

impl ScreenPart<'_> {
    /// Writes a line, cut to the available width.
    fn line(&mut self, text: &str, style: Style) {
        let Rect { x, y, width, height } = self.left;
        if width > 0 && height > 0 {
            self.buffer.set_stringn(x, y, text, width.into(), style);
            self.left = Rect { y: y + 1, height: height - 1, ..self.left };
        }
    }

    /// Writes wrapped text.
    fn paragraph(&mut self, text: &str, style: Style) {
        let room = usize::from(self.left.width);
        let mut line = String::new();
        for word in text.split(' ') {
            if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > room {
                self.line(&line, style);
                line.clear();
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
        self.line(&line, style);
    }
}

/// Draws the dashboard on an empty buffer.
pub fn draw(buffer: &mut Buffer, board: &Board, terminal: TerminalStyle) {
    let screen = buffer.area;
    let layout = arrange(screen, board.lanes.rows().len(), board.wants_slowest);
    header(buffer, layout.header, board, terminal);
    for (panel, left) in layout.panels {
        let mut page = ScreenPart { buffer, left };
        rule(&mut page, &words::title(panel, board), terminal);
        match panel {
            Panel::Graph => graph(&mut page, board, terminal),
            Panel::Streams => streams(&mut page, board, terminal),
            Panel::Verdict => words::verdict(board).iter().for_each(|text| page.paragraph(text, Style::new())),
            Panel::Queue => words::queue(&board.progress).iter().for_each(|text| page.paragraph(text, Style::new())),
            Panel::Slowest => {
                board.progress.slowest.iter().for_each(|file| page.line(&words::slow_file(file), Style::new()));
            }
            Panel::Messages => draw_messages(&mut page, board, terminal),
        }
    }
    ScreenPart { buffer, left: layout.footer }.line(words::KEYS, terminal.aside());
    if board.helps {
        help(buffer, terminal);
    }
}

fn header(buffer: &mut Buffer, area: Rect, board: &Board, terminal: TerminalStyle) {
    let phase = match (board.phase, board.is_paused) {
        (Phase::Connecting, _) => "connecting",
        (Phase::Stopping, _) => "stopping",
        (Phase::Running, true) => "PAUSED",
        (Phase::Running, false) => "",
    };
    let mut page = ScreenPart { buffer, left: area };
    page.line(&board.title, terminal.title());
    page.line(&words::progress(board, area.width.into()), Style::new());
    page.line(&words::settings(board), terminal.aside());
    // In the corner, with a space after a long title.
    let shown = if phase.is_empty() { String::new() } else { format!(" {phase}") };
    let width = u16::try_from(shown.len()).unwrap_or(u16::MAX).min(area.width);
    let corner = Rect { x: area.right() - width, width, ..area };
    ScreenPart { buffer, left: corner }.line(&shown, terminal.warning());
}

/// Draws a horizontal line with a title.
fn rule(page: &mut ScreenPart<'_>, title: &str, terminal: TerminalStyle) {
    let Rect { x, y, width, .. } = page.left;
    let dash = if terminal.unicode { "\u{2500}" } else { "-" };
    page.line(&dash.repeat(width.into()), terminal.aside());
    page.buffer.set_stringn(x, y, format!("{title} "), width.into(), terminal.title());
}

fn graph(page: &mut ScreenPart<'_>, board: &Board, terminal: TerminalStyle) {
    let Rect { x, y, width, height } = page.left;
    let points = board.rate.points(width.into());
    let most = points.iter().copied().max().unwrap_or(0).max(1);
    let style = terminal.tinted(Color::Green, Modifier::empty());
    let bars = if terminal.unicode { BARS } else { ASCII_BARS };
    for (column, point) in (x..).zip(points) {
        let eighths = u128::from(point) * u128::from(height) * 8 / u128::from(most);
        for row in 0..height {
            // The bar's eighths in this row, from below.
            let below = u128::from(height - 1 - row) * 8;
            let part = usize::try_from(eighths.saturating_sub(below).min(8)).unwrap_or(8);
            page.buffer.set_string(column, y + row, bars[part], style);
        }
    }
}

fn streams(page: &mut ScreenPart<'_>, board: &Board, terminal: TerminalStyle) {
    let rows = board.lanes.rows();
    if rows.is_empty() {
        return page.paragraph(&words::no_streams(board), terminal.aside());
    }
    let room = usize::from(page.left.height.saturating_sub(1));
    let shown = if rows.len() > room { room.saturating_sub(1) } else { rows.len() };
    page.line(&in_columns(&words::STREAM_HEAD.map(str::to_owned)), terminal.aside());
    for row in &rows[..shown] {
        page.line(&in_columns(&words::stream(row)), if row.in_use { Style::new() } else { terminal.aside() });
    }
    if rows.len() > shown {
        page.line(&format!("{} more", rows.len() - shown), terminal.aside());
    }
}

fn in_columns(cells: &[String; 5]) -> String {
    let widths = COLUMNS.into_iter().map(usize::from).chain([0]);
    let line: String = cells.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
    line.trim_end().to_owned()
}

fn draw_messages(page: &mut ScreenPart<'_>, board: &Board, terminal: TerminalStyle) {
    for line in board.messages.visible(page.left.height.into()) {
        page.line(&line.text, if line.is_error { terminal.error() } else { Style::new() });
    }
}

/// Draws the help in the middle, above everything else.
fn help(buffer: &mut Buffer, terminal: TerminalStyle) {
    let screen = buffer.area;
    let width = words::HELP.iter().map(|line| line.len()).max().unwrap_or(0) + 2;
    let width = u16::try_from(width).unwrap_or(u16::MAX).min(screen.width);
    let height = u16::try_from(words::HELP.len() + 2).unwrap_or(u16::MAX).min(screen.height);
    let area = Rect { x: (screen.width - width) / 2, y: (screen.height - height) / 2, width, height };
    let mut page = ScreenPart { buffer, left: area };
    let lines = std::iter::once("").chain(words::HELP).chain([""]);
    for line in lines {
        page.line(&format!("{:<width$}", format!(" {line}"), width = usize::from(width)), terminal.help());
    }
}

#[cfg(test)]
#[path = "draw_tests.rs"]
mod tests;
