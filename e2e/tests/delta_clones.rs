//! On file systems with reflinks, the new file of a delta shares the base file's unchanged blocks, and only the others
//! are written. The report has the bytes written on every file system.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use haul_e2e::{ProgramRun, Remote, Rng, Sandbox, compare, contents, is_root_or_skip, listing};

/// Not a multiple of anything.
const SIZE: usize = 40_000_001;
const PAGE: usize = 4096;
/// The least that `mkfs.xfs` takes.
const IMAGE_BYTES: u64 = 400 << 20;

/// A host whose file is to be replaced.
struct Site<'a> {
    sandbox: &'a Sandbox,
    remote: Remote,
    new: PathBuf,
    old: PathBuf,
}

impl<'a> Site<'a> {
    /// The new file has the old one's bytes with changes.
    fn new(sandbox: &'a Sandbox, place: &Path, change: impl FnOnce(&mut Vec<u8>)) -> Self {
        let old = sandbox.big_file(place.join("place/file"), SIZE as u64);
        let mut bytes = contents(&old);
        change(&mut bytes);
        let new = sandbox.file("here/file", bytes);
        Self { sandbox, remote: Remote::new(sandbox), new, old }
    }

    /// Copies, and returns the bytes written.
    #[track_caller]
    fn push(&self, options: &[&str]) -> (ProgramRun, u64) {
        let haul = self.remote.haul(self.sandbox).args(["--json", "-f"]).args(options);
        let run = haul.arg(&self.new).arg(self.remote.at(&self.old)).run().succeeds();
        compare(&self.new, &self.old).unwrap();
        assert_eq!(listing(self.old.parent().expect("a directory")), ["file"], "{}", run.account());
        let written = run.summary()["target_written_bytes"].as_u64().expect("a number");
        (run, written)
    }
}

/// Runs a test on each available kind of file system with reflinks.
fn on_each_kind(test: impl Fn(&Sandbox, &Path, &str)) {
    if !is_root_or_skip("mounting a file system") {
        return;
    }
    for kind in ["btrfs", "xfs"] {
        let sandbox = Sandbox::new();
        if let Some(mount) = sandbox.image(kind, IMAGE_BYTES) {
            test(&sandbox, mount.path(), kind);
        }
    }
}

/// Changes every hundredth page, and the file's last bytes.
fn pages(bytes: &mut [u8]) -> u64 {
    let changed: Vec<_> = (0..SIZE / PAGE).step_by(100).map(|page| page * PAGE).collect();
    changed.iter().for_each(|at| bytes[at + 7] ^= 1);
    bytes[SIZE - 1] ^= 1;
    (changed.len() * PAGE) as u64
}

#[test]
fn only_changed_pages_are_written() {
    on_each_kind(|sandbox, place, kind| {
        for options in [&[][..], &["--verify", "disk"], &["-s", "3", "--frame", "256k"]] {
            let mut changed = 0;
            let site = Site::new(sandbox, place, |bytes| changed = pages(bytes));
            let (run, written) = site.push(options);
            // Shorter runs of equal pages are written too.
            assert!((changed..2 * changed).contains(&written), "{kind}: {written}: {}", run.account());
            assert_eq!(run.summary()["bytes"], SIZE, "{}", run.account());
        }
        let site = Site::new(sandbox, place, |bytes| _ = pages(bytes));
        let (run, written) = site.push(&["--unbuffered", "t"]);
        assert_eq!(written, SIZE as u64, "{kind}: direct I/O copies: {}", run.account());
    });
}

#[test]
fn old_and_new_file_stay_apart() {
    on_each_kind(|sandbox, place, kind| {
        let site = Site::new(sandbox, place, |bytes| _ = pages(bytes));
        let before = contents(&site.old);
        let other = place.join("other name");
        fs::hard_link(&site.old, &other).unwrap();
        site.push(&[]);
        assert!(contents(&other) == before, "{kind}: the old file has changed");
        fs::File::options().write(true).open(&other).unwrap().write_all_at(&[7; 100_000], 0).unwrap();
        compare(&site.new, &site.old).unwrap();
    });
}

#[test]
fn appended_and_shifted_data() {
    on_each_kind(|sandbox, place, kind| {
        let random = Rng::new(5).bytes(1_000_000);
        // Whole blocks are shared wherever they are; others are written.
        for (cut, insert, at, most) in [
            (0, &random[..], SIZE, 1_100_000),
            (100 * PAGE, &[][..], 0, 300_000),
            (0, &random[..300], SIZE / 2, SIZE / 2 + 300_000),
        ] {
            let site = Site::new(sandbox, place, |bytes| {
                drop(bytes.splice(at..at, insert.iter().copied()));
                drop(bytes.drain(..cut));
            });
            let (run, written) = site.push(&["--delta", "rolling"]);
            assert!(written < most as u64, "{kind}: {written} for {at}: {}", run.account());
        }
    });
}

#[test]
fn holes_and_zeros_are_kept() {
    on_each_kind(|sandbox, place, kind| {
        let site = Site::new(sandbox, place, |bytes| _ = pages(bytes));
        // Holes in both files at other places, and zeros where data was.
        let hole = 3 << 20;
        for (file, at) in [(&site.old, 8 << 20), (&site.new, 20 << 20)] {
            let punch = format!("fallocate -p -o {at} -l {hole} {}", file.display());
            haul_e2e::shell(sandbox, &punch).run().succeeds();
        }
        let (run, written) = site.push(&[]);
        assert!(written < 2 * hole, "{kind}: {written}: {}", run.account());
    });
}

#[test]
fn there_is_no_need_for_room_for_a_second_copy() {
    on_each_kind(|sandbox, place, kind| {
        let site = Site::new(sandbox, place, |bytes| _ = pages(bytes));
        // Full, but for 30 MB.
        let fill = format!(
            "cd {} && for n in $(seq 99); do head -c 10M /dev/zero >f$n || break; done; sync; rm f1 f2 f3; sync",
            place.display()
        );
        haul_e2e::shell(sandbox, &fill).run().succeeds();
        let (run, written) = site.push(&[]);
        assert!(written < 2_000_000, "{kind}: {written}: {}", run.account());
    });
}

#[test]
fn without_reflinks_everything_is_written_and_reported() {
    let sandbox = Sandbox::new();
    let mut changed = 0;
    let site = Site::new(&sandbox, Path::new("there"), |bytes| changed = pages(bytes));
    for options in [&[][..], &["--inplace"], &["--delta", "off"]] {
        fs::write(&site.old, contents(&site.new)).unwrap();
        let mut bytes = contents(&site.old);
        pages(&mut bytes);
        fs::write(&site.old, bytes).unwrap();
        let (run, written) = site.push(options);
        let expected =
            if options == ["--inplace"] { changed..changed + 4 * PAGE as u64 } else { SIZE as u64..SIZE as u64 + 1 };
        assert!(expected.contains(&written), "{options:?}: {written}: {}", run.account());
    }
    if !is_root_or_skip("mounting a file system") {
        return;
    }
    let memory = sandbox.tmpfs("memory", "size=200m");
    let site = Site::new(&sandbox, memory.path(), |bytes| _ = pages(bytes));
    let (run, written) = site.push(&[]);
    assert_eq!(written, SIZE as u64, "{}", run.account());
    fs::write(&site.old, vec![7; SIZE]).unwrap();
    let run = site.remote.haul(&sandbox).arg("-f").arg(&site.new).arg(site.remote.at(&site.old)).run().succeeds();
    run.says(["written     40.0 MB at the target"]);
}
