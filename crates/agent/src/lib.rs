//! The agent of a node: pure [`lifecycle`] decisions, drivers that know how to run a task, keepers that outlive the
//! agent, and the shell that ties them to a server.

pub mod lifecycle;
