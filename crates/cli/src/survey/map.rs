//! Data of a page's map: an array for each directory, `[name, bytes, files, own bytes, own files, bytes not drawn,
//! files not drawn, directories]`, and one for each type.

use haul_inspect::survey::{Survey, SurveyDirectory};
use haul_proto::path::{disturbs, escape};
use serde_json::{Value, json};

use super::contents::ending;

/// JSON for a page, escaped for a script element.
pub fn data(survey: &Survey) -> String {
    let types = survey.kinds.iter().map(|kind| json!([ending(&kind.ending), kind.sum.bytes, kind.sum.files]));
    let others = json!(["(others)", survey.other_kinds.bytes, survey.other_kinds.files]);
    let types: Vec<_> = types.chain((survey.other_kinds.files > 0).then_some(others)).collect();
    let root = root(&survey.tree);
    // Patterns start below a named directory.
    let depth = if std::ptr::eq(root, &survey.tree) { 2 } else { 1 };
    let all = json!({"dirs": node(root), "types": types, "depth": depth}).to_string();
    all.chars().fold(String::with_capacity(all.len()), |mut shown, c| {
        match c {
            '<' | '>' | '&' => shown.push_str(&format!("\\u{:04x}", u32::from(c))),
            c if disturbs(c) => {
                c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| shown.push_str(&format!("\\u{unit:04x}")))
            }
            c => shown.push(c),
        }
        shown
    })
}

/// The root of the map: the directory itself, if only one was named.
fn root(tree: &SurveyDirectory) -> &SurveyDirectory {
    match tree.children.as_slice() {
        [only] if tree.own.files == 0 && tree.rest.files == 0 => only,
        _ => tree,
    }
}

fn node(at: &SurveyDirectory) -> Value {
    let name = if at.name.is_empty() { "all paths".to_owned() } else { escape(&at.name) };
    let children: Vec<_> = at.children.iter().map(node).collect();
    json!([name, at.all.bytes, at.all.files, at.own.bytes, at.own.files, at.rest.bytes, at.rest.files, children])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::survey::contents::tests::example;

    #[test]
    fn names_are_only_data() {
        let mut survey = example();
        survey.tree.children[0].name = "</script>&\u{202e}\x1b".into();
        let data = data(&survey);
        assert!(!data.contains(['<', '>', '&', '\u{202e}', '\u{1b}']), "{data}");
        let read: Value = serde_json::from_str(&data).unwrap();
        assert_eq!(read["dirs"][0].as_str().unwrap(), escape("</script>&\u{202e}\x1b".as_bytes()));
        assert_eq!((&read["dirs"][1], &read["dirs"][7][0][1]), (&json!(5_000_007), &json!(4_000_000)));
        assert_eq!(read["types"][1], json!(["(none)", 1_000_000, 2]));
    }

    #[test]
    fn several_roots_stay_beside_each_other() {
        let mut survey = example();
        let again = survey.tree.children[0].clone();
        survey.tree.children.push(again);
        let read: Value = serde_json::from_str(&data(&survey)).unwrap();
        assert_eq!((read["dirs"][0].as_str(), read["dirs"][7].as_array().unwrap().len()), (Some("all paths"), 2));
    }
}
