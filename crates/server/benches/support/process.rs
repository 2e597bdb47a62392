//! Memory and processor time of this process.

use std::ops::Sub;

use super::Outcome;

/// Processor time that a process has taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cpu {
    /// In its own code.
    pub user_ms: u64,
    /// In the kernel.
    pub sys_ms: u64,
}

impl Cpu {
    /// Of this process so far.
    pub fn now() -> Outcome<Self> {
        // The kernel counts in hundredths of a second here, whatever its own tick is.
        const MS_PER_TICK: u64 = 10;
        let stat = std::fs::read_to_string("/proc/self/stat")?;
        // After the name in brackets, which may hold anything: user and kernel time are the 12th and 13th field.
        let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
        let ticks: Vec<u64> = fields.skip(11).take(2).map(str::parse).collect::<Result<_, _>>()?;
        let [user, sys] = ticks[..] else { return Err("the kernel tells no times".into()) };
        Ok(Self { user_ms: user * MS_PER_TICK, sys_ms: sys * MS_PER_TICK })
    }
}

impl Sub for Cpu {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self { user_ms: self.user_ms - before.user_ms, sys_ms: self.sys_ms - before.sys_ms }
    }
}

/// Memory of this process that is in use.
pub fn resident_kib() -> Outcome<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no VmRSS")?;
    Ok(line.trim().trim_end_matches("kB").trim().parse()?)
}
