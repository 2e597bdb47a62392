//! What crosses a wire: the agent protocol, the HTTP API's types and client, and lines of the log of servers and agents. Nothing here
//! decides anything.

pub mod agent;
mod failpoint;
pub mod http;
mod log_feed;
mod secrets;

pub use failpoint::failpoint;
pub use log_feed::{LogDetail, LogFeed, LogFormat, LogWatch};
