//! Free-form settings (a driver's config): the JSON data model, kept in order of keys.

use minicbor::{Decode, Decoder, Encode, Encoder, decode, encode};

/// Deepest value that is read. Job files nest less; a snapshot may come from anywhere, and each level takes stack.
const DEPTH_MAX: u32 = 128;

/// A setting whose type only its reader knows.
#[derive(Debug, Clone, PartialEq, Encode)]
pub enum Value {
    /// Explicitly nothing.
    #[n(0)]
    Null,
    /// A truth value.
    #[n(1)]
    Bool(#[n(0)] bool),
    /// A whole number.
    #[n(2)]
    Int(#[n(0)] i64),
    /// A number with a fraction.
    #[n(3)]
    Float(#[n(0)] f64),
    /// Text; may hold `${...}` that the agent resolves.
    #[n(4)]
    String(#[n(0)] String),
    /// Values in order.
    #[n(5)]
    List(#[n(0)] Vec<Value>),
    /// Named values.
    #[n(6)]
    Map(#[n(0)] ValueMap),
}

/// The members of a map, in order of their names. Most maps are small and none ever changes: a slice takes a tenth of
/// what a tree would.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ValueMap(Box<[(Box<str>, Value)]>);

impl ValueMap {
    /// Names and values, in order of names.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Value)> {
        self.0.iter().map(|(name, value)| (&**name, value))
    }
}

/// Of members of one name, the last one counts.
impl<N: Into<Box<str>>> FromIterator<(N, Value)> for ValueMap {
    fn from_iter<I: IntoIterator<Item = (N, Value)>>(members: I) -> Self {
        let mut members: Vec<_> = members.into_iter().map(|(name, value)| (name.into(), value)).collect();
        members.sort_by(|(left, _), (right, _): &(Box<str>, Value)| left.cmp(right));
        members.dedup_by(|later, earlier| {
            let is_same = later.0 == earlier.0;
            if is_same {
                std::mem::swap(later, earlier);
            }
            is_same
        });
        Self(members.into())
    }
}

impl<C> Encode<C> for ValueMap {
    fn encode<W: encode::Write>(
        &self,
        encoder: &mut Encoder<W>,
        context: &mut C,
    ) -> Result<(), encode::Error<W::Error>> {
        encoder.map(self.0.len() as u64)?;
        for (name, value) in &self.0 {
            encoder.str(name)?;
            value.encode(encoder, context)?;
        }
        Ok(())
    }
}

/// As [`Encode`] writes it: an array of the variant's number and an array of its fields.
impl<'b, C> Decode<'b, C> for Value {
    fn decode(decoder: &mut Decoder<'b>, _: &mut C) -> Result<Self, decode::Error> {
        value(decoder, DEPTH_MAX)
    }
}

fn value(decoder: &mut Decoder<'_>, depth_left: u32) -> Result<Value, decode::Error> {
    let deeper = depth_left.checked_sub(1);
    let deeper = deeper.ok_or_else(|| decode::Error::message(format!("value is deeper than {DEPTH_MAX}")))?;
    array_of(decoder, 2)?;
    let variant = decoder.u32()?;
    array_of(decoder, u64::from(variant > 0))?;
    Ok(match variant {
        0 => Value::Null,
        1 => Value::Bool(decoder.bool()?),
        2 => Value::Int(decoder.i64()?),
        3 => Value::Float(decoder.f64()?),
        4 => Value::String(decoder.str()?.to_owned()),
        5 => {
            let count = decoder.array()?.ok_or_else(|| decode::Error::message("list without a length"))?;
            Value::List((0..count).map(|_| value(decoder, deeper)).collect::<Result<_, _>>()?)
        }
        6 => {
            let count = decoder.map()?.ok_or_else(|| decode::Error::message("map without a length"))?;
            let member = |_| Ok((decoder.str()?, value(decoder, deeper)?));
            Value::Map((0..count).map(member).collect::<Result<_, decode::Error>>()?)
        }
        unknown => return Err(decode::Error::unknown_variant(unknown.into())),
    })
}

fn array_of(decoder: &mut Decoder<'_>, count: u64) -> Result<(), decode::Error> {
    match decoder.array()? {
        Some(found) if found == count => Ok(()),
        found => Err(decode::Error::message(format!("array of {found:?} where {count} are expected"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nested(levels: u32) -> Value {
        (1..levels).fold(Value::Int(-7), |inner, level| match level % 2 {
            0 => Value::List(vec![Value::Null, inner]),
            _ => Value::Map([("a", Value::Bool(true)), ("b", inner)].into_iter().collect()),
        })
    }

    #[test]
    fn values_are_read_as_they_were_written_down_to_some_depth() {
        for levels in [1, 2, DEPTH_MAX] {
            let bytes = minicbor::to_vec(nested(levels)).unwrap();
            assert_eq!(minicbor::decode::<Value>(&bytes).unwrap(), nested(levels));
        }
        for value in
            [Value::Null, Value::Float(0.5), Value::String("s".into()), Value::Map(ValueMap::default())]
        {
            assert_eq!(minicbor::decode::<Value>(&minicbor::to_vec(&value).unwrap()).unwrap(), value);
        }
        let deep = minicbor::to_vec(nested(DEPTH_MAX + 1)).unwrap();
        assert!(minicbor::decode::<Value>(&deep).unwrap_err().to_string().contains("deeper than 128"));
        // Two bytes and two more for each level, and no end.
        let endless: Vec<u8> = std::iter::repeat_n([0x82, 0x05, 0x81, 0x81], 1_000_000).flatten().collect();
        assert!(minicbor::decode::<Value>(&endless).is_err());
    }

    #[test]
    fn members_are_ordered_and_the_last_of_a_name_counts() {
        let members: ValueMap =
            [("b", 1), ("a", 2), ("b", 3)].map(|(n, v)| (n, Value::Int(v))).into_iter().collect();
        assert_eq!(members.iter().collect::<Vec<_>>(), [("a", &Value::Int(2)), ("b", &Value::Int(3))]);
    }

    #[test]
    fn values_come_back_from_their_encoding() {
        let inner: ValueMap =
            [("x", Value::List(vec![Value::Null, Value::Float(0.5)]))].into_iter().collect();
        let value = Value::Map([("m", Value::Map(inner)), ("", Value::Bool(true))].into_iter().collect());
        let bytes = minicbor::to_vec(&value).expect("it is encoded");
        assert_eq!(minicbor::decode::<Value>(&bytes).expect("it is decoded"), value);
    }
}
