//! Common ground of a copy's controller and workers: the values of a copy, the control channel, and the operating
//! system's processes and pipes.

#![deny(unsafe_code)]

pub mod sys;

pub mod quantity;
pub mod shell_word;
pub mod size_text;

pub mod copy;

pub mod secrets;
pub mod usage_error;

pub mod trusted_files;

pub mod control_channel;
pub mod held_directory;
pub mod idle_timeout;
pub mod policy_lines;
