//! Policy for file sessions and patterns of a served worker's clients, as part of [`super::request_policy`].

use haul_proto::wire::expansion::ExpandRequest;
use haul_proto::wire::file_session::{FileOperation, FileSessionRequest, SessionRights};

use crate::fs::lookup;
use crate::worker::client_limits::{ClientLimits, ServedAccess};
use crate::worker::client_refusal::{ClientRefusal, ForbiddenAct};
use crate::worker::request_policy::{SILENCE_MS_MAX, beneath, inside, replace};

impl ClientLimits {
    pub(super) fn hold_file_session(&self, request: &mut FileSessionRequest) -> Result<(), ClientRefusal> {
        let FileSessionRequest { silence_ms, rights } = request;
        *silence_ms = (*silence_ms).min(SILENCE_MS_MAX);
        match rights {
            _ if self.pipe.is_some() => Err(ClientRefusal::FilesOfPipe),
            SessionRights::Read => self.check_files_are_readable(),
            _ if self.access == ServedAccess::ReadOnly => Err(self.forbidden(ForbiddenAct::Writing)),
            SessionRights::ChangeNames | SessionRights::RemovePartials => Ok(()),
        }
    }

    pub(super) fn hold_file_operation(&self, operation: &mut FileOperation) -> Result<(), ClientRefusal> {
        match operation {
            FileOperation::Open { path }
            | FileOperation::List { path, has_details: _ }
            | FileOperation::Watch { path, filters: _ }
            | FileOperation::Stat { path, follows: true } => {
                self.check_files_are_readable()?;
                inside(path)
            }
            FileOperation::Stat { path, follows: false } | FileOperation::Measure { path } => {
                self.check_files_are_readable()?;
                inside_or_link(path)
            }
            // A session that makes directories has announced it.
            FileOperation::MakeDirectory { path, has_parents: _ } => inside(path),
            FileOperation::Remove { path, is_recursive: _ } => match self.access {
                ServedAccess::Both => inside_or_link(path),
                _ => Err(self.forbidden(ForbiddenAct::Removal)),
            },
            FileOperation::FindPartials { path, journals, removes } => {
                match self.access {
                    ServedAccess::Both => {}
                    _ if *removes => return Err(self.forbidden(ForbiddenAct::Removal)),
                    _ => self.check_files_are_readable()?,
                }
                if !journals.is_empty() {
                    inside(journals)?;
                }
                inside(path)
            }
            // Numbers of files, listings and searches that were opened inside.
            FileOperation::Read { file: _, offset: _, length: _ }
            | FileOperation::Close { file: _ }
            | FileOperation::NextChanges
            | FileOperation::ListOn { listing: _ }
            | FileOperation::FindPartialsOn { search: _ } => Ok(()),
        }
    }

    pub(super) fn hold_expansion(&self, request: &mut ExpandRequest) -> Result<(), ClientRefusal> {
        // A path that leads outside matches nothing: every lookup is confined.
        let ExpandRequest { base, patterns: _ } = request;
        self.check_files_are_readable()?;
        base.iter_mut().try_for_each(inside)
    }

    fn check_files_are_readable(&self) -> Result<(), ClientRefusal> {
        match self.pipe {
            Some(_) => Err(ClientRefusal::FilesOfPipe),
            None if !self.access.reads() => Err(self.forbidden(ForbiddenAct::Reading)),
            None => Ok(()),
        }
    }
}

/// As [`inside`], for a path that may itself name a link, which is not followed.
fn inside_or_link(path: &mut Vec<u8>) -> Result<(), ClientRefusal> {
    let whole = beneath(path)?;
    if whole.parent().is_some_and(lookup::has_link) {
        return Err(ClientRefusal::LinkInPath(path.clone()));
    }
    replace(path, &whole);
    Ok(())
}
