//! The commands: a file each, in a folder for each noun.

pub mod agent;
pub mod alloc;
pub mod dev;
pub mod job;
pub mod keeper;
pub mod lab;
pub mod node;
pub mod server;
pub mod version;
