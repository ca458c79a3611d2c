//! A table of the streams of a copy: their threads' time and their sockets' figures (`--vverbose`).

use std::time::Duration;

use haul_base::copy::event::StreamFigures;

use crate::units::{count, duration, round_trip, size};

/// Most streams in the table; `--json` has all.
const SHOWN_MAX: usize = 32;

/// The cell of an unknown figure.
const NONE: &str = "-";

/// The lines of the table, each ended; empty without streams.
pub fn table([source, target]: [&[StreamFigures]; 2]) -> String {
    if source.is_empty() {
        return String::new();
    }
    let head = [
        "stream",
        "cpu",
        "idle",
        "disk",
        "sending",
        "target cpu",
        "idle",
        "disk",
        "bytes",
        "rtt",
        "window",
        "receiver's",
        "buffer",
        "effective",
        "resent",
        "reordered",
    ];
    let mut rows = vec![head.map(str::to_owned)];
    for of_source in source.iter().take(SHOWN_MAX) {
        rows.push(row(of_source, target.iter().find(|of_target| of_target.stream == of_source.stream)));
    }
    let mut lines: Vec<String> = rows.iter().map(|row| line(row, &widths(&rows))).collect();
    if source.len() > SHOWN_MAX {
        lines.push(format!("{} more: see --json", count((source.len() - SHOWN_MAX) as u64)));
    }
    lines.iter().map(|line| format!("{}\n", line.trim_end())).collect()
}

fn row(source: &StreamFigures, target: Option<&StreamFigures>) -> [String; 16] {
    let time = |us: u64| duration(Duration::from_micros(us));
    let there = |of: fn(&StreamFigures) -> u64| target.map_or(NONE.to_owned(), |target| time(of(target)));
    // Only TCP has the following figures.
    let tcp = |text: String| if source.segments > 0 { text } else { NONE.to_owned() };
    [
        source.stream.to_string(),
        time(source.cpu_us),
        time(source.idle_us),
        time(source.storage_us),
        time(source.send_us),
        there(|target| target.cpu_us),
        there(|target| target.idle_us),
        there(|target| target.storage_us),
        tcp(size(source.acknowledged_bytes)),
        tcp(round_trip(source.rtt_us as f64)),
        tcp(size(source.window_bytes)),
        tcp(size(source.receiver_bytes)),
        tcp(size(source.buffer_bytes)),
        tcp(size(source.effective_window_bytes)),
        tcp(format!("{} of {}", count(source.retransmitted), count(source.segments))),
        tcp(count(source.reordered)),
    ]
}

fn widths(rows: &[[String; 16]]) -> [usize; 16] {
    std::array::from_fn(|column| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0))
}

fn line(row: &[String; 16], widths: &[usize; 16]) -> String {
    row.iter().zip(widths).map(|(text, width)| format!("{text:>width$}  ")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_stream_has_a_line() {
        let of = |stream, acknowledged_bytes| StreamFigures {
            stream,
            wall_us: 10_000_000,
            cpu_us: 1_230_000,
            idle_us: 400_000,
            storage_us: 2_100_000,
            send_us: 6_200_000,
            acknowledged_bytes,
            rtt_us: 50_400,
            window_bytes: 6 << 20,
            receiver_bytes: 3 << 20,
            buffer_bytes: 4 << 20,
            effective_window_bytes: 3 << 20,
            segments: 123_456 * u64::from(acknowledged_bytes > 0),
            retransmitted: 12,
            ..StreamFigures::default()
        };
        let both = [vec![of(0, 1 << 30), of(11, 1 << 20)], vec![of(0, 0)]];
        insta::assert_snapshot!(table([&both[0], &both[1]]), @r"
        stream     cpu    idle    disk  sending  target cpu    idle    disk    bytes      rtt   window  receiver's   buffer  effective         resent  reordered
             0  1.23 s  0.40 s  2.10 s   6.20 s      1.23 s  0.40 s  2.10 s  1.07 GB  50.4 ms  6.29 MB     3.15 MB  4.19 MB    3.15 MB  12 of 123,456          0
            11  1.23 s  0.40 s  2.10 s   6.20 s           -       -       -  1.05 MB  50.4 ms  6.29 MB     3.15 MB  4.19 MB    3.15 MB  12 of 123,456          0
        ");
        assert_eq!(table([&[], &[]]), "");
        assert!(table([&vec![of(1, 0); SHOWN_MAX + 3], &[]]).ends_with("3 more: see --json\n"));
        assert!(table([&[of(1, 0)], &[]]).contains(" -"), "no TCP");
    }
}
