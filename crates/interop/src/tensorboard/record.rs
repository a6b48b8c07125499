//! The frame of a record in an event file (TensorFlow's TFRecord).
//!
//! ```text
//! length      8 bytes, little-endian
//! checksum    4 bytes, little-endian, of the length's 8 bytes
//! message     as many bytes as the length says
//! checksum    4 bytes, little-endian, of the message
//! ```
//!
//! A checksum is CRC-32C (Castagnoli's polynomial, bits reflected), rotated to the right by 15 bits and increased by a
//! constant. TensorFlow calls that masked: the checksum of data that hold checksums would else be a weak one.

use crate::protobuf::Message;
use std::io::{self, Write};

/// Writes a message in its frame.
pub(super) fn write(out: &mut impl Write, message: &Message<'_>) -> io::Result<()> {
    let mut bytes = Vec::with_capacity(message.len() as usize);
    message.write(&mut bytes)?;
    let length = (bytes.len() as u64).to_le_bytes();
    out.write_all(&length)?;
    out.write_all(&checksum(&length).to_le_bytes())?;
    out.write_all(&bytes)?;
    out.write_all(&checksum(&bytes).to_le_bytes())
}

fn checksum(bytes: &[u8]) -> u32 {
    crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8)
}

/// CRC-32C, a byte at a time.
fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, &byte| TABLE[usize::from(crc as u8 ^ byte)] ^ (crc >> 8))
}

/// What a byte does to the checksum.
const TABLE: [u32; 256] = {
    const POLYNOMIAL: u32 = 0x82f6_3b78;
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = (crc >> 1) ^ (POLYNOMIAL & (crc & 1).wrapping_neg());
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    /// The check value of the catalogues, and the examples of RFC 3720, appendix B.4.
    #[test]
    fn known_checksums() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
        let rising: Vec<u8> = (0..32).collect();
        assert_eq!(crc32c(&rising), 0x46dd_794e);
        assert_eq!(crc32c(b""), 0);
    }

    /// What TensorBoard's `masked_crc32c` gives for the length 24, with which TensorFlow's own event files begin.
    #[test]
    fn the_mask() {
        assert_eq!(checksum(&24u64.to_le_bytes()).to_le_bytes(), [0xa3, 0x7f, 0x4b, 0x22]);
    }
}
