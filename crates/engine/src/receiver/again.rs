//! Whole files that are not on the disk as they were sent: what is wrong of them is asked for again, once; then they
//! fail.

use haul_proto::path::escape;
use haul_proto::session::step::Lost;
use haul_proto::wire::report::WorkerMessage;
use std::sync::Arc;

use super::settle::Ends;
use super::whole::Whole;
use super::{Item, Target};

/// A file that is not on the disk as it was sent.
pub struct Loss {
    whole: Whole,
    /// What happened and, on the next line, what to do when it happens again.
    text: String,
    extent: Extent,
}

/// How much of it has to come again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Extent {
    /// All of it, into a new file: what the kernel has of this one is not to be trusted.
    All,
    /// What is not in its tree any more, into the same file.
    Damage,
}

impl Loss {
    /// Nobody knows what of it is there.
    pub fn of_all(whole: Whole, text: String) -> Self {
        Self { whole, text, extent: Extent::All }
    }

    /// The frames that are not in the file's tree any more are wrong.
    pub fn of_damage(whole: Whole, text: String) -> Self {
        // What came in a pack comes in a pack.
        let extent = if whole.end.is_some() { Extent::Damage } else { Extent::All };
        Self { whole, text, extent }
    }

    fn come_again(&mut self, target: &Target) -> Lost<Item> {
        let Whole { entry, item, size, end, .. } = &mut self.whole;
        let mut left = end.take().map(|end| (*size, end));
        let handle = match (self.extent, &**item) {
            (Extent::All, Item::File(incoming)) => {
                incoming.discard(&target.unfinished);
                left.iter_mut().for_each(|(_, end)| end.tree.forget(&(0..end.tree.frames())));
                Arc::new(Item::File(incoming.afresh()))
            }
            _ => Arc::clone(item),
        };
        Lost { entry: *entry, handle, left }
    }
}

impl Target {
    /// Has what was lost sent again; what was lost twice fails.
    pub(super) fn ask_again(&self, mut losses: Vec<Loss>, ends: &mut Ends) {
        let Some(Loss { whole, text, .. }) = losses.first() else { return };
        let path = escape(&whole.incoming().path(&self.landing));
        let text = text.lines().next().unwrap_or_default();
        let what = match losses.len() - 1 {
            0 => "it is".to_owned(),
            1 => "this file and another one are".to_owned(),
            others => format!("this file and {others} others are"),
        };
        let text = format!("{path}: {text}; {what} sent again");
        let lost = losses.iter_mut().map(|loss| loss.come_again(self)).collect();
        let failed = self.lock().machine.lost(lost);
        if failed.len() < losses.len() {
            self.reporter.send(&WorkerMessage::Notice { text });
        }
        for Loss { whole, text, .. } in losses {
            if failed.contains(&whole.entry) {
                self.give_up(whole.entry, &whole.item, text, ends);
            }
        }
    }
}
