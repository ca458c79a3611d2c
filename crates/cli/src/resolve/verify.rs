//! `haul verify`: a job that only compares.

use std::ffi::OsString;

use haul_engine::job::spec::{Job, JobOptions};

use super::{
    Digests, Plan, TypedEnds, access, check_hosts, display, ends, filters, metadata, owners, progress_every, unbuffered,
};
use crate::args::UsageError;
use crate::args::flags;
use crate::args::values::Values;
use crate::list::list;
use crate::show::display::Mode;

/// The plan for a comparison. The last operand is the target.
pub fn comparison(values: &Values, operands: &[OsString], stderr_is_terminal: bool) -> Result<Plan, UsageError> {
    let display = display(values, stderr_is_terminal)?;
    let TypedEnds { mut sources, mut target, base } = ends(values, operands)?;
    check_hosts(&sources)?;
    crate::secret::complete(values, sources.iter_mut().chain([&mut target]))?;
    let base_path = base.as_ref().map(|base| base.path.clone());
    let list = list(values, &mut sources, base)?;
    let defaults = JobOptions::default();
    let (direct_source, direct_target) = unbuffered(values)?;
    let options = JobOptions {
        compare: true,
        base: base_path,
        recursive: values.is_set(&flags::RECURSIVE) || values.is_set(&flags::ARCHIVE),
        preserve: metadata::preserves(values),
        kept: metadata::kept(values)?,
        owners: owners(values, false)?,
        symlinks: values.get(&flags::SYMLINKS)?.unwrap_or(defaults.symlinks),
        filters: filters(values)?,
        streams: values.get(&flags::STREAMS)?,
        direct_source,
        direct_target,
        cache: values.get(&flags::CACHE)?.unwrap_or_default(),
        frame_bytes: values.get(&flags::FRAME)?,
        cpus: values.get(&flags::CPUS)?.unwrap_or_default(),
        report_files: display.mode == Mode::Json,
        progress_every: progress_every(values, &display)?,
        // Nothing is begun that could be gone on with, and nothing written that a disk could be waited for.
        resume: false,
        fsync: haul_engine::job::spec::Fsync::None,
        ..defaults
    };
    let job = Job { sources, list, target, options, access: access(values, stderr_is_terminal)? };
    Ok(Plan {
        job,
        display,
        checksums: None,
        digests: Digests::default(),
        metrics: None,
        report: None,
        time_limit: values.get(&flags::TIMELIMIT)?,
        notes: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Dialect;
    use crate::args::parse::{Command, parse};
    use haul_proto::overwrite_policy::OverwritePolicy;

    fn planned(words: &[&str]) -> Result<Plan, UsageError> {
        let words = ["verify"].iter().chain(words).map(OsString::from).collect();
        match parse(Dialect::Haul, words, &|_| false) {
            Ok(Command::Verify(values, operands)) => comparison(&values, &operands, false),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn it_compares_and_writes_nothing() {
        let Plan { job, checksums, .. } = planned(&["-r", "-s3", "a", "h:b"]).unwrap();
        assert!(
            job.options.compare
                && job.options.recursive
                && job.options.overwrite == OverwritePolicy::Report
                && !job.options.make_directory
        );
        assert!(!job.options.resume && job.options.journal_dir.is_none() && checksums.is_none());
        assert_eq!(job.options.streams, Some(3));
    }

    #[test]
    fn what_is_kept_is_compared_by_the_options_that_keep_it() {
        let of = |words: &[&str]| planned(words).unwrap().job.options;
        let none = of(&["a", "b"]);
        assert!(!none.preserve && !none.recursive && none.kept == haul_engine::job::spec::PreserveOptions::default());
        let all = of(&["--archive", "--devices", "--specials", "--numeric-ids", "a", "b"]);
        assert!(all.preserve && all.recursive && !all.owners.by_name);
        assert_eq!(
            all.kept,
            haul_engine::job::spec::PreserveOptions { devices: true, specials: true, ..metadata::ALL }
        );
        assert!(planned(&["--chown", "me", "a", "b"]).is_err(), "without -p, owners are not compared");
    }
}
