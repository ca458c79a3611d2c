//! Starts a worker on another host over one ssh connection, and deploys haul if needed and permitted.

use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::path::Path;
use std::process::{ChildStdin, Command};
use std::time::{Duration, Instant};

use haul_base::copy::End;
use haul_base::copy::error::Error;
use haul_base::copy::hello::PROTOCOL;
use haul_base::copy::location::Host;
use haul_base::copy::spec::{RemoteAccess, WorkerProgram};
use haul_base::sys::cancel::Cancel;
use haul_base::sys::child::{CancellableStdin, SpawnedChild, spawn};
use haul_base::sys::describe::{describe_start, is_limit};
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
use crate::launch::ssh_master::SshMaster;
use crate::launch::ssh_settings::SettingsQuery;
use crate::launch::start_wait::{LOGIN_LIMIT, StartWait};

/// For a login beside a master: sessions of one master share a core and a TCP connection, which much data would fill. But
/// nobody is asked for a second password.
const ASK_NOTHING: [&str; 2] = ["-o", "BatchMode=yes"];

/// In ssh's last words where its proxy has failed. A login that may become a master hides the proxy's own words
/// (ControlPersist), so another login asks for them.
const HIDDEN: &str = "UNKNOWN port";

/// What a start needs of its caller.
#[derive(Clone, Copy)]
pub struct StartControl<'a> {
    /// Ends the start.
    pub cancel: &'a Cancel,
    /// Says why a start takes long.
    pub on_slow: &'a dyn Fn(String),
}

/// Starts a worker on `host`. Blocks until it has greeted, until ssh ends, or until `cancel` is set. Password prompts
/// may take any time, unless `access` bounds it. On an error ssh is gone.
///
/// Without a `--source-command` or `--target-command` for this `end`, an identical haul on the host is started.
/// Otherwise this one is deployed, if `access` permits. SIGPIPE must be ignored in this process, as Rust's runtime
/// does.
pub fn start_remote(
    host: &Host,
    end: End,
    access: &RemoteAccess,
    program: &WorkerProgram,
    control: StartControl<'_>,
) -> Result<StartedWorker, Error> {
    start_through(OsStr::new("ssh"), host, end, access, program, control)
}

/// As [`start_remote`], with another program in place of ssh.
pub(super) fn start_through(
    ssh: &OsStr,
    host: &Host,
    end: End,
    access: &RemoteAccess,
    program: &WorkerProgram,
    control: StartControl<'_>,
) -> Result<StartedWorker, Error> {
    let Host::Remote { user, name } = host else {
        return start_local(program, end, &InheritedStdio::default(), control.cancel);
    };
    let remote = SshRemote { user: user.as_deref(), name };
    remote.check()?;
    let scene = scene(remote, access, end);
    if let Some(template) = own_command(access, end) {
        let words = custom_command(template, remote, access, end, program)?;
        return start_own(&words, scene, access, control);
    }
    let arguments = arguments(remote, access);
    let settings = SettingsQuery::start(ssh, &arguments);
    let executables = DeployableExecutables::open(program, access)?;
    let settings = settings.finish();
    let agent = settings.agent(program.masters.agent.as_deref()).map(Path::to_owned);
    let scene = LaunchScene { agent, ..scene };
    let master = SshMaster::choose(&settings, &arguments, access, &program.masters)?;
    let arguments = [settings.overrides(), arguments].concat();
    let shared = [master.options.as_slice(), &arguments].concat();
    let is_apart = access.ssh_carries_data && master.runs;
    let (first, second) = match is_apart {
        true => ([ASK_NOTHING.map(OsString::from).as_slice(), &arguments].concat(), shared),
        false => (shared, arguments),
    };
    let verified = master.verified.read();
    let verified = verified.as_deref();
    let started = match start_scripted(ssh, first, scene.clone(), access, executables, verified, program, control) {
        Err(Error::Connect(text)) if is_apart || !master.options.is_empty() && text.contains(HIDDEN) => {
            let executables = DeployableExecutables::open(program, access)?;
            start_scripted(ssh, second, scene, access, executables, verified, program, control)
        }
        started => started,
    }?;
    started.verified.iter().for_each(|verified| master.verified.write(verified));
    Ok(StartedWorker { peer: started.peer.or_else(|| master.peer()), ..started })
}

/// Starts a command of the user's own, without deployment.
fn start_own(
    words: &[OsString],
    mut scene: LaunchScene,
    access: &RemoteAccess,
    control: StartControl<'_>,
) -> Result<StartedWorker, Error> {
    let (program, rest) = words.split_first().ok_or_else(|| Error::Usage("the command is empty".into()))?;
    scene.attempt = quoted(words);
    let spawned = spawn(Command::new(program).args(rest)).map_err(|error| not_started(program, &error))?;
    Ok(LaunchConversation::new(spawned, scene, None, access, control).run()?)
}

/// Starts the haul that the script finds or deploys. A restricted shell runs no script, but perhaps the haul in its
/// PATH.
pub(super) fn start_scripted(
    ssh: &OsStr,
    mut arguments: Vec<OsString>,
    scene: LaunchScene,
    access: &RemoteAccess,
    executables: DeployableExecutables,
    verified: Option<&str>,
    program: &WorkerProgram,
    control: StartControl<'_>,
) -> Result<StartedWorker, Error> {
    let worker_arguments = plain_arguments(&program.worker_arguments)
        .ok_or_else(|| Error::Failed("a worker's arguments must be plain words".into()))?;
    let token = token()?;
    let request = ScriptRequest {
        executables: executables.opened(),
        arguments: &worker_arguments,
        token: access.login.deploy.then_some(token.as_str()),
        verified,
        directory: access.login.remote_dir.as_deref(),
    };
    let host = arguments.len();
    arguments.push(remote_command(&request).into());
    let converse = |arguments: &[OsString], executables| {
        let mut spawned = spawn(Command::new(ssh).args(arguments)).map_err(|error| not_started(ssh, &error))?;
        spawned.guard.mark_as_relay();
        let mut conversation = LaunchConversation::new(spawned, scene.clone(), executables, access, control);
        conversation.listener.hurry(&conversation.child);
        conversation.run()
    };
    match converse(&arguments, Some(executables)) {
        Err(StartFailure::Restricted(error)) => {
            arguments.truncate(host);
            arguments.push(format!("haul {worker_arguments}").into());
            converse(&arguments, None)
                .map_err(|_| if control.cancel.is_cancelled() { Error::Interrupted } else { error })
        }
        started => Ok(started?),
    }
}

/// A failed start.
enum StartFailure {
    /// The login shell forbids the script.
    Restricted(Error),
    /// Any other.
    Other(Error),
}

impl From<Error> for StartFailure {
    fn from(error: Error) -> Self {
        Self::Other(error)
    }
}

impl From<StartFailure> for Error {
    fn from(failure: StartFailure) -> Self {
        let (StartFailure::Restricted(error) | StartFailure::Other(error)) = failure;
        error
    }
}

/// The dialogue until a worker has greeted.
struct LaunchConversation<'a> {
    listener: GreetingListener,
    /// Its time limit, if any.
    patience: Option<Duration>,
    to_worker: ChildStdin,
    child: haul_base::sys::child::ChildGuard,
    scene: LaunchScene,
    /// `None` once one is sent, or if the user's own command starts haul.
    executables: Option<DeployableExecutables>,
    deploy: bool,
    control: StartControl<'a>,
    /// Limit of a step after the login.
    start_timeout: Duration,
    found: String,
    system: String,
    deployed: Option<String>,
    verified: Option<String>,
}

impl<'a> LaunchConversation<'a> {
    fn new(
        spawned: SpawnedChild,
        scene: LaunchScene,
        executables: Option<DeployableExecutables>,
        access: &RemoteAccess,
        control: StartControl<'a>,
    ) -> Self {
        let patience = access.greeting_timeout;
        let deadline = patience.map(|patience| Instant::now() + patience);
        let mut listener = GreetingListener::new(spawned.stdout, deadline, control.cancel.clone());
        listener.limit(StartWait::new(&spawned.guard, LOGIN_LIMIT, access.start_timeout));
        Self {
            listener,
            patience,
            control,
            start_timeout: access.start_timeout,
            to_worker: spawned.stdin,
            child: spawned.guard,
            scene,
            executables,
            deploy: access.login.deploy,
            found: "none".into(),
            system: String::new(),
            deployed: None,
            verified: None,
        }
    }

    fn run(mut self) -> Result<StartedWorker, StartFailure> {
        loop {
            match self.listener.next() {
                GreetResult::Line(ScannedLine::Greeting(greeting)) if greeting.protocol == PROTOCOL => {
                    return Ok(self.started(greeting.version));
                }
                GreetResult::Line(ScannedLine::Greeting(greeting)) => {
                    return Err(self.scene.other_protocol(&greeting.version, greeting.protocol, PROTOCOL).into());
                }
                GreetResult::Line(ScannedLine::OtherSystem(system)) => self.describe(system)?,
                GreetResult::Line(ScannedLine::Absent { system, found }) => (self.system, self.found) = (system, found),
                GreetResult::Line(ScannedLine::Ready) => self.send()?,
                GreetResult::Line(ScannedLine::Placed(path)) => self.deployed = Some(path),
                GreetResult::Line(ScannedLine::Verified(verified)) => self.verified = Some(verified),
                GreetResult::Line(ScannedLine::Cannot { code, detail }) => {
                    return Err(self.cannot(&code, &detail).into());
                }
                GreetResult::Cancelled => return Err(Error::Interrupted.into()),
                GreetResult::Slow => (self.control.on_slow)(format!("waiting for {} to start haul", self.scene.host)),
                GreetResult::SlowLogin => {
                    self.scene.hanging_agent().into_iter().for_each(self.control.on_slow);
                }
                GreetResult::TooMuchNoise => {
                    self.child.end();
                    let remains = self.listener.remains(&mut self.child);
                    return Err(self.scene.too_much_noise(&remains).into());
                }
                GreetResult::TimedOut => return Err(self.silent(self.patience.unwrap_or_default()).into()),
                GreetResult::NoLogin => return Err(self.silent(LOGIN_LIMIT).into()),
                GreetResult::NoStart(limit) => return Err(self.not_started(limit).into()),
                GreetResult::Ended => {
                    let remains = self.listener.remains(&mut self.child);
                    let error = self.scene.ended(&remains);
                    let is_restricted = self.scene.is_restricted(&remains);
                    return Err(if is_restricted { StartFailure::Restricted(error) } else { error.into() });
                }
            }
        }
    }

    fn silent(&mut self, waited: Duration) -> Error {
        self.child.end();
        self.scene.silent(waited)
    }

    fn not_started(&mut self, waited: Duration) -> Error {
        self.child.end();
        self.scene.not_started(waited, &self.listener.remains(&mut self.child))
    }

    /// Tells the host, once, which executable runs on its system: an empty line if none does.
    fn describe(&mut self, system: String) -> Result<(), Error> {
        let is_first = self.system.is_empty();
        let Some(executables) = self.executables.as_mut().filter(|_| is_first) else { return Err(self.unasked()) };
        let executable = executables.for_system(&system).and_then(|executable| executable.deployable());
        let line = executable.map(|executable| executable.words()).unwrap_or_default() + "\n";
        self.system = system;
        let mut to = self.input();
        let sent = to.write_all(line.as_bytes()).and_then(|()| to.flush());
        self.check_sent(sent)
    }

    /// Sends the executable for the host's system.
    fn send(&mut self) -> Result<(), Error> {
        let Some(mut executables) = self.executables.take().filter(|_| self.deploy) else { return Err(self.unasked()) };
        let Some(executable) = executables.for_system(&self.system) else { return Err(self.unasked()) };
        let begun = Instant::now();
        let sent = executable.send(&mut self.input());
        // On a slow path, as much again may still be on its way.
        self.listener.begin_step(begun.elapsed() * 2);
        self.check_sent(sent)
    }

    fn input(&mut self) -> CancellableStdin<'_> {
        CancellableStdin { pipe: &mut self.to_worker, cancel: self.control.cancel, patience: self.start_timeout }
    }

    /// A host that stops reading reports the reason on the other pipe, so only local failures are errors here.
    fn check_sent(&mut self, sent: io::Result<()>) -> Result<(), Error> {
        match sent {
            Err(_) if self.control.cancel.is_cancelled() => Err(Error::Interrupted),
            Err(error) if error.kind() == io::ErrorKind::TimedOut => Err(self.not_started(self.start_timeout)),
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
            verified: self.verified,
            host_label: self.scene.host,
        }
    }
}

fn not_started(program: &OsStr, error: &io::Error) -> Error {
    let program = escape(program.as_encoded_bytes());
    if is_limit(error) {
        return Error::Failed(format!("cannot start {program} on this host: {}", describe_start(error)));
    }
    let remedy = match (error.kind(), program.as_str()) {
        (io::ErrorKind::NotFound, "ssh") => {
            "install an ssh client (Debian: apt-get install openssh-client), or see --target-command"
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
