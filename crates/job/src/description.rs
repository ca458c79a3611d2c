//! The description of a job: `JOB/job.json`, written once.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use haul_base::copy::spec::RangeLen;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::byte_words::{from_json, to_json};
use crate::directory::JobDirectory;
use crate::error::{JobError, shown};
use crate::options::JobOptions;
use crate::packer::{ShardLimits, ShardSizes};
use crate::this_host::{host_name, random_label};

/// The format of a job's directory.
pub const FORMAT: u64 = 3;

/// The description of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobDescription {
    /// A random id, which distinguishes jobs in one directory.
    pub id: String,
    /// Where and when it was planned.
    pub origin: JobOrigin,
    /// Remote hosts with the source, each as typed with its colon; empty for this host. Shards take turns.
    pub source_hosts: Vec<OsString>,
    /// The source as typed; on this host, made absolute.
    pub source: PathBuf,
    /// The base of paths in lists: the source, or the directory above it.
    pub base: PathBuf,
    /// The source's own name below the base; empty if the base is the source.
    pub name: OsString,
    /// At least one; shards take turns.
    pub targets: Vec<OsString>,
    /// Options of its copies.
    pub options: JobOptions,
    /// Options as typed, for people.
    pub words: Vec<OsString>,
    /// Whether it is a sync.
    pub is_sync: bool,
    /// Whether its shards compare another job's files ([`crate::comparison`]).
    pub verifies: bool,
    /// Sizes of shards.
    pub sizes: ShardSizes,
    /// Larger files are copied in ranges of this length; `None` for no ranges.
    pub range_len: Option<RangeLen>,
}

/// Where and when a job was planned.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JobOrigin {
    /// The version of haul for the plan and the shards.
    pub version: String,
    /// The time, as text.
    pub created: String,
    /// The planning host.
    pub host: String,
}

impl JobOrigin {
    /// A plan made by `version` on this host, now.
    pub fn here(version: &str) -> Self {
        let created = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        Self { version: version.to_owned(), created, host: host_name() }
    }
}

impl JobDescription {
    /// A new random id.
    pub fn new_id() -> Result<String, JobError> {
        random_label().map_err(|error| JobError::io(Path::new("/dev/urandom"), &error))
    }

    /// Writes the description, which makes the directory a job.
    pub fn write(&self, job: &JobDirectory) -> Result<(), JobError> {
        let words = |words: &[OsString]| words.iter().map(|word| to_json(word)).collect::<Vec<_>>();
        let value = json!({
            "format": FORMAT,
            "haul": self.origin.version,
            "id": self.id,
            "created": self.origin.created,
            "host": self.origin.host,
            "source_hosts": words(&self.source_hosts),
            "source": to_json(self.source.as_os_str()),
            "base": to_json(self.base.as_os_str()),
            "name": to_json(&self.name),
            "targets": words(&self.targets),
            "options": serde_json::to_value(&self.options).map_err(|error| unwritable(job, &error))?,
            "typed": words(&self.words),
            "sync": self.is_sync,
            "verify": self.verifies,
            "shard_bytes": self.sizes.full.bytes,
            "shard_files": self.sizes.full.files,
            "shards_grow_for": self.sizes.grows_for,
            "shard_range": self.range_len.map(RangeLen::get),
        });
        job.description().replace(format!("{value:#}\n").as_bytes())
    }

    /// Reads the description of `job`; `version` is this program's.
    pub fn read(job: &JobDirectory, version: &str) -> Result<Self, JobError> {
        let file = job.description();
        let damaged = |why: &str| JobError::damaged(file.path(), why);
        let text = file.read_text()?.ok_or_else(|| damaged("it is gone"))?;
        let value: Value = serde_json::from_str(&text).map_err(|error| damaged(&error.to_string()))?;
        let format = value["format"].as_u64();
        let planned_by = value["haul"].as_str().unwrap_or("another program");
        if format != Some(FORMAT) {
            let format = format.map_or_else(|| "unknown".to_owned(), |format| format.to_string());
            return Err(JobError::usage(
                format!(
                    "{}: a plan of format {format}, and this haul ({version}) reads format {FORMAT}",
                    shown(job.path())
                ),
                format!("it was planned by haul {planned_by}: use that version, or plan the job again"),
            ));
        }
        if planned_by != version {
            return Err(JobError::usage(
                format!("{}: planned by haul {planned_by}, and this is haul {version}", shown(job.path())),
                "install one version on all hosts of a job",
            ));
        }
        Self::parse(&value).ok_or_else(|| damaged("a field is missing"))
    }

    fn parse(value: &Value) -> Option<Self> {
        let text = |name: &str| value[name].as_str().map(str::to_owned);
        let word = |name: &str| from_json(&value[name]);
        let words = |name: &str| value[name].as_array()?.iter().map(from_json).collect::<Option<Vec<_>>>();
        let full = ShardLimits {
            bytes: value["shard_bytes"].as_u64().filter(|bytes| *bytes > 0)?,
            files: value["shard_files"].as_u64().filter(|files| *files > 0)?,
        };
        let grows_for = value["shards_grow_for"].as_u64().and_then(|at_once| u32::try_from(at_once).ok());
        let sizes = ShardSizes { full, grows_for: grows_for.filter(|at_once| *at_once > 0) };
        Some(Self {
            id: text("id")?,
            origin: JobOrigin { version: text("haul")?, created: text("created")?, host: text("host")? },
            source_hosts: words("source_hosts")?,
            source: word("source")?.into(),
            base: word("base")?.into(),
            name: word("name")?,
            targets: words("targets").filter(|targets| !targets.is_empty())?,
            options: serde_json::from_value(value["options"].clone()).ok()?,
            words: words("typed")?,
            is_sync: value["sync"].as_bool()?,
            verifies: value["verify"].as_bool()?,
            sizes,
            range_len: match value["shard_range"].as_u64() {
                Some(bytes) => Some(RangeLen::new(bytes).ok()?),
                None => None,
            },
        })
    }

    /// The pairs of ends, on which shards take turns: at least one; all with one source or one target.
    pub fn ends(&self) -> Vec<PartEnds> {
        let of = |source_host: &OsStr, target: &OsString| PartEnds {
            source_host: source_host.to_owned(),
            target: target.clone(),
        };
        let first_host = self.source_hosts.first().map_or(OsStr::new(""), OsString::as_os_str);
        match (self.source_hosts.len(), self.targets.first()) {
            (2.., Some(target)) => self.source_hosts.iter().map(|host| of(host, target)).collect(),
            _ => self.targets.iter().map(|target| of(first_host, target)).collect(),
        }
    }

    /// Whether the source is on another host.
    pub fn is_pulled(&self) -> bool {
        !self.source_hosts.is_empty()
    }

    /// Whether `new` is planned by the same command line. Hosts differ in how many shards they copy at a time.
    pub fn is_same_command(&self, new: &Self) -> bool {
        let mut own = Self { id: new.id.clone(), origin: new.origin.clone(), ..self.clone() };
        if let (Some(_), Some(at_once)) = (own.sizes.grows_for, new.sizes.grows_for) {
            own.sizes.grows_for = Some(at_once);
        }
        if own.options.is_same(&new.options) {
            own.options = new.options.clone();
        }
        own == *new
    }
}

/// Why options cannot be stored: a name in them is not UTF-8.
fn unwritable(job: &JobDirectory, error: &serde_json::Error) -> JobError {
    JobError::usage(format!("{}: its options cannot be stored: {error}", shown(job.path())), "use names in UTF-8")
}

/// The ends of a copy of a part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartEnds {
    /// The source's host as typed, with its colon; empty: this one.
    pub source_host: OsString,
    /// The target as typed.
    pub target: OsString,
}

impl PartEnds {
    /// `path` at the source, as an operand.
    pub fn at_source(&self, path: &OsStr) -> OsString {
        [&self.source_host, path].into_iter().collect()
    }
}

/// The operand of a copy of the whole source. Without a name, its contents are meant.
pub fn source_operand(host: &OsStr, source: &Path, name: &OsStr) -> OsString {
    let contents = if name.is_empty() { "/." } else { "" };
    [host, source.as_os_str(), OsStr::new(contents)].into_iter().collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt;

    use haul_base::copy::spec::{ListSyntax, PatternList};
    use haul_proto::path::Name;

    use super::*;

    fn options() -> JobOptions {
        let mut options = JobOptions::default();
        options.copy.metadata.preserve.hard_links = true;
        options.copy.streams.rate_bytes_per_s = Some(50 << 20);
        options.copy.source.filters.lists =
            vec![PatternList { text: b"\xff".to_vec(), syntax: ListSyntax::File, includes: false }];
        options.copy.source.filters.files = vec![Name::new(b".gitignore").unwrap()];
        options
    }

    fn description() -> JobDescription {
        JobDescription {
            id: "0011223344556677".to_owned(),
            origin: JobOrigin {
                version: "0.1.0".to_owned(),
                created: "2026-11-25T00:00:00Z".to_owned(),
                host: "login1".to_owned(),
            },
            source_hosts: vec!["u@h:".into()],
            source: OsStr::from_bytes(b"/data/\xff").into(),
            base: "/data".into(),
            name: OsStr::from_bytes(b"\xff").to_owned(),
            targets: vec!["dtn1:/a b".into(), "dtn2:/a b".into()],
            options: options(),
            words: vec!["--archive".into(), OsStr::from_bytes(b"--exclude=\xff").to_owned()],
            is_sync: false,
            verifies: false,
            sizes: ShardSizes::default(),
            range_len: Some(RangeLen::DEFAULT),
        }
    }

    #[test]
    fn everything_that_the_command_line_decides_tells_jobs_apart() {
        let new = description();
        let origin = JobOrigin { version: "0.1.0".to_owned(), ..JobOrigin::default() };
        assert!(JobDescription { id: String::new(), origin, ..description() }.is_same_command(&new));
        let is_same = |change: fn(&mut JobDescription)| {
            let mut planted = description();
            change(&mut planted);
            planted.is_same_command(&new)
        };
        let changes: [fn(&mut JobDescription); 10] = [
            |planted| planted.source = "/home/victim".into(),
            |planted| planted.base = "/home/victim".into(),
            |planted| planted.is_sync = true,
            |planted| planted.verifies = true,
            |planted| planted.name = "other".into(),
            |planted| planted.options.access.source_command = Some("sh".to_owned()),
            |planted| planted.targets.truncate(1),
            |planted| planted.source_hosts.clear(),
            |planted| planted.sizes.full.files += 1,
            |planted| planted.range_len = None,
        ];
        assert_eq!(changes.map(is_same), [false; 10]);
    }

    #[test]
    fn a_description_round_trips() {
        let temp = tempfile::tempdir().unwrap();
        let job = JobDirectory::create(&temp.path().join("job")).unwrap();
        let written = description();
        written.write(&job).unwrap();
        assert_eq!(JobDescription::read(&job, "0.1.0"), Ok(written.clone()));
        assert!(written.options.keeps_hard_links() && !written.options.deletes());
        let other = JobDescription::read(&job, "0.2.0").unwrap_err().to_string();
        assert!(other.contains("planned by haul 0.1.0, and this is haul 0.2.0"), "{other}");
        let text = job.description().read_text().unwrap().unwrap();
        for (from, to, why) in [
            ("\"format\": 3", "\"format\": 1", "a plan of format 1, and this haul (0.1.0) reads format 3"),
            ("\"recursive\": false", "\"recursive\": 7", "a field is missing"),
            ("\"shard_files\": 500000", "\"shard_files\": 0", "a field is missing"),
            ("\"shard_range\": 68719476736", "\"shard_range\": 3", "a field is missing"),
            ("{", "[", "job.json"),
        ] {
            job.description().replace(text.replacen(from, to, 1).as_bytes()).unwrap();
            let error = JobDescription::read(&job, "0.1.0").unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }
}
