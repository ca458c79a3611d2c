//! `--sysctl`: a file for sysctl(8) with the buffer sizes that a measured path needs. haul applies nothing.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use haul_control::probe::EndMeasurement;
use haul_proto::advice::BufferNeeds;
use haul_show::pending::{Pending, ReplaceableFile};
use haul_show::text::harmless;
use haul_show::units::size;

use super::buffers::{BUFFER_LIMITS, BufferLimit, MeasuredPath};
use crate::args::UsageError;
use crate::config::shown;

/// Largest minimum or default size that is taken from a host.
const DEFAULT_MAX: u64 = 16 << 20;
/// The kernel's largest value: these settings are of type `int`.
const KERNEL_MAX: u64 = i32::MAX as u64;

/// The file, before its contents are known.
pub struct SysctlFile {
    path: PathBuf,
    pending: Pending,
    replaces: bool,
}

impl SysctlFile {
    /// Begins the file at `path`. An existing one is refused unless `replaces`.
    pub fn begin(path: &Path, replaces: bool) -> anyhow::Result<Self> {
        if exists(path) && !replaces {
            let error = UsageError::new(format!("--sysctl {}: already exists", shown(path)));
            return Err(error.remedy("-f replaces it").into());
        }
        let pending = Pending::create(path, ReplaceableFile::Anything)
            .map_err(|error| anyhow::anyhow!("cannot write {}: {error}", shown(path)))?;
        Ok(Self { path: path.to_owned(), pending, replaces })
    }

    /// Writes the settings of both ends for `path`; returns its line for the user. Writes no file if no setting is too
    /// small.
    pub fn write(self, ends: &[EndMeasurement], path: &MeasuredPath) -> io::Result<SysctlOutcome> {
        let file = shown(&self.path);
        let Some(needs) = path.needs() else { return Ok(SysctlOutcome::Unknown) };
        let Some(settings) = settings(ends, needs) else { return Ok(SysctlOutcome::Sufficient) };
        if exists(&self.path) && !self.replaces {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let head = format!(
            "# Written by haul probe. {} in flight.\n# Review it, then on each of these hosts: sysctl -p FILE\n\
             # No value is lower than the present one of any of them; defaults are at most 16 MiB.\n",
            path.product(needs)
        );
        self.pending.writer()?.write_all(format!("{head}{settings}").as_bytes())?;
        self.pending.publish()?;
        Ok(SysctlOutcome::Written(file))
    }
}

/// The outcome for the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SysctlOutcome {
    /// The file exists; its name as shown.
    Written(String),
    /// No setting is too small.
    Sufficient,
    /// The bandwidth-delay product is unknown.
    Unknown,
}

impl SysctlOutcome {
    /// The outcome as text.
    pub fn text(&self) -> String {
        match self {
            Self::Written(file) => format!("{file}: review it, then: sysctl -p {file}"),
            Self::Sufficient => "nothing to raise: no file was written".to_owned(),
            Self::Unknown => "the round-trip time was not measured: no file was written".to_owned(),
        }
    }

    /// The file, if written.
    pub fn file(&self) -> Option<&str> {
        match self {
            Self::Written(file) => Some(file),
            Self::Sufficient | Self::Unknown => None,
        }
    }
}

fn exists(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

/// The settings that are too small at an end.
fn settings(ends: &[EndMeasurement], needs: BufferNeeds) -> Option<String> {
    let too_small = |limit: &&BufferLimit| ends.iter().any(|end| limit.is_too_small(&end.measured.network, needs));
    let texts: Vec<_> = BUFFER_LIMITS.iter().filter(too_small).map(|limit| setting(limit, ends, needs)).collect();
    (!texts.is_empty()).then(|| texts.concat())
}

fn setting(limit: &BufferLimit, ends: &[EndMeasurement], needs: BufferNeeds) -> String {
    let present = |end: &EndMeasurement| {
        let network = &end.measured.network;
        [(limit.before)(network), vec![(limit.max_bytes)(network)]].concat()
    };
    let ends: Vec<_> = ends.iter().filter(|end| (limit.max_bytes)(&end.measured.network) > 0).collect();
    // Each socket takes its default size of memory, so another host's value is not taken unchecked.
    let kept = |end: &&EndMeasurement| {
        let network = &end.measured.network;
        let before = (limit.before)(network).into_iter().map(|bytes| bytes.min(DEFAULT_MAX));
        before.chain([(limit.max_bytes)(network).min(KERNEL_MAX)]).collect::<Vec<_>>()
    };
    let of_hosts = ends.iter().map(kept);
    let mut value = of_hosts.reduce(|one, other| one.iter().zip(&other).map(|(a, b)| *a.max(b)).collect());
    if let Some(max_bytes) = value.as_mut().and_then(|value| value.last_mut()) {
        *max_bytes = (*max_bytes).max((limit.wanted_bytes)(needs));
    }
    let now = |end: &&EndMeasurement| format!("{} at {}", joined(&present(end)), harmless(&end.label));
    let now = ends.iter().map(now).collect::<Vec<_>>().join("; ");
    let only = if limit.of_window_option { " with -w" } else { "" };
    format!(
        "\n# One stream{only} needs {}; this leaves as much again. Now {now}.\n{} = {}\n",
        size((limit.min_bytes)(needs)),
        limit.name,
        joined(&value.unwrap_or_default())
    )
}

fn joined(numbers: &[u64]) -> String {
    numbers.iter().map(u64::to_string).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::buffers::tests::path;
    use crate::probe::ready::tests::end;

    fn written(ends: &[EndMeasurement], to: &Path) -> SysctlOutcome {
        SysctlFile::begin(to, false).unwrap().write(ends, &path()).unwrap()
    }

    #[test]
    fn values_are_raised_for_both_hosts_and_never_lowered() {
        let dir = tempfile::tempdir().unwrap();
        let to = dir.path().join("tuning.conf");
        let mut wide = end("d\nb1", true);
        wide.measured.network.tcp_receive.default_bytes = 1 << 20;
        wide.measured.network.tcp_receive.max_bytes = 1 << 30;
        wide.measured.network.send.max_bytes = 0;
        assert!(matches!(written(&[end("this machine", false), wide], &to), SysctlOutcome::Written(_)));
        insta::assert_snapshot!(std::fs::read_to_string(&to).unwrap(), @r"
        # Written by haul probe. BDP 125 MB/s x 50.0 ms = 6.25 MB in flight.
        # Review it, then on each of these hosts: sysctl -p FILE
        # No value is lower than the present one of any of them; defaults are at most 16 MiB.

        # One stream needs 12.5 MB; this leaves as much again. Now 4096 131072 6291456 at this machine; 4096 1048576 1073741824 at d\nb1.
        net.ipv4.tcp_rmem = 4096 1048576 1073741824

        # One stream needs 12.5 MB; this leaves as much again. Now 4096 16384 4194304 at this machine; 4096 16384 4194304 at d\nb1.
        net.ipv4.tcp_wmem = 4096 16384 33554432

        # One stream with -w needs 6.25 MB; this leaves as much again. Now 212992 at this machine; 212992 at d\nb1.
        net.core.rmem_max = 16777216

        # One stream with -w needs 6.25 MB; this leaves as much again. Now 212992 at this machine.
        net.core.wmem_max = 16777216
        ");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn without_settings_to_raise_there_is_no_file() {
        let dir = tempfile::tempdir().unwrap();
        let to = dir.path().join("tuning.conf");
        let mut wide = end("db1", true);
        let network = &mut wide.measured.network;
        (network.tcp_receive.max_bytes, network.tcp_send.max_bytes) = (64 << 20, 64 << 20);
        (network.receive.max_bytes, network.send.max_bytes) = (64 << 20, 64 << 20);
        assert_eq!(written(&[wide.clone(), wide], &to), SysctlOutcome::Sufficient);
        let unknown = SysctlFile::begin(&to, false).unwrap().write(&[end("db1", true)], &MeasuredPath::default());
        assert_eq!(unknown.unwrap(), SysctlOutcome::Unknown);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn an_existing_file_stays_unless_it_is_to_be_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let to = dir.path().join("tuning.conf");
        let begun = SysctlFile::begin(&to, false).unwrap();
        std::fs::write(&to, "theirs").unwrap();
        assert!(begun.write(&[end("db1", true)], &path()).is_err(), "it came during the probe");
        assert!(SysctlFile::begin(&to, false).err().unwrap().to_string().contains("already exists"));
        assert_eq!(std::fs::read_to_string(&to).unwrap(), "theirs");
        SysctlFile::begin(&to, true).unwrap().write(&[end("db1", true)], &path()).unwrap();
        assert!(std::fs::read_to_string(&to).unwrap().contains("net.ipv4.tcp_rmem = "));
    }
}
