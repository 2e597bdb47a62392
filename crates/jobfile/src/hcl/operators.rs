//! Operators.

use super::{
    error::{EvalError, EvalResult},
    evaluate::Evaluator,
    scope::Scope,
    value::Value,
};
use crate::syntax::{Chain, Expression, Operator, Unary};

/// How tightly an operator binds.
fn precedence(operator: Operator) -> u8 {
    match operator {
        Operator::Or => 1,
        Operator::And => 2,
        Operator::Equal | Operator::NotEqual => 3,
        Operator::Less | Operator::LessOrEqual | Operator::Greater | Operator::GreaterOrEqual => 4,
        Operator::Plus | Operator::Minus => 5,
        Operator::Times | Operator::Divide | Operator::Modulo => 6,
    }
}

/// The terms of a chain that have not been used yet.
struct Terms<'c, 's> {
    chain: &'c Chain<'s>,
    next: usize,
}

impl Evaluator<'_> {
    /// The value of a chain. Never deeper than there are precedences, however long it is.
    pub(super) fn chain(&self, chain: &Chain<'_>, scope: Scope<'_>) -> EvalResult<Value> {
        let mut terms = Terms { chain, next: 0 };
        self.climb(&chain.first, &mut terms, 0, true, scope)
    }

    /// The value of a term and what binds more tightly than `loosest` behind it. What is not `live` stands behind an
    /// `&&` or `||` that has been decided: it is stepped over.
    fn climb<'c, 's>(
        &self,
        first: &'c Expression<'s>,
        terms: &mut Terms<'c, 's>,
        loosest: u8,
        live: bool,
        scope: Scope<'_>,
    ) -> EvalResult<Value> {
        let mut left = if live { self.value(first, scope)? } else { Value::Null };
        let mut span = first.span;
        while let Some((operator, term)) = terms.chain.rest.get(terms.next) {
            let binds = precedence(*operator);
            if binds <= loosest {
                break;
            }
            terms.next += 1;
            span = span.to(term.span);
            let decided = live && is_decided(*operator, &left);
            let right = self.climb(term, terms, binds, live && !decided, scope)?;
            if live && !decided {
                self.spend(left.bytes() + right.bytes(), span)?;
                left = binary(*operator, &left, &right).map_err(|message| EvalError::at(span, message))?;
            }
        }
        Ok(left)
    }
}

fn is_decided(operator: Operator, left: &Value) -> bool {
    match operator {
        Operator::And => left.to_bool() == Some(false),
        Operator::Or => left.to_bool() == Some(true),
        _ => false,
    }
}

/// The value of `!x` or `-x`.
pub(super) fn unary(operator: Unary, value: &Value) -> Result<Value, String> {
    match operator {
        Unary::Not => {
            let truth =
                value.to_bool().ok_or_else(|| format!("`!` needs true or false, found {}", value.kind()))?;
            Ok(Value::Bool(!truth))
        }
        Unary::Negate => arithmetic(Operator::Minus, &Value::Int(0), value),
    }
}

fn binary(operator: Operator, left: &Value, right: &Value) -> Result<Value, String> {
    match operator {
        Operator::Or | Operator::And => {
            let truth = |value: &Value| {
                let wrong = || format!("`&&` and `||` need true or false, found {}", value.kind());
                value.to_bool().ok_or_else(wrong)
            };
            let (left, right) = (truth(left)?, truth(right)?);
            Ok(Value::Bool(if operator == Operator::Or { left || right } else { left && right }))
        }
        Operator::Equal => Ok(Value::Bool(left == right)),
        Operator::NotEqual => Ok(Value::Bool(left != right)),
        Operator::Less | Operator::LessOrEqual | Operator::Greater | Operator::GreaterOrEqual => {
            let (left, right) = (number(left)?, number(right)?);
            Ok(Value::Bool(match operator {
                Operator::Less => left < right,
                Operator::LessOrEqual => left <= right,
                Operator::Greater => left > right,
                _ => left >= right,
            }))
        }
        _ => arithmetic(operator, left, right),
    }
}

fn number(value: &Value) -> Result<f64, String> {
    value.to_number().ok_or_else(|| format!("expected a number, found {}", value.kind()))
}

fn arithmetic(operator: Operator, left: &Value, right: &Value) -> Result<Value, String> {
    if let (Value::Int(left), Value::Int(right)) = (left, right)
        && let Some(exact) = whole(operator, *left, *right)
    {
        return Ok(Value::Int(exact));
    }
    let (left, right) = (number(left)?, number(right)?);
    if right == 0.0 && matches!(operator, Operator::Divide | Operator::Modulo) {
        return Err("division by zero".to_owned());
    }
    let result = match operator {
        Operator::Plus => left + right,
        Operator::Minus => left - right,
        Operator::Times => left * right,
        Operator::Divide => left / right,
        _ => left % right,
    };
    if result.is_finite() { Ok(Value::number(result)) } else { Err("the number is too large".to_owned()) }
}

/// The result where whole numbers suffice.
fn whole(operator: Operator, left: i64, right: i64) -> Option<i64> {
    match operator {
        Operator::Plus => left.checked_add(right),
        Operator::Minus => left.checked_sub(right),
        Operator::Times => left.checked_mul(right),
        Operator::Divide if right != 0 && left.checked_rem(right) == Some(0) => left.checked_div(right),
        Operator::Modulo => left.checked_rem(right),
        _ => None,
    }
}
