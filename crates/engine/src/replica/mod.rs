//! One end of two-way synchronisation: a replica's root and its id, the archives of its pairs, its scan, and the actions
//! of a plan. [`haul_proto::twoway`] makes all decisions; `docs/internals/twoway.md` describes a run.

mod act;
mod archives;
mod attributes;
mod error;
mod look;
mod root;
mod root_id;
mod scan;
mod session;

pub use error::ReplicaError;
pub use session::ReplicaEnd;
