//! What a source may measure: job files come from strangers, so their cost is bounded before they are read.

/// Bytes that a job file may have.
pub const SOURCE_BYTES_MAX: usize = 4 << 20;
/// Blocks, lists, objects, brackets and templates that may stand inside one another.
pub const DEPTH_MAX: usize = 64;
/// `[*]` that may stand in one expression: each makes a list of lists.
pub(crate) const SPLATS_MAX: usize = 8;
/// Bytes that one value of an expression may take when it is written out, names and texts included.
pub(crate) const VALUE_BYTES_MAX: u64 = 16 << 20;
/// Bytes that the evaluation of one file may read and make, in all its expressions.
pub(crate) const EVALUATION_BYTES_MAX: u64 = 64 << 20;
/// Variables and locals of one file.
pub(crate) const VARIABLES_MAX: usize = 10_000;
/// Lists and objects that may stand inside one another in a free-form setting. Less than [`DEPTH_MAX`], so that what
/// one syntax accepts still fits below the job, group and task levels of the other.
pub(crate) const SETTING_DEPTH_MAX: usize = 32;
/// Blocks of a job: each costs microseconds and hundreds of bytes, and as many more would not fit into one entry of the
/// log.
pub(crate) const BLOCKS_MAX: usize = 20_000;
/// Diagnostics that one reading gives; the others are only counted.
pub(crate) const DIAGNOSTICS_MAX: usize = 20;
/// Bytes of an id or a name.
pub const NAME_BYTES_MAX: usize = 128;

/// Allocations that all groups of a job may want together: two groups of the largest count. One registration is planned
/// at once, and each allocation of it takes some hundred bytes until it is placed.
pub const JOB_ALLOCATIONS_MAX: u64 = 100_000;
/// Groups of a job.
pub const JOB_GROUPS_MAX: usize = 1_000;
/// Tasks of a group.
pub const GROUP_TASKS_MAX: usize = 100;
/// Checks of all services of one group. Agents ask no more.
pub const GROUP_CHECKS_MAX: usize = 64;
/// Bytes of a job as it is kept: half of what an entry of the log holds, so that what is decided about it fits too.
pub const JOB_BYTES_MAX: usize = 512 << 10;
/// Bytes of each side of a constraint: plans repeat them to say why nothing was placed.
pub const CONSTRAINT_BYTES_MAX: usize = 4 << 10;
/// Bytes of names and values together that one block of `meta` or `env` may hold: a task gets them as its environment,
/// of which the kernel takes a few hundred KiB.
pub const MAP_BYTES_MAX: usize = 128 << 10;
