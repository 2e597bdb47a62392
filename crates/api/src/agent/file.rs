//! Files of an allocation: what a directory holds, and what a file is. Their content is read by [`super::FileRead`].

/// The most entries of one directory that an agent lists.
pub const FILES_MAX: usize = 10_000;

/// Bits of [`FileSpec::mode`] that say what kind of file it is, as the kernel has them, and two of the kinds.
const KIND_BITS: u32 = 0o170_000;
const DIRECTORY: u32 = 0o040_000;
const REGULAR: u32 = 0o100_000;

/// What is there, at a path of an allocation's directory?
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct GetFiles {
    /// 16 bytes.
    #[prost(bytes = "vec", tag = "1")]
    pub alloc_id: Vec<u8>,
    /// From the top of the allocation's directory, as `web/local/data`.
    #[prost(string, tag = "2")]
    pub path: String,
    /// What the directory holds, instead of what the path itself leads to.
    #[prost(bool, tag = "3")]
    pub list: bool,
}

/// Which lines of an agent's own log are read.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct AgentLogRead {
    /// Lines of this level, as `INFO`, and more severe ones.
    #[prost(string, tag = "1")]
    pub level: String,
    /// Each line is a JSON object.
    #[prost(bool, tag = "2")]
    pub json: bool,
}

/// Answers [`GetFiles`].
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct AllocFiles {
    /// By name; the only one where nothing was to be listed.
    #[prost(message, repeated, tag = "1")]
    pub files: Vec<FileSpec>,
}

/// A file, or a directory.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct FileSpec {
    /// Without the directory that it lies in.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Size in bytes.
    #[prost(uint64, tag = "2")]
    pub size: u64,
    /// As the kernel's `st_mode`: its kind, and who may do what with it.
    #[prost(uint32, tag = "3")]
    pub mode: u32,
    /// When its content was last changed: nanoseconds since the Unix epoch, by the node's clock.
    #[prost(uint64, tag = "4")]
    pub modified_ns: u64,
    /// As `text/plain; charset=utf-8`, by the look of its beginning; empty for what was listed, and what is no regular file.
    #[prost(string, tag = "5")]
    pub content_type: String,
}

impl FileSpec {
    /// Whether it is a directory.
    pub fn is_dir(&self) -> bool {
        self.mode & KIND_BITS == DIRECTORY
    }

    /// Whether it is a file with content of its own: no directory, link, pipe or device.
    pub fn is_regular(&self) -> bool {
        self.mode & KIND_BITS == REGULAR
    }
}
