//! The fields of a request, one by one, with an error that names the field where one is not as it should be. A field that
//! is `null` is as good as none. Numbers may be strings, since that is all that an address can hold.

use crate::problem::Problem;
use serde_json::{Map, Value};

/// A request's fields.
pub struct Fields<'a>(pub &'a Map<String, Value>);

impl<'a> Fields<'a> {
    /// The field, if it is there.
    pub fn get(&self, name: &str) -> Option<&'a Value> {
        self.0.get(name).filter(|value| !value.is_null())
    }

    /// Refuses fields other than these: a misspelt one would be left out in silence.
    pub fn only(&self, names: &[&str]) -> Result<(), Problem> {
        match self.0.keys().find(|name| !names.contains(&name.as_str())) {
            None => Ok(()),
            Some(name) => {
                Err(Problem::invalid(format!("there is no field `{name}` here; there are: {}", names.join(", "))))
            }
        }
    }

    /// A string.
    pub fn text(&self, name: &'static str) -> Result<Option<&'a str>, Problem> {
        match self.get(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(Problem::field(name, "must be a string")),
        }
    }

    /// A whole number between two others.
    pub fn count(&self, name: &'static str, from: usize, to: usize) -> Result<Option<usize>, Problem> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let number = match value {
            Value::String(digits) => digits.parse().ok(),
            // Some clients write all numbers with a point.
            Value::Number(_) => {
                value.as_u64().or_else(|| value.as_f64().filter(|x| x.fract() == 0.0 && *x >= 0.0).map(|x| x as u64))
            }
            _ => None,
        };
        match number.and_then(|number| usize::try_from(number).ok()) {
            Some(number) if (from..=to).contains(&number) => Ok(Some(number)),
            _ => Err(Problem::field(name, format!("must be a whole number from {from} to {to}"))),
        }
    }

    /// A number between two others.
    pub fn number(&self, name: &'static str, from: f64, to: f64) -> Result<Option<f64>, Problem> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let number = match value {
            Value::String(digits) => digits.parse().ok(),
            _ => value.as_f64(),
        };
        match number {
            Some(number) if (from..=to).contains(&number) => Ok(Some(number)),
            _ => Err(Problem::field(name, format!("must be a number from {from} to {to}"))),
        }
    }

    /// True or false.
    pub fn flag(&self, name: &'static str) -> Result<bool, Problem> {
        match self.get(name) {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(Value::String(text)) if text == "true" => Ok(true),
            Some(Value::String(text)) if text == "false" => Ok(false),
            Some(_) => Err(Problem::field(name, "must be true or false")),
        }
    }

    /// A seed: any whole number of 64 bits.
    pub fn seed(&self) -> Result<Option<u64>, Problem> {
        let Some(value) = self.get("seed") else { return Ok(None) };
        let seed = match value {
            Value::String(digits) => digits.parse().ok(),
            _ => value.as_u64().or_else(|| value.as_i64().map(|seed| seed as u64)),
        };
        seed.map(Some).ok_or_else(|| Problem::field("seed", "must be a whole number"))
    }
}
