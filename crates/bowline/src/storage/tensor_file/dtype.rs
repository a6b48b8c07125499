//! The kinds of number a tensor may hold.
//!
//! Bowline writes `F32` and, in its own files, reads nothing else. Files of other tools may hold halves: `F16` (IEEE 754,
//! 5 bits of exponent, 10 of fraction) and `BF16` (the upper half of an `F32`). Every half is exactly some `f32`.

/// Which of them a reader takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Accepted {
    /// `F32` alone.
    Single,
    /// `F16` and `BF16` too.
    HalfToo,
}

impl Accepted {
    /// The names, for a message.
    pub(super) fn names(self) -> &'static str {
        match self {
            Accepted::Single => "`F32`",
            Accepted::HalfToo => "`F32`, `F16` and `BF16`",
        }
    }
}

/// A kind of number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dtype {
    F32,
    F16,
    Bf16,
}

impl Dtype {
    /// The kind with this name, if it is accepted.
    pub(super) fn of(name: &str, accepted: Accepted) -> Option<Dtype> {
        match (name, accepted) {
            ("F32", _) => Some(Dtype::F32),
            ("F16", Accepted::HalfToo) => Some(Dtype::F16),
            ("BF16", Accepted::HalfToo) => Some(Dtype::Bf16),
            _ => None,
        }
    }

    /// Bytes of one value.
    pub(super) fn bytes(self) -> usize {
        match self {
            Dtype::F32 => 4,
            Dtype::F16 | Dtype::Bf16 => 2,
        }
    }

    /// The values in little-endian bytes, as many as there is room for.
    pub(super) fn read(self, bytes: &[u8], values: &mut [f32]) {
        match self {
            Dtype::F32 => each(bytes, values, f32::from_le_bytes),
            Dtype::F16 => each(bytes, values, |two| from_f16(u16::from_le_bytes(two))),
            Dtype::Bf16 => each(bytes, values, |two| f32::from_bits(u32::from(u16::from_le_bytes(two)) << 16)),
        }
    }
}

fn each<const N: usize>(bytes: &[u8], values: &mut [f32], convert: impl Fn([u8; N]) -> f32) {
    for (value, bytes) in values.iter_mut().zip(bytes.as_chunks::<N>().0) {
        *value = convert(*bytes);
    }
}

/// The `f32` that a half is.
fn from_f16(half: u16) -> f32 {
    let sign = u32::from(half & 0x8000) << 16;
    let (exponent, fraction) = (u32::from(half >> 10 & 0x1f), u32::from(half & 0x3ff));
    let magnitude = match exponent {
        // Zero and the subnormal halves, multiples of 2^-24: the product is exact.
        0 => (fraction as f32 * f32::from_bits((127 - 24) << 23)).to_bits(),
        0x1f => 0xff << 23 | fraction << 13,
        _ => (exponent + 127 - 15) << 23 | fraction << 13,
    };
    f32::from_bits(sign | magnitude)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The value by the definition: (-1)^s 2^(e-15) (1 + f/1024), and 2^-14 f/1024 for e = 0.
    #[test]
    fn every_half_is_what_the_definition_says() {
        for half in 0..=u16::MAX {
            let (sign, e, f) = (if half >> 15 == 1 { -1.0 } else { 1.0 }, i32::from(half >> 10 & 31), half & 1023);
            let fraction = f64::from(f) / 1024.0;
            let value = from_f16(half);
            match e {
                31 if f == 0 => assert_eq!(f64::from(value), sign * f64::INFINITY),
                31 => assert!(value.is_nan()),
                0 => assert_eq!(f64::from(value), sign * 2f64.powi(-14) * fraction, "{half:#x}"),
                _ => assert_eq!(f64::from(value), sign * 2f64.powi(e - 15) * (1.0 + fraction), "{half:#x}"),
            }
            assert_eq!(value.is_sign_negative(), half >> 15 == 1, "{half:#x}");
        }
    }

    #[test]
    fn bytes_are_little_endian() {
        let mut values = [0.0; 2];
        Dtype::Bf16.read(&[0xc0, 0x3f, 0x00, 0x80], &mut values);
        assert_eq!(values.map(f32::to_bits), [1.5f32, -0.0].map(f32::to_bits));
        Dtype::F16.read(&[0x00, 0x3e, 0x01, 0x00], &mut values);
        assert_eq!(values, [1.5, 2f32.powi(-24)]);
        Dtype::F32.read(&[0, 0, 0xc0, 0x3f, 0, 0, 0, 0x80], &mut values);
        assert_eq!(values.map(f32::to_bits), [1.5f32, -0.0].map(f32::to_bits));
        assert_eq!(Dtype::of("F16", Accepted::Single), None);
    }
}
