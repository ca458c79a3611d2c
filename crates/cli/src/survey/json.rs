//! A survey as JSON, one object per line (docs/JSON.md).

use haul_inspect::survey::{
    CompressionSample, DuplicateFiles, DuplicateSet, FileTotals, SizeClass, Survey, SurveyTotals, TargetSurvey,
};
use haul_proto::checksum::hex;
use haul_show::json::{JsonMessage, JsonName, encode, sorted};
use serde::Serialize;

use super::SurveyView;
use super::outlook::CopyEstimate;

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
    Sizes(SizeClass),
    Directory {
        #[serde(flatten)]
        name: JsonName,
        #[serde(flatten)]
        all: FileTotals,
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
        sum: FileTotals,
    },
    Duplicates {
        files: u64,
        bytes: u64,
        spare_bytes: u64,
        blake3: String,
        first: Vec<JsonName>,
    },
    Summary {
        #[serde(flatten)]
        totals: &'a SurveyTotals,
        unreadable: u64,
        #[serde(serialize_with = "sorted")]
        duplicates: &'a Option<DuplicateFiles>,
        #[serde(serialize_with = "sorted")]
        compression: &'a Option<CompressionSample>,
        #[serde(serialize_with = "sorted")]
        target: &'a Option<TargetSurvey>,
        estimate: Option<&'a CopyEstimate>,
        status: u8,
    },
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
    let summary = SurveyLine::Summary {
        totals: &survey.totals,
        unreadable: survey.unreadable.count,
        duplicates: &survey.duplicates,
        compression: &survey.sample,
        target: &survey.there,
        estimate: outlook.estimate(),
        status,
    };
    unreadable.chain(tables(survey)).chain(sets).chain([summary]).map(|line| encode(&line)).collect()
}

fn tables(survey: &Survey) -> impl Iterator<Item = SurveyLine<'_>> {
    let sizes = survey.sizes.iter().map(|class| SurveyLine::Sizes(*class));
    let directories = survey.directories.iter().map(|big| SurveyLine::Directory {
        name: big.path.as_slice().into(),
        all: big.all,
        own_files: big.own.files,
        own_bytes: big.own.bytes,
    });
    let files = survey.files.iter();
    let files = files.map(|big| SurveyLine::BigFile { name: big.path.as_slice().into(), bytes: big.bytes });
    let kinds = survey.kinds.iter().map(|kind| {
        let ending = Some(String::from_utf8_lossy(&kind.ending).into_owned());
        SurveyLine::Type { ending, sum: kind.sum }
    });
    let others = survey.other_kinds;
    let others = (others.files > 0).then_some(SurveyLine::Type { ending: None, sum: others });
    sizes.chain(directories).chain(files).chain(kinds).chain(others)
}

fn duplicate_set(set: &DuplicateSet) -> SurveyLine<'_> {
    SurveyLine::Duplicates {
        files: set.files,
        bytes: set.bytes,
        spare_bytes: set.saves(),
        blake3: hex(&set.digest),
        first: set.paths.iter().map(|path| path.as_slice().into()).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::outlook::Outlook;
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
