//! A served worker's totals for its server, over standard error.

/// The result of a served worker.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WorkAccount {
    /// The work, if any.
    pub did: Option<WorkDone>,
    /// The reason for a failure, if known; one line.
    pub why: Option<String>,
    /// Whether the worker ended before its copy started.
    pub is_idle: bool,
}

/// Work of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkDone {
    /// Its kind.
    pub what: WorkKind,
    /// Files found, received or compared; entries made or removed.
    pub files: u64,
    /// Sent, received or compared bytes.
    pub bytes: u64,
    /// Entries that failed.
    pub failed: u64,
    /// The first requested path, escaped.
    pub path: String,
}

/// The kind of a worker's work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkKind {
    /// It was the source.
    Sent,
    /// It was the target.
    Received,
    /// It compared, as source or target.
    Compared,
    /// It made a directory.
    Made,
    /// It removed entries.
    Removed,
}

/// Prefix of a line about completed work.
const DID: &str = "HAUL-DID ";
/// A line about a copy that never started.
const IDLE: &str = "HAUL-IDLE";
/// Prefix of a line with the reason for failure.
const WHY: &str = "HAUL-WHY ";

impl WorkKind {
    /// All kinds.
    pub const ALL: [Self; 5] = [Self::Sent, Self::Received, Self::Compared, Self::Made, Self::Removed];

    /// The name in the log.
    pub fn word(self) -> &'static str {
        match self {
            Self::Sent => "sent",
            Self::Received => "received",
            Self::Compared => "compared",
            Self::Made => "made",
            Self::Removed => "removed",
        }
    }

    fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|what| what.word() == word)
    }
}

impl WorkAccount {
    /// The lines that a worker sends to its server.
    pub fn lines(&self) -> Vec<String> {
        let why = self.why.as_ref().map(|why| format!("{WHY}{}", why.lines().next().unwrap_or_default()));
        let idle = self.is_idle.then(|| IDLE.to_owned());
        self.did.as_ref().map(WorkDone::line).into_iter().chain(why).chain(idle).collect()
    }

    /// Parses a worker's lines; others are skipped.
    pub fn parse<'l>(lines: impl Iterator<Item = &'l str>) -> Self {
        let mut account = Self::default();
        for line in lines {
            account.did = WorkDone::parse(line).or(account.did);
            account.is_idle |= line == IDLE;
            account.why = line.strip_prefix(WHY).map(str::to_owned).or(account.why);
        }
        account
    }
}

impl WorkDone {
    fn line(&self) -> String {
        let Self { what, files, bytes, failed, path } = self;
        format!("{DID}{} {files} {bytes} {failed} {path}", what.word())
    }

    fn parse(line: &str) -> Option<Self> {
        let mut words = line.strip_prefix(DID)?.splitn(5, ' ');
        let what = WorkKind::from_word(words.next()?)?;
        let mut number = || words.next()?.parse().ok();
        let (files, bytes, failed) = (number()?, number()?, number()?);
        Some(Self { what, files, bytes, failed, path: words.next()?.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_round_trip() {
        let did = WorkDone { what: WorkKind::Compared, files: 3, bytes: 1 << 40, failed: 0, path: "./a b".into() };
        for (did, why) in [(Some(did), None), (None, Some("no\nway"))] {
            let account = WorkAccount { is_idle: why.is_some(), did, why: why.map(str::to_owned) };
            let lines = account.lines();
            let lines = ["haul: HAUL-DID sent", "HAUL-DID sent 1"].into_iter().chain(lines.iter().map(String::as_str));
            let read = WorkAccount::parse(lines);
            assert_eq!(read.is_idle, account.is_idle);
            assert_eq!((read.did, read.why.as_deref()), (account.did, why.and_then(|why| why.lines().next())));
        }
    }
}
