//! What may be reported of a panic: its message may be made of whatever the code was at work on, secrets included.

use std::any::Any;

/// Stands for a message that is not reported.
const WITHHELD: &str = "its message is withheld, as it may hold secrets";

/// What a panic says, if that stands in the source of the program word by word; of a message that was made of values, only that
/// there was one. Where it happened is on standard error, and says which it was.
#[must_use]
pub fn panic_text(payload: &(dyn Any + Send)) -> &'static str {
    payload.downcast_ref::<&'static str>().copied().unwrap_or(WITHHELD)
}

#[cfg(test)]
mod tests {
    use std::{hint::black_box, panic::catch_unwind};

    use super::*;

    #[test]
    fn what_was_made_of_values_is_withheld() {
        let reported = |work: fn()| panic_text(&*catch_unwind(work).expect_err("it panics"));
        assert_eq!(reported(|| panic!("the queue is empty")), "the queue is empty");
        let of_values: [fn(); 4] = [
            || panic!("no key {}", black_box("a secret")),
            || assert_eq!(black_box("a secret"), "another", "keys differ"),
            || black_box(Err::<(), _>("a secret")).expect("it is read"),
            || drop(black_box("ä secret")[1..].to_owned()),
        ];
        for work in of_values {
            assert_eq!(reported(work), WITHHELD);
        }
    }
}
