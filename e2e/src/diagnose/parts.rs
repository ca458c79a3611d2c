//! Holds the parts of the path against the verdict.

use serde_json::Value;

/// Rounding of the verdict's share.
const ROUNDING: f64 = 0.001;
/// Least share of the processors that busy loops get beside haul.
const OTHERS_MIN: f64 = 0.25;
const PARTS: [&str; 5] = ["source_disk", "source_cpu", "network", "target_cpu", "target_disk"];

/// The part of the path that a verdict names.
fn named(verdict: &Value) -> Option<&'static str> {
    Some(match (verdict["limit"].as_str()?, verdict["detail"].as_str()) {
        ("source-disk", _) | ("small-files", Some("source")) => "source_disk",
        ("source-cpu", _) => "source_cpu",
        ("target-cpu", _) => "target_cpu",
        ("target-disk", _) | ("small-files", _) => "target_disk",
        ("rate-limit", Some("own")) => return None,
        ("sender-buffer" | "receiver-window" | "congestion" | "link" | "rate-limit" | "interrupts", _) => "network",
        _ => return None,
    })
}

/// Says where parts contradict the verdict: the named part is less busy than its share or than another part, or busy
/// loops are not reported.
pub fn disagreement(summary: &Value, has_busy_loops: bool) -> Option<String> {
    let verdict = &summary["verdict"];
    let busy = |part: &str| summary["parts"][part]["busy"].as_f64().unwrap_or(0.0);
    let wrong = named(verdict).filter(|part| {
        let most = PARTS.iter().map(|part| busy(part)).fold(0.0, f64::max);
        busy(part) + ROUNDING < most.max(verdict["share"].as_f64().unwrap_or(0.0))
    });
    let others = ["source_other_programs", "target_other_programs"];
    let unseen = others.into_iter().find(|part| has_busy_loops && busy(part) < OTHERS_MIN);
    wrong.or(unseen).map(|part| format!(", but {part} is {:.2}", busy(part)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_named_part_is_the_busiest() {
        let of = |network: f64, others: f64| {
            let parts = json!({
                "network": { "busy": network }, "source_cpu": { "busy": 0.5 },
                "source_other_programs": { "busy": others }, "target_other_programs": { "busy": 0.9 },
            });
            let verdict = json!({ "limit": "congestion", "detail": "loss", "share": 0.8 });
            disagreement(&json!({ "verdict": verdict, "parts": parts }), true)
        };
        assert_eq!(of(0.8, 0.9), None);
        assert_eq!(of(0.4, 0.9).as_deref(), Some(", but network is 0.40"));
        assert_eq!(of(0.8, 0.1).as_deref(), Some(", but source_other_programs is 0.10"));
        assert_eq!(disagreement(&json!({ "verdict": { "limit": "none" } }), false), None);
    }
}
