//! One operator of the graph.

use std::collections::HashMap;

use crate::protobuf::read::Fields;

/// An operator with the names of what it takes and gives.
pub(super) struct Node<'a> {
    pub(super) operator: &'a str,
    pub(super) takes: Vec<&'a str>,
    gives: Vec<&'a str>,
    pub(super) attributes: HashMap<&'a str, Fields<'a>>,
}

impl<'a> Node<'a> {
    pub(super) fn parse(node: Fields<'a>) -> Result<Node<'a>, String> {
        let mut attributes = HashMap::new();
        for attribute in node.messages(5)? {
            attributes.insert(attribute.text(1)?, attribute);
        }
        Ok(Node { operator: node.text(4)?, takes: node.texts(1)?, gives: node.texts(2)?, attributes })
    }

    /// Something that it takes; the empty name stands for nothing.
    pub(super) fn takes(&self, which: usize) -> Option<&'a str> {
        self.takes.get(which).copied().filter(|name| !name.is_empty())
    }

    pub(super) fn gives(&self) -> Result<&'a str, String> {
        self.gives.first().copied().ok_or_else(|| self.says("gives nothing"))
    }

    pub(super) fn says(&self, problem: &str) -> String {
        format!("the operator {} that gives `{}` {problem}", self.operator, self.gives.first().unwrap_or(&""))
    }

    pub(super) fn int(&self, attribute: &str, otherwise: i64) -> Result<i64, String> {
        Ok(match self.attributes.get(attribute) {
            Some(fields) => fields.number(3)?.unwrap_or(0),
            None => otherwise,
        })
    }

    pub(super) fn float(&self, attribute: &str, otherwise: f32) -> Result<f32, String> {
        Ok(match self.attributes.get(attribute) {
            Some(fields) => fields.floats(2)?.pop().unwrap_or(0.0),
            None => otherwise,
        })
    }

    /// Refuses an attribute that is not what Bowline's layers have.
    pub(super) fn expect(&self, attribute: &str, value: i64, otherwise: i64) -> Result<(), String> {
        match self.int(attribute, otherwise)? {
            found if found == value => Ok(()),
            found => Err(self.says(&format!("has `{attribute}` = {found}; Bowline's layers have {value}"))),
        }
    }

    /// Whether the last axis stays the last, so that a row remains a row.
    pub(super) fn keeps_rows(&self) -> Result<bool, String> {
        let Some(order) = self.attributes.get("perm") else { return Ok(self.operator != "Transpose") };
        let order = order.numbers(8)?;
        Ok(order.last().is_some_and(|&last| last + 1 == order.len() as i64))
    }
}
