//! A browser without a window, for pages that people look at.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use haul_lab::run_with_timeout;

use crate::Sandbox;

/// Names of the executable in distributions.
const PROGRAMS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];
/// How long it may take.
const LIMIT: Duration = Duration::from_secs(120);

/// A browser with a profile of its own in the sandbox, and without network access.
#[derive(Debug)]
pub struct Browser<'a> {
    program: &'static str,
    sandbox: &'a Sandbox,
}

/// A page as the browser sees it.
#[derive(Debug)]
pub struct BrowserPage {
    /// The parsed page: the browser's elements, serialised again.
    pub dom: String,
    /// The browser's error messages.
    pub complaints: Vec<String>,
}

impl<'a> Browser<'a> {
    /// One that is installed; the reason is printed where none is.
    pub fn or_skip(sandbox: &'a Sandbox) -> Option<Self> {
        let is_there = |program: &&&str| {
            let asked = Command::new(program).arg("--version").output();
            asked.is_ok_and(|output| output.status.success())
        };
        let found = PROGRAMS.iter().find(is_there).map(|program| Self { program, sandbox });
        if found.is_none() {
            println!("SKIPPED: looking at a page needs chromium");
        }
        found
    }

    /// Reads a page.
    #[track_caller]
    pub fn read(&self, page: &Path) -> BrowserPage {
        let finished = self.run(&["--dump-dom", "--enable-logging=stderr"], page);
        // Only messages of the page's console concern the page.
        let is_of_page = |line: &&str| line.contains("CONSOLE");
        let said = finished.stderr_text();
        let complaints = said.lines().filter(is_of_page).map(str::to_owned).collect();
        BrowserPage { dom: finished.stdout_text(), complaints }
    }

    /// Draws a page into a PNG of this name, in light or dark.
    #[track_caller]
    pub fn draw(&self, page: &Path, to: &Path, is_dark: bool) {
        let to = format!("--screenshot={}", to.display());
        // 0 is dark, 1 is light.
        let scheme = format!("--blink-settings=preferredColorScheme={}", u8::from(!is_dark));
        self.run(&[&to, &scheme, "--hide-scrollbars", "--window-size=960,1400"], page);
    }

    #[track_caller]
    fn run(&self, options: &[&str], page: &Path) -> haul_lab::Finished {
        let profile = format!("--user-data-dir={}", self.sandbox.dir("browser").display());
        let mut command = Command::new(self.program);
        command.args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]);
        command.args(["--disable-background-networking", "--disable-component-update", "--disable-sync"]);
        command.args(options).arg(profile).arg(format!("file://{}", page.display()));
        command.env("HOME", self.sandbox.home());
        let finished = run_with_timeout(command, LIMIT).unwrap_or_else(|error| panic!("{error:#}"));
        assert!(finished.success(), "{}", finished.stderr_text());
        finished
    }
}
