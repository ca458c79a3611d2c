//! Tests of the aims.

use super::*;
use crate::kind::WorkloadKind;
use crate::machine::Machine;
use crate::measure::ToolRun;
use crate::tools;

fn row(name: &str, label: &str, gigabytes: f64, wall_s: &[f64]) -> RoundsRow {
    let tool = *tools::ALL.iter().find(|tool| tool.name == name).expect("a tool");
    let run = |&wall_s: &f64| ToolRun { wall_s, client_cpu_s: 1.5, client_peak_bytes: 9 << 20, ..ToolRun::default() };
    let runs = wall_s.iter().map(run).collect();
    RoundsRow { tool, label: label.to_owned(), files: 1, gigabytes, missing: None, runs }
}

fn judged(name: &'static str, rows: Vec<RoundsRow>) -> Vec<AimVerdict> {
    let machine =
        Machine { cpu: "C".into(), cores: 2, memory_gib: 8, kernel: "Linux 6".into(), congestion: "cubic".into() };
    let workloads = vec![MeasuredTable { name, title: String::new(), rows }];
    judge(&RoundsReport {
        machine,
        cpu: Some(CpuLevel::Vaes),
        haul_version: String::new(),
        runs: 1,
        scale: 1.0,
        dir: "/d".into(),
        counted_by_cgroup: true,
        workloads,
    })
}

fn one(name: &'static str, rows: Vec<RoundsRow>, what: &str) -> AimVerdict {
    let verdicts = judged(name, rows);
    verdicts.into_iter().find(|verdict| verdict.what.contains(what)).expect("an aim")
}

#[test]
fn aims_name_existing_tables_and_tools() {
    for aim in AIMS {
        assert!(WorkloadKind::ALL.iter().any(|kind| kind.name() == aim.workload), "{}", aim.workload);
        let kind = WorkloadKind::named(aim.workload).expect("a table")[0];
        let others = match aim.figure {
            AimFigure::Time(others) | AimFigure::Cpu(others) => others.to_vec(),
            AimFigure::Beyond(other) => vec![other],
            AimFigure::CpuPerGb | AimFigure::Growth | AimFigure::Rate | AimFigure::Peak => Vec::new(),
        };
        for name in others.into_iter().chain([aim.ours]) {
            let tool = tools::ALL.iter().find(|tool| tool.name == name);
            assert!(tool.is_some_and(|tool| tool.kinds.contains(&kind)), "{name} does not do {}", aim.workload);
        }
    }
}

#[test]
fn the_fastest_peer_counts_and_logins_are_separate() {
    let rows = || {
        vec![
            row("haul", "", 4.0, &[3.0, 2.0, 9.0]),
            row("ssh-true", "", 0.0, &[0.5]),
            row("gridftp-p1", "", 4.0, &[5.0]),
            row("nc", "", 4.0, &[4.0]),
            row("scp", "", 4.0, &[6.0]),
        ]
    };
    let fastest = one("big", rows(), "gridftp-p1, gridftp-p2, nc");
    assert_eq!((fastest.aim, fastest.measured, fastest.reached), (0.95, Some(0.75), Some(true)));
    assert_eq!(fastest.remark, "of nc; 0.62 without ssh's login; without a figure: gridftp-p2, bbcp");
    let scp = one("big", rows(), "of scp");
    assert_eq!((scp.measured, scp.reached, scp.remark.as_str()), (Some(0.5), Some(false), "of scp"));
    let escp = one("big", rows(), "of escp");
    assert_eq!((escp.measured, escp.reached, escp.remark.as_str()), (None, None, "no figure of escp"));
    assert_eq!(one("big", rows(), "CPU s/GB").measured, Some(0.375));
}

#[test]
fn growth_is_per_byte_and_rates_are_at_least() {
    let rows =
        vec![row("haul", "1 GiB", 1.0, &[1.5]), row("haul", "16 GiB", 16.0, &[20.0]), row("ssh-true", "", 0.0, &[0.5])];
    let growth = one("linear-null", rows, "time each");
    assert_eq!((growth.reached, growth.remark.as_str()), (Some(true), "16 GiB of 1 GiB; 1.22 without ssh's login"));
    for (seconds, reached) in [(3.9, true), (4.1, false)] {
        let rate = one("old-cpu", vec![row("haul-old-cpu", "-s 1", 4.0, &[seconds])], "GB/s");
        assert_eq!(rate.reached, Some(reached), "{rate:?}");
    }
    let rows = vec![row("haul", "", 0.0, &[0.35]), row("ssh-true", "", 0.0, &[0.3])];
    assert_eq!(one("byte", rows, "beyond").reached, Some(true));
}

#[test]
fn unmeasured_tools_are_not_judged() {
    assert_eq!(judged("big", vec![row("nc", "", 4.0, &[4.0])]), []);
    let failed = one("local-big", vec![row("haul", "", 4.0, &[]), row("cp", "", 4.0, &[1.0])], "of cp");
    assert_eq!((failed.reached, failed.remark.as_str()), (None, "no run of haul succeeded"));
}

#[test]
fn long_links_are_judged_by_their_hosts_congestion_control() {
    let rates = [("haul", 480.0), ("haul -s 32", 900.0), ("iperf3-p8", 500.0), ("scp", 100.0), ("gridftp-p8", 130.0)];
    let bbr = judge_link("50ms-loss", "bbr", &rates);
    assert_eq!((bbr.len(), bbr[0].measured, bbr[0].reached), (1, Some(0.96), Some(true)));
    let cubic = judge_link("50ms-loss", "cubic", &rates);
    let all: Vec<_> = cubic.iter().map(|verdict| (verdict.aim, verdict.reached)).collect();
    assert_eq!(all, [(4.0, Some(false)), (500.0, Some(false))]);
    assert_eq!(cubic[0].remark, "cubic; gridftp-p8");
    assert_eq!(judge_link("50ms", "cubic", &rates[..1])[0].reached, None);
    assert_eq!(judge_link("50ms", "cubic", &rates[1..]), []);
}

#[test]
fn the_aims_of_long_links_name_existing_links() {
    for (link, ..) in LINK_AIMS {
        assert!(crate::wan::has_link(link), "{link}");
    }
}
