//! `--report FILE`: the result and progress of a copy, as an HTML page or Markdown.
//!
//! It is written after the copy, also a failed one, under a temporary name.

mod axis;
pub mod chart;
pub mod compare;
pub mod document;
mod escape;
pub mod html;
mod markdown;
pub mod series;
pub mod statistics;
mod svg;
pub mod table;
mod track;
mod transfer;

use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Instant;

use haul_base::copy::error::Outcome;
use haul_base::copy::event::{Event, Observer};
use haul_base::copy::location::{Host, Location};
use haul_base::copy::spec::CopySpec;
use haul_base::usage_error::UsageError;
use haul_control::launch::host_label;
use haul_proto::path::escape;
use jiff::Zoned;

use self::document::Document;
use self::series::Series;
use self::transfer::{Transfer, document};
use crate::pending::{Pending, ReplaceableFile};
use crate::text::harmless;

/// Most failures in a report; standard error has all.
const FAILURES_MAX: usize = 200;

/// The format of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReportFormat {
    /// A page for browsers.
    Html,
    /// Markdown.
    Markdown,
}

impl ReportFormat {
    /// The format for a file name extension.
    pub fn of(file: &Path) -> Result<Self, UsageError> {
        let ending = file.extension().map(|ending| ending.to_ascii_lowercase());
        match ending.as_deref().map(OsStrExt::as_bytes) {
            Some(b"html" | b"htm") => Ok(Self::Html),
            Some(b"md") => Ok(Self::Markdown),
            _ => {
                let file = escape(file.as_os_str().as_bytes());
                Err(UsageError::new(format!("{file}: the file name of a report must end in .html or .md"))
                    .remedy("for example copy.html"))
            }
        }
    }

    /// The text of a report.
    pub fn write(self, document: &Document) -> String {
        match self {
            Self::Html => html::page(document),
            Self::Markdown => markdown::page(document),
        }
    }
}

/// A report of a running copy.
pub struct CopyReport {
    form: ReportFormat,
    to: String,
    pending: Pending,
    what: String,
    when: String,
    begun: Instant,
    series: Series,
    failures: Vec<String>,
    /// Number of failures beyond the limit.
    unnamed: u64,
}

impl CopyReport {
    /// Starts a report of `copy` at `to`; fails if that is not writable.
    pub fn create(to: &Path, copy: &CopySpec) -> anyhow::Result<Self> {
        let form = ReportFormat::of(to)?;
        let shown = escape(to.as_os_str().as_bytes());
        let pending =
            Pending::create(to, ReplaceableFile::Page).map_err(|error| anyhow::anyhow!("--report {shown}: {error}"))?;
        Ok(Self {
            form,
            to: shown,
            pending,
            what: title(copy),
            when: Zoned::now().strftime("%Y-%m-%d %H:%M:%S %Z").to_string(),
            begun: Instant::now(),
            series: Series::default(),
            failures: Vec::new(),
            unnamed: 0,
        })
    }

    /// Writes it. The error is one line for the user.
    pub fn finish(mut self, outcome: &Outcome) -> anyhow::Result<()> {
        self.series.end();
        if self.unnamed > 0 {
            self.failures.push(format!("and {} more", self.unnamed));
        }
        let Self { what, when, series, failures, .. } = &self;
        let document = document(&Transfer { what, when, series, outcome, failures });
        write_to(self.pending, &self.form.write(&document))
            .map_err(|error| anyhow::anyhow!("--report {}: cannot write it: {error}", self.to))
    }
}

impl Observer for CopyReport {
    fn event(&mut self, event: &Event) {
        self.series.event(self.begun.elapsed(), event);
        if let Event::FileFailed { path, host, message } = event {
            let line = harmless(message.lines().next().unwrap_or_default());
            match self.failures.len() < FAILURES_MAX {
                true => self.failures.push(format!("{host}: {}: {line}", escape(path))),
                false => self.unnamed += 1,
            }
        }
    }
}

/// Writes a complete report, in the format of `to`'s extension.
pub fn publish(to: &Path, document: &Document) -> anyhow::Result<()> {
    let page = ReportFormat::of(to)?.write(document);
    let written = Pending::create(to, ReplaceableFile::Page).and_then(|pending| write_to(pending, &page));
    written.map_err(|error| anyhow::anyhow!("{}: {error}", escape(to.as_os_str().as_bytes())))
}

fn write_to(pending: Pending, content: &str) -> io::Result<()> {
    pending.writer()?.write_all(content.as_bytes())?;
    pending.publish()
}

/// The title: `run7 + 2 to db1:/archive`, as typed.
fn title(copy: &CopySpec) -> String {
    let first = copy.sources.first().map(named).unwrap_or_default();
    let more = copy.sources.len().saturating_sub(1);
    let more = if more > 0 { format!(" + {more}") } else { String::new() };
    format!("{first}{more} to {}", named(&copy.target))
}

/// A location as typed, without a secret.
pub fn named(place: &Location) -> String {
    let path = escape(place.path.as_os_str().as_bytes());
    match &place.host {
        Host::Local => path,
        host => format!("{}:{path}", host_label(host)),
    }
}

#[cfg(test)]
mod tests {
    use haul_base::copy::error::Error;
    use haul_base::copy::spec::{CopyOptions, RemoteAccess};

    use super::*;

    fn copy() -> CopySpec {
        let remote = Host::Remote { user: Some("ann".into()), name: "db1".into() };
        let here = |path: &str| Location { host: Host::Local, path: path.into() };
        let target = Location { host: remote, path: "/archive".into() };
        CopySpec {
            sources: vec![here("run7"), here("b")],
            list: None,
            target,
            options: CopyOptions::default(),
            access: RemoteAccess::default(),
        }
    }

    #[test]
    fn the_extension_gives_the_format_and_others_are_refused() {
        assert_eq!(ReportFormat::of(Path::new("a/b.HTML")), Ok(ReportFormat::Html));
        assert_eq!(ReportFormat::of(Path::new("b.md")), Ok(ReportFormat::Markdown));
        for name in ["report", "report.pdf", ".html", "x.json"] {
            let error = ReportFormat::of(Path::new(name)).unwrap_err().to_string();
            assert!(error.contains(name) && error.contains("must end in .html or .md"), "{error}");
        }
    }

    #[test]
    fn a_report_appears_after_the_copy_and_names_failures() {
        let dir = tempfile::tempdir().unwrap();
        let to = dir.path().join("copy.html");
        let mut report = CopyReport::create(&to, &copy()).unwrap();
        let path = b"a<img src=x>\n\xff".to_vec();
        let failed = Event::FileFailed { path, host: "db1".into(), message: "no space\nmake room".into() };
        (0..FAILURES_MAX + 2).for_each(|_| report.event(&failed));
        assert!(!to.exists());
        report.finish(&Err(Error::Interrupted)).unwrap();
        let page = std::fs::read_to_string(&to).unwrap();
        assert!(page.contains("<h1>haul: run7 + 1 to ann@db1:/archive</h1>"), "{page}");
        assert!(
            page.contains("db1: a&lt;img src=x&gt;\\n\\xff: no space</li>") && page.contains("and 2 more"),
            "{page}"
        );
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn an_unwritable_place_is_known_before_the_copy() {
        let error = CopyReport::create(Path::new("/nonexistent/copy.html"), &copy()).err().unwrap();
        assert!(error.to_string().starts_with("--report /nonexistent/copy.html: "), "{error}");
    }
}
