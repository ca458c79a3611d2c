//! Judges a verdict.

use serde_json::Value;

use super::cases::DiagnoseCase;
use super::claim::words;
use super::parts::disagreement;

/// The result of a case.
#[derive(Debug, Clone, PartialEq)]
pub enum Ruling {
    /// The verdict names the limit.
    Right,
    /// It names something else, or there is none.
    Wrong,
    /// The case could not be made on this machine.
    Skipped(String),
    /// The case could not be made, or the copy failed.
    Failed(String),
}

/// A case that was tried.
#[derive(Debug, Clone)]
pub struct CaseOutcome {
    /// Its name.
    pub name: String,
    /// Its settings, in words.
    pub settings: String,
    /// The right verdict.
    pub expected: String,
    /// haul's verdict.
    pub given: String,
    /// How sure it was.
    pub share: Option<f64>,
    /// The judgement.
    pub ruling: Ruling,
    /// Processors that something else than the copy had, on average.
    pub others: f64,
    /// The copy's last event.
    pub summary: Value,
}

impl CaseOutcome {
    /// Compares a summary with the case's expectation.
    pub fn judge(case: &DiagnoseCase, made: Result<Value, Ruling>) -> Self {
        let (summary, failure) = match made {
            Ok(summary) => (summary, None),
            Err(why) => (Value::Null, Some(why)),
        };
        let verdict = &summary["verdict"];
        let other = disagreement(&summary, case.scene.is_busy);
        let right = other.is_none() && case.expected().iter().any(|claim| claim.covers(verdict));
        let ruling = failure.unwrap_or(if right { Ruling::Right } else { Ruling::Wrong });
        let given = match verdict["limit"].as_str() {
            Some(limit) => words(limit, verdict["detail"].as_str()) + &other.unwrap_or_default(),
            None => "no verdict given".to_owned(),
        };
        Self {
            name: case.name(),
            settings: case.settings(),
            expected: case.expected_text(),
            given,
            share: verdict["share"].as_f64(),
            ruling,
            others: 0.0,
            summary,
        }
    }

    /// Whether it counts against haul, or against this lab.
    pub fn is_wrong(&self) -> bool {
        matches!(self.ruling, Ruling::Wrong | Ruling::Failed(_))
    }

    /// One line of the table; see [`Self::head`].
    pub fn line(&self) -> String {
        let Self { name, settings, expected, given, share, ruling, others, summary } = self;
        let share = share.map_or("-".to_owned(), |share| format!("{share:.2}"));
        let rate = summary["bytes_per_s"].as_f64().map_or("-".to_owned(), |rate| format!("{:.1}", rate / 1e6));
        let seconds = summary["seconds"].as_f64().map_or("-".to_owned(), |seconds| format!("{seconds:.1}"));
        let ruling = match ruling {
            Ruling::Right => "right".to_owned(),
            Ruling::Wrong => "WRONG".to_owned(),
            Ruling::Skipped(why) => format!("SKIPPED: {why}"),
            Ruling::Failed(why) => format!("FAILED: {why}"),
        };
        format!(
            "{name:<34}{expected:<26}{given:<26}{share:>5}  {rate:>7}  {seconds:>5}  {others:>6.1}  {ruling:<7}  {settings}"
        )
    }

    /// The line above the table.
    pub fn head() -> String {
        let rest = "share     MB/s      s  others           settings";
        format!("{:<34}{:<26}{:<26}{rest}", "case", "expected", "given")
    }

    /// The same for programs.
    pub fn json(&self) -> Value {
        let (ruling, why) = match &self.ruling {
            Ruling::Right => ("right", None),
            Ruling::Wrong => ("wrong", None),
            Ruling::Skipped(why) => ("skipped", Some(why)),
            Ruling::Failed(why) => ("failed", Some(why)),
        };
        serde_json::json!({
            "case": self.name, "settings": self.settings, "expected": self.expected, "given": self.given,
            "share": self.share, "others": self.others, "ruling": ruling, "why": why, "summary": self.summary,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::diagnose::cases::cases;

    fn judged(name: &str, summary: Value) -> CaseOutcome {
        let case = cases(None, 3).into_iter().find(|case| case.name() == name);
        CaseOutcome::judge(&case.expect("there is such a case"), Ok(summary))
    }

    #[test]
    fn a_verdict_must_name_the_limit_and_its_detail() {
        let ruling = |verdict| judged("loss/mild/push", json!({ "verdict": verdict })).ruling;
        assert_eq!(ruling(json!({ "limit": "congestion", "detail": "loss" })), Ruling::Right);
        assert_eq!(ruling(json!({ "limit": "congestion", "detail": "rtt" })), Ruling::Wrong);
        assert_eq!(ruling(json!({ "limit": "link", "detail": null })), Ruling::Wrong);
        assert_eq!(ruling(json!({ "limit": "none", "detail": null })), Ruling::Wrong);
    }

    #[test]
    fn an_unlimited_run_may_have_no_verdict() {
        let ruling = |limit| judged("free-memory/push", json!({ "verdict": { "limit": limit } })).ruling;
        assert_eq!(ruling("none"), Ruling::Right);
        assert_eq!(ruling("link"), Ruling::Wrong);
        assert_eq!(ruling("target-disk"), Ruling::Wrong);
    }

    #[test]
    fn the_absence_of_a_verdict_is_reported() {
        let outcome = judged("loss/mild/push", json!({ "seconds": 2.5 }));
        assert!(outcome.is_wrong() && outcome.line().contains("no verdict given"), "{}", outcome.line());
    }
}
