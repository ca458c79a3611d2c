//! State of a file's requested digest besides BLAKE3. The file is complete only when the engine has that digest. The
//! engine may have to read frames received out of order once more, and neither session waits for that.

/// State of a large file's digest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DigestState {
    /// Frames are missing. Next: Begun.
    Awaited,
    /// The engine was asked for the digest. Next: Done.
    Begun,
    /// The digest is available, or none was requested.
    Done,
}

impl DigestState {
    /// Returns the initial state.
    pub fn when(wanted: bool) -> Self {
        if wanted { Self::Awaited } else { Self::Done }
    }

    /// Records that all frames are available; whether to ask the engine now.
    pub fn begin(&mut self) -> bool {
        let begins = *self == Self::Awaited;
        if begins {
            *self = Self::Begun;
        }
        begins
    }

    /// Whether nothing is awaited.
    pub fn is_done(self) -> bool {
        self == Self::Done
    }
}
