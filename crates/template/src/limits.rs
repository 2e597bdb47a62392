//! Bounds of what one template may cost, whoever wrote it.

/// The longest text of a template, in bytes.
pub const TEXT_BYTES_MAX: usize = 1 << 20;

/// The longest text that a template may render, in bytes.
pub const OUTPUT_BYTES_MAX: usize = 4 << 20;

/// What one rendering may hold of values besides, in bytes: each text, list and map that a function makes counts.
pub const VALUE_BYTES_MAX: usize = 32 << 20;

/// Steps of one rendering: each action, each operand, each round of a `range`, each comparison with an element of a list and each
/// call is one, and one more for each [`BYTES_A_STEP`] that a call reads.
pub const STEPS_MAX: u64 = 1_000_000;

/// Bytes that a function reads for one step.
pub const BYTES_A_STEP: usize = 256;

/// Blocks and parentheses that may lie in one another, an `else if` in its `if` among them; while it is rendered, templates that
/// call one another count as well.
pub const NESTING_MAX: usize = 100;

/// Actions of one template.
pub const ACTIONS_MAX: usize = 50_000;

/// Bytes of what opens and closes an action.
pub const DELIMITER_BYTES_MAX: usize = 64;

/// Variables that may be visible at one point, `$x := ...`.
pub const VARIABLES_MAX: usize = 1_000;

/// Different variables, and prefixes of variables, that one rendering may ask for.
pub const QUERIES_MAX: usize = 64;

/// How much more of a text is read that is searched for a regular expression: each letter moves many states.
pub(crate) const REGEX_FACTOR: usize = 16;

/// Steps that a regular expression costs: it is compiled each time.
pub(crate) const REGEX_STEPS: u64 = 500;

/// Bytes that a compiled regular expression may take.
pub(crate) const REGEX_BYTES_MAX: usize = 256 << 10;

/// Width and precision of `printf`.
pub(crate) const PADDING_MAX: usize = 10_000;

/// What an element of a list or a map counts besides its text, in bytes.
pub(crate) const ELEMENT_BYTES: usize = 64;

/// What a byte of JSON may take once it is read: the shortest values are two bytes long.
pub(crate) const JSON_FACTOR: usize = 32;
