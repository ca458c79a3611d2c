//! One job on many hosts: the plan, the shards and their states, all in one shared directory.
//!
//! A job is planned into shards. Each shard is a list of paths and one idempotent copy; any host with the directory can
//! run it. Nothing here knows arguments or configuration: [`node::JobNode`] has what a step needs of its host. Any scheduler
//! may replace the loop over shards. `docs/internals/jobs.md` has the reasons.
#![forbid(unsafe_code)]

// From the lowest layer up: each module imports only from those above it.
pub mod error;

pub mod byte_words;
pub mod confirmation;
pub mod job_file;

pub mod directory;
pub mod packer;
pub mod shard_progress;
pub mod this_host;

pub mod options;

pub mod description;
pub mod plan_index;
pub mod shard_list;
pub mod shard_lock;
pub mod targets;

pub mod shard_result;

mod link_spill;
pub mod overview;
pub mod planner;

pub mod report;
pub mod report_page;

pub mod comparison;

pub mod opened;

pub mod exclusive;
pub mod known_jobs;
pub mod part_recorder;

pub mod creation;
pub mod node;
pub mod part;
pub mod report_text;

pub mod remote_plan;

mod rate_share;

pub mod begun_plan;
pub mod finish;
pub mod notification;
pub mod shard_run;
mod target_space;

pub mod local_run;
pub mod slurm;
pub mod ssh_workers;

pub mod status_text;
