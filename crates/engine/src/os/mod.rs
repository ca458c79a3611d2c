//! What depends on the system and is no file and no socket. Everything that is Linux's alone is in here or in
//! [`crate::fs`], behind functions that another system could have too.

pub mod machine;
pub mod signals;
pub mod usage;
