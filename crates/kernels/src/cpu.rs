//! The one CPU check: which instruction set the kernels use, decided once at run time.

#[cfg(target_arch = "x86_64")]
use crate::simd::{Avx2, Avx512};
use crate::simd::{Portable, Simd, Tile};
use std::sync::OnceLock;

/// An instruction set that the kernels are compiled for and that this CPU has: there is no other way to get one than to ask
/// for what the CPU has, so that the kernels may rely on it.
///
/// ```compile_fail,E0423
/// let made_up = bowline_kernels::Isa(panic!());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Isa(Kind);

/// The instruction sets, narrowest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// Plain Rust, any CPU.
    Portable,
    /// 8 lanes of f32 with fused multiply-add (x86-64 since about 2013).
    Avx2,
    /// 16 lanes of f32 (x86-64 servers since 2017, Zen 4 and later).
    Avx512,
}

/// What this process uses.
static CHOSEN: OnceLock<Isa> = OnceLock::new();

impl Isa {
    /// Plain Rust, which every CPU has.
    pub const PORTABLE: Isa = Isa(Kind::Portable);

    /// The names of all there are, narrowest first, whether this CPU has them or not.
    pub const NAMES: [&'static str; 3] = ["portable", "avx2", "avx512"];

    /// The one this process uses: what [`Isa::choose`] said, or else the widest this CPU has. Each is at least as fast as the
    /// narrower ones on every CPU it was measured on (docs/speed.md), and a rule gives the same bits every time where a
    /// measurement might not.
    pub fn detect() -> Isa {
        *CHOSEN.get_or_init(|| Isa::available().last().copied().unwrap_or(Isa::PORTABLE))
    }

    /// Makes this the one that [`Isa::detect`] gives. Whether it came in time: the first one asked for or detected stays.
    pub fn choose(self) -> bool {
        *CHOSEN.get_or_init(|| self) == self
    }

    /// The one of this name, if this CPU has it.
    pub fn named(name: &str) -> Option<Isa> {
        Isa::available().into_iter().find(|isa| isa.name() == name)
    }

    /// All that this CPU has, narrowest first. Tests run every kernel on each of them.
    pub fn available() -> Vec<Isa> {
        let mut all = vec![Isa::PORTABLE];
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
                all.push(Isa(Kind::Avx2));
                if is_x86_feature_detected!("avx512f") {
                    all.push(Isa(Kind::Avx512));
                }
            }
        }
        all
    }

    pub(crate) fn kind(self) -> Kind {
        self.0
    }

    /// Lanes of f32 in one register.
    pub fn lanes(self) -> usize {
        match self.0 {
            Kind::Portable | Kind::Avx2 => 8,
            Kind::Avx512 => 16,
        }
    }

    /// The tile of its products.
    pub(crate) fn tile(self) -> Tile {
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2 => Avx2::TILE,
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512 => Avx512::TILE,
            _ => Portable::TILE,
        }
    }

    /// Its name in settings.
    pub fn name(self) -> &'static str {
        Isa::NAMES[self.0 as usize]
    }
}

/// The processor's own name for itself, as far as the system tells. Virtual machines may say "AMD EPYC" and no more; such a name
/// gets the generation, because that decides the speed.
pub fn model_name() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    name_in(&info).unwrap_or_else(|| std::env::consts::ARCH.to_owned())
}

/// The name in a text like `/proc/cpuinfo`.
fn name_in(info: &str) -> Option<String> {
    let field = |name: &str| {
        let mut pairs = info.lines().filter_map(|line| line.split_once(':'));
        pairs.find(|(key, _)| key.trim() == name).map(|(_, value)| value.trim())
    };
    let name = field("model name")?;
    if name.contains(|c: char| c.is_ascii_digit()) {
        return Some(name.to_owned());
    }
    let wide = field("flags").is_some_and(|flags| flags.split(' ').any(|flag| flag == "avx512f"));
    let generation = match (field("vendor_id"), field("cpu family")) {
        (Some("AuthenticAMD"), Some("26")) => "Zen 5",
        (Some("AuthenticAMD"), Some("25")) if wide => "Zen 4",
        (Some("AuthenticAMD"), Some("25")) => "Zen 3",
        _ => return Some(name.to_owned()),
    };
    Some(format!("{name} ({generation})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_gives_what_the_cpu_has_and_nothing_else() {
        for isa in Isa::available() {
            assert_eq!(Isa::named(isa.name()), Some(isa));
        }
        let missing = Isa::NAMES.iter().filter(|name| Isa::named(name).is_none()).count();
        assert_eq!(missing, Isa::NAMES.len() - Isa::available().len());
        assert_eq!(Isa::named("avx1024"), None);
    }

    #[test]
    fn a_name_without_a_number_gets_the_generation() {
        let of = |name: &str, family: u32, flags: &str| {
            name_in(&format!(
                "vendor_id\t: AuthenticAMD\ncpu family\t: {family}\nmodel\t\t: 2\nmodel name\t: {name}\nflags\t\t: {flags}\n"
            ))
        };
        assert_eq!(of("AMD EPYC", 26, "avx2 avx512f").as_deref(), Some("AMD EPYC (Zen 5)"));
        assert_eq!(of("AMD EPYC", 25, "avx2 avx512f").as_deref(), Some("AMD EPYC (Zen 4)"));
        assert_eq!(of("AMD EPYC", 25, "avx2").as_deref(), Some("AMD EPYC (Zen 3)"));
        assert_eq!(of("AMD EPYC", 99, "avx2").as_deref(), Some("AMD EPYC"));
        assert_eq!(of("AMD EPYC 9355P", 26, "avx2 avx512f").as_deref(), Some("AMD EPYC 9355P"));
        assert_eq!(name_in("processor : 0\n"), None);
    }
}
