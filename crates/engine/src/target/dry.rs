//! A dry run: everything is decided as it would be, and told, and nothing is made, changed or removed. Where a directory
//! would have been made, everything below it would have been, too.

use haul_proto::ids::{ByEntry, EntryId, EntrySet};
use haul_proto::manifest::{Entry, Kind, Place};
use haul_proto::need::{Decision, Existing};
use haul_proto::path::Name;
use haul_proto::session::target::{Answer, Parent};
use haul_proto::wire::report::What;
use haul_proto::wire::sync::Change;
use std::io;
use std::sync::{Arc, Mutex};

use super::examine::Position;
use super::links::ANOTHER;
use super::standing::Standing;
use super::{Item, Target};
use crate::fs::{Identity, describe};
use crate::worker::lock;

/// Files with several names that a dry run has come across: those that would stay, and which files they are.
#[derive(Default)]
pub struct DryLinks(Mutex<Table>);

#[derive(Default)]
struct Table {
    stay: ByEntry<Identity>,
    /// Those in whose places something else stays.
    another: EntrySet,
    /// Of the entry that was looked at last.
    latest: Option<Identity>,
}

impl Target {
    /// Answers what would come into a directory that is not there.
    pub(super) fn answer_below_nothing(&self, above: &[u8], name: &Name, entry: &Entry) -> Answer<Item> {
        if name.is_reserved() {
            return Answer::Refused;
        }
        let relative = if above.is_empty() { name.as_bytes().to_vec() } else { [above, name.as_bytes()].join(&b'/') };
        match (self.is_in_earlier(above, name, entry), &entry.kind) {
            (Ok(true), Kind::File { size }) => {
                self.tell_linked(|| relative.clone(), *size);
                Answer::Settled
            }
            (Ok(_), _) => self.would_make(relative, entry),
            (Err(error), _) => {
                self.fail(self.landing.path(&relative), describe(&error));
                Answer::Refused
            }
        }
    }

    /// Answers what would be made.
    pub(super) fn would_make(&self, relative: Vec<u8>, entry: &Entry) -> Answer<Item> {
        self.tell_item(|| relative.clone(), What::from(&entry.kind), Change::Made);
        would_be(entry, relative)
    }

    /// Answers what was decided, and told already.
    pub(super) fn answer_dry(
        &self,
        position: &Position,
        entry: &Entry,
        decision: Decision,
        there: &Standing,
    ) -> io::Result<Answer<Item>> {
        let relative = self.relative(position);
        let stays = decision == Decision::Keep;
        lock(&self.dry_links.0).latest = there.look.filter(|_| stays).map(|look| look.identity);
        match (&entry.kind, decision) {
            (Kind::Directory, Decision::Keep) => self.directory(position, entry, false),
            (Kind::File { size }, Decision::Keep) => {
                self.reporter.file_there(|| relative.clone(), *size, None);
                Ok(Answer::Settled)
            }
            (_, Decision::ReplaceTree) => {
                self.make_way(&position.dir, &position.name, Some(&entry.place))?;
                Ok(would_be(entry, relative))
            }
            _ => Ok(would_be(entry, relative)),
        }
    }

    /// An entry was answered: remembers a file, if more names of it may come, and whether another one stays in its place.
    pub(super) fn note_dry_file(&self, id: EntryId, entry: &Entry, is_another: bool) {
        let mut table = lock(&self.dry_links.0);
        let stays = table.latest.take();
        if let Some(identity) = stays.filter(|_| entry.further_names().is_some()) {
            table.stay.insert(id, identity);
        }
        if is_another {
            table.another.insert(id);
        }
    }

    /// Answers another name of a file.
    pub(super) fn answer_dry_link(&self, entry: &Entry) -> Answer<Item> {
        let parent = self.lock().machine.parent(&entry.place);
        let (Parent::Open(parent), Place::Child { name, .. }) = (parent, &entry.place) else { return Answer::Refused };
        match &*parent {
            Item::Nothing(above) => self.answer_below_nothing(above, name, entry),
            Item::Directory { .. } if name.is_reserved() => Answer::Refused,
            Item::Directory { dir, .. } => {
                let position = Position::in_directory(dir.clone(), name.clone());
                let decided = self.standing(dir, name, entry).and_then(|there| self.dry_link(&position, entry, there));
                decided.unwrap_or_else(|error| self.refuse(&position, describe(&error)))
            }
            _ => Answer::Refused,
        }
    }

    fn dry_link(&self, position: &Position, entry: &Entry, mut there: Standing) -> io::Result<Answer<Item>> {
        let Kind::HardLink { to, .. } = entry.kind else { return Ok(Answer::Refused) };
        let table = lock(&self.dry_links.0);
        let (first, is_another) = (table.stay.get(&to).copied(), table.another.contains(&to));
        drop(table);
        if is_another && !self.stays(entry, &there) {
            return Ok(self.refuse(position, ANOTHER));
        }
        if first.is_some() && there.look.map(|look| look.identity) == first {
            there = Standing { existing: Existing::SameFile, look: None };
        }
        match self.decide(position, entry, &there)? {
            Ok(decided) => {
                self.tell_decided(position, entry, &decided);
                if decided.decision == Decision::ReplaceTree {
                    self.make_way(&position.dir, &position.name, Some(&entry.place))?;
                }
                Ok(Answer::Settled)
            }
            Err(answer) => Ok(answer),
        }
    }
}

/// The answer to what would be made, or come in the place of something.
fn would_be(entry: &Entry, relative: Vec<u8>) -> Answer<Item> {
    match entry.kind {
        Kind::Directory => Answer::Needed(Arc::new(Item::Nothing(relative))),
        _ => Answer::Settled,
    }
}

#[cfg(test)]
#[path = "dry_tests.rs"]
mod tests;
