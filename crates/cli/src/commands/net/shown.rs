//! The lines of `haul net`.

use std::time::Duration;

use haul_base::copy::event::{Bottleneck, TransportPath};
use haul_show::{paths, units, verdict};

use super::figures::{CpuFigures, IntervalFigures, NetFigures, TcpRoundTrips};
use crate::echoes::EchoFigures;

/// `9.41 Gbit/s   1.18 GB/s`
pub fn rate(bytes_per_s: f64) -> String {
    format!("{:>11}  {:>10}", units::bit_rate(bytes_per_s), units::rate(bytes_per_s))
}

/// The transport path.
pub fn transport(transport: &TransportPath) -> String {
    let text = match transport {
        TransportPath::Tcp { path, .. } => paths::without_ports(path),
        TransportPath::Tunnel { is_ssh, because } => format!("{}: {because}", paths::tunnel(*is_ssh)),
        TransportPath::Local { .. } | TransportPath::None => "within this host, without a network".to_owned(),
    };
    line("path", &text)
}

/// A line per interval.
pub fn interval(interval: &IntervalFigures) -> String {
    let round_trip = interval.round_trip_s.map_or(String::new(), |seconds| format!("   rtt {}", milliseconds(seconds)));
    let streams = units::counted(interval.streams.into(), "stream", "streams");
    line(
        &format!("{:.0} s", interval.end_s),
        &format!("{}   {} retransmitted{round_trip}   {streams}", rate(interval.bytes_per_s), interval.retransmitted),
    )
}

/// The whole time.
pub fn total(figures: &NetFigures) -> Vec<String> {
    let range = figures.range.map_or(String::new(), |[slowest, fastest]| {
        format!("   intervals {} to {}", units::bit_rate(slowest), units::bit_rate(fastest))
    });
    let mut lines =
        vec![line("average", &format!("{}{range}", rate(figures.bytes_per_s))), line("sent", &sent(figures))];
    if figures.segments > 0 {
        #[allow(clippy::cast_precision_loss, reason = "a share is shown with three digits")]
        let share = 100.0 * figures.retransmitted as f64 / figures.segments as f64;
        let of = format!("{} of {} segments", units::count(figures.retransmitted), units::count(figures.segments));
        lines.push(line("retransmits", &format!("{of} ({share:.3} %)")));
    }
    match (figures.echoes.idle, figures.echoes.loaded, figures.tcp_round_trip_s) {
        (Some(idle), loaded, _) => {
            lines.push(line("ping idle", &echo(&idle)));
            lines.extend(loaded.map(|loaded| line("ping loaded", &echo(&loaded))));
        }
        (None, _, Some(TcpRoundTrips { mean, min })) => {
            let text = format!("{} at least, {} under load (TCP)", milliseconds(min), milliseconds(mean));
            lines.push(line("rtt", &text));
        }
        (None, _, None) => {}
    }
    let cpus = |CpuFigures { cores, in_use }| format!("{in_use:.2} of {cores}");
    let [source, target] = [figures.source_cpus, figures.target_cpus].map(cpus);
    lines.push(line("cpus", &format!("source {source}, target {target}")));
    if figures.limit != Bottleneck::None {
        lines.push(line("limited by", verdict::words(figures.limit)));
    }
    lines
}

fn sent(figures: &NetFigures) -> String {
    let sent = units::size(figures.bytes);
    let took = units::duration(Duration::from_secs_f64(figures.seconds));
    // Both ends count, at different moments: only compression makes a difference worth a word.
    let compressed = match figures.is_compressed {
        true => format!("{} on the wire, compressed", units::size(figures.bytes_on_wire)),
        false => "uncompressed".to_owned(),
    };
    format!("{sent} in {took}, {compressed}")
}

fn line(label: &str, text: &str) -> String {
    format!("{label:<12}{text}")
}

fn echo(figures: &EchoFigures) -> String {
    let EchoFigures { min_s, median_s, max_s, deviation_s: _ } = *figures;
    format!("{} ({} to {})", milliseconds(median_s), milliseconds(min_s), milliseconds(max_s))
}

fn milliseconds(seconds: f64) -> String {
    let decimals = if seconds < 0.01 { 3 } else { 1 };
    format!("{:.decimals$} ms", seconds * 1000.0)
}
