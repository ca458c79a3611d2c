//! Compressed copies: the data arrives unchanged, and the summary reports the compression.

use std::fs;

use haul_e2e::{HostPair, Remote, Sandbox, compare, is_root_or_skip};
use serde_json::Value;

/// Lines that shrink to about a third.
fn text(len: usize) -> Vec<u8> {
    let line = |i: usize| format!("{:05} {:x} {} of the words of this line\n", i % 99_991, i * i * 7919, i * 31 % 1009);
    (0usize..).flat_map(|i| line(i).into_bytes()).take(len).collect()
}

/// A tree of text, of noise, and of small files of text.
fn mixed_tree(sandbox: &Sandbox) -> std::path::PathBuf {
    let source = sandbox.tree("source");
    sandbox.file("source/text", text(12_000_007));
    sandbox.big_file("source/noise", 6_000_000);
    for i in 0..50 {
        sandbox.file(format!("source/small {i}"), text(3000 + i));
    }
    source
}

/// Pushes such a tree with these options and pulls it back; the summary of the push.
fn there_and_back(options: &[&str]) -> Value {
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    let source = mixed_tree(&sandbox);
    remote.there_and_back(&sandbox, &source, options)
}

fn wire_share(summary: &Value) -> f64 {
    summary["bytes_on_wire"].as_f64().unwrap() / summary["bytes"].as_f64().unwrap()
}

#[test]
fn each_codec_and_level_carries_everything() {
    for (option, codec, level) in [
        ("lz4", "lz4", Value::Null),
        ("zstd", "zstd", 3.into()),
        ("1", "zstd", 1.into()),
        ("12", "zstd", 12.into()),
        ("19", "zstd", 19.into()),
    ] {
        let summary = there_and_back(&["--compress", option]);
        let compression = &summary["compression"];
        assert_eq!((&compression["codec"], &compression["level"]), (&codec.into(), &level), "{summary}");
        let (share, ratio) = (wire_share(&summary), compression["ratio"].as_f64().unwrap());
        assert!(share < 0.8 && (ratio * share - 1.0).abs() < 0.05, "{option}: {share} of the bytes, {summary}");
    }
}

#[test]
fn without_compression_all_bytes_travel() {
    for options in [&["--compress", "off"][..], &["--compress", "0"]] {
        let summary = there_and_back(options);
        assert_eq!(summary["compression"], Value::Null, "{summary}");
        assert!((1.0..1.05).contains(&wire_share(&summary)), "{summary}");
    }
}

#[test]
fn unencrypted_data_is_compressed_as_well() {
    let summary = there_and_back(&["--no-encrypt", "--compress", "zstd", "--verify", "memory"]);
    assert_eq!(summary["compression"]["codec"], "zstd", "{summary}");
    assert!(wire_share(&summary) < 0.8, "{summary}");
}

#[test]
fn any_length_of_frames_and_any_number_of_streams_will_do() {
    for (frame, streams) in [("256k", "1"), ("1m", "7")] {
        let summary = there_and_back(&["--frame", frame, "-s", streams, "--compress", "lz4"]);
        assert_eq!(summary["compression"]["codec"], "lz4", "{summary}");
    }
}

#[test]
fn within_one_process_there_is_no_compression() {
    let sandbox = Sandbox::new();
    let source = mixed_tree(&sandbox);
    let summary = sandbox.haul(["--json", "-r", "--compress", "zstd", "source", "target"]).run().succeeds().summary();
    compare(&source, &sandbox.path("target")).unwrap();
    assert_eq!((&summary["compression"], &summary["bytes_on_wire"]), (&Value::Null, &0.into()), "{summary}");
}

#[test]
fn the_summary_reports_compression() {
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    sandbox.file("source", text(3_000_000));
    let run = remote.haul(&sandbox).args(["--compress", "zstd", "source"]).arg(remote.at(sandbox.path("there"))).run();
    run.succeeds().says(["compressed  ", " to 1 (zstd 3)"]);
}

#[test]
fn a_tunnel_carries_compressed_data_too() {
    if !is_root_or_skip("a packet filter") {
        return;
    }
    let sandbox = Sandbox::new();
    let pair = HostPair::new(&sandbox);
    // No new connection but ssh's reaches the far host, and none the near one.
    let port = pair.remote.sshd().port();
    for (host, but) in [(&pair.near, String::new()), (&pair.far, format!("tcp dport != {port}"))] {
        let rule = format!("{but} tcp flags & (syn | ack) == syn reject with tcp reset;");
        host.nft(&format!("table inet e2e {{ chain in {{ type filter hook input priority 0; {rule} }}; }}")).unwrap();
    }
    let source = mixed_tree(&sandbox);
    let there = pair.at(sandbox.path("there"));
    let push = pair.haul(&sandbox).args(["--json", "-r", "--compress", "zstd", "source"]).arg(&there).run().succeeds();
    let summary = push.summary();
    compare(&source, &sandbox.path("there")).unwrap();
    assert_eq!((&summary["transport"]["kind"], &summary["compression"]["codec"]), (&"ssh".into(), &"zstd".into()));
    assert!(wire_share(&summary) < 0.8, "{summary}");
}

#[test]
fn by_default_it_compresses_for_a_slow_cable_and_not_within_a_host() {
    if !is_root_or_skip("a slow cable") {
        return;
    }
    let sandbox = Sandbox::new();
    let pair = HostPair::slow(&sandbox, 100);
    fs::create_dir(sandbox.path("source")).unwrap();
    sandbox.file("source/text", text(40_000_000));
    let haul = |pair: &HostPair, name: &str| {
        let there = pair.at(sandbox.path(name));
        let run = pair.haul(&sandbox).args(["--json", "-r", "source"]).arg(&there).run().succeeds();
        compare(&sandbox.path("source"), &sandbox.path(name)).unwrap();
        run.summary()
    };
    let slow = haul(&pair, "slow");
    assert!(slow["compression"]["ratio"].as_f64().is_some_and(|ratio| ratio > 1.5), "{slow}");
    let remote = Remote::new(&sandbox);
    let within = remote.haul(&sandbox).args(["--json", "-r", "source"]).arg(remote.at(sandbox.path("within")));
    let within = within.run().succeeds().summary();
    assert_eq!(within["compression"], Value::Null, "{within}");
}
