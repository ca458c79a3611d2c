use ratatui_core::backend::TestBackend;
use ratatui_core::style::{Color, Modifier};
use ratatui_core::terminal::Terminal;

use super::super::board::tests::busy;
use super::super::keys::Key;
use super::*;

const ASCII: TerminalStyle = TerminalStyle { colour: false, unicode: false };

fn screen(board: &Board, columns: u16, rows: u16, style: TerminalStyle) -> Terminal<TestBackend> {
    let mut terminal = Terminal::new(TestBackend::new(columns, rows)).unwrap();
    terminal.draw(|frame| draw(frame.buffer_mut(), board, style)).unwrap();
    terminal
}

fn text(board: &Board, columns: u16, rows: u16) -> String {
    let terminal = screen(board, columns, rows, ASCII);
    let lines = terminal.backend().buffer().content().chunks(usize::from(columns.max(1)));
    let line =
        |cells: &[ratatui_core::buffer::Cell]| cells.iter().map(ratatui_core::buffer::Cell::symbol).collect::<String>();
    lines.map(|cells| format!("{}\n", line(cells).trim_end())).collect()
}

#[test]
fn a_usual_terminal_shows_it_all() {
    insta::assert_snapshot!(text(&busy(), 80, 24), @r#"
        run7
        40 %  0.80 of 2.00 GB  40.0 MB/s  30 s left  7,001 of 12,408 files  2 streams
        no rate limit   2 streams (at most 128)   10.10.1.155 -> 10.10.1.202 (tcp)
        rate, now 40.0 MB/s ------------------------------------------------------------
        ########################################
        ########################################
        ########################################
        streams ------------------------------------------------------------------------
        stream rate       rtt      resent       path
             0 20.0 MB/s  50.4 ms  0 (0 %)      10.10.1.155 -> 10.10.1.202
             1 rests      50.4 ms  12 (0 %)     10.10.1.155 -> 10.10.1.202
        limited by ---------------------------------------------------------------------
        target disk, 96 % of the time; next: network at 12 %
        writing waited 96 % of the time; 41.2 MB/s; the disk was busy 99 % of the time;
        31 requests in its queue
        files --------------------------------------------------------------------------
        12,408 found   5,107 waiting   300 in flight   7,001 settled
        slowest files ------------------------------------------------------------------
             12.3 s    4.29 GB  run7/big
             1.00 s    4.29 GB  run7/\u{1b}[2J
        messages -----------------------------------------------------------------------
              free some
        run7/pipe: left out: is a FIFO
        q end  space pause  - + rate  0 no limit  < > streams  tab files  ? help
        "#);
}

#[test]
fn a_wide_one_has_two_columns() {
    insta::assert_snapshot!(text(&busy(), 120, 30), @r#"
        run7
        [============>                 ]  40 %  0.80 of 2.00 GB  40.0 MB/s  30 s left  7,001 of 12,408 files  2 streams
        no rate limit   2 streams (at most 128)   10.10.1.155 -> 10.10.1.202 (tcp)
        rate, now 40.0 MB/s ---------------------------------------------- limited by ------------------------------------------
        ########################################                           target disk, 96 % of the time; next: network at 12 %
        ########################################                           writing waited 96 % of the time; 41.2 MB/s; the disk
        ########################################                           was busy 99 % of the time; 31 requests in its queue
        ########################################
        ########################################                           files -----------------------------------------------
        ########################################                           12,408 found   5,107 waiting   300 in flight   7,001
        ########################################                           slowest files ---------------------------------------
        ########################################                                12.3 s    4.29 GB  run7/big
        ########################################                                1.00 s    4.29 GB  run7/\u{1b}[2J
        ########################################
        ########################################
        ########################################
        ########################################
        ########################################
        ########################################
        streams ----------------------------------------------------------
        stream rate       rtt      resent       path
             0 20.0 MB/s  50.4 ms  0 (0 %)      10.10.1.155 -> 10.10.1.202
             1 rests      50.4 ms  12 (0 %)     10.10.1.155 -> 10.10.1.202
        messages ---------------------------------------------------------------------------------------------------------------
        db1: run7/b: no space left
              free some
        run7/pipe: left out: is a FIFO


        q end  space pause  - + rate  0 no limit  < > streams  tab files  ? help
        "#);
}

#[test]
fn a_small_screen_shows_the_essentials() {
    insta::assert_snapshot!(text(&busy(), 50, 12), @r#"
        run7
        40 %  0.80 of 2.00 GB  40.0 MB/s  30 s left
        no rate limit   2 streams (at most 128)   10.10.1.
        limited by ---------------------------------------
        target disk, 96 % of the time; next: network at 12
        %
        files --------------------------------------------
        12,408 found   5,107 waiting   300 in flight
        messages -----------------------------------------
              free some
        run7/pipe: left out: is a FIFO
        q end  space pause  - + rate  0 no limit  < > stre
        "#);
}

#[test]
fn no_size_makes_it_stumble() {
    let mut board = busy();
    for helps in [true, false] {
        board.helps = helps;
        for columns in [0, 1, 2, 3, 7, 20, 40, 109, 110, 300] {
            for rows in [0, 1, 2, 3, 4, 5, 8, 13, 24, 100] {
                screen(&board, columns, rows, TerminalStyle { colour: true, unicode: true });
            }
        }
    }
}

#[test]
fn a_pause_is_visible_and_gives_no_verdict() {
    let mut board = busy();
    board.key(Key::Char(' '));
    let shown = text(&board, 80, 24);
    assert!(shown.lines().next().unwrap().ends_with("PAUSED"), "{shown}");
    assert!(shown.contains("paused: press space to resume"), "{shown}");
    assert!(!shown.contains("target disk"), "{shown}");
}

#[test]
fn settings_and_messages_are_visible() {
    let mut board = busy();
    for key in "->>".chars() {
        board.key(Key::Char(key));
    }
    let shown = text(&board, 120, 24);
    assert!(shown.contains("rate limit 30 MB/s   2 streams, 4 set (at most 128)"), "{shown}");
    board.key(Key::Up);
    let shown = text(&board, 120, 24);
    assert!(shown.contains("messages, 1 line below") && !shown.contains("is a FIFO"), "{shown}");
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
fn errors_are_red_unless_colours_are_off() {
    let colours = |terminal| {
        let terminal = screen(&busy(), 80, 24, terminal);
        let cells = terminal.backend().buffer().content();
        (
            cells.iter().any(|cell| cell.fg != Color::Reset || cell.bg != Color::Reset),
            cells.iter().any(|cell| cell.fg == Color::Red),
            cells.iter().any(|cell| cell.modifier.contains(Modifier::BOLD)),
        )
    };
    assert_eq!(colours(ASCII), (false, false, true));
    assert_eq!(colours(TerminalStyle { colour: true, unicode: true }), (true, true, true));
}

#[test]
fn a_terminal_without_unicode_gets_none() {
    assert!(text(&busy(), 120, 40).is_ascii());
    let terminal = screen(&busy(), 120, 40, TerminalStyle { colour: false, unicode: true });
    assert!(terminal.backend().buffer().content().iter().any(|cell| !cell.symbol().is_ascii()));
}
