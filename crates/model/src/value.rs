//! Free-form settings (a driver's config): the JSON data model, kept in order of keys.

use minicbor::{Decode, Decoder, Encode, Encoder, decode, encode};

/// A setting whose type only its reader knows.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
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
    Map(#[n(0)] Members),
}

/// The members of a map, in order of their names. Most maps are small and none ever changes: a slice takes a tenth of
/// what a tree would.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Members(Box<[(Box<str>, Value)]>);

impl Members {
    /// Names and values, in order of names.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Value)> {
        self.0.iter().map(|(name, value)| (&**name, value))
    }
}

/// Of members of one name, the last one counts.
impl<N: Into<Box<str>>> FromIterator<(N, Value)> for Members {
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

impl<C> Encode<C> for Members {
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

impl<'b, C> Decode<'b, C> for Members {
    fn decode(decoder: &mut Decoder<'b>, context: &mut C) -> Result<Self, decode::Error> {
        decoder.map_iter_with::<C, &str, Value>(context)?.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_ordered_and_the_last_of_a_name_counts() {
        let members: Members =
            [("b", 1), ("a", 2), ("b", 3)].map(|(n, v)| (n, Value::Int(v))).into_iter().collect();
        assert_eq!(members.iter().collect::<Vec<_>>(), [("a", &Value::Int(2)), ("b", &Value::Int(3))]);
    }

    #[test]
    fn values_come_back_from_their_encoding() {
        let inner: Members = [("x", Value::List(vec![Value::Null, Value::Float(0.5)]))].into_iter().collect();
        let value = Value::Map([("m", Value::Map(inner)), ("", Value::Bool(true))].into_iter().collect());
        let bytes = minicbor::to_vec(&value).expect("it is encoded");
        assert_eq!(minicbor::decode::<Value>(&bytes).expect("it is decoded"), value);
    }
}
