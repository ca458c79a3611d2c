//! Extended attributes, access control lists among them: scans compare digests, and actions bring the attributes.

use super::ReplicaSide;
use crate::codec::{OfType, wire_enum, wire_struct};
use crate::encoding::Writer;
use crate::entry_extras::ExtendedAttribute;
use crate::field_codecs::list;
use crate::integrity::Digest;
use crate::limits::ATTRIBUTES_MAX;

wire_struct! {
    /// Attributes of an entry.
    #[derive(Debug, Clone, PartialEq, Eq, Default)]
    pub struct AttributeList {
        /// They.
        pub attributes: Vec<ExtendedAttribute> as list(OfType, ATTRIBUTES_MAX, "attributes of an entry"),
    }
}

wire_enum! {
    /// Attributes of the entry that an action leaves.
    #[derive(Debug, Clone, PartialEq, Eq, Default)]
    pub enum ActionAttributes: "attributes of an action" {
        /// They stay as they are.
        #[default]
        Kept = 1,
        /// Those of the path at this side. The controller fetches them before the action.
        Of(side: ReplicaSide) = 2,
        /// These.
        Given(list: AttributeList) = 3,
    }
}

impl ActionAttributes {
    /// Returns the bytes that they take in a message.
    pub fn bytes(&self) -> usize {
        if let Self::Given(list) = self { list.bytes() } else { 0 }
    }
}

/// Tags of an access control list's entries whose rights the mode has, too (acl(5)): owner, mask and others.
const MODE_TAGS: [u8; 3] = [0x01, 0x10, 0x20];

impl AttributeList {
    /// Returns the bytes that it takes in a message.
    pub fn bytes(&self) -> usize {
        self.attributes.iter().map(|attribute| attribute.name.len() + attribute.value.len()).sum()
    }

    /// Returns their digest, in whichever order they are; zeros where there are none. The part of an access control list
    /// that repeats the mode is left out: it changes with the mode.
    pub fn digest(&self) -> Digest {
        let mut sorted: Vec<_> = self.attributes.iter().collect();
        sorted.sort_unstable_by(|one, two| one.name.cmp(&two.name));
        let mut out = Writer::new();
        for ExtendedAttribute { name, value } in sorted {
            let mut value = value.to_vec();
            if **name == *b"system.posix_acl_access" {
                let entries = value.get_mut(4..).into_iter().flat_map(|entries| entries.chunks_exact_mut(8));
                entries.filter(|entry| MODE_TAGS.contains(&entry[0])).for_each(|entry| entry[2..4].fill(0));
            }
            out.bytes(name).bytes(&value);
        }
        if self.attributes.is_empty() { Digest::default() } else { *blake3::hash(&out.into_bytes()).as_bytes() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list_of(attributes: &[(&str, &[u8])]) -> AttributeList {
        let one =
            |(name, value): &(&str, &[u8])| ExtendedAttribute { name: name.as_bytes().into(), value: (*value).into() };
        AttributeList { attributes: attributes.iter().map(one).collect() }
    }

    #[test]
    fn names_and_values_count_and_their_order_does_not() {
        let digest = |attributes: &[(&str, &[u8])]| list_of(attributes).digest();
        assert_eq!(digest(&[]), Digest::default());
        assert_eq!(digest(&[("user.a", b"1"), ("user.b", b"2")]), digest(&[("user.b", b"2"), ("user.a", b"1")]));
        assert_ne!(digest(&[("user.a", b"12")]), digest(&[("user.a1", b"2")]));
        assert_ne!(digest(&[("user.a", b"")]), Digest::default());
    }

    #[test]
    fn a_mode_within_an_access_control_list_does_not_count() {
        // user::, user:7:, mask:: and other::.
        let acl = |owner: u8, named: u8, mask: u8| {
            let entry = |tag: u8, rights: u8, id: u8| [tag, 0, rights, 0, id, 0, 0, 0];
            let entries = [entry(1, owner, 255), entry(2, named, 7), entry(0x10, mask, 255), entry(0x20, 0, 255)];
            [vec![2, 0, 0, 0], entries.concat()].concat()
        };
        let digest = |acl: Vec<u8>| list_of(&[("system.posix_acl_access", &acl)]).digest();
        assert_eq!(digest(acl(7, 4, 5)), digest(acl(6, 4, 4)));
        assert_ne!(digest(acl(7, 4, 5)), digest(acl(7, 6, 5)));
        assert_ne!(digest(vec![2, 0]), digest(vec![2]));
    }
}
