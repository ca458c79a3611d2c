//! Metadata of what is written: owners, modes, times and extended attributes.

pub mod attributes;
pub mod modes;
pub mod owners;
pub mod rights;
pub mod timestamps;
pub mod widened_directories;
