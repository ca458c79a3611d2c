//! Rules that change the modes of a source's entries: those of chmod(1), and rsync's prefixes for types of entries.

use crate::codec::{wire_enum, wire_struct};
use crate::entry::BAD_MODE;
use crate::field_codecs::AtMost;
use crate::limits::MODE_RULES_MAX;

const MODE_MAX: u16 = 0o7777;
const BITS: AtMost<u16> = AtMost(MODE_MAX, BAD_MODE);
const PERMISSIONS: u16 = 0o777;
const EXECUTE: u16 = 0o111;
const SETUID: u16 = 0o4000;
const SETGID: u16 = 0o2000;
const STICKY: u16 = 0o1000;

wire_struct! {
    /// A change of modes.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
    pub struct ModeRule {
        /// Entries that it changes.
        pub scope: ModeScope,
        /// Bits that it clears first.
        pub clear: u16 as BITS,
        /// What it does then.
        pub change: ModeChange,
    }
}

wire_enum! {
    /// Entries whose modes a rule changes. Symbolic links have none.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
    pub enum ModeScope: "scope of modes" {
        /// All.
        All = 0,
        /// Directories.
        Directories = 1,
        /// All but directories.
        Files = 2,
    }
}

wire_enum! {
    /// A change of a mode.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
    pub enum ModeChange: "change of modes" {
        /// Sets bits.
        Set {
            /// In all entries.
            bits: u16 as BITS,
            /// In directories, and in files that somebody could execute before the first rule.
            executable: u16 as BITS,
        } = 0,
        /// Clears bits.
        Clear {
            /// The bits.
            bits: u16 as BITS,
        } = 1,
        /// Sets the permissions that a class has before the rule.
        Copy {
            /// The class.
            from: PermissionClass,
            /// The permissions that may be set.
            to: u16 as BITS,
        } = 2,
        /// Clears the permissions that a class has before the rule.
        Remove {
            /// The class.
            from: PermissionClass,
            /// The permissions that may be cleared.
            to: u16 as BITS,
        } = 3,
    }
}

wire_enum! {
    /// A class of permissions.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
    pub enum PermissionClass: "class of permissions" {
        /// The owner's.
        User = 0,
        /// The group's.
        Group = 1,
        /// Those of all others.
        Other = 2,
    }
}

impl ModeRule {
    /// Parses rules that commas separate, such as `Dg+s,u+rwX,F664`. Without a class, a rule respects this umask.
    /// `None` if one is invalid, or if they are more than [`MODE_RULES_MAX`].
    pub fn parse_all(rules: &str, umask: u16) -> Option<Vec<Self>> {
        let rules: Option<Vec<_>> =
            rules.split(',').take(MODE_RULES_MAX + 1).map(|rule| Self::parse(rule, umask)).collect();
        rules.filter(|rules| rules.len() <= MODE_RULES_MAX)
    }

    /// Applies rules in order to a mode.
    pub fn apply_all(rules: &[Self], mode: u16, is_directory: bool) -> u16 {
        let is_executable = is_directory || mode & EXECUTE != 0;
        let applies = |rule: &&Self| match rule.scope {
            ModeScope::All => true,
            ModeScope::Directories => is_directory,
            ModeScope::Files => !is_directory,
        };
        rules.iter().filter(applies).fold(mode, |mode, rule| rule.apply(mode, is_executable))
    }

    fn apply(self, mode: u16, is_executable: bool) -> u16 {
        let rest = mode & !self.clear;
        match self.change {
            ModeChange::Set { bits, executable } => rest | bits | if is_executable { executable } else { 0 },
            ModeChange::Clear { bits } => rest & !bits,
            ModeChange::Copy { from, to } => rest | from.spread(mode) & to,
            ModeChange::Remove { from, to } => rest & !(from.spread(mode) & to),
        }
    }

    fn parse(rule: &str, umask: u16) -> Option<Self> {
        let (scope, rule) = match rule.as_bytes().first()? {
            b'D' => (ModeScope::Directories, &rule[1..]),
            b'F' => (ModeScope::Files, &rule[1..]),
            _ => (ModeScope::All, rule),
        };
        if rule.starts_with(|first: char| first.is_ascii_digit()) {
            let bits = u16::from_str_radix(rule, 8).ok().filter(|bits| *bits <= MODE_MAX)?;
            return Some(Self { scope, clear: MODE_MAX, change: ModeChange::Set { bits, executable: 0 } });
        }
        let (classes, rest) = rule.split_at(rule.find(['+', '-', '='])?);
        let (operator, value) = rest.split_at(1);
        let who = RuleClasses::parse(classes, umask)?;
        let (replaced, change) = if let Some(from) = PermissionClass::parse(value) {
            let to = who.permissions;
            let change = if operator == "-" { ModeChange::Remove { from, to } } else { ModeChange::Copy { from, to } };
            (who.replaced | who.special, change)
        } else {
            let (bits, executable) = who.bits(value)?;
            let change = if operator == "-" {
                ModeChange::Clear { bits: bits | executable }
            } else {
                ModeChange::Set { bits, executable }
            };
            (who.replaced | if bits & !PERMISSIONS != 0 { who.set_ids } else { 0 }, change)
        };
        Some(Self { scope, clear: if operator == "=" { replaced } else { 0 }, change })
    }
}

/// The classes that a rule changes.
struct RuleClasses {
    /// Permissions that it may set.
    permissions: u16,
    /// Permissions that `=` clears.
    replaced: u16,
    /// Special bits that `=` clears with a copy.
    special: u16,
    /// Set-id bits of the named classes.
    set_ids: u16,
}

impl RuleClasses {
    fn parse(classes: &str, umask: u16) -> Option<Self> {
        if classes.is_empty() {
            let (permissions, special) = (PERMISSIONS & !umask, SETUID | SETGID | STICKY);
            return Some(Self { permissions, replaced: PERMISSIONS, special, set_ids: 0 });
        }
        let (mut permissions, mut special) = (0, 0);
        for class in classes.bytes() {
            let (of_class, special_of_class) = match class {
                b'u' => (0o700, SETUID),
                b'g' => (0o070, SETGID),
                b'o' => (0o007, STICKY),
                b'a' => (PERMISSIONS, SETUID | SETGID | STICKY),
                _ => return None,
            };
            permissions |= of_class;
            special |= special_of_class;
        }
        Some(Self { permissions, replaced: permissions, special, set_ids: special & !STICKY })
    }

    /// The bits that letters name, and those for executable entries only.
    fn bits(&self, letters: &str) -> Option<(u16, u16)> {
        let (mut bits, mut executable) = (0, 0);
        for letter in letters.bytes() {
            match letter {
                b'r' => bits |= 0o444 & self.permissions,
                b'w' => bits |= 0o222 & self.permissions,
                b'x' => bits |= EXECUTE & self.permissions,
                b'X' => executable |= EXECUTE & self.permissions,
                // As in rsync, for all others and for no class.
                b's' if self.set_ids == 0 => bits |= SETUID,
                b's' => bits |= self.set_ids,
                b't' => bits |= STICKY,
                _ => return None,
            }
        }
        Some((bits, executable))
    }
}

impl PermissionClass {
    fn parse(letter: &str) -> Option<Self> {
        Some(match letter {
            "u" => Self::User,
            "g" => Self::Group,
            "o" => Self::Other,
            _ => return None,
        })
    }

    /// The permissions of this class, in all classes.
    fn spread(self, mode: u16) -> u16 {
        let shift = match self {
            Self::User => 6,
            Self::Group => 3,
            Self::Other => 0,
        };
        (mode >> shift & 7) * EXECUTE
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::tests::check_round_trip;

    const DIRECTORY: u16 = 0o2751;
    const FILE: u16 = 0o4640;
    const PROGRAM: u16 = 0o6755;

    fn modes(rules: &str) -> [u16; 3] {
        let rules = ModeRule::parse_all(rules, 0o022).unwrap_or_else(|| panic!("{rules}"));
        rules.iter().for_each(|rule| drop(check_round_trip(rule)));
        [(DIRECTORY, true), (FILE, false), (PROGRAM, false)]
            .map(|(mode, is_directory)| ModeRule::apply_all(&rules, mode, is_directory))
    }

    #[test]
    fn rules_change_modes_as_in_chmod() {
        for (rules, expected) in [
            ("D2775,F664", [0o2775, 0o664, 0o664]),
            ("u+rwX,go-w", [0o2751, 0o4640, 0o6755]),
            ("a-x,+X", [0o2751, 0o4640, 0o6755]),
            ("a=rX", [0o2555, 0o4444, 0o6555]),
            ("=rwx", [0o2755, 0o4755, 0o6755]),
            ("+w", [DIRECTORY, FILE, PROGRAM]),
            ("-rwxs", [0o2000, 0, 0o2000]),
            ("g=s", [0o2701, 0o6600, 0o6705]),
            ("u=t", [0o3051, 0o1040, 0o3055]),
            ("o=s", [0o6750, 0o4640, 0o6750]),
            ("g=u", [0o771, 0o4660, 0o4775]),
            ("u-g", [0o2251, 0o4240, 0o6255]),
            ("=u", [0o755, 0o644, 0o755]),
            ("u=,g=,Fo=", [0o2001, 0o4000, 0o6000]),
            ("Dg+X,Fa-x", [0o2751, 0o4640, 0o6644]),
            ("0", [0; 3]),
        ] {
            assert_eq!(
                modes(rules).map(|mode| format!("{mode:o}")),
                expected.map(|mode| format!("{mode:o}")),
                "{rules}"
            );
        }
    }

    #[test]
    fn directories_and_executables_get_execute_permissions_together() {
        let rules = ModeRule::parse_all("a-x,+X", 0).unwrap();
        let cases = [(0o600, true), (0o600, false), (0o610, false)];
        let modes = cases.map(|(mode, is_directory)| ModeRule::apply_all(&rules, mode, is_directory));
        assert_eq!(modes, [0o711, 0o600, 0o711]);
    }

    #[test]
    fn what_is_no_rule_is_refused() {
        for rules in
            ["", ",", "u+r,", "a", "8", "99", "12345", "DF7", "DFa+r", "u+rw-x", "go=u-w", "u+gx", "\u{e9}=r", "+-7"]
        {
            assert_eq!(ModeRule::parse_all(rules, 0o022), None, "{rules}");
        }
        let rules = |count| ModeRule::parse_all(&vec!["u+r"; count].join(","), 0);
        assert_eq!(rules(MODE_RULES_MAX).map(|rules| rules.len()), Some(MODE_RULES_MAX));
        assert_eq!(rules(MODE_RULES_MAX + 1), None);
    }
}
