//! Reading protobuf messages that other programs wrote.
//!
//! A message is parsed one level at a time: [`Fields`] borrows its values from the bytes, and a message inside it is parsed when
//! it is asked for. Nothing in the bytes is trusted. What does not fit is an error in words, for the caller to name the file.

use super::{EIGHT_BYTES, FOUR_BYTES, LENGTH, VARINT};

/// The value of a field.
#[derive(Clone, Copy, Debug)]
enum Value<'a> {
    Number(u64),
    Four([u8; 4]),
    /// No file of ours has a use for these.
    Eight,
    Bytes(&'a [u8]),
}

/// The fields of one message, in their order.
#[derive(Debug)]
pub(crate) struct Fields<'a>(Vec<(u64, Value<'a>)>);

/// What is left to read.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn take(&mut self, bytes: u64) -> Result<&'a [u8], String> {
        let there = self.0.len();
        let (taken, rest) = usize::try_from(bytes)
            .ok()
            .and_then(|bytes| self.0.split_at_checked(bytes))
            .ok_or_else(|| format!("{bytes} bytes should follow, and there are {there}"))?;
        self.0 = rest;
        Ok(taken)
    }

    fn varint(&mut self) -> Result<u64, String> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let [byte] = self.array()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err("a number has more than ten bytes".to_owned())
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], String> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N as u64)?);
        Ok(array)
    }
}

impl<'a> Fields<'a> {
    pub(crate) fn parse(bytes: &'a [u8]) -> Result<Fields<'a>, String> {
        let mut rest = Rest(bytes);
        let mut fields = Vec::new();
        while !rest.0.is_empty() {
            let key = rest.varint()?;
            let value = match key & 7 {
                VARINT => Value::Number(rest.varint()?),
                FOUR_BYTES => Value::Four(rest.array()?),
                EIGHT_BYTES => rest.take(8).map(|_| Value::Eight)?,
                LENGTH => {
                    let length = rest.varint()?;
                    Value::Bytes(rest.take(length)?)
                }
                kind => return Err(format!("field {} is of the unknown kind {kind}", key >> 3)),
            };
            fields.push((key >> 3, value));
        }
        Ok(Fields(fields))
    }

    fn all(&self, field: u64) -> impl Iterator<Item = Value<'a>> {
        self.0.iter().filter(move |(number, _)| *number == field).map(|(_, value)| *value)
    }

    /// Every value of a field of `bytes`.
    pub(crate) fn bytes(&self, field: u64) -> Result<Vec<&'a [u8]>, String> {
        self.all(field)
            .map(|value| match value {
                Value::Bytes(bytes) => Ok(bytes),
                other => Err(format!("field {field} is {other:?}, not bytes")),
            })
            .collect()
    }

    /// Every value of a field of `string`.
    pub(crate) fn texts(&self, field: u64) -> Result<Vec<&'a str>, String> {
        let text = |bytes| std::str::from_utf8(bytes).map_err(|_| format!("the text in field {field} is not UTF-8"));
        self.bytes(field)?.into_iter().map(text).collect()
    }

    /// The last value of a field of `string`; empty if there is none, as protobuf has it.
    pub(crate) fn text(&self, field: u64) -> Result<&'a str, String> {
        Ok(self.texts(field)?.pop().unwrap_or_default())
    }

    /// Every message of a field.
    pub(crate) fn messages(&self, field: u64) -> Result<Vec<Fields<'a>>, String> {
        self.bytes(field)?.into_iter().map(Fields::parse).collect()
    }

    /// Every number of a field of integers, packed or one by one.
    pub(crate) fn numbers(&self, field: u64) -> Result<Vec<i64>, String> {
        let mut numbers = Vec::new();
        for value in self.all(field) {
            match value {
                Value::Number(number) => numbers.push(number as i64),
                Value::Bytes(bytes) => {
                    let mut rest = Rest(bytes);
                    while !rest.0.is_empty() {
                        numbers.push(rest.varint()? as i64);
                    }
                }
                other => return Err(format!("field {field} is {other:?}, not a number")),
            }
        }
        Ok(numbers)
    }

    /// The last number of a field, if there is one.
    pub(crate) fn number(&self, field: u64) -> Result<Option<i64>, String> {
        Ok(self.numbers(field)?.pop())
    }

    /// Every number of a field of `float`, packed or one by one.
    pub(crate) fn floats(&self, field: u64) -> Result<Vec<f32>, String> {
        let mut floats = Vec::new();
        for value in self.all(field) {
            match value {
                Value::Four(bytes) => floats.push(f32::from_le_bytes(bytes)),
                Value::Bytes(bytes) => floats.extend(little_endian(bytes)?),
                other => return Err(format!("field {field} is {other:?}, not a float")),
            }
        }
        Ok(floats)
    }
}

/// Floats as they lie in a file.
pub(crate) fn little_endian(bytes: &[u8]) -> Result<impl Iterator<Item = f32>, String> {
    let (fours, rest) = bytes.as_chunks::<4>();
    if !rest.is_empty() {
        return Err(format!("{} bytes are no whole number of floats", bytes.len()));
    }
    Ok(fours.iter().map(|four| f32::from_le_bytes(*four)))
}

#[cfg(test)]
mod tests {
    use super::super::Message;
    use super::*;
    use std::borrow::Cow;

    fn written(message: &Message<'_>) -> Vec<u8> {
        let mut bytes = Vec::new();
        message.write(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn what_was_written_is_read() {
        let inner = Message::new().text(8, "name").floats(9, Cow::Owned(vec![1.5, -2.0]));
        let message = Message::new().int(1, 150).int(1, -2).float(2, 0.5).double(6, 1.0).message(5, inner);
        let bytes = written(&message);
        let fields = Fields::parse(&bytes).unwrap();
        assert_eq!(fields.numbers(1).unwrap(), [150, -2]);
        assert_eq!(fields.number(1).unwrap(), Some(-2));
        assert_eq!(fields.number(7).unwrap(), None);
        assert_eq!(fields.floats(2).unwrap(), [0.5]);
        let inner = &fields.messages(5).unwrap()[0];
        assert_eq!((inner.text(8).unwrap(), inner.text(1).unwrap()), ("name", ""));
        assert_eq!(inner.floats(9).unwrap(), [1.5, -2.0]);
    }

    /// `{4: [3, 270, 86942]}`, packed: the example of the format's own documentation.
    #[test]
    fn packed_numbers_are_read() {
        let fields = Fields::parse(&[0x22, 6, 3, 0x8e, 2, 0x9e, 0xa7, 5]).unwrap();
        assert_eq!(fields.numbers(4).unwrap(), [3, 270, 86942]);
    }

    #[test]
    fn what_is_no_message_is_an_error() {
        for (bytes, says) in [
            (&[0x08][..], "1 bytes should follow, and there are 0"),
            (&[0x12, 7, b'a'], "7 bytes should follow, and there are 1"),
            (&[0x12, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1], "bytes should follow"),
            (&[0x80; 11], "more than ten bytes"),
            (&[0x0b], "unknown kind 3"),
        ] {
            let error = Fields::parse(bytes).unwrap_err();
            assert!(error.contains(says), "{bytes:x?}: {error}");
        }
        let fields = Fields::parse(&[0x12, 1, 0xff, 0x08, 1]).unwrap();
        assert!(fields.text(2).unwrap_err().contains("not UTF-8"));
        assert!(fields.bytes(1).unwrap_err().contains("not bytes"));
        assert!(fields.floats(2).unwrap_err().contains("no whole number of floats"));
        assert!(fields.floats(1).unwrap_err().contains("not a float"));
    }
}
