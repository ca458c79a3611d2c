//! A terminal for the program under test: its screen, typed keys, and its final state.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use haul_lab::{Running, start};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Termios, Winsize, tcgetattr, tcsetwinsize};

use crate::{Haul, ProgramRun, eventually};

/// A program on a terminal of its own.
#[derive(Debug)]
pub struct Terminal {
    /// Takes keys, and gives the program's output.
    master: File,
    /// Kept open to read the terminal's settings after the program's end.
    slave: File,
    before: String,
    shown: Arc<Mutex<TerminalOutput>>,
    reader: Option<JoinHandle<()>>,
    running: Option<Running>,
}

/// Received output, and the resulting screen.
#[derive(Debug, Default)]
struct TerminalOutput {
    bytes: Vec<u8>,
    screen: Vec<Vec<char>>,
    at: (usize, usize),
    /// The beginning of a sequence.
    pending: Vec<u8>,
}

impl Terminal {
    /// Starts the program in a session that this terminal controls, as a login does.
    #[track_caller]
    pub fn start(haul: Haul<'_>, columns: u16, rows: u16) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
        grantpt(&master).and_then(|()| unlockpt(&master)).expect("it is ours");
        let name = ptsname(&master, Vec::new()).expect("it has a name").into_string().expect("ASCII");
        let master = File::from(master);
        let slave = OpenOptions::new().read(true).write(true).open(&name).expect("its other end");
        let before = settings(&tcgetattr(&slave).expect("a terminal"));
        let shown = Arc::new(Mutex::new(TerminalOutput::default()));
        let mut terminal = Self { master, slave, before, shown: Arc::clone(&shown), reader: None, running: None };
        terminal.resize(columns, rows);
        let command = haul.into_command();
        let mut session = Command::new("sh");
        session.args(["-c", "exec setsid -w -c \"$@\" <\"$0\" >\"$0\" 2>&1"]).arg(&name);
        session.arg(command.get_program()).args(command.get_args()).env("TERM", "xterm").env_remove("NO_COLOR");
        command.get_envs().for_each(|(name, value)| set(&mut session, name, value));
        command.get_current_dir().map(|directory| session.current_dir(directory));
        let mut source = terminal.master.try_clone().expect("a descriptor");
        let reader = std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = source.read(&mut bytes) {
                shown.lock().expect("nobody panics").take(&bytes[..count]);
            }
        });
        let running = start(session).unwrap_or_else(|error| panic!("{error:#}"));
        (terminal.reader, terminal.running) = (Some(reader), Some(running));
        terminal
    }

    /// Makes it larger or smaller.
    pub fn resize(&self, columns: u16, rows: u16) {
        self.shown.lock().expect("nobody panics").screen = vec![vec![' '; columns.into()]; rows.into()];
        let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&self.master, size).expect("a size");
    }

    /// Types.
    pub fn types(&self, keys: &str) {
        (&self.master).write_all(keys.as_bytes()).expect("somebody may read it");
    }

    /// The screen's lines as a person would see them.
    pub fn screen(&self) -> String {
        let shown = self.shown.lock().expect("nobody panics");
        shown.screen.iter().fold(String::new(), |mut text, line| {
            let line: String = line.iter().collect();
            let _ = writeln!(text, "{}", line.trim_end());
            text
        })
    }

    /// All that was written to it.
    pub fn bytes(&self) -> String {
        String::from_utf8_lossy(&self.shown.lock().expect("nobody panics").bytes).into_owned()
    }

    /// Waits until the screen shows this.
    #[track_caller]
    pub fn shows(&self, what: &str) {
        self.comes_to(what, |screen| screen.contains(what));
    }

    /// Waits until the screen is such.
    #[track_caller]
    pub fn comes_to(&self, what: &str, is_such: impl Fn(&str) -> bool) {
        let seen = crate::within(Duration::from_secs(20), || is_such(&self.screen()));
        assert!(seen, "the screen does not come to show: {what}\n{}\nall of it: {:?}", self.screen(), self.bytes());
    }

    /// Whether it is set as it was before.
    pub fn is_as_before(&self) -> bool {
        settings(&tcgetattr(&self.slave).expect("a terminal")) == self.before
    }

    /// Waits for the program's end. Its output is in `stderr`.
    #[track_caller]
    pub fn end(mut self) -> ProgramRun {
        let running = self.running.take().expect("it was started");
        let run = ProgramRun::of(running);
        let is_as_before = self.is_as_before();
        // The reader ends once nobody has the terminal open, and then has read all.
        self.slave = File::open("/dev/null").expect("it is there");
        eventually("all is read", || self.reader.as_ref().is_none_or(JoinHandle::is_finished));
        let bytes = self.bytes();
        drop(self);
        assert!(is_as_before, "the terminal is not set as it was before: {bytes:?}");
        ProgramRun { stderr: bytes, ..run }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // Closing the program's end first makes the output end, and with it the thread.
        self.running.take();
        if let Ok(null) = File::open("/dev/null") {
            self.slave = null;
        }
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
    }
}

fn set(command: &mut Command, name: &OsStr, value: Option<&OsStr>) {
    match value {
        Some(value) => command.env(name, value),
        None => command.env_remove(name),
    };
}

/// All that can be set of a terminal.
fn settings(termios: &Termios) -> String {
    format!("{termios:?}")
}

impl TerminalOutput {
    fn take(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        for byte in bytes {
            self.pending.push(*byte);
            if is_whole(&self.pending) {
                let whole = std::mem::take(&mut self.pending);
                self.apply(&whole);
            }
        }
    }

    fn apply(&mut self, whole: &[u8]) {
        match whole {
            [0x1b, b'[', numbers @ .., b'H'] => {
                let text = String::from_utf8_lossy(numbers).into_owned();
                let mut numbers = text.split(';').map(|number| number.parse().unwrap_or(1usize));
                let mut next = || numbers.next().unwrap_or(1).saturating_sub(1);
                self.at = (next(), next());
            }
            [0x1b, b'[', b'2', b'J'] => self.screen.iter_mut().for_each(|line| line.fill(' ')),
            [0x1b, ..] => {}
            b"\r" => self.at.1 = 0,
            b"\n" => self.at.0 += 1,
            character => {
                let (row, column) = self.at;
                let shown = String::from_utf8_lossy(character).chars().next().unwrap_or(' ');
                if let Some(cell) = self.screen.get_mut(row).and_then(|line| line.get_mut(column)) {
                    *cell = shown;
                }
                self.at.1 += 1;
            }
        }
    }
}

/// Whether these bytes are a character, or a sequence to its end.
fn is_whole(bytes: &[u8]) -> bool {
    match bytes {
        [0x1b] | [0x1b, b'['] => false,
        [0x1b, b'[', .., last] => (0x40..0x7f).contains(last),
        other => std::str::from_utf8(other).is_ok() || other.len() >= 4,
    }
}
