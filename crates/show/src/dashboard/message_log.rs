//! The dashboard's messages, with scrolling.

use std::collections::VecDeque;

/// Most lines kept.
pub const LINES_MAX: usize = 500;
/// Lines of a screenful.
pub const PAGE: usize = 5;

/// The latest messages.
#[derive(Default)]
pub struct MessageLog {
    /// The lines, oldest first.
    lines: VecDeque<MessageLine>,
    /// Number of lines below the visible ones.
    below: usize,
}

/// A line of a message.
pub struct MessageLine {
    /// Its text.
    pub text: String,
    /// Whether it is about an error.
    pub is_error: bool,
}

impl MessageLog {
    /// Adds a message. A scrolled view stays in place.
    pub fn add(&mut self, message: &str, is_error: bool) {
        let before = self.lines.len();
        self.lines.extend(message.lines().map(|line| MessageLine { text: line.to_owned(), is_error }));
        if self.below > 0 {
            self.below += self.lines.len() - before;
        }
        self.lines.drain(..self.lines.len().saturating_sub(LINES_MAX));
        self.below = self.below.min(self.below_max());
    }

    /// Moves the view to earlier lines.
    pub fn up(&mut self, lines: usize) {
        self.below = (self.below + lines).min(self.below_max());
    }

    /// Moves the view to later lines.
    pub fn down(&mut self, lines: usize) {
        self.below = self.below.saturating_sub(lines);
    }

    /// The most lines that can be below: the first one stays visible.
    fn below_max(&self) -> usize {
        self.lines.len().saturating_sub(1)
    }

    /// Number of lines below the visible ones.
    pub fn below(&self) -> usize {
        self.below
    }

    /// The visible lines, at most this number.
    pub fn visible(&self, most: usize) -> impl Iterator<Item = &MessageLine> {
        let end = self.lines.len().saturating_sub(self.below);
        self.lines.range(end.saturating_sub(most)..end)
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.lines.len()
    }
}
