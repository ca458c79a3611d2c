//! Standard input and output as the ends of a copy: all data arrives, in order, over many streams. A failure ends both
//! ends, and leaves no file with the final name.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use haul_e2e::{
    Haul, HostPair, ProgramRun, Remote, Sandbox, compare, eventually, hidden_or_partial, is_root_or_skip, listing,
    shell, within,
};
use rustix::process::{Pid, Signal, kill_process};

/// Payload of a frame, by default.
const F: usize = 512 << 10;
const LIMIT: Duration = Duration::from_secs(60);

/// haul, with `from` as its standard input.
fn fed(haul: Haul<'_>, from: &Path) -> Command {
    let mut command = haul.into_command();
    command.stdin(File::open(from).unwrap());
    command
}

/// Runs a command with a pipe, and returns its standard output; it must succeed.
#[track_caller]
fn output_of(mut command: Command) -> Vec<u8> {
    let output = command.stderr(Stdio::piped()).output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

#[test]
fn streams_of_awkward_lengths_round_trip() {
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    for len in [0, 1, F - 1, F, F + 1, 40 * F + 7] {
        let source = sandbox.big_file(format!("source-{len}"), len as u64);
        let target = sandbox.path(format!("target-{len}"));
        let haul = || remote.haul(&sandbox).args(["-s", "8"]);
        output_of(fed(haul().arg("-").arg(remote.at(&target)), &source));
        assert!(fs::read(&source).unwrap() == fs::read(&target).unwrap(), "{len} bytes there");
        let back = output_of(haul().arg(remote.at(&target)).arg("-").into_command());
        assert!(fs::read(&source).unwrap() == back, "{len} bytes back");
        let here = sandbox.path(format!("here-{len}"));
        output_of(fed(sandbox.haul(["-"]).arg(&here), &source));
        assert!(fs::read(&source).unwrap() == fs::read(&here).unwrap(), "{len} bytes within this machine");
    }
    remote.is_left_clean();
}

#[test]
fn descriptors_by_their_paths_are_used_as_they_are() {
    let sandbox = Sandbox::new();
    sandbox.file("source", "first\n");
    let cases = [
        ("\"$0\" source /dev/stdout | cat > out", "out"),
        ("\"$0\" source /dev/stdout > out", "out"),
        ("\"$0\" source /dev/fd/1 > out", "out"),
        ("\"$0\" --quiet source /dev/stderr 2> out", "out"),
        ("\"$0\" source /dev/fd/7 7> out", "out"),
        ("cat source | \"$0\" /dev/stdin got", "got"),
        ("\"$0\" /dev/stdin got < source", "got"),
        ("\"$0\" <(cat source) got", "got"),
        ("\"$0\" --pipe i <(cat source) got", "got"),
        ("\"$0\" /proc/self/fd/7 got 7< source", "got"),
    ];
    for (script, file) in cases {
        shell(&sandbox, script).run().succeeds().does_not_say("sandbox");
        assert_eq!(fs::read_to_string(sandbox.path(file)).unwrap(), "first\n", "{script}");
        fs::remove_file(sandbox.path(file)).unwrap();
    }
    let appended = "(echo before; \"$0\" --checksums /dev/stdout source t; echo after) > out";
    shell(&sandbox, appended).run().succeeds();
    let out = fs::read_to_string(sandbox.path("out")).unwrap();
    assert!(out.starts_with("before\n") && out.ends_with("  t\nafter\n"), "{out}");
    for (operands, says) in [
        ("source host:/dev/stdout", "write - for this machine's"),
        ("host:/dev/fd/0 source", "write - for this machine's"),
        ("source /dev/fd/77", "Bad file descriptor"),
        ("/dev/fd/7 t2 7> out", "writing only"),
        ("--json source /dev/stdout", "both use standard output"),
    ] {
        shell(&sandbox, &format!("\"$0\" {operands}")).run().ends(2).says([says]);
    }
}

#[test]
fn the_digest_of_a_stream_matches_its_bytes() {
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    for len in [0, F, 3 * F, 5 * F + 1] {
        let source = sandbox.big_file(format!("source-{len}"), len as u64);
        let target = sandbox.path(format!("target-{len}"));
        let haul = remote.haul(&sandbox).args(["--json", "--verify", "memory", "-"]).arg(remote.at(&target));
        let said = String::from_utf8(output_of(fed(haul, &source))).unwrap();
        let digest = blake3::hash(&fs::read(&source).unwrap()).to_hex();
        assert!(said.contains(digest.as_str()) && said.contains(&format!("\"bytes\":{len}")), "{said}");
    }
}

#[test]
fn slow_readers_and_slow_writers_are_waited_for() {
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    let source = sandbox.big_file("source", 12 * F as u64 + 5);
    let target = remote.at(sandbox.path("target"));
    let mut haul = remote.haul(&sandbox).arg("-").arg(&target).into_command().stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin = haul.stdin.take().unwrap();
    for piece in fs::read(&source).unwrap().chunks(F / 2 + 1) {
        stdin.write_all(piece).unwrap();
        std::thread::sleep(Duration::from_millis(10));
    }
    drop(stdin);
    assert!(haul.wait().unwrap().success());
    compare(&source, &sandbox.path("target")).unwrap();
    let mut command = remote.haul(&sandbox).args(["-s", "8"]).arg(&target).arg("-").into_command();
    let mut haul = command.stdout(Stdio::piped()).spawn().unwrap();
    let (mut came, mut piece) = (Vec::new(), vec![0; F / 3]);
    let mut stdout = haul.stdout.take().unwrap();
    loop {
        let read = stdout.read(&mut piece).unwrap();
        if read == 0 {
            break;
        }
        came.extend_from_slice(&piece[..read]);
        std::thread::sleep(Duration::from_millis(3));
    }
    assert!(haul.wait().unwrap().success() && came == fs::read(&source).unwrap());
}

#[test]
fn a_reader_that_closes_early_ends_the_copy() {
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    let source = sandbox.big_file("source", 300 * F as u64);
    let mut command = remote.haul(&sandbox).arg(remote.at(&source)).arg("-").into_command();
    let mut haul = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    haul.stdout.take().unwrap().read_exact(&mut [0; 9]).unwrap();
    let output = haul.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("Broken pipe"), "{said}");
    remote.is_left_clean();
}

#[test]
fn a_killed_copy_leaves_no_final_name() {
    let sandbox = Sandbox::new();
    for end in ["near", "far"] {
        let remote = Remote::new(&sandbox);
        let place = sandbox.dir(format!("place-{end}"));
        let haul = remote.haul(&sandbox).arg("-").arg(remote.at(place.join("target")));
        let mut haul = haul.into_command().stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stdin = haul.stdin.take().unwrap();
        stdin.write_all(&vec![7; 20 * F]).unwrap();
        let some = || fs::read_dir(&place).unwrap().flatten().any(|entry| entry.metadata().unwrap().len() > 1);
        assert!(within(LIMIT, some), "nothing arrived");
        let pid = if end == "near" { haul.id() } else { remote.workers()[0] };
        kill_process(Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(), Signal::KILL).unwrap();
        // The far end has to notice by itself, while the pipe is still open.
        let status = haul.wait().unwrap();
        assert!(!status.success());
        eventually("no worker is left", || remote.workers().is_empty());
        assert!(listing(&place).iter().all(|name| name != "target"), "{:?}", listing(&place));
        drop(stdin);
        remote.is_left_clean();
    }
}

#[test]
fn broken_streams_lose_no_data_of_a_pipe() {
    if !is_root_or_skip("a network namespace") {
        return;
    }
    for push in [true, false] {
        let sandbox = Sandbox::new();
        let pair = HostPair::slow(&sandbox, 100);
        let source = sandbox.big_file("source", 40_000_001);
        let target = sandbox.path("target");
        let haul = || pair.haul(&sandbox).args(["-s", "8"]);
        let mut command = match push {
            true => fed(haul().arg("-").arg(pair.at(&target)), &source),
            false => haul().arg(pair.at(&source)).arg("-").into_command(),
        };
        if !push {
            command.stdout(File::create(&target).unwrap());
        }
        let mut running = command.stderr(Stdio::piped()).spawn().unwrap();
        let connections = || pair.connections();
        assert!(within(LIMIT, || connections().len() >= 8), "{:?}", connections());
        // Of the streams at work: one that breaks before it has proven itself was never there, and is done without.
        let ports = || {
            let at_work = connections().into_iter().filter(|connection| connection.carried >= F as u64);
            at_work.map(|connection| (connection.near, connection.far)).collect::<Vec<_>>()
        };
        for _ in 0..4 {
            assert!(within(LIMIT, || running.try_wait().unwrap().is_some() || ports().len() >= 3), "{:?}", ports());
            let now = ports();
            let Some((near, far)) = now.get(now.len() / 2) else { break };
            // ssh's connection may have the same port at this end.
            let [sport, dport] = [near, far].map(|port| format!(":{port}"));
            let _ = pair.near.run("ss", ["-K", "sport", "=", &sport, "and", "dport", "=", &dport]);
            within(Duration::from_secs(3), || !ports().contains(&(*near, *far)));
        }
        let status = running.wait().unwrap();
        let mut said = String::new();
        running.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert!(status.success() && said.contains("the other streams take over its work"), "{said}");
        compare(&source, &target).unwrap();
    }
}

/// `file` from offset `begins`, as the standard input of a command. Its offset is that of `file`.
fn fed_from(haul: Haul<'_>, mut file: &File, begins: u64) -> Command {
    file.seek(SeekFrom::Start(begins)).unwrap();
    let mut command = haul.into_command();
    command.stdin(file.try_clone().unwrap());
    command
}

#[test]
fn a_file_as_standard_input_is_read_from_its_offset_to_its_end() {
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    let target = sandbox.path("target");
    for len in [0, 1, F / 4 + 4, 9 * F + 7] {
        let path = sandbox.big_file("source", len as u64);
        let (bytes, mut file) = (fs::read(&path).unwrap(), File::open(&path).unwrap());
        // From the start, the middle and the end of a block.
        for begins in [0, 3, 4096, len, len + 9] {
            let read = &bytes[begins.min(len)..];
            for (place, options) in
                [(remote.at(&target), "-s8"), ((&target).into(), "--unbuffered=s"), ("-".into(), "--quiet")]
            {
                let haul = remote.haul(&sandbox).args(["-f", options, "-"]).arg(&place);
                let output = output_of(fed_from(haul, &file, begins as u64));
                let came = if options == "--quiet" { output } else { fs::read(&target).unwrap() };
                assert!(came == read, "{len} bytes from {begins} to {place:?}");
                let offset = file.stream_position().unwrap();
                assert_eq!(offset, begins.max(len) as u64, "{len} bytes from {begins} to {place:?}");
            }
        }
    }
    remote.is_left_clean();
}

#[test]
fn commands_share_the_offset_of_standard_input_with_haul() {
    let sandbox = Sandbox::new();
    let source = fs::read(sandbox.big_file("source", 3 * F as u64)).unwrap();
    let copy = || fs::read(sandbox.path("copy")).unwrap();
    shell(&sandbox, "{ dd bs=1 count=3 of=/dev/null; \"$0\" - copy; cat > rest; } < source").run().succeeds();
    assert!(copy() == source[3..] && fs::read(sandbox.path("rest")).unwrap() == b"");
    // What was not copied can still be.
    shell(&sandbox, "{ \"$0\" - copy || \"$0\" -f - copy; } < source").run().succeeds().says(["already exists"]);
    assert!(copy() == source);
    // Equal length and time do not make another file the same.
    shell(&sandbox, "(tail -c 1572863 source; echo) > other && touch -r copy other && \"$0\" -f - copy < other")
        .run()
        .succeeds();
    assert!(copy() == fs::read(sandbox.path("other")).unwrap());
    shell(&sandbox, "\"$0\" - null < /dev/null").run().succeeds();
    assert_eq!(fs::read(sandbox.path("null")).unwrap(), b"");
    shell(&sandbox, "\"$0\" - dir < .").run().ends(1).says(["Is a directory"]);
    shell(&sandbox, "\"$0\" - written 0>> source").run().ends(2).says(["writing only"]);
    assert!(!sandbox.path("dir").exists() && !sandbox.path("written").exists());
}

#[test]
fn a_file_as_standard_input_has_the_length_of_its_start() {
    const LEN: u64 = 24_000_001;
    for (is_cut, begins) in [(false, 0), (false, 4097), (true, 0)] {
        let sandbox = Sandbox::new();
        let remote = Remote::new(&sandbox);
        let path = sandbox.big_file("source", LEN);
        let (bytes, file) = (fs::read(&path).unwrap(), File::open(&path).unwrap());
        let dir = sandbox.dir("place");
        let haul = remote.haul(&sandbox).args(["--xfrrate", "12m", "--json", "-"]).arg(remote.at(dir.join("copy")));
        let mut command = fed_from(haul, &file, begins);
        let mut running = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        assert!(within(LIMIT, || hidden_or_partial(&dir, &["copy"], 4_000_000).is_some()), "nothing arrived");
        let changed = File::options().append(true).open(&path).unwrap();
        if is_cut {
            changed.set_len(9).unwrap()
        } else {
            (&changed).write_all(b"more").unwrap()
        }
        let status = running.wait().unwrap();
        let mut said = String::new();
        running.stdout.take().unwrap().read_to_string(&mut said).unwrap();
        let read = LEN - begins;
        if is_cut {
            assert!(status.code() == Some(1) && said.contains("changed while"), "{status}: {said}");
            assert_eq!(listing(&dir), [""; 0], "{said}");
        } else {
            assert!(status.success() && said.contains(r#""change":"grew""#), "{status}: {said}");
            assert!(said.contains(&format!("\"bytes\":{read}")), "{said}");
            let start = usize::try_from(begins).unwrap();
            assert!(fs::read(dir.join("copy")).unwrap() == bytes[start..], "from {begins}");
        }
    }
}

#[test]
fn meaningless_combinations_are_refused() {
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    sandbox.file("a", "a");
    sandbox.file("b", "b");
    sandbox.dir("dir");
    let run = |words: &[&str]| -> ProgramRun { sandbox.haul(words).run() };
    run(&["--json", "a", "-"]).ends(2).says(["the target - and --json both use standard output"]);
    run(&["--checksums", "-", "a", "-"]).ends(2).says(["both use standard output"]);
    run(&["a", "b", "-"]).ends(2).says(["there are several sources", "tar -cf -"]);
    run(&["-", "dir"]).ends(2).says(["is a directory, but piped data has no name"]);
    run(&["-r", "dir", "-"]).ends(2).says(["a pipe takes one file"]);
    run(&["./-", "x"]).ends(1).says(["No such file"]);
    remote.haul(&sandbox).arg(remote.at("-")).arg("x").run().ends(1).says(["No such file"]);
    shell(&sandbox, "echo new | \"$0\" - a").run().ends(1).says(["already exists"]);
    shell(&sandbox, "echo new | \"$0\" -f - a").run().succeeds();
    assert_eq!(fs::read_to_string(sandbox.path("a")).unwrap(), "new\n");
}

#[test]
fn a_growing_file_is_followed_until_it_stops_growing() {
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    let log = sandbox.big_file("log", F as u64 + 3);
    let whole = sandbox.path("whole");
    let target = sandbox.path("place");
    let haul = remote.haul(&sandbox).args(["--realtime", "3"]).arg(&log).arg(remote.at(&target)).into_command().spawn();
    let mut haul = haul.unwrap();
    for piece in 0..20u8 {
        File::options().append(true).open(&log).unwrap().write_all(&vec![piece; 100_001]).unwrap();
        std::thread::sleep(Duration::from_millis(50));
    }
    fs::copy(&log, &whole).unwrap();
    assert!(!target.exists(), "it has not ended");
    assert!(haul.wait().unwrap().success());
    assert!(fs::read(&whole).unwrap() == fs::read(&target).unwrap());
    remote.haul(&sandbox).args(["--realtime", "1", "-"]).arg(remote.at("x")).run().ends(2);
    remote
        .haul(&sandbox)
        .args(["--realtime", "1", "."])
        .arg(remote.at("x"))
        .run()
        .ends(1)
        .says(["only a file can be followed"]);
}
