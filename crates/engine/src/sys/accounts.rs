//! Users and groups of this machine by name and number, from its own files (passwd(5), group(5)). Those of a directory
//! service are not found: a statically linked executable cannot query one.

use std::collections::HashMap;
use std::path::Path;

/// Most bytes read of a file.
const FILE_MAX: u64 = 64 << 20;

/// Users, or groups.
#[derive(Debug, Default)]
pub struct Accounts {
    names: HashMap<u32, Box<[u8]>>,
    ids: HashMap<Box<[u8]>, u32>,
}

impl Accounts {
    /// The users.
    pub fn users() -> Self {
        Self::read(Path::new("/etc/passwd"))
    }

    /// The groups.
    pub fn groups() -> Self {
        Self::read(Path::new("/etc/group"))
    }

    fn read(path: &Path) -> Self {
        use std::io::Read;
        let mut text = Vec::new();
        let read = std::fs::File::open(path).and_then(|file| file.take(FILE_MAX).read_to_end(&mut text));
        if read.is_ok() { Self::parse(&text) } else { Self::default() }
    }

    /// Both files have the name in the first field, and the number in the third. The first entry of a number counts.
    pub(crate) fn parse(text: &[u8]) -> Self {
        let mut accounts = Self::default();
        for line in text.split(|byte| *byte == b'\n') {
            let mut fields = line.split(|byte| *byte == b':');
            let (Some(name), Some(id)) = (fields.next(), fields.nth(1)) else { continue };
            let Some(id) = std::str::from_utf8(id).ok().and_then(|id| id.parse().ok()) else { continue };
            if !name.is_empty() && !name.starts_with(b"#") {
                accounts.names.entry(id).or_insert_with(|| name.into());
                accounts.ids.entry(name.into()).or_insert(id);
            }
        }
        accounts
    }

    /// The name of a number.
    pub fn name(&self, id: u32) -> Option<&[u8]> {
        self.names.get(&id).map(|name| &**name)
    }

    /// The number of a name.
    pub fn id(&self, name: &[u8]) -> Option<u32> {
        self.ids.get(name).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_are_found() {
        let accounts =
            Accounts::parse(b"root:x:0:0::/root:/bin/sh\n# a:x:7:\nbad\n\na:x:1000:\nb:x:1000:\n:x:5:\n+::::\n");
        assert_eq!((accounts.name(0), accounts.id(b"root")), (Some(&b"root"[..]), Some(0)));
        assert_eq!((accounts.name(1000), accounts.id(b"b")), (Some(&b"a"[..]), Some(1000)));
        assert_eq!((accounts.name(7), accounts.name(5), accounts.id(b"bad")), (None, None, None));
        assert_eq!(Accounts::users().id(b"root"), Some(0));
        assert!(Accounts::read(Path::new("/nonexistent")).names.is_empty());
    }
}
