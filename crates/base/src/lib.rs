//! Common ground of a job's controller and workers: the values of a job, the control channel, and the operating
//! system's processes and pipes.

#![deny(unsafe_code)]

pub mod sys;

pub mod shell_word;

pub mod job;

pub mod trusted_files;

pub mod control_channel;
pub mod held_directory;
pub mod idle_timeout;
pub mod policy_lines;
