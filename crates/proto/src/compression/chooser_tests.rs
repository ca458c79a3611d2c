//! The chooser against a model of a stream: a source that computes, a buffer, and a connection.

use super::*;

const FRAME: f64 = 524_288.0;
/// Capacity of the model's send buffer in bytes.
const BUFFER: f64 = 1_000_000.0;

/// Cost and compression ratio of a kind of data under each method.
#[derive(Clone, Copy)]
struct Data {
    costs: [f64; 6],
    ratios: [f64; 6],
}

const TEXT: Data = Data { costs: [2.0, 3.0, 5.0, 14.0, 22.0, 60.0], ratios: [0.55, 0.40, 0.37, 0.34, 0.33, 0.325] };
/// The sample shows at once that it is incompressible.
const NOISE: Data = Data { costs: [0.0; 6], ratios: [1.0; 6] };
/// The sample looks compressible, but the data is not.
const STUBBORN: Data = Data { costs: [1.0, 2.0, 3.0, 8.0, 12.0, 40.0], ratios: [1.0; 6] };

struct Model {
    chooser: CompressionChooser,
    /// Nanoseconds per byte: of the connection, and of the target for each plain byte.
    pipe: f64,
    target: f64,
    prepare: f64,
    /// Time when the connection has sent everything in its buffer.
    drained_ns: f64,
    now_ns: f64,
    plain_bytes: f64,
}

impl Model {
    fn new(policy: CompressionPolicy, pipe: f64) -> Self {
        let chooser = CompressionChooser::new(policy);
        Self { chooser, pipe, target: 0.0, prepare: 0.5, drained_ns: 0.0, now_ns: 0.0, plain_bytes: 0.0 }
    }

    fn frame(&mut self, data: Data) -> CompressionAttempt {
        let index = |method| CHOICES.iter().position(|(choice, ..)| *choice == method).unwrap();
        let (attempt, cost, ratio) = match self.chooser.next().map(|method| (method, index(method))) {
            Some((_, i)) if data.costs[i] == 0.0 => (CompressionAttempt::None, 0.02, 1.0),
            Some((method, i)) if data.ratios[i] >= 1.0 => (CompressionAttempt::InVain(method), data.costs[i], 1.0),
            Some((method, i)) => (CompressionAttempt::Done(method), data.costs[i], data.ratios[i]),
            None => (CompressionAttempt::None, 0.0, 1.0),
        };
        let wire_bytes = FRAME * ratio;
        let (prepare_ns, compress_ns, seal_ns) = (self.prepare * FRAME, cost * FRAME, 0.3 * wire_bytes);
        self.now_ns += prepare_ns + compress_ns + seal_ns;
        let slowness = self.pipe.max(self.target / ratio);
        self.drained_ns = self.drained_ns.max(self.now_ns) + wire_bytes * slowness;
        let send_ns = (self.drained_ns - BUFFER * slowness - self.now_ns).max(0.2 * wire_bytes);
        self.now_ns += send_ns;
        self.plain_bytes += FRAME;
        let times = FrameTimes { prepare_ns, compress_ns, seal_ns, send_ns, plain_bytes: FRAME, wire_bytes };
        self.chooser.sent(attempt, &times);
        attempt
    }

    /// Sends this many frames; returns nanoseconds per plain byte.
    fn run(&mut self, frames: u32, data: Data) -> f64 {
        let (began_ns, began_bytes) = (self.now_ns, self.plain_bytes);
        (0..frames).for_each(|_| {
            self.frame(data);
        });
        (self.now_ns - began_ns) / (self.plain_bytes - began_bytes)
    }
}

fn best_of_all(data: Data, pipe: f64) -> f64 {
    let time = |cost: f64, ratio: f64| (0.5 + cost + 0.5 * ratio).max(ratio * pipe);
    (0..6).map(|i| time(data.costs[i], data.ratios[i])).fold(time(0.0, 1.0), f64::min)
}

#[test]
fn on_any_connection_text_travels_as_by_the_best_method() {
    for pipe in [0.2, 0.8, 1.5, 3.0, 5.0, 8.0, 16.0, 32.0, 80.0, 300.0, 1000.0] {
        let mut model = Model::new(CompressionPolicy::Auto, pipe);
        model.run(100, TEXT);
        let (found, best) = (model.run(2000, TEXT), best_of_all(TEXT, pipe));
        assert!(found < 1.1 * best, "{pipe} ns a byte: {found} instead of {best}");
    }
}

#[test]
fn a_fast_connection_tries_no_compression() {
    for pipe in [0.1, 0.5, 1.0, 1.9] {
        let mut model = Model::new(CompressionPolicy::Auto, pipe);
        assert!((0..5000).all(|_| model.frame(TEXT) == CompressionAttempt::None), "{pipe}");
    }
}

#[test]
fn incompressible_data_loses_at_most_two_percent() {
    for data in [NOISE, STUBBORN] {
        for pipe in [0.8, 3.0, 8.0, 16.0, 100.0] {
            let (mut off, mut auto) =
                (Model::new(CompressionPolicy::Off, pipe), Model::new(CompressionPolicy::Auto, pipe));
            let (without, with) = (off.run(3000, data), auto.run(3000, data));
            assert!(with <= 1.02 * without, "{pipe} ns a byte: {with} instead of {without}");
        }
    }
}

#[test]
fn compressible_parts_are_found_after_incompressible_ones() {
    for data in [NOISE, STUBBORN] {
        let mut model = Model::new(CompressionPolicy::Auto, 16.0);
        for _ in 0..5 {
            model.run(500, data);
            model.run(SKIP_FRAMES_MAX + 8, TEXT);
            assert!(matches!(model.frame(TEXT), CompressionAttempt::Done(_)));
        }
    }
}

#[test]
fn a_slow_target_is_distinguished_from_a_slow_connection() {
    let mut model = Model::new(CompressionPolicy::Auto, 0.5);
    model.target = 10.0;
    let frames = 10_000;
    let compressed = (0..frames).filter(|_| matches!(model.frame(TEXT), CompressionAttempt::Done(_))).count();
    assert!(compressed > 0 && compressed < frames / 20, "{compressed} of {frames}");
}

#[test]
fn a_target_slowing_down_later_is_noticed() {
    let mut model = Model::new(CompressionPolicy::Auto, 16.0);
    model.run(300, TEXT);
    assert!(matches!(model.frame(TEXT), CompressionAttempt::Done(_)));
    model.target = 40.0;
    let frames = 5000;
    let compressed = (0..frames).filter(|_| matches!(model.frame(TEXT), CompressionAttempt::Done(_))).count();
    assert!(compressed < frames / 10, "{compressed} of {frames}");
    model.target = 0.0;
    model.run(5000, TEXT);
    assert!(model.run(500, TEXT) < 8.0, "and that it is so no longer");
}

#[test]
fn changes_of_the_connections_rate_are_noticed() {
    let mut model = Model::new(CompressionPolicy::Auto, 16.0);
    model.run(300, TEXT);
    for (pipe, within) in [(0.3, 2500), (16.0, 200), (200.0, 200), (4.0, 2500)] {
        model.pipe = pipe;
        model.run(within, TEXT);
        let (found, best) = (model.run(500, TEXT), best_of_all(TEXT, pipe));
        assert!(found < 1.15 * best, "{pipe} ns a byte: {found} instead of {best}");
    }
}

#[test]
fn a_slow_beginning_misleads_for_a_moment_only() {
    let mut model = Model::new(CompressionPolicy::Auto, 100.0);
    model.run(6, TEXT);
    model.pipe = 0.5;
    model.run(120, TEXT);
    assert!(model.run(100, TEXT) < 1.2);
}

#[test]
fn waiting_for_work_is_no_reason_to_compress() {
    let mut model = Model::new(CompressionPolicy::Auto, 0.5);
    model.prepare = 5000.0;
    assert!((0..200).all(|_| model.frame(TEXT) == CompressionAttempt::None));
}

#[test]
fn an_explicit_choice_holds_on_any_connection() {
    for method in [CompressionMethod::Lz4, CompressionMethod::Zstd(19)] {
        let mut chooser = CompressionChooser::new(CompressionPolicy::Always(method));
        for _ in 0..100 {
            assert_eq!(chooser.next(), Some(method));
            chooser
                .sent(CompressionAttempt::InVain(method), &FrameTimes { plain_bytes: FRAME, ..FrameTimes::default() });
        }
    }
    assert!(
        CompressionChooser::new(CompressionPolicy::Off).is_off()
            && CompressionChooser::new(CompressionPolicy::Off).next().is_none()
    );
}

#[test]
fn figures_without_sense_do_no_harm() {
    let mut chooser = CompressionChooser::new(CompressionPolicy::Auto);
    for value in [0.0, f64::MAX, 1.0, f64::MIN_POSITIVE] {
        for attempt in [
            CompressionAttempt::None,
            CompressionAttempt::Done(CompressionMethod::Zstd(3)),
            CompressionAttempt::InVain(CompressionMethod::Zstd(19)),
        ] {
            let times = FrameTimes {
                prepare_ns: value,
                compress_ns: value,
                seal_ns: value,
                send_ns: value,
                plain_bytes: value,
                wire_bytes: value,
            };
            chooser.sent(attempt, &times);
            let _ = chooser.next();
        }
    }
}
