//! Hard links that wait for their file.

use crate::receiver::finisher::EntryFinisher;
use crate::receiver::links::hard_links::LinkOutcome;
use crate::receiver::links::hard_links::OtherLinkName;
use crate::receiver::links::hard_links::{LinkStep, NOT_THERE};
use crate::sys::sync::lock;
use haul_proto::entry::EntryContent;
use haul_proto::ids::EntryId;

impl EntryFinisher {
    /// Creates a hard link, now or once its file is complete.
    pub(crate) fn add_hard_link(&self, other: OtherLinkName) {
        let EntryContent::HardLink { to, .. } = other.offered.kind else { return };
        let next = lock(&self.links.hard_links.0).add(to, other);
        self.make_hard_links(vec![next]);
    }

    /// Creates the links that waited for a complete entry.
    pub(crate) fn settle_hard_links(&self, entry: EntryId, done: bool) {
        self.settle_hard_links_as(entry, if done { LinkOutcome::There } else { LinkOutcome::Failed });
    }

    /// As [`Self::settle_hard_links`], with a known outcome.
    pub(crate) fn settle_hard_links_as(&self, entry: EntryId, outcome: LinkOutcome) {
        if !self.job.request.kept.hard_links {
            return;
        }
        let next = lock(&self.links.hard_links.0).settled(entry, outcome);
        self.make_hard_links(next);
    }

    fn make_hard_links(&self, links: Vec<LinkStep>) {
        for next in links {
            let (other, made) = match next {
                LinkStep::Nothing => continue,
                LinkStep::Make(other, first, outcome) => {
                    let made = self.decider.make_hard_link(&other, &first, outcome);
                    (other, made)
                }
                LinkStep::Fail(other) => (other, Err(NOT_THERE.to_owned())),
                LinkStep::LeaveOrFail(other) => {
                    let left = self.decider.leave(&other);
                    (other, left)
                }
            };
            let done = made.unwrap_or_else(|text| {
                self.job.fail_entry(self.job.destination.path(&other.dir.path_of(other.name.as_bytes())), text);
                false
            });
            self.settle(other.entry, done);
        }
    }
}
