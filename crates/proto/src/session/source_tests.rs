//! The source machine refuses what no target may say.

