//! The target machine refuses what no source may say.

