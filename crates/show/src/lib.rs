//! What haul shows of a copy and where: displays, summaries, lines of JSON, reports, and the files of all output.
//!
//! Nothing here knows arguments, reads configuration or moves data.
#![forbid(unsafe_code)]

pub mod exit;
mod names;
pub mod terminal;
pub mod units;

pub mod text;

pub mod lost_output;
pub mod manifest_line;
pub mod output_place;
pub mod own_descriptor;
pub mod pending;
pub mod stamped_lines;

pub mod bar;
#[cfg(feature = "tui")]
pub mod dashboard;
mod differences;
pub mod display;
pub mod human;
mod items;
pub mod json;
mod lines;
mod load;
pub mod meter;
pub mod mode_text;
pub mod output;
mod output_form;
pub mod partials;
pub mod parts;
pub mod paths;
mod progress_line;
pub mod report;
pub mod served;
mod streams;
pub mod summary;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod verdict;
mod whole_lines;

pub use self::display::new;
pub use self::output_form::{Half, ListForm, Show};
pub use self::text::stderr;
