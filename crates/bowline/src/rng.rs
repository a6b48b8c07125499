//! Random numbers without a state: a value is a function of (seed, purpose, step, index).
//!
//! Nothing has to be saved or restored to resume a run, and values can be computed in any order. The
//! function is Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011).

/// What a random number is for; numbers for different purposes have nothing to do with each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Initial weights; the step is the number of the tensor.
    Weights,
    /// Dropout mask of the input vectors.
    InputMask,
    /// Dropout mask of a layer's state.
    StateMask(u16),
    /// Dropout mask of a layer's output.
    OutputMask(u16),
    /// Dropout mask of the projection.
    ProjectionMask,
    /// Dropout mask of a stream's words.
    WordMask(u16),
    /// Dropout mask of a layer's recurrent matrix, by level.
    WeightMask(u8, u8),
    /// Which streams forget their state before a window.
    Reset,
    /// Where the text begins in an epoch; the step is the epoch's number.
    Offset,
    /// How long the windows of an epoch are; the step is the epoch's number.
    Length,
    /// Topics of the words of the training text; the step is the number of the sweep.
    Topics,
    /// Words that the loss of a window is computed over; the step is the training step's number.
    Sample,
    /// Words drawn for a benchmark.
    Words,
    /// Where a piece of a text begins.
    Piece,
    /// Words drawn when a text is generated; the step is the number of the text.
    Samples,
}

impl Purpose {
    fn code(self) -> u32 {
        match self {
            Purpose::Weights => 1,
            Purpose::InputMask => 2,
            Purpose::Words => 3,
            Purpose::Piece => 4,
            Purpose::ProjectionMask => 5,
            Purpose::Reset => 6,
            Purpose::Offset => 7,
            Purpose::Length => 8,
            Purpose::Topics => 9,
            Purpose::Sample => 10,
            Purpose::Samples => 0x53,
            Purpose::StateMask(layer) => 0x1_0000 + u32::from(layer),
            Purpose::OutputMask(layer) => 0x2_0000 + u32::from(layer),
            Purpose::WordMask(stream) => 0x3_0000 + u32::from(stream),
            Purpose::WeightMask(layer, level) => 0x4_0000 + (u32::from(layer) << 8) + u32::from(level),
        }
    }
}

/// A stream of numbers for one purpose at one step.
#[derive(Clone, Copy, Debug)]
pub struct Stream {
    key: [u32; 2],
    counter: [u32; 3],
}

impl Stream {
    /// The stream of `(seed, purpose, step)`. Steps below 2^64 and indices below 2^34 do not overlap.
    pub fn new(seed: u64, purpose: Purpose, step: u64) -> Stream {
        // Philox has 64 bits of key and 128 of counter; the purpose shares the key with the seed by a mixing constant.
        let mixed = seed ^ u64::from(purpose.code()).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        Stream { key: halves(mixed), counter: [halves(step)[0], halves(step)[1], purpose.code()] }
    }

    /// The same for the `gate`th of several masks of one purpose; for the first of them this one.
    pub fn of_gate(mut self, gate: u8) -> Stream {
        // Purposes have codes below 2^24.
        self.counter[2] += u32::from(gate) << 24;
        self
    }

    /// Four numbers at once: those of the indices `4 * block ..`.
    pub fn block(&self, block: u32) -> [u32; 4] {
        philox([block, self.counter[0], self.counter[1], self.counter[2]], self.key)
    }

    /// Fills `out` with `value(random u32)`.
    pub fn fill(&self, out: &mut [f32], value: impl Fn(u32) -> f32) {
        for (block, out) in out.chunks_mut(4).enumerate() {
            for (x, r) in out.iter_mut().zip(self.block(block as u32)) {
                *x = value(r);
            }
        }
    }
}

/// A random u32 as a number in 0..1, of 24 bits so that f32 holds it exactly.
pub fn unit(r: u32) -> f32 {
    (r >> 8) as f32 * (1.0 / (1 << 24) as f32)
}

/// Four normal numbers out of four random u32 (Box and Muller 1958).
pub fn normals(r: [u32; 4], out: &mut [f32; 4]) {
    for (r, out) in r.chunks_exact(2).zip(out.chunks_exact_mut(2)) {
        // Neither of them is 0, whose logarithm there is none of.
        let [u, v] = [r[0], r[1]].map(|r| (f64::from(r) + 0.5) / 2f64.powi(32));
        let (radius, angle) = ((-2.0 * u.ln()).sqrt(), std::f64::consts::TAU * v);
        out[0] = (radius * angle.cos()) as f32;
        out[1] = (radius * angle.sin()) as f32;
    }
}

/// Fills `out` with normal numbers of this standard deviation.
pub fn normal(stream: &Stream, out: &mut [f32], deviation: f32) {
    for (block, out) in out.chunks_mut(4).enumerate() {
        let mut four = [0.0; 4];
        normals(stream.block(block as u32), &mut four);
        out.iter_mut().zip(four).for_each(|(x, z)| *x = deviation * z);
    }
}

fn halves(x: u64) -> [u32; 2] {
    [x as u32, (x >> 32) as u32]
}

fn philox(mut counter: [u32; 4], mut key: [u32; 2]) -> [u32; 4] {
    for _ in 0..10 {
        let [lo0, hi0] = halves(u64::from(counter[0]) * 0xD251_1F53);
        let [lo1, hi1] = halves(u64::from(counter[2]) * 0xCD9E_8D57);
        counter = [hi1 ^ counter[1] ^ key[0], lo1, hi0 ^ counter[3] ^ key[1], lo0];
        key = [key[0].wrapping_add(0x9E37_79B9), key[1].wrapping_add(0xBB67_AE85)];
    }
    counter
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn philox_gives_its_authors_known_answers() {
        assert_eq!(philox([0; 4], [0; 2]), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
        assert_eq!(philox([u32::MAX; 4], [u32::MAX; 2]), [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]);
        assert_eq!(
            philox([0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344], [0xa409_3822, 0x299f_31d0]),
            [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1]
        );
    }

    #[test]
    fn normal_numbers_have_the_moments_they_should() {
        let mut x = vec![0.0; 100_001];
        normal(&Stream::new(5, Purpose::Weights, 3), &mut x, 0.5);
        let moment = |k: i32| x.iter().map(|&x| f64::from(x).powi(k)).sum::<f64>() / x.len() as f64;
        assert!(moment(1).abs() < 0.01 && (moment(2) - 0.25).abs() < 0.01 && (moment(4) - 0.1875).abs() < 0.01);
    }

    #[test]
    fn purposes_and_steps_are_different_streams() {
        let first = |seed, purpose, step| Stream::new(seed, purpose, step).block(0);
        let all = [
            first(1, Purpose::Weights, 0),
            first(2, Purpose::Weights, 0),
            first(1, Purpose::InputMask, 0),
            first(1, Purpose::InputMask, 1),
            first(1, Purpose::InputMask, 1 << 32),
            first(1, Purpose::StateMask(0), 0),
            first(1, Purpose::StateMask(1), 0),
            first(1, Purpose::OutputMask(1), 0),
            first(1, Purpose::WordMask(1), 0),
            first(1, Purpose::WeightMask(1, 0), 0),
            first(1, Purpose::WeightMask(0, 1), 0),
            first(1, Purpose::ProjectionMask, 0),
            first(1, Purpose::Reset, 0),
            first(1, Purpose::Offset, 0),
            first(1, Purpose::Length, 0),
        ];
        for (i, a) in all.iter().enumerate() {
            assert!(all[..i].iter().all(|b| a != b));
        }
    }
}
