//! What limited a job, in words and as JSON.

use haul_engine::event::{Detail, Fact, Limit, Now, Unit, Verdict};
use serde_json::{Map, Value, json};
use std::time::Duration;

use super::units::{rate, size};

/// Facts in the summary: the others are for `--json` and documentation.
const FACTS_SHOWN: usize = 2;

/// A line of the summary.
pub fn line(verdict: &Verdict) -> String {
    let next = verdict.next.filter(|_| verdict.limit != Limit::None);
    let next = next.map(|next| format!("; next: {} at {}", words(next.limit), percent(next.share))).unwrap_or_default();
    match (verdict.limit, verdict.detail) {
        (Limit::None, Some(Detail::Short)) => "nothing can be said: it took too little time".to_owned(),
        (Limit::None, _) => {
            let most = verdict.next.map(|most| format!("; most had {}, {}", words(most.limit), percent(most.share)));
            format!("nothing in particular{}", most.unwrap_or_default())
        }
        _ => {
            let facts: Vec<_> = verdict.facts.iter().take(FACTS_SHOWN).map(said).collect();
            format!("{} ({}){next}", named(verdict), facts.join("; "))
        }
    }
}

/// A limit with its kind.
fn named(verdict: &Verdict) -> String {
    let Verdict { limit, detail, is_one_machine, .. } = verdict;
    match (limit, detail) {
        (Limit::SourceCpu | Limit::TargetCpu, Some(Detail::Machine)) if *is_one_machine => {
            "CPU (both ends on this machine)".to_owned()
        }
        (_, Some(detail)) => format!("{}{}", words(*limit), kind(*limit, *detail)),
        (_, None) => words(*limit).to_owned(),
    }
}

/// What people know a limit by.
pub fn words(limit: Limit) -> &'static str {
    match limit {
        Limit::SourceDisk => "source disk",
        Limit::SourceCpu => "source CPU",
        Limit::SenderBuffer => "sender's buffers",
        Limit::Congestion => "network",
        Limit::ReceiverWindow => "receiver's window",
        Limit::Link => "the link",
        Limit::RateLimit => "rate limit",
        Limit::TargetDisk => "target disk",
        Limit::TargetCpu => "target CPU",
        Limit::Interrupts => "interrupts on one processor",
        Limit::SmallFiles => "many small files",
        Limit::SourceProgram => "the program that is read",
        Limit::TargetProgram => "the program that is written to",
        Limit::None => "nothing in particular",
    }
}

fn kind(limit: Limit, detail: Detail) -> &'static str {
    match (limit, detail) {
        (_, Detail::Thread) => ", one thread a stream",
        (_, Detail::Machine) => ", all processors",
        (_, Detail::Quota) => ", its quota",
        (_, Detail::Loss) => ", losses",
        (_, Detail::RoundTrip) => ", its distance",
        (_, Detail::Interface) => ", at its speed",
        (_, Detail::Own) => " (-x)",
        (_, Detail::Policer) => " on the path",
        (_, Detail::Source) => ", at the source",
        (_, Detail::Target) => ", at the target",
        (_, Detail::Queue | Detail::Short | Detail::Even) => "",
    }
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// A fact in words.
fn said(fact: &Fact) -> String {
    let value = match fact.figure.unit() {
        Unit::Share if fact.value > 0.0 && fact.value < 0.01 => format!("{:.2} %", fact.value * 100.0),
        Unit::Share => percent(fact.value),
        Unit::Bytes => size(whole(fact.value)),
        Unit::BytesPerS => rate(fact.value),
        Unit::Us => format!("{:.1} ms", fact.value / 1000.0),
        Unit::Number if fact.value < 10.0 && fact.value.fract() != 0.0 => format!("{:.2}", fact.value),
        Unit::Number => super::units::count(whole(fact.value)),
    };
    fact.figure.words().replace("{}", &value)
}

/// Without a fraction; what is too large or no number becomes the nearest there is.
fn whole(value: f64) -> u64 {
    Duration::try_from_secs_f64(value.max(0.0)).map_or(u64::MAX, |rounded| rounded.as_secs())
}

/// What limits at present, as JSON.
pub fn now_json(now: Now) -> Value {
    json!({"limit": now.limit.id(), "share": rounded(now.share)})
}

/// The verdict, as JSON.
pub fn json(verdict: &Verdict) -> Value {
    let figures: Map<String, Value> =
        verdict.facts.iter().map(|fact| (fact.figure.name().to_owned(), rounded(fact.value).into())).collect();
    json!({
        "limit": verdict.limit.id(),
        "detail": verdict.detail.map(Detail::id),
        "share": rounded(verdict.share),
        "evidence": verdict.facts.iter().map(said).collect::<Vec<_>>(),
        "figures": figures,
        "next": verdict.next.map(|next| json!({"limit": next.limit.id(), "share": rounded(next.share)})),
        "advice": [],
    })
}

/// As many digits as it is worth.
fn rounded(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}
