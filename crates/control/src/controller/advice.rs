//! Recommendations in words: the remedies that `diagnose` finds, with the commands for them.

use haul_base::copy::event::{NetworkPath, TransportPath};
use haul_base::copy::spec::{Cipher, CopySpec, Fsync, Verify};
use haul_base::copy::summary::{CompressionResult, Recommendation};
use haul_base::size_text::{size, size_limit};
use haul_proto::advice::{WindowAdvice, WindowEnd};
use haul_proto::diagnose::advice::{Advice, AdviceEnd, AdviceTerms, advise};
use haul_proto::diagnose::{CopyMeasurements, Verdict};
use haul_proto::wire::counters::FinalReport;

use super::worker_role::WorkerRole;
use super::workers::Workers;

/// Returns recommendations in words. `source` is the source's final report, and `way` its transport path.
pub fn advice(
    copy: &CopySpec,
    workers: &Workers,
    verdict: &Verdict,
    case: &CopyMeasurements,
    source: &FinalReport,
    transport: &TransportPath,
) -> Vec<Recommendation> {
    let terms = terms(copy, workers, source, transport);
    let say = |advice: &Advice| AdviceEvents { workers, transport }.say(*advice);
    advise(verdict, case, &terms).iter().map(say).collect()
}

fn terms(copy: &CopySpec, workers: &Workers, source: &FinalReport, transport: &TransportPath) -> AdviceTerms {
    let options = &copy.options;
    let has_aes = [WorkerRole::Source, WorkerRole::Target].iter().all(|role| workers.hello(*role).aes);
    let ratio = source.compression.map(|method| CompressionResult::new(method, &source.counters).ratio);
    AdviceTerms {
        streams: options.streams.count,
        compression: copy.compression(),
        sends_zeros: copy.sends_zeros(),
        ratio: ratio.unwrap_or(1.0),
        slow_cipher: has_aes && options.streams.cipher == Cipher::ChaCha20Poly1305 && !workers.is_one(),
        own_windows: options.streams.socket.window_bytes.is_some(),
        windows: [WorkerRole::Source, WorkerRole::Target].map(|role| workers.hello(role).windows),
        path: source.path,
        own_congestion: options.streams.socket.congestion.is_some(),
        waits_for_disk: options.storage.fsync != Fsync::None && options.integrity.verify != Verify::Disk,
        hashes_twice: options.integrity.verify == Verify::Memory,
        faster_mbit_per_s: faster(workers, transport),
    }
}

/// Returns the speed of the fastest link between the two hosts, by their systems' reports, if it exceeds that of the
/// link in use.
fn faster(workers: &Workers, transport: &TransportPath) -> u32 {
    let TransportPath::Tcp { path: NetworkPath { mbit_per_s: Some(used), .. }, .. } = transport else { return 0 };
    let [source, target] = [WorkerRole::Source, WorkerRole::Target].map(|role| &workers.hello(role).addresses);
    let links = source.iter().flat_map(|near| target.iter().map(move |far| (near, far)));
    let speeds =
        links.filter(|(near, far)| near.shares_subnet(far)).map(|(near, far)| near.mbit_per_s.min(far.mbit_per_s));
    speeds.max().filter(|fastest| fastest > used).unwrap_or(0)
}

struct AdviceEvents<'w> {
    workers: &'w Workers,
    transport: &'w TransportPath,
}

impl AdviceEvents<'_> {
    fn say(&self, advice: Advice) -> Recommendation {
        let host =
            |end| self.workers.label(if end == AdviceEnd::Source { WorkerRole::Source } else { WorkerRole::Target });
        let option = |text: &str, command: String| Recommendation { text: text.to_owned(), command: Some(command) };
        let plain = |text: String| Recommendation { text, command: None };
        match advice {
            Advice::Window(window) => self.window(window),
            Advice::OwnWindows => plain("the kernel's autotuned windows can be larger: omit -w".to_owned()),
            Advice::Streams { streams } => option("more streams", format!("-s {streams}")),
            Advice::Incompressible => option("this data is incompressible", "--compress off".to_owned()),
            Advice::LighterCompression => option("faster compression", "--compress lz4".to_owned()),
            Advice::Compress => option("compression (it is off)", "--compress auto".to_owned()),
            Advice::Cipher => option("a cipher with hardware support on both hosts", "--cipher auto".to_owned()),
            Advice::Congestion => option(
                "a congestion control that tolerates losses (first, if needed: modprobe tcp_bbr at the source)",
                "--congestion bbr".to_owned(),
            ),
            Advice::KeepBelow { bytes_per_s } => option(
                "a policer on the path drops packets above this rate",
                format!("--xfrrate {}/s", size(bytes_per_s).replace(' ', "")),
            ),
            Advice::NoSync => option("no fsync (a power cut may then lose files)", "--fsync none".to_owned()),
            Advice::HashOnce => plain("no second hash at the target: omit --verify=memory".to_owned()),
            Advice::Interface { mbit_per_s } => {
                option(&format!("a faster link exists ({mbit_per_s} Mbit/s)"), "--paths best".to_owned())
            }
            Advice::Quota { end } => {
                plain(format!("{}: raise the CPU quota of haul's control group (cpu.max)", host(end)))
            }
            Advice::Others { end } => plain(format!("{}: other programs use most of the CPU", host(end))),
            Advice::SpreadInterrupts => {
                let interface = match self.transport {
                    TransportPath::Tcp { path: NetworkPath { interface: Some(interface), .. }, .. } => {
                        interface.as_str()
                    }
                    _ => "INTERFACE",
                };
                let command = format!("ethtool -L {interface} combined N");
                option("one CPU handles all interrupts: spread them over several", command)
            }
        }
    }

    fn window(&self, advice: WindowAdvice) -> Recommendation {
        let WindowAdvice { end, percent, now_bytes, wanted_bytes } = advice;
        let (role, window, setting) = match end {
            WindowEnd::TargetReceives => (WorkerRole::Target, "receive", "tcp_rmem='4096 131072"),
            WindowEnd::SourceSends => (WorkerRole::Source, "send", "tcp_wmem='4096 16384"),
        };
        Recommendation {
            text: format!(
                "{}: TCP's {window} window (at most {}) limited the streams {percent} % of the time",
                self.workers.label(role),
                size_limit(now_bytes)
            ),
            command: Some(format!("sysctl -w net.ipv4.{setting} {wanted_bytes}'")),
        }
    }
}
