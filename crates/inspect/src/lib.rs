//! Looks at files without copying them: what a tree holds and how long its copy will take ([`survey`]), and which filter
//! decides about a path ([`explain`]).

#![deny(unsafe_code)]

pub mod explain;
pub mod survey;
