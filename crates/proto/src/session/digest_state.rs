//! A file whose other digest somebody asks for is over only when the engine has that digest: who computes it may have to
//! read what came out of order once more, and no machine waits for that.

/// How far the digest of a large file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DigestState {
    /// Not all frames are there. Next: begun.
    Awaited,
    /// The engine was asked for what is left. Next: done.
    Begun,
    /// It is there, or nobody asks for one.
    Done,
}

impl DigestState {
    /// Of a file, where a digest is wanted.
    pub fn when(wanted: bool) -> Self {
        if wanted { Self::Awaited } else { Self::Done }
    }

    /// All frames are there: whether the engine is to be asked now.
    pub fn begin(&mut self) -> bool {
        let begins = *self == Self::Awaited;
        if begins {
            *self = Self::Begun;
        }
        begins
    }

    /// Whether nothing is waited for.
    pub fn is_done(self) -> bool {
        self == Self::Done
    }
}
