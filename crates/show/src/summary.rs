//! The summary: files, rate and path.

use std::time::Duration;

use haul_base::copy::event::{Confinement, ReadBackBytes, SandboxReport, SyncCounters, TransportPath};
use haul_base::copy::spec::Cipher;
use haul_base::copy::summary::{ComparisonResult, Summary};

use crate::output_form::Verbosity;
use crate::text::{harmless, within};
use crate::units::{bytes_per_s, count, counted, duration, files, limit, part_of, rate, round_trip, size};
use crate::{names, paths, verdict};

/// The lines of the summary after its first, each ended.
pub fn below(summary: &Summary, level: Verbosity) -> String {
    facts(summary, level).into_iter().map(|(label, text)| format!("{label:<12}{text}\n")).collect()
}

/// Shortest copies with details by default.
pub const LONG: Duration = Duration::from_secs(10);

/// Labels and texts of the lines after the first. Details of the path and the time are for verbose output, long runs,
/// and runs with recommendations; memory, sandbox and other entries for `Path`.
pub fn facts(summary: &Summary, level: Verbosity) -> Vec<(&'static str, String)> {
    let (verbose, very_verbose) = (level >= Verbosity::Verbose, level >= Verbosity::Path);
    let is_detailed = verbose || summary.times.elapsed >= LONG || !summary.diagnosis.advice.is_empty();
    let connection = &summary.connection;
    let mut facts = entry_facts(summary);
    let mut add = |label: &'static str, text: Option<String>| facts.extend(text.map(|text| (label, text)));
    add("also", very_verbose.then(|| also(summary)));
    // A dry run sends no data, so its connection is omitted.
    let shows_connection =
        connection.streams > 0 && !summary.is_dry && (is_detailed || is_fallback(&connection.transport));
    add("connection", shows_connection.then(|| transport(summary)));
    let cloned = summary.files.cloned_bytes;
    add("shared", (cloned > 0).then(|| format!("{} with the source (reflink)", size(cloned))));
    add("read back", summary.integrity.read_back.filter(|_| summary.files.copied > 0).map(|read| read_back(&read)));
    add("storage", storage(summary).filter(|_| is_detailed));
    add("rate limit", connection.rate_limit_bytes_per_s.filter(|_| is_detailed).map(limit));
    let verdict = summary.diagnosis.verdict.as_ref().filter(|_| is_detailed && !summary.is_dry);
    add("limited by", verdict.and_then(verdict::line));
    summary.diagnosis.advice.iter().for_each(|advised| add("try", Some(verdict::advice(advised))));
    let (source, target) = (summary.source(), summary.target());
    let of_ends = |source, target| format!("source {source}, target {target}");
    add("cpu", is_detailed.then(|| of_ends(duration(source.cpu), duration(target.cpu))));
    add("memory", very_verbose.then(|| of_ends(size(source.peak_bytes), size(target.peak_bytes))));
    add("sandbox", sandbox(summary).filter(|_| very_verbose || is_unconfined(summary)));
    facts
}

/// Facts about entries and their transfer.
fn entry_facts(summary: &Summary) -> Vec<(&'static str, String)> {
    let Summary { files: totals, counters, times, .. } = summary;
    let mut facts = Vec::new();
    let mut add = |label: &'static str, is_shown: bool, text: &dyn Fn() -> String| {
        facts.extend(is_shown.then(|| (label, text())));
    };
    add("failed", totals.failed > 0, &|| counted(totals.failed, "entry", "entries"));
    add("vanished", totals.vanished > 0, &|| format!("{} at the source", counted(totals.vanished, "entry", "entries")));
    let skipped = || format!("{}, {}", files(totals.skipped), size(totals.bytes_skipped));
    add("up to date", totals.skipped > 0 && totals.copied > 0, &skipped);
    sync_facts(summary).into_iter().for_each(|(label, text)| add(label, true, &|| text.clone()));
    add("skipped", totals.left_out > 0, &|| left_out(summary));
    let excluded = || format!("{} by filters", counted(counters.filtered, "entry", "entries"));
    add("excluded", counters.filtered > 0, &excluded);
    add("reconnected", times.restarts > 0, &|| counted(times.restarts.into(), "time", "times"));
    add("paused", !times.paused.is_zero(), &|| duration(times.paused));
    add("resent", counters.frames_resent > 0, &|| counted(counters.frames_resent, "damaged frame", "damaged frames"));
    if let Some(compression) = summary.compression {
        add("compressed", true, &|| format!("{:.1} to 1 ({})", compression.ratio, compression.method));
    }
    if let Some(delta) = &summary.delta {
        let (count, bytes, old) = (files(delta.files), size(delta.bytes), size(delta.old_bytes));
        let speedup = delta.speedup();
        add("delta", true, &|| format!("{count} of {bytes}, {old} from base files: speedup {speedup:.1}"));
        add("written", !summary.is_dry, &|| format!("{} at the target", size(counters.bytes_stored)));
    }
    facts
}

/// Beginnings of the reasons for entries that an option copies.
const SPECIAL: [&str; 4] = ["is a FIFO", "is a socket", "is a character device", "is a block device"];

/// Entries that were left out, by reason. Reasons are a worker's text.
fn left_out(summary: &Summary) -> String {
    let all = counted(summary.files.left_out, "entry", "entries");
    let reasons: Vec<_> =
        summary.left_out.iter().map(|(reason, number)| format!("{} ({number})", harmless(reason))).collect();
    let is_special = summary.left_out.iter().any(|(reason, _)| SPECIAL.contains(&reason.as_str()));
    let hint = if is_special { "; see --specials, --devices" } else { "" };
    let separator = if reasons.is_empty() { "" } else { ": " };
    format!("{all}{separator}{}{hint}", reasons.join(", "))
}

fn also(summary: &Summary) -> String {
    let directories = counted(summary.counters.directories, "directory", "directories");
    format!("{directories}, {}", counted(summary.counters.symlinks, "symbolic link", "symbolic links"))
}

/// The reason why source files were kept.
const KEPT: &str = "growing, or not sent in this run and so not verified (--compare digest verifies them)";

/// Facts about other changes of a sync.
fn sync_facts(summary: &Summary) -> Vec<(&'static str, String)> {
    let SyncCounters { removed, backed_up, linked, adjusted, removed_at_source, left_at_source } = match summary.is_dry
    {
        true => SyncCounters::default(),
        false => summary.sync,
    };
    let entries = |number| counted(number, "entry", "entries");
    let all = [
        (removed, "deleted", counted(removed, "extraneous entry", "extraneous entries")),
        (backed_up, "backed up", format!("{}, replaced or deleted", entries(backed_up))),
        (linked, "linked", format!("{} to an earlier copy (--link-dest)", files(linked))),
        (adjusted, "adjusted", format!("{}, metadata only", entries(adjusted))),
        (removed_at_source, "moved", format!("{}, deleted at the source", files(removed_at_source))),
        (left_at_source, "kept", format!("{} at the source: {KEPT}", files(left_at_source))),
    ];
    all.into_iter().filter(|(number, ..)| *number > 0).map(|(_, label, text)| (label, text)).collect()
}

/// The path's figures by the source's kernel; empty without a path.
pub fn path(summary: &Summary) -> String {
    let path = &summary.connection.path;
    if path.segments == 0 {
        return String::new();
    }
    let part = |time_us: u64| time_us.saturating_mul(100) / path.busy_us.max(1);
    format!(
        "{:<12}RTT {}; {} segments, {} resent; limited {} % by the receive window, {} % by send buffers\n",
        "path",
        round_trip(path.round_trip_us as f64),
        count(path.segments),
        count(path.retransmitted),
        part(path.receiver_limited_us),
        part(path.buffer_limited_us),
    )
}

/// The bytes between the hosts, without those of ssh and of the control channel. The speedup is the size of all files,
/// unchanged ones included, by these bytes.
pub fn traffic(summary: &Summary) -> String {
    let (files, sent) = (&summary.files, summary.counters.bytes_on_wire);
    let received = summary.delta.map_or(0, |delta| delta.told_bytes);
    let (size, moved) = (files.bytes.saturating_add(files.bytes_skipped), sent.saturating_add(received));
    let speedup = if moved == 0 { String::new() } else { format!(": speedup {:.2}", size as f64 / moved as f64) };
    let [sent, received] = [sent, received].map(|bytes| counted(bytes, "byte", "bytes"));
    format!("{:<12}sent {sent}, received {received} of block hashes{speedup}\n", "traffic")
}

/// The sandboxes of both ends. Reasons are a worker's text.
fn sandbox(summary: &Summary) -> Option<String> {
    let described = |sandbox: &SandboxReport| match sandbox.reason.as_str() {
        "" => sandbox.confinement.word().to_owned(),
        reason => format!("{} ({})", sandbox.confinement.word(), harmless(reason)),
    };
    match (&summary.ends[0].sandbox, &summary.ends[1].sandbox) {
        (Some(source), Some(target)) if source == target => Some(format!("{} at both ends", described(source))),
        (Some(source), Some(target)) => Some(format!("source {}, target {}", described(source), described(target))),
        _ => None,
    }
}

/// Whether an end had no sandbox.
fn is_unconfined(summary: &Summary) -> bool {
    let ends = [&summary.ends[0].sandbox, &summary.ends[1].sandbox];
    ends.into_iter().flatten().any(|sandbox| sandbox.confinement == Confinement::None)
}

/// Its first line.
pub fn headline(summary: &Summary) -> String {
    let elapsed = duration(summary.times.elapsed);
    if summary.is_dry {
        return format!("dry run: nothing was changed; checked in {elapsed}");
    }
    if let Some(comparison) = &summary.integrity.comparison {
        return comparison_headline(summary, comparison);
    }
    if summary.is_timed {
        let rate = rate(bytes_per_s(summary.files.bytes, summary.times.elapsed));
        return format!("{} in {elapsed}: {rate}", size(summary.files.bytes));
    }
    if summary.files.copied == 0 && summary.files.skipped > 0 && summary.files.failed == 0 {
        let there = format!("{}, {}", files(summary.files.skipped), size(summary.files.bytes_skipped));
        return format!("up to date: {there}, checked in {elapsed}");
    }
    if summary.files.copied == 0 {
        return format!("no files copied in {elapsed}");
    }
    format!(
        "{}, {} in {elapsed}: {}, {}",
        files(summary.files.copied),
        size(summary.files.bytes),
        rate(bytes_per_s(summary.files.bytes, summary.times.elapsed)),
        proof(summary)
    )
}

/// How far a copy came that ended early, and its rate: ` at 38.2 of 104.9 MB, 12.7 MB/s`; empty if no data was moved.
pub fn reached(summary: &Summary) -> String {
    let Summary { files: totals, counters, times, .. } = summary;
    let moved = totals.bytes.saturating_add(summary.integrity.comparison.map_or(0, |comparison| comparison.bytes));
    if moved == 0 || summary.is_dry {
        return String::new();
    }
    let done = moved.saturating_add(totals.bytes_skipped);
    let far = match counters.walk_complete && !summary.is_timed {
        true => part_of(done, counters.bytes_found),
        false => size(done),
    };
    format!(" at {far}, {}", rate(bytes_per_s(moved, times.elapsed)))
}

fn comparison_headline(
    summary: &Summary,
    ComparisonResult { files: count, bytes, differences }: &ComparisonResult,
) -> String {
    let found = match (differences, summary.files.failed) {
        (0, 0) => "identical".to_owned(),
        (0, _) if *count == 0 => "nothing could be compared".to_owned(),
        (0, _) => "no differences in readable files".to_owned(),
        (_, _) => counted(*differences, "difference", "differences"),
    };
    let rate = rate(bytes_per_s(*bytes, summary.times.elapsed));
    format!("{}, {} compared in {}: {rate}, {found}", files(*count), size(*bytes), duration(summary.times.elapsed))
}

/// The kind of verification. Shared blocks are not copied, so they need none.
fn proof(summary: &Summary) -> String {
    let check = if summary.integrity.blake3 { "blake3" } else { "xxh3" };
    let proof = match summary.connection.cipher {
        None => check.to_owned(),
        Some(Cipher::AuthenticateOnly) => format!("not encrypted; aes-256-gmac, {check}"),
        Some(cipher) => format!("{}, {check}", names::cipher(cipher)),
    };
    let proof = match summary.files.cloned_bytes {
        0 => format!("every byte verified ({proof})"),
        cloned if cloned >= summary.files.bytes => "all blocks shared".to_owned(),
        _ => format!("every copied byte verified ({proof})"),
    };
    if summary.integrity.durable { format!("{proof}, durable") } else { proof }
}

/// The source of the read-back: disk or cache.
fn read_back(read: &ReadBackBytes) -> String {
    let parts = [
        (read.disk_bytes, "from the disk"),
        (read.cache_bytes, "possibly from a cache: the file system has no direct I/O"),
        (read.memory_bytes, "from memory: there is no disk"),
    ];
    let described: Vec<_> =
        parts.iter().filter(|(bytes, _)| *bytes > 0).map(|(bytes, what)| format!("{} {what}", size(*bytes))).collect();
    if described.is_empty() { "nothing to read".to_owned() } else { described.join("; ") }
}

/// The line about direct I/O, if most bytes used it.
fn storage(summary: &Summary) -> Option<String> {
    let moved = summary.integrity.comparison.map_or(summary.files.bytes, |comparison| comparison.bytes);
    let most = |direct: u64| direct > moved / 2;
    match (most(summary.ends[0].direct_bytes), most(summary.ends[1].direct_bytes)) {
        (true, true) => Some("O_DIRECT at both ends".to_owned()),
        (true, false) => Some("O_DIRECT at the source".to_owned()),
        (false, true) => Some("O_DIRECT at the target".to_owned()),
        (false, false) => None,
    }
}

/// Whether a preferred path could not be used.
fn is_fallback(path: &TransportPath) -> bool {
    matches!(path, TransportPath::Tunnel { .. } | TransportPath::Tcp { instead_of: Some(_), .. })
}

/// The line about the connection. Addresses and reasons are a worker's text, so they are escaped.
fn transport(summary: &Summary) -> String {
    let streams = counted(summary.connection.streams.into(), "stream", "streams");
    match &summary.connection.transport {
        TransportPath::None => "none needed".to_owned(),
        TransportPath::Local { host } => format!("{}, {streams}", within(host.as_deref())),
        TransportPath::Tcp { path, others, instead_of } => {
            let why = instead_of.as_ref().map(|why| format!("; {}", harmless(why))).unwrap_or_default();
            let paths: Vec<_> = std::iter::once(path).chain(others).map(paths::without_ports).collect();
            format!("{}, {streams}{why}", paths.join(" and "))
        }
        TransportPath::Tunnel { is_ssh, because } => {
            format!("{}, {streams}; {}", paths::tunnel(*is_ssh), harmless(because))
        }
    }
}

#[cfg(test)]
#[path = "summary_tests.rs"]
mod tests;
