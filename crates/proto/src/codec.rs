//! Wire formats by declaration: `wire_struct!` and `wire_enum!` make a type, its encoder and its decoder from one list.
//!
//! A field has the format of its type ([`Wire`]), or after `as` that of a [`FieldCodec`], which also holds its limit
//! (`field_codecs.rs`).

use std::net::IpAddr;

use crate::encoding::{Decoded, Reader, Writer};
use crate::error::ProtocolError;
use crate::integrity::FrameLen;
use crate::path::{MAX_NAME, Name};

/// A type with one wire format.
pub(crate) trait Wire: Sized {
    /// Writes the value.
    fn encode(&self, out: &mut Writer);
    /// Reads a value.
    fn decode(reader: &mut Reader<'_>) -> Decoded<Self>;
}

/// An enum that begins with the number of its variant.
pub(crate) trait WireEnum: Wire {
    /// Returns the number of the variant.
    fn number(&self) -> u8;
    /// Writes the fields after the number.
    fn encode_fields(&self, out: &mut Writer);
    /// Reads the fields of the variant `number`.
    fn decode_fields(number: u8, reader: &mut Reader<'_>) -> Decoded<Self>;
}

/// The wire format of a field, with its limit.
pub(crate) trait FieldCodec<T> {
    /// Writes the field.
    fn encode(&self, value: &T, out: &mut Writer);
    /// Reads the field.
    fn decode(&self, reader: &mut Reader<'_>) -> Decoded<T>;
}

/// The format of the type.
pub(crate) struct OfType;

impl<T: Wire> FieldCodec<T> for OfType {
    fn encode(&self, value: &T, out: &mut Writer) {
        value.encode(out);
    }

    fn decode(&self, reader: &mut Reader<'_>) -> Decoded<T> {
        T::decode(reader)
    }
}

/// Returns the bytes of a message.
pub(crate) fn to_bytes(message: &impl Wire) -> Vec<u8> {
    let mut out = Writer::new();
    message.encode(&mut out);
    out.into_bytes()
}

/// Reads a message from all of `bytes`.
pub(crate) fn from_bytes<T: Wire>(bytes: &[u8]) -> Decoded<T> {
    let mut reader = Reader::new(bytes);
    let message = T::decode(&mut reader)?;
    reader.finish()?;
    Ok(message)
}

/// Defines a struct whose wire format is its fields in order. After `checked by`, a function refuses invalid values.
macro_rules! wire_struct {
    (
        $(#[$about:meta])* $vis:vis struct $name:ident {
            $($(#[$what:meta])* $field_vis:vis $field:ident: $type:ty $(as $codec:expr)?,)*
        } $(checked by $check:expr)?
    ) => {
        $(#[$about])*
        $vis struct $name { $($(#[$what])* $field_vis $field: $type,)* }

        impl $crate::codec::Wire for $name {
            fn encode(&self, out: &mut $crate::encoding::Writer) {
                let Self { $($field),* } = self;
                $($crate::codec::FieldCodec::encode(&$crate::codec::field_codec!($($codec)?), $field, out);)*
            }

            fn decode(reader: &mut $crate::encoding::Reader<'_>) -> $crate::encoding::Decoded<Self> {
                $(let $field: $type =
                    $crate::codec::FieldCodec::decode(&$crate::codec::field_codec!($($codec)?), reader)?;)*
                let value = Self { $($field),* };
                $(let check: fn(&Self) -> $crate::encoding::Decoded<()> = $check;
                check(&value)?;)?
                Ok(value)
            }
        }
    };
}

/// Defines an enum with a number for each variant, followed by its fields in order. `$words` names it in the error for
/// an unknown number. A field's codec may use the fields before it.
macro_rules! wire_enum {
    (
        $(#[$about:meta])* $vis:vis enum $name:ident: $words:literal {
            $(
                $(#[$what:meta])* $variant:ident
                $(($($(#[$item_about:meta])* $item:ident: $item_type:ty $(as $item_codec:expr)?),+))?
                $({ $($(#[$field_about:meta])* $field:ident: $type:ty $(as $codec:expr)?,)+ })?
                = $number:literal,
            )+
        }
    ) => {
        $(#[$about])*
        $vis enum $name {
            $(
                $(#[$what])* $variant
                $(($($(#[$item_about])* $item_type),+))?
                $({ $($(#[$field_about])* $field: $type,)+ })?,
            )+
        }

        impl $crate::codec::WireEnum for $name {
            fn number(&self) -> u8 {
                match self {
                    $(Self::$variant { .. } => $number,)+
                }
            }

            #[allow(unused_variables, reason = "variants may have no fields")]
            fn encode_fields(&self, out: &mut $crate::encoding::Writer) {
                match self {
                    $(Self::$variant $(($($item),+))? $({ $($field),+ })? => {
                        $($($crate::codec::FieldCodec::encode(
                            &$crate::codec::field_codec!($($item_codec)?), $item, out);)+)?
                        $($($crate::codec::FieldCodec::encode(
                            &$crate::codec::field_codec!($($codec)?), $field, out);)+)?
                    })+
                }
            }

            #[allow(unused_variables, reason = "variants may have no fields")]
            fn decode_fields(
                number: u8,
                reader: &mut $crate::encoding::Reader<'_>,
            ) -> $crate::encoding::Decoded<Self> {
                match number {
                    $($number => {
                        $($(let $item: $item_type = $crate::codec::FieldCodec::decode(
                            &$crate::codec::field_codec!($($item_codec)?), reader)?;)+)?
                        $($(let $field: $type = $crate::codec::FieldCodec::decode(
                            &$crate::codec::field_codec!($($codec)?), reader)?;)+)?
                        Ok(Self::$variant $(($($item),+))? $({ $($field),+ })?)
                    })+
                    value => {
                        Err($crate::error::ProtocolError::Unknown { what: $words, value: value.into() })
                    }
                }
            }
        }

        impl $crate::codec::Wire for $name {
            fn encode(&self, out: &mut $crate::encoding::Writer) {
                out.u8($crate::codec::WireEnum::number(self));
                $crate::codec::WireEnum::encode_fields(self, out);
            }

            fn decode(reader: &mut $crate::encoding::Reader<'_>) -> $crate::encoding::Decoded<Self> {
                let number = reader.u8()?;
                $crate::codec::WireEnum::decode_fields(number, reader)
            }
        }
    };
}

macro_rules! field_codec {
    () => {
        $crate::codec::OfType
    };
    ($codec:expr) => {
        $codec
    };
}

macro_rules! wire_integers {
    ($($type:ident)*) => {$(
        impl Wire for $type {
            fn encode(&self, out: &mut Writer) {
                out.$type(*self);
            }

            fn decode(reader: &mut Reader<'_>) -> Decoded<Self> {
                reader.$type()
            }
        }
    )*};
}

wire_integers!(bool u8 u16 u32 u64 i64);

macro_rules! wire_newtypes {
    ($($name:ident as $codec:expr;)*) => {$(
        impl $crate::codec::Wire for $name {
            fn encode(&self, out: &mut $crate::encoding::Writer) {
                $crate::codec::FieldCodec::encode(&$codec, &self.0, out);
            }

            fn decode(reader: &mut $crate::encoding::Reader<'_>) -> $crate::encoding::Decoded<Self> {
                $crate::codec::FieldCodec::decode(&$codec, reader).map(Self)
            }
        }
    )*};
}

pub(crate) use field_codec;
pub(crate) use wire_enum;
pub(crate) use wire_newtypes;
pub(crate) use wire_struct;

impl<const N: usize> Wire for [u8; N] {
    fn encode(&self, out: &mut Writer) {
        out.raw(self);
    }

    fn decode(reader: &mut Reader<'_>) -> Decoded<Self> {
        reader.array()
    }
}

impl<T: Wire> Wire for Box<T> {
    fn encode(&self, out: &mut Writer) {
        T::encode(self, out);
    }

    fn decode(reader: &mut Reader<'_>) -> Decoded<Self> {
        T::decode(reader).map(Box::new)
    }
}

impl Wire for FrameLen {
    fn encode(&self, out: &mut Writer) {
        out.u32(self.get());
    }

    fn decode(reader: &mut Reader<'_>) -> Decoded<Self> {
        Self::new(reader.u32()?)
    }
}

impl Wire for Name {
    fn encode(&self, out: &mut Writer) {
        out.bytes(self.as_bytes());
    }

    fn decode(reader: &mut Reader<'_>) -> Decoded<Self> {
        checked_name(reader.bytes(MAX_NAME, "a name")?)
    }
}

/// Returns the name of these bytes of a message.
pub(crate) fn checked_name(bytes: &[u8]) -> Decoded<Name> {
    Name::new(bytes).map_err(|_| ProtocolError::Invalid("an invalid name"))
}

/// An IP address: 4 or 6, and its bytes.
impl Wire for IpAddr {
    fn encode(&self, out: &mut Writer) {
        match self {
            Self::V4(address) => out.u8(4).raw(&address.octets()),
            Self::V6(address) => out.u8(6).raw(&address.octets()),
        };
    }

    fn decode(reader: &mut Reader<'_>) -> Decoded<Self> {
        match reader.u8()? {
            4 => Ok(Self::from(reader.array::<4>()?)),
            6 => Ok(Self::from(reader.array::<16>()?)),
            value => Err(ProtocolError::Unknown { what: "kind of address", value: value.into() }),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Returns the bytes of a value. It comes back from them, and is an error without the last ones.
    pub(crate) fn check_round_trip<T: Wire + PartialEq>(value: &T) -> Vec<u8> {
        let bytes = to_bytes(value);
        assert!(from_bytes::<T>(&bytes).as_ref() == Ok(value));
        assert!((0..bytes.len()).all(|cut| from_bytes::<T>(&bytes[..cut]).is_err()));
        bytes
    }

    /// Whether `bytes` are an error at every such place with such a value.
    pub(crate) fn refuses<T: Wire>(bytes: &[u8], changes: &[(usize, u8)]) -> bool {
        changes.iter().all(|(at, value)| {
            let mut changed = bytes.to_vec();
            changed[*at] = *value;
            from_bytes::<T>(&changed).is_err()
        })
    }
}
