//! A survey, for programs: one object a line (docs/JSON.md).

use haul_engine::survey::{CompressionSample, DuplicateFiles, FileTotals, Survey, TargetSurvey};
use haul_proto::checksum::hex;
use serde_json::{Map, Value, json};

use super::SurveyView;
use super::outlook::Outlook;
use crate::show::json::{JsonLine, name_of};

/// All lines; `status` is the exit status.
pub fn lines(shown: &SurveyView<'_>, status: u8) -> String {
    let SurveyView { survey, outlook, .. } = shown;
    let mut lines = Vec::new();
    for (path, why) in &survey.unreadable.first {
        lines.push(JsonLine::new("failed").path(path).with("host", "this machine").with("message", why.as_str()));
    }
    lines.extend(tables(survey));
    lines.extend(survey.duplicates.iter().flat_map(sets));
    lines.push(summary(survey, outlook).with("status", status));
    lines.into_iter().map(JsonLine::ended).collect()
}

fn tables(survey: &Survey) -> impl Iterator<Item = JsonLine> {
    let sizes = survey.sizes.iter().map(|class| {
        let line = JsonLine::new("sizes").with("from", class.from).with("below", class.below);
        with_sum(line, &class.sum)
    });
    let directories = survey.directories.iter().map(|big| {
        let line = with_sum(JsonLine::new("directory").path(&big.path), &big.all);
        line.with("own_files", big.own.files).with("own_bytes", big.own.bytes)
    });
    let files = survey.files.iter().map(|big| JsonLine::new("big_file").path(&big.path).with("bytes", big.bytes));
    let kinds = survey.kinds.iter().map(|kind| {
        with_sum(JsonLine::new("type").with("ending", String::from_utf8_lossy(&kind.ending).into_owned()), &kind.sum)
    });
    let others = (survey.other_kinds.files > 0)
        .then(|| with_sum(JsonLine::new("type").with("ending", Value::Null), &survey.other_kinds));
    sizes.chain(directories).chain(files).chain(kinds).chain(others)
}

fn with_sum(line: JsonLine, sum: &FileTotals) -> JsonLine {
    line.with("files", sum.files).with("bytes", sum.bytes)
}

fn sets(found: &DuplicateFiles) -> impl Iterator<Item = JsonLine> {
    found.biggest.iter().map(|set| {
        let paths: Vec<Value> = set.paths.iter().map(|path| name_of(path).into()).collect();
        let line = JsonLine::new("duplicates").with("files", set.files).with("bytes", set.bytes);
        line.with("spare_bytes", set.saves()).with("blake3", hex(&set.digest)).with("first", paths)
    })
}

fn summary(survey: &Survey, outlook: &Outlook) -> JsonLine {
    let totals = &survey.totals;
    JsonLine::new("summary")
        .with("files", totals.files.files)
        .with("bytes", totals.files.bytes)
        .with("data_bytes", totals.data_bytes)
        .with("directories", totals.directories)
        .with("links", totals.links)
        .with("others", totals.others)
        .with("linked", sum(&totals.linked))
        .with("filtered", totals.filtered)
        .with("left_out", totals.left_out)
        .with("unreadable", survey.unreadable.count)
        .with("duplicates", survey.duplicates.as_ref().map(duplicates))
        .with("compression", survey.sample.as_ref().map(sample))
        .with("target", survey.there.as_ref().map(there))
        .with("estimate", estimate(outlook))
}

fn sum(FileTotals { files, bytes }: &FileTotals) -> Value {
    json!({"files": files, "bytes": bytes})
}

fn duplicates(found: &DuplicateFiles) -> Value {
    json!({
        "sets": found.sets,
        "spare": sum(&found.spare),
        "read_bytes": found.read,
        "late": sum(&found.late),
        "not_held": sum(&found.left_out),
        "held_from": found.held_from,
        "failed": found.failed,
    })
}

fn sample(sample: &CompressionSample) -> Value {
    let methods = sample.methods.iter().map(|packed| {
        json!({
            "codec": packed.method.codec().name(),
            "level": packed.method.level(),
            "ratio": 1.0 / packed.left.max(1e-6),
            "bytes_per_s": packed.bytes_per_s,
        })
    });
    json!({
        "files": sample.files,
        "bytes": sample.bytes,
        "stubborn": sample.stubborn,
        "methods": methods.collect::<Vec<_>>(),
    })
}

fn there(there: &TargetSurvey) -> Value {
    json!({
        "same": sum(&there.same),
        "differs": sum(&there.differs),
        "missing": sum(&there.missing),
        "send_bytes": there.send_bytes,
    })
}

fn estimate(outlook: &Outlook) -> Value {
    let Outlook::Measured { host, figures, bytes, time } = outlook else { return Value::Null };
    let mut told = Map::new();
    told.insert("host".into(), host.as_str().into());
    told.insert("bytes".into(), (*bytes).into());
    told.insert("bytes_per_s".into(), figures.bytes_per_s.into());
    told.insert("seconds".into(), time.as_secs_f64().into());
    told.insert("measured".into(), figures.when.as_str().into());
    told.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::survey::contents::tests::{example, shown};

    #[test]
    fn everything_is_a_line_of_json() {
        let (survey, outlook) = (example(), Outlook::NoHost);
        let lines = lines(&shown(&survey, &outlook), 1);
        assert!(lines.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()), "{lines}");
        insta::assert_snapshot!(lines);
    }
}
