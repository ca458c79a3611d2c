//! Extended attributes of a replica's files and directories.

use std::io;
use std::os::fd::AsFd;

use haul_base::sys::describe::describe;
use haul_proto::path::{Name, escape};
use haul_proto::twoway::attributes::AttributeList;
use haul_proto::twoway::entry::{ReplicaContent, ReplicaEntry};
use haul_proto::twoway::merge::MetadataRules;
use haul_proto::wire::preserve::PreserveOptions;

use crate::fs::attributes::{RefusedAttribute, put_as_owner, read};
use crate::fs::{Dir, FollowLinks};

fn preserved(rules: &MetadataRules) -> PreserveOptions {
    PreserveOptions { attributes: rules.attributes, acls: rules.acls, ..PreserveOptions::default() }
}

/// Reads the attributes that are synchronised.
pub fn read_attributes(dir: &Dir, name: &Name, rules: &MetadataRules) -> io::Result<AttributeList> {
    let mut attributes = read(dir.open_unseen(name, FollowLinks::Itself)?, preserved(rules))?;
    attributes.retain(|attribute| rules.has_attribute(&attribute.name));
    Ok(AttributeList { attributes })
}

/// Completes an entry with the digest of its attributes. Links and special files have none.
pub fn add_attributes(entry: &mut ReplicaEntry, dir: &Dir, name: &Name, rules: &MetadataRules) -> io::Result<()> {
    if rules.any_attributes() && matches!(entry.content, ReplicaContent::Directory | ReplicaContent::File { .. }) {
        entry.metadata.attributes = read_attributes(dir, name, rules)?.digest();
    }
    Ok(())
}

/// Gives an open file or directory these attributes, and leaves those that are not synchronised.
pub fn set_attributes(file: impl AsFd, wanted: &AttributeList, rules: &MetadataRules) -> io::Result<()> {
    let others = read(&file, preserved(rules))?.into_iter().filter(|there| !rules.has_attribute(&there.name));
    let wanted: Vec<_> = wanted.attributes.iter().cloned().chain(others).collect();
    match put_as_owner(file, &wanted, preserved(rules)) {
        None => Ok(()),
        Some(RefusedAttribute { name, error }) => {
            Err(io::Error::other(format!("attribute {}: {}", escape(&name), describe(&error))))
        }
    }
}
