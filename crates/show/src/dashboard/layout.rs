//! The layout for terminals of any size: the least important parts are dropped first.

use ratatui_core::layout::Rect;

/// Smallest width with two columns.
const WIDE: u16 = 110;
/// Smallest height with two columns.
const TALL: u16 = 24;
/// Lines above the panels, and the one below them.
const HEADER: u16 = 3;
const FOOTER: u16 = 1;

/// A part of the screen, with its title in the first line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Panel {
    /// The rate over time.
    Graph,
    /// The streams.
    Streams,
    /// The bottleneck.
    Verdict,
    /// Numbers of found, waiting, active and complete files.
    Queue,
    /// The slowest files.
    Slowest,
    /// Messages.
    Messages,
}

impl Panel {
    /// Its smallest height.
    fn least(self) -> u16 {
        match self {
            Panel::Queue => 2,
            Panel::Verdict | Panel::Messages | Panel::Slowest => 3,
            Panel::Graph | Panel::Streams => 4,
        }
    }
}

/// The screen's parts.
#[derive(Debug, PartialEq, Eq)]
pub struct Layout {
    /// The copy's progress.
    pub header: Rect,
    /// The panels, from the top, left ones first.
    pub panels: Vec<(Panel, Rect)>,
    /// The keys.
    pub footer: Rect,
}

/// Divides the screen. `streams` is their number; without room for both, slow files replace messages on request.
pub fn arrange(screen: Rect, streams: usize, wants_slowest: bool) -> Layout {
    let header = Rect { height: HEADER.min(screen.height), ..screen };
    let footer_height = FOOTER.min(screen.height - header.height);
    let footer = Rect { y: screen.bottom() - footer_height, height: footer_height, ..screen };
    let between = Rect { y: header.bottom(), height: footer.y - header.bottom(), ..screen };
    let streams = u16::try_from(streams).unwrap_or(u16::MAX).saturating_add(2);
    let panels = match screen.width >= WIDE && screen.height >= TALL {
        true => columns(between, streams),
        false => {
            let last =
                if wants_slowest { [Panel::Slowest, Panel::Messages] } else { [Panel::Messages, Panel::Slowest] };
            let by_importance = [Panel::Verdict, Panel::Queue, Panel::Streams, last[0], Panel::Graph, last[1]];
            stack(between, &by_importance, streams, last[0])
        }
    };
    Layout { header, panels, footer }
}

/// Arranges two columns, with messages below.
fn columns(area: Rect, streams: u16) -> Vec<(Panel, Rect)> {
    let messages_height = (area.height / 4).max(Panel::Messages.least());
    let upper = Rect { height: area.height - messages_height, ..area };
    // One column between them stays empty.
    let left = Rect { width: area.width * 11 / 20, ..upper };
    let right = Rect { x: left.right() + 1, width: upper.right() - left.right() - 1, ..upper };
    let mut panels = stack(left, &[Panel::Streams, Panel::Graph], streams, Panel::Graph);
    panels.extend(stack(right, &[Panel::Verdict, Panel::Queue, Panel::Slowest], 0, Panel::Slowest));
    panels.push((Panel::Messages, Rect { y: upper.bottom(), height: messages_height, ..area }));
    panels
}

/// Stacks as many panels as fit. The streams get the remaining height that they need, then `rest`.
fn stack(area: Rect, by_importance: &[Panel], streams: u16, rest: Panel) -> Vec<(Panel, Rect)> {
    let mut left = area.height;
    let mut heights: Vec<(Panel, u16)> = Vec::new();
    for panel in by_importance.iter().filter(|panel| panel.least() <= area.height) {
        if panel.least() <= left {
            left -= panel.least();
            heights.push((*panel, panel.least()));
        }
    }
    let mut grow = |panel: Panel, most: u16| {
        if let Some((_, height)) = heights.iter_mut().find(|(other, _)| *other == panel) {
            let more = most.saturating_sub(*height).min(left);
            *height += more;
            left -= more;
        }
    };
    grow(Panel::Streams, streams);
    grow(Panel::Verdict, 5);
    grow(rest, u16::MAX);
    grow(Panel::Streams, u16::MAX);
    grow(Panel::Queue, u16::MAX);
    grow(Panel::Verdict, u16::MAX);
    heights.sort();
    let mut y = area.y;
    heights
        .into_iter()
        .map(|(panel, height)| {
            let place = Rect { y, height, ..area };
            y += height;
            (panel, place)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_is_filled_without_overlap() {
        for width in 0..140 {
            for height in 0..60 {
                for streams in [0, 8, 128] {
                    let screen = Rect::new(0, 0, width, height);
                    let Layout { header, panels, footer } = arrange(screen, streams, height % 2 == 0);
                    let all = panels.iter().map(|(_, place)| *place).chain([header, footer]);
                    let mut seen = vec![false; usize::from(width) * usize::from(height)];
                    for position in all.flat_map(Rect::positions) {
                        assert!(screen.contains(position), "{screen:?}: {position:?}");
                        let at = usize::from(position.y) * usize::from(width) + usize::from(position.x);
                        assert!(!std::mem::replace(&mut seen[at], true), "{screen:?}: {position:?} twice");
                    }
                    assert!(panels.iter().all(|(panel, place)| place.height >= panel.least()), "{panels:?}");
                }
            }
        }
    }

    fn shown(width: u16, height: u16, wants_slowest: bool) -> Vec<Panel> {
        let layout = arrange(Rect::new(0, 0, width, height), 8, wants_slowest);
        layout.panels.into_iter().map(|(panel, _)| panel).collect()
    }

    #[test]
    fn the_least_important_part_is_dropped_first() {
        use Panel::{Graph, Messages, Queue, Slowest, Streams, Verdict};
        assert_eq!(shown(160, 50, false), [Graph, Streams, Verdict, Queue, Slowest, Messages]);
        assert_eq!(shown(80, 24, false), [Graph, Streams, Verdict, Queue, Slowest, Messages]);
        assert_eq!(shown(80, 22, false), [Graph, Streams, Verdict, Queue, Messages]);
        assert_eq!(shown(80, 22, true), [Graph, Streams, Verdict, Queue, Slowest]);
        assert_eq!(shown(80, 16, false), [Streams, Verdict, Queue, Messages]);
        assert_eq!(shown(40, 10, false), [Verdict, Queue]);
        assert_eq!(shown(40, 6, false), [Queue]);
        assert_eq!(shown(40, 4, false), []);
    }
}
