//! Runs one tool once over the link, and reports bytes and time.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use haul_lab::{Finished, compare, start};

use super::site::WanSite;
use super::tools::WanTool;
use crate::daemon::Daemon;

/// How soon Ctrl-C is noticed.
const SLICE: Duration = Duration::from_millis(200);

/// How long the link may take to become silent after a run, and for how long it then must have been.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(5);
const SILENCE: Duration = Duration::from_millis(450);

/// The share of a full packet that TCP's payload is.
const PAYLOAD_SHARE: f64 = 1448.0 / 1500.0;

/// How much of a tool's complaint is kept.
const COMPLAINT_CHARS_MAX: usize = 300;

/// One run.
#[derive(Debug, Clone, Default)]
pub struct WanRun {
    /// Of the whole command, start-up included.
    pub mbit_per_s: f64,
    /// Whether the time limit ended the run: the rate then covers the traffic until that moment.
    pub limited: bool,
    /// Why it does not count; none when it does.
    pub failure: Option<String>,
}

/// Runs `tool` once. An error here is the benchmark's own; a tool's is in the run.
pub fn measure(site: &WanSite, tool: &WanTool, limit: Duration, interrupted: &AtomicBool) -> Result<WanRun> {
    site.empty_target()?;
    site.wan.forget()?;
    let server =
        tool.server().map(|(command, port)| Daemon::start(&site.wan.b().enclose(&command), port)).transpose()?;
    let carried_before = site.wan.forth().bytes;
    let begun = Instant::now();
    let mut running = start(site.wan.a().enclose(&tool.client(site)?))?;
    let mut ended = false;
    while !ended && begun.elapsed() < limit {
        ended = running.wait_up_to(SLICE.min(limit.saturating_sub(begun.elapsed())));
        ensure!(!interrupted.load(Ordering::Relaxed), "interrupted; the data is being removed");
    }
    let wall_s = begun.elapsed().as_secs_f64();
    let carried = site.wan.forth().bytes - carried_before;
    let finished = running.finish(Duration::ZERO)?;
    drop(server);
    quiet_down(site);
    let run = judge(site, tool, ended, &finished, payload(carried));
    Ok(match run {
        Ok(bytes) => WanRun { mbit_per_s: megabits(bytes) / wall_s, limited: !ended, failure: None },
        Err(failure) => WanRun { failure: Some(failure), ..WanRun::default() },
    })
}

/// How many bytes count, or why none do.
fn judge(site: &WanSite, tool: &WanTool, ended: bool, finished: &Finished, carried: u64) -> Result<u64, String> {
    if !ended {
        return Ok(carried.min(site.bytes));
    }
    if !finished.success() {
        let said = format!("{}\n{}", finished.stderr_text().trim(), finished.stdout_text().trim());
        let skipped = said.chars().count().saturating_sub(COMPLAINT_CHARS_MAX);
        let end: String = said.trim().chars().skip(skipped).collect();
        return Err(format!("{}: {end}", finished.status));
    }
    if tool.copies() {
        return compare(&site.source(), &site.copy()).map(|()| site.bytes);
    }
    tool.brought(&finished.stdout_text()).ok_or_else(|| "it did not say what arrived".to_owned())
}

/// Ends the far host's remaining work for the ended client, and lets the link run empty.
fn quiet_down(site: &WanSite) {
    site.sshd.end_sessions();
    if let Some((gridftp, _)) = &site.gridftp {
        gridftp.end_sessions();
    }
    let deadline = Instant::now() + SILENCE_TIMEOUT;
    let mut carried = (site.wan.forth(), site.wan.back());
    while Instant::now() < deadline {
        std::thread::sleep(SILENCE);
        let now = (site.wan.forth(), site.wan.back());
        if now == carried {
            return;
        }
        carried = now;
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss, reason = "an estimate")]
fn payload(bytes: u64) -> u64 {
    (bytes as f64 * PAYLOAD_SHARE) as u64
}

#[expect(clippy::cast_precision_loss, reason = "far fewer than 2^53 bytes")]
fn megabits(bytes: u64) -> f64 {
    bytes as f64 * 8.0 / 1e6
}
