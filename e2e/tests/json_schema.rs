//! The lines of `--json` are those of docs/reference/json.schema.json. `events()` checks each line, here and in all
//! tests.

use std::panic::catch_unwind;

use haul_e2e::schema::assert_valid;
use haul_e2e::{ProgramRun, Sandbox, ServedShare, eventually};
use serde_json::{Value, json};

fn has(run: &ProgramRun, events: &[&str]) -> Vec<Value> {
    let lines = run.events();
    for event in events {
        assert!(lines.iter().any(|line| line["event"] == *event), "{event}\n{}", run.account());
    }
    lines
}

#[test]
fn copies_syncs_and_comparisons_print_valid_lines() {
    let sandbox = Sandbox::new();
    sandbox.file("tree/a", "content");
    sandbox.file("tree/b", "more");
    sandbox.file("kept/tree/a/in-the-way", "");
    let failed = sandbox.haul(["--json", "--checksum", "md5", "-r", "tree", "kept"]).run().ends(1);
    has(&failed, &["failed", "checksum", "file", "progress", "summary"]);
    let server = ServedShare::start(&sandbox, &[]);
    let sent = sandbox.haul(["--json", "-r", "tree", &server.line]).run().succeeds();
    let lines = has(&sent, &["connected", "summary"]);
    let summary = lines.last().unwrap();
    assert_eq!(summary["transport"]["kind"], "tcp");
    assert!(summary["load"]["source"]["stages"].is_object(), "{summary}");
    sandbox.file("tree/b", "changed");
    sandbox.file("shared/tree/extra", "");
    let compared = sandbox.haul(["verify", "--json", "-r", "tree", &server.line]).run().ends(1);
    has(&compared, &["differs", "summary"]);
    let to = server.at("tree");
    let synced = sandbox.haul(["sync", "--json", "--items", "--delete", "tree/", &to]).run().succeeds();
    has(&synced, &["item", "summary"]);
    // A client ends before the server has logged that.
    eventually("three clients in the log", || ["connected", "ended"].iter().all(|event| server.logged(event) >= 3));
    server.end().succeeds();
    let nobody = format!("haul://127.0.0.1:1/#{}", "0f".repeat(16));
    has(&sandbox.haul(["--json", "tree/a", &nobody]).run().ends(3), &["error"]);
}

#[test]
fn measurements_and_surveys_print_valid_lines() {
    let sandbox = Sandbox::new();
    sandbox.file("tree/a.txt", "content");
    sandbox.file("tree/b.txt", "content");
    sandbox.dir("target");
    let survey = sandbox.haul(["survey", "--json", "tree"]).run().succeeds();
    has(&survey, &["sizes", "directory", "big_file", "type", "summary"]);
    let server = ServedShare::start(&sandbox, &[]);
    let net = sandbox.haul(["net", "--json", "--duration", "1", &server.line]).run().succeeds();
    has(&net, &["connected", "net"]);
    server.end().succeeds();
    let probe = sandbox.haul(["probe", "--json", "--time", "4", "tree", "target"]).run();
    has(&probe, &["check", "end", "part", "forecast"]);
    let sweep =
        ["sweep", "--json", "--no-pause", "--size", "1m", "-s", "1,2", "--repeat", "1", "--out", "s", "null:", "null:"];
    has(&sandbox.haul(sweep).run().succeeds(), &["run", "summary"]);
    has(&sandbox.haul(["status", "--json", "target"]).run().succeeds(), &["summary"]);
    assert!(!sandbox.haul(["config", "--json"]).run().succeeds().events().is_empty());
}

#[test]
fn an_undeclared_field_is_invalid() {
    let notice = json!({ "event": "notice", "message": "a" });
    assert_valid(&notice);
    for invalid in [
        json!({ "event": "notice", "message": "a", "more": 1 }),
        json!({ "event": "notice" }),
        json!({ "event": "notice", "message": 1 }),
        json!({ "event": "unheard", "message": "a" }),
        json!({ "event": "part", "part": "whole", "message": "a", "more": 1 }),
        json!({ "event": "shard", "shard": 1, "state": "planned", "files": 1, "bytes": 1, "more": 1 }),
    ] {
        assert!(catch_unwind(|| assert_valid(&invalid)).is_err(), "{invalid}");
    }
}
