//! What a job file in HCL may use beyond itself.

/// Values of variables.
#[derive(Debug, Clone, Default)]
pub struct Inputs {}
