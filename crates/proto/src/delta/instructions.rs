//! Instructions to build a frame from a base file and new bytes: the payload of a delta record.

use std::ops::Range;

use crate::encoding::{Decoded, Reader, Writer};
use crate::error::ProtocolError;
use crate::limits::{DELTA_STEPS_MAX, FRAME_MAX};

/// A span of a frame, as input of the encoder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FrameSpan {
    /// Offset in the base file; `None` for new bytes.
    pub old: Option<u64>,
    /// Byte range in the frame.
    pub bytes: Range<usize>,
}

impl FrameSpan {
    /// Appends the next span of a frame, and merges it with the previous one where they are contiguous.
    pub fn push(spans: &mut Vec<Self>, old: Option<u64>, bytes: Range<usize>) {
        if bytes.is_empty() {
            return;
        }
        if let Some(last) = spans.last_mut() {
            let goes_on = match (last.old, old) {
                (None, None) => true,
                (Some(before), Some(now)) => before + last.bytes.len() as u64 == now,
                _ => false,
            };
            if goes_on {
                last.bytes.end = bytes.end;
                return;
            }
        }
        spans.push(Self { old, bytes });
    }
}

/// One instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeltaInstruction<'a> {
    /// Insert these bytes.
    New(&'a [u8]),
    /// Copy bytes of the base file. They may lie beyond its end, which the owner of the file checks.
    Old {
        /// Offset in the base file.
        offset: u64,
        /// Number of bytes.
        len: usize,
    },
}

/// Encodes the instructions for a frame at `offset` with these `spans`. Returns `None` where they are no shorter than
/// the frame, or too many.
pub fn encode(spans: &[FrameSpan], offset: u64, payload: &[u8]) -> Option<Vec<u8>> {
    if spans.len() > DELTA_STEPS_MAX {
        return None;
    }
    let new: usize = spans.iter().filter(|span| span.old.is_none()).map(|span| span.bytes.len()).sum();
    if new >= payload.len() {
        return None;
    }
    let mut out = Writer::new();
    let mut expected = offset;
    for FrameSpan { old, bytes } in spans {
        let len = bytes.len() as u64;
        match old {
            None => {
                out.varint(len << 1).raw(payload.get(bytes.clone())?);
            }
            Some(old) => {
                out.varint(len << 1 | 1).varint(zigzag(old.wrapping_sub(expected)));
            }
        }
        // The next copy is expected to continue at the offset after this one.
        expected = old.unwrap_or(expected).wrapping_add(len);
    }
    Some(out.into_bytes()).filter(|bytes| bytes.len() < payload.len())
}

/// Decodes the instructions for a frame of `plain` bytes at `offset`.
pub fn decode(bytes: &[u8], offset: u64, plain: usize) -> Decoded<Vec<DeltaInstruction<'_>>> {
    let mut reader = Reader::new(bytes);
    let (mut steps, mut expected, mut left) = (Vec::new(), offset, plain);
    while reader.remaining() > 0 {
        if steps.len() == DELTA_STEPS_MAX {
            return Err(ProtocolError::OverLimit("instructions of a delta frame"));
        }
        let word = reader.count(2 * FRAME_MAX as usize + 1, "an instruction of a delta frame")?;
        let len = word >> 1;
        left = left.checked_sub(len).filter(|_| len > 0).ok_or(NOT_THE_FRAME)?;
        let step = if word & 1 == 0 {
            DeltaInstruction::New(reader.take_bytes(len)?)
        } else {
            expected = expected.wrapping_add(unzigzag(reader.varint()?));
            DeltaInstruction::Old { offset: expected, len }
        };
        expected = expected.wrapping_add(len as u64);
        steps.push(step);
    }
    if left == 0 { Ok(steps) } else { Err(NOT_THE_FRAME) }
}

const NOT_THE_FRAME: ProtocolError = ProtocolError::Invalid("instructions of another length than the frame");

/// Builds the frame; `read` reads bytes of the base file from an offset.
///
/// # Errors
/// Those of `read`.
///
/// # Panics
/// If `frame` is not as long as all instructions together: a programmer's error.
pub fn make<E>(
    steps: &[DeltaInstruction<'_>],
    frame: &mut [u8],
    mut read: impl FnMut(u64, &mut [u8]) -> Result<(), E>,
) -> Result<(), E> {
    let mut rest = frame;
    for step in steps {
        let len = match step {
            DeltaInstruction::New(bytes) => bytes.len(),
            DeltaInstruction::Old { len, .. } => *len,
        };
        let (now, later) = rest.split_at_mut(len);
        match step {
            DeltaInstruction::New(bytes) => now.copy_from_slice(bytes),
            DeltaInstruction::Old { offset, .. } => read(*offset, now)?,
        }
        rest = later;
    }
    assert!(rest.is_empty(), "steps that do not make the frame");
    Ok(())
}

/// Maps small differences of either sign to small numbers.
fn zigzag(difference: u64) -> u64 {
    (difference << 1) ^ (0u64.wrapping_sub(difference >> 63))
}

fn unzigzag(number: u64) -> u64 {
    (number >> 1) ^ (0u64.wrapping_sub(number & 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(old: Option<u64>, bytes: Range<usize>) -> FrameSpan {
        FrameSpan { old, bytes }
    }

    #[test]
    fn instructions_round_trip_and_continuations_cost_a_byte() {
        let payload: Vec<_> = (0..100u8).collect();
        let spans = [span(Some(1000), 0..40), span(None, 40..45), span(Some(1045), 45..60), span(Some(3), 60..100)];
        let bytes = encode(&spans, 1000, &payload).unwrap();
        assert_eq!(bytes.len(), 2 + (1 + 5) + 2 + 3);
        let old = |offset, len| DeltaInstruction::Old { offset, len };
        assert_eq!(
            decode(&bytes, 1000, 100),
            Ok(vec![old(1000, 40), DeltaInstruction::New(&payload[40..45]), old(1045, 15), old(3, 40)])
        );
        assert!((0..bytes.len()).all(|cut| decode(&bytes[..cut], 1000, 100).is_err()));
        for (offset, expected) in [(0, 0), (1, 2), (u64::MAX, 1), (1 << 63, u64::MAX)] {
            assert_eq!((zigzag(offset), unzigzag(expected)), (expected, offset));
        }
    }

    #[test]
    fn useless_deltas_are_not_built() {
        let payload = [7; 100];
        assert_eq!(encode(&[span(None, 0..100)], 0, &payload), None);
        assert_eq!(encode(&[span(Some(1 << 60), 0..1), span(None, 1..100)], 0, &payload), None);
        let many: Vec<_> = (0..=DELTA_STEPS_MAX).map(|at| span(Some(0), at..at + 1)).collect();
        assert_eq!(encode(&many, 0, &[0; DELTA_STEPS_MAX + 1]), None);
    }

    #[test]
    fn hostile_instructions_are_faults() {
        let decoded = |bytes: &[u8]| decode(bytes, 0, 3).map(|steps| steps.len());
        assert_eq!(decoded(&[3, 0, 3, 0, 2, b'x']), Ok(3));
        for bytes in [&[][..], &[1, 0], &[0], &[7, 0, 3, 0], &[4, b'x'], &[5, 0], &[5, 0, 5, 0], &[9, 0], &[7]] {
            assert!(decoded(bytes).is_err(), "{bytes:?}");
        }
        let many = [3u8, 0].repeat(DELTA_STEPS_MAX + 1);
        let over = decode(&many, 0, DELTA_STEPS_MAX + 1);
        assert_eq!(over, Err(ProtocolError::OverLimit("instructions of a delta frame")));
        assert_eq!(
            decode(&[7, 1], 0, 3),
            Ok(vec![DeltaInstruction::Old { offset: u64::MAX, len: 3 }]),
            "the file's owner looks"
        );
    }
}
