//! What the controller of a job and its workers share: the values of a job, the control channel between them, and the
//! operating system's processes and pipes.

#![deny(unsafe_code)]

pub mod sys;

pub mod job;

pub mod control_channel;
pub mod idle_timeout;
