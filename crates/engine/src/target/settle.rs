//! From whole files to settled entries. Files that have to be on the disk first go there in groups: contents and
//! metadata, then they get their names, then the names are put on the disk, then the machine is told of all at once, while
//! the next group gathers. Files for which nothing is waited for get their names at once, by the same steps.
//!
//! The thread that carries groups waits for the disk and for writing to the link, and for nobody else.

use haul_proto::ids::EntryId;
use haul_proto::integrity::Digest;
use haul_proto::manifest::Stamp;
use haul_proto::path::escape;
use haul_proto::wire::report::WorkerMessage;
use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use super::durable::FileSystem;
use super::landing::LandingKind;
use super::queue::Pending;
use super::whole::{Fate, Whole};
use super::{Item, Target};
use crate::fs::{Dir, Identity, describe};
use crate::report::add;

/// What became of some entries, for the machine to be told at once.
#[derive(Default)]
pub struct Ends {
    settled: Vec<(EntryId, bool)>,
    lost: Vec<(Whole, String)>,
}

impl Target {
    /// Carries groups to the disk until the job is over.
    pub fn settle_groups(&self) {
        while let Some(group) = self.settling.next() {
            self.carry(group);
        }
    }

    /// A directory has its metadata, and all in it its names. Both have to be on the disk at the job's end; so has the
    /// name of one that was made.
    pub(super) fn settle_directory(&self, dir: &Dir, made: bool) -> io::Result<()> {
        if !self.settling.is_full() || self.settling.disk_of(Some(dir))?.is_none() {
            return Ok(());
        }
        let landing = match &self.landing.kind {
            LandingKind::As(parent, _) => Some(parent),
            _ => None,
        };
        let parent = dir.parent().or(landing).filter(|_| made);
        self.settling.add_directories([Some(dir), parent].into_iter().flatten());
        Ok(())
    }

    /// A large file is whole.
    pub(super) fn finish_file(&self, entry: EntryId, item: Arc<Item>, modified: Stamp, digest: Digest) {
        let mut ends = Ends::default();
        match self.complete(entry, &item, modified, digest) {
            Ok(whole) if whole.disk.is_some() => return self.settling.add(vec![whole]),
            Ok(whole) => self.name_at_once(whole, &mut ends),
            Err(text) => self.give_up(entry, &item, text, &mut ends),
        }
        self.settle_ends(ends);
    }

    fn complete(&self, entry: EntryId, item: &Arc<Item>, modified: Stamp, digest: Digest) -> Result<Whole, String> {
        let Item::File(incoming) = &**item else { return Err("it is a directory".into()) };
        let disk = self.settling.disk_of(incoming.dir()).map_err(|error| describe(&error))?;
        let bytes = incoming.complete(self, disk.as_deref(), modified)?;
        let (item, size) = (Arc::clone(item), incoming.size());
        Ok(Whole { entry, item, size, digest, bytes, disk, packed: false })
    }

    /// Gives a file for which nothing is waited for its name.
    pub(super) fn name_at_once(&self, whole: Whole, ends: &mut Ends) {
        let fate = whole.give_name(self);
        self.conclude(whole, fate, ends);
    }

    fn carry(&self, group: Vec<Pending>) {
        let (mut files, mut directories) = (Vec::new(), HashMap::new());
        for pending in group {
            match pending {
                Pending::File(whole) => files.push(whole),
                Pending::Directory(dir) => drop(directories.insert(dir.identity(), (dir, true))),
            }
        }
        let mut fates = self.name_durably(files);
        if self.settling.is_full() {
            for (whole, fate) in &fates {
                if let (Fate::Named, Some(dir)) = (fate, whole.dir()) {
                    directories.entry(dir.identity()).or_insert_with(|| (dir.clone(), false));
                }
            }
            let failed = self.sync_directories(directories);
            for (whole, fate) in &mut fates {
                let text = whole.dir().and_then(|dir| failed.get(&dir.identity()));
                if let (Fate::Named, Some(text)) = (&fate, text) {
                    *fate = Fate::Failed(text.clone());
                }
            }
        }
        let mut ends = Ends::default();
        for (whole, fate) in fates {
            let durable = matches!(fate, Fate::Named) && whole.disk.as_ref().is_some_and(|disk| disk.is_sure());
            add(&self.reporter.tally.files_durable, u64::from(durable && self.settling.is_full()));
            self.conclude(whole, fate, &mut ends);
        }
        self.settle_ends(ends);
    }

    /// Gives those files their names whose contents are on the disk.
    fn name_durably(&self, files: Vec<Whole>) -> Vec<(Whole, Fate)> {
        let mut by_disk: HashMap<_, (Arc<FileSystem>, Vec<Whole>)> = HashMap::new();
        for whole in files {
            if let Some(disk) = &whole.disk {
                by_disk.entry(Arc::as_ptr(disk)).or_insert_with(|| (Arc::clone(disk), Vec::new())).1.push(whole);
            }
        }
        let mut fates = Vec::new();
        for (disk, files) in by_disk.into_values() {
            let results = disk.sync_files(&files.iter().map(Whole::fd).collect::<Vec<_>>());
            if self.settling.is_stopped() {
                return Vec::new();
            }
            for (whole, synced) in files.into_iter().zip(results) {
                let fate = match synced {
                    Ok(()) => whole.give_name(self),
                    Err(error) => Fate::Lost(format!("it did not reach the disk: {}", describe(&error))),
                };
                fates.push((whole, fate));
            }
        }
        fates
    }

    /// Puts directories on the disk. Returns those for which that failed, and tells of them where nobody else will:
    /// where they are here for themselves, and not for a file.
    fn sync_directories(&self, directories: HashMap<Identity, (Dir, bool)>) -> HashMap<Identity, String> {
        let mut by_disk: HashMap<_, (Arc<FileSystem>, Vec<(Dir, bool)>)> = HashMap::new();
        let mut failed = HashMap::new();
        let mut fail = |dir: &Dir, for_itself: bool, error: &io::Error| {
            let text = format!("its name did not reach the disk: {}", describe(error));
            if for_itself {
                self.fail(self.landing.path(&dir.path_bytes()), text.clone());
            }
            failed.insert(dir.identity(), text);
        };
        for (dir, for_itself) in directories.into_values() {
            match self.settling.disk_of(Some(&dir)) {
                Ok(Some(disk)) => {
                    by_disk.entry(Arc::as_ptr(&disk)).or_insert((disk, Vec::new())).1.push((dir, for_itself))
                }
                Ok(None) => {}
                Err(error) => fail(&dir, for_itself, &error),
            }
        }
        for (disk, directories) in by_disk.into_values() {
            let results = disk.sync_directories(&directories.iter().map(|(dir, _)| dir).collect::<Vec<_>>());
            for ((dir, for_itself), result) in directories.iter().zip(results) {
                result.err().iter().for_each(|error| fail(dir, *for_itself, error));
            }
        }
        failed
    }

    /// Tells what became of a whole file.
    fn conclude(&self, whole: Whole, fate: Fate, ends: &mut Ends) {
        match fate {
            Fate::Named => {
                self.reporter.file_done(|| whole.incoming().relative(), whole.size, whole.digest);
                ends.settled.push((whole.entry, true));
            }
            Fate::Lost(text) if whole.packed => ends.lost.push((whole, text)),
            Fate::Lost(text) | Fate::Failed(text) => self.give_up(whole.entry, &whole.item, text, ends),
        }
    }

    /// A file will not be there.
    pub(super) fn give_up(&self, entry: EntryId, item: &Item, text: impl Into<String>, ends: &mut Ends) {
        if let Item::File(incoming) = item {
            incoming.discard(&self.unfinished);
            self.fail(incoming.path(&self.landing), text);
        }
        ends.settled.push((entry, false));
    }

    /// Settles entries with one look at the machine, then finishes the directories that this completes.
    pub(super) fn settle_ends(&self, mut ends: Ends) {
        self.ask_again(&mut ends);
        let mut state = self.lock();
        let complete: Vec<_> =
            ends.settled.iter().filter_map(|(entry, done)| state.machine.settle(*entry, *done)).collect();
        drop(state);
        complete.into_iter().for_each(|directory| self.finish(Some(directory)));
        self.outbox.notify_all();
    }

    /// Has what was lost sent again, into files that the kernel has no bad memories of; what was lost twice fails.
    fn ask_again(&self, ends: &mut Ends) {
        let lost = std::mem::take(&mut ends.lost);
        let Some((first, text)) = lost.first() else { return };
        let path = escape(&first.incoming().path(&self.landing));
        let (text, others) = (text.lines().next().unwrap_or_default(), lost.len() - 1);
        let text = format!("{path}: {text}; this file and {others} others are sent again");
        let afresh = |(whole, _): &(Whole, String)| {
            whole.incoming().discard(&self.unfinished);
            (whole.entry, Arc::new(Item::File(whole.incoming().afresh())))
        };
        let files = lost.iter().map(afresh).collect();
        let failed = self.lock().machine.lost(files);
        if failed.len() < lost.len() {
            self.reporter.send(&WorkerMessage::Notice { text });
        }
        for (whole, text) in lost {
            if failed.contains(&whole.entry) {
                self.give_up(whole.entry, &whole.item, text, ends);
            }
        }
    }
}
