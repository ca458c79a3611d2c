//! Copies of `null:`: `--duration`, and `--timelimit`, which ends them successfully when its time is up; their
//! compression.

use std::path::Path;
use std::time::Duration;

use haul_base::copy::location::Location;
use haul_base::copy::spec::{CopySpec, NULL_TARGET, is_null};

use crate::args::values::Values;
use crate::args::{UsageError, flags};

/// More zeros than any copy sends: 1 PiB.
pub const ENDLESS_ZEROS: &str = "null:1024t";

/// The note of a copy whose zeros are not compressed, since it measures its path.
pub fn uncompressed(copy: &CopySpec) -> Option<String> {
    let is_other = copy.compression() != copy.options.streams.compression;
    is_other.then(|| "the zeros of null: are sent uncompressed (--compress auto compresses them)".to_owned())
}

/// The duration of the data flow to `target`. Clears a `time_limit` that ends the copy successfully.
pub fn of_copy(
    values: &Values,
    sources: &mut [Location],
    target: &Path,
    time_limit: &mut Option<Duration>,
) -> Result<Option<Duration>, UsageError> {
    let keeps_nothing = target == Path::new(NULL_TARGET);
    let duration = match (values.get(&flags::DURATION)?, keeps_nothing) {
        (Some(_), false) => {
            return Err(UsageError::new("--duration: the target is not null:, so the copy would be incomplete")
                .remedy("--timelimit TIME stops a copy, and the same command resumes it"));
        }
        (duration @ Some(_), true) => duration,
        (None, true) => time_limit.take(),
        (None, false) => None,
    };
    if duration.is_some() {
        sources.iter_mut().filter(|source| is_null(&source.path)).for_each(|source| source.path = ENDLESS_ZEROS.into());
    }
    Ok(duration)
}
