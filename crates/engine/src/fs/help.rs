//! What a walk has looked up beforehand: for the innermost directories that it is in, what they hold.
//!
//! Each of them has a group of errands. When the walk goes deeper, the outermost lose what was fetched for them, and
//! are asked for again on the way back: so what is held is bounded, and what the walk comes to next has room.

use std::collections::VecDeque;
use std::io;

use haul_proto::path::Name;

use super::ahead::{Ahead, GROUPS_MAX, GroupId};
use super::errand::{Enter, Errand, ReadOn, Slot, Ticket};
use super::listing::{Known, Piece};
use super::meta::Links;
use super::seen::Step;
use super::waits::Waits;
use super::walk::Level;

/// A walk's helpers, and what they were asked.
pub(super) struct Help<'a> {
    pub ahead: &'a Ahead,
    /// How long the walk's own lookups wait.
    pub waits: Waits,
    /// Levels, by number, that something was asked for; the innermost last.
    groups: VecDeque<(usize, GroupId)>,
}

impl<'a> Help<'a> {
    pub fn new(ahead: &'a Ahead) -> Self {
        Self { ahead, waits: Waits::new(), groups: VecDeque::new() }
    }

    /// What was fetched, if somebody has begun.
    pub fn collect<E: Errand>(&self, ticket: Option<Ticket<E>>) -> Option<io::Result<E::Fetched>> {
        let fetched = ticket?.collect();
        self.ahead.collected();
        fetched
    }

    /// Calls help where the walk's own lookups wait.
    pub fn judge(&mut self, levels: &mut [Level], piece: &mut Piece) {
        if self.ahead.judge(&mut self.waits) {
            self.look_ahead(levels, piece);
        }
    }

    /// The innermost level was left.
    pub fn left(&mut self, levels: &mut [Level]) {
        while self.groups.back().is_some_and(|&(number, _)| number >= levels.len()) {
            if let Some((_, group)) = self.groups.pop_back() {
                self.ahead.end_group(group);
            }
        }
        // What was asked for the one around it was forgotten, or it never was.
        if self.groups.back().is_none_or(|&(number, _)| number + 1 < levels.len()) {
            self.look_ahead(levels, &mut Piece::empty());
        }
    }

    /// Asks for all that the innermost level will come to, the farthest first.
    pub fn look_ahead(&mut self, levels: &mut [Level], piece: &mut Piece) {
        let Some(innermost) = levels.len().checked_sub(1).filter(|_| self.ahead.is_of_use()) else { return };
        let level = &mut levels[innermost];
        let options = self.ahead.options();
        let is_directory = |kind| options.recursive && matches!(Step::of(kind, options.symlinks), Step::Enter);
        let is_wanted = level.rest.is_some()
            || !level.waiting.is_empty()
            || piece.left().any(|(_, entry)| is_directory(entry.kind));
        if !is_wanted {
            return;
        }
        let group = self.group_of(innermost);
        let dir = &level.dir;
        if let Some(rest) = &level.rest {
            let errand = || ReadOn { dir: dir.clone(), rest: rest.clone() };
            self.ask(group, &mut level.rest_ahead, errand);
        }
        let enter = |name: Name| Enter { parent: dir.clone(), name };
        for waiting in level.waiting.iter_mut().filter(|waiting| waiting.links == Links::Itself) {
            self.ask(group, &mut waiting.ahead, || enter(waiting.name.clone()));
        }
        for (name, entry) in piece.left().filter(|(_, entry)| is_directory(entry.kind)) {
            let Ok(name) = Name::new(name) else { continue };
            if let Known::Nothing = entry.known {
                entry.known = Known::Asked(Slot::new(enter(name)));
            }
            if let Known::Asked(ticket) = &entry.known {
                self.ahead.ask(group, ticket);
            }
        }
        if self.groups.len() > GROUPS_MAX
            && let Some((number, group)) = self.groups.pop_front()
        {
            self.ahead.end_group(group);
            levels[number].forget();
        }
    }

    fn ask<E: Errand>(&self, group: GroupId, ticket: &mut Option<Ticket<E>>, errand: impl FnOnce() -> E) {
        self.ahead.ask(group, ticket.get_or_insert_with(|| Slot::new(errand())));
    }

    fn group_of(&mut self, number: usize) -> GroupId {
        match self.groups.back() {
            Some(&(innermost, group)) if innermost == number => group,
            _ => {
                let group = self.ahead.new_group();
                self.groups.push_back((number, group));
                group
            }
        }
    }
}

impl Drop for Help<'_> {
    /// Another walk may use the helpers.
    fn drop(&mut self) {
        for (_, group) in self.groups.drain(..) {
            self.ahead.end_group(group);
        }
    }
}

impl Level {
    /// Throws away what was fetched.
    fn forget(&mut self) {
        self.rest_ahead = None;
        self.waiting.iter_mut().for_each(|waiting| waiting.ahead = None);
    }
}
