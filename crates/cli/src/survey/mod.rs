//! Output of `haul survey`: text, JSON and a page. Text and page are made from one document.

pub mod contents;
pub mod json;
mod map;
pub mod outlook;
pub mod page;
pub mod progress;
pub mod words;

use haul_inspect::survey::Survey;

use self::outlook::Outlook;

/// A view of a survey.
pub struct SurveyView<'s> {
    /// The typed paths, as text.
    pub what: String,
    /// The results.
    pub survey: &'s Survey,
    /// The estimated time of a copy.
    pub outlook: &'s Outlook,
}
