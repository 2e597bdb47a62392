//! What one expects of the allocator, case by case.

use super::*;
use crate::{fairness::Weight, offers::OffersError};

#[test]
fn a_free_node_is_offered_whole_to_whoever_holds_least() {
    let mut allocator = cluster(3, &[(1, "a"), (2, "a")]);
    let charged = OfferEvent::Charged(framework(1), "a".to_owned(), node(1), bundle(600, 100));
    tell(&mut allocator, charged);
    let offers = cycle(&mut allocator, 0);
    assert_eq!(describe(&offers), ["2@1 400/900", "1@2 1000/1000", "2@3 1000/1000"]);
    assert!(cycle(&mut allocator, 1).is_empty(), "everything is on offer");
}

#[test]
fn ports_go_with_the_node_and_return_with_the_offer() {
    let mut allocator = cluster(0, &[(1, "a"), (2, "a")]);
    let ports = |first, last| Ports::new([(first, last)]);
    let total = Bundle { ports: ports(31_000, 31_999), ..bundle(1000, 1000) };
    tell(&mut allocator, OfferEvent::NodeAdded(node(1), total));
    let used = Bundle { ports: ports(31_500, 31_509), ..bundle(500, 500) };
    tell(&mut allocator, OfferEvent::Charged(framework(1), "a".to_owned(), node(1), used.clone()));
    let offers = cycle(&mut allocator, 0);
    assert_eq!(offers[0].framework, framework(2));
    assert_eq!(offers[0].bundle.ports.ranges(), [(31_000, 31_499), (31_510, 31_999)]);
    tell(&mut allocator, OfferEvent::Recovered(framework(1), "a".to_owned(), node(1), used));
    let offers = cycle(&mut allocator, 1);
    assert_eq!(offers[0].bundle.ports.ranges(), [(31_500, 31_509)]);
}

#[test]
fn a_refused_node_goes_to_others_until_its_time() {
    let mut allocator = cluster(1, &[(1, "a"), (2, "a")]);
    let offers = cycle(&mut allocator, 0);
    assert_eq!(describe(&offers), ["1@1 1000/1000"]);
    decline(&mut allocator, &offers[0], Some(50));
    let offers = cycle(&mut allocator, 1);
    assert_eq!(describe(&offers), ["2@1 1000/1000"]);
    decline(&mut allocator, &offers[0], Some(60));
    assert!(cycle(&mut allocator, 49).is_empty());
    assert_eq!(describe(&cycle(&mut allocator, 50)), ["1@1 1000/1000"]);
}

#[test]
fn more_than_was_refused_is_offered_before_the_time() {
    let mut allocator = cluster(1, &[(1, "a"), (2, "a")]);
    tell(&mut allocator, OfferEvent::Charged(framework(2), "a".to_owned(), node(1), bundle(600, 600)));
    let offers = cycle(&mut allocator, 0);
    assert_eq!(describe(&offers), ["1@1 400/400"]);
    decline(&mut allocator, &offers[0], Some(50));
    tell(&mut allocator, OfferEvent::Recovered(framework(2), "a".to_owned(), node(1), bundle(500, 0)));
    assert_eq!(describe(&cycle(&mut allocator, 1)), ["1@1 900/400"]);
}

#[test]
fn a_suppressed_framework_is_left_alone_until_it_revives() {
    let mut allocator = cluster(1, &[(1, "a")]);
    let offers = cycle(&mut allocator, 0);
    decline(&mut allocator, &offers[0], Some(1000));
    tell(&mut allocator, OfferEvent::Suppressed(framework(1), "a".to_owned()));
    assert!(cycle(&mut allocator, 2000).is_empty());
    tell(
        &mut allocator,
        OfferEvent::Refused(framework(1), "a".to_owned(), node(1), bundle(1000, 1000), Timestamp(9000)),
    );
    tell(&mut allocator, OfferEvent::Revived(framework(1), "a".to_owned()));
    assert_eq!(describe(&cycle(&mut allocator, 2001)), ["1@1 1000/1000"], "a revival forgets refusals");
}

#[test]
fn roles_share_by_weight_and_each_level_by_itself() {
    let frameworks = [(1, "eng/dev"), (2, "eng/test"), (3, "ops")];
    let mut allocator = cluster(8, &frameworks);
    tell(&mut allocator, OfferEvent::WeightSet("eng".to_owned(), Weight::from_milli(3000).unwrap()));
    let offers = cycle(&mut allocator, 0);
    let got = |n| offers.iter().filter(|offer| offer.framework == framework(n)).count();
    assert_eq!([got(1), got(2), got(3)], [3, 3, 2]);
}

#[test]
fn members_of_a_role_are_one_sibling_of_the_roles_below_it() {
    let mut allocator = cluster(4, &[(1, "eng"), (2, "eng"), (3, "eng/dev")]);
    let offers = cycle(&mut allocator, 0);
    let got = |n| offers.iter().filter(|offer| offer.framework == framework(n)).count();
    assert_eq!([got(1), got(2), got(3)], [1, 1, 2]);
}

#[test]
fn a_guarantee_is_met_before_fair_shares() {
    let mut allocator = cluster(4, &[(1, "a"), (2, "b"), (3, "c")]);
    quota(&mut allocator, "c", amounts(2500, 2500), Amounts::UNLIMITED);
    let offers = cycle(&mut allocator, 0);
    assert_eq!(
        describe(&offers),
        ["3@1 1000/1000", "3@2 1000/1000", "3@3 500/500", "1@3 500/500", "2@4 1000/1000"]
    );
}

#[test]
fn what_is_guaranteed_to_somebody_absent_is_kept_free() {
    let mut allocator = cluster(4, &[(1, "a")]);
    quota(&mut allocator, "c", amounts(2500, 2500), Amounts::UNLIMITED);
    let offers = cycle(&mut allocator, 0);
    assert_eq!(describe(&offers), ["1@1 1000/1000", "1@2 500/500"]);
    tell(&mut allocator, OfferEvent::FrameworkAdded(framework(3), vec!["c".to_owned()]));
    let offers = cycle(&mut allocator, 1);
    assert_eq!(describe(&offers), ["3@2 500/500", "3@3 1000/1000", "3@4 1000/1000"]);
}

#[test]
fn a_guarantee_of_a_role_is_there_for_roles_below_it() {
    let mut allocator = cluster(3, &[(1, "ops"), (2, "eng/dev")]);
    quota(&mut allocator, "eng", amounts(2000, 2000), Amounts::UNLIMITED);
    quota(&mut allocator, "eng/dev", amounts(500, 500), Amounts::UNLIMITED);
    let offers = cycle(&mut allocator, 0);
    assert_eq!(describe(&offers), ["2@1 1000/1000", "2@2 1000/1000", "1@3 1000/1000"]);
}

#[test]
fn a_limit_cuts_offers_and_capacity_under_it_is_offered_again() {
    let mut allocator = cluster(3, &[(1, "a"), (2, "b")]);
    quota(&mut allocator, "a", Amounts::ZERO, amounts(1300, 1900));
    let offers = cycle(&mut allocator, 0);
    assert_eq!(describe(&offers), ["1@1 1000/1000", "2@2 1000/1000", "1@3 300/900", "2@3 700/100"]);
    for offer in offers.iter().filter(|offer| offer.framework == framework(2)) {
        decline(&mut allocator, offer, Some(1000));
    }
    assert!(cycle(&mut allocator, 1).is_empty(), "one is at its limit, the other refuses");
    decline(&mut allocator, &offers[0], None);
    assert_eq!(describe(&cycle(&mut allocator, 2)), ["2@1 1000/1000", "1@2 1000/1000"]);
}

#[test]
fn a_limit_holds_for_all_below_a_role() {
    let mut allocator = cluster(3, &[(1, "eng/dev"), (2, "eng/test")]);
    quota(&mut allocator, "eng", Amounts::ZERO, amounts(1500, 2000));
    let offers = cycle(&mut allocator, 0);
    assert_eq!(describe(&offers), ["1@1 1000/1000", "2@2 500/1000"]);
    quota(&mut allocator, "eng", Amounts::ZERO, Amounts::UNLIMITED);
    assert_eq!(describe(&cycle(&mut allocator, 1)), ["1@2 500/0", "2@3 1000/1000"]);
}

#[test]
fn quotas_that_contradict_each_other_are_refused() {
    let mut allocator = cluster(1, &[(1, "eng/dev")]);
    let mut set = |role: &str, guarantee, limit| {
        allocator
            .handle(OfferEvent::QuotaSet(role.to_owned(), RoleQuota { guarantee, limit }))
            .map_err(|e| e.to_string())
    };
    assert_eq!(
        set("eng", amounts(2, 2), amounts(1, 2)),
        Err("quota of role \"eng\": the limit is below the guarantee".to_owned())
    );
    set("eng", Amounts::ZERO, amounts(100, 100)).unwrap();
    assert_eq!(
        set("eng/dev", amounts(101, 0), Amounts::UNLIMITED),
        Err("quota of role \"eng/dev\": the limit of a role above it is below its guarantee".to_owned())
    );
    set("eng/dev", amounts(90, 0), Amounts::UNLIMITED).unwrap();
    assert_eq!(
        set("eng", Amounts::ZERO, amounts(80, 100)),
        Err("quota of role \"eng\": roles below it are guaranteed more than its limit".to_owned())
    );
}

#[test]
fn what_is_gone_leaves_no_trace() {
    let mut allocator = cluster(2, &[(1, "eng/dev"), (2, "eng/dev")]);
    let offers = cycle(&mut allocator, 0);
    assert_eq!(describe(&offers), ["1@1 1000/1000", "2@2 1000/1000"]);
    tell(&mut allocator, OfferEvent::FrameworkRemoved(framework(1)));
    assert_eq!(describe(&cycle(&mut allocator, 1)), ["2@1 1000/1000"]);
    tell(&mut allocator, OfferEvent::NodeRemoved(node(1)));
    check_books(&allocator);
    tell(&mut allocator, OfferEvent::FrameworkRemoved(framework(2)));
    check_books(&allocator);
    assert!(allocator.roles.find("eng/dev").is_none() && allocator.roles.find("eng").is_none());
    tell(&mut allocator, OfferEvent::FrameworkAdded(framework(3), vec!["ops".to_owned()]));
    assert_eq!(describe(&cycle(&mut allocator, 2)), ["3@2 1000/1000"]);
}

#[test]
fn a_closed_node_and_a_closed_framework_get_no_offers() {
    let mut allocator = cluster(2, &[(1, "a"), (2, "a")]);
    tell(&mut allocator, OfferEvent::NodeOpened(node(1), false));
    tell(&mut allocator, OfferEvent::FrameworkOpened(framework(1), false));
    assert_eq!(describe(&cycle(&mut allocator, 0)), ["2@2 1000/1000"]);
    tell(&mut allocator, OfferEvent::FrameworkOpened(framework(1), true));
    assert!(cycle(&mut allocator, 1).is_empty());
    tell(&mut allocator, OfferEvent::NodeOpened(node(1), true));
    assert_eq!(describe(&cycle(&mut allocator, 2)), ["1@1 1000/1000"]);
}

#[test]
fn events_that_do_not_fit_change_nothing_and_say_why() {
    let mut allocator = cluster(1, &[(1, "a")]);
    let refused = |allocator: &mut Allocator, event| allocator.handle(event).unwrap_err().to_string();
    let role = || "a".to_owned();
    let cases = [
        (OfferEvent::NodeAdded(node(1), bundle(1, 1)), "was added before: remove it first"),
        (OfferEvent::NodeRemoved(node(9)), "is not known to the allocator"),
        (OfferEvent::FrameworkAdded(framework(2), vec![role(), "x//y".to_owned()]), "\"x//y\" is not a role"),
        (OfferEvent::Suppressed(framework(1), "b".to_owned()), "is not a member of role \"b\""),
        (OfferEvent::Charged(framework(1), role(), node(1), bundle(1001, 0)), "has no room for"),
        (OfferEvent::Recovered(framework(1), role(), node(1), bundle(1, 0)), "does not hold"),
    ];
    for (event, why) in cases {
        let error = refused(&mut allocator, event);
        assert!(error.contains(why), "{error}");
    }
    assert!(matches!(
        allocator.handle(OfferEvent::FrameworkRemoved(framework(2))),
        Err(OffersError::NoFramework(FrameworkId(2)))
    ));
    assert_eq!(describe(&cycle(&mut allocator, 0)), ["1@1 1000/1000"]);
}
