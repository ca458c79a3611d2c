//! Owners at the target: by name, or mapped by `--usermap`, `--groupmap` and `--chown`.

use std::os::unix::ffi::OsStrExt;

use haul_base::copy::spec::{OwnerAccount, OwnerFrom, OwnerMap, OwnerOptions};
use haul_proto::limits::{ACCOUNT_NAME_MAX, OWNER_MAPS_MAX};

use crate::args::argument::Argument;
use crate::args::values::Values;
use crate::args::{UsageError, flags};

/// The mapping by the options.
pub fn owners(values: &Values) -> Result<OwnerOptions, UsageError> {
    let map = |flag| values.argument(flag).map_or(Ok(Vec::new()), maps);
    let (mut users, mut groups) = (map(&flags::USERMAP)?, map(&flags::GROUPMAP)?);
    if let Some(argument) = values.argument(&flags::CHOWN) {
        let mut parts = argument.value.as_bytes().splitn(2, |byte| *byte == b':');
        for all in [&mut users, &mut groups] {
            if let Some(name) = parts.next().filter(|name| !name.is_empty()) {
                all.push(OwnerMap { from: OwnerFrom::Any, to: account(argument, name)? });
            }
        }
        if users.is_empty() && groups.is_empty() {
            return Err(argument.bad("must be USER, :GROUP or USER:GROUP"));
        }
    }
    Ok(OwnerOptions { by_name: !values.is_set(&flags::NUMERIC_IDS), users, groups })
}

/// `FROM:TO,FROM:TO`: FROM is a name, a number, a range, `*`, or empty for owners without a name.
fn maps(argument: Argument<'_>) -> Result<Vec<OwnerMap>, UsageError> {
    let rules: Vec<_> = argument.value.as_bytes().split(|byte| *byte == b',').collect();
    if rules.len() > OWNER_MAPS_MAX {
        return Err(argument.bad(&format!("more than {OWNER_MAPS_MAX} rules")));
    }
    rules.into_iter().map(|rule| map(argument, rule)).collect()
}

fn map(argument: Argument<'_>, rule: &[u8]) -> Result<OwnerMap, UsageError> {
    let at = rule.iter().position(|byte| *byte == b':');
    let at = at.ok_or_else(|| {
        argument.bad("each rule must be FROM:TO").remedy("for example 0-99:nobody,anna:smith,*:users")
    })?;
    let (from, to) = (&rule[..at], &rule[at + 1..]);
    let from = match from {
        b"*" => OwnerFrom::Any,
        b"" => OwnerFrom::Nameless,
        from => match range(from) {
            Some((first, last)) if first <= last => OwnerFrom::Ids(first, last),
            Some(_) => return Err(argument.bad("the first number of a range must not exceed the second")),
            None if from.contains(&b'*') => {
                return Err(argument.bad("* cannot be part of a name, only stand for all"));
            }
            None => OwnerFrom::Name(name(argument, from)?),
        },
    };
    Ok(OwnerMap { from, to: account(argument, to)? })
}

/// A number, or two with a hyphen between them.
fn range(text: &[u8]) -> Option<(u32, u32)> {
    let text = std::str::from_utf8(text).ok()?;
    match text.split_once('-') {
        Some((first, last)) => Some((number(first)?, number(last)?)),
        None => number(text).map(|id| (id, id)),
    }
}

/// Digits only: `+5` is a name.
fn number(text: &str) -> Option<u32> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

fn account(argument: Argument<'_>, text: &[u8]) -> Result<OwnerAccount, UsageError> {
    match std::str::from_utf8(text).ok().and_then(number) {
        // The system reserves the largest id.
        Some(u32::MAX) => Err(argument.bad("4294967295 is not a valid ID")),
        Some(number) => Ok(OwnerAccount::Id(number)),
        None => name(argument, text).map(OwnerAccount::Name),
    }
}

fn name(argument: Argument<'_>, text: &[u8]) -> Result<Vec<u8>, UsageError> {
    match text.len() {
        0 => Err(argument.bad("empty name")),
        1..=ACCOUNT_NAME_MAX => Ok(text.to_vec()),
        _ => Err(argument.bad("name too long")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Dialect;
    use crate::args::parse::{Command, parse};

    fn of(line: &str) -> Result<OwnerOptions, String> {
        let words = line.split(' ').chain(["a", "b"]).map(Into::into).collect();
        match parse(Dialect::Haul, words, &crate::args::local_files::PlainFiles) {
            Ok(Command::Copy(values, _)) => owners(&values).map_err(|error| error.to_string()),
            other => panic!("{other:?}"),
        }
    }

    fn to(from: OwnerFrom, to: OwnerAccount) -> OwnerMap {
        OwnerMap { from, to }
    }

    fn named(text: &str) -> Vec<u8> {
        text.into()
    }

    #[test]
    fn owners_are_mapped_as_they_are_typed() {
        let by_name = OwnerOptions { by_name: true, ..OwnerOptions::default() };
        assert_eq!(of("-p"), Ok(by_name.clone()));
        assert_eq!(of("--numeric-ids"), Ok(OwnerOptions::default()));
        let users = vec![
            to(OwnerFrom::Ids(0, 99), OwnerAccount::Name(named("nobody"))),
            to(OwnerFrom::Name(named("anna")), OwnerAccount::Id(7)),
            to(OwnerFrom::Nameless, OwnerAccount::Id(8)),
            to(OwnerFrom::Any, OwnerAccount::Name(named("users"))),
        ];
        assert_eq!(of("--usermap 0-99:nobody,anna:7,:8,*:users"), Ok(OwnerOptions { users, ..by_name.clone() }));
        let groups = vec![to(OwnerFrom::Ids(5, 5), OwnerAccount::Id(6))];
        assert_eq!(of("--archive --groupmap 5:6"), Ok(OwnerOptions { groups: groups.clone(), ..by_name.clone() }));
        let all = |name: &str| vec![to(OwnerFrom::Any, OwnerAccount::Name(named(name)))];
        let chowned = OwnerOptions { users: all("anna"), groups: all("users"), ..by_name.clone() };
        assert_eq!(of("--chown anna:users"), Ok(chowned));
        assert_eq!(of("--chown :users"), Ok(OwnerOptions { groups: all("users"), ..by_name }));
    }

    #[test]
    fn meaningless_rules_are_refused() {
        for line in [
            "--usermap anna",
            "--usermap 9-5:anna",
            "--usermap an*:anna",
            "--usermap anna:",
            "--groupmap *:4294967295",
            "--chown :",
        ] {
            assert!(of(line).is_err(), "{line}");
        }
    }
}
