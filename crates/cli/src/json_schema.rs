//! The JSON Schema of all lines (docs/reference/json.schema.json), generated from their types.

use std::fs;

use haul_job::report_text::ReportLine;
use haul_job::status_text::JobStatusLine;
use haul_show::json::{FailureLine, NoticeLine, TargetLine};
use haul_show::partials::PartialLine;
use haul_show::served::ServeLine;
use schemars::generate::{SchemaGenerator, SchemaSettings};
use schemars::{JsonSchema, Schema};
use serde_json::{Map, Value, json};

use crate::commands::config::OptionLine;
use crate::commands::copies::CopyLine;
use crate::commands::files::lines::FileLine;
use crate::commands::net::json::NetLine;
use crate::commands::sweep::SweepLine;
use crate::commands::twoway::lines::TwowayLine;
use crate::probe::json::ProbeLine;
use crate::survey::json::SurveyLine;

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/json.schema.json");
/// With this variable in the environment, the test writes the file.
const WRITE: &str = "HAUL_WRITE_SCHEMA";

type Part = fn(&mut SchemaGenerator) -> Schema;

/// The types of the lines of each command.
const COMMANDS: [(&str, &[Part]); 13] = [
    ("copy", &[line::<TargetLine<'_>>]),
    ("status", &[line::<PartialLine>]),
    ("serve", &[line::<ServeLine<'_>>]),
    ("config", &[line::<OptionLine<'_>>]),
    ("files", &[line::<FileLine>]),
    ("probe", &[line::<ProbeLine<'_>>]),
    ("net", &[line::<NetLine<'_>>, line::<NoticeLine>]),
    ("survey", &[line::<SurveyLine<'_>>]),
    ("sweep", &[line::<SweepLine<'_>>]),
    ("job", &[line::<JobStatusLine<'_>>, line::<ReportLine<'_>>, line::<TargetLine<'_>>]),
    ("copies", &[line::<CopyLine<'_>>]),
    ("twoway", &[line::<TwowayLine>]),
    ("failures", &[line::<FailureLine<'_>>]),
];

fn line<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

/// Forbids undeclared fields. An object also closes the alternatives of its fields.
fn close(schema: &mut Value, is_alternative: bool) {
    const COMBINE: [&str; 2] = ["anyOf", "oneOf"];
    match schema {
        Value::Array(all) => all.iter_mut().for_each(|one| close(one, is_alternative)),
        Value::Object(keys) => {
            let is_closed = keys.contains_key("properties") && !is_alternative;
            let combines = is_closed && COMBINE.iter().any(|key| keys.contains_key(*key));
            keys.iter_mut().for_each(|(key, value)| close(value, combines && COMBINE.contains(&key.as_str())));
            if is_closed {
                let key = if combines { "unevaluatedProperties" } else { "additionalProperties" };
                keys.insert(key.into(), false.into());
            }
        }
        _ => {}
    }
}

fn schema() -> Value {
    let mut generator = SchemaSettings::draft2020_12().for_serialize().into_generator();
    let commands: Map<_, _> = COMMANDS
        .iter()
        .map(|(name, parts)| {
            let parts: Vec<Value> = parts.iter().map(|part| part(&mut generator).to_value()).collect();
            ((*name).to_owned(), json!({ "anyOf": parts }))
        })
        .collect();
    let mut all = generator.take_definitions(true);
    all.extend(commands);
    let mut schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A line of haul --json",
        "anyOf": COMMANDS.map(|(name, _)| json!({ "$ref": format!("#/$defs/{name}") })),
        "$defs": all,
    });
    close(&mut schema, false);
    schema
}

#[test]
fn the_published_schema_matches_the_types() {
    let text = format!("{:#}\n", schema());
    if std::env::var_os(WRITE).is_some() {
        fs::write(PATH, &text).unwrap();
    }
    let hint = "docs/reference/json.schema.json is not up to date: HAUL_WRITE_SCHEMA=1 cargo test --bin haul schema";
    assert!(fs::read_to_string(PATH).unwrap_or_default() == text, "{hint}");
}
