//! Inputs that are almost right: a seed with a few things done to it. Each is a function of a number and nothing else.

/// Random numbers that follow from a number (SplitMix64).
pub struct Dice(u64);

impl Dice {
    /// Starts from a number.
    pub fn new(seed: u64) -> Dice {
        Dice(seed.wrapping_mul(0x2545_F491_4F6C_DD1D))
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Uniform in 0 .. n, and 0 for n = 0.
    pub fn below(&mut self, n: usize) -> usize {
        if n == 0 { 0 } else { (self.bits() % n as u64) as usize }
    }
}

/// An input is not made longer than this.
const LONGEST: usize = 1 << 16;

const WORDS: [&str; 26] = [
    "0",
    "1",
    "-1",
    "1e308",
    "-1e-400",
    "NaN",
    "inf",
    "null",
    "true",
    "{}",
    "[]",
    "[[[[[[[[",
    "\"",
    "\\",
    "\n",
    "\0",
    "\t ",
    "18446744073709551615",
    "9223372036854775808",
    "4294967296",
    "65536",
    "<unk>",
    "<eos>",
    "\u{1b}[2J",
    "\u{e9}",
    "\u{202e}",
];
const NUMBERS: [u64; 9] = [0, 1, 7, 0x7f, 0xff, 0xffff, 0x7fff_ffff, u32::MAX as u64, u64::MAX];

/// Mutation number `number` of some seeds.
pub fn mutation(seeds: &[Vec<u8>], number: u64) -> Vec<u8> {
    let mut dice = Dice::new(number);
    let mut bytes = seeds[dice.below(seeds.len())].clone();
    let most = 1 + dice.below(8);
    for _ in 0..=dice.below(most) {
        change(&mut bytes, seeds, &mut dice);
    }
    bytes.truncate(LONGEST);
    bytes
}

fn change(bytes: &mut Vec<u8>, seeds: &[Vec<u8>], dice: &mut Dice) {
    let at = dice.below(bytes.len() + 1);
    let longest = 1 << dice.below(9);
    let end = (at + 1 + dice.below(longest)).min(bytes.len());
    match dice.below(10) {
        0 if !bytes.is_empty() => bytes[dice.below(at.max(1))] ^= 1 << dice.below(8),
        1 if !bytes.is_empty() => bytes[dice.below(at.max(1))] = dice.bits() as u8,
        2 => drop(bytes.drain(at.min(end)..end)),
        3 => bytes.truncate(at),
        4 => {
            let piece = bytes[at.min(end)..end].to_vec();
            let copies = 1 + dice.below(8);
            drop(bytes.splice(at..at, piece.repeat(copies)));
        }
        5 => drop(bytes.splice(at..at, WORDS[dice.below(WORDS.len())].bytes())),
        6 => {
            let number = NUMBERS[dice.below(NUMBERS.len())].to_le_bytes();
            let width = [1, 2, 4, 8][dice.below(4)].min(bytes.len() - at);
            bytes[at..at + width].copy_from_slice(&number[..width]);
        }
        7 => another_number(bytes, at, dice),
        8 => {
            let other = &seeds[dice.below(seeds.len())];
            let from = dice.below(other.len() + 1);
            let to = (from + 1 + dice.below(64)).min(other.len());
            drop(bytes.splice(at..at, other[from.min(to)..to].iter().copied()));
        }
        _ => {
            let other = dice.below(bytes.len() + 1);
            let width = dice.below(32).min(bytes.len() - at.max(other));
            (0..width).for_each(|i| bytes.swap(at + i, other + i));
        }
    }
}

/// Puts another number in the place of the first one written in digits from `at` on.
fn another_number(bytes: &mut Vec<u8>, at: usize, dice: &mut Dice) {
    let Some(start) = bytes[at..].iter().position(u8::is_ascii_digit).map(|start| at + start) else { return };
    let length = bytes[start..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let number = match dice.below(3) {
        0 => NUMBERS[dice.below(NUMBERS.len())].to_string(),
        1 => WORDS[dice.below(WORDS.len())].to_owned(),
        _ => (dice.bits() >> dice.below(64)).to_string(),
    };
    drop(bytes.splice(start..start + length, number.bytes()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_always_gives_the_same_mutation_and_many_give_many() {
        let seeds = vec![b"{\"a\": 12}".to_vec(), b"other".to_vec(), Vec::new()];
        let all: std::collections::HashSet<_> = (0..1000).map(|number| mutation(&seeds, number)).collect();
        assert!(all.len() > 500, "{}", all.len());
        assert_eq!(mutation(&seeds, 77), mutation(&seeds, 77));
        assert!(all.iter().any(|bytes| bytes.starts_with(b"{\"a\": ") && !bytes.ends_with(b" 12}")));
    }
}
