//! The source's watch over its streams while a job runs: looks at the sockets, asks [`haul_proto::mend`], gives up the
//! streams that are broken or stalled, and has others made in their place.

use haul_proto::mend::Mend;
use haul_proto::wire::report::WorkerMessage;
use std::time::{Duration, Instant};

use crate::lanes::Lanes;
use crate::source::Source;

/// Time between two looks.
const PERIOD: Duration = Duration::from_millis(250);

/// Watches until `pause`, which waits for so long, says that the job is over. An error ends the job.
pub fn mend(source: &Source, lanes: &Lanes, mut pause: impl FnMut(Duration) -> bool) -> Result<(), String> {
    let mut at = Instant::now();
    let (mut was_lost, mut is_told) = (false, false);
    while pause(PERIOD) && !source.is_finished() {
        let elapsed = std::mem::replace(&mut at, Instant::now()).elapsed();
        let Some(Mend { give_up, make, hopeless }) = lanes.mend(elapsed) else { return Ok(()) };
        give_up.iter().for_each(|stream| source.give_up_stream(*stream));
        make_streams(source, lanes, make);
        share_out(source, lanes);
        if hopeless {
            return Err("the data connections broke, and no other could be made".into());
        }
        // At the next look: where all break since the other end is gone, the job is over by then, and says that.
        if was_lost && !is_told {
            tell_loss(source, lanes);
            is_told = true;
        }
        was_lost = lanes.first_loss().is_some();
    }
    Ok(())
}

fn tell_loss(source: &Source, lanes: &Lanes) {
    if let Some(loss) = lanes.first_loss() {
        let text = format!("{loss}; the others go on with its work");
        source.reporter.send(&WorkerMessage::Notice { text });
    }
}

/// Makes so many more streams, or has the other end make them.
pub fn make_streams(source: &Source, lanes: &Lanes, count: u16) {
    if count > 0 && !lanes.make(count) {
        source.ask_for_streams(count);
    }
}

/// Has the streams that there are share the work.
pub fn share_out(source: &Source, lanes: &Lanes) {
    lanes.share_out(|count, last| source.set_streams(count, last));
}
