//! Text in wire types.

/// What holds the text of a wire type. A client reads text of its own; a server writes text that it borrows, so that
/// nothing is copied only to be written.
pub trait Text: Ord + Default {}

impl<T: Ord + Default> Text for T {}
