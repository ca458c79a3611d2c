//! haul's performance targets, in one place, and their judgement from a benchmark's figures. Every target is a ratio or
//! a limit over medians of one table with interleaved rounds.
//!
//! A mode with tables of its own (`--wan`) passes its rates to a function here.

use haul_lab::{aligned, number};

use crate::cpuid::CpuLevel;
use crate::rounds::{MeasuredTable, RoundsReport, RoundsRow};

/// An aim.
struct Aim {
    /// The table, as on the command line.
    workload: &'static str,
    /// The tool to judge.
    ours: &'static str,
    figure: AimFigure,
    /// The most, or for a rate the least, by the CPU's kind: with AVX-512, with VAES, with AES-NI only.
    limits: [f64; 3],
}

/// One limit for CPUs of every kind.
const fn any(limit: f64) -> [f64; 3] {
    [limit; 3]
}

/// How the figure is made from medians.
enum AimFigure {
    /// Seconds over those of the fastest of these tools.
    Time(&'static [&'static str]),
    /// CPU seconds of both ends over those of the one that uses least.
    Cpu(&'static [&'static str]),
    /// CPU seconds of both ends for 10^9 bytes.
    CpuPerGb,
    /// Milliseconds beyond this tool.
    Beyond(&'static str),
    /// Seconds for a file or byte in the table's last row over those in its first.
    Growth,
    /// 10^9 bytes a second, at least.
    Rate,
    /// Most resident MiB of either end, in the table's last row.
    Peak,
}

const LOOP: &[&str] = &["bare-loop-1", "bare-loop-2"];
const PLAIN_LOOP: &[&str] = &["bare-loop-plain-1", "bare-loop-plain-2"];
const GRIDFTP: &[&str] = &["gridftp-p1", "gridftp-p2"];

/// The table of the targets.
#[rustfmt::skip]
const AIMS: &[Aim] = &[
    Aim { workload: "big", ours: "haul", figure: AimFigure::Time(&["gridftp-p1", "gridftp-p2", "nc", "bbcp"]), limits: [0.90, 0.95, 1.15] },
    Aim { workload: "big", ours: "haul", figure: AimFigure::Time(&["scp"]), limits: any(0.30) },
    Aim { workload: "big", ours: "haul", figure: AimFigure::Time(&["rsync-ssh"]), limits: any(0.30) },
    Aim { workload: "big", ours: "haul", figure: AimFigure::Time(&["escp"]), limits: any(0.45) },
    Aim { workload: "big", ours: "haul", figure: AimFigure::Time(LOOP), limits: any(1.15) },
    Aim { workload: "big", ours: "haul", figure: AimFigure::Cpu(PLAIN_LOOP), limits: [1.25, 1.40, 1.70] },
    Aim { workload: "big", ours: "haul", figure: AimFigure::Cpu(LOOP), limits: any(1.10) },
    Aim { workload: "big", ours: "haul-no-encrypt", figure: AimFigure::Cpu(PLAIN_LOOP), limits: any(1.15) },
    Aim { workload: "big", ours: "haul", figure: AimFigure::CpuPerGb, limits: any(1.25) },
    Aim { workload: "null", ours: "haul", figure: AimFigure::Time(GRIDFTP), limits: [0.95, 1.15, 1.40] },
    Aim { workload: "null", ours: "haul-no-encrypt", figure: AimFigure::Time(GRIDFTP), limits: [0.85, 1.00, 1.20] },
    Aim { workload: "null", ours: "haul-pipe", figure: AimFigure::Time(&["pipe-alone"]), limits: any(1.00) },
    Aim { workload: "disk", ours: "haul", figure: AimFigure::Time(&["gridftp-p1", "bbcp", "rsync-daemon", "nc", "scp"]), limits: any(0.95) },
    Aim { workload: "disk", ours: "haul", figure: AimFigure::Cpu(&["bbcp"]), limits: any(0.50) },
    Aim { workload: "small", ours: "haul", figure: AimFigure::Time(&["tar-nc"]), limits: any(0.85) },
    Aim { workload: "small", ours: "haul", figure: AimFigure::Time(&["rsync-ssh"]), limits: any(0.35) },
    Aim { workload: "mixed", ours: "haul", figure: AimFigure::Time(&["gridftp-pp", "gridftp-pp-p2"]), limits: [0.90, 1.10, 1.30] },
    Aim { workload: "local-big", ours: "haul", figure: AimFigure::Time(&["cp"]), limits: any(1.00) },
    Aim { workload: "local-small", ours: "haul", figure: AimFigure::Time(&["cp"]), limits: any(0.70) },
    Aim { workload: "byte", ours: "haul", figure: AimFigure::Beyond("ssh-true"), limits: any(60.0) },
    Aim { workload: "linear-empty", ours: "haul", figure: AimFigure::Growth, limits: any(1.20) },
    Aim { workload: "linear-null", ours: "haul", figure: AimFigure::Growth, limits: any(1.20) },
    Aim { workload: "linear-disk", ours: "haul", figure: AimFigure::Growth, limits: any(1.20) },
    Aim { workload: "old-cpu", ours: "haul-old-cpu", figure: AimFigure::Rate, limits: any(1.00) },
    Aim { workload: "curve-streams", ours: "haul", figure: AimFigure::Peak, limits: any(200.0) },
];

/// The reference of a rate over a long link.
enum OfRate {
    /// The rate of iperf3 -P 8.
    Iperf3,
    /// The best of the peers that copy files.
    BestPeer,
    /// Mbit/s.
    Alone,
}

/// Where an aim for a long link holds.
enum Under {
    Both,
    Only(&'static str),
}

/// Targets for long links: link, congestion control, reference, and minimum ratio.
const LINK_AIMS: &[(&str, Under, OfRate, f64)] = &[
    ("50ms", Under::Both, OfRate::Iperf3, 0.90),
    ("50ms-loss", Under::Only("bbr"), OfRate::Iperf3, 0.90),
    ("50ms-loss", Under::Only("cubic"), OfRate::BestPeer, 4.0),
    ("50ms-loss", Under::Only("cubic"), OfRate::Alone, 500.0),
    ("200ms", Under::Only("bbr"), OfRate::Iperf3, 0.80),
    ("200ms", Under::Only("cubic"), OfRate::Alone, 600.0),
];

/// The result of a target.
#[derive(Debug, PartialEq)]
pub struct AimVerdict {
    /// The table.
    pub workload: &'static str,
    /// A description of the comparison.
    pub what: String,
    /// The most, or for a rate the least.
    pub aim: f64,
    /// None when it could not be measured.
    pub measured: Option<f64>,
    /// Decimals that are worth showing.
    pub decimals: usize,
    /// None when it could not be measured.
    pub reached: Option<bool>,
    /// The fastest peer, missing tools, and the figure without ssh's login if only haul's time includes it.
    pub remark: String,
}

/// A figure with its remark, or the reason for its absence.
type MeasuredFigure = Result<(f64, String), String>;

/// Judges every target with a measured table and tool.
pub fn judge(outcome: &RoundsReport) -> Vec<AimVerdict> {
    let kind = match outcome.cpu.or_else(CpuLevel::of_this_cpu) {
        None => 0,
        Some(CpuLevel::Vaes) => 1,
        Some(CpuLevel::Avx2 | CpuLevel::Avx) => 2,
    };
    let judged = AIMS.iter().filter_map(|aim| {
        let table = outcome.workloads.iter().find(|measured| measured.name == aim.workload)?;
        table.rows.iter().any(|row| row.tool.name == aim.ours).then(|| aim.judge(table, kind))
    });
    judged.collect()
}

/// Judges the aims of a long link. `rates` are medians in Mbit/s of the whole command, by tool; haul's are its defaults'.
pub fn judge_link(link: &'static str, control: &str, rates: &[(&str, f64)]) -> Vec<AimVerdict> {
    let rate = |name: &str| rates.iter().find(|(tool, _)| *tool == name).map(|(_, rate)| *rate);
    let is_peer = |name: &str| !name.starts_with("haul") && !name.starts_with("iperf3");
    let best = rates.iter().filter(|(name, _)| is_peer(name)).max_by(|one, other| one.1.total_cmp(&other.1));
    let here = |(name, under, ..): &&(&str, Under, OfRate, f64)| {
        let holds = match under {
            Under::Both => true,
            Under::Only(only) => *only == control,
        };
        *name == link && holds
    };
    let Some(ours) = rate("haul") else { return Vec::new() };
    let judged = LINK_AIMS.iter().filter(here).map(|(_, _, of, limit)| {
        let (what, measured, remark) = match of {
            OfRate::Iperf3 => {
                ("rate, at least, of iperf3-p8", rate("iperf3-p8").map(|of| ours / of), control.to_owned())
            }
            OfRate::BestPeer => (
                "rate, at least, of the best peer",
                best.map(|(_, of)| ours / of),
                best.map_or_else(|| format!("{control}; no peer"), |(name, _)| format!("{control}; {name}")),
            ),
            OfRate::Alone => ("Mbit/s, at least", Some(ours), control.to_owned()),
        };
        let decimals = if matches!(of, OfRate::Alone) { 0 } else { 2 };
        let reached = measured.map(|measured| measured >= *limit);
        AimVerdict { workload: link, what: format!("haul: {what}"), aim: *limit, measured, decimals, reached, remark }
    });
    judged.collect()
}

/// For people.
pub fn table(aims: &[AimVerdict]) -> String {
    aligned(&lines(aims), &[0, 1, 4, 5])
}

fn lines(aims: &[AimVerdict]) -> Vec<Vec<String>> {
    let mut lines = vec![["workload", "what", "aim", "measured", "", "remark"].map(str::to_owned).to_vec()];
    lines.extend(aims.iter().map(|aim| {
        let state = match aim.reached {
            Some(true) => "reached",
            Some(false) => "MISSED",
            None => "not measured",
        };
        let measured = number(aim.measured, aim.decimals);
        let limit = number(Some(aim.aim), aim.decimals);
        vec![aim.workload.to_owned(), aim.what.clone(), limit, measured, state.to_owned(), aim.remark.clone()]
    }));
    lines
}

impl Aim {
    fn judge(&self, table: &MeasuredTable, kind: usize) -> AimVerdict {
        let limit = self.limits[kind];
        let found = self.measure(table);
        let measured = found.as_ref().ok().map(|(figure, _)| *figure);
        let remark = found.map_or_else(|why| why, |(_, remark)| remark);
        let at_least = matches!(self.figure, AimFigure::Rate);
        let reached = measured.map(|figure| if at_least { figure >= limit } else { figure <= limit });
        let decimals = if matches!(self.figure, AimFigure::Beyond(_) | AimFigure::Peak) { 0 } else { 2 };
        AimVerdict { workload: self.workload, what: self.what(), aim: limit, measured, decimals, reached, remark }
    }

    fn what(&self) -> String {
        let ours = self.ours;
        match self.figure {
            AimFigure::Time(others) => format!("{ours}: time, at most, of {}", any_of(others)),
            AimFigure::Cpu(others) => format!("{ours}: CPU s, at most, of {}", any_of(others)),
            AimFigure::CpuPerGb => format!("{ours}: CPU s/GB, at most"),
            AimFigure::Beyond(other) => format!("{ours}: ms, at most, beyond {other}"),
            AimFigure::Growth => format!("{ours}: time each, at most, last row of first"),
            AimFigure::Rate => format!("{ours}: GB/s, at least"),
            AimFigure::Peak => format!("{ours}: MiB of an end, at most"),
        }
    }

    fn measure(&self, table: &MeasuredTable) -> MeasuredFigure {
        let ours: Vec<&RoundsRow> = table.rows.iter().filter(|row| row.tool.name == self.ours).collect();
        let (Some(first), Some(last)) = (ours.first(), ours.last()) else { return Err("it was not run".to_owned()) };
        let ours_s = wall_s(first)?;
        let login_s = table.rows.iter().find(|row| row.tool.name == "ssh-true").and_then(|row| row.wall_s());
        match self.figure {
            AimFigure::Time(others) => {
                let (best, best_s, note) = least(table, others, |row| row.wall_s())?;
                let without = login_s.filter(|_| !logs_in(best)).map(|login_s| (ours_s - login_s) / best_s);
                let without = without.map(|ratio| format!("; {ratio:.2} without ssh's login"));
                Ok((ours_s / best_s, format!("of {}{}{note}", best.tool.name, without.unwrap_or_default())))
            }
            AimFigure::Cpu(others) => {
                let (best, best_s, note) = least(table, others, |row| row.median(|run| run.cpu_s()))?;
                let cpu_s = first.median(|run| run.cpu_s()).ok_or("no run succeeded")?;
                Ok((cpu_s / best_s, format!("of {}{note}", best.tool.name)))
            }
            AimFigure::CpuPerGb => {
                let cpu_s = first.median(|run| run.cpu_s()).ok_or("no run succeeded")?;
                Ok((cpu_s / first.gigabytes, "both ends, ssh's login included".to_owned()))
            }
            AimFigure::Beyond(other) => {
                let (_, other_s, _) = least(table, &[other], |row| row.wall_s())?;
                Ok(((ours_s - other_s) * 1e3, format!("{:.0} and {:.0} ms", ours_s * 1e3, other_s * 1e3)))
            }
            AimFigure::Growth => growth(first, last, login_s),
            AimFigure::Rate => {
                let without = login_s.map(|login_s| first.gigabytes / (ours_s - login_s));
                let without = without.map(|rate| format!("; {rate:.2} without ssh's login"));
                Ok((first.gigabytes / ours_s, format!("the whole command{}", without.unwrap_or_default())))
            }
            AimFigure::Peak => Ok((peak_mib(last)?, last.name())),
        }
    }
}

/// Time for a byte, or for a file where files are empty, compared.
fn growth(first: &RoundsRow, last: &RoundsRow, login_s: Option<f64>) -> MeasuredFigure {
    let count = |row: &RoundsRow| if row.gigabytes > 0.0 { row.gigabytes } else { f64::from(row.files) };
    let factor = count(last) / count(first);
    let (first_s, last_s) = (wall_s(first)?, wall_s(last)?);
    let ratio = |login_s: f64| (last_s - login_s) / (first_s - login_s) / factor;
    let without = login_s.map(|login_s| format!("; {:.2} without ssh's login", ratio(login_s)));
    Ok((ratio(0.0), format!("{} of {}{}", last.label, first.label, without.unwrap_or_default())))
}

/// The tool with the least of a figure, and a note about those that gave none.
fn least<'a>(
    table: &'a MeasuredTable,
    names: &[&str],
    figure: impl Fn(&RoundsRow) -> Option<f64>,
) -> Result<(&'a RoundsRow, f64, String), String> {
    let mut found: Vec<(&RoundsRow, f64)> = Vec::new();
    let mut absent = Vec::new();
    for name in names {
        let row = table.rows.iter().find(|row| row.tool.name == *name);
        match row.and_then(|row| figure(row).map(|figure| (row, figure))) {
            Some(pair) => found.push(pair),
            None => absent.push(*name),
        }
    }
    let note = if absent.is_empty() { String::new() } else { format!("; without a figure: {}", absent.join(", ")) };
    let best = found.into_iter().min_by(|one, other| one.1.total_cmp(&other.1));
    best.map(|(row, figure)| (row, figure, note)).ok_or_else(|| format!("no figure of {}", absent.join(", ")))
}

fn wall_s(row: &RoundsRow) -> Result<f64, String> {
    row.wall_s().ok_or_else(|| row.missing.clone().unwrap_or_else(|| format!("no run of {} succeeded", row.name())))
}

#[expect(clippy::cast_precision_loss, reason = "far fewer than 2^53 bytes")]
fn peak_mib(row: &RoundsRow) -> Result<f64, String> {
    let peak = row.median(|run| run.client_peak_bytes.max(run.server_peak_bytes) as f64 / f64::from(1 << 20));
    peak.ok_or_else(|| format!("no run of {} succeeded", row.name()))
}

/// Whether the tool's own time contains a login.
fn logs_in(row: &RoundsRow) -> bool {
    ["scp", "rsync-ssh", "escp", "bbcp", "tar-ssh", "ssh-cat"].contains(&row.tool.name)
}

fn any_of(names: &[&str]) -> String {
    if let [only] = names { (*only).to_owned() } else { format!("the fastest of {}", names.join(", ")) }
}

#[cfg(test)]
#[path = "aims_tests.rs"]
mod tests;
