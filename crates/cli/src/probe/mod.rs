//! Output of a probe for people and programs ([`shown`], [`json`]), problems of both ends ([`ready`]) and of the path
//! between them ([`buffers`], [`sysctl`]), its recommended options ([`options`]), which can be saved to the configuration
//! ([`save`]), and the last forecast ([`figures`]).

pub mod buffers;
pub mod figures;
pub mod json;
pub mod options;
pub mod ready;
pub mod save;
pub mod shown;
pub mod sysctl;
