//! The remote script, run for real by real shells through a pretended ssh, with a shell script for the executable.

mod failures;
mod placing;
mod sandbox;
