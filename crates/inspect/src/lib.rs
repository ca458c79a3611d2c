//! Examines files without copying them: the contents of a tree and the time of its copy ([`survey`]), and the filter
//! rule for a path ([`explain`]).

#![deny(unsafe_code)]

pub mod explain;
pub mod survey;
