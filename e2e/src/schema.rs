//! The published schema of lines of `haul --json`.

use std::sync::LazyLock;

use jsonschema::Validator;
use serde_json::Value;

static SCHEMA: LazyLock<Validator> = LazyLock::new(|| {
    let text = include_str!("../../docs/reference/json.schema.json");
    let schema = serde_json::from_str(text).expect("the schema is JSON");
    jsonschema::validator_for(&schema).expect("a valid schema")
});

/// Checks that the schema allows a line.
#[track_caller]
pub fn assert_valid(line: &Value) {
    assert!(SCHEMA.is_valid(line), "docs/reference/json.schema.json does not allow {line}");
}
