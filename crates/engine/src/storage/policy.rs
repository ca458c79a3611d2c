//! How the files of a job are read and written: what was asked for, else what was measured, as far as a file allows it.

use haul_proto::wire::storage::{CacheUse, DirectIo, StorageRequest};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use super::cache::{is_cached, large_file_bytes};
use super::choice::{Choices, DIRECT_FILE_MIN, TRIAL_FILE_MIN, Trial};
use super::file::Opened;
use super::{Method, depth};
use crate::worker::lock;

/// An end's rules, and what it has found out.
pub struct Policy {
    request: StorageRequest,
    large_bytes: u64,
    choices: Choices,
    /// Direct I/O was asked for, and some file does not have it.
    refused: AtomicBool,
}

/// How a range of a file goes.
pub struct Way {
    /// Through the page cache or past it.
    pub method: Method,
    /// Where what it costs is to be told.
    pub trial: Option<Arc<Mutex<Trial>>>,
    /// Whether its pages are to be dropped afterwards.
    pub drop: bool,
    /// Whether it was in the page cache already.
    pub cached: bool,
}

impl Policy {
    /// By what the controller asks for.
    pub fn new(request: StorageRequest) -> Self {
        Self { request, large_bytes: large_file_bytes(), choices: Choices::default(), refused: AtomicBool::new(false) }
    }

    /// How many frames of `frame_bytes` a stream has under way past the page cache.
    pub fn depth(&self, frame_bytes: usize) -> usize {
        match self.request.under_way {
            0 => depth(frame_bytes),
            frames => frames.into(),
        }
    }

    /// How a range of a file of `size` bytes is read. What is in the page cache already is read from there, and stays.
    pub fn reading(&self, file: &Opened, size: u64, offset: u64, len: u64) -> Way {
        let forced = self.is_forced();
        let cached = !forced && !file.in_memory() && is_cached(&**file.fd(), offset, len);
        let (method, trial) = if cached { (Method::Buffered, None) } else { self.method(file, size, len) };
        let drop = method == Method::Buffered && !cached && self.drops(file, size);
        Way { method, trial, drop, cached: cached || file.in_memory() }
    }

    /// How the next `len` bytes of a file of `size` bytes are written.
    pub fn writing(&self, file: &Opened, size: u64, len: u64) -> Way {
        let (method, trial) = self.method(file, size, len);
        Way { method, trial, drop: self.drops(file, size), cached: false }
    }

    /// The trial of the file system that a file is on.
    pub fn trial(&self, file: &Opened) -> Arc<Mutex<Trial>> {
        self.choices.of(file.device())
    }

    /// Whether that was asked for: `true` once, when the first file turns out not to have direct I/O.
    pub fn is_refusal_news(&self) -> bool {
        self.is_forced() && !self.refused.swap(true, Ordering::Relaxed)
    }

    /// Whether direct I/O was asked for: then bytes are to be moved, and not only their blocks named once more.
    pub fn is_forced(&self) -> bool {
        self.request.direct == DirectIo::Always
    }

    /// Whether direct I/O was forbidden.
    pub fn is_never_direct(&self) -> bool {
        self.request.direct == DirectIo::Never
    }

    fn drops(&self, file: &Opened, size: u64) -> bool {
        let wanted = match self.request.cache {
            CacheUse::Auto => size >= self.large_bytes,
            CacheUse::Keep => false,
            CacheUse::Drop => true,
        };
        wanted && !file.in_memory()
    }

    fn method(&self, file: &Opened, size: u64, len: u64) -> (Method, Option<Arc<Mutex<Trial>>>) {
        match self.request.direct {
            DirectIo::Never => (Method::Buffered, None),
            DirectIo::Always if file.direct().is_some() => (Method::Direct, None),
            DirectIo::Always => (Method::Buffered, None),
            DirectIo::Auto if file.in_memory() || size < DIRECT_FILE_MIN => (Method::Buffered, None),
            DirectIo::Auto => self.measured(file, size, len),
        }
    }

    fn measured(&self, file: &Opened, size: u64, len: u64) -> (Method, Option<Arc<Mutex<Trial>>>) {
        let shared = self.choices.of(file.device());
        let mut trial = lock(&shared);
        if size < TRIAL_FILE_MIN {
            let method = trial.settled().unwrap_or(Method::Buffered);
            return (if file.direct().is_some() { method } else { Method::Buffered }, None);
        }
        if trial.settled() != Some(Method::Buffered) && file.direct().is_none() {
            trial.refuse();
        }
        let (method, told) = trial.next(len);
        drop(trial);
        (method, told.then_some(shared))
    }
}
