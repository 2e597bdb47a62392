//! Encoding of types that CBOR derives do not cover, for `#[cbor(with = ...)]`.

mod buffer;
pub(crate) mod byte_reader;

pub(crate) use buffer::{Buffer, encoded};

/// How many bytes a value takes in CBOR.
pub fn encoded_len<T: minicbor::Encode<()>>(value: &T) -> usize {
    struct Count(usize);

    impl minicbor::encode::Write for Count {
        type Error = std::convert::Infallible;

        #[inline(always)]
        fn write_all(&mut self, bytes: &[u8]) -> Result<(), Self::Error> {
            self.0 += bytes.len();
            Ok(())
        }
    }

    let mut count = Count(0);
    minicbor::encode(value, &mut count).expect("counting does not fail");
    count.0
}

/// A number of 128 bits as 16 bytes, big-endian.
pub mod wide {
    use minicbor::{Decoder, Encoder, decode as de, encode as en};

    /// Writes the bytes.
    pub fn encode<C, W: en::Write>(
        value: &u128,
        e: &mut Encoder<W>,
        _: &mut C,
    ) -> Result<(), en::Error<W::Error>> {
        e.bytes(&value.to_be_bytes())?.ok()
    }

    /// Reads the bytes.
    pub fn decode<C>(d: &mut Decoder<'_>, _: &mut C) -> Result<u128, de::Error> {
        let bytes = d.bytes()?.try_into().map_err(|_| de::Error::message("a digest is not 16 bytes long"))?;
        Ok(u128::from_be_bytes(bytes))
    }
}

/// A [`std::time::Duration`] as whole nanoseconds (u64: up to 584 years).
pub mod duration {
    use std::time::Duration;

    use minicbor::{Decoder, Encoder, decode as de, encode as en};

    /// Writes nanoseconds, saturating.
    pub fn encode<C, W: en::Write>(
        span: &Duration,
        e: &mut Encoder<W>,
        _: &mut C,
    ) -> Result<(), en::Error<W::Error>> {
        e.u64(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX))?.ok()
    }

    /// Reads nanoseconds.
    pub fn decode<C>(d: &mut Decoder<'_>, _: &mut C) -> Result<Duration, de::Error> {
        d.u64().map(Duration::from_nanos)
    }
}

/// A [`std::time::Duration`] that may be absent.
pub mod duration_option {
    use std::time::Duration;

    use minicbor::{Decode, Decoder, Encoder, decode as de, encode as en};

    /// Writes nanoseconds, or null.
    pub fn encode<C, W: en::Write>(
        span: &Option<Duration>,
        e: &mut Encoder<W>,
        context: &mut C,
    ) -> Result<(), en::Error<W::Error>> {
        match span {
            Some(span) => super::duration::encode(span, e, context),
            None => e.null()?.ok(),
        }
    }

    /// Reads nanoseconds, or null.
    pub fn decode<C>(d: &mut Decoder<'_>, _: &mut C) -> Result<Option<Duration>, de::Error> {
        Ok(Option::<u64>::decode(d, &mut ())?.map(Duration::from_nanos))
    }
}

/// A truth value that is not written where it is false and last: records that older servers wrote keep their bytes, and
/// with them the hash of the state.
pub mod late_flag {
    use minicbor::{Decoder, Encoder, decode as de, encode as en};

    /// Writes the value, null for false.
    pub fn encode<C, W: en::Write>(
        flag: &bool,
        e: &mut Encoder<W>,
        _: &mut C,
    ) -> Result<(), en::Error<W::Error>> {
        if *flag { e.bool(true)?.ok() } else { e.null()?.ok() }
    }

    /// Reads the value, or null.
    pub fn decode<C>(d: &mut Decoder<'_>, context: &mut C) -> Result<bool, de::Error> {
        minicbor::Decode::decode(d, context).map(|flag: Option<bool>| flag.unwrap_or_default())
    }

    /// Whether it need not be written.
    pub fn is_nil(flag: &bool) -> bool {
        !flag
    }

    /// What was not written.
    pub fn nil() -> Option<bool> {
        Some(false)
    }
}

/// A shared value, written as the value itself.
pub mod shared {
    use std::sync::Arc;

    use minicbor::{Decode, Decoder, Encode, Encoder, decode as de, encode as en};

    /// Writes the value.
    pub fn encode<C, T: Encode<C>, W: en::Write>(
        value: &Arc<T>,
        e: &mut Encoder<W>,
        context: &mut C,
    ) -> Result<(), en::Error<W::Error>> {
        value.as_ref().encode(e, context)
    }

    /// Reads the value.
    pub fn decode<'b, C, T: Decode<'b, C>>(
        d: &mut Decoder<'b>,
        context: &mut C,
    ) -> Result<Arc<T>, de::Error> {
        T::decode(d, context).map(Arc::new)
    }
}

/// A shared value that may be absent.
pub mod shared_option {
    use std::sync::Arc;

    use minicbor::{Decode, Decoder, Encode, Encoder, decode as de, encode as en};

    /// Writes the value, or null.
    pub fn encode<C, T: Encode<C>, W: en::Write>(
        value: &Option<Arc<T>>,
        e: &mut Encoder<W>,
        context: &mut C,
    ) -> Result<(), en::Error<W::Error>> {
        value.as_deref().encode(e, context)
    }

    /// Reads the value, or null.
    pub fn decode<'b, C, T: Decode<'b, C>>(
        d: &mut Decoder<'b>,
        context: &mut C,
    ) -> Result<Option<Arc<T>>, de::Error> {
        Ok(Option::<T>::decode(d, context)?.map(Arc::new))
    }

    /// Whether it need not be written.
    pub fn is_nil<T>(value: &Option<Arc<T>>) -> bool {
        value.is_none()
    }

    /// What was not written.
    pub fn nil<T>() -> Option<Option<Arc<T>>> {
        Some(None)
    }
}

/// Shared text.
pub mod shared_str {
    use std::sync::Arc;

    use minicbor::{Decoder, Encoder, decode as de, encode as en};

    /// Writes the text.
    pub fn encode<C, W: en::Write>(
        text: &Arc<str>,
        e: &mut Encoder<W>,
        _: &mut C,
    ) -> Result<(), en::Error<W::Error>> {
        e.str(text)?.ok()
    }

    /// Reads the text.
    pub fn decode<C>(d: &mut Decoder<'_>, _: &mut C) -> Result<Arc<str>, de::Error> {
        d.str().map(Arc::from)
    }
}

/// A 128-bit id as 16 big-endian bytes.
pub mod id128 {
    use minicbor::{Decoder, Encoder, decode as de, encode as en};

    /// Writes the bytes.
    pub fn encode<C, W: en::Write>(
        id: &u128,
        e: &mut Encoder<W>,
        _: &mut C,
    ) -> Result<(), en::Error<W::Error>> {
        e.bytes(&id.to_be_bytes())?.ok()
    }

    /// Reads the bytes.
    pub fn decode<C>(d: &mut Decoder<'_>, _: &mut C) -> Result<u128, de::Error> {
        let bytes = d.bytes()?.try_into();
        bytes.map(u128::from_be_bytes).map_err(|_| de::Error::message("an id is not 16 bytes long"))
    }
}

/// A list of 128-bit ids.
pub mod id128_list {
    use minicbor::{Decoder, Encoder, decode as de, encode as en};

    /// Writes an array of byte strings.
    pub fn encode<C, W: en::Write>(
        ids: &[u128],
        e: &mut Encoder<W>,
        context: &mut C,
    ) -> Result<(), en::Error<W::Error>> {
        e.array(ids.len() as u64)?;
        ids.iter().try_for_each(|id| super::id128::encode(id, e, context))
    }

    /// Reads an array of byte strings.
    pub fn decode<C>(d: &mut Decoder<'_>, context: &mut C) -> Result<Vec<u128>, de::Error> {
        let len = d.array()?.ok_or_else(|| de::Error::message("a list of ids has no length"))?;
        (0..len).map(|_| super::id128::decode(d, context)).collect()
    }
}
