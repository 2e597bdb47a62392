//! Functions of numbers.

use super::{Arguments, Function, SOME, function};
use crate::hcl::value::Value;

pub(super) static TABLE: &[Function] = &[
    function("abs", 1..=1, |a| finite(a.number(0)?.abs())),
    function("ceil", 1..=1, |a| finite(a.number(0)?.ceil())),
    function("floor", 1..=1, |a| finite(a.number(0)?.floor())),
    function("log", 2..=2, |a| finite(a.number(0)?.ln() / a.number(1)?.ln())),
    function("max", SOME, |a| extreme(a, f64::max)),
    function("min", SOME, |a| extreme(a, f64::min)),
    function("parseint", 2..=2, parse_whole),
    function("pow", 2..=2, |a| finite(a.number(0)?.powf(a.number(1)?))),
    function("signum", 1..=1, |a| {
        let number = a.number(0)?;
        Ok(Value::number(if number == 0.0 { 0.0 } else { number.signum() }))
    }),
];

fn finite(number: f64) -> Result<Value, String> {
    if number.is_finite() { Ok(Value::number(number)) } else { Err("the result is no number".to_owned()) }
}

fn extreme(arguments: &Arguments<'_>, pick: fn(f64, f64) -> f64) -> Result<Value, String> {
    let mut extreme = arguments.number(0)?;
    for at in 1..arguments.values.len() {
        extreme = pick(extreme, arguments.number(at)?);
    }
    finite(extreme)
}

fn parse_whole(arguments: &Arguments<'_>) -> Result<Value, String> {
    let (text, base) = (arguments.text(0)?, arguments.whole(1)?);
    let base = u32::try_from(base).ok().filter(|base| (2..=36).contains(base));
    let base = base.ok_or("the base must be 2 to 36")?;
    let number = i64::from_str_radix(&text, base);
    number.map(Value::Int).map_err(|_| format!("{text:?} is not a whole number of base {base}"))
}
