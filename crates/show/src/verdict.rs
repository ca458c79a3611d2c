//! The bottleneck of a copy, as text and JSON.

use std::collections::BTreeMap;
use std::time::Duration;

use haul_base::copy::event::{Bottleneck, BottleneckDetail, Fact, FactUnit, Figure, Verdict};
use haul_base::copy::summary::Recommendation;
use serde::Serialize;

use crate::text::harmless;
use crate::units::{exact_share, limit, rate, round_trip, share, size};

/// Most facts in the summary; `--json` has all.
const FACTS_SHOWN: usize = 2;

/// A line of the summary; `None` with too few measurements.
pub fn line(verdict: &Verdict) -> Option<String> {
    let next = verdict.next.filter(|_| verdict.limit != Bottleneck::None);
    let next = next.map(|next| format!("; next: {} at {}", words(next.limit), share(next.share))).unwrap_or_default();
    match (verdict.limit, verdict.detail) {
        (Bottleneck::None, Some(BottleneckDetail::Short)) => None,
        (Bottleneck::None, _) => {
            let busiest = verdict.next.map(|most| format!(" (busiest: {}, {})", words(most.limit), share(most.share)));
            Some(format!("nothing in particular{}", busiest.unwrap_or_default()))
        }
        _ => {
            let facts: Vec<_> = verdict.facts.iter().take(FACTS_SHOWN).map(fact_text).collect();
            Some(format!("{} ({}){next}", named(verdict), facts.join("; ")))
        }
    }
}

/// A recommendation on one line. Interface names are a worker's text.
pub fn advice(Recommendation { text, command }: &Recommendation) -> String {
    let command = command.as_ref().map(|command| format!(": {}", harmless(command))).unwrap_or_default();
    format!("{}{command}", harmless(text))
}

/// A limit with its kind.
pub fn named(verdict: &Verdict) -> String {
    let Verdict { limit, detail, is_one_machine, .. } = verdict;
    match (limit, detail) {
        (Bottleneck::SourceCpu | Bottleneck::TargetCpu, Some(BottleneckDetail::Machine)) if *is_one_machine => {
            "CPU (both ends on this machine)".to_owned()
        }
        (_, Some(detail)) => format!("{}{}", words(*limit), kind(*limit, *detail)),
        (_, None) => words(*limit).to_owned(),
    }
}

/// The name of a bottleneck.
pub fn words(limit: Bottleneck) -> &'static str {
    match limit {
        Bottleneck::SourceDisk => "source disk",
        Bottleneck::SourceCpu => "source CPU",
        Bottleneck::SenderBuffer => "send buffers",
        Bottleneck::Congestion => "network",
        Bottleneck::ReceiverWindow => "receive window",
        Bottleneck::Link => "the link",
        Bottleneck::RateLimit => "rate limit",
        Bottleneck::TargetDisk => "target disk",
        Bottleneck::TargetCpu => "target CPU",
        Bottleneck::Interrupts => "interrupts on one CPU",
        Bottleneck::SmallFiles => "many small files",
        Bottleneck::SourceProgram => "the source program",
        Bottleneck::TargetProgram => "the target program",
        Bottleneck::None => "nothing in particular",
    }
}

fn kind(limit: Bottleneck, detail: BottleneckDetail) -> &'static str {
    match (limit, detail) {
        (_, BottleneckDetail::Thread) => ", one thread per stream",
        (_, BottleneckDetail::Machine) => ", all CPUs",
        (_, BottleneckDetail::Quota) => ", CPU quota",
        (_, BottleneckDetail::Loss) => ", packet loss",
        (_, BottleneckDetail::RoundTrip) => ", round-trip time",
        (_, BottleneckDetail::Interface) => ", at line rate",
        (_, BottleneckDetail::Own) => " of this copy",
        (_, BottleneckDetail::Policer) => " on the path",
        (_, BottleneckDetail::Source) => ", at the source",
        (_, BottleneckDetail::Target) => ", at the target",
        (_, BottleneckDetail::Queue | BottleneckDetail::Short | BottleneckDetail::Even) => "",
    }
}

/// A fact in words.
pub fn fact_text(fact: &Fact) -> String {
    let value = match fact.figure.unit() {
        FactUnit::Share => exact_share(fact.value),
        FactUnit::Bytes => size(whole(fact.value)),
        FactUnit::BytesPerS if fact.figure == Figure::RateLimit => limit(whole(fact.value)),
        FactUnit::BytesPerS => rate(fact.value),
        FactUnit::Us => round_trip(fact.value),
        FactUnit::Number if fact.value < 10.0 && fact.value.fract() != 0.0 => format!("{:.2}", fact.value),
        FactUnit::Number => crate::units::count(whole(fact.value)),
    };
    fact.figure.words().replace("{}", &value)
}

/// Rounds to an integer, saturating; NaN becomes 0.
fn whole(value: f64) -> u64 {
    Duration::try_from_secs_f64(value.max(0.0)).map_or(u64::MAX, |rounded| rounded.as_secs())
}

/// A bottleneck as JSON.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
pub struct LimitFields {
    limit: &'static str,
    share: f64,
}

impl LimitFields {
    /// A limit and its share of the time.
    pub fn new(limit: Bottleneck, share: f64) -> Self {
        Self { limit: limit.id(), share: rounded(share) }
    }
}

/// The verdict, as JSON.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
pub struct VerdictFields<'a> {
    advice: Vec<AdviceFields<'a>>,
    detail: Option<&'static str>,
    evidence: Vec<String>,
    figures: BTreeMap<&'static str, f64>,
    limit: &'static str,
    next: Option<LimitFields>,
    share: f64,
}

/// A recommendation as JSON.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
struct AdviceFields<'a> {
    command: Option<&'a str>,
    text: &'a str,
}

impl<'a> VerdictFields<'a> {
    /// The verdict with recommendations.
    pub fn new(verdict: &Verdict, advice: &'a [Recommendation]) -> Self {
        let advice =
            advice.iter().map(|Recommendation { text, command }| AdviceFields { command: command.as_deref(), text });
        Self {
            advice: advice.collect(),
            detail: verdict.detail.map(BottleneckDetail::id),
            evidence: verdict.facts.iter().map(fact_text).collect(),
            figures: verdict.facts.iter().map(|fact| (fact.figure.name(), rounded(fact.value))).collect(),
            limit: verdict.limit.id(),
            next: verdict.next.map(|next| LimitFields::new(next.limit, next.share)),
            share: rounded(verdict.share),
        }
    }
}

/// Rounds to the significant digits.
fn rounded(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

#[cfg(test)]
pub(crate) mod tests {
    use haul_base::copy::event::BottleneckShare;

    use super::*;

    /// The verdict in the documentation.
    pub fn example() -> Verdict {
        let fact = |figure, value| Fact { figure, value };
        Verdict {
            limit: Bottleneck::TargetDisk,
            detail: None,
            share: 0.964,
            is_one_machine: false,
            facts: vec![
                fact(Figure::WriteWait, 0.964),
                fact(Figure::Rate, 41_234_567.0),
                fact(Figure::DiskBusy, 0.993),
                fact(Figure::DiskQueue, 31.25),
            ],
            next: Some(BottleneckShare {
                limit: Bottleneck::Congestion,
                detail: Some(BottleneckDetail::Loss),
                share: 0.118,
            }),
        }
    }

    pub fn advised() -> Recommendation {
        Recommendation {
            text: "db1: TCP's receive window, at most 6291456 bytes, held the streams back 43 % of the time".into(),
            command: Some("sysctl -w net.ipv4.tcp_rmem='4096 131072 67108864'".into()),
        }
    }

    #[test]
    fn a_verdict_is_a_line() {
        let two = |limit, detail, is_one_machine| Verdict { limit, detail, is_one_machine, ..example() };
        let lines = [
            example(),
            Verdict { next: None, ..example() },
            two(Bottleneck::SourceCpu, Some(BottleneckDetail::Machine), true),
            two(Bottleneck::SourceCpu, Some(BottleneckDetail::Machine), false),
            two(Bottleneck::Congestion, Some(BottleneckDetail::Loss), false),
            two(Bottleneck::RateLimit, Some(BottleneckDetail::Own), false),
            two(Bottleneck::None, Some(BottleneckDetail::Even), false),
            two(Bottleneck::None, Some(BottleneckDetail::Short), false),
        ]
        .map(|verdict| line(&verdict).unwrap_or_default());
        insta::assert_snapshot!(lines.join("\n"), @r"
        target disk (writing waited 96 % of the time; 41.2 MB/s); next: network at 12 %
        target disk (writing waited 96 % of the time; 41.2 MB/s)
        CPU (both ends on this machine) (writing waited 96 % of the time; 41.2 MB/s); next: network at 12 %
        source CPU, all CPUs (writing waited 96 % of the time; 41.2 MB/s); next: network at 12 %
        network, packet loss (writing waited 96 % of the time; 41.2 MB/s); next: network at 12 %
        rate limit of this copy (writing waited 96 % of the time; 41.2 MB/s); next: network at 12 %
        nothing in particular (busiest: network, 12 %)
        ");
    }

    #[test]
    fn programs_get_figures_and_words() {
        insta::assert_snapshot!(serde_json::to_string(&VerdictFields::new(&example(), &[advised()])).unwrap(), @r#"
        {"advice":[{"command":"sysctl -w net.ipv4.tcp_rmem='4096 131072 67108864'","text":"db1: TCP's receive window, at most 6291456 bytes, held the streams back 43 % of the time"}],"detail":null,"evidence":["writing waited 96 % of the time","41.2 MB/s","the disk was busy 99 % of the time","31 requests in its queue"],"figures":{"bytes_per_s":41234567.0,"disk_busy":0.993,"disk_queue":31.25,"write_wait":0.964},"limit":"target-disk","next":{"limit":"congestion","share":0.118},"share":0.964}
        "#);
        assert_eq!(
            serde_json::to_string(&LimitFields::new(Bottleneck::Link, 0.123_45)).unwrap(),
            r#"{"limit":"link","share":0.123}"#
        );
    }

    #[test]
    fn a_workers_text_disturbs_no_terminal() {
        let hostile = Recommendation { text: "a\x1bb".into(), command: Some("c\n".into()) };
        assert_eq!(advice(&hostile), "a\\u{1b}b: c\\n");
    }

    #[test]
    fn every_figure_has_its_unit() {
        let of = |figure, value| fact_text(&Fact { figure, value });
        assert_eq!(of(Figure::Retransmitted, 0.0004), "0.04 % of all segments sent again");
        assert_eq!(of(Figure::RoundTrip, 50_300.0), "RTT 50.3 ms");
        assert_eq!(of(Figure::Window, 1_048_576.0), "at most 1.05 MB in flight");
        assert_eq!(of(Figure::RateLimit, 62_914_560.0), "the limit is 60 MiB/s");
        assert_eq!(of(Figure::QuotaCores, 0.25), "the quota is 0.25 processors");
        assert_eq!(of(Figure::FilesPerS, 12_345.6), "12,345 files a second");
        assert_eq!(of(Figure::Streams, f64::INFINITY), format!("streams: {}", crate::units::count(u64::MAX)));
    }
}
