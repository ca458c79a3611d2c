//! Metadata: times, modes, owners and links, kept or not.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, lchown, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;

use haul_e2e::{
    Attributes, Remote, Sandbox, compare, compare_with, contents, fifo, give_to_user, is_root_or_skip, listing, mode,
    mtime, set_mtime, shell, user,
};

/// Times that need all nanoseconds, lie before 1970, and after 2038.
const TIMES: [(&str, i64, u32); 4] = [
    ("usual", 1_700_000_000, 123_456_789),
    ("last", 1_600_000_000, 999_999_999),
    ("old", -86_400, 1),
    ("late", 4_294_967_296, 500),
];

fn dated_tree(sandbox: &Sandbox) {
    for (name, seconds, nanoseconds) in TIMES {
        let file = sandbox.file(format!("source/{name}/file"), name);
        symlink("file", sandbox.path(format!("source/{name}/link"))).unwrap();
        set_mtime(&file, seconds, nanoseconds);
        set_mtime(&sandbox.path(format!("source/{name}/link")), seconds + 7, nanoseconds);
        set_mtime(&sandbox.path(format!("source/{name}")), seconds + 14, nanoseconds);
    }
    set_mtime(&sandbox.path("source"), 1_500_000_000, 42);
}

#[track_caller]
fn assert_dated(target: &Path) {
    for (name, seconds, nanoseconds) in TIMES {
        let nanoseconds = i64::from(nanoseconds);
        assert_eq!(mtime(&target.join(name).join("file")), (seconds, nanoseconds), "{name}/file");
        assert_eq!(mtime(&target.join(name).join("link")), (seconds + 7, nanoseconds), "{name}/link");
        assert_eq!(mtime(&target.join(name)), (seconds + 14, nanoseconds), "{name}");
    }
    assert_eq!(mtime(target), (1_500_000_000, 42), "the root");
}

#[test]
fn a_named_link_stays_a_link_with_archive() {
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    sandbox.file("tree/file", "content");
    symlink("file", sandbox.path("tree/link")).unwrap();
    for (number, (options, is_kept)) in
        [(&["-a"][..], true), (&["-aL"], false), (&["-r"], false), (&["-rp"], false)].into_iter().enumerate()
    {
        let place = sandbox.dir(format!("place{number}"));
        remote.haul(&sandbox).args(options).arg("tree/link").arg(remote.at(place.join("new"))).run().succeeds();
        remote.haul(&sandbox).args(options).args(["tree/link", "tree/file"]).arg(&place).run().succeeds();
        for name in ["new", "link"] {
            let text = fs::read_link(place.join(name)).ok();
            assert_eq!(text.as_deref(), is_kept.then_some(Path::new("file")), "{options:?} {name}");
        }
    }
}

#[test]
fn times_are_kept_to_the_nanosecond() {
    let sandbox = Sandbox::new();
    dated_tree(&sandbox);
    sandbox.haul(["-r", "source", "target"]).run().succeeds();
    assert_dated(&sandbox.path("target"));
    sandbox.haul(["source/late/file", "alone"]).run().succeeds();
    assert_eq!(mtime(&sandbox.path("alone")), (4_294_967_296, 500));
}

#[test]
fn times_are_kept_over_ssh_too() {
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    dated_tree(&sandbox);
    remote.haul(&sandbox).args(["-r", "source"]).arg(remote.at(sandbox.path("pushed"))).run().succeeds();
    assert_dated(&sandbox.path("pushed"));
    remote.haul(&sandbox).arg("-r").arg(remote.at(sandbox.path("source"))).arg("pulled").run().succeeds();
    assert_dated(&sandbox.path("pulled"));
}

/// Files and directories with error-prone modes.
fn tree_of_modes(sandbox: &Sandbox) {
    for bits in [0o600, 0o644, 0o755, 0o777, 0o400, 0o4755, 0o2755, 0o6711] {
        let file = sandbox.file(format!("source/f{bits:o}"), "mode");
        fs::set_permissions(&file, fs::Permissions::from_mode(bits)).unwrap();
    }
    for bits in [0o700, 0o755, 0o775, 0o1777, 0o2775, 0o555] {
        let directory = sandbox.dir(format!("source/d{bits:o}"));
        fs::write(directory.join("inner"), "mode").unwrap();
        fs::set_permissions(&directory, fs::Permissions::from_mode(bits)).unwrap();
    }
}

#[test]
fn modes_are_preserved_on_request() {
    if !is_root_or_skip("keeping set-id bits whatever they are") {
        return;
    }
    let sandbox = Sandbox::new();
    tree_of_modes(&sandbox);
    shell(&sandbox, r#"umask 077; exec "$0" -r --preserve source target"#).run().succeeds();
    let modes = Attributes { modes: true, mtimes: true, ..Attributes::default() };
    compare_with(&sandbox.path("source"), &sandbox.path("target"), modes).unwrap();
}

#[test]
fn by_default_the_umask_applies() {
    let sandbox = Sandbox::new();
    tree_of_modes(&sandbox);
    shell(&sandbox, r#"umask 027; exec "$0" -r source target"#).run().succeeds();
    for bits in [0o600, 0o644, 0o755, 0o777, 0o400, 0o4755, 0o2755, 0o6711_u32] {
        let got = mode(&sandbox.path(format!("target/f{bits:o}")));
        assert_eq!(got, bits & 0o777 & !0o027, "file {bits:o} became {got:o}");
    }
    for bits in [0o700, 0o755, 0o775, 0o1777, 0o2775, 0o555_u32] {
        let got = mode(&sandbox.path(format!("target/d{bits:o}")));
        assert_eq!(got, bits & 0o777 & !0o027, "directory {bits:o} became {got:o}");
    }
}

#[test]
fn a_umask_that_takes_permissions_of_the_owner_obstructs_no_copy() {
    if !is_root_or_skip("running as another user") {
        return;
    }
    let sandbox = Sandbox::new();
    sandbox.file("source/a/b/small", "small");
    sandbox.big_file("source/a/large", 2_000_000);
    give_to_user(&sandbox.dir("place"));
    let own = sandbox.path("haul");
    haul_e2e::copy_haul_binary(&own);
    for umask in ["0177", "0377", "0777"] {
        give_to_user(&sandbox.home());
        let user = "setpriv --reuid=65534 --regid=65534 --clear-groups";
        let line = format!("umask {umask}; exec {user} {} -r source place/{umask}", own.display());
        shell(&sandbox, &line).run().succeeds();
        let target = sandbox.path("place").join(umask);
        compare(&sandbox.path("source"), &target).unwrap();
        let taken = u32::from_str_radix(umask, 8).unwrap();
        for (name, bits) in [("a", 0o755), ("a/b", 0o755), ("a/b/small", 0o644), ("a/large", 0o644)] {
            assert_eq!(mode(&target.join(name)), bits & !taken, "{umask}: {name}");
        }
    }
}

#[test]
fn owners_are_preserved_on_request() {
    if !is_root_or_skip("giving files away") {
        return;
    }
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    let file = sandbox.file("source/dir/file", "owned");
    symlink("file", sandbox.path("source/dir/link")).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o6755)).unwrap();
    chown(sandbox.path("source/dir"), Some(1234), Some(2345)).unwrap();
    chown(&file, Some(1235), Some(2346)).unwrap();
    lchown(sandbox.path("source/dir/link"), Some(1236), Some(2347)).unwrap();
    // Giving a file away drops its set-id bits, so they have to be set after it.
    fs::set_permissions(&file, fs::Permissions::from_mode(0o6755)).unwrap();
    let all = Attributes { modes: true, owners: true, mtimes: true, symlink_mtimes: true, ..Attributes::default() };

    sandbox.haul(["-r", "--preserve", "source", "here"]).run().succeeds();
    compare_with(&sandbox.path("source"), &sandbox.path("here"), all).unwrap();
    remote.haul(&sandbox).args(["-r", "--preserve", "source"]).arg(remote.at(sandbox.path("there"))).run().succeeds();
    compare_with(&sandbox.path("source"), &sandbox.path("there"), all).unwrap();

    sandbox.haul(["-r", "source", "not asked"]).run().succeeds();
    let meta = fs::metadata(sandbox.path("not asked/dir/file")).unwrap();
    assert_eq!((meta.uid(), meta.gid(), meta.mode() & 0o7000), (0, 0, 0));
}

#[test]
fn an_unprivileged_user_gets_no_set_id_bits() {
    if !is_root_or_skip("becoming another user") {
        return;
    }
    let sandbox = Sandbox::new();
    let file = sandbox.file("source/tool", "owned by root, set-id");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o6755)).unwrap();
    give_to_user(&sandbox.dir("target"));
    let run = sandbox.haul_of_user(["--preserve", "source/tool", "target/tool"]).run();
    let meta = fs::metadata(sandbox.path("target/tool")).unwrap_or_else(|error| panic!("{error}\n{}", run.account()));
    assert_eq!((meta.uid(), meta.mode() & 0o7777), (user(), 0o755), "{}", run.account());
}

fn linked_tree(sandbox: &Sandbox) {
    sandbox.file("source/dir/file", "content");
    sandbox.file("outside/secret", "outside");
    symlink("dir/file", sandbox.path("source/to file")).unwrap();
    symlink("dir", sandbox.path("source/to dir")).unwrap();
    symlink("../outside", sandbox.path("source/to outside")).unwrap();
    symlink("no/such/thing", sandbox.path("source/dangling")).unwrap();
    symlink("x".repeat(4000), sandbox.path("source/long")).unwrap();
}

#[test]
fn links_are_kept_as_they_are() {
    let sandbox = Sandbox::new();
    linked_tree(&sandbox);
    sandbox.haul(["-r", "source", "default"]).run().succeeds();
    compare(&sandbox.path("source"), &sandbox.path("default")).unwrap();
    let summary = sandbox.haul(["--json", "-r", "--symlinks", "keep", "source", "kept"]).run().succeeds().summary();
    compare(&sandbox.path("source"), &sandbox.path("kept")).unwrap();
    assert_eq!(summary["symlinks"], 5, "{summary}");
    sandbox.haul(["-r", "source", "default"]).run().succeeds();
}

#[test]
fn links_are_followed_on_request() {
    let sandbox = Sandbox::new();
    linked_tree(&sandbox);
    // Links that lead nowhere cannot be followed: each is named, and the rest is copied.
    sandbox.haul(["-r", "--symlinks", "follow", "source", "target"]).run().ends(1).says(["dangling"]);
    for (name, content) in
        [("to file", "content"), ("to dir/file", "content"), ("to outside/secret", "outside"), ("dir/file", "content")]
    {
        assert_eq!(contents(&sandbox.path("target").join(name)), content.as_bytes(), "{name}");
    }
    assert!(fs::symlink_metadata(sandbox.path("target/to dir")).unwrap().is_dir());
    assert!(fs::symlink_metadata(sandbox.path("target/dangling")).is_err());
}

#[test]
fn a_circle_of_links_ends() {
    let sandbox = Sandbox::new();
    sandbox.file("source/a/file", "content");
    symlink("..", sandbox.path("source/a/up")).unwrap();
    sandbox.haul(["-r", "--symlinks", "follow", "source", "target"]).run().ends(1).says(["up", "loop"]);
    assert_eq!(contents(&sandbox.path("target/a/file")), b"content");
}

#[test]
fn links_are_skipped_on_request() {
    let sandbox = Sandbox::new();
    linked_tree(&sandbox);
    sandbox.haul(["-r", "--symlinks", "ignore", "source", "target"]).run().succeeds();
    assert_eq!(listing(&sandbox.path("target")), ["dir"]);
}

#[test]
fn unsafe_links_are_skipped_or_followed_on_request() {
    let sandbox = Sandbox::new();
    linked_tree(&sandbox);
    symlink(sandbox.path("source/dir/file"), sandbox.path("source/dir/absolute")).unwrap();
    symlink("../to file", sandbox.path("source/dir/up")).unwrap();
    let kind = |path: &str| {
        let meta = fs::symlink_metadata(sandbox.path(path)).ok()?;
        Some(if meta.is_symlink() {
            'l'
        } else if meta.is_dir() {
            'd'
        } else {
            'f'
        })
    };
    // `../outside` leads to a directory beside `source`, which is itself part of the copy, and out of its contents.
    for (mode, source, outside, absolute) in [
        ("safe", "source", Some('l'), None),
        ("safe", "source/.", None, None),
        ("follow-unsafe", "source", Some('l'), Some('f')),
        ("follow-unsafe", "source/.", Some('d'), Some('f')),
        ("follow-dirs", "source", Some('d'), Some('l')),
    ] {
        let target = format!("{mode} {}", source.len());
        sandbox.haul(["-r", "--mkdir", "--symlinks", mode, source, &format!("{target}/")]).run().succeeds();
        let at = |path: &str| kind(&format!("{target}/{}{path}", source.strip_suffix('.').map_or("source/", |_| "")));
        assert_eq!((at("to outside"), at("dir/absolute")), (outside, absolute), "{target}");
        assert_eq!((at("to file"), at("dir/up"), at("dangling")), (Some('l'), Some('l'), Some('l')), "{target}");
        assert_eq!(at("to dir"), Some(if mode == "follow-dirs" { 'd' } else { 'l' }), "{target}");
    }
    let removes = ["sync", "--remove-source-files", "--symlinks", "follow-dirs", "source/", "moved"];
    sandbox.haul(removes).run().ends(2).says(["cannot follow links"]);
}

#[test]
fn a_named_link_is_followed() {
    let sandbox = Sandbox::new();
    linked_tree(&sandbox);
    sandbox.haul(["source/to file", "file"]).run().succeeds();
    assert!(fs::symlink_metadata(sandbox.path("file")).unwrap().is_file());
    assert_eq!(contents(&sandbox.path("file")), b"content");
    sandbox.haul(["-r", "source/to dir", "dir"]).run().succeeds();
    assert!(fs::symlink_metadata(sandbox.path("dir")).unwrap().is_dir());
    assert_eq!(contents(&sandbox.path("dir/file")), b"content");
    let run = sandbox.haul(["source/dangling", "none"]).run().says(["dangling"]);
    assert!(matches!(run.status, Some(1 | 2)), "{}", run.account());
}

#[test]
fn special_files_are_skipped_with_a_message() {
    let sandbox = Sandbox::new();
    sandbox.file("source/file", "content");
    fifo(&sandbox.path("source/a fifo"));
    let _listener = UnixListener::bind(sandbox.path("source/a socket")).unwrap();
    let run = sandbox.haul(["-r", "source", "target"]).run().succeeds().says(["a fifo", "a socket"]);
    assert!(run.stderr.to_lowercase().contains("is a fifo"), "{}", run.account());
    assert_eq!(listing(&sandbox.path("target")), ["file"]);
    let summary = sandbox.haul(["--json", "-r", "source", "again"]).run().succeeds().summary();
    assert_eq!(summary["left_out"], 2, "{summary}");
}

#[test]
fn devices_are_skipped_with_a_message() {
    if !is_root_or_skip("making a device") {
        return;
    }
    let sandbox = Sandbox::new();
    sandbox.file("source/file", "content");
    shell(&sandbox, "mknod source/zero c 1 5").run().succeeds();
    sandbox.haul(["-r", "source", "target"]).run().succeeds().says(["zero", "device"]);
    assert_eq!(listing(&sandbox.path("target")), ["file"]);
}
