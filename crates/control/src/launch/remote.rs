//! Starts a worker on another host over one ssh connection, and deploys haul if needed and permitted.

use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::process::{ChildStdin, Command};
use std::time::{Duration, Instant};

use haul_base::job::End;
use haul_base::job::error::Error;
use haul_base::job::hello::PROTOCOL;
use haul_base::job::location::Host;
use haul_base::job::spec::{RemoteAccess, WorkerProgram};
use haul_base::sys::cancel::Cancel;
use haul_base::sys::child::{CancellableStdin, SpawnedChild, spawn};
use haul_base::sys::random::random;
use haul_proto::path::escape;

use super::executables::DeployableExecutables;
use super::script::{ScriptRequest, plain_arguments, remote_command};
use super::ssh::{SshRemote, arguments, custom_command, own_command, quoted, scene};
use super::{InheritedStdio, StartedWorker, start_local};
use crate::launch::failure::{LaunchScene, own_system};
use crate::launch::greeting::{GreetResult, GreetingListener};
use crate::launch::greeting_scanner::ScannedLine;
use crate::launch::prompt::Prompter;

/// Starts a worker on `host`. Blocks until it has greeted, until ssh ends, or until `cancel` is set. Password prompts
/// may take any time, unless `access` bounds it. On an error ssh is gone.
///
/// Without a `-S` or `-T` for this `end`, an identical haul on the host is started. Otherwise this one is deployed, if
/// `access` permits. SIGPIPE must be ignored in this process, as Rust's runtime does.
pub fn start_remote(
    host: &Host,
    end: End,
    access: &RemoteAccess,
    program: &WorkerProgram,
    cancel: &Cancel,
) -> Result<StartedWorker, Error> {
    start_through(OsStr::new("ssh"), host, end, access, program, cancel)
}

/// As [`start_remote`], with another program in place of ssh.
pub(super) fn start_through(
    ssh: &OsStr,
    host: &Host,
    end: End,
    access: &RemoteAccess,
    program: &WorkerProgram,
    cancel: &Cancel,
) -> Result<StartedWorker, Error> {
    let Host::Remote { user, name } = host else {
        return start_local(program, end, &InheritedStdio::default(), cancel);
    };
    let remote = SshRemote { user: user.as_deref(), name };
    remote.check()?;
    let scene = scene(remote, access, end);
    if let Some(template) = own_command(access, end) {
        let words = custom_command(template, remote, access, end, program)?;
        return start_own(&words, scene, access, cancel);
    }
    let executables = DeployableExecutables::open(program, access)?;
    start_scripted(ssh, arguments(remote, access), scene, access, executables, program, cancel)
}

/// Starts a command of the user's own, without deployment.
fn start_own(
    words: &[OsString],
    mut scene: LaunchScene,
    access: &RemoteAccess,
    cancel: &Cancel,
) -> Result<StartedWorker, Error> {
    let (program, rest) = words.split_first().ok_or_else(|| Error::Usage("the command is empty".into()))?;
    scene.attempt = quoted(words);
    let spawned = spawn(Command::new(program).args(rest)).map_err(|error| not_started(program, &error))?;
    LaunchConversation::new(spawned, scene, None, access, cancel).run()
}

/// Starts the haul that the script finds or deploys.
pub(super) fn start_scripted(
    ssh: &OsStr,
    mut arguments: Vec<OsString>,
    scene: LaunchScene,
    access: &RemoteAccess,
    executables: DeployableExecutables,
    program: &WorkerProgram,
    cancel: &Cancel,
) -> Result<StartedWorker, Error> {
    let worker_arguments = plain_arguments(&program.worker_arguments)
        .ok_or_else(|| Error::Failed("a worker's arguments must be plain words".into()))?;
    let token = token()?;
    let request = ScriptRequest {
        executables: executables.opened(),
        arguments: &worker_arguments,
        token: access.login.deploy.then_some(token.as_str()),
    };
    arguments.push(remote_command(&request).into());
    let mut spawned = spawn(Command::new(ssh).args(&arguments)).map_err(|error| not_started(ssh, &error))?;
    spawned.guard.is_messenger();
    let mut conversation = LaunchConversation::new(spawned, scene, Some(executables), access, cancel);
    conversation.listener.hurry(&conversation.child);
    conversation.run()
}

/// The dialogue until a worker has greeted.
struct LaunchConversation {
    listener: GreetingListener,
    /// Its time limit, if any.
    patience: Option<Duration>,
    to_worker: ChildStdin,
    child: haul_base::sys::child::ChildGuard,
    scene: LaunchScene,
    /// `None` once one is sent, or if the user's own command starts haul.
    executables: Option<DeployableExecutables>,
    deploy: bool,
    cancel: Cancel,
    found: String,
    system: String,
    deployed: Option<String>,
}

impl LaunchConversation {
    fn new(
        spawned: SpawnedChild,
        scene: LaunchScene,
        executables: Option<DeployableExecutables>,
        access: &RemoteAccess,
        cancel: &Cancel,
    ) -> Self {
        let patience = access.greeting_timeout;
        let deadline = patience.map(|patience| Instant::now() + patience);
        Self {
            listener: GreetingListener::new(spawned.stdout, deadline, cancel.clone()),
            patience,
            cancel: cancel.clone(),
            to_worker: spawned.stdin,
            child: spawned.guard,
            scene,
            executables,
            deploy: access.login.deploy,
            found: "none".into(),
            system: String::new(),
            deployed: None,
        }
    }

    fn run(mut self) -> Result<StartedWorker, Error> {
        loop {
            match self.listener.next() {
                GreetResult::Line(ScannedLine::Greeting(greeting)) if greeting.protocol == PROTOCOL => {
                    return Ok(self.started(greeting.version));
                }
                GreetResult::Line(ScannedLine::Greeting(greeting)) => {
                    return Err(self.scene.other_protocol(&greeting.version, greeting.protocol, PROTOCOL));
                }
                GreetResult::Line(ScannedLine::OtherSystem(system)) => self.describe(system)?,
                GreetResult::Line(ScannedLine::Absent { system, found }) => (self.system, self.found) = (system, found),
                GreetResult::Line(ScannedLine::Ready) => self.send()?,
                GreetResult::Line(ScannedLine::Placed(path)) => self.deployed = Some(path),
                GreetResult::Line(ScannedLine::Cannot { code, detail }) => return Err(self.cannot(&code, &detail)),
                GreetResult::Cancelled => return Err(Error::Interrupted),
                GreetResult::TooMuchNoise => {
                    self.child.end();
                    let remains = self.listener.remains(&mut self.child);
                    return Err(self.scene.too_much_noise(&remains));
                }
                GreetResult::TimedOut => {
                    self.child.end();
                    return Err(self.scene.silent(self.patience.unwrap_or_default()));
                }
                GreetResult::Ended => {
                    let remains = self.listener.remains(&mut self.child);
                    return Err(self.scene.ended(&remains));
                }
            }
        }
    }

    /// Tells the host, once, which executable runs on its system: an empty line if none does.
    fn describe(&mut self, system: String) -> Result<(), Error> {
        let is_first = self.system.is_empty();
        let Some(executables) = self.executables.as_mut().filter(|_| is_first) else { return Err(self.unasked()) };
        let executable = executables.for_system(&system).and_then(|executable| executable.deployable());
        let line = executable.map(|executable| executable.words()).unwrap_or_default() + "\n";
        self.system = system;
        let mut to = CancellableStdin { pipe: &mut self.to_worker, cancel: &self.cancel };
        let sent = to.write_all(line.as_bytes()).and_then(|()| to.flush());
        self.check_sent(sent)
    }

    /// Sends the executable for the host's system.
    fn send(&mut self) -> Result<(), Error> {
        let Some(mut executables) = self.executables.take().filter(|_| self.deploy) else { return Err(self.unasked()) };
        let Some(executable) = executables.for_system(&self.system) else { return Err(self.unasked()) };
        let sent = executable.send(&mut CancellableStdin { pipe: &mut self.to_worker, cancel: &self.cancel });
        self.check_sent(sent)
    }

    /// A host that stops reading reports the reason on the other pipe, so only local failures are errors here.
    fn check_sent(&self, sent: io::Result<()>) -> Result<(), Error> {
        match sent {
            Err(_) if self.cancel.is_cancelled() => Err(Error::Interrupted),
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Error::Failed(format!(
                "cannot send haul's executable to {}: {error}\ntry again: it may have been replaced",
                self.scene.host
            ))),
            _ => Ok(()),
        }
    }

    fn unasked(&self) -> Error {
        let host = &self.scene.host;
        Error::Connect(format!("{host} requested the executable twice, or without need\ntry again"))
    }

    fn cannot(&self, code: &str, detail: &str) -> Error {
        let not_allowed = |why, remedy| self.scene.not_allowed(&self.found, why, remedy);
        match code {
            "not-allowed" => not_allowed("--no-deploy forbids installing it there", None),
            "arch" if self.system == own_system() => not_allowed(
                "this haul is not a static executable, so it cannot be installed there",
                Some("build it with `cargo xtask dist`"),
            ),
            "arch" => match self.executables.as_ref().and_then(DeployableExecutables::distrust) {
                Some(why) => not_allowed(
                    &format!("the one for {} on this host is not trusted: {why}", self.system),
                    why.hint().as_deref(),
                ),
                None => self.scene.cannot(code, &self.system, &self.found),
            },
            _ => self.scene.cannot(code, detail, &self.found),
        }
    }

    fn started(self, version: String) -> StartedWorker {
        StartedWorker {
            peer: Prompter::of(self.child.id()).and_then(|ssh| ssh.peer()),
            to_worker: self.to_worker,
            from_worker: self.listener.into_stdout(),
            child: self.child,
            version,
            deployed: self.deployed,
            host_label: self.scene.host,
        }
    }
}

fn not_started(program: &OsStr, error: &io::Error) -> Error {
    let program = escape(program.as_encoded_bytes());
    let remedy = match (error.kind(), program.as_str()) {
        (io::ErrorKind::NotFound, "ssh") => {
            "install an ssh client (Debian: apt-get install openssh-client), or give a command with -S or -T"
        }
        (io::ErrorKind::NotFound, _) => "check the name, or give the full path",
        _ => "check that it is executable",
    };
    Error::Connect(format!("cannot start {program} on this host: {error}\n{remedy}"))
}

/// Returns 16 random hexadecimal digits.
fn token() -> Result<String, Error> {
    match random() {
        Ok(bytes) => Ok(format!("{:016x}", u64::from_ne_bytes(bytes))),
        Err(_) => Err(Error::Failed("no random bytes from the kernel of this host".into())),
    }
}
