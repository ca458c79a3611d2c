//! The filter rules of a command line, and the directory that rsync keeps out of a copy by one.

use std::os::unix::ffi::OsStrExt;

use haul_proto::filter::RsyncRuleOption;

use super::effective::{Effective, name};
use super::words::RsyncLine;

/// The directory that `--delay-updates` uses without `--partial-dir`.
const DELAYED: &[u8] = b".~tmp~";

/// rsync's directory of partial files beside each file; empty if there is none. haul's are elsewhere.
pub(super) fn partial_dir(effective: &Effective<'_>) -> Vec<u8> {
    let named = effective.argument("partial-dir").map(|directory| directory.as_bytes());
    let named = named.map(|directory| directory.strip_suffix(b"/").unwrap_or(directory));
    let default = if effective.is_on("delay-updates") { DELAYED } else { b"" };
    let found = named.unwrap_or(default);
    let is_one_name = !found.contains(&b'/') && found != b"." && found != b"..";
    if is_one_name { found.to_vec() } else { Vec::new() }
}

/// Attributes of security modules, and file capabilities.
pub(super) const SECURITY: &[u8] = b"security.*";
/// Prefixes of a rule that excludes extended attributes.
const ATTRIBUTE_RULES: [&[u8]; 4] = [b"-x ", b"-x_", b"-,x ", b"exclude,x "];

/// The pattern of a rule that excludes all extended attributes of the kernel or of security modules. haul copies none of
/// the kernel's, and of the others only file capabilities.
fn attribute_rule(rule: &[u8]) -> Option<&[u8]> {
    let pattern = ATTRIBUTE_RULES.iter().find_map(|prefix| rule.strip_prefix(*prefix))?;
    [b"system.*", SECURITY].contains(&pattern).then_some(pattern)
}

/// The patterns of these rules.
pub(super) fn attribute_rules(line: &RsyncLine) -> impl Iterator<Item = &[u8]> {
    let filters = line.options.iter().filter(|typed| typed.option.long == "filter");
    filters.filter_map(|typed| attribute_rule(typed.argument.as_deref()?.as_bytes()))
}

/// The filter rules of all options. CVS's come last.
pub(super) fn rules(line: &RsyncLine, effective: &Effective<'_>) -> Vec<(RsyncRuleOption, Vec<u8>)> {
    let mut rules = Vec::new();
    let mut per_directory = 0;
    for typed in line.options.iter().filter(|typed| !typed.is_negated) {
        let kind = match name(typed).as_str() {
            "filter" => RsyncRuleOption::Filter,
            "include" => RsyncRuleOption::Include,
            "exclude" => RsyncRuleOption::Exclude,
            "include-from" => RsyncRuleOption::IncludeFrom,
            "exclude-from" => RsyncRuleOption::ExcludeFrom,
            "F" => {
                per_directory += 1;
                let rule: &[u8] = if per_directory == 1 { b": /.rsync-filter" } else { b"- .rsync-filter" };
                rules.push((RsyncRuleOption::Filter, rule.to_vec()));
                continue;
            }
            _ => continue,
        };
        let rule = typed.argument.as_deref().map(OsStrExt::as_bytes);
        let rule = rule.filter(|rule| kind != RsyncRuleOption::Filter || attribute_rule(rule).is_none());
        rules.extend(rule.map(|rule| (kind, rule.to_vec())));
    }
    let partial_dir = partial_dir(effective);
    if !partial_dir.is_empty() {
        rules.push((RsyncRuleOption::Filter, [b"-p ", &partial_dir[..], b"/"].concat()));
    }
    if effective.is_on("cvs-exclude") {
        rules.extend([&b":C"[..], b"-C"].map(|rule| (RsyncRuleOption::Filter, rule.to_vec())));
    }
    rules
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_for_attributes_concern_whole_namespaces_that_are_not_copied() {
        let line =
            |rules: &[&str]| RsyncLine::parse(rules.iter().map(|rule| format!("-f{rule}").into()).collect()).unwrap();
        let typed = line(&["-x_system.*", "exclude,x security.*", "- a"]);
        assert_eq!(attribute_rules(&typed).collect::<Vec<_>>(), [b"system.*", SECURITY]);
        assert_eq!(rules(&typed, &Effective::of(&typed)), [(RsyncRuleOption::Filter, b"- a".to_vec())]);
        let typed = line(&["-x user.*", "+x security.*", "-x security.capability"]);
        assert_eq!((attribute_rules(&typed).count(), rules(&typed, &Effective::of(&typed)).len()), (0, 3));
    }
}
