//! Frames from the streams: verified and written.

pub mod bounded_queue;
pub mod deliver;
pub mod digest_checks;
pub mod frame_writer;
pub mod in_order;
pub mod partial_verification;
pub mod reflink;
