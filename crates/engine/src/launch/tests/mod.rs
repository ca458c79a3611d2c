//! The remote script, run for real by real shells through a pretended ssh, with a shell script for the executable.

pub(crate) use sandbox::install;

mod failures;
mod placing;
mod planted;
mod sandbox;
