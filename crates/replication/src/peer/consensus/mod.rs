//! The consensus engine's part of what servers say to each other: what it asks others (`network`), and what others ask
//! it (`serve`), and who may (`senders`). Snapshots go from file to file (`send`, `receive`).

mod network;
mod receive;
mod send;
mod senders;
mod serve;
mod wire;

pub(crate) use network::Network;
pub(crate) use serve::Serve;
