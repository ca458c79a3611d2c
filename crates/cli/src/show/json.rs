//! Events for programs: one JSON object a line on standard output. docs/JSON.md describes each.

use std::io::{self, Write};
use std::time::{Duration, Instant};

use haul_engine::job::error::Outcome;
use haul_engine::job::event::{
    ComparisonResult, CompressionResult, Event, NetworkPath, Observer, Progress, ReadBackBytes, SandboxReport,
    SlowFile, Summary, TransportPath,
};
use haul_engine::job::spec::DeltaCounters;
use haul_engine::sys::describe::without_numbers;
use haul_proto::checksum::hex;
use haul_proto::path::disturbs;
use haul_proto::wire::counters::PathFigures;
use serde_json::{Map, Value, json};

use super::human::Human;
use super::{Half, Show, differences, items, load, names, parts, verdict};
use crate::exit::Exit;
use crate::units::bytes_per_s;

/// Lines of JSON; what failed is said in words, too.
pub struct Json {
    out: Box<dyn Write>,
    human: Human,
    begun: Instant,
    broken: Option<io::Error>,
}

impl Json {
    /// Lines on `out`, words through `human`.
    pub fn new(out: Box<dyn Write>, human: Human) -> Self {
        Self { out, human, begun: Instant::now(), broken: None }
    }

    /// A job may have millions of files, so their lines are collected; every other line is sent off at once.
    fn send(&mut self, line: JsonLine, at_once: bool) {
        if self.broken.is_some() {
            return;
        }
        let mut result = self.out.write_all(line.ended().as_bytes());
        if at_once {
            result = result.and_then(|()| self.out.flush());
        }
        self.broken = result.err();
    }
}

impl Observer for Json {
    fn event(&mut self, event: &Event) {
        let at_once = !matches!(event, Event::FileDone { .. } | Event::Checksum { .. } | Event::Item { .. });
        let line = match event {
            Event::Connected { .. } | Event::Progress(_) => {
                line(event).with("seconds", self.begun.elapsed().as_secs_f64())
            }
            _ => line(event),
        };
        self.send(line, at_once);
        self.human.event(event);
    }
}

impl Show for Json {
    fn complain(&mut self, message: &str) {
        self.human.complain(message);
    }

    fn without_other_half(&mut self, half: Half, path: &[u8]) {
        let event = match half {
            Half::File => "unlisted",
            Half::Line => "unmet",
        };
        self.send(JsonLine::new(event).path(path), false);
    }

    fn finish(&mut self, outcome: &Outcome) -> io::Result<()> {
        self.send(last_line(outcome), true);
        self.human.finish(outcome)?;
        self.broken.take().map_or(Ok(()), Err)
    }
}

/// The last line, as a value.
pub fn last(outcome: &Outcome) -> Value {
    serde_json::from_str(&last_line(outcome).ended()).unwrap_or_default()
}

fn last_line(outcome: &Outcome) -> JsonLine {
    let status = Exit::of(outcome).number();
    match outcome {
        Ok(result) => match &result.comparison {
            Some(comparison) => comparison_line(result, comparison, status),
            None => summary_line(result, status),
        },
        Err(error) => JsonLine::new("error").with("message", error.to_string()).with("status", status),
    }
}

fn line(event: &Event) -> JsonLine {
    match event {
        Event::Connecting { host } => JsonLine::new("connecting").with("host", host.as_str()),
        Event::Deployed { host, path } => {
            JsonLine::new("deployed").with("host", host.as_str()).with("path", path.as_str())
        }
        Event::Connected { way, streams, cipher } => JsonLine::new("connected")
            .with("way", way_of(way))
            .with("streams", *streams)
            .with("cipher", names::sealed(way, *cipher)),
        Event::PathChanged { way, because } => {
            JsonLine::new("moved").with("way", way_of(way)).with("message", because.as_deref())
        }
        Event::Progress(progress) => progress_line(progress),
        Event::FileDone { path, size, copied, digest } => JsonLine::new("file")
            .path(path)
            .with("bytes", *size)
            .with("copied", *copied)
            .with("blake3", digest.map(|digest| hex(&digest))),
        Event::Checksum { path, algorithm, digest } => {
            JsonLine::new("checksum").path(path).with("algorithm", algorithm.name()).with("digest", hex(digest))
        }
        Event::Resumed { path, size, held, damaged, compared } => JsonLine::new("resumed")
            .path(path)
            .with("bytes", *size)
            .with("bytes_held", *held)
            .with("frames_damaged", *damaged)
            .with("compared", *compared),
        Event::FileFailed { path, host, message } => {
            JsonLine::new("failed").path(path).with("host", host.as_str()).with("message", message.as_str())
        }
        Event::Differs { path, host, differences } => JsonLine::new("differs")
            .path(path)
            .with("host", host.as_str())
            .with("differences", differences::json(differences)),
        Event::Item { path, item } => items::fields(item)
            .into_iter()
            .fold(JsonLine::new("item").path(path), |line, (key, value)| line.with(key, value)),
        Event::Skipped { path, reason } => JsonLine::new("left_out").path(path).with("reason", reason.as_str()),
        Event::RateLimit { bytes_per_s } => JsonLine::new("rate_limit").with("bytes_per_s", *bytes_per_s),
        Event::Pause { is_paused } => JsonLine::new("pause").with("paused", *is_paused),
        Event::Streams { wanted } => JsonLine::new("streams").with("wanted", *wanted),
        Event::Restarted { reason, pause, attempt, attempts, left } => JsonLine::new("again")
            .with("message", reason.as_str())
            .with("pause_s", pause.as_secs_f64())
            .with("attempt", *attempt)
            .with("attempts", *attempts)
            .with("left_s", left.map(|left| left.as_secs_f64())),
        Event::Stopped(verdict) => JsonLine::new("stopped").with("verdict", verdict::json(verdict, &[])),
        Event::Warning(message) => JsonLine::new("notice").with("message", message.as_str()),
    }
}

fn progress_line(progress: &Progress) -> JsonLine {
    JsonLine::new("progress")
        .with("files_found", progress.files_found)
        .with("bytes_found", progress.bytes_found)
        .with("walk_complete", progress.walk_complete)
        .with("files_settled", progress.files_settled)
        .with("bytes_written", progress.bytes_written)
        .with("bytes_skipped", progress.bytes_skipped)
        .with("bytes_compared", progress.bytes_compared)
        .with("streams", progress.streams)
        .with("limited_by", progress.limited_by.map(verdict::now_json))
}

fn summary_line(summary: &Summary, status: u8) -> JsonLine {
    JsonLine::new("summary")
        .with("files_copied", summary.files_copied)
        .with("files_skipped", summary.files_skipped)
        .with("failed", summary.failed)
        .with("directories", summary.counters.directories)
        .with("symlinks", summary.counters.symlinks)
        .with("left_out", summary.left_out)
        .with("filtered", summary.counters.filtered)
        .with("bytes", summary.bytes)
        .with("bytes_skipped", summary.bytes_skipped)
        .with("seconds", summary.elapsed.as_secs_f64())
        .with("paused_s", summary.paused.as_secs_f64())
        .with("bytes_per_s", bytes_per_s(summary.bytes, summary.elapsed))
        .with("restarts", summary.restarts)
        .with("way", way_of(&summary.way))
        .with("streams", summary.streams)
        .with("cipher", summary.cipher.map(names::cipher))
        .with("path", path_of(&summary.path))
        .with("verdict", summary.verdict.as_ref().map(|it| verdict::json(it, &summary.advice)))
        .with("parts", parts::json(summary))
        .with("load", load::json(&summary.loads, &summary.streams_at))
        .with("rate_limit_bytes_per_s", summary.rate_limit_bytes_per_s)
        .with("frames_resent", summary.counters.frames_resent)
        .with("bytes_on_wire", summary.counters.bytes_on_wire)
        .with("compression", summary.compression.as_ref().map(compression))
        .with("source_cpu_s", summary.source_cpu.as_secs_f64())
        .with("target_cpu_s", summary.target_cpu.as_secs_f64())
        .with("source_system_s", summary.source_system.as_secs_f64())
        .with("target_system_s", summary.target_system.as_secs_f64())
        .with("source_peak_bytes", summary.source_peak_bytes)
        .with("target_peak_bytes", summary.target_peak_bytes)
        .with("source_direct_bytes", summary.source_direct_bytes)
        .with("target_direct_bytes", summary.target_direct_bytes)
        .with("slowest", summary.slowest.iter().map(slow_file).collect::<Vec<_>>())
        .with("cloned_bytes", summary.cloned_bytes)
        .with("durable", summary.durable)
        .with("delta", summary.delta.as_ref().map(delta))
        .with("deleted", summary.sync.removed)
        .with("backed_up", summary.sync.backed_up)
        .with("linked", summary.sync.linked)
        .with("adjusted", summary.sync.adjusted)
        .with("deleted_at_source", summary.sync.removed_at_source)
        .with("left_at_source", summary.sync.left_at_source)
        .with("dry_run", summary.is_dry)
        .with("read_back", summary.read_back.as_ref().map(read_back))
        .with("source_sandbox", summary.source_sandbox.as_ref().map(sandbox))
        .with("target_sandbox", summary.target_sandbox.as_ref().map(sandbox))
        .with("status", status)
}

/// The last line of a job that only compared.
fn comparison_line(summary: &Summary, comparison: &ComparisonResult, status: u8) -> JsonLine {
    JsonLine::new("summary")
        .with("files_compared", comparison.files)
        .with("bytes_compared", comparison.bytes)
        .with("differences", comparison.differences)
        .with("failed", summary.failed)
        .with("directories", summary.counters.directories)
        .with("symlinks", summary.counters.symlinks)
        .with("left_out", summary.left_out)
        .with("filtered", summary.counters.filtered)
        .with("seconds", summary.elapsed.as_secs_f64())
        .with("bytes_per_s", bytes_per_s(comparison.bytes, summary.elapsed))
        .with("restarts", summary.restarts)
        .with("source_cpu_s", summary.source_cpu.as_secs_f64())
        .with("target_cpu_s", summary.target_cpu.as_secs_f64())
        .with("source_system_s", summary.source_system.as_secs_f64())
        .with("target_system_s", summary.target_system.as_secs_f64())
        .with("source_peak_bytes", summary.source_peak_bytes)
        .with("target_peak_bytes", summary.target_peak_bytes)
        .with("source_direct_bytes", summary.source_direct_bytes)
        .with("target_direct_bytes", summary.target_direct_bytes)
        .with("source_sandbox", summary.source_sandbox.as_ref().map(sandbox))
        .with("target_sandbox", summary.target_sandbox.as_ref().map(sandbox))
        .with("status", status)
}

/// How data travels.
pub fn way_of(way: &TransportPath) -> Value {
    match way {
        TransportPath::None => json!({"kind": "none"}),
        TransportPath::Local { host } => json!({"kind": "local", "host": host}),
        TransportPath::Tcp { path: NetworkPath { from, to, interface, mbit_per_s }, others, instead_of } => json!({
            "kind": "tcp",
            "from": from,
            "to": to,
            "interface": interface,
            "mbit_per_s": mbit_per_s,
            "others": others.iter().map(path).collect::<Vec<_>>(),
            "instead_of": instead_of,
        }),
        TransportPath::Ssh { because } => json!({"kind": "ssh", "because": because}),
    }
}

fn path(NetworkPath { from, to, interface, mbit_per_s }: &NetworkPath) -> Value {
    json!({"from": from, "to": to, "interface": interface, "mbit_per_s": mbit_per_s})
}

fn compression(CompressionResult { method, ratio }: &CompressionResult) -> Value {
    json!({"codec": method.codec().name(), "level": method.level(), "ratio": ratio})
}

fn delta(delta: &DeltaCounters) -> Value {
    let DeltaCounters { files, bytes, old_bytes, told_bytes, carried_bytes, wrong: _ } = delta;
    json!({
        "files": files,
        "bytes": bytes,
        "old_bytes": old_bytes,
        "told_bytes": told_bytes,
        "carried_bytes": carried_bytes,
        "speedup": delta.speedup(),
    })
}

fn read_back(ReadBackBytes { disk_bytes, cache_bytes, memory_bytes }: &ReadBackBytes) -> Value {
    json!({"disk_bytes": disk_bytes, "cache_bytes": cache_bytes, "memory_bytes": memory_bytes})
}

fn sandbox(SandboxReport { confinement, reason }: &SandboxReport) -> Value {
    let reason = Some(reason.as_str()).filter(|reason| !reason.is_empty());
    json!({"confinement": confinement.word(), "reason": reason})
}

/// `null` where no TCP was used.
fn path_of(path: &PathFigures) -> Value {
    if *path == PathFigures::default() {
        return Value::Null;
    }
    json!({
        "round_trip_ms": f64::from(u32::try_from(path.round_trip_us).unwrap_or(u32::MAX)) / 1000.0,
        "segments": path.segments,
        "retransmitted": path.retransmitted,
        "busy_us": path.busy_us,
        "receiver_limited_us": path.receiver_limited_us,
        "buffer_limited_us": path.buffer_limited_us,
    })
}

/// A name is bytes and JSON is text: where they differ, the bytes are added.
pub fn name_of(path: &[u8]) -> Map<String, Value> {
    let mut fields = Map::new();
    fields.insert("path".into(), String::from_utf8_lossy(path).into());
    if std::str::from_utf8(path).is_err() {
        fields.insert("path_hex".into(), hex(path).into());
    }
    fields
}

fn slow_file(SlowFile { path, size, took_us }: &SlowFile) -> Value {
    let mut fields = name_of(path);
    fields.insert("bytes".into(), (*size).into());
    fields.insert("seconds".into(), json!(Duration::from_micros(*took_us).as_secs_f64()));
    fields.into()
}

/// JSON without what could disturb a terminal or mislead a reader: JSON has another way to write that, and allows all but
/// the oldest control characters as they are. Outside of strings it has nothing of the kind.
pub fn harmless_json(json: &str) -> String {
    let mut line = String::with_capacity(json.len());
    push_harmless(&mut line, json);
    line
}

fn push_harmless(line: &mut String, json: &str) {
    for c in json.chars() {
        match disturbs(c) {
            true => c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| line.push_str(&format!("\\u{unit:04x}"))),
            false => line.push(c),
        }
    }
}

/// One line, its fields in the order in which they were added.
pub struct JsonLine(String);

impl JsonLine {
    /// Begins the line of an event.
    pub fn new(event: &str) -> Self {
        Self(String::from("{")).with("event", event)
    }

    /// Adds a field.
    pub fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        let comma = if self.0.len() > 1 { "," } else { "" };
        self.0.push_str(&format!("{comma}{}:", Value::from(key)));
        let value = match value.into() {
            Value::String(text) if key == "message" => without_numbers(&text).into(),
            value => value,
        };
        push_harmless(&mut self.0, &value.to_string());
        self
    }

    /// The fields of a name.
    pub fn path(self, path: &[u8]) -> Self {
        name_of(path).into_iter().fold(self, |line, (key, value)| line.with(&key, value))
    }

    /// The whole line.
    pub fn ended(mut self) -> String {
        self.0.push_str("}\n");
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::super::human::Verbosity;
    use super::super::human::tests::every_event;
    use super::super::summary::tests::example;
    use super::*;
    use crate::text::TextOutput;
    use crate::text::tests::Paper;
    use haul_engine::job::error::Error;
    use haul_engine::job::event::SyncCounters;

    fn run(outcome: &Outcome) -> (String, String) {
        let (out, err) = (Paper::default(), Paper::default());
        let mut json = Json::new(
            Box::new(out.clone()),
            Human::new(TextOutput::new(Box::new(err.clone()), false), Verbosity::Errors),
        );
        every_event().iter().for_each(|event| json.event(event));
        json.finish(outcome).unwrap();
        (out.text(), err.text())
    }

    #[test]
    fn every_event_is_a_line() {
        let (out, err) = run(&Ok(example()));
        assert!(
            out.lines().all(|line| serde_json::from_str::<Value>(line).is_ok_and(|value| value["event"].is_string()))
        );
        assert_eq!(err, "haul: db1: run7/b: no space left\n      hint: free some\n");
        let own_time = |line: &str| match line.rsplit_once(",\"seconds\":") {
            Some((before, time)) if time.trim_end_matches('}').parse::<f64>().is_ok() => {
                format!("{before},\"seconds\":SECONDS}}\n")
            }
            _ => format!("{line}\n"),
        };
        let out: String = out.lines().map(own_time).collect();
        insta::assert_snapshot!(out, @r#"
            {"event":"deployed","host":"db1","path":"/home/me/.cache/haul/0.1.0-ab/haul"}
            {"event":"connected","way":{"from":"10.10.1.155:40312","instead_of":null,"interface":"enp5s0f1","kind":"tcp","mbit_per_s":10000,"others":[],"to":"10.10.1.202:35011"},"streams":8,"cipher":"aes-256-gcm","seconds":SECONDS}
            {"event":"moved","way":{"from":"10.2.0.1:1","instead_of":null,"interface":null,"kind":"tcp","mbit_per_s":null,"others":[{"from":"10.1.0.1:3","interface":null,"mbit_per_s":null,"to":"10.1.0.2:4"}],"to":"10.2.0.2:2"},"message":"it carries 944 Mbit/s, the previous one 95"}
            {"event":"progress","files_found":12408,"bytes_found":333100000000,"walk_complete":true,"files_settled":7001,"bytes_written":203300000000,"bytes_skipped":100000000,"bytes_compared":0,"streams":8,"limited_by":null,"seconds":SECONDS}
            {"event":"file","path":"run7/a","bytes":5,"copied":true,"blake3":"abababababababababababababababababababababababababababababababab"}
            {"event":"file","path":"run7/�","path_hex":"72756e372fff","bytes":0,"copied":false,"blake3":null}
            {"event":"left_out","path":"run7/pipe","reason":"is a FIFO"}
            {"event":"item","path":"run7/�","path_hex":"72756e372ffe","what":"directory","change":"deleted","reasons":[]}
            {"event":"failed","path":"run7/b","host":"db1","message":"no space left\nfree some"}
            {"event":"rate_limit","bytes_per_s":52428800}
            {"event":"pause","paused":true}
            {"event":"streams","wanted":12}
            {"event":"again","message":"lost the connection to db1: no message for 15 s","pause_s":2.0,"attempt":2,"attempts":10,"left_s":null}
            {"event":"notice","message":"a word"}
            {"event":"summary","files_copied":12408,"files_skipped":0,"failed":0,"directories":341,"symlinks":1,"left_out":0,"filtered":0,"bytes":333149000000,"bytes_skipped":0,"seconds":284.0,"paused_s":0.0,"bytes_per_s":1173059859.1549296,"restarts":0,"way":{"from":"10.10.1.155:40312","instead_of":null,"interface":"enp5s0f1","kind":"tcp","mbit_per_s":10000,"others":[],"to":"10.10.1.202:35011"},"streams":8,"cipher":"aes-256-gcm","path":null,"verdict":null,"parts":{},"load":{"source":null,"target":null},"rate_limit_bytes_per_s":null,"frames_resent":0,"bytes_on_wire":333200000000,"compression":null,"source_cpu_s":12.3,"target_cpu_s":14.1,"source_system_s":4.1,"target_system_s":6.2,"source_peak_bytes":41000000,"target_peak_bytes":57500000,"source_direct_bytes":0,"target_direct_bytes":0,"slowest":[{"bytes":4290000000,"path":"run7/big.db","seconds":3.7}],"cloned_bytes":0,"durable":true,"delta":null,"deleted":0,"backed_up":0,"linked":0,"adjusted":0,"deleted_at_source":0,"left_at_source":0,"dry_run":false,"read_back":null,"source_sandbox":{"confinement":"full","reason":null},"target_sandbox":{"confinement":"full","reason":null},"status":0}
        "#);
    }

    #[test]
    fn a_name_that_would_disturb_a_terminal_is_written_another_way() {
        let name = "a\n\u{1b}[2J\u{7f}\u{9b}2J\u{202e}caf\u{e9}\\\u{e0041}";
        let line = JsonLine::new("file").path(name.as_bytes()).ended();
        assert_eq!(
            line,
            "{\"event\":\"file\",\"path\":\"a\\n\\u001b[2J\\u007f\\u009b2J\\u202ecaf\u{e9}\\\\\\udb40\\udc41\"}\n"
        );
        assert_eq!(serde_json::from_str::<Value>(&line).unwrap()["path"], name);
    }

    #[test]
    fn what_differs_is_a_line_and_the_summary_counts_it() {
        use super::super::differences::tests::every_difference;
        let out = Paper::default();
        let mut json = Json::new(
            Box::new(out.clone()),
            Human::new(TextOutput::new(Box::new(Paper::default()), false), Verbosity::Errors),
        );
        json.event(&Event::Differs { path: b"run7/a".to_vec(), host: "db1".into(), differences: every_difference() });
        let comparison = Some(ComparisonResult { files: 12_408, bytes: 333_149_000_000, differences: 1 });
        json.finish(&Ok(Summary { comparison, files_copied: 0, bytes: 0, ..example() })).unwrap();
        insta::assert_snapshot!(out.text(), @r#"
        {"event":"differs","path":"run7/a","host":"db1","differences":[{"kind":"directory","what":"missing"},{"kind":"symlink","what":"extra"},{"source":"directory","target":"file","what":"kind"},{"source":5,"target":6,"what":"size"},{"source":"a\n","target":"�","what":"link"},{"source":"0644","target":"4755","what":"mode"},{"source":[1000,100],"target":[0,0],"what":"owner"},{"bytes":2621440,"ranges":[[524288,1048576],[5242880,7340032]],"what":"content"},{"changed":["user.c"],"count":40,"extra":["user.b\n"],"missing":["user.a"],"what":"attributes"},{"at":"source","of":"t/first","what":"name"},{"at":"target","of":"t/first","what":"name"},{"source":"fifo","target":"block 8:1","what":"node"}]}
        {"event":"summary","files_compared":12408,"bytes_compared":333149000000,"differences":1,"failed":0,"directories":341,"symlinks":1,"left_out":0,"filtered":0,"seconds":284.0,"bytes_per_s":1173059859.1549296,"restarts":0,"source_cpu_s":12.3,"target_cpu_s":14.1,"source_system_s":4.1,"target_system_s":6.2,"source_peak_bytes":41000000,"target_peak_bytes":57500000,"source_direct_bytes":0,"target_direct_bytes":0,"source_sandbox":{"confinement":"full","reason":null},"target_sandbox":{"confinement":"full","reason":null},"status":1}
        "#);
    }

    #[test]
    fn what_is_made_changed_and_removed_is_a_line_each() {
        use super::super::items::tests::every_item;
        let out = Paper::default();
        let mut json = Json::new(
            Box::new(out.clone()),
            Human::new(TextOutput::new(Box::new(Paper::default()), false), Verbosity::Errors),
        );
        every_item().into_iter().for_each(|(path, item)| json.event(&Event::Item { path, item }));
        let sync =
            SyncCounters { removed: 2, backed_up: 3, linked: 4, adjusted: 5, removed_at_source: 6, left_at_source: 7 };
        json.finish(&Ok(Summary { sync, is_dry: true, ..example() })).unwrap();
        let shown = out.text();
        let (summary, items) = shown.trim_end().rsplit_once('\n').map(|(items, summary)| (summary, items)).unwrap();
        insta::assert_snapshot!(items, @r#"
            {"event":"item","path":"run7","what":"directory","change":"created","reasons":[]}
            {"event":"item","path":"run7/a.dat","what":"file","change":"created","reasons":[]}
            {"event":"item","path":"run7/b","what":"file","change":"replaced","reasons":["size","time"]}
            {"event":"item","path":"run7/c","what":"symlink","change":"replaced","reasons":["kind","content"]}
            {"event":"item","path":"run7/d","what":"directory","change":"adjusted","reasons":["mode","owner","attributes","link"]}
            {"event":"item","path":"run7/e","what":"file","change":"linked","reasons":[]}
            {"event":"item","path":"run7/z\n\u001b","what":"special","change":"deleted","reasons":[]}
            {"event":"item","path":"run7/z","what":"directory","change":"deleted","reasons":[]}
            "#);
        let fields = r#""deleted":2,"backed_up":3,"linked":4,"adjusted":5,"deleted_at_source":6,"left_at_source":7,"dry_run":true"#;
        assert!(summary.contains(fields), "{summary}");
    }

    #[test]
    fn an_error_is_the_last_line() {
        let (out, err) = run(&Err(Error::Connect("db1: no\ntry this".into())));
        insta::assert_snapshot!(out.lines().last().unwrap(), @r#"{"event":"error","message":"db1: no\ntry this","status":3}"#);
        assert!(err.ends_with("haul: db1: no\n      hint: try this\n"), "{err}");
    }

    #[test]
    fn a_reader_that_is_gone_is_reported_once_at_the_end() {
        struct Full;
        impl Write for Full {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::StorageFull.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let err = Paper::default();
        let mut json =
            Json::new(Box::new(Full), Human::new(TextOutput::new(Box::new(err.clone()), false), Verbosity::Errors));
        json.event(&Event::Warning("a word".into()));
        assert_eq!(json.finish(&Ok(example())).unwrap_err().kind(), io::ErrorKind::StorageFull);
    }

    #[test]
    fn events_come_in_order_and_files_need_not_be_flushed_one_by_one() {
        struct Counting(Paper, std::rc::Rc<std::cell::Cell<usize>>);
        impl Write for Counting {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                self.0.write(bytes)
            }
            fn flush(&mut self) -> io::Result<()> {
                self.1.set(self.1.get() + 1);
                Ok(())
            }
        }
        let flushes = std::rc::Rc::default();
        let out = Counting(Paper::default(), std::rc::Rc::clone(&flushes));
        let mut json =
            Json::new(Box::new(out), Human::new(TextOutput::new(Box::new(Paper::default()), false), Verbosity::Errors));
        let file = Event::FileDone { path: b"a".to_vec(), size: 0, copied: false, digest: None };
        (0..100).for_each(|_| json.event(&file));
        assert_eq!(flushes.get(), 0);
        json.event(&Event::Warning("now".into()));
        assert_eq!(flushes.get(), 1);
    }
}
