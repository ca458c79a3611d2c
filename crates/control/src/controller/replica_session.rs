//! One end of two-way synchronisation: a worker that stays, and performs the steps of a run at its replica.

use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use haul_base::copy::error::Error;
use haul_base::copy::event::Observer;
use haul_base::copy::location::Location;
use haul_base::copy::spec::{CopyOptions, CopySpec, FilterOptions, RemoteAccess, WorkerProgram};
use haul_base::sys::cancel::Cancel;
use haul_proto::feature::Features;
use haul_proto::integrity::Digest;
use haul_proto::limits::{REPLICA_BATCH_BYTES, REPLICA_BATCH_MAX, REPLICA_UPDATES_MAX};
use haul_proto::twoway::attributes::AttributeList;
use haul_proto::twoway::base::Generation;
use haul_proto::twoway::detect::ReplicaUpdate;
use haul_proto::twoway::entry::{ReplicaEntry, TreePath};
use haul_proto::twoway::merge::MetadataRules;
use haul_proto::twoway::plan::{ArchiveChange, TwowayAction};
use haul_proto::twoway::unreadable::UnreadablePath;
use haul_proto::wire::replica_session::{
    ActionOutcome, ReplicaAnswer, ReplicaId, ReplicaPlace, ReplicaRequest, ReplicaScan, ReplicaStep,
};
use haul_proto::wire::report::WorkerMessage;
use haul_proto::wire::request::ControllerMessage;

use super::settings::workers_silence_ms;
use super::worker_role::WorkerRole;
use super::workers::Workers;

/// The only worker's role in messages.
const ROLE: WorkerRole = WorkerRole::Source;

/// A running session. Dropping it ends its worker.
pub struct ReplicaSession {
    workers: Workers,
    cancel: Cancel,
    place: ReplicaPlace,
}

/// The directory for copies before they get their names.
#[derive(Debug, Clone)]
pub struct StagedDirectory {
    /// Its path.
    pub path: Vec<u8>,
    /// Its device and inode number.
    pub identity: (u64, u64),
}

/// Options of a replica.
#[derive(Debug, Clone, Default)]
pub struct ReplicaOptions {
    /// Entries that do not belong to it.
    pub filters: FilterOptions,
    /// Directory for replaced and removed entries; a relative path begins at the root.
    pub backup_dir: Option<PathBuf>,
}

impl ReplicaSession {
    /// Starts a worker at `root`, which `access` reaches as a source.
    pub fn open(
        root: &Location,
        access: &RemoteAccess,
        options: &ReplicaOptions,
        program: &WorkerProgram,
        cancel: &Cancel,
        observer: &mut dyn Observer,
    ) -> Result<Self, Error> {
        let target = Location { host: root.host.clone(), path: Default::default() };
        // One host, reached in one way, has one worker.
        let target_command = access.source_command.clone();
        let access = RemoteAccess { target_command, target_login: None, ..access.clone() };
        let (sources, options_of_copy) = (vec![root.clone()], CopyOptions::default());
        let spec = CopySpec { sources, list: None, target, options: options_of_copy, access };
        let workers = Workers::start(&spec, program, cancel, observer)?;
        workers.require(Features::TWOWAY)?;
        if options.filters.changed.is_some() {
            workers.require(Features::WATCH)?;
        }
        let request = ReplicaRequest {
            silence_ms: workers_silence_ms(spec.access.silence),
            root: root.path.as_os_str().as_bytes().to_vec(),
            filters: options.filters.clone(),
            backup_dir: options.backup_dir.iter().flat_map(|dir| dir.as_os_str().as_bytes()).copied().collect(),
        };
        let mut session = Self { workers, cancel: cancel.clone(), place: ReplicaPlace::default() };
        match session.exchange(&ControllerMessage::Replica(request))? {
            ReplicaAnswer::Ready(place) => {
                session.place = place;
                Ok(session)
            }
            _ => Err(session.out_of_order()),
        }
    }

    /// Returns what the worker said of the root and its host.
    pub fn place(&self) -> &ReplicaPlace {
        &self.place
    }

    /// Returns the host as the user named it.
    pub fn label(&self) -> String {
        self.workers.label(ROLE)
    }

    /// Returns the generations of the archive of the pair with `other`.
    pub fn meet(&mut self, other: ReplicaId) -> Result<Vec<Generation>, Error> {
        match self.step(ReplicaStep::Meet { other })? {
            ReplicaAnswer::Met { generations } => Ok(generations),
            _ => Err(self.out_of_order()),
        }
    }

    /// Compares the replica with a generation, or with nothing. `None`: this generation is damaged.
    pub fn scan(&mut self, base: Option<u64>, rules: MetadataRules) -> Result<Option<ReplicaScan>, Error> {
        match self.step(ReplicaStep::Scan { base, rules })? {
            ReplicaAnswer::Scanned(scan) => Ok(Some(scan)),
            ReplicaAnswer::Met { .. } if base.is_some() => Ok(None),
            _ => Err(self.out_of_order()),
        }
    }

    /// Returns all updates of a scan, in order, and what it could not read.
    pub fn updates(&mut self, scan: &ReplicaScan) -> Result<(Vec<ReplicaUpdate>, Vec<UnreadablePath>), Error> {
        if scan.updates > REPLICA_UPDATES_MAX {
            return Err(Error::Failed(self.workers.with_host(ROLE, "more updates than one run handles")));
        }
        let (mut updates, mut unreadable) = (Vec::new(), Vec::new());
        loop {
            let before = updates.len() + unreadable.len();
            let ReplicaAnswer::Updates { updates: more, unreadable: others, is_last } =
                self.step(ReplicaStep::NextUpdates)?
            else {
                return Err(self.out_of_order());
            };
            updates.extend(more);
            unreadable.extend(others);
            let received = updates.len() + unreadable.len();
            match is_last {
                _ if received as u64 > scan.updates => return Err(self.out_of_order()),
                true => return Ok((updates, unreadable)),
                false if received == before => return Err(self.out_of_order()),
                false => {}
            }
        }
    }

    /// Hashes files. `None` for what could not be read, or changed meanwhile.
    pub fn digest(&mut self, paths: Vec<TreePath>) -> Result<Vec<Option<Digest>>, Error> {
        self.in_batches(
            paths,
            TreePath::as_bytes,
            |paths| ReplicaStep::Digest { paths },
            |answer| match answer {
                ReplicaAnswer::Digests(digests) => Some(digests),
                _ => None,
            },
        )
    }

    /// Looks up entries.
    pub fn find(&mut self, paths: Vec<TreePath>) -> Result<Vec<Option<ReplicaEntry>>, Error> {
        self.in_batches(
            paths,
            TreePath::as_bytes,
            |paths| ReplicaStep::Find { paths },
            |answer| match answer {
                ReplicaAnswer::Found(entries) => Some(entries),
                _ => None,
            },
        )
    }

    /// Reads extended attributes. `None` for what cannot be read.
    pub fn attributes(&mut self, paths: Vec<TreePath>) -> Result<Vec<Option<AttributeList>>, Error> {
        let mut lists = Vec::new();
        for paths in batches(paths, |path| path.as_bytes().len()) {
            let all = lists.len() + paths.len();
            while lists.len() < all {
                let missing = all - lists.len();
                let step = ReplicaStep::ReadAttributes { paths: paths[paths.len() - missing..].to_vec() };
                match self.step(step)? {
                    ReplicaAnswer::Attributes(more) if (1..=missing).contains(&more.len()) => lists.extend(more),
                    _ => return Err(self.out_of_order()),
                }
            }
        }
        Ok(lists)
    }

    /// Makes the directory for copies before they get their names, and returns its path and identity.
    pub fn stage(&mut self) -> Result<StagedDirectory, Error> {
        match self.step(ReplicaStep::Stage)? {
            ReplicaAnswer::Staged { path, identity } => Ok(StagedDirectory { path, identity }),
            _ => Err(self.out_of_order()),
        }
    }

    /// Looks whether sources of copies are as they were scanned.
    pub fn look_at(&mut self, sources: Vec<(TreePath, ReplicaEntry)>) -> Result<Vec<bool>, Error> {
        let path = |(path, _): &(TreePath, ReplicaEntry)| path.as_bytes().len();
        self.in_sized_batches(
            sources,
            path,
            |sources| ReplicaStep::LookAt { sources },
            |answer| match answer {
                ReplicaAnswer::Untouched(sources) => Some(sources),
                _ => None,
            },
        )
    }

    /// Performs actions.
    pub fn act(&mut self, actions: Vec<TwowayAction>) -> Result<Vec<ActionOutcome>, Error> {
        let bytes = |action: &TwowayAction| action.path.as_bytes().len() + action.attributes.bytes();
        self.in_sized_batches(
            actions,
            bytes,
            |actions| ReplicaStep::Perform { actions },
            |answer| match answer {
                ReplicaAnswer::Performed(outcomes) => Some(outcomes),
                _ => None,
            },
        )
    }

    /// Takes changes into the next archive, in the order of the tree.
    pub fn record(&mut self, changes: Vec<ArchiveChange>) -> Result<(), Error> {
        let bytes = |change: &ArchiveChange| change.path.as_bytes().len();
        for changes in batches(changes, bytes) {
            match self.step(ReplicaStep::Record { changes })? {
                ReplicaAnswer::Recorded => {}
                _ => return Err(self.out_of_order()),
            }
        }
        Ok(())
    }

    /// Writes the next archive.
    pub fn write(&mut self, number: u64, base: Option<Generation>) -> Result<Generation, Error> {
        match self.step(ReplicaStep::Write { number, base })? {
            ReplicaAnswer::Written(generation) => Ok(generation),
            _ => Err(self.out_of_order()),
        }
    }

    fn in_batches<T, A>(
        &mut self,
        items: Vec<T>,
        bytes: impl Fn(&T) -> &[u8],
        step: impl Fn(Vec<T>) -> ReplicaStep,
        answer: impl Fn(ReplicaAnswer) -> Option<Vec<A>>,
    ) -> Result<Vec<A>, Error> {
        self.in_sized_batches(items, |item| bytes(item).len(), step, answer)
    }

    /// Performs a step for items, some at a time. Each has one answer.
    fn in_sized_batches<T, A>(
        &mut self,
        items: Vec<T>,
        bytes: impl Fn(&T) -> usize,
        step: impl Fn(Vec<T>) -> ReplicaStep,
        answer: impl Fn(ReplicaAnswer) -> Option<Vec<A>>,
    ) -> Result<Vec<A>, Error> {
        let mut answers = Vec::new();
        for batch in batches(items, bytes) {
            let count = batch.len();
            let more = answer(self.step(step(batch))?);
            let more = more.filter(|more| more.len() == count).ok_or_else(|| self.out_of_order())?;
            answers.extend(more);
        }
        Ok(answers)
    }

    fn step(&mut self, step: ReplicaStep) -> Result<ReplicaAnswer, Error> {
        self.exchange(&ControllerMessage::ReplicaStep(step))
    }

    fn exchange(&mut self, message: &ControllerMessage) -> Result<ReplicaAnswer, Error> {
        match self.workers.ask(ROLE, message, &self.cancel)? {
            WorkerMessage::ReplicaAnswer(answer) => match *answer {
                ReplicaAnswer::Failed { text } => Err(Error::Failed(self.workers.with_host(ROLE, &text))),
                answer => Ok(answer),
            },
            _ => Err(self.out_of_order()),
        }
    }

    fn out_of_order(&self) -> Error {
        Error::Failed(self.workers.with_host(ROLE, "protocol error: answer out of order"))
    }
}

impl Drop for ReplicaSession {
    fn drop(&mut self) {
        self.workers.close();
    }
}

/// Splits items into batches of a message's size.
fn batches<T>(items: Vec<T>, bytes: impl Fn(&T) -> usize) -> impl Iterator<Item = Vec<T>> {
    let mut items = items.into_iter();
    std::iter::from_fn(move || {
        let (mut batch, mut total) = (Vec::new(), 0);
        while batch.len() < REPLICA_BATCH_MAX && total < REPLICA_BATCH_BYTES {
            let Some(item) = items.next() else { break };
            total += bytes(&item);
            batch.push(item);
        }
        (!batch.is_empty()).then_some(batch)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_have_limits_of_items_and_bytes() {
        let lengths = |items, bytes: usize| batches(vec![(); items], move |()| bytes).map(|one| one.len()).collect();
        let found: [Vec<usize>; 3] = [lengths(5000, 1), lengths(3, 700_000), lengths(0, 1)];
        assert_eq!(found, [vec![4096, 904], vec![2, 1], vec![]]);
    }
}
