//! A job on Slurm, without calling it: settings, scripts, waves of array jobs, and the queue as squeue prints it.

pub mod pace;
pub mod queue;
pub mod settings;
pub mod submissions;

pub mod script;
pub mod waves;

pub mod tracker;
