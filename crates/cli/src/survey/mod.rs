//! What `haul survey` shows of what the engine found: as words, as JSON, and as a page. Words and page are made from one
//! document.

pub mod contents;
pub mod json;
mod map;
pub mod outlook;
pub mod page;
pub mod progress;
pub mod words;

use haul_inspect::survey::Survey;

use self::outlook::Outlook;

/// What is shown.
pub struct SurveyView<'s> {
    /// What was named, for people.
    pub what: String,
    /// What was found.
    pub survey: &'s Survey,
    /// How long a copy will take.
    pub outlook: &'s Outlook,
}
