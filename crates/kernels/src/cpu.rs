//! The one CPU check: which instruction set the kernels use, decided once at run time.

#[cfg(target_arch = "x86_64")]
use crate::simd::{Avx2, Avx512};
use crate::simd::{Portable, Simd, Tile};
use std::sync::OnceLock;

/// An instruction set that the kernels are compiled for. Later ones are faster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Isa {
    /// Plain Rust, any CPU.
    Portable,
    /// 8 lanes of f32 with fused multiply-add (x86-64 since about 2013).
    Avx2,
    /// 16 lanes of f32 (x86-64 servers since 2017, Zen 4 and later).
    Avx512,
}

impl Isa {
    /// The best one this CPU has.
    pub fn detect() -> Isa {
        static BEST: OnceLock<Isa> = OnceLock::new();
        *BEST.get_or_init(|| Isa::available().last().copied().unwrap_or(Isa::Portable))
    }

    /// All that this CPU has, slowest first. Tests run every kernel on each of them.
    pub fn available() -> Vec<Isa> {
        let mut all = vec![Isa::Portable];
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
                all.push(Isa::Avx2);
                if is_x86_feature_detected!("avx512f") {
                    all.push(Isa::Avx512);
                }
            }
        }
        all
    }

    /// Lanes of f32 in one register.
    pub fn lanes(self) -> usize {
        match self {
            Isa::Portable | Isa::Avx2 => 8,
            Isa::Avx512 => 16,
        }
    }

    /// The tile of its products.
    pub(crate) fn tile(self) -> Tile {
        match self {
            Isa::Portable => Portable::TILE,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => Avx2::TILE,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => Avx512::TILE,
            #[cfg(not(target_arch = "x86_64"))]
            _ => Portable::TILE,
        }
    }

    /// Its name, as people write it.
    pub fn name(self) -> &'static str {
        match self {
            Isa::Portable => "portable",
            Isa::Avx2 => "avx2+fma",
            Isa::Avx512 => "avx512",
        }
    }
}

/// The processor's own name for itself, as far as the system tells.
pub fn model_name() -> String {
    let from_proc = std::fs::read_to_string("/proc/cpuinfo").ok().and_then(|text| {
        let line = text.lines().find(|line| line.starts_with("model name"))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    });
    from_proc.unwrap_or_else(|| std::env::consts::ARCH.to_owned())
}
