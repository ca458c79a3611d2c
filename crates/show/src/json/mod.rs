//! Events for programs: one JSON object per line on standard output. docs/JSON.md describes each.

mod event;
mod summary;
mod transport;

use std::borrow::Cow;
use std::io::{self, Write};
use std::time::Instant;

use haul_base::copy::error::Outcome;
use haul_base::copy::event::{Event, Observer};
use haul_base::copy::summary::Summary;
use haul_base::sys::describe::without_numbers;
use haul_proto::checksum::hex;
use haul_proto::path::disturbs;
use serde::ser::Error as _;
use serde::{Serialize, Serializer};
use serde_json::Value;

pub use self::event::{FailureLine, JobLine, NoticeLine, TargetLine, TargetStatus};
pub use self::transport::TransportFields;
use super::human::Human;
use super::{Half, Show};
use crate::exit::Exit;

/// Lines of JSON; errors are also written as text.
pub struct Json {
    out: Box<dyn Write>,
    human: Human,
    /// The target of each line, if there are several.
    target: Option<String>,
    begun: Instant,
    broken: Option<io::Error>,
    /// What a copy had done that ends with an error.
    stopped: Option<Box<Summary>>,
}

impl Json {
    /// Writes lines to `out`, and messages by `human`.
    pub fn new(out: Box<dyn Write>, human: Human) -> Self {
        Self { out, human, target: None, begun: Instant::now(), broken: None, stopped: None }
    }

    /// Names the target in each line, if there are several.
    pub fn about(self, target: Option<&str>) -> Self {
        Self { target: target.map(str::to_owned), ..self }
    }

    /// Writes a line. Lines of files are buffered, since a copy may have millions; all others are flushed.
    fn send(&mut self, line: &JobLine<'_>, at_once: bool) {
        if self.broken.is_some() {
            return;
        }
        let line = TargetLine { line, to: self.target.as_deref() };
        let mut result = self.out.write_all(encode(&line).as_bytes());
        if at_once {
            result = result.and_then(|()| self.out.flush());
        }
        self.broken = result.err();
    }
}

impl Observer for Json {
    fn event(&mut self, event: &Event) {
        let at_once = !matches!(event, Event::FileDone(_) | Event::Checksum { .. } | Event::Item(_));
        self.send(&JobLine::new(event, self.begun.elapsed()), at_once);
        self.human.event(event);
        if let Event::Stopped(summary) = event {
            self.stopped = Some(summary.clone());
        }
    }
}

impl Show for Json {
    fn complain(&mut self, message: &str) {
        self.human.complain(message);
    }

    fn without_other_half(&mut self, half: Half, path: &[u8]) {
        let name = JsonName::from(path);
        let line = match half {
            Half::File => JobLine::Unlisted { name },
            Half::Line => JobLine::Unmet { name },
        };
        self.send(&line, false);
    }

    fn finish(&mut self, outcome: &Outcome) -> io::Result<()> {
        if let (Some(summary), Err(_)) = (self.stopped.take(), outcome) {
            self.send(&JobLine::summary(&summary, Exit::of(outcome)), true);
        }
        self.send(&JobLine::last(outcome), true);
        self.human.finish(outcome)?;
        self.broken.take().map_or(Ok(()), Err)
    }
}

/// The last line, as a value.
pub fn last(outcome: &Outcome) -> Value {
    serde_json::from_str(&encode(&JobLine::last(outcome))).unwrap_or_default()
}

/// Escapes control characters and bidirectional controls, which JSON permits in strings, for terminals and readers.
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

/// The line of an event, with its end.
pub fn encode(event: &impl Serialize) -> String {
    // Serialisation fails only for maps with keys other than text, and these types have none.
    let mut line = harmless_json(&serde_json::to_string(event).unwrap_or_default());
    line.push('\n');
    line
}

/// Serialises a value with the keys of its objects sorted.
pub fn sorted<T: Serialize, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
    serde_json::to_value(value).map_err(S::Error::custom)?.serialize(serializer)
}

/// A name as text, with its bytes if it is not UTF-8.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
pub struct JsonName {
    path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    path_hex: Option<String>,
}

impl From<&[u8]> for JsonName {
    fn from(path: &[u8]) -> Self {
        let path_hex = std::str::from_utf8(path).is_err().then(|| hex(path));
        Self { path: String::from_utf8_lossy(path).into_owned(), path_hex }
    }
}

/// A message, without error numbers.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct JsonMessage(String);

impl From<&str> for JsonMessage {
    fn from(text: &str) -> Self {
        Self(without_numbers(text).into_owned())
    }
}

/// The argument of an option; `true` without one.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum OptionArgument<'a> {
    /// An argument.
    Text(Cow<'a, str>),
    /// None.
    Flag(bool),
}

impl<'a> From<Option<Cow<'a, str>>> for OptionArgument<'a> {
    fn from(argument: Option<Cow<'a, str>>) -> Self {
        argument.map_or(Self::Flag(true), Self::Text)
    }
}

#[cfg(test)]
mod tests {
    use haul_base::copy::error::Error;
    use haul_base::copy::event::{FileReport, ItemReport, SyncCounters};
    use haul_base::copy::summary::{ComparisonResult, IntegritySummary, Summary, TransferTotals};
    use haul_proto::entry::Timestamp;

    use super::super::human::Verbosity;
    use super::*;
    use crate::testing::{Paper, every_event, example};
    use crate::text::TextOutput;

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
        {"event":"connected","transport":{"from":"10.10.1.155:40312","instead_of":null,"interface":"enp5s0f1","kind":"tcp","mbit_per_s":10000,"others":[],"to":"10.10.1.202:35011"},"streams":8,"cipher":"aes-256-gcm","seconds":SECONDS}
        {"event":"moved","transport":{"from":"10.2.0.1:1","instead_of":null,"interface":null,"kind":"tcp","mbit_per_s":null,"others":[{"from":"10.1.0.1:3","interface":null,"mbit_per_s":null,"to":"10.1.0.2:4"}],"to":"10.2.0.2:2"},"message":"it carries 944 Mbit/s, the previous one 95"}
        {"event":"progress","files_found":12408,"bytes_found":333100000000,"walk_complete":true,"files_settled":7001,"bytes_written":203300000000,"bytes_skipped":100000000,"bytes_compared":0,"streams":8,"limited_by":null,"seconds":SECONDS}
        {"event":"file","path":"run7/a","bytes":5,"copied":true,"blake3":"abababababababababababababababababababababababababababababababab"}
        {"event":"file","path":"run7/�","path_hex":"72756e372fff","bytes":0,"copied":false,"blake3":null}
        {"event":"left_out","path":"run7/pipe","reason":"is a FIFO"}
        {"event":"item","path":"run7/�","path_hex":"72756e372ffe","what":"directory","change":"deleted","reasons":[],"bytes":null,"modified_ns":null}
        {"event":"source_changed","path":"run7/log","change":"grew"}
        {"event":"failed","path":"run7/b","host":"db1","message":"no space left\nfree some"}
        {"event":"rate_limit","bytes_per_s":52428800}
        {"event":"pause","paused":true}
        {"event":"streams","wanted":12}
        {"event":"again","message":"lost the connection to db1: no message for 15 s","pause_s":2.0,"attempt":2,"attempts":10,"left_s":null}
        {"event":"notice","message":"a word"}
        {"event":"summary","files_copied":12408,"files_skipped":0,"failed":0,"directories":341,"symlinks":1,"vanished":0,"left_out":0,"filtered":0,"bytes":333149000000,"bytes_skipped":0,"seconds":284.0,"paused_s":0.0,"bytes_per_s":1173059859.1549296,"restarts":0,"transport":{"from":"10.10.1.155:40312","instead_of":null,"interface":"enp5s0f1","kind":"tcp","mbit_per_s":10000,"others":[],"to":"10.10.1.202:35011"},"streams":8,"cipher":"aes-256-gcm","path":null,"verdict":null,"parts":{},"load":{"source":null,"target":null},"rate_limit_bytes_per_s":null,"frames_resent":0,"bytes_on_wire":333200000000,"compression":null,"source_cpu_s":12.3,"target_cpu_s":14.1,"source_system_s":4.1,"target_system_s":6.2,"source_peak_bytes":41000000,"target_peak_bytes":57500000,"source_direct_bytes":0,"target_direct_bytes":0,"slowest":[{"bytes":4290000000,"path":"run7/big.db","seconds":3.7}],"target_written_bytes":0,"cloned_bytes":0,"durable":true,"delta":null,"deleted":0,"backed_up":0,"linked":0,"adjusted":0,"deleted_at_source":0,"left_at_source":0,"dry_run":false,"files_planned":0,"bytes_planned":0,"read_back":null,"source_sandbox":{"confinement":"full","reason":null},"target_sandbox":{"confinement":"full","reason":null},"status":0}
        "#);
    }

    #[test]
    fn a_name_that_could_disturb_a_terminal_is_escaped() {
        let name = "a\n\u{1b}[2J\u{7f}\u{9b}2J\u{202e}caf\u{e9}\\\u{e0041}";
        let line = encode(&JobLine::Unmet { name: name.as_bytes().into() });
        assert_eq!(
            line,
            "{\"event\":\"unmet\",\"path\":\"a\\n\\u001b[2J\\u007f\\u009b2J\\u202ecaf\u{e9}\\\\\\udb40\\udc41\"}\n"
        );
        assert_eq!(serde_json::from_str::<Value>(&line).unwrap()["path"], name);
    }

    #[test]
    fn a_difference_is_a_line_and_counted_in_the_summary() {
        use super::super::differences::tests::every_difference;
        let out = Paper::default();
        let mut json = Json::new(
            Box::new(out.clone()),
            Human::new(TextOutput::new(Box::new(Paper::default()), false), Verbosity::Errors),
        );
        json.event(&Event::Differs { path: b"run7/a".to_vec(), host: "db1".into(), differences: every_difference() });
        let comparison = Some(ComparisonResult { files: 12_408, bytes: 333_149_000_000, differences: 1 });
        json.finish(&Ok(Summary {
            integrity: IntegritySummary { comparison, ..example().integrity },
            files: TransferTotals { copied: 0, bytes: 0, ..example().files },
            ..example()
        }))
        .unwrap();
        insta::assert_snapshot!(out.text(), @r#"
        {"event":"differs","path":"run7/a","host":"db1","differences":[{"kind":"directory","what":"missing"},{"kind":"symlink","what":"extra"},{"source":"directory","target":"file","what":"kind"},{"source":5,"target":6,"what":"size"},{"source":"a\n","target":"�","what":"link"},{"source":"0644","target":"4755","what":"mode"},{"source":[1000,100],"target":[0,0],"what":"owner"},{"bytes":2621440,"ranges":[[524288,1048576],[5242880,7340032]],"what":"content"},{"changed":["user.c"],"count":40,"extra":["user.b\n"],"missing":["user.a"],"what":"attributes"},{"at":"source","of":"t/first","what":"name"},{"at":"target","of":"t/first","what":"name"},{"source":"fifo","target":"block 8:1","what":"node"}]}
        {"event":"summary","files_compared":12408,"bytes_compared":333149000000,"differences":1,"failed":0,"directories":341,"symlinks":1,"vanished":0,"left_out":0,"filtered":0,"seconds":284.0,"bytes_per_s":1173059859.1549296,"restarts":0,"source_cpu_s":12.3,"target_cpu_s":14.1,"source_system_s":4.1,"target_system_s":6.2,"source_peak_bytes":41000000,"target_peak_bytes":57500000,"source_direct_bytes":0,"target_direct_bytes":0,"source_sandbox":{"confinement":"full","reason":null},"target_sandbox":{"confinement":"full","reason":null},"status":1}
        "#);
    }

    #[test]
    fn each_created_changed_or_removed_entry_is_a_line() {
        use super::super::items::tests::every_item;
        let out = Paper::default();
        let mut json = Json::new(
            Box::new(out.clone()),
            Human::new(TextOutput::new(Box::new(Paper::default()), false), Verbosity::Errors),
        );
        let modified = Some(Timestamp { seconds: -1, nanoseconds: 7 });
        every_item().into_iter().for_each(|(path, item)| {
            json.event(&Event::Item(ItemReport { path, item, size: Some(5), modified, first_name: None }));
        });
        let sync =
            SyncCounters { removed: 2, backed_up: 3, linked: 4, adjusted: 5, removed_at_source: 6, left_at_source: 7 };
        json.finish(&Ok(Summary { sync, is_dry: true, ..example() })).unwrap();
        let shown = out.text();
        let (summary, items) = shown.trim_end().rsplit_once('\n').map(|(items, summary)| (summary, items)).unwrap();
        insta::assert_snapshot!(items, @r#"
            {"event":"item","path":"run7","what":"directory","change":"created","reasons":[],"bytes":5,"modified_ns":-999999993}
            {"event":"item","path":"run7/a.dat","what":"file","change":"created","reasons":[],"bytes":5,"modified_ns":-999999993}
            {"event":"item","path":"run7/b","what":"file","change":"replaced","reasons":["size","time"],"bytes":5,"modified_ns":-999999993}
            {"event":"item","path":"run7/c","what":"symlink","change":"replaced","reasons":["kind","content"],"bytes":5,"modified_ns":-999999993}
            {"event":"item","path":"run7/d","what":"directory","change":"adjusted","reasons":["mode","owner","attributes","link"],"bytes":5,"modified_ns":-999999993}
            {"event":"item","path":"run7/e","what":"file","change":"linked","reasons":[],"bytes":5,"modified_ns":-999999993}
            {"event":"item","path":"run7/z\n\u001b","what":"special","change":"deleted","reasons":[],"bytes":5,"modified_ns":-999999993}
            {"event":"item","path":"run7/z","what":"directory","change":"deleted","reasons":[],"bytes":5,"modified_ns":-999999993}
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
    fn a_copy_that_ends_early_has_a_summary_before_its_error() {
        let (out, err) = (Paper::default(), Paper::default());
        let human = Human::new(TextOutput::new(Box::new(err.clone()), false), Verbosity::Errors);
        let mut json = Json::new(Box::new(out.clone()), human);
        json.event(&Event::Stopped(Box::new(example())));
        json.finish(&Err(Error::Interrupted)).unwrap();
        let lines: Vec<Value> = out.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!([&lines[0]["event"], &lines[1]["event"], &lines[2]["event"]], ["stopped", "summary", "error"]);
        assert_eq!((&lines[1]["bytes"], &lines[1]["status"]), (&333_149_000_000_u64.into(), &4.into()));
        assert!(err.text().starts_with("haul: interrupted at "), "{}", err.text());
    }

    #[test]
    fn a_closed_output_is_reported_once_at_the_end() {
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
    fn events_are_in_order_and_files_need_not_be_flushed_one_by_one() {
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
        let file = Event::FileDone(FileReport { path: b"a".to_vec(), size: 0, copied: false, digest: None });
        (0..100).for_each(|_| json.event(&file));
        assert_eq!(flushes.get(), 0);
        json.event(&Event::Warning("now".into()));
        assert_eq!(flushes.get(), 1);
    }
}
