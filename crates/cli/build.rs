//! How the binary is linked.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let is = |variable: &str, value: &str| std::env::var(variable).is_ok_and(|found| found == value);
    // The same code made for several types stands in the binary once: a fortieth of it. It takes LLVM's linker, which is the
    // toolchain's own for this target.
    if is("TARGET", "x86_64-unknown-linux-gnu") && is("PROFILE", "release") {
        println!("cargo:rustc-link-arg-bins=-Wl,--icf=all");
        // A binary that may be loaded anywhere has its tables of pointers written again by every process, 1.9 MB of memory that
        // each keeper beside a task would have for itself, and holds 2 MB of notes on how. Stack, heap and libraries still lie
        // where nobody can know.
        println!("cargo:rustc-link-arg-bins=-no-pie");
    }
}
