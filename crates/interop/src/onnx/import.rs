//! The weights of a word model in an ONNX file, under the names that PyTorch gives them.
//!
//! ONNX keeps a graph of operators, and the names in it mean nothing. So the path of the words through the graph is followed, from
//! the `Gather` that looks up word vectors to the last matrix:
//!
//! | operator | becomes |
//! |---|---|
//! | `Gather` of a matrix | `encoder.weight` |
//! | `LSTM`, `GRU`, `RNN` | the next layer: `rnn.weight_ih_l0` and so on, gates in PyTorch's order |
//! | `Gemm`, or `MatMul` and `Add` | `decoder`; with another one before it, `projection` |
//! | `Tanh`, `Sigmoid`, `Relu` after the projection | its activation |
//! | those that move values without changing them | nothing |
//!
//! Any other operator on that path is an error. What lies beside it (shapes, initial states) is not looked at, but for an initial
//! state that is a constant other than zero: Bowline's streams begin with zeros.
//!
//! Read are the files of [`super::export`] and those of `torch.onnx.export`.

mod node;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};
use std::path::Path;

use self::node::Node;
use crate::import::{Functions, Weights};
use crate::protobuf::read::{Fields, little_endian};
use bowline::error::Error;
use bowline::model_folder::VOCABULARY_HASH_KEY;
use bowline::spec::Activation;
use bowline::storage::tensor_file::{ContentHash, TensorFile, TensorFileWriter};
use bowline::storage::{files, printable};

const ADVICE: &str = "a word model: an embedding, LSTM, GRU or RNN layers, and a linear classifier, all in float32";

/// What goes through these comes out with other axes, or the same.
const MOVES: [&str; 7] = ["Squeeze", "Unsqueeze", "Reshape", "Flatten", "Transpose", "Identity", "Dropout"];

/// A value of the path ends here.
const ENDS: [&str; 3] = ["Softmax", "LogSoftmax", "Log"];

/// These only ask for a value's shape.
const ASKS: [&str; 2] = ["Shape", "Size"];

/// Reads the weights in the ONNX file `path`.
pub(crate) fn read(path: &Path) -> bowline::Result<Weights> {
    let bytes = files::read(path, super::LONGEST)?;
    let wrong = |problem: String| Error::model(path, "ONNX graph", printable(&problem), ADVICE);
    let found = find(&bytes).map_err(wrong)?;
    let mut writer = TensorFileWriter::new();
    for (key, value) in &found.metadata {
        writer.metadata(*key, *value);
    }
    for (name, shape, values) in &found.tensors {
        writer.tensor(name, shape, values);
    }
    let file = TensorFile::parse(path, writer.to_bytes(path)?, ContentHash::IfPresent)?;
    Ok(Weights { file, functions: found.functions })
}

/// What a file holds.
struct Found<'a> {
    tensors: Tensors,
    functions: Functions,
    metadata: Vec<(&'static str, &'a str)>,
}

fn find(bytes: &[u8]) -> Result<Found<'_>, String> {
    let model = Fields::parse(bytes)?;
    let graphs = model.messages(7)?;
    let [graph] = graphs.as_slice() else { return Err("this is no ONNX model: it has no graph".to_owned()) };
    let mut walk = Walk::default();
    for tensor in graph.messages(5)? {
        walk.constant(tensor.text(8)?, tensor);
    }
    for node in graph.messages(1)? {
        walk.step(Node::parse(node)?)?;
    }
    let mut metadata = Vec::new();
    for pair in model.messages(14)? {
        match pair.text(1)? {
            "bowline.vocabulary_sha256" => metadata.push((VOCABULARY_HASH_KEY, pair.text(2)?)),
            "bowline.tokenize" => metadata.push(("tokenize", pair.text(2)?)),
            _ => {}
        }
    }
    let (tensors, functions) = walk.end()?;
    Ok(Found { tensors, functions, metadata })
}

/// A tensor in the file: which, and whether it is used with rows and columns exchanged.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Constant {
    tensor: usize,
    transposed: bool,
}

/// A matrix product on the path after the layers.
struct Linear {
    weight: Constant,
    bias: Option<Constant>,
    activation: Activation,
}

/// How far the path of the words has been followed.
#[derive(Default)]
struct Walk<'a> {
    tensors: Vec<Fields<'a>>,
    constants: HashMap<&'a str, Constant>,
    /// Names of what lies on the path.
    path: HashSet<&'a str>,
    embedding: Option<Constant>,
    layers: Vec<Layer>,
    linears: Vec<Linear>,
}

/// A layer's matrices and how they are cut into gates.
struct Layer {
    w: Constant,
    r: Constant,
    b: Option<Constant>,
    /// PyTorch's gates as ONNX's: the inverse of the order in which they are exported.
    gates: &'static [usize],
    activation: Activation,
}

impl<'a> Walk<'a> {
    fn constant(&mut self, name: &'a str, tensor: Fields<'a>) {
        self.constants.insert(name, Constant { tensor: self.tensors.len(), transposed: false });
        self.tensors.push(tensor);
    }

    fn constant_at(&self, node: &Node<'a>, which: usize) -> Option<Constant> {
        self.constants.get(node.takes(which)?).copied()
    }

    /// A tensor that an operator must have.
    fn weights(&self, node: &Node<'a>, which: usize) -> Result<Constant, String> {
        self.constant_at(node, which)
            .ok_or_else(|| node.says("takes a matrix that is computed; export the model with its constants folded"))
    }

    /// Follows the path through one operator. Operators are in the order in which they are computed.
    fn step(&mut self, node: Node<'a>) -> Result<(), String> {
        let on_path = |which: usize| node.takes(which).is_some_and(|name| self.path.contains(name));
        let operator = node.operator;
        if operator == "Constant" {
            if let Some(value) = node.attributes.get("value")
                && let Some(tensor) = value.messages(5)?.pop()
            {
                self.constant(node.gives()?, tensor);
            }
            return Ok(());
        }
        if ["Identity", "Transpose"].contains(&operator)
            && let Some(constant) = self.constant_at(&node, 0)
        {
            let transposed = constant.transposed ^ (operator == "Transpose");
            self.constants.insert(node.gives()?, Constant { transposed, ..constant });
            return Ok(());
        }
        if operator == "Gather"
            && self.embedding.is_none()
            && let Some(matrix) = self.constant_at(&node, 0)
            && self.shape(matrix)?.len() == 2
            && self.is_float(matrix)?
        {
            node.expect("axis", 0, 0)?;
            self.embedding = Some(matrix);
            self.path.insert(node.gives()?);
            return Ok(());
        }
        let (first, second) = (on_path(0), on_path(1));
        if !(0..node.takes.len()).any(on_path) || ASKS.contains(&operator) {
            return Ok(());
        }
        match operator {
            _ if MOVES.contains(&operator) && first => {
                if !node.keeps_rows()? {
                    return Err(node.says("exchanges rows and columns"));
                }
            }
            "LSTM" | "GRU" | "RNN" if first && self.linears.is_empty() => {
                let layer = self.layer(&node)?;
                self.layers.push(layer);
            }
            "Gemm" if first && !self.layers.is_empty() => {
                let (alpha, beta) = (node.float("alpha", 1.0)?, node.float("beta", 1.0)?);
                if alpha != 1.0 || beta != 1.0 {
                    return Err(node.says(&format!("multiplies by {alpha} and {beta}")));
                }
                node.expect("transA", 0, 0)?;
                let weight = self.weights(&node, 1)?;
                let transposed = weight.transposed ^ (node.int("transB", 0)? == 0);
                let bias = node.takes(2).map(|_| self.weights(&node, 2)).transpose()?;
                let weight = Constant { transposed, ..weight };
                self.linears.push(Linear { weight, bias, activation: Activation::Linear });
            }
            "MatMul" if first && !self.layers.is_empty() => {
                let weight = self.weights(&node, 1)?;
                let weight = Constant { transposed: !weight.transposed, ..weight };
                self.linears.push(Linear { weight, bias: None, activation: Activation::Linear });
            }
            "Add" if first != second => {
                let bias = self.weights(&node, usize::from(first))?;
                match self.linears.last_mut() {
                    Some(linear) if linear.bias.is_none() => linear.bias = Some(bias),
                    _ => return Err(node.says("adds to something else than a matrix product")),
                }
            }
            "Tanh" | "Sigmoid" | "Relu" => match self.linears.last_mut() {
                Some(linear) if linear.activation == Activation::Linear => linear.activation = function(operator)?,
                _ => return Err(node.says("is in a place where Bowline's models have none")),
            },
            _ if ENDS.contains(&operator) => return Ok(()),
            _ => return Err(node.says("has no place in Bowline's models")),
        }
        self.path.insert(node.gives()?);
        Ok(())
    }

    fn layer(&self, node: &Node<'a>) -> Result<Layer, String> {
        let names: Vec<&str> = match node.attributes.get("activations") {
            Some(names) => names.texts(9)?,
            None => Vec::new(),
        };
        if let Some(direction) = node.attributes.get("direction")
            && direction.text(4)? != "forward"
        {
            return Err(node.says("does not read forward; Bowline's layers do"));
        }
        node.expect("layout", 0, 0)?;
        if node.attributes.contains_key("clip") {
            return Err(node.says("clips its values; Bowline's layers do not"));
        }
        let (gates, usual, states): (&[usize], &[&str], _) = match node.operator {
            "LSTM" => {
                node.expect("input_forget", 0, 0)?;
                if node.takes(7).is_some() {
                    return Err(node.says("has peepholes; Bowline's LSTM has none"));
                }
                (&[0, 2, 3, 1], &["Sigmoid", "Tanh", "Tanh"], 2)
            }
            "GRU" => {
                node.expect("linear_before_reset", 1, 0)?;
                (&[1, 0, 2], &["Sigmoid", "Tanh"], 1)
            }
            _ => (&[0], &[], 1),
        };
        let activation = match (usual, names.as_slice()) {
            ([], []) => Activation::Tanh,
            ([], [name]) => function(name)?,
            (_, []) => Activation::Tanh,
            (usual, names) if usual == names => Activation::Tanh,
            (_, names) => return Err(node.says(&format!("computes {}", names.join(", ")))),
        };
        for which in 5..5 + states {
            if let Some(state) = self.constant_at(node, which)
                && self.values(state)?.iter().any(|&x| x != 0.0)
            {
                return Err(node.says("begins with a state of its own; Bowline's streams begin with zeros"));
            }
        }
        let b = node.takes(3).map(|_| self.weights(node, 3)).transpose()?;
        Ok(Layer { w: self.weights(node, 1)?, r: self.weights(node, 2)?, b, gates, activation })
    }

    /// The tensors by PyTorch's names, and what is computed of them.
    fn end(&self) -> Result<(Tensors, Functions), String> {
        let embedding = self.embedding.ok_or("there is no `Gather` of word vectors")?;
        if self.layers.is_empty() {
            return Err("there is no LSTM, GRU or RNN on the path of the words".to_owned());
        }
        let (projection, decoder) = match self.linears.as_slice() {
            [decoder] => (None, decoder),
            [projection, decoder] => (Some(projection), decoder),
            linears => return Err(format!("{} matrix products follow the layers, not one or two", linears.len())),
        };
        if decoder.activation != Activation::Linear {
            return Err("the classifier is not linear".to_owned());
        }
        let mut tensors = Tensors::new();
        tensors.push(("encoder.weight".to_owned(), self.shape(embedding)?, self.values(embedding)?));
        for (l, layer) in self.layers.iter().enumerate() {
            // (1, rows, columns): one direction.
            for (name, constant) in [("weight_ih", layer.w), ("weight_hh", layer.r)] {
                let shape = self.shape(constant)?;
                let [1, rows, columns] = *shape else {
                    return Err(format!("a matrix of layer {l} has the shape {shape:?}, not [1, rows, columns]"));
                };
                let values = pytorch_gates(&self.values(constant)?, layer.gates)?;
                tensors.push((format!("rnn.{name}_l{l}"), vec![rows, columns], values));
            }
            let Some(b) = layer.b else { continue };
            let b = self.values(b)?;
            if !b.len().is_multiple_of(2) {
                return Err(format!("the bias of layer {l} has {} values, not two for each row", b.len()));
            }
            let (ih, hh) = b.split_at(b.len() / 2);
            for (name, values) in [("bias_ih", ih), ("bias_hh", hh)] {
                let values = pytorch_gates(values, layer.gates)?;
                tensors.push((format!("rnn.{name}_l{l}"), vec![values.len()], values));
            }
        }
        for (name, linear) in [("projection", projection), ("decoder", Some(decoder))] {
            let Some(linear) = linear else { continue };
            // One tensor for both is a tied model.
            if linear.weight != embedding {
                tensors.push((format!("{name}.weight"), self.shape(linear.weight)?, self.values(linear.weight)?));
            }
            if let Some(bias) = linear.bias {
                let values = self.values(bias)?;
                tensors.push((format!("{name}.bias"), vec![values.len()], values));
            }
        }
        let projection = projection.map_or(Activation::Linear, |linear| linear.activation);
        Ok((tensors, Functions { layers: self.layers.iter().map(|layer| layer.activation).collect(), projection }))
    }

    fn is_float(&self, constant: Constant) -> Result<bool, String> {
        Ok(self.tensors[constant.tensor].number(2)? == Some(super::graph::FLOAT))
    }

    fn shape(&self, constant: Constant) -> Result<Vec<usize>, String> {
        let sizes = self.tensors[constant.tensor].numbers(1)?;
        let mut shape: Vec<usize> = Vec::new();
        for size in sizes {
            shape.push(usize::try_from(size).map_err(|_| format!("a tensor has the size {size}"))?);
        }
        if constant.transposed {
            shape.reverse();
        }
        Ok(shape)
    }

    fn values(&self, constant: Constant) -> Result<Vec<f32>, String> {
        let tensor = &self.tensors[constant.tensor];
        let name = tensor.text(8)?;
        if !self.is_float(constant)? {
            let kind = tensor.number(2)?.unwrap_or(0);
            return Err(format!("the tensor `{name}` has values of ONNX's type {kind}, not float32 (1)"));
        }
        if tensor.number(14)? == Some(1) {
            return Err(format!("the tensor `{name}` is in another file; save the model with its tensors inside"));
        }
        let values: Vec<f32> = match tensor.bytes(9)?.pop() {
            Some(raw) => little_endian(raw)?.collect(),
            None => tensor.floats(4)?,
        };
        let shape = self.shape(Constant { transposed: false, ..constant })?;
        if shape.iter().try_fold(1usize, |all, &size| all.checked_mul(size)) != Some(values.len()) {
            return Err(format!("the tensor `{name}` has {} values for the shape {shape:?}", values.len()));
        }
        if !constant.transposed {
            return Ok(values);
        }
        let [rows, columns] = *shape else { return Err(format!("the tensor `{name}` is not a matrix")) };
        Ok((0..columns).flat_map(|c| (0..rows).map(move |r| (r, c))).map(|(r, c)| values[r * columns + c]).collect())
    }
}

/// PyTorch's name, shape and values.
type Tensors = Vec<(String, Vec<usize>, Vec<f32>)>;

fn function(name: &str) -> Result<Activation, String> {
    match name {
        "Tanh" => Ok(Activation::Tanh),
        "Sigmoid" => Ok(Activation::Sigmoid),
        "Relu" => Ok(Activation::Relu),
        other => Err(format!("an RNN computes {other}; Bowline's compute Tanh, Sigmoid or Relu")),
    }
}

/// The rows of the gates in PyTorch's order.
fn pytorch_gates(values: &[f32], order: &[usize]) -> Result<Vec<f32>, String> {
    if !values.len().is_multiple_of(order.len()) {
        return Err(format!("{} values cannot be cut into {} gates", values.len(), order.len()));
    }
    Ok(super::graph::in_order(values, order))
}
