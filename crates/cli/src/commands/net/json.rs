//! The events of `haul net`.

use haul_show::json::{TransportFields, sorted};
use serde::Serialize;

use super::figures::{IntervalFigures, NetFigures};

/// A line of `haul net --json`.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "event", rename_all = "snake_case")]
#[allow(missing_docs, reason = "docs/JSON.md describes each field")]
pub enum NetLine<'a> {
    Connected {
        #[serde(serialize_with = "sorted")]
        transport: TransportFields<'a>,
    },
    NetInterval(IntervalFigures),
    Net {
        #[serde(flatten)]
        figures: &'a NetFigures,
        limited_by: &'static str,
        status: u8,
    },
}
