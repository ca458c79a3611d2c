//! The description of a job from its command line, in host-independent form.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use haul_base::copy::location::Host;
use haul_base::copy::spec::{DeltaMode, RangeLen, RemoteAccess};
use haul_control::operand::{host_prefix, parse_operand};
use haul_job::description::{JobDescription, JobOrigin, source_operand};
use haul_job::error::{JobError, shown};
use haul_job::opened::{absolute, version};
use haul_job::options::{JobDisplay, JobOptions};
use haul_job::packer::{SHARDS_AT_A_TIME, ShardLimits, ShardSizes};
use haul_job::targets::expand;
use haul_proto::path::escape;

use crate::args::flag::{Flag, Single};
use crate::args::job::{copy_options, copy_values};
use crate::args::values::Values;
use crate::args::{UsageError, flags};
use crate::config;
use crate::resolve::{Plan, hosts, login, plan, sync};

/// The job of this command line.
pub fn describe(values: &Values, operands: &[OsString]) -> anyhow::Result<JobDescription> {
    let is_sync = values.is_set(&flags::job::SYNC);
    let typed = 1 + following_sources(&operands[0], &operands[1..], values.is_set(&flags::job::TARGETS));
    let sources = expanded(&[&operands[..typed], &lines(values, &flags::job::SOURCES)?].concat())?;
    let (source, base, name) = source(&sources[0], is_sync)?;
    let source_hosts = source_hosts(&sources)?;
    let targets = targets(values, &operands[typed..])?;
    if !source_hosts.is_empty() && targets.len() > 1 {
        return Err(UsageError::new("a job with a remote source has one target")
            .remedy("hosts of the source have the same path: haul job run a:/data b:/data TARGET")
            .into());
    }
    let words = copy_options(values)?;
    let typed = copy_values(&words)?;
    let first_host = source_hosts.first().map_or(OsStr::new(""), OsString::as_os_str);
    let ends = [source_operand(first_host, &source, &name), targets[0].clone()];
    let complete = config::complete(typed.clone(), &hosts(&typed, &ends)?)?;
    let options = JobOptions { notify: values.get(&flags::NOTIFY)?, ..options(&typed, &complete, &ends, is_sync)? };
    if !options.copy.source.recursive {
        if source_hosts.is_empty() && source.is_file() {
            return Err(UsageError::new(format!("{}: a job copies a directory", shown(&source)))
                .remedy("copy a single file with haul SOURCE TARGET")
                .into());
        }
        return Err(UsageError::new(format!("{}: a job copies a directory", shown(&source)))
            .remedy("add -r to copy it with all that is in it")
            .into());
    }
    let range_len = range_len(values, &complete)?.filter(|_| source_hosts.is_empty());
    Ok(JobDescription {
        id: JobDescription::new_id()?,
        origin: JobOrigin::here(version()),
        source_hosts,
        source,
        base,
        name,
        targets,
        options,
        words,
        is_sync,
        verifies: false,
        sizes: shard_sizes(values)?,
        range_len,
    })
}

/// The options of the job's copies: typed ones, completed by this host's configuration for the first source and target.
/// Of the login, the typed options alone.
fn options(typed: &Values, complete: &Values, ends: &[OsString; 2], is_sync: bool) -> Result<JobOptions, UsageError> {
    let of_kind = if is_sync { sync } else { plan };
    let Plan { copy, display, time_limit, .. } = of_kind(complete, ends, false)?;
    let completes_login = !typed.is_set(&flags::CONFIG);
    let (login, target_login) = match completes_login {
        true => (login(typed)?, None),
        false => (copy.access.login.clone(), copy.access.target_login.clone()),
    };
    Ok(JobOptions {
        copy: copy.options,
        access: RemoteAccess { login, target_login, ..copy.access },
        completes_login,
        secret_file: complete.last(&flags::SECRET_FILE).map(PathBuf::from),
        time_limit,
        notify: None,
        display: JobDisplay {
            is_quiet: complete.is_set(&flags::QUIET),
            is_json: complete.is_set(&flags::JSON),
            verbosity: display.verbosity,
            progress_every: complete
                .get(&flags::PROGRESS)?
                .flatten()
                .map(|seconds| Duration::from_secs(seconds.into())),
            bits: display.bits,
            log: display.log,
        },
    })
}

/// The number of operands after a remote source with the same path on other hosts. The last operand is a target.
fn following_sources(first: &OsStr, others: &[OsString], has_targets: bool) -> usize {
    let most = if has_targets { others.len() } else { others.len().saturating_sub(1) };
    others[..most].iter().take_while(|other| is_on_another_host(first, other)).count()
}

/// Whether both operands are the same path, each on a remote host.
fn is_on_another_host(first: &OsStr, other: &OsStr) -> bool {
    let is_remote = |operand| !host_prefix(operand).is_empty();
    is_remote(first) && is_remote(other) && path_bytes(first) == path_bytes(other)
}

/// The path of an operand, as typed.
fn path_bytes(operand: &OsStr) -> &[u8] {
    &operand.as_bytes()[host_prefix(operand).len()..]
}

/// Expands a range of numbers in each word.
fn expanded(words: &[OsString]) -> Result<Vec<OsString>, JobError> {
    Ok(words.iter().map(|word| expand(word)).collect::<Result<Vec<_>, _>>()?.concat())
}

/// The hosts of sources, each as typed with its colon.
fn source_hosts(sources: &[OsString]) -> Result<Vec<OsString>, UsageError> {
    let hosts: Vec<_> = sources.iter().map(|source| host_prefix(source).to_owned()).collect();
    if hosts.iter().all(|host| host.is_empty()) {
        return match sources.len() {
            1 => Ok(Vec::new()),
            _ => Err(UsageError::new("a job has one source").remedy("copy the directory above, with filters")),
        };
    }
    match sources.iter().find(|source| !is_on_another_host(&sources[0], source)) {
        Some(other) => {
            Err(UsageError::new(format!("{}: not the first source's path on another host", escape(other.as_bytes())))
                .remedy("hosts of a source have the same path: haul job run a:/data b:/data TARGET"))
        }
        None => Ok(hosts),
    }
}

/// The range length; `None` with deltas, which ranges exclude.
fn range_len(values: &Values, copy: &Values) -> Result<Option<RangeLen>, UsageError> {
    let typed = values.get(&flags::job::SHARD_RANGE)?;
    let is_in_place = copy.is_set(&flags::INPLACE);
    let has_deltas = is_in_place || copy.get(&flags::DELTA)?.is_some_and(|mode| mode != DeltaMode::Off);
    match typed {
        Some(0) => Ok(None),
        Some(_) if is_in_place => Err(UsageError::new("--inplace cannot be combined with ranges of files")
            .remedy("--shard-range 0 copies each file by one shard")),
        Some(_) if has_deltas => Err(UsageError::new("--shard-range cannot be combined with --delta")
            .remedy("omit one of them: a file with deltas is copied by one shard")),
        None if has_deltas => Ok(None),
        Some(bytes) => Ok(RangeLen::new(bytes).ok()),
        None => Ok(Some(RangeLen::DEFAULT)),
    }
}

/// Sizes of shards: a typed size applies to all.
fn shard_sizes(values: &Values) -> Result<ShardSizes, UsageError> {
    let default = ShardLimits::default();
    let (bytes, files) = (values.get(&flags::job::SHARD_BYTES)?, values.get(&flags::job::SHARD_FILES)?);
    let full = ShardLimits { bytes: bytes.unwrap_or(default.bytes), files: files.unwrap_or(default.files) };
    let named = [values.get(&flags::job::NODES)?, values.get(&flags::job::LIMIT)?].into_iter().flatten().min();
    let is_exact = bytes.is_some() || files.is_some();
    Ok(ShardSizes { full, grows_for: (!is_exact).then_some(named.unwrap_or(SHARDS_AT_A_TIME)) })
}

/// The source, the base of its lists, and its name below that. As in a copy, `.` means the contents of a directory; in
/// a sync, a trailing slash does.
fn source(typed: &OsStr, is_sync: bool) -> Result<(PathBuf, PathBuf, OsString), UsageError> {
    let location = parse_operand(typed)?;
    let source = match location.host {
        Host::Local => absolute(&location.path),
        Host::Remote { .. } => location.path,
        Host::Served { .. } => {
            return Err(UsageError::new(format!("{}: a server reads no lists of files", escape(typed.as_bytes())))
                .remedy("plan the job at that host, or name a source with ssh: HOST:PATH"));
        }
    };
    let bytes = path_bytes(typed);
    let last = bytes.strip_suffix(b"/").unwrap_or(bytes).rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    let is_contents = matches!(last, b"" | b"." | b"..") || is_sync && bytes.ends_with(b"/");
    match (source.parent(), source.file_name()) {
        (Some(parent), Some(name)) if !is_contents => {
            let base = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
            Ok((source.clone(), base.into(), name.to_owned()))
        }
        _ => Ok((source.clone(), source, OsString::new())),
    }
}

fn targets(values: &Values, operands: &[OsString]) -> anyhow::Result<Vec<OsString>> {
    let words = expanded(&[operands, &lines(values, &flags::job::TARGETS)?].concat())?;
    match words.is_empty() {
        false => Ok(words.iter().map(|word| target_word(word)).collect::<Result<_, _>>()?),
        true => Err(UsageError::new("--targets: the file names no target").remedy("write one target a line").into()),
    }
}

/// Operands from an option's file, one per line.
fn lines(values: &Values, option: &'static Flag<Single<OsString>>) -> Result<Vec<OsString>, UsageError> {
    let Some(file) = values.last(option) else { return Ok(Vec::new()) };
    let wrong = |error| UsageError::new(format!("{} {}: {error}", option.typed(), escape(file.as_bytes())));
    let text = fs::read(file).map_err(wrong)?;
    let lines = text.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii).filter(|line| !line.is_empty());
    Ok(lines.map(|line| OsStr::from_bytes(line).to_owned()).collect())
}

/// A target in host-independent form.
fn target_word(typed: &OsStr) -> Result<OsString, UsageError> {
    let location = parse_operand(typed)?;
    match location.host {
        Host::Local => Ok(absolute(&location.path).into()),
        Host::Remote { .. } => Ok(typed.to_owned()),
        Host::Served { .. } if typed.as_bytes().contains(&b'#') => {
            Err(UsageError::new("a secret in a target would be stored in the job's directory")
                .remedy("write the address without #SECRET, and add --secret-file FILE"))
        }
        Host::Served { .. } => Ok(typed.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_has_its_name_as_in_a_copy() {
        let parts = |typed: &str, is_sync| {
            let (source, base, name) = source(OsStr::new(typed), is_sync).unwrap();
            [source, base, name.into()].map(|part: PathBuf| part.into_os_string().into_string().unwrap())
        };
        for (typed, is_sync, base, name) in [
            ("/a/b", false, "/a", "b"),
            ("/a/b/", false, "/a", "b"),
            ("/a/b", true, "/a", "b"),
            ("/a/b/", true, "/a/b/", ""),
            ("/a/b/.", false, "/a/b/.", ""),
            ("/", false, "/", ""),
            ("u@h:/a/b", false, "/a", "b"),
            ("h:b", false, ".", "b"),
            ("h:", false, ".", ""),
            ("h:~/b/", true, "b", ""),
        ] {
            let [_, found, own] = parts(typed, is_sync);
            let plain = |path: &str| Path::new(path).components().collect::<PathBuf>();
            assert_eq!((plain(&found), own.as_str()), (plain(base), name), "{typed}");
        }
        assert!(source(OsStr::new("haul://h/a"), false).is_err());
    }

    #[test]
    fn sources_are_one_path_on_several_hosts_and_the_last_operand_is_a_target() {
        let words = |text: &str| text.split(' ').map(OsString::from).collect::<Vec<_>>();
        for (line, has_targets, expected) in [
            ("a:/x b:/x /t", false, 1),
            ("a:/x b:/x u@c:/x d:/t", false, 2),
            ("a:/x b:/x", false, 0),
            ("a:/x b:/x", true, 1),
            ("a:/x b:/y /t", false, 0),
            ("/x b:/x /t", false, 0),
        ] {
            let words = words(line);
            assert_eq!(following_sources(&words[0], &words[1..], has_targets), expected, "{line}");
        }
        assert_eq!(source_hosts(&words("u@a:/x b:/x")).unwrap(), words("u@a: b:"));
        assert_eq!(source_hosts(&words("/x")).unwrap(), Vec::<OsString>::new());
        for other in ["b:/y", "/x"] {
            let refused = source_hosts(&words(&format!("a:/x {other}"))).unwrap_err().to_string();
            assert!(refused.starts_with(&format!("{other}: not the first source's path")), "{refused}");
        }
    }

    #[test]
    fn no_secret_is_stored() {
        assert!(target_word(OsStr::new("haul://h:1/#secret")).is_err());
        assert_eq!(target_word(OsStr::new("u@h:x")).unwrap(), "u@h:x");
        assert!(target_word(OsStr::new("x")).unwrap().as_bytes().starts_with(b"/"));
    }
}
