//! The targets of a job: shards take turns, and skip unreachable hosts for a while.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::time::{Duration, SystemTime};

use crate::directory::JobDirectory;
use crate::error::JobError;

/// Time for which an unreachable host is skipped.
pub const LEFT_OUT_FOR: Duration = Duration::from_secs(300);
/// Most targets of a job.
const TARGETS_MAX: usize = 10_000;

/// Expands `dtn{1..4}:/path` to four words; any other word stays. Leading zeros stay: `{01..10}`.
pub fn expand(word: &OsStr) -> Result<Vec<OsString>, JobError> {
    let bytes = word.as_bytes();
    let open = bytes.iter().position(|byte| *byte == b'{');
    let close = open.and_then(|open| Some(open + bytes[open..].iter().position(|byte| *byte == b'}')?));
    let (Some(open), Some(close)) = (open, close) else { return Ok(vec![word.to_owned()]) };
    let inside = std::str::from_utf8(&bytes[open + 1..close]).unwrap_or_default();
    let Some((first, last)) = inside.split_once("..") else { return Ok(vec![word.to_owned()]) };
    let number = |text: &str| text.parse::<usize>().ok();
    let shown = || haul_proto::path::escape(bytes);
    let (Some(from), Some(to)) = (number(first), number(last)) else {
        return Err(JobError::usage(format!("{}: not a range of numbers", shown()), "for example dtn{1..4}:/path"));
    };
    if from > to || to - from >= TARGETS_MAX {
        let why = if from > to { "an empty range" } else { "too many targets" };
        return Err(JobError::usage(format!("{}: {why}", shown()), "for example dtn{1..4}:/path"));
    }
    let width = if first.starts_with('0') && first.len() > 1 { first.len() } else { 0 };
    let one = |number: usize| [&bytes[..open], format!("{number:0width$}").as_bytes(), &bytes[close + 1..]].concat();
    Ok((from..=to).map(|number| OsString::from_vec(one(number))).collect())
}

/// The order of targets for a shard: its own first, recently unreachable hosts last.
pub fn turns(job: &JobDirectory, shard: u32, count: usize) -> Vec<usize> {
    let first = usize::try_from(shard).unwrap_or_default() % count.max(1);
    let order = (0..count).map(|step| (first + step) % count);
    let (mut well, left_out): (Vec<_>, Vec<_>) = order.partition(|target| !is_left_out(job, *target));
    well.extend(left_out);
    well
}

/// Records an unreachable host of a target.
pub fn leave_out(job: &JobDirectory, target: usize, why: &str) -> Result<(), JobError> {
    job.hosts().join(target.to_string()).replace(why.as_bytes())
}

fn is_left_out(job: &JobDirectory, target: usize) -> bool {
    let mark = job.hosts().join(target.to_string()).open();
    let marked = mark.and_then(|mark| mark.metadata()?.modified());
    let age = marked.map(|marked| SystemTime::now().duration_since(marked).unwrap_or_default());
    age.is_ok_and(|age| age < LEFT_OUT_FOR)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_a_target_for_each_number() {
        let expand = |word: &str| expand(OsStr::new(word));
        let words = |words: &[&str]| Ok(words.iter().map(OsString::from).collect::<Vec<_>>());
        assert_eq!(expand("dtn{1..3}:/a"), words(&["dtn1:/a", "dtn2:/a", "dtn3:/a"]));
        assert_eq!(expand("u@n{08..10}.b:x"), words(&["u@n08.b:x", "u@n09.b:x", "u@n10.b:x"]));
        for whole in ["dtn:/a", "/a{b}", "/a{b", "/a}b{"] {
            assert_eq!(expand(whole), words(&[whole]));
        }
        for wrong in ["n{3..1}:", "n{1..a}:", "n{0..10000}:", "n{..}:"] {
            assert!(expand(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn shards_take_turns_with_silent_hosts_last() {
        let temp = tempfile::tempdir().unwrap();
        let job = JobDirectory::create(&temp.path().join("job")).unwrap();
        assert_eq!([0, 1, 5].map(|shard| turns(&job, shard, 3)), [vec![0, 1, 2], vec![1, 2, 0], vec![2, 0, 1]]);
        leave_out(&job, 1, "no route").unwrap();
        assert_eq!(turns(&job, 1, 3), [2, 0, 1]);
        assert_eq!(turns(&job, 7, 1), [0]);
    }
}
