//! The system calls that a container may not make, whatever rights it has otherwise.
//!
//! What is left out here needs rights that a container never has, or is needed by ordinary programs. Calls of foreign
//! architectures are refused as a whole: the profile names none.

use serde_json::{Value, json};

/// Of the kernel's own state, of other namespaces, or of old and rarely looked at.
const REFUSED: [&str; 61] = [
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
    "finit_module",
    "fsconfig",
    "fsmount",
    "fsopen",
    "fspick",
    "get_kernel_syms",
    "init_module",
    "io_uring_enter",
    "io_uring_register",
    "io_uring_setup",
    "ioperm",
    "iopl",
    "kcmp",
    "kexec_file_load",
    "kexec_load",
    "keyctl",
    "lookup_dcookie",
    "mount",
    "mount_setattr",
    "move_mount",
    "move_pages",
    "name_to_handle_at",
    "nfsservctl",
    "open_by_handle_at",
    "open_tree",
    "perf_event_open",
    "pidfd_getfd",
    "pivot_root",
    "process_vm_readv",
    "process_vm_writev",
    "query_module",
    "quotactl",
    "quotactl_fd",
    "reboot",
    "request_key",
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

const AF_NETLINK: u64 = 16;
const NETLINK_ROUTE: u64 = 0;

/// Families of sockets that reach parts of the kernel which no ordinary program needs: KEY, PACKET, RDS, CAN, TIPC,
/// BLUETOOTH, ALG, VSOCK, XDP.
const FAMILIES: [u64; 9] = [15, 17, 21, 29, 30, 31, 38, 40, 44];

const EPERM: u32 = 1;
const ENOSYS: u32 = 38;

/// `linux.seccomp` of a container's config.json.
pub(super) fn profile() -> Value {
    let mut calls = vec![
        refused(&REFUSED, EPERM, &[]),
        // Its flags lie in memory, where they cannot be looked at; programs fall back to clone.
        refused(&["clone3"], ENOSYS, &[]),
        refused(&["socket"], EPERM, &[is(0, AF_NETLINK), is_not(2, NETLINK_ROUTE)]),
    ];
    calls.extend(NAMESPACE_FLAGS.map(|flag| refused(&["clone"], EPERM, &[has(0, flag)])));
    calls.extend(FAMILIES.map(|family| refused(&["socket"], EPERM, &[is(0, family)])));
    json!({"defaultAction": "SCMP_ACT_ALLOW", "syscalls": calls})
}

fn refused(names: &[&str], errno: u32, args: &[Value]) -> Value {
    json!({"names": names, "action": "SCMP_ACT_ERRNO", "errnoRet": errno, "args": args})
}

fn is(index: u32, value: u64) -> Value {
    json!({"index": index, "value": value, "op": "SCMP_CMP_EQ"})
}

fn is_not(index: u32, value: u64) -> Value {
    json!({"index": index, "value": value, "op": "SCMP_CMP_NE"})
}

fn has(index: u32, flag: u64) -> Value {
    json!({"index": index, "value": flag, "valueTwo": flag, "op": "SCMP_CMP_MASKED_EQ"})
}
