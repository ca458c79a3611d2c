//! Completions for bash, zsh and fish, generated from the tables of commands and options. The templates beside this
//! file hold what does not depend on a table.

use super::commands::{COMMANDS, TOPICS, names, with_pages};
use super::flags::COPY;
use super::job::JobStep;
use super::row::{HelpSection, OptionRow, Takes};

const SHELLS: [&str; 3] = ["bash", "zsh", "fish"];

/// What follows a command, or a step of a job.
struct Place {
    /// `verify`, `job run`; empty for a copy.
    words: String,
    options: Vec<&'static OptionRow>,
    /// The function of the templates that completes operands, without `_haul_`, and its arguments.
    operands: String,
}

impl Place {
    fn new(words: String, options: &'static [OptionRow], operands: String) -> Self {
        let is_offered = |row: &&OptionRow| row.section != HelpSection::Unlisted;
        Self { words, options: options.iter().filter(is_offered).collect(), operands }
    }

    fn all() -> Vec<Self> {
        let copy = Self::new(String::new(), COPY, operands("SOURCE... TARGET"));
        let commands =
            COMMANDS.iter().map(|row| Self::new(row.name.to_owned(), (row.options)(), operands(row.arguments)));
        let steps = JobStep::WORDS.iter().map(|(word, step)| {
            let arguments = match step {
                JobStep::Plan | JobStep::Run => "SOURCE TARGET...",
                JobStep::List => "",
                _ => "JOB",
            };
            let mut place = Self::new(format!("job {word}"), step.options(), operands(arguments));
            place.options.retain(|row| !row.is_any(step.refused()));
            place
        });
        std::iter::once(copy).chain(commands).chain(steps).collect()
    }
}

/// Completes the operands that a command's usage names.
fn operands(arguments: &str) -> String {
    let words: Vec<_> = match arguments {
        "SHELL" => SHELLS.to_vec(),
        "STEP ..." => JobStep::WORDS.map(|(word, _)| word).to_vec(),
        "[TOPIC]" => TOPICS.into_iter().chain(names()).collect(),
        "[COMMAND]" => with_pages().map(|row| row.name).collect(),
        "" => return "nothing".to_owned(),
        "HOST" | "[HOST]" => return "hosts".to_owned(),
        _ if ["TARGET", "HOST:", "A B"].iter().any(|operand| arguments.contains(operand)) => {
            return "locations".to_owned();
        }
        _ => return "files".to_owned(),
    };
    format!("words {}", words.join(" "))
}

/// Places with the same options or operands, together.
fn grouped<'a, K: PartialEq>(places: &'a [Place], key: impl Fn(&'a Place) -> K) -> Vec<Vec<&'a Place>> {
    let mut groups: Vec<Vec<&Place>> = Vec::new();
    for place in places {
        match groups.iter_mut().find(|group| key(group[0]) == key(place)) {
            Some(group) => group.push(place),
            None => groups.push(vec![place]),
        }
    }
    groups
}

fn by_options(places: &[Place]) -> Vec<Vec<&Place>> {
    grouped(places, |place| place.options.iter().map(|row| row.id).collect::<Vec<_>>())
}

fn by_operands(places: &[Place]) -> Vec<Vec<&Place>> {
    grouped(places, |place| &place.operands)
}

/// `"" "sync" "job run"`.
fn quoted_words<'a>(places: impl IntoIterator<Item = &'a Place>) -> Vec<String> {
    places.into_iter().map(|place| format!("\"{}\"", place.words)).collect()
}

/// Whether an option requires an argument.
fn needs_argument(row: &OptionRow) -> bool {
    matches!(row.takes, Takes::One(_) | Takes::Each(_))
}

fn letters(row: &OptionRow) -> impl Iterator<Item = char> {
    row.letter.into_iter()
}

fn long_forms(row: &OptionRow) -> impl Iterator<Item = String> {
    row.long_forms().map(|name| format!("--{name}"))
}

/// The script for a shell of this name.
pub fn script(shell: &str) -> Option<String> {
    let (template, options): (_, fn(&Place) -> String) = match shell {
        "bash" => (include_str!("completions/haul.bash"), bash_options),
        "zsh" => (include_str!("completions/haul.zsh"), zsh_options),
        "fish" => return Some(fish()),
        _ => return None,
    };
    let places = Place::all();
    let operands = |place: &Place| format!("            operands='_haul_{}'\n", place.operands);
    let script = template.replace("@HOSTS@", include_str!("completions/hosts.sh"));
    let script = script.replace("@COMMANDS@", &names().join(" "));
    let script = script.replace("@OPTIONS@\n", &cases(&by_options(&places), options));
    Some(script.replace("@OPERANDS@\n", &cases(&by_operands(&places), operands)))
}

/// The body of a `case`: the words of each group, and its commands. Words that are no command begin a copy.
fn cases(groups: &[Vec<&Place>], commands: impl Fn(&Place) -> String) -> String {
    let (copy, others) = (&groups[0], &groups[1..]);
    let case = |pattern: &str, place| format!("        {pattern})\n{}            ;;\n", commands(place));
    let others = others.iter().map(|group| case(&quoted_words(group.iter().copied()).join("|"), group[0]));
    others.chain([case("*", copy[0])]).collect()
}

fn bash_options(place: &Place) -> String {
    let names: Vec<_> = place.options.iter().copied().flat_map(long_forms).collect();
    let mut text = format!("            options='{}'\n            case $before in\n", names.join(" "));
    for row in &place.options {
        let forms: Vec<_> = letters(row).map(|letter| format!("-{letter}")).chain(long_forms(row)).collect();
        let words = row.words.join(" ");
        let commands = match (needs_argument(row), row.words) {
            (true, []) => "return".to_owned(),
            (true, _) => format!("_haul_add '{words}' ' '; return"),
            (false, []) => continue,
            (false, _) => format!("_haul_add '{words}' ' '"),
        };
        text.push_str(&format!("                {}) {commands} ;;\n", forms.join("|")));
    }
    text + "            esac\n"
}

fn zsh_options(place: &Place) -> String {
    let quoted = |text: &str| text.replace('\'', "'\\''").replace('[', "\\[").replace(']', "\\]").replace(':', "\\:");
    let mut text = String::from("            options=(\n");
    for row in &place.options {
        let words = row.words.join(" ");
        let (after_letter, after_name, argument) = match (needs_argument(row), row.words) {
            (true, []) => ("+", "=", ":argument:_files".to_owned()),
            (true, _) => ("+", "=", format!(":argument:({words})")),
            (false, []) => ("", "", String::new()),
            (false, _) => ("+", "=", format!("::argument:({words})")),
        };
        // Other characters have a meaning in zsh.
        let letters = letters(row).filter(char::is_ascii_alphanumeric);
        let letters = letters.map(|letter| format!("-{letter}{after_letter}"));
        for typed in letters.chain(long_forms(row).map(|name| name + after_name)) {
            text.push_str(&format!("                '*{typed}[{}]{argument}'\n", quoted(row.help)));
        }
    }
    text + "            )\n"
}

fn fish() -> String {
    let quoted = |text: &str| text.replace('\\', "\\\\").replace('\'', "\\'");
    let start =
        |group: &[&Place]| format!("complete -c haul -n '__haul_at {}'", quoted_words(group.iter().copied()).join(" "));
    let places = Place::all();
    let template = include_str!("completions/haul.fish").replace("@COMMANDS@", &names().join(" "));
    let mut script = template.replace("@PLACES@", &quoted_words(&places).join(" "));
    for group in by_operands(&places) {
        let operands = &group[0].operands;
        let no_files = if ["files", "locations"].contains(&operands.as_str()) { "" } else { " -f" };
        script.push_str(&format!("{}{no_files} -a '(__haul_{operands})'\n", start(&group)));
    }
    for group in by_options(&places) {
        for row in &group[0].options {
            let letters: String = letters(row).map(|letter| format!(" -s '{letter}'")).collect();
            let names: String = row.long_forms().map(|name| format!(" -l {name}")).collect();
            let words = row.words.join(" ");
            let argument = match (needs_argument(row), row.words) {
                (true, []) => " -rF".to_owned(),
                (true, _) => format!(" -x -a '{words}'"),
                (false, []) => String::new(),
                (false, _) => format!(" -a '{words}'"),
            };
            let about = quoted(row.help);
            script.push_str(&format!("{}{letters}{names}{argument} -d '{about}'\n", start(&group)));
        }
    }
    script
}

#[cfg(test)]
#[path = "completions_tests.rs"]
mod tests;
