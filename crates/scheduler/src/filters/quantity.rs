//! Amounts with units, as devices' attributes have them: `40 GiB` is more than `16384 MiB`.

/// Units by their name: what they measure, and how much of it one is.
const UNITS: &[(&str, Measure, f64)] = &[
    ("B", Measure::Bytes, 1.0),
    ("kB", Measure::Bytes, 1e3),
    ("MB", Measure::Bytes, 1e6),
    ("GB", Measure::Bytes, 1e9),
    ("TB", Measure::Bytes, 1e12),
    ("KiB", Measure::Bytes, 1024.0),
    ("MiB", Measure::Bytes, 1_048_576.0),
    ("GiB", Measure::Bytes, 1_073_741_824.0),
    ("TiB", Measure::Bytes, 1_099_511_627_776.0),
    ("MB/s", Measure::BytesPerSecond, 1e6),
    ("GB/s", Measure::BytesPerSecond, 1e9),
    ("MiB/s", Measure::BytesPerSecond, 1_048_576.0),
    ("GiB/s", Measure::BytesPerSecond, 1_073_741_824.0),
    ("MHz", Measure::Hertz, 1e6),
    ("GHz", Measure::Hertz, 1e9),
    ("mW", Measure::Watts, 1e-3),
    ("W", Measure::Watts, 1.0),
    ("kW", Measure::Watts, 1e3),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Measure {
    Bytes,
    BytesPerSecond,
    Hertz,
    Watts,
}

/// Both sides as plain numbers of one unit; none when they do not measure the same.
pub(super) fn in_one_unit(left: &str, right: &str) -> Option<(String, String)> {
    let ((left, of_left), (right, of_right)) = (quantity(left)?, quantity(right)?);
    (of_left == of_right).then(|| (left.to_string(), right.to_string()))
}

fn quantity(text: &str) -> Option<(f64, Measure)> {
    let text = text.trim();
    let unit_at = text.find(|c: char| !c.is_ascii_digit() && c != '.' && c != '-')?;
    let (number, unit) = text.split_at(unit_at);
    let (_, measure, one) = UNITS.iter().find(|(name, ..)| *name == unit.trim())?;
    Some((number.parse::<f64>().ok()? * one, *measure))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_of_one_kind_can_be_compared() {
        let numbers = |left, right| in_one_unit(left, right);
        assert_eq!(numbers("2 GiB", "2048MiB"), Some(("2147483648".into(), "2147483648".into())));
        assert_eq!(numbers("1.5 GHz", "900 MHz"), Some(("1500000000".into(), "900000000".into())));
        for (left, right) in [("2 GiB", "2 GHz"), ("2", "2 GiB"), ("2 apples", "2 apples"), ("GiB", "1 GiB")]
        {
            assert_eq!(numbers(left, right), None, "{left} {right}");
        }
    }
}
