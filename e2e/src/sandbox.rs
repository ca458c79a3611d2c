//! A directory for one test, with all that is mounted in it; both are gone at its end, also when it fails.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, Once};
use std::time::{Duration, Instant};

use haul_lab::{TestTree, output_of};

use crate::program::{Haul, haul_binary};

/// How every sandbox's name begins; the process id follows.
const PREFIX: &str = "haul-e2e-";

/// A place for one test.
#[derive(Debug)]
pub struct Sandbox {
    directory: PathBuf,
    mounts: Mutex<Vec<PathBuf>>,
}

impl Sandbox {
    /// Makes an empty one.
    pub fn new() -> Self {
        static LEFTOVERS: Once = Once::new();
        LEFTOVERS.call_once(remove_leftovers);
        let prefix = format!("{PREFIX}{}-", std::process::id());
        let directory = tempfile::Builder::new().prefix(&prefix).tempdir().expect("a temporary directory").keep();
        // Other accounts need access, for tests of their permissions.
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o755)).expect("it is ours");
        let sandbox = Self { directory, mounts: Mutex::new(Vec::new()) };
        sandbox.dir("home");
        sandbox
    }

    /// A path in here.
    pub fn path(&self, relative: impl AsRef<Path>) -> PathBuf {
        self.directory.join(relative)
    }

    /// The home directory of whoever runs haul here.
    pub fn home(&self) -> PathBuf {
        self.path("home")
    }

    /// Makes a directory, and those above it.
    pub fn dir(&self, relative: impl AsRef<Path>) -> PathBuf {
        let path = self.path(relative);
        fs::create_dir_all(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        path
    }

    /// Makes a file, and the directories above it.
    pub fn file(&self, relative: impl AsRef<Path>, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(relative);
        fs::create_dir_all(path.parent().expect("a file has a directory")).expect("directories can be made");
        fs::write(&path, content).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        path
    }

    /// Writes a file that its owner alone may read, with its directories.
    pub fn secret_file(&self, relative: impl AsRef<Path>, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.file(relative, content);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("it is ours");
        path
    }

    /// Makes an executable script.
    pub fn script(&self, relative: impl AsRef<Path>, content: &str) -> PathBuf {
        let path = self.file(relative, content);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("it is ours");
        path
    }

    /// Makes a file that cannot be compressed, the same for the same size.
    pub fn big_file(&self, relative: impl AsRef<Path>, bytes: u64) -> PathBuf {
        TestTree::new(&self.directory, bytes).incompressible_file(relative.as_ref(), bytes).expect("a big file");
        self.path(relative)
    }

    /// Makes a tree of a bit of everything that is ordinary: files of all sizes up to 3 MiB, empty ones, empty directories, depth.
    pub fn tree(&self, relative: impl AsRef<Path>) -> PathBuf {
        let root = self.dir(relative);
        let mut tree = TestTree::new(&root, 42);
        tree.small_files("small", 120, 6, 1..=16 * 1024).expect("small files");
        tree.incompressible_file("big", 3 * 1024 * 1024 + 17).expect("a big file");
        tree.incompressible_file("a frame", 1024 * 1024).expect("a file of whole frames");
        tree.incompressible_file("x/y/z/deep", 300_000).expect("a deep file");
        tree.empty_files("none", 3).expect("empty files");
        tree.file("name with  spaces", b"spaces").expect("a file");
        fs::create_dir_all(root.join("empty/within")).expect("empty directories");
        root
    }

    /// The program, to be run with these arguments in here.
    pub fn haul<Word: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = Word>) -> Haul<'_> {
        let mut command = Command::new(haul_binary());
        command.args(arguments);
        self.call(command)
    }

    /// This command, to be run in here.
    pub(crate) fn call<'a>(&self, command: Command) -> Haul<'a> {
        Haul::new(command, &self.home(), &self.path(""))
    }

    /// Mounts a tmpfs with these options (`size=8m`) on a new directory.
    pub fn tmpfs(&self, relative: impl AsRef<Path>, options: &str) -> Mount<'_> {
        self.mount("tmpfs", relative, options)
    }

    /// Mounts a file system of this kind, one without a device, on a new directory.
    pub fn mount(&self, kind: &str, relative: impl AsRef<Path>, options: &str) -> Mount<'_> {
        let path = self.dir(relative);
        run_quietly(Command::new("mount").args(["-t", kind, "-o", options, "haul-e2e"]).arg(&path));
        self.mounts.lock().expect("no test panics with it").push(path.clone());
        Mount { sandbox: self, path }
    }

    /// Mounts a new file system of this kind, from a mostly sparse image of `bytes`, on a new directory. Prints the
    /// reason and returns `None` if impossible: unknown kind, no program to make it, no loop device.
    pub fn image(&self, kind: &str, bytes: u64) -> Option<Mount<'_>> {
        self.image_with(kind, &["-q"], bytes)
    }

    /// The same, made with these options.
    pub fn image_with(&self, kind: &str, options: &[&str], bytes: u64) -> Option<Mount<'_>> {
        let image = self.file(format!("{kind}.image"), "");
        fs::File::options().write(true).open(&image).and_then(|file| file.set_len(bytes)).expect("a file with holes");
        let path = self.dir(kind);
        let mut make = Command::new(format!("mkfs.{kind}"));
        let mut mount = Command::new("mount");
        let made = output_of(make.args(options).arg(&image))
            .and_then(|_| output_of(mount.args(["-t", kind, "-o", "loop"]).arg(&image).arg(&path)));
        if let Err(why) = made {
            println!("SKIPPED: no {kind} here: {why}");
            return None;
        }
        self.mounts.lock().expect("no test panics with it").push(path.clone());
        Some(Mount { sandbox: self, path })
    }
}

impl Default for Sandbox {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        let mounts = self.mounts.get_mut().map(std::mem::take).unwrap_or_default();
        mounts.iter().rev().for_each(|mount| unmount(mount));
        remove(&self.directory);
    }
}

/// A shell command in the sandbox's environment, for a shell's own features (umask, job control, redirection); `$0` is
/// haul.
pub fn shell<'a>(sandbox: &Sandbox, script: &str) -> Haul<'a> {
    let mut command = Command::new("bash");
    command.args(["-c", script]).arg(haul_binary());
    sandbox.call(command)
}

/// A file system that is mounted in a sandbox.
#[derive(Debug)]
pub struct Mount<'a> {
    sandbox: &'a Sandbox,
    path: PathBuf,
}

impl Mount<'_> {
    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Changes its options (`ro`, `size=64m`). An ended program may use it for a moment more.
    pub fn remount(&self, options: &str) {
        let remount = || {
            let mut command = Command::new("mount");
            command.args(["-o", &format!("remount,{options}")]).arg(&self.path);
            command
        };
        let deadline = Instant::now() + Duration::from_secs(5);
        while Instant::now() < deadline {
            if output_of(&mut remount()).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        run_quietly(&mut remount());
    }
}

impl Drop for Mount<'_> {
    fn drop(&mut self) {
        if let Ok(mut mounts) = self.sandbox.mounts.lock() {
            mounts.retain(|mount| *mount != self.path);
        }
        unmount(&self.path);
    }
}

/// Runs a command that has to work.
#[track_caller]
fn run_quietly(command: &mut Command) {
    output_of(command).unwrap_or_else(|why| panic!("{why:#}"));
}

fn unmount(path: &Path) {
    let _ = Command::new("umount").arg("--lazy").arg(path).stderr(Stdio::null()).status();
}

/// Removes a directory by `rm`. The standard library holds a descriptor for each level, and these trees are thousands
/// deep.
fn remove(directory: &Path) {
    let _ = Command::new("rm").args(["-r", "-f", "--one-file-system", "--"]).arg(directory).status();
}

/// Removes the sandboxes of test processes that were killed before they could.
fn remove_leftovers() {
    let Ok(entries) = fs::read_dir(std::env::temp_dir()) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let owner = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.split('-').next()?.parse::<u32>().ok());
        if owner.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
            mounts_below(&entry.path()).iter().rev().for_each(|mount| unmount(mount));
            remove(&entry.path());
        }
    }
}

fn mounts_below(directory: &Path) -> Vec<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let places = mounts.lines().filter_map(|line| line.split(' ').nth(1)).map(PathBuf::from);
    places.filter(|place| place.starts_with(directory)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drop_leaves_no_trace() {
        let sandbox = Sandbox::new();
        let place = sandbox.path("");
        sandbox.tree("some/tree");
        drop(sandbox);
        assert!(!place.exists());
    }
}
