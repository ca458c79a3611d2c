//! `haul survey`: its counts equal those of find(1) and du(1), its duplicates are real, and it writes nothing.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use haul_e2e::{Browser, ProgramRun, Remote, Sandbox, fifo, listing, set_mtime, shell, stamp};
use serde_json::Value;

/// find(1)'s count for these words.
fn found(sandbox: &Sandbox, words: &str) -> u64 {
    let run = shell(sandbox, &format!("find {words} | wc -l")).run().succeeds();
    run.stdout.trim().parse().expect("a number")
}

/// Sums up the numbers that a command prints, one a line.
fn sum(sandbox: &Sandbox, script: &str) -> u64 {
    let run = shell(sandbox, script).run().succeeds();
    run.stdout.lines().map(|line| line.trim().parse::<u64>().expect("a number")).sum()
}

fn of<'e>(events: &'e [Value], kind: &str) -> Vec<&'e Value> {
    events.iter().filter(|event| event["event"] == kind).collect()
}

/// Numbers in an object, by their ways.
fn numbers<const N: usize>(object: &Value, ways: [&str; N]) -> [u64; N] {
    ways.map(|way| object.pointer(way).and_then(Value::as_u64).unwrap_or_else(|| panic!("no {way} in {object}")))
}

fn survey(sandbox: &Sandbox, words: &[&str]) -> ProgramRun {
    sandbox.haul(["survey", "--json"]).args(words).run()
}

/// Bytes without a pattern.
fn noise(len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    blake3::Hasher::new().finalize_xof().fill(&mut bytes);
    bytes
}

#[test]
fn its_counts_match_find_and_du() {
    let sandbox = Sandbox::new();
    let tree = sandbox.tree("tree");
    sandbox.file("tree/deep/a/b/c/d.LOG", noise(123_457));
    symlink("deep", tree.join("to-deep")).unwrap();
    fifo(&tree.join("fifo"));
    fs::hard_link(tree.join("deep/a/b/c/d.LOG"), tree.join("second.log")).unwrap();
    let summary = survey(&sandbox, &["tree"]).succeeds().summary();
    let files = found(&sandbox, "tree -type f");
    let bytes = sum(&sandbox, "find tree -type f -printf '%s\\n'");
    assert_eq!(numbers(&summary, ["/files", "/bytes"]), [files, bytes], "{summary}");
    let expected = [found(&sandbox, "tree -type d"), found(&sandbox, "tree -type l"), found(&sandbox, "tree -type p")];
    assert_eq!(numbers(&summary, ["/directories", "/links", "/others"]), expected, "{summary}");
    assert_eq!(numbers(&summary, ["/linked/files", "/linked/bytes", "/unreadable"]), [1, 123_457, 0], "{summary}");
    let events = survey(&sandbox, &["tree"]).succeeds().events();
    let total =
        |kind: &str, field: &str| -> u64 { of(&events, kind).iter().map(|event| event[field].as_u64().unwrap()).sum() };
    assert_eq!([total("sizes", "files"), total("sizes", "bytes")], [files, bytes]);
    assert_eq!([total("type", "files"), total("type", "bytes")], [files, bytes]);
    for directory in of(&events, "directory") {
        let path = directory["path"].as_str().unwrap();
        let below = sum(&sandbox, &format!("find '{path}' -type f -printf '%s\\n'"));
        let own = sum(&sandbox, &format!("find '{path}' -maxdepth 1 -type f -printf '%s\\n'"));
        assert_eq!(numbers(directory, ["/bytes", "/own_bytes"]), [below, own], "{directory}");
    }
    let biggest = of(&events, "big_file")[0];
    let expected = sum(&sandbox, "find tree -type f -printf '%s\\n' | sort -n | tail -1");
    assert_eq!(biggest["bytes"].as_u64(), Some(expected), "{biggest}");
    let log = of(&events, "type").into_iter().find(|kind| kind["ending"] == "log").expect("both cases are one type");
    assert_eq!(numbers(log, ["/files", "/bytes"]), [2, 246_914]);
}

#[test]
fn duplicates_are_found_and_hard_links_are_not() {
    let sandbox = Sandbox::new();
    let (mut one, small) = (noise(3_000_000), noise(500));
    sandbox.file("tree/a/big", &one);
    sandbox.file("tree/b/same", &one);
    sandbox.file("tree/c/same", &one);
    // Of the same size, and other only at its very end.
    *one.last_mut().unwrap() ^= 1;
    sandbox.file("tree/other", &one);
    sandbox.file("tree/small", &small);
    sandbox.file("tree/small-too", &small);
    fs::hard_link(sandbox.path("tree/other"), sandbox.path("tree/other-name")).unwrap();
    for name in ["none", "nothing"] {
        sandbox.file(Path::new("tree").join(name), "");
    }
    let run = survey(&sandbox, &["tree"]).succeeds();
    let ways = ["/duplicates/sets", "/duplicates/spare/files", "/duplicates/spare/bytes", "/duplicates/late/files"];
    assert_eq!(numbers(&run.summary(), ways), [2, 3, 6_000_500, 0], "{}", run.account());
    let events = run.events();
    let set = of(&events, "duplicates")[0];
    assert_eq!(numbers(set, ["/files", "/bytes", "/spare_bytes"]), [3, 3_000_000, 6_000_000], "{set}");
    let digest = blake3::hash(&fs::read(sandbox.path("tree/a/big")).unwrap());
    assert_eq!(set["blake3"].as_str(), Some(digest.to_hex().as_str()));
    let mut paths: Vec<_> =
        set["first"].as_array().unwrap().iter().map(|named| named["path"].as_str().unwrap()).collect();
    paths.sort_unstable();
    assert_eq!(paths, ["tree/a/big", "tree/b/same", "tree/c/same"]);
    let without = survey(&sandbox, &["--no-duplicates", "--no-sample", "tree"]).succeeds().summary();
    assert!(without["duplicates"].is_null() && without["compression"].is_null(), "{without}");
}

#[test]
fn holes_are_no_data_and_incompressible_data_is_distinguished() {
    let sandbox = Sandbox::new();
    let sparse = sandbox.file("sparse/file", noise(65_536));
    fs::File::options().write(true).open(sparse).unwrap().set_len(500_000_000).unwrap();
    let summary = survey(&sandbox, &["sparse"]).succeeds().summary();
    let on_disk = sum(&sandbox, "du -B1 sparse/file | cut -f1");
    let [bytes, data] = numbers(&summary, ["/bytes", "/data_bytes"]);
    assert!(bytes == 500_000_000 && (65_536..=on_disk).contains(&data), "{summary} and {on_disk} on the disk");

    sandbox.file("noise/file", noise(2_000_000));
    sandbox.file("text/file", "all work and no play\n".repeat(100_000));
    let of = |tree: &str| survey(&sandbox, &[tree]).succeeds().summary()["compression"].clone();
    let (noisy, text) = (of("noise"), of("text"));
    assert_eq!(noisy["stubborn"].as_f64(), Some(1.0), "{noisy}");
    assert_eq!(text["stubborn"].as_f64(), Some(0.0), "{text}");
    let ratios: Vec<_> = text["methods"].as_array().unwrap().iter().map(|of| of["ratio"].as_f64().unwrap()).collect();
    assert!(ratios.iter().all(|ratio| *ratio > 10.0), "{text}");
    let words = |tree: &str| sandbox.haul(["survey", tree]).run().succeeds().stdout;
    assert!(words("noise").contains("choice        sent uncompressed"), "{}", words("noise"));
    assert!(words("text").contains("choice        compressed over streams slower than"), "{}", words("text"));
}

#[test]
fn filters_exclude_the_same_as_in_a_copy() {
    let sandbox = Sandbox::new();
    for name in ["a.c", "a.o", "b/b.o", "build/x.c", "build/y/z.c"] {
        sandbox.file(Path::new("tree").join(name), noise(1000));
    }
    sandbox.file("tree/big.c", noise(50_000));
    let filters = ["--exclude", "*.o", "--exclude", "/build/", "--max-size", "10k"];
    let summary = survey(&sandbox, &[&filters[..], &["tree"]].concat()).succeeds().summary();
    let copied = sandbox.haul(["-r", "--json"]).args(filters).args(["tree", "copy"]).run().succeeds().summary();
    let ways = ["/bytes", "/directories", "/filtered"];
    assert_eq!(numbers(&summary, ways), numbers(&copied, ways), "{summary} {copied}");
    assert_eq!(numbers(&summary, ["/files", "/directories", "/filtered"]), [1, 2, 4], "{summary}");
}

#[test]
fn copied_files_exist_and_the_rest_would_be_sent() {
    let sandbox = Sandbox::new();
    let tree = sandbox.tree("tree");
    let target = sandbox.dir("target");
    let ways = ["/target/same/files", "/target/differs/files", "/target/missing/files", "/target/send_bytes"];
    let there = |to: &str| numbers(&survey(&sandbox, &["--to", to, "tree"]).succeeds().summary(), ways);
    let files = found(&sandbox, "tree -type f");
    assert_eq!(there("target")[..3], [0, 0, files]);
    sandbox.haul(["-r", "tree", "target"]).run().succeeds();
    assert_eq!(there("target"), [files, 0, 0, 0]);
    // A tree copied under another name is resumed, and the survey recognises it as well.
    sandbox.haul(["-r", "tree", "renamed"]).run().succeeds();
    assert_eq!(there("renamed"), [files, 0, 0, 0]);
    sandbox.file("tree/new", "12345");
    let changed = sandbox.file("tree/changed", "1234567");
    sandbox.file("target/tree/changed", "1234567");
    set_mtime(&changed, 1_000_000, 7);
    assert_eq!(there("target"), [files, 1, 1, 12]);
    let before = stamp(&tree);
    assert_eq!(there("nowhere")[..3], [0, 0, files + 2]);
    assert!(stamp(&tree) == before && listing(&target) == ["tree"] && !sandbox.path("nowhere").exists());
}

#[test]
fn unreadable_entries_are_named_and_counted() {
    let sandbox = Sandbox::new();
    sandbox.file("tree/fine", "fine");
    let run = survey(&sandbox, &["tree", "absent"]).ends(1);
    assert_eq!(numbers(&run.summary(), ["/files", "/unreadable", "/status"]), [1, 1, 1]);
    let events = run.events();
    let failed = of(&events, "failed")[0];
    assert_eq!(failed["path"].as_str(), Some("absent"));
    let words = sandbox.haul(["survey", "tree", "absent"]).run().ends(1);
    assert!(words.stdout.contains("absent: No such file"), "{}", words.account());
    let nothing = sandbox.haul(["survey", "absent"]).run().ends(1);
    assert_eq!((&*nothing.stdout, &*nothing.stderr), ("", "haul: absent: No such file or directory\n"));
    let closed = [sandbox.file("tree/secret", "secret"), sandbox.dir("tree/closed")];
    sandbox.file("tree/closed/inside", "secret");
    closed.iter().for_each(|path| fs::set_permissions(path, fs::Permissions::from_mode(0o000)).unwrap());
    let run = sandbox.haul_of_user(["survey", "--json", "tree"]).run();
    let open = |path: &PathBuf| fs::set_permissions(path, fs::Permissions::from_mode(0o755));
    closed.iter().for_each(|path| open(path).expect("the sandbox can be removed"));
    let run = run.ends(1);
    assert_eq!(numbers(&run.summary(), ["/files", "/unreadable"]), [2, 2], "{}", run.account());
    let events = run.events();
    let mut named: Vec<_> = of(&events, "failed").iter().map(|event| event["path"].as_str().unwrap()).collect();
    named.sort_unstable();
    assert_eq!(named, ["tree/closed", "tree/secret"]);
}

#[test]
fn a_page_has_a_navigable_map() {
    let sandbox = Sandbox::new();
    sandbox.file("tree/a/</script><script>alert(1)</script>", noise(50_000));
    sandbox.file("tree/a/b/c", noise(70_000));
    sandbox.file("tree/d.iso", noise(90_000));
    sandbox.haul(["survey", "--html", "page.html", "tree"]).run().succeeds();
    let page = fs::read_to_string(sandbox.path("page.html")).unwrap();
    for tag in ["html", "head", "body", "section", "table", "tbody", "tr", "td", "th", "p", "h1", "h2", "script", "div"]
    {
        let open = page.matches(&format!("<{tag}>")).count() + page.matches(&format!("<{tag} ")).count();
        assert_eq!(open, page.matches(&format!("</{tag}>")).count(), "{tag}");
    }
    assert_eq!(page.matches("<script").count(), 2);
    let (_, data) = page.split_once("id=\"data\">").unwrap();
    let data: Value = serde_json::from_str(data.split_once("</script>").unwrap().0).unwrap();
    assert_eq!((data["dirs"][0].as_str(), data["dirs"][1].as_u64()), (Some("tree"), Some(210_000)), "{data}");
    // The policy names this script, and no other one.
    let (_, script) = page.split_once("<script>").unwrap();
    let script = script.split_once("</script>").unwrap().0;
    sandbox.file("script", script);
    let digest = shell(&sandbox, "openssl dgst -sha256 -binary script | base64").run().succeeds().stdout;
    assert!(page.contains(&format!("script-src 'sha256-{}'", digest.trim())), "{digest}");
    let Some(browser) = Browser::or_skip(&sandbox) else { return };
    let read = browser.read(&sandbox.path("page.html"));
    assert_eq!(read.complaints, Vec::<String>::new());
    assert!(read.dom.matches("class=\"box m").count() >= 2, "{}", read.dom);
}

/// The page's options exclude the selected entries.
#[test]
fn a_page_makes_a_list_of_exclusions() {
    let sandbox = Sandbox::new();
    sandbox.file("tree/a/it's b/c", noise(70_000));
    sandbox.file("tree/d.iso", noise(90_000));
    sandbox.file("tree/e/f", noise(40_000));
    sandbox.haul(["survey", "--html", "page.html", "tree"]).run().succeeds();
    let Some(browser) = Browser::or_skip(&sandbox) else { return };
    let page = fs::read_to_string(sandbox.path("page.html")).unwrap();
    let click = "const box = (name) => [...document.querySelectorAll('button.box')].find((one) => one.title.startsWith(name)).click();\
                 const press = (id) => document.getElementById(id).click();\
                 box('a'); press('choose'); box(\"it's b\"); press('by-type'); box('.iso');";
    // Its policy permits its own script only.
    let policy = page.find("<meta http-equiv=\"Content-Security-Policy\"").unwrap();
    let end = policy + page[policy..].find('>').unwrap() + 1;
    let clicked = format!("{}{}<script>{click}</script>", &page[..policy], &page[end..]);
    let read = browser.read(&sandbox.file("clicked.html", clicked));
    assert_eq!(read.complaints, Vec::<String>::new());
    let list = read.dom.split_once("<pre id=\"excludes\">").expect("a list").1.split_once("</pre>").unwrap().0;
    assert_eq!(list, "--exclude '/a/it'\\''s\\ b/' \\\n--exclude '*.iso'");
    shell(&sandbox, &format!("\"$0\" -r {list} tree copy")).run().succeeds();
    assert!(sandbox.path("copy/e/f").exists());
    assert!(!sandbox.path("copy/a/it's b").exists() && !sandbox.path("copy/d.iso").exists());
}

#[test]
fn an_unwritable_page_is_known_first() {
    let sandbox = Sandbox::new();
    sandbox.file("file", "x");
    sandbox.haul(["survey", "--html", "absent/page.html", "file"]).run().ends(1).says(["--html absent/page.html: "]);
}

#[test]
fn another_host_is_not_walked_and_its_measurements_are_remembered() {
    let sandbox = Sandbox::new();
    sandbox.file("file", noise(1_000_000));
    survey(&sandbox, &["db1:/data"]).ends(2).says(["ssh db1 haul survey /data"]);
    let remote = Remote::new(&sandbox);
    let target = sandbox.dir("target");
    let place = remote.at(&target);
    let place = place.to_str().unwrap();
    let unknown = sandbox.haul(["survey", "--to", place, "file"]).run().succeeds();
    assert!(unknown.stdout.contains("unknown: measure the path"), "{}", unknown.account());
    let probe = sandbox.haul(["probe", "--save", "--time", "1", "--size", "16m"]).args(remote.sshd().haul_args());
    probe.arg(place).run().succeeds();
    let known = survey(&sandbox, &["--to", place, "file"]).succeeds().summary();
    let estimate = &known["estimate"];
    assert_eq!(numbers(estimate, ["/bytes"]), [1_000_000], "{known}");
    let [rate, seconds] = ["bytes_per_s", "seconds"].map(|field| estimate[field].as_f64().unwrap());
    assert!(rate > 0.0 && (seconds - 1e6 / rate).abs() < 1e-6, "{known}");
    assert!(known["target"].is_null(), "nothing is looked at there");
}
