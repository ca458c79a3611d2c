use std::fs;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use haul_base::control_channel::ControlReader;
use haul_proto::limits::LISTED_ENTRIES_MAX;
use haul_proto::path::Name;
use haul_proto::wire::file_session::FileFailure;
use haul_proto::wire::partials::PartialOutcome;
use tempfile::TempDir;

use super::*;
use crate::receiver::place::temp_names::temporary_name;

struct Session {
    runtime: FileSessionRuntime,
    answers: ControlReader<UnixStream>,
    directory: TempDir,
}

impl Session {
    fn start(rate_bytes_per_s: u64) -> Self {
        Self::in_directory(tempfile::tempdir().unwrap(), rate_bytes_per_s, false)
    }

    fn in_directory(directory: TempDir, rate_bytes_per_s: u64, removes_partials: bool) -> Self {
        let (own, other) = UnixStream::pair().unwrap();
        other.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let changes = Some(ProtectedDirectories::default());
        let rights = FileSessionRights { rate_bytes_per_s, audit: None, changes, removes_partials, umask: 0o022 };
        let runtime = FileSessionRuntime::start(ControlWriter::new(own), rights).unwrap();
        Self { runtime, answers: ControlReader::new(other), directory }
    }

    fn ask(&mut self, operation: FileOperation) -> FileAnswer {
        self.runtime.queue(Ok(operation)).unwrap();
        self.answer()
    }

    fn answer(&mut self) -> FileAnswer {
        let (_, content) = self.answers.next_frame().unwrap().unwrap();
        match WorkerMessage::decode(content).unwrap() {
            WorkerMessage::FileAnswer(answer) => answer,
            other => panic!("{other:?}"),
        }
    }

    fn write(&self, name: &str, contents: &[u8]) -> Vec<u8> {
        let path = self.directory.path().join(name);
        fs::write(&path, contents).unwrap();
        path.as_os_str().as_bytes().to_vec()
    }

    fn open(&mut self, path: &[u8]) -> (u32, OpenFileVersion) {
        match self.ask(FileOperation::Open { path: path.to_vec() }) {
            FileAnswer::Opened { file, version } => (file, version),
            other => panic!("{other:?}"),
        }
    }

    fn read(&mut self, file: u32, offset: u64, length: u32) -> Result<Vec<u8>, FileFailure> {
        match self.ask(FileOperation::Read { file, offset, length }) {
            FileAnswer::Data { bytes } => Ok(bytes),
            FileAnswer::Failed { failure, .. } => Err(failure),
            other => panic!("{other:?}"),
        }
    }

    fn failure(&mut self, path: &[u8]) -> FileFailure {
        match self.ask(FileOperation::Open { path: path.to_vec() }) {
            FileAnswer::Failed { failure, .. } => failure,
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn ranges_of_an_open_file_are_read_until_it_is_closed() {
    let mut session = Session::start(0);
    let path = session.write("file", b"0123456789");
    let (file, version) = session.open(&path);
    assert_eq!(version.size, 10);
    for (offset, length, bytes) in [(0, 4, &b"0123"[..]), (8, 4, b"89"), (10, 4, b""), (u64::MAX, 4, b""), (3, 0, b"")]
    {
        assert_eq!(session.read(file, offset, length).as_deref(), Ok(bytes), "{offset}+{length}");
    }
    assert_eq!(session.ask(FileOperation::Close { file }), FileAnswer::Closed);
    assert_eq!(session.read(file, 0, 4), Err(FileFailure::NotOpen));
    assert_ne!(session.open(&path).0, file, "numbers are not used again");
    let did = session.runtime.did();
    assert_eq!((did.files, did.bytes, did.failed, did.path), (2, 6, 1, escape(&path)));
}

#[test]
fn a_changed_file_is_an_error() {
    type Change = fn(&Path);
    let changes: [(&str, Change); 4] = [
        ("overwritten", |path| fs::write(path, b"abcdefghij").unwrap()),
        ("appended to", |path| fs::write(path, b"0123456789a").unwrap()),
        ("replaced", |path| fs::rename(path.with_extension("new"), path).unwrap()),
        ("removed", |path| fs::remove_file(path).unwrap()),
    ];
    for (what, change) in changes {
        let mut session = Session::start(0);
        let path = session.write("file", b"0123456789");
        session.write("file.new", b"0123456789");
        let (file, _) = session.open(&path);
        // Times have the kernel's resolution.
        thread::sleep(Duration::from_millis(20));
        change(Path::new(OsStr::from_bytes(&path)));
        assert_eq!(session.read(file, 0, 4), Err(FileFailure::Changed), "{what}");
    }
}

#[test]
fn only_regular_files_are_opened() {
    let mut session = Session::start(0);
    let directory = session.directory.path().as_os_str().as_bytes().to_vec();
    let fifo = session.directory.path().join("fifo");
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, FileType::Fifo, 0o600.into(), 0).unwrap();
    assert_eq!(session.failure(&directory), FileFailure::Directory);
    for path in [fifo.as_os_str().as_bytes(), b"/dev/zero"] {
        assert_eq!(session.failure(path), FileFailure::NotRegular);
    }
    assert_eq!(session.failure(&[&directory[..], b"/missing"].concat()), FileFailure::Gone);
    let file = session.write("file", b"");
    assert_eq!(session.failure(&[&file[..], b"/below"].concat()), FileFailure::Gone);
}

#[test]
fn open_files_and_waiting_operations_are_limited() {
    let mut session = Session::start(0);
    let path = session.write("file", b"x");
    let (first, _) = session.open(&path);
    for _ in 1..SESSION_FILES_MAX {
        session.open(&path);
    }
    assert_eq!(session.failure(&path), FileFailure::TooMany);
    assert_eq!(session.ask(FileOperation::Close { file: first }), FileAnswer::Closed);
    session.open(&path);

    // The answers are not read, so the operations wait.
    let large = session.write("large", &vec![7; 4 << 20]);
    let mut slow = Session::start(1 << 20);
    let (file, _) = slow.open(&large);
    let read = || Ok(FileOperation::Read { file, offset: 0, length: 4 << 20 });
    let refused = (0..=FILE_OPERATIONS_AHEAD + 1).find_map(|_| slow.runtime.queue(read()).err());
    assert_eq!(refused, Some(MessageOrderError::FileOperationsAhead));
}

#[test]
fn a_rate_limit_holds() {
    let mut session = Session::start(1 << 20);
    let path = session.write("file", &[7; 512 << 10]);
    let (file, _) = session.open(&path);
    let begun = std::time::Instant::now();
    assert_eq!(session.read(file, 0, 512 << 10).map(|bytes| bytes.len()), Ok(512 << 10));
    assert!(begun.elapsed() > Duration::from_millis(300), "{:?}", begun.elapsed());
}

#[test]
fn a_refused_operation_is_answered_and_the_session_continues() {
    let mut session = Session::start(0);
    let path = session.write("file", b"x");
    session.runtime.queue(Err(ClientRefusal::OutsidePath(b"../x".to_vec()))).unwrap();
    assert!(matches!(session.answer(), FileAnswer::Failed { failure: FileFailure::Denied, .. }));
    session.open(&path);
}

#[test]
fn partial_files_are_found_in_pieces_and_removed_only_by_right() {
    let mut session = Session::start(0);
    let directory = session.directory.path().as_os_str().as_bytes().to_vec();
    let count = LISTED_ENTRIES_MAX + 2;
    let name = temporary_name(&Name::new(b"file").unwrap(), b"file").to_string();
    for number in 0..count {
        fs::create_dir(session.directory.path().join(number.to_string())).unwrap();
        session.write(&format!("{number}/{name}"), b"");
    }
    session.write("0/file", b"kept");
    let find = |removes| FileOperation::FindPartials { path: directory.clone(), journals: Vec::new(), removes };
    let of = |answer| match answer {
        FileAnswer::Partials { search, found, is_last, .. } => (search, found, is_last),
        other => panic!("{other:?}"),
    };
    assert!(matches!(session.ask(find(true)), FileAnswer::Failed { failure: FileFailure::Denied, .. }));
    let (search, found, is_last) = of(session.ask(find(false)));
    assert!(!is_last && found.len() < count && found.iter().all(|found| found.outcome == PartialOutcome::Shown));
    let mut listed = found.len();
    loop {
        let (_, found, is_last) = of(session.ask(FileOperation::FindPartialsOn { search }));
        listed += found.len();
        if is_last {
            break;
        }
    }
    assert_eq!(listed, count);
    let ended = session.ask(FileOperation::FindPartialsOn { search });
    assert!(matches!(ended, FileAnswer::Failed { failure: FileFailure::NotOpen, .. }));

    let mut session = Session::in_directory(session.directory, 0, true);
    let (search, found, _) = of(session.ask(find(true)));
    assert_eq!(session.ask(FileOperation::Close { file: search }), FileAnswer::Closed);
    assert!(found.iter().all(|found| found.outcome == PartialOutcome::Removed));
    let is_left = |number: &usize| session.directory.path().join(format!("{number}/{name}")).exists();
    assert_eq!((0..count).filter(is_left).count(), count - found.len());
    assert!(session.directory.path().join("0/file").exists());
}
