//! Reading a tensor file.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use super::dtype::Accepted;
use super::layout::{DAMAGED, Layout, Placed, field, header_length};
use super::{ContentHasher, HASH_KEY, place};
use crate::error::{Error, Result};
use crate::storage::{files, printable};

/// Whether a file must carry a content hash. One that is there is always checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContentHash {
    /// A file without one is refused: for files that Bowline writes.
    Required,
    /// A file without one is read: for files that other tools write.
    IfPresent,
}

/// A tensor file in memory, checked from the first byte to the last. Only whether the tensors are the expected ones
/// remains to be asked, with [`TensorFile::expect_exactly`], and whether their values are finite, which
/// [`TensorFile::copy_to`] checks.
#[derive(Debug)]
pub struct TensorFile {
    path: PathBuf,
    layout: Layout,
    bytes: Vec<u8>,
    data_start: usize,
}

impl TensorFile {
    /// Reads and checks a file. The header is checked against the length of the file before the data are read.
    pub fn read(path: impl AsRef<Path>, hash: ContentHash) -> Result<TensorFile> {
        TensorFile::read_accepting(path.as_ref(), hash, Accepted::Single)
    }

    /// Reads and checks a file that another tool wrote: it need not carry a hash, and its values may have half the
    /// precision (`F16`, `BF16`); [`TensorFile::copy_to`] gives them as `f32`, which holds each of them exactly.
    pub fn read_foreign(path: impl AsRef<Path>) -> Result<TensorFile> {
        TensorFile::read_accepting(path.as_ref(), ContentHash::IfPresent, Accepted::HalfToo)
    }

    fn read_accepting(path: &Path, hash: ContentHash, accepted: Accepted) -> Result<TensorFile> {
        let mut file = files::open(path).map_err(Error::io(path, "read"))?;
        let file_length = file.metadata().map_err(Error::io(path, "read"))?.len();

        let mut bytes = Vec::new();
        let mut read_up_to = |bytes: &mut Vec<u8>, length: u64| -> Result<()> {
            let more = length.min(file_length).saturating_sub(bytes.len() as u64);
            usize::try_from(more).ok().and_then(|more| bytes.try_reserve_exact(more).ok()).ok_or_else(|| {
                let advice = "close other programs, or use a machine with more memory";
                Error::model(path, "data", format!("{file_length} bytes do not fit into memory"), advice)
            })?;
            file.by_ref().take(more).read_to_end(bytes).map_err(Error::io(path, "read")).map(drop)
        };
        read_up_to(&mut bytes, 8)?;
        let data_start = 8 + header_length(path, &bytes, file_length)?;
        read_up_to(&mut bytes, data_start as u64)?;
        let header = bytes.get(8..data_start).unwrap_or_default();
        let layout = Layout::parse(path, header, file_length - data_start as u64, accepted)?;
        read_up_to(&mut bytes, file_length)?;
        if bytes.len() as u64 != file_length {
            return Err(Error::model(path, "data", "the file became shorter while it was read", DAMAGED));
        }
        TensorFile { path: path.into(), layout, bytes, data_start }.check_hash(hash)
    }

    /// Checks the bytes of a file; `path` is only for messages.
    pub fn parse(path: impl AsRef<Path>, bytes: Vec<u8>, hash: ContentHash) -> Result<TensorFile> {
        let path = path.as_ref();
        let data_start = 8 + header_length(path, &bytes, bytes.len() as u64)?;
        let layout = Layout::parse(path, &bytes[8..data_start], (bytes.len() - data_start) as u64, Accepted::Single)?;
        TensorFile { path: path.into(), layout, bytes, data_start }.check_hash(hash)
    }

    /// The pairs of strings in the header, the content hash among them.
    pub fn metadata(&self) -> &BTreeMap<String, String> {
        &self.layout.metadata
    }

    /// The content hash, where the file carries one.
    pub fn content_hash(&self) -> Option<&str> {
        self.metadata().get(HASH_KEY).map(String::as_str)
    }

    /// A value of the metadata that must be there and of the given type.
    pub fn value<T: FromStr>(&self, key: &str) -> Result<T> {
        let wrong = |problem: String| Error::model(&self.path, format!("metadata `{key}`"), problem, DAMAGED);
        let text = self.metadata().get(key).ok_or_else(|| wrong("it is missing".to_owned()))?;
        text.parse().map_err(|_| wrong(format!("`{}` is not a possible value", printable(text))))
    }

    /// The names of the tensors, in the order of the data.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.layout.tensors.iter().map(|tensor| tensor.name.as_str())
    }

    /// A tensor's shape, where there is such a tensor.
    pub fn shape(&self, name: &str) -> Option<&[usize]> {
        self.find(name).map(|tensor| tensor.shape.as_slice())
    }

    /// Checks that the file has exactly these tensors with exactly these shapes.
    pub fn expect_exactly<'n>(&self, expected: impl IntoIterator<Item = (&'n str, &'n [usize])>) -> Result<()> {
        const OTHER: &str = "use a file of the same model, or the sizes that belong to this file";
        let mut known = std::collections::HashSet::new();
        for (name, shape) in expected {
            let wrong = |problem| Error::model(&self.path, field(name), problem, OTHER);
            match self.shape(name) {
                None => return Err(wrong("it is missing".to_owned())),
                Some(found) if found != shape => {
                    return Err(wrong(format!("its shape is {found:?}, it should be {shape:?}")));
                }
                Some(_) => known.insert(name),
            };
        }
        match self.names().find(|name| !known.contains(name)) {
            Some(name) => Err(Error::model(&self.path, field(name), "there should be no such tensor", OTHER)),
            None => Ok(()),
        }
    }

    /// Copies a tensor's values, all of which must be finite.
    pub fn copy_to(&self, name: &str, values: &mut [f32]) -> Result<()> {
        let wrong = |problem| Error::model(&self.path, field(name), problem, DAMAGED);
        let tensor = self.find(name).ok_or_else(|| wrong("it is missing".to_owned()))?;
        let bytes = &self.data()[tensor.range.clone()];
        let found = bytes.len() / tensor.dtype.bytes();
        if found != values.len() {
            return Err(wrong(format!("it has {found} values, it should have {}", values.len())));
        }
        tensor.dtype.read(bytes, values);
        match values.iter().position(|value| !value.is_finite()) {
            Some(index) => {
                let place = place(index, &tensor.shape);
                let advice = "use a model from before its weights stopped being numbers";
                Err(Error::model(&self.path, field(name), format!("the value at {place} is {}", values[index]), advice))
            }
            None => Ok(()),
        }
    }

    fn find(&self, name: &str) -> Option<&Placed> {
        self.layout.places.get(name).map(|&at| &self.layout.tensors[at])
    }

    fn data(&self) -> &[u8] {
        &self.bytes[self.data_start..]
    }

    fn check_hash(self, hash: ContentHash) -> Result<TensorFile> {
        let Some(expected) = self.content_hash() else {
            return match hash {
                ContentHash::IfPresent => Ok(self),
                ContentHash::Required => Err(Error::model(
                    &self.path,
                    format!("metadata `{HASH_KEY}`"),
                    "the content hash is missing, so the contents cannot be checked",
                    "use the file as Bowline wrote it; other tools drop the hash when they save a file",
                )),
            };
        };
        let mut by_name: Vec<_> = self.layout.tensors.iter().collect();
        by_name.sort_by_key(|tensor| &tensor.name);
        let mut hasher = ContentHasher::new(self.metadata().iter(), by_name.len());
        for tensor in by_name {
            hasher.tensor(&tensor.name, &tensor.shape);
            hasher.bytes(&self.data()[tensor.range.clone()]);
        }
        let found = hasher.finish();
        if found != expected {
            return Err(Error::model(
                &self.path,
                "content hash",
                format!("the contents have {found}, the file says {}", printable(expected)),
                DAMAGED,
            ));
        }
        Ok(self)
    }
}
