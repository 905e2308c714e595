//! The pool: whose a server is, how many there are, and when one ends.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

const TTL: u64 = 10;

const MOST: usize = 4;

fn bounds() -> PoolBounds {
    PoolBounds { idle_ttl_ms: TTL, most: MOST }
}

fn session(name: u8) -> SessionId {
    SessionId::parse(&format!("s{name}")).unwrap()
}

fn tenant(name: u8) -> ServerOwner {
    ServerOwner::Tenant((name > 0).then(|| TenantId::new(format!("t{name}"))))
}

#[test]
fn the_owner_follows_from_the_isolation() {
    let (acme, one) = (TenantId::new("acme"), session(1));
    let of = |isolation, tenant, session| ServerOwner::of(isolation, tenant, session).map(|owner| owner.to_string());
    assert_eq!(of(Isolation::Shared, Some(&acme), Some(&one)), None);
    assert_eq!(of(Isolation::Tenant, Some(&acme), Some(&one)).as_deref(), Some("tenant acme"));
    assert_eq!(of(Isolation::Tenant, None, Some(&one)).as_deref(), Some("no tenant"));
    assert_eq!(of(Isolation::Tenant, None, None).as_deref(), Some("no tenant"));
    assert_eq!(of(Isolation::Session, Some(&acme), Some(&one)).as_deref(), Some("session s1"));
    assert_eq!(of(Isolation::Session, Some(&acme), None).as_deref(), Some("list of tools"));
}

#[test]
fn a_server_ends_exactly_after_its_time_without_use() {
    let mut pool = Pool::new(bounds(), bounds());
    let (number, is_new) = pool.take(Origin::Configured, &1, &tenant(1));
    assert_eq!((pool.take(Origin::Configured, &1, &tenant(1)), is_new), ((number, false), true));
    pool.release(number, 5);
    assert_eq!((pool.next_expiry(), pool.expired(1_000)), (None, vec![]), "one session still uses it");
    pool.release(number, 7);
    assert_eq!((pool.next_expiry(), pool.expired(7 + TTL - 1)), (Some(7 + TTL), vec![]));
    assert_eq!(pool.expired(7 + TTL), [number]);
    assert_eq!(pool.take(Origin::Configured, &1, &tenant(1)), (number + 1, true));
}

#[test]
fn a_server_that_is_used_again_in_time_is_kept() {
    let mut pool = Pool::new(bounds(), bounds());
    let (number, _) = pool.take(Origin::Brought, &1, &tenant(1));
    pool.release(number, 0);
    assert_eq!(pool.take(Origin::Brought, &1, &tenant(1)), (number, false));
    assert_eq!((pool.next_expiry(), pool.expired(1_000)), (None, vec![]));
}

#[test]
fn the_longest_unused_makes_room_and_one_in_use_does_not() {
    let mut pool = Pool::new(bounds(), bounds());
    let numbers: Vec<_> = (1..=4).map(|name| pool.take(Origin::Configured, &1, &tenant(name)).0).collect();
    let (one, two) = (tenant(9), tenant(8));
    assert_eq!(pool.make_room(Origin::Configured, &[(&1, &one)]), Err(4));
    pool.release(numbers[2], 3);
    pool.release(numbers[0], 5);
    // One that is wanted is not ended for another.
    assert_eq!(pool.make_room(Origin::Configured, &[(&1, &tenant(3)), (&1, &one)]), Ok(vec![numbers[0]]));
    assert_eq!(pool.make_room(Origin::Configured, &[(&1, &one), (&1, &two)]), Ok(vec![numbers[2]]));
    assert_eq!(pool.make_room(Origin::Brought, &[(&1, &one)]), Ok(vec![]), "each origin has bounds of its own");
}

#[derive(Debug, Clone)]
enum Step {
    /// A session of a tenant wants a server of this isolation and starts to use it.
    Use {
        spec: u8,
        tenant: u8,
        session: u8,
        alone: bool,
        brought: bool,
    },
    /// The use of this number among those that last ends.
    Release(usize),
    Pass(u64),
    EndSession(u8),
    EndConfigured(u8),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0..2_u8, 0..3_u8, 0..3_u8, any::<bool>(), any::<bool>()).prop_map(|(spec, tenant, session, alone, brought)| {
            Step::Use { spec, tenant, session, alone, brought }
        }),
        4 => (0..9_usize).prop_map(Step::Release),
        2 => (0..TTL + 2).prop_map(Step::Pass),
        1 => (0..3_u8).prop_map(Step::EndSession),
        1 => (0..2_u8).prop_map(Step::EndConfigured),
    ];
    prop::collection::vec(step, 0..60)
}

/// What is known of a server from outside.
#[derive(Debug, Clone, PartialEq)]
struct Known {
    origin: Origin,
    spec: u8,
    owner: ServerOwner,
    users: usize,
    idle_since: u64,
}

proptest! {
    /// A server is given to its owner only; it ends when its time without use is over, for another one when there are too
    /// many, with its session or with its configuration, and never otherwise; and there are never more than the bound.
    #[test]
    fn no_server_changes_its_owner_and_none_outlives_its_use(steps in steps()) {
        let mut pool = Pool::new(bounds(), bounds());
        let (mut known, mut uses, mut now) = (BTreeMap::<u64, Known>::new(), Vec::<u64>::new(), 0);
        for step in steps {
            match step {
                Step::Use { spec, tenant: of, session: name, alone, brought } => {
                    let origin = if brought { Origin::Brought } else { Origin::Configured };
                    let owner = if alone { ServerOwner::Session(session(name)) } else { tenant(of) };
                    let there = known.values().filter(|server| server.origin == origin).count();
                    let used = known.values().filter(|server| server.origin == origin && server.users > 0).count();
                    let same = |server: &Known| (server.origin, server.spec, &server.owner) == (origin, spec, &owner);
                    let is_there = known.values().any(same);
                    match pool.make_room(origin, &[(&spec, &owner)]) {
                        Err(in_use) => prop_assert_eq!((used, is_there, in_use), (MOST, false, MOST)),
                        Ok(ended) => {
                            let expected = usize::from(!is_there && there == MOST);
                            prop_assert_eq!(ended.len(), expected);
                            for number in ended {
                                let ended = known.remove(&number).expect("one that was there");
                                prop_assert_eq!((ended.origin, ended.users), (origin, 0));
                                let unused = known.values().filter(|other| other.origin == origin && other.users == 0);
                                prop_assert!(unused.into_iter().all(|other| other.idle_since >= ended.idle_since));
                            }
                            let (number, is_new) = pool.take(origin, &spec, &owner);
                            prop_assert_eq!(is_new, !is_there);
                            let fresh = || Known { origin, spec, owner: owner.clone(), users: 0, idle_since: 0 };
                            let server = known.entry(number).or_insert_with(fresh);
                            prop_assert!(same(server), "{:?} was given to {:?}", server, owner);
                            server.users += 1;
                            uses.push(number);
                        }
                    }
                }
                Step::Release(at) if !uses.is_empty() => {
                    let number = uses.remove(at % uses.len());
                    pool.release(number, now);
                    if let Some(server) = known.get_mut(&number) {
                        server.users -= 1;
                        server.idle_since = now;
                    }
                }
                Step::Release(_nothing_is_used) => {}
                Step::Pass(ms) => {
                    now += ms;
                    let is_due = |server: &Known| server.users == 0 && server.idle_since + TTL <= now;
                    let due: Vec<_> = known.iter().filter(|(_, server)| is_due(server)).map(|(number, _)| *number).collect();
                    prop_assert_eq!(pool.expired(now), due);
                    known.retain(|_, server| !is_due(server));
                }
                Step::EndSession(name) => {
                    let is_meant = |server: &Known| server.owner == ServerOwner::Session(session(name));
                    let ended: Vec<_> = known.iter().filter(|(_, server)| is_meant(server)).map(|(number, _)| *number).collect();
                    prop_assert_eq!(pool.end_session(&session(name)), ended);
                    known.retain(|_, server| !is_meant(server));
                }
                Step::EndConfigured(spec) => {
                    let is_meant = |server: &Known| server.origin == Origin::Configured && server.spec == spec;
                    let ended: Vec<_> = known.iter().filter(|(_, server)| is_meant(server)).map(|(number, _)| *number).collect();
                    prop_assert_eq!(pool.end_configured(|other| *other == spec), ended);
                    known.retain(|_, server| !is_meant(server));
                }
            }
            for origin in [Origin::Configured, Origin::Brought] {
                prop_assert!(known.values().filter(|server| server.origin == origin).count() <= MOST);
            }
            let next = known.values().filter(|server| server.users == 0).map(|server| server.idle_since + TTL).min();
            prop_assert_eq!(pool.next_expiry(), next);
        }
        // When nothing is used any more, nothing is left after the time.
        uses.iter().for_each(|number| pool.release(*number, now));
        pool.expired(now + TTL);
        prop_assert!(pool.servers.is_empty());
    }
}
