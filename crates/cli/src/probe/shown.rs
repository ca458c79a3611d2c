//! A probe for people: a line for each check or measurement, and the forecast.

use std::time::Duration;

use haul_base::copy::event::{Bottleneck, TransportPath};
use haul_control::probe::{EndMeasurement, ProbePart, ProbeSample};
use haul_proto::forecast::Forecast;
use haul_show::text::harmless;
use haul_show::units::{counted, duration, rate, round_trip, size};
use haul_show::{paths, verdict};

use super::options::{Option_, typed};
use super::ready::Check;

/// Bytes of the transfer in the forecast.
const EXAMPLE_BYTES: u64 = 100_000_000_000;

/// A line with two columns and text.
fn line(label: &str, what: &str, text: &str) -> String {
    format!("{label:<12}{what:<26}{text}")
}

/// One check.
pub fn check(check: &Check) -> String {
    let label = if check.is_fine { "ready" } else { "NOT READY" };
    line(label, &check.host.as_deref().map(harmless).unwrap_or_default(), &check.text)
}

/// An end's speed of computation.
pub fn computing(end: &EndMeasurement) -> String {
    let measured = &end.measured;
    let [hash, check, seal] = [measured.hash_bytes_per_s, measured.check_bytes_per_s, measured.seal_bytes_per_s]
        .map(|rate_of| rate(rate_of as f64));
    let cores = counted(end.hello.cores.into(), "core", "cores");
    line("cpu", &harmless(&end.label), &format!("{cores}, each: hashing {hash}, checksums {check}, sealing {seal}"))
}

/// The result of a part.
pub fn sample(part: ProbePart, sample: &ProbeSample) -> String {
    let (label, what) = name(part, sample.streams);
    let mut text = rate(sample.rate);
    if let Some([shortest, usual]) =
        sample.round_trips.filter(|_| matches!(part, ProbePart::Network { .. } | ProbePart::Back))
    {
        text.push_str(&format!("; RTT {}, {} under load", ms(shortest), ms(usual)));
    }
    if sample.resent >= 0.0001 {
        text.push_str(&format!(", {:.2} % retransmitted", sample.resent * 100.0));
    }
    if sample.is_durable && matches!(part, ProbePart::Write { .. } | ProbePart::Whole) {
        text.push_str(", durable");
    }
    if let Some(limit) = sample.limit {
        text.push_str(&format!("; limited by {}", verdict::words(limit)));
    }
    line(label, &what, &text)
}

/// A part that could not be measured.
pub fn failed(part: ProbePart, why: &str) -> String {
    let (label, what) = name(part, 0);
    line(label, &what, &format!("not measured: {}", harmless(why.lines().next().unwrap_or_default())))
}

/// The name of a part. `chosen` is the number of streams that haul chose; 0 if unknown.
fn name(part: ProbePart, chosen: u16) -> (&'static str, String) {
    let streams = |number: u16| counted(number.into(), "stream", "streams");
    match part {
        ProbePart::Read { direct: true } => ("read", "O_DIRECT".to_owned()),
        ProbePart::Read { direct: false } => ("read", "page cache, cold".to_owned()),
        ProbePart::Network { streams: Some(fixed) } => ("network", streams(fixed)),
        ProbePart::Network { streams: None } if chosen == 0 => ("network", "haul's choice".to_owned()),
        ProbePart::Network { streams: None } => ("network", format!("haul's choice, {}", streams(chosen))),
        ProbePart::Back => ("network", "reverse direction".to_owned()),
        ProbePart::Write { direct: true } => ("write", "O_DIRECT".to_owned()),
        ProbePart::Write { direct: false } => ("write", "page cache, then synced".to_owned()),
        ProbePart::Whole => ("whole", "the copy itself".to_owned()),
    }
}

/// The transport path.
pub fn transport(transport: &TransportPath) -> Option<String> {
    match transport {
        TransportPath::Tcp { path, .. } => Some(line("connection", "", &paths::without_ports(path))),
        _ => None,
    }
}

/// The forecast.
pub fn forecast(forecast: &Forecast, options: &[Option_]) -> Vec<String> {
    let takes = Duration::try_from_secs_f64(EXAMPLE_BYTES as f64 / forecast.rate.max(1.0)).unwrap_or(Duration::MAX);
    let next = forecast.next.map(|(limit, at)| format!("; next: {} at {}", verdict::words(limit), rate(at)));
    let settings = match options {
        [] => "haul's defaults were the best".to_owned(),
        options => typed(options),
    };
    let limit = match forecast.limit {
        Bottleneck::None => "nothing in particular".to_owned(),
        limit => verdict::words(limit).to_owned(),
    };
    [
        ("expect", format!("{}: {} in {}", rate(forecast.rate), size(EXAMPLE_BYTES), duration(takes))),
        ("limited by", format!("{limit}{}", next.unwrap_or_default())),
        ("settings", settings),
    ]
    .map(|(label, text)| format!("{label:<12}{text}"))
    .to_vec()
}

fn ms(time: Duration) -> String {
    round_trip(time.as_secs_f64() * 1e6)
}

#[cfg(test)]
mod tests {
    use haul_proto::forecast::SuggestedSetting;

    use super::*;
    use crate::probe::options::recommended;
    use crate::probe::options::tests::asked;
    use crate::probe::ready::tests::end;

    #[test]
    fn the_output_of_a_probe() {
        let reached = |rate: f64, streams| ProbeSample { rate, streams, ..ProbeSample::default() };
        let network = ProbeSample {
            round_trips: Some([Duration::from_micros(310), Duration::from_micros(4200)]),
            resent: 0.0012,
            limit: Some(Bottleneck::Link),
            ..reached(117e6, 8)
        };
        let told = Forecast {
            rate: 112e6,
            limit: Bottleneck::Link,
            next: Some((Bottleneck::TargetDisk, 200e6)),
            settings: vec![SuggestedSetting::Streams(16), SuggestedSetting::Direct(true, true)],
        };
        let mut lines = vec![
            computing(&end("db\x1b1", true)),
            sample(ProbePart::Read { direct: true }, &reached(2.1e9, 8)),
            sample(ProbePart::Network { streams: Some(1) }, &reached(90e6, 1)),
            sample(ProbePart::Network { streams: None }, &network),
            sample(ProbePart::Back, &network),
            sample(ProbePart::Write { direct: false }, &ProbeSample { is_durable: true, ..reached(200e6, 8) }),
            failed(ProbePart::Write { direct: true }, "db1: write: no space left on the device\nfree some"),
        ];
        lines.extend(forecast(&told, &recommended(&told.settings, &asked(&[]))));
        lines.extend(forecast(&Forecast { limit: Bottleneck::None, next: None, settings: Vec::new(), ..told }, &[]));
        insta::assert_snapshot!(lines.join("\n"), @r#"
            cpu         db\u{1b}1                 8 cores, each: hashing 3.10 GB/s, checksums 21.0 GB/s, sealing 5.20 GB/s
            read        O_DIRECT                  2.10 GB/s
            network     1 stream                  90.0 MB/s
            network     haul's choice, 8 streams  117 MB/s; RTT 0.3 ms, 4.2 ms under load, 0.12 % retransmitted; limited by the link
            network     reverse direction         117 MB/s; RTT 0.3 ms, 4.2 ms under load, 0.12 % retransmitted; limited by the link
            write       page cache, then synced   200 MB/s, durable
            write       O_DIRECT                  not measured: db1: write: no space left on the device
            expect      112 MB/s: 100.0 GB in 14 min 53 s
            limited by  the link; next: target disk at 200 MB/s
            settings    --streams 16 --unbuffered st
            expect      112 MB/s: 100.0 GB in 14 min 53 s
            limited by  nothing in particular
            settings    haul's defaults were the best
            "#);
    }
}
