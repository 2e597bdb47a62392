//! Reads the shortest form of CBOR's simple values, which is the one that is written. Whoever reads millions of records of one shape
//! reads them so, and leaves all others to the decoder, which knows every form.

/// Bytes that are still to be read. What answers none may have read a part of what it was asked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ByteReader<'b>(&'b [u8]);

/// The kinds of values, in the upper three bits of their first byte.
const NUMBER: u8 = 0;
const NEGATIVE: u8 = 1;
const BYTES: u8 = 2;
const TEXT: u8 = 3;
const ARRAY: u8 = 4;
const FALSE: u8 = 0xf4;
const TRUE: u8 = 0xf5;

impl<'b> ByteReader<'b> {
    pub fn new(bytes: &'b [u8]) -> Self {
        Self(bytes)
    }

    /// What is still to be read.
    pub fn rest(&self) -> &'b [u8] {
        self.0
    }

    /// Passes over bytes that must be these.
    #[inline]
    pub fn pass(&mut self, bytes: &[u8]) -> Option<()> {
        self.0 = self.0.strip_prefix(bytes)?;
        Some(())
    }

    /// A number.
    #[inline]
    pub fn number<T: TryFrom<u64>>(&mut self) -> Option<T> {
        T::try_from(self.head(NUMBER)?).ok()
    }

    /// A number that may be negative.
    #[inline]
    pub fn signed(&mut self) -> Option<i32> {
        if self.0.first()? >> 5 == NEGATIVE {
            return Some(!i32::try_from(self.head(NEGATIVE)?).ok()?);
        }
        self.number()
    }

    /// Whether something is so.
    #[inline]
    pub fn truth(&mut self) -> Option<bool> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        match *first {
            FALSE => Some(false),
            TRUE => Some(true),
            _ => None,
        }
    }

    /// The 16 bytes of an id.
    #[inline]
    pub fn id<T: From<u128>>(&mut self) -> Option<T> {
        let bytes = self.counted(BYTES)?.try_into().ok()?;
        Some(T::from(u128::from_be_bytes(bytes)))
    }

    /// A text.
    #[inline]
    pub fn text(&mut self) -> Option<&'b str> {
        str::from_utf8(self.counted(TEXT)?).ok()
    }

    /// How many values an array has, which follow.
    #[inline]
    pub fn array(&mut self) -> Option<u64> {
        self.head(ARRAY)
    }

    /// Begins a record of so many fields, which follow.
    #[inline]
    pub fn fields(&mut self, count: u64) -> Option<()> {
        (self.array()? == count).then_some(())
    }

    #[inline]
    fn counted(&mut self, kind: u8) -> Option<&'b [u8]> {
        let len = usize::try_from(self.head(kind)?).ok()?;
        let (bytes, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(bytes)
    }

    /// The number that begins a value of this kind.
    #[inline]
    fn head(&mut self, of: u8) -> Option<u64> {
        let (first, rest) = self.0.split_first()?;
        if first >> 5 != of {
            return None;
        }
        let (value, least) = match first & 0x1f {
            value @ 0..24 => {
                self.0 = rest;
                return Some(value.into());
            }
            24 => (self.following(rest).map(|[byte]| u64::from(byte))?, 24),
            25 => (self.following(rest).map(|bytes| u64::from(u16::from_be_bytes(bytes)))?, 1 << 8),
            26 => (self.following(rest).map(|bytes| u64::from(u32::from_be_bytes(bytes)))?, 1 << 16),
            27 => (self.following(rest).map(u64::from_be_bytes)?, 1 << 32),
            _ => return None,
        };
        // A longer form than it takes.
        (value >= least).then_some(value)
    }

    #[inline]
    fn following<const N: usize>(&mut self, rest: &'b [u8]) -> Option<[u8; N]> {
        let (bytes, rest) = rest.split_first_chunk()?;
        self.0 = rest;
        Some(*bytes)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Numbers at the ends of each form.
    const NUMBERS: [u64; 12] = [
        0,
        23,
        24,
        0xff,
        0x100,
        0xffff,
        0x1_0000,
        0xffff_ffff,
        0x1_0000_0000,
        u64::MAX - 1,
        u64::MAX,
        1_700_000_000_000_000_000,
    ];

    fn written(value: impl minicbor::Encode<()>) -> Vec<u8> {
        minicbor::to_vec(value).expect("memory takes it")
    }

    #[test]
    fn what_the_encoder_writes_is_read() {
        for number in NUMBERS {
            assert_eq!(ByteReader::new(&written(number)).number(), Some(number));
            assert_eq!(ByteReader::new(&written(number)).number::<u16>(), u16::try_from(number).ok());
        }
        for number in [0, 1, -1, 24, -24, -25, -256, -257, 70_000, i32::MAX, i32::MIN] {
            assert_eq!(ByteReader::new(&written(number)).signed(), Some(number));
        }
        for text in ["", "a", &"ü".repeat(11), &"x".repeat(24), &"x".repeat(70_000)] {
            assert_eq!(ByteReader::new(&written(text)).text(), Some(text));
        }
        assert_eq!(
            [true, false].map(|truth| ByteReader::new(&written(truth)).truth()),
            [Some(true), Some(false)]
        );
        assert_eq!(ByteReader::new(&written([1, 2, 3])).array(), Some(3));
    }

    #[test]
    fn a_form_that_is_not_the_shortest_is_left_to_others() {
        for longer in
            [&[0x18, 23][..], &[0x19, 0, 0xff], &[0x1a, 0, 0, 0xff, 0xff], &[0x1b, 0, 0, 0, 0, 1, 0, 0, 0]]
        {
            assert!(minicbor::decode::<u64>(longer).is_ok());
            assert_eq!(ByteReader::new(longer).number::<u64>(), None);
        }
    }

    proptest! {
        /// Whatever is read is what the decoder reads.
        #[test]
        fn it_agrees_with_the_decoder(bytes in prop::collection::vec(any::<u8>(), 0..20)) {
            if let Some(number) = ByteReader::new(&bytes).number::<u64>() {
                prop_assert_eq!(minicbor::decode::<u64>(&bytes).ok(), Some(number));
            }
            if let Some(number) = ByteReader::new(&bytes).signed() {
                prop_assert_eq!(minicbor::decode::<i32>(&bytes).ok(), Some(number));
            }
            if let Some(text) = ByteReader::new(&bytes).text() {
                prop_assert_eq!(minicbor::decode::<&str>(&bytes).ok(), Some(text));
            }
            if let Some(truth) = ByteReader::new(&bytes).truth() {
                prop_assert_eq!(minicbor::decode::<bool>(&bytes).ok(), Some(truth));
            }
        }
    }
}
