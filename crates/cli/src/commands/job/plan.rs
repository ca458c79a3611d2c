//! `haul job plan`: makes a job's directory, walks the source, and writes shards.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use haul_base::job::location::Host;
use haul_base::job::runtime_control::RuntimeControl;
use haul_base::job::spec::{DeltaMode, RangeLen};
use haul_base::sys::cancel::Cancel;
use haul_engine::fs::SpecialFiles;
use haul_job::comparison::plan as plan_comparison;
use haul_job::description::JobDescription;
use haul_job::directory::JobDirectory;
use haul_job::error::{JobError, shown};
use haul_job::packer::{SHARDS_AT_A_TIME, ShardLimits, ShardSizes};
use haul_job::plan_index::{PlanIndex, PlanTotals};
use haul_job::planner::{WalkRules, check_source, plan as walk};
use haul_job::shard_lock::{LockHolder, LockedWork, ShardLock, held_shards};
use haul_job::targets::expand;
use haul_proto::limits::RANGES_MAX;
use haul_proto::path::escape;

use super::exclusive::claim;
use super::opened::{OpenedJob, absolute, version};
use super::part::PartDisplay;
use super::remote_plan::plan_remote;
use super::whole::whole_plan;
use crate::args::UsageError;
use crate::args::flags;
use crate::args::job::{JobPart, copy_options};
use crate::args::operand::{host_prefix, parse_operand};
use crate::args::values::Values;
use crate::exit::Exit;
use crate::show;
use crate::signals::Watch;
use crate::units;

/// Plans a job, or an interrupted plan anew.
pub fn run(values: &Values, operands: &[OsString]) -> anyhow::Result<Exit> {
    let dir = values.last(&flags::job::DIR).ok_or_else(|| {
        UsageError::new("haul job plan needs a directory for the job")
            .remedy("--dir JOB names a new directory that all hosts see")
    })?;
    let job = create(values, operands, dir)?;
    let cancel = Cancel::new();
    let watch = Watch::start(cancel.clone(), RuntimeControl::new().rate().clone(), None);
    let watch = watch.context("signals cannot be caught")?;
    let totals = watch.during(|| carry_out(&job, &cancel))?;
    if !values.is_set(&flags::QUIET) {
        show::stderr().plain(&planned(&job, &totals));
    }
    Ok(if totals.failed > 0 { Exit::Failed } else { Exit::Done })
}

/// `JOB: 18 shards, 70,211 files, 3.0 GB`
pub fn planned(job: &OpenedJob, totals: &PlanTotals) -> String {
    let shards = units::counted(totals.shards.into(), "shard", "shards");
    let failed = match totals.failed {
        0 => String::new(),
        failed => format!("; {} could not be read: see failures/plan.jsonl", units::count(failed)),
    };
    let (files, bytes) = (units::files(totals.files), units::size(totals.bytes));
    format!("{}: {shards}, {files}, {bytes}{failed}", shown(job.directory.path()))
}

/// Why ranges of some files are longer than the job says.
fn lengthened(files: u64) -> String {
    let most = units::count(RANGES_MAX);
    format!("ranges of {} are longer than --shard-range: a file has at most {most}", units::files(files))
}

/// Makes the job that `values` describe, or opens the same one.
pub fn create(values: &Values, operands: &[OsString], dir: &OsStr) -> anyhow::Result<OpenedJob> {
    let path = absolute(Path::new(dir));
    let description = describe(values, operands)?;
    let earlier = OpenedJob::open(path.as_os_str()).ok();
    if let Some(earlier) = earlier.filter(|earlier| is_same(&earlier.description, &description)) {
        return Ok(earlier);
    }
    if !description.is_pulled() {
        check_source(&description.source)?;
    }
    refuse_overlap(&path, &description)?;
    let job = OpenedJob { directory: JobDirectory::vacant(&path)?, description };
    // Options are checked before anything is written that others might run.
    let whole = whole_plan(&job, &job.description.ends()[0], PartDisplay::Usual, JobPart::Whole)?;
    if !whole.job.options.source.recursive {
        return Err(UsageError::new(format!("{}: a job copies a directory", shown(&job.description.source)))
            .remedy("add -r to copy it with all that is in it")
            .into());
    }
    if job.description.range_len.is_some() && whole.job.options.delta.in_place {
        return Err(in_place_with_ranges().into());
    }
    claim(&job.directory, &job.description)?;
    job.directory.make_folders()?;
    job.description.write(&job.directory)?;
    Ok(job)
}

fn is_same(earlier: &JobDescription, new: &JobDescription) -> bool {
    let of = |it: &JobDescription| {
        let sizes = (it.sizes.full, it.sizes.grows_for.is_some());
        let lens = (sizes, it.range_len);
        (
            (it.source_hosts.clone(), it.source.clone()),
            it.targets.clone(),
            it.options.clone(),
            it.is_sync,
            lens,
            it.name.clone(),
        )
    };
    of(earlier) == of(new)
}

/// A plan that is about to be made.
pub struct BegunPlan {
    _lock: ShardLock,
    origin: PlanOrigin,
}

/// What a plan is made from.
enum PlanOrigin {
    /// The walk of the source.
    Walk(Box<WalkRules>),
    /// A dry run from the source's host.
    RemoteSource,
    /// The plan of the job that is compared.
    ComparedJob,
}

impl BegunPlan {
    /// Clears what an interrupted plan left, so that nobody takes a shard of it; `None` where the plan is complete.
    pub fn begin(job: &OpenedJob, cancel: &Cancel) -> anyhow::Result<Option<Self>> {
        let directory = &job.directory;
        directory.refuse_cancelled()?;
        if PlanIndex::read(directory)?.complete.is_some() {
            return Ok(None);
        }
        let lock = ShardLock::wait(directory, LockedWork::Plan, cancel, &mut |holder| {
            show::stderr().notice(&format!("the job is being planned by {}; waiting for it", holder.shown()));
        })?;
        if PlanIndex::read(directory)?.complete.is_some() {
            return Ok(None);
        }
        for (shard, _) in held_shards(directory) {
            let told = &mut |holder: &LockHolder| {
                show::stderr()
                    .notice(&format!("shard {shard} of an earlier plan is run by {}; waiting", holder.shown()));
            };
            ShardLock::wait(directory, LockedWork::Shard(shard), cancel, told)?;
        }
        directory.clear_plan()?;
        if job.description.verifies {
            return Ok(Some(Self { _lock: lock, origin: PlanOrigin::ComparedJob }));
        }
        if job.description.is_pulled() {
            return Ok(Some(Self { _lock: lock, origin: PlanOrigin::RemoteSource }));
        }
        let whole = whole_plan(job, &job.description.ends()[0], PartDisplay::Quiet, JobPart::Whole)?;
        let options = whole.job.options;
        let rules = WalkRules {
            symlinks: options.source.symlinks,
            filters: options.source.filters,
            nodes: SpecialFiles {
                devices: options.metadata.preserve.devices,
                specials: options.metadata.preserve.specials,
            },
            target: Some(whole.job.target).filter(|target| target.host == Host::Local).map(|target| target.path),
            ranges_max: RANGES_MAX,
            is_alone: true,
        };
        Ok(Some(Self { _lock: lock, origin: PlanOrigin::Walk(Box::new(rules)) }))
    }

    /// The walk leaves processors to copies on this host.
    pub fn beside_copies(mut self) -> Self {
        if let PlanOrigin::Walk(rules) = &mut self.origin {
            rules.is_alone = false;
        }
        self
    }

    /// Makes the plan. `told` hears of each shard.
    pub fn carry_out(
        self,
        job: &OpenedJob,
        cancel: &Cancel,
        told: &mut dyn FnMut(&PlanTotals),
    ) -> anyhow::Result<PlanTotals> {
        let totals = match &self.origin {
            PlanOrigin::Walk(rules) => walk(&job.directory, &job.description, rules, cancel, told)?,
            PlanOrigin::RemoteSource => plan_remote(job, cancel, told)?,
            PlanOrigin::ComparedJob => {
                let totals = plan_comparison(&job.directory)?;
                told(&totals);
                totals
            }
        };
        if totals.lengthened > 0 {
            show::stderr().notice(&lengthened(totals.lengthened));
        }
        Ok(totals)
    }
}

/// Makes the plan, if there is none yet.
pub fn carry_out(job: &OpenedJob, cancel: &Cancel) -> anyhow::Result<PlanTotals> {
    match BegunPlan::begin(job, cancel)? {
        Some(begun) => begun.carry_out(job, cancel, &mut |_| {}),
        None => Ok(PlanIndex::read(&job.directory)?.complete.unwrap_or_default()),
    }
}

fn describe(values: &Values, operands: &[OsString]) -> anyhow::Result<JobDescription> {
    let is_sync = values.is_set(&flags::job::SYNC);
    let mut sources = expand(&operands[0])?;
    let own = following_sources(&sources[0], &operands[1..], values.is_set(&flags::job::TARGETS));
    sources.extend(own.iter().cloned());
    let (source, base, name) = source(&sources[0], is_sync)?;
    let source_hosts = source_hosts(&sources)?;
    let targets = targets(values, &operands[1 + own.len()..])?;
    if !source_hosts.is_empty() && targets.len() > 1 {
        return Err(UsageError::new("a job with a remote source has one target")
            .remedy("hosts of the source have the same path: haul job run a:/data b:/data TARGET")
            .into());
    }
    let range_len = range_len(values)?.filter(|_| source_hosts.is_empty());
    let (created, host) = JobDescription::created_here();
    Ok(JobDescription {
        version: version().to_owned(),
        id: JobDescription::new_id()?,
        created,
        host,
        source_hosts,
        source,
        base,
        name,
        targets,
        options: copy_options(values)?,
        is_sync,
        verifies: false,
        sizes: shard_sizes(values)?,
        range_len,
    })
}

/// Operands behind a remote source that are the same path on other hosts. The last operand is a target.
fn following_sources<'a>(first: &OsStr, others: &'a [OsString], has_targets: bool) -> &'a [OsString] {
    let parts = |operand: &OsStr| {
        let host = host_prefix(operand).len();
        (host > 0).then(|| operand.as_bytes()[host..].to_owned())
    };
    let Some(path) = parts(first) else { return &[] };
    let most = if has_targets { others.len() } else { others.len().saturating_sub(1) };
    let same = others[..most].iter().take_while(|operand| parts(operand).as_ref() == Some(&path)).count();
    &others[..same]
}

/// The hosts of sources, each as typed with its colon.
fn source_hosts(sources: &[OsString]) -> Result<Vec<OsString>, UsageError> {
    let hosts: Vec<_> = sources.iter().map(|source| host_prefix(source).to_owned()).collect();
    match hosts.iter().all(|host| host.is_empty()) {
        true if sources.len() == 1 => Ok(Vec::new()),
        true => Err(UsageError::new("a job has one source").remedy("copy the directory above, with filters")),
        false => Ok(hosts),
    }
}

/// Ranges are no deltas: where these were asked for, files are copied whole.
fn range_len(values: &Values) -> Result<Option<RangeLen>, UsageError> {
    let typed = values.get(&flags::job::SHARD_RANGE)?;
    let is_in_place = values.is_set(&flags::INPLACE);
    let has_deltas = is_in_place || values.get(&flags::DELTA)?.is_some_and(|mode| mode != DeltaMode::Off);
    match typed {
        Some(0) => Ok(None),
        Some(_) if is_in_place => Err(in_place_with_ranges()),
        Some(_) if has_deltas => Err(UsageError::new("--shard-range cannot be combined with --delta")
            .remedy("omit one of them: a file with deltas is copied by one shard")),
        None if has_deltas => Ok(None),
        Some(bytes) => Ok(RangeLen::new(bytes).ok()),
        None => Ok(Some(RangeLen::DEFAULT)),
    }
}

fn in_place_with_ranges() -> UsageError {
    UsageError::new("--inplace cannot be combined with ranges of files")
        .remedy("--shard-range 0 copies each file by one shard")
}

/// Shards of a typed size are all of that size.
fn shard_sizes(values: &Values) -> Result<ShardSizes, UsageError> {
    let default = ShardLimits::default();
    let (bytes, files) = (values.get(&flags::job::SHARD_BYTES)?, values.get(&flags::job::SHARD_FILES)?);
    let full = ShardLimits { bytes: bytes.unwrap_or(default.bytes), files: files.unwrap_or(default.files) };
    let named = [values.get(&flags::job::NODES)?, values.get(&flags::job::LIMIT)?].into_iter().flatten().min();
    let is_exact = bytes.is_some() || files.is_some();
    Ok(ShardSizes { full, grows_for: (!is_exact).then_some(named.unwrap_or(SHARDS_AT_A_TIME)) })
}

/// The source, the base of its lists, and its name below that. As in a copy, `.` stands for the contents of a
/// directory, and in a sync a slash at the end does.
fn source(typed: &OsStr, is_sync: bool) -> Result<(PathBuf, PathBuf, OsString), UsageError> {
    let location = parse_operand(typed)?;
    let source = match location.host {
        Host::Local => absolute(&location.path),
        Host::Remote { .. } => location.path,
        Host::Served { .. } => {
            return Err(UsageError::new(format!("{}: a server reads no lists of files", escape(typed.as_bytes())))
                .remedy("plan the job at that host, or name a source with ssh: HOST:PATH"));
        }
    };
    let bytes = &typed.as_bytes()[host_prefix(typed).len()..];
    let last = bytes.strip_suffix(b"/").unwrap_or(bytes).rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    let is_contents = matches!(last, b"" | b"." | b"..") || is_sync && bytes.ends_with(b"/");
    match (source.parent(), source.file_name()) {
        (Some(parent), Some(name)) if !is_contents => {
            let base = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
            Ok((source.clone(), base.into(), name.to_owned()))
        }
        _ => Ok((source.clone(), source, OsString::new())),
    }
}

fn targets(values: &Values, operands: &[OsString]) -> anyhow::Result<Vec<OsString>> {
    let mut words = operands.to_vec();
    if let Some(file) = values.last(&flags::job::TARGETS) {
        let wrong = |error| UsageError::new(format!("--targets {}: {error}", escape(file.as_bytes())));
        let text = fs::read(file).map_err(wrong)?;
        let lines = text.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii).filter(|line| !line.is_empty());
        words.extend(lines.map(|line| OsStr::from_bytes(line).to_owned()));
    }
    let mut targets = Vec::new();
    for word in words.iter().map(|word| expand(word)) {
        for target in word? {
            targets.push(target_word(&target)?);
        }
    }
    match targets.is_empty() {
        false => Ok(targets),
        true => Err(UsageError::new("--targets: the file names no target").remedy("write one target a line").into()),
    }
}

/// A target as any host understands it.
fn target_word(typed: &OsStr) -> Result<OsString, UsageError> {
    let location = parse_operand(typed)?;
    match location.host {
        Host::Local => Ok(absolute(&location.path).into()),
        Host::Remote { .. } => Ok(typed.to_owned()),
        Host::Served { .. } if typed.as_bytes().contains(&b'#') => {
            Err(UsageError::new("a secret in a target would be stored in the job's directory")
                .remedy("write the address without #SECRET, and add --secret-file FILE"))
        }
        Host::Served { .. } => Ok(typed.to_owned()),
    }
}

/// A job that is copied by itself never ends.
fn refuse_overlap(job: &Path, description: &JobDescription) -> Result<(), JobError> {
    let real = |path: &Path| fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let parent = job.parent().map(real).unwrap_or_default();
    let job_path = parent.join(job.file_name().unwrap_or_default());
    let is_local = |target: &&OsString| parse_operand(target).is_ok_and(|at| at.host == Host::Local);
    let targets = description.targets.iter().filter(is_local).map(|target| ("target", real(Path::new(target))));
    let source = (!description.is_pulled()).then(|| ("source", real(&description.source)));
    let places = source.into_iter().chain(targets);
    match places.into_iter().find(|(_, place)| job_path.starts_with(place)) {
        None => Ok(()),
        Some((end, place)) => Err(JobError::usage(
            format!("{}: the job's directory is in the {end} {}", shown(job), shown(&place)),
            "choose another directory with --dir",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_has_its_name_as_in_a_copy() {
        let parts = |typed: &str, is_sync| {
            let (source, base, name) = source(OsStr::new(typed), is_sync).unwrap();
            [source, base, name.into()].map(|part: PathBuf| part.into_os_string().into_string().unwrap())
        };
        for (typed, is_sync, base, name) in [
            ("/a/b", false, "/a", "b"),
            ("/a/b/", false, "/a", "b"),
            ("/a/b", true, "/a", "b"),
            ("/a/b/", true, "/a/b/", ""),
            ("/a/b/.", false, "/a/b/.", ""),
            ("/", false, "/", ""),
            ("u@h:/a/b", false, "/a", "b"),
            ("h:b", false, ".", "b"),
            ("h:", false, ".", ""),
            ("h:~/b/", true, "b", ""),
        ] {
            let [_, found, own] = parts(typed, is_sync);
            let plain = |path: &str| Path::new(path).components().collect::<PathBuf>();
            assert_eq!((plain(&found), own.as_str()), (plain(base), name), "{typed}");
        }
        assert!(source(OsStr::new("haul://h/a"), false).is_err());
    }

    #[test]
    fn sources_are_one_path_on_several_hosts_and_the_last_operand_is_a_target() {
        let words = |text: &str| text.split(' ').map(OsString::from).collect::<Vec<_>>();
        for (line, has_targets, expected) in [
            ("a:/x b:/x /t", false, 1),
            ("a:/x b:/x u@c:/x d:/t", false, 2),
            ("a:/x b:/x", false, 0),
            ("a:/x b:/x", true, 1),
            ("a:/x b:/y /t", false, 0),
            ("/x b:/x /t", false, 0),
        ] {
            let words = words(line);
            assert_eq!(following_sources(&words[0], &words[1..], has_targets).len(), expected, "{line}");
        }
        assert_eq!(source_hosts(&words("u@a:/x b:/x")).unwrap(), words("u@a: b:"));
        assert_eq!(source_hosts(&words("/x")).unwrap(), Vec::<OsString>::new());
    }

    #[test]
    fn longer_ranges_are_said() {
        let said = "ranges of 1 file are longer than --shard-range: a file has at most 1,048,576";
        assert_eq!(lengthened(1), said);
    }

    #[test]
    fn no_secret_is_stored() {
        assert!(target_word(OsStr::new("haul://h:1/#secret")).is_err());
        assert_eq!(target_word(OsStr::new("u@h:x")).unwrap(), "u@h:x");
        assert!(target_word(OsStr::new("x")).unwrap().as_bytes().starts_with(b"/"));
    }
}
