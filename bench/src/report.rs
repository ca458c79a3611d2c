//! Reports the results: tables for people, and JSON with every run.

use std::fmt::Write as _;

use haul_lab::{aligned, number};
use serde_json::{Value, json};

use crate::aims::{self, AimVerdict};
use crate::cpuid;
use crate::measure::ToolRun;
use crate::rounds::{MeasuredTable, RoundsReport, RoundsRow};

/// Above this share of the machine's CPU time the seconds are not worth comparing.
const DISTURBANCE_PERCENT_MAX: f64 = 5.0;

/// Below 1 MB, a time says little about throughput.
const WORTH_A_RATE_GB: f64 = 0.001;

const HEADINGS: [&str; 9] =
    ["tool", "seconds (min to max)", "GB/s", "files/s", "CPU s", "CPU s/GB", "client MiB", "server MiB", "times haul"];

/// Markdown tables, aligned for reading as plain text.
pub fn markdown(outcome: &RoundsReport) -> String {
    let mut text = format!("Machine: {}\n", outcome.machine.line());
    match outcome.cpu {
        Some(level) => text.push_str(&format!("haul and the bare loop see a CPU with {level} (masked CPUID).\n")),
        None => text.push_str(&format!("CPU flags: {}\n", cpuid::features())),
    }
    outcome.haul_version.lines().for_each(|line| text.push_str(&format!("    {line}\n")));
    let counted = if outcome.counted_by_cgroup { "control group" } else { "/proc, in ticks of 10 ms" };
    let _ = writeln!(
        text,
        "Loopback, data in {}, medians of {} interleaved rounds, scale {}. CPU: user and system seconds of both ends, by {counted}.\n\
         MiB: most resident memory of all processes of an end, ssh's and sshd's included. Times haul: seconds over haul's.",
        outcome.dir, outcome.runs, outcome.scale
    );
    if let Some(note) = disturbance(outcome) {
        let _ = writeln!(text, "{note}");
    }
    for measured in &outcome.workloads {
        let _ = write!(text, "\n### {}\n\n{}", heading(measured), table(measured));
        for line in remarks(measured) {
            let _ = writeln!(text, "- {line}");
        }
    }
    let aims = aims::judge(outcome);
    if !aims.is_empty() {
        let _ = write!(text, "\n### aims\n\n{}{}", not_at_scale(outcome.scale), aims::table(&aims));
    }
    text
}

/// Small workloads end too early for their target to mean anything.
fn not_at_scale(scale: f64) -> String {
    if (scale - 1.0).abs() < f64::EPSILON {
        String::new()
    } else {
        format!("Aims are for scale 1; this is {scale}.\n\n")
    }
}

/// A warning when other processes had more than a little of the machine.
fn disturbance(outcome: &RoundsReport) -> Option<String> {
    let runs = || outcome.workloads.iter().flat_map(|measured| &measured.rows).flat_map(|row| &row.runs);
    let others_s: f64 = runs().map(|run| run.others_cpu_s).sum();
    let wall_s: f64 = runs().map(|run| run.wall_s).sum();
    let cores = u32::try_from(outcome.machine.cores).map_or(1.0, f64::from);
    let percent = others_s / (wall_s * cores) * 100.0;
    (percent > DISTURBANCE_PERCENT_MAX).then(|| {
        format!("DISTURBED: other processes used {percent:.0} % of the CPUs during the runs; seconds cannot be compared, CPU s only roughly.")
    })
}

/// Every run of every tool.
pub fn json(outcomes: &[RoundsReport]) -> String {
    let value = json!({ "passes": outcomes.iter().map(outcome_json).collect::<Vec<_>>() });
    format!("{value:#}\n")
}

fn outcome_json(outcome: &RoundsReport) -> Value {
    let machine = &outcome.machine;
    json!({
        "machine": {
            "cpu": machine.cpu, "cores": machine.cores, "memory_gib": machine.memory_gib,
            "kernel": machine.kernel, "congestion_control": machine.congestion,
        },
        "runs": outcome.runs,
        "scale": outcome.scale,
        "dir": outcome.dir,
        "cpu_counted_by": if outcome.counted_by_cgroup { "cgroup" } else { "proc" },
        "workloads": outcome.workloads.iter().map(workload_json).collect::<Vec<_>>(),
        "aims": aims::judge(outcome).iter().map(aim_json).collect::<Vec<_>>(),
    })
}

fn workload_json(measured: &MeasuredTable) -> Value {
    json!({
        "name": measured.name, "title": measured.title,
        "tools": measured.rows.iter().map(row_json).collect::<Vec<_>>(),
    })
}

fn row_json(row: &RoundsRow) -> Value {
    json!({
        "name": row.tool.name, "about": row.tool.about, "case": row.label, "files": row.files,
        "gigabytes": row.gigabytes, "missing": row.missing,
        "runs": row.runs.iter().map(run_json).collect::<Vec<_>>(),
    })
}

fn aim_json(aim: &AimVerdict) -> Value {
    json!({
        "workload": aim.workload, "what": aim.what, "aim": aim.aim, "measured": aim.measured,
        "reached": aim.reached, "remark": aim.remark,
    })
}

fn run_json(run: &ToolRun) -> Value {
    json!({
        "round": run.round, "wall_s": run.wall_s, "client_cpu_s": run.client_cpu_s, "server_cpu_s": run.server_cpu_s,
        "others_cpu_s": run.others_cpu_s, "client_peak_bytes": run.client_peak_bytes, "server_peak_bytes": run.server_peak_bytes,
        "failure": run.failure, "timed_out": run.timed_out,
    })
}

/// One line a tool, and one more for each of its workloads that failed.
fn remarks(measured: &MeasuredTable) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for row in &measured.rows {
        let name = if row.failure().is_some() { row.name() } else { row.tool.name.to_owned() };
        let line = format!("{name}: {}", remark(row));
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    lines
}

/// The workload's title, with its size if all rows copy the same data.
fn heading(measured: &MeasuredTable) -> String {
    let mut copies = measured.rows.iter().filter(|row| row.tool.copies());
    let Some(first) = copies.next() else { return measured.title.clone() };
    let same = copies.all(|row| (row.files, row.gigabytes) == (first.files, first.gigabytes));
    match (same, first.files, first.gigabytes) {
        (false, ..) | (_, 0, _) => measured.title.clone(),
        (_, 1, gigabytes) if gigabytes < WORTH_A_RATE_GB => measured.title.clone(),
        (_, 1, gigabytes) => format!("{} ({gigabytes:.2} GB)", measured.title),
        (_, files, gigabytes) => format!("{} ({files} files, {gigabytes:.3} GB)", measured.title),
    }
}

fn remark(row: &RoundsRow) -> String {
    let failed = row.runs.len() - row.good().count();
    match (&row.missing, row.failure()) {
        (Some(missing), _) => missing.clone(),
        (None, Some(failure)) => {
            let one_line = failure.split_whitespace().collect::<Vec<_>>().join(" ");
            format!("{}; failed {failed} of {} times: {one_line}", row.tool.about, row.runs.len())
        }
        (None, None) => row.tool.about.to_owned(),
    }
}

fn table(measured: &MeasuredTable) -> String {
    let mut lines = vec![HEADINGS.map(str::to_owned).to_vec()];
    lines.extend(measured.rows.iter().map(|row| {
        let beside = measured.rows.iter().find(|other| other.tool.name == "haul" && other.label == row.label);
        cells(row, beside.and_then(RoundsRow::wall_s)).to_vec()
    }));
    aligned(&lines, &[0])
}

fn cells(row: &RoundsRow, haul_s: Option<f64>) -> [String; 9] {
    let name = row.name();
    let Some(wall_s) = row.wall_s() else {
        let state = if row.missing.is_some() { "not found" } else { "failed" };
        let none = || "-".to_owned();
        return [name, state.to_owned(), none(), none(), none(), none(), none(), none(), none()];
    };
    let (low, high) =
        row.good().fold((f64::MAX, 0.0_f64), |(low, high), run| (low.min(run.wall_s), high.max(run.wall_s)));
    let cpu_s = row.median(ToolRun::cpu_s).unwrap_or(0.0);
    let has_bytes = row.gigabytes >= WORTH_A_RATE_GB;
    [
        name,
        format!("{wall_s:.2} ({low:.2} to {high:.2})"),
        number(has_bytes.then_some(row.gigabytes / wall_s), 2),
        number((row.files > 1).then_some(f64::from(row.files) / wall_s), 0),
        number(Some(cpu_s), 2),
        number(has_bytes.then_some(cpu_s / row.gigabytes), 2),
        number(memory_mib(row, |run| run.client_peak_bytes), 1),
        number(memory_mib(row, |run| run.server_peak_bytes), 1),
        number(haul_s.map(|haul_s| wall_s / haul_s), 2),
    ]
}

/// `None` without such an end, or if it ended before the first sample.
fn memory_mib(row: &RoundsRow, bytes: impl Fn(&ToolRun) -> u64) -> Option<f64> {
    row.median(|run| mebibytes(bytes(run))).filter(|mib| *mib > 0.0)
}

#[expect(clippy::cast_precision_loss, reason = "far fewer than 2^53 bytes")]
fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Machine;
    use crate::tools;

    fn run(wall_s: f64, failure: Option<&str>) -> ToolRun {
        ToolRun {
            round: 1,
            wall_s,
            client_cpu_s: 1.0,
            server_cpu_s: 0.5,
            others_cpu_s: wall_s * 0.02,
            client_peak_bytes: 3 << 20,
            server_peak_bytes: 1 << 19,
            failure: failure.map(str::to_owned),
            timed_out: false,
        }
    }

    fn row(name: &str, runs: Vec<ToolRun>) -> RoundsRow {
        let tool = tools::ALL.into_iter().find(|tool| tool.name == name).expect("a tool");
        let missing = runs.is_empty().then(|| "not found: it (INSTALL)".to_owned());
        RoundsRow { tool, label: String::new(), files: 1, gigabytes: 4.0, missing, runs }
    }

    fn outcome() -> RoundsReport {
        let machine =
            Machine { cpu: "C".into(), cores: 2, memory_gib: 8, kernel: "Linux 6".into(), congestion: "cubic".into() };
        let rows = vec![
            row(
                "haul",
                vec![run(2.0, None), run(9.0, Some("exit status: 1:\nno way")), run(1.0, None), run(3.0, None)],
            ),
            row("bbcp", Vec::new()),
            row("scp", vec![run(8.0, None), run(4.0, None)]),
            row("nc", vec![run(8.0, Some("lost"))]),
        ];
        let measured = MeasuredTable { name: "big", title: "big: a file".into(), rows };
        RoundsReport {
            machine,
            cpu: None,
            haul_version: "haul 1\n".into(),
            runs: 4,
            scale: 1.0,
            dir: "/d".into(),
            counted_by_cgroup: true,
            workloads: vec![measured],
        }
    }

    #[test]
    fn tables_show_medians_ranges_ratios_and_gaps() {
        let text = markdown(&outcome());
        let line = |name: &str| {
            let line = text.lines().find(|line| line.starts_with(&format!("| {name} "))).expect("a line");
            line.split_whitespace().filter(|word| *word != "|").map(str::to_owned).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(line("haul"), "haul 2.00 (1.00 to 3.00) 2.00 - 1.50 0.38 3.0 0.5 1.00");
        assert_eq!(line("scp"), "scp 6.00 (4.00 to 8.00) 0.67 - 1.50 0.38 3.0 0.5 3.00");
        assert_eq!(line("bbcp"), "bbcp not found - - - - - - -");
        assert_eq!(line("nc"), "nc failed - - - - - - -");
        assert!(text.contains("- haul: defaults; failed 1 of 4 times: exit status: 1: no way\n"), "{text}");
        assert!(text.contains("- bbcp: not found: it (INSTALL)\n"), "{text}");
        assert!(text.contains("### big: a file (4.00 GB)\n"), "{text}");
        let (tables, aims) = text.split_once("### aims").expect("haul was run");
        assert!(aims.contains("| big      | haul: time, at most, of scp "), "{aims}");
        let widths: Vec<usize> =
            tables.lines().filter(|line| line.starts_with('|')).map(|line| line.chars().count()).collect();
        assert!(widths.windows(2).all(|pair| pair[0] == pair[1]), "{text}");
    }

    #[test]
    fn a_disturbed_machine_is_reported() {
        let mut outcome = outcome();
        assert!(!markdown(&outcome).contains("DISTURBED"));
        for run in outcome.workloads.iter_mut().flat_map(|measured| &mut measured.rows).flat_map(|row| &mut row.runs) {
            run.others_cpu_s = run.wall_s;
        }
        assert!(
            markdown(&outcome).contains("DISTURBED: other processes used 50 % of the CPUs"),
            "{}",
            markdown(&outcome)
        );
    }

    #[test]
    fn json_has_every_run() {
        let value: Value = serde_json::from_str(&json(&[outcome()])).expect("it is JSON");
        let tools = &value["passes"][0]["workloads"][0]["tools"];
        assert_eq!(tools[0]["runs"].as_array().map(Vec::len), Some(4));
        assert_eq!(tools[0]["runs"][1]["failure"], "exit status: 1:\nno way");
        assert_eq!(tools[1]["missing"], "not found: it (INSTALL)");
        assert_eq!(value["passes"][0]["machine"]["congestion_control"], "cubic");
    }
}
