//! Audit records of sent and rejected files.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use haul_proto::integrity::Digest;
use haul_proto::session::source::SourceSession;
use haul_proto::wire::message::SourceMessage;

use super::session::Source;
use crate::net::stream::StreamError;
use crate::policy::audit::{AuditAction, AuditRecord};
use crate::source::entry::SourceEntry;

impl Source {
    /// Counts and audits entries that the target has refused or failed to complete. The target reports them to the user.
    pub(super) fn record_rejected(&self, rejected: &[Arc<SourceEntry>]) {
        self.rejected.fetch_add(rejected.len() as u64, Ordering::Relaxed);
        for item in rejected {
            // On failure, the log ends the copy.
            let (path, reason) = (item.path(), Some("failed at the target"));
            let _ = self.reporter.audit(&AuditRecord { reason, ..AuditRecord::of(AuditAction::Failed, &path) });
        }
    }

    /// Writes an audit record for each file that these messages complete. They are sent afterwards.
    pub(super) fn audit_ends(&self, ends: &[(Arc<SourceEntry>, u64, Digest)]) {
        for (item, size, digest) in ends {
            // On failure, the log ends the copy.
            let (path, bytes, duration) = (item.path(), Some(*size), item.audited_for());
            let sent = AuditRecord::of(AuditAction::Sent, &path);
            let _ = self.reporter.audit(&AuditRecord { bytes, duration, digest: Some(digest), ..sent });
        }
    }

    /// The files that these messages complete, if there is an audit log.
    pub(super) fn ends_of(
        &self,
        machine: &SourceSession<SourceEntry>,
        messages: &[SourceMessage],
    ) -> Vec<(Arc<SourceEntry>, u64, Digest)> {
        let end = |message: &SourceMessage| match message {
            SourceMessage::FileEnd { entry, size, digest, .. } if !self.request.compare => {
                Some((Arc::clone(machine.handle_of(*entry)?), *size, *digest))
            }
            _ => None,
        };
        if self.reporter.is_audited() { messages.iter().filter_map(end).collect() } else { Vec::new() }
    }

    /// Audits the start of a file's transfer.
    pub(super) fn audit_begin(&self, item: &SourceEntry) -> Result<(), StreamError> {
        if !self.reporter.is_audited() || self.request.compare || !item.begin_audit() {
            return Ok(());
        }
        let (path, bytes) = (item.path(), (!item.is_pipe()).then_some(item.offered.size));
        let begun = AuditRecord { bytes, ..AuditRecord::of(AuditAction::Begun, &path) };
        Ok(self.reporter.audit(&begun).map_err(io::Error::other)?)
    }
}
