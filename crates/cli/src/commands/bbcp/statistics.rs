//! bbcp's statistics (`-V`): socket windows and CPU time of both ends, measured by haul.

use std::time::Duration;

use haul_base::copy::event::{Progress, StreamFigures};
use haul_base::copy::spec::SocketOptions;
use haul_base::copy::summary::Summary;

/// Windows and CPU time of a copy between two hosts.
#[derive(Debug, Default)]
pub struct Statistics {
    /// Names of source and target.
    hosts: [String; 2],
    socket: SocketOptions,
    has_initial: bool,
}

impl Statistics {
    /// Statistics of a copy from the first of `hosts` to the second.
    pub fn new(hosts: [String; 2], socket: SocketOptions) -> Self {
        Self { hosts, socket, has_initial: false }
    }

    /// Lines after the first sample of the sockets; otherwise none.
    pub fn initial(&mut self, progress: &Progress) -> Vec<String> {
        let Some(stream) = progress.per_stream.iter().find(|stream| stream.buffer_bytes > 0) else { return Vec::new() };
        if std::mem::replace(&mut self.has_initial, true) {
            return Vec::new();
        }
        let kind = if self.socket.window_fixed { "a fixed" } else { "initial" };
        let reduced = self.reduced(stream);
        reduced.into_iter().chain(self.windows(kind, stream)).collect()
    }

    /// Lines at the end of a copy.
    pub fn last(&self, summary: &Summary) -> Vec<String> {
        let mut lines = vec![
            cpu("Source", summary.ends[0].cpu, summary.ends[0].system),
            cpu("Target", summary.ends[1].cpu, summary.ends[1].system),
        ];
        let stream = summary.source().streams.iter().find(|stream| stream.buffer_bytes > 0);
        if let Some(stream) = stream {
            if !self.has_initial {
                lines.extend(self.reduced(stream));
            }
            match self.socket.window_fixed {
                true if self.has_initial => {}
                true => lines.extend(self.windows("a fixed", stream)),
                false => lines.extend(self.windows("a final", stream)),
            }
        }
        lines
    }

    fn windows(&self, kind: &str, stream: &StreamFigures) -> [String; 2] {
        let [source, target] = &self.hosts;
        [
            format!("Source {source} using {kind} send window of {}", stream.buffer_bytes),
            format!("Target {target} using {kind} recv window of {}", stream.receiver_bytes),
        ]
    }

    /// A line if the kernel grants less than `-w`.
    fn reduced(&self, stream: &StreamFigures) -> Option<String> {
        let wanted = u64::from(self.socket.window_bytes?);
        (stream.buffer_bytes < wanted).then(|| format!("bbcp: Window size reduced to {} bytes.", stream.buffer_bytes))
    }
}

/// `Source cpu=3.643 (sys=3.552 usr=0.091).`
fn cpu(end: &str, all: Duration, system: Duration) -> String {
    let user = all.saturating_sub(system);
    let [all, system, user] = [all, system, user].map(|time| time.as_secs_f64());
    format!("{end} cpu={all:.3} (sys={system:.3} usr={user:.3}).")
}

#[cfg(test)]
mod tests {
    use haul_base::copy::summary::EndSummary;

    use super::*;

    fn stream(buffer_bytes: u64, receiver_bytes: u64) -> StreamFigures {
        StreamFigures { buffer_bytes, receiver_bytes, ..StreamFigures::default() }
    }

    fn progress(stream: StreamFigures) -> Progress {
        Progress { per_stream: vec![stream], ..Progress::default() }
    }

    fn summary(streams: Vec<StreamFigures>) -> Summary {
        let ms = Duration::from_millis;
        Summary {
            ends: [
                EndSummary { cpu: ms(3643), system: ms(3552), streams, ..EndSummary::default() },
                EndSummary { cpu: ms(5), system: ms(7), ..EndSummary::default() },
            ],
            ..Summary::default()
        }
    }

    fn hosts() -> [String; 2] {
        ["localhost".into(), "db1".into()]
    }

    #[test]
    fn windows_are_shown_at_the_start_and_at_the_end() {
        let mut statistics = Statistics::new(hosts(), SocketOptions::default());
        assert!(statistics.initial(&Progress::default()).is_empty());
        let initial = ["Source localhost using initial send window of 9", "Target db1 using initial recv window of 8"];
        assert_eq!(statistics.initial(&progress(stream(9, 8))), initial);
        assert!(statistics.initial(&progress(stream(10, 8))).is_empty(), "once");
        insta::assert_snapshot!(statistics.last(&summary(vec![stream(20, 18)])).join("\n"), @r"
        Source cpu=3.643 (sys=3.552 usr=0.091).
        Target cpu=0.005 (sys=0.007 usr=0.000).
        Source localhost using a final send window of 20
        Target db1 using a final recv window of 18
        ");
        assert_eq!(statistics.last(&summary(Vec::new())).len(), 2, "no sockets, no windows");
    }

    #[test]
    fn a_window_refused_by_the_kernel_is_reduced() {
        let wanted = SocketOptions { window_bytes: Some(512 << 20), window_fixed: true, ..SocketOptions::default() };
        let mut statistics = Statistics::new(hosts(), wanted.clone());
        let lines = statistics.initial(&progress(stream(8 << 20, 1)));
        assert_eq!(lines[0], "bbcp: Window size reduced to 8388608 bytes.");
        assert_eq!(lines[1], "Source localhost using a fixed send window of 8388608");
        assert_eq!(statistics.last(&summary(vec![stream(8 << 20, 1)])).len(), 2, "it stays as it is");
        let short = Statistics::new(hosts(), wanted).last(&summary(vec![stream(8 << 20, 1)]));
        assert_eq!((short.len(), short[2].as_str()), (5, lines[0].as_str()), "of a short job, all at the end");
        let tuned = SocketOptions { window_bytes: Some(1 << 20), ..SocketOptions::default() };
        let mut granted = Statistics::new(hosts(), tuned);
        assert_eq!(granted.initial(&progress(stream(2 << 20, 1))).len(), 2);
    }
}
