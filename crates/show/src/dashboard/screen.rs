//! The terminal of standard error: taken for a dashboard, and restored however the copy ends.
//!
//! There is only one, so that the end of a copy, a panic or a signal can restore it. Other output is held meanwhile, and
//! printed afterwards. The terminal still sends signals.
//!
//! It is opened a second time for non-blocking writes: a stuck terminal must not prevent the process from ending.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::termios::{
    InputModes, LocalModes, OptionalActions, QueueSelector, SpecialCodeIndex, Termios, tcflush, tcgetattr, tcsetattr,
};

use crate::terminal::in_foreground;

/// Switches to the alternate screen, hides the cursor, and clears.
const ENTER: &[u8] = b"\x1b[?1049h\x1b[?25l\x1b[0m\x1b[2J";
/// Shows the cursor, and restores the screen.
const LEAVE: &[u8] = b"\x1b[0m\x1b[?25h\x1b[?1049l";
/// Time limit of a write.
const PATIENCE: Duration = Duration::from_millis(200);
/// Most bytes of held output.
const HELD_MAX: usize = 1 << 20;

static SCREEN: Mutex<Screen> =
    Mutex::new(Screen { terminal: None, before: None, taken: 0, is_over: false, held: Vec::new() });

struct Screen {
    /// Open while a dashboard is possible.
    terminal: Option<File>,
    /// Its original settings, while taken.
    before: Option<Termios>,
    /// Number of times it was taken.
    taken: u64,
    /// It must not be taken again.
    is_over: bool,
    /// Output to print after the terminal is restored.
    held: Vec<u8>,
}

/// Opens standard error's terminal.
pub fn open() -> io::Result<()> {
    let flags = rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOCTTY;
    let flags = i32::try_from(flags.bits()).map_err(io::Error::other)?;
    let terminal = OpenOptions::new().read(true).write(true).custom_flags(flags).open("/proc/self/fd/2")?;
    tcgetattr(&terminal)?;
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        give_back_anyhow();
        before(panic);
    }));
    let mut screen = lock();
    (screen.terminal, screen.is_over) = (Some(terminal), false);
    Ok(())
}

/// Takes the terminal, unless taken, if this copy is in the foreground.
pub fn enter() {
    let mut screen = lock();
    if screen.before.is_some() || screen.is_over || !in_foreground() {
        return;
    }
    let Some(terminal) = &screen.terminal else { return };
    let Ok(before) = tcgetattr(terminal) else { return };
    let mut now = before.clone();
    now.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO | LocalModes::IEXTEN);
    now.input_modes.remove(InputModes::IXON);
    // Stopping the process or dumping core would leave the terminal unrestored.
    now.special_codes[SpecialCodeIndex::VSUSP] = 0;
    now.special_codes[SpecialCodeIndex::VQUIT] = 0;
    if tcsetattr(terminal, OptionalActions::Now, &now).is_ok() {
        write_to(terminal, ENTER);
        screen.before = Some(before);
        screen.taken += 1;
    }
}

/// Restores the terminal, if it is taken, and prints held output.
pub fn give_back() {
    lock().give_back();
}

/// Restores the terminal permanently.
pub fn give_back_for_good() {
    let mut screen = lock();
    screen.is_over = true;
    screen.give_back();
}

/// Restores the terminal in a panic, regardless of held locks.
fn give_back_anyhow() {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match SCREEN.try_lock() {
            Ok(mut screen) => {
                screen.is_over = true;
                return screen.give_back();
            }
            Err(TryLockError::Poisoned(screen)) => return screen.into_inner().give_back(),
            Err(TryLockError::WouldBlock) if Instant::now() < deadline => std::thread::sleep(PATIENCE / 20),
            Err(TryLockError::WouldBlock) => return,
        }
    }
}

/// The number of the screen, while taken. Each new screen is empty.
pub fn taken() -> Option<u64> {
    let screen = lock();
    screen.before.as_ref().filter(|_| in_foreground()).map(|_| screen.taken)
}

/// Draws; `false` if the terminal did not accept all bytes.
pub fn draw(bytes: &[u8]) -> bool {
    let screen = lock();
    match (&screen.terminal, &screen.before) {
        (Some(terminal), Some(_)) => write_to(terminal, bytes),
        _ => false,
    }
}

/// Prints text: now, or after the terminal is restored.
pub fn say(words: &[u8]) {
    let mut screen = lock();
    match screen.before {
        Some(_) if screen.held.len() + words.len() > HELD_MAX => {}
        Some(_) => screen.held.extend_from_slice(words),
        None => {
            let _ = io::stderr().write_all(words);
        }
    }
}

/// Returns the bytes typed within this time.
pub fn typed(time: Duration) -> Vec<u8> {
    let terminal = lock().terminal.as_ref().and_then(|terminal| terminal.try_clone().ok());
    let mut bytes = [0; 256];
    if let Some(terminal) = terminal
        && ready(&terminal, PollFlags::IN, time)
        && let Ok(count) = rustix::io::read(&terminal, &mut bytes)
        && count > 0
    {
        return bytes[..count].to_vec();
    }
    Vec::new()
}

impl Screen {
    fn give_back(&mut self) {
        if let (Some(terminal), Some(before)) = (&self.terminal, self.before.take()) {
            // This call would stop a background process. The foreground process has set its own mode.
            if in_foreground() {
                let _ = tcflush(terminal, QueueSelector::IFlush);
                let _ = tcsetattr(terminal, OptionalActions::Now, &before);
            }
            write_to(terminal, LEAVE);
        }
        let _ = io::stderr().write_all(&std::mem::take(&mut self.held));
    }
}

fn lock() -> MutexGuard<'static, Screen> {
    SCREEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether the terminal is ready within this time.
fn ready(terminal: &File, flags: PollFlags, time: Duration) -> bool {
    let time = Timespec::try_from(time).ok();
    poll(&mut [PollFd::new(terminal, flags)], time.as_ref()).is_ok_and(|count| count > 0)
}

/// Writes; `false` if the terminal did not accept all bytes.
fn write_to(terminal: &File, mut bytes: &[u8]) -> bool {
    let deadline = Instant::now() + PATIENCE;
    while !bytes.is_empty() {
        match rustix::io::write(terminal, bytes) {
            Ok(count) => bytes = &bytes[count..],
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => {
                let left = deadline.saturating_duration_since(Instant::now());
                if left.is_zero() || !ready(terminal, PollFlags::OUT, left) {
                    return false;
                }
            }
            Err(_) => return false,
        }
    }
    true
}
