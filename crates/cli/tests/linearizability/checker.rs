//! Tests of the checker of histories.

use super::*;

fn history(timed: &[(Register, u64, u64)]) -> Vec<Timed<Register>> {
    let timed = timed.iter().cloned();
    timed
        .map(|(operation, called, answered)| Timed {
            operation,
            called,
            answered: (answered > 0).then_some(answered),
        })
        .collect()
}

fn is_linearizable(timed: &[(Register, u64, u64)]) -> bool {
    match check(&history(timed)) {
        Verdict::Linearizable => true,
        Verdict::Violation(_) => false,
        Verdict::Undecided => panic!("undecided"),
    }
}

use Register::{Cas, Read, Write};

#[test]
fn one_after_the_other() {
    assert!(is_linearizable(&[]));
    assert!(is_linearizable(&[(Read(0), 1, 2), (Write(1), 3, 4), (Read(1), 5, 6)]));
    assert!(!is_linearizable(&[(Write(1), 1, 2), (Read(0), 3, 4)]), "a stale read");
    assert!(!is_linearizable(&[(Read(1), 1, 2), (Write(1), 3, 4)]), "read before it was written");
    assert!(!is_linearizable(&[(Write(1), 1, 2), (Write(2), 3, 4), (Read(1), 5, 6)]), "a write is undone");
}

#[test]
fn at_the_same_time_any_order_will_do() {
    assert!(is_linearizable(&[(Write(1), 1, 10), (Read(0), 2, 3), (Read(1), 4, 5)]));
    assert!(!is_linearizable(&[(Write(1), 1, 10), (Read(1), 2, 3), (Read(0), 4, 5)]), "there and back");
    assert!(is_linearizable(&[(Write(1), 1, 10), (Write(2), 1, 10), (Read(2), 11, 12), (Read(2), 13, 14)]));
    assert!(!is_linearizable(&[(Write(1), 1, 10), (Write(2), 1, 10), (Read(2), 11, 12), (Read(1), 13, 14)]));
}

#[test]
fn what_is_not_known_may_happen_at_any_time_or_never() {
    assert!(is_linearizable(&[(Write(1), 1, 0), (Read(0), 2, 3), (Read(0), 4, 5)]));
    assert!(is_linearizable(&[(Write(1), 1, 0), (Read(0), 2, 3), (Read(1), 4, 5)]));
    assert!(!is_linearizable(&[(Write(1), 1, 0), (Read(1), 2, 3), (Read(0), 4, 5)]), "but only once");
    assert!(!is_linearizable(&[(Read(1), 1, 2), (Write(1), 3, 0)]), "and not before it was called");
}

#[test]
fn of_two_conditional_writes_one_wins() {
    let both =
        |first: bool, second: bool| is_linearizable(&[(Cas(0, 1, first), 1, 10), (Cas(0, 2, second), 2, 9)]);
    assert!(both(true, false) && both(false, true));
    assert!(!both(true, true), "a lost update");
    assert!(!both(false, false), "nobody was in the way");
    assert!(!is_linearizable(&[(Write(5), 1, 2), (Cas(5, 6, false), 3, 4)]), "refused without a reason");
    assert!(is_linearizable(&[(Cas(0, 1, true), 1, 0), (Cas(0, 2, false), 2, 3), (Read(1), 4, 5)]));
}

/// Every history of few operations, judged by trying every order.
#[test]
fn it_agrees_with_trying_everything() {
    let mut random = Random(0x1234_5678_9abc_def1);
    let mut counts = [0; 2];
    for _ in 0..4000 {
        let timed: Vec<_> = (0..6)
            .map(|_| {
                let operation = match random.below(4) {
                    0 => Write(random.below(3)),
                    1 => Cas(random.below(3), random.below(3), random.below(2) == 0),
                    _ => Read(random.below(3)),
                };
                let called = 1 + random.below(12);
                let unknown = matches!(operation, Write(_)) && random.below(4) == 0;
                (operation, called, if unknown { 0 } else { called + 1 + random.below(6) })
            })
            .collect();
        let expected = fits_somehow(&history(&timed), 0, 0);
        assert_eq!(is_linearizable(&timed), expected, "{timed:?}");
        counts[usize::from(expected)] += 1;
    }
    assert!(counts[0] > 500 && counts[1] > 500, "{counts:?}");
}

fn fits_somehow(history: &[Timed<Register>], done: u32, state: u64) -> bool {
    use crate::e2e::linear::Operation;
    let open = || (0..history.len()).filter(|at| done & (1 << at) == 0);
    let Some(first) = open().filter_map(|at| history[at].answered).min() else { return true };
    let may_be_next = |at: &usize| history[*at].called <= first;
    open().filter(may_be_next).any(|at| {
        let next = history[at].operation.step(&state);
        next.is_some_and(|next| fits_somehow(history, done | 1 << at, next))
    })
}
