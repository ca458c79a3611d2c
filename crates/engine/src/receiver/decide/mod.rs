//! Decides what becomes of each offered entry.

pub mod check_entry;
pub mod directory_exchange;
pub mod dry_run;
pub mod filter;
pub mod first_names;
pub mod hard_link_guard;
pub mod hard_links;
pub mod item_reports;
pub mod known_equal;
pub mod link_dests;
pub mod list_batches;
pub mod merged_sources;
pub mod rename_detection;
pub mod special_files;
pub mod transfer_decision;
pub mod wrong_digests;
