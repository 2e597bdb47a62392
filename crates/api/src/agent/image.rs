//! Container images of a node: listing, pulling, loading and removing them.

use bytes::Bytes;

/// Bytes of a piece of an archive, at most.
pub const IMAGE_PIECE_BYTES_MAX: usize = 1 << 20;

/// Which images does the node have?
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct GetImages {}

/// Pull an image. The download goes on for as long as somebody asks again; it is joined by whoever wants the same.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct PullImage {
    /// As a job names it.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Even if it is there: its registry may have a newer one.
    #[prost(bool, tag = "2")]
    pub always: bool,
}

/// Take in an archive of images, piece by piece in their order. It is dropped when no piece comes for a while.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct LoadImages {
    /// Chosen by the server: pieces that belong together.
    #[prost(bytes = "bytes", tag = "1")]
    pub upload: Bytes,
    /// Where the piece begins in the archive.
    #[prost(uint64, tag = "2")]
    pub offset: u64,
    /// At most [`IMAGE_PIECE_BYTES_MAX`] bytes; with the last piece, none may follow.
    #[prost(bytes = "bytes", tag = "3")]
    pub data: Bytes,
    /// Nothing follows. Asked again until it is done.
    #[prost(bool, tag = "4")]
    pub end: bool,
    /// What the one image in it is called, whatever the archive says; empty for what that says.
    #[prost(string, tag = "5")]
    pub name: String,
    /// Nobody wants it any more.
    #[prost(bool, tag = "6")]
    pub cancel: bool,
}

/// Remove an image that no task uses.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct RemoveImage {
    /// As a job names it.
    #[prost(string, tag = "1")]
    pub name: String,
}

/// Answers [`GetImages`].
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ImageList {
    /// By name.
    #[prost(message, repeated, tag = "1")]
    pub images: Vec<ImageInfo>,
    /// Bytes of the filesystem that they are on.
    #[prost(uint64, tag = "2")]
    pub disk_bytes: u64,
    /// Of these, free.
    #[prost(uint64, tag = "3")]
    pub disk_free_bytes: u64,
    /// Images that do not fit into the response.
    #[prost(uint32, tag = "4")]
    pub left_off: u32,
}

/// An image that a node has.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ImageInfo {
    /// In full, or the path of an archive or directory of the node.
    #[prost(string, tag = "1")]
    pub name: String,
    /// 32 bytes: the SHA-256 of its manifest, or of its config where it came without one.
    #[prost(bytes = "vec", tag = "2")]
    pub digest: Vec<u8>,
    /// Of its layers as they came; 0 where nobody counted.
    #[prost(uint64, tag = "3")]
    pub bytes: u64,
    /// How many layers it has.
    #[prost(uint32, tag = "4")]
    pub layers: u32,
    /// When it came: nanoseconds since the Unix epoch; 0 where nobody noted it.
    #[prost(uint64, tag = "5")]
    pub pulled_ns: u64,
    /// When a task last asked for it: nanoseconds since the Unix epoch.
    #[prost(uint64, tag = "6")]
    pub used_ns: u64,
    /// The allocations that run it, 16 bytes each.
    #[prost(bytes = "vec", repeated, tag = "7")]
    pub alloc_ids: Vec<Vec<u8>>,
    /// It came with credentials of a job: others have to show the same.
    #[prost(bool, tag = "8")]
    pub private: bool,
}

/// Answers [`PullImage`].
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct PullProgress {
    /// Bytes that are here.
    #[prost(uint64, tag = "1")]
    pub done_bytes: u64,
    /// Bytes in all; 0 while that is not known.
    #[prost(uint64, tag = "2")]
    pub total_bytes: u64,
    /// Once all of it is here.
    #[prost(message, optional, tag = "3")]
    pub image: Option<ImageInfo>,
}

/// Answers [`LoadImages`].
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ImageLoad {
    /// Where the next piece begins. A piece that was not taken yet is sent again.
    #[prost(uint64, tag = "1")]
    pub offset: u64,
    /// All is unpacked.
    #[prost(bool, tag = "2")]
    pub done: bool,
    /// The images that are here by it, once it is done.
    #[prost(message, repeated, tag = "3")]
    pub images: Vec<ImageInfo>,
}
