//! JSON objects read strictly: only `{...}`, and no key twice.
//!
//! `serde_json` keeps the last of two equal keys and lets an array stand for a struct; a file that was damaged or made
//! by hand should get neither kindness.

use std::collections::HashSet;
use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::{Deserializer, Error as _, MapAccess, SeqAccess, Visitor};

/// The pairs of an object in their order. Errors inside a value are prefixed with its key.
#[derive(Debug)]
pub(crate) struct Pairs<T>(pub(crate) Vec<(String, T)>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Pairs<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Collect<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Collect<T> {
            type Value = Pairs<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object, {...}")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Pairs<T>, A::Error> {
                let mut pairs = Vec::new();
                let mut seen = HashSet::new();
                while let Some(key) = map.next_key::<String>()? {
                    if !seen.insert(key.clone()) {
                        return Err(A::Error::custom(format_args!("the key `{key}` is there twice")));
                    }
                    let value = map.next_value().map_err(|error| A::Error::custom(format_args!("`{key}`: {error}")))?;
                    pairs.push((key, value));
                }
                Ok(Pairs(pairs))
            }
        }
        deserializer.deserialize_map(Collect(PhantomData))
    }
}

/// What a value in a tensor file's header may be: a string, or a short list of whole numbers.
#[derive(Debug)]
pub(crate) enum Field {
    /// `"F32"`
    Text(String),
    /// `[10000, 200]`
    Numbers(Vec<u64>),
}

/// The longest list of numbers in a [`Field`].
const MOST_NUMBERS: usize = 8;

impl<'de> Deserialize<'de> for Field {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = Field;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string or a list of whole numbers")
            }

            fn visit_str<E>(self, text: &str) -> Result<Field, E> {
                Ok(Field::Text(text.to_owned()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Field, A::Error> {
                let mut numbers = Vec::new();
                while let Some(number) = list.next_element()? {
                    if numbers.len() == MOST_NUMBERS {
                        return Err(A::Error::custom(format_args!("more than {MOST_NUMBERS} numbers in a list")));
                    }
                    numbers.push(number);
                }
                Ok(Field::Numbers(numbers))
            }
        }
        deserializer.deserialize_any(Either)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_objects_without_repeated_keys() {
        let problem = |json: &str| serde_json::from_str::<Pairs<Pairs<Field>>>(json).unwrap_err().to_string();
        assert_eq!(problem("[]"), "invalid type: sequence, expected an object, {...} at line 1 column 0");
        assert_eq!(problem(r#"{"a":{},"a":{}}"#), "the key `a` is there twice at line 1 column 11");
        assert_eq!(problem(r#"{"a":{"b":"","b":""}}"#), "`a`: the key `b` is there twice at line 1 column 16");
        assert_eq!(
            problem(r#"{"a":{"b":null}}"#),
            "`a`: `b`: invalid type: null, expected a string or a list of whole numbers at line 1 column 14"
        );
        assert_eq!(
            problem(r#"{"a":{"b":[0,0,0,0,0,0,0,0,0]}}"#),
            "`a`: `b`: more than 8 numbers in a list at line 1 column 29"
        );
    }
}
