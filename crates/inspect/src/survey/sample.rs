//! Compressibility: a uniform sample of all bytes, in frames of a copy, compressed by a copy's methods.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::{Duration, Instant};

use haul_base::sys::cancel::Cancel;
use haul_engine::codec::PayloadCompressor;
use haul_engine::fs::{Dir, FollowLinks};
use haul_engine::{FileExtents, read_at};
use haul_proto::compression::sample::is_promising;
use haul_proto::compression::{CompressionMethod, LEVEL_DEFAULT};
use haul_proto::integrity::FrameLen;
use haul_proto::path::Name;
use serde::Serialize;

/// Picked bytes, and most frames read: 64 MiB.
const PICKS: usize = 128;
/// Bytes of a frame.
const FRAME: usize = FrameLen::DEFAULT.get() as usize;
/// The measured methods.
const METHODS: [CompressionMethod; 2] = [CompressionMethod::Lz4, CompressionMethod::Zstd(LEVEL_DEFAULT)];

/// Smallest compressed size per byte that counts.
const LEFT_MIN: f64 = 1e-6;

/// Compressibility.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
pub struct CompressionSample {
    /// Sampled files.
    pub files: u64,
    /// Read bytes.
    pub bytes: u64,
    /// The incompressible part of all bytes, between 0 and 1, which would be sent uncompressed.
    pub stubborn: f64,
    /// Result of each method.
    pub methods: Vec<MethodResult>,
}

/// Result of a method.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
pub struct MethodResult {
    /// The method's name.
    pub codec: &'static str,
    /// Its level, if it has levels.
    pub level: Option<u8>,
    /// Bytes per compressed byte.
    pub ratio: f64,
    /// Bytes per second compressed by one core of this machine; `None` if not measured.
    pub bytes_per_s: Option<f64>,
}

/// Picks bytes during the count, without knowledge of the total: a pick at byte n moves to byte m with probability 1 in
/// m. The next position is drawn beforehand.
pub struct FramePicker {
    picks: Vec<Option<PickedFrame>>,
    /// The next position of each pick, from 1, and the pick's number.
    next: BinaryHeap<Reverse<(u64, usize)>>,
    seen: u64,
    files: u64,
    random: u64,
}

/// The frame of a picked byte.
#[derive(Clone)]
struct PickedFrame {
    dir: Dir,
    name: Name,
    links: FollowLinks,
    size: u64,
    /// The offset of the frame.
    offset: u64,
    /// The number of the file.
    file: u64,
}

impl FramePicker {
    /// Picks `picks` bytes.
    fn with(picks: usize) -> Self {
        let next = (0..picks).map(|pick| Reverse((1, pick))).collect();
        // The same tree gives the same sample.
        Self { picks: vec![None; picks], next, seen: 0, files: 0, random: 0x9e37_79b9_7f4a_7c15 }
    }

    /// A picker with the default number of picks.
    pub fn new() -> Self {
        Self::with(PICKS)
    }

    /// Counts a file with this many data bytes. Only data bytes are picked, not holes.
    pub fn file(&mut self, dir: &Dir, name: &Name, links: FollowLinks, size: u64, data_bytes: u64) {
        self.files += 1;
        let end = self.seen.saturating_add(data_bytes);
        while let Some(Reverse((byte, pick))) = self.next.peek().copied().filter(|Reverse((byte, _))| *byte <= end) {
            self.next.pop();
            let offset = scaled(byte - self.seen - 1, size, data_bytes) / FRAME as u64 * FRAME as u64;
            let (dir, name, file) = (dir.clone(), name.clone(), self.files);
            self.picks[pick] = Some(PickedFrame { dir, name, links, size, offset, file });
            let next = self.byte_after(byte);
            self.next.push(Reverse((next, pick)));
        }
        self.seen = end;
    }

    /// Draws the next position of a pick: beyond m with probability `byte` in m.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it saturates")]
    fn byte_after(&mut self, byte: u64) -> u64 {
        // xorshift64*
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        let draw = (self.random.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11) as f64 + 0.5;
        let unit = draw / (1_u64 << 53) as f64;
        ((byte as f64 / unit) as u64).max(byte).saturating_add(1)
    }

    /// Picked frames, each once with its count, in the order of the files.
    fn frames(self) -> Vec<(PickedFrame, u32)> {
        let mut picks: Vec<_> = self.picks.into_iter().flatten().collect();
        picks.sort_by_key(|pick| (pick.file, pick.offset));
        let mut frames: Vec<(PickedFrame, u32)> = Vec::new();
        for pick in picks {
            match frames.last_mut() {
                Some((last, times)) if (last.file, last.offset) == (pick.file, pick.offset) => *times += 1,
                _ => frames.push((pick, 1)),
            }
        }
        frames
    }

    /// Reads and compresses the sample, until the deadline. `None` if nothing could be read.
    pub fn measure(self, deadline: Instant, cancel: &Cancel, mut tell: impl FnMut(u64)) -> Option<CompressionSample> {
        let mut meter = PayloadMeter::default();
        let (mut frame, mut pack) = (vec![0; FRAME], SamplePack::default());
        let (mut files, mut bytes, mut last) = (0, 0, 0);
        let mut extents = (0, FileExtents::default());
        for (pick, times) in self.frames() {
            if cancel.is_cancelled() || Instant::now() >= deadline {
                break;
            }
            if extents.0 != pick.file {
                extents = (pick.file, FileExtents::default());
            }
            let Some(plain) = read(&pick, &extents.1, &mut frame) else { continue };
            bytes += plain.len() as u64;
            files += u64::from(std::mem::replace(&mut last, pick.file) != pick.file);
            // Small files are sent together.
            match pick.size <= FrameLen::DEFAULT.pack_file_max() {
                true => pack.add(plain, times, &mut meter),
                false => meter.payload(plain, times),
            }
            tell(bytes);
        }
        pack.flush(&mut meter);
        meter.finish(files, bytes)
    }
}

/// Scales an offset in the data to an offset in the file.
fn scaled(at: u64, size: u64, data_bytes: u64) -> u64 {
    let place = u128::from(at) * u128::from(size) / u128::from(data_bytes.max(1));
    u64::try_from(place).unwrap_or(u64::MAX).min(size.saturating_sub(1))
}

/// Reads the frame, or the next one with data if it is a hole; `None` if it cannot be read.
fn read<'b>(pick: &PickedFrame, extents: &FileExtents, frame: &'b mut [u8]) -> Option<&'b [u8]> {
    let (fd, _) = pick.dir.open_file(&pick.name, pick.links).ok()?;
    let len = |offset: u64| (pick.size - offset).min(FRAME as u64);
    let mut offset = pick.offset;
    if extents.is_hole(&fd, offset, len(offset)) {
        let next = |from, to| extents.next_data(&fd, from, to);
        let data = next(offset, pick.size).or_else(|| next(0, offset))?;
        offset = data / FRAME as u64 * FRAME as u64;
    }
    let want = usize::try_from(len(offset)).ok()?;
    let got = read_at(&fd, &mut frame[..want], offset).ok()?;
    frame.get(..got).filter(|plain| !plain.is_empty())
}

/// Small files in one frame.
#[derive(Default)]
struct SamplePack {
    bytes: Vec<u8>,
    times: u32,
}

impl SamplePack {
    fn add(&mut self, plain: &[u8], times: u32, meter: &mut PayloadMeter) {
        if self.bytes.len() + plain.len() > FRAME {
            self.flush(meter);
        }
        self.bytes.extend_from_slice(plain);
        self.times += times;
    }

    fn flush(&mut self, meter: &mut PayloadMeter) {
        if !self.bytes.is_empty() {
            meter.payload(&self.bytes, self.times);
        }
        self.bytes.clear();
        self.times = 0;
    }
}

/// Sums of payload sizes before and after compression.
#[derive(Default)]
struct PayloadMeter {
    packer: PayloadCompressor,
    room: Vec<u8>,
    times: f64,
    stubborn: f64,
    left: [f64; METHODS.len()],
    tried: f64,
    took: [Duration; METHODS.len()],
}

impl PayloadMeter {
    /// Adds a payload with the weight of `times` picks.
    fn payload(&mut self, plain: &[u8], times: u32) {
        let times = f64::from(times);
        self.times += times;
        if !is_promising(plain) {
            self.stubborn += times;
            self.left.iter_mut().for_each(|left| *left += times);
            return;
        }
        self.tried += plain.len() as f64;
        self.room.resize(PayloadCompressor::room(plain.len()), 0);
        let mut is_stubborn = true;
        for ((method, left), took) in METHODS.into_iter().zip(&mut self.left).zip(&mut self.took) {
            let begun = Instant::now();
            let packed = self.packer.pack(method, plain, &mut self.room);
            *took += begun.elapsed();
            is_stubborn &= packed.is_none();
            *left += times * packed.unwrap_or(plain.len()) as f64 / plain.len() as f64;
        }
        if is_stubborn {
            self.stubborn += times;
        }
    }

    fn finish(self, files: u64, bytes: u64) -> Option<CompressionSample> {
        if self.times == 0.0 {
            return None;
        }
        let methods = METHODS.into_iter().zip(self.left).zip(self.took).map(|((method, left), took)| {
            let seconds = took.as_secs_f64();
            let bytes_per_s = (self.tried > 0.0 && seconds > 0.0).then(|| self.tried / seconds);
            let ratio = 1.0 / (left / self.times).max(LEFT_MIN);
            MethodResult { codec: method.codec().name(), level: method.level(), ratio, bytes_per_s }
        });
        Some(CompressionSample { files, bytes, stubborn: self.stubborn / self.times, methods: methods.collect() })
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn name(text: &str) -> Name {
        Name::new(text.as_bytes()).unwrap()
    }

    fn noise(len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        blake3::Hasher::new().finalize_xof().fill(&mut bytes);
        bytes
    }

    fn text(len: usize) -> Vec<u8> {
        (0u32..).flat_map(|i| format!("line {i} of a text\n").into_bytes()).take(len).collect()
    }

    fn sample(dir: &Path, files: &[(&str, Vec<u8>)]) -> CompressionSample {
        let root = Dir::open_root(dir).unwrap();
        let mut picker = FramePicker::new();
        for (file, bytes) in files {
            std::fs::write(dir.join(file), bytes).unwrap();
            let len = bytes.len() as u64;
            picker.file(&root, &name(file), FollowLinks::Itself, len, len);
        }
        picker.measure(Instant::now() + Duration::from_secs(60), &Cancel::new(), |_| {}).unwrap()
    }

    #[test]
    fn every_byte_has_the_same_chance() {
        let temp = tempfile::tempdir().unwrap();
        let root = Dir::open_root(temp.path()).unwrap();
        // Of 10,000 picks, a tenth should be in the first file, three in the second, six in the last one.
        let mut picker = FramePicker::with(10_000);
        for (file, size) in [("a", 1 << 20), ("none", 0), ("b", 3 << 20), ("c", 6 << 20)] {
            picker.file(&root, &name(file), FollowLinks::Itself, size, size);
        }
        let of = |file| picker.picks.iter().flatten().filter(|pick| pick.file == file).count();
        let counts = [1, 2, 3, 4].map(of);
        assert!((900..1100).contains(&counts[0]) && counts[1] == 0, "{counts:?}");
        assert!((2850..3150).contains(&counts[2]) && (5850..6150).contains(&counts[3]), "{counts:?}");
        let of_last: Vec<_> = picker.picks.iter().flatten().filter(|pick| pick.file == 4).collect();
        let second_half = of_last.iter().filter(|pick| pick.offset >= 3 << 20).count() as f64 / of_last.len() as f64;
        assert!((0.46..0.54).contains(&second_half), "{second_half}");
    }

    #[test]
    fn noise_is_stubborn_and_text_is_not() {
        let temp = tempfile::tempdir().unwrap();
        let noisy = sample(temp.path(), &[("noise", noise(3 << 20))]);
        assert_eq!((noisy.stubborn, noisy.methods[1].ratio), (1.0, 1.0));
        assert!(noisy.methods.iter().all(|method| method.bytes_per_s.is_none()));
        let plain = sample(temp.path(), &[("text", text(3 << 20))]);
        assert_eq!(plain.stubborn, 0.0);
        assert!(plain.methods[1].ratio > 1.0 / 0.3 && plain.methods[1].ratio > plain.methods[0].ratio, "{plain:?}");
        assert!(plain.methods[1].bytes_per_s.is_some());
        assert_eq!((plain.files, plain.bytes), (1, 3 << 20));
    }

    #[test]
    fn halves_are_by_bytes_not_by_files() {
        let temp = tempfile::tempdir().unwrap();
        let mut files = vec![("noise", noise(2 << 20))];
        let names: Vec<_> = (0..64).map(|i| format!("small{i}")).collect();
        files.extend(names.iter().map(|name| (name.as_str(), text(32 << 10))));
        let mixed = sample(temp.path(), &files);
        assert!((0.35..0.65).contains(&mixed.stubborn), "{mixed:?}");
    }

    #[test]
    fn holes_and_vanished_files_are_no_data() {
        let temp = tempfile::tempdir().unwrap();
        let root = Dir::open_root(temp.path()).unwrap();
        std::fs::File::create(temp.path().join("hole")).unwrap().set_len(8 << 20).unwrap();
        let mut picker = FramePicker::new();
        picker.file(&root, &name("hole"), FollowLinks::Itself, 8 << 20, 0);
        picker.file(&root, &name("gone"), FollowLinks::Itself, 8 << 20, 8 << 20);
        let late = Instant::now() + Duration::from_secs(60);
        assert_eq!(picker.measure(late, &Cancel::new(), |_| {}), None);
    }

    #[test]
    fn a_little_data_in_a_large_hole_is_found_and_no_more_than_itself() {
        let temp = tempfile::tempdir().unwrap();
        let root = Dir::open_root(temp.path()).unwrap();
        let file = std::fs::File::create(temp.path().join("sparse")).unwrap();
        file.set_len(1 << 40).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, &noise(FRAME), 700 << 30).unwrap();
        std::fs::write(temp.path().join("text"), text(FRAME)).unwrap();
        let mut picker = FramePicker::new();
        picker.file(&root, &name("sparse"), FollowLinks::Itself, 1 << 40, FRAME as u64);
        picker.file(&root, &name("text"), FollowLinks::Itself, FRAME as u64, FRAME as u64);
        let late = Instant::now() + Duration::from_secs(60);
        let sample = picker.measure(late, &Cancel::new(), |_| {}).unwrap();
        assert!((0.3..0.7).contains(&sample.stubborn), "{sample:?}");
    }
}
