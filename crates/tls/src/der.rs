//! Reads the validity and the subject of a certificate from DER; everything else is the verifier's, which has parsed the whole
//! certificate before.

/// The tags that are looked for.
const INTEGER: u8 = 0x02;
const OBJECT_ID: u8 = 0x06;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;

/// A part of a name, as `commonName = Berth CA`: its object id and its text, with the text's tag.
pub(crate) type NamePart = (Vec<u64>, u8, Vec<u8>);

/// What is read of a certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CertificateFields {
    /// Seconds since 1970.
    pub not_before: u64,
    /// Seconds since 1970.
    pub not_after: u64,
    /// Whose it is, part by part; none where that is written in a way that is not known here.
    pub subject: Option<Vec<NamePart>>,
    /// The bits of the public key, without what says of which kind it is.
    pub public_key: Vec<u8>,
}

/// Reads a certificate; none where it is not one.
pub(crate) fn outline(certificate: &[u8]) -> Option<CertificateFields> {
    let mut outer = DerReader(expect(certificate, SEQUENCE)?);
    let mut fields = DerReader(outer.take(SEQUENCE)?);
    if fields.peek() == Some(VERSION) {
        fields.take(VERSION)?;
    }
    fields.take(INTEGER)?; // the serial number
    fields.take(SEQUENCE)?; // how it is signed
    fields.take(SEQUENCE)?; // by whom
    let mut validity = DerReader(fields.take(SEQUENCE)?);
    let (not_before, not_after) = (time(validity.next()?)?, time(validity.next()?)?);
    let subject = name(fields.take(SEQUENCE)?);
    let mut key = DerReader(fields.take(SEQUENCE)?);
    key.take(SEQUENCE)?;
    let (_, bits) = key.next()?;
    // The first byte says how many bits of the last one do not count, which is none.
    Some(CertificateFields { not_before, not_after, subject, public_key: bits.get(1..)?.to_vec() })
}

fn name(body: &[u8]) -> Option<Vec<NamePart>> {
    let (mut sets, mut parts) = (DerReader(body), Vec::new());
    while let Some((_, set)) = sets.next() {
        let mut pair = DerReader(DerReader(set).take(SEQUENCE)?);
        let id = object_id(pair.take(OBJECT_ID)?)?;
        let (tag, text) = pair.next()?;
        parts.push((id, tag, text.to_vec()));
    }
    sets.0.is_empty().then_some(parts)
}

fn object_id(body: &[u8]) -> Option<Vec<u64>> {
    let (first, rest) = body.split_first()?;
    let mut id = vec![u64::from(first / 40).min(2)];
    id.push(u64::from(*first) - 40 * id[0]);
    let mut number = 0_u64;
    for byte in rest {
        number = number.checked_mul(128)?.checked_add(u64::from(byte & 0x7f))?;
        if byte & 0x80 == 0 {
            id.push(number);
            number = 0;
        }
    }
    Some(id)
}

/// `YYMMDDhhmmssZ`, or the same with four digits for the year.
fn time((tag, text): (u8, &[u8])) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?.strip_suffix('Z')?;
    let (year, rest) = match tag {
        UTC_TIME => {
            let year: u64 = text.get(..2)?.parse().ok()?;
            (if year < 50 { 2000 + year } else { 1900 + year }, text.get(2..)?)
        }
        GENERALIZED_TIME => (text.get(..4)?.parse().ok()?, text.get(4..)?),
        _ => return None,
    };
    let part = |at: usize| rest.get(2 * at..2 * at + 2)?.parse::<u64>().ok();
    let (month, day) = (part(0)?, part(1)?);
    let (hour, minute, second) = (part(2)?, part(3)?, part(4)?);
    let days = days_since_1970(year, month, day)?;
    Some(days * 86_400 + hour * 3_600 + minute * 60 + second)
}

/// Counts in years that begin in March, so that leap days come last; see Howard Hinnant's "chrono-compatible low-level date
/// algorithms".
fn days_since_1970(year: u64, month: u64, day: u64) -> Option<u64> {
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let year = if month <= 2 { year.checked_sub(1)? } else { year };
    let (era, year_of_era) = (year / 400, year % 400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    (era * 146_097 + day_of_era).checked_sub(719_468)
}

fn expect(input: &[u8], tag: u8) -> Option<&[u8]> {
    DerReader(input).take(tag)
}

/// Goes through elements that stand one after the other.
struct DerReader<'a>(&'a [u8]);

impl<'a> DerReader<'a> {
    fn peek(&self) -> Option<u8> {
        self.0.first().copied()
    }

    /// The body of the next element, which must be of that kind.
    fn take(&mut self, tag: u8) -> Option<&'a [u8]> {
        let (found, body) = self.next()?;
        (found == tag).then_some(body)
    }

    /// The next element: its kind and its body.
    fn next(&mut self) -> Option<(u8, &'a [u8])> {
        let (&tag, rest) = self.0.split_first()?;
        let (&short, rest) = rest.split_first()?;
        let (len, rest) = match short {
            0..=0x7f => (usize::from(short), rest),
            0x81..=0x84 => {
                let (bytes, rest) = rest.split_at_checked(usize::from(short & 0x7f))?;
                (bytes.iter().fold(0, |len, byte| len << 8 | usize::from(*byte)), rest)
            }
            _ => return None,
        };
        let (body, rest) = rest.split_at_checked(len)?;
        self.0 = rest;
        Some((tag, body))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_in_both_spellings() {
        for (tag, text, secs) in [
            (UTC_TIME, "700101000000Z", 0),
            (UTC_TIME, "261123010203Z", 1_795_395_723),
            (GENERALIZED_TIME, "20261123010203Z", 1_795_395_723),
            (GENERALIZED_TIME, "20000229000000Z", 951_782_400),
            (GENERALIZED_TIME, "20500101000000Z", 2_524_608_000),
        ] {
            assert_eq!(time((tag, text.as_bytes())), Some(secs), "{text}");
        }
        for bad in ["", "Z", "26112301020", "261323010203Z", "2611\u{e4}3010203Z"] {
            assert_eq!(time((UTC_TIME, bad.as_bytes())), None, "{bad}");
        }
    }

    #[test]
    fn what_is_no_certificate_is_not_read() {
        for bad in
            [&[][..], &[0x30], &[0x30, 0x84, 0xff, 0xff, 0xff, 0xff], &[0x30, 0x80], &[0x30, 2, 0x30, 9]]
        {
            assert_eq!(outline(bad), None);
        }
    }
}
