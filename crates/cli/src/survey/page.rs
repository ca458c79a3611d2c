//! A survey as one page: the map of bytes above, the tables below.

use haul_show::report::document::Document;
use haul_show::report::html::{Extra, page_with};

use super::{SurveyView, map};

/// Draws the interactive map.
const SCRIPT: &str = include_str!("map.js");
const STYLE: &str = include_str!("map.css");
/// The map's element, with a note for browsers without scripts.
const PLACE: &str = "<noscript><p class=\"small\">The map of bytes needs scripts; the tables below do not.</p></noscript>\n\
     <div id=\"map-head\" hidden><nav id=\"way\" aria-label=\"path to this directory\"></nav>\
     <div id=\"modes\"><button type=\"button\" id=\"by-dir\">directories</button>\
     <button type=\"button\" id=\"by-type\">types</button>\
     <button type=\"button\" id=\"choose\">leave out</button></div></div>\n\
     <div id=\"map\" hidden></div>\n<p id=\"told\" class=\"small\"></p>\n<pre id=\"excludes\" hidden></pre>\n";

/// The page.
pub fn page(document: &Document, shown: &SurveyView<'_>) -> String {
    let data = map::data(shown.survey);
    page_with(document, Some(&Extra { style: STYLE, body: PLACE, data: &data, script: SCRIPT }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::survey::contents::document;
    use crate::survey::contents::tests::{example, shown};
    use crate::survey::outlook::Outlook;

    #[test]
    fn the_page_loads_nothing_and_no_name_becomes_a_tag() {
        let (mut survey, outlook) = (example(), Outlook::NoHost);
        survey.tree.children[0].name = b"</script><script>alert(1)</script><!--".to_vec();
        let shown = shown(&survey, &outlook);
        let page = page(&document(&shown, "today".into(), 20), &shown);
        for elsewhere in ["src=", "href=", "url(", "@import", "http:", "https:"] {
            assert!(!page.contains(elsewhere), "{elsewhere}");
        }
        assert_eq!(page.matches("<script").count(), 2, "{page}");
        assert_eq!(page.matches("</script>").count(), 2);
        assert!(!page.contains("<!--") && page.contains("a&lt;b&gt;"));
    }
}
