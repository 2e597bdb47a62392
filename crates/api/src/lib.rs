//! What crosses a wire: the agent protocol and the HTTP API's types and client. Nothing here decides anything.

pub mod agent;
mod failpoint;
pub mod http;
mod secrets;

pub use failpoint::failpoint;
