//! The compared tools and their requirements. Their command lines are in `recipes`.

use anyhow::Result;
use haul_lab::find_program;

use crate::kind::{WorkloadKind, is_called};
use crate::recipes::{self, Recipe};
use crate::site::{BenchHost, BenchSite};
use crate::workload::Workload;

/// Peers' Debian packages, for `--install`.
pub const DEBIAN_PACKAGES: [&str; 7] = [
    "openssh-server",
    "rsync",
    "netcat-openbsd",
    "rclone",
    "unison",
    "globus-gass-copy-progs",
    "globus-gridftp-server-progs",
];

/// One row of the tables.
#[derive(Debug, Clone, Copy)]
pub struct BenchTool {
    /// As on the command line.
    pub name: &'static str,
    /// Its command line, for the reader.
    pub about: &'static str,
    /// Programs that must be there; `haul` is the one that the site found.
    pub needs: &'static [&'static str],
    /// The remedy if they are missing.
    pub remedy: &'static str,
    /// The tables to compare it on.
    pub kinds: &'static [WorkloadKind],
    recipe: fn(&BenchSite, &Workload) -> Result<Recipe>,
}

const FILES: &[WorkloadKind] = &[WorkloadKind::Big, WorkloadKind::Null];
const FILES_AND_DISK: &[WorkloadKind] = &[WorkloadKind::Big, WorkloadKind::Null, WorkloadKind::Disk];
const TREES: &[WorkloadKind] = &[WorkloadKind::Small, WorkloadKind::Mixed];
const NOT_NULL: &[WorkloadKind] = &[WorkloadKind::Big, WorkloadKind::Small, WorkloadKind::Mixed];
const NOT_NULL_AND_DISK: &[WorkloadKind] =
    &[WorkloadKind::Big, WorkloadKind::Small, WorkloadKind::Mixed, WorkloadKind::Disk];
const FILES_AND_TREES: &[WorkloadKind] =
    &[WorkloadKind::Big, WorkloadKind::Null, WorkloadKind::Small, WorkloadKind::Mixed];
const BUILD_HAUL: &str = "cargo build --release --package haul, or --haul PATH";
const INSTALL: &str = "--install";
const FROM_SOURCE: &str = "not in Debian: build it and put it into PATH";
const BY_XTASK: &str = "run cargo xtask bench, or haul-bench itself";

/// All tools, in the order of the tables.
#[rustfmt::skip]
pub const ALL: [BenchTool; 28] = [
    BenchTool { name: "haul", about: "defaults", needs: &["haul"], remedy: BUILD_HAUL, kinds: &WorkloadKind::ALL, recipe: recipes::haul },
    BenchTool { name: "haul-before", about: "defaults, the haul named by --beside", needs: &["haul-before"], remedy: "--beside PATH", kinds: &WorkloadKind::ALL, recipe: recipes::haul_before },
    BenchTool { name: "haul-no-encrypt", about: "--no-encrypt", needs: &["haul"], remedy: BUILD_HAUL, kinds: FILES_AND_TREES, recipe: recipes::haul_no_encrypt },
    BenchTool { name: "haul-direct", about: "-u st", needs: &["haul", "haul: -u,"], remedy: "a haul with -u", kinds: &[WorkloadKind::Disk], recipe: recipes::haul_direct },
    BenchTool { name: "haul-pipe", about: "cat | haul -", needs: &["haul", "cat"], remedy: BUILD_HAUL, kinds: &[WorkloadKind::Null], recipe: recipes::haul_pipe },
    BenchTool { name: "pipe-alone", about: "cat | dd: a pipe without a copy behind it", needs: &["cat", "dd"], remedy: INSTALL, kinds: &[WorkloadKind::Null], recipe: recipes::pipe_alone },
    BenchTool { name: "haul-old-cpu", about: "told by CPUID that there is no AVX2, AVX-512, VAES or VPCLMULQDQ", needs: &["haul", "haul-old-cpu"], remedy: "x86-64, objdump (binutils), and cargo xtask bench or haul-bench itself", kinds: &[WorkloadKind::OldCpu], recipe: recipes::haul_old_cpu },
    BenchTool { name: "ssh-true", about: "ssh HOST true: the login alone", needs: &["ssh"], remedy: INSTALL, kinds: LOGIN, recipe: recipes::ssh_true },
    BenchTool { name: "bare-loop-1", about: "read, XXH3, AES-128-GCM, send; receive, open, XXH3, write; one stream, no login", needs: &["bare-loop"], remedy: BY_XTASK, kinds: FILES, recipe: recipes::bare_loop_1 },
    BenchTool { name: "bare-loop-2", about: "the same with two streams", needs: &["bare-loop"], remedy: BY_XTASK, kinds: FILES, recipe: recipes::bare_loop_2 },
    BenchTool { name: "bare-loop-plain-1", about: "the loop without hash and seal, one stream", needs: &["bare-loop"], remedy: BY_XTASK, kinds: FILES, recipe: recipes::bare_loop_plain_1 },
    BenchTool { name: "bare-loop-plain-2", about: "the loop without hash and seal, two streams", needs: &["bare-loop"], remedy: BY_XTASK, kinds: FILES, recipe: recipes::bare_loop_plain_2 },
    BenchTool { name: "gridftp-p1", about: "globus-url-copy -fast -p 1, unencrypted", needs: GRIDFTP, remedy: INSTALL, kinds: FILES_AND_DISK, recipe: recipes::gridftp_p1 },
    BenchTool { name: "gridftp-p2", about: "globus-url-copy -fast -p 2, unencrypted", needs: GRIDFTP, remedy: INSTALL, kinds: FILES, recipe: recipes::gridftp_p2 },
    BenchTool { name: "gridftp-pp", about: "globus-url-copy -fast -pp -cc 2 -r, unencrypted", needs: GRIDFTP, remedy: INSTALL, kinds: TREES, recipe: recipes::gridftp_pp },
    BenchTool { name: "gridftp-pp-p2", about: "globus-url-copy -fast -p 2 -pp -cc 2 -r, unencrypted", needs: GRIDFTP, remedy: INSTALL, kinds: TREES, recipe: recipes::gridftp_pp_p2 },
    BenchTool { name: "bbcp", about: "-s 4 -w 4M, unencrypted", needs: &["bbcp"], remedy: FROM_SOURCE, kinds: &[WorkloadKind::Big, WorkloadKind::Null, WorkloadKind::Small, WorkloadKind::Mixed, WorkloadKind::Disk], recipe: recipes::bbcp },
    BenchTool { name: "fdt", about: "-P 4, unencrypted (trees lose their directories)", needs: &["java", "fdt.jar"], remedy: "HAUL_FDT=fdt.jar", kinds: &[WorkloadKind::Big, WorkloadKind::Disk], recipe: recipes::fdt },
    BenchTool { name: "escp", about: "--nodirect, AES-128-GCM", needs: &["escp"], remedy: FROM_SOURCE, kinds: NOT_NULL, recipe: recipes::escp },
    BenchTool { name: "rsync-daemon", about: "rsync -r to a daemon, unencrypted", needs: &["rsync"], remedy: INSTALL, kinds: NOT_NULL_AND_DISK, recipe: recipes::rsync_daemon },
    BenchTool { name: "rsync-ssh", about: "rsync -r over ssh, aes128-gcm", needs: &["rsync", "ssh"], remedy: INSTALL, kinds: NOT_NULL, recipe: recipes::rsync_ssh },
    BenchTool { name: "scp", about: "aes128-gcm", needs: &["scp"], remedy: INSTALL, kinds: &[WorkloadKind::Big, WorkloadKind::Small, WorkloadKind::Mixed, WorkloadKind::Disk, WorkloadKind::Byte], recipe: recipes::scp },
    BenchTool { name: "rclone-sftp", about: "defaults (its own ssh, checks by md5sum)", needs: &["rclone"], remedy: INSTALL, kinds: NOT_NULL, recipe: recipes::rclone },
    BenchTool { name: "tar-ssh", about: "tar | ssh tar, aes128-gcm", needs: &["tar", "ssh"], remedy: INSTALL, kinds: TREES, recipe: recipes::tar_ssh },
    BenchTool { name: "ssh-cat", about: "ssh 'cat >', aes128-gcm", needs: &["ssh"], remedy: INSTALL, kinds: FILES, recipe: recipes::ssh_cat },
    BenchTool { name: "tar-nc", about: "tar | nc, unencrypted", needs: &["tar", "nc"], remedy: INSTALL, kinds: TREES, recipe: recipes::tar_nc },
    BenchTool { name: "nc", about: "unencrypted", needs: &["nc"], remedy: INSTALL, kinds: FILES_AND_DISK, recipe: recipes::nc },
    BenchTool { name: "cp", about: "local, for reference", needs: &["cp"], remedy: INSTALL, kinds: &[WorkloadKind::Big, WorkloadKind::Small, WorkloadKind::Mixed, WorkloadKind::LocalBig, WorkloadKind::LocalSmall, WorkloadKind::Disk], recipe: recipes::cp },
];

/// Where the login is a part of haul's time that its peers' may not have.
const LOGIN: &[WorkloadKind] = &[
    WorkloadKind::Big,
    WorkloadKind::Null,
    WorkloadKind::Small,
    WorkloadKind::Mixed,
    WorkloadKind::Byte,
    WorkloadKind::Disk,
    WorkloadKind::LinearEmpty,
    WorkloadKind::LinearNull,
    WorkloadKind::LinearDisk,
    WorkloadKind::OldCpu,
    WorkloadKind::CurveStreams,
    WorkloadKind::CurveFiles,
    WorkloadKind::CurveBytes,
    WorkloadKind::CurveNull,
];

const GRIDFTP: &[&str] = &["globus-url-copy", "globus-gridftp-server"];

impl BenchTool {
    /// Whether `name` means this tool: its own name, or that of its family (`gridftp`).
    pub fn is_called(&self, name: &str) -> bool {
        is_called(self.name, name)
    }

    /// Whether it is haul.
    pub fn is_haul(&self) -> bool {
        self.is_called("haul")
    }

    /// Whether it copies anything. Other tools run once a round, whatever the table copies.
    pub fn copies(&self) -> bool {
        self.name != "ssh-true"
    }

    /// Why it cannot run here, with the remedy; none if it can.
    pub fn missing(&self, site: &BenchSite) -> Option<String> {
        let there = |need: &str| match need {
            "haul" => site.installed(BenchHost::Usual).is_some(),
            "haul-before" => site.installed(BenchHost::Before).is_some(),
            "haul-old-cpu" => site.installed(BenchHost::OldCpu).is_some(),
            "bare-loop" => site.bare_loop().is_ok(),
            "fdt.jar" => recipes::fdt_jar().is_some(),
            _ => match need.strip_prefix("haul:") {
                Some(option) => site.haul_help.contains(option),
                None => find_program(need).is_some(),
            },
        };
        let lacking: Vec<&str> = self.needs.iter().copied().filter(|need| !there(need)).collect();
        (!lacking.is_empty()).then(|| format!("not found: {} ({})", lacking.join(", "), self.remedy))
    }

    /// How it copies this workload here.
    pub fn recipe(&self, site: &BenchSite, workload: &Workload) -> Result<Recipe> {
        (self.recipe)(site, workload)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_are_called_by_their_first_word() {
        let called =
            |name: &str| ALL.iter().filter(|tool| tool.is_called(name)).map(|tool| tool.name).collect::<Vec<_>>();
        assert_eq!(
            called("haul"),
            ["haul", "haul-before", "haul-no-encrypt", "haul-direct", "haul-pipe", "haul-old-cpu"]
        );
        assert_eq!(called("gridftp"), ["gridftp-p1", "gridftp-p2", "gridftp-pp", "gridftp-pp-p2"]);
        assert_eq!(called("nc"), ["nc"]);
        assert_eq!(called("rsync-ssh"), ["rsync-ssh"]);
        assert!(called("").is_empty() && called("rsy").is_empty());
    }

    #[test]
    fn names_are_unique_and_only_haul_is_measured_against_itself() {
        for (index, tool) in ALL.iter().enumerate() {
            assert!(ALL[index + 1..].iter().all(|other| other.name != tool.name), "{}", tool.name);
            let alone = tool.kinds.contains(&WorkloadKind::LinearEmpty) && tool.copies();
            assert!(!alone || tool.is_haul(), "{}", tool.name);
            assert!(!tool.kinds.is_empty() && !tool.needs.is_empty());
        }
    }
}
