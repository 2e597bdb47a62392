//! The lab: simulated nodes that live the real agent's life, and (to come) the experiments that use them.

pub mod nodes;
