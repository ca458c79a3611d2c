//! bbcp's `-S` and `-T`: a user's own command that starts the remote side. Splits the command into words and fills it
//! in; starts nothing.
//!
//! No shell parses the command, so only quotes and backslashes are special, and no name can become code. `%I %U %H %4
//! %%` are filled in after splitting. Other letters after `%` stay as they are, since ssh has tokens of its own (`%h`,
//! `%p`, `%r`).

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

/// A fault in the template of a user's own command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum CommandTemplateError {
    /// No word is left.
    #[error("the command is empty")]
    Empty,
    /// The last character is an unquoted backslash.
    #[error("ends with a backslash that escapes nothing")]
    TrailingBackslash,
    /// A single quote without its end.
    #[error("unclosed single quote")]
    OpenSingleQuote,
    /// A double quote without its end.
    #[error("unclosed double quote")]
    OpenDoubleQuote,
    /// `%U` without a user, for an account without a name.
    #[error("%U: no user is given and this account has no name; write user@host")]
    NoUser,
}

/// Values of the letters.
#[derive(Debug, Clone, Copy)]
pub(super) struct CommandValues<'a> {
    /// `%I`, as `-i FILE`; nothing without an identity.
    pub identity: Option<&'a Path>,
    /// `%U`; [`fill_in`] describes the case without a user.
    pub user: Option<&'a str>,
    /// `%H`.
    pub host: &'a str,
    /// `%4`: `-4`, or nothing.
    pub ipv4_only: bool,
}

/// Returns the words of `template` with `values` filled in. The error describes the fault in the template.
///
/// A word that is only `%I` or `%4` becomes two, one or no words. Without a user, `-l %U` and the `%U@` of `%U@%H` are
/// dropped, so that ssh's configuration decides. Any other `%U` becomes the result of `local_user`.
pub(super) fn fill_in(
    template: &str,
    values: CommandValues<'_>,
    local_user: impl Fn() -> Option<String>,
) -> Result<Vec<OsString>, CommandTemplateError> {
    let mut filled: Vec<Vec<u8>> = Vec::new();
    for word in split(template)? {
        match word.as_str() {
            "%I" => {
                if let Some(identity) = values.identity {
                    filled.push(b"-i".to_vec());
                    filled.push(identity.as_os_str().as_encoded_bytes().to_vec());
                }
            }
            "%4" if !values.ipv4_only => {}
            "%U" if values.user.is_none() && filled.last().is_some_and(|last| last == b"-l") => {
                filled.pop();
            }
            "-l%U" if values.user.is_none() => {}
            _ => filled.push(fill_word(&word, values, &local_user)?),
        }
    }
    if filled.is_empty() {
        return Err(CommandTemplateError::Empty);
    }
    Ok(filled.into_iter().map(OsString::from_vec).collect())
}

/// Splits words as a POSIX shell does: only single quotes, double quotes and backslashes are special.
pub(super) fn split(text: &str) -> Result<Vec<String>, CommandTemplateError> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        match c {
            ' ' | '\t' | '\n' => words.extend(word.take()),
            '\'' => single_quoted(&mut rest, word.get_or_insert_default())?,
            '"' => double_quoted(&mut rest, word.get_or_insert_default())?,
            '\\' => match rest.next() {
                Some('\n') => {}
                Some(next) => word.get_or_insert_default().push(next),
                None => return Err(CommandTemplateError::TrailingBackslash),
            },
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    Ok(words)
}

fn single_quoted(rest: &mut std::str::Chars<'_>, word: &mut String) -> Result<(), CommandTemplateError> {
    loop {
        match rest.next() {
            Some('\'') => return Ok(()),
            Some(c) => word.push(c),
            None => return Err(CommandTemplateError::OpenSingleQuote),
        }
    }
}

fn double_quoted(rest: &mut std::str::Chars<'_>, word: &mut String) -> Result<(), CommandTemplateError> {
    loop {
        match rest.next() {
            Some('"') => return Ok(()),
            Some('\\') => match rest.next() {
                Some('\n') => {}
                Some(c @ ('"' | '\\' | '$' | '`')) => word.push(c),
                Some(c) => word.extend(['\\', c]),
                None => break,
            },
            Some(c) => word.push(c),
            None => break,
        }
    }
    Err(CommandTemplateError::OpenDoubleQuote)
}

/// Fills in the letters of one word.
fn fill_word(
    word: &str,
    values: CommandValues<'_>,
    local_user: impl Fn() -> Option<String>,
) -> Result<Vec<u8>, CommandTemplateError> {
    let mut filled = Vec::new();
    let mut rest = word;
    while let Some(at) = rest.find('%') {
        filled.extend(rest[..at].bytes());
        rest = &rest[at + 1..];
        let Some(letter) = rest.chars().next() else {
            filled.push(b'%');
            break;
        };
        rest = &rest[letter.len_utf8()..];
        match letter {
            '%' => filled.push(b'%'),
            'H' => filled.extend(values.host.bytes()),
            '4' if values.ipv4_only => filled.extend(b"-4"),
            '4' => {}
            'I' => {
                if let Some(identity) = values.identity {
                    filled.extend(b"-i ");
                    filled.extend(identity.as_os_str().as_encoded_bytes());
                }
            }
            'U' => match (values.user, rest.strip_prefix('@')) {
                (Some(user), _) => filled.extend(user.bytes()),
                (None, Some(after)) => rest = after,
                (None, None) => filled.extend(local_user().ok_or(CommandTemplateError::NoUser)?.bytes()),
            },
            other => {
                filled.push(b'%');
                filled.extend(other.encode_utf8(&mut [0; 4]).bytes());
            }
        }
    }
    filled.extend(rest.bytes());
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use haul_base::shell_word::quote;
    use proptest::prelude::*;

    use super::*;

    fn fill(
        template: &str,
        identity: Option<&str>,
        user: Option<&str>,
        ipv4_only: bool,
    ) -> Result<Vec<String>, CommandTemplateError> {
        let values = CommandValues { identity: identity.map(Path::new), user, host: "db1", ipv4_only };
        let words = fill_in(template, values, || Some("me".into()))?;
        Ok(words.into_iter().map(|word| word.into_string().unwrap()).collect())
    }

    #[test]
    fn words_are_split_as_a_shell_splits_them() {
        assert_eq!(split(" a\t'b c'd \"e f\\\"\\x\" g\\ h '' ").unwrap(), ["a", "b cd", "e f\"\\x", "g h", ""]);
        assert_eq!(split("$HOME `id` * ~ ; |").unwrap(), ["$HOME", "`id`", "*", "~", ";", "|"]);
        assert_eq!(split("").unwrap(), Vec::<String>::new());
        for unfinished in ["a 'b", "a \"b", "a \"b\\", "a\\"] {
            assert!(split(unfinished).is_err(), "{unfinished}");
        }
    }

    #[test]
    fn bbcps_own_default_is_filled_in() {
        let template = "ssh -x -a -oFallBackToRsh=no %4 %I -l %U %H /opt/bin/haul";
        let full = fill(template, Some("/k y"), Some("ann"), true).unwrap();
        assert_eq!(
            full,
            ["ssh", "-x", "-a", "-oFallBackToRsh=no", "-4", "-i", "/k y", "-l", "ann", "db1", "/opt/bin/haul"]
        );
        let bare = fill(template, None, None, false).unwrap();
        assert_eq!(bare, ["ssh", "-x", "-a", "-oFallBackToRsh=no", "db1", "/opt/bin/haul"]);
    }

    #[test]
    fn an_unnamed_user_is_left_to_ssh_if_possible() {
        assert_eq!(fill("ssh %U@%H haul", None, Some("ann"), false).unwrap()[1], "ann@db1");
        assert_eq!(fill("ssh %U@%H haul", None, None, false).unwrap()[1], "db1");
        assert_eq!(fill("ssh -l%U %H haul", None, None, false).unwrap(), ["ssh", "db1", "haul"]);
        assert_eq!(fill("sudo -u %U haul", None, None, false).unwrap(), ["sudo", "-u", "me", "haul"]);
        let values = CommandValues { identity: None, user: None, host: "h", ipv4_only: false };
        assert!(fill_in("sudo -u %U haul", values, || None).unwrap_err().to_string().contains("user@host"));
    }

    #[test]
    fn other_letters_and_percent_signs_stay() {
        assert_eq!(
            fill("a %%H %h %r@%p 5% 'x%Iy%4'", Some("k"), None, true).unwrap()[1..],
            ["%H", "%h", "%r@%p", "5%", "x-i ky-4"]
        );
        assert_eq!(fill("%é", None, None, false).unwrap(), ["%é"]);
        assert!(fill(" %I %4 ", None, None, false).unwrap_err().to_string().contains("empty"));
    }

    #[test]
    fn inserted_values_are_never_split_or_expanded_again() {
        let values = CommandValues { identity: None, user: Some("a %H 'b"), host: "x y", ipv4_only: false };
        assert_eq!(fill_in("r %U %H", values, || None).unwrap(), ["r", "a %H 'b", "x y"]);
    }

    proptest! {
        #[test]
        fn quoted_words_are_read_back(words in proptest::collection::vec(any::<String>(), 0..6)) {
            let text = words.iter().map(|word| quote(word)).collect::<Vec<_>>().join(" ");
            prop_assert_eq!(split(&text).unwrap(), words);
        }

        #[test]
        fn no_template_makes_it_panic(template in "[%IUH4@ a'\"\\\\é-]{0,40}") {
            let _ = fill(&template, None, None, false);
        }
    }
}
