//! What people and programs see of a probe ([`shown`], [`json`]), what of both ends is not as it should be ([`ready`]), and the
//! settings that it recommends as options ([`options`]), also in the configuration ([`save`]); and what
//! was expected last ([`figures`]).

pub mod figures;
pub mod json;
pub mod options;
pub mod ready;
pub mod save;
pub mod shown;
