//! A job on Slurm, without calling it: settings, scripts, waves of array jobs, and the queue as squeue prints it.

pub mod held;
pub mod pace;
pub mod queue;
pub mod script;
pub mod settings;
pub mod submissions;
pub mod tracker;
pub mod waves;
