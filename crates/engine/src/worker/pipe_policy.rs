//! Policy for Requests to the worker of a served pipe: its client reaches the pipe and nothing else.
//!
//! As in [`super::request_policy`], every field of a Request appears here. `_` marks one without effect on a pipe.

use haul_proto::delta::options::DeltaOptions;
use haul_proto::sync::SyncOptions;
use haul_proto::wire::pipe::PipeKind;
use haul_proto::wire::preserve::MetadataOptions;
use haul_proto::wire::request::{SourceRequest, TargetRequest};
use haul_proto::wire::write_options::PartialOptions;

use crate::worker::client_limits::ClientLimits;
use crate::worker::client_refusal::ClientRefusal;

/// What a client calls a served pipe.
const PIPE: &[u8] = b"-";

impl ClientLimits {
    /// Applies the limits to a Request for the pipe's data.
    pub(super) fn limit_pipe_source(&self, request: &mut SourceRequest) -> Result<(), ClientRefusal> {
        let SourceRequest {
            settings,
            operands,
            listed,
            base,
            recursive: _,
            links: _,
            skip: _,
            live: _,
            preserve: _,
            filters: _,
            tell_left_out: _,
            rate_bytes_per_s,
            storage,
            compression: _,
            pipe,
            compare,
            tell_digests: _,
            remove_files,
            tell_owners,
            // A decoder refuses it for a pipe.
            range: _,
        } = request;
        if !self.access.reads() {
            return Err(ClientRefusal::WriteOnlyPipe);
        }
        if *compare {
            return Err(ClientRefusal::PipeComparison);
        }
        check_kind(*pipe)?;
        (*operands, *base, *listed, *pipe) = (vec![PIPE.into()], None, false, PipeKind::Standard);
        (*remove_files, *tell_owners) = (false, false);
        self.limit_storage(storage);
        *rate_bytes_per_s = self.slower(*rate_bytes_per_s);
        self.hold_settings(settings)
    }

    /// Applies the limits to a Request with data for the pipe.
    pub(super) fn limit_pipe_target(&self, request: &mut TargetRequest) -> Result<(), ClientRefusal> {
        let TargetRequest {
            settings,
            path,
            operands: _,
            listed: _,
            source_boot: _,
            origin: _,
            again: _,
            own_tree: _,
            directory: _,
            metadata,
            filters: _,
            write: _,
            below: _,
            verify: _,
            digest_existing: _,
            storage,
            partial,
            fsync: _,
            delta,
            sync,
            pipe,
            compare,
            range: _,
        } = request;
        if self.access.reads() {
            return Err(ClientRefusal::ReadOnlyPipe);
        }
        if compare.is_some() || sync.is_dry {
            return Err(ClientRefusal::PipeComparison);
        }
        check_kind(*pipe)?;
        (*path, *pipe) = (PIPE.into(), PipeKind::Standard);
        (*metadata, *partial) = (MetadataOptions::default(), PartialOptions::NONE);
        (*delta, *sync) = (DeltaOptions::default(), SyncOptions::default());
        self.limit_storage(storage);
        self.hold_settings(settings)
    }
}

fn check_kind(pipe: PipeKind) -> Result<(), ClientRefusal> {
    match pipe {
        PipeKind::Named => Ok(()),
        PipeKind::No | PipeKind::Standard | PipeKind::Growing(_) => Err(ClientRefusal::FilesOfPipe),
    }
}
