//! The summary: what was copied, how fast, how it travelled.

use haul_engine::event::{Summary, Way};
use haul_engine::spec::Cipher;

use super::names;
use super::text::harmless;
use super::units::{bytes_per_s, counted, duration, files, rate, size};

/// The lines of the summary, each ended. `verbose` adds memory and what else was made.
pub fn summary(summary: &Summary, verbose: bool) -> String {
    let mut lines = vec![headline(summary)];
    let mut add = |label: &str, text: String| lines.push(format!("{label:<12}{text}"));
    if summary.failed > 0 {
        let named = if summary.failed == 1 { "named above" } else { "each named above" };
        add("failed", format!("{}, {named}", counted(summary.failed, "entry", "entries")));
    }
    if summary.files_skipped > 0 && summary.files_copied > 0 {
        add("skipped", format!("{}, {}: there already", files(summary.files_skipped), size(summary.bytes_skipped)));
    }
    if summary.left_out > 0 {
        add("left out", format!("{}, on purpose", counted(summary.left_out, "entry", "entries")));
    }
    if summary.frames_resent > 0 {
        add("sent again", counted(summary.frames_resent, "damaged frame", "damaged frames"));
    }
    if verbose {
        let directories = counted(summary.directories, "directory", "directories");
        add("also", format!("{directories}, {}", counted(summary.symlinks, "symbolic link", "symbolic links")));
    }
    if summary.streams > 0 {
        add("way", way(summary));
    }
    add("cpu", format!("source {}, target {}", duration(summary.source_cpu), duration(summary.target_cpu)));
    if verbose {
        add(
            "memory",
            format!("source {}, target {}", size(summary.source_peak_bytes), size(summary.target_peak_bytes)),
        );
    }
    lines.push(String::new());
    lines.join("\n")
}

fn headline(summary: &Summary) -> String {
    let elapsed = duration(summary.elapsed);
    if summary.files_copied == 0 && summary.files_skipped > 0 && summary.failed == 0 {
        let there = format!("{}, {}", files(summary.files_skipped), size(summary.bytes_skipped));
        return format!("nothing left to copy: {there} there already; looked through in {elapsed}");
    }
    if summary.files_copied == 0 {
        return format!("no file copied in {elapsed}");
    }
    format!(
        "{}, {} in {elapsed}: {}, every byte verified ({})",
        files(summary.files_copied),
        size(summary.bytes),
        rate(bytes_per_s(summary.bytes, summary.elapsed)),
        proof(summary.cipher)
    )
}

fn proof(cipher: Option<Cipher>) -> String {
    match cipher {
        None => "blake3".to_owned(),
        Some(Cipher::AuthenticateOnly) => "not encrypted; aes-256-gmac, blake3".to_owned(),
        Some(cipher) => format!("{}, blake3", names::cipher(cipher)),
    }
}

/// Addresses and reasons are what a worker said: they are shown without what could disturb a terminal.
fn way(summary: &Summary) -> String {
    let streams = counted(summary.streams.into(), "stream", "streams");
    match &summary.way {
        Way::Local => format!("within this machine, {streams}"),
        Way::Tcp { from, to, instead_of } => {
            let why = instead_of.as_ref().map(|why| format!("; {}", harmless(why))).unwrap_or_default();
            let (from, to) = (harmless(without_port(from)), harmless(without_port(to)));
            format!("{from} -> {to} (tcp), {streams}{why}")
        }
        Way::Ssh { because } => format!("through ssh, {streams}; {}", harmless(because)),
    }
}

/// `[::1]:4711` as `::1`: a port that the kernel chose tells nobody anything.
fn without_port(address: &str) -> &str {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    host.trim_start_matches('[').trim_end_matches(']')
}

#[cfg(test)]
pub mod tests {
    use std::time::Duration;

    use super::*;

    /// The run that the documentation shows.
    pub fn example() -> Summary {
        Summary {
            files_copied: 12_408,
            files_skipped: 0,
            failed: 0,
            directories: 341,
            symlinks: 1,
            left_out: 0,
            bytes: 333_149_000_000,
            bytes_skipped: 0,
            elapsed: Duration::from_secs(284),
            way: Way::Tcp { from: "10.10.1.155:40312".into(), to: "10.10.1.202:35011".into(), instead_of: None },
            streams: 8,
            cipher: Some(Cipher::Aes256Gcm),
            frames_resent: 0,
            source_cpu: Duration::from_millis(12_300),
            target_cpu: Duration::from_millis(14_100),
            source_peak_bytes: 41_000_000,
            target_peak_bytes: 57_500_000,
        }
    }

    #[test]
    fn a_good_run() {
        insta::assert_snapshot!(summary(&example(), false), @r#"
            12,408 files, 333.1 GB in 4 min 44 s: 1.17 GB/s, every byte verified (aes-256-gcm, blake3)
            way         10.10.1.155 -> 10.10.1.202 (tcp), 8 streams
            cpu         source 12.3 s, target 14.1 s
            "#);
    }

    #[test]
    fn a_run_with_everything_in_it() {
        let way = Way::Ssh { because: "no TCP connection to db1: timed out".into() };
        let run = Summary {
            failed: 2,
            files_skipped: 1,
            bytes_skipped: 999,
            left_out: 1,
            frames_resent: 3,
            way,
            streams: 1,
            ..example()
        };
        insta::assert_snapshot!(summary(&run, true), @r#"
            12,408 files, 333.1 GB in 4 min 44 s: 1.17 GB/s, every byte verified (aes-256-gcm, blake3)
            failed      2 entries, each named above
            skipped     1 file, 999 bytes: there already
            left out    1 entry, on purpose
            sent again  3 damaged frames
            also        341 directories, 1 symbolic link
            way         through ssh, 1 stream; no TCP connection to db1: timed out
            cpu         source 12.3 s, target 14.1 s
            memory      source 41.0 MB, target 57.5 MB
            "#);
    }

    #[test]
    fn first_lines() {
        let local = Summary {
            way: Way::Local,
            cipher: None,
            files_copied: 1,
            bytes: 1,
            elapsed: Duration::from_millis(4),
            ..example()
        };
        let clear = Summary { cipher: Some(Cipher::AuthenticateOnly), ..example() };
        let again =
            Summary { files_copied: 0, bytes: 0, files_skipped: 12_408, bytes_skipped: 333_149_000_000, ..example() };
        let failed = Summary { files_copied: 0, bytes: 0, failed: 1, files_skipped: 3, ..example() };
        let lines = [local, clear, again, failed].map(|run| summary(&run, false).lines().next().unwrap().to_owned());
        insta::assert_snapshot!(lines.join("\n"), @r#"
            1 file, 1 byte in 0.00 s: 250 B/s, every byte verified (blake3)
            12,408 files, 333.1 GB in 4 min 44 s: 1.17 GB/s, every byte verified (not encrypted; aes-256-gmac, blake3)
            nothing left to copy: 12,408 files, 333.1 GB there already; looked through in 4 min 44 s
            no file copied in 4 min 44 s
            "#);
    }

    #[test]
    fn what_a_worker_says_of_the_way_disturbs_no_terminal() {
        let hostile = || "\x1b]0;x\x07\n".to_owned();
        let shown = "\\u{1b}]0;x\\u{7}\\n";
        let tcp = Way::Tcp { from: hostile(), to: hostile(), instead_of: Some(hostile()) };
        let ways =
            [tcp, Way::Ssh { because: hostile() }].map(|way| super::way(&Summary { way, streams: 1, ..example() }));
        assert_eq!(
            ways,
            [format!("{shown} -> {shown} (tcp), 1 stream; {shown}"), format!("through ssh, 1 stream; {shown}")]
        );
    }

    #[test]
    fn other_ways() {
        let reverse =
            Way::Tcp { from: "[::1]:9".into(), to: "[fe80::2]:10".into(), instead_of: Some("db1 accepts none".into()) };
        let ways = [Way::Local, reverse].map(|way| super::way(&Summary { way, streams: 1, ..example() }));
        assert_eq!(ways, ["within this machine, 1 stream", "::1 -> fe80::2 (tcp), 1 stream; db1 accepts none"]);
    }
}
