//! Resource usage, in Nomad's form.

use berth_api::{
    agent::{AllocUsage, CpuUsage, DiskUsage, MemoryUsage, NodeUsage, TaskUsage},
    http::{
        AllocResourceUsage, CpuStats, HostCpuStats, HostDiskStats, HostMemoryStats, HostStats, MemoryStats,
        ResourceUsage, TaskResourceUsage,
    },
};

/// What an allocation uses.
pub fn alloc_usage(usage: &AllocUsage) -> AllocResourceUsage {
    let timestamp = i64::try_from(usage.at_ns).unwrap_or(i64::MAX);
    let task = |task: &TaskUsage| {
        let resource_usage = ResourceUsage {
            memory_stats: task.memory.map(memory).unwrap_or_default(),
            cpu_stats: task.cpu.map(cpu).unwrap_or_default(),
        };
        (task.name.clone(), TaskResourceUsage { resource_usage, timestamp })
    };
    let tasks: std::collections::BTreeMap<_, _> = usage.tasks.iter().map(task).collect();
    let mut resource_usage = ResourceUsage::default();
    tasks.values().for_each(|task| add(&mut resource_usage, &task.resource_usage));
    AllocResourceUsage { resource_usage, tasks, timestamp }
}

fn memory(usage: MemoryUsage) -> MemoryStats {
    let optional = [("Cache", usage.cache), ("Usage", usage.usage), ("Max Usage", usage.usage_max)];
    let measured = optional.into_iter().filter(|(_, value)| value.is_some()).map(|(name, _)| name);
    MemoryStats {
        rss: usage.rss,
        cache: usage.cache.unwrap_or_default(),
        swap: usage.swap,
        // Where nothing counts against a limit, the processes' own is what there is.
        usage: usage.usage.unwrap_or(usage.rss),
        max_usage: usage.usage_max.unwrap_or_default(),
        measured: ["RSS", "Swap"].into_iter().chain(measured).map(str::to_owned).collect(),
    }
}

fn cpu(usage: CpuUsage) -> CpuStats {
    let throttled = [
        ("Throttled Periods", usage.throttled_periods.is_some()),
        ("Throttled Time", usage.throttled_ns.is_some()),
    ];
    let measured = throttled.into_iter().filter(|(_, is_measured)| *is_measured).map(|(name, _)| name);
    CpuStats {
        system_mode: usage.system_percent,
        user_mode: usage.user_percent,
        total_ticks: usage.mhz,
        throttled_periods: usage.throttled_periods.unwrap_or_default(),
        throttled_time: usage.throttled_ns.unwrap_or_default(),
        percent: usage.user_percent + usage.system_percent,
        measured: ["System Mode", "User Mode", "Percent"]
            .into_iter()
            .chain(measured)
            .map(str::to_owned)
            .collect(),
    }
}

/// What is measured of any task is measured of the sum.
fn add(sum: &mut ResourceUsage, task: &ResourceUsage) {
    let (memory, more) = (&mut sum.memory_stats, &task.memory_stats);
    memory.rss += more.rss;
    memory.cache += more.cache;
    memory.swap += more.swap;
    memory.usage += more.usage;
    memory.max_usage += more.max_usage;
    unite(&mut memory.measured, &more.measured);
    let (cpu, more) = (&mut sum.cpu_stats, &task.cpu_stats);
    cpu.system_mode += more.system_mode;
    cpu.user_mode += more.user_mode;
    cpu.total_ticks += more.total_ticks;
    cpu.throttled_periods += more.throttled_periods;
    cpu.throttled_time += more.throttled_time;
    cpu.percent += more.percent;
    unite(&mut cpu.measured, &more.measured);
}

fn unite(known: &mut Vec<String>, more: &[String]) {
    let new: Vec<_> = more.iter().filter(|name| !known.contains(name)).cloned().collect();
    known.extend(new);
}

/// What a machine uses.
pub fn host_stats(usage: &NodeUsage) -> HostStats {
    let core = |core: &berth_api::agent::CoreUsage| HostCpuStats {
        cpu: core.name.clone(),
        user: core.user_percent,
        system: core.system_percent,
        idle: core.idle_percent,
    };
    let memory = HostMemoryStats {
        total: usage.memory.total,
        available: usage.memory.available,
        used: usage.memory.total.saturating_sub(usage.memory.available),
        free: usage.memory.free,
    };
    HostStats {
        memory,
        cpu: usage.cores.iter().map(core).collect(),
        disk_stats: vec![disk(&usage.disk)],
        alloc_dir_stats: disk(&usage.disk),
        uptime: usage.uptime_s,
        cpu_ticks_consumed: usage.mhz,
        timestamp: i64::try_from(usage.at_ns).unwrap_or(i64::MAX),
    }
}

fn disk(disk: &DiskUsage) -> HostDiskStats {
    let percent = if disk.size > 0 { disk.used as f64 / disk.size as f64 * 100.0 } else { 0.0 };
    HostDiskStats {
        device: disk.device.clone(),
        mountpoint: disk.mountpoint.clone(),
        size: disk.size,
        used: disk.used,
        available: disk.available,
        used_percent: percent,
        inodes_used_percent: disk.inodes_used_percent,
    }
}
