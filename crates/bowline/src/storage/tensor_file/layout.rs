//! The header of a tensor file, checked before anything is done with it.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::path::Path;

use super::dtype::{Accepted, Dtype};
use super::{LONGEST_HEADER, METADATA_KEY};
use crate::error::{Error, Result};
use crate::storage::printable;
use crate::storage::strict_json::{Field, Pairs};

/// What to do about a file that is not as it was written.
pub(super) const DAMAGED: &str =
    "the file is damaged, incomplete or of another kind: copy it again, or use another one";

/// What to do about a well-formed file that holds something else.
pub(super) const NOT_FLOAT: &str = "save the tensors as 32-bit floats, in PyTorch with `tensor.float()`";

/// One tensor of the file and the place of its values in the data.
#[derive(Debug)]
pub(super) struct Placed {
    pub(super) name: String,
    pub(super) dtype: Dtype,
    pub(super) shape: Vec<usize>,
    pub(super) range: Range<usize>,
}

/// A checked header: the tensors cover the data without holes or overlaps, in the order of this list, and each is as
/// long as its shape says.
#[derive(Debug)]
pub(super) struct Layout {
    pub(super) metadata: BTreeMap<String, String>,
    pub(super) tensors: Vec<Placed>,
    /// Where a name is among them.
    pub(super) places: HashMap<String, usize>,
}

/// The length of the header out of the first bytes of a file that is `file_length` bytes long.
pub(super) fn header_length(path: &Path, first: &[u8], file_length: u64) -> Result<usize> {
    let wrong = |problem: String| Error::model(path, "header length", problem, DAMAGED);
    let Some(bytes) = first.first_chunk::<8>() else {
        return Err(wrong(format!("a tensor file begins with 8 bytes of it, this file has {}", first.len())));
    };
    let length = u64::from_le_bytes(*bytes);
    if length > LONGEST_HEADER as u64 {
        return Err(wrong(format!("{length} bytes is more than the most allowed, {LONGEST_HEADER}")));
    }
    if length > file_length.saturating_sub(8) {
        return Err(wrong(format!("{length} bytes do not fit into a file of {file_length} bytes")));
    }
    Ok(length as usize)
}

impl Layout {
    /// Checks the header of a file that has `data_length` bytes of data after it.
    pub(super) fn parse(path: &Path, header: &[u8], data_length: u64, accepted: Accepted) -> Result<Layout> {
        let wrong = |problem: String| Error::model(path, "header", printable(&problem), DAMAGED);
        if header.first() != Some(&b'{') {
            return Err(wrong("it does not begin with `{`".to_owned()));
        }
        let text = std::str::from_utf8(header)
            .map_err(|error| wrong(format!("not UTF-8 from byte {} on", error.valid_up_to())))?;
        let Pairs(entries) = serde_json::from_str::<Pairs<Pairs<Field>>>(text)
            .map_err(|error| wrong(format!("it is damaged: {error}")))?;

        let mut layout =
            Layout { metadata: BTreeMap::new(), tensors: Vec::with_capacity(entries.len()), places: HashMap::new() };
        for (name, Pairs(fields)) in entries {
            if name == METADATA_KEY {
                layout.metadata = metadata(path, fields)?;
            } else {
                layout.tensors.push(placed(path, name, fields, accepted)?);
            }
        }
        layout.tensors.sort_by_key(|tensor| (tensor.range.start, tensor.range.end));
        layout.check_cover(path, data_length)?;
        layout.places = layout.tensors.iter().enumerate().map(|(at, tensor)| (tensor.name.clone(), at)).collect();
        Ok(layout)
    }

    /// Checks that the tensors, in the order of their places, follow one another from the first byte to the last.
    fn check_cover(&self, path: &Path, data_length: u64) -> Result<()> {
        let mut end = 0;
        for tensor in &self.tensors {
            let wrong = |problem| Error::model(path, field(&tensor.name), problem, DAMAGED);
            let Range { start, .. } = tensor.range;
            if start < end {
                return Err(wrong(format!("it begins at byte {start} of the data, inside the tensor before it")));
            }
            if start > end {
                return Err(wrong(format!("it begins at byte {start} of the data, with a hole from byte {end} on")));
            }
            end = tensor.range.end;
            if end as u64 > data_length {
                return Err(wrong(format!("it ends at byte {end} of the data, which have only {data_length}")));
            }
        }
        if (end as u64) < data_length {
            let more = data_length - end as u64;
            return Err(Error::model(path, "data", format!("{more} bytes more than the tensors have"), DAMAGED));
        }
        Ok(())
    }
}

/// How a message names a tensor.
pub(super) fn field(name: &str) -> String {
    format!("tensor `{}`", printable(name))
}

fn metadata(path: &Path, fields: Vec<(String, Field)>) -> Result<BTreeMap<String, String>> {
    fields
        .into_iter()
        .map(|(key, value)| match value {
            Field::Text(text) => Ok((key, text)),
            Field::Numbers(_) => {
                let field = format!("metadata `{}`", printable(&key));
                Err(Error::model(path, field, "it is not a string", DAMAGED))
            }
        })
        .collect()
}

fn placed(path: &Path, name: String, fields: Vec<(String, Field)>, accepted: Accepted) -> Result<Placed> {
    let wrong = |problem: String| Error::model(path, field(&name), problem, DAMAGED);
    let (mut dtype, mut shape, mut offsets) = (None, None, None);
    for (key, value) in fields {
        match (key.as_str(), value) {
            ("dtype", Field::Text(text)) => dtype = Some(text),
            ("shape", Field::Numbers(sizes)) => shape = Some(sizes),
            ("data_offsets", Field::Numbers(numbers)) => offsets = Some(numbers),
            ("dtype" | "shape" | "data_offsets", _) => return Err(wrong(format!("`{key}` is of the wrong kind"))),
            _ => return Err(wrong(format!("`{}` is not a key of a tensor", printable(&key)))),
        }
    }
    let missing = |key: &str| wrong(format!("`{key}` is missing"));
    let dtype = dtype.ok_or_else(|| missing("dtype"))?;
    let shape = shape.ok_or_else(|| missing("shape"))?;
    let offsets = offsets.ok_or_else(|| missing("data_offsets"))?;

    let dtype = Dtype::of(&dtype, accepted).ok_or_else(|| {
        let problem = format!("its dtype is `{}`; Bowline reads only {}", printable(&dtype), accepted.names());
        Error::model(path, field(&name), problem, NOT_FLOAT)
    })?;
    let &[start, end] = offsets.as_slice() else {
        return Err(wrong(format!("`data_offsets` has {} numbers, not a beginning and an end", offsets.len())));
    };
    let bytes = shape
        .iter()
        .try_fold(dtype.bytes() as u64, |product, &size| product.checked_mul(size))
        .filter(|&bytes| isize::try_from(bytes).is_ok())
        .ok_or_else(|| wrong(format!("the shape {shape:?} is larger than any memory")))?;
    if end.checked_sub(start) != Some(bytes) {
        return Err(wrong(format!("the shape {shape:?} needs {bytes} bytes, `data_offsets` says {start} to {end}")));
    }
    let as_place = |number: u64| {
        usize::try_from(number).map_err(|_| wrong(format!("`data_offsets` says {start} to {end}, beyond any memory")))
    };
    let range = as_place(start)?..as_place(end)?;
    // A size above `usize::MAX` can only stand beside a zero; no memory is asked for either.
    let shape = shape.iter().map(|&size| as_place(size)).collect::<Result<_>>()?;
    Ok(Placed { name, dtype, shape, range })
}
