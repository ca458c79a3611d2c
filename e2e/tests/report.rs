//! `--report`: pages about copies, as a browser sees them.

use std::fs;
use std::path::Path;

use haul_e2e::{Browser, Remote, Sandbox, compare, contents, listing};

/// Copies for about two seconds, with a report.
fn report_of_a_push(sandbox: &Sandbox, name: &str) -> String {
    let remote = Remote::new(sandbox);
    sandbox.big_file("source/big", 40_000_000);
    sandbox.file("source/<img src=x onerror=alert(1)>\u{202e}gnp", "small");
    let haul = remote.haul(sandbox).args(["-r", "-s", "4", "--xfrrate", "20m", "--report", name, "source"]);
    haul.arg(remote.at(sandbox.path("target"))).run().succeeds();
    compare(&sandbox.path("source"), &sandbox.path("target")).unwrap();
    String::from_utf8(contents(&sandbox.path(name))).unwrap()
}

#[test]
fn a_browser_draws_the_charts_without_errors() {
    let sandbox = Sandbox::new();
    let Some(browser) = Browser::or_skip(&sandbox) else { return };
    let page = report_of_a_push(&sandbox, "copy.html");
    let read = browser.read(&sandbox.path("copy.html"));
    assert_eq!(read.complaints, Vec::<String>::new());
    let count = |what: &str| read.dom.matches(what).count();
    assert!(
        count("<svg class=\"chart\"") >= 3 && count("<polyline fill=\"none\" opacity=\"1\" stroke=\"#0B63B5\"") >= 3,
        "{}",
        read.dom
    );
    for said in ["rate (MB/s)", "time since the command began (s)", "<h2>Result</h2>", "every byte verified"] {
        assert!(read.dom.contains(said), "{said}: {}", read.dom);
    }
    // The rendered page exceeds the page without its charts, and has other colours in dark mode.
    let drawn = |name: &str, is_dark| {
        let to = sandbox.path(format!("{name}.png"));
        browser.draw(&sandbox.path(name), &to, is_dark);
        contents(&to)
    };
    sandbox.file("bare.html", page.replace("</style>", "svg.chart { visibility: hidden }</style>"));
    let [light, dark, bare] = [drawn("copy.html", false), drawn("copy.html", true), drawn("bare.html", false)];
    assert!(light.len() > bare.len() + 5000, "{} and {} bytes", light.len(), bare.len());
    assert!(dark.len() > bare.len() + 5000 && light != dark, "{} bytes", dark.len());
}

#[test]
fn a_page_is_self_contained_and_names_are_only_text() {
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    // A file that cannot be copied is named in the report.
    sandbox.file("source/<img src=x onerror=alert(1)>\u{202e}gnp", "new");
    sandbox.file("target/<img src=x onerror=alert(1)>\u{202e}gnp", "older");
    let haul = remote.haul(&sandbox).args(["-r", "--report", "copy.html", "source/."]);
    haul.arg(remote.at(sandbox.path("target"))).run().ends(1);
    let page = String::from_utf8(contents(&sandbox.path("copy.html"))).unwrap();
    assert!(page.contains("&lt;img src=x onerror=alert(1)&gt;\\u{202e}gnp"), "{page}");
    for never in ["<img", "<script", "href", "url(", "http://", "\u{202e}"] {
        assert!(!page.contains(never), "{never}: {page}");
    }
}

#[test]
fn a_failed_copy_has_a_report_and_a_meaningless_one_has_none() {
    let sandbox = Sandbox::new();
    sandbox.big_file("source", 30_000_000);
    let run = sandbox
        .haul(["--no-resume", "--xfrrate", "5m", "--timelimit", "2", "--report", "copy.md", "source", "target"])
        .run()
        .ends(4);
    run.says(["time limit"]);
    let text = String::from_utf8(contents(&sandbox.path("copy.md"))).unwrap();
    assert!(text.contains("Incomplete:") && text.contains("### Rate over time"), "{text}");
    sandbox.haul(["--report", "copy.pdf", "source", "target"]).run().ends(2).says(["copy.pdf", ".html", ".md"]);
    sandbox.haul(["--report", "none/copy.md", "source", "target"]).run().ends(1).says(["none/copy.md"]);
    assert!(!sandbox.path("target").exists(), "it is known before the copy");
    let left = fs::read_dir(sandbox.path("")).unwrap().filter_map(Result::ok);
    assert!(left.map(|entry| entry.file_name()).all(|name| !name.to_string_lossy().starts_with(".haul")));
}

#[test]
fn an_old_report_stays_until_the_new_one_is_complete() {
    let sandbox = Sandbox::new();
    sandbox.file("source", "content");
    sandbox.file("copy.md", "somebody's notes");
    sandbox.haul(["--report", "copy.md", "source", "target"]).run().ends(1).says(["copy.md", "not a page of haul"]);
    assert_eq!(contents(&sandbox.path("copy.md")), b"somebody's notes");
    sandbox.file("copy.md", "# haul: old\n");
    sandbox.haul(["--report", "copy.md", "missing", "target"]).run().ends(1);
    let new = contents(&sandbox.path("copy.md"));
    assert!(String::from_utf8_lossy(&new).contains("missing to target"));
    sandbox.haul(["--json", "--report", "copy.md", "source", "target"]).run().succeeds();
    assert!(String::from_utf8_lossy(&contents(&sandbox.path("copy.md"))).contains("1 file, 7 bytes"));
    assert_eq!(listing(Path::new(&sandbox.path(""))), ["copy.md", "home", "source", "target"]);
}

#[test]
fn several_copies_are_lines_of_one_chart() {
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    for (name, rate) in [("slow.json", "10m"), ("<b>fast.json", "20m")] {
        let haul =
            sandbox.haul(["--json", "--progress=1", "--xfrrate", rate, "null:30m"]).args(remote.sshd().haul_args());
        let run = haul.arg(remote.at("null:")).run().succeeds();
        sandbox.file(name, &run.stdout);
    }
    let net = sandbox.haul(["net", "--json", "--duration=2s"]).args(remote.sshd().haul_args()).arg("127.0.0.1");
    sandbox.file("net.json", &net.run().succeeds().stdout);
    let run = sandbox.haul(["report", "slow.json", "<b>fast.json", "net.json", "--out", "both.html"]).run().succeeds();
    assert_eq!(run.stdout, "both.html\n");
    let page = String::from_utf8(contents(&sandbox.path("both.html"))).unwrap();
    for said in [
        "Rate over time (incremental)",
        "Mean rate so far (cumulative)",
        "<td>slow.json</td>",
        "<td>net.json</td>",
        "&lt;b&gt;fast",
    ] {
        assert!(page.contains(said), "{said}: {page}");
    }
    assert!(!page.contains("<b>") && page.matches("<svg class=\"chart\"").count() >= 3, "{page}");
    sandbox.file("other.json", "{\"event\":\"summary\"}\n");
    sandbox.haul(["report", "slow.json", "other.json"]).run().ends(1).says(["other.json: no progress", "haul --json"]);
    sandbox.haul(["report", "slow.json", "--out", "both.pdf"]).run().ends(2).says(["both.pdf"]);
    sandbox.haul(["report"]).run().ends(2).says(["haul --json SOURCE TARGET"]);
    assert!(!sandbox.path("report.html").exists());
}
