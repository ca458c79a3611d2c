//! The remote script, run by real shells through a fake ssh, with a shell script as the executable.

mod failures;
mod placing;
mod planted;
mod sandbox;
