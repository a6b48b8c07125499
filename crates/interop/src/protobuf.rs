//! Protobuf messages, as much of the wire format as ONNX and TensorBoard files need: writing here, reading in `read`.
//!
//! A *message* is a row of *fields*. A field is a *key*, which is its number and the kind of what follows, and the value:
//! a *varint* (seven bits a byte, the lowest first, the top bit set on all but the last), four or eight bytes
//! little-endian, or a length as a varint and so many bytes. The last kind holds texts, bytes and messages within the
//! message.
//!
//! The length of an inner message stands before it, so a message is put together from the inside out. Tensors of many
//! megabytes are borrowed until the message is written, never copied from one message into the next.

pub(crate) mod read;

use std::borrow::Cow;
use std::io::{self, Write};

/// Kinds of value, as the key names them.
const VARINT: u64 = 0;
const EIGHT_BYTES: u64 = 1;
const LENGTH: u64 = 2;
const FOUR_BYTES: u64 = 5;

/// A message that is being put together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Message<'a> {
    /// The message is these, one after the other.
    pieces: Vec<Piece<'a>>,
    /// Bytes of all pieces.
    len: u64,
}

#[derive(Clone, Debug)]
enum Piece<'a> {
    Bytes(Vec<u8>),
    /// Written as little-endian bytes.
    Floats(Cow<'a, [f32]>),
}

impl<'a> Message<'a> {
    /// A message without fields.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Bytes of the message.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// `int32`, `int64`, enumerations: negative numbers take ten bytes.
    pub(crate) fn int(mut self, field: u32, value: i64) -> Self {
        self.key(field, VARINT);
        self.varint(value as u64);
        self
    }

    /// `float`.
    pub(crate) fn float(mut self, field: u32, value: f32) -> Self {
        self.key(field, FOUR_BYTES);
        self.bytes(&value.to_le_bytes());
        self
    }

    /// `double`.
    pub(crate) fn double(mut self, field: u32, value: f64) -> Self {
        self.key(field, EIGHT_BYTES);
        self.bytes(&value.to_le_bytes());
        self
    }

    /// `string`.
    pub(crate) fn text(mut self, field: u32, text: &str) -> Self {
        self.begin(field, text.len() as u64);
        self.bytes(text.as_bytes());
        self
    }

    /// `bytes` that are floats, little-endian.
    pub(crate) fn floats(mut self, field: u32, values: Cow<'a, [f32]>) -> Self {
        let bytes = 4 * values.len() as u64;
        self.begin(field, bytes);
        self.pieces.push(Piece::Floats(values));
        self.len += bytes;
        self
    }

    /// A message within this one.
    pub(crate) fn message(mut self, field: u32, inner: Message<'a>) -> Self {
        self.begin(field, inner.len);
        self.len += inner.len;
        for piece in inner.pieces {
            match piece {
                Piece::Bytes(bytes) => self.append(&bytes),
                floats => self.pieces.push(floats),
            }
        }
        self
    }

    /// Writes the message.
    pub(crate) fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        const AT_ONCE: usize = 1 << 14;
        let mut buffer = Vec::new();
        for piece in &self.pieces {
            match piece {
                Piece::Bytes(bytes) => out.write_all(bytes)?,
                Piece::Floats(values) => {
                    for values in values.chunks(AT_ONCE) {
                        buffer.clear();
                        buffer.extend(values.iter().flat_map(|value| value.to_le_bytes()));
                        out.write_all(&buffer)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn key(&mut self, field: u32, kind: u64) {
        self.varint(u64::from(field) << 3 | kind);
    }

    fn begin(&mut self, field: u32, len: u64) {
        self.key(field, LENGTH);
        self.varint(len);
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes(&[value as u8 | 0x80]);
            value >>= 7;
        }
        self.bytes(&[value as u8]);
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.append(bytes);
        self.len += bytes.len() as u64;
    }

    /// Adds to the last piece if it is one of bytes; the length is the caller's to count.
    fn append(&mut self, bytes: &[u8]) {
        match self.pieces.last_mut() {
            Some(Piece::Bytes(last)) => last.extend_from_slice(bytes),
            _ => self.pieces.push(Piece::Bytes(bytes.to_vec())),
        }
    }
}

/// A reader of the same format that shares nothing with the writer, for tests of what the writer made.
#[cfg(test)]
pub(crate) mod independent_reader {
    /// One field: its number and value.
    #[derive(Clone, Debug, PartialEq)]
    pub(crate) enum Value {
        Number(u64),
        Four([u8; 4]),
        Eight([u8; 8]),
        Bytes(Vec<u8>),
    }

    /// All fields of a message, in their order.
    #[derive(Clone, Debug)]
    pub(crate) struct Fields(pub(crate) Vec<(u64, Value)>);

    impl Fields {
        pub(crate) fn parse(bytes: &[u8]) -> Fields {
            let mut at = 0;
            let varint = |at: &mut usize| {
                let (mut number, mut shift) = (0u64, 0);
                loop {
                    let byte = bytes[*at];
                    *at += 1;
                    number |= u64::from(byte % 128) << shift;
                    if byte < 128 {
                        return number;
                    }
                    shift += 7;
                }
            };
            let mut fields = Vec::new();
            while at < bytes.len() {
                let key = varint(&mut at);
                let value = match key % 8 {
                    0 => Value::Number(varint(&mut at)),
                    1 => {
                        at += 8;
                        Value::Eight(bytes[at - 8..at].try_into().unwrap())
                    }
                    2 => {
                        let len = varint(&mut at) as usize;
                        at += len;
                        Value::Bytes(bytes[at - len..at].to_vec())
                    }
                    5 => {
                        at += 4;
                        Value::Four(bytes[at - 4..at].try_into().unwrap())
                    }
                    kind => panic!("kind {kind} of field {}", key / 8),
                };
                fields.push((key / 8, value));
            }
            Fields(fields)
        }

        /// The values of a field, in their order.
        pub(crate) fn all(&self, field: u64) -> impl Iterator<Item = &Value> {
            self.0.iter().filter(move |(number, _)| *number == field).map(|(_, value)| value)
        }

        pub(crate) fn bytes(&self, field: u64) -> Vec<&[u8]> {
            self.all(field)
                .map(|value| match value {
                    Value::Bytes(bytes) => bytes.as_slice(),
                    other => panic!("field {field} is {other:?}"),
                })
                .collect()
        }

        pub(crate) fn texts(&self, field: u64) -> Vec<String> {
            self.bytes(field).into_iter().map(|bytes| String::from_utf8(bytes.to_vec()).unwrap()).collect()
        }

        /// The one text of a field; empty if it is not there, as protobuf has it.
        pub(crate) fn text(&self, field: u64) -> String {
            let mut texts = self.texts(field);
            assert!(texts.len() < 2, "field {field}: {texts:?}");
            texts.pop().unwrap_or_default()
        }

        pub(crate) fn messages(&self, field: u64) -> Vec<Fields> {
            self.bytes(field).into_iter().map(Fields::parse).collect()
        }

        pub(crate) fn message(&self, field: u64) -> Fields {
            let mut messages = self.messages(field);
            assert_eq!(messages.len(), 1, "field {field}");
            messages.remove(0)
        }

        pub(crate) fn numbers(&self, field: u64) -> Vec<i64> {
            self.all(field)
                .map(|value| match value {
                    Value::Number(number) => *number as i64,
                    other => panic!("field {field} is {other:?}"),
                })
                .collect()
        }

        pub(crate) fn number(&self, field: u64) -> i64 {
            let numbers = self.numbers(field);
            assert!(numbers.len() < 2, "field {field}: {numbers:?}");
            numbers.first().copied().unwrap_or(0)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::independent_reader::{Fields, Value};
    use super::*;

    fn written(message: &Message<'_>) -> Vec<u8> {
        let mut bytes = Vec::new();
        message.write(&mut bytes).unwrap();
        assert_eq!(bytes.len() as u64, message.len());
        bytes
    }

    /// The examples of the format's own documentation: `{1: 150}`, `{2: "testing"}` and `{3: {1: 150}}`.
    #[test]
    fn the_bytes_are_those_of_the_definition() {
        assert_eq!(written(&Message::new().int(1, 150)), [0x08, 0x96, 0x01]);
        assert_eq!(written(&Message::new().text(2, "testing")), [&[0x12, 0x07], b"testing".as_slice()].concat());
        let outer = Message::new().message(3, Message::new().int(1, 150));
        assert_eq!(written(&outer), [0x1a, 0x03, 0x08, 0x96, 0x01]);
        assert_eq!(written(&Message::new().int(1, -2)), [8, 0xfe, 255, 255, 255, 255, 255, 255, 255, 255, 1]);
        assert_eq!(written(&Message::new().float(1, 1.0)), [0x0d, 0, 0, 0x80, 0x3f]);
        assert_eq!(written(&Message::new().double(1, -2.0)), [0x09, 0, 0, 0, 0, 0, 0, 0, 0xc0]);
        assert_eq!(written(&Message::new().int(16, 0)), [0x80, 0x01, 0]);
        assert!(written(&Message::new()).is_empty());
    }

    #[test]
    fn what_lies_deep_within_is_read_back() {
        let many: Vec<f32> = (0..40_000).map(|i| i as f32 / 3.0).collect();
        let inner = Message::new().int(1, i64::MAX).floats(9, Cow::Borrowed(&many)).text(8, "name");
        let outer = Message::new().message(5, Message::new().message(7, inner).int(2, 300)).text(1, "after");
        let read = Fields::parse(&written(&outer));
        assert_eq!(read.text(1), "after");
        let middle = read.message(5);
        assert_eq!(middle.number(2), 300);
        let inner = middle.message(7);
        assert_eq!((inner.number(1), inner.text(8)), (i64::MAX, "name".to_owned()));
        let floats = inner.bytes(9)[0].chunks(4).map(|four| f32::from_le_bytes(four.try_into().unwrap()));
        assert!(floats.eq(many));
        assert_eq!(Fields::parse(&written(&Message::new().float(3, 0.5))).0, [(3, Value::Four(0.5f32.to_le_bytes()))]);
    }
}
