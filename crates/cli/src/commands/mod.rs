//! The commands: a file each, in a folder for each noun.

pub mod acl;
pub mod agent;
pub mod alloc;
pub mod completion;
pub mod deployment;
pub mod dev;
pub mod eval;
pub mod event;
pub mod explain;
pub mod image;
pub mod import;
pub mod job;
pub mod keeper;
pub mod lab;
pub mod man;
pub mod namespace;
pub mod node;
pub mod operator;
pub mod quota;
pub mod server;
pub mod short;
pub mod system;
pub mod top;
pub mod unit;
pub mod var;
pub mod version;
