//! A job on Slurm: settings, scripts, waves of array jobs, the calls of Slurm's commands, and their answers.

pub mod answers;
pub mod client;
pub mod follow;
pub mod held;
pub mod node_faults;
pub mod pace;
pub mod queue;
pub mod script;
pub mod settings;
pub mod submissions;
pub mod submit;
pub mod task_ends;
pub mod tracker;
pub mod view;
pub mod waves;
