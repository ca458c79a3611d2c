//! Modes, owners, groups and times, each preserved by itself, with rsync as the reference.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, lchown, symlink};
use std::path::Path;
use std::process::{Command, Stdio};

use haul_e2e::{Sandbox, copy_haul_binary, give_to_user, is_root_or_skip, mode, set_mtime, shell, user};

/// rsync's options, and haul's.
const PARTS: [(&str, &str); 9] = [
    ("-rlt", ""),
    ("-rlpt", "--perms"),
    ("-rlp", "--perms --no-times"),
    ("-rlo", "--owner --no-times"),
    ("-rlg", "--group --no-times"),
    ("-rlotg", "--owner --group"),
    ("-rlptgo", "--preserve"),
    ("-rlptgoO", "--preserve --omit-dir-times"),
    ("-rlptJ", "--perms --omit-link-times"),
];
const OLD: i64 = 1_600_000_000;

/// A tree of these owners and groups, with old times.
fn tree(sandbox: &Sandbox, [first, second, third]: [(u32, u32); 3]) {
    for (name, bits, owner) in [("a", 0o640, first), ("b", 0o755, second), ("c", 0o4755, third)] {
        let file = sandbox.file(format!("source/dir/{name}"), name);
        dress(&file, owner, Some(bits));
    }
    let link = sandbox.path("source/dir/link");
    symlink("a", &link).unwrap();
    dress(&link, second, None);
    dress(&sandbox.path("source/dir"), first, Some(0o1755));
    dress(&sandbox.path("source"), second, Some(0o755));
}

fn dress(path: &Path, (uid, gid): (u32, u32), bits: Option<u32>) {
    lchown(path, Some(uid), Some(gid)).unwrap();
    bits.into_iter().for_each(|bits| fs::set_permissions(path, fs::Permissions::from_mode(bits)).unwrap());
    set_mtime(path, OLD, 5);
}

/// Owner, group, mode, and whether the time is the source's, of each entry.
fn parts(root: &Path) -> Vec<String> {
    let part = |name: &str| {
        let meta = fs::symlink_metadata(root.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        format!("{name} {}:{} {:o} {}", meta.uid(), meta.gid(), meta.mode(), meta.mtime() == OLD)
    };
    ["", "dir", "dir/a", "dir/b", "dir/c", "dir/link"].map(part).into()
}

/// Copies the tree with rsync and haul, to nothing and to an older copy of other modes.
fn assert_parts_are_rsyncs(sandbox: &Sandbox, change_user: &str, haul: &Path) {
    if !Command::new("rsync").arg("--version").stdout(Stdio::null()).status().is_ok_and(|status| status.success()) {
        println!("SKIPPED: a comparison with rsync needs rsync");
        return;
    }
    let run = |line: &str| shell(sandbox, &format!("umask 022; {change_user} {line}")).run().succeeds();
    for (number, (of_rsync, of_haul)) in PARTS.into_iter().enumerate() {
        for is_older in [false, true] {
            let place = format!("place/{number}-{is_older}");
            run(&format!("mkdir -p {place}/rsync {place}/haul"));
            for older in ["rsync/dir", "haul/dir"].into_iter().filter(|_| is_older) {
                let older = format!("{place}/{older}");
                run(&format!("mkdir -p {older}"));
                run(&format!("touch {older}/a {older}/b"));
                run(&format!("chmod 604 {older}/a"));
            }
            run(&format!("rsync {of_rsync} source/ {place}/rsync/"));
            let wanted = parts(&sandbox.path(&place).join("rsync"));
            let program = haul.display();
            for attempt in ["first", "again"] {
                let copied = run(&format!("{program} --recursive --force {of_haul} source/. {place}/haul"));
                let found = parts(&sandbox.path(&place).join("haul"));
                assert_eq!(found, wanted, "{of_haul}, older: {is_older}, {attempt}: {}", copied.account());
            }
        }
    }
}

#[test]
fn each_part_is_preserved_as_by_rsync() {
    if !is_root_or_skip("giving files away") {
        return;
    }
    let sandbox = Sandbox::new();
    tree(&sandbox, [(1234, 2345), (1235, 2346), (0, 0)]);
    sandbox.dir("place");
    assert_parts_are_rsyncs(&sandbox, "", &haul_e2e::haul_binary());
}

#[test]
fn each_part_is_preserved_as_by_rsync_for_an_ordinary_user() {
    let sandbox = Sandbox::new();
    tree(&sandbox, [(user(), user()); 3]);
    give_to_user(&sandbox.dir("place"));
    give_to_user(&sandbox.home());
    let own = sandbox.path("haul");
    copy_haul_binary(&own);
    let change_user = match rustix::process::geteuid().is_root() {
        true => format!("setpriv --reuid={0} --regid={0} --clear-groups", user()),
        false => String::new(),
    };
    assert_parts_are_rsyncs(&sandbox, &change_user, &own);
}

#[test]
fn set_id_bits_need_their_owner_and_group() {
    if !is_root_or_skip("giving files away") {
        return;
    }
    let sandbox = Sandbox::new();
    for (options, bits) in [
        ("--perms", 0o755),
        ("--perms --owner", 0o4755),
        ("--perms --group", 0o2755),
        ("--perms --owner --group", 0o6755),
        ("--owner --group --mode 6755", 0o755),
    ] {
        let file = sandbox.file("tool", "a program");
        dress(&file, (1234, 2345), Some(0o6755));
        for attempt in ["first", "again"] {
            let copied = shell(&sandbox, &format!("exec $0 --force {options} tool copy")).run().succeeds();
            assert_eq!(mode(&sandbox.path("copy")), bits, "{options}, {attempt}: {}", copied.account());
        }
        fs::remove_file(sandbox.path("copy")).unwrap();
    }
    // A file that is given away loses the bits that it had before.
    let (file, copy) = (sandbox.file("tool", "a program"), sandbox.file("copy", "a program"));
    dress(&file, (1234, 2345), Some(0o755));
    dress(&copy, (0, 0), Some(0o6755));
    sandbox.haul(["--force", "--owner", "tool", "copy"]).run().succeeds();
    let given = fs::metadata(&copy).unwrap();
    assert_eq!((given.uid(), given.gid(), given.mode() & 0o7777), (1234, 0, 0o755));
}

#[test]
fn verify_compares_the_parts_that_are_asked_for() {
    if !is_root_or_skip("giving files away") {
        return;
    }
    let sandbox = Sandbox::new();
    dress(&sandbox.file("source/file", "same"), (1234, 2345), Some(0o640));
    dress(&sandbox.file("target/file", "same"), (1235, 2346), Some(0o644));
    for path in ["source", "target"] {
        dress(&sandbox.path(path), (0, 0), Some(0o755));
    }
    for (option, said, unsaid) in [("--perms", "640", "1234"), ("--owner", "1234", "2345"), ("--group", "2345", "1234")]
    {
        let run = sandbox.haul(["verify", "--recursive", option, "source/.", "target"]).run();
        let text = run.ends(1).account();
        assert!(text.contains(said) && !text.contains(unsaid), "{option}: {text}");
    }
    sandbox.haul(["verify", "--recursive", "source/.", "target"]).run().succeeds();
}

#[test]
fn modes_change_as_by_rsyncs_chmod() {
    if !Command::new("rsync").arg("--version").stdout(Stdio::null()).status().is_ok_and(|status| status.success()) {
        println!("SKIPPED: a comparison with rsync needs rsync");
        return;
    }
    let sandbox = Sandbox::new();
    let own = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    tree(&sandbox, [own; 3]);
    let run = |line: String| shell(&sandbox, &format!("umask 027; {line}")).run().succeeds();
    for (number, rules) in [
        "--chmod=D2775,F664",
        "--chmod=u+rwX,go-w",
        "--chmod=Fa-x,+X --chmod=+w,ug=u",
        "--chmod=a=rX,u+w --perms",
        "--chmod=Dg+s,ug+w,Fo-w,+X --perms",
        "--chmod=Fg=u,o=,u-s --perms",
        "--chmod=g=t,o-t,=rw,Du+x --perms",
    ]
    .into_iter()
    .enumerate()
    {
        for target in ["new", "older"] {
            let place = format!("place/{number}-{target}");
            for end in ["rsync", "haul"].into_iter().filter(|_| target == "older") {
                run(format!(
                    "mkdir -p {place}/{end}/dir && touch {place}/{end}/dir/a && chmod 604 {place}/{end}/dir/a"
                ));
            }
            run(format!("mkdir -p {place}/rsync {place}/haul && rsync -rlt {rules} source/ {place}/rsync/"));
            let copied = run(format!("exec $0 --recursive --force {rules} source/. {place}/haul"));
            let [wanted, found] = ["rsync", "haul"].map(|end| parts(&sandbox.path(&place).join(end)));
            assert_eq!(found, wanted, "{rules}, {target}: {}", copied.account());
        }
    }
    sandbox.haul(["--chmod", "u+q", "source/dir/a", "b"]).run().ends(2).says(["must be rules of chmod"]);
}
