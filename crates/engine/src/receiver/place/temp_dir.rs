//! The directory of temporary files, where a copy has one.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use haul_base::sys::describe::describe;
use haul_proto::path::escape;
use haul_proto::wire::request::TargetRequest;
use rustix::fs::Mode;

use crate::fs::Dir;
use crate::fs::trusted_links::LinkRules;
use crate::receiver::place::copy_quota::CopyQuota;
use crate::receiver::place::destination::{Destination, RefusedRequest, missing_at};

/// Opens the requested directory; another user's link leads to none. A dry run needs none.
pub fn open(
    request: &TargetRequest,
    destination: &Destination,
    quota: &CopyQuota,
) -> Result<Option<Dir>, RefusedRequest> {
    let partial = &request.partial;
    if partial.temp_dir.is_empty() || request.sync.is_dry || destination.dir().is_none() {
        return Ok(None);
    }
    let (root, named) = (destination.root(request), Path::new(OsStr::from_bytes(&partial.temp_dir)));
    let make = partial.make_temp_dir.then_some(Mode::RWXU);
    let rules = LinkRules { follows_all: request.sync.insecure_links, make };
    if make.is_some() {
        quota.take_names(missing_at(&root.join(named)))?;
    }
    Dir::open_named(root, named, rules).map(Some).map_err(|error| {
        let path = escape(root.join(named).as_os_str().as_bytes());
        RefusedRequest::usage(format!("the directory of temporary files {path}: {}", describe(&error)))
    })
}
