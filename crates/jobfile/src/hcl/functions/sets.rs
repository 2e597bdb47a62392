//! Functions of lists as sets: without doubles, in an order of their own.

use super::{Arguments, Function, SOME, function};
use crate::hcl::{
    types::without_doubles,
    value::{Value, in_order},
};

/// Lists that one product may have.
const PRODUCT_MAX: usize = 10_000;

pub(super) static TABLE: &[Function] = &[
    function("setintersection", SOME, intersection),
    function("setproduct", 2..=usize::MAX, product),
    function("setunion", SOME, |a| {
        let lists = (0..a.values.len()).map(|at| a.list(at)).collect::<Result<Vec<_>, _>>()?;
        Ok(Value::list(without_doubles(lists.concat())))
    }),
];

fn intersection(arguments: &Arguments<'_>) -> Result<Value, String> {
    let mut shared = without_doubles(arguments.list(0)?.to_vec());
    for at in 1..arguments.values.len() {
        let other = without_doubles(arguments.list(at)?.to_vec());
        shared.retain(|item| other.binary_search_by(|theirs| in_order(theirs, item)).is_ok());
    }
    Ok(Value::list(shared))
}

/// Every way to take an item of each list.
fn product(arguments: &Arguments<'_>) -> Result<Value, String> {
    let lists = (0..arguments.values.len()).map(|at| arguments.list(at)).collect::<Result<Vec<_>, _>>()?;
    let count = lists.iter().map(|list| list.len()).fold(1, usize::saturating_mul);
    if count > PRODUCT_MAX {
        return Err(format!("more than {PRODUCT_MAX} lists"));
    }
    let mut ways: Vec<Vec<Value>> = vec![Vec::new()];
    for list in lists {
        let longer = |way: &Vec<Value>, item: &Value| [&way[..], std::slice::from_ref(item)].concat();
        ways = ways.iter().flat_map(|way| list.iter().map(move |item| longer(way, item))).collect();
    }
    Ok(Value::list(ways.into_iter().map(Value::list).collect()))
}
