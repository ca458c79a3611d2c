//! `--stop-after`, and `--stop-at`: the next time that matches what is given of `YEAR-MONTH-DAYTHOUR:MINUTE`, as in rsync.

use std::ffi::OsString;

use jiff::ToSpan;
use jiff::civil::DateTime;

use super::effective::name;
use super::words::TypedOption;
use crate::args::UsageError;

/// Days to search: a 29 February comes within eight years.
const DAYS_MAX: usize = 366 * 9;

/// What is given of a time.
#[derive(Default)]
struct PartialTime {
    year: Option<i16>,
    month: Option<i8>,
    day: Option<i8>,
    hour: Option<i8>,
    minute: Option<i8>,
}

impl PartialTime {
    fn parse(text: &str) -> Option<Self> {
        let (date, time) = match text.split_once(['T', 't']) {
            Some((date, "")) if !date.is_empty() => (date, None),
            Some((date, time)) => (date, Some(time)),
            None if text.contains(':') => ("", Some(text)),
            None => (text, None),
        };
        if date.is_empty() && time.is_none() {
            return None;
        }
        let mut given = Self::default();
        if !date.is_empty() {
            let mut parts = date.rsplit(['-', '/']);
            given.day = Some(parts.next()?.parse().ok()?);
            given.month = parts.next().map(str::parse).transpose().ok()?;
            given.year = parts.next().map(str::parse).transpose().ok()?;
            parts.next().is_none().then_some(())?;
        }
        if let Some(time) = time {
            let (hour, minute) = time.split_once(':')?;
            given.hour = Some(hour).filter(|hour| !hour.is_empty()).map(str::parse).transpose().ok()?;
            given.minute = Some(minute.parse().ok()?);
            (given.hour.is_some() || given.day.is_none()).then_some(())?;
        }
        Some(given)
    }

    /// The first matching time after `now`; `None` if there is none.
    fn next_after(&self, now: DateTime) -> Option<DateTime> {
        let century = now.year() / 100 * 100;
        let year = self.year.map(|year| match year {
            0..100 if century + year < now.year() => century + year + 100,
            0..100 => century + year,
            year => year,
        });
        let first = match year {
            Some(year) if year > now.year() => jiff::civil::Date::new(year, 1, 1).ok()?,
            _ => now.date(),
        };
        let is_given = |date: &jiff::civil::Date| {
            year.is_none_or(|year| year == date.year())
                && self.month.is_none_or(|month| month == date.month())
                && self.day.is_none_or(|day| day == date.day())
        };
        let hours = match (self.hour, self.minute) {
            (Some(hour), _) => hour..=hour,
            (None, Some(_)) => 0..=23,
            (None, None) => 0..=0,
        };
        let days = first.series(1.day()).take(DAYS_MAX).filter(is_given);
        let mut times = days.flat_map(|day| {
            hours.clone().filter_map(move |hour| {
                let time = jiff::civil::Time::new(hour, self.minute.unwrap_or(0), 0, 0).ok()?;
                Some(day.to_datetime(time))
            })
        });
        times.find(|time| *time > now)
    }
}

/// Seconds from now to the time; `None` if it is invalid or past.
pub fn seconds_until(text: &str) -> Option<u64> {
    let now = jiff::Zoned::now();
    let at = PartialTime::parse(text)?.next_after(now.datetime())?.to_zoned(now.time_zone().clone()).ok()?;
    let seconds = at.timestamp().as_second() - now.timestamp().as_second();
    u64::try_from(seconds).ok().filter(|seconds| *seconds > 0)
}

/// The longest time limit: 365 days.
const TIME_MAX_S: u64 = 365 * 24 * 3600;

/// `--stop-after` or `--stop-at`, in seconds.
pub(super) fn stop(typed: &TypedOption, text: &str) -> Result<Vec<OsString>, UsageError> {
    let minutes = || text.parse::<u64>().ok()?.checked_mul(60);
    let seconds = if name(typed) == "stop-at" { seconds_until(text) } else { minutes() };
    match seconds.filter(|seconds| *seconds > 0) {
        Some(seconds) => Ok(vec![format!("--timelimit={}", seconds.min(TIME_MAX_S)).into()]),
        None => Err(UsageError::new(format!("invalid --{} value: {text}", name(typed)))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_the_next_that_matches_what_is_given() {
        let now: DateTime = "2026-11-29T14:30:20".parse().unwrap();
        for (text, expected) in [
            ("2000-12-31T23:59", None),
            ("2026-11-29T14:30", None),
            ("2026-11-29T14:31", Some("2026-11-29T14:31:00")),
            ("2030/1/2T03:04", Some("2030-01-02T03:04:00")),
            ("27-1-2", Some("2027-01-02T00:00:00")),
            ("1-30", Some("2027-01-30T00:00:00")),
            ("14:00", Some("2026-11-30T14:00:00")),
            ("T15:00", Some("2026-11-29T15:00:00")),
            ("1", Some("2026-12-01T00:00:00")),
            ("31", Some("2026-12-31T00:00:00")),
            ("2-29", Some("2028-02-29T00:00:00")),
            (":59", Some("2026-11-29T14:59:00")),
            (":15", Some("2026-11-29T15:15:00")),
            ("30T", Some("2026-11-30T00:00:00")),
            ("30T12:00", Some("2026-11-30T12:00:00")),
            ("30T:15", None),
            ("", None),
            ("T", None),
            ("13-1", None),
            ("24:00", None),
            ("10:60", None),
            ("1-2-3-4", None),
            ("x", None),
        ] {
            let found = PartialTime::parse(text).and_then(|given| given.next_after(now));
            assert_eq!(found.map(|time| time.to_string()).as_deref(), expected, "{text}");
        }
    }
}
