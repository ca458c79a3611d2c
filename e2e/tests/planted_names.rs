//! Another user of a world-writable directory takes haul's temporary names there, before a copy, during it and between
//! two runs. haul neither writes nor reads through these entries, they stay, and the file arrives complete.
//!
//! The kernel may prevent some of that (`fs.protected_*`). The tests plant the entries as root: haul alone must cope.

use std::fs::{self, File, Permissions};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, lchown, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use haul_e2e::{
    Haul, ProgramRun, Sandbox, compare, fifo, give_to_user, hidden_or_partial, is_root_or_skip, listing, within,
};
use rustix::fs::OFlags;
use rustix::process::Signal;

/// Large enough for a journal.
const BIG: u64 = 17_500_001;
/// The account that takes the names.
const OTHER: u32 = 12_345;
const LIMIT: Duration = Duration::from_secs(60);

/// The entry planted at a temporary name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Plant {
    File,
    LinkToFile,
    LinkToNothing,
    Fifo,
    Directory,
    HardLink,
}

const PLANTS: [Plant; 6] =
    [Plant::File, Plant::LinkToFile, Plant::LinkToNothing, Plant::Fifo, Plant::Directory, Plant::HardLink];

/// Reveals a change of an entry: inode, owner, mode, length, times, and the content of a file or link.
type Look = (u64, u32, u32, u64, i64, i64, Vec<u8>);

fn look(path: &Path) -> Option<Look> {
    let meta = fs::symlink_metadata(path).ok()?;
    let content = match meta.file_type() {
        kind if kind.is_file() => fs::read(path).ok()?,
        kind if kind.is_symlink() => fs::read_link(path).ok()?.into_os_string().into_encoded_bytes(),
        _ => Vec::new(),
    };
    Some((meta.ino(), meta.uid(), meta.mode(), meta.len(), meta.ctime(), meta.ctime_nsec(), content))
}

/// A sticky directory, a file to copy into it, and things outside that the other user would like to reach.
struct Scene {
    sandbox: Sandbox,
    source: PathBuf,
    shared: PathBuf,
}

impl Scene {
    fn new() -> Self {
        let sandbox = Sandbox::new();
        let (source, shared, outside) =
            (sandbox.big_file("source/big", BIG), sandbox.dir("shared"), sandbox.dir("outside"));
        fs::set_permissions(&shared, Permissions::from_mode(0o1777)).expect("it is ours");
        // It belongs to whoever copies, who could write to it.
        give_to_user(&sandbox.file("outside/precious", "precious"));
        give_to_user(&outside);
        Self { sandbox, source, shared }
    }

    /// The names of the temporary file and of its journal.
    fn names(&self) -> [PathBuf; 2] {
        let digits = blake3::hash(b"file\0big").to_hex();
        ["part", "journal"].map(|what| self.shared.join(format!(".haul-{}.{what}", &digits[..24])))
    }

    /// Puts it there, as the other user's; `false` where the name is taken.
    fn plant(&self, plant: Plant, path: &Path) -> bool {
        let precious = self.sandbox.path("outside/precious");
        let made = match plant {
            Plant::File => File::options().write(true).create_new(true).mode(0o666).open(path).map(drop),
            Plant::LinkToFile => symlink(&precious, path),
            Plant::LinkToNothing => symlink(self.sandbox.path("outside/new"), path),
            Plant::Fifo if path.symlink_metadata().is_ok() => Err(std::io::ErrorKind::AlreadyExists.into()),
            Plant::Fifo => {
                fifo(path);
                Ok(())
            }
            Plant::Directory => fs::create_dir(path),
            Plant::HardLink => fs::hard_link(&precious, path),
        };
        // A hard link is another name of the victim's own file.
        if made.is_ok() && plant != Plant::HardLink {
            lchown(path, Some(OTHER), Some(OTHER)).expect("root may");
        }
        made.is_ok()
    }

    fn outside(&self) -> [Option<Look>; 3] {
        ["outside", "outside/precious", "outside/new"].map(|path| look(&self.sandbox.path(path)))
    }

    fn haul(&self) -> Haul<'_> {
        self.sandbox.haul_of_user(["--json", "--retries", "0", "source/big", "shared"]).limit(LIMIT)
    }

    /// The file is complete, with no file of haul's left beside it.
    #[track_caller]
    fn is_whole(&self, run: &ProgramRun, planted: &[PathBuf]) {
        compare(&self.source, &self.shared.join("big")).unwrap_or_else(|why| panic!("{why:?}\n{}", run.account()));
        let mut names: Vec<_> =
            planted.iter().filter_map(|path| Some(path.file_name()?.to_str()?.to_owned())).collect();
        names.push("big".into());
        names.sort_unstable();
        assert_eq!(listing(&self.shared), names, "{}", run.account());
    }

    /// A run that is killed when some of the file has arrived, under any name.
    #[track_caller]
    fn broken(&self) {
        let mut running = self.haul().args(["--xfrrate", "4m"]).start();
        let arrived = within(LIMIT, || hidden_or_partial(&self.shared, &[], 2_000_000).is_some());
        assert!(arrived, "nothing arrived\n{}", running.stderr_so_far());
        let workers = haul_lab::descendants(running.id());
        running.signal(Signal::KILL);
        assert!(running.wait_up_to(LIMIT), "still running");
        let is_gone = |worker: &u32| !Path::new(&format!("/proc/{worker}")).exists();
        assert!(within(LIMIT, || workers.iter().all(is_gone)), "a worker is left");
    }
}

fn say_sysctls() {
    for name in ["symlinks", "hardlinks", "fifos", "regular"] {
        let value = fs::read_to_string(format!("/proc/sys/fs/protected_{name}")).unwrap_or_default();
        println!("fs.protected_{name} = {}", value.trim());
    }
}

/// Data for a reader of the planted FIFOs.
fn heard(planted: &[PathBuf]) -> Vec<u8> {
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).expect("a flag");
    let open = |path: &PathBuf| File::options().read(true).custom_flags(flags).open(path);
    let mut bytes = Vec::new();
    planted.iter().filter_map(|path| open(path).ok()).for_each(|mut pipe| drop(pipe.read_to_end(&mut bytes)));
    bytes
}

#[test]
fn names_planted_before_and_between_copies_stay_untouched() {
    if !is_root_or_skip("files of another user") {
        return;
    }
    say_sysctls();
    for plant in PLANTS {
        for is_resumed in [false, true] {
            let scene = Scene::new();
            let names = scene.names();
            names.iter().for_each(|path| assert!(scene.plant(plant, path), "{plant:?}"));
            let (outside, before) = (scene.outside(), names.each_ref().map(|path| look(path)));
            if is_resumed {
                scene.broken();
                assert!(!scene.shared.join("big").exists(), "a part has the final name");
            }
            let run = scene.haul().run().succeeds();
            assert_eq!(names.each_ref().map(|path| look(path)), before, "{plant:?}\n{}", run.account());
            assert_eq!(scene.outside(), outside, "{plant:?}\n{}", run.account());
            scene.is_whole(&run, &names);
            if plant == Plant::Fifo {
                assert_eq!(heard(&names), b"", "something was written to a FIFO");
            }
        }
    }
}

/// In a sticky directory, nobody can remove haul's files; but every free name is taken at once.
#[test]
fn names_planted_during_a_copy_stay_untouched() {
    if !is_root_or_skip("files of another user") {
        return;
    }
    for plant in PLANTS {
        let scene = Scene::new();
        let (outside, names) = (scene.outside(), scene.names());
        let over = AtomicBool::new(false);
        let (runs, planted) = std::thread::scope(|scope| {
            let planting = scope.spawn(|| {
                let mut planted = [None, None];
                while !over.load(Ordering::Relaxed) {
                    for (path, planted) in names.iter().zip(&mut planted) {
                        if planted.is_none() && scene.plant(plant, path) {
                            *planted = look(path);
                        }
                    }
                }
                planted
            });
            let runs: Vec<_> = (0..3)
                .map(|_| {
                    let _ = fs::remove_file(scene.shared.join("big"));
                    scene.haul().run()
                })
                .collect();
            over.store(true, Ordering::Relaxed);
            (runs, planting.join().expect("it plants"))
        });
        let last = runs.last().expect("there are three");
        assert!(runs.iter().all(|run| run.status == Some(0)), "{plant:?}\n{}", last.account());
        let there = names.each_ref().map(|path| look(path));
        assert!(planted.iter().any(Option::is_some), "nothing was planted");
        // Another name of the file that the links lead to changes its time alone.
        if plant != Plant::HardLink {
            assert_eq!(there, planted, "{plant:?}\n{}", last.account());
            assert_eq!(scene.outside(), outside, "{plant:?}\n{}", last.account());
        }
        assert_eq!(fs::read(scene.sandbox.path("outside/precious")).expect("it is there"), b"precious", "{plant:?}");
        let names: Vec<_> = names.into_iter().filter(|path| path.symlink_metadata().is_ok()).collect();
        scene.is_whole(last, &names);
    }
}
