//! The seccomp profile of containers, whatever capabilities they have: it allows what ordinary programs need, after the default
//! profile of Docker. A known call that it does not allow, as one that changes the kernel's state or another namespace, fails with
//! EPERM; a call that the profile does not know, as one of a newer kernel, fails with ENOSYS, for which programs have a fallback.
//!
//! Calls of foreign architectures are refused as a whole: the profile names none.

use serde_json::{Value, json};

/// Files and directories, and what is known of them.
const FILES: &str = "\
    access cachestat chdir chmod chown chown32 close close_range copy_file_range creat dup dup2 dup3 faccessat \
    faccessat2 fadvise64 fadvise64_64 fchdir fchmod fchmodat fchmodat2 fchown fchown32 fchownat fcntl \
    fcntl64 fdatasync fgetxattr flistxattr flock fremovexattr fsetxattr fstat fstat64 fstatat64 fstatfs \
    fstatfs64 fsync ftruncate ftruncate64 futimesat getcwd getdents getdents64 getxattr inotify_add_watch \
    inotify_init inotify_init1 inotify_rm_watch ioctl lchown lchown32 lgetxattr link linkat listxattr \
    llistxattr _llseek lremovexattr lseek lsetxattr lstat lstat64 mkdir mkdirat mknod mknodat newfstatat open \
    openat openat2 readahead readlink readlinkat removexattr rename renameat renameat2 rmdir setxattr stat \
    stat64 statfs statfs64 statx symlink symlinkat sync sync_file_range sync_file_range2 syncfs truncate \
    truncate64 umask unlink unlinkat utime utimensat utimensat_time64 utimes";

/// Reading, writing, and waiting for either.
const READING: &str = "\
    epoll_create epoll_create1 epoll_ctl epoll_pwait epoll_pwait2 epoll_wait eventfd eventfd2 io_cancel \
    io_destroy io_getevents io_pgetevents io_pgetevents_time64 io_setup io_submit _newselect pipe pipe2 poll \
    ppoll ppoll_time64 pread64 preadv preadv2 pselect6 pselect6_time64 pwrite64 pwritev pwritev2 read readv \
    select sendfile sendfile64 splice tee vmsplice write writev";

/// System calls that manage memory.
const MEMORY: &str = "\
    brk madvise map_shadow_stack membarrier memfd_create memfd_secret mincore mlock mlock2 mlockall mmap mmap2 \
    mprotect mremap mseal msync munlock munlockall munmap pkey_alloc pkey_free pkey_mprotect process_mrelease \
    remap_file_pages";

/// Processes and threads, whose they are, and what they may have.
const PROCESSES: &str = "\
    capget capset execve execveat exit exit_group fork futex futex_requeue futex_time64 futex_wait futex_waitv \
    futex_wake getcpu getegid getegid32 geteuid geteuid32 getgid getgid32 getgroups getgroups32 getpgid getpgrp \
    getpid getppid getpriority getresgid getresgid32 getresuid getresuid32 getrlimit getrusage getsid gettid \
    getuid getuid32 get_robust_list get_thread_area ioprio_get ioprio_set landlock_add_rule \
    landlock_create_ruleset landlock_restrict_self pidfd_open prctl prlimit64 ptrace restart_syscall rseq \
    sched_getaffinity sched_getattr sched_getparam sched_get_priority_max sched_get_priority_min \
    sched_getscheduler sched_rr_get_interval sched_rr_get_interval_time64 sched_setaffinity sched_setattr \
    sched_setparam sched_setscheduler sched_yield seccomp setfsgid setfsgid32 setfsuid setfsuid32 setgid \
    setgid32 setgroups setgroups32 setpgid setpriority setregid setregid32 setresgid setresgid32 setresuid \
    setresuid32 setreuid setreuid32 setrlimit setsid setuid setuid32 set_robust_list set_thread_area \
    set_tid_address sysinfo times ugetrlimit uname vfork wait4 waitid waitpid";

/// System calls that send and handle signals.
const SIGNALS: &str = "\
    kill pause pidfd_send_signal rt_sigaction rt_sigpending rt_sigprocmask rt_sigqueueinfo rt_sigreturn \
    rt_sigsuspend rt_sigtimedwait rt_sigtimedwait_time64 rt_tgsigqueueinfo sigaltstack signalfd signalfd4 \
    sigprocmask sigreturn tgkill tkill";

/// Time, timers and chance.
const TIME: &str = "\
    alarm clock_getres clock_getres_time64 clock_gettime clock_gettime64 clock_nanosleep clock_nanosleep_time64 \
    getitimer getrandom gettimeofday nanosleep setitimer time timer_create timer_delete timer_getoverrun \
    timer_gettime timer_gettime64 timer_settime timer_settime64 timerfd_create timerfd_gettime \
    timerfd_gettime64 timerfd_settime timerfd_settime64";

/// Sockets once they are made, and what processes share without.
const TALKING: &str = "\
    accept accept4 bind connect getpeername getsockname getsockopt ipc listen mq_getsetattr mq_notify mq_open \
    mq_timedreceive mq_timedreceive_time64 mq_timedsend mq_timedsend_time64 mq_unlink msgctl msgget msgrcv \
    msgsnd recv recvfrom recvmmsg recvmmsg_time64 recvmsg semctl semget semop semtimedop semtimedop_time64 send \
    sendmmsg sendmsg sendto setsockopt shmat shmctl shmdt shmget shutdown socketpair";

/// What one kind of processor has.
const MACHINE: &str = "\
    arch_prctl arm_fadvise64_64 arm_sync_file_range breakpoint cacheflush modify_ldt riscv_flush_icache \
    s390_pci_mmio_read s390_pci_mmio_write s390_runtime_instr set_tls swapcontext";

/// All that need no look at what they are given.
const ALLOWED: [&str; 8] = [FILES, READING, MEMORY, PROCESSES, SIGNALS, TIME, TALKING, MACHINE];

/// System calls that are refused: on the kernel's own state, on other namespaces or processes, or old and rarely reviewed.
const REFUSED: [&str; 63] = [
    "_sysctl",
    "acct",
    "add_key",
    "adjtimex",
    "bpf",
    "clock_adjtime",
    "clock_settime",
    "create_module",
    "delete_module",
    "fanotify_init",
    "fanotify_mark",
    "finit_module",
    "fsconfig",
    "fsmount",
    "fsopen",
    "fspick",
    "get_kernel_syms",
    "get_mempolicy",
    "init_module",
    "io_uring_enter",
    "io_uring_register",
    "io_uring_setup",
    "ioperm",
    "iopl",
    "kexec_file_load",
    "kexec_load",
    "keyctl",
    "lookup_dcookie",
    "mbind",
    "migrate_pages",
    "mount",
    "mount_setattr",
    "move_mount",
    "move_pages",
    "name_to_handle_at",
    "nfsservctl",
    "open_by_handle_at",
    "open_tree",
    "perf_event_open",
    "pivot_root",
    "query_module",
    "quotactl",
    "quotactl_fd",
    "reboot",
    "request_key",
    "set_mempolicy",
    "set_mempolicy_home_node",
    "setdomainname",
    "sethostname",
    "setns",
    "settimeofday",
    "stime",
    "swapoff",
    "swapon",
    "sysfs",
    "syslog",
    "umount",
    "umount2",
    "unshare",
    "uselib",
    "userfaultfd",
    "ustat",
    "vhangup",
];

/// Flags of `clone` that make namespaces: NEWCGROUP, NEWIPC, NEWNET, NEWNS, NEWPID, NEWUSER, NEWUTS.
const NAMESPACE_FLAGS: [u64; 7] =
    [0x0200_0000, 0x0800_0000, 0x4000_0000, 0x0002_0000, 0x2000_0000, 0x1000_0000, 0x0400_0000];

/// Families of sockets that programs speak with: UNIX, INET, INET6.
const SPOKEN: [u64; 3] = [1, 2, 10];

const AF_NETLINK: u64 = 16;
const NETLINK_ROUTE: u64 = 0;

/// Ways to run that differ in what addresses and `uname` look like: Linux, 32 bits, and that of today as a question.
const PERSONALITIES: [u64; 5] = [0, 0x0008, 0x2_0000, 0x2_0008, 0xffff_ffff];

/// What is there for those who have the right alone.
const BY_RIGHT: [(&str, &str); 6] = [
    ("CAP_SYS_CHROOT", "chroot"),
    ("CAP_SYS_PTRACE", "kcmp"),
    ("CAP_SYS_PTRACE", "pidfd_getfd"),
    ("CAP_SYS_PTRACE", "process_madvise"),
    ("CAP_SYS_PTRACE", "process_vm_readv"),
    ("CAP_SYS_PTRACE", "process_vm_writev"),
];

/// Families of sockets that reach parts of the kernel which no ordinary program needs: KEY, RDS, CAN, TIPC, BLUETOOTH, ALG,
/// VSOCK, XDP.
const FAMILIES: [u64; 8] = [15, 21, 29, 30, 31, 38, 40, 44];

/// Those that are there for those who have the right alone: PACKET, to read and send packets as they are on the wire.
const FAMILIES_BY_RIGHT: [(&str, u64); 1] = [("CAP_NET_RAW", 17)];

const EPERM: u32 = 1;
const ENOSPC: u32 = 28;
const ENOSYS: u32 = 38;

/// A mode of `fallocate` that gives room back.
const PUNCH_HOLE: u64 = 2;

/// `linux.seccomp` of the config.json of a container with these rights, which reserves at most so many bytes of a file in one
/// call, if that has a limit.
pub(super) fn profile(capabilities: &[&str], reserves_max: Option<u64>) -> Value {
    let (granted, denied) = by_right(&BY_RIGHT, capabilities);
    let granted: Vec<&str> = ALLOWED.iter().flat_map(|names| names.split(' ')).chain(granted).collect();
    let denied: Vec<&str> = REFUSED.into_iter().chain(denied).collect();
    let (spoken, unspoken) = by_right(&FAMILIES_BY_RIGHT, capabilities);
    let all_flags = NAMESPACE_FLAGS.iter().fold(0, |all, flag| all | flag);
    let mut calls = vec![
        allowed(&granted, &[]),
        refused(&denied, EPERM, &[]),
        // Flags of `clone3` lie in memory, where they cannot be looked at: it is not named, and programs fall back to this.
        allowed(&["clone"], &[has_none(0, all_flags)]),
        allowed(&["socket"], &[is(0, AF_NETLINK), is(2, NETLINK_ROUTE)]),
        refused(&["socket"], EPERM, &[is(0, AF_NETLINK), is_not(2, NETLINK_ROUTE)]),
    ];
    calls.extend(reservations(reserves_max));
    calls.extend(NAMESPACE_FLAGS.map(|flag| refused(&["clone"], EPERM, &[has(0, flag)])));
    calls.extend(SPOKEN.into_iter().chain(spoken).map(|family| allowed(&["socket"], &[is(0, family)])));
    let refused_families = FAMILIES.into_iter().chain(unspoken);
    calls.extend(refused_families.map(|family| refused(&["socket"], EPERM, &[is(0, family)])));
    calls.extend(PERSONALITIES.map(|personality| allowed(&["personality"], &[is(0, personality)])));
    json!({"defaultAction": "SCMP_ACT_ERRNO", "defaultErrnoRet": ENOSYS, "syscalls": calls})
}

/// What is there for these rights, and what is not.
fn by_right<T: Copy>(all: &[(&str, T)], capabilities: &[&str]) -> (Vec<T>, Vec<T>) {
    let (granted, denied): (Vec<_>, Vec<_>) = all.iter().partition(|(right, _)| capabilities.contains(right));
    let values = |of: Vec<&(&str, T)>| of.into_iter().map(|(_, value)| *value).collect();
    (values(granted), values(denied))
}

/// What is over the limit is answered as by a full disk.
fn reservations(bytes_max: Option<u64>) -> Vec<Value> {
    let call = ["fallocate"];
    let Some(bytes_max) = bytes_max else { return vec![allowed(&call, &[])] };
    vec![
        allowed(&call, &[compared(3, "SCMP_CMP_LE", bytes_max)]),
        allowed(&call, &[has(1, PUNCH_HOLE)]),
        refused(&call, ENOSPC, &[compared(3, "SCMP_CMP_GT", bytes_max), has_none(1, PUNCH_HOLE)]),
    ]
}

fn allowed(names: &[&str], args: &[Value]) -> Value {
    json!({"names": names, "action": "SCMP_ACT_ALLOW", "args": args})
}

fn refused(names: &[&str], errno: u32, args: &[Value]) -> Value {
    json!({"names": names, "action": "SCMP_ACT_ERRNO", "errnoRet": errno, "args": args})
}

fn is(index: u32, value: u64) -> Value {
    compared(index, "SCMP_CMP_EQ", value)
}

fn is_not(index: u32, value: u64) -> Value {
    compared(index, "SCMP_CMP_NE", value)
}

fn compared(index: u32, how: &str, value: u64) -> Value {
    json!({"index": index, "value": value, "op": how})
}

fn has(index: u32, flag: u64) -> Value {
    json!({"index": index, "value": flag, "valueTwo": flag, "op": "SCMP_CMP_MASKED_EQ"})
}

fn has_none(index: u32, flags: u64) -> Value {
    json!({"index": index, "value": flags, "valueTwo": 0, "op": "SCMP_CMP_MASKED_EQ"})
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_call_is_named_once() {
        let mut seen = BTreeSet::new();
        let named = ALLOWED.iter().flat_map(|names| names.split(' ')).chain(REFUSED);
        let twice: Vec<&str> =
            named.chain(BY_RIGHT.map(|(_, call)| call)).filter(|name| !seen.insert(*name)).collect();
        assert_eq!(twice, [""; 0]);
        assert!(
            seen.iter()
                .all(|name| name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_'))
        );
    }

    #[test]
    fn another_root_is_for_those_who_have_the_right() {
        let names = |capabilities: &[&str], rule: usize| {
            profile(capabilities, None)["syscalls"][rule]["names"].to_string()
        };
        assert!(names(&["CAP_SYS_CHROOT"], 0).contains("\"chroot\""));
        assert!(!names(&[], 0).contains("\"chroot\"") && names(&[], 1).contains("\"chroot\""));
    }

    #[test]
    fn packets_as_they_are_on_the_wire_are_for_those_who_have_the_right() {
        let rules = |capabilities: &[&str]| -> Vec<String> {
            let profile = profile(capabilities, None);
            let rules = profile["syscalls"].as_array().expect("rules").iter();
            let of_packets =
                rules.filter(|rule| rule["args"][0]["value"] == 17 && rule["names"][0] == "socket");
            of_packets.map(|rule| rule["action"].to_string()).collect()
        };
        assert_eq!(rules(&["CAP_CHOWN"]), ["\"SCMP_ACT_ERRNO\""]);
        assert_eq!(rules(&["CAP_CHOWN", "CAP_NET_RAW"]), ["\"SCMP_ACT_ALLOW\""]);
    }

    #[test]
    fn the_memory_of_others_is_for_those_who_may_trace_them() {
        let allowed = |capabilities: &[&str]| {
            profile(capabilities, None)["syscalls"][0]["names"].to_string().contains("\"process_vm_readv\"")
        };
        assert!(allowed(&["CAP_SYS_PTRACE"]) && !allowed(&["CAP_NET_RAW"]));
    }
}
