//! Extended attributes and access control lists of what is made, where they are to be kept. What cannot be put is no
//! reason not to copy: it is told once, and counted.

use haul_proto::more::Attribute;
use haul_proto::path::escape;
use haul_proto::wire::report::WorkerMessage;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};

use super::Target;
use crate::fs::attributes::{Refused, is_wanted, put};
use crate::fs::describe;

/// Files and directories that do not have all of them.
#[derive(Default)]
pub struct Without(AtomicU64);

impl Target {
    /// Whether any are asked for.
    pub(super) fn keeps_attributes(&self) -> bool {
        is_wanted(self.request.kept)
    }

    /// Puts those of the source on what is open.
    pub(super) fn put_attributes(
        &self,
        file: impl AsFd,
        attributes: Option<&[Attribute]>,
        path: impl FnOnce() -> Vec<u8>,
    ) {
        let Some(attributes) = attributes.filter(|_| self.keeps_attributes()) else { return };
        let Some(Refused { name, error }) = put(file, attributes, self.request.kept) else { return };
        if self.without.0.fetch_add(1, Ordering::Relaxed) == 0 {
            let (path, name, why) = (escape(&self.landing.path(&path())), escape(&name), describe(&error));
            let why = why.lines().next().unwrap_or_default();
            let text = format!("{path}: its extended attribute {name} is not kept here: {why}");
            self.reporter.send(&WorkerMessage::Notice { text });
        }
    }

    /// Says how many do not have all of theirs, where the first one was not the only one.
    pub(super) fn tell_without_attributes(&self) {
        let without = self.without.0.load(Ordering::Relaxed);
        if without > 1 {
            let text = format!("{without} files and directories do not have all of their extended attributes here");
            self.reporter.send(&WorkerMessage::Notice { text });
        }
    }
}
