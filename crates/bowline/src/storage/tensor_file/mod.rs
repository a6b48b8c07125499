//! Named `f32` tensors in one file, in the safetensors format, with a content hash.
//!
//! A *tensor file* is eight bytes with the length of the header (little-endian), the *header*, and the *data*. The
//! header is a JSON object, padded with spaces, which gives each tensor's dtype, shape and place in the data; its key
//! `__metadata__` holds pairs of strings. The data are the tensors' values, little-endian, without holes.
//!
//! What Bowline adds within the format: the data begin at a multiple of 64 bytes, so that the file can be mapped into
//! memory, and the metadata hold a *content hash* under [`HASH_KEY`]. It is the SHA-256 (64 hexadecimal digits) of, in
//! this order,
//!
//! - the bytes `bowline tensor file 1\n`,
//! - the number of metadata pairs except the hash itself, and each pair in the order of the keys: key, value,
//! - the number of tensors, and each in the order of the names: name, rank, each size, and the values as in the file,
//!
//! where a number is eight bytes, little-endian, and a string is its length in bytes followed by its UTF-8. So the hash
//! does not depend on how the header is laid out, and no bit of the contents can change without changing it.

mod dtype;
mod layout;
mod reader;
#[cfg(test)]
mod tests;
mod writer;

use sha2::{Digest, Sha256};

pub use reader::{ContentHash, TensorFile};
pub use writer::TensorFileWriter;

/// The metadata key of the content hash.
pub const HASH_KEY: &str = "bowline.sha256";

/// The header's key of the metadata, which is no tensor.
const METADATA_KEY: &str = "__metadata__";

/// No longer header is read or written.
const LONGEST_HEADER: usize = 100_000_000;

/// Where the data begin is a multiple of this.
const ALIGNMENT: usize = 64;

/// Bytes of one value.
const VALUE_BYTES: usize = size_of::<f32>();

/// Computes the content hash from the parts, given in the order of the module's definition.
struct ContentHasher(Sha256);

impl ContentHasher {
    fn new<'a>(metadata: impl Iterator<Item = (&'a String, &'a String)>, tensors: usize) -> ContentHasher {
        let mut hasher = ContentHasher(Sha256::new());
        hasher.bytes(b"bowline tensor file 1\n");
        let pairs: Vec<_> = metadata.filter(|(key, _)| key.as_str() != HASH_KEY).collect();
        hasher.number(pairs.len());
        for (key, value) in pairs {
            hasher.text(key);
            hasher.text(value);
        }
        hasher.number(tensors);
        hasher
    }

    /// Begins a tensor; its values follow as [`ContentHasher::bytes`].
    fn tensor(&mut self, name: &str, shape: &[usize]) {
        self.text(name);
        self.number(shape.len());
        for &size in shape {
            self.number(size);
        }
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    fn text(&mut self, text: &str) {
        self.number(text.len());
        self.bytes(text.as_bytes());
    }

    fn number(&mut self, number: usize) {
        self.bytes(&(number as u64).to_le_bytes());
    }

    fn finish(self) -> String {
        hexadecimal(&self.0.finalize())
    }
}

/// The SHA-256 of bytes, as 64 hexadecimal digits.
pub fn sha256(bytes: &[u8]) -> String {
    hexadecimal(&Sha256::digest(bytes))
}

fn hexadecimal(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::new(), |mut digits, byte| {
        // Writing to a string cannot fail.
        let _ = write!(digits, "{byte:02x}");
        digits
    })
}

/// The place of a flat index in a tensor, as `[row, column]`.
fn place(mut index: usize, shape: &[usize]) -> String {
    let mut place = vec![0; shape.len()];
    for (at, &size) in place.iter_mut().zip(shape).rev() {
        *at = index % size.max(1);
        index /= size.max(1);
    }
    format!("{place:?}")
}
