//! Random trees: a source, and a changed version of it elsewhere.

use std::collections::BTreeMap;

use haul_e2e::Rng;

/// A path below a tree's root; the root itself is empty.
pub type Path = Vec<u8>;
/// The index of a name's inode.
type Id = usize;

/// Seconds and nanoseconds.
pub type Time = (i64, u32);

/// A tree: names and their inodes. Several names may have the same file.
#[derive(Debug, Clone, Default)]
pub struct Tree {
    /// By path: a directory comes before its contents.
    pub names: BTreeMap<Path, Id>,
    /// Their inodes; some may have no name any more.
    pub inodes: Vec<Inode>,
}

/// A name's inode.
#[derive(Debug, Clone)]
pub struct Inode {
    /// Its kind.
    pub kind: Kind,
    /// Permission bits.
    pub mode: u32,
    /// User and group.
    pub owner: (u32, u32),
    /// Its time of modification.
    pub time: Time,
    /// `user.*` attributes.
    pub attributes: BTreeMap<String, Vec<u8>>,
    /// Whether it has an access control list.
    pub has_list: bool,
}

/// The kind of an inode.
#[derive(Debug, Clone, PartialEq)]
pub enum Kind {
    /// A directory.
    Directory,
    /// A file with this seed's content, and optionally holes at every other 512 KiB.
    File { seed: u64, bytes: u64, has_holes: bool },
    /// A link to this.
    Symlink(Vec<u8>),
    /// A FIFO.
    Fifo,
}

/// The owner of the trees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Owners, capabilities and any modes.
    Root,
    /// All of it belongs to this user, who copies it. Directories and files may be read-only.
    User(u32),
    /// All of it belongs to this process, which is not root.
    Own,
}

/// Turns a generator's numbers into trees.
pub struct Maker {
    rng: Rng,
    scope: Scope,
    /// A target's entries may have any mode; a source must be readable.
    is_target: bool,
}

/// cap_net_raw, effective (linux/capability.h).
const CAPABILITY: [u8; 20] = [1, 0, 0, 2, 0, 32, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

/// Names beside plain ones.
const NAMES: [&[u8]; 14] = [
    b"a",
    b"a ",
    b"a.b",
    b"-n",
    b"--delete",
    b"new\nline",
    b"\xff\xfe bytes",
    b"t\xc3\xa4g",
    b"tab\there",
    b"*?[x]",
    b"back\\slash",
    b"#comment",
    b"\x01\x1b[31m",
    b"%s$HOME`id`",
];

impl Maker {
    /// From this seed.
    pub fn new(seed: u64, scope: Scope) -> Self {
        Self { rng: Rng::new(seed), scope, is_target: false }
    }

    /// One of these.
    pub fn pick(&mut self, from: &[&'static str]) -> &'static str {
        self.rng.pick(from)
    }

    fn small(&mut self, end: u64) -> u32 {
        u32::try_from(self.rng.below(end)).expect("it is small")
    }

    /// Some tree.
    pub fn tree(&mut self) -> Tree {
        let mut tree = Tree::default();
        let root = self.root();
        tree.add(Path::new(), root);
        let count = match self.rng.below(10) {
            0 => self.rng.below(4),
            1 => self.rng.between(40, 120),
            _ => self.rng.between(4, 30),
        };
        for _ in 0..count {
            let parent = tree.directory(&mut self.rng);
            self.something(&mut tree, &parent);
        }
        if self.rng.chance(30) {
            let mut deep = tree.directory(&mut self.rng);
            for _ in 0..60 {
                deep = below(&deep, b"d");
                let directory = self.inode(Kind::Directory);
                tree.add(deep.clone(), directory);
            }
            self.something(&mut tree, &deep);
        }
        tree
    }

    /// An existing target of `source`: the same, part of it, or something else.
    pub fn target(&mut self, source: &Tree) -> Tree {
        self.is_target = true;
        match self.rng.below(12) {
            0 => {
                let mut empty = Tree::default();
                let root = self.root();
                empty.add(Path::new(), root);
                empty
            }
            1 => self.tree(),
            2 => source.clone(),
            _ => {
                let mut tree = source.clone();
                let changes = self.rng.log_between(1, 2 + tree.names.len() as u64);
                (0..changes).for_each(|_| self.change(&mut tree));
                tree
            }
        }
    }

    /// The tree's own directory; its owner can enter it.
    fn root(&mut self) -> Inode {
        let root = self.inode(Kind::Directory);
        Inode { has_list: root.has_list && !matches!(self.scope, Scope::User(_)), ..root }
    }

    /// One entry in a directory.
    fn something(&mut self, tree: &mut Tree, parent: &[u8]) {
        let path = below(parent, &self.name());
        if tree.names.contains_key(&path) {
            return;
        }
        if self.rng.chance(80)
            && let Some(other) = tree.some(&mut self.rng, |kind| *kind != Kind::Directory)
        {
            match self.rng.chance(700) {
                true => drop(tree.names.insert(path, tree.names[&other])),
                // Equal, and a file of its own.
                false => tree.add(path, tree.inodes[tree.names[&other]].clone()),
            }
            return;
        }
        let kind = self.kind();
        let inode = self.inode(kind);
        tree.add(path, inode);
    }

    fn kind(&mut self) -> Kind {
        match self.rng.below(20) {
            0..=3 => Kind::Directory,
            4 | 5 => Kind::Symlink(self.name()),
            6 => Kind::Fifo,
            _ => self.content(),
        }
    }

    fn content(&mut self) -> Kind {
        let bytes = match self.rng.below(100) {
            0..=9 => 0,
            10..=89 => self.rng.between(1, 6_000),
            90..=96 => self.rng.between(6_000, 300_000),
            _ => self.rng.between(300_000, 3 << 20),
        };
        Kind::File { seed: self.rng.number(), bytes, has_holes: self.rng.chance(300) }
    }

    fn inode(&mut self, kind: Kind) -> Inode {
        let mut inode = Inode {
            kind,
            mode: 0o644,
            owner: self.owner(),
            time: self.time(),
            attributes: BTreeMap::new(),
            has_list: false,
        };
        self.set_mode(&mut inode);
        self.set_owner(&mut inode);
        if self.rng.chance(100) {
            self.set_attributes(&mut inode);
        }
        inode
    }

    fn owner(&self) -> (u32, u32) {
        match self.scope {
            Scope::User(user) => (user, user),
            Scope::Root | Scope::Own => (0, 0),
        }
    }

    fn set_mode(&mut self, inode: &mut Inode) {
        let own = if inode.kind == Kind::Directory { 0o700 } else { 0o600 };
        let unusual = match self.scope {
            Scope::Root => 0,
            Scope::Own => own,
            Scope::User(_) => own & 0o500,
        };
        inode.mode = match self.rng.below(8) {
            0 => self.small(0o1000) | unusual,
            1 if self.scope == Scope::Root => self.small(0o10000),
            2 => own,
            3 | 4 if matches!(self.scope, Scope::User(_)) => unusual | 0o44,
            _ => own | 0o44,
        };
    }

    fn set_owner(&mut self, inode: &mut Inode) {
        if self.scope == Scope::Root && self.rng.chance(100) {
            inode.owner = (self.small(4), 65_000 + self.small(3));
        }
    }

    /// Neither links nor FIFOs can have any.
    fn set_attributes(&mut self, inode: &mut Inode) {
        if !matches!(inode.kind, Kind::Directory | Kind::File { .. }) {
            return;
        }
        let count = self.rng.below(4);
        let mut one = || (format!("user.{}", self.rng.below(5)), self.rng.bytes(3));
        inode.attributes = (0..count).map(|_| one()).collect();
        if self.scope == Scope::Root && matches!(inode.kind, Kind::File { .. }) && self.rng.chance(300) {
            inode.attributes.insert("security.capability".into(), CAPABILITY.to_vec());
        }
        // The list lets a directory's owner not enter it.
        let is_closed = matches!(self.scope, Scope::User(_)) && inode.kind == Kind::Directory && !self.is_target;
        inode.has_list = self.rng.chance(200) && !is_closed;
    }

    fn time(&mut self) -> Time {
        let nanoseconds = if self.rng.chance(200) { 0 } else { self.small(1_000_000_000) };
        let first = if self.rng.chance(30) { -5_000_000_000 } else { 900_000_000 };
        (first + i64::from(self.small(1_000_000_000)), nanoseconds)
    }

    fn name(&mut self) -> Path {
        match self.rng.below(20) {
            0..=3 => self.rng.pick(&NAMES).to_vec(),
            4 => vec![b'n'; 200 + self.rng.index(56)],
            _ => format!("{:x}", self.rng.below(400)).into_bytes(),
        }
    }

    /// Something that happens to a tree.
    fn change(&mut self, tree: &mut Tree) {
        let Some(path) = tree.some(&mut self.rng, |_| true) else { return };
        let id = tree.names[&path];
        let is_root = path.is_empty();
        let mut inode = tree.inodes[id].clone();
        match self.rng.below(14) {
            0 | 1 if !is_root => tree.remove(&path),
            2 | 3 => {
                let parent = tree.directory(&mut self.rng);
                self.something(tree, &parent);
            }
            4 if !is_root => {
                let to = below(&tree.directory(&mut self.rng), &self.name());
                tree.rename(&path, &to);
            }
            5 if !is_root => {
                tree.remove(&path);
                let kind = self.kind();
                let inode = self.inode(kind);
                let is_directory = inode.kind == Kind::Directory;
                tree.add(path.clone(), inode);
                (0..3).filter(|_| is_directory).for_each(|_| self.something(tree, &path));
            }
            6 => inode.time = self.time(),
            // By less than a second.
            7 => inode.time.1 = (inode.time.1 + 1) % 1_000_000_000,
            // A user's target entries may lack all permissions.
            8 if !is_root && matches!(self.scope, Scope::User(_)) => {
                inode.mode = self.small(0o1000);
            }
            8 => self.set_mode(&mut inode),
            9 => self.set_owner(&mut inode),
            // Nobody opens the target itself where its owner may not.
            10 if is_root && matches!(self.scope, Scope::User(_)) => {}
            10 => self.set_attributes(&mut inode),
            11 if matches!(inode.kind, Kind::File { .. }) => {
                inode.kind = self.content();
                inode.time = self.time();
            }
            // Of the same size.
            12 if matches!(inode.kind, Kind::File { .. }) => {
                if let Kind::File { seed, .. } = &mut inode.kind {
                    *seed = self.rng.number();
                }
                inode.time = self.time();
            }
            13 if matches!(inode.kind, Kind::File { .. }) => return self.relink(tree, &path),
            _ if matches!(inode.kind, Kind::Symlink(_)) => inode.kind = Kind::Symlink(self.name()),
            _ => {}
        }
        // Whatever has become of its names.
        tree.inodes[id] = inode;
    }

    /// Makes a name a separate file, or a hard link to another one.
    fn relink(&mut self, tree: &mut Tree, path: &[u8]) {
        let own = tree.inodes[tree.names[path]].kind.clone();
        let only_equal = self.rng.chance(700);
        let other = tree.some(&mut self.rng, |kind| matches!(kind, Kind::File { .. }) && (!only_equal || *kind == own));
        let id = match other.filter(|_| self.rng.chance(500)) {
            Some(other) => tree.names[&other],
            None => {
                tree.inodes.push(tree.inodes[tree.names[path]].clone());
                tree.inodes.len() - 1
            }
        };
        tree.names.insert(path.to_vec(), id);
    }
}

impl Tree {
    fn add(&mut self, path: Path, inode: Inode) {
        self.inodes.push(inode);
        self.names.insert(path, self.inodes.len() - 1);
    }

    /// A name with such an inode.
    fn some(&self, rng: &mut Rng, is_such: impl Fn(&Kind) -> bool) -> Option<Path> {
        let such: Vec<_> =
            self.names.iter().filter(|(_, id)| is_such(&self.inodes[**id].kind)).map(|(path, _)| path).collect();
        (!such.is_empty()).then(|| such[rng.index(such.len())].clone())
    }

    fn directory(&self, rng: &mut Rng) -> Path {
        self.some(rng, |kind| *kind == Kind::Directory).unwrap_or_default()
    }

    /// With all that is in it.
    fn remove(&mut self, path: &[u8]) {
        self.names.retain(|name, _| !is_within(path, name));
    }

    /// With all that is in it, unless there is something, or it would be in itself.
    fn rename(&mut self, from: &[u8], to: &[u8]) {
        if self.names.contains_key(to) || is_within(from, to) {
            return;
        }
        let moved: Vec<_> = self.names.keys().filter(|name| is_within(from, name)).cloned().collect();
        for name in moved {
            if let Some(id) = self.names.remove(&name) {
                self.names.insert([to, &name[from.len()..]].concat(), id);
            }
        }
    }
}

/// One of each kind, and a file with two names.
pub fn example() -> Tree {
    let inode = |kind| Inode {
        kind,
        mode: 0o640,
        owner: (0, 0),
        time: (1_000_000_000, 5),
        attributes: BTreeMap::new(),
        has_list: false,
    };
    let mut tree = Tree::default();
    let file = Kind::File { seed: 1, bytes: 3 << 20, has_holes: true };
    let kinds = [Kind::Directory, Kind::Directory, file, Kind::Symlink(b"file".to_vec()), Kind::Fifo];
    for (name, kind) in ["", "dir", "file", "link", "pipe"].into_iter().zip(kinds) {
        tree.add(name.into(), Inode { mode: 0o750, ..inode(kind) });
    }
    tree.names.insert(b"dir/other".to_vec(), tree.names[&b"file"[..]]);
    tree
}

/// Variations of the example, each with its change. The first has none.
pub fn changed_examples(owners: bool) -> Vec<(&'static str, Tree)> {
    let mut all = vec![("", example())];
    let mut with = |what, path: &str, change: &dyn Fn(&mut Inode)| {
        let mut tree = example();
        let id = tree.names[path.as_bytes()];
        change(&mut tree.inodes[id]);
        all.push((what, tree));
    };
    for path in ["", "dir", "file", "link", "pipe"] {
        with("a time", path, &|inode| inode.time.1 += 1);
    }
    for path in ["", "dir", "file", "pipe"] {
        with("a mode", path, &|inode| inode.mode = 0o700);
    }
    for path in ["dir", "file"] {
        with("an attribute", path, &|inode| drop(inode.attributes.insert("user.1".into(), b"1".to_vec())));
        with("a list", path, &|inode| inode.has_list = true);
    }
    for path in ["", "dir", "file", "link", "pipe"].into_iter().filter(|_| owners) {
        with("an owner", path, &|inode| inode.owner = (0, 7));
    }
    with("contents", "file", &|inode| inode.kind = Kind::File { seed: 2, bytes: 3 << 20, has_holes: true });
    with("holes", "file", &|inode| inode.kind = Kind::File { seed: 1, bytes: 3 << 20, has_holes: false });
    with("what it points to", "link", &|inode| inode.kind = Kind::Symlink(b"dir".to_vec()));
    with("what it is", "pipe", &|inode| inode.kind = Kind::Directory);
    let mut names = |what, change: &dyn Fn(&mut Tree)| {
        let mut tree = example();
        change(&mut tree);
        all.push((what, tree));
    };
    names("one is missing", &|tree| tree.remove(b"pipe"));
    names("one too many", &|tree| tree.add(b"dir/more".to_vec(), tree.inodes[0].clone()));
    names("a file by itself", &|tree| {
        let own = tree.inodes[tree.names[&b"file"[..]]].clone();
        tree.add(b"dir/other".to_vec(), own);
    });
    all
}

fn is_within(path: &[u8], name: &[u8]) -> bool {
    name == path || name.strip_prefix(path).is_some_and(|rest| rest.first() == Some(&b'/'))
}

fn below(parent: &[u8], name: &[u8]) -> Path {
    match parent.is_empty() {
        true => name.to_vec(),
        false => [parent, b"/", name].concat(),
    }
}
