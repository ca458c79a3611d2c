//! Completions for bash, zsh and fish, generated from the table of options.

use super::commands::names;
use super::flags::COPY;
use super::row::{HelpSection, OptionRow, Takes};

/// Options with an effect.
fn rows() -> impl Iterator<Item = &'static OptionRow> {
    COPY.iter().filter(|row| row.section != HelpSection::Unlisted)
}

/// Whether an option requires an argument.
fn needs_argument(row: &OptionRow) -> bool {
    matches!(row.takes, Takes::One(_) | Takes::Each(_))
}

/// The script for a shell of this name.
pub fn script(shell: &str) -> Option<String> {
    match shell {
        "bash" => Some(bash()),
        "zsh" => Some(zsh()),
        "fish" => Some(fish()),
        _ => None,
    }
}

/// For bash: `haul completions bash > /etc/bash_completion.d/haul`.
fn bash() -> String {
    let long: Vec<_> = rows().flat_map(OptionRow::long_forms).map(|name| format!("--{name}")).collect();
    let mut cases = String::new();
    for row in rows().filter(|row| !row.words.is_empty()) {
        let names: Vec<_> = row.long_forms().map(|name| format!("--{name}")).collect();
        let letters = row.letter.iter().map(|letter| format!("-{letter}"));
        let all: Vec<_> = letters.chain(names).collect();
        cases.push_str(&format!("        {}) words=\"{}\" ;;\n", all.join("|"), row.words.join(" ")));
    }
    format!(
        "# Completion of haul for bash(1).\n\
         _haul() {{\n\
         \x20   local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}} words=\n\
         \x20   case $before in\n{cases}\x20   esac\n\
         \x20   if [[ -z $words && $word == -* ]]; then\n\
         \x20       words=\"{}\"\n\
         \x20   elif [[ -z $words && $COMP_CWORD == 1 ]]; then\n\
         \x20       words=\"{}\"\n\
         \x20   fi\n\
         \x20   COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n\
         }}\n\
         complete -o default -F _haul haul\n",
        long.join(" "),
        names().join(" "),
    )
}

/// For zsh: `haul completions zsh > ~/.zfunc/_haul`.
fn zsh() -> String {
    let quoted = |text: &str| text.replace('\'', "'\\''").replace('[', "\\[").replace(']', "\\]").replace(':', "\\:");
    let mut specs = String::new();
    for row in rows() {
        let argument = match (needs_argument(row), row.words) {
            (_, known) if !known.is_empty() => format!(":argument:({})", known.join(" ")),
            (true, _) => ":argument:_files".to_owned(),
            (false, _) => String::new(),
        };
        let about = quoted(row.help);
        // Other characters have a meaning in zsh.
        let letters = row.letter.iter().chain(&row.other_letter).filter(|letter| letter.is_ascii_alphanumeric());
        let letters = letters.map(|letter| format!("-{letter}"));
        let names = row.long_forms().map(|name| format!("--{name}{}", if argument.is_empty() { "" } else { "=" }));
        for typed in letters.chain(names) {
            let typed = if typed.len() == 2 && !argument.is_empty() { format!("{typed}+") } else { typed };
            specs.push_str(&format!("    '*{}[{about}]{argument}' \\\n", quoted(&typed)));
        }
    }
    let first = format!("{{_alternative \"files:file:_files\" \"commands:command:({})\"}}", names().join(" "));
    format!(
        "#compdef haul\n# Completion of haul for zsh(1).\n_arguments \\\n{specs}    '1:source or command:{first}' \\\n    \
         '*:file:_files'\n"
    )
}

/// For fish: `haul completions fish > ~/.config/fish/completions/haul.fish`.
fn fish() -> String {
    let quoted = |text: &str| text.replace('\\', "\\\\").replace('\'', "\\'");
    let mut script = format!(
        "# Completion of haul for fish(1).\ncomplete -c haul -n __fish_is_first_token -a '{}'\n",
        names().join(" ")
    );
    for row in rows() {
        let mut line = String::from("complete -c haul");
        row.letter.iter().chain(&row.other_letter).for_each(|letter| line.push_str(&format!(" -s '{letter}'")));
        row.long_forms().for_each(|name| line.push_str(&format!(" -l {name}")));
        if needs_argument(row) {
            line.push_str(" -r");
        }
        if !row.words.is_empty() {
            line.push_str(&format!(" -a '{}'", row.words.join(" ")));
        }
        script.push_str(&format!("{line} -d '{}'\n", quoted(row.help)));
    }
    script
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_digest_is_a_word() {
        let row = COPY.iter().find(|row| row.id == "checksum").unwrap();
        let names: Vec<_> = haul_base::copy::spec::ChecksumAlgorithm::all().map(|algorithm| algorithm.name()).collect();
        assert_eq!(row.words, names);
    }

    #[test]
    fn every_shell_knows_every_option_and_command() {
        for script in [bash(), zsh(), fish()] {
            for row in rows() {
                for name in row.long_forms() {
                    assert!(script.contains(name), "--{name}");
                }
            }
            assert!(names().iter().all(|command| script.contains(command)));
            assert!(
                !script.replace("worker-binary", "").contains("worker") && !script.contains("NetLogger"),
                "{script}"
            );
        }
    }
}
