//! The transfers of a probe: their hosts, data and destinations.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use haul_base::copy::location::{Host, Location};
use haul_base::copy::spec::{
    CacheUse, CopyOptions, CopySpec, DirectIo, Fsync, IntegrityOptions, NULL_TARGET, PartialOptions, RemoteAccess,
    ReportOptions, Retries, SourceOptions, TargetOptions,
};
use haul_proto::wire::measure::SCRATCH_NAMES;

use super::{Probe, ProbePart};

/// More bytes than any part transfers.
const ENDLESS: u64 = 1 << 40;
/// How often a part's progress is checked.
const CHECK_EVERY: Duration = Duration::from_millis(50);

/// The end of the probed copy that a host plays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Of {
    Source,
    Target,
}

impl Probe {
    /// Returns the probed copy itself. It never runs in this form; it names the ends.
    pub fn whole(&self) -> CopySpec {
        let source = self.source.clone().unwrap_or_else(|| self.zeros(Of::Source, ENDLESS));
        self.copy(source, self.target.clone(), [Of::Source, Of::Target])
    }

    /// Returns the copy of a part. Written data goes into `scratch`, a directory at the target; `bytes` bounds the
    /// zeros.
    pub fn copy_of(&self, part: ProbePart, scratch: &Path, bytes: u64) -> CopySpec {
        let into = |name: &str| Location { host: self.target.host.clone(), path: scratch.join(name) };
        let [direct_file, buffered_file, copy] = SCRATCH_NAMES;
        let nowhere = |of| Location { host: self.host(of).clone(), path: NULL_TARGET.into() };
        let mut copy = match part {
            ProbePart::Read { .. } => {
                let source = self.source.clone().unwrap_or_else(|| self.zeros(Of::Source, ENDLESS));
                self.copy(source, nowhere(Of::Source), [Of::Source, Of::Source])
            }
            ProbePart::Network { .. } => {
                self.copy(self.zeros(Of::Source, ENDLESS), nowhere(Of::Target), [Of::Source, Of::Target])
            }
            ProbePart::Back => {
                self.copy(self.zeros(Of::Target, ENDLESS), nowhere(Of::Source), [Of::Target, Of::Source])
            }
            ProbePart::Write { direct } => {
                let name = if direct { direct_file } else { buffered_file };
                self.copy(self.zeros(Of::Target, bytes), into(name), [Of::Target, Of::Target])
            }
            ProbePart::Whole => {
                let source = self.source.clone().unwrap_or_else(|| self.zeros(Of::Source, bytes));
                self.copy(source, into(copy), [Of::Source, Of::Target])
            }
        };
        let direct = |is_direct| if is_direct { DirectIo::Always } else { DirectIo::Never };
        let options = &mut copy.options;
        match part {
            ProbePart::Read { direct: is_direct } => {
                (options.storage.source.direct, options.storage.source.cache, options.storage.fsync) =
                    (direct(is_direct), CacheUse::Drop, Fsync::None);
            }
            ProbePart::Network { streams } => options.streams.count = streams.or(options.streams.count),
            ProbePart::Write { direct: is_direct } => options.storage.target.direct = direct(is_direct),
            ProbePart::Back => {}
            ProbePart::Whole => options.target.directory.create = true,
        }
        copy
    }

    fn host(&self, of: Of) -> &Host {
        match of {
            Of::Source => self.source.as_ref().map_or(&Host::Local, |source| &source.host),
            Of::Target => &self.target.host,
        }
    }

    fn zeros(&self, of: Of, bytes: u64) -> Location {
        Location { host: self.host(of).clone(), path: PathBuf::from(format!("null:{bytes}")) }
    }

    fn copy(&self, source: Location, target: Location, ends: [Of; 2]) -> CopySpec {
        let copy = self.options.clone();
        let options = CopyOptions {
            source: SourceOptions { recursive: true, base: None, ..copy.source },
            target: TargetOptions { partial: PartialOptions::NONE, ..copy.target },
            integrity: IntegrityOptions { blake3: false, digest_existing: false, ..copy.integrity },
            reports: ReportOptions { files: false, progress_every: CHECK_EVERY },
            ..copy
        };
        CopySpec { sources: vec![source], list: None, target, options, access: self.access(ends) }
    }

    /// Returns the remote access of both ends of a part, as that of the ends they play.
    fn access(&self, ends: [Of; 2]) -> RemoteAccess {
        let whole = &self.access;
        let command = |of| match of {
            Of::Source => whole.source_command.clone(),
            Of::Target => whole.target_command.clone(),
        };
        let login = |of| match of {
            Of::Source => whole.clone(),
            Of::Target => whole.clone().of_target(),
        };
        let at_target = login(ends[1]).login;
        RemoteAccess {
            source_command: command(ends[0]),
            target_command: command(ends[1]),
            target_login: Some(at_target),
            // A restarted transfer is no measurement.
            retries: Retries::NEVER,
            ..login(ends[0])
        }
    }
}

/// Converts a path that a worker named.
pub fn path(bytes: &[u8]) -> PathBuf {
    PathBuf::from(std::ffi::OsStr::from_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use haul_base::copy::spec::{CompressionPolicy, Login};

    use super::*;

    fn probe(source: Option<Location>) -> Probe {
        let access = RemoteAccess {
            source_command: Some("at-source".into()),
            target_command: Some("at-target".into()),
            login: Login { port: Some(22), ..Login::default() },
            ..RemoteAccess::default()
        };
        let host = Host::Remote { user: None, name: "db1".into() };
        Probe {
            source,
            target: Location { host, path: "/archive".into() },
            options: CopyOptions::default(),
            access,
            time: Duration::from_secs(3),
            bytes_max: 1 << 30,
            streams: vec![1],
            network_only: false,
        }
    }

    fn shown(copy: &CopySpec) -> String {
        let place = |at: &Location| match &at.host {
            Host::Local => at.path.display().to_string(),
            Host::Remote { name, .. } | Host::Served { name, .. } => format!("{name}:{}", at.path.display()),
        };
        let commands = [&copy.access.source_command, &copy.access.target_command];
        let commands = commands.map(|command| command.as_deref().unwrap_or_default());
        format!("{} {} ({})", place(&copy.sources[0]), place(&copy.target), commands.join(" "))
    }

    #[test]
    fn each_part_is_a_copy_between_its_hosts() {
        let probe = probe(Some(Location { host: Host::Local, path: "run7".into() }));
        let of = |part| shown(&probe.copy_of(part, Path::new("/archive/.haul-probe-1"), 4096));
        let parts = [
            ProbePart::Read { direct: true },
            ProbePart::Network { streams: Some(1) },
            ProbePart::Back,
            ProbePart::Write { direct: false },
            ProbePart::Whole,
        ];
        assert_eq!(
            parts.map(of),
            [
                "run7 /dev/null (at-source at-source)",
                "null:1099511627776 db1:/dev/null (at-source at-target)",
                "db1:null:1099511627776 /dev/null (at-target at-source)",
                "db1:null:4096 db1:/archive/.haul-probe-1/buffered (at-target at-target)",
                "run7 db1:/archive/.haul-probe-1/whole (at-source at-target)",
            ]
        );
        assert_eq!(shown(&probe.whole()), "run7 db1:/archive (at-source at-target)");
    }

    #[test]
    fn probes_keep_nothing_restart_nothing_and_do_not_compress_zeros() {
        let from_memory = probe(None);
        let whole = from_memory.copy_of(ProbePart::Whole, Path::new("/s"), 99);
        assert_eq!(shown(&whole), "null:99 db1:/s/whole (at-source at-target)");
        assert_eq!(whole.compression(), CompressionPolicy::Off);
        let of_files = probe(Some(Location { host: Host::Local, path: "run7".into() }));
        let whole = of_files.copy_of(ProbePart::Whole, Path::new("/s"), 99);
        assert_eq!(whole.compression(), CompressionPolicy::Auto);
        assert!(
            !whole.options.target.partial.resume
                && !whole.options.target.partial.keep
                && whole.access.retries == Retries::NEVER
        );
        let network = of_files.copy_of(ProbePart::Network { streams: None }, Path::new("/s"), 99);
        assert_eq!((network.options.streams.count, network.compression()), (None, CompressionPolicy::Off));
    }
}
