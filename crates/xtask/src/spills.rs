//! Do the products' inner loops stay in registers? `cargo xtask spills` builds the kernels as they are released, disassembles
//! them, and fails where a loop with multiply-adds stores a vector register to the stack or multiplies integers.
//!
//! It reads the code for every instruction set whether this CPU has it or not, so that a slow loop is found on any x86-64
//! machine. It needs `objdump`, which comes with every C compiler.

use anyhow::{Context, Result, bail, ensure};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const HELP: &str = "\
Checks that no inner loop of the kernels stores a vector register to the stack.

Usage: cargo xtask spills [FILE]

  FILE    a program or library to check [default: the kernels, built for release]
";

/// The versions of the products that must be among what is checked: if one is missing, the check has lost its object.
const EXPECTED: [&str; 4] = ["single_panels", "single_panels::avx2", "single_panels::avx512", "native_panels"];

/// Multiply-adds that make a loop one of those that matter: a tile of a single row has fewer and waits for its sums anyway.
const ENOUGH: usize = 4;

/// Functions that are not products: the sigmoids and exponentials of one step want more constants than AVX2 has registers, and
/// one of them read from the stack costs nothing beside the divisions.
const NO_PRODUCTS: [&str; 1] = ["_units"];

pub fn run(arguments: &[String]) -> Result<()> {
    let file = match arguments {
        [] => build()?,
        [only] if only == "--help" => return crate::print(HELP),
        [file] => file.into(),
        _ => bail!("cargo xtask spills takes one file; see --help"),
    };
    if !cfg!(target_arch = "x86_64") {
        return crate::print("spills: skipped, the kernels have no vector instructions of their own on this CPU\n");
    }
    let functions = disassemble(&file)?;
    let kernels: Vec<_> = functions
        .iter()
        .filter(|f| f.name.starts_with("bowline_kernels::") && !NO_PRODUCTS.iter().any(|name| f.name.contains(name)))
        .collect();
    for expected in EXPECTED {
        let there = kernels.iter().any(|f| f.name.ends_with(expected));
        ensure!(there, "{}: there is no function {expected} to check; was it renamed?", file.display());
    }
    let (mut loops, mut faults) = (0, Vec::new());
    for function in kernels {
        for inner in function.inner_loops() {
            // Plain Rust has no fused instruction; of it, only the products are looked at.
            let portable = |i: &&Instruction| function.name.ends_with("_panels") && i.operation() == "mulps";
            if inner.iter().filter(|i| i.multiplies_and_adds() || portable(i)).count() < ENOUGH {
                continue;
            }
            loops += 1;
            faults.extend(inner.iter().filter_map(|i| Some(format!("{}: {}: {}", function.name, i.fault()?, i.text))));
        }
    }
    ensure!(loops > 0, "{}: no loop with multiply-adds was found", file.display());
    if faults.is_empty() {
        return crate::print(&format!("spills: {loops} loops with multiply-adds, all in registers\n"));
    }
    bail!("{} of the instructions in {loops} loops leave the registers:\n{}", faults.len(), faults.join("\n"))
}

/// The kernels as a library, optimised as they are released. (Without link-time optimisation, which leaves a library's code to
/// the program that it becomes part of; the loops are the same.)
fn build() -> Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let target = crate::root().join("target/spills");
    let status = Command::new(cargo)
        .args(["build", "--quiet", "--release", "--package", "bowline-kernels", "--lib"])
        .args(["--config", "profile.release.lto=false", "--target-dir"])
        .arg(&target)
        .current_dir(crate::root())
        .status()
        .context("cannot start cargo")?;
    ensure!(status.success(), "the kernels do not build; see above");
    Ok(target.join("release/libbowline_kernels.rlib"))
}

fn disassemble(file: &Path) -> Result<Vec<Function>> {
    let output = Command::new("objdump")
        .args(["--disassemble", "--demangle", "--no-show-raw-insn"])
        .arg(file)
        .stderr(Stdio::inherit())
        .output()
        .context("objdump: cannot start; it comes with binutils (`apt-get install binutils`)")?;
    ensure!(output.status.success(), "objdump cannot read {}", file.display());
    Ok(functions(&String::from_utf8_lossy(&output.stdout)))
}

/// One instruction in the notation of AT&T.
struct Instruction {
    address: u64,
    text: String,
}

impl Instruction {
    fn operation(&self) -> &str {
        self.text.split_whitespace().next().unwrap_or_default()
    }

    /// Of f32, or of pairs of bf16.
    fn multiplies_and_adds(&self) -> bool {
        self.operation().starts_with("vfmadd") || self.operation() == "vdpbf16ps"
    }

    /// Where a jump goes.
    fn jump(&self) -> Option<u64> {
        let mut words = self.text.split_whitespace();
        let target = words.next().filter(|operation| operation.starts_with('j')).and(words.next())?;
        u64::from_str_radix(target, 16).ok()
    }

    /// What is wrong with it in an inner loop.
    fn fault(&self) -> Option<&'static str> {
        let operands = self.text.split_once(char::is_whitespace)?.1.trim();
        let (from, to) = operands.rsplit_once(",").map_or((operands, ""), |(from, to)| (from.trim(), to.trim()));
        // A memory operand has commas of its own, (%base,%index,4): the store is recognised by its first operand.
        let vector = ["%xmm", "%ymm", "%zmm"].iter().any(|register| from.starts_with(register));
        let to_stack = operands.contains("(%rsp") && !to.starts_with('%');
        if vector && to_stack && self.operation().contains("mov") {
            return Some("stores a vector register to the stack");
        }
        (self.operation().starts_with("imul") || self.operation() == "mul").then_some("multiplies integers")
    }
}

/// A function and its instructions, in the order of their addresses.
struct Function {
    name: String,
    instructions: Vec<Instruction>,
}

impl Function {
    /// The loops that have no other loop inside them.
    fn inner_loops(&self) -> Vec<&[Instruction]> {
        let place: HashMap<u64, usize> = self.instructions.iter().enumerate().map(|(i, x)| (x.address, i)).collect();
        let back = self.instructions.iter().enumerate().filter_map(|(end, instruction)| {
            let start = *place.get(&instruction.jump()?)?;
            (start <= end).then_some((start, end))
        });
        let loops: Vec<(usize, usize)> = back.collect();
        let inside = |a: (usize, usize), b: (usize, usize)| a != b && b.0 <= a.0 && a.1 <= b.1;
        let inner = loops.iter().filter(|outer| !loops.iter().any(|other| inside(*other, **outer)));
        inner.map(|&(start, end)| &self.instructions[start..=end]).collect()
    }
}

/// The functions of a listing.
fn functions(listing: &str) -> Vec<Function> {
    let mut all: Vec<Function> = Vec::new();
    for line in listing.lines() {
        if let Some(name) = line.strip_suffix(">:").and_then(|line| line.split_once(" <")).map(|(_, name)| name) {
            // The compiler's hash is of no interest: `::h` and 16 digits.
            let name = name.rsplit_once("::h").filter(|(_, hash)| hash.len() == 16).map_or(name, |(name, _)| name);
            all.push(Function { name: name.to_owned(), instructions: Vec::new() });
        } else if let (Some(function), Some((address, text))) = (all.last_mut(), line.split_once(':'))
            && let Ok(address) = u64::from_str_radix(address.trim(), 16)
        {
            function.instructions.push(Instruction { address, text: text.trim().to_owned() });
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    const LISTING: &str = "\
0000000000001000 <bowline_kernels::gemm::single_panels::avx512::h0123456789abcdef>:
    1000:\tvmovups %zmm1,0x40(%rsp)
    1008:\tvbroadcastss (%rdi),%zmm19
    1010:\tvmovups %zmm19,0x80(%rsp)
    1018:\tvfmadd231ps %zmm1,%zmm2,%zmm3
    1020:\timul   %rdx,%rax
    1028:\tvmovups 0x80(%rsp),%zmm19
    1030:\tvmovups %zmm4,(%rdi,%rax,4)
    1038:\tjne    1008 <bowline_kernels::gemm::single_panels::avx512::h0123456789abcdef+0x8>
    1040:\tjmp    1000 <bowline_kernels::gemm::single_panels::avx512::h0123456789abcdef>
    1048:\tret
";

    #[test]
    fn faults_are_those_of_the_innermost_loop() {
        let functions = functions(LISTING);
        assert_eq!(functions[0].name, "bowline_kernels::gemm::single_panels::avx512");
        let loops = functions[0].inner_loops();
        assert_eq!(loops.len(), 1);
        assert!(loops[0].iter().any(Instruction::multiplies_and_adds));
        let faults: Vec<_> = loops[0].iter().filter_map(|i| Some((i.fault()?, i.operation()))).collect();
        assert_eq!(faults, [("stores a vector register to the stack", "vmovups"), ("multiplies integers", "imul")]);
    }
}
