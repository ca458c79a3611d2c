//! `haul verify`: a copy that only compares.

use std::ffi::OsString;

use haul_base::copy::spec::{
    CopyOptions, CopySpec, Fsync, MetadataOptions, PartialOptions, ReportOptions, SourceOptions, StorageOptions,
    StreamOptions, TargetOptions,
};
use haul_show::display::Mode;

use super::{
    Digests, Plan, TypedEnds, access, check_hosts, complete_secrets, display, ends, filters, metadata, owners,
    progress_every, source, storage, sync,
};
use crate::args::values::Values;
use crate::args::{UsageError, flags};
use crate::list::list;

/// The plan for a comparison. The last operand is the target.
pub fn comparison(values: &Values, operands: &[OsString], stderr_is_terminal: bool) -> Result<Plan, UsageError> {
    let display = display(values, stderr_is_terminal)?;
    let TypedEnds { mut sources, mut target, base } = ends(values, operands)?;
    let is_of_sync = values.is_set(&flags::verify::SYNC);
    if is_of_sync {
        sources = sources.into_iter().map(sync::contents).collect();
    }
    check_hosts(&sources, operands, values)?;
    complete_secrets(values, sources.iter_mut().chain([&mut target]))?;
    let base_path = base.as_ref().map(|base| base.path.clone());
    let list = list(values, &mut sources, base)?;
    let mut options = CopyOptions {
        compare: true,
        source: SourceOptions { base: base_path, patterns: true, filters: filters(values)?, ..source(values)? },
        metadata: MetadataOptions { owners: owners(values)?, ..metadata(values)? },
        streams: StreamOptions {
            count: values.get(&flags::STREAMS)?,
            frame_bytes: values.get(&flags::FRAME)?,
            ..StreamOptions::default()
        },
        storage: StorageOptions { fsync: Fsync::None, ..storage(values)? },
        cpus: values.get(&flags::CPUS)?.unwrap_or_default(),
        reports: ReportOptions { files: display.mode == Mode::Json, progress_every: progress_every(values, &display)? },
        target: TargetOptions { partial: PartialOptions::NONE, ..CopyOptions::default().target },
        ..CopyOptions::default()
    };
    if is_of_sync {
        sync::imply(&mut options, values, &target);
    }
    let copy = CopySpec { sources, list, target, options, access: access(values, stderr_is_terminal)? };
    Ok(Plan {
        copy,
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
    use haul_base::copy::spec::RightsOptions;
    use haul_proto::overwrite_policy::OverwritePolicy;

    use super::*;
    use crate::args::Dialect;
    use crate::args::parse::{Command, parse};

    fn planned(words: &[&str]) -> Result<Plan, UsageError> {
        let words = ["verify"].iter().chain(words).map(OsString::from).collect();
        match parse(Dialect::Haul, words, &crate::args::local_files::PlainFiles) {
            Ok(Command::Verify(values, operands)) => comparison(&values, &operands, false),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn verify_compares_and_writes_nothing() {
        let Plan { copy, checksums, .. } = planned(&["-r", "-s3", "a", "h:b"]).unwrap();
        assert!(
            copy.options.compare
                && copy.options.source.recursive
                && copy.options.target.write.overwrite == OverwritePolicy::Report
                && !copy.options.target.directory.create
        );
        assert!(
            !copy.options.target.partial.resume
                && copy.options.target.partial.journal_dir.is_none()
                && checksums.is_none()
        );
        assert_eq!(copy.options.streams.count, Some(3));
    }

    #[test]
    fn the_comparison_of_a_sync_selects_what_the_sync_selected() {
        let of = |words: &[&str]| planned(words).unwrap().copy;
        let copy = of(&["--sync", "--exclude", "b", "a/", "a", "h:b"]);
        let paths: Vec<_> = copy.sources.iter().map(|source| source.path.to_str().unwrap()).collect();
        assert_eq!(paths, ["a/.", "a"]);
        let CopyOptions { compare, source, metadata, target, .. } = &copy.options;
        assert!(*compare && source.recursive && !source.filters.is_empty() && target.sync.into);
        assert_eq!((metadata.rights, target.write.overwrite), (RightsOptions::ALL, OverwritePolicy::Report));
        let served = of(&["--sync", "a/", "haul://h:1/in#0123456789abcdef0123456789abcdef"]);
        assert!(!served.options.metadata.rights.any());
        assert_eq!(of(&["a/", "b"]).sources[0].path.to_str(), Some("a/"));
    }

    #[test]
    fn metadata_is_compared_by_the_options_that_keep_it() {
        let of = |words: &[&str]| planned(words).unwrap().copy.options;
        let none = of(&["a", "b"]);
        assert!(
            !none.metadata.rights.any()
                && !none.source.recursive
                && none.metadata.preserve == haul_base::copy::spec::PreserveOptions::default()
        );
        let all = of(&["-aHAX", "--devices", "--numeric-ids", "a", "b"]);
        assert!(all.metadata.rights == RightsOptions::ALL && all.source.recursive && !all.metadata.owners.by_name);
        let kept = all.metadata.preserve;
        assert!(kept.hard_links && kept.attributes && kept.acls && kept.devices && kept.specials);
    }
}
