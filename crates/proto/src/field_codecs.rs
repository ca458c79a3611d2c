//! The formats of fields, each with its limit.

use crate::codec::{FieldCodec, OfType, Wire, wire_newtypes};
use crate::encoding::{Decoded, Reader, Writer, bounded_figure, decode_figure, encode_figure};
use crate::error::ProtocolError;
use crate::feature::Features;
use crate::ids::{CopyId, CopyNumber, EntryId, PathId, StreamId};
use crate::limits::{FIGURE_MAX, PATH_MAX, TEXT_MAX};

/// A varint.
pub(crate) struct Varint;

impl FieldCodec<u64> for Varint {
    fn encode(&self, value: &u64, out: &mut Writer) {
        out.varint(*value);
    }

    fn decode(&self, reader: &mut Reader<'_>) -> Decoded<u64> {
        reader.varint()
    }
}

/// A varint of at most 32 bits, with its name in an error.
pub(crate) struct Varint32(pub(crate) ProtocolError);

impl FieldCodec<u32> for Varint32 {
    fn encode(&self, value: &u32, out: &mut Writer) {
        out.varint((*value).into());
    }

    fn decode(&self, reader: &mut Reader<'_>) -> Decoded<u32> {
        u32::try_from(reader.varint()?).map_err(|_| self.0)
    }
}

/// A varint of a report.
pub(crate) struct ReportFigure;

impl FieldCodec<u64> for ReportFigure {
    fn encode(&self, value: &u64, out: &mut Writer) {
        encode_figure(*value, out);
    }

    fn decode(&self, reader: &mut Reader<'_>) -> Decoded<u64> {
        decode_figure(reader)
    }
}

/// A number of a report in eight bytes.
pub(crate) struct FixedFigure;

impl FieldCodec<u64> for FixedFigure {
    fn encode(&self, value: &u64, out: &mut Writer) {
        out.u64((*value).min(FIGURE_MAX));
    }

    fn decode(&self, reader: &mut Reader<'_>) -> Decoded<u64> {
        bounded_figure(reader.u64()?)
    }
}

/// A length and text, truncated by its writer.
pub(crate) struct BoundedText(pub(crate) usize, pub(crate) &'static str);

/// Text for users.
pub(crate) const TEXT: BoundedText = BoundedText(TEXT_MAX, "a text");

impl FieldCodec<String> for BoundedText {
    fn encode(&self, value: &String, out: &mut Writer) {
        out.text(value, self.0);
    }

    fn decode(&self, reader: &mut Reader<'_>) -> Decoded<String> {
        reader.text(self.0, self.1)
    }
}

/// A length and bytes.
pub(crate) struct BoundedBytes(pub(crate) usize, pub(crate) &'static str);

/// A path.
pub(crate) const PATH: BoundedBytes = BoundedBytes(PATH_MAX, "a path");

impl<T: AsRef<[u8]> + for<'a> From<&'a [u8]>> FieldCodec<T> for BoundedBytes {
    fn encode(&self, value: &T, out: &mut Writer) {
        out.bytes(value.as_ref());
    }

    fn decode(&self, reader: &mut Reader<'_>) -> Decoded<T> {
        reader.bytes(self.0, self.1).map(T::from)
    }
}

/// A path for display; of a long one, the end.
pub(crate) struct ShownPath;

impl FieldCodec<Vec<u8>> for ShownPath {
    fn encode(&self, path: &Vec<u8>, out: &mut Writer) {
        out.bytes(&path[path.len().saturating_sub(PATH_MAX)..]);
    }

    fn decode(&self, reader: &mut Reader<'_>) -> Decoded<Vec<u8>> {
        PATH.decode(reader)
    }
}

/// A count and that many items.
pub(crate) struct ListOf<C> {
    item: C,
    most: usize,
    what: &'static str,
    sends: usize,
}

/// Returns the codec of a list of at most `most` items; `what` names them in an error.
pub(crate) const fn list<C>(item: C, most: usize, what: &'static str) -> ListOf<C> {
    ListOf { item, most, what, sends: usize::MAX }
}

/// Returns the codec of a list whose writer sends the first `most` items.
pub(crate) const fn first_of<C>(item: C, most: usize, what: &'static str) -> ListOf<C> {
    ListOf { item, most, what, sends: most }
}

impl<T, C: FieldCodec<T>> FieldCodec<Vec<T>> for ListOf<C> {
    fn encode(&self, items: &Vec<T>, out: &mut Writer) {
        let items = &items[..items.len().min(self.sends)];
        out.count(items.len());
        items.iter().for_each(|item| self.item.encode(item, out));
    }

    fn decode(&self, reader: &mut Reader<'_>) -> Decoded<Vec<T>> {
        let count = reader.count(self.most, self.what)?;
        (0..count).map(|_| self.item.decode(reader)).collect()
    }
}

/// The items of an array.
pub(crate) struct EachOf;

impl<T: Wire + Copy + Default, const N: usize> FieldCodec<[T; N]> for EachOf {
    fn encode(&self, items: &[T; N], out: &mut Writer) {
        items.iter().for_each(|item| item.encode(out));
    }

    fn decode(&self, reader: &mut Reader<'_>) -> Decoded<[T; N]> {
        let mut items = [T::default(); N];
        for item in &mut items {
            *item = T::decode(reader)?;
        }
        Ok(items)
    }
}

impl<A, B, C: FieldCodec<A>, D: FieldCodec<B>> FieldCodec<(A, B)> for (C, D) {
    fn encode(&self, (first, second): &(A, B), out: &mut Writer) {
        self.0.encode(first, out);
        self.1.encode(second, out);
    }

    fn decode(&self, reader: &mut Reader<'_>) -> Decoded<(A, B)> {
        Ok((self.0.decode(reader)?, self.1.decode(reader)?))
    }
}

/// A flag, and the value where it is set.
pub(crate) struct Optional<C>(pub(crate) C);

impl<T, C: FieldCodec<T>> FieldCodec<Option<T>> for Optional<C> {
    fn encode(&self, value: &Option<T>, out: &mut Writer) {
        out.bool(value.is_some());
        value.iter().for_each(|value| self.0.encode(value, out));
    }

    fn decode(&self, reader: &mut Reader<'_>) -> Decoded<Option<T>> {
        if reader.bool()? { self.0.decode(reader).map(Some) } else { Ok(None) }
    }
}

/// An optional value; its default stands for `None`.
pub(crate) struct DefaultIsNone<C>(pub(crate) C);

impl<T: Default + PartialEq, C: FieldCodec<T>> FieldCodec<Option<T>> for DefaultIsNone<C> {
    fn encode(&self, value: &Option<T>, out: &mut Writer) {
        self.0.encode(value.as_ref().unwrap_or(&T::default()), out);
    }

    fn decode(&self, reader: &mut Reader<'_>) -> Decoded<Option<T>> {
        Ok(Some(self.0.decode(reader)?).filter(|value| *value != T::default()))
    }
}

/// A number that its reader refuses with this error beyond the limit.
pub(crate) struct AtMost<T>(pub(crate) T, pub(crate) ProtocolError);

impl<T: Wire + PartialOrd> FieldCodec<T> for AtMost<T> {
    fn encode(&self, value: &T, out: &mut Writer) {
        value.encode(out);
    }

    fn decode(&self, reader: &mut Reader<'_>) -> Decoded<T> {
        let value = T::decode(reader)?;
        if value <= self.0 { Ok(value) } else { Err(self.1) }
    }
}

/// A value that its reader refuses with this error, unless the test holds.
pub(crate) struct Checked<C, T>(pub(crate) C, pub(crate) fn(&T) -> bool, pub(crate) ProtocolError);

impl<T, C: FieldCodec<T>> FieldCodec<T> for Checked<C, T> {
    fn encode(&self, value: &T, out: &mut Writer) {
        self.0.encode(value, out);
    }

    fn decode(&self, reader: &mut Reader<'_>) -> Decoded<T> {
        let value = self.0.decode(reader)?;
        if (self.1)(&value) { Ok(value) } else { Err(self.2) }
    }
}

wire_newtypes! {
    EntryId as Varint;
    Features as OfType;
    CopyId as OfType;
    CopyNumber as OfType;
    PathId as OfType;
    StreamId as OfType;
}

impl<T: Wire> Wire for Option<T> {
    fn encode(&self, out: &mut Writer) {
        Optional(OfType).encode(self, out);
    }

    fn decode(reader: &mut Reader<'_>) -> Decoded<Self> {
        Optional(OfType).decode(reader)
    }
}

impl<A: Wire, B: Wire> Wire for (A, B) {
    fn encode(&self, out: &mut Writer) {
        (OfType, OfType).encode(self, out);
    }

    fn decode(reader: &mut Reader<'_>) -> Decoded<Self> {
        (OfType, OfType).decode(reader)
    }
}
