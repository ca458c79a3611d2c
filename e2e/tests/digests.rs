//! Digests besides BLAKE3: computed during the transfer, at either end, over many streams, including the remains of an
//! earlier run and data of unknown size. They are compared before a file gets its name, and written for other programs
//! to check.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use haul_base::copy::spec::ChecksumAlgorithm;
use haul_e2e::{Haul, ProgramRun, Remote, Sandbox, compare, hidden_or_partial, listing, within};
use haul_engine::checksum::sum_of;
use haul_proto::checksum::hex;
use rustix::process::Signal;

const LIMIT: Duration = Duration::from_secs(60);
/// Seven frames of 512 KiB, and a rest.
const BIG: u64 = 3_700_003;

/// The engine's digest of a file. Its own tests compare it with published values; here, other programs do.
fn digest(algorithm: &str, file: &Path) -> String {
    hex(&sum_of(ChecksumAlgorithm::named(algorithm).unwrap(), &fs::read(file).unwrap()))
}

/// Another program's digest.
fn said_by(program: &str, file: &Path) -> String {
    let output = Command::new(program).stdin(File::open(file).unwrap()).output().unwrap();
    String::from_utf8(output.stdout).unwrap().split(' ').next().unwrap_or_default().to_owned()
}

fn algorithms() -> Vec<&'static str> {
    ChecksumAlgorithm::all().map(ChecksumAlgorithm::name).collect()
}

/// A large file, a small one and an empty one.
fn three(sandbox: &Sandbox) -> Vec<PathBuf> {
    vec![sandbox.big_file("from/big", BIG), sandbox.file("from/small", "abc"), sandbox.file("from/empty", "")]
}

/// The lines of `-E`, sorted.
fn lines(run: &ProgramRun) -> Vec<String> {
    let mut lines: Vec<_> = run.stdout.lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

/// List lines for the files in `from`, with paths that begin with `before`.
fn expected(algorithm: &str, before: &str, from: &Path) -> Vec<String> {
    let line = |name: &str| format!("{algorithm}: {} {before}{name}", digest(algorithm, &from.join(name)));
    let mut lines = vec![line("big"), line("empty"), line("small")];
    lines.sort();
    lines
}

#[test]
fn each_digest_comes_from_either_end_and_matches_other_programs() {
    let sandbox = Sandbox::new();
    let files = three(&sandbox);
    let remote = Remote::new(&sandbox);
    for (algorithm, program) in
        [("md5", "md5sum"), ("sha1", "sha1sum"), ("sha256", "sha256sum"), ("sha512", "sha512sum"), ("blake3", "b3sum")]
    {
        assert_eq!(digest(algorithm, &files[0]), said_by(program, &files[0]), "{algorithm}");
    }
    let cksum: u32 = said_by("cksum", &files[0]).parse().unwrap();
    assert_eq!(digest("c32", &files[0]), format!("{cksum:08x}"));
    let from = sandbox.path("from");
    for algorithm in algorithms() {
        let at_target = format!("to-{algorithm}");
        let haul = remote.haul(&sandbox).limit(LIMIT).args(["-r", "-s", "4", "--checksum", algorithm]);
        let run = haul.arg(&from).arg(remote.at(sandbox.path(&at_target))).run().succeeds();
        assert_eq!(lines(&run), expected(algorithm, "", &from), "{algorithm} at the target");
        compare(&from, &sandbox.path(&at_target)).unwrap();
        let at_source = format!("from-{algorithm}");
        let haul = remote.haul(&sandbox).limit(LIMIT).args(["-r", "-s", "4", "--checksum", &format!("%{algorithm}")]);
        let run = haul.arg(&from).arg(remote.at(sandbox.path(&at_source))).run().succeeds();
        let before = format!("{}/", from.display());
        assert_eq!(lines(&run), expected(algorithm, &before, &from), "{algorithm} at the source");
        // In a single process that hashes nothing else.
        let here = sandbox.haul(["-r", "--checksum", algorithm, "from"]).arg(sandbox.path(format!("here-{algorithm}")));
        assert_eq!(lines(&here.run().succeeds()), expected(algorithm, "", &from), "{algorithm} within this machine");
    }
}

#[test]
fn existing_files_are_read_for_their_digest() {
    let sandbox = Sandbox::new();
    three(&sandbox);
    for _ in 0..2 {
        let run = sandbox.haul(["-r", "--checksum", "md5", "from", "to"]).run().succeeds();
        assert_eq!(lines(&run), expected("md5", "", &sandbox.path("from")));
    }
}

#[test]
fn a_differing_value_denies_a_file_its_name_wherever_it_is_computed() {
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    for file in three(&sandbox) {
        for algorithm in ["md5", "c32", "blake3"] {
            let right = digest(algorithm, &file);
            let wrong: String = right.chars().map(|c| if c == '0' { '1' } else { '0' }).collect();
            for end in ["", "%"] {
                let to = sandbox.dir("to");
                let haul = |value: &str| {
                    let option = format!("{end}{algorithm}={value}");
                    remote.haul(&sandbox).limit(LIMIT).args(["--checksum", &option]).arg(&file).arg(remote.at(&to))
                };
                let what = format!("{algorithm} mismatch: {right} instead of {wrong}");
                haul(&wrong).run().ends(1).says([&*what]);
                assert_eq!(listing(&to), [""; 0], "{end}{algorithm}: something is left");
                let run = haul(&right.to_uppercase()).run().succeeds();
                assert_eq!(run.stdout, "", "what is compared is not told");
                compare(&file, &to.join(file.file_name().unwrap())).unwrap();
                fs::remove_dir_all(&to).unwrap();
            }
        }
    }
}

#[test]
fn digests_are_appended_to_a_file_even_with_a_misleading_name() {
    let sandbox = Sandbox::new();
    three(&sandbox);
    let from = sandbox.path("from");
    sandbox.file("sums", "a line of somebody's\n");
    sandbox
        .haul(["-r", "--checksum", "sha1=sums", "from", "one"])
        .run()
        .ends(1)
        .says(["sums", "not a list of checksums"]);
    assert_eq!(fs::read_to_string(sandbox.path("sums")).unwrap(), "a line of somebody's\n");
    let first = "a32: 00000001 first\n";
    sandbox.file("sums", first);
    sandbox.haul(["-r", "--checksum", "sha1=sums", "from", "one"]).run().succeeds();
    let text = fs::read_to_string(sandbox.path("sums")).unwrap();
    let mut added: Vec<_> = text.strip_prefix(first).unwrap().lines().map(str::to_owned).collect();
    added.sort();
    assert_eq!(added, expected("sha1", "", &from));
    sandbox.haul(["--checksum", "a32=abc", "from/small", "two"]).run().ends(2).says(["write --checksum a32=./abc"]);
    sandbox.haul(["--checksum", "a32=./abc", "from/small", "two"]).run().succeeds();
    assert_eq!(fs::read_to_string(sandbox.path("abc")).unwrap(), "a32: 024d0127 two\n");
}

#[test]
fn the_remains_of_an_earlier_run_are_in_the_digest() {
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    let source = sandbox.big_file("source/big", 48_000_001);
    for option in ["md5", "%md5", "c32", "%c32"] {
        let place = sandbox.dir("place");
        let haul = || -> Haul<'_> {
            let haul = remote.haul(&sandbox).limit(LIMIT).args(["--json", "--checksum", option]);
            haul.arg(&source).arg(remote.at(place.join("big")))
        };
        let mut running = haul().args(["--xfrrate", "16m"]).start();
        let arrived = within(LIMIT, || hidden_or_partial(&place, &[], 12_000_000).is_some());
        assert!(arrived, "nothing arrived\n{}", running.stderr_so_far());
        running.signal(Signal::KILL);
        running.wait_up_to(LIMIT);
        assert!(within(LIMIT, || remote.workers().is_empty()), "a worker is left");
        let events = haul().run().succeeds().events();
        let named = |name: &str| events.iter().find(|event| event["event"] == name).cloned().unwrap_or_default();
        assert!(named("resumed")["bytes_held"].as_u64() > Some(1_000_000), "{option}: {events:?}");
        let algorithm = option.trim_start_matches('%');
        assert_eq!(named("checksum")["digest"], digest(algorithm, &source), "{option}");
        assert_eq!(named("checksum")["algorithm"], algorithm);
        compare(&source, &place.join("big")).unwrap();
        fs::remove_dir_all(&place).unwrap();
    }
}

#[test]
fn the_digest_of_a_stream_covers_all_its_bytes() {
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    for len in [0, 1, 512 << 10, 40 * (512 << 10) + 7] {
        let source = sandbox.big_file(format!("source-{len}"), len);
        for option in ["sha256", "%sha256", "c32", "%c32"] {
            let target = sandbox.path(format!("target-{len}-{option}"));
            let line = |path: &str| {
                let algorithm = option.trim_start_matches('%');
                format!("{algorithm}: {} {path}\n", digest(algorithm, &source))
            };
            let haul = || remote.haul(&sandbox).args(["-s", "4", "--checksum", option]);
            let mut pushed = haul().arg("-").arg(remote.at(&target)).into_command();
            let pushed = pushed.stdin(File::open(&source).unwrap()).stderr(Stdio::piped()).output().unwrap();
            let name = if option.starts_with('%') { "-".into() } else { format!("target-{len}-{option}") };
            assert_eq!(String::from_utf8_lossy(&pushed.stdout), line(&name), "{pushed:?}");
            assert_eq!(fs::read(&target).unwrap(), fs::read(&source).unwrap());
            // Data in a pipe cannot be reread, and standard output is the pipe.
            let mut pulled = haul().arg(remote.at(&target)).arg("-").into_command();
            let pulled = pulled.stderr(Stdio::piped()).output().unwrap();
            assert!(pulled.stdout == fs::read(&source).unwrap(), "{len} {option}");
            let said = String::from_utf8_lossy(&pulled.stderr).into_owned();
            let name = if option.starts_with('%') { target.display().to_string() } else { "-".into() };
            assert!(said.contains(&line(&name)), "{said}");
        }
    }
}

/// Checks lines by another program, in the directory that their names are relative to.
fn checks(program: &str, sums: &Path, directory: &Path) {
    let mut command = Command::new(program);
    let output = command.args(["--check", "--quiet"]).arg(sums).current_dir(directory).output().unwrap();
    assert!(output.status.success() && output.stdout.is_empty(), "{output:?}");
}

#[test]
fn manifests_are_written_for_others_and_read_from_them() {
    let sandbox = Sandbox::new();
    three(&sandbox);
    for name in ["a b", "new\nline", "back\\slash", "d/\u{e9}"] {
        sandbox.file(format!("from/{name}"), name);
    }
    for (algorithm, program) in
        [("md5", "md5sum"), ("sha1", "sha1sum"), ("sha256", "sha256sum"), ("sha512", "sha512sum")]
    {
        let (sums, to) = (sandbox.path(format!("{algorithm}.sums")), sandbox.path(format!("to-{algorithm}")));
        let haul = sandbox.haul(["-r", "--checksum-alg", algorithm, "--checksums"]).arg(&sums).arg("from").arg(&to);
        haul.run().succeeds();
        checks(program, &sums, &to);
        // In a form of their own, and by the program itself.
        let theirs = sandbox.path(format!("{algorithm}.tagged"));
        let script = format!("find . -type f -print0 | xargs -0 {program} --tag > {}", theirs.display());
        let made = Command::new("sh").args(["-c", &script]).current_dir(sandbox.path("from")).status().unwrap();
        assert!(made.success());
        for manifest in [&sums, &theirs] {
            let to = sandbox.path(format!("again-{algorithm}"));
            let haul = || {
                let haul = sandbox.haul(["-r", "--checksum-alg", algorithm, "--expect"]);
                haul.arg(manifest).arg("from").arg(&to).run()
            };
            haul().succeeds();
            // The second time all is there, and is compared all the same.
            haul().succeeds().says(["up to date"]);
            fs::write(to.join("small"), "abd").unwrap();
            haul_e2e::set_mtime(&to.join("small"), 1, 0);
            haul().ends(1);
            fs::remove_dir_all(&to).unwrap();
        }
    }
    let sums = sandbox.path("b3.sums");
    sandbox.haul(["-r", "--checksums"]).arg(&sums).args(["from", "to-b3"]).run().succeeds();
    let haul = sandbox.haul(["-r", "--checksum-alg", "blake3", "--expect"]).arg(&sums).args(["from", "again-b3"]);
    haul.run().succeeds();
}

#[test]
fn a_file_that_differs_from_its_line_gets_no_name_and_the_others_do() {
    let sandbox = Sandbox::new();
    let files = three(&sandbox);
    let remote = Remote::new(&sandbox);
    let line =
        |algorithm: &str, name: &str| format!("{}  {name}\n", digest(algorithm, &sandbox.path("from").join(name)));
    for algorithm in ["md5", "sha512", "blake3"] {
        for wrong in ["big", "small"] {
            let zeros = "0".repeat(digest(algorithm, &files[0]).len());
            let text = ["big", "small", "empty"]
                .map(|name| if name == wrong { format!("{zeros}  {name}\n") } else { line(algorithm, name) });
            let sums = sandbox.file("sums", text.concat());
            let to = sandbox.path("to");
            let haul =
                remote.haul(&sandbox).limit(LIMIT).args(["--json", "-r", "--checksum-alg", algorithm, "--expect"]);
            let run = haul.arg(&sums).arg(sandbox.path("from")).arg(remote.at(&to)).run().ends(1);
            run.says([&*format!("{algorithm} mismatch: {}", digest(algorithm, &sandbox.path("from").join(wrong)))]);
            let others: Vec<_> = ["big", "empty", "small"].into_iter().filter(|name| *name != wrong).collect();
            assert_eq!(listing(&to), others, "{algorithm}, {wrong}");
            fs::remove_dir_all(&to).unwrap();
        }
    }
}

#[test]
fn files_without_lines_and_lines_without_files_are_named() {
    let sandbox = Sandbox::new();
    let files = three(&sandbox);
    let text = format!("{}  big\n{}  gone\n", digest("md5", &files[0]), digest("md5", &files[1]));
    let sums = sandbox.file("sums", text);
    let haul = |options: &[&str], to: &str| {
        sandbox.haul(options).args(["-r", "--expect"]).arg(&sums).args(["from", to]).run().ends(1)
    };
    let run = haul(&[], "to").says(["2 files have no line", "empty", "small", "1 line has no file", "gone"]);
    assert_eq!(listing(&sandbox.path("to")), ["big", "empty", "small"], "{}", run.account());
    let run = haul(&["--json"], "again");
    let mut named: Vec<_> = run
        .events()
        .iter()
        .filter(|event| event["event"] == "unlisted")
        .map(|event| event["path"].to_string())
        .collect();
    named.sort();
    assert_eq!(named, ["\"empty\"", "\"small\""]);
    let unmet: Vec<_> = run.events().into_iter().filter(|event| event["event"] == "unmet").collect();
    assert!(unmet.len() == 1 && unmet[0]["path"] == "gone", "{unmet:?}");
    assert_eq!((&run.summary()["failed"], &run.summary()["status"]), (&3.into(), &1.into()));
    sandbox.haul(["-r", "--expect", "nothing", "from", "third"]).run().ends(2).says(["--expect nothing: "]);
}

#[test]
fn under_bbcps_name_digests_are_printed_compared_and_appended() {
    let sandbox = Sandbox::new();
    let files = three(&sandbox);
    let bbcp = sandbox.dir("bin").join("bbcp");
    std::os::unix::fs::symlink(haul_e2e::haul_binary(), &bbcp).unwrap();
    let run = |line: &str| haul_e2e::shell(&sandbox, &format!("exec {} {line}", bbcp.display())).run();
    let md5 = digest("md5", &files[0]);
    let silent = run("-E md5 from/big to").succeeds();
    assert_eq!((&*silent.stdout, &*silent.stderr), ("", ""));
    let shown = run("-E md5= from/big equal").succeeds();
    assert_eq!((&*shown.stdout, &*shown.stderr), ("", &*format!("Checksum: md5 {md5} localhost:./equal\n")));
    run(&format!("-E %md5={md5} from/big compared")).succeeds();
    run(&format!("--checksum md5={} from/big other", "0".repeat(32))).ends(172).says(["md5 mismatch"]);
    assert!(!sandbox.path("other").exists());
    run("-E c32=sums from/small small").succeeds();
    assert_eq!(fs::read_to_string(sandbox.path("sums")).unwrap(), "Checksum: c32 48aa78a2 localhost:./small\n");
}
