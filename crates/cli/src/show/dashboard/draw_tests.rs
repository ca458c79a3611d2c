use ratatui_core::terminal::Terminal;
use ratatui_core::backend::TestBackend;
use ratatui_core::style::{Color, Modifier};

use super::super::board::tests::busy;
use super::super::keys::Key;
use super::*;

const ASCII: Look = Look { colour: false, unicode: false };

fn screen(board: &Board, columns: u16, rows: u16, look: Look) -> Terminal<TestBackend> {
    let mut terminal = Terminal::new(TestBackend::new(columns, rows)).unwrap();
    terminal.draw(|frame| draw(frame.buffer_mut(), board, look)).unwrap();
    terminal
}

fn text(board: &Board, columns: u16, rows: u16) -> String {
    let terminal = screen(board, columns, rows, ASCII);
    let lines = terminal.backend().buffer().content().chunks(usize::from(columns.max(1)));
    let line = |cells: &[ratatui_core::buffer::Cell]| cells.iter().map(ratatui_core::buffer::Cell::symbol).collect::<String>();
    lines.map(|cells| format!("{}\n", line(cells).trim_end())).collect()
}

#[test]
fn a_usual_terminal_shows_it_all() {
    insta::assert_snapshot!(text(&busy(), 80, 24), @"");
}

#[test]
fn a_wide_one_has_two_columns() {
    insta::assert_snapshot!(text(&busy(), 120, 30), @"");
}

#[test]
fn a_small_one_shows_what_counts() {
    insta::assert_snapshot!(text(&busy(), 50, 12), @"");
}

#[test]
fn no_size_makes_it_stumble() {
    let mut board = busy();
    for helps in [true, false] {
        board.helps = helps;
        for columns in [0, 1, 2, 3, 7, 20, 40, 109, 110, 300] {
            for rows in [0, 1, 2, 3, 4, 5, 8, 13, 24, 100] {
                screen(&board, columns, rows, Look { colour: true, unicode: true });
            }
        }
    }
}

#[test]
fn a_pause_is_plain_to_see_and_is_no_verdict_on_anything_else() {
    let mut board = busy();
    board.key(Key::Char(' '));
    let shown = text(&board, 80, 24);
    assert!(shown.lines().next().unwrap().ends_with("PAUSED"), "{shown}");
    assert!(shown.contains("paused: nothing is sent until space is pressed"), "{shown}");
    assert!(!shown.contains("target disk"), "{shown}");
}

#[test]
fn what_was_set_and_what_was_said_is_seen() {
    let mut board = busy();
    "->>".chars().for_each(|key| drop(board.key(Key::Char(key))));
    let shown = text(&board, 120, 24);
    assert!(shown.contains("rate limit 30.0 MB/s   2 streams, 4 wanted (at most 128)"), "{shown}");
    board.key(Key::Up);
    let shown = text(&board, 120, 24);
    assert!(shown.contains("said, 1 line below") && !shown.contains("is a FIFO"), "{shown}");
}

#[test]
fn the_keys_are_explained() {
    let mut board = busy();
    board.key(Key::Char('?'));
    let shown = text(&board, 80, 24);
    assert!(words::HELP.iter().all(|line| shown.contains(line.trim())), "{shown}");
    board.key(Key::Escape);
    assert!(!text(&board, 80, 24).contains("? closes this"));
}

#[test]
fn names_disturb_no_terminal() {
    let mut board = busy();
    board.wants_slowest = true;
    let shown = text(&board, 120, 40);
    assert!(shown.contains("run7/\\u{1b}[2J") && !shown.contains('\x1b'), "{shown}");
}

#[test]
fn without_colours_there_are_none_and_otherwise_errors_are_red() {
    let colours = |look| {
        let terminal = screen(&busy(), 80, 24, look);
        let cells = terminal.backend().buffer().content();
        (
            cells.iter().any(|cell| cell.fg != Color::Reset || cell.bg != Color::Reset),
            cells.iter().any(|cell| cell.fg == Color::Red),
            cells.iter().any(|cell| cell.modifier.contains(Modifier::BOLD)),
        )
    };
    assert_eq!(colours(ASCII), (false, false, true));
    assert_eq!(colours(Look { colour: true, unicode: true }), (true, true, true));
}

#[test]
fn a_terminal_without_unicode_gets_none() {
    assert!(text(&busy(), 120, 40).is_ascii());
    let terminal = screen(&busy(), 120, 40, Look { colour: false, unicode: true });
    assert!(terminal.backend().buffer().content().iter().any(|cell| !cell.symbol().is_ascii()));
}
