//! Looks at what stands at each offered entry's place, and answers: needed, there already, refused.
//! Directories and links are made at once.

use haul_proto::ids::EntryId;
use haul_proto::integrity::Digest;
use haul_proto::journal::Header;
use haul_proto::manifest::{Entry, Kind, Meta, Place};
use haul_proto::need::{Decision, Existing, InTheWay, Refusal, decide};
use haul_proto::path::Name;
use haul_proto::plan::Piece;
use haul_proto::session::target::{Answer, Parent};
use haul_proto::wire::listed::{ListedKinds, Place as OperandPlace};
use haul_proto::wire::report::What;
use haul_proto::wire::sync::{Change, Reasons};
use rustix::fs::{AtFlags, Mode, RenameFlags, mkdirat, renameat_with, symlinkat, unlinkat};
use rustix::io::Errno;
use std::io;
use std::sync::Arc;

use super::file::{Incoming, Spot, UNKNOWN_SIZE};
use super::landing::{LandingKind, cannot_remember};
use super::memory::Memory;
use super::proof::Claim;
use super::several::OtherName;
use super::sink::Sink;
use super::spelling::OTHER_SPELLING;
use super::standing::{Standing, attributes};
use super::temporary::{rename_new, temporary_name};
use super::{Item, Target};
use crate::fs::meta::{SETGID, SETUID, apply, apply_to_symlink};
use crate::fs::{Dir, Keep, Links, Look, describe};
use crate::report::add;
use crate::source::CHANGED;

/// Where an entry is to stand.
pub(super) struct Position {
    /// The directory.
    pub dir: Dir,
    /// The name in it.
    pub name: Name,
    /// Nothing can be there: the directory was made in this run.
    fresh: bool,
    /// It is the one operand, under the name that the target was given.
    renamed: bool,
    /// A directory there is one source's alone.
    alone: bool,
}

impl Position {
    /// A name in a directory that was there.
    pub fn in_directory(dir: Dir, name: Name) -> Self {
        Self { dir, name, fresh: false, renamed: false, alone: false }
    }
}

impl Target {
    /// Answers a whole Offer.
    pub(super) fn examine(&self, first: EntryId, entries: &[Entry]) {
        let (mut claims, mut pieces, mut deltas, mut links) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for (id, entry) in (first.0..).map(EntryId).zip(entries) {
            self.note_name(entry);
            let answer = match &entry.kind {
                _ if self.removes_only() => self.answer_only_removal(entry),
                Kind::HardLink { .. } if self.is_dry() => self.answer_dry_link(entry),
                Kind::HardLink { .. } => {
                    let (answer, other) = self.answer_link(id, entry);
                    links.extend(other);
                    answer
                }
                _ if self.is_dry() => {
                    let answer = self.answer(entry);
                    self.note_dry_file(id, entry);
                    answer
                }
                _ => {
                    self.expect_links(id, entry);
                    self.answer(entry)
                }
            };
            let (is_there, is_refused) = (matches!(answer, Answer::Settled), matches!(answer, Answer::Refused));
            match (&answer, &entry.kind) {
                (Answer::Partial(item), _) => claims.push(Claim::Part(id, Arc::clone(item))),
                (Answer::Delta(item), Kind::File { size }) => {
                    deltas.push((id, Arc::clone(item), 0..self.request.settings.frame.frames(*size)));
                }
                (Answer::Compare(item), Kind::File { size }) => {
                    let frames = 0..self.request.settings.frame.frames(*size);
                    pieces.push(Piece { entry: id, handle: Arc::clone(item), size: *size, frames, ticket: 0 });
                }
                (Answer::Needed(_), Kind::Directory) => self.filtered.enter(id, entry),
                _ => {}
            }
            let next = self.lock().machine.answer(id, answer);
            self.finish(next);
            if is_there || is_refused {
                self.settle_links(id, is_there);
            }
        }
        links.into_iter().for_each(|other| self.link(other));
        // What is there of a file can be told once all answers were.
        self.claims.add(claims);
        self.rereads.add(pieces);
        deltas.into_iter().for_each(|(id, item, frames)| self.sign(id, &item, std::iter::once(frames).collect()));
    }

    fn answer(&self, entry: &Entry) -> Answer<Item> {
        let parent = self.lock().machine.parent(&entry.place);
        if self.compares() {
            return self.answer_compared(parent, entry);
        }
        match (parent, &entry.place) {
            (Parent::Refused, _) => Answer::Refused,
            (Parent::Operand(number), _) => self.answer_operand(number, entry),
            (Parent::Open(parent), Place::Child { name, .. }) => match &*parent {
                Item::Directory { dir, fresh, names, .. } => {
                    let (fresh, alone) = (*fresh, names.is_some());
                    let (dir, name) = (dir.clone(), name.clone());
                    self.answer_at(Position { dir, name, fresh, renamed: false, alone }, entry)
                }
                Item::Nothing(above) => self.answer_below_nothing(above, name, entry),
                Item::File(_) | Item::HardLink | Item::Compared(_) => Answer::Refused,
            },
            (Parent::Again(item), Place::Again(_)) => self.answer_again(&item, entry),
            (Parent::Open(_) | Parent::Again(_), _) => Answer::Refused,
        }
    }

    /// Where the operand of this number goes, if that is what is offered: the controller says so, and nobody else.
    pub(super) fn operand_asked_for(&self, number: u32, entry: &Entry) -> Option<OperandPlace> {
        let is_directory = entry.kind == Kind::Directory;
        let fixed = || {
            let operand = self.request.operands.get(number as usize)?;
            let below = self.request.rules.below.get(number as usize).cloned().unwrap_or_default();
            (is_directory == operand.directory).then(|| OperandPlace { below, name: operand.name.clone() })
        };
        match (&entry.kind, self.request.listed) {
            (Kind::Symlink { .. } | Kind::HardLink { .. } | Kind::Node(_), _) => None,
            (_, ListedKinds::No) => fixed(),
            (Kind::Directory, ListedKinds::Files) | (Kind::Stream, _) => None,
            (_, ListedKinds::Files | ListedKinds::Trees) => self.listed.take(number),
        }
    }

    fn answer_operand(&self, number: u32, entry: &Entry) -> Answer<Item> {
        let Some(operand) = self.operand_asked_for(number, entry) else {
            return self.refuse_operand(Refusal::NotAsked);
        };
        let is_directory = entry.kind == Kind::Directory;
        let alone = self.is_one_sources(operand.name.as_ref());
        let directory = |dir: Dir| {
            let attributes = attributes(entry).map(Into::into);
            let names = self.names_for(&dir, alone);
            Answer::Needed(Arc::new(Item::Directory { dir, fresh: false, names, meta: entry.meta, attributes }))
        };
        let answer = match &self.landing.kind {
            LandingKind::Contents(dir) if is_directory => directory(dir.clone()),
            LandingKind::Into(dir) => match (self.directory_below(dir, &operand.below), &operand.name) {
                (Ok(dir), Some(name)) => {
                    self.answer_at(Position { alone, ..Position::in_directory(dir, name.clone()) }, entry)
                }
                (Ok(dir), None) if is_directory => directory(dir),
                (Ok(_), None) => self.refuse_operand(Refusal::IsDirectory),
                (Err(error), _) => {
                    let path: Vec<_> = operand.below.iter().map(Name::as_bytes).collect();
                    self.fail(self.landing.path(&path.join(&b'/')), describe(&error));
                    Answer::Refused
                }
            },
            LandingKind::As(dir, name) => {
                let position = Position::in_directory(dir.clone(), name.clone());
                self.answer_at(Position { renamed: true, alone, ..position }, entry)
            }
            LandingKind::Special(path) => self.answer_special(path, entry),
            LandingKind::Pipe(pipe) => self.answer_pipe(pipe, entry),
            LandingKind::Contents(_) => self.refuse_operand(Refusal::IsDirectory),
            LandingKind::Nothing => {
                let names: Vec<_> = operand.below.iter().chain(&operand.name).map(Name::as_bytes).collect();
                match names.is_empty() {
                    // It was told as what lands.
                    true => Answer::Needed(Arc::new(Item::Nothing(Vec::new()))),
                    false => self.would_make(names.join(&b'/'), entry),
                }
            }
        };
        self.unless_another_run_has_it(answer, operand.name.as_ref())
    }

    /// Two runs do not copy into one directory as the same operand's.
    pub(super) fn unless_another_run_has_it(&self, answer: Answer<Item>, name: Option<&Name>) -> Answer<Item> {
        let Answer::Needed(item) = &answer else { return answer };
        let Item::Directory { dir, .. } = &**item else { return answer };
        match self.rivals.enter(dir) {
            Ok(()) => answer,
            Err(text) => {
                let own_name = matches!(self.landing.kind, LandingKind::Into(_)).then_some(name);
                let relative = own_name.flatten().map_or(&b""[..], |name| name.as_bytes());
                self.fail(self.landing.path(relative), text);
                Answer::Refused
            }
        }
    }

    /// A file that changed while it was being read is offered anew: what came of it goes.
    fn answer_again(&self, item: &Item, entry: &Entry) -> Answer<Item> {
        let Item::File(incoming) = item else { return Answer::Refused };
        incoming.void();
        incoming.discard(&self.unfinished);
        match incoming.spot() {
            Some(spot) => {
                let (dir, name) = (spot.dir.clone(), spot.name.clone());
                self.answer_at(Position::in_directory(dir, name), entry)
            }
            None => {
                self.fail(incoming.path(&self.landing), CHANGED);
                Answer::Refused
            }
        }
    }

    pub(super) fn refuse_operand(&self, refusal: Refusal) -> Answer<Item> {
        self.fail(self.landing.path(b""), refusal.text());
        Answer::Refused
    }

    /// A device, FIFO or socket: opened when the first frame comes, written, never renamed over.
    fn answer_special(&self, path: &std::path::Path, entry: &Entry) -> Answer<Item> {
        let Some(size) = size_of(&entry.kind) else { return self.refuse_operand(Refusal::IsSpecial) };
        // What it holds cannot always be read again, so that a digest takes it in order.
        match Incoming::special(path, size, self.is_asked_for_sums()) {
            Ok((incoming, seekable)) => {
                let item = Arc::new(Item::File(incoming));
                if seekable { Answer::Needed(item) } else { Answer::NeededInOrder(item) }
            }
            Err(error) => {
                self.fail(self.landing.path(b""), describe(&error));
                Answer::Refused
            }
        }
    }

    /// What is open already and takes bytes in order.
    fn answer_pipe(&self, sink: &Arc<Sink>, entry: &Entry) -> Answer<Item> {
        match size_of(&entry.kind) {
            Some(size) => Answer::NeededInOrder(Arc::new(Item::File(Incoming::pipe(Arc::clone(sink), size)))),
            None => self.refuse_operand(Refusal::NotAsked),
        }
    }

    fn answer_at(&self, position: Position, entry: &Entry) -> Answer<Item> {
        match self.try_answer(&position, entry) {
            Ok(answer) => answer,
            Err(error) => self.refuse(&position, describe(&error)),
        }
    }

    fn try_answer(&self, position: &Position, entry: &Entry) -> io::Result<Answer<Item>> {
        if position.name.is_reserved() {
            return Ok(self.refuse(position, Refusal::Reserved.text()));
        }
        let there = if position.fresh { Standing::NOTHING } else { Standing::at(&position.dir, &position.name)? };
        if there.existing != Existing::Absent && self.is_spelled_otherwise(&position.dir, &position.name) {
            return Ok(self.refuse(position, OTHER_SPELLING));
        }
        let decision = match self.decide_and_tell(position, entry, &there)? {
            Ok(decision) => decision,
            Err(answer) => return Ok(answer),
        };
        if self.is_dry() {
            return self.answer_dry(position, entry, decision, &there);
        }
        let decision = self.clear(position, entry, decision)?;
        match &entry.kind {
            Kind::Directory => self.directory(position, entry, decision == Decision::Create),
            Kind::Symlink { points_to } => {
                if decision == Decision::Replace {
                    self.back_up(&position.dir, &position.name)?;
                }
                if decision != Decision::Keep {
                    make_link(&position.dir, &position.name, points_to, decision == Decision::Replace)?;
                }
                let keep = Keep { owner: self.request.preserve, mode: None, times: true };
                match apply_to_symlink(&*position.dir.fd()?, &position.name, &entry.meta, keep) {
                    // Somebody else's link, or a file system whose links have no times: the link itself is there.
                    Err(error) if !is_not_ours(&error) => return Err(error),
                    _ => {}
                }
                add(&self.reporter.tally.symlinks, 1);
                Ok(Answer::Settled)
            }
            Kind::File { size } => self.file(position, entry, *size, decision, &there),
            Kind::Stream => Ok(self.stream(position, entry.meta, decision)),
            Kind::Node(node) => self.node(position, *node, &entry.meta, decision),
            Kind::HardLink { .. } => Ok(self.refuse(position, Refusal::NotAsked.text())),
        }
    }

    /// What becomes of an entry, told where that is asked for; or what it is answered, where nothing becomes of it.
    pub(super) fn decide_and_tell(
        &self,
        position: &Position,
        entry: &Entry,
        there: &Standing,
    ) -> io::Result<Result<Decision, Answer<Item>>> {
        let (dir, name) = (&position.dir, &position.name);
        let decision = match decide(&entry.kind, entry.meta.modified, &there.existing, self.conduct()) {
            Decision::Compare if self.has_digest(dir, name, entry)? => Decision::Keep,
            Decision::Compare => Decision::Replace,
            decision => decision,
        };
        let what = What::from(&entry.kind);
        let (decision, reasons) = self.decide_of_standing(position, entry, there, decision);
        match decision {
            Decision::Refuse(refusal) => return Ok(Err(self.refuse(position, refusal.text()))),
            Decision::Omit => return self.omit(position, entry).map(Err),
            // Whatever would be in it, or be another name of it, is not there either.
            Decision::Pass => return Ok(Err(Answer::Refused)),
            Decision::Create if self.link_from_earlier(position, entry)? => {
                self.tell_linked(|| self.relative(position), size_of(&entry.kind).unwrap_or(0));
                return Ok(Err(Answer::Settled));
            }
            Decision::Create => self.tell_item(|| self.relative(position), what, Change::Made),
            Decision::Replace | Decision::ReplaceTree => {
                self.tell_item(|| self.relative(position), what, Change::Replaced(reasons));
            }
            Decision::Keep | Decision::Compare => self.tell_adjusted(|| self.relative(position), what, reasons),
        }
        Ok(Ok(decision))
    }

    /// What becomes of what is there, and why. What would stay is replaced in a sync where it cannot be what the source
    /// has by its metadata alone.
    fn decide_of_standing(
        &self,
        position: &Position,
        entry: &Entry,
        there: &Standing,
        decision: Decision,
    ) -> (Decision, Reasons) {
        if decision != Decision::Keep {
            return (decision, there.reasons(entry));
        }
        let Some(mut look) = there.look else { return (decision, Reasons::default()) };
        let follows = self.request.rules.in_the_way == InTheWay::Follow;
        match self.other_name_of(entry, &look) {
            OtherName::Stays if follows => return (Decision::Replace, Reasons::LINK),
            OtherName::Has(meta) => look.meta = meta,
            OtherName::Stays | OtherName::None => {}
        }
        if !follows && !self.request.sync.tells_items {
            return (decision, Reasons::default());
        }
        let reasons = self.metadata_reasons(&position.dir, &position.name, entry, &look);
        let gives_rights = || {
            let has_capability = self.keeps_attributes() && has_capability(entry);
            self.request.preserve
                && matches!(entry.kind, Kind::File { .. })
                && (!may_have_rights(&entry.meta, &look) || has_capability && !is_trusted(&entry.meta, &look))
        };
        // Somebody else may have it open, and write to it later.
        let is_replaced = follows && !reasons.is_empty() && gives_rights();
        (if is_replaced { Decision::Replace } else { decision }, reasons)
    }

    /// Makes way for what takes the place of a directory, or for a directory that takes the place of something.
    fn clear(&self, position: &Position, entry: &Entry, decision: Decision) -> io::Result<Decision> {
        match (decision, &entry.kind) {
            (Decision::ReplaceTree, _) | (Decision::Replace, Kind::Directory) => {
                self.make_way(&position.dir, &position.name)?;
                Ok(Decision::Create)
            }
            _ => Ok(decision),
        }
    }

    /// Whether a file that is there has the contents of the source's, as that has told them.
    pub(super) fn has_digest(&self, dir: &Dir, name: &Name, entry: &Entry) -> io::Result<bool> {
        let told = entry.more.as_ref().and_then(|more| more.digest);
        told.map_or(Ok(false), |told| Ok(digest_of(dir, name)? == told))
    }

    /// A position as it is shown, from the landing down.
    pub(super) fn relative(&self, position: &Position) -> Vec<u8> {
        // A tree that gets the target's own name is what everything is shown below.
        let is_label = position.renamed && self.landing.memory.is_some();
        if is_label { Vec::new() } else { position.dir.path_of(position.name.as_bytes()) }
    }

    /// Something is there, and stays as it is.
    fn omit(&self, position: &Position, entry: &Entry) -> io::Result<Answer<Item>> {
        match entry.kind {
            Kind::File { size } => self.file_stays(position, size)?,
            Kind::HardLink { .. } => {}
            _ => add(&self.reporter.tally.symlinks, 1),
        }
        Ok(Answer::Settled)
    }

    fn file_stays(&self, position: &Position, size: u64) -> io::Result<()> {
        let path = || position.dir.path_of(position.name.as_bytes());
        let digest = match self.sum_existing(path, || Ok(position.dir.open_file(&position.name, Links::Itself)?.0))? {
            None if self.request.digest_existing => Some(digest_of(&position.dir, &position.name)?),
            digest => digest,
        };
        self.reporter.file_there(path, size, digest);
        Ok(())
    }

    fn file(
        &self,
        position: &Position,
        entry: &Entry,
        size: u64,
        decision: Decision,
        there: &Standing,
    ) -> io::Result<Answer<Item>> {
        let meta = entry.meta;
        let spot =
            Spot { dir: position.dir.clone(), name: position.name.clone(), replaces: decision == Decision::Replace };
        if decision == Decision::Keep {
            if let Some(look) = &there.look {
                self.refresh(position, entry, look)?;
            }
            self.file_stays(position, size)?;
            return Ok(Answer::Settled);
        }
        if spot.replaces && self.recover(&spot)? {
            return self.try_answer(position, entry);
        }
        if let Err(text) = self.quota.take(size) {
            return Ok(self.refuse(position, text));
        }
        let basis = match self.find_basis(&spot, size)? {
            None => self.find_moved(&spot, size, meta.modified),
            basis => basis,
        };
        let answer = if basis.is_some() { Answer::Delta } else { Answer::Needed };
        let data_bytes = entry.more.as_ref().and_then(|more| more.data_bytes);
        let item = |incoming: Incoming, basis| Arc::new(Item::File(incoming.with(entry.more.clone()).of(basis)));
        if basis.as_ref().is_some_and(|basis| basis.in_place.is_some()) {
            return Ok(answer(item(Incoming::new(spot, size, meta), basis)));
        }
        let Some((leaf, version)) = self.journals.place(&spot, size).zip(entry.version) else {
            if let Some(text) = self.too_large(&spot.dir, size, data_bytes)? {
                return Ok(self.refuse(position, text));
            }
            return Ok(answer(item(Incoming::new(spot, size, meta), basis)));
        };
        let frame = self.request.settings.frame;
        let header = Header { name: spot.name.clone(), size, modified: meta.modified, version, frame };
        match self.find_part(&spot, &leaf, &header) {
            Ok(Some(part)) => {
                let incoming = Incoming::resumed(spot, meta, leaf, header, part);
                Ok(Answer::Partial(item(incoming, basis)))
            }
            // Another run had a part of it, and has just given it its name.
            Ok(None) if decision == Decision::Create && self.is_there_by_now(position)? => {
                self.try_answer(position, entry)
            }
            Ok(None) => {
                if let Some(text) = self.too_large(&spot.dir, size, data_bytes)? {
                    return Ok(self.refuse(position, text));
                }
                Ok(answer(item(Incoming::recorded(spot, meta, leaf, header), basis)))
            }
            Err(text) => Ok(self.refuse(position, text)),
        }
    }

    /// It has no size yet, and cannot be gone on with: nothing is recorded of it.
    fn stream(&self, position: &Position, meta: Meta, decision: Decision) -> Answer<Item> {
        let (dir, name) = (position.dir.clone(), position.name.clone());
        let spot = Spot { dir, name, replaces: decision == Decision::Replace };
        Answer::Needed(Arc::new(Item::File(Incoming::new(spot, UNKNOWN_SIZE, meta))))
    }

    fn is_there_by_now(&self, position: &Position) -> io::Result<bool> {
        Ok(!position.fresh && Standing::at(&position.dir, &position.name)?.existing != Existing::Absent)
    }

    /// With `-p`, a file that is there already gets owner and mode all the same, and attributes where these are kept.
    fn refresh(&self, position: &Position, entry: &Entry, there: &Look) -> io::Result<()> {
        let meta = &entry.meta;
        if self.keeps_attributes() {
            let (file, look) = position.dir.open_file(&position.name, Links::Itself)?;
            if has_capability(entry) && !is_trusted(meta, &look) {
                return Err(io::Error::other(OTHERS_RIGHTS));
            }
            self.put_attributes(&file, attributes(entry), || position.dir.path_of(position.name.as_bytes()));
        }
        let preserve = self.request.preserve;
        let owned = |meta: &Meta| (meta.mode, meta.uid, meta.gid);
        let has_other_owner = preserve && owned(&there.meta) != owned(meta);
        // What is the same by its size or its digest alone gets its time, too.
        if has_other_owner || there.meta.modified != meta.modified {
            let (file, look) = position.dir.open_file(&position.name, Links::Itself)?;
            if preserve && !may_have_rights(meta, &look) {
                return Err(io::Error::other(OTHERS_RIGHTS));
            }
            let mode = preserve.then_some(meta.mode);
            let _ = apply(&file, meta, Keep { owner: preserve, mode, times: true })?;
        }
        Ok(())
    }

    /// Says so at once when a large file cannot fit, instead of after hours.
    fn too_large(&self, dir: &Dir, size: u64, data_bytes: Option<u64>) -> io::Result<Option<String>> {
        if size <= self.request.settings.frame.pack_file_max() || !self.request.rules.check_space {
            return Ok(None);
        }
        let space = rustix::fs::fstatvfs(&*dir.fd()?)?;
        let free = space.f_bavail.saturating_mul(space.f_frsize);
        // One that has no blocks at all (ramfs) does not tell.
        let needed = data_bytes.map_or(size, |data_bytes| data_bytes.min(size));
        Ok((space.f_blocks > 0 && needed > free).then(|| {
            format!("no space: the file has {needed} bytes, and {free} are free there\nfree space there, or copy to another file system")
        }))
    }

    pub(super) fn directory(&self, position: &Position, entry: &Entry, create: bool) -> io::Result<Answer<Item>> {
        let meta = entry.meta;
        let fresh = create && self.create_directory(position, meta)?;
        if create && !fresh && self.is_spelled_otherwise(&position.dir, &position.name) {
            return Ok(self.refuse(position, OTHER_SPELLING));
        }
        let child = position.dir.child(&position.name)?;
        let dir = if position.renamed {
            // The tree's own root from here on: what is shown begins below it.
            Dir::from_fd(rustix::io::fcntl_dupfd_cloexec(&*child.fd()?, 0)?)?
        } else {
            child
        };
        let attributes = attributes(entry).map(Into::into);
        let names = self.names_for(&dir, position.alone && !fresh);
        Ok(Answer::Needed(Arc::new(Item::Directory { dir, fresh, names, meta, attributes })))
    }

    /// `false` where another run was faster: whose the directory is shows when it is entered.
    fn create_directory(&self, position: &Position, meta: Meta) -> io::Result<bool> {
        // Ours alone until it is complete, and always writable for us.
        let mode = if self.request.preserve { 0o700 } else { u32::from(meta.mode & 0o777) | 0o700 };
        let memory = self.landing.memory.as_ref().filter(|_| position.renamed);
        let made = match memory {
            None => make_directory(&position.dir, &position.name, mode),
            Some(memory) => self.make_remembered(position, memory, mode),
        };
        match made.as_ref().map_err(Errno::from_io_error) {
            Err(Some(Errno::EXIST | Errno::NOENT)) => {
                let faster = position.dir.child(&position.name)?;
                memory.into_iter().for_each(|memory| self.remember(memory, &faster));
                Ok(false)
            }
            _ => made.map(|()| true),
        }
    }

    /// It is remembered before it has its name: or a run that is killed in between would leave a directory that the
    /// next one takes for somebody else's, and copies into instead of going on in it.
    fn make_remembered(&self, position: &Position, memory: &Memory, mode: u32) -> io::Result<()> {
        let temporary = temporary_name(&position.name, b"directory");
        match make_directory(&position.dir, &temporary, mode) {
            // A run that was killed here has left it, or another one is about to give it its name.
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let (made, look) = position.dir.child_looked_at(&temporary, Links::Itself)?;
        if look.meta.uid != rustix::process::geteuid().as_raw() {
            return Err(io::Error::other(format!("{temporary} is in the way, and was not made by haul\nremove it")));
        }
        self.remember(memory, &made);
        let parent = position.dir.fd()?;
        let renamed = rename_new(&parent, &temporary, &position.name);
        if renamed.is_err() {
            let _ = unlinkat(&*parent, temporary.as_bytes(), AtFlags::REMOVEDIR);
        }
        Ok(renamed?)
    }

    fn remember(&self, memory: &Memory, dir: &Dir) {
        if memory.keep(dir.identity()).is_err() {
            self.reporter.send(&cannot_remember(&self.landing));
        }
    }

    pub(super) fn refuse(&self, position: &Position, text: impl Into<String>) -> Answer<Item> {
        self.fail(self.landing.path(&self.relative(position)), text);
        Answer::Refused
    }
}

/// The size of what is no directory and no link.
fn size_of(kind: &Kind) -> Option<u64> {
    match kind {
        Kind::File { size } => Some(*size),
        Kind::Stream => Some(UNKNOWN_SIZE),
        Kind::Directory | Kind::Symlink { .. } | Kind::HardLink { .. } | Kind::Node(_) => None,
    }
}

/// Said of a file that somebody else put there.
const OTHERS_RIGHTS: &str = "it is there already, belongs to another user, and would be set-user-id or have capabilities\nremove it, and run the same command again";

/// Whether a file that is there may get the source's mode. Its size and time are the source's, but anybody can set
/// those: set-id bits would run what its owner wrote, as somebody else.
fn may_have_rights(meta: &Meta, there: &Look) -> bool {
    is_trusted(meta, there) || meta.mode & (SETUID | SETGID) == 0
}

fn is_trusted(meta: &Meta, there: &Look) -> bool {
    [meta.uid, rustix::process::geteuid().as_raw()].contains(&there.meta.uid)
}

/// Whether a file is to have a capability, which is what a set-id bit is.
fn has_capability(entry: &Entry) -> bool {
    attributes(entry).is_some_and(|attributes| attributes.iter().any(|other| *other.name == *b"security.capability"))
}

/// BLAKE3 of a file that is there already.
fn digest_of(dir: &Dir, name: &Name) -> io::Result<Digest> {
    let (file, _) = dir.open_file(name, Links::Itself)?;
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(std::fs::File::from(file))?;
    Ok(*hasher.finalize().as_bytes())
}

/// What may not be changed because it belongs to somebody else, or cannot be because there is no such thing here.
pub(super) fn is_not_ours(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(Errno::PERM | Errno::ACCESS | Errno::ROFS | Errno::OPNOTSUPP | Errno::NOSYS)
    )
}

/// Makes a directory where nothing is.
pub(super) fn make_directory(dir: &Dir, name: &Name, mode: u32) -> io::Result<()> {
    Ok(mkdirat(&*dir.fd()?, name.as_bytes(), Mode::from_raw_mode(mode))?)
}

/// Makes a link; one that replaces something is made beside it and renamed over it.
pub(super) fn make_link(dir: &Dir, name: &Name, points_to: &[u8], replace: bool) -> io::Result<()> {
    let dir = dir.fd()?;
    if !replace {
        return Ok(symlinkat(points_to, &*dir, name.as_bytes())?);
    }
    let temporary = temporary_name(name, b"link");
    match unlinkat(&*dir, temporary.as_bytes(), AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(error) => return Err(error.into()),
    }
    symlinkat(points_to, &*dir, temporary.as_bytes())?;
    Ok(renameat_with(&*dir, temporary.as_bytes(), &*dir, name.as_bytes(), RenameFlags::empty())?)
}
