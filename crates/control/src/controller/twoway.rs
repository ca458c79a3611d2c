//! A run of two-way synchronisation: scans both replicas, decides, and performs a plan. [`haul_proto::twoway`] makes the
//! decisions, and copies of the engine move the data (`docs/internals/twoway.md`).

use std::borrow::Cow;
use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use haul_base::copy::error::Error;
use haul_base::copy::event::{Event, Observer};
use haul_base::copy::location::{Host, Location};
use haul_base::copy::runtime_control::RuntimeControl;
use haul_base::copy::spec::{
    CopyOptions, CopySpec, EarlierCopyUse, EqualityTest, MetadataOptions, OverwritePolicy, PreserveOptions,
    RemoteAccess, RightsOptions, Symlinks, SyncOptions, TimeOptions, WorkerProgram,
};
use haul_base::sys::cancel::Cancel;
use haul_proto::error::ProtocolError;
use haul_proto::integrity::Digest;
use haul_proto::limits::REPLICA_BATCH_MAX;
use haul_proto::twoway::ReplicaSide;
use haul_proto::twoway::attributes::{ActionAttributes, AttributeList};
use haul_proto::twoway::base::{Generation, common_base, next_number};
use haul_proto::twoway::detect::ReplicaUpdate;
use haul_proto::twoway::entry::{ReplicaContent, TreePath};
use haul_proto::twoway::limits::{DeletionDoubt, check_deletions, check_root};
use haul_proto::twoway::links::{agrees_on_group, link_groups, make_links};
use haul_proto::twoway::merge::MetadataRules;
use haul_proto::twoway::plan::{ActionKind, RunResults, TwowayAction, TwowayPlan};
use haul_proto::twoway::prefer::{ConflictRules, KeptName};
use haul_proto::twoway::reconcile::{PathDecision, Reconcile, wanted_digests};
use haul_proto::twoway::renames::find_renames;
use haul_proto::twoway::unreadable::{UnreadablePath, leave_unreadable};
use haul_proto::wire::replica_session::{ActionOutcome, ReplicaOrigin, ReplicaPlace, ReplicaScan};

use super::planned_paths::list_of;
use super::replica_session::{ReplicaOptions, ReplicaSession, StagedDirectory};

/// Most actions whose copies exist at once before they get their names.
const CHUNK_ACTIONS: usize = 50_000;
/// Most bytes of such copies, unless a file is larger.
const CHUNK_BYTES: u64 = 16 << 30;

/// A pair of replicas, and how they are synchronised.
#[derive(Debug, Clone)]
pub struct TwowaySpec {
    /// Roots A and B.
    pub roots: [Location; 2],
    /// Access to both, as to the source and the target of a copy from A to B.
    pub access: RemoteAccess,
    /// Streams, storage and verification of the copies.
    pub copies: CopyOptions,
    /// Options of both replicas.
    pub replica: ReplicaOptions,
    /// Whether to hash every file, whatever its times.
    pub digest_all: bool,
}

impl TwowaySpec {
    /// Returns the access to a root, as to the source of a copy.
    pub fn access_at(&self, side: ReplicaSide) -> RemoteAccess {
        match side {
            ReplicaSide::A => RemoteAccess { target_login: None, ..self.access.clone() },
            ReplicaSide::B => reversed(self.access.clone()),
        }
    }
}

/// A run after its scans.
pub struct TwowayRun {
    spec: TwowaySpec,
    program: WorkerProgram,
    cancel: Cancel,
    ends: [ReplicaSession; 2],
    rules: MetadataRules,
    base: Option<Generation>,
    number: u64,
    scans: [ReplicaScan; 2],
    updates: [Vec<ReplicaUpdate>; 2],
    unreadable: [Vec<UnreadablePath>; 2],
}

/// Why a run begins without an archive, or what else the user has to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TwowayNotice {
    /// Nothing is known of the pair: a union merge.
    First,
    /// The root at this side changed its identity: a union merge.
    Origin(ReplicaSide, ReplicaOrigin),
    /// The archives of both ends have no generation in common: a union merge.
    NoCommonBase,
    /// The clocks of both hosts differ by this.
    Clocks(Duration),
}

/// What became of a plan.
#[derive(Debug, Default)]
pub struct TwowayResults {
    /// For the next archive.
    pub run: RunResults,
    /// Actions performed at A and at B.
    pub done: [u64; 2],
    /// Bytes of files that were copied to A and to B.
    pub bytes: [u64; 2],
    /// Paths that changed since the scan.
    pub skipped: Vec<(ReplicaSide, TreePath)>,
    /// Paths that failed, with the reasons.
    pub failed: Vec<(ReplicaSide, TreePath, String)>,
    /// Files of copies that failed, which are reported already.
    pub failed_copies: u64,
    /// Their paths.
    reported: HashSet<Vec<u8>>,
}

const SAME_ROOT: &str = "both replicas are the same directory";
/// Clocks that differ by less are equal.
const CLOCKS_MIN: Duration = Duration::from_secs(60);

impl TwowayRun {
    /// Opens both replicas, finds their archive and scans them.
    pub fn start(
        spec: TwowaySpec,
        program: WorkerProgram,
        cancel: &Cancel,
        observer: &mut dyn Observer,
    ) -> Result<Self, Error> {
        refuse_same(&spec.roots)?;
        let [at_a, at_b] = ReplicaSide::BOTH.map(|side| spec.access_at(side));
        let mut open = |side: ReplicaSide, access: &RemoteAccess| {
            ReplicaSession::open(&spec.roots[side.index()], access, &spec.replica, &program, cancel, observer)
        };
        let mut ends = [open(ReplicaSide::A, &at_a)?, open(ReplicaSide::B, &at_b)?];
        let places = ends.each_ref().map(|end| end.place().clone());
        refuse_overlap(&places)?;
        let generations = [ends[0].meet(places[1].id)?, ends[1].meet(places[0].id)?];
        let number = next_number(&generations[0], &generations[1]);
        let rules = MetadataRules {
            mode: places.iter().all(|place| place.holds_modes),
            owner: places.iter().all(|place| place.sets_owners),
            modified: true,
            attributes: spec.copies.metadata.preserve.attributes,
            acls: spec.copies.metadata.preserve.acls,
            window_ns: places.iter().map(|place| place.time_error_ns).max().unwrap_or(0),
            digest_all: spec.digest_all,
        };
        let (base, scans) = scan_both(&mut ends, generations, rules)?;
        let [(a, unreadable_a), (b, unreadable_b)] = both(&mut ends, |side, end| end.updates(&scans[side.index()]))?;
        let (mut updates, unreadable) = ([a, b], [unreadable_a, unreadable_b]);
        leave_unreadable(&mut updates, unreadable.iter().flatten().map(|unreadable| &unreadable.path));
        Ok(Self { spec, program, cancel: cancel.clone(), ends, rules, base, number, scans, updates, unreadable })
    }

    /// Returns the root and its host at a side.
    pub fn place(&self, side: ReplicaSide) -> &ReplicaPlace {
        self.ends[side.index()].place()
    }

    /// Returns the host of a side, as the user named it.
    pub fn label(&self, side: ReplicaSide) -> String {
        self.ends[side.index()].label()
    }

    /// Copies a file of a side into `directory`, unless it has become larger than `bytes_max` or something else. Returns
    /// the path of the copy.
    pub fn fetch(
        &self,
        side: ReplicaSide,
        path: &TreePath,
        directory: &Path,
        bytes_max: u64,
    ) -> Result<PathBuf, Error> {
        let root = PathBuf::from(OsString::from_vec(self.place(side).path.clone()));
        let file = root.join(OsStr::from_bytes(path.as_bytes()));
        let host = self.spec.roots[side.index()].host.clone();
        let copied = directory.join(["A", "B"][side.index()]);
        let target = Location { host: Host::Local, path: copied.clone() };
        let sources = vec![Location { host, path: file }];
        let mut options = CopyOptions::default();
        options.source.symlinks = Symlinks::Keep;
        options.source.filters.limits.max_size = Some(bytes_max);
        let access = self.spec.access_at(side);
        let copy = CopySpec { sources, list: None, target, options, access };
        super::run(copy, self.program.clone(), &self.cancel, &RuntimeControl::new(), &mut Unobserved)?;
        Ok(copied)
    }

    /// Returns the scan of a side.
    pub fn scan(&self, side: ReplicaSide) -> ReplicaScan {
        self.scans[side.index()]
    }

    /// Returns what the scan of a side could not read. Both sides keep all of it as it is.
    pub fn unreadable(&self, side: ReplicaSide) -> &[UnreadablePath] {
        &self.unreadable[side.index()]
    }

    /// Returns what the user has to know before the plan.
    pub fn notices(&self) -> Vec<TwowayNotice> {
        let origin_of = |side: &ReplicaSide| self.place(*side).origin;
        let is_odd = |side: &ReplicaSide| {
            !matches!(origin_of(side), ReplicaOrigin::New | ReplicaOrigin::Known | ReplicaOrigin::Moved)
        };
        let mut notices: Vec<_> = ReplicaSide::BOTH
            .into_iter()
            .filter(is_odd)
            .map(|side| TwowayNotice::Origin(side, origin_of(&side)))
            .collect();
        if self.base.is_none() && notices.is_empty() {
            let is_first = self.number == 1;
            notices.push(if is_first { TwowayNotice::First } else { TwowayNotice::NoCommonBase });
        }
        let seconds = self.place(ReplicaSide::A).now.seconds.abs_diff(self.place(ReplicaSide::B).now.seconds);
        let difference = Duration::from_secs(seconds);
        notices.extend((difference >= CLOCKS_MIN).then_some(TwowayNotice::Clocks(difference)));
        notices
    }

    /// Decides about every path that a side updated. Files are hashed where contents have to be compared.
    pub fn decide(&mut self) -> Result<Vec<PathDecision>, Error> {
        let [a, b] = self.updates.each_ref().map(|updates| updates.iter().cloned().map(Ok::<_, ProtocolError>));
        let scanned_at = self.scans.map(|scan| scan.started);
        let wanted = wanted_digests(a, b, scanned_at).map_err(of_protocol)?;
        let updates = &mut self.updates;
        let digests = both(&mut self.ends, |side, end| end.digest(wanted[side.index()].clone()))?;
        for ((updates, paths), digests) in updates.iter_mut().zip(wanted).zip(digests) {
            let mut known = paths.into_iter().zip(digests).peekable();
            for update in updates.iter_mut() {
                let Some((_, found)) = known.next_if(|(path, _)| *path == update.path) else { continue };
                if let Some(ReplicaContent::File { digest, .. }) = update.found.as_mut().map(|entry| &mut entry.content)
                {
                    *digest = found;
                }
            }
        }
        let [a, b] = std::mem::take(&mut self.updates);
        let decisions = Reconcile::new(a.into_iter().map(Ok), b.into_iter().map(Ok), self.rules);
        decisions.collect::<Result<_, ProtocolError>>().map_err(of_protocol)
    }

    /// Decides conflicts by rules.
    pub fn prefer(&mut self, decisions: &mut Vec<PathDecision>, rules: &ConflictRules) -> Result<(), Error> {
        let mut failure = None;
        let ends = &mut self.ends;
        rules.apply(decisions, &mut |decision, loser, name| {
            look_at_name(ends, decision, loser, name).unwrap_or_else(|error| {
                failure = Some(error);
                KeptName::Taken
            })
        });
        failure.map_or(Ok(()), Err)
    }

    /// Makes the plan.
    pub fn plan(&self, mut decisions: Vec<PathDecision>) -> TwowayPlan {
        find_renames(&mut decisions);
        TwowayPlan::new(decisions, &self.rules)
    }

    /// Takes the names out of a plan that a file system takes for existing ones, and returns them: where case is folded,
    /// `a` and `A` are one.
    pub fn without_folded_names(&mut self, plan: &mut TwowayPlan) -> Result<Vec<(ReplicaSide, TreePath)>, Error> {
        let mut refused = Vec::new();
        for side in ReplicaSide::BOTH {
            if !self.place(side).folds_case {
                continue;
            }
            let is_new = |action: &&TwowayAction| action.side == side && action.expected.is_none();
            let new: Vec<TreePath> = plan.actions.iter().filter(is_new).map(|action| action.path.clone()).collect();
            let found = self.ends[side.index()].find(new.clone())?;
            let mut names = HashSet::new();
            for (path, found) in new.into_iter().zip(found) {
                let is_second = !names.insert(String::from_utf8_lossy(path.as_bytes()).to_lowercase());
                if is_second || found.is_some() {
                    refused.push((side, path));
                }
            }
        }
        let is_refused = |path: &TreePath| refused.iter().any(|(_, one)| one == path || path.is_below(one));
        plan.actions.retain(|action| !is_refused(&action.path));
        plan.agreements
            .retain(|agreement| !is_refused(&agreement.path) && !agreement.partner.as_ref().is_some_and(is_refused));
        Ok(refused)
    }

    /// Checks a plan against deletions that nobody may have meant. `allowed`: that many are meant.
    pub fn check(&self, plan: &TwowayPlan, allowed: Option<u64>, may_be_empty: bool) -> Result<(), DeletionDoubt> {
        let entries = self.scans.map(|scan| scan.entries);
        for side in ReplicaSide::BOTH.into_iter().filter(|_| !may_be_empty) {
            check_root(side, self.scan(side).archived, entries[side.index()])?;
        }
        check_deletions(&plan.actions, entries, allowed)
    }

    /// Performs a plan, and reports the events of its copies to `observer`.
    pub fn perform(
        &mut self,
        plan: &TwowayPlan,
        control: &RuntimeControl,
        observer: &mut dyn Observer,
    ) -> Result<TwowayResults, Error> {
        let mut results = TwowayResults::default();
        let actions = self.with_links(&plan.actions)?;
        for chunk in chunks(&actions) {
            for side in ReplicaSide::BOTH {
                self.copy_to(side, chunk, control, observer, &mut results)?;
            }
            let ready = self.with_untouched_sources(chunk, &mut results)?;
            for side in ReplicaSide::BOTH {
                let actions: Vec<_> = ready.iter().filter(|action| action.side == side).cloned().collect();
                for actions in actions.chunks(REPLICA_BATCH_MAX) {
                    let actions = self.with_attributes(actions, &mut results)?;
                    let outcomes = self.ends[side.index()].act(actions.clone())?;
                    for (action, outcome) in actions.into_iter().zip(outcomes) {
                        results.add(&action, outcome);
                    }
                }
            }
        }
        Ok(results)
    }

    /// Returns the actions of a chunk without copies whose source changed since its scan.
    fn with_untouched_sources(
        &mut self,
        chunk: &[TwowayAction],
        results: &mut TwowayResults,
    ) -> Result<Vec<TwowayAction>, Error> {
        let mut sources = [Vec::new(), Vec::new()];
        for action in chunk {
            if let ActionKind::Copy { source } | ActionKind::Link { source, .. } = &action.kind {
                sources[action.side.other().index()].push((action.path.clone(), source.clone()));
            }
        }
        let mut untouched = Vec::new();
        for (end, sources) in self.ends.iter_mut().zip(sources) {
            untouched.push(end.look_at(sources)?.into_iter());
        }
        let mut ready = Vec::new();
        for action in chunk {
            let has_source = matches!(action.kind, ActionKind::Copy { .. } | ActionKind::Link { .. });
            match has_source && !untouched[action.side.other().index()].next().unwrap_or(false) {
                true => results.skip(action.side.other(), &action.path),
                false => ready.push(action.clone()),
            }
        }
        Ok(ready)
    }

    /// Returns actions with the extended attributes that they set.
    fn with_attributes(
        &mut self,
        actions: &[TwowayAction],
        results: &mut TwowayResults,
    ) -> Result<Vec<TwowayAction>, Error> {
        let has_any = |action: &TwowayAction| {
            action.entry.as_ref().is_some_and(|entry| entry.metadata.attributes != Digest::default())
        };
        let mut wanted = [Vec::new(), Vec::new()];
        for action in actions.iter().filter(|action| has_any(action)) {
            if let ActionAttributes::Of(side) = action.attributes {
                wanted[side.index()].push(action.path.clone());
            }
        }
        let mut found = Vec::new();
        for (end, paths) in self.ends.iter_mut().zip(wanted) {
            found.push(end.attributes(paths)?.into_iter());
        }
        let mut ready = Vec::new();
        for action in actions {
            let attributes = match action.attributes {
                ActionAttributes::Of(side) if has_any(action) => {
                    let Some(list) = found[side.index()].next().flatten() else {
                        results.skip(side, &action.path);
                        continue;
                    };
                    ActionAttributes::Given(list)
                }
                ActionAttributes::Of(_) => ActionAttributes::Given(AttributeList::default()),
                _ => ActionAttributes::Kept,
            };
            ready.push(TwowayAction { attributes, ..action.clone() });
        }
        Ok(ready)
    }

    /// Copies the files of a chunk that `side` gets into its directory for copies.
    fn copy_to(
        &mut self,
        side: ReplicaSide,
        chunk: &[TwowayAction],
        control: &RuntimeControl,
        observer: &mut dyn Observer,
        results: &mut TwowayResults,
    ) -> Result<(), Error> {
        let is_copy = |action: &&TwowayAction| action.side == side && matches!(action.kind, ActionKind::Copy { .. });
        let paths: Vec<TreePath> = chunk.iter().filter(is_copy).map(|action| action.path.clone()).collect();
        if paths.is_empty() {
            return Ok(());
        }
        let staged = self.ends[side.index()].stage()?;
        let roots = [staged.path.clone(), self.place(side.other()).path.clone()];
        let copy = self.copy_of(side, staged, paths);
        let mut counted = CountFailures { observer, roots, results };
        super::run(copy, self.program.clone(), &self.cancel, control, &mut counted).map(drop)
    }

    /// Makes links of copies of one file, where both sides agree on its names.
    fn with_links<'p>(&mut self, planned: &'p [TwowayAction]) -> Result<Cow<'p, [TwowayAction]>, Error> {
        let mut actions = Cow::Borrowed(planned);
        for side in ReplicaSide::BOTH {
            let groups = link_groups(&actions, side);
            let paths = groups.iter().flatten().map(|at| actions[*at].path.clone()).collect();
            let mut found = self.ends[side.index()].find(paths)?.into_iter();
            for group in groups {
                let found: Vec<_> = found.by_ref().take(group.len()).collect();
                if agrees_on_group(&found) {
                    make_links(actions.to_mut(), &group);
                }
            }
        }
        Ok(actions)
    }

    fn copy_of(&self, side: ReplicaSide, staged: StagedDirectory, paths: Vec<TreePath>) -> CopySpec {
        let from = side.other();
        let root = PathBuf::from(OsString::from_vec(self.place(from).path.clone()));
        let (from_host, to_host) = (&self.spec.roots[from.index()].host, &self.spec.roots[side.index()].host);
        let target = Location { host: to_host.clone(), path: OsString::from_vec(staged.path).into() };
        let access = match side {
            ReplicaSide::B => self.spec.access.clone(),
            ReplicaSide::A => reversed(self.spec.access.clone()),
        };
        let list = list_of(from_host.clone(), paths);
        let mut options = self.spec.copies.clone();
        options.source.base = Some(root);
        options.source.symlinks = Symlinks::Keep;
        options.target.write.overwrite = OverwritePolicy::Follow;
        options.target.directory.identity = Some(staged.identity);
        options.target.sync = SyncOptions { into: true, equal: EqualityTest::Digest, ..SyncOptions::default() };
        options.target.sync.replaces_trees = true;
        // What a copy will replace is its base file.
        options.target.sync.link_dests = vec![self.place(side).path.clone()];
        options.target.sync.earlier_use = EarlierCopyUse::Copy;
        options.metadata = MetadataOptions {
            rights: RightsOptions { mode: self.rules.mode, owner: self.rules.owner, group: self.rules.owner },
            times: TimeOptions { files: true, directories: false, symlinks: true },
            // The actions bring attributes.
            preserve: PreserveOptions {
                attributes: false,
                acls: false,
                devices: self.rules.owner,
                specials: true,
                ..options.metadata.preserve
            },
            ..options.metadata
        };
        CopySpec { sources: Vec::new(), list: Some(list), target, options, access }
    }

    /// Writes both archives. `None`: there is nothing to write.
    pub fn record(&mut self, plan: &TwowayPlan, results: &TwowayResults) -> Result<Option<Generation>, Error> {
        let is_known = self.base.is_some() && self.scans.iter().all(|scan| scan.hashed == 0);
        if is_known && plan.agreements.is_empty() {
            return Ok(None);
        }
        let (scans, number, base) = (self.scans, self.number, self.base);
        let written = both(&mut self.ends, |side, end| {
            let changes = plan.archive_changes(side, scans[side.index()].started, &results.run, []);
            end.record(changes)?;
            end.write(number, base)
        })?;
        match written {
            [a, b] if a == b => Ok(Some(a)),
            _ => Err(Error::Failed("the archives of both ends differ: the next run will compare all contents".into())),
        }
    }
}

impl TwowayResults {
    fn skip(&mut self, side: ReplicaSide, path: &TreePath) {
        self.run.unfinished.insert(path.clone());
        if !self.reported.contains(path.as_bytes()) {
            self.skipped.push((side, path.clone()));
        }
    }

    /// Counts an action.
    pub fn count(&mut self, action: &TwowayAction) {
        let side = action.side.index();
        self.done[side] += 1;
        if let (ActionKind::Copy { .. }, Some(entry)) = (&action.kind, &action.entry) {
            self.bytes[side] += entry.content.file_size().unwrap_or(0);
        }
    }

    fn add(&mut self, action: &TwowayAction, outcome: ActionOutcome) {
        let side = action.side;
        match outcome {
            ActionOutcome::Done { stamp, digest } => {
                let first = match &action.kind {
                    ActionKind::Link { to, .. } => self.run.made.get(to).and_then(|first| first.digest),
                    _ => None,
                };
                let made = self.run.made.entry(action.path.clone()).or_default();
                made.stamps[side.index()] = stamp.or(made.stamps[side.index()]);
                made.digest = digest.or(first).or(made.digest);
                self.count(action);
            }
            ActionOutcome::Skipped => self.skip(side, &action.path),
            ActionOutcome::Failed { text } => {
                self.run.unfinished.insert(action.path.clone());
                self.failed.push((side, action.path.clone(), text));
            }
        }
    }
}

/// Scans both ends, and returns the base: the newest generation that both have, and that neither finds damaged.
fn scan_both(
    ends: &mut [ReplicaSession; 2],
    mut generations: [Vec<Generation>; 2],
    rules: MetadataRules,
) -> Result<(Option<Generation>, [ReplicaScan; 2]), Error> {
    loop {
        let base = common_base(&generations[0], &generations[1]);
        let scanned = both(ends, |_, end| end.scan(base.map(|base| base.number), rules))?;
        match scanned {
            [Some(a), Some(b)] => return Ok((base, [a, b])),
            damaged => {
                for (generations, scanned) in generations.iter_mut().zip(damaged) {
                    generations.retain(|generation| Some(*generation) != base || scanned.is_some());
                }
            }
        }
    }
}

/// Performs a step at both ends at the same time.
fn both<T: Send>(
    ends: &mut [ReplicaSession; 2],
    step: impl Fn(ReplicaSide, &mut ReplicaSession) -> Result<T, Error> + Sync,
) -> Result<[T; 2], Error> {
    let [a, b] = ends;
    let (a, b) = thread::scope(|scope| {
        let other = scope.spawn(|| step(ReplicaSide::B, b));
        let a = step(ReplicaSide::A, a);
        let lost = || Err(Error::Failed("a thread of this process ended".into()));
        (a, other.join().unwrap_or_else(|_| lost()))
    });
    Ok([a?, b?])
}

/// Looks whether a name is free for the loser of a conflict.
fn look_at_name(
    ends: &mut [ReplicaSession; 2],
    decision: &PathDecision,
    loser: ReplicaSide,
    name: &TreePath,
) -> Result<KeptName, Error> {
    let found = both(ends, |_, end| end.find(vec![name.clone()]))?;
    if found.iter().flatten().all(Option::is_none) {
        return Ok(KeptName::Free);
    }
    let (Some(entry), [Some(kept)]) = (&decision.side(loser).entry, &found[loser.index()][..]) else {
        return Ok(KeptName::Taken);
    };
    if entry.content.file_size().is_none() || entry.content.file_size() != kept.content.file_size() {
        return Ok(KeptName::Taken);
    }
    let digests = ends[loser.index()].digest(vec![decision.path.clone(), name.clone()])?;
    let is_kept = digests[0].is_some() && digests[0] == digests[1];
    Ok(if is_kept { KeptName::Kept } else { KeptName::Taken })
}

/// Splits actions so that copies before their names take a limited room, and files that an action keeps are there
/// before they are copied.
fn chunks(actions: &[TwowayAction]) -> impl Iterator<Item = &[TwowayAction]> {
    let kept: HashSet<&TreePath> = actions.iter().filter_map(|action| action.keep_as.as_ref()).collect();
    let mut rest = actions;
    std::iter::from_fn(move || {
        let (mut bytes, mut keeps) = (0_u64, false);
        let is_beyond = |action: &TwowayAction| {
            let needs_kept = keeps && kept.contains(&action.path);
            keeps |= action.keep_as.is_some();
            if let (ActionKind::Copy { .. }, Some(entry)) = (&action.kind, &action.entry) {
                bytes = bytes.saturating_add(entry.content.file_size().unwrap_or(0));
            }
            needs_kept || bytes > CHUNK_BYTES
        };
        let end = rest.iter().position(is_beyond).unwrap_or(rest.len());
        // A file that is larger than the limit is a chunk of its own.
        let (chunk, others) = rest.split_at(end.max(1).min(rest.len()).min(CHUNK_ACTIONS));
        rest = others;
        (!chunk.is_empty()).then_some(chunk)
    })
}

/// Reports nothing.
struct Unobserved;

impl Observer for Unobserved {
    fn event(&mut self, _: &Event) {}
}

/// Counts files that a copy reports as failed.
struct CountFailures<'o> {
    observer: &'o mut dyn Observer,
    /// The directory for copies, and the root of the source.
    roots: [Vec<u8>; 2],
    results: &'o mut TwowayResults,
}

impl Observer for CountFailures<'_> {
    fn event(&mut self, event: &Event) {
        if let Event::FileFailed { path, .. } = event {
            self.results.failed_copies += 1;
            let below = self.roots.iter().filter_map(|root| path.strip_prefix(&root[..])?.strip_prefix(b"/"));
            self.results.reported.extend(below.map(<[u8]>::to_vec));
        }
        self.observer.event(event);
    }
}

/// Access to the same hosts, with the target as the source.
fn reversed(access: RemoteAccess) -> RemoteAccess {
    let login = access.target_login.clone().unwrap_or_else(|| access.login.clone());
    RemoteAccess {
        target_login: Some(access.login.clone()),
        login,
        source_command: access.target_command.clone(),
        target_command: access.source_command.clone(),
        ..access
    }
}

fn of_protocol(error: ProtocolError) -> Error {
    Error::Failed(format!("an end has broken the protocol: {error}"))
}

/// Refuses roots that are one, as far as it shows before the replicas are opened: each of them gets a lock.
fn refuse_same([a, b]: &[Location; 2]) -> Result<(), Error> {
    let real = |place: &Location| match place.host {
        Host::Local => place.path.canonicalize().unwrap_or_else(|_| place.path.clone()),
        _ => place.path.clone(),
    };
    if a.host == b.host && real(a) == real(b) { Err(Error::Usage(SAME_ROOT.into())) } else { Ok(()) }
}

/// Refuses roots that are one, or lie in each other.
fn refuse_overlap([a, b]: &[ReplicaPlace; 2]) -> Result<(), Error> {
    if a.machine != b.machine {
        return Ok(());
    }
    let [one, other] = [a, b].map(|place| Path::new(OsStr::from_bytes(&place.path)));
    if one == other || (a.device, a.inode) == (b.device, b.inode) {
        return Err(Error::Usage(SAME_ROOT.into()));
    }
    if one.starts_with(other) || other.starts_with(one) {
        return Err(Error::Usage("one replica lies in the other".into()));
    }
    Ok(())
}
