//! The limits that a verdict can name.

use serde_json::Value;

/// A limit by its name in `--json`, with the resource if that matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claim {
    /// `limit`.
    pub limit: &'static str,
    /// `detail`; none where any will do.
    pub detail: Option<&'static str>,
}

impl Claim {
    /// A limit, whatever the detail.
    pub const fn of(limit: &'static str) -> Self {
        Self { limit, detail: None }
    }

    /// A limit with this detail.
    pub const fn with(limit: &'static str, detail: &'static str) -> Self {
        Self { limit, detail: Some(detail) }
    }

    /// Whether `verdict` names it.
    pub fn covers(self, verdict: &Value) -> bool {
        verdict["limit"] == self.limit && self.detail.is_none_or(|detail| verdict["detail"] == detail)
    }

    /// In words.
    pub fn text(self) -> String {
        words(self.limit, self.detail)
    }
}

/// A limit and its detail, in words.
pub fn words(limit: &str, detail: Option<&str>) -> String {
    detail.map_or(limit.to_owned(), |detail| format!("{limit} ({detail})"))
}
