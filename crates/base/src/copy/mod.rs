//! Values of a copy: its specification, events, errors, summary and credentials.

pub mod account;
pub mod allowance;
pub mod credentials;
pub mod display_path;
pub mod error;
pub mod event;
pub mod hello;
pub mod list;
pub mod location;
pub mod network;
pub mod null;
pub mod own_executable;
pub mod rate;
pub mod runtime_control;
pub mod spec;
pub mod summary;
pub mod transport_path;
pub mod work_progress;

/// The ends of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The origin of the data.
    Source,
    /// The destination of the data.
    Target,
}
