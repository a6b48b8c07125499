//! Writing a tensor file.

use std::collections::{BTreeMap, HashSet};
use std::io::{self, Write};
use std::path::Path;

use serde_json::Value;

use super::layout::field;
use super::{ALIGNMENT, ContentHasher, HASH_KEY, LONGEST_HEADER, METADATA_KEY, VALUE_BYTES, place};
use crate::error::{Error, Result};
use crate::storage::{atomic, printable};

/// What a tensor file shall hold. The values are borrowed and go to the disk in small pieces.
///
/// ```no_run
/// # use bowline::storage::tensor_file::TensorFileWriter;
/// let values = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
/// let mut file = TensorFileWriter::new();
/// file.metadata("epoch", 3).tensor("encoder.weight", &[2, 3], &values);
/// let hash = file.save("model.safetensors")?;
/// # Ok::<(), bowline::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct TensorFileWriter<'a> {
    metadata: BTreeMap<String, String>,
    tensors: Vec<View<'a>>,
}

#[derive(Clone, Debug)]
struct View<'a> {
    name: String,
    shape: Vec<usize>,
    values: &'a [f32],
}

impl<'a> TensorFileWriter<'a> {
    /// Without tensors and metadata.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a pair to the metadata, or replaces the one with this key. A float written with `{}` and read back with
    /// [`super::TensorFile::value`] keeps its bits.
    pub fn metadata(&mut self, key: impl Into<String>, value: impl ToString) -> &mut Self {
        self.metadata.insert(key.into(), value.to_string());
        self
    }

    /// Adds a tensor, row-major, after those already there.
    pub fn tensor(&mut self, name: impl Into<String>, shape: &[usize], values: &'a [f32]) -> &mut Self {
        self.tensors.push(View { name: name.into(), shape: shape.to_vec(), values });
        self
    }

    /// Writes the file whole or not at all ([`atomic::write`]) and gives its content hash. Values that are not finite,
    /// a shape that does not fit and a name given twice are refused before anything is written.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<String> {
        let path = path.as_ref();
        let (header, hash) = self.header(path)?;
        atomic::write(path, |out| self.write(&header, out))?;
        Ok(hash)
    }

    /// As [`TensorFileWriter::save`], keeping the file that was there ([`atomic::write_keeping_previous`]).
    pub fn save_keeping_previous(&self, path: impl AsRef<Path>, previous: impl AsRef<Path>) -> Result<String> {
        let path = path.as_ref();
        let (header, hash) = self.header(path)?;
        atomic::write_keeping_previous(path, previous, |out| self.write(&header, out))?;
        Ok(hash)
    }

    /// The bytes of the file; `path` is only for messages.
    pub fn to_bytes(&self, path: impl AsRef<Path>) -> Result<Vec<u8>> {
        let path = path.as_ref();
        let (header, _) = self.header(path)?;
        let mut bytes = Vec::new();
        self.write(&header, &mut bytes).map_err(Error::io(path, "write"))?;
        Ok(bytes)
    }

    /// The checked and padded header with its length before it, and the content hash in it.
    fn header(&self, path: &Path) -> Result<(Vec<u8>, String)> {
        self.check(path)?;
        let hash = self.content_hash();
        let quoted = |text: &str| Value::from(text).to_string();

        let mut json = format!("{{{}:{{{}:{}", quoted(METADATA_KEY), quoted(HASH_KEY), quoted(&hash));
        for (key, value) in &self.metadata {
            json += &format!(",{}:{}", quoted(key), quoted(value));
        }
        json.push('}');
        let mut start = 0;
        for tensor in &self.tensors {
            let end = start + tensor.values.len() * VALUE_BYTES;
            let (name, shape) = (quoted(&tensor.name), Value::from(tensor.shape.as_slice()));
            json += &format!(r#",{name}:{{"dtype":"F32","shape":{shape},"data_offsets":[{start},{end}]}}"#);
            start = end;
        }
        json.push('}');

        let length = (8 + json.len()).next_multiple_of(ALIGNMENT) - 8;
        if length > LONGEST_HEADER {
            let problem = format!("{length} bytes is more than the most allowed, {LONGEST_HEADER}");
            return Err(Error::model(path, "header length", problem, "store less text in the metadata"));
        }
        let mut header = (length as u64).to_le_bytes().to_vec();
        header.extend(json.as_bytes());
        header.resize(8 + length, b' ');
        Ok((header, hash))
    }

    fn check(&self, path: &Path) -> Result<()> {
        const REPORT: &str = "report this: the program asked for a file that could not be read back";
        if self.metadata.contains_key(HASH_KEY) {
            return Err(Error::model(path, format!("metadata `{HASH_KEY}`"), "this key is the file's own", REPORT));
        }
        let mut names = HashSet::from([METADATA_KEY]);
        for View { name, shape, values } in &self.tensors {
            let wrong = |problem: String| Error::model(path, field(name), problem, REPORT);
            if !names.insert(name) {
                return Err(wrong(format!("the name `{}` is taken", printable(name))));
            }
            if shape.iter().try_fold(1, |product: usize, &size| product.checked_mul(size)) != Some(values.len()) {
                return Err(wrong(format!("{} values do not have the shape {shape:?}", values.len())));
            }
            if let Some(index) = values.iter().position(|value| !value.is_finite()) {
                return Err(Error::model(
                    path,
                    field(name),
                    format!("the value at {} is {}; nothing was written", place(index, shape), values[index]),
                    "go back to weights from before they stopped being numbers, and lower the learning rate",
                ));
            }
        }
        Ok(())
    }

    fn content_hash(&self) -> String {
        let mut by_name: Vec<_> = self.tensors.iter().collect();
        by_name.sort_by_key(|tensor| &tensor.name);
        let mut hasher = ContentHasher::new(self.metadata.iter(), by_name.len());
        for tensor in by_name {
            hasher.tensor(&tensor.name, &tensor.shape);
            for_each_piece(tensor.values, |bytes| hasher.bytes(bytes));
        }
        hasher.finish()
    }

    fn write(&self, header: &[u8], out: &mut dyn Write) -> io::Result<()> {
        out.write_all(header)?;
        let mut written = Ok(());
        for tensor in &self.tensors {
            for_each_piece(tensor.values, |bytes| {
                if written.is_ok() {
                    written = out.write_all(bytes);
                }
            });
        }
        written
    }
}

/// Gives the values as little-endian bytes, a piece at a time.
fn for_each_piece(values: &[f32], mut take: impl FnMut(&[u8])) {
    const PIECE: usize = 1 << 14;
    let mut buffer = vec![0; PIECE.min(values.len()) * VALUE_BYTES];
    for piece in values.chunks(PIECE) {
        let bytes = &mut buffer[..piece.len() * VALUE_BYTES];
        for (four, value) in bytes.as_chunks_mut().0.iter_mut().zip(piece) {
            *four = value.to_le_bytes();
        }
        take(bytes);
    }
}
