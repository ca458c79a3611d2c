//! The options of a job's copies: typed, as they were when the job was planned. No node's configuration changes them,
//! except for login options.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use haul_base::copy::spec::{
    CopyOptions, DeleteMode, FilterOptions, Fsync, ListSyntax, LiveSourceOptions, Login, PartialOptions, PatternList,
    RemoteAccess, SourceOptions, StorageOptions, StreamOptions, TargetOptions,
};
use serde::{Deserialize, Serialize};

/// The options of a job's copies.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct JobOptions {
    /// Options of a copy of the whole source.
    pub copy: CopyOptions,
    /// Access to remote hosts. The login has what was typed.
    pub access: RemoteAccess,
    /// Whether the configuration of a node completes the login. Not with a typed configuration file.
    pub completes_login: bool,
    /// `--secret-file`.
    pub secret_file: Option<PathBuf>,
    /// `--timelimit`: the time limit of a step.
    pub time_limit: Option<Duration>,
    /// The display of steps.
    pub display: JobDisplay,
    /// `--notify`: a command for the shell, run by the step that finishes.
    pub notify: Option<String>,
}

/// The display of a job's steps.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobDisplay {
    /// `--quiet`.
    pub is_quiet: bool,
    /// `--json`.
    pub is_json: bool,
    /// The number of `-v`.
    pub verbosity: u8,
    /// `--progress`: the interval of progress lines.
    pub progress_every: Option<Duration>,
    /// `--bits`.
    pub bits: bool,
    /// `--logfile`.
    pub log: Option<PathBuf>,
}

/// The part of a job in one copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobPart {
    /// Listed files. Filters were applied to the list, and nothing is deleted.
    List,
    /// The whole source.
    Whole,
    /// Directories alone, with their metadata.
    Directories,
}

impl JobOptions {
    /// Options of the copy of a part into a directory.
    pub fn of_copy(&self, part: JobPart) -> CopyOptions {
        let mut options = self.copy.clone();
        self.select(part, &mut options);
        options.target.sync.into = true;
        options
    }

    /// Options of the comparison of a part.
    pub fn of_comparison(&self, part: JobPart) -> CopyOptions {
        let CopyOptions { source, metadata, storage, streams, cpus, .. } = self.copy.clone();
        let source = SourceOptions { live: LiveSourceOptions::default(), judges_operands: false, ..source };
        let mut options = CopyOptions {
            compare: true,
            source,
            metadata,
            streams: StreamOptions {
                count: streams.count,
                frame_bytes: streams.frame_bytes,
                ..StreamOptions::default()
            },
            storage: StorageOptions { fsync: Fsync::None, ..storage },
            cpus,
            target: TargetOptions { partial: PartialOptions::NONE, ..CopyOptions::default().target },
            ..CopyOptions::default()
        };
        self.select(part, &mut options);
        options.target.sync.into = part == JobPart::List;
        options
    }

    /// Selects the entries of a part.
    fn select(&self, part: JobPart, options: &mut CopyOptions) {
        let pattern =
            |text: &[u8], includes| PatternList { text: text.to_vec(), syntax: ListSyntax::Pattern, includes };
        match part {
            JobPart::Whole => {}
            JobPart::Directories => {
                options.source.filters.lists.extend([pattern(b"*/", true), pattern(b"*", false)]);
            }
            JobPart::List => {
                options.source.filters = FilterOptions::default();
                options.source.recursive = false;
                options.source.live.is_planned = true;
                let sync = &mut options.target.sync;
                (sync.delete, sync.delete_max, sync.replaces_trees) = (DeleteMode::No, None, false);
                (sync.delete_filtered, sync.delete_despite_errors) = (false, false);
                options.target.delete_first = false;
            }
        }
    }

    /// Whether hard links are kept.
    pub fn keeps_hard_links(&self) -> bool {
        self.copy.metadata.preserve.hard_links
    }

    /// Whether extraneous entries are deleted.
    pub fn deletes(&self) -> bool {
        self.copy.target.sync.delete != DeleteMode::No
    }

    /// Those that can start programs, or name a file that can, as words of a command line.
    pub fn program_words(&self) -> Vec<OsString> {
        let word = |option: &str, value: &Path| {
            let mut word = OsString::from(format!("--{option}="));
            word.push(value);
            word
        };
        let logins = [Some(&self.access.login), self.access.target_login.as_ref()].into_iter().flatten();
        let of_logins = logins.flat_map(|login| {
            let Login {
                ssh_config,
                port,
                ssh_options,
                worker_binary,
                identity: _,
                deploy: _,
                remote_dir: _,
                no_ssh_reuse: _,
            } = login;
            let port = port.map(|port| PathBuf::from(port.to_string()));
            let options = ssh_options.iter().map(|option| word("ssh-option", Path::new(option)));
            let one = |name, value: Option<&Path>| value.map(|value| word(name, value));
            options
                .chain(one("ssh-config", ssh_config.as_deref()))
                .chain(one("ssh-port", port.as_deref()))
                .chain(one("worker-binary", worker_binary.as_deref()))
                .collect::<Vec<_>>()
        });
        let commands =
            [("source-command", &self.access.source_command), ("target-command", &self.access.target_command)];
        let commands = commands.into_iter().filter_map(|(name, command)| Some((name, command.as_ref()?)));
        let notify = self.notify.iter().map(|command| word("notify", Path::new(command)));
        commands.map(|(name, command)| word(name, Path::new(command))).chain(of_logins).chain(notify).collect()
    }

    /// Whether `new`, of a later command line, has the same options. Ages in filters count from the plan.
    pub fn is_same(&self, new: &Self) -> bool {
        let mut own = self.clone();
        let (limits, later) = (&mut own.copy.source.filters.limits, &new.copy.source.filters.limits);
        for (planned, now) in [(&mut limits.newer_s, later.newer_s), (&mut limits.older_s, later.older_s)] {
            if planned.zip(now).is_some_and(|(planned, now)| planned <= now) {
                *planned = now;
            }
        }
        own == *new
    }
}

impl PartialEq for JobOptions {
    fn eq(&self, other: &Self) -> bool {
        let value = |options: &Self| serde_json::to_value(options).ok();
        value(self).is_some() && value(self) == value(other)
    }
}

impl Eq for JobOptions {}

impl Default for JobOptions {
    fn default() -> Self {
        Self {
            copy: CopyOptions::default(),
            access: RemoteAccess::default(),
            completes_login: true,
            secret_file: None,
            time_limit: None,
            display: JobDisplay::default(),
            notify: None,
        }
    }
}

/// A login by what was typed, completed by the configuration of this host.
pub fn completed_login(typed: &Login, configured: Login) -> Login {
    let Login { identity, ssh_config, port, ssh_options, deploy, worker_binary, remote_dir, no_ssh_reuse } =
        typed.clone();
    Login {
        identity: identity.or(configured.identity),
        ssh_config: ssh_config.or(configured.ssh_config),
        port: port.or(configured.port),
        ssh_options: [ssh_options, configured.ssh_options].concat(),
        deploy: deploy && configured.deploy,
        worker_binary: worker_binary.or(configured.worker_binary),
        remote_dir: remote_dir.or(configured.remote_dir),
        no_ssh_reuse: no_ssh_reuse || configured.no_ssh_reuse,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_no_filters_and_deletes_nothing() {
        let mut options = JobOptions::default();
        options.copy.source.filters.limits.min_size = Some(1);
        options.copy.source.recursive = true;
        options.copy.target.sync.delete = DeleteMode::During;
        options.copy.target.sync.delete_max = Some(3);
        let list = options.of_copy(JobPart::List);
        assert!(list.source.filters.is_empty() && list.source.live.is_planned && !list.source.recursive);
        assert!(list.target.sync.delete == DeleteMode::No && list.target.sync.delete_max.is_none());
        let whole = options.of_copy(JobPart::Whole);
        assert!(whole.source.recursive && whole.target.sync.delete == DeleteMode::During && whole.target.sync.into);
        let directories = options.of_copy(JobPart::Directories).source.filters.lists;
        assert_eq!(directories.iter().map(|list| list.text.as_slice()).collect::<Vec<_>>(), [&b"*/"[..], b"*"]);
        assert!(options.of_comparison(JobPart::Whole).compare);
    }

    #[test]
    fn whatever_can_start_a_program_is_a_word() {
        let mut options = JobOptions::default();
        assert!(options.program_words().is_empty());
        options.access.login = Login {
            ssh_config: Some("f".into()),
            port: Some(1),
            ssh_options: vec!["ProxyCommand=sh".to_owned()],
            worker_binary: Some("w".into()),
            identity: Some("key".into()),
            ..Login::default()
        };
        options.access.target_login = Some(Login { ssh_config: Some("g".into()), ..Login::default() });
        options.access.source_command = Some("s".to_owned());
        options.access.target_command = Some("t".to_owned());
        options.notify = Some("n".to_owned());
        let expected = [
            "--source-command=s",
            "--target-command=t",
            "--ssh-option=ProxyCommand=sh",
            "--ssh-config=f",
            "--ssh-port=1",
            "--worker-binary=w",
            "--ssh-config=g",
            "--notify=n",
        ];
        assert_eq!(options.program_words(), expected);
    }

    #[test]
    fn an_age_counts_from_the_plan() {
        let with_age = |newer_s| {
            let mut options = JobOptions::default();
            options.copy.source.filters.limits.newer_s = newer_s;
            options
        };
        assert!(with_age(Some(5)).is_same(&with_age(Some(9))));
        for (planned, new) in [(Some(9), Some(5)), (None, Some(5)), (Some(5), None)] {
            assert!(!with_age(planned).is_same(&with_age(new)), "{planned:?} {new:?}");
        }
    }

    #[test]
    fn a_typed_login_goes_before_the_configured_one() {
        let typed = Login { port: Some(22), ssh_options: vec!["A=1".to_owned()], deploy: true, ..Login::default() };
        let configured = Login {
            port: Some(2222),
            identity: Some("key".into()),
            ssh_options: vec!["B=2".to_owned()],
            ..Login::default()
        };
        let login = completed_login(&typed, configured);
        assert_eq!((login.port, login.identity, login.deploy), (Some(22), Some("key".into()), false));
        assert_eq!(login.ssh_options, ["A=1", "B=2"]);
    }
}
