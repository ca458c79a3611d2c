//! Extended attributes, access control lists and special files: preserved on request.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, chown};
use std::os::unix::net::UnixListener;
use std::path::Path;

use haul_e2e::{Remote, Sandbox, compare, fifo, give_to_user, is_root_or_skip, listing, mode, mtime, set_mtime, stamp};
use rustix::fs::{CWD, FileType, Mode, XattrFlags, lgetxattr, lsetxattr, makedev, mknodat};

fn set(path: &Path, name: &str, value: &[u8]) {
    lsetxattr(path, name, value, XattrFlags::empty()).unwrap_or_else(|error| panic!("{name}: {error}"));
}

fn get(path: &Path, name: &str) -> Option<Vec<u8>> {
    let mut value = vec![0; 64 << 10];
    let len = lgetxattr(path, name, &mut value[..]).ok()?;
    value.truncate(len);
    Some(value)
}

/// user:1234:r--, mask r-x, beside mode 0650 (linux/posix_acl_xattr.h).
/// An access control list with one more user.
pub fn acl() -> Vec<u8> {
    let entry =
        |tag: u16, perm: u16, id: u32| [&tag.to_le_bytes()[..], &perm.to_le_bytes(), &id.to_le_bytes()].concat();
    let none = u32::MAX;
    let entries = [entry(1, 6, none), entry(2, 4, 1234), entry(4, 5, none), entry(0x10, 5, none), entry(0x20, 0, none)];
    [2u32.to_le_bytes().to_vec(), entries.concat()].concat()
}

const ACCESS: &str = "system.posix_acl_access";
const DEFAULT: &str = "system.posix_acl_default";
/// cap_net_raw, effective (linux/capability.h).
const CAPABILITY: &[u8] = &[1, 0, 0, 2, 0, 32, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

fn tree(sandbox: &Sandbox) {
    for (name, len) in [("small", 10), ("large", 5_000_000)] {
        let file = sandbox.big_file(format!("source/dir/{name}"), len);
        set(&file, "user.color", b"blue");
        set(&file, "user.empty", b"");
        set(&file, ACCESS, &acl());
        fs::set_permissions(&file, fs::Permissions::from_mode(0o650)).unwrap();
    }
    let read_only = sandbox.file("source/dir/read only", "x");
    set(&read_only, "user.color", b"grey");
    fs::set_permissions(&read_only, fs::Permissions::from_mode(0o444)).unwrap();
    set(&sandbox.path("source/dir"), "user.of", b"a directory");
    set(&sandbox.path("source/dir"), DEFAULT, &acl());
    sandbox.file("source/dir/plain", "plain");
    // Inherited entries are not the source's.
    let _ = rustix::fs::lremovexattr(sandbox.path("source/dir/plain"), ACCESS);
    fs::set_permissions(sandbox.path("source/dir/plain"), fs::Permissions::from_mode(0o604)).unwrap();
    set_mtime(&sandbox.path("source/dir"), 1_500_000_000, 3);
}

#[track_caller]
fn is_kept(target: &Path, acls: bool) {
    for name in ["small", "large"] {
        let file = target.join("dir").join(name);
        assert_eq!(get(&file, "user.color").as_deref(), Some(&b"blue"[..]), "{name}");
        assert_eq!(get(&file, "user.empty").as_deref(), Some(&b""[..]), "{name}");
        assert_eq!(get(&file, ACCESS), acls.then(acl), "{name}");
    }
    assert_eq!(get(&target.join("dir/read only"), "user.color").as_deref(), Some(&b"grey"[..]));
    assert_eq!(get(&target.join("dir"), "user.of").as_deref(), Some(&b"a directory"[..]));
    assert_eq!(get(&target.join("dir"), DEFAULT), acls.then(acl));
    assert_eq!(get(&target.join("dir/plain"), ACCESS), None);
    assert_eq!(mtime(&target.join("dir")), (1_500_000_000, 3));
}

#[test]
fn attributes_and_acls_are_preserved_on_request_and_a_rerun_changes_nothing() {
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    tree(&sandbox);
    for (name, options, acls) in [("xattrs", &["--xattrs"][..], false), ("both", &["--xattrs", "--acls"], true)] {
        let target = sandbox.path(name);
        let push = || remote.haul(&sandbox).arg("-r").args(options).arg("source").arg(remote.at(&target)).run();
        push().succeeds().does_not_say("attribute");
        compare(&sandbox.path("source"), &target).unwrap();
        is_kept(&target, acls);
        if acls {
            assert_eq!((mode(&target.join("dir/small")), mode(&target.join("dir/plain"))), (0o650, 0o604));
        }
        let before = ["small", "large", "plain"].map(|file| stamp(&target.join("dir").join(file)));
        push().succeeds();
        assert_eq!(["small", "large", "plain"].map(|file| stamp(&target.join("dir").join(file))), before);
        // Changed attributes are corrected, and additional ones removed.
        set(&target.join("dir/small"), "user.color", b"red");
        set(&target.join("dir/plain"), "user.color", b"red");
        push().succeeds();
        is_kept(&target, acls);
        assert_eq!(get(&target.join("dir/plain"), "user.color"), None);
    }
    sandbox.haul(["-r", "source", "without"]).run().succeeds();
    assert_eq!(get(&sandbox.path("without/dir/small"), "user.color"), None);
}

#[test]
fn archive_keeps_capabilities_and_all_else() {
    if !is_root_or_skip("setting capabilities") {
        return;
    }
    let sandbox = Sandbox::new();
    tree(&sandbox);
    let file = sandbox.path("source/dir/small");
    chown(&file, Some(1234), Some(2345)).unwrap();
    set(&file, "security.capability", CAPABILITY);
    set(&file, "trusted.mark", b"1");
    fs::hard_link(&file, sandbox.path("source/another")).unwrap();
    sandbox.haul(["-aHAX", "source", "target"]).run().succeeds();
    is_kept(&sandbox.path("target"), true);
    let there = sandbox.path("target/dir/small");
    assert_eq!(get(&there, "security.capability").as_deref(), Some(CAPABILITY));
    assert_eq!(get(&there, "trusted.mark").as_deref(), Some(&b"1"[..]));
    let meta = fs::metadata(&there).unwrap();
    assert_eq!((meta.uid(), meta.gid(), meta.nlink()), (1234, 2345, 2));
}

#[test]
fn uncopyable_flags_are_reported() {
    if !is_root_or_skip("setting flags") {
        return;
    }
    use rustix::fs::{IFlags, ioctl_getflags, ioctl_setflags};
    let sandbox = Sandbox::new();
    let files = ["append", "fixed"].map(|name| fs::File::open(sandbox.file(format!("source/{name}"), "x")).unwrap());
    let set = |flags: [IFlags; 2]| {
        let mut files = files.iter().zip(flags);
        files.all(|(file, flags)| {
            ioctl_getflags(file).is_ok_and(|there| {
                let others = there.difference(IFlags::APPEND | IFlags::IMMUTABLE);
                ioctl_setflags(file, others | flags).is_ok()
            })
        })
    };
    if !set([IFlags::APPEND, IFlags::IMMUTABLE]) {
        println!("SKIPPED: no flags on this file system");
        return;
    }
    let run = sandbox.haul(["-r", "--xattrs", "source", "target"]).run();
    assert!(set([IFlags::empty(), IFlags::empty()]));
    run.succeeds().says(["; its copy is not", "2 files and directories are append-only or immutable"]);
    fs::write(sandbox.path("target/fixed"), "changed").unwrap();
}

#[test]
fn attributes_that_cannot_be_set_are_reported_once_and_all_data_is_copied() {
    if !is_root_or_skip("mounting a file system without extended attributes") {
        return;
    }
    let sandbox = Sandbox::new();
    tree(&sandbox);
    fs::hard_link(sandbox.path("source/dir/small"), sandbox.path("source/another")).unwrap();
    let mount = sandbox.mount("ramfs", "ramfs", "mode=755");
    let target = mount.path().join("target");
    // The same on a rerun, when all is there.
    for _ in 0..2 {
        let run = sandbox.haul(["-r", "--xattrs", "--hard-links"]).arg("source").arg(&target).run();
        // Three files and their directory; one file's other name is a hard link.
        let run = run.ends(1).says(["not all extended attributes can be set, as in 3 other entries: user.color"]);
        assert_eq!(run.stderr.matches("user.color").count(), 1, "{}", run.account());
        assert_eq!(listing(&target), ["another", "dir"]);
        assert_eq!(listing(&target.join("dir")), ["large", "plain", "read only", "small"]);
        compare(&sandbox.path("source"), &target).unwrap();
    }
    sandbox.haul(["-r", "source"]).arg(&target).run().succeeds();
    let moved = sandbox.haul(["sync", "--xattrs", "--remove-source-files", "--compare=digest", "source/"]);
    moved.arg(&target).run().ends(1);
    assert!(sandbox.path("source/dir/small").exists(), "what could not be kept is not removed");
    assert!(!sandbox.path("source/dir/plain").exists());
}

#[test]
fn a_capability_outlives_every_change_of_owner_and_mode() {
    if !is_root_or_skip("setting capabilities") {
        return;
    }
    let sandbox = Sandbox::new();
    let files = ["small", "large"].map(|name| sandbox.path("source").join(name));
    sandbox.big_file("source/small", 10);
    sandbox.big_file("source/large", 5_000_000);
    for file in &files {
        set(file, "security.capability", CAPABILITY);
        set(file, ACCESS, &acl());
    }
    let target = sandbox.path("target");
    let is_whole = |what: &str, mode_bits: u32, owner: (u32, u32)| {
        for name in ["small", "large"] {
            let there = target.join(name);
            assert_eq!(get(&there, "security.capability").as_deref(), Some(CAPABILITY), "{what}: {name}");
            assert_eq!(get(&there, ACCESS), Some(acl()), "{what}: {name}");
            let meta = fs::metadata(&there).unwrap();
            assert_eq!((mode(&there), (meta.uid(), meta.gid())), (mode_bits, owner), "{what}: {name}");
        }
    };
    let sync = |options: &[&str]| {
        sandbox.haul(["sync", "-aHAX"]).args(options).args(["source/", "target"]).run().succeeds();
    };
    sync(&[]);
    is_whole("new", 0o650, (0, 0));
    // Unchanged files except for the owner, the group, or the mode.
    for (what, owner) in [("owner", (1234, 0)), ("group", (1234, 2345))] {
        for file in &files {
            chown(file, Some(owner.0), Some(owner.1)).unwrap();
            set(file, "security.capability", CAPABILITY);
        }
        sync(&[]);
        is_whole(what, 0o650, owner);
    }
    for name in ["small", "large"] {
        fs::set_permissions(target.join(name), fs::Permissions::from_mode(0o600)).unwrap();
    }
    sync(&[]);
    is_whole("mode", 0o650, (1234, 2345));
    // The target's owner is wrong: root puts it right.
    for name in ["small", "large"] {
        chown(target.join(name), Some(7), Some(7)).unwrap();
    }
    sync(&[]);
    is_whole("the target's owner", 0o650, (1234, 2345));
    // Without --xattrs, the target's attributes stay if only the mode changes.
    for name in ["small", "large"] {
        fs::set_permissions(target.join(name), fs::Permissions::from_mode(0o610)).unwrap();
    }
    sandbox.haul(["sync", "source/", "target"]).run().succeeds();
    assert_eq!(get(&target.join("small"), "security.capability").as_deref(), Some(CAPABILITY));
    // Another user's file is not changed in its own place: that user may have it open.
    let remote = Remote::new(&sandbox);
    let mut bytes = fs::read(&files[1]).unwrap();
    bytes[1_000_000..1_000_100].fill(7);
    fs::write(&files[1], &bytes).unwrap();
    set(&files[1], "security.capability", CAPABILITY);
    let inode = fs::metadata(target.join("large")).unwrap().ino();
    let run = sandbox.haul(["sync"]).args(remote.sshd().haul_args()).args(["-aHAX", "--inplace", "source/"]);
    run.arg(remote.at(&target)).run().succeeds();
    assert_eq!(fs::read(target.join("large")).unwrap(), bytes);
    assert_ne!(fs::metadata(target.join("large")).unwrap().ino(), inode);
    is_whole("not in place", 0o650, (1234, 2345));
    // A file of an earlier copy is linked where it has all attributes, and only there.
    rustix::fs::lremovexattr(target.join("small"), "security.capability").unwrap();
    sandbox.haul(["sync", "-aHAX", "--link-dest", "../target", "source/", "next"]).run().succeeds();
    let (old, next) = (sandbox.path("target"), sandbox.path("next"));
    let inode = |place: &Path, name: &str| fs::metadata(place.join(name)).unwrap().ino();
    assert_eq!(inode(&old, "large"), inode(&next, "large"));
    assert_ne!(inode(&old, "small"), inode(&next, "small"));
    assert_eq!(get(&next.join("small"), "security.capability").as_deref(), Some(CAPABILITY));
}

#[test]
fn a_directory_that_gets_another_owner_loses_the_access_control_lists_that_its_source_lacks() {
    if !is_root_or_skip("directories of another user") {
        return;
    }
    for (options, from, owner) in [
        (&["sync"][..], "source/", 0),
        (&["-r", "-f", "--preserve"], "source/.", 0),
        (&["sync", "-aHAX"], "source/", 7),
        (&["sync", "-aHAX", "--chown", "0:0"], "source/", 0),
    ] {
        let sandbox = Sandbox::new();
        sandbox.file("source/dir/below/secret", "x");
        for name in ["source", "source/dir", "source/dir/below"] {
            chown(sandbox.path(name), Some(owner), Some(owner)).unwrap();
        }
        for name in ["target", "target/dir"] {
            let theirs = sandbox.dir(name);
            [ACCESS, DEFAULT].iter().for_each(|list| set(&theirs, list, &acl()));
            chown(&theirs, Some(4242), Some(4242)).unwrap();
        }
        sandbox.haul(options).args([from, "target"]).run().succeeds();
        for name in ["target", "target/dir", "target/dir/below", "target/dir/below/secret"] {
            let path = sandbox.path(name);
            assert_eq!([get(&path, ACCESS), get(&path, DEFAULT)], [None, None], "{options:?}: {name}");
        }
        // A directory that keeps its owner keeps its lists without --acls.
        let is_kept = !options.contains(&"-aHAX");
        set(&sandbox.path("target/dir"), DEFAULT, &acl());
        sandbox.haul(options).args([from, "target"]).run().succeeds();
        assert_eq!(get(&sandbox.path("target/dir"), DEFAULT), is_kept.then(acl), "{options:?}");
    }
}

#[test]
fn a_user_sets_attributes_of_a_read_only_file() {
    if !is_root_or_skip("running as another user") {
        return;
    }
    let sandbox = Sandbox::new();
    let file = sandbox.file("source/file", "x");
    set(&file, "user.color", b"blue");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o444)).unwrap();
    sandbox.haul(["sync", "--xattrs", "source/", "target"]).run().succeeds();
    set(&sandbox.path("target/file"), "user.color", b"red");
    for path in ["target", "target/file", "source/file", "source"] {
        give_to_user(&sandbox.path(path));
    }
    sandbox.haul_of_user(["sync", "--xattrs", "source/", "target"]).run().succeeds();
    assert_eq!(get(&sandbox.path("target/file"), "user.color").as_deref(), Some(&b"blue"[..]));
    assert_eq!(mode(&sandbox.path("target/file")), 0o444);
}

#[test]
fn special_files_are_created_on_request() {
    if !is_root_or_skip("making devices") {
        return;
    }
    let sandbox = Sandbox::new();
    let remote = Remote::new(&sandbox);
    sandbox.dir("source");
    fifo(&sandbox.path("source/fifo"));
    fs::set_permissions(sandbox.path("source/fifo"), fs::Permissions::from_mode(0o620)).unwrap();
    let _socket = UnixListener::bind(sandbox.path("source/socket")).unwrap();
    for (name, kind, minor) in [("null", FileType::CharacterDevice, 3), ("disk", FileType::BlockDevice, 77)] {
        mknodat(CWD, sandbox.path("source").join(name), kind, Mode::from_raw_mode(0o640), makedev(1, minor)).unwrap();
    }
    chown(sandbox.path("source/null"), Some(1234), Some(2345)).unwrap();
    for name in ["fifo", "null"] {
        set_mtime(&sandbox.path("source").join(name), 1_400_000_000, 9);
    }
    let target = sandbox.path("target");
    let push = |options: &[&str]| remote.haul(&sandbox).args(options).arg("source").arg(remote.at(&target)).run();
    push(&["-r"]).succeeds().says(["is a FIFO", "is a character device"]);
    assert_eq!(listing(&target), [""; 0]);
    for _ in 0..2 {
        push(&["-r", "--preserve", "--devices", "--specials"]).succeeds();
        let meta = |name: &str| fs::symlink_metadata(target.join(name)).unwrap();
        assert!(meta("fifo").file_type().is_fifo() && meta("socket").file_type().is_socket());
        assert!(meta("disk").file_type().is_block_device() && meta("disk").rdev() == makedev(1, 77));
        let null = meta("null");
        assert!(null.file_type().is_char_device() && null.rdev() == makedev(1, 3));
        assert_eq!((null.uid(), null.gid(), null.mtime()), (1234, 2345, 1_400_000_000));
        assert_eq!((mode(&target.join("fifo")), mtime(&target.join("fifo"))), (0o620, (1_400_000_000, 9)));
        assert_eq!(listing(&target), ["disk", "fifo", "null", "socket"]);
    }
    // Another device in its place is never replaced.
    fs::remove_file(target.join("disk")).unwrap();
    fifo(&target.join("disk"));
    push(&["-r", "--preserve", "-f", "--devices", "--specials"]).ends(1).says(["disk", "is never replaced"]);
}
