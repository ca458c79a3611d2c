//! `--tui` in a real terminal: its keys act, and the terminal is left as it was.

use std::time::Duration;

use haul_e2e::{ProgramRun, Remote, Sandbox, Terminal, compare, eventually, within};

/// Enters the alternate screen; the next constant leaves it.
const ENTERED: &str = "\x1b[?1049h";
const LEFT: &str = "\x1b[?25h\x1b[?1049l";

/// The file that is copied.
const BIG: u64 = 40_000_000;

/// A copy of a file that takes more than half a minute at its rate, with its dashboard on the screen.
fn slow_copy(sandbox: &Sandbox, remote: &Remote, options: &[&str]) -> Terminal {
    sandbox.big_file("big", BIG);
    sandbox.dir("place");
    let haul = remote.haul(sandbox).env("NO_COLOR", "1").args(["--tui", "--xfrrate", "1m"]).args(options).arg("big");
    let terminal = Terminal::start(haul.arg(remote.at(sandbox.path("place"))), 80, 24);
    terminal.comes_to("the copy is under way", |screen| screen.contains(" of 40.0 MB") && screen.contains("resent"));
    eventually("something has arrived", || arrived(sandbox) > 1);
    terminal
}

/// How many blocks the target has of the file that is not whole. Its room may be there from the beginning, and empty.
fn arrived(sandbox: &Sandbox) -> usize {
    let entries = std::fs::read_dir(sandbox.path("place")).expect("it is there").flatten();
    let others = entries.filter(|entry| entry.file_name() != "big");
    let blocks = |entry: std::fs::DirEntry| {
        let content = std::fs::read(entry.path()).unwrap_or_default();
        content.chunks(64 << 10).filter(|block| block.iter().any(|byte| *byte != 0)).count()
    };
    others.map(blocks).max().unwrap_or(0)
}

/// Output after leaving the alternate screen.
fn said_afterwards(run: &ProgramRun) -> String {
    let (_, after) = run.stderr.rsplit_once(LEFT).unwrap_or_else(|| panic!("it was not left\n{}", run.account()));
    assert!(run.stderr.contains(ENTERED) && !after.contains("\x1b["), "{after:?}");
    after.replace("\r\n", "\n")
}

/// How many streams are said to be in use.
fn streams(screen: &str) -> Option<u16> {
    let line = screen.lines().find(|line| line.contains("(at most "))?;
    line.split("   ").find_map(|part| part.split_once(" stream")?.0.trim().parse().ok())
}

#[test]
fn keys_change_the_rate_and_the_streams_and_pause_and_every_byte_arrives() {
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    let terminal = slow_copy(&sandbox, &remote, &[]);
    terminal.shows("rate limit 1 MiB/s");
    assert!(!terminal.is_as_before(), "keys would be shown, and come line by line");

    let before = streams(&terminal.screen()).expect("they are counted");
    terminal.types(">>");
    terminal.comes_to("two more streams", |screen| streams(screen) == Some(before + 2) && screen.contains("as set"));
    terminal.types(&"<".repeat(usize::from(before) + 1));
    terminal.comes_to("one stream", |screen| streams(screen) == Some(1) && screen.contains("as set"));
    terminal.shows("rests");

    terminal.types("--------");
    terminal.shows("rate limit 70 kB/s");
    terminal.comes_to("a low rate", |screen| {
        let rate = screen.split_once("rate, now ").and_then(|(_, rest)| rest.split_once(" kB/s"));
        rate.and_then(|(rate, _)| rate.parse::<f64>().ok()).is_some_and(|rate| rate < 200.0)
    });

    terminal.types(" ");
    terminal.shows("PAUSED");
    terminal.shows("paused: press space to resume");
    // Data in flight arrives; then no more does.
    terminal.types("0");
    terminal.shows("no rate limit");
    eventually("it stands still", || {
        let before = arrived(&sandbox);
        !within(Duration::from_secs(1), || arrived(&sandbox) != before)
    });
    assert!(!sandbox.path("place/big").exists() && arrived(&sandbox) > 1);

    // It is drawn on another size of terminal, too.
    terminal.resize(50, 12);
    terminal.comes_to("a small dashboard", |screen| screen.contains("PAUSED") && screen.contains(" settled"));

    terminal.types(" ");
    let run = terminal.end().succeeds();
    compare(&sandbox.path("big"), &sandbox.path("place/big")).unwrap();
    let said = said_afterwards(&run);
    assert!(said.contains("haul: paused\n") && said.contains("haul: resumed\n"), "{said}");
    assert!(said.contains("1 file, 40.0 MB in ") && said.contains("\npaused      "), "{said}");
    remote.is_left_clean();
}

#[test]
fn a_pause_is_no_stall() {
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    let terminal = slow_copy(&sandbox, &remote, &["-s", "3", "--silence", "3s", "-v"]);
    terminal.types(" ");
    terminal.shows("PAUSED");
    // Longer than a silence that ends a link, and than a stream may stall.
    let is_lost = within(Duration::from_secs(7), || terminal.bytes().contains("reconnecting"));
    assert!(!is_lost, "{}", terminal.bytes());
    assert_eq!(streams(&terminal.screen()).or(Some(3)), Some(3));
    terminal.types("0 ");
    let run = terminal.end().succeeds();
    compare(&sandbox.path("big"), &sandbox.path("place/big")).unwrap();
    let said = said_afterwards(&run);
    for word in ["stalled", "broke", "no answer"] {
        assert!(!said.contains(word), "{word}: {said}");
    }
}

#[test]
fn control_c_and_q_end_it_and_the_same_command_resumes() {
    for keys in ["\x03", "q"] {
        let sandbox = Sandbox::new();
        let remote = Remote::new(&sandbox);
        let terminal = slow_copy(&sandbox, &remote, &[]);
        terminal.types(keys);
        let run = terminal.end().ends(4);
        let said = said_afterwards(&run);
        assert!(said.contains("haul: interrupted") && said.contains("rerun the command"), "{said}");
        assert!(arrived(&sandbox) > 1, "what is not whole does not stay");
        remote.is_left_clean();
        let again = remote.haul(&sandbox).arg("big").arg(remote.at(sandbox.path("place"))).run().succeeds();
        again.says(["resuming"]);
        compare(&sandbox.path("big"), &sandbox.path("place/big")).unwrap();
    }
}

#[test]
fn a_final_error_appears_on_the_original_screen() {
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    let terminal = slow_copy(&sandbox, &remote, &["--retries", "0"]);
    for worker in remote.workers() {
        let worker = haul_e2e::pid(worker);
        rustix::process::kill_process(worker, rustix::process::Signal::KILL).expect("it was there");
    }
    let run = terminal.end().ends(4);
    let said = said_afterwards(&run);
    assert!(said.contains("haul: lost the connection to "), "{said}\n{}", run.account());
}

#[test]
fn failed_files_are_shown_in_it_and_again_after_it() {
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    sandbox.file("place/taken", "something else");
    sandbox.file("taken", "what does not replace it");
    let terminal = slow_copy(&sandbox, &remote, &["taken"]);
    terminal.comes_to("what failed", |screen| {
        screen.lines().any(|line| line.contains(": place/taken") || line.contains("taken: "))
    });
    terminal.types("0");
    let said = said_afterwards(&terminal.end().ends(1));
    assert!(said.contains("place/taken") || said.contains(": taken"), "{said}");
}

#[test]
fn without_a_terminal_it_is_refused() {
    let sandbox = Sandbox::new();
    sandbox.file("file", "content");
    sandbox.haul(["--tui", "file", "copy"]).run().ends(2).says(["--tui needs a terminal", "--progress=5"]);
    assert!(!sandbox.path("copy").exists());
}
