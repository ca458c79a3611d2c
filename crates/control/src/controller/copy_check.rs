//! What no copy can do, refused before any worker starts.

use haul_base::copy::error::Error;
use haul_base::copy::spec::CopySpec;

/// Refuses a copy that contradicts itself.
pub fn check_copy(copy: &CopySpec) -> Result<(), Error> {
    if copy.sources.is_empty() == copy.list.is_none() {
        return Err(Error::Usage("sources are either arguments or a list (--infiles), not both".into()));
    }
    let sync = &copy.options.target.sync;
    // A second attempt would delete what the first one has moved.
    let may_repeat = copy.access.retries.times != Some(0);
    if sync.source_removes && may_repeat && (sync.deletes() || sync.replaces_trees) {
        return Err(Error::Usage("--remove-source-files cannot be used with --delete".into()));
    }
    if copy.sources.iter().any(|source| source.host != *copy.source_host()) {
        return Err(Error::Usage("the sources are on different hosts\nrun one copy for each host".into()));
    }
    Ok(())
}
