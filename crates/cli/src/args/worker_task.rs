//! The command line of a worker, written by haul only.

use std::ffi::OsString;

use haul_engine::worker::client_limits::ClientLimits;

/// A worker's task.
#[derive(Debug, PartialEq, Eq)]
pub enum WorkerTask {
    /// Read a Request from standard input and execute it. These descriptors are the caller's standard input and output.
    Run { input: Option<i32>, output: Option<i32> },
    /// Supervise a program, a line of shell; the first word ends with its marker.
    Keep(String, OsString),
    /// Replace ssh: relay data between standard streams and a server.
    Dial {
        /// Name or address.
        host: String,
        /// Its port.
        port: u16,
        /// The directory there.
        directory: String,
    },
    /// Work for a server within these limits, in this directory or with this program.
    Served(ClientLimits, OsString),
    /// Print the version.
    Identify,
    /// Check this executable's SHA-256 digest (64 hexadecimal digits).
    Verify(String),
}

/// Parses a worker's command line; `None` for any other one.
pub fn worker_task(words: &[OsString]) -> Option<WorkerTask> {
    if let [worker, word, command] = words
        && worker == "worker"
        && let Some(word) = word.to_str().filter(|word| word.starts_with("--keep-"))
    {
        return Some(WorkerTask::Keep(word.to_owned(), command.clone()));
    }
    let last = words.last();
    let words: Vec<_> = words.iter().map(|word| word.to_str().unwrap_or_default()).collect();
    if let (["worker", "--served", terms @ .., _], Some(directory)) = (&words[..], last)
        && let Some(terms) = ClientLimits::from_words(terms)
    {
        return Some(WorkerTask::Served(terms, directory.clone()));
    }
    match words.as_slice() {
        ["worker"] => Some(WorkerTask::Run { input: None, output: None }),
        ["worker", "--dial", host, port, directory] => {
            let port = port.parse().ok()?;
            Some(WorkerTask::Dial { host: (*host).to_owned(), port, directory: (*directory).to_owned() })
        }
        ["worker", "--identify"] => Some(WorkerTask::Identify),
        ["worker", "--verify", hex] => Some(WorkerTask::Verify((*hex).to_owned())),
        ["worker", words @ ..]
            if words.iter().all(|word| descriptor("--input=", word).or(descriptor("--output=", word)).is_some()) =>
        {
            let last = |option| words.iter().rev().find_map(|word| descriptor(option, word));
            Some(WorkerTask::Run { input: last("--input="), output: last("--output=") })
        }
        _ => None,
    }
}

/// The number of a descriptor that the worker inherits.
fn descriptor(option: &str, word: &str) -> Option<i32> {
    word.strip_prefix(option)?.parse().ok()
}
