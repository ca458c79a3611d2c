//! A survey as JSON, one object per line (docs/JSON.md).

use haul_inspect::survey::{CompressionSample, DuplicateFiles, DuplicateSet, FileTotals, Survey, TargetSurvey};
use haul_proto::checksum::hex;
use haul_show::json::{CompressionFields, JsonMessage, JsonName, encode};
use serde::Serialize;

use super::SurveyView;
use super::outlook::Outlook;

/// A line of `haul survey --json`.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "event", rename_all = "snake_case")]
#[allow(missing_docs, reason = "docs/JSON.md describes each field")]
pub enum SurveyLine<'a> {
    Failed {
        #[serde(flatten)]
        name: JsonName,
        host: &'static str,
        message: JsonMessage,
    },
    Sizes {
        from: u64,
        below: u64,
        #[serde(flatten)]
        sum: TotalsFields,
    },
    Directory {
        #[serde(flatten)]
        name: JsonName,
        #[serde(flatten)]
        all: TotalsFields,
        own_files: u64,
        own_bytes: u64,
    },
    BigFile {
        #[serde(flatten)]
        name: JsonName,
        bytes: u64,
    },
    Type {
        ending: Option<String>,
        #[serde(flatten)]
        sum: TotalsFields,
    },
    Duplicates {
        #[serde(flatten)]
        each: TotalsFields,
        spare_bytes: u64,
        blake3: String,
        first: Vec<JsonName>,
    },
    Summary(Box<SurveySummaryFields<'a>>),
}

/// The last line.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
pub struct SurveySummaryFields<'a> {
    #[serde(flatten)]
    found: FoundFields,
    filtered: u64,
    left_out: u64,
    unreadable: u64,
    duplicates: Option<DuplicatesFields>,
    compression: Option<SampleFields>,
    target: Option<TargetFields>,
    estimate: Option<EstimateFields<'a>>,
    status: u8,
}

/// All entries.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct FoundFields {
    #[serde(flatten)]
    sum: TotalsFields,
    data_bytes: u64,
    directories: u64,
    links: u64,
    others: u64,
    linked: SumFields,
}

/// A number of files and their bytes, within a line.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct TotalsFields {
    files: u64,
    bytes: u64,
}

/// Files and bytes as an object.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct SumFields {
    bytes: u64,
    files: u64,
}

/// Equal files.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct DuplicatesFields {
    failed: u64,
    held_from: u64,
    late: SumFields,
    not_held: SumFields,
    read_bytes: u64,
    sets: u64,
    spare: SumFields,
}

/// The compressibility of data.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct SampleFields {
    bytes: u64,
    files: u64,
    methods: Vec<MethodFields>,
    stubborn: f64,
}

/// A method of compression, and its speed.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct MethodFields {
    bytes_per_s: Option<f64>,
    #[serde(flatten)]
    gain: CompressionFields,
}

/// A comparison with a target.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct TargetFields {
    differs: SumFields,
    missing: SumFields,
    same: SumFields,
    send_bytes: u64,
}

/// The estimated time of a copy.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct EstimateFields<'a> {
    bytes: u64,
    bytes_per_s: f64,
    host: &'a str,
    measured: &'a str,
    seconds: f64,
}

/// All lines; `status` is the exit status.
pub fn lines(shown: &SurveyView<'_>, status: u8) -> String {
    let SurveyView { survey, outlook, .. } = shown;
    let unreadable = survey.unreadable.first.iter().map(|(path, why)| SurveyLine::Failed {
        name: path.as_slice().into(),
        host: "this machine",
        message: why.as_str().into(),
    });
    let sets = survey.duplicates.iter().flat_map(|found| &found.biggest).map(duplicate_set);
    let summary = SurveyLine::Summary(Box::new(SurveySummaryFields::new(survey, outlook, status)));
    unreadable.chain(tables(survey)).chain(sets).chain([summary]).map(|line| encode(&line)).collect()
}

fn tables(survey: &Survey) -> impl Iterator<Item = SurveyLine<'_>> {
    let sizes = survey.sizes.iter().map(|class| {
        let (from, below) = (class.from, class.below);
        SurveyLine::Sizes { from, below, sum: class.sum.into() }
    });
    let directories = survey.directories.iter().map(|big| SurveyLine::Directory {
        name: big.path.as_slice().into(),
        all: big.all.into(),
        own_files: big.own.files,
        own_bytes: big.own.bytes,
    });
    let files = survey.files.iter();
    let files = files.map(|big| SurveyLine::BigFile { name: big.path.as_slice().into(), bytes: big.bytes });
    let kinds = survey.kinds.iter().map(|kind| {
        let ending = Some(String::from_utf8_lossy(&kind.ending).into_owned());
        SurveyLine::Type { ending, sum: kind.sum.into() }
    });
    let others = survey.other_kinds;
    let others = (others.files > 0).then(|| SurveyLine::Type { ending: None, sum: others.into() });
    sizes.chain(directories).chain(files).chain(kinds).chain(others)
}

fn duplicate_set(set: &DuplicateSet) -> SurveyLine<'_> {
    SurveyLine::Duplicates {
        each: TotalsFields { files: set.files, bytes: set.bytes },
        spare_bytes: set.saves(),
        blake3: hex(&set.digest),
        first: set.paths.iter().map(|path| path.as_slice().into()).collect(),
    }
}

impl<'a> SurveySummaryFields<'a> {
    fn new(survey: &Survey, outlook: &'a Outlook, status: u8) -> Self {
        let totals = &survey.totals;
        Self {
            found: FoundFields {
                sum: totals.files.into(),
                data_bytes: totals.data_bytes,
                directories: totals.directories,
                links: totals.links,
                others: totals.others,
                linked: totals.linked.into(),
            },
            filtered: totals.filtered,
            left_out: totals.left_out,
            unreadable: survey.unreadable.count,
            duplicates: survey.duplicates.as_ref().map(DuplicatesFields::from),
            compression: survey.sample.as_ref().map(SampleFields::from),
            target: survey.there.as_ref().map(TargetFields::from),
            estimate: EstimateFields::of(outlook),
            status,
        }
    }
}

impl From<FileTotals> for TotalsFields {
    fn from(FileTotals { files, bytes }: FileTotals) -> Self {
        Self { files, bytes }
    }
}

impl From<FileTotals> for SumFields {
    fn from(FileTotals { files, bytes }: FileTotals) -> Self {
        Self { bytes, files }
    }
}

impl From<&DuplicateFiles> for DuplicatesFields {
    fn from(found: &DuplicateFiles) -> Self {
        Self {
            failed: found.failed,
            held_from: found.held_from,
            late: found.late.into(),
            not_held: found.left_out.into(),
            read_bytes: found.read,
            sets: found.sets,
            spare: found.spare.into(),
        }
    }
}

impl From<&CompressionSample> for SampleFields {
    fn from(sample: &CompressionSample) -> Self {
        let methods = sample.methods.iter().map(|packed| MethodFields {
            bytes_per_s: packed.bytes_per_s,
            gain: CompressionFields::new(packed.method, 1.0 / packed.left.max(1e-6)),
        });
        Self { bytes: sample.bytes, files: sample.files, methods: methods.collect(), stubborn: sample.stubborn }
    }
}

impl From<&TargetSurvey> for TargetFields {
    fn from(there: &TargetSurvey) -> Self {
        Self {
            differs: there.differs.into(),
            missing: there.missing.into(),
            same: there.same.into(),
            send_bytes: there.send_bytes,
        }
    }
}

impl<'a> EstimateFields<'a> {
    /// The estimate; `None` without measurements of the host.
    fn of(outlook: &'a Outlook) -> Option<Self> {
        let Outlook::Measured { host, figures, bytes, time } = outlook else { return None };
        let (bytes_per_s, measured) = (figures.bytes_per_s, figures.when.as_str());
        Some(Self { bytes: *bytes, bytes_per_s, host, measured, seconds: time.as_secs_f64() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::survey::contents::tests::{example, shown};

    #[test]
    fn everything_is_a_line_of_json() {
        let (survey, outlook) = (example(), Outlook::NoHost);
        let lines = lines(&shown(&survey, &outlook), 1);
        assert!(lines.lines().all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok()), "{lines}");
        insta::assert_snapshot!(lines);
    }
}
