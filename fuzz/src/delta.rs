//! Instructions for making frames, and patches: anything a peer or a disk may say of them.

use haul_proto::delta::instructions::{DeltaInstruction, decode, make};
use haul_proto::delta::patch::{CHUNK_HEAD, HEADER_LEN, PatchChunk, PatchHeader};
use haul_proto::limits::{DELTA_STEPS_MAX, FRAME_MAX};

/// The first byte says how long the frame is, the rest are instructions: where they are taken, they make exactly the
/// frame.
pub fn instructions(data: &[u8]) {
    let Some((len, bytes)) = data.split_first() else { return };
    let plain = usize::from(*len) * 17 + 1;
    let Ok(steps) = decode(bytes, 1 << 20, plain) else { return };
    assert!(steps.len() <= DELTA_STEPS_MAX);
    let mut frame = vec![0; plain];
    let mut asked = 0;
    let made = make(&steps, &mut frame, |_, bytes| {
        asked += bytes.len();
        bytes.fill(1);
        Ok::<_, ()>(())
    });
    assert!(made.is_ok());
    let new: usize =
        steps.iter().map(|step| if let DeltaInstruction::New(bytes) = step { bytes.len() } else { 0 }).sum();
    assert_eq!(asked + new, plain);
}

/// A patch's header, and the head of a piece behind it.
pub fn patch(data: &[u8]) {
    let Some((header, rest)) = data.split_first_chunk::<HEADER_LEN>() else { return };
    let Ok(header) = PatchHeader::decode(header) else { return };
    assert_eq!(header.encode()[..HEADER_LEN], data[..HEADER_LEN]);
    let Some((head, _)) = rest.split_first_chunk::<CHUNK_HEAD>() else { return };
    if let Ok(PatchChunk { offset, len, .. }) = header.chunk(*head) {
        assert!(len <= FRAME_MAX as usize && offset + len as u64 <= header.size);
    }
}
