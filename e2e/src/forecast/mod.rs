//! Accuracy of `haul probe`'s forecasts: probes, copies, and compares, on loopback, to a disk and over long links.

mod command;
mod place;

pub use command::main;
