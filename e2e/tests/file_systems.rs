//! File systems that refuse calls, or accept them without effect: the table of docs/internals/file-systems.md.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use haul_e2e::*;
use haul_lab::{Oddities, SlowFs};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};

/// System calls by the table's names.
const CALLS: [(&str, &[i64]); 24] = [
    ("fchmod", &[libc::SYS_fchmod]),
    ("fchown", &[libc::SYS_fchown, libc::SYS_fchownat]),
    ("utimensat", &[libc::SYS_utimensat]),
    ("fsetxattr", &[libc::SYS_fsetxattr]),
    ("flistxattr", &[libc::SYS_flistxattr]),
    ("fallocate", &[libc::SYS_fallocate]),
    ("ftruncate", &[libc::SYS_ftruncate]),
    ("sync_file_range", &[libc::SYS_sync_file_range]),
    ("fsync", &[libc::SYS_fsync, libc::SYS_fdatasync]),
    ("syncfs", &[libc::SYS_syncfs]),
    ("statfs", &[libc::SYS_statfs, libc::SYS_fstatfs]),
    ("flock", &[libc::SYS_flock]),
    ("renameat2", &[libc::SYS_renameat2]),
    ("linkat", &[libc::SYS_linkat]),
    ("ioctl", &[libc::SYS_ioctl]),
    ("copy_file_range", &[libc::SYS_copy_file_range]),
    ("fadvise64", &[libc::SYS_fadvise64]),
    ("pwrite64", &[libc::SYS_pwrite64, libc::SYS_pwritev, libc::SYS_pwritev2]),
    ("symlinkat", &[libc::SYS_symlinkat]),
    ("mkdirat", &[libc::SYS_mkdirat]),
    ("mknodat", &[libc::SYS_mknodat]),
    ("openat O_TMPFILE", &[libc::SYS_openat]),
    ("openat O_DIRECT", &[libc::SYS_openat]),
    ("renameat2 RENAME_EXCHANGE", &[libc::SYS_renameat2]),
];

/// Flags of a call, with the number of their argument. Calls without them are not answered.
const FLAGS: [(&str, (u8, u64)); 3] = [
    ("O_TMPFILE", (2, libc::O_TMPFILE as u64)),
    ("O_DIRECT", (2, libc::O_DIRECT as u64)),
    ("RENAME_EXCHANGE", (4, libc::RENAME_EXCHANGE as u64)),
];

const ANSWERS: [(&str, i32); 14] = [
    ("EPERM", libc::EPERM),
    ("EACCES", libc::EACCES),
    ("EINVAL", libc::EINVAL),
    ("ENOSYS", libc::ENOSYS),
    ("EOPNOTSUPP", libc::EOPNOTSUPP),
    ("EXDEV", libc::EXDEV),
    ("EROFS", libc::EROFS),
    ("EIO", libc::EIO),
    ("ENOSPC", libc::ENOSPC),
    ("EDQUOT", libc::EDQUOT),
    ("ESTALE", libc::ESTALE),
    ("EFBIG", libc::EFBIG),
    ("ENOLCK", libc::ENOLCK),
    ("EISDIR", libc::EISDIR),
];

/// One row for one answer, with the outcome of each command.
struct Refusal {
    call: String,
    answer: String,
    outcomes: Vec<String>,
}

/// The rows of the table with this heading.
fn refusals(heading: &str) -> Vec<Refusal> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/internals/file-systems.md");
    let page = fs::read_to_string(page).unwrap();
    let (_, table) = page.split_once(heading).expect("the page has the table");
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    let cells = rows.map(|row| row.trim_matches('|').split('|').map(str::trim).collect::<Vec<_>>());
    cells
        .flat_map(|cells| {
            let [call, answers, outcomes @ ..] = &cells[..] else { panic!("{cells:?}") };
            let of = |answer: &str| Refusal {
                call: (*call).to_owned(),
                answer: answer.to_owned(),
                outcomes: outcomes.iter().map(|outcome| (*outcome).to_owned()).collect(),
            };
            answers.split(' ').map(of).collect::<Vec<_>>()
        })
        .collect()
}

fn number<T: Copy>(table: &[(&str, T)], name: &str) -> T {
    table.iter().find(|(other, _)| *other == name).unwrap_or_else(|| panic!("unknown: {name}")).1
}

/// Runs `work` in a thread in which this call, also of its children, has this answer.
fn refusing<T: Send>(call: &str, answer: i32, work: impl FnOnce() -> T + Send) -> T {
    let flags = call.split_once(' ').map(|(_, name)| number(&FLAGS, name));
    let rules = || {
        let rule = |(argument, flags)| {
            let compared = SeccompCmpOp::MaskedEq(flags);
            let mut conditions =
                vec![SeccompCondition::new(argument, SeccompCmpArgLen::Qword, compared, flags).unwrap()];
            if flags == libc::O_TMPFILE as u64 {
                // The test's own temporary files are opened by path.
                let by_path = u64::from(libc::AT_FDCWD.cast_unsigned());
                let is_below = SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, by_path);
                conditions.push(is_below.unwrap());
            }
            SeccompRule::new(conditions).unwrap()
        };
        flags.map(rule).into_iter().collect::<Vec<_>>()
    };
    let rules: BTreeMap<i64, Vec<_>> = number(&CALLS, call).iter().map(|call| (*call, rules())).collect();
    let answer = SeccompAction::Errno(u32::try_from(answer).unwrap());
    let architecture = std::env::consts::ARCH.try_into().unwrap();
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, answer, architecture).unwrap();
    let program: BpfProgram = filter.try_into().unwrap();
    let filtered = || {
        seccompiler::apply_filter(&program).unwrap();
        work()
    };
    std::thread::scope(|scope| scope.spawn(filtered).join()).unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

fn source(sandbox: &Sandbox) {
    use rustix::fs::{Uid, XattrFlags, chown, lsetxattr};
    sandbox.file("s/small", "abc");
    sandbox.big_file("s/large", 3_000_000);
    sandbox.big_file("s/dir/other", 3_000_000);
    fs::hard_link(sandbox.path("s/small"), sandbox.path("s/twin")).unwrap();
    std::os::unix::fs::symlink("small", sandbox.path("s/link")).unwrap();
    lsetxattr(sandbox.path("s/small"), "user.color", b"red", XattrFlags::empty()).unwrap();
    fs::set_permissions(sandbox.path("s/large"), std::os::unix::fs::PermissionsExt::from_mode(0o640)).unwrap();
    chown(sandbox.path("s/dir/other"), Some(Uid::from_raw(1234)), None).unwrap();
    ["s/small", "s/large", "s/dir/other"].iter().for_each(|name| set_mtime(&sandbox.path(name), 1_600_000_000, 0));
}

/// The deviation of one command from its outcome in the table: `STATUS [all][: WORDS]`.
fn deviation(sandbox: &Sandbox, refusal: &Refusal, command: &[&str], outcome: &str) -> Option<String> {
    let (first, words) = outcome.split_once(": ").unwrap_or((outcome, ""));
    let (status, all) = first.split_once(' ').unwrap_or((first, ""));
    let [options @ .., source, target] = command else { panic!("{command:?}") };
    let run = refusing(&refusal.call, number(&ANSWERS, &refusal.answer), || {
        sandbox.haul(options).args([source, target]).run()
    });
    let compared = compare(&sandbox.path(source), &sandbox.path(target));
    let is_silent = status != "0" || !words.is_empty() || run.stderr.lines().count() == 1;
    let is_right = run.status == status.parse().ok()
        && run.stderr.contains(words)
        && is_silent
        && !(refusal.call == "fsync" && run.stderr.contains("durable"))
        && (all.is_empty() || compared.is_ok());
    (!is_right).then(|| {
        let (call, answer) = (&refusal.call, &refusal.answer);
        format!("{call} {answer} {options:?}: expected {outcome:?}, {compared:?}\n{}", run.account())
    })
}

#[test]
fn every_refusal_of_the_table_has_its_outcome() {
    if !is_root_or_skip("other owners") {
        return;
    }
    let sandbox = Sandbox::new();
    source(&sandbox);
    let refusals = refusals("| call | answers | plain |");
    assert!(refusals.len() > 90, "{} refusals", refusals.len());
    let mut deviations = Vec::new();
    for (number, refusal) in refusals.iter().enumerate() {
        let io: &[&str] = if refusal.call.ends_with("O_DIRECT") { &["--unbuffered", "t"] } else { &[] };
        for (options, outcome) in [&["-r"][..], &["-r", "-aHAX"]].into_iter().zip(&refusal.outcomes) {
            let target = format!("{number}-{}", options.len());
            deviations.extend(deviation(&sandbox, refusal, &[io, options, &["s", &target]].concat(), outcome));
        }
    }
    assert!(deviations.is_empty(), "{}", deviations.join("\n\n"));
}

#[test]
fn every_refusal_has_its_outcome_in_a_sync_that_replaces_other_kinds() {
    let sandbox = Sandbox::new();
    sandbox.file("s/directory/inner", "new");
    sandbox.file("s/file", "new");
    rustix::fs::mknodat(rustix::fs::CWD, sandbox.path("s/fifo"), rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU, 0)
        .unwrap();
    let refusals = refusals("| call | answers | sync |");
    assert!(refusals.len() > 10, "{} refusals", refusals.len());
    let mut deviations = Vec::new();
    for (number, refusal) in refusals.iter().enumerate() {
        let target = format!("{number}");
        sandbox.file(format!("{target}/directory"), "old");
        sandbox.file(format!("{target}/file/inner"), "old");
        let command = ["sync", "--delete", "--specials", "s/", &target];
        deviations.extend(deviation(&sandbox, refusal, &command, &refusal.outcomes[0]));
        if refusal.outcomes[0].starts_with('1') {
            sandbox.haul(command).run().succeeds();
            compare(&sandbox.path("s"), &sandbox.path(&target)).unwrap();
        }
        assert_eq!(listing(&sandbox.path(&target)), ["directory", "fifo", "file"], "nothing is left over");
    }
    assert!(deviations.is_empty(), "{}", deviations.join("\n\n"));
}

/// A file system in user space with these deviations.
fn odd(sandbox: &Sandbox, oddities: Oddities) -> Option<SlowFs> {
    if !SlowFs::available() {
        println!("SKIPPED: a FUSE file system needs root and /dev/fuse");
        return None;
    }
    Some(SlowFs::mount_odd(sandbox.dir("odd"), oddities).unwrap())
}

#[test]
fn times_are_kept_where_a_single_one_has_no_effect() {
    let sandbox = Sandbox::new();
    let Some(_odd) = odd(&sandbox, Oddities { drops_single_times: true, ..Oddities::default() }) else { return };
    source(&sandbox);
    sandbox.haul(["-r", "s", "odd/t"]).run().succeeds();
    compare_with(&sandbox.path("s"), &sandbox.path("odd/t"), Attributes { mtimes: true, ..Attributes::default() })
        .unwrap();
    sandbox.haul(["-r", "s", "odd/t"]).run().succeeds().says(["up to date"]);
}

#[test]
fn trees_are_copied_where_new_entries_have_another_owner() {
    let sandbox = Sandbox::new();
    let Some(_odd) = odd(&sandbox, Oddities { owner: Some(NOBODY), ..Oddities::default() }) else { return };
    source(&sandbox);
    for run in 0..2 {
        let run = if run == 0 { sandbox.haul(["-r", "s", "odd/t"]) } else { sandbox.haul(["sync", "s/", "odd/t"]) };
        run.run().succeeds();
        compare(&sandbox.path("s"), &sandbox.path("odd/t")).unwrap();
        assert_eq!(listing(&sandbox.path("odd")), ["t"], "nothing is left over");
    }
}

#[test]
fn a_file_that_a_mount_opens_to_all_is_named() {
    let sandbox = Sandbox::new();
    let Some(_odd) = odd(&sandbox, Oddities { shown_mode: Some(0o777), ..Oddities::default() }) else { return };
    sandbox.file("private", "x");
    fs::set_permissions(sandbox.path("private"), std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let words = "odd/a: open to more users than the mode permits: this file system shows mode 777 instead of 600";
    sandbox.haul(["private", "odd/a"]).run().succeeds().says([words]);
    let asked = sandbox.haul(["--preserve", "private", "odd/b"]).run().ends(1);
    asked.says(["odd/b: complete, but the mode cannot be set: this file system ignores it", "failed      1 entry"]);
    assert_eq!(contents(&sandbox.path("odd/b")), b"x");
}

#[test]
fn a_link_to_an_empty_path_fails_alone_and_by_name() {
    let sandbox = Sandbox::new();
    let Some(_odd) = odd(&sandbox, Oddities { empty_links: true, ..Oddities::default() }) else { return };
    sandbox.file("odd/file", "x");
    std::os::unix::fs::symlink("file", sandbox.path("odd/link")).unwrap();
    for words in [["-r", "odd/.", "plain"], ["sync", "odd/", "synced"]] {
        let run = sandbox.haul(words).run().ends(1);
        run.says(["link: the symbolic link leads to a path of 0 bytes", "failed      1 entry"]);
        assert_eq!(listing(&sandbox.path(words[2])), ["file"]);
    }
    sandbox.haul(["-r", "--symlinks", "ignore", "odd/.", "without"]).run().succeeds();
}

#[test]
fn a_name_that_is_listed_twice_is_copied_once() {
    let sandbox = Sandbox::new();
    let Some(_odd) = odd(&sandbox, Oddities { lists_twice: true, ..Oddities::default() }) else { return };
    sandbox.file("odd/few/file", "x");
    (0..600).for_each(|number| drop(sandbox.file(format!("odd/many/a longer name {number}"), "y")));
    for words in [["-r", "odd/.", "plain"], ["sync", "odd/", "synced"]] {
        sandbox.haul(words).run().succeeds().says(["601 files"]);
        compare(&sandbox.path("odd"), &sandbox.path(words[2])).unwrap();
    }
}

#[test]
fn one_file_system_makes_mount_points_empty_directories_and_deletes_nothing_there() {
    if !is_root_or_skip("a mount") {
        return;
    }
    let sandbox = Sandbox::new();
    sandbox.file("s/file", "x");
    let mount = sandbox.mount("tmpfs", "s/mnt", "mode=755");
    fs::write(mount.path().join("other"), "y").unwrap();
    sandbox.haul(["-r", "--one-file-system", "s", "t"]).run().succeeds();
    assert_eq!(listing(&sandbox.path("t")), ["file", "mnt"]);
    assert!(listing(&sandbox.path("t/mnt")).is_empty());
    sandbox.file("t/mnt/kept", "of an earlier copy");
    sandbox.file("t/extraneous", "z");
    sandbox.haul(["sync", "--one-file-system", "--delete", "s/", "t"]).run().succeeds();
    assert_eq!(listing(&sandbox.path("t")), ["file", "mnt"]);
    assert_eq!(listing(&sandbox.path("t/mnt")), ["kept"]);
    sandbox.haul(["verify", "-r", "--one-file-system", "s/.", "t"]).run().succeeds();
    let survey = sandbox.haul(["survey", "--one-file-system", "--json", "s"]).run().succeeds();
    assert!(!survey.stdout.contains("mnt/other"), "{}", survey.account());
    sandbox.haul(["-r", "-f", "s/.", "t"]).run().succeeds();
    assert_eq!(listing(&sandbox.path("t/mnt")), ["kept", "other"]);
}

#[test]
fn a_replaced_file_keeps_its_mode_group_and_list_without_p() {
    if !is_root_or_skip("other groups") {
        return;
    }
    use rustix::fs::{Gid, XattrFlags, chown, getxattr, lsetxattr};
    let sandbox = Sandbox::new();
    sandbox.file("new", "new");
    sandbox.big_file("large", 3_000_000);
    fs::set_permissions(sandbox.path("new"), std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
    let acl = crate::attributes::acl();
    for (number, (source, mode_before, has_acl)) in
        [("new", 0o600, false), ("new", 0o664, false), ("large", 0o4755, false), ("new", 0o640, true)]
            .into_iter()
            .enumerate()
    {
        let name = format!("old{number}");
        let old = sandbox.path(&name);
        fs::write(&old, "old").unwrap();
        chown(&old, None, Some(Gid::from_raw(2345))).unwrap();
        fs::set_permissions(&old, std::os::unix::fs::PermissionsExt::from_mode(mode_before)).unwrap();
        if has_acl {
            lsetxattr(&old, "system.posix_acl_access", &acl, XattrFlags::empty()).unwrap();
        }
        let before = mode(&old);
        sandbox.haul(["-f", source, &name]).run().succeeds();
        use std::os::unix::fs::MetadataExt;
        assert_eq!(contents(&old), contents(&sandbox.path(source)));
        assert_eq!((mode(&old), fs::metadata(&old).unwrap().gid()), (before & 0o777, 2345), "{name}");
        let mut buffer = [0; 200];
        let found = getxattr(&old, "system.posix_acl_access", &mut buffer).ok();
        assert_eq!(found.map(|len| buffer[..len].to_vec()), has_acl.then(|| acl.clone()), "{name}");
    }
    sandbox.file("new", "newer");
    sandbox.haul(["-f", "--mode", "640", "new", "old0"]).run().succeeds();
    assert_eq!(mode(&sandbox.path("old0")), 0o640);
}
