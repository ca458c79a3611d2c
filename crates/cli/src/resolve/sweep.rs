//! `haul sweep`: the copies of all runs.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::Duration;

use haul_base::copy::location::{Host, Location};
use haul_base::copy::spec::{
    CopyOptions, CopySpec, NULL_TARGET, PartialOptions, ReportOptions, Retries, is_null, names_null,
};
use haul_base::quantity::parse_size;
use haul_control::operand::parse_operand;
use haul_proto::path::escape;

use super::{Mode, ResolvedSettings, TypedEnds, check_hosts, duration, ends, settings as of_copy};
use crate::args::row::OptionRow;
use crate::args::values::Values;
use crate::args::{UsageError, flags};
use crate::sweep::Sweep;
use crate::sweep::journal::Header;
use crate::sweep::setting::{DIMENSIONS, SweepSetting, settings};

/// Default name of the files.
const OUT: &str = "sweep";
/// Interval between progress checks.
const PROGRESS_EVERY: Duration = Duration::from_millis(500);

/// The sweep of `operands`, its output, and `--timelimit`.
pub fn sweep(
    values: &Values,
    operands: &[OsString],
    stderr_is_terminal: bool,
) -> Result<(Sweep, Mode, Option<Duration>), UsageError> {
    let TypedEnds { sources, target, .. } = ends(values, operands)?;
    check_hosts(&sources, operands, values)?;
    let first = operands.last().map(|operand| operand.to_string_lossy()).unwrap_or_default();
    let rounds = values.get(&flags::sweep::REPEAT)?.unwrap_or(1);
    let settings = settings(values, &first)?;
    let mut shown = (Mode::Plain, None);
    let mut copies = Vec::new();
    for setting in settings {
        let copy = setting.options(values);
        let ResolvedSettings { mut options, access, display, time_limit, .. } = of_copy(&copy, stderr_is_terminal)?;
        shown = (display.mode, time_limit);
        let target = target_of(&setting, &first, &target)?;
        refuse_irremovable_targets(values, &target)?;
        let mut sources = sources_of(&setting, &sources)?;
        options.stop.after = duration::of_copy(&copy, &mut sources, &target.path, &mut None)?;
        measure(&mut options, &sources, &target, values);
        // A restarted run is not a measurement.
        let access = haul_base::copy::spec::RemoteAccess { retries: Retries::NEVER, ..access };
        copies.push((setting, CopySpec { sources, list: None, target, options, access }));
    }
    let runs =
        (1..=rounds).flat_map(|round| copies.iter().map(move |(setting, copy)| (round, setting.clone(), copy.clone())));
    let sweep = Sweep {
        runs: runs.collect(),
        header: header(values, operands),
        out: out(values)?,
        report: values.is_set(&flags::sweep::REPORT),
        pause: !values.is_set(&flags::sweep::NO_PAUSE),
    };
    Ok((sweep, shown.0, shown.1))
}

/// The target of a setting: that of the command line, or one of `--targets`.
fn target_of(setting: &SweepSetting, first: &str, typed: &Location) -> Result<Location, UsageError> {
    let mut target = match setting.word(&flags::sweep::TARGET) {
        Some(word) if word != first => parse_operand(OsStr::new(word))?,
        _ => typed.clone(),
    };
    if is_null(&target.path) {
        target.path = NULL_TARGET.into();
    }
    Ok(target)
}

/// The sources of a setting, with the size of one of `--sizes`.
fn sources_of(setting: &SweepSetting, typed: &[Location]) -> Result<Vec<Location>, UsageError> {
    let Some(size) = setting.word(&flags::sweep::SIZE) else { return Ok(typed.to_vec()) };
    if !typed.iter().all(|source| names_null(source.path.as_os_str())) {
        return Err(
            UsageError::new("--size: the source is not null:").remedy("haul sweep --size 1m,1g null: db1:null:")
        );
    }
    if setting.word(&flags::sweep::DURATION).is_some() {
        return Err(UsageError::new("--size and --duration exclude each other").remedy("sweep one of them at a time"));
    }
    if parse_size(size).is_err() {
        return Err(UsageError::new(format!("--size {}: not a size", escape(size.as_bytes())))
            .remedy("for example --size 1m,1g"));
    }
    Ok(typed.iter().map(|source| Location { path: format!("null:{size}").into(), ..source.clone() }).collect())
}

/// Adapts the options of a copy to a measurement.
fn measure(options: &mut CopyOptions, sources: &[Location], target: &Location, values: &Values) {
    let is_here = sources.iter().chain([target]).all(|place| place.host == Host::Local);
    // To the copy, all options of a setting are typed.
    options.streams.compresses_zeros = values.is_typed(&flags::COMPRESS);
    options.streams.within_host = is_here;
    options.target.partial = PartialOptions::NONE;
    options.integrity.digest_existing = false;
    options.reports = ReportOptions { files: false, progress_every: PROGRESS_EVERY };
}

/// Refuses targets whose copies cannot be removed: a user's own command can only start a worker.
fn refuse_irremovable_targets(values: &Values, target: &Location) -> Result<(), UsageError> {
    let stays = target.host != Host::Local && !crate::sweep::is_nowhere(target);
    if stays && matches!(target.host, Host::Served { .. }) {
        return Err(UsageError::new("haul sweep cannot delete its copies from a served directory")
            .remedy("measure downloads instead: haul sweep haul://... null:"));
    }
    match stays && values.is_set(&flags::TARGET_COMMAND) {
        true => Err(UsageError::new("haul sweep cannot delete its copies from a host that --target-command reaches")
            .remedy("reach it with ssh (--ssh-option, ssh_config), or use null: as its path")),
        false => Ok(()),
    }
}

fn out(values: &Values) -> Result<PathBuf, UsageError> {
    match values.last(&flags::sweep::OUT) {
        Some(name) if name.is_empty() || name.as_bytes().ends_with(b"/") => {
            Err(UsageError::new("--out: empty file name").remedy("for example --out results/link7"))
        }
        name => Ok(name.map_or_else(|| OUT.into(), PathBuf::from)),
    }
}

/// The header: options common to all runs, without the results' place, the number of runs and the output.
fn header(values: &Values, operands: &[OsString]) -> Header {
    let others: &[&OptionRow] = &[
        &flags::sweep::REPEAT,
        &flags::sweep::OUT,
        &flags::sweep::REPORT,
        &flags::sweep::NO_PAUSE,
        &flags::JSON,
        &flags::QUIET,
        &flags::VERBOSE,
        &flags::TIMELIMIT,
    ];
    let is_varied = |row: &OptionRow| DIMENSIONS.iter().any(|dimension| dimension.flag.is(row));
    let given = values.given().iter().filter(|(row, _)| !row.is_any(others) && !is_varied(row));
    let mut options: Vec<_> = given
        .map(|(row, argument)| {
            let argument = argument.as_ref().map(|word| format!(" {}", escape(word.as_bytes())));
            format!("{}{}", row.typed(), argument.unwrap_or_default())
        })
        .collect();
    // Their order is insignificant.
    options.sort();
    let mut shown: Vec<_> = operands.iter().map(|operand| escape(operand.as_bytes())).collect();
    let target = shown.pop().unwrap_or_default();
    Header { source: shown.join(" "), target, options: options.join(" ") }
}
