//! A job on Slurm, without calls of Slurm: settings, scripts, waves of array jobs, and squeue's output.

pub mod held;
pub mod pace;
pub mod queue;
pub mod script;
pub mod settings;
pub mod submissions;
pub mod tracker;
pub mod waves;
