//! A fake remote host: a home directory, a PATH, a login shell, and an `ssh` that runs commands there.

use std::ffi::OsString;
use std::io::{Read, Write};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::channel;
use std::time::Duration;
use std::{fs, thread};

use haul_base::copy::End;
use haul_base::copy::error::Error;
use haul_base::copy::hello::VERSION;
use haul_base::copy::spec::{Login, RemoteAccess, WorkerProgram};
use haul_base::sys::cancel::Cancel;
use haul_base::trusted_files::{OthersMay, open_own};
use haul_lab::install_script;
use tempfile::TempDir;

use crate::launch::executable::Executable;
use crate::launch::executables::DeployableExecutables;
use crate::launch::remote::start_scripted;
use crate::launch::ssh::{SshRemote, arguments, scene};
use crate::launch::{StartControl, StartedWorker};

/// Tools that the script and the fake haul need.
const TOOLS: [&str; 13] =
    ["uname", "head", "wc", "mkdir", "chmod", "mv", "rm", "ls", "id", "sha256sum", "df", "tail", "cat"];

/// Lifetime of a test's remote side in seconds; a start may take a little longer.
const LIFETIME_S: u64 = 20;

/// A shell that may be installed here.
#[derive(Debug, Clone)]
pub(super) struct Shell {
    pub name: &'static str,
    pub program: &'static str,
    arguments: &'static [&'static str],
}

/// Possible login shells and `sh`.
const SHELLS: [Shell; 8] = [
    Shell { name: "dash", program: "/bin/dash", arguments: &[] },
    Shell { name: "bash", program: "/bin/bash", arguments: &[] },
    Shell { name: "busybox", program: "/bin/busybox", arguments: &["sh"] },
    Shell { name: "zsh", program: "/bin/zsh", arguments: &[] },
    Shell { name: "mksh", program: "/bin/mksh", arguments: &[] },
    Shell { name: "tcsh", program: "/bin/tcsh", arguments: &[] },
    Shell { name: "csh", program: "/bin/bsd-csh", arguments: &[] },
    Shell { name: "fish", program: "/usr/bin/fish", arguments: &[] },
];

/// Returns the installed shells; names the missing ones on standard error.
pub(crate) fn installed() -> Vec<Shell> {
    let (here, missing): (Vec<Shell>, Vec<Shell>) =
        SHELLS.into_iter().partition(|shell| Path::new(shell.program).exists());
    for shell in missing {
        eprintln!("not installed, so not tried: {}", shell.name);
    }
    here
}

pub(super) fn shell(name: &str) -> Shell {
    SHELLS.into_iter().find(|shell| shell.name == name).expect("a known shell")
}

/// Returns a shell that forbids `exec`.
pub(super) fn restricted() -> Shell {
    Shell { name: "rbash", program: "/bin/bash", arguments: &["-r"] }
}

/// A remote host in a temporary directory.
pub(super) struct Sandbox {
    pub directory: TempDir,
    /// The fake haul.
    pub program: PathBuf,
    /// Executables for other systems.
    pub for_others: Vec<(String, PathBuf)>,
    /// Shell commands to run before the login shell.
    pub before: String,
    /// A command that filters the data sent.
    pub filter: Option<&'static str>,
    /// Words that start the login shell.
    wrapper: String,
    /// Assignments for `env -i`, besides HOME and PATH.
    pub environment: Vec<String>,
    /// The login shell.
    pub login: Shell,
    /// Whether the executable counts as static.
    pub deployable: bool,
    /// `--no-deploy` is not given.
    pub deploy: bool,
    /// What an earlier start has verified.
    pub verified: Option<String>,
    /// `--remote-dir`.
    pub remote_dir: Option<PathBuf>,
    /// Limit of a step of the start.
    pub start_timeout: Duration,
}

impl Sandbox {
    /// Creates a host with the given `sh`; busybox brings its own tools.
    pub(super) fn new(login: Shell, sh: &Shell) -> Self {
        let directory = tempfile::Builder::new().prefix("haul boot").tempdir().unwrap();
        let sandbox = Self {
            program: directory.path().join("executable"),
            directory,
            for_others: Vec::new(),
            before: String::new(),
            filter: None,
            wrapper: String::new(),
            environment: Vec::new(),
            login,
            deployable: true,
            deploy: true,
            verified: None,
            remote_dir: None,
            start_timeout: Duration::from_secs(60),
        };
        fs::create_dir(sandbox.home()).unwrap();
        fs::create_dir(sandbox.bin()).unwrap();
        symlink(sh.program, sandbox.bin().join("sh")).unwrap();
        for tool in TOOLS {
            let found = if sh.name == "busybox" { sh.program.into() } else { find(tool) };
            symlink(found, sandbox.bin().join(tool)).unwrap();
        }
        install_script(&sandbox.program, &pretended_haul(VERSION, 100_000));
        sandbox
    }

    pub(super) fn dash() -> Self {
        Self::new(shell("dash"), &shell("dash"))
    }

    pub(super) fn home(&self) -> PathBuf {
        self.directory.path().join("home")
    }

    pub(super) fn bin(&self) -> PathBuf {
        self.directory.path().join("bin")
    }

    /// Runs everything in a separate mount namespace with a new tmpfs as home.
    pub(super) fn mount_home(&mut self, options: &str) {
        let map = if rustix::process::getuid().is_root() { "" } else { "-r" };
        self.wrapper = format!(
            "unshare -m {map} sh -c 'mount -t tmpfs -o {options} tmpfs \"$0\" && exec \"$@\"' '{}'",
            self.home().display()
        );
    }

    /// Makes root an ordinary user in the eyes of file permissions.
    pub(super) fn respect_modes(&mut self) {
        if rustix::process::getuid().is_root() {
            self.wrapper = "setpriv --bounding-set=-dac_override,-dac_read_search".to_owned();
        }
    }

    /// Starts a worker there.
    pub(super) fn start(&self) -> Result<StartedWorker, Error> {
        let remote = SshRemote { user: Some("ann"), name: "db1" };
        let login =
            Login { deploy: self.deploy, port: Some(2222), remote_dir: self.remote_dir.clone(), ..Login::default() };
        let access = RemoteAccess { login, start_timeout: self.start_timeout, ..RemoteAccess::default() };
        let mut words: Vec<OsString> = vec!["-c".into(), self.pretended_ssh().into(), "ssh".into()];
        words.extend(arguments(remote, &access));
        let mut executables = vec![Executable::open(&self.program).unwrap()];
        if self.deployable {
            executables[0].pretend_system(&system());
        }
        let for_others = self.for_others.clone();
        let executables = DeployableExecutables::new(executables, move |system| {
            let Some((_, program)) = for_others.iter().find(|(other, _)| other == system) else { return Ok(None) };
            let mut executable = Executable::of(open_own(program, OthersMay::Read)?).unwrap();
            executable.pretend_system(system);
            Ok(Some(executable))
        });
        let program = WorkerProgram {
            executable: self.program.clone(),
            worker_arguments: vec!["worker".into()],
            ..WorkerProgram::default()
        };
        let scene = scene(remote, &access, End::Target);
        let verified = self.verified.clone();
        within(move || {
            let (cancel, on_slow) = (Cancel::new(), |_| ());
            let control = StartControl { cancel: &cancel, on_slow: &on_slow };
            start_scripted(
                "/bin/sh".as_ref(),
                words,
                scene,
                &access,
                executables,
                verified.as_deref(),
                &program,
                control,
            )
        })
    }

    /// Returns the script's directory in a cache directory.
    pub(super) fn version_directory(&self) -> String {
        format!("haul/{VERSION}-{}", &Executable::open(&self.program).unwrap().sha256()[..16])
    }

    /// Returns the error of a start that must fail.
    pub(super) fn error(&self) -> String {
        self.start().expect_err("it must not start").to_string()
    }

    /// Returns the files below the home directory, sorted, relative to it.
    pub(super) fn files(&self) -> Vec<String> {
        let mut left = vec![self.home()];
        let mut files = Vec::new();
        while let Some(directory) = left.pop() {
            for entry in fs::read_dir(directory).unwrap().map(Result::unwrap) {
                if entry.file_type().unwrap().is_dir() {
                    left.push(entry.path());
                } else {
                    files.push(entry.path().strip_prefix(self.home()).unwrap().display().to_string());
                }
            }
        }
        files.sort();
        files
    }

    /// Returns a script that drops ssh's options and host, and passes the command to the login shell, as sshd does.
    fn pretended_ssh(&self) -> String {
        let login: Vec<&str> = std::iter::once(&self.login.program).chain(self.login.arguments).copied().collect();
        let environment: Vec<String> = self.environment.iter().map(|pair| format!("'{pair}'")).collect();
        format!(
            "umask 022\n\
             while :; do case $1 in --) shift; break;; -x|-T) shift;; -*) shift 2;; *) exit 250;; esac; done\n\
             {before}\n\
             {starter} timeout -k 1 {LIFETIME_S} {wrapper} env -i HOME='{home}' PATH='{bin}' {environment} {login} -c \"$2\"\n",
            before = self.before,
            starter = self.filter.map_or_else(|| "exec".to_owned(), |filter| format!("{filter} |")),
            wrapper = self.wrapper,
            home = self.home().display(),
            bin = self.bin().display(),
            environment = environment.join(" "),
            login = login.join(" "),
        )
    }
}

/// Returns a shell script that answers as haul does. As a worker it prints its umask and its path, then echoes.
pub(super) fn pretended_haul(version: &str, padding: usize) -> String {
    format!(
        "#!/bin/sh\n\
         case \"$*\" in\n\
         'worker --identify') echo 'haul {version} protocol 1';;\n\
         'worker --verify '*) [ \"$(tail -n 1 \"$0\")\" = '# whole' ];;\n\
         worker) printf '\\nHAUL-WORKER 1 {version}\\n'; umask; printf '%s\\n' \"$0\"; exec cat;;\n\
         *) exit 2;;\n\
         esac\n\
         exit\n\
         {}# whole\n",
        format!("#{}\n", "x".repeat(62)).repeat(padding / 64)
    )
}

/// Talks to a worker made of [`pretended_haul`] and verifies all bytes both ways. Returns its umask and its path.
pub(super) fn talk(started: StartedWorker) -> (String, String) {
    within(move || {
        let StartedWorker { mut to_worker, mut from_worker, child, .. } = started;
        let sent: Vec<u8> = (0..=255).chain(*b"\nHAUL-READY\n").collect();
        to_worker.write_all(&sent).unwrap();
        drop(to_worker);
        let mut all = Vec::new();
        from_worker.read_to_end(&mut all).unwrap();
        drop(child);
        let text = all.strip_suffix(sent.as_slice()).unwrap_or_else(|| panic!("{}", String::from_utf8_lossy(&all)));
        let text = String::from_utf8(text.to_vec()).unwrap();
        let (umask, path) = text.trim_end().split_once('\n').unwrap();
        (umask.to_owned(), path.to_owned())
    })
}

/// Returns the system as the host's own tool names it: an emulator may tell this process another one.
pub(super) fn system() -> String {
    let printed = Command::new("uname").arg("-sm").output().unwrap().stdout;
    String::from_utf8(printed).unwrap().trim().to_owned()
}

/// Fails if `work` exceeds the time limit.
fn within<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, result) = channel();
    let worker = thread::spawn(move || done.send(work()).is_ok());
    match result.recv_timeout(Duration::from_secs(LIFETIME_S + 20)) {
        Ok(result) => result,
        Err(_) if worker.is_finished() => panic!("it panicked"),
        Err(_) => panic!("it took too long"),
    }
}

fn find(tool: &str) -> PathBuf {
    let places = ["/usr/bin", "/bin"].map(|directory| Path::new(directory).join(tool));
    places.into_iter().find(|path| path.exists()).unwrap_or_else(|| panic!("{tool} is not installed"))
}
